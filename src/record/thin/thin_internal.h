/* SPDX-License-Identifier: MIT
 *
 * Shared by thin.c, merge.c, recent.c and lists.c. Included by no other file.
 */
#pragma once

#include "record/thin/thin.h"

enum {
	THIN_LEVELS = 28,
	THIN_KEPT = 4 /* ranges around triggers; the first ones are kept */
};

/* The last row of a process before some time. */
struct thin_state {
	uint32_t id;
	struct cell cells[];
};

struct thin_level {
	uint64_t begin_ns;           /* start of the windows of this width; older ones are wider */
	uint64_t windows;            /* their number */
	struct map places;           /* from process id to the index in states */
	struct thin_state **states;  /* as of begin_ns */
	size_t n_states, cap_states;
	unsigned merges;             /* merges since ended processes were removed */
};

struct thin {
	struct thin_options options;
	uint64_t high_bytes, low_bytes; /* pages in use, in bytes, at which thinning starts and stops */
	bool thinning;
	unsigned wal_pages;          /* rough number of pages that one transaction may change */
	struct thin_level levels[THIN_LEVELS];
	unsigned n_levels;
	struct row *rows;            /* scratch: the rows of an entity in a pair of windows */
	size_t n_rows, cap_rows;
	struct row *jobs;            /* scratch: the job's rows in it */
	size_t n_jobs, cap_jobs;
	int64_t series_cursor, process_cursor, process_least;
	uint64_t cut_ns;             /* rows at full rate are cut before this time, */
	struct thin_range {
		uint64_t from_ns, to_ns;
	} kept[THIN_KEPT];
	unsigned n_kept;
};

/* Deletes the rows that sql selects, with up to two parameters, and subtracts them from class.
 * Returns their number or -errno. */
int64_t thin_delete(struct store *s, enum store_class class, const char *sql, int64_t first, int64_t second);
/* Subtracts deleted rows from class. */
void thin_count(struct store *s, enum store_class class, int64_t gone);
/* The number that sql selects, with up to two parameters; 0 and not found if it is NULL or there
 * is no row. Returns 0 or -errno. */
int thin_number(
	struct store *s, const char *sql, int64_t first, int64_t second, int64_t *ret, bool *ret_found);

/* Merges the oldest pair of windows of some level. Returns 1, 0 (there is none) or -errno. */
int thin_merge(struct thin *t, struct store *s, uint64_t begin_ns);

/* The same for data outside of windows. Each returns 1, 0 or -errno. */
int thin_recent(struct thin *t, struct store *s);
int thin_series(struct thin *t, struct store *s);
int thin_events(struct thin *t, struct store *s);
int thin_processes(struct thin *t, struct store *s);
