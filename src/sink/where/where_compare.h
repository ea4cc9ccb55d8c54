/* SPDX-License-Identifier: MIT
 *
 * Memory by function of groups of runs side by side. Functions are matched by library and name, never by address
 * or line; those without a name are one line per library. A difference counts only beyond two sigma of both
 * figures together.
 */
#pragma once

#include "base/json.h"
#include "rules/trace_rule.h"
#include "sink/sink.h"
#include "sink/where/where_view.h"

struct where_comparison;

/* groups: names of the groups, borrowed. NULL: out of memory. */
struct where_comparison *where_comparison_new(const char *const *groups, size_t n_groups, size_t n_runs);
void where_comparison_free(struct where_comparison *c);
/* Adds a run of a group; its view is by function. counts false: its group's figures are without it. Returns 0
 * or -ENOMEM. */
int where_comparison_add(
	struct where_comparison *c, size_t run, size_t group, bool counts, const struct where_view *view);
/* Sorts the lines: the largest difference that counts first. Returns 0 or -ENOMEM. */
int where_comparison_end(struct where_comparison *c);

/* The rule in a group: fails if it holds for any function that matches; incomplete if none does. One relative to
 * the base holds only where the difference counts. */
void where_comparison_judge(const struct where_comparison *c, const struct trace_rule *rule, size_t group,
	struct check_result *ret);

int where_comparison_text(const struct where_comparison *c, const struct sink_options *options, bool markdown,
	struct buf *out);
/* Members of an object that the caller has begun: "of", "groups", "lines". */
int where_comparison_json(const struct where_comparison *c, struct json *j);
