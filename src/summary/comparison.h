/* SPDX-License-Identifier: MIT
 *
 * Runs beside each other: what each used, in groups, and whether the groups differ. Each run is one value: what was read
 * within a run is no sample of its own. Plain data; sinks write it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "summary/summary.h"

enum {
	COMPARE_LEAST = 4,      /* runs in each group that a test needs */
	COMPARE_GROUPS = 64,
	COMPARE_RUNS = 4096,
};
#define COMPARE_SAME 0.05       /* p above this: no difference is claimed */

/* What a figure's values count: seconds, bytes, ratios of 0 to 1, joules, anything. */
enum compare_unit {
	COMPARE_SECONDS,
	COMPARE_BYTES,
	COMPARE_RATIO,
	COMPARE_JOULES,
	COMPARE_NUMBER,
};

struct compare_row {
	char key[80];           /* "ram.combined.peak_bytes" */
	char label[64];         /* "peak RAM" */
	enum compare_unit unit;
	double *values;         /* one a run, in the order of adding; NaN: not known */
	size_t n;
};

struct comparison {
	size_t n_groups;
	char *groups[COMPARE_GROUPS];   /* names */
	size_t n_runs, cap_runs;
	struct compare_run {
		size_t group;
		bool complete;
		char *path;
		char *facts[6];         /* what should be alike (compare_alike) */
	} *runs;
	struct compare_row *rows;
	size_t n_rows, cap_rows;
};

/* A figure of a group. */
struct compare_cell {
	size_t n;               /* runs of which it is known; 0: of none, then the rest means nothing */
	double mean, deviation;
};

enum compare_verdict {
	COMPARE_UNKNOWN,        /* not known of both */
	COMPARE_SINGLE,         /* one run each */
	COMPARE_TOO_FEW,
	COMPARE_NO_DIFFERENCE,
	COMPARE_DIFFERS,
};

/* A figure of a group beside that of the first. */
struct compare_change {
	enum compare_verdict verdict;
	double difference;      /* of the means */
	double ratio, ratio_error; /* of the means, with the deviations' error; NaN where the base is 0 */
	double p;               /* Mann-Whitney, two-sided; NaN where there is no test */
};

/* Adds a group; its number. -E2BIG, -ENOMEM. */
int comparison_group(struct comparison *c, const char *name);
/* Adds a run. Returns 0, -E2BIG or -ENOMEM. */
int comparison_add(struct comparison *c, size_t group, const char *path, const struct summary *summary);
void comparison_done(struct comparison *c);

size_t comparison_runs_of(const struct comparison *c, size_t group);
struct compare_cell comparison_cell(const struct comparison *c, const struct compare_row *row, size_t group);
struct compare_change comparison_change(const struct comparison *c, const struct compare_row *row, size_t group);
/* The row of that key; NULL. */
const struct compare_row *comparison_row(const struct comparison *c, const char *key);

/* What differs between the runs and should not: the i-th of them, "hosts" with some values; false: no such. */
bool comparison_differs(const struct comparison *c, size_t i, const char **ret_what, const char **ret_one, const char **ret_other);
