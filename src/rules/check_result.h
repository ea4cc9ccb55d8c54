/* SPDX-License-Identifier: MIT
 *
 * Rules on a whole run, for check and compare. If every name has .peak, .mean or .last, or is time,
 * the figures of the summary decide, for GPUs and processes those of each. Else the run is replayed
 * through the engine, and the result is whether the rule ever held.
 */
#pragma once

#include "rules/engine.h"
#include "summary/summary.h"

enum check_result_kind {
	RESULT_PASS,
	RESULT_FAIL,
	RESULT_INCOMPLETE, /* depends on unknown values */
};

struct check_result {
	enum check_result_kind kind;
	double number;          /* the value, in base units; NaN: none, or no number */
	struct maybe at_ns;     /* when the rule first held */
	char text[ALERT_TEXT];  /* "ram.peak is 1.20 GiB", "never held", "held at 0:01:02: loss 12.5" */
};

enum check_by {
	CHECK_SUMMARY, /* the summary's figures decide */
	CHECK_END,     /* likewise, but figures of each GPU or process: the engine's at their end */
	CHECK_EVER,    /* whether the rule ever held in the replay */
};
enum check_by check_by(const struct rule *rule);

void check_final(const struct rule *rule, const struct summary *summary, struct check_result *ret);

/* By a watch through which the run was replayed; number is that of its rule. */
void check_end(struct watch *w, size_t number, struct check_result *ret);
void check_ever(const struct watch *w, size_t number, struct check_result *ret);

/* For a run whose end is not recorded: only a result that later time cannot change stays; others
 * become incomplete. */
void check_unfinished(const struct rule *rule, struct check_result *result);

/* For a job of which ranks, nodes or ends are missing: what passed becomes incomplete, what failed stays. */
void check_lacking(const struct parts *parts, struct check_result *result);

/* The run's value of the term's name; of "gpu" without a number the largest. False: unknown. */
bool compare_value(const struct rule *rule, size_t term, const struct summary *summary, double *ret);

/* Compares two groups: here and base have one value per term, NaN where unknown. The rule is a
 * condition for failure: the result is RESULT_FAIL where it holds. */
void compare_judge(const struct rule *rule, const double *here, const double *base, struct check_result *ret);
