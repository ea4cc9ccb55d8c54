/* SPDX-License-Identifier: MIT
 *
 * OOM kills: counted from before the job's start, attributed to processes at the end.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "sample/sampler_internal.h"

void sampler_oom_log(struct sampler *s)
{
	if (s->oom.log < 0)
		s->oom.log = oom_log_open(s->options.root);
}

/* A cgroup created for the job starts at zero. */
void sampler_oom_cgroup(struct sampler *s)
{
	const char *made = s->options.cgroup_made;
	struct maybe before = UNKNOWN;

	if (!s->cgroup.path[0])
		return;
	if (strcmp(s->cgroup.path, s->early.path) == 0)
		before = s->early.cgroup_oom_kills;
	else if (made && strcmp(s->cgroup.path, made) == 0)
		before = known(0);
	if (before.known)
		framebuf_value(&s->buf, M_JOB_OOM_KILLS, 0, before.value);
	sampler_show(s, &s->buf, FRAME_CGROUP, sampler_time(s), 3 * s->options.window_ns);
}

/* ---- at the end ------------------------------------------------------------------------------ */

static bool may_be_killed(const struct process *p)
{
	return p->ended && (!p->status_known || (WIFSIGNALED(p->status) && WTERMSIG(p->status) == SIGKILL));
}

/* The youngest member with this pid that may have been killed. */
static const struct process *find_victim(const struct job *job, const struct oom_victim *victim)
{
	const struct process *found = NULL;

	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		if (p->pid == victim->pid && may_be_killed(p) && (!found || p->start_ns > found->start_ns))
			found = p;
	}
	return found;
}

/* If the machine counted no OOM kill, the log need not be read. */
static bool has_oom_kills(const struct job *job)
{
	const struct acc *acc = job_acc(job, M_HOST_OOM_KILLS, 0);

	return !acc || acc->last > acc->min;
}

static void append_oom_event(struct sampler *s, const struct oom_victim *victim, uint64_t now_ns)
{
	const struct process *p = find_victim(s->job, victim);
	struct event event = {
		.time_ns = now_ns, .kind = EVENT_OOM, .entity = ENTITY_PROCESS, .text = victim->name
	};

	if (!p)
		return;
	event.id = p->id;
	framebuf_event(&s->buf, &event);
}

/* If the kernel overwrote part of its log, a name may be missing. */
void sampler_oom_end(struct sampler *s, uint64_t now_ns)
{
	enum {
		MOST = 64
	};
	struct oom_victim victim;
	bool lost = false;
	int r = 1;

	if (s->oom.log < 0 || !has_oom_kills(s->job))
		return;
	for (int i = 0; i < MOST && (r == 1 || r == -EPIPE); i++) {
		r = oom_log_next(s->oom.log, &victim);
		lost |= r < 0;
		if (r == 1)
			append_oom_event(s, &victim, now_ns);
	}
	job_facts(s->job)->oom_log = known(r == 0 && !lost);
	sampler_show(s, &s->buf, FRAME_RECORDER, now_ns, 0);
}
