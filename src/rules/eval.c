/* SPDX-License-Identifier: MIT
 *
 * Evaluation of a rule on given values, and the text of values.
 */
#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "rules/rule_internal.h"

double rule_threshold(const struct rule_term *term, const struct rule_value *value)
{
	if (term->whole == WHOLE_NONE)
		return term->value;
	if (!value->whole_known)
		return (double) NAN;
	/* "+5%" means upwards also for a negative base. */
	if (term->whole == WHOLE_BASE)
		return value->whole + fabs(value->whole) * (term->value - 100) / 100;
	return value->whole * term->value / 100;
}

static bool compares(enum rule_op op, double a, double b)
{
	switch (op) {
	case OP_LT:
		return a < b;
	case OP_LE:
		return a <= b;
	case OP_GT:
		return a > b;
	case OP_GE:
		return a >= b;
	case OP_EQ:
		return a == b;
	case OP_NE:
		return a < b || a > b; /* false with NaN */
	}
	return false;
}

/* The value to compare, of a time span with extremes: did it hold at some moment or (sustained)
 * throughout? */
static double side_of(enum rule_op op, const struct rule_value *v, bool sustained)
{
	switch (op) {
	case OP_GT:
	case OP_GE:
		return sustained ? v->low : v->high;
	case OP_LT:
	case OP_LE:
		return sustained ? v->high : v->low;
	case OP_EQ:
	case OP_NE:
		break;
	}
	return v->value;
}

static bool term_holds(const struct rule_term *t, const struct rule_value *v, bool sustained)
{
	if (t->test == TEST_ABSENT)
		return v->known == t->negated;
	if (!v->known || (t->whole == WHOLE_MEDIAN && !v->whole_known))
		return false;
	switch (t->test) {
	case TEST_COMPARE:
	case TEST_GROWTH:
		return compares(t->op, side_of(t->op, v, sustained), rule_threshold(t, v));
	case TEST_NAN:
		return !isnan(v->value) == t->negated;
	case TEST_INF:
		return !isinf(v->value) == t->negated;
	case TEST_SILENT:
		return (v->value >= (t->whole == WHOLE_MEDIAN ? t->value * v->whole : (double) t->span_ns)) !=
		       t->negated;
	case TEST_MATCH:
		return v->text && (regexec(t->pattern, v->text, 0, NULL, 0) == 0) != t->negated;
	case TEST_ABSENT:
		break;
	}
	return false;
}

/* Are the values known that the term needs? */
static bool is_evaluable(const struct rule_term *t, const struct rule_value *v)
{
	return t->test == TEST_ABSENT || (v->known && (t->whole == WHOLE_NONE || v->whole_known));
}

bool rule_holds(const struct rule *rule, rule_lookup *lookup, void *ctx, struct rule_seen *ret)
{
	bool stack[RULE_TERMS], missing = false;
	struct rule_seen first = { .term = NULL };
	/* the first term that does not hold, the first that does */
	struct rule_seen seen[2] = { { .term = NULL }, { .term = NULL } };
	size_t depth = 0;

	for (size_t i = 0; i < rule->n_code; i++) {
		const int code = rule->code[i];

		if (code < 0) {
			depth--;
			stack[depth - 1] = code == CODE_AND ? stack[depth - 1] && stack[depth]
							    : stack[depth - 1] || stack[depth];
			continue;
		}
		const struct rule_term *t = &rule->terms[code];
		struct rule_value value = { .known = false };

		lookup(ctx, rule, (size_t) code, &value);
		const bool holds = term_holds(t, &value, rule->for_ns > 0),
			   evaluable = is_evaluable(t, &value);

		/* report the extreme that decided, such as a high-water mark that proves a burst */
		if (holds && t->test == TEST_COMPARE)
			value.value = side_of(t->op, &value, rule->for_ns > 0);

		stack[depth++] = holds;
		missing |= !evaluable;
		if (!first.term)
			first = (struct rule_seen) { .term = t, .value = value };
		if (evaluable && !seen[holds].term) {
			seen[holds].term = t;
			seen[holds].value = value;
		}
	}
	const bool result = depth == 1 && stack[0];

	if (ret) {
		*ret = seen[result].term ? seen[result] : seen[!result].term ? seen[!result]
									     : first;
		ret->missing = missing;
	}
	return result;
}

/* ---- texts --------------------------------------------------------------------------------------------------------- */

static int64_t whole_number(double value)
{
	return value >= 9e18 ? INT64_MAX : value <= -9e18 ? INT64_MIN
							  : (int64_t) value;
}

static void amount_text(const struct rule_term *t, enum unit unit, double value, char *buf)
{
	/* Units that base/units does not format. */
	static const struct {
		double size;
		const char *name;
	} plain[] = {
		[UNIT_COUNT] = { 1, "" },
		[UNIT_PPM] = { 1e4, "%" },
		[UNIT_UJ] = { 1e6, " J" },
		[UNIT_UW] = { 1e6, " W" },
		[UNIT_MCEL] = { 1e3, " C" },
		[UNIT_HZ] = { 1e6, " MHz" },
	};
	char text[UNITS_LEN];

	if (unit == UNIT_BYTES)
		(void) snprintf(
			buf, RULE_VALUE_TEXT, "%s", units_bytes(whole_number(value), UNITS_IEC, text));
	else if (unit == UNIT_NS && !t->rate)
		(void) snprintf(buf, RULE_VALUE_TEXT, "%s", units_duration(whole_number(value), text));
	else if (t->name.what == RULE_METRIC && t->name.metric == M_HOST_LOAD1)
		(void) snprintf(buf, RULE_VALUE_TEXT, "%.3g", value / 1e6); /* number of tasks, not a ratio */
	else if (unit == UNIT_NS)
		(void) snprintf(
			buf, RULE_VALUE_TEXT, "%.3g%s", value / 1e9, t->name.also >= 0 ? " cores" : "");
	else
		(void) snprintf(buf, RULE_VALUE_TEXT, "%.4g%s", value / plain[unit].size,
			unit == UNIT_UJ && t->rate ? " W" : plain[unit].name);
}

static bool is_metric(const struct rule_term *t)
{
	return t->name.what == RULE_METRIC;
}

/* Is the value shown with "/s"? CPU time per second is shown as cores, energy per second as W. */
static bool is_shown_as_rate(const struct rule_term *t)
{
	if (t->test != TEST_COMPARE || !t->rate || !is_metric(t))
		return t->test == TEST_GROWTH;
	return metrics[t->name.metric].unit != UNIT_NS && metrics[t->name.metric].unit != UNIT_UJ;
}

/* The time unit of the rate in the rule; a second if it is shorter or missing. */
static uint64_t rate_unit_ns(const struct rule_term *t)
{
	const uint64_t second_ns = UINT64_C(1000000000);

	return t->per_ns > second_ns ? t->per_ns : second_ns;
}

char *rule_value_text(const struct rule_term *t, const struct rule_value *v, char buf[RULE_VALUE_TEXT])
{
	const uint64_t per_ns = is_shown_as_rate(t) ? rate_unit_ns(t) : 0;
	const double value = v->value * (per_ns ? (double) per_ns / 1e9 : 1);
	size_t len;

	if (!v->known)
		(void) snprintf(buf, RULE_VALUE_TEXT, "absent");
	else if (v->text)
		(void) snprintf(buf, RULE_VALUE_TEXT, "%s", v->text);
	else if (t->test == TEST_SILENT)
		amount_text(t, UNIT_NS, value, buf);
	else if (t->name.what == RULE_TIME)
		amount_text(t, UNIT_NS, value, buf);
	else if (is_metric(t) && isfinite(value))
		amount_text(t, metrics[t->name.metric].unit, value, buf);
	else
		(void) snprintf(buf, RULE_VALUE_TEXT, "%.6g", value);
	for (len = 0; buf[len];)
		len++;
	if (v->known && per_ns)
		(void) snprintf(buf + len, RULE_VALUE_TEXT - len, "/%s", rule_time_name(per_ns));
	return buf;
}

double rule_number(const struct rule_term *t, const struct rule_value *value)
{
	static const double sizes[] = { [UNIT_BYTES] = 1,
		[UNIT_NS] = 1e9,
		[UNIT_COUNT] = 1,
		[UNIT_PPM] = 1e6,
		[UNIT_UJ] = 1e6,
		[UNIT_UW] = 1e6,
		[UNIT_MCEL] = 1e3,
		[UNIT_HZ] = 1 };

	if (!t || !value->known)
		return (double) NAN;
	if (t->test == TEST_SILENT || t->name.what == RULE_TIME)
		return value->value / 1e9;
	return value->value / (t->name.what == RULE_METRIC ? sizes[metrics[t->name.metric].unit] : 1);
}

/* Memory in bytes, of the host or a GPU. Free disk space is none. */
static enum rule_memory memory_of(const struct rule_name *n)
{
	const struct metric_info *m = n->what == RULE_METRIC ? &metrics[n->metric] : NULL;

	if (!m || m->unit != UNIT_BYTES || m->kind == KIND_COUNTER || n->metric == M_HOST_DISK_FREE)
		return RULE_NO_MEMORY;
	if (n->entity == ENTITY_GPU || n->entity == ENTITY_GPU_PROCESS || n->metric == M_JOB_GPU_MEM ||
		n->metric == M_JOB_GPU_MEM_MAIN || n->metric == M_JOB_GPU_MEM_DESCENDANTS)
		return RULE_GPU_MEMORY;
	return RULE_HOST_MEMORY;
}

enum rule_memory rule_memory(const struct rule *rule)
{
	enum rule_memory memory = RULE_NO_MEMORY;

	for (size_t i = 0; i < rule->n_terms && memory == RULE_NO_MEMORY; i++)
		memory = memory_of(&rule->terms[i].name);
	return memory;
}
