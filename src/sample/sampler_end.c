/* SPDX-License-Identifier: MIT
 *
 * The end of a run: the last that a zombie says, what was reaped, who lives on, what hiwater itself cost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sample/sampler_internal.h"

enum {
	LEFT_NAMED = 8
};

static uint64_t hold(const struct sampler *s)
{
	return 3 * s->options.interval_ns;
}

/* Processor time of its own: what it is told of when it is waited for has its children's, too. An exit record has it more exactly. */
static void zombie_cpu(struct sampler *s)
{
	if (s->zombie.id == 0 || s->taskstats)
		return;
	framebuf_value(&s->buf, M_PROC_CPU_USER, s->zombie.id, s->zombie.cpu_user_ns.value);
	framebuf_value(&s->buf, M_PROC_CPU_SYSTEM, s->zombie.id, s->zombie.cpu_system_ns.value);
	sampler_show(s, &s->buf, FRAME_PROCFS, sampler_time(s), hold(s));
}

/* The kernel queues the exit record before it shows the zombie, so both are here now: also of those that no look has
 * found, while main is there to be their parent. */
static void main_zombie(struct sampler *s, pid_t pid)
{
	struct facts *facts = job_facts(s->job);

	bool ignored_sigchld;

	if (processes_zombie(s->processes, pid, &s->zombie, &ignored_sigchld) == 0) {
		facts->main_zombie_cminflt = s->zombie.faults_waited;
		facts->main_faults = maybe_sum(s->zombie.faults_minor, s->zombie.faults_major);
		facts->main_ignored_sigchld = known(ignored_sigchld);
		zombie_cpu(s);
	}
	if (!s->taskstats)
		return;
	(void) processes_look(s->processes, LOOK_GATE, &s->buf);
	s->next_records_ns = 0;
	sampler_records(s, sampler_time(s));
}

/* Where there are no exit records, an orphan that no look found is known by what it leaves. */
static void orphan_zombie(struct sampler *s, pid_t pid)
{
	bool ignored_sigchld;

	if (processes_is_ignored(s->processes, pid))
		return;
	if (!s->taskstats && processes_orphan(s->processes, pid, &s->buf))
		sampler_show(s, &s->buf, FRAME_PROCFS, sampler_time(s), hold(s));
	if (processes_zombie(s->processes, pid, &s->zombie, &ignored_sigchld) == 0)
		zombie_cpu(s);
}

/* Once it has ended, its number may be an orphan's. */
static bool is_main(struct sampler *s, pid_t pid)
{
	const struct facts *facts = job_facts(s->job);

	return facts->main_pid.known && facts->main_pid.value == pid && !facts->main_ended_ns.known;
}

void sampler_zombie(struct sampler *s, pid_t pid)
{
	if (!s->started)
		return;
	s->zombie_pid = pid;
	s->zombie = (struct end) { 0 };
	processes_zombie_io(s->processes, pid, &s->zombie_io);
	if (is_main(s, pid))
		main_zombie(s, pid);
	else
		orphan_zombie(s, pid);
}

static void add(struct maybe *sum, struct maybe value)
{
	if (value.known)
		*sum = known(sum->value + value.value);
}

static void end_of_main(struct sampler *s, uint64_t now, struct end *end)
{
	struct facts *facts = job_facts(s->job);

	facts->main_maxrss_bytes = end->maxrss_bytes;
	if (end->status_known)
		facts->exit_status = known(end->status);
	facts->main_ended_ns = known((int64_t) now);
}

/* Its number may be the job's next. */
static void forget_ignored(struct sampler *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_ignored; i++) {
		if (s->ignored[i] == pid)
			s->ignored[i--] = s->ignored[--s->n_ignored];
	}
}

void sampler_reaped(struct sampler *s, pid_t pid, const struct end *facts_of_it)
{
	struct facts *facts = job_facts(s->job);
	struct end end = *facts_of_it;
	uint64_t now = sampler_time(s);

	if (!s->started) {
		forget_ignored(s, pid);
		return;
	}
	sampler_gpu_reaped(s, pid, end.status);
	if (!processes_is_ignored(s->processes, pid)) {
		add(&facts->reaped_user_ns, end.cpu_user_ns);
		add(&facts->reaped_system_ns, end.cpu_system_ns);
	}
	if (s->zombie_pid == pid)
		end.faults_waited = s->zombie.faults_waited;
	if (s->zombie_pid == pid && s->zombie_io.read_bytes.known)
		end.io = s->zombie_io;
	s->zombie_pid = 0;
	if (is_main(s, pid))
		end_of_main(s, now, &end);
	if (processes_reaped(s->processes, pid, &end, &s->buf))
		sampler_show(s, &s->buf, FRAME_PROCFS, now, hold(s));
}

/* Who was attached to is nobody's here to wait for; the kernel's exit record has its status. Of several each has its
 * own. */
void sampler_end_note(struct sampler *s, const struct frame *frame)
{
	struct facts *facts = job_facts(s->job);

	for (size_t i = 0; i < frame->n_ends && !s->options.ours && s->n_attached == 1; i++) {
		const struct end *end = &frame->ends[i];
		const struct process *p = end->entity == ENTITY_PROCESS ? job_process_by_id(s->job, end->id) : NULL;

		if (p && p->is_main && end->how == END_TASKSTATS && end->status_known)
			facts->exit_status = known(end->status);
	}
}

/* ---- what lives on ---------------------------------------------------------------------------------------------- */

static void name_left(struct buf *names, const struct process *process, size_t count)
{
	if (count < LEFT_NAMED)
		(void) buf_printf(names, "%s%s (%d)", count ? ", " : "", process->name, (int) process->pid);
	else if (count == LEFT_NAMED)
		(void) buf_str(names, ", ...");
}

static void end_left(struct sampler *s, uint64_t now)
{
	struct facts *facts = job_facts(s->job);
	struct buf names = BUF_INIT(1024);
	size_t left = 0;

	for (size_t i = 0; i < job_process_count(s->job); i++) {
		const struct process *process = job_process(s->job, i);
		const struct end end = { .entity = ENTITY_PROCESS, .id = process->id, .how = END_LEFT };

		if (process->ended)
			continue;
		name_left(&names, process, left++);
		framebuf_end(&s->buf, &end);
	}
	if (!s->foreign)
		facts->processes_left = known((int64_t) left);
	if (left)
		(void) job_set_text(&facts->left_names, names.data);
	buf_done(&names);
	sampler_show(s, &s->buf, FRAME_PROCFS, now, hold(s));
}

/* ---- is the processor time exact? ------------------------------------------------------------------------------- */

/* What the members were seen to use themselves; more than what was reaped means that somebody was not waited for. */
static int64_t seen_cpu(const struct sampler *s)
{
	int64_t sum = 0;

	for (size_t i = 0; i < job_process_count(s->job); i++) {
		const struct process *process = job_process(s->job, i);

		sum += process->cpu_user_ns + process->cpu_system_ns;
	}
	return sum;
}

static void settle_cpu(struct sampler *s)
{
	struct facts *facts = job_facts(s->job);
	int64_t reaped = facts->reaped_user_ns.value + facts->reaped_system_ns.value;
	const int64_t slack = 20000000 + reaped / 100; /* clock ticks of stat against the scheduler's own clock */

	if (!s->options.ours || s->foreign || !facts->exit_status.known)
		facts->cpu_is_exact = known(0);
	else if (!facts->cpu_is_exact.known)
		facts->cpu_is_exact = known(facts->processes_left.value == 0 &&
					    processes_unwaited(s->processes) == 0 &&
					    seen_cpu(s) <= reaped + slack);
}

/* ---- own cost ----------------------------------------------------------------------------------------------------- */

void sampler_cost(struct sampler *s)
{
	struct facts *facts = job_facts(s->job);
	uint64_t rss, hwm;
	const char *why_not;

	if (s->ended) /* it was recorded then */
		return;
	facts->ticks = known((int64_t) s->ticks);
	facts->late_ticks = known((int64_t) s->late);
	facts->longest_gap_ns = known((int64_t) s->longest_gap_ns);
	facts->own_cpu_ns = known((int64_t) counter_delta(s->own_cpu_at_start_ns, clock_process_cpu_ns()) +
				  facts->gpu_helper_cpu_ns.value);
	if (s->processes) {
		facts->gate = known(processes_gate_works(s->processes, &why_not));
		facts->processes_hidden = known((int64_t) processes_hidden(s->processes));
		if (facts->processes_hidden.value > 0 && s->options.root->live)
			facts->refused_with_ptrace = known(self_has_ptrace(s->options.root));
	}
	if (self_memory(s->options.root, &rss, &hwm) == 0)
		facts->own_rss_bytes = known((int64_t) hwm + facts->gpu_helper_rss_bytes.value);
}

/* The run ends with the last that was told of it: main's end, or that of whoever was followed beyond it. Returns the time of
 * the last look: now, where there is somebody to be looked at. */
static uint64_t end_run(struct sampler *s)
{
	struct facts *facts = job_facts(s->job);
	const struct maybe main = facts->main_ended_ns;
	const uint64_t told = main.known && (uint64_t) main.value > s->last_frame_ns ? (uint64_t) main.value : s->last_frame_ns;
	const bool alive = processes_count(s->processes) > 0;
	const uint64_t now = alive || !main.known ? sampler_time(s) : told;

	facts->ended_ns = known((int64_t) (s->went_on || !main.known ? now : told));
	return now;
}

void sampler_end(struct sampler *s)
{
	const unsigned all = PROCESSES_MEMORY | PROCESSES_CPU | PROCESSES_IO | PROCESSES_MARKS;
	uint64_t now;

	if (!s->started || s->ended)
		return;
	sampler_gpu_ask_last(s);
	now = end_run(s);
	sampler_plan_read(s, now, true);
	(void) processes_look(s->processes, LOOK_FULL, &s->buf);
	sampler_join(s, now);
	s->next_records_ns = 0;
	sampler_records(s, now);
	sampler_read(s, now, all);
	job_total(s->job, now, &s->totals);
	sampler_show(s, &s->totals, FRAME_TOTALS, now, hold(s));
	sampler_check_cgroup(s);
	sampler_oom_end(s, now);
	sampler_trigger_end(s);
	sampler_gpu_end(s, now);
	end_left(s, now);
	settle_cpu(s);
	sampler_cost(s);
	job_end(s->job, now, &s->totals);
	sampler_show(s, &s->totals, FRAME_TOTALS, now, hold(s));
	(void) sampler_set_timer(s, 0, 0);
	s->window_closed = true;
	s->ended = true;
	/* Where few files may be open, the summary needs some. */
	sampler_plan_close(s);
	taskstats_close(s->taskstats);
	s->taskstats = NULL;
}
