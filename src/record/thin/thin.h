/* SPDX-License-Identifier: MIT
 *
 * Keeping a recording within its limit. Windows are merged in pairs, and pairs of pairs: there are levels, level l with
 * windows of 2^l times the first width, the widest at the beginning of the run, each with about as many windows as the
 * others. So what is new is fine, what is old is coarse, and a month fits. Extremes, counters and time-weighted means
 * stay (record/rows.h). What is not in windows (the last minutes at full rate, series, events, ended processes) has a
 * share of the limit each and is cut down where it has more.
 *
 * One thread, the store's.
 */
#pragma once

#include "record/store.h"

struct thin_options {
	uint64_t window_ns;
	uint64_t recent_ns;
	uint64_t max_bytes;
};

/* Pages of journal that fit the limit, for store_create. */
unsigned thin_wal_pages(uint64_t max_bytes);

struct thin;

struct thin *thin_new(const struct thin_options *options); /* NULL: out of memory */
void thin_free(struct thin *t);

/* A window was written. */
void thin_window(struct thin *t);

/* Something happened: what is at full rate from the last minutes before it until shortly after it stays. */
void thin_keep(struct thin *t, uint64_t time_ns);

/* Lets go of what is older than the last minutes. now_ns: of the run. Within a transaction. Returns 0 or -errno. */
int thin_prune(struct thin *t, struct store *s, uint64_t now_ns);

/* True if the file has come near its limit and there may be something to do about it. */
bool thin_is_due(struct thin *t, struct store *s);

/* True if the file is so near its limit that nothing else comes first. */
bool thin_is_urgent(struct thin *t, struct store *s);

/* How many steps one transaction may have: the journal has to hold what they touch. */
unsigned thin_steps(const struct thin *t);

/* One small piece of work, within a transaction. begin_ns: of the window that is open. Returns 1 if something was
 * done, 0 if there is nothing left to do, or -errno. */
int thin_step(struct thin *t, struct store *s, uint64_t begin_ns);
