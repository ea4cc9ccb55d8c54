/* SPDX-License-Identifier: MIT
 *
 * Totals of a job as a message within one process, for the writer's thread, in the format of
 * model/wire.h.
 */
#pragma once

#include <stdbool.h>
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
	uint64_t place; /* index in its timeline */
	struct timeline_bucket bucket;
};

/* The payload of record_totals. Everything it points to lies in the message. */
struct wire_totals {
	uint64_t time_ns;
	uint64_t timeline_span_ns;
	bool is_whole; /* everything, not only what changed since the last message */
	size_t n_accs, n_buckets, n_processes, n_series, n_phases;
	struct wire_acc *accs;
	struct wire_bucket *buckets; /* those changed since the last message */
	struct process *processes; /* those changed since the last message; likewise series and phases */
	struct series *series;
	struct phase *phases;
	struct facts facts;
};

/* The state as last sent. All-zero: nothing was sent. */
struct wire_memory {
	struct map accs, processes, series, phases; /* accs: of GPUs and of the processes on them */
	uint64_t next_seq; /* buckets changed by this frame or later ones have to be sent */
};

void wire_memory_done(struct wire_memory *memory);
/* Forgets what was sent: the next message has everything. */
void wire_memory_clear(struct wire_memory *memory);

/* Writes the message into out. Returns 0, -ENOMEM or -EFBIG. */
int wire_totals_put(struct buf *out, struct wire_memory *memory, const struct job *job);
struct wire_totals *wire_totals_get(void *at);            /* once only, as it relocates pointers */
