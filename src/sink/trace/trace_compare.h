/* SPDX-License-Identifier: MIT
 *
 * Kernels, and ranges, of groups of runs side by side: by name the total, the count and the mean of each run.
 */
#pragma once

#include "base/json.h"
#include "rules/trace_rule.h"
#include "sink/sink.h"
#include "sink/trace/trace_view.h"

struct trace_compared {
	char *name, *domain;
	bool is_range;
	double *totals, *counts;         /* ns and number of each run; 0: the run does not have it */
};

/* Some number of one line over the runs of a group. */
struct trace_spread {
	double mean, deviation;          /* deviation: of the sample; 0 for one run */
	size_t n;
};

struct trace_comparison;

/* groups: names of the groups, n_groups; group_of: the group of each run; counts: false for a run that is left
 * out. All are borrowed. Returns NULL if memory is short. */
struct trace_comparison *trace_comparison_new(const char *const *groups, size_t n_groups, size_t n_runs);
void trace_comparison_free(struct trace_comparison *c);
/* Adds the lines of a run. counts false: its group's figures are without it. Returns 0 or -ENOMEM. */
int trace_comparison_add(
	struct trace_comparison *c, size_t run, size_t group, bool counts, const struct trace_view *view);
/* Sorts the lines: those of kernels, or of ranges if no run has a kernel, by what they added to the base. */
int trace_comparison_end(struct trace_comparison *c);

/* The rule in a group: fails if it holds for any name that matches; incomplete if none does. */
void trace_comparison_judge(const struct trace_comparison *c, const struct trace_rule *rule, size_t group,
	struct check_result *ret);

int trace_comparison_text(const struct trace_comparison *c, const struct sink_options *options, bool markdown,
	struct buf *out);
/* Members of an object that the caller has begun: "of", "groups", "lines". */
int trace_comparison_json(const struct trace_comparison *c, struct json *j);
