/* SPDX-License-Identifier: MIT
 *
 * Findings: advice about a run, with evidence. A rule is a row of the table in findings.c and a
 * pure function of the summary and of earlier runs (finding.h).
 */
#pragma once

#include "summary/summary.h"

/* Mean time of a step on another rank of the same job. */
struct other_rank {
	int64_t rank;
	double step_s;
};

enum {
	RANKS_MOST = 1024
};

/* Earlier runs of the same name or command, for rules that must not judge by one run; and the other
 * ranks of this job. */
struct earlier_runs {
	const struct request_run *runs; /* the newest first; borrowed, as the next */
	size_t n;
	struct request_left_out left_out; /* further ones, which were not read */
	const struct other_rank *ranks; /* other ranks, from their recordings */
	size_t n_ranks;
};

/* What this run says about the next request. */
void request_run_of(const struct summary *summary, struct request_run *ret);

/* Mean seconds of a step, from the program's series (SERIES_STEP). Negative: unknown, or too few
 * steps. */
double findings_step_s(const struct job *job);

/* Fills summary->request, and summary->findings with one entry per rule, fired or not; summary_done()
 * frees them. earlier may be NULL. Returns 0 or -ENOMEM. */
int findings_make(struct summary *summary, const struct earlier_runs *earlier);

/* Turns fired findings whose codes are in the comma-separated list ("host-leak,swap"; NULL: empty)
 * into ones that did not fire, with that reason. Returns 0 or -ENOMEM. */
int findings_switch_off(struct summary *summary, const char *list);
