/* SPDX-License-Identifier: MIT
 *
 * The summary of a job: means and times, who ran out of memory, the page cache, the machine.
 */
#include "job_rig.h"

#include <signal.h>

/* Three samples of main, the second with the given memory, and its end. */
static void ran_alone(struct rig *r, int64_t bytes)
{
	const int64_t looks[] = { 10 * MB, bytes, 10 * MB };

	born(r, 1, 0, 77);
	for (size_t i = 0; i < 3; i++) {
		rss(r, 1, looks[i], 0);
		tick(r);
	}
	main_reaped(r, 40 * MB, 0, 30 * (int64_t) MS, 60 * (int64_t) MS);
	job_facts(r->job)->cpu_is_exact = known(1);
}

static void test_means_and_times(void **state)
{
	struct rig *r = *state;
	struct summary s;

	ran_alone(r, 40 * MB);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.main.mean.value, 20 * MB);
	assert_int_equal(s.main.at_ns.value, 100 * MS);
	assert_int_equal(s.combined.mean.value, 20 * MB);
	assert_int_equal(s.wall_ns.value, 300 * MS);
	assert_true(s.cpu_exact);
	assert_int_equal(s.cores_mean_ppm.value, 300000);
	/* A second end changes nothing. */
	r->now += 500 * MS;
	finish(r);
	summary_done(&s);
	s = summary_of(r);
	assert_int_equal(s.main.mean.value, 20 * MB);
	assert_int_equal(s.wall_ns.value, 300 * MS);
	summary_done(&s);
}

/* Recordings without main's own end use the run's, though followed processes used CPU time beyond
 * it. */
static void test_cores_span_all_followed_processes(void **state)
{
	struct rig *r = *state;
	struct summary s;

	ran_alone(r, 10 * MB);
	job_facts(r->job)->ended_ns = known(100 * (int64_t) MS);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.wall_ns.value, 100 * MS);
	assert_int_equal(s.cores_mean_ppm.value, 300000);
	summary_done(&s);
	job_facts(r->job)->main_ended_ns = known(100 * (int64_t) MS);
	job_facts(r->job)->ended_ns = known(200 * (int64_t) MS);
	s = summary_of(r);
	assert_int_equal(s.cores_mean_ppm.value, 450000);
	summary_done(&s);
}

/* Clock ticks round up; but a job that was given one core may have run on two. */
static void test_more_cores_than_it_was_given(void **state)
{
	struct rig *r = *state;
	struct summary s;
	struct facts *f = job_facts(r->job);

	ran_alone(r, 10 * MB);
	f->cpus = known(1);
	f->ended_ns = f->main_ended_ns = known(10000 * (int64_t) MS);
	finish(r);
	f->reaped_user_ns = known(10050 * (int64_t) MS);
	f->reaped_system_ns = known(0);
	s = summary_of(r);
	assert_int_equal(s.cores_mean_ppm.value, 1000000);
	summary_done(&s);
	f->reaped_user_ns = known(18000 * (int64_t) MS);
	s = summary_of(r);
	assert_int_equal(s.cores_mean_ppm.value, 1800000);
	summary_done(&s);
}

static void test_out_of_memory(void **state)
{
	struct rig *r = *state;
	struct summary s;
	struct facts *f;

	main_starts(r);
	f = job_facts(r->job);
	say(r, M_JOB_OOM_KILLS, 0, 3);
	say(r, M_HOST_OOM_KILLS, 0, 70);
	tick(r);
	f->exit_status = known(SIGKILL);
	f->cgroup_exclusive = known(1);
	s = summary_of(r);
	assert_int_equal(s.cgroup_oom_kills.value, 0);
	assert_int_equal(s.oom_kills.value, 0);
	assert_int_equal(s.host_oom_kills.value, 0);
	assert_false(s.oom_killed);
	summary_done(&s);
	say(r, M_JOB_OOM_KILLS, 0, 4);
	say(r, M_HOST_OOM_KILLS, 0, 75);
	tick(r);
	s = summary_of(r);
	assert_int_equal(s.cgroup_oom_kills.value, 1);
	assert_int_equal(s.oom_kills.value, 1);
	assert_int_equal(s.host_oom_kills.value, 5);
	assert_true(s.oom_killed);
	summary_done(&s);
	f->exit_status = known(0); /* so it was a descendant */
	s = summary_of(r);
	assert_true(s.oom_killed);
	summary_done(&s);
}

/* In a shared cgroup the kernel may have killed other processes; a SIGKILL that ended main may have
 * another sender. */
static void test_out_of_memory_in_a_shared_cgroup(void **state)
{
	const struct event event = { .kind = EVENT_OOM, .entity = ENTITY_PROCESS, .id = 1, .text = "" };
	const struct frame named = {
		.source = FRAME_RECORDER, .live = true, .n_events = 1, .events = &event
	};
	struct rig *r = *state;
	struct summary s;
	struct facts *f;

	main_starts(r);
	f = job_facts(r->job);
	f->cgroup_exclusive = known(0);
	f->exit_status = known(0);
	say(r, M_JOB_OOM_KILLS, 0, 3);
	tick(r);
	say(r, M_JOB_OOM_KILLS, 0, 4);
	tick(r);
	s = summary_of(r);
	assert_false(s.cgroup_oom_kills.known);
	assert_int_equal(s.oom_kills.value, 1);
	assert_false(s.oom_killed);
	summary_done(&s);
	f->exit_status = known(SIGKILL);
	s = summary_of(r);
	assert_false(s.oom_killed);
	assert_int_equal(s.oom_kills.value, 1);
	summary_done(&s);
	assert_int_equal(job_apply(r->job, &named), 0);
	s = summary_of(r);
	assert_true(s.oom_killed);
	summary_done(&s);
}

/* A process that the kernel named was killed, counted or not. */
static void test_out_of_memory_named(void **state)
{
	const struct event event = { .kind = EVENT_OOM, .entity = ENTITY_PROCESS, .id = 1, .text = "" };
	const struct frame frame = {
		.source = FRAME_RECORDER, .live = true, .n_events = 1, .events = &event
	};
	struct rig *r = *state;
	struct summary s;

	main_starts(r);
	tick(r);
	s = summary_of(r);
	assert_false(s.oom_killed);
	assert_false(s.oom_kills.known);
	summary_done(&s);
	assert_int_equal(job_apply(r->job, &frame), 0);
	s = summary_of(r);
	assert_true(s.oom_killed);
	assert_int_equal(s.oom_kills.value, 1);
	summary_done(&s);
}

static void test_the_cgroup_counts_only_if_it_is_the_jobs(void **state)
{
	struct rig *r = *state;
	struct summary s;
	struct facts *f;

	main_starts(r);
	f = job_facts(r->job);
	f->limit_bytes = known(100 * MB);
	say(r, M_JOB_CGROUP_MEM, 0, 50 * MB);
	say(r, M_JOB_CGROUP_FILE, 0, 20 * MB);
	tick(r);
	s = summary_of(r);
	assert_false(s.cgroup_peak.known);
	assert_false(s.cgroup_limit.known);
	assert_int_equal(s.facts->limit_bytes.value, 100 * MB);
	summary_done(&s);
	f->cgroup_exclusive = known(1);
	s = summary_of(r);
	assert_int_equal(s.cgroup_limit.value, 100 * MB);
	assert_int_equal(s.cgroup_peak.value, 50 * MB); /* no high-water mark of this run */
	assert_int_equal(s.cgroup_method, METHOD_SAMPLED);
	assert_int_equal(s.cgroup_file_at_peak.value, 20 * MB);
	summary_done(&s);
	say(r, M_JOB_CGROUP_PEAK, 0, 80 * MB);
	tick(r);
	s = summary_of(r);
	assert_int_equal(s.cgroup_peak.value, 80 * MB);
	assert_int_equal(s.cgroup_method, METHOD_EXACT);
	assert_false(s.cgroup_file_at_peak.known); /* the job's own memory is unknown, too */
	summary_done(&s);
}

/* Anonymous memory is read less often than the charge: its last value is not that of the peak. */
static void test_page_cache_is_the_remainder(void **state)
{
	const int64_t mapped[] = { 20 * MB, 50 * MB };
	const int64_t cache[] = { (80 - 20 - 3 - 1) * MB, (80 - 50 - 3 - 1) * MB };

	(void) state;
	for (size_t i = 0; i < 2; i++) {
		struct rig r;
		struct summary s;
		struct facts *f;

		rig_new(&r, true, 0);
		main_starts(&r);
		f = job_facts(r.job);
		f->cgroup_exclusive = known(1);
		f->own_rss_bytes = known(3 * MB);
		say(&r, M_JOB_CGROUP_MEM, 0, 12 * MB);
		say(&r, M_JOB_CGROUP_FILE, 0, 5 * MB);
		say(&r, M_JOB_CGROUP_ANON, 0, 6 * MB);
		say(&r, M_JOB_CGROUP_KERNEL, 0, 1 * MB);
		tick(&r);
		say(&r, M_JOB_CGROUP_PEAK, 0, 80 * MB);
		main_reaped(&r, mapped[i], 0, 5, 6);
		finish(&r);
		s = summary_of(&r);
		assert_int_equal(s.combined.high.value, mapped[i]);
		assert_int_equal(s.cgroup_file_at_peak.value, cache[i]);
		summary_done(&s);
		rig_done(&r);
	}
}

/* tmpfs and shared memory: of the job's own cgroup, else at most the rise on the machine. */
static void test_shared_memory(void **state)
{
	struct rig *r = *state;
	struct summary s;

	main_starts(r);
	s = summary_of(r);
	assert_false(s.shmem_peak.known || s.unreclaimable_peak.known);
	summary_done(&s);
	for (int i = 0; i < 3; i++) {
		say(r, M_HOST_SHMEM, 0, (i == 1 ? 700 : 100) * MB);
		say(r, M_JOB_CGROUP_SHMEM, 0, (i == 1 ? 550 : 10) * MB);
		say(r, M_JOB_LIMIT_UNRECLAIMABLE, 0, (i == 1 ? 570 : 20) * MB);
		tick(r);
	}
	s = summary_of(r);
	assert_true(s.shmem_at_most);
	assert_int_equal(s.shmem_peak.value, 600 * MB);
	assert_int_equal(s.unreclaimable_peak.value, 570 * MB);
	summary_done(&s);
	job_facts(r->job)->cgroup_exclusive = known(1);
	s = summary_of(r);
	assert_false(s.shmem_at_most);
	assert_int_equal(s.shmem_peak.value, 550 * MB);
	summary_done(&s);
}

/* Shared memory that others release during the run is no rise. */
static void test_shared_memory_that_falls(void **state)
{
	static const int levels[] = { 700, 100, 150, 60 };
	struct rig *r = *state;
	struct summary s;

	main_starts(r);
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		say(r, M_HOST_SHMEM, 0, levels[i] * MB);
		tick(r);
	}
	s = summary_of(r);
	assert_true(s.shmem_at_most);
	assert_int_equal(s.shmem_peak.value, 50 * MB);
	summary_done(&s);
}

static void test_the_machine(void **state)
{
	struct rig *r = *state;
	struct summary s;

	main_starts(r);
	for (int i = 0; i < 2; i++) {
		say(r, M_HOST_ENERGY, 0, 1000 + i * 500);
		say(r, M_HOST_MEM_USED, 0, (3 - i) * MB);
		say(r, M_HOST_CPU_USER, 0, i * 60);
		say(r, M_HOST_CPU_SYSTEM, 0, i * 10);
		say(r, M_HOST_CPU_IDLE, 0, i * 10);
		say(r, M_HOST_CPU_IOWAIT, 0, i * 20);
		tick(r);
	}
	s = summary_of(r);
	assert_int_equal(s.cpu_energy_uj.value, 500);
	assert_int_equal(s.system_peak.value, 3 * MB);
	assert_int_equal(s.iowait_ppm.value, 200000);
	summary_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_means_and_times),
		RIG_TEST(test_cores_span_all_followed_processes),
		RIG_TEST(test_more_cores_than_it_was_given),
		RIG_TEST(test_out_of_memory),
		RIG_TEST(test_out_of_memory_in_a_shared_cgroup),
		RIG_TEST(test_out_of_memory_named),
		RIG_TEST(test_the_cgroup_counts_only_if_it_is_the_jobs),
		cmocka_unit_test(test_page_cache_is_the_remainder),
		RIG_TEST(test_shared_memory),
		RIG_TEST(test_shared_memory_that_falls),
		RIG_TEST(test_the_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
