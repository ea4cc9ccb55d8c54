/* SPDX-License-Identifier: MIT
 *
 * How many ranges are around a range of a thread. That follows from begins and ends in the order of the
 * begins, which some tools write and others do not (VizTracer writes a range when it ends). So threads that
 * are in no order are found while the facts are read; their ranges are sorted on disk (a temporary database
 * of SQLite, 8 MB of memory) and passed on last.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "model/trace.h"

struct nest_thread;
struct sqlite3;
struct sqlite3_stmt;

/* An all-zero struct has no thread. */
struct nest {
	struct nest_thread *threads;
	size_t n, cap;
	struct map places;         /* of threads by their keys */
	bool is_reading_facts;
	struct sqlite3 *sorted;    /* NULL: nothing is kept for sorting */
	struct sqlite3_stmt *insert;
};

/* Begins to look for threads without order, or begins a pass. */
void nest_start(struct nest *nest, bool is_reading_facts);
void nest_done(struct nest *nest);

/* Sets depth and TRACE_CROSSING of a range or mark, from its times; thread is a key of the caller's. Returns
 * 1: the event is to be passed on now; 0: it was kept, as its thread is in no order; -errno. */
int nest_add(struct nest *nest, uint64_t thread, struct trace_event *event);

/* Passes on the events that were kept. Returns 0 or what pass or SQLite returned. */
int nest_flush(struct nest *nest, int (*pass)(void *ctx, const struct trace_event *event), void *ctx);
