/* SPDX-License-Identifier: MIT
 *
 * For how many of those whom a rule is judged for it holds, for rules about a run that is over.
 */
#include "rules/engine_internal.h"

/* Is a, of two for whom the rule came to the same, closer to what it asks about, or further beyond it? Without ever, always
 * or never that is to break it. */
static bool is_nearer(const struct rule *rule, const struct rule_seen *a, const struct rule_seen *b)
{
	const struct rule_term *t = a->term;

	if (t != b->term || t->test != TEST_COMPARE || !a->value.known || !b->value.known)
		return false;
	return ((t->op == OP_GT || t->op == OP_GE) != (rule->quantifier == RULE_BARE)) == (a->value.value > b->value.value);
}

void tally_count(struct judging *j, struct tally *tally)
{
	const struct rule *rule = &j->watched->rule;
	struct rule_seen seen;
	const bool holds = rule_holds(rule, judging_look, j, &seen);
	struct tallied *t = &tally->of[holds ? TALLY_HOLDS : seen.missing ? TALLY_UNKNOWN
									  : TALLY_HOLDS_NOT];

	seen.value.text = NULL; /* its owner may go */
	if (t->n++ > 0 && !is_nearer(rule, &seen, &t->seen))
		return;
	t->seen = seen;
	alert_who(j, t->who, sizeof(t->who));
}

void watch_tally(struct watch *w, size_t number, struct tally *ret)
{
	struct watched *r = &w->rules[number];
	const struct crowd *crowd = &w->cells.crowds[r->rule.subject];
	struct judging j = { .w = w, .watched = r, .number = number, .subject = r->rule.subject, .now = w->now_ns };

	*ret = r->ended;
	for (j.place = 0; j.place < crowd->n; j.place++) {
		if (crowd->places[j.place].id)
			tally_count(&j, ret);
	}
}
