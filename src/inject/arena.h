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

/* Bytes that must stay free when something is added: what is worth less fills less of the arena. */
enum {
	ARENA_KEEP_NONE = 0,
	ARENA_KEEP_OF_TEXTS = 32 << 10,  /* for sites without a shape: 340 of them */
	ARENA_KEEP_OF_SHAPES = 76 << 10, /* and for names: a kernel may have any number of shapes */
};

/* The offset of these bytes, which are added unless they are there; 0: no room. len: at most 4,000. keep: above. */
uint32_t arena_put(struct trace_slot *slot, unsigned type, const void *bytes, size_t len, uint32_t keep);

/* Of a slot that has not been used. */
void arena_begin(struct trace_slot *slot);
