/* SPDX-License-Identifier: MIT
 *
 * Findings: a rule is a row of the table in findings.c and one pure function over what is known of a run.
 */
#pragma once

#include "summary/summary.h"

/* Earlier runs of the same name or command, for the rules that must not judge by one run; and other ranks of it. */
/* How long a step took on another rank of the same job. */
struct other_rank {
	int64_t rank;
	double step_s;
};

enum {
	RANKS_MOST = 1024
};

struct earlier_runs {
	size_t n;
	struct maybe peak_bytes;   /* largest combined peak without page cache */
	struct maybe wall_ns;      /* longest */
	struct maybe cores_ppm;    /* largest mean use of processors */
	char peak_run[64];         /* which run it was: "17" or a path's end */
	const struct other_rank *ranks; /* others of this job's, by their recordings; borrowed */
	size_t n_ranks;
};

/* Seconds a step took on average, by what the program says of its steps (SERIES_STEP).
 * Negative: unknown, or too few. */
double findings_step_s(const struct job *job);

/* Fills summary->findings: one entry a rule, fired or not. earlier may be NULL. Returns 0 or -ENOMEM. */
int findings_make(struct summary *summary, const struct earlier_runs *earlier);

/* Those whose codes are in the list ("host-leak,swap"; NULL: none are) do not fire, and say why. Returns 0 or -ENOMEM. */
int findings_switch_off(struct summary *summary, const char *list);
