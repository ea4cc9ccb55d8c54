/* SPDX-License-Identifier: MIT
 *
 * A rule on traced work, for compare --fail-if: kernel("*gemm*").total > +10%. Each kernel, or range, whose name
 * matches is judged. Likewise a rule on memory by function: where("load_*") > +10%.
 *
 *   rule  = kernel("GLOB") | range("GLOB"), then .total .count or .mean, then < <= > >= == !=, then VALUE
 *         | where("GLOB"), then < <= > >= == !=, then VALUE
 *   VALUE = a time (total, mean), a number (count), a size (where), +10% -10%: relative to the base, 110%: of the base
 *
 * GLOB is that of fnmatch(3), on the whole name as it is shown, with the domain ("pytorch: forward") or without.
 */
#pragma once

#include "base/err.h"
#include "rules/check_result.h"

enum trace_figure {
	TRACE_FIGURE_TOTAL,
	TRACE_FIGURE_COUNT,
	TRACE_FIGURE_MEAN,
	TRACE_FIGURE_BYTES, /* of where() */
};

struct trace_rule {
	bool is_range, is_where;
	char glob[RULE_TEXT];
	enum trace_figure figure;
	enum rule_op op;
	double value;       /* ns, a number, bytes, or a factor of the base */
	bool is_of_base;
};

/* Does the text begin as such a rule? */
bool trace_rule_is(const char *text);
/* Returns 0, or -EINVAL with text. */
int trace_rule_parse(const char *text, struct trace_rule *ret, struct err *err);
bool trace_rule_matches(const struct trace_rule *rule, const char *name, const char *domain);
/* Does the rule hold for these values, in ns, a number or bytes? */
bool trace_rule_holds(const struct trace_rule *rule, double here, double base);
