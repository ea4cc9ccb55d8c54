/* SPDX-License-Identifier: MIT
 *
 * The end of a run: processes still running, and that every process ends once.
 */
#include "sampler_rig.h"

#include <sys/socket.h>

/* ---- the end --------------------------------------------------------------------------------- */

/* Starts a process that stays and ends itself on request. */
static void leave_a_daemon(const struct child *c, void *arg)
{
	(void) arg;
	(void) prctl(PR_SET_NAME, "left-behind"); /* the child's from its start */
	pid_t pid = fork();

	if (pid == 0) {
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
	const struct maybe ended = facts_of(&r)->main_ended_ns;

	assert_true(ended.known);
	sampler_end(r.s);
	(void) snprintf(expected, sizeof(expected), "left-behind (%d)", (int) daemon);
	assert_int_equal(facts_of(&r)->processes_left.value, 1);
	assert_string_equal(facts_of(&r)->left_names, expected);
	assert_int_equal(facts_of(&r)->ended_ns.value, ended.value);
	assert_int_equal(r.n_left, 1);
	assert_int_equal(job_process_by_id(sampler_job(r.s), r.left_id)->pid, daemon);
	assert_int_equal(kill(daemon, 0), 0); /* it was not killed */
	assert_int_equal(facts_of(&r)->cpu_is_exact.value, 0);
	/* It ends once, and nothing is due afterwards. */
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

/* As with --wait: the run ends with the last process that is followed, or when waiting is given
 * up. */
static void who_is_followed_beyond_main_counts(void **state)
{
	struct rig r;

	(void) state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1UL), 0);
	for (int is_left = 0; is_left <= 1; is_left++) {
		rig_prepare(&r, NULL, 10 * MS, true);
		rig_make(&r);
		struct child main = child_start(leave_a_daemon, NULL);
		const pid_t daemon = child_take(&main);

		rig_start(&r, main.pid);
		while (!was_born(&r, daemon))
			steps(&r, 1);
		child_go(&main);
		reap_main(&r, main.pid);
		assert_false(facts_of(&r)->ended_ns.known);
		steps(&r, 2);
		const uint64_t before = sampler_time(r.s);

		if (!is_left) {
			assert_int_equal(kill(daemon, SIGKILL), 0);
			reap_main(&r, daemon);
		}
		const uint64_t after = sampler_time(r.s);

		wait_for(2 * MS);
		sampler_end(r.s);
		assert_int_equal(facts_of(&r)->processes_left.value, is_left);
		assert_true((uint64_t) facts_of(&r)->main_ended_ns.value < before);
		assert_true((uint64_t) facts_of(&r)->ended_ns.value >= before);
		assert_int_equal((uint64_t) facts_of(&r)->ended_ns.value > after, is_left);
		assert_int_equal(WEXITSTATUS(facts_of(&r)->exit_status.value), 7);
		child_close(&main);
		rig_done(&r);
	}
}

/* Its pid may be reused by an orphan of the job. */
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
	const struct maybe ended = facts_of(&r)->main_ended_ns;

	assert_int_equal(facts_of(&r)->exit_status.value, 0);
	sampler_reaped(
		r.s, main.pid, &(struct end) { .how = END_REAPED, .status_known = true, .status = SIGKILL });
	assert_int_equal(facts_of(&r)->exit_status.value, 0);
	assert_int_equal(facts_of(&r)->main_ended_ns.value, ended.value);
	child_close(&main);
	sampler_end(r.s);
	assert_true(facts_of(&r)->ended_ns.value >= ended.value); /* the orphan's */
	assert_int_equal(facts_of(&r)->processes_left.value, 0);
	assert_null(facts_of(&r)->left_names);
	assert_int_equal(facts_of(&r)->cpu_is_exact.value, 1);
	rig_done(&r);
}

/* Processes that live less than a sample and are not waited for at once: observed as a zombie or
 * through the exit record, never both. */
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
	/* Ends of other processes on the machine cause no wakeups: exit records are only read
	 * with samples. */
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

/* The summary must say that short children may be missing. */
static void lost_exit_records_are_a_fact(void **state)
{
	struct child main = waiting_child();
	const int bytes = 4096;
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 10 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	if (r.s->taskstats) {
		assert_false(facts_of(&r)->taskstats_lost.known);
		assert_int_equal(setsockopt(taskstats_fd(r.s->taskstats), SOL_SOCKET, SO_RCVBUF, &bytes,
					 sizeof(bytes)),
			0);
		assert_true(waitpid(strangers_end(50), NULL, 0) > 0);
	}
	child_go(&main);
	reap_main(&r, main.pid);
	sampler_end(r.s);
	assert_int_equal(facts_of(&r)->taskstats_lost.value, facts_of(&r)->taskstats.value);
	child_close(&main);
	rig_done(&r);
}

/* If no more records will come, none counts as complete. */
static void exit_records_that_come_no_more_are_lost(void **state)
{
	struct child main = waiting_child();
	struct rig r;
	int fds[2];

	(void) state;
	rig_prepare(&r, NULL, 10 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	if (r.s->taskstats) {
		assert_int_equal(pipe(fds), 0);
		assert_true(dup2(fds[0], taskstats_fd(r.s->taskstats)) >= 0); /* no socket */
		(void) close(fds[0]);
		(void) close(fds[1]);
		r.s->next_records_ns = 0;
		sampler_records(r.s, sampler_time(r.s));
		assert_null(r.s->taskstats);
		assert_int_equal(facts_of(&r)->taskstats_lost.value, 1);
	}
	child_go(&main);
	reap_main(&r, main.pid);
	sampler_end(r.s);
	child_close(&main);
	rig_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHILDREN_TEST(who_lives_on_is_counted_and_named),
		CHILDREN_TEST(who_is_followed_beyond_main_counts),
		CHILDREN_TEST(main_ends_once),
		CHILDREN_TEST(a_zombie_is_one_process),
		CHILDREN_TEST(lost_exit_records_are_a_fact),
		CHILDREN_TEST(exit_records_that_come_no_more_are_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
