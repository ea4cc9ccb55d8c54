/* SPDX-License-Identifier: MIT
 *
 * What one run says about the next request, and the rule about memory that is known within bounds.
 */
#include "findings_rig.h"

static struct request_run run_of(const struct made *m)
{
	struct request_run run;

	request_run_of(&m->s, &run);
	return run;
}

static void made_exclusive(struct made *m)
{
	made_new(m);
	m->f->cgroup_exclusive = known(1);
	m->s.shmem_peak = known(MIB(100));
	m->s.unreclaimable_peak = known(MIB(900));
	made_counter(m, M_JOB_CGROUP_ANON, MIB(450), MIB(450));
}

/* A limit of a group above the job's counts what other jobs have there. */
static void test_memory_of_the_cgroup(void **state)
{
	struct made m;
	struct request_run run;

	(void) state;
	made_exclusive(&m);
	m.f->limit_is_own = known(1);
	run = run_of(&m);
	assert_int_equal(run.memory.value.value, MIB(900));
	assert_int_equal(run.memory.low.value, MIB(900));
	assert_true(run.is_sampled && !run.is_bound);
	m.f->limit_is_own = known(0);
	run = run_of(&m);
	assert_int_equal(run.memory.value.value, MIB(550));
	assert_int_equal(run.memory.low.value, MIB(413));
	assert_true(run.is_bound && !run.is_sampled);
	m.f->limit_is_own = UNKNOWN;
	assert_int_equal(run_of(&m).memory.value.value, MIB(550));
	m.s.shmem_peak = known(0);
	made_done(&m);
	made_new(&m);
	m.s.unreclaimable_peak = known(MIB(900)); /* of a group with other processes */
	m.f->limit_is_own = known(1);
	assert_int_equal(run_of(&m).memory.value.value, MIB(413));
	made_done(&m);
}

static void test_tmpfs_of_the_machine_is_an_upper_bound(void **state)
{
	struct made m;
	struct buf text = BUF_INIT(1 << 16);

	(void) state;
	made_new(&m);
	m.s.shmem_at_most = true;
	m.s.shmem_peak = known(MIB(400));
	const struct request_run run = run_of(&m);

	assert_int_equal(run.memory.value.value, MIB(813));
	assert_int_equal(run.memory.low.value, MIB(413));
	assert_true(run.is_bound);
	judged(&m, "memory-request", NULL);
	request_basis(&m.s.request, UNITS_IEC, &text);
	assert_says(text.data, "peak at most 813 MiB with 400 MiB of tmpfs and shared memory, system-wide + 20 %");
	buf_done(&text);
	/* Others filled it: the job wrote less. */
	made_counter(&m, M_JOB_WRITE_CHARS, 0, MIB(30));
	assert_int_equal(run_of(&m).memory.value.value, MIB(443));
	made_counter(&m, M_JOB_WRITE_CHARS, 0, 5000);
	assert_int_equal(run_of(&m).memory.value.value, MIB(413));
	assert_false(run_of(&m).is_bound);
	made_counter(&m, M_JOB_WRITE_CHARS, 0, MIB(900));
	/* Not shown in the summary, since it is small beside the peak. */
	m.s.shmem_peak = known(MIB(40));
	assert_int_equal(run_of(&m).memory.value.value, MIB(413));
	assert_false(run_of(&m).is_bound);
	made_done(&m);
}

static void test_bounds_are_not_use(void **state)
{
	struct made m;

	(void) state;
	made_new(&m);
	m.s.wall_ns = known(SECONDS(3600));
	m.s.combined = ram_figure(METHOD_BOUNDED, "PSS", MIB(13.2), MIB(20), MIB(47.7));
	m.f->request_bytes = known(MIB(30));
	assert_false(judged(&m, "memory-request", NULL)->fired);
	assert_says(finding_of(&m, "memory-request")->why_not, "the request lies between the bounds of the use");
	m.f->request_bytes = known(MIB(13));
	assert_true(judged(&m, "memory-request", NULL)->fired);
	m.f->request_bytes = known(MIB(48));
	assert_false(judged(&m, "memory-request", NULL)->fired);
	assert_says(finding_of(&m, "memory-request")->why_not,
		"memory: 48.0 MiB requested, at most 47.7 MiB used: about right");
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_of_the_cgroup),
		cmocka_unit_test(test_tmpfs_of_the_machine_is_an_upper_bound),
		cmocka_unit_test(test_bounds_are_not_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
