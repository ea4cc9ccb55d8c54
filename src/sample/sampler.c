/* SPDX-License-Identifier: MIT */
#include "sample/sampler.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "sample/sampler_internal.h"

#define SECOND UINT64_C(1000000000)

enum {
	HOLD_PERIODS = 3,    /* of a source's periods, a gauge may stand for itself */
	GAP_INTERVALS = 10,  /* more than so many missed ticks, and more than GAP_LEAST, is a gap */
	FAULTS_MEMBERS = 16, /* up to so many members their faults are read at every tick */
	RECORDS_NS = 50000000,         /* exit records of members are asked for so often at least */
	FAULTS_INTERVAL_NS = 50000000, /* if ticks are not closer than this */
};
static const uint64_t gap_least_ns = 2 * SECOND;

/* ---- frames ------------------------------------------------------------------------------------------------------- */

uint64_t sampler_time(const struct sampler *s)
{
	return s->start_boot_ns ? clock_boot_ns() - s->start_boot_ns : 0;
}

/* Programs whose tasks are none of their descendants: a daemon on each node starts those. mpirun does so on other nodes
 * than its own. */
static bool is_launcher(const char *name, bool many_nodes)
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
			return launchers[i].always || many_nodes;
	}
	return false;
}

static void note_launchers(struct sampler *s, const struct frame *frame)
{
	struct facts *facts = job_facts(s->job);
	const bool many_nodes = facts->nodes.known && facts->nodes.value > 1;

	for (size_t i = 0; i < frame->n_births; i++) {
		const struct birth *b = &frame->births[i];

		if (b->entity == ENTITY_PROCESS && b->process.name && is_launcher(b->process.name, many_nodes))
			facts->srun_seen = known(1);
	}
}

/* Whatever is worth a trigger is worth keeping the run. */
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

	/* Frames of one run never go back. */
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

/* ---- exit records --------------------------------------------------------------------------------------------------- */

static void note(struct sampler *s, uint64_t now, const char *text)
{
	const struct event event = { .time_ns = now, .kind = EVENT_NOTE, .entity = ENTITY_JOB, .text = text };

	framebuf_event(&s->buf, &event);
	sampler_show(s, &s->buf, FRAME_RECORDER, now, 0);
}

/* From then on it is as if some were lost. */
static void records_lost(struct sampler *s, uint64_t now, const char *text)
{
	struct maybe *lost = &job_facts(s->job)->taskstats_lost;

	if (!lost->known)
		note(s, now, text);
	*lost = known(1);
}

/* Returns whether some wait for a look. */
static bool take_records(struct sampler *s, uint64_t now)
{
	const int r = taskstats_read(s->taskstats, s->processes, &s->buf);

	sampler_show(s, &s->buf, FRAME_TASKSTATS, now, memory_hold(s));
	if (r == -ENOBUFS)
		records_lost(s, now, "exit records: some were lost, because too many processes ended at once");
	if (r == 0 || r == -ENOBUFS)
		return taskstats_waits(s->taskstats);
	records_lost(s, now, "exit records: the kernel stopped sending them");
	taskstats_close(s->taskstats);
	s->taskstats = NULL;
	return false;
}

/* The record of a process that no look has found waits in taskstats for the call after the next look, which may find
 * its zombie: so looks and calls take turns. The second turn comes before the ends that were seen are told, because one
 * whose parent is no member any more is a stranger. */
void sampler_records(struct sampler *s, uint64_t now)
{
	if (!s->taskstats)
		return;
	/* Where nobody was born, nobody lived between two looks, and the ends of those that are known can wait. */
	if (now < s->next_records_ns && !processes_moved(s->processes) && !taskstats_waits(s->taskstats))
		return;
	s->next_records_ns = now + RECORDS_NS;
	sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
	if (!take_records(s, now))
		return;
	(void) processes_look(s->processes, LOOK_GATE, &s->buf);
	sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
	(void) take_records(s, now);
}

/* The kernel queues the record of a process before its parent can wait for it: whatever of others is in the I/O that was
 * read here is told of before a total is made of it. */
void sampler_read(struct sampler *s, uint64_t now, unsigned what)
{
	(void) processes_read(s->processes, what, &s->buf);
	sampler_show(s, &s->buf, FRAME_PROCFS, now, window_hold(s));
	if (!(what & PROCESSES_IO))
		return;
	s->next_records_ns = 0;
	sampler_records(s, now);
}

/* ---- one look at the processes ------------------------------------------------------------------------------------ */

/* What is used between two samples is bounded by the faults since the first of them, so they are read with the memory, right behind it,
 * where that costs little. CPU time comes with them. */
static bool faults_are_cheap(const struct sampler *s)
{
	const size_t n = processes_count(s->processes);

	return s->options.interval_ns >= FAULTS_INTERVAL_NS && n <= FAULTS_MEMBERS;
}

/* What the whole machine has mapped, before and after sizes that are read between. */
static void read_machine(struct sampler *s, uint64_t now)
{
	const struct maybe before = host_mapped(s->options.root);
	struct maybe after;

	if (!before.known)
		return;
	(void) processes_read(s->processes, PROCESSES_MEMORY, &s->buf);
	sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
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
	const bool may_have_many = s->ticks == 0 || job_facts_const(s->job)->processes_seen.value > 1;

	return s->taskstats && may_have_many ? taskstats_fd(s->taskstats) : -1;
}

static void read_faults(struct sampler *s, uint64_t now)
{
	sampler_read(s, now, PROCESSES_CPU);
	sampler_plan_pages(s, now);
}

/* Births and memory in one frame, what is dearer in another: their gauges hold for different times. */
void sampler_look(struct sampler *s, uint64_t now, enum processes_look how, unsigned dear)
{
	unsigned needs = 0;
	bool faults;

	(void) processes_look(s->processes, how, &s->buf);
	sampler_records(s, now);
	faults = !s->options.everyone && faults_are_cheap(s);
	(void) processes_read(s->processes, PROCESSES_MEMORY | (faults ? (unsigned) PROCESSES_CPU : 0u), &s->buf);
	sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
	if (!s->options.everyone)
		sampler_pss(s, now); /* may find new members: their faults come after it */
	if (faults) /* they have been read with their memory */
		dear &= ~(unsigned) PROCESSES_CPU;
	if (!s->options.everyone)
		needs = job_needs(s->job);
	if (needs & NEED_MARKS)
		dear |= PROCESSES_MARKS | (job_has_faults(s->job) ? 0u : (unsigned) PROCESSES_CPU);
	if (needs & NEED_FAULTS) { /* those of all members, now */
		dear = (dear | (faults ? 0u : (unsigned) PROCESSES_CPU)) & ~(unsigned) PROCESSES_TURNS;
		faults = true;
		sampler_plan_pages(s, now);
	}
	if (dear)
		sampler_read(s, now, dear);
	if (dear & PROCESSES_MARKS) { /* within the window that this look ends */
		processes_bursts(s->processes, &s->buf);
		sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
	}
	if (!s->options.everyone) {
		const unsigned then = job_needs(s->job);

		if (then & ~needs & NEED_FAULTS) /* a process ended while others were read */
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
	if (*next <= now) /* catch up after a gap instead of running behind it */
		*next = now + period;
	return true;
}

static const unsigned dear_groups = PROCESSES_CPU | PROCESSES_IO | PROCESSES_MARKS | PROCESSES_TURNS;

static void look(struct sampler *s, uint64_t now)
{
	bool window = is_due(&s->next_window_ns, now, s->options.window_ns);
	bool full = is_due(&s->next_full_look_ns, now, SECOND);

	sampler_plan_read(s, now, false);
	sampler_look(s, now, full ? LOOK_FULL : LOOK_GATE, window ? dear_groups : 0);
	if (full || job_alive(s->job) == 0) /* who joined before the last one left goes on with the job */
		sampler_join(s, sampler_time(s));
	sampler_trigger_watch(s);
	sampler_gpu_step(s, now);
	if (window)
		s->window_closed = true;
	if (is_due(&s->next_cgroup_check_ns, now, 10 * SECOND))
		sampler_check_cgroup(s);
}

/* Between ticks that are far apart: nobody may come and go unseen. */
static void look_for_new(struct sampler *s, uint64_t now)
{
	(void) processes_look(s->processes, LOOK_FULL, &s->buf);
	sampler_records(s, now);
	sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
}

void sampler_find(struct sampler *s)
{
	if (s->started && !s->ended && !s->showing) /* what is shown is in the buffer that a look fills */
		look_for_new(s, sampler_time(s));
}

/* However many ask for it, it takes a tenth of a core at most. */
void sampler_now(struct sampler *s)
{
	enum {
		SHARE = 10
	};
	const uint64_t now = sampler_time(s);

	if (!s->started || s->ended || now < s->next_now_ns)
		return;
	sampler_plan_read(s, now, false);
	sampler_look(s, now, LOOK_GATE, dear_groups);
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
	(void) processes_read_some(s->processes, PROCESSES_MEMORY | PROCESSES_MARKS, &id, 1, &s->buf);
	for (size_t i = 0; i < s->buf.n_readings; i++)
		marked |= s->buf.readings[i].metric == M_PROC_HWM && s->buf.readings[i].known;
	sampler_show(s, &s->buf, FRAME_PROCFS, sampler_time(s), memory_hold(s));
	return marked;
}

int sampler_reset_mark(struct sampler *s)
{
	const uint32_t id = main_id(s);

	return id ? processes_reset_mark(s->processes, id) : -ESRCH;
}

/* ---- the clock ------------------------------------------------------------------------------------------------------ */

static void note_gap(struct sampler *s, uint64_t now, uint64_t gap)
{
	const struct event event = {
		.time_ns = now,
		.kind = EVENT_GAP,
		.entity = ENTITY_JOB,
		.value_ns = (int64_t) gap,
		.text = "",
	};

	framebuf_event(&s->buf, &event);
	sampler_show(s, &s->buf, FRAME_RECORDER, now, 0);
}

static void count_tick(struct sampler *s, uint64_t now)
{
	const uint64_t interval = s->options.interval_ns;
	uint64_t gap = now - s->last_tick_ns;

	s->ticks++;
	if (now > s->due_ns && now - s->due_ns > interval)
		s->late++;
	if (gap > s->longest_gap_ns)
		s->longest_gap_ns = gap;
	if (gap > GAP_INTERVALS * interval && gap > gap_least_ns)
		note_gap(s, now, gap);
	s->last_tick_ns = now;
	s->due_ns += interval;
	if (s->due_ns <= now)
		s->due_ns = now - (now - s->due_ns) % interval + interval;
}

/* A period over a second is not left to the timer: in between, new processes are looked for. */
int sampler_set_timer(struct sampler *s, uint64_t at_ns, uint64_t period_ns)
{
	const uint64_t at = at_ns ? s->start_boot_ns + at_ns : 0;
	const struct itimerspec when = {
		.it_interval = { (time_t) (period_ns / SECOND), (long) (period_ns % SECOND) },
		.it_value = { (time_t) (at / SECOND), (long) (at % SECOND) },
	};

	return timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &when, NULL) < 0 ? -errno : 0;
}

int sampler_start_clock(struct sampler *s)
{
	const uint64_t interval = s->options.interval_ns;

	s->due_ns = interval;
	return interval > SECOND ? sampler_set_timer(s, SECOND, 0) : sampler_set_timer(s, interval, interval);
}

int sampler_pace(struct sampler *s, uint64_t interval_ns)
{
	const uint64_t now = sampler_time(s), window = interval_ns > SECOND ? interval_ns : SECOND;

	if (!s->started || s->ended)
		return -ESRCH;
	s->options.interval_ns = interval_ns;
	s->options.window_ns = window;
	s->last_tick_ns = now; /* what was a pause until now is none */
	s->due_ns = now + interval_ns;
	if (s->next_window_ns > now + window)
		s->next_window_ns = now + window;
	sampler_plan_pace(s);
	if (s->gpus.helper)
		gpu_helper_set_interval(s->gpus.helper, interval_ns);
	return interval_ns > SECOND ? sampler_set_timer(s, now + SECOND, 0) : sampler_set_timer(s, s->due_ns, interval_ns);
}

bool sampler_step(struct sampler *s)
{
	uint64_t expirations, now;

	if (!s->started || s->ended || read(s->timer, &expirations, sizeof(expirations)) != sizeof(expirations))
		return false;
	now = sampler_time(s);
	s->went_on = job_facts_const(s->job)->main_ended_ns.known;
	if (now >= s->due_ns) {
		count_tick(s, now);
		look(s, now);
	} else {
		look_for_new(s, now);
		sampler_gpu_step(s, now);
	}
	if (s->options.interval_ns > SECOND)
		(void) sampler_set_timer(s, s->due_ns < now + SECOND ? s->due_ns : now + SECOND, 0);
	return true;
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
