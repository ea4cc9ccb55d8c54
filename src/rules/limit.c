/* SPDX-License-Identifier: MIT */
#include "rules/limit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

/* One of the two rules of a limit. */
static int add_rule(struct watch *w, const char *text, unsigned pct, struct err *err, size_t *ret)
{
	struct rule rule;
	int r = rule_parse(text, RULE_LIMIT, &rule, err);

	if (r < 0)
		return r;
	rule.terms[0].value = rule.terms[0].value * pct / 100;
	rule.level = pct < 100 ? RULE_WARN : RULE_ERROR;
	r = watch_add(w, &rule);
	if (r == -E2BIG)
		return err_set(err, r, "too many rules (at most %d)", WATCH_RULES);
	*ret = r < 0 ? 0 : (size_t) r;
	return r < 0 ? r : 0;
}

int limits_add(struct limits *l, struct watch *w, const char *text, struct err *err)
{
	int r;

	if (l->n == LIMITS_MOST)
		return err_set(err, -E2BIG, "too many limits (at most %d)", LIMITS_MOST);
	r = add_rule(w, text, LIMIT_NEAR_PCT, err, &l->limit[l->n].near);
	if (r == 0)
		r = add_rule(w, text, 100, err, &l->limit[l->n].reached);
	if (r < 0)
		return r;
	(void) snprintf(l->limit[l->n].text, sizeof(l->limit[0].text), "%s",
		watch_rule(w, l->limit[l->n].near)->text);
	if (watch_rule(w, l->limit[l->n].near)->terms[0].name.entity == ENTITY_GPU)
		r = watch_keep_top_users(w);
	l->n++;
	return r;
}

static bool is_pending(const struct limits *l, int32_t pid)
{
	for (size_t i = 0; i < l->n_pending; i++) {
		if (l->pending[i].pid == pid || l->pending[i].pid == 0)
			return true;
	}
	return false;
}

/* "the job", "process 4711". */
static const char *target_text(const struct alert *a, char *buf, size_t size)
{
	if (a->pid == 0)
		return "the job";
	(void) snprintf(buf, size, "process %d", (int) a->pid);
	return buf;
}

static void add_text(struct alert *a, const char *text)
{
	const size_t len = strlen(a->text);

	(void) snprintf(a->text + len, sizeof(a->text) - len, "%s", text);
}

static enum limit_act begin_grace(struct limits *l, size_t limit, const struct watch *w, struct alert *a)
{
	char text[160], name[40], grace[UNITS_LEN];

	if (a->entity == ENTITY_GPU)
		a->pid = watch_top_user(w, a->id);
	else if (a->entity == ENTITY_JOB)
		a->pid = watch_rule(w, a->rule)->terms[0].name.entity == ENTITY_GPU
				 ? watch_top_user_of_index(w, watch_rule(w, a->rule)->terms[0].name.index)
				 : 0;
	if (is_pending(l, a->pid) || l->n_pending == LIMITS_PENDING)
		return LIMIT_NOTHING;
	l->pending[l->n_pending++] =
		(struct limit_pending) { .pid = a->pid, .kill_ns = a->time_ns + l->grace_ns, .limit = limit };
	(void) snprintf(text, sizeof(text), "; sending SIGTERM to %s, %s%s", target_text(a, name, sizeof(name)),
		l->grace_ns > 1 ? "SIGKILL after " : "then SIGKILL at once",
		l->grace_ns > 1 ? units_duration((int64_t) l->grace_ns, grace) : "");
	add_text(a, text);
	return LIMIT_END;
}

enum limit_act limits_apply(struct limits *l, const struct watch *w, struct alert *a)
{
	for (size_t i = 0; i < l->n; i++) {
		if (a->rule == l->limit[i].near && a->raised && watch_stands(w, l->limit[i].reached, a->id))
			return LIMIT_SILENT; /* both at once: the alert of the reached limit is reported */
		if (a->rule == l->limit[i].near && a->raised)
			add_text(a, ", over 90% of the limit");
		if (a->rule == l->limit[i].reached)
			return a->raised ? begin_grace(l, i, w, a) : LIMIT_SILENT;
	}
	return LIMIT_NOTHING;
}

static bool lives(const struct job *job, int32_t pid)
{
	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		if (p->pid == pid && !p->ended)
			return true;
	}
	return false;
}

void limits_settle(struct limits *l, const struct job *job)
{
	for (size_t i = l->n_pending; i-- > 0;) {
		if (l->pending[i].pid != 0 && !lives(job, l->pending[i].pid))
			l->pending[i] = l->pending[--l->n_pending];
	}
}

bool limits_wait(const struct limits *l, const struct job *job)
{
	for (size_t i = 0; i < l->n_pending; i++) {
		if (l->pending[i].pid == 0 || lives(job, l->pending[i].pid))
			return true;
	}
	return false;
}

void limits_cut(struct limits *l)
{
	l->cut = true;
	for (size_t i = 0; i < l->n_pending; i++) {
		if (l->pending[i].kill_ns != UINT64_MAX)
			l->pending[i].kill_ns = 0;
	}
}

static void write_kill(const struct limits *l, const char *rule, struct alert *a)
{
	char name[40], grace[UNITS_LEN];

	if (l->cut)
		(void) snprintf(a->text, sizeof(a->text), "%s: an end was requested; sending SIGKILL to %s",
			rule, target_text(a, name, sizeof(name)));
	else if (l->grace_ns <= 1)
		(void) snprintf(a->text, sizeof(a->text), "%s: sending SIGKILL to %s", rule,
			target_text(a, name, sizeof(name)));
	else
		(void) snprintf(a->text, sizeof(a->text), "%s: %s did not end within %s; sending SIGKILL",
			rule, target_text(a, name, sizeof(name)),
			units_duration((int64_t) l->grace_ns, grace));
}

bool limits_due(struct limits *l, uint64_t now_ns, struct alert *ret)
{
	for (size_t i = 0; i < l->n_pending; i++) {
		const struct limit_pending p = l->pending[i];

		if (p.kill_ns > now_ns)
			continue;
		*ret = (struct alert) {
			.rule = l->limit[p.limit].reached,
			.raised = true,
			.level = RULE_ERROR,
			.entity = ENTITY_JOB,
			.pid = p.pid,
			.time_ns = now_ns,
		};
		write_kill(l, l->limit[p.limit].text, ret);
		l->pending[i].kill_ns = UINT64_MAX; /* reported once */
		return true;
	}
	return false;
}

void limit_in_the_past(const char *why, char *ret, size_t size)
{
	static const struct {
		const char *now, *then;
	} words[] = {
		{ "; sending SIGTERM to ", "; sent SIGTERM to " },
		{ ": sending SIGKILL", ": sent SIGKILL" },
		{ "; sending SIGKILL", "; sent SIGKILL" },
	};

	(void) snprintf(ret, size, "%s", why);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		const char *at = strstr(why, words[i].now), *target;

		if (!at)
			continue;
		/* a SIGKILL that was announced may not have been sent: that one has an alert of its own */
		target = at + strlen(words[i].now);
		(void) snprintf(ret, size, "%.*s%s%.*s", (int) (at - why), why, words[i].then,
			(int) strcspn(target, ","), target);
		return;
	}
}
