/* SPDX-License-Identifier: MIT
 *
 * Reads the trace of another tool and passes it to a trace_sink: Chrome traces (torch.profiler's Kineto,
 * VizTracer, ONNX Runtime and others; plain or .gz) and SQLite exports of Nsight Systems. Nothing in the
 * file is trusted.
 *
 * A file is read twice: trace_import_open reads all of it for the facts that decide where it belongs
 * (its time span, its rank, what is missing), trace_import_pass passes its events on. Memory does not
 * grow with the file, only with the number of its processes, threads and open ranges.
 *
 * What is damaged or cut off costs the events that it has; the facts say so. Times are nanoseconds of the
 * file's own clock, which is the wall clock if is_wall.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/trace.h"

#define IMPORT_NOTES 12

struct trace_import_facts {
	const char *format;   /* "torch.profiler", "Nsight Systems", "a Chrome trace" */
	const char *origin;   /* as in struct trace_process */
	bool is_wall;         /* the times are nanoseconds since 1970 */
	int64_t first_ns, last_ns; /* of the valid events; 0 if there is none */
	int64_t rank, ranks;  /* of the job; -1: unknown */
	uint64_t kinds[TRACE_KIND_COUNT]; /* events, invalid ones included */
	uint64_t invalid;     /* of them */
	uint64_t events;      /* of all kinds */
	uint64_t other;       /* events that are no ranges, calls or work: flows, counters */
	uint64_t broken;      /* places that could not be read; each costs an event or more */
	bool is_cut;          /* the file ends too early */
	/* What a user should know: "it was cut at byte 4711 ...", "the GPU was not traced ...". */
	size_t n_notes;
	char notes[IMPORT_NOTES][320];
};

struct trace_import;

/* Returns 0, or -errno with text: what is wrong, at which byte, what to do. A file without any event is
 * -ENODATA. */
int trace_import_open(const char *path, struct trace_import **ret, struct err *err);
void trace_import_free(struct trace_import *f);
const struct trace_import_facts *trace_import_facts(const struct trace_import *f);

struct trace_import_target {
	const struct trace_sink *sink;
	int64_t zero_ns;      /* the run's start, on the file's clock */
	int64_t rank;         /* of its processes; -1: as in the file */
	uint64_t before;      /* result: events that begin before zero_ns; they were left out */
};

/* Passes all events on. May be called again. Returns 0, or -errno: of the sink, without text, or of the
 * file, with text. */
int trace_import_pass(struct trace_import *f, struct trace_import_target *target, struct err *err);
