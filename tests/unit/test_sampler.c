/* SPDX-License-Identifier: MIT
 *
 * The clock: which source is read when, the end of a run, the budget of PSS passes. With real children, and on made-up
 * machines whose files do not change. What is opened and allocated is counted by the linker's --wrap (meson.build).
 */
#include "tree_helper.h"

#include <dirent.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>

#include "children.h"
#include "sample/sampler_internal.h"

#define MS UINT64_C(1000000)

/* ---- what is opened and allocated ---------------------------------------------------------------------------------- */

static bool counting;
static unsigned n_opened, n_rollups, n_allocated;
static char first_opened[128];

int __real_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, ...);
int __wrap_openat64(int fd, const char *path, int flags, ...);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);

int __wrap_openat64(int fd, const char *path, int flags, ...)
{
	if (counting) {
		const char *name = strrchr(path, '/');

		if (n_opened++ == 0)
			(void) snprintf(first_opened, sizeof(first_opened), "%s", path);
		n_rollups += strcmp(name ? name + 1 : path, "smaps_rollup") == 0;
	}
	return __real_openat64(fd, path, flags); /* no file is made: the mode does not count */
}

/* Which of the two it is called depends on the size of an off_t. */
int __wrap_openat(int fd, const char *path, int flags, ...)
{
	return __wrap_openat64(fd, path, flags);
}

void *__wrap_malloc(size_t size)
{
	n_allocated += counting;
	return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	n_allocated += counting;
	return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	n_allocated += counting;
	return __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	n_allocated += counting;
	return __real_strdup(s);
}

static void count_from_here(void)
{
	n_opened = n_rollups = n_allocated = 0;
	first_opened[0] = '\0';
	counting = true;
}

static unsigned open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void) closedir(dir);
	return n;
}

/* ---- a sampler and who sees its frames ----------------------------------------------------------------------------- */

struct rig {
	struct root root;
	struct sampler_options options;
	struct sampler *s;
	/* what was seen */
	uint64_t last_ns;
	size_t n_frames, n_births, n_left, n_gaps, n_rss;
	int64_t gap_ns;
	pid_t born[64];
	uint32_t left_id;
	bool went_back;
};

static void see(void *ctx, const struct frame *frame)
{
	struct rig *r = ctx;

	r->went_back |= frame->time_ns < r->last_ns;
	r->last_ns = frame->time_ns;
	r->n_frames++;
	for (size_t i = 0; i < frame->n_births; i++) {
		if (r->n_births < sizeof(r->born) / sizeof(r->born[0]))
			r->born[r->n_births] = frame->births[i].process.pid;
		r->n_births++;
	}
	for (size_t i = 0; i < frame->n_ends; i++) {
		if (frame->ends[i].how == END_LEFT) {
			r->n_left++;
			r->left_id = frame->ends[i].id;
		}
	}
	for (size_t i = 0; i < frame->n_events; i++) {
		if (frame->events[i].kind == EVENT_GAP) {
			r->n_gaps++;
			r->gap_ns = frame->events[i].value_ns;
		}
	}
	for (size_t i = 0; i < frame->n_readings; i++)
		r->n_rss += frame->readings[i].metric == M_PROC_RSS;
}

/* Options that keep to the job's own processes; path NULL: this machine. */
static void rig_prepare(struct rig *r, const char *path, uint64_t interval_ns, bool ours)
{
	*r = (struct rig) { 0 };
	assert_int_equal(root_open(path, &r->root, NULL), 0);
	r->options = (struct sampler_options) {
		.root = &r->root,
		.interval_ns = interval_ns,
		.window_ns = 1000 * MS,
		.ours = ours,
		.cgroup = CGROUP_NONE,
		.see = see,
		.see_ctx = r,
	};
	if (r->options.window_ns < interval_ns)
		r->options.window_ns = interval_ns;
}

static void rig_make(struct rig *r)
{
	struct err err = { "" };

	assert_int_equal(sampler_new(&r->options, &r->s, &err), 0);
}

static void rig_start(struct rig *r, pid_t main)
{
	struct err err = { "" };

	if (sampler_start(r->s, main, &err) < 0)
		fail_msg("%s", err.text);
}

static void rig_done(struct rig *r)
{
	assert_false(r->went_back);
	sampler_free(r->s);
	root_done(&r->root);
}

static const struct facts *facts_of(const struct rig *r)
{
	return job_facts_const(sampler_job(r->s));
}

/* Takes n steps, each when the clock says so. */
static void steps(struct rig *r, unsigned n)
{
	struct pollfd fd = { .fd = sampler_fd(r->s), .events = POLLIN };

	for (; n > 0; n--) {
		assert_int_equal(poll(&fd, 1, 60000), 1);
		sampler_step(r->s);
	}
}

static void wait_for(uint64_t ns)
{
	const struct timespec time = { (time_t) (ns / (1000 * MS)), (long) (ns % (1000 * MS)) };

	assert_int_equal(nanosleep(&time, NULL), 0);
}

static bool was_born(const struct rig *r, pid_t pid)
{
	for (size_t i = 0; i < r->n_births && i < sizeof(r->born) / sizeof(r->born[0]); i++) {
		if (r->born[i] == pid)
			return true;
	}
	return false;
}

static void just_wait(const struct child *c, void *arg)
{
	(void) arg;
	child_done(c, 0);
	child_wait(c);
}

static struct child waiting_child(void)
{
	struct child c = child_start(just_wait, NULL);

	(void) child_take(&c);
	return c;
}

/* As the command does when main is a zombie. */
static void reap_main(struct rig *r, pid_t pid)
{
	struct end end = { .entity = ENTITY_PROCESS, .how = END_REAPED, .status_known = true };

	zombie_wait(pid);
	sampler_main_zombie(r->s, pid);
	assert_int_equal(waitpid(pid, &end.status, 0), pid);
	sampler_reaped(r->s, pid, &end);
}

/* ---- the clock ------------------------------------------------------------------------------------------------------ */

static void nothing_is_due_before_it_is(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 3600 * 1000 * MS, true);
	rig_make(&r);
	assert_int_equal(sampler_time(r.s), 0);
	sampler_step(r.s); /* not begun */
	sampler_now(r.s);
	assert_int_equal(r.n_frames, 0);
	rig_start(&r, main.pid);
	const size_t frames = r.n_frames;

	assert_true(frames > 0 && was_born(&r, main.pid));
	assert_int_equal(sampler_fd(r.s), sampler_fd(r.s));
	sampler_step(r.s);
	assert_int_equal(r.n_frames, frames);
	child_end(&main);
	rig_done(&r);
}

static void frames_are_in_the_order_of_time(void **state)
{
	const struct event mark = { .kind = EVENT_MARK, .entity = ENTITY_JOB, .text = "late" };
	struct frame late = { .source = FRAME_USER, .live = true, .n_events = 1, .events = &mark };
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 5 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	for (int i = 0; i < 20; i++) {
		steps(&r, 2);
		sampler_now(r.s);
		late.time_ns = r.last_ns / 2; /* from long ago */
		sampler_push(r.s, &late);
		assert_int_equal(job_now(sampler_job(r.s)), r.last_ns);
	}
	sampler_end(r.s);
	assert_false(r.went_back);
	assert_true(r.last_ns <= sampler_time(r.s));
	child_end(&main);
	rig_done(&r);
}

static void late_ticks_are_counted(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 20 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	steps(&r, 1);
	sampler_cost(r.s);
	const int64_t ticks = facts_of(&r)->ticks.value, late = facts_of(&r)->late_ticks.value;

	assert_int_equal(ticks, 1);
	wait_for(300 * MS); /* fifteen ticks long nobody comes */
	steps(&r, 1);
	sampler_cost(r.s);
	assert_int_equal(facts_of(&r)->ticks.value, ticks + 1); /* what was missed is not made up for */
	assert_int_equal(facts_of(&r)->late_ticks.value, late + 1);
	assert_true(facts_of(&r)->longest_gap_ns.value >= (int64_t) (300 * MS));
	assert_int_equal(r.n_gaps, 0); /* under two seconds it is late, no more */
	/* And the clock is in step again: the next tick is at a multiple of the interval. */
	assert_true(r.s->due_ns % (20 * MS) == 0 && r.s->due_ns > r.s->last_tick_ns);
	child_end(&main);
	rig_done(&r);
}

static void a_long_silence_is_a_gap(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 50 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	steps(&r, 1);
	wait_for(2100 * MS);
	steps(&r, 1);
	assert_int_equal(r.n_gaps, 1);
	assert_true(r.gap_ns >= (int64_t) (2100 * MS));
	sampler_end(r.s);
	assert_true(facts_of(&r)->longest_gap_ns.value >= r.gap_ns);
	child_end(&main);
	rig_done(&r);
}

static void a_window_closes_once(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 10 * MS, true);
	r.options.window_ns = 40 * MS;
	rig_make(&r);
	rig_start(&r, main.pid);
	assert_false(sampler_window_closed(r.s));
	while (!sampler_window_closed(r.s))
		steps(&r, 1);
	assert_true(r.last_ns >= 40 * MS);
	assert_false(sampler_window_closed(r.s));
	sampler_end(r.s);
	assert_true(sampler_window_closed(r.s)); /* the last one is as long as it is */
	child_end(&main);
	rig_done(&r);
}

/* However seldom memory is read, nobody comes and goes unseen for longer than a second. */
static void between_far_ticks_new_processes_are_found(void **state)
{
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 3600 * 1000 * MS, true);
	rig_make(&r);
	struct child main = waiting_child();

	rig_start(&r, main.pid);
	struct child orphan = waiting_child(); /* ours: as one that the subreaper adopted */
	const size_t readings = r.n_rss;

	steps(&r, 1);
	assert_true(was_born(&r, orphan.pid));
	assert_true(r.last_ns < 60 * 1000 * MS);
	assert_int_equal(r.n_rss, readings);
	sampler_cost(r.s);
	assert_int_equal(facts_of(&r)->ticks.value, 0);
	child_end(&orphan);
	child_end(&main);
	rig_done(&r);
}

/* A flood of marks must not become a flood of looks. */
static void what_is_asked_for_at_once_has_its_limit(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 3600 * 1000 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	const size_t before = r.n_rss;

	sampler_now(r.s);
	assert_int_equal(r.n_rss, before + 1);
	assert_true(r.s->next_now_ns > 0);
	r.s->next_now_ns = UINT64_MAX; /* it was dear */
	for (int i = 0; i < 100; i++)
		sampler_now(r.s);
	assert_int_equal(r.n_rss, before + 1);
	r.s->next_now_ns = 0;
	sampler_now(r.s);
	assert_int_equal(r.n_rss, before + 2);
	child_end(&main);
	rig_done(&r);
}

/* ---- the start ------------------------------------------------------------------------------------------------------- */

/* Of several processes to attach to, those that ended in the meantime are no reason to stop. */
static void a_start_that_failed_leaves_nothing(void **state)
{
	struct child gone = waiting_child(), main = waiting_child(), more = waiting_child();
	struct err err = { "" };
	struct rig r, plain;

	(void) state;
	child_end(&gone);
	rig_prepare(&plain, NULL, 10 * MS, false);
	rig_make(&plain);
	rig_start(&plain, main.pid);
	const unsigned with_plain = open_fds();

	rig_done(&plain);
	rig_prepare(&r, NULL, 10 * MS, false);
	rig_make(&r);
	unsigned before = 0; /* with what was opened once and is kept */

	for (int i = 0; i < 3; i++) {
		err.text[0] = '\0';
		assert_int_equal(sampler_start(r.s, gone.pid, &err), -ESRCH);
		assert_non_null(strstr(err.text, "process"));
		assert_true(before == 0 || open_fds() == before);
		before = open_fds();
		assert_int_equal(sampler_time(r.s), 0);
	}
	rig_start(&r, main.pid);
	assert_int_equal(open_fds(), with_plain); /* no more than a start at the first go */
	assert_int_equal(facts_of(&r)->main_pid.value, main.pid);
	assert_true(job_main(sampler_job(r.s))->pid == main.pid);
	assert_int_equal(sampler_start(r.s, gone.pid, NULL), -ESRCH); /* later it changes nothing */
	rig_start(&r, more.pid);
	assert_int_equal(job_main(sampler_job(r.s))->pid, main.pid);
	assert_int_equal(job_alive(sampler_job(r.s)), 2);
	assert_true(job_process(sampler_job(r.s), 1)->rss_bytes > 0);
	steps(&r, 3);
	sampler_end(r.s);
	child_end(&more);
	child_end(&main);
	rig_done(&r);
}

static void what_is_not_begun_can_be_ended(void **state)
{
	const struct end end = { .how = END_REAPED };
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 10 * MS, true);
	rig_make(&r);
	sampler_ignore(r.s, 4711);
	sampler_main_zombie(r.s, getpid());
	sampler_reaped(r.s, 4711, &end);
	sampler_reaped(r.s, 4712, &end);
	sampler_cost(r.s);
	sampler_end(r.s);
	assert_int_equal(r.n_frames, 0);
	rig_done(&r);
	sampler_free(NULL);
}

static void the_gate_is_tested_by_a_fork_of_our_own(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 10 * MS, false);
	rig_make(&r);
	rig_start(&r, main.pid);
	assert_true(facts_of(&r)->gate.known);
	assert_int_equal(r.n_births, 1); /* which is none of the job's */
	child_end(&main);
	rig_done(&r);
}

static void ignored_children_are_none_of_the_job(void **state)
{
	struct child before = waiting_child(), main, after, later;
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 10 * MS, true);
	rig_make(&r);
	sampler_ignore(r.s, before.pid);
	main = waiting_child();
	rig_start(&r, main.pid);
	after = waiting_child();
	sampler_ignore(r.s, after.pid);
	later = waiting_child(); /* not said to be ignored: a child of the subreaper is the job's */
	steps(&r, 2);
	sampler_now(r.s);
	assert_true(was_born(&r, main.pid) && was_born(&r, later.pid));
	assert_false(was_born(&r, before.pid) || was_born(&r, after.pid));
	/* What it used is not the job's. */
	sampler_reaped(r.s, after.pid, &(struct end) { .how = END_REAPED, .cpu_user_ns = known(5), .cpu_system_ns = known(5) });
	assert_false(facts_of(&r)->reaped_user_ns.known);
	child_end(&later);
	child_end(&after);
	child_end(&before);
	child_end(&main);
	rig_done(&r);
}

/* ---- the end --------------------------------------------------------------------------------------------------------- */

/* Starts one that stays and ends itself when told to. */
static void leave_a_daemon(const struct child *c, void *arg)
{
	pid_t pid = fork();

	(void) arg;
	if (pid == 0) {
		(void) prctl(PR_SET_NAME, "left-behind");
		(void) close(c->to);
		for (;;)
			(void) pause();
	}
	child_done(c, pid);
	child_wait(c);
	_exit(7);
}

static void who_lives_on_is_counted_and_named(void **state)
{
	char expected[64];
	struct rig r;

	(void) state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1UL), 0);
	rig_prepare(&r, NULL, 10 * MS, true);
	rig_make(&r);
	struct child main = child_start(leave_a_daemon, NULL);
	const pid_t daemon = child_take(&main);

	rig_start(&r, main.pid);
	while (!was_born(&r, daemon)) /* its name too */
		steps(&r, 1);
	steps(&r, 1);
	child_go(&main);
	reap_main(&r, main.pid);
	assert_int_equal(WEXITSTATUS(facts_of(&r)->exit_status.value), 7);
	const struct maybe ended = facts_of(&r)->ended_ns;

	assert_true(ended.known);
	sampler_end(r.s);
	(void) snprintf(expected, sizeof(expected), "left-behind (%d)", (int) daemon);
	assert_int_equal(facts_of(&r)->processes_left.value, 1);
	assert_string_equal(facts_of(&r)->left_names, expected);
	assert_int_equal(facts_of(&r)->ended_ns.value, ended.value);
	assert_int_equal(r.n_left, 1);
	assert_int_equal(job_process_by_id(sampler_job(r.s), r.left_id)->pid, daemon);
	assert_int_equal(kill(daemon, 0), 0); /* nobody touched it */
	assert_int_equal(facts_of(&r)->cpu_is_exact.value, 0);
	/* It is over once, and nothing is due any more. */
	const size_t frames = r.n_frames;

	sampler_end(r.s);
	sampler_now(r.s);
	wait_for(30 * MS);
	struct pollfd fd = { .fd = sampler_fd(r.s), .events = POLLIN };

	assert_int_equal(poll(&fd, 1, 0), 0);
	sampler_step(r.s);
	assert_int_equal(r.n_frames, frames);
	child_close(&main);
	rig_done(&r);
}

/* Its number may be used again, by an orphan of the job. */
static void main_ends_once(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 10 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	child_go(&main);
	reap_main(&r, main.pid);
	const struct maybe ended = facts_of(&r)->ended_ns;

	assert_int_equal(facts_of(&r)->exit_status.value, 0);
	sampler_reaped(r.s, main.pid, &(struct end) { .how = END_REAPED, .status_known = true, .status = SIGKILL });
	assert_int_equal(facts_of(&r)->exit_status.value, 0);
	assert_int_equal(facts_of(&r)->ended_ns.value, ended.value);
	child_close(&main);
	sampler_end(r.s);
	assert_int_equal(facts_of(&r)->processes_left.value, 0);
	assert_null(facts_of(&r)->left_names);
	assert_int_equal(facts_of(&r)->cpu_is_exact.value, 1);
	rig_done(&r);
}

/* Lives shorter than a tick and is not waited for at once: seen as a zombie or known by its exit record, never both. */
static void leave_zombies(const struct child *c, void *arg)
{
	const unsigned n = *(const unsigned *) arg;
	pid_t pids[16];

	child_done(c, 0);
	child_wait(c);
	for (unsigned i = 0; i < n; i++) {
		siginfo_t info;

		pids[i] = fork();
		if (pids[i] == 0)
			_exit(0);
		(void) waitid(P_PID, (id_t) pids[i], &info, WEXITED | WNOWAIT);
	}
	child_done(c, 0);
	child_wait(c);
	for (unsigned i = 0; i < n; i++)
		(void) waitpid(pids[i], NULL, 0);
	child_done(c, 0);
	child_wait(c);
}

static void a_zombie_is_one_process(void **state)
{
	unsigned n = 10;
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 5 * MS, true);
	rig_make(&r);
	struct child main = child_start(leave_zombies, &n);

	(void) child_take(&main);
	rig_start(&r, main.pid);
	child_go(&main);
	(void) child_take(&main);
	/* Whoever ends elsewhere on the machine wakes nobody: only looks and records that take turns. */
	steps(&r, 6);
	child_go(&main);
	(void) child_take(&main);
	steps(&r, 6);
	child_go(&main);
	reap_main(&r, main.pid);
	sampler_end(r.s);
	assert_int_equal(facts_of(&r)->processes_seen.value, n + 1);
	assert_int_equal(r.n_births, n + 1);
	child_close(&main);
	rig_done(&r);
}

/* ---- what cannot be seen ---------------------------------------------------------------------------------------------- */

static void be_called(const struct child *c, void *arg)
{
	(void) prctl(PR_SET_NAME, arg);
	child_done(c, 0);
	child_wait(c);
}

static void launchers_of_unseen_tasks_are_noted(void **state)
{
	static struct {
		char name[16];
		int64_t nodes;
		bool noted;
	} cases[] = {
		{ "srun", 1, true },
		{ "srun", 0, true },
		{ "mpirun", 1, false },
		{ "mpirun", 0, false },
		{ "mpirun", 2, true },
		{ "srunner", 2, false },
		{ "bash", 2, false },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct child main = child_start(be_called, cases[i].name);
		struct rig r;

		(void) child_take(&main);
		rig_prepare(&r, NULL, 10 * MS, true);
		rig_make(&r);
		if (cases[i].nodes)
			job_facts(sampler_job(r.s))->nodes = known(cases[i].nodes);
		rig_start(&r, main.pid);
		if ((facts_of(&r)->srun_seen.value == 1) != cases[i].noted)
			fail_msg("%s on %d nodes", cases[i].name, (int) cases[i].nodes);
		child_end(&main);
		rig_done(&r);
	}
}

/* ---- a machine that does not change -------------------------------------------------------------------------------- */

#define STATUS "Name:\tjob\nTgid:\t%d\nPid:\t%d\nUid:\t0\t0\t0\t0\nVmHWM:\t%8ld kB\nVmRSS:\t%8ld kB\nVmSwap:\t0 kB\n" \
	       "HugetlbPages:\t0 kB\nThreads:\t1\nSigIgn:\t0000000000000000\n" \
	       "voluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n"
#define ROLLUP "00400000-7ffd0000 ---p 00000000 00:00 0 [rollup]\nRss: %ld kB\nPss: %ld kB\nShared_Clean: 0 kB\n" \
	       "Shared_Dirty: 0 kB\nPrivate_Clean: 0 kB\nPrivate_Dirty: %ld kB\n"

enum {
	FIRST_PID = 300
};

static void put_process(const struct temp_tree *t, int pid, int ppid, long rss_kib)
{
	char file[64], text[1024];

	(void) snprintf(file, sizeof(file), "proc/%d/stat", pid);
	(void) snprintf(text, sizeof(text), "%d (job) S %d 300 300 0 -1 0 10 0 0 0 5 5 0 0 20 0 1 0 1000 1000000 10 1 1 1 "
					    "140722 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		pid, ppid);
	temp_tree_put(t, file, text);
	(void) snprintf(file, sizeof(file), "proc/%d/statm", pid);
	(void) snprintf(text, sizeof(text), "%ld %ld 10 1 0 10 0\n", rss_kib / 4 + 100, rss_kib / 4);
	temp_tree_put(t, file, text);
	(void) snprintf(file, sizeof(file), "proc/%d/status", pid);
	(void) snprintf(text, sizeof(text), STATUS, pid, pid, rss_kib, rss_kib);
	temp_tree_put(t, file, text);
	(void) snprintf(file, sizeof(file), "proc/%d/io", pid);
	temp_tree_put(t, file, "rchar: 1\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: 0\nwrite_bytes: 0\n"
			       "cancelled_write_bytes: 0\n");
	(void) snprintf(file, sizeof(file), "proc/%d/cmdline", pid);
	temp_tree_put(t, file, "job");
	(void) snprintf(file, sizeof(file), "proc/%d/maps", pid);
	temp_tree_put(t, file, "00400000-00401000 r-xp 00000000 08:01 42 /bin/job\n");
	(void) snprintf(file, sizeof(file), "proc/%d/smaps_rollup", pid);
	(void) snprintf(text, sizeof(text), ROLLUP, rss_kib, rss_kib, rss_kib);
	temp_tree_put(t, file, text);
	(void) snprintf(file, sizeof(file), "proc/%d/task/%d/children", pid, pid);
	temp_tree_put(t, file, "");
}

/* A parent and its n - 1 children, each of so many KiB. */
static void put_machine(struct temp_tree *t, int n, long rss_kib)
{
	char children[512] = "", file[64];

	temp_tree_new(t);
	temp_tree_put(t, "proc/loadavg", "0.00 0.00 0.00 1/100 999\n");
	temp_tree_put(t, "proc/meminfo", "MemTotal: 99000000 kB\nMemFree: 50000000 kB\nMemAvailable: 60000000 kB\n");
	temp_tree_put(t, "proc/stat", "cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
	temp_tree_put(t, "proc/vmstat", "thp_fault_alloc 0\nthp_collapse_alloc 0\npswpin 0\npswpout 0\n");
	temp_tree_put(t, "proc/self/status", "Name:\thiwater\nVmHWM:\t2000 kB\nVmRSS:\t2000 kB\n");
	for (int i = 0; i < n; i++)
		put_process(t, FIRST_PID + i, i ? FIRST_PID : 1, rss_kib);
	for (int i = 1; i < n; i++)
		(void) snprintf(children + strlen(children), 16, "%d ", FIRST_PID + i);
	(void) snprintf(file, sizeof(file), "proc/%d/task/%d/children", FIRST_PID, FIRST_PID);
	temp_tree_put(t, file, children);
}

static void machine_start(struct rig *r, const struct temp_tree *t, bool big_pss)
{
	rig_prepare(r, t->path, 10 * MS, false);
	r->options.window_ns = 20 * MS;
	r->options.big_pss = big_pss;
	rig_make(r);
	count_from_here(); /* the passes of the start, too */
	rig_start(r, FIRST_PID);
}

/* With several windows in it, and what is read once a second. Where the last pid moves, new processes must be looked
 * at, and once a second all of them: here nobody forks, and the full look is put off. */
static void a_steady_tick_opens_and_allocates_nothing(void **state)
{
	struct temp_tree t;
	struct rig r;

	(void) state;
	put_machine(&t, 6, 10000);
	machine_start(&r, &t, false);
	counting = false;
	assert_int_equal(job_alive(sampler_job(r.s)), 6);
	while (r.last_ns < 1050 * MS)
		steps(&r, 1);
	r.s->next_full_look_ns = UINT64_MAX;
	const uint64_t from = r.last_ns;
	const unsigned fds = open_fds();
	const size_t readings = r.n_rss;

	count_from_here();
	while (r.last_ns < from + 1200 * MS)
		steps(&r, 1);
	counting = false;
	if (n_opened || n_allocated)
		fail_msg("%u opened (%s), %u allocated", n_opened, first_opened, n_allocated);
	assert_true(r.n_rss > readings);
	assert_int_equal(open_fds(), fds);
	rig_done(&r);
	temp_tree_done(&t);
}

/* On this machine others fork, which costs openings but no memory. */
static void a_live_tick_allocates_nothing(void **state)
{
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 10 * MS, true);
	r.options.window_ns = 50 * MS;
	rig_make(&r);
	struct child main = waiting_child();

	rig_start(&r, main.pid);
	/* Exit records of the whole machine may be many. */
	taskstats_close(r.s->taskstats);
	r.s->taskstats = NULL;
	while (r.last_ns < 1100 * MS)
		steps(&r, 1);
	const uint64_t from = r.last_ns;
	const unsigned fds = open_fds();

	count_from_here();
	while (r.last_ns < from + 1200 * MS)
		steps(&r, 1);
	counting = false;
	assert_int_equal(n_allocated, 0);
	assert_int_equal(open_fds(), fds);
	child_end(&main);
	rig_done(&r);
}

/* ---- groups that are asked for by name ------------------------------------------------------------------------------- */

static bool has_group(const struct source_ops *ops, const char *name)
{
	for (unsigned g = 0; g < ops->n_groups; g++) {
		if (strcmp(ops->groups[g].name, name) == 0)
			return ops->n_groups <= SAMPLER_GROUPS;
	}
	return false;
}

/* sampler_plan.c: of a cgroup with strangers in it, the events; huge pages out of turn. */
static void groups_have_the_names_that_are_asked_for(void **state)
{
	(void) state;
	assert_true(has_group(&source_cgroup, "events"));
	assert_true(has_group(&source_host, "pages"));
	assert_false(has_group(&source_host, "events"));
}

/* ---- PSS passes ------------------------------------------------------------------------------------------------------- */

static int64_t passes(const struct rig *r)
{
	return facts_of(r)->pss_passes.value + facts_of(r)->pss_invalid.value;
}

static void a_pass_that_is_cheap_is_made(void **state)
{
	struct temp_tree t;
	struct rig r;

	(void) state;
	put_machine(&t, 4, 50000);
	machine_start(&r, &t, false);
	steps(&r, 3);
	counting = false;
	assert_true(passes(&r) >= 1);
	assert_true(n_rollups >= 4);
	assert_false(facts_of(&r)->pss_skipped.known);
	rig_done(&r);
	temp_tree_done(&t);
}

/* A hundred milliseconds may be saved up: that is about eight GiB. */
static void what_costs_more_than_the_credit_is_left_out(void **state)
{
	struct temp_tree t;
	struct rig r;

	(void) state;
	put_machine(&t, 10, 1 << 20);
	machine_start(&r, &t, false);
	steps(&r, 3);
	counting = false;
	assert_int_equal(passes(&r), 0);
	assert_int_equal(n_rollups, 0);
	rig_done(&r);
	/* Unless that is asked for. */
	machine_start(&r, &t, true);
	steps(&r, 3);
	counting = false;
	assert_true(passes(&r) >= 1);
	assert_true(n_rollups >= 10);
	rig_done(&r);
	temp_tree_done(&t);
}

static void without_credit_there_is_no_pass(void **state)
{
	struct temp_tree t;
	struct rig r;

	(void) state;
	put_machine(&t, 4, 50000);
	machine_start(&r, &t, true);
	const int64_t before = passes(&r);
	const int64_t left = r.s->pss.credit_ns;

	assert_true(before >= 1);
	assert_true(left < 100 * (int64_t) MS); /* it was paid for */
	r.s->pss.credit_ns = -1000 * (int64_t) MS; /* a pass that took a second */
	for (int i = 0; i < 5; i++) {
		for (int k = 0; k < 4; k++)
			put_process(&t, FIRST_PID + k, k ? FIRST_PID : 1, 60000 + 10000 * i); /* it grows and grows */
		steps(&r, 1);
	}
	assert_int_equal(passes(&r), before);
	/* One per cent of the time is earned. */
	assert_true(r.s->pss.credit_ns > -1000 * (int64_t) MS);
	assert_true(r.s->pss.credit_ns <= -1000 * (int64_t) MS + (int64_t) (sampler_time(r.s) / 100));
	r.s->pss.credit_ns = 100 * (int64_t) MS;
	for (int k = 0; k < 4; k++)
		put_process(&t, FIRST_PID + k, k ? FIRST_PID : 1, 200000);
	steps(&r, 1);
	counting = false;
	assert_int_equal(passes(&r), before + 1);
	rig_done(&r);
	temp_tree_done(&t);
}

/* Nobody is held up for a pass that says nothing about all of them. */
static void one_that_is_too_large_spares_all(void **state)
{
	struct temp_tree t;
	struct rig r;

	(void) state;
	put_machine(&t, 4, 50000);
	put_process(&t, FIRST_PID + 3, FIRST_PID, 1700000);
	machine_start(&r, &t, false);
	steps(&r, 5);
	counting = false;
	assert_int_equal(n_rollups, 0);
	assert_int_equal(passes(&r), 0);
	assert_true(facts_of(&r)->pss_skipped.value >= 1);
	assert_true(facts_of(&r)->pss_skipped.value <= 3); /* and it is not asked for at each tick */
	rig_done(&r);
	machine_start(&r, &t, true);
	steps(&r, 1);
	counting = false;
	assert_true(n_rollups >= 4);
	rig_done(&r);
	temp_tree_done(&t);
}

/* ---- own cost ---------------------------------------------------------------------------------------------------------- */

/* Of several runs in one process each has its own. */
static void what_was_used_before_is_not_this_runs(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	while (clock_process_cpu_ns() < 300 * MS)
		;
	rig_prepare(&r, NULL, 10 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	steps(&r, 2);
	sampler_cost(r.s);
	assert_true(facts_of(&r)->own_cpu_ns.known && facts_of(&r)->own_cpu_ns.value > 0);
	assert_true(facts_of(&r)->own_cpu_ns.value <= (int64_t) (clock_process_cpu_ns() - 300 * MS));
	assert_true(facts_of(&r)->own_rss_bytes.value > 100000);
	child_end(&main);
	rig_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHILDREN_TEST(nothing_is_due_before_it_is),
		CHILDREN_TEST(frames_are_in_the_order_of_time),
		CHILDREN_TEST(late_ticks_are_counted),
		CHILDREN_TEST(a_long_silence_is_a_gap),
		CHILDREN_TEST(a_window_closes_once),
		CHILDREN_TEST(between_far_ticks_new_processes_are_found),
		CHILDREN_TEST(what_is_asked_for_at_once_has_its_limit),
		CHILDREN_TEST(a_start_that_failed_leaves_nothing),
		CHILDREN_TEST(what_is_not_begun_can_be_ended),
		CHILDREN_TEST(the_gate_is_tested_by_a_fork_of_our_own),
		CHILDREN_TEST(ignored_children_are_none_of_the_job),
		CHILDREN_TEST(who_lives_on_is_counted_and_named),
		CHILDREN_TEST(main_ends_once),
		CHILDREN_TEST(a_zombie_is_one_process),
		CHILDREN_TEST(launchers_of_unseen_tasks_are_noted),
		CHILDREN_TEST(a_steady_tick_opens_and_allocates_nothing),
		CHILDREN_TEST(a_live_tick_allocates_nothing),
		cmocka_unit_test(groups_have_the_names_that_are_asked_for),
		CHILDREN_TEST(a_pass_that_is_cheap_is_made),
		CHILDREN_TEST(what_costs_more_than_the_credit_is_left_out),
		CHILDREN_TEST(without_credit_there_is_no_pass),
		CHILDREN_TEST(one_that_is_too_large_spares_all),
		CHILDREN_TEST(what_was_used_before_is_not_this_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
