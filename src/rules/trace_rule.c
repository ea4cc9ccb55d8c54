/* SPDX-License-Identifier: MIT */
#include "rules/trace_rule.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/units.h"

static const char *const figures[] = {
	[TRACE_FIGURE_TOTAL] = "total",
	[TRACE_FIGURE_COUNT] = "count",
	[TRACE_FIGURE_MEAN] = "mean",
};
static const struct {
	const char *sign;
	enum rule_op op;
} operators[] = { { "<=", OP_LE }, { ">=", OP_GE }, { "==", OP_EQ }, { "!=", OP_NE }, { "<", OP_LT },
	{ ">", OP_GT } };

static const char example[] = "kernel(\"*gemm*\").total > +10%";
static const char where_example[] = "where(\"load_*\") > +10%";

bool trace_rule_is(const char *text)
{
	text += strspn(text, " \t");
	return (parse_word(&text, "kernel") || parse_word(&text, "range") || parse_word(&text, "where")) &&
	       text[strspn(text, " \t")] == '(';
}

static int refuse(
	const struct trace_rule *rule, struct err *err, const char *text, const char *at, const char *why)
{
	return err_set(err, -EINVAL, "%s; for example: %s\n  %s\n  %*s^", why,
		rule->is_where ? where_example : example, text, (int) (at - text), "");
}

/* ("GLOB") */
static bool parse_glob(const char **p, struct trace_rule *rule)
{
	const char *end;
	char quote;

	parse_blanks(p);
	if (!parse_word(p, "("))
		return false;
	parse_blanks(p);
	quote = **p;
	end = quote == '"' || quote == '\'' ? strchr(*p + 1, quote) : NULL;
	if (!end || end - *p - 1 >= (long) sizeof(rule->glob))
		return false;
	memcpy(rule->glob, *p + 1, (size_t) (end - *p - 1));
	*p = end + 1;
	parse_blanks(p);
	return parse_word(p, ")") && rule->glob[0];
}

static bool parse_figure(const char **p, struct trace_rule *rule)
{
	if (!parse_word(p, "."))
		return false;
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		if (parse_word(p, figures[i])) {
			rule->figure = (enum trace_figure) i;
			return true;
		}
	}
	return false;
}

static bool parse_operator(const char **p, struct trace_rule *rule)
{
	parse_blanks(p);
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
		if (parse_word(p, operators[i].sign)) {
			rule->op = operators[i].op;
			return true;
		}
	}
	return false;
}

/* The rest of the text. */
static bool parse_value(const char *p, struct trace_rule *rule)
{
	const char *begin;
	bool has_sign;
	int64_t amount;

	parse_blanks(&p);
	begin = p;
	has_sign = *p == '+' || *p == '-';
	p += *p == '+';
	if (parse_double(&p, &rule->value) == 0 && rule->value >= -1e15 && rule->value <= 1e15) {
		const char *after = p;

		parse_blanks(&after);
		if (parse_word(&after, "%")) {
			parse_blanks(&after);
			rule->is_of_base = true;
			rule->value = (has_sign ? 1 : 0) + rule->value / 100;
			return *after == '\0' && (has_sign || rule->value >= 0);
		}
		if (rule->figure == TRACE_FIGURE_COUNT)
			return *after == '\0' && !has_sign;
	}
	if (has_sign || rule->figure == TRACE_FIGURE_COUNT)
		return false;
	if ((rule->is_where ? units_parse_bytes : units_parse_duration)(begin, &amount, NULL) < 0)
		return false;
	rule->value = (double) amount;
	return true;
}

int trace_rule_parse(const char *text, struct trace_rule *ret, struct err *err)
{
	const char *p = text;

	*ret = (struct trace_rule) { .is_range = false };
	if (strlen(text) >= RULE_TEXT)
		return err_set(err, -EINVAL, "the rule is longer than %d bytes", RULE_TEXT - 1);
	parse_blanks(&p);
	ret->is_range = parse_word(&p, "range");
	ret->is_where = !ret->is_range && parse_word(&p, "where");
	if (!ret->is_range && !ret->is_where)
		(void) parse_word(&p, "kernel");
	if (!parse_glob(&p, ret))
		return refuse(ret, err, text, p, "expected a pattern in quotes and parentheses");
	if (ret->is_where)
		ret->figure = TRACE_FIGURE_BYTES;
	else if (!parse_figure(&p, ret))
		return refuse(ret, err, text, p, "expected .total, .count or .mean");
	if (!parse_operator(&p, ret))
		return refuse(ret, err, text, p, "expected < <= > >= == or !=");
	if (!parse_value(p, ret))
		return refuse(ret, err, text, p,
			ret->is_where ? "expected a percentage, or a size, and nothing behind it"
				      : "expected a percentage, or a time (of count: a number), and nothing behind it");
	return 0;
}

bool trace_rule_matches(const struct trace_rule *rule, const char *name, const char *domain)
{
	char whole[1024];

	if (fnmatch(rule->glob, name, 0) == 0)
		return true;
	return *domain && snprintf(whole, sizeof(whole), "%s: %s", domain, name) < (int) sizeof(whole) &&
	       fnmatch(rule->glob, whole, 0) == 0;
}

bool trace_rule_holds(const struct trace_rule *rule, double here, double base)
{
	const double limit = rule->is_of_base ? rule->value * base : rule->value;

	switch (rule->op) {
	case OP_LT:
		return here < limit;
	case OP_LE:
		return here <= limit;
	case OP_GT:
		return here > limit;
	case OP_GE:
		return here >= limit;
	case OP_EQ:
		return !(here < limit) && !(here > limit);
	case OP_NE:
		break;
	}
	return here < limit || here > limit;
}
