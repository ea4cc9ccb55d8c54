/* SPDX-License-Identifier: MIT
 *
 * hiwater.h over the folders: rules that pick processes.
 */
#include <errno.h>
#include <stdlib.h>

#include "api/handles.h"
#include "rules/rule.h"

struct hiw_filter {
	struct rule rule;
};

int hiw_filter_new(const char *text, struct hiw_filter **ret, struct hiw_err *ret_err)
{
	struct hiw_filter *filter = calloc(1, sizeof(*filter));
	struct err err = { "" };
	int r = filter ? rule_parse(text, RULE_FILTER, &filter->rule, &err) : -ENOMEM;

	if (r < 0)
		free(filter);
	else
		*ret = filter;
	return api_err(ret_err, &err, r);
}

void hiw_filter_free(struct hiw_filter *filter)
{
	if (!filter)
		return;
	rule_done(&filter->rule);
	free(filter);
}

/* Who answers. */
struct asking {
	void (*look)(void *ctx, const struct hiw_asked *asked, struct hiw_answer *ret);
	void *ctx;
};

static void look(void *ctx, const struct rule *rule, size_t i, struct rule_value *ret)
{
	static const char *const fields[] = {
		[FIELD_NAME] = "name",
		[FIELD_COMMAND] = "command",
		[FIELD_PID] = "pid",
		[FIELD_UID] = "uid",
	};
	const struct asking *asking = ctx;
	const struct rule_term *term = &rule->terms[i];
	const struct hiw_asked asked = {
		.field = term->name.what == RULE_FIELD ? fields[term->name.field] : NULL,
		.entity = (enum hiw_entity) term->name.entity,
		.gpu_index = { term->name.index, term->name.indexed },
		.metric = term->name.metric,
		.also = term->name.also,
		.rate = term->rate,
		.peak = term->name.part == PART_PEAK,
	};
	struct hiw_answer answer = { .known = false };

	if (term->name.what == RULE_FIELD || term->name.what == RULE_METRIC)
		asking->look(asking->ctx, &asked, &answer);
	ret->known = answer.known;
	ret->low = ret->value = ret->high = answer.value;
	ret->whole_known = answer.whole > 0;
	ret->whole = answer.whole;
	ret->text = answer.text;
}

bool hiw_filter_picks(const struct hiw_filter *filter,
	void (*see)(void *ctx, const struct hiw_asked *asked, struct hiw_answer *ret), void *ctx)
{
	struct asking asking = { see, ctx };

	return rule_holds(&filter->rule, look, &asking, NULL);
}
