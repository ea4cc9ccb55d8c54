/* SPDX-License-Identifier: MIT
 *
 * hiwater.h over the folders: rules about a run that is over.
 */
#include <errno.h>
#include <stdlib.h>

#include "api/handles.h"
#include "rules/verdict.h"

/* The rules in their order: where each is judged. */
struct checking {
	struct watch *watch;
	size_t n, n_watched;
	struct {
		enum check_by by;
		struct rule rule;   /* by the summary */
		size_t watched;     /* else its number in the watch */
	} *rules;
};

static int add_rule(struct checking *c, const char *text, struct err *err)
{
	struct rule rule;
	int r = rule_parse(text, RULE_CHECK, &rule, err);

	if (r < 0)
		return r;
	const enum check_by by = check_by(&rule);

	c->rules[c->n].by = by;
	if (by == CHECK_SUMMARY) {
		c->rules[c->n++].rule = rule;
		return 0;
	}
	r = watch_add(c->watch, &rule);
	if (r == -E2BIG)
		return err_set(err, -EINVAL, "there are more than %d rules; ask in two goes", WATCH_RULES);
	if (r < 0)
		return r;
	c->rules[c->n++].watched = (size_t) r;
	c->n_watched++;
	return 0;
}

static void checking_done(struct checking *c)
{
	for (size_t i = 0; i < c->n; i++)
		rule_done(&c->rules[i].rule);
	free(c->rules);
	watch_free(c->watch);
}

static bool see_frame(void *ctx, const struct frame *frame)
{
	struct checking *c = ctx;
	struct alert alert;

	watch_see(c->watch, frame);
	while (watch_next(c->watch, &alert))
		; /* what counts is the story */
	return true;
}

static void judge(struct hiw_run *run, struct checking *c, size_t i, struct verdict *ret)
{
	const enum check_by by = c->rules[i].by;
	const struct rule *rule = by == CHECK_SUMMARY ? &c->rules[i].rule : watch_rule(c->watch, c->rules[i].watched);

	if (by == CHECK_SUMMARY)
		check_final(rule, &run->summary, ret);
	else if (by == CHECK_END)
		check_end(c->watch, c->rules[i].watched, ret);
	else
		check_story(c->watch, c->rules[i].watched, ret);
	if (!run->summary.complete)
		check_unfinished(rule, ret);
}

static void tell(struct hiw_run *run, struct checking *c, const char *const *rules,
	void (*see)(void *ctx, const struct hiw_checked *checked), void *ctx)
{
	static const enum hiw_verdict kinds[] = { [VERDICT_PASS] = HIW_PASS, [VERDICT_FAIL] = HIW_FAIL, [VERDICT_INCOMPLETE] = HIW_INCOMPLETE };

	for (size_t i = 0; i < c->n; i++) {
		struct verdict v;

		judge(run, c, i, &v);
		const struct hiw_checked checked = {
			.verdict = kinds[v.kind],
			.rule = rules[i],
			.text = v.text,
			.value = v.number,
			.at_ns = api_maybe(v.at_ns),
		};

		see(ctx, &checked);
	}
}

int hiw_run_check(struct hiw_run *run, const char *const *rules, size_t n,
	void (*see)(void *ctx, const struct hiw_checked *checked), void *ctx, struct hiw_err *ret_err)
{
	struct checking c = { .rules = calloc(n + 1, sizeof(*c.rules)), .watch = watch_new(job_facts_const(run->job)) };
	struct err err = { "" };
	int r = c.rules && c.watch ? 0 : -ENOMEM;

	if (r == 0 && !run->replay)
		r = err_set(&err, -EINVAL, "a live run is checked by its alerts, not by this");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_rule(&c, rules[i], &err);
	if (r == 0 && c.n_watched)
		r = replay_frames(run->replay, true, see_frame, &c, &err);
	if (r == 0)
		r = run_summarise(run, false);
	if (r == 0)
		tell(run, &c, rules, see, ctx);
	checking_done(&c);
	return api_err(ret_err, &err, r);
}
