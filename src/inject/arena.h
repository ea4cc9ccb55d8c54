/* SPDX-License-Identifier: MIT
 *
 * The texts and sites of a slot (struct trace_text in model/trace_ring.h): equal ones are stored once,
 * and found by their hash in an index of open addressing. An entry is written first, its cell in the
 * index then, by compare-and-swap, so that any thread and any signal handler may add one at any time.
 * What is read from the shared memory is checked against its bounds: another process may have written it.
 */
#pragma once

#include "model/trace_ring.h"

enum {
	ARENA_TEXT, /* trace_text.type */
	ARENA_SITE,
};

/* The offset of these bytes, which are added unless they are there; 0: no room. len: at most 4,000. */
uint32_t arena_put(struct trace_slot *slot, unsigned type, const void *bytes, size_t len);

/* Of a slot that has not been used. */
void arena_begin(struct trace_slot *slot);
