/* SPDX-License-Identifier: MIT
 *
 * Triggers: instants whose last minutes are kept at full rate. Each is an event, and pins the run
 * in the history.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "sample/sampler_internal.h"

enum {
	MOST_TRIGGERS = 64,
	MOST_FAULTS = 8 /* of members: leaves triggers for the end of a job that survives them */
};

/* a crash ends other processes too: only the first within this time counts */
#define BURST_NS UINT64_C(10000000000)

void sampler_trigger(struct sampler *s, const char *why)
{
	sampler_trigger_at(s, sampler_time(s), why);
}

void sampler_trigger_at(struct sampler *s, uint64_t time_ns, const char *why)
{
	const uint64_t now = sampler_time(s);
	const struct event event = {
		.time_ns = time_ns, .kind = EVENT_TRIGGER, .entity = ENTITY_JOB, .text = why
	};

	if (!s->started || s->ended || s->triggers >= MOST_TRIGGERS)
		return;
	s->triggers++;
	framebuf_event(&s->buf, &event);
	sampler_show(s, &s->buf, FRAME_RECORDER, now, 0);
}

/* ---- faults of members ----------------------------------------------------------------------- */

/* Signals caused by the program itself. Parents end their workers with SIGKILL and SIGTERM also
 * in normal operation, and OOM kills are reported separately. */
static bool is_own_fault(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
	       signal == SIGABRT || signal == SIGSYS;
}

/* Frames are shown from the buffer into which a trigger would be written, so the trigger waits
 * for the end of the sample. */
void sampler_trigger_note(struct sampler *s, const struct frame *frame)
{
	struct faults *f = &s->faults;

	for (size_t i = 0; i < frame->n_ends && f->id == 0; i++) {
		const struct end *end = &frame->ends[i];
		const struct process *p = end->entity == ENTITY_PROCESS ? job_process_by_id(s->job, end->id)
									: NULL;

		if (!end->status_known || !WIFSIGNALED(end->status) || !is_own_fault(WTERMSIG(end->status)))
			continue;
		/* already reported, or reported at the end as the job's */
		if (p && (p->status_known || (p->is_main && s->options.ours)))
			continue;
		f->id = end->id;
		f->signal = WTERMSIG(end->status);
	}
}

static void faults_watch(struct sampler *s)
{
	struct faults *f = &s->faults;
	const struct process *p = f->id ? job_process_by_id(s->job, f->id) : NULL;
	const uint64_t now = sampler_time(s);
	char why[64];

	f->id = 0;
	if (!p || job_facts_const(s->job)->stopped_by.known || now < f->quiet_until_ns ||
		f->reported >= MOST_FAULTS)
		return;
	f->reported++;
	f->quiet_until_ns = now + BURST_NS;
	(void) snprintf(why, sizeof(why), "signal %d ended %.15s[%d]", f->signal, p->name, p->pid);
	sampler_trigger(s, why);
}

/* ---- the job --------------------------------------------------------------------------------- */

/* OOM kills in the job's own cgroup are reported as they are counted, if it is still its own:
 * others may have joined since the last check. */
void sampler_trigger_watch(struct sampler *s)
{
	const struct acc *acc = job_acc(s->job, M_JOB_OOM_KILLS, 0);

	faults_watch(s);
	if (!s->cgroup.exclusive || !acc || acc->last - acc->min <= s->oom.reported)
		return;
	s->oom.reported = acc->last - acc->min;
	sampler_check_cgroup(s);
	if (s->cgroup.exclusive)
		sampler_trigger(s, "out of memory: the kernel killed a process in the job's cgroup");
}

/* Signals with which a user ends a job are not faults. */
static bool is_fault(int signal)
{
	return signal != SIGINT && signal != SIGTERM && signal != SIGHUP && signal != SIGPIPE &&
	       signal != SIGQUIT && signal != SIGALRM;
}

void sampler_trigger_end(struct sampler *s)
{
	const struct facts *f = job_facts_const(s->job);
	char why[64];

	faults_watch(s);
	if (job_oom_events(s->job) > 0 && s->oom.reported == 0)
		sampler_trigger(s, "out of memory: the kernel killed a process of the job");
	if (!f->exit_status.known || !WIFSIGNALED((int) f->exit_status.value) || f->stopped_by.known ||
		!is_fault(WTERMSIG((int) f->exit_status.value)))
		return;
	/* reported as a member's */
	if (!s->options.ours && is_own_fault(WTERMSIG((int) f->exit_status.value)))
		return;
	(void) snprintf(why, sizeof(why), "signal %d ended the job", WTERMSIG((int) f->exit_status.value));
	sampler_trigger(s, why);
}
