/* SPDX-License-Identifier: MIT
 *
 * Frames as messages within one machine: structs as in memory, followed by their texts. One thread
 * or process writes them and another reads them; reading relocates pointers. Totals of a job use
 * the same format (record/wire_totals.h).
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

/* The header of every message; size includes it and is a multiple of 16. */
struct wire_head {
	_Alignas(16) uint64_t size;
	enum wire_kind kind;
};

size_t wire_frame_size(const struct frame *frame);
void wire_frame_put(void *at, const struct frame *frame); /* writes wire_frame_size bytes */
struct frame *wire_frame_get(void *at);                   /* points into the message; call once only */
/* True if the size bytes at at, written by another process, are a message with a valid frame. */
bool wire_frame_is_whole(const void *at, size_t size);
