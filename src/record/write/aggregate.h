/* SPDX-License-Identifier: MIT
 *
 * Aggregates frames into windows. A gauge's value is valid from its sample until the next one, at
 * most for the hold_ns of its frame; a window stores its extremes and its mean over the time it was
 * valid. A counter stores its last value. This module does no I/O: rows are passed to a callback.
 *
 * Rows of a window (docs/recording.md):
 *   - an entity that was read: one row, except for a process whose row would equal its last one;
 *   - one that was not read but whose gauges are still valid: none; its next row covers this
 *     window too;
 *   - one whose gauges became invalid: a row for the time they were valid, then none; a process
 *     that could not be read while others were gets one row in which all cells are unknown;
 *   - beyond others_after living processes, the smallest share one row with id 0: gauges are
 *     summed, counters count the increase while a process was in that row.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/frame.h"
#include "record/rows.h"

struct aggregate_options {
	uint64_t window_ns;
	unsigned others_after;
	const struct row_layout *layout; /* borrowed */
	/* Receives a row of E_sample, or of E_recent if recent. A negative result is returned to
	 * the caller. */
	int (*row)(void *ctx, enum entity entity, bool recent, const struct row *row);
	void *ctx;
};

struct aggregate;

struct aggregate *aggregate_new(const struct aggregate_options *options); /* NULL: out of memory */
void aggregate_free(struct aggregate *f);

/* Adds a frame. The first sample past a window's end closes it, once all sources of that sample
 * were added: by aggregate_settle, or by the next sample. Returns 0, -ENOMEM, or the callback's
 * error. */
int aggregate_frame(struct aggregate *f, const struct frame *frame);

/* All frames of one sample were added. */
void aggregate_settle(struct aggregate *f);

/* The same, and emits the pending rows at full rate. Call before a commit. */
int aggregate_flush(struct aggregate *f);

/* Ends the run: closes the open window. */
int aggregate_end(struct aggregate *f, uint64_t time_ns);

/* The number of windows closed so far. */
uint64_t aggregate_windows(const struct aggregate *f);
/* The start of the open window. */
uint64_t aggregate_begin(const struct aggregate *f);
