/* SPDX-License-Identifier: MIT
 *
 * The start of a run: the first values, and their sources.
 */
#include "sampler_machine.h"

/* ---- the start ------------------------------------------------------------------------------- */

/* If some of several processes to attach to have already ended, the run starts nevertheless. */
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
	unsigned before = 0; /* including descriptors that are opened once and kept */

	for (int i = 0; i < 3; i++) {
		err.text[0] = '\0';
		assert_int_equal(sampler_start(r.s, gone.pid, &err), -ESRCH);
		assert_non_null(strstr(err.text, "process"));
		assert_true(before == 0 || open_fds() == before);
		before = open_fds();
		assert_int_equal(sampler_time(r.s), 0);
	}
	rig_start(&r, main.pid);
	assert_int_equal(open_fds(), with_plain); /* no more than at a successful first start */
	assert_int_equal(facts_of(&r)->main_pid.value, main.pid);
	assert_true(job_main(sampler_job(r.s))->pid == main.pid);
	assert_int_equal(sampler_start(r.s, gone.pid, NULL), -ESRCH); /* a later failure changes nothing */
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
	sampler_zombie(r.s, getpid());
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
	assert_int_equal(r.n_births, 1); /* which is not the job's */
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
	later = waiting_child(); /* not ignored: a child of the subreaper is the job's */
	steps(&r, 2);
	sampler_now(r.s);
	assert_true(was_born(&r, main.pid) && was_born(&r, later.pid));
	assert_false(was_born(&r, before.pid) || was_born(&r, after.pid));
	/* Its use is not the job's. */
	sampler_reaped(r.s, after.pid,
		&(struct end) { .how = END_REAPED, .cpu_user_ns = known(5), .cpu_system_ns = known(5) });
	assert_false(facts_of(&r)->reaped_user_ns.known);
	child_end(&later);
	child_end(&after);
	child_end(&before);
	child_end(&main);
	rig_done(&r);
}

/* ---- what cannot be seen --------------------------------------------------------------------- */

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

/* ---- the cgroup ------------------------------------------------------------------------------ */

/* The kernel writes 0 for a process of a foreign pid namespace: it is not a member, so the
 * cgroup is shared. */
static void a_stranger_in_the_cgroup_is_seen(void **state)
{
	static const struct {
		const char *procs;
		int64_t exclusive;
	} cases[] = {
		{ "300\n301\n", 1 },
		{ "300\n301\n302\n", 0 },
		{ "300\n301\n0\n", 0 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct temp_tree t;
		struct rig r;

		put_machine(&t, 2, 10000);
		temp_tree_put(
			&t, "proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
		temp_tree_put(&t, "proc/300/cgroup", "0::/job\n");
		temp_tree_put(&t, "sys/fs/cgroup/job/cgroup.procs", cases[i].procs);
		temp_tree_put(&t, "sys/fs/cgroup/job/memory.current", "4096\n");
		rig_prepare(&r, t.path, 10 * MS, false);
		r.options.cgroup = CGROUP_AUTO;
		rig_make(&r);
		rig_start(&r, FIRST_PID);
		steps(&r, 2);
		assert_true(facts_of(&r)->cgroup_exclusive.known);
		assert_int_equal(facts_of(&r)->cgroup_exclusive.value, cases[i].exclusive);
		rig_done(&r);
		temp_tree_done(&t);
	}
}

/* A group above the job's may have other jobs, whose memory counts towards its limit too. */
static void whose_limit_it_is_is_recorded(void **state)
{
	static const struct {
		const char *own, *above;
		struct maybe limit, is_own;
	} cases[] = {
		{ "8192\n", "max\n", { 8192, true }, { 1, true } },
		{ "8192\n", "4096\n", { 4096, true }, { 0, true } },
		{ "max\n", "4096\n", { 4096, true }, { 0, true } },
		{ "max\n", "max\n", { 0, false }, { 0, false } },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct temp_tree t;
		struct rig r;

		put_machine(&t, 2, 10000);
		temp_tree_put(
			&t, "proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
		temp_tree_put(&t, "proc/300/cgroup", "0::/all/job\n");
		temp_tree_put(&t, "sys/fs/cgroup/all/memory.max", cases[i].above);
		temp_tree_put(&t, "sys/fs/cgroup/all/job/memory.max", cases[i].own);
		rig_prepare(&r, t.path, 10 * MS, false);
		r.options.cgroup = CGROUP_AUTO;
		rig_make(&r);
		rig_start(&r, FIRST_PID);
		assert_int_equal(facts_of(&r)->limit_bytes.known, cases[i].limit.known);
		assert_int_equal(facts_of(&r)->limit_bytes.value, cases[i].limit.value);
		assert_int_equal(facts_of(&r)->limit_is_own.known, cases[i].is_own.known);
		assert_int_equal(facts_of(&r)->limit_is_own.value, cases[i].is_own.value);
		rig_done(&r);
		temp_tree_done(&t);
	}
}

/* ---- groups that are asked for by name ------------------------------------------------------- */

static bool has_group(const struct source_ops *ops, const char *name)
{
	for (unsigned g = 0; g < ops->n_groups; g++) {
		if (strcmp(ops->groups[g].name, name) == 0)
			return ops->n_groups <= SAMPLER_GROUPS;
	}
	return false;
}

/* sampler_plan.c: the events of a shared cgroup; huge pages out of turn. */
static void groups_have_the_names_that_are_asked_for(void **state)
{
	(void) state;
	assert_true(has_group(&source_cgroup, "events"));
	assert_true(has_group(&source_host, "pages"));
	assert_false(has_group(&source_host, "events"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHILDREN_TEST(a_start_that_failed_leaves_nothing),
		CHILDREN_TEST(what_is_not_begun_can_be_ended),
		CHILDREN_TEST(the_gate_is_tested_by_a_fork_of_our_own),
		CHILDREN_TEST(ignored_children_are_none_of_the_job),
		CHILDREN_TEST(launchers_of_unseen_tasks_are_noted),
		CHILDREN_TEST(a_stranger_in_the_cgroup_is_seen),
		CHILDREN_TEST(whose_limit_it_is_is_recorded),
		cmocka_unit_test(groups_have_the_names_that_are_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
