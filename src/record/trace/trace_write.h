/* SPDX-License-Identifier: MIT
 *
 * Writes traced work (model/trace.h) into a recording: names, sites and a row an event, and the sums of
 * all events (trace_stat), which stay exact when rows are left out. docs/recording.md has the tables.
 *
 * Rows: when they exceed the limit the oldest are deleted, window by window of time; when more events
 * arrive in a second than the budget allows, one of n gets a row. Both are counted as
 * TRACE_LOST_THINNED. Sums are kept in memory and written at each trace_write_flush, of those that
 * changed.
 *
 * All functions must be called from the store's thread, between store_begin and store_commit.
 */
#pragma once

#include "model/trace.h"
#include "record/store.h"

struct trace_write_options {
	uint64_t limit_bytes;    /* --trace-limit; 0: 256 MB */
	unsigned rows_a_second;  /* 0: no limit (an import) */
};

struct trace_write;

/* NULL: out of memory. s is borrowed; it may already have traced work (an import into a run), which stays. */
struct trace_write *trace_write_new(struct store *s, const struct trace_write_options *options);
void trace_write_free(struct trace_write *w);

/* Valid until trace_write_free. It returns errors of the store alone (and -EINVAL for numbers that it did not
 * give): what has no place, because there is no memory or there are more processes, devices or sites than the
 * tables may have, is counted as lost, and its number is 0. */
const struct trace_sink *trace_write_sink(struct trace_write *w);

/* Was the error of a sink's caller one of the store? Until trace_write_rolled_back. */
bool trace_write_has_failed(const struct trace_write *w);

/* Has an event come? */
bool trace_write_has_events(const struct trace_write *w);

/* The innermost open phase (its number, 0: none) from time_ns on; calls in the order of time. Events that
 * start before belong to the one before. */
void trace_write_phase(struct trace_write *w, uint64_t time_ns, uint32_t phase);

/* Nothing was read from begin to end: it is in no window, so in no figure of busy and idle time. Returns 0 or
 * -ENOMEM. */
int trace_write_gap(struct trace_write *w, uint64_t begin_ns, uint64_t end_ns);

/* The run has ended: no window lasts longer. Before the last flush. Returns 0 or -ENOMEM. */
int trace_write_end(struct trace_write *w, uint64_t end_ns);

struct trace_read;

struct trace_add_options {
	int64_t rank;            /* of its processes; -1: as they are there */
	bool only_its_rank;      /* without processes of another rank, or of none if rank is -1 */
	int64_t shift_ns;        /* from its time to this recording's */
	uint64_t end_ns;         /* of the part, in this recording's time */
};

/* Adds the sums of another recording, without its phases. Rows are not copied: they count as thinned. Returns 0 or
 * -errno. */
int trace_write_add(
	struct trace_write *w, const struct trace_read *t, const struct trace_add_options *options);

/* Writes the sums that changed, and thins rows by one small step. Returns 0 or -errno (store_why). */
int trace_write_flush(struct trace_write *w);

/* The transaction was rolled back: what it had is written again by the next flush, except rows, which are
 * counted as thinned. */
void trace_write_rolled_back(struct trace_write *w);
