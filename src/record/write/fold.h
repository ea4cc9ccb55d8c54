/* SPDX-License-Identifier: MIT
 *
 * Folding frames into windows. A gauge stands from the look that gave it until the next one, at most as long as its
 * frame said (hold_ns); a window keeps its extremes and its mean over the time it stood. A counter keeps its last
 * value. Nothing here knows of files: rows go to a sink.
 *
 * Which rows come out of a window (DESIGN 6, docs/recording.md):
 *   - an entity that was looked at: one row, except a process whose row would equal its last one;
 *   - one that was not looked at but whose gauges still stand: none yet, its next row covers this window too;
 *   - one whose gauges ceased to stand: what they stood for, then nothing; a process that alone was not read gets one
 *     row in which nothing is known;
 *   - beyond others_after living processes the smallest are one row with id 0: gauges added up, counters what they
 *     rose by while they were in that row.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/frame.h"
#include "record/rows.h"

struct fold_options {
	uint64_t window_ns;
	unsigned others_after;
	const struct row_layout *layout; /* borrowed */
	/* Takes a row of E_sample, or of E_recent if recent. A negative result is kept and given back. */
	int (*row)(void *ctx, enum entity entity, bool recent, const struct row *row);
	void *ctx;
};

struct fold;

struct fold *fold_new(const struct fold_options *options); /* NULL: out of memory */
void fold_free(struct fold *f);

/* Folds one in. A window is closed by the look past its end, once all sources of that look were told of: by fold_settle,
 * or by what is read later. Returns 0, -ENOMEM, or what the sink returned. */
int fold_frame(struct fold *f, const struct frame *frame);

/* The frames of one look are complete. */
void fold_settle(struct fold *f);

/* The same, and gives out the looks at full rate that wait for company. Before a commit. */
int fold_flush(struct fold *f);

/* The run is over: closes the window that is open. */
int fold_end(struct fold *f, uint64_t time_ns);

/* Windows closed so far. */
uint64_t fold_windows(const struct fold *f);
/* Beginning of the window that is open. */
uint64_t fold_begin(const struct fold *f);
