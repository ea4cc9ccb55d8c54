/* SPDX-License-Identifier: MIT
 *
 * Frames as bytes within one machine: structs as they are in memory, followed by their texts. One thread or process writes
 * them, another reads them; pointers are set right when they are read. Totals of a job travel the same way
 * (record/wire_totals.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/frame.h"

enum wire_kind {
	WIRE_FRAME,
	WIRE_TOTALS
};

/* In front of every message; size counts it too and is a multiple of 16. */
struct wire_head {
	_Alignas(16) uint64_t size;
	enum wire_kind kind;
};

size_t wire_frame_size(const struct frame *frame);
void wire_frame_put(void *at, const struct frame *frame); /* wire_frame_size bytes */
struct frame *wire_frame_get(void *at);                   /* lies in the message; once only */
/* Is what lies there, size bytes from another process, a message with a frame in it that can be got? */
bool wire_frame_is_whole(const void *at, size_t size);
