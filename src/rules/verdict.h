/* SPDX-License-Identifier: MIT
 *
 * Rules on a whole run, for check and compare. If every name has .peak, .mean or .last, or is time,
 * the figures of the summary decide, for GPUs and processes those of each. Else the run is replayed
 * through the engine, and the result is whether the rule ever held.
 */
#pragma once

#include "rules/engine.h"
#include "summary/summary.h"

enum verdict_kind {
	VERDICT_PASS,
	VERDICT_FAIL,
	VERDICT_INCOMPLETE, /* depends on unknown values */
};

struct verdict {
	enum verdict_kind kind;
	double number;          /* the value, in base units; NaN: none, or no number */
	struct maybe at_ns;     /* when the rule first held */
	char text[ALERT_TEXT];  /* "ram.peak is 1.20 GiB", "never held", "held at 0:01:02: loss 12.5" */
};

enum check_by {
	CHECK_SUMMARY, /* the summary's figures decide */
	CHECK_END,     /* likewise, but figures of each GPU or process: the engine's at their end */
	CHECK_STORY,   /* whether the rule ever held in the replay */
};
enum check_by check_by(const struct rule *rule);

void check_final(const struct rule *rule, const struct summary *summary, struct verdict *ret);

/* By a watch through which the run was replayed; number is that of its rule. */
void check_end(struct watch *w, size_t number, struct verdict *ret);
void check_story(const struct watch *w, size_t number, struct verdict *ret);

/* For a run whose end is not recorded: only a result that later time cannot change stays; others
 * become incomplete. */
void check_unfinished(const struct rule *rule, struct verdict *verdict);

/* The run's value of the term's name; of "gpu" without a number the largest. False: unknown. */
bool compare_value(const struct rule *rule, size_t term, const struct summary *summary, double *ret);

/* Compares two groups: here and base have one value per term, NaN where unknown. The rule is a
 * condition for failure: the result is VERDICT_FAIL where it holds. */
void compare_judge(const struct rule *rule, const double *here, const double *base, struct verdict *ret);
