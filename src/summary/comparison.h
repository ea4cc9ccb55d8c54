/* SPDX-License-Identifier: MIT
 *
 * A comparison of runs in groups: the figures of each run, means and deviations of each group, and
 * whether groups differ from the first. Each run counts as one value, since samples within a run
 * are not independent. Runs that failed are left out of a group in which others succeeded; a group in
 * which all failed has figures, but they are not compared. Plain data; sinks write it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "summary/summary.h"

enum {
	COMPARE_LEAST = 4,      /* runs that a test needs in each group */
	COMPARE_GROUPS = 256,
	COMPARE_RUNS = 4096,
};
#define COMPARE_SAME 0.05       /* p above this: no difference */

/* The unit of a figure; ratios are 0 to 1. */
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
	double *values;         /* one a run, in the order of adding; NaN: unknown */
	size_t n;
};

struct comparison {
	size_t n_groups;
	char *groups[COMPARE_GROUPS];   /* names */
	size_t n_runs, cap_runs;
	struct compare_run {
		size_t group;
		bool complete;
		bool failed;            /* it did not end with status 0, or its end is not recorded */
		char how[24];           /* of a failed one: "exit 1", "SIGKILL", "no recorded end" */
		char *path;
		char *facts[6];         /* facts that should be equal in all runs (comparison_differs) */
	} *runs;
	struct compare_row *rows;
	size_t n_rows, cap_rows;
};

/* Mean and standard deviation of a figure over the runs of a group. */
struct compare_cell {
	size_t n;               /* runs with a value; 0: the rest is not set */
	double mean, deviation;
};

enum compare_result {
	COMPARE_UNKNOWN,        /* one of the groups has no value */
	COMPARE_SINGLE,         /* one run each: no test */
	COMPARE_TOO_FEW,
	COMPARE_NO_DIFFERENCE,
	COMPARE_DIFFERS,
};

/* How the runs of a group lie to those of the first group. */
enum compare_order {
	COMPARE_OVERLAP,
	COMPARE_BELOW,          /* each run lies below each run of the first group */
	COMPARE_ABOVE,
};

/* A figure of a group, compared with that of the first group. */
struct compare_change {
	enum compare_result result;
	enum compare_order order; /* not of COMPARE_UNKNOWN */
	double difference;      /* of the means */
	/* of the means, with the error from the deviations; NaN where the base is 0 */
	double ratio, ratio_error;
	double p;               /* Mann-Whitney, two-sided; NaN without a test */
	/* About how many runs of each group would show a difference of this size, in four of five
	 * such comparisons; NaN without a test, or if all values are equal */
	double runs_needed;
};

/* Adds a group. Returns its number, -E2BIG or -ENOMEM. */
int comparison_group(struct comparison *c, const char *name);
/* Adds a run to a group; everything is copied. Returns 0, -E2BIG or -ENOMEM. */
int comparison_add(struct comparison *c, size_t group, const char *path, const struct summary *summary);
void comparison_done(struct comparison *c);

/* Is the run, by its place in runs, one of those from which the figures of its group are? */
bool comparison_counts(const struct comparison *c, size_t run);
/* Did all runs of the group fail? */
bool comparison_all_failed(const struct comparison *c, size_t group);
/* Of runs that count. */
size_t comparison_runs_of(const struct comparison *c, size_t group);
struct compare_cell comparison_cell(const struct comparison *c, const struct compare_row *row, size_t group);
struct compare_change comparison_change(
	const struct comparison *c, const struct compare_row *row, size_t group);
/* The row of that key; NULL: none. */
const struct compare_row *comparison_row(const struct comparison *c, const char *key);

/* The i-th fact that differs between runs but should not: "hosts", with two of its values. False:
 * there are no more. */
bool comparison_differs(const struct comparison *c, size_t i, const char **ret_what, const char **ret_one,
	const char **ret_other);
