/* SPDX-License-Identifier: MIT
 *
 * Ends of members, and their facts.
 */
#include "children.h"

#include <errno.h>
#include <linux/sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void just_wait(const struct child *c, void *arg)
{
	(void) arg;
	child_done(c, 0);
	child_wait(c);
}

/* Half a second of CPU time, then the end. */
static void burn_and_end(const struct child *c, void *arg)
{
	(void) arg;
	child_done(c, 0);
	child_wait(c);
	while (clock_process_cpu_ns() < 500000000)
		;
}

static void a_zombie_has_ended_with_its_last_facts(void **state)
{
	struct child main = child_start(burn_and_end, NULL);
	struct end zombie = { 0 }, facts = { .status_known = true, .status = 7 << 8 };
	bool ignored = true;
	const struct end *end;
	struct bench b;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY | PROCESSES_IO | PROCESSES_HWM, &b.out), 0);
	child_go(&main);
	zombie_wait(main.pid);
	assert_int_equal(processes_zombie(b.p, main.pid, &zombie, &ignored), 0);
	assert_int_equal(zombie.id, 1);
	assert_false(ignored);
	assert_true(zombie.faults_waited.known && zombie.faults_waited.value == 0);
	assert_true(zombie.cpu_user_ns.known);
	framebuf_clear(&b.out);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY, &b.out), 0);
	assert_int_equal(b.out.n_readings, 0);
	end = end_of(&b.out, 1);
	assert_non_null(end);
	assert_int_equal(end->how, END_SEEN);
	assert_true(end->hwm_bytes.known && end->hwm_bytes.value > 0);
	assert_true(maybe_sum(end->cpu_user_ns, end->cpu_system_ns).value >= 400000000);
	assert_true(end->io.read_bytes.known);
	assert_false(end->status_known);
	assert_int_equal(processes_count(b.p), 0);
	/* It is still visible, but not born again. */
	assert_int_equal(processes_scan(b.p, SCAN_FULL, &b.out), 0);
	/* Reaping adds facts. */
	framebuf_clear(&b.out);
	assert_true(processes_reaped(b.p, main.pid, &facts, &b.out));
	assert_int_equal(b.out.n_ends, 1);
	assert_int_equal(b.out.ends[0].id, 1);
	assert_int_equal(b.out.ends[0].how, END_REAPED);
	assert_int_equal(b.out.ends[0].status, 7 << 8);
	bench_end(&b);
	child_end(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_zombie(b.p, main.pid, &zombie, &ignored), -ESRCH);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), -ESRCH);
	bench_end(&b);
}

/* It may have waited for more children since, so the counters of earlier samples are not used. */
static void counters_of_reaped_children_are_those_at_the_end(void **state)
{
	struct child main = child_start(just_wait, NULL);
	struct bench b;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(processes_read(b.p, PROCESSES_CPU, &b.out), 0);
	child_end(&main);
	framebuf_clear(&b.out);
	assert_true(processes_reaped(b.p, main.pid, &(struct end) { 0 }, &b.out));
	assert_true(b.out.ends[0].faults_minor.known);
	assert_false(b.out.ends[0].faults_waited.known);
	bench_end(&b);
}

static void the_vanished_have_ended(void **state)
{
	static const unsigned what[] = { PROCESSES_MEMORY, PROCESSES_CPU, PROCESSES_IO, PROCESSES_HWM };

	(void) state;
	for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
		struct child main = child_start(just_wait, NULL);
		uint32_t id = 1;
		struct bench b;

		(void) child_take(&main);
		bench_start(&b, NULL, true);
		assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
		assert_int_equal(processes_read(b.p, PROCESSES_MEMORY | PROCESSES_HWM, &b.out), 0);
		child_end(&main);
		framebuf_clear(&b.out);
		if (i % 2)
			assert_int_equal(processes_read(b.p, what[i], &b.out), 0);
		else
			assert_int_equal(processes_read_some(b.p, what[i], &id, 1, &b.out), 0);
		assert_int_equal(b.out.n_ends, 1);
		assert_int_equal(b.out.n_readings, 0);
		assert_int_equal(b.out.ends[0].how, END_SEEN);
		assert_true(b.out.ends[0].hwm_bytes.known);
		assert_int_equal(processes_count(b.p), 0);
		bench_end(&b);
	}
}

static rlim_t limit_files(rlim_t most)
{
	struct rlimit limit;
	rlim_t before;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	before = limit.rlim_cur;
	limit.rlim_cur = most;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return before;
}

static void where_no_file_can_be_opened_an_end_is_seen_all_the_same(void **state)
{
	static const unsigned what[] = { PROCESSES_MEMORY, PROCESSES_CPU, PROCESSES_IO, PROCESSES_HWM };

	(void) state;
	for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
		struct child main = child_start(just_wait, NULL);
		struct bench b;
		rlim_t before;

		(void) child_take(&main);
		bench_start(&b, NULL, true);
		before = limit_files(64); /* too few to keep any */
		assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
		(void) limit_files(3);
		assert_int_equal(processes_read(b.p, what[i], &b.out), 0);
		assert_int_equal(processes_count(b.p), 1);
		child_end(&main);
		framebuf_clear(&b.out);
		assert_int_equal(processes_read(b.p, what[i], &b.out), 0);
		assert_int_equal(b.out.n_ends, 1);
		assert_int_equal(processes_count(b.p), 0);
		(void) limit_files(before);
		bench_end(&b);
	}
}

static void inherited_descriptors_reduce_the_kept_ones(void **state)
{
	enum {
		MOST = 200,
		INHERITED = 120
	};
	struct child main = child_start(just_wait, NULL);
	const rlim_t before = limit_files(MOST);
	int last = dup(0), next;
	const int first = last;
	struct bench b;

	(void) state;
	(void) child_take(&main);
	while (last < INHERITED)
		last = dup(0);
	bench_start(&b, NULL, true);
	next = dup(0);
	(void) close(next);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(dup(0), next);
	for (int fd = first; fd <= last; fd++)
		(void) close(fd);
	(void) close(next);
	(void) limit_files(before);
	child_end(&main);
	bench_end(&b);
}

/* A child with a pid of our choice; 0 if that is not permitted. */
static pid_t fork_as(pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD, .set_tid = (uint64_t) (uintptr_t) &pid, .set_tid_size = 1
	};
	long child = syscall(SYS_clone3, &args, sizeof(args));

	if (child == 0) {
		(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void) pause();
	}
	return child > 0 ? (pid_t) child : 0;
}

static void a_pid_that_is_used_again_is_another_process(void **state)
{
	struct child main = child_start(just_wait, NULL);
	uint64_t from = clock_boot_ns();
	pid_t pid = main.pid;
	struct bench b;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, pid, true, &b.out), 0);
	child_end(&main);
	/* Start times have the resolution of a clock tick. */
	while (clock_boot_ns() < from + 30000000)
		;
	if (fork_as(pid) != pid) {
		bench_end(&b);
		skip();
	}
	framebuf_clear(&b.out);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY | PROCESSES_CPU, &b.out), 0);
	assert_int_equal(b.out.n_readings, 0);
	assert_non_null(end_of(&b.out, 1));
	assert_int_equal(processes_scan(b.p, SCAN_FULL, &b.out), 1);
	assert_int_equal(birth_of(&b.out, pid)->id, 2);
	bench_end(&b);
	(void) kill(pid, SIGKILL);
	(void) waitpid(pid, NULL, 0);
}

enum {
	CROWD = 1200
};

static void start_a_crowd(const struct child *c, void *arg)
{
	(void) arg;
	for (int i = 0; i < CROWD; i++) {
		if (fork() == 0) {
			(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				(void) pause();
		}
	}
	child_done(c, 0);
	child_wait(c);
}

/* Facts that arrive later, with its exit record or when it is reaped, are still added to the first
 * of them; otherwise it would be born a second time. */
static void of_thousands_that_end_at_once_each_is_found_again(void **state)
{
	struct child main = child_start(start_a_crowd, NULL);
	const struct end facts = { .status_known = true, .status = SIGKILL };
	struct bench b;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_true(processes_scan(b.p, SCAN_FULL, &b.out) >= 0);
	assert_int_equal(processes_count(b.p), 1 + CROWD);
	for (size_t i = 0; i < b.out.n_births; i++) {
		const pid_t pid = b.out.births[i].process.pid;

		if (pid != main.pid)
			(void) kill(pid, SIGKILL);
	}
	while (processes_count(b.p) > 1)
		assert_int_equal(processes_read(b.p, PROCESSES_MEMORY, &b.out), 0);
	assert_int_equal(b.out.n_ends, CROWD);
	for (size_t i = 0; i < b.out.n_births; i++) {
		const struct birth *birth = &b.out.births[i];
		struct framebuf out = { 0 };

		if (birth->process.pid == main.pid)
			continue;
		assert_true(processes_reaped(b.p, birth->process.pid, &facts, &out));
		assert_int_equal(out.n_ends, 1);
		assert_int_equal(out.ends[0].id, birth->id);
		framebuf_done(&out);
	}
	bench_end(&b);
	child_end(&main);
}

/* An action right before a file is read, once. */
static struct {
	char path[64]; /* "": nothing */
	const struct child *goes_on;
} before_read;

/* Replaces the C library's. */
ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	char link[64], path[64];
	ssize_t len;

	if (before_read.path[0]) {
		(void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		len = readlink(link, path, sizeof(path) - 1);
		path[len > 0 ? len : 0] = '\0';
		if (strcmp(path, before_read.path) == 0) {
			before_read.path[0] = '\0';
			child_go(before_read.goes_on);
			(void) child_take(before_read.goes_on);
		}
	}
	return syscall(SYS_pread64, fd, buf, n, at);
}

static void write_and_pause(void)
{
	static const char block[1 << 16];
	FILE *null = fopen("/dev/null", "we");

	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!null || fwrite(block, sizeof(block), 1, null) != 1 || fflush(null) != 0)
		_exit(1);
	for (;;)
		(void) pause();
}

static void have_a_child_and_end_it(const struct child *c, void *arg)
{
	const pid_t pid = fork();

	(void) arg;
	if (pid == 0)
		write_and_pause();
	child_done(c, pid);
	child_wait(c);
	(void) kill(pid, SIGKILL);
	(void) waitpid(pid, NULL, 0);
	child_done(c, 0);
	child_wait(c);
}

/* A process seen alive whose I/O is also in its parent's, in one frame, would be counted twice. */
static void a_process_reaped_during_the_read_has_ended(void **state)
{
	static const unsigned what = PROCESSES_MEMORY | PROCESSES_IO;
	struct child main = child_start(just_wait, NULL), second = child_start(just_wait, NULL);
	struct child parent = child_start(have_a_child_and_end_it, NULL);
	struct bench b;

	(void) state;
	(void) child_take(&main);
	(void) child_take(&second);
	const pid_t pid = child_take(&parent);

	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	const uint32_t child = birth_of(&b.out, pid)->id, its = birth_of(&b.out, parent.pid)->id;

	/* The last member moves to the place of the ended one: the child is now read before its
	 * parent. */
	child_end(&second);
	do {
		framebuf_clear(&b.out);
		assert_int_equal(processes_read(b.p, what, &b.out), 0);
	} while (value_in(&b.out, M_PROC_WRITE_CHARS, child) < 65536);
	const int64_t before = value_in(&b.out, M_PROC_WRITE_CHARS, its);

	(void) snprintf(before_read.path, sizeof(before_read.path), "/proc/%d/io", parent.pid);
	before_read.goes_on = &parent;
	framebuf_clear(&b.out);
	assert_int_equal(processes_read(b.p, what, &b.out), 0);
	assert_true(value_in(&b.out, M_PROC_WRITE_CHARS, its) >= before + 65536);
	assert_non_null(reading_in(&b.out, M_PROC_RSS, child)); /* it still existed at its turn */
	assert_non_null(end_of(&b.out, child));
	bench_end(&b);
}

/* A zombie of the recorder that no scan found is born once, and reaped as any other. */
static void an_orphan_is_found_when_it_is_reaped(void **state)
{
	struct child main = child_start(just_wait, NULL), orphan, ignored;
	const struct birth *birth;
	struct bench b;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	orphan = child_start(just_wait, NULL);
	ignored = child_start(just_wait, NULL);
	(void) child_take(&orphan);
	(void) child_take(&ignored);
	processes_ignore(b.p, ignored.pid);
	child_go(&orphan);
	child_go(&ignored);
	zombie_wait(orphan.pid);
	zombie_wait(ignored.pid);
	framebuf_clear(&b.out);
	assert_false(processes_orphan(b.p, ignored.pid, &b.out));
	assert_false(processes_orphan(b.p, main.pid, &b.out));
	assert_true(processes_orphan(b.p, orphan.pid, &b.out));
	assert_false(processes_orphan(b.p, orphan.pid, &b.out));
	assert_int_equal(b.out.n_births, 1);
	birth = birth_of(&b.out, orphan.pid);
	assert_non_null(birth);
	assert_int_equal(birth->process.uid, geteuid());
	assert_true(processes_reaped(b.p, orphan.pid, &(struct end) { 0 }, &b.out));
	assert_int_equal(b.out.n_ends, 1);
	assert_int_equal(b.out.ends[0].id, birth->id);
	bench_end(&b);
	child_end(&orphan);
	child_end(&ignored);
	child_end(&main);
}

static int setup(void **state)
{
	(void) state;
	return prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHILDREN_TEST(a_zombie_has_ended_with_its_last_facts),
		CHILDREN_TEST(counters_of_reaped_children_are_those_at_the_end),
		CHILDREN_TEST(the_vanished_have_ended),
		CHILDREN_TEST(where_no_file_can_be_opened_an_end_is_seen_all_the_same),
		CHILDREN_TEST(inherited_descriptors_reduce_the_kept_ones),
		CHILDREN_TEST(a_pid_that_is_used_again_is_another_process),
		CHILDREN_TEST(a_process_reaped_during_the_read_has_ended),
		CHILDREN_TEST(an_orphan_is_found_when_it_is_reaped),
		CHILDREN_TEST(of_thousands_that_end_at_once_each_is_found_again),
	};

	return cmocka_run_group_tests_name("processes_ends", tests, setup, NULL);
}
