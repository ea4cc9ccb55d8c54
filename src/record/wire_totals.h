/* SPDX-License-Identifier: MIT
 *
 * Totals of a job as bytes within one process, for the writer's thread: messages like those of model/wire.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "job/job.h"
#include "model/wire.h"

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
