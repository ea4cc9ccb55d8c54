/* SPDX-License-Identifier: MIT
 *
 * The end of a run: the last values of zombies, reaped processes, processes still running, and
 * hiwater's own cost.
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

/* CPU time of the process alone: the rusage of a reaped process includes its children. Exit
 * records are more exact. */
static void zombie_cpu(struct sampler *s)
{
	if (s->zombie.id == 0 || s->taskstats)
		return;
	framebuf_value(&s->buf, M_PROC_CPU_USER, s->zombie.id, s->zombie.cpu_user_ns.value);
	framebuf_value(&s->buf, M_PROC_CPU_SYSTEM, s->zombie.id, s->zombie.cpu_system_ns.value);
	sampler_show(s, &s->buf, FRAME_PROCFS, sampler_time(s), hold(s));
}

/* The kernel queues the exit record before the zombie appears, so both are available now, also
 * those of processes that no sample has found, while the main process still exists as their
 * parent. */
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
	(void) processes_scan(s->processes, SCAN_GATE, &s->buf);
	s->next_records_ns = 0;
	sampler_records(s, sampler_time(s));
}

/* Without exit records, an orphan that no sample found is recorded from its zombie. */
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

/* After its end, its pid may be reused by an orphan. */
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

static void set_main_end(struct sampler *s, uint64_t now, struct end *end)
{
	struct facts *facts = job_facts(s->job);

	facts->main_maxrss_bytes = end->maxrss_bytes;
	if (end->status_known)
		facts->exit_status = known(end->status);
	facts->main_ended_ns = known((int64_t) now);
}

/* Its pid may be reused by the job. */
static void forget_ignored(struct sampler *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_ignored; i++) {
		if (s->ignored[i] == pid)
			s->ignored[i--] = s->ignored[--s->n_ignored];
	}
}

static uint64_t touched_by(const struct sampler *s, const struct process *p)
{
	const uint64_t tick_ns = s->machine.clock_tick_ns;

	return p->pid > 0 && tick_ns > 0
		       ? s->env.touched(s->env.touched_ctx, p->pid, p->start_ns / tick_ns)
		       : 0;
}

/* source_env.touched: ru_maxrss of a process that waited for others is that of one of them, most likely that with
 * the largest peak. */
static void subtract_touched(const struct sampler *s, pid_t pid, struct end *end)
{
	const bool is_own = end->faults_waited.known && end->faults_waited.value == 0;
	int64_t largest = 0, touched = 0;

	if (!s->env.touched || !end->maxrss_bytes.known)
		return;
	if (is_own)
		touched = (int64_t) s->env.touched(s->env.touched_ctx, pid, 0);
	for (size_t i = 0; !is_own && i < job_process_count(s->job); i++) {
		const struct process *p = job_process(s->job, i);
		const int64_t its = (int64_t) touched_by(s, p);

		if (p->peak_bytes + its <= largest)
			continue;
		largest = p->peak_bytes + its;
		touched = its;
	}
	end->maxrss_bytes.value = larger(end->maxrss_bytes.value - touched, 0);
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
	subtract_touched(s, pid, &end);
	s->zombie_pid = 0;
	if (is_main(s, pid))
		set_main_end(s, now, &end);
	if (processes_reaped(s->processes, pid, &end, &s->buf))
		sampler_show(s, &s->buf, FRAME_PROCFS, now, hold(s));
}

/* hiwater does not wait for an attached process; the kernel's exit record has its status. With
 * several attached processes there is no single status. */
void sampler_end_note(struct sampler *s, const struct frame *frame)
{
	struct facts *facts = job_facts(s->job);

	for (size_t i = 0; i < frame->n_ends && !s->options.ours && s->n_attached == 1; i++) {
		const struct end *end = &frame->ends[i];
		const struct process *p = end->entity == ENTITY_PROCESS ? job_process_by_id(s->job, end->id)
									: NULL;

		if (p && p->is_main && end->how == END_TASKSTATS && end->status_known)
			facts->exit_status = known(end->status);
	}
}

/* ---- processes still running ----------------------------------------------------------------- */

static void name_left(struct buf *names, const struct process *process, size_t count)
{
	if (count < LEFT_NAMED)
		(void) buf_printf(names, "%s%s (%d)", count ? ", " : "", process->name, (int) process->pid);
	else if (count == LEFT_NAMED)
		(void) buf_str(names, ", ...");
}

static void end_remaining(struct sampler *s, uint64_t now)
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

/* ---- is the CPU time exact? ------------------------------------------------------------------ */

/* CPU time of the members as sampled; if it exceeds that of the reaped processes, one was not
 * waited for. */
static int64_t sampled_cpu(const struct sampler *s)
{
	int64_t sum = 0;

	for (size_t i = 0; i < job_process_count(s->job); i++) {
		const struct process *process = job_process(s->job, i);

		sum += process->cpu_user_ns + process->cpu_system_ns;
	}
	return sum;
}

static void check_cpu_is_exact(struct sampler *s)
{
	struct facts *facts = job_facts(s->job);
	int64_t reaped = facts->reaped_user_ns.value + facts->reaped_system_ns.value;
	const int64_t slack = 20000000 + reaped / 100; /* clock ticks of stat versus the scheduler's clock */

	if (!s->options.ours || s->foreign || !facts->exit_status.known)
		facts->cpu_is_exact = known(0);
	else if (!facts->cpu_is_exact.known)
		facts->cpu_is_exact = known(facts->processes_left.value == 0 &&
					    processes_unwaited(s->processes) == 0 &&
					    sampled_cpu(s) <= reaped + slack);
}

/* ---- own cost -------------------------------------------------------------------------------- */

void sampler_cost(struct sampler *s)
{
	struct facts *facts = job_facts(s->job);
	uint64_t rss, hwm;
	const char *why_not;

	if (s->ended) /* already recorded */
		return;
	facts->samples = known((int64_t) s->n_samples);
	facts->late_samples = known((int64_t) s->n_late);
	facts->skipped_samples = known((int64_t) s->n_skipped);
	facts->longest_gap_ns = known((int64_t) s->longest_gap_ns);
	if (s->longest_gap_cause)
		(void) job_set_text(&facts->longest_gap_cause, s->longest_gap_cause);
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

/* The run ends with its last event: the end of the main process, or of processes followed beyond
 * it. Returns the time of the last sample, which is now if a process is alive. */
static uint64_t end_run(struct sampler *s)
{
	struct facts *facts = job_facts(s->job);
	const struct maybe main = facts->main_ended_ns;
	const uint64_t last_ns = main.known && (uint64_t) main.value > s->last_frame_ns
					 ? (uint64_t) main.value
					 : s->last_frame_ns;
	const bool alive = processes_count(s->processes) > 0;
	const uint64_t now = alive || !main.known ? sampler_time(s) : last_ns;

	facts->ended_ns = known((int64_t) (s->outlived_main || !main.known ? now : last_ns));
	return now;
}

void sampler_end(struct sampler *s)
{
	const unsigned all = PROCESSES_MEMORY | PROCESSES_CPU | PROCESSES_IO | PROCESSES_HWM;
	uint64_t now;

	if (!s->started || s->ended)
		return;
	sampler_gpu_request_last(s);
	now = end_run(s);
	sampler_plan_read(s, now, true);
	(void) processes_scan(s->processes, SCAN_FULL, &s->buf);
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
	end_remaining(s, now);
	check_cpu_is_exact(s);
	sampler_cost(s);
	job_end(s->job, now, &s->totals);
	sampler_show(s, &s->totals, FRAME_TOTALS, now, hold(s));
	(void) sampler_set_timer(s, 0, 0);
	s->window_closed = true;
	s->ended = true;
	/* With a low limit of open files, the summary needs these descriptors. */
	sampler_plan_close(s);
	taskstats_close(s->taskstats);
	s->taskstats = NULL;
}
