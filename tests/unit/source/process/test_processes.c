/* SPDX-License-Identifier: MIT
 *
 * Membership in the job, with real children.
 */
#include "children.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

static void just_wait(const struct child *c, void *arg)
{
	(void) arg;
	child_done(c, 0);
	child_wait(c);
}

/* ---- births ------------------------------------------------------------------------------------------------------- */

static void fork_when_told(const struct child *c, void *arg)
{
	(void) arg;
	(void) prctl(PR_SET_NAME, "a (b) \n c");
	for (;;) {
		pid_t pid = fork();

		if (pid == 0) {
			(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				(void) pause();
		}
		child_done(c, pid);
		child_wait(c);
	}
}

/* However many processes are attached: one scan finds the children of all. */
static void children_of_further_ones_are_found_by_the_next_scan(void **state)
{
	enum {
		FURTHER = 3
	};
	struct child main = child_start(fork_when_told, NULL), further[FURTHER];
	pid_t started[FURTHER];
	struct bench b;

	(void) state;
	(void) child_take(&main);
	for (int i = 0; i < FURTHER; i++) {
		further[i] = child_start(fork_when_told, NULL);
		started[i] = child_take(&further[i]);
	}
	bench_start(&b, NULL, false);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(processes_count(b.p), 2);
	for (int i = 0; i < FURTHER; i++) {
		assert_int_equal(processes_adopt(b.p, further[i].pid, false, &b.out), 0);
		assert_int_equal(processes_count(b.p), 3 + i);
	}
	assert_int_equal(processes_scan(b.p, SCAN_FULL, &b.out), FURTHER);
	for (int i = 0; i < FURTHER; i++)
		assert_int_equal(
			birth_of(&b.out, started[i])->process.parent, processes_id(b.p, further[i].pid));
	bench_end(&b);
}

static void children_are_members(void **state)
{
	struct child main = child_start(fork_when_told, NULL);
	pid_t first = child_take(&main), second;
	struct bench b;

	(void) state;
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(b.out.n_births, 2);
	assert_int_equal(processes_count(b.p), 2);
	const struct birth *birth = birth_of(&b.out, main.pid);

	assert_non_null(birth);
	assert_int_equal(birth->id, 1);
	assert_true(birth->process.is_main);
	assert_int_equal(birth->process.ppid, getpid());
	assert_int_equal(birth->process.parent, 0);
	assert_int_equal(birth->process.uid, getuid());
	assert_string_equal(birth->process.name, "a (b) \n c");
	assert_true(birth->process.start_ns > 0 && birth->process.start_ns <= clock_boot_ns());
	assert_non_null(strstr(birth->process.command, "test_processes"));
	assert_non_null(birth_of(&b.out, first));
	assert_int_equal(birth_of(&b.out, first)->process.parent, 1);
	assert_int_equal(birth_of(&b.out, first)->process.startstack, birth->process.startstack);
	assert_false(birth_of(&b.out, first)->process.is_main);
	/* Nothing is reported twice. */
	framebuf_clear(&b.out);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(processes_scan(b.p, SCAN_FULL, &b.out), 0);
	assert_true(framebuf_is_empty(&b.out));
	/* The gate alone finds the next one. */
	child_go(&main);
	second = child_take(&main);
	assert_int_equal(processes_scan(b.p, SCAN_GATE, &b.out), 1);
	assert_non_null(birth_of(&b.out, second));
	assert_int_equal(processes_id(b.p, second), 3);
	assert_int_equal(processes_id(b.p, getpid()), 0);
	bench_end(&b);
	child_end(&main);
}

static void the_gate_knows_of_a_fork(void **state)
{
	struct child c;
	struct bench b;
	const char *why;

	(void) state;
	bench_start(&b, NULL, true);
	c = child_start(just_wait, NULL);
	(void) child_take(&c);
	processes_test_gate(b.p, c.pid);
	assert_true(processes_gate_works(b.p, &why));
	assert_string_equal(why, "");
	/* A pid that was never assigned. */
	processes_test_gate(b.p, c.pid > 20000 ? c.pid - 15000 : c.pid + 15000);
	assert_false(processes_gate_works(b.p, &why));
	assert_true(strlen(why) > 0);
	/* Without the gate a full scan finds it. */
	assert_int_equal(processes_scan(b.p, SCAN_FULL, &b.out), 1);
	bench_end(&b);
	child_end(&c);
}

static void ignored_processes_are_no_members(void **state)
{
	struct child main = child_start(just_wait, NULL), canary = child_start(just_wait, NULL);
	struct bench b;

	(void) state;
	(void) child_take(&main);
	(void) child_take(&canary);
	bench_start(&b, NULL, true);
	processes_ignore(b.p, canary.pid);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(b.out.n_births, 1);
	assert_int_equal(processes_id(b.p, canary.pid), 0);
	assert_false(processes_reaped(b.p, canary.pid, &(struct end) { 0 }, &b.out));
	bench_end(&b);
	child_end(&main);
	child_end(&canary);
}

/* ---- daemons ------------------------------------------------------------------------------------------------------ */

/* main - A (setsid) - B; then A ends and B is whose subreaper comes first. */
static void daemonise(const struct child *c, void *arg)
{
	struct child a;

	(void) arg;
	a = child_start(just_wait, NULL);
	child_done(c, a.pid);
	child_wait(c);
	child_close(&a);
	(void) waitpid(a.pid, NULL, 0);
	pid_t pid = fork();

	if (pid == 0) {
		(void) setsid();
		pid = fork();
		if (pid != 0)
			_exit(0);
		child_done(c, getpid());
		for (;;)
			(void) pause();
	}
	(void) waitpid(pid, NULL, 0);
	child_done(c, 0);
	child_wait(c);
}

static void a_grandchild_whose_parents_died_is_a_member(void **state)
{
	struct child main = child_start(daemonise, NULL);
	pid_t daemon;
	struct bench b;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	child_go(&main);
	daemon = child_take(&main);
	if (daemon == 0)
		daemon = child_take(&main);
	else
		assert_int_equal(child_take(&main), 0);
	assert_int_equal(processes_scan(b.p, SCAN_FULL, &b.out), 1);
	assert_non_null(birth_of(&b.out, daemon));
	assert_int_equal(birth_of(&b.out, daemon)->process.ppid, getpid());
	bench_end(&b);
	(void) kill(daemon, SIGKILL);
	(void) waitpid(daemon, NULL, 0);
	child_end(&main);
}

/* Leads a session from the start; at its next step leaves a child in it and ends. */
static void lead_and_leave(const struct child *c, void *arg)
{
	(void) arg;
	(void) setsid();
	child_done(c, 0);
	child_wait(c);
	if (fork() == 0) {
		child_done(c, getpid());
		for (;;)
			(void) pause();
	}
}

/* With attach, an orphan goes to another process's subreaper, and only its session identifies it. */
static void an_orphan_is_known_by_its_session(void **state)
{
	struct child leader = child_start(lead_and_leave, NULL), other = child_start(lead_and_leave, NULL);
	pid_t orphan, stranger;
	struct bench b;

	(void) state;
	(void) child_take(&leader);
	(void) child_take(&other);
	bench_start(&b, NULL, false);
	assert_int_equal(processes_adopt(b.p, leader.pid, true, &b.out), 0);
	assert_int_equal(b.out.n_births, 1);
	child_go(&leader);
	child_go(&other);
	orphan = child_take(&leader);
	stranger = child_take(&other);
	zombie_wait(leader.pid);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY, &b.out), 0);
	assert_int_equal(processes_count(b.p), 0);
	(void) waitpid(leader.pid, NULL, 0);
	(void) waitpid(other.pid, NULL, 0);
	assert_int_equal(processes_scan(b.p, SCAN_FULL, &b.out), 1);
	assert_non_null(birth_of(&b.out, orphan));
	assert_null(birth_of(&b.out, stranger));
	bench_end(&b);
	(void) kill(orphan, SIGKILL);
	(void) kill(stranger, SIGKILL);
	(void) waitpid(orphan, NULL, 0);
	(void) waitpid(stranger, NULL, 0);
	child_close(&leader);
	child_close(&other);
}

/* Leads a session that contains an orphan, whose child left it. Sends 0 once the orphan is one,
 * which sends its pid. */
static void lead_with_an_orphan(const struct child *c, void *arg)
{
	pid_t parent;

	(void) arg;
	(void) setsid();
	parent = fork();
	if (parent == 0 && fork() == 0) {
		if (fork() == 0) {
			(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
			(void) setsid();
		} else
			child_done(c, getpid());
		for (;;)
			(void) pause();
	}
	if (parent == 0)
		_exit(0);
	(void) waitpid(parent, NULL, 0);
	child_done(c, 0);
	child_wait(c);
}

/* Also an orphan from before the first scan, which reads only the session of most processes. */
static void an_orphan_was_in_the_session_before(void **state)
{
	struct child leader = child_start(lead_with_an_orphan, NULL),
		     other = child_start(lead_with_an_orphan, NULL);
	const pid_t orphan = child_take(&leader) + child_take(&leader),
		    stranger = child_take(&other) + child_take(&other);
	struct bench b;

	(void) state;
	bench_start(&b, NULL, false);
	assert_int_equal(processes_adopt(b.p, leader.pid, true, &b.out), 0);
	assert_int_equal(processes_count(b.p), 3);
	assert_non_null(birth_of(&b.out, orphan));
	bench_end(&b);
	child_end(&leader);
	child_end(&other);
	(void) kill(orphan, SIGKILL);
	(void) kill(stranger, SIGKILL);
	(void) waitpid(orphan, NULL, 0);
	(void) waitpid(stranger, NULL, 0);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

static void *thread_pause(void *arg)
{
	(void) arg;
	for (;;)
		(void) pause();
	return NULL;
}

static void thread_when_told(const struct child *c, void *arg)
{
	pthread_t thread;

	(void) arg;
	for (;;) {
		if (pthread_create(&thread, NULL, thread_pause, NULL) != 0)
			_exit(1);
		child_done(c, 0);
		child_wait(c);
	}
}

static void threads_are_no_processes(void **state)
{
	struct child main = child_start(thread_when_told, NULL);
	struct bench b;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	assert_int_equal(b.out.n_births, 1);
	child_go(&main);
	(void) child_take(&main);
	assert_int_equal(processes_scan(b.p, SCAN_GATE, &b.out), 0);
	assert_int_equal(processes_scan(b.p, SCAN_GATE, &b.out), 0);
	assert_int_equal(processes_scan(b.p, SCAN_FULL, &b.out), 0);
	assert_int_equal(processes_read(b.p, PROCESSES_CPU, &b.out), 0);
	assert_int_equal(value_in(&b.out, M_PROC_THREADS, 1), 3);
	bench_end(&b);
	child_end(&main);
}

static void *outlive(void *arg)
{
	const struct child *c = arg;

	/* The first thread is gone when its state is Z. */
	for (;;) {
		char path[64], text[256] = "";
		FILE *f;

		(void) snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
		f = fopen(path, "re");
		if (f && fgets(text, sizeof(text), f) && strstr(text, ") Z ")) {
			(void) fclose(f);
			break;
		}
		if (f)
			(void) fclose(f);
		(void) sched_yield();
	}
	child_done(c, 0);
	child_wait(c);
	_exit(0);
}

static void end_first_thread(const struct child *c, void *arg)
{
	struct child copy = *c;
	pthread_t thread;

	(void) arg;
	if (pthread_create(&thread, NULL, outlive, &copy) == 0)
		pthread_exit(NULL);
}

static void a_process_outlives_its_first_thread(void **state)
{
	struct child main = child_start(end_first_thread, NULL);
	struct bench b;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	for (int i = 0; i < 2; i++) {
		framebuf_clear(&b.out);
		assert_int_equal(
			processes_read(b.p, PROCESSES_MEMORY | PROCESSES_CPU | PROCESSES_HWM, &b.out), 0);
		assert_int_equal(b.out.n_ends, 0);
		assert_true(value_in(&b.out, M_PROC_RSS, 1) > 0);
		assert_true(value_in(&b.out, M_PROC_HWM, 1) > 0);
	}
	child_go(&main);
	zombie_wait(main.pid);
	assert_int_equal(processes_read(b.p, PROCESSES_MEMORY, &b.out), 0);
	assert_int_equal(b.out.n_ends, 1);
	bench_end(&b);
	child_end(&main);
}

/* ---- other programs ----------------------------------------------------------------------------------------------- */

static void rename_then_exec(const struct child *c, void *arg)
{
	(void) arg;
	child_done(c, 0);
	child_wait(c);
	(void) prctl(PR_SET_NAME, "renamed");
	child_done(c, 0);
	child_wait(c);
	/* cat copies one step's number for the test, and then waits on. */
	(void) close(STDERR_FILENO);
	(void) dup2(c->to, STDIN_FILENO);
	(void) dup2(c->from, STDOUT_FILENO);
	(void) execlp("cat", "cat", "-u", "--", "-", "--token=abc", (char *) NULL);
	_exit(127);
}

static void an_exec_is_noticed(void **state)
{
	struct child main = child_start(rename_then_exec, NULL);
	uint64_t startstack;
	struct bench b;

	(void) state;
	(void) child_take(&main);
	bench_start(&b, NULL, true);
	assert_int_equal(processes_adopt(b.p, main.pid, true, &b.out), 0);
	startstack = birth_of(&b.out, main.pid)->process.startstack;
	assert_true(startstack != 0);
	framebuf_clear(&b.out);
	assert_int_equal(processes_read(b.p, PROCESSES_CPU, &b.out), 0);
	assert_int_equal(b.out.n_births + b.out.n_events, 0);
	/* A new name is not a new program. */
	child_go(&main);
	(void) child_take(&main);
	assert_int_equal(processes_read(b.p, PROCESSES_CPU, &b.out), 0);
	assert_int_equal(b.out.n_events, 0);
	assert_int_equal(b.out.n_births, 1);
	assert_string_equal(b.out.births[0].process.name, "renamed");
	assert_int_equal(b.out.births[0].id, 1);
	assert_int_equal(b.out.births[0].process.startstack, startstack);
	framebuf_clear(&b.out);
	child_go(&main);
	assert_int_equal(write(main.to, "1234", 4), 4);
	(void) child_take(&main);
	assert_int_equal(processes_read(b.p, PROCESSES_CPU, &b.out), 0);
	assert_int_equal(b.out.n_events, 1);
	assert_int_equal(b.out.events[0].kind, EVENT_EXEC);
	assert_int_equal(b.out.events[0].entity, ENTITY_PROCESS);
	assert_int_equal(b.out.events[0].id, 1);
	assert_string_equal(b.out.events[0].text, "cat");
	assert_int_equal(b.out.n_births, 1);
	assert_int_equal(b.out.births[0].id, 1);
	assert_true(b.out.births[0].process.is_main);
	assert_string_equal(b.out.births[0].process.name, "cat");
	assert_string_equal(b.out.births[0].process.command, "cat -u -- - --token=***");
	assert_true(b.out.births[0].process.startstack != startstack);
	bench_end(&b);
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
		CHILDREN_TEST(children_are_members),
		CHILDREN_TEST(children_of_further_ones_are_found_by_the_next_scan),
		CHILDREN_TEST(the_gate_knows_of_a_fork),
		CHILDREN_TEST(ignored_processes_are_no_members),
		CHILDREN_TEST(a_grandchild_whose_parents_died_is_a_member),
		CHILDREN_TEST(an_orphan_is_known_by_its_session),
		CHILDREN_TEST(an_orphan_was_in_the_session_before),
		CHILDREN_TEST(threads_are_no_processes),
		CHILDREN_TEST(a_process_outlives_its_first_thread),
		CHILDREN_TEST(an_exec_is_noticed),
	};

	return cmocka_run_group_tests_name("processes", tests, setup, NULL);
}
