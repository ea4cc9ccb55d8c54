/* SPDX-License-Identifier: MIT
 *
 * Rules about a whole run, for a gate. Where every name has .peak, .mean or .last (or is time), the figures of the
 * summary decide, of GPUs and processes those of each; else the run was replayed through the engine, and what counts is whether the rule ever held.
 */
#pragma once

#include "rules/engine.h"
#include "summary/summary.h"

enum verdict_kind {
	VERDICT_PASS,
	VERDICT_FAIL,
	VERDICT_INCOMPLETE, /* it depends on what is not known */
};

struct verdict {
	enum verdict_kind kind;
	double number;          /* what was seen, in base units; NaN: nothing, or no number */
	struct maybe at_ns;     /* when it first held */
	char text[ALERT_TEXT];  /* what was seen, for people: "1.20 GiB", "never", "loss 12.5 at 0:01:02" */
};

enum check_by {
	CHECK_SUMMARY, /* its figures decide */
	CHECK_END,     /* likewise, but of each GPU or process: what the engine knew at its end */
	CHECK_STORY,   /* whether it ever held */
};
enum check_by check_by(const struct rule *rule);

void check_final(const struct rule *rule, const struct summary *summary, struct verdict *ret);

/* The run was replayed through the watch that number is a rule of. */
void check_end(struct watch *w, size_t number, struct verdict *ret);
void check_story(const struct watch *w, size_t number, struct verdict *ret);

/* A run whose end is not recorded proves nothing but what it has shown. */
void check_unfinished(const struct rule *rule, struct verdict *verdict);

/* What the term's name is of the run; of "gpu" without a number the largest. False: not known. */
bool compare_value(const struct rule *rule, size_t term, const struct summary *summary, double *ret);

/* Judges by the values of two groups: here and base have one of each term, NaN where it is not known. The rule says what
 * must not be: it fails where the rule holds. */
void compare_judge(const struct rule *rule, const double *here, const double *base, struct verdict *ret);
