/* SPDX-License-Identifier: MIT
 *
 * What thin.c, merge.c and lists.c share. Nobody else includes it.
 */
#pragma once

#include "record/thin/thin.h"

enum {
	THIN_LEVELS = 28,
	THIN_KEPT = 4 /* stretches around triggers; the first ones */
};

/* What a reader that has come to some time knows of a process: its last row. */
struct thin_state {
	uint32_t id;
	struct cell cells[];
};

struct thin_level {
	uint64_t begin_ns;           /* where windows of this width begin; older ones are wider */
	uint64_t windows;            /* how many there are */
	struct map places;           /* by id of process, into states */
	struct thin_state **states;  /* at begin_ns */
	size_t n_states, cap_states;
	unsigned merges;             /* since ended processes were swept out */
};

struct thin {
	struct thin_options options;
	uint64_t high_bytes, low_bytes; /* of pages in use: where thinning begins and ends */
	bool thinning;
	unsigned wal_pages;          /* what a transaction may touch, roughly */
	struct thin_level levels[THIN_LEVELS];
	unsigned n_levels;
	struct row *rows;            /* scratch: an entity's in a pair of windows */
	size_t n_rows, cap_rows;
	struct row *jobs;            /* scratch: the job's in it */
	size_t n_jobs, cap_jobs;
	int64_t series_cursor, process_cursor, process_least;
	uint64_t cut_ns;             /* at full rate nothing is left before, but what is kept: in the order of time */
	struct thin_range {
		uint64_t from_ns, to_ns;
	} kept[THIN_KEPT];
	unsigned n_kept;
};

/* Deletes what sql selects, with up to two numbers, and takes it off class. Returns how many rows went, or -errno. */
int64_t thin_delete(struct store *s, enum store_class class, const char *sql, int64_t first, int64_t second);
/* Rows of class went. */
void thin_count(struct store *s, enum store_class class, int64_t gone);
/* The number that sql selects, likewise; 0 and not found if that is NULL or nothing. Returns 0 or -errno. */
int thin_number(struct store *s, const char *sql, int64_t first, int64_t second, int64_t *ret, bool *ret_found);

/* Merges the oldest pair of windows of some level. Returns 1, 0 (there is none) or -errno. */
int thin_merge(struct thin *t, struct store *s, uint64_t begin_ns);

/* The same for what is not in windows. Each returns 1, 0 or -errno. */
int thin_recent(struct thin *t, struct store *s);
int thin_series(struct thin *t, struct store *s);
int thin_events(struct thin *t, struct store *s);
int thin_processes(struct thin *t, struct store *s);
