/* SPDX-License-Identifier: MIT */
#include "sample/sampler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "sample/sampler_internal.h"

#define SECOND UINT64_C(1000000000)

enum {
	HOLD_PERIODS = 3,    /* of a source's periods, a gauge may stand for itself */
	GAP_INTERVALS = 10,  /* more than so many missed ticks, and more than GAP_LEAST, is a gap */
	FAULTS_MEMBERS = 16, /* up to so many members their faults are read at every tick */
	FAULTS_INTERVAL_NS = 50000000, /* if ticks are not closer than this */
};
static const uint64_t gap_least_ns = 2 * SECOND;

/* ---- frames ------------------------------------------------------------------------------------------------------- */

uint64_t sampler_time(const struct sampler *s)
{
	return clock_boot_ns() - s->start_boot_ns;
}

void sampler_push(struct sampler *s, const struct frame *frame)
{
	(void) job_apply(s->job, frame);
	if (s->options.see)
		s->options.see(s->options.see_ctx, frame);
	if (frame->time_ns > s->last_frame_ns)
		s->last_frame_ns = frame->time_ns;
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

/* ---- one look at the processes ------------------------------------------------------------------------------------ */

/* What the kernel told about ends since the last look comes first: it belongs to the time before. */
static void read_exit_records(struct sampler *s, uint64_t now)
{
	if (!s->taskstats)
		return;
	if (taskstats_read(s->taskstats, s->processes, &s->buf) == -ENOBUFS)
		job_facts(s->job)->cpu_is_exact = known(0);
	sampler_show(s, &s->buf, FRAME_TASKSTATS, now, memory_hold(s));
}

/* What fork families hold is bounded by their faults since the last look before the fork, so where it costs little
 * faults are read with the memory. */
static bool is_cheap(const struct sampler *s)
{
	return s->options.interval_ns >= FAULTS_INTERVAL_NS && processes_count(s->processes) <= FAULTS_MEMBERS;
}

/* Births and memory in one frame, what is dearer in another: their gauges hold for different times. */
static void look_at_processes(struct sampler *s, uint64_t now, enum processes_look how, unsigned dear)
{
	bool faults;

	(void) processes_look(s->processes, how, &s->buf);
	(void) processes_read(s->processes, PROCESSES_MEMORY, &s->buf);
	sampler_show(s, &s->buf, FRAME_PROCFS, now, memory_hold(s));
	sampler_pss(s, now); /* may find new members: their faults come after it */
	faults = is_cheap(s) || (job_needs(s->job) & NEED_FAULTS);
	if (faults)
		dear |= PROCESSES_CPU;
	if (dear) {
		(void) processes_read(s->processes, dear, &s->buf);
		sampler_show(s, &s->buf, FRAME_PROCFS, now, window_hold(s));
	}
	if (faults)
		sampler_plan_pages(s, now);
	job_total(s->job, now, &s->totals);
	sampler_show(s, &s->totals, FRAME_TOTALS, now, memory_hold(s));
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

static void look(struct sampler *s, uint64_t now, bool all)
{
	const unsigned dear = PROCESSES_CPU | PROCESSES_IO | PROCESSES_MARKS;
	bool window = is_due(&s->next_window_ns, now, s->options.window_ns) || all;
	bool full = is_due(&s->next_full_look_ns, now, SECOND) || all;

	read_exit_records(s, now);
	sampler_plan_read(s, now, all);
	look_at_processes(s, now, full ? LOOK_FULL : LOOK_GATE, window ? dear : 0);
	if (window)
		s->window_closed = true;
	if (is_due(&s->next_cgroup_check_ns, now, 10 * SECOND))
		sampler_check_cgroup(s);
}

/* ---- the clock ------------------------------------------------------------------------------------------------------ */

static void note_gap(struct sampler *s, uint64_t now, uint64_t gap)
{
	const struct event event = {
		.time_ns = now, .kind = EVENT_GAP, .entity = ENTITY_JOB, .value_ns = (int64_t) gap, .text = "",
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

static void tick(struct sampler *s)
{
	uint64_t expirations, now;

	if (read(s->timer, &expirations, sizeof(expirations)) != sizeof(expirations))
		return;
	now = sampler_time(s);
	count_tick(s, now);
	look(s, now, false);
}

void sampler_step(struct sampler *s)
{
	struct epoll_event events[4];
	int n = epoll_wait(s->epoll, events, 4, 0);

	if (!s->started || s->ended)
		return;
	for (int i = 0; i < n; i++) {
		if (events[i].data.fd == s->timer)
			tick(s);
		else
			read_exit_records(s, sampler_time(s));
	}
}

void sampler_now(struct sampler *s)
{
	if (s->started && !s->ended)
		look(s, sampler_time(s), true);
}

static int watch_fd(struct sampler *s, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int start_clock(struct sampler *s, struct err *err)
{
	const uint64_t interval = s->options.interval_ns;
	const uint64_t first = s->start_boot_ns + interval;
	const struct itimerspec when = {
		.it_interval = { (time_t) (interval / SECOND), (long) (interval % SECOND) },
		.it_value = { (time_t) (first / SECOND), (long) (first % SECOND) },
	};

	s->due_ns = interval;
	if (timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &when, NULL) < 0)
		return err_set(err, -errno, "the sampling clock cannot be set: %s", strerror(errno));
	return 0;
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

static int open_clock(struct sampler *s, struct err *err)
{
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->timer = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	if (s->epoll < 0 || s->timer < 0)
		return err_set(err, -errno, "no sampling clock: %s", strerror(errno));
	return watch_fd(s, s->timer);
}

static int make_job(struct sampler *s)
{
	const struct job_config config = {
		.page_bytes = s->machine.page_bytes,
		.fault_page_bytes = s->machine.fault_page_bytes,
		.huge_page_bytes = s->machine.huge_page_bytes,
		.ours = s->options.ours,
	};

	s->job = job_new(&config);
	return s->job ? 0 : -ENOMEM;
}

int sampler_new(const struct sampler_options *options, struct sampler **ret, struct err *err)
{
	struct sampler *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->options = *options;
	s->epoll = s->timer = -1;
	s->own_cpu_at_start_ns = clock_process_cpu_ns();
	(void) machine_read(options->root, &s->machine);
	r = open_clock(s, err);
	if (r == 0)
		r = make_job(s);
	if (r < 0) {
		sampler_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void sampler_free(struct sampler *s)
{
	if (!s)
		return;
	sampler_plan_close(s);
	taskstats_close(s->taskstats);
	processes_free(s->processes);
	job_free(s->job);
	framebuf_done(&s->buf);
	framebuf_done(&s->totals);
	if (s->epoll >= 0)
		(void) close(s->epoll);
	if (s->timer >= 0)
		(void) close(s->timer);
	free(s);
}

static void set_start_facts(struct sampler *s, pid_t pid)
{
	struct facts *f = job_facts(s->job);

	f->started_boot_ns = known((int64_t) s->start_boot_ns);
	f->started_wall_ns = known((int64_t) clock_wall_ns());
	f->main_pid = known(pid);
	f->interval_ns = known((int64_t) s->options.interval_ns);
	f->window_ns = known((int64_t) s->options.window_ns);
	f->cpus = known(s->machine.cpus);
	if (s->machine.mem_total_bytes)
		f->capacity_bytes = known((int64_t) s->machine.mem_total_bytes);
	f->rss_error_bytes = known((int64_t) s->machine.rss_error_bytes);
	if (s->options.ours)
		f->main_hwm_at_start_bytes = known(0);
	(void) job_set_text(&f->kernel, s->machine.kernel);
	(void) job_set_text(&f->cpu_model, s->machine.cpu_model);
	(void) job_set_text(&f->container, s->machine.container);
	if (!f->host)
		(void) job_set_text(&f->host, s->machine.hostname);
}

static int start_first(struct sampler *s, pid_t pid, struct err *err)
{
	int r;

	s->start_boot_ns = clock_boot_ns();
	s->env = (struct source_env) {
		.root = s->options.root, .start_boot_ns = s->start_boot_ns,
		.recorder_pid = getpid(), .workdir = s->options.workdir,
	};
	r = processes_new(&s->env, s->options.ours, &s->processes, err);
	if (r < 0)
		return r;
	set_start_facts(s, pid);
	if (taskstats_open(&s->taskstats, NULL) == 0)
		(void) watch_fd(s, taskstats_fd(s->taskstats));
	job_facts(s->job)->taskstats = known(s->taskstats != NULL);
	s->pss.credit_ns = 100000000;
	s->next_window_ns = s->options.window_ns;
	s->next_full_look_ns = SECOND;
	s->next_cgroup_check_ns = SECOND;
	for (size_t i = 0; i < s->n_ignored; i++)
		processes_ignore(s->processes, s->ignored[i]);
	sampler_plan_open_host(s);
	sampler_plan_pages(s, 0);
	return start_clock(s, err);
}

/* The fork of main is the self-test of the last-pid gate. Attached, the mark that main came with does not count. */
static void start_of_main(struct sampler *s, pid_t pid)
{
	struct facts *f = job_facts(s->job);
	const uint32_t id = processes_id(s->processes, pid);
	const char *why_not;

	if (s->options.ours)
		processes_test_gate(s->processes, pid);
	else if (id && s->options.reset_mark && processes_reset_mark(s->processes, id) == 0)
		f->main_mark_reset = known(1);
	f->gate = known(processes_gate_works(s->processes, &why_not));
	if (cgroup_of(s->options.root, pid, &s->cgroup) == 0) {
		(void) job_set_text(&f->cgroup, s->cgroup.path);
		f->limit_bytes = s->cgroup.limit_bytes;
		f->limit_cpu_ppm = s->cgroup.cpu_limit_ppm;
		if (!f->scheduler || !*f->scheduler)
			(void) job_set_text(&f->scheduler, s->cgroup.scheduler);
	}
}

int sampler_start(struct sampler *s, pid_t pid, struct err *err)
{
	const bool first = !s->started;
	int r = first ? start_first(s, pid, err) : 0;

	if (r == 0)
		r = processes_adopt(s->processes, pid, first, &s->buf);
	if (r < 0) {
		framebuf_clear(&s->buf);
		return err && err->text[0] ? r : err_set(err, r, "process %d: %s", (int) pid, strerror(-r));
	}
	sampler_show(s, &s->buf, FRAME_PROCFS, sampler_time(s), memory_hold(s));
	if (first) {
		start_of_main(s, pid);
		sampler_plan_open(s);
		s->started = true;
	}
	look_at_processes(s, sampler_time(s), LOOK_FULL, PROCESSES_CPU | (s->options.ours ? 0 : PROCESSES_IO | PROCESSES_MARKS));
	return 0;
}

int sampler_fd(const struct sampler *s)
{
	return s->epoll;
}

struct job *sampler_job(struct sampler *s)
{
	return s->job;
}

void sampler_ignore(struct sampler *s, pid_t pid)
{
	if (s->processes)
		processes_ignore(s->processes, pid);
	else if (s->n_ignored < SAMPLER_IGNORED)
		s->ignored[s->n_ignored++] = pid;
}

bool sampler_window_closed(struct sampler *s)
{
	bool closed = s->window_closed;

	s->window_closed = false;
	return closed;
}
