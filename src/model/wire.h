/* SPDX-License-Identifier: MIT
 *
 * Frames and totals as bytes within one process: structs as they are in memory, followed by their texts. What is put
 * in by one thread is taken out by another; pointers are set right when it is taken out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "model/frame.h"
#include "job/job.h"

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

struct wire_acc {
	enum metric metric;
	uint32_t id;
	struct acc acc;
};

struct wire_bucket {
	enum metric metric;
	uint32_t id;
	uint64_t place; /* among those of its course */
	struct course_bucket bucket;
};

/* What record_totals hands over. All of it lies in the message. */
struct wire_totals {
	uint64_t time_ns;
	uint64_t course_span_ns;
	size_t n_accs, n_buckets, n_processes, n_series, n_phases;
	struct wire_acc *accs;
	struct wire_bucket *buckets; /* those that changed since the last time */
	struct process *processes; /* those that changed since the last time, likewise series and phases */
	struct series *series;
	struct phase *phases;
	struct facts facts;
};

/* What was handed over the last time. All-zero is an empty one. */
struct wire_memory {
	struct map accs, processes, series, phases; /* accs: of GPUs and of processes on them */
	uint64_t next_seq; /* buckets that frames from this one on changed are to be handed over */
};

void wire_memory_done(struct wire_memory *memory);

/* Writes the message into out. Returns 0, -ENOMEM or -EFBIG. */
int wire_totals_put(struct buf *out, struct wire_memory *memory, const struct job *job);
struct wire_totals *wire_totals_get(void *at);            /* once only */
