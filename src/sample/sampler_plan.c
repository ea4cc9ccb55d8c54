/* SPDX-License-Identifier: MIT
 *
 * The other sources: the machine, its energy, the job's cgroup, each group of values with its own
 * period.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sample/sampler_internal.h"

enum {
	PLAN_HOST,
	PLAN_ENERGY,
	PLAN_FABRIC,
	PLAN_CGROUP
};

#define HOST_PERIOD_NS 100000000 /* shortest period of the machine's values */
/* read the machine's memory out of turn when the job's changed by this much */
#define HOST_MOVES_BYTES (16 << 20)

static const struct source_ops *const plan_ops[SAMPLER_SOURCES] = {
	[PLAN_HOST] = &source_host,
	[PLAN_ENERGY] = &source_energy,
	[PLAN_FABRIC] = &source_fabric,
	[PLAN_CGROUP] = &source_cgroup,
};

/* The machine's memory need not be read more than ten times a second, whatever the job's
 * interval. */
static void set_periods(const struct sampler *s, struct plan *plan)
{
	const uint64_t least = s->options.interval_ns > HOST_PERIOD_NS ? s->options.interval_ns
								       : HOST_PERIOD_NS;

	for (unsigned g = 0; g < plan->ops->n_groups && g < SAMPLER_GROUPS; g++) {
		const uint64_t period = plan->ops->groups[g].period_ns;

		plan->period_ns[g] = period > least ? period : least;
	}
}

static void open_one(struct sampler *s, struct plan *plan, const struct source_ops *ops)
{
	plan->ops = ops;
	if (ops->open(&s->env, &plan->source, NULL) < 0) {
		plan->source = NULL;
		return;
	}
	set_periods(s, plan);
}

void sampler_plan_open_host(struct sampler *s)
{
	open_one(s, &s->plans[PLAN_HOST], &source_host);
}

void sampler_plan_open(struct sampler *s)
{
	struct facts *facts = job_facts(s->job);

	s->env.cgroup = s->cgroup.path;
	s->env.cgroup_cpu = s->cgroup.cpu_path;
	s->env.cgroup_limit = s->cgroup.limit_bytes.known ? s->cgroup.limit_path : NULL;
	s->env.cgroup_limit_bytes = s->cgroup.limit_bytes;
	/* The shell that started hiwater is not a member: if it is in the cgroup, the cgroup is
	 * shared and its list need not be read. */
	if (s->options.ours && getppid() > 1 && cgroup_is_common(s->options.root, getppid(), getpid()) &&
		!s->options.cgroup_made)
		facts->cgroup_exclusive = known(0);
	/* Of attached processes only the first is known yet; the first sample checks the others
	 * in the cgroup. */
	if (s->options.ours)
		sampler_check_cgroup(s);
	else
		s->cgroup.exclusive = true;
	s->env.cgroup_shared = !s->cgroup.exclusive;
	for (int i = PLAN_HOST + 1; i < SAMPLER_SOURCES; i++) {
		if (i == PLAN_CGROUP && (!s->cgroup.path[0] || s->options.cgroup == CGROUP_NONE))
			continue;
		open_one(s, &s->plans[i], plan_ops[i]);
	}
}

/* After a change of the interval, all groups are due at the next sample. */
void sampler_plan_pace(struct sampler *s)
{
	for (int i = 0; i < SAMPLER_SOURCES; i++) {
		struct plan *plan = &s->plans[i];

		if (!plan->source)
			continue;
		set_periods(s, plan);
		memset(plan->next_ns, 0, sizeof(plan->next_ns));
	}
}

/* Reads the group of that name of the host source now. */
static void read_host(struct sampler *s, const char *group, uint64_t now_ns)
{
	struct plan *plan = &s->plans[PLAN_HOST];

	for (unsigned g = 0; plan->source && g < plan->ops->n_groups; g++) {
		if (strcmp(plan->ops->groups[g].name, group) == 0)
			(void) plan->ops->read(plan->source, 1u << g, &s->buf);
	}
	sampler_show(s, &s->buf, FRAME_HOST, now_ns, 3 * s->options.window_ns);
}

void sampler_plan_pages(struct sampler *s, uint64_t now_ns)
{
	read_host(s, "pages", now_ns);
}

void sampler_plan_moved(struct sampler *s, uint64_t now_ns)
{
	const struct acc *sum = job_acc(s->job, M_JOB_RSS_SUM, 0);
	const int64_t moved = (sum ? sum->last : 0) - s->rss_sum_at_host;

	if ((moved < HOST_MOVES_BYTES && moved > -HOST_MOVES_BYTES) || now_ns < s->next_moved_ns)
		return;
	s->rss_sum_at_host += moved;
	s->next_moved_ns = now_ns + HOST_PERIOD_NS;
	read_host(s, "fast", now_ns);
}

static bool is_shared_cgroup(const struct sampler *s, const struct plan *plan)
{
	return plan->ops == &source_cgroup && !s->cgroup.exclusive;
}

/* In a shared cgroup, only some groups are meaningful for the job. */
static unsigned groups_due(struct sampler *s, struct plan *plan, uint64_t now, bool all, uint64_t *ret_hold)
{
	unsigned what = 0;

	for (unsigned g = 0; g < plan->ops->n_groups && g < SAMPLER_GROUPS; g++) {
		if (is_shared_cgroup(s, plan) && !plan->ops->groups[g].for_all)
			continue;
		if (!all && now < plan->next_ns[g])
			continue;
		what |= 1u << g;
		plan->next_ns[g] = now + plan->period_ns[g] - s->options.interval_ns / 2;
		if (3 * plan->period_ns[g] > *ret_hold)
			*ret_hold = 3 * plan->period_ns[g];
	}
	return what;
}

void sampler_plan_read(struct sampler *s, uint64_t now_ns, bool all)
{
	for (int i = 0; i < SAMPLER_SOURCES; i++) {
		struct plan *plan = &s->plans[i];
		uint64_t hold = 0;
		unsigned what = plan->source ? groups_due(s, plan, now_ns, all, &hold) : 0;

		if (!what)
			continue;
		(void) plan->ops->read(plan->source, what, &s->buf);
		sampler_show(s, &s->buf, plan->ops->frame, now_ns, hold);
	}
}

void sampler_plan_close(struct sampler *s)
{
	for (int i = 0; i < SAMPLER_SOURCES; i++) {
		if (s->plans[i].source)
			s->plans[i].ops->close(s->plans[i].source);
		s->plans[i].source = NULL;
	}
}

/* The processes in a cgroup. */
struct pids {
	pid_t *list;
	size_t n;
};

static int pids_read(const struct sampler *s, struct pids *ret)
{
	enum {
		FIRST_GUESS = 256,
		MOST = 65536
	};

	for (size_t room = FIRST_GUESS; room <= MOST; room *= 4) {
		free(ret->list);
		ret->list = calloc(room, sizeof(*ret->list));
		ssize_t n = ret->list ? cgroup_pids(s->options.root, s->cgroup.path, ret->list, room) : -1;

		if (n < 0)
			return -1;
		ret->n = (size_t) n;
		if (ret->n <= room)
			return 0;
	}
	return -1;
}

static bool pids_have(const struct pids *pids, pid_t pid)
{
	for (size_t i = 0; i < pids->n; i++) {
		if (pids->list[i] == pid)
			return true;
	}
	return false;
}

void sampler_join(struct sampler *s, uint64_t now_ns)
{
	struct pids pids = { 0 };

	if (!s->options.cgroup_path || !s->cgroup.path[0])
		return;
	if (pids_read(s, &pids) < 0)
		pids.n = 0;
	for (size_t i = 0; i < pids.n; i++) {
		if (processes_join(s->processes, pids.list[i], &s->buf) > 0)
			s->n_attached++;
	}
	free(pids.list);
	sampler_show(s, &s->buf, FRAME_PROCFS, now_ns, 3 * s->options.interval_ns);
}

/* A process that belongs neither to the job nor to hiwater. */
static bool is_stranger(const struct sampler *s, pid_t pid)
{
	if (pid == s->env.recorder_pid || processes_id(s->processes, pid))
		return false;
	if (s->options.cgroup_path && processes_is_task_starter(s->processes, pid))
		return false;
	return !processes_is_ignored(s->processes, pid) || processes_is_preexisting(s->processes, pid);
}

/* True if pids contains a stranger that is also in older (NULL: ignored). */
static bool has_stranger(const struct sampler *s, const struct pids *pids, const struct pids *older)
{
	for (size_t i = 0; i < pids->n; i++) {
		if (is_stranger(s, pids->list[i]) && (!older || pids_have(older, pids->list[i])))
			return true;
	}
	return false;
}

/* An unknown process may have been born since the last search, or have ended: only one in the
 * cgroup both before and after a new search is a stranger. */
static bool is_exclusive(struct sampler *s)
{
	struct pids before = { 0 }, after = { 0 };
	bool exclusive = pids_read(s, &before) == 0 && !has_stranger(s, &before, NULL);

	if (!exclusive && before.n) {
		(void) processes_scan(s->processes, SCAN_FULL, &s->buf);
		sampler_show(s, &s->buf, FRAME_PROCFS, sampler_time(s), 3 * s->options.interval_ns);
		exclusive = pids_read(s, &after) == 0 && !has_stranger(s, &after, &before);
	}
	free(before.list);
	free(after.list);
	return exclusive;
}

/* A scheduler removes the group of a job with its last process. */
static bool is_removed(const struct sampler *s)
{
	struct cgroup_facts now;

	return cgroup_at(s->options.root, s->cgroup.path, &now) == -ENOENT;
}

/* Once other processes were in the cgroup, its values are not the job's alone and are not used
 * any more. */
void sampler_check_cgroup(struct sampler *s)
{
	struct facts *facts = job_facts(s->job);

	if (!s->cgroup.path[0] || s->options.cgroup == CGROUP_NONE ||
		(facts->cgroup_exclusive.known && !facts->cgroup_exclusive.value))
		return;
	if (facts->cgroup_exclusive.known && is_removed(s))
		return;
	s->cgroup.peak_is_ours = s->options.cgroup_made &&
				 strcmp(s->options.cgroup_made, s->cgroup.path) == 0;
	s->cgroup.exclusive = s->cgroup.peak_is_ours || is_exclusive(s);
	facts->cgroup_exclusive = known(s->cgroup.exclusive);
	facts->cgroup_peak_is_ours = known(s->cgroup.peak_is_ours);
}
