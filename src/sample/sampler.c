/* SPDX-License-Identifier: MIT */
#include "sample/sampler.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "sample/sampler_internal.h"

#define SECOND UINT64_C(1000000000)

enum {
	HOLD_PERIODS = 3,    /* a gauge is valid for this many periods of its source */
	GAP_INTERVALS = 10,  /* a longer delay, if also above GAP_LEAST, is reported as a gap */
	FAULTS_MEMBERS = 16, /* up to this many members, their faults are read in every sample */
	RECORDS_NS = 50000000,         /* exit records are read at least this often */
	FAULTS_INTERVAL_NS = 50000000, /* for intervals at least this long */
};
static const uint64_t gap_least_ns = 2 * SECOND;

/* ---- frames ---------------------------------------------------------------------------------- */

uint64_t sampler_time(const struct sampler *s)
{
	return s->start_boot_ns ? clock_boot_ns() - s->start_boot_ns : 0;
}

/* Programs that start tasks outside of their process tree, through a daemon on each node. mpirun
 * does so only on other nodes. */
static bool is_launcher(const char *name, bool many_nodes, bool one_node_seen)
{
	static const struct {
		const char *name;
		bool always;
	} launchers[] = {
		{ "srun", true },
		{ "aprun", true },
		{ "jsrun", true },
		{ "mpirun", false },
		{ "mpiexec", false },
		{ "mpiexec.hydra", false },
		{ "orterun", false },
		{ "prterun", false },
		{ "prun", false },
	};

	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (strcmp(launchers[i].name, name) == 0)
			return many_nodes || (launchers[i].always && !one_node_seen);
	}
	return false;
}

static void note_launchers(struct sampler *s, const struct frame *frame)
{
	struct facts *facts = job_facts(s->job);
	const bool many_nodes = facts->nodes.known && facts->nodes.value > 1;
	const bool one_node_seen = s->options.whole_job && facts->nodes.value == 1;

	for (size_t i = 0; i < frame->n_births; i++) {
		const struct birth *b = &frame->births[i];

		if (b->entity == ENTITY_PROCESS && b->process.name &&
			is_launcher(b->process.name, many_nodes, one_node_seen))
			facts->srun_seen = known(1);
	}
}

/* A run with a trigger is pinned in the history. */
static void note_triggers(struct sampler *s, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_events; i++) {
		if (frame->events[i].kind == EVENT_TRIGGER || frame->events[i].kind == EVENT_OOM)
			job_facts(s->job)->pinned = known(JOB_PINNED_BY_TRIGGER);
	}
}

void sampler_push(struct sampler *s, const struct frame *given)
{
	struct frame frame = *given;

	/* Times of frames never decrease within a run. */
	if (frame.time_ns < s->last_frame_ns)
		frame.time_ns = s->last_frame_ns;
	s->last_frame_ns = frame.time_ns;
	note_launchers(s, &frame);
	note_triggers(s, &frame);
	sampler_trigger_note(s, &frame);
	sampler_end_note(s, &frame);
	(void) job_apply(s->job, &frame);
	if (s->options.see) {
		s->showing++;
		s->options.see(s->options.see_ctx, &frame);
		s->showing--;
	}
}

void sampler_show(struct sampler *s, struct framebuf *buf, enum frame_source source, uint64_t time_ns,
	uint64_t hold_ns)
{
	if (!framebuf_is_empty(buf)) {
		struct frame frame = framebuf_frame(buf, source, time_ns, hold_ns);

		sampler_push(s, &frame);
	}
	framebuf_clear(buf);
}

static uint64_t memory_hold(const struct sampler *s)
{
	return HOLD_PERIODS * s->options.interval_ns;
}

static uint64_t window_hold(const struct sampler *s)
{
	return HOLD_PERIODS * s->options.window_ns;
}

/* ---- exit records ---------------------------------------------------------------------------- */

static void emit_note(struct sampler *s, uint64_t now, const char *text)
{
	const struct event event = { .time_ns = now, .kind = EVENT_NOTE, .entity = ENTITY_JOB, .text = text };

	framebuf_event(&s->buf, &event);
	sampler_show(s, &s->buf, FRAME_RECORDER, now, 0);
}

/* From here on exit records count as incomplete. */
static void report_lost_records(struct sampler *s, uint64_t now, const char *text)
{
	struct maybe *lost = &job_facts(s->job)->taskstats_lost;

	if (!lost->known)
		emit_note(s, now, text);
	*lost = known(1);
}

/* Reads the exit records. Returns whether records of unknown processes are pending. */
static bool apply_records(struct sampler *s, uint64_t now)
{
	const int r = taskstats_read(s->taskstats, s->processes, &s->buf);

	sampler_show(s, &s->buf, FRAME_TASKSTATS, now, memory_hold(s));
	if (r == -ENOBUFS)
		report_lost_records(
			s, now, "exit records: some were lost, because too many processes ended at once");
	if (r == 0 || r == -ENOBUFS)
		return taskstats_waits(s->taskstats);
	report_lost_records(s, now, "exit records: the kernel stopped sending them");
	taskstats_close(s->taskstats);
	s->taskstats = NULL;
	return false;
}

/* The record of a process that no sample has found stays pending in taskstats until after the
 * next search, which may find its zombie; so searches and reads alternate. The second read
 * precedes the frame with the observed ends, because a process whose parent is no longer a
 * member does not count as one. */
void sampler_records(struct sampler *s, uint64_t now)
{
	if (!s->taskstats)
		return;
	/* If no process was born, none can have lived between two samples, and the ends of known
	 * ones can wait. */
	if (now < s->next_records_ns && !processes_moved(s->processes) && !taskstats_waits(s->taskstats))
		return;
	s->next_records_ns = now + RECORDS_NS;
	sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
	if (!apply_records(s, now))
		return;
	(void) processes_scan(s->processes, SCAN_GATE, &s->buf);
	sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
	(void) apply_records(s, now);
}

/* The kernel queues the exit record of a process before its parent can wait for it. So the
 * records of children whose I/O is part of the values just read are applied before the next
 * total. */
void sampler_read(struct sampler *s, uint64_t now, unsigned what)
{
	(void) processes_read(s->processes, what, &s->buf);
	sampler_show(s, &s->buf, FRAME_PROCFS, now, window_hold(s));
	if (!(what & PROCESSES_IO))
		return;
	s->next_records_ns = 0;
	sampler_records(s, now);
}

/* ---- one sample of the processes ------------------------------------------------------------- */

/* The faults since a sample bound the memory used until the next one. Of few processes they are read
 * right after each size, together with CPU time; of many, after all sizes. */
static bool has_few(const struct sampler *s)
{
	return !s->options.everyone && s->options.interval_ns >= FAULTS_INTERVAL_NS &&
	       processes_count(s->processes) <= FAULTS_MEMBERS;
}

static void read_sizes(struct sampler *s, uint64_t now, unsigned with)
{
	(void) processes_read(s->processes, PROCESSES_MEMORY | with, &s->buf);
	sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
}

/* Reads the memory mapped on the whole machine, before and after the sizes of the members. */
static void read_machine(struct sampler *s, uint64_t now)
{
	const struct maybe before = host_mapped(s->options.root);
	struct maybe after;

	if (!before.known)
		return;
	read_sizes(s, now, 0);
	after = host_mapped(s->options.root);
	if (after.known)
		job_machine(s->job, before.value > after.value ? before.value : after.value);
}

void sampler_receive(struct sampler *s)
{
	if (s->taskstats)
		taskstats_receive(s->taskstats);
}

int sampler_records_fd(const struct sampler *s)
{
	const bool may_have_many = s->n_samples == 0 || job_facts_const(s->job)->processes_seen.value > 1;

	return s->taskstats && may_have_many ? taskstats_fd(s->taskstats) : -1;
}

static void read_faults(struct sampler *s, uint64_t now)
{
	sampler_read(s, now, PROCESSES_CPU);
	sampler_plan_pages(s, now);
}

/* Births and memory form one frame, slower groups another: their gauges are valid for different
 * times. */
void sampler_read_processes(struct sampler *s, uint64_t now, enum processes_scan how, unsigned extra)
{
	const unsigned rest = extra & PROCESSES_HWM ? 0 : PROCESSES_REST;
	unsigned needs = 0;
	bool faults;

	(void) processes_scan(s->processes, how, &s->buf);
	sampler_records(s, now);
	faults = has_few(s);
	read_sizes(s, now, faults ? PROCESSES_CPU | PROCESSES_ROTATE | rest : 0);
	if (!s->options.everyone)
		sampler_pss(s, now); /* may find new members: their faults are read afterwards */
	if (faults) /* already read with the memory */
		extra &= ~(unsigned) PROCESSES_CPU;
	if (!s->options.everyone)
		needs = job_needs(s->job);
	if (needs & NEED_HWM)
		extra |= PROCESSES_HWM | (job_has_faults(s->job) ? 0u : (unsigned) PROCESSES_CPU);
	if (needs & NEED_FAULTS) { /* the faults of all members, now */
		extra = (extra | (faults ? 0u : (unsigned) PROCESSES_CPU)) & ~(unsigned) PROCESSES_ROTATE;
		faults = true;
		sampler_plan_pages(s, now);
	}
	if (extra)
		sampler_read(s, now, extra);
	if (extra & PROCESSES_HWM) { /* belongs to the window that this sample ends */
		processes_bursts(s->processes, &s->buf);
		sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
	}
	if (!s->options.everyone) {
		const unsigned then = job_needs(s->job);

		if (then & ~needs & NEED_FAULTS) /* a process ended during the reads */
			read_faults(s, now);
		if (then & NEED_MACHINE)
			read_machine(s, now);
		job_total(s->job, now, &s->totals);
		sampler_show(s, &s->totals, FRAME_TOTALS, now, memory_hold(s));
	}
	sampler_plan_moved(s, now);
}

static bool is_due(uint64_t *next, uint64_t now, uint64_t period)
{
	if (now < *next)
		return false;
	*next += period;
	if (*next <= now) /* after a gap, skip periods instead of catching up */
		*next = now + period;
	return true;
}

static const unsigned slow_groups = PROCESSES_CPU | PROCESSES_IO | PROCESSES_HWM | PROCESSES_ROTATE;

static void sample(struct sampler *s, uint64_t now)
{
	bool window = is_due(&s->next_window_ns, now, s->options.window_ns);
	bool full = is_due(&s->next_full_search_ns, now, SECOND);

	sampler_plan_read(s, now, false);
	sampler_read_processes(s, now, full ? SCAN_FULL : SCAN_GATE, window ? slow_groups : 0);
	/* a process that joined before the last one left continues the job */
	if (full || job_alive(s->job) == 0)
		sampler_join(s, sampler_time(s));
	sampler_trigger_watch(s);
	sampler_gpu_step(s, now);
	if (window)
		s->window_closed = true;
	if (is_due(&s->next_cgroup_check_ns, now, 10 * SECOND))
		sampler_check_cgroup(s);
}

/* Between samples that are far apart, so that no process goes unnoticed. */
static void find_new(struct sampler *s, uint64_t now)
{
	(void) processes_scan(s->processes, SCAN_FULL, &s->buf);
	sampler_records(s, now);
	sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
}

void sampler_find(struct sampler *s)
{
	if (s->started && !s->ended && !s->showing) /* while a frame is shown, the buffer is in use */
		find_new(s, sampler_time(s));
}

/* Limited to a tenth of a core, however often it is called. */
void sampler_now(struct sampler *s)
{
	enum {
		SHARE = 10
	};
	const uint64_t now = sampler_time(s);

	if (!s->started || s->ended || now < s->next_now_ns)
		return;
	sampler_plan_read(s, now, false);
	sampler_read_processes(s, now, SCAN_GATE, slow_groups);
	s->next_now_ns = now + SHARE * (sampler_time(s) - now);
}

static uint32_t main_id(const struct sampler *s)
{
	const struct maybe pid = job_facts_const(s->job)->main_pid;

	return s->started && !s->ended && pid.known ? processes_id(s->processes, (pid_t) pid.value) : 0;
}

bool sampler_read_main(struct sampler *s)
{
	const uint32_t id = main_id(s);
	bool marked = false;

	if (id == 0)
		return false;
	(void) processes_read_some(s->processes, PROCESSES_MEMORY | PROCESSES_HWM, &id, 1, &s->buf);
	for (size_t i = 0; i < s->buf.n_readings; i++)
		marked |= s->buf.readings[i].metric == M_PROC_HWM && s->buf.readings[i].known;
	sampler_show(s, &s->buf, FRAME_PROCFS, sampler_time(s), memory_hold(s));
	return marked;
}

int sampler_reset_hwm(struct sampler *s)
{
	const uint32_t id = main_id(s);

	return id ? processes_reset_hwm(s->processes, id) : -ESRCH;
}

/* ---- the clock ------------------------------------------------------------------------------- */

const char *sampler_gap_cause(uint64_t gap_ns, uint64_t awake_ns, bool was_continued)
{
	if (gap_ns > awake_ns && gap_ns - awake_ns > gap_ns / 2)
		return "suspended";
	return was_continued ? "stopped" : "busy";
}

/* The commands block SIGCONT and read it from a descriptor, perhaps after this sample: the stop may
 * have come between the wait for a timer and the sample. */
static bool has_pending_continue(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1;
}

void sampler_continued(struct sampler *s)
{
	s->was_continued = true;
}

static void note_gap(struct sampler *s, uint64_t now, uint64_t gap, const char *cause)
{
	const struct event event = {
		.time_ns = now,
		.kind = EVENT_GAP,
		.entity = ENTITY_JOB,
		.value_ns = (int64_t) gap,
		.text = cause,
	};

	framebuf_event(&s->buf, &event);
	sampler_show(s, &s->buf, FRAME_RECORDER, now, 0);
}

static void count_sample(struct sampler *s, uint64_t now)
{
	const uint64_t interval = s->options.interval_ns;
	const uint64_t awake = clock_awake_ns(), gap = now - s->last_sample_ns;
	const char *cause = gap > GAP_INTERVALS * interval && gap > gap_least_ns
				    ? sampler_gap_cause(gap, awake - s->last_awake_ns,
					      s->was_continued || has_pending_continue())
				    : NULL;

	s->n_samples++;
	if (now > s->due_ns && now - s->due_ns > interval)
		s->n_late++;
	if (now > s->due_ns)
		s->n_skipped += (now - s->due_ns) / interval;
	if (gap > s->longest_gap_ns) {
		s->longest_gap_ns = gap;
		s->longest_gap_cause = cause;
	}
	if (cause)
		note_gap(s, now, gap, cause);
	s->last_sample_ns = now;
	s->last_awake_ns = awake;
	s->was_continued = false;
	s->due_ns += interval;
	if (s->due_ns <= now)
		s->due_ns = now - (now - s->due_ns) % interval + interval;
}

/* With an interval above a second the timer still fires each second, to find new processes. */
int sampler_set_timer(struct sampler *s, uint64_t at_ns, uint64_t period_ns)
{
	const uint64_t at = at_ns ? s->start_boot_ns + at_ns : 0;
	const struct itimerspec when = {
		.it_interval = { (time_t) (period_ns / SECOND), (long) (period_ns % SECOND) },
		.it_value = { (time_t) (at / SECOND), (long) (at % SECOND) },
	};

	if (s->timer < 0) /* may_lack_clock */
		return 0;
	return timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &when, NULL) < 0 ? -errno : 0;
}

int sampler_start_clock(struct sampler *s)
{
	const uint64_t interval = s->options.interval_ns;

	if (s->timer < 0)
		emit_note(s, 0, s->clock_why);
	s->due_ns = interval;
	s->last_awake_ns = clock_awake_ns();
	return interval > SECOND ? sampler_set_timer(s, SECOND, 0) : sampler_set_timer(s, interval, interval);
}

int sampler_set_interval(struct sampler *s, uint64_t interval_ns)
{
	const uint64_t now = sampler_time(s), window = interval_ns > SECOND ? interval_ns : SECOND;

	if (!s->started || s->ended)
		return -ESRCH;
	s->options.interval_ns = interval_ns;
	s->options.window_ns = window;
	s->last_sample_ns = now; /* a pause until now is not a gap */
	s->last_awake_ns = clock_awake_ns();
	s->due_ns = now + interval_ns;
	if (s->next_window_ns > now + window)
		s->next_window_ns = now + window;
	sampler_plan_pace(s);
	if (s->gpus.helper)
		gpu_helper_set_interval(s->gpus.helper, interval_ns);
	return interval_ns > SECOND ? sampler_set_timer(s, now + SECOND, 0)
				    : sampler_set_timer(s, s->due_ns, interval_ns);
}

bool sampler_step(struct sampler *s)
{
	uint64_t expirations, now;

	if (!s->started || s->ended ||
		read(s->timer, &expirations, sizeof(expirations)) != sizeof(expirations))
		return false;
	now = sampler_time(s);
	s->outlived_main = job_facts_const(s->job)->main_ended_ns.known;
	if (now >= s->due_ns) {
		count_sample(s, now);
		sample(s, now);
	} else {
		find_new(s, now);
		sampler_gpu_step(s, now);
	}
	if (s->options.interval_ns > SECOND)
		(void) sampler_set_timer(s, s->due_ns < now + SECOND ? s->due_ns : now + SECOND, 0);
	return true;
}

const char *sampler_clock_why(const struct sampler *s)
{
	return s->clock_why;
}

int sampler_fd(const struct sampler *s)
{
	return s->timer;
}

bool sampler_window_closed(struct sampler *s)
{
	bool closed = s->window_closed;

	s->window_closed = false;
	return closed;
}
