/* SPDX-License-Identifier: MIT
 *
 * The black box's triggers: instants whose last minutes are worth keeping. Each is an event; the recording keeps the
 * full rate around it, and the history keeps the run.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "sample/sampler_internal.h"

enum {
	MOST_TRIGGERS = 64
};

void sampler_trigger(struct sampler *s, const char *why)
{
	const uint64_t now = sampler_time(s);
	const struct event event = { .time_ns = now, .kind = EVENT_TRIGGER, .entity = ENTITY_JOB, .text = why };

	if (!s->started || s->ended || s->triggers >= MOST_TRIGGERS)
		return;
	s->triggers++;
	framebuf_event(&s->buf, &event);
	sampler_show(s, &s->buf, FRAME_RECORDER, now, 0);
}

/* Kills in the job's own cgroup are told of as they are counted. */
void sampler_trigger_watch(struct sampler *s)
{
	const struct acc *acc = job_acc(s->job, M_JOB_OOM_KILLS, 0);

	if (!s->cgroup.exclusive || !acc || acc->last - acc->min <= s->oom.told)
		return;
	s->oom.told = acc->last - acc->min;
	sampler_trigger(s, "out of memory: the kernel killed a process in the job's cgroup");
}

/* Signals by which somebody ends a job on purpose are none of its faults. */
static bool is_fault(int signal)
{
	return signal != SIGINT && signal != SIGTERM && signal != SIGHUP && signal != SIGPIPE && signal != SIGQUIT &&
	       signal != SIGALRM;
}

void sampler_trigger_end(struct sampler *s)
{
	const struct facts *f = job_facts_const(s->job);
	char why[64];

	if (job_oom_events(s->job) > 0 && s->oom.told == 0)
		sampler_trigger(s, "out of memory: the kernel killed a process of the job");
	if (!f->exit_status.known || !WIFSIGNALED((int) f->exit_status.value) || f->stopped_by.known ||
		!is_fault(WTERMSIG((int) f->exit_status.value)))
		return;
	(void) snprintf(why, sizeof(why), "signal %d ended the job", WTERMSIG((int) f->exit_status.value));
	sampler_trigger(s, why);
}
