/* SPDX-License-Identifier: MIT
 *
 * rules/rule: a parsed rule is parsed identically from its own text and can be checked against any
 * values; an invalid one is explained and leaves nothing allocated.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rules/rule.h"
#include "rules/trace_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void look(void *ctx, const struct rule *rule, size_t term, struct rule_value *ret)
{
	static const double values[] = { 0, 1, -1, 1e300, -1e300, 5368709120.0 };
	const unsigned *turn = ctx;
	const double value = values[(*turn + term) % 6];
	struct rule_value v = { .known = *turn % 7 != 0, .low = value, .value = value, .high = value };

	if (*turn % 5 == 0)
		v.low = v.value = v.high = (double) NAN;
	v.whole_known = *turn % 3 != 0;
	v.whole = 1e10;
	if (rule->terms[term].test == TEST_MATCH)
		v.text = "python train.py";
	*ret = v;
}

static void judge(const struct rule *rule)
{
	char text[RULE_VALUE_TEXT], name[RULE_NAME];

	for (unsigned turn = 0; turn < 12; turn++) {
		struct rule_seen seen;
		const bool holds = rule_holds(rule, look, &turn, &seen);

		check(!holds || seen.term);
		if (!seen.term)
			continue;
		check(strlen(rule_value_text(seen.term, &seen.value, text)) < sizeof(text));
		check(strlen(rule_name_text(&seen.term->name, name)) < sizeof(name));
	}
	(void) rule_memory(rule);
}

static void check_read(const struct rule *rule, enum rule_kind kind)
{
	struct rule again;

	check(rule->n_terms > 0 && rule->n_terms <= RULE_TERMS && rule->n_code == 2 * rule->n_terms - 1);
	check(rule_parse(rule->text, kind, &again, NULL) == 0);
	check(again.n_terms == rule->n_terms && memcmp(again.code, rule->code, sizeof(rule->code)) == 0);
	rule_done(&again);
	judge(rule);
}

static void check_trace_rule(const char *text)
{
	struct err err = { "" };
	struct trace_rule rule;

	if (!trace_rule_is(text))
		return;
	if (trace_rule_parse(text, &rule, &err) < 0)
		check(err.text[0]);
	else
		(void) trace_rule_matches(&rule, "a kernel", "a domain");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	for (int kind = RULE_ALERT; kind <= RULE_FILTER; kind++) {
		struct err err = { "" };
		struct rule rule;

		if (rule_parse(text, (enum rule_kind) kind, &rule, &err) == 0)
			check_read(&rule, (enum rule_kind) kind);
		else
			check(err.text[0] && rule.n_terms == 0);
		rule_done(&rule);
	}
	check_trace_rule(text);
	free(text);
	return 0;
}
