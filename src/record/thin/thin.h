/* SPDX-License-Identifier: MIT
 *
 * Keeps a recording within its limit. Windows are merged in pairs, and pairs of pairs: level l has
 * windows of 2^l times the first width, the widest at the beginning of the run, and about as many
 * as each other level. So recent data is fine, old data is coarse, and a month fits. Extremes,
 * counters and time-weighted means are preserved (record/rows.h). Data outside of windows (the last
 * minutes at full rate, series, events, ended processes) has a share of the limit each and is cut
 * when it exceeds that share.
 *
 * All functions must be called from the store's thread.
 */
#pragma once

#include "record/store.h"

struct thin_options {
	uint64_t window_ns;
	uint64_t recent_ns;
	uint64_t max_bytes;
};

/* The journal's size in pages for this limit, for store_create. */
unsigned thin_wal_pages(uint64_t max_bytes);

struct thin;

struct thin *thin_new(const struct thin_options *options); /* NULL: out of memory */
void thin_free(struct thin *t);

/* Counts a window that was written. */
void thin_window(struct thin *t);

/* A trigger: the rows at full rate from the last minutes before it until shortly after it are
 * kept. */
void thin_keep(struct thin *t, uint64_t time_ns);

/* Deletes rows at full rate that are older than the last minutes. now_ns: since the run's start.
 * Call within a transaction. Returns 0 or -errno. */
int thin_prune(struct thin *t, struct store *s, uint64_t now_ns);

/* True if the file is near its limit and thinning may help. */
bool thin_is_due(struct thin *t, struct store *s);

/* True if the file is so near its limit that thinning must not be postponed. */
bool thin_is_urgent(struct thin *t, struct store *s);

/* The largest number of steps per transaction, so that the journal stays within its size. */
unsigned thin_steps(const struct thin *t);

/* One small step of thinning, within a transaction. begin_ns: start of the open window. Returns
 * 1 if it deleted or merged something, 0 if nothing is left to do, or -errno. */
int thin_step(struct thin *t, struct store *s, uint64_t begin_ns);
