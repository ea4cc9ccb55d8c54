/* SPDX-License-Identifier: MIT
 *
 * Rules about the host's figures: each fires on one side of its threshold and says why not on the
 * other.
 */
#include "findings_rig.h"

#include <math.h>

/* An hour on 16 cores, of which the job used so many. */
static void made_hour(struct made *m, double cores)
{
	made_new(m);
	m->s.wall_ns = m->f->ended_ns = known(SECONDS(3600));
	m->s.cores_mean_ppm = known((int64_t) (cores * 1e6));
	m->f->own_cpu_ns = known(0);
}

/* A gauge whose mean and largest are known. */
static void made_gauge(struct made *m, enum metric metric, double mean, int64_t max)
{
	const struct acc acc = { .n = 10,
		.max = max,
		.max_at_ns = 5,
		.last = (int64_t) mean,
		.sum = mean * 3600e9,
		.span_ns = 3600000000000 };

	assert_int_equal(job_restore_acc(m->job, metric, 0, &acc), 0);
}

/* The job used cores(bucket) in each of 100 buckets. */
static void made_use(struct made *m, double (*cores)(int bucket))
{
	const struct timeline_bucket none = { .known = true, .cover_ns = 32000000000 };

	for (int i = 0; i < 100; i++) {
		struct timeline_bucket b = none;

		b.sum = cores(i) * 32e9;
		assert_int_equal(job_restore_bucket(m->job, M_JOB_CPU_USER, 0, (uint64_t) i * 32000000000,
					 32000000000, &b),
			0);
		assert_int_equal(job_restore_bucket(m->job, M_JOB_CPU_SYSTEM, 0, (uint64_t) i * 32000000000,
					 32000000000, &none),
			0);
	}
}

/* Times of a machine of so many cores over the hour, as shares of all: the rest is idle. */
static void made_machine(struct made *m, double cores, double busy, double iowait)
{
	const double all = cores * 3600e9;
	const struct {
		enum metric metric;
		double part;
	} times[] = {
		{ M_HOST_CPU_USER, busy },
		{ M_HOST_CPU_SYSTEM, 0 },
		{ M_HOST_CPU_IOWAIT, iowait },
		{ M_HOST_CPU_IDLE, 1 - busy - iowait },
		{ M_HOST_CPU_STEAL, 0 },
	};

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		const int64_t ns = (int64_t) (times[i].part * all);
		const struct acc acc = {
			.n = 2, .min = 7, .max = 7 + ns, .last = 7 + ns, .last_at_ns = 3600000000000
		};

		assert_int_equal(job_restore_acc(m->job, times[i].metric, 0, &acc), 0);
	}
	m->s.iowait_ppm = known((int64_t) (iowait * 1e6));
}

static void test_throttled(void **state)
{
	struct made m;

	(void) state;
	made_hour(&m, 2);
	assert_says(judged(&m, "cpu-throttled", NULL)->why_not, "unknown");
	made_counter(&m, M_JOB_CGROUP_PERIODS, 10, 10);
	made_counter(&m, M_JOB_CGROUP_THROTTLED_PERIODS, 5, 5);
	assert_says(judged(&m, "cpu-throttled", NULL)->why_not, "no CPU quota");
	made_counter(&m, M_JOB_CGROUP_PERIODS, 10, 1010);
	made_counter(&m, M_JOB_CGROUP_THROTTLED_PERIODS, 5, 55);
	assert_false(fires(&m, "cpu-throttled"));
	assert_says(finding_of(&m, "cpu-throttled")->why_not, "in 5.0 % of its periods");
	made_counter(&m, M_JOB_CGROUP_THROTTLED_PERIODS, 5, 56);
	made_counter(&m, M_JOB_CGROUP_THROTTLED, 0, SECONDS(12.3));
	m.f->limit_cpu_ppm = known(2000000);
	const struct finding *f = judged(&m, "cpu-throttled", NULL);

	assert_true(f->fired);
	assert_says(f->message, "12.3 s in all");
	assert_says(f->message, "its 2 cores");
	assert_true(fabs(evidence_of(f, "throttled_ratio") - 0.051) < 1e-9);
	m.f->limit_cpu_ppm = known(1000000);
	assert_true(fires(&m, "cpu-throttled"));
	assert_says(finding_of(&m, "cpu-throttled")->message, "its 1 core (");
	m.s.wall_ns = known(SECONDS(9));
	assert_false(fires(&m, "cpu-throttled"));
	made_done(&m);
}

static void test_oversubscribed(void **state)
{
	struct made m;

	(void) state;
	made_hour(&m, 15);
	made_machine(&m, 16, 15.0 / 16, 0);
	made_gauge(&m, M_JOB_THREADS, 64, 70);
	made_gauge(&m, M_HOST_LOAD1, 33e6, 40000000);
	assert_true(fires(&m, "cpu-oversubscribed"));
	assert_true(evidence_of(finding_of(&m, "cpu-oversubscribed"), "threads") == 64);
	/* Sleeping threads do not count, nor does load of other processes. */
	made_gauge(&m, M_HOST_LOAD1, 32e6, 40000000);
	assert_false(fires(&m, "cpu-oversubscribed"));
	made_gauge(&m, M_HOST_LOAD1, 40e6, 40000000);
	made_gauge(&m, M_JOB_THREADS, 32, 70);
	assert_false(fires(&m, "cpu-oversubscribed"));
	made_gauge(&m, M_JOB_THREADS, 64, 70);
	made_machine(&m, 64, 30.0 / 64, 0);
	m.s.cores_mean_ppm = known(14000000);
	assert_false(fires(&m, "cpu-oversubscribed"));
	/* A smaller quota replaces the number of CPUs. */
	m.f->limit_cpu_ppm = known(4000000);
	assert_true(fires(&m, "cpu-oversubscribed"));
	assert_non_null(strstr(finding_of(&m, "cpu-oversubscribed")->message, "on 4 cores at a time"));
	m.f->limit_cpu_ppm = known(400000);
	assert_true(fires(&m, "cpu-oversubscribed"));
	assert_non_null(strstr(finding_of(&m, "cpu-oversubscribed")->message, "on 0.4 cores at a time"));
	m.f->limit_cpu_ppm = known(4000000);
	/* Cores that are not busy are not oversubscribed. */
	m.s.cores_mean_ppm = known(3100000);
	assert_false(fires(&m, "cpu-oversubscribed"));
	made_done(&m);
}

static double steady(int bucket)
{
	return bucket % 2 ? 1.9 : 2.1;
}

static double nearly_idle(int bucket)
{
	return bucket == 50 ? 0.26 : 0.01;
}

static double stretch_of_13(int bucket)
{
	return bucket == 50 ? 12.9 : 2;
}

static double stretch_of_12(int bucket)
{
	return bucket == 50 ? 12.7 : 2;
}

static double spread(int bucket)
{
	return bucket % 10;
}

static void test_cpu_request(void **state)
{
	struct made m;

	(void) state;
	made_hour(&m, 2);
	made_use(&m, steady);
	assert_says(judged(&m, "cpu-request", NULL)->why_not, "no CPUs were requested");
	m.f->request_cpus = known(16);
	const struct finding *f = judged(&m, "cpu-request", NULL);

	assert_true(f->fired);
	assert_says(f->message, "Request 3 CPUs, not 16: the job used 2.0 on average, 2.1 at its busiest");
	assert_true(fabs(evidence_of(f, "cores_mean") - 2) < 1e-9);
	assert_true(fabs(evidence_of(f, "cores_sigma") - 0.1) < 1e-9);
	/* mean + 2 sigma is 2.2: not under half of four. */
	m.f->request_cpus = known(4);
	assert_false(fires(&m, "cpu-request"));
	m.f->request_cpus = known(5);
	assert_true(fires(&m, "cpu-request"));
	/* An earlier run used more. */
	m.f->request_cpus = known(16);
	struct request_run run = { .is_whole = true, .cores_mean_ppm = known(4300000) };
	const struct earlier_runs earlier = { .runs = &run, .n = 1 };

	assert_says(judged(&m, "cpu-request", &earlier)->message, "Request 5 CPUs, not 16");
	run.cores_mean_ppm = known(8000000);
	assert_says(judged(&m, "cpu-request", &earlier)->why_not, "of 16 requested, and more in an earlier run");
	m.f->exit_status = known(256);
	assert_false(fires(&m, "cpu-request"));
	made_done(&m);
}

static void test_cpu_request_low_use(void **state)
{
	struct made m;

	(void) state;
	made_hour(&m, 2);
	made_use(&m, nearly_idle);
	m.f->request_cpus = known(4);
	assert_says(judged(&m, "cpu-request", NULL)->message,
		"the job used 0.013 on average, 0.26 at its busiest");
	m.f->request_cpus = known(1);
	assert_says(judged(&m, "cpu-request", NULL)->why_not,
		"the job used 0.013 cores on average, 0.26 at its busiest, of 1 requested");
	made_done(&m);
}

static void test_cpu_request_considers_stretches(void **state)
{
	static const struct {
		double (*cores)(int bucket);
		bool fires;
	} cases[] = { { stretch_of_13, false }, { stretch_of_12, true }, { spread, false } };

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made m;

		made_hour(&m, 2);
		m.f->request_cpus = known(16);
		made_use(&m, cases[i].cores);
		assert_int_equal(fires(&m, "cpu-request"), cases[i].fires);
		made_done(&m);
	}
}

static void test_foreign_load(void **state)
{
	struct made m;

	(void) state;
	made_hour(&m, 4);
	assert_says(judged(&m, "cpu-contention", NULL)->why_not, "unknown");
	made_machine(&m, 16, 5.6 / 16, 0);
	assert_false(fires(&m, "cpu-contention"));
	made_machine(&m, 16, 5.7 / 16, 0);
	assert_true(fires(&m, "cpu-contention"));
	assert_true(fabs(evidence_of(finding_of(&m, "cpu-contention"), "other_cores") - 1.7) < 0.001);
	/* hiwater's own CPU time is no foreign load. */
	m.f->own_cpu_ns = known(SECONDS(3600 * 0.5));
	assert_false(fires(&m, "cpu-contention"));
	m.f->own_cpu_ns = known(0);
	/* Load on other cores does not slow the job down. */
	made_machine(&m, 128, 0.9, 0);
	assert_false(fires(&m, "cpu-contention"));
	assert_says(finding_of(&m, "cpu-contention")->why_not, "may use 16 of 128");
	made_done(&m);
}

static void test_swap(void **state)
{
	struct made m;

	(void) state;
	made_hour(&m, 1);
	made_counter(&m, M_HOST_SWAP_IN, 100, 100 + MIB(63));
	assert_false(fires(&m, "swap"));
	made_counter(&m, M_HOST_SWAP_IN, 100, 100 + MIB(64));
	assert_says(judged(&m, "swap", NULL)->message, "may have waited for swap");
	made_counter(&m, M_HOST_SWAP_IN, 100, 4196);
	assert_false(fires(&m, "swap"));
	m.s.swap_peak = known(MIB(300));
	assert_says(judged(&m, "swap", NULL)->message, "300 MiB of the job were swapped out");
	made_counter(&m, M_HOST_SWAP_IN, 100, 100);
	assert_false(fires(&m, "swap"));
	made_done(&m);
}

static void test_io_bound(void **state)
{
	struct made m;

	(void) state;
	made_hour(&m, 0.2);
	made_machine(&m, 16, 0.1, 0.3);
	assert_false(fires(&m, "io-bound"));
	made_machine(&m, 16, 0.1, 0.31);
	m.s.read_bytes = known(GIB(36));
	assert_true(fires(&m, "io-bound"));
	assert_says(
		finding_of(&m, "io-bound")->message, "waited for disks 31 % of the time, read 10.2 MiB/s");
	/* Busy CPUs do not wait for disks. */
	made_machine(&m, 16, 0.4, 0.31);
	assert_false(fires(&m, "io-bound"));
	/* One task on many cores: pressure shows it, if the job moves data and computes little. */
	made_machine(&m, 64, 0.01, 0.01);
	made_counter(&m, M_HOST_PSI_IO, 0, SECONDS(1801));
	assert_true(fires(&m, "io-bound"));
	m.s.read_bytes = known(GIB(3));
	assert_false(fires(&m, "io-bound"));
	m.s.read_bytes = known(GIB(36));
	m.s.cores_mean_ppm = known(600000);
	assert_false(fires(&m, "io-bound"));
	made_done(&m);
}

static void test_shm_full(void **state)
{
	struct made m;
	struct process victim = {
		.id = 2, .pid = 5002, .name = "loader", .ended = true, .status_known = true, .status = SIGBUS
	};

	(void) state;
	made_hour(&m, 1);
	made_gauge(&m, M_HOST_SHM, 400000, 800000);
	assert_false(fires(&m, "shm-full"));
	made_gauge(&m, M_HOST_SHM, 400000, 810000);
	assert_true(fires(&m, "shm-full"));
	assert_int_equal(finding_of(&m, "shm-full")->severity, SEVERITY_WARN);
	assert_says(finding_of(&m, "shm-full")->message, "81 % full");
	set_text(&m.f->container, "docker");
	assert_says(judged(&m, "shm-full", NULL)->message, "--shm-size");
	/* SIGBUS has other causes, too. */
	assert_int_equal(job_restore_process(m.job, &victim), 0);
	made_gauge(&m, M_HOST_SHM, 400000, 490000);
	assert_false(fires(&m, "shm-full"));
	made_gauge(&m, M_HOST_SHM, 400000, 600000);
	assert_true(fires(&m, "shm-full"));
	assert_int_equal(finding_of(&m, "shm-full")->severity, SEVERITY_ERROR);
	assert_says(finding_of(&m, "shm-full")->message, "SIGBUS ended pid 5002 (loader)");
	made_done(&m);
}

/* ---- data-starved ----------------------------------------------------------------------------------------------------- */

static void made_series(struct made *m, const char *name, uint64_t n, double mean)
{
	char copy[32];
	struct series s = {
		.name = copy, .n = n, .sum = mean * (double) n, .has_step = true, .last_step = (int64_t) n
	};

	(void) snprintf(copy, sizeof(copy), "%s", name);
	assert_int_equal(job_restore_series(m->job, &s), 0);
}

/* Main and its children, which used main and child cores each for the whole hour. */
static void made_family(struct made *m, double main, double child, uint32_t children)
{
	for (uint32_t id = 1; id <= children + 1; id++) {
		const double cores = id == 1 ? main : child;
		struct process p = {
			.id = id,
			.pid = 5000 + (int32_t) id,
			.parent = id == 1 ? 0 : 1,
			.is_main = id == 1,
			.name = "python",
			.start_ns = id,
			.born_ns = 1,
			.ended = true,
			.ended_ns = 3600000000000,
			.cpu_known = true,
			.cpu_user_ns = (int64_t) (cores * 3600e9),
		};

		assert_int_equal(job_restore_process(m->job, &p), 0);
	}
}

static void test_starved_by_series(void **state)
{
	struct made m;

	(void) state;
	made_hour(&m, 4);
	made_family(&m, 0.9, 0.99, 4);
	made_series(&m, "data_wait", 100, 0.3);
	made_series(&m, "step_time", 100, 1);
	assert_false(fires(&m, "data-starved"));
	assert_says(finding_of(&m, "data-starved")->why_not, "30 % of a step");
	made_series(&m, "data_wait", 100, 0.31);
	const struct finding *f = judged(&m, "data-starved", NULL);

	assert_true(f->fired);
	assert_says(
		f->message, "waits for data 31 % of its time; 4 of 4 child processes are busy all the time");
	assert_says(f->message, "12 cores are free: try more workers");
	assert_true(evidence_of(f, "busy_loaders") == 4);
	/* Too few steps. */
	made_series(&m, "data_wait", 9, 0.9);
	assert_false(fires(&m, "data-starved"));
	made_done(&m);
}

/* hiwater/data_wait, which hiwater logs to trackers, is a share of time: 0.2, not 0.2 s of a step
 * of 0.5 s. */
static void test_a_share_of_time_is_not_seconds(void **state)
{
	struct made m;

	(void) state;
	made_hour(&m, 4);
	made_family(&m, 0.9, 0.99, 4);
	made_series(&m, "hiwater/data_wait", 100, 0.2);
	made_series(&m, "hiwater/step_s", 100, 0.5);
	assert_false(fires(&m, "data-starved"));
	made_done(&m);
}

static void test_starved_without_a_gpu(void **state)
{
	static const struct {
		double main, child;
		uint32_t children;
		bool fires;
	} cases[] = {
		{ 0.59, 0.9, 4, true },
		{ 0.61, 0.9, 4, false },
		{ 0.3, 0.89, 4, false },
		{ 0.3, 0.99, 0, false },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made m;

		made_hour(&m, 4);
		made_family(&m, cases[i].main, cases[i].child, cases[i].children);
		/* A job without steps may be make. */
		assert_false(fires(&m, "data-starved"));
		made_series(&m, "loss", 100, 0.3);
		assert_int_equal(fires(&m, "data-starved"), cases[i].fires);
		made_done(&m);
	}
}

/* ---- advice and growth before a kill ---------------------------------------------------------------------------------- */

/* CPUs to request are those of the busiest stretch, not of the mean. */
static void test_cpus_of_the_busiest_stretch(void **state)
{
	struct made m;

	(void) state;
	made_hour(&m, 2);
	made_use(&m, steady);
	judged(&m, "cpu-request", NULL);
	assert_int_equal(m.s.request.cpus.value.value, 3);
	made_done(&m);
	made_hour(&m, 2);
	made_use(&m, stretch_of_13);
	judged(&m, "cpu-request", NULL);
	assert_int_equal(m.s.request.cpus.value.value, 13);
	made_done(&m);
}

static void test_growth_before_a_kill(void **state)
{
	struct made m;

	(void) state;
	made_hour(&m, 1);
	m.s.oom_killed = true;
	m.f->limit_bytes = known(GIB(32));
	set_peak(&m, GIB(31));
	/* Flat for 90 buckets of 32 s, then 1 GiB a bucket. */
	for (uint64_t i = 0; i < 100; i++) {
		const double bytes = (double) GIB(i < 90 ? 20 : 20 + (double) (i - 89));
		const struct timeline_bucket b = { .known = true,
			.cover_ns = 32000000000,
			.min = (int64_t) bytes,
			.max = (int64_t) bytes,
			.sum = bytes * 32e9 };

		assert_int_equal(
			job_restore_bucket(m.job, M_JOB_ANON, 0, i * 32000000000, 32000000000, &b), 0);
	}
	const struct finding *f = judged(&m, "out-of-memory", NULL);

	assert_says(f->message, "It grew 32.0 MiB/s");
	assert_true(fabs(evidence_of(f, "growth_bytes_per_s") - (double) MIB(32)) < 1);
	made_done(&m);
}

/* The busiest port moved so much of its link rate in the first buckets of 100, and little later. */
static void made_fabric(struct made *m, int buckets, double share)
{
	for (int i = 0; i < 100; i++) {
		const struct timeline_bucket b = { .known = true,
			.cover_ns = 36000000000,
			.sum = (i < buckets ? share : 0.1) * 1e6 * 36e9 };

		assert_int_equal(job_restore_bucket(m->job, M_HOST_FABRIC_BUSIEST, 0,
					 (uint64_t) i * 36000000000, 36000000000, &b),
			0);
	}
	made_gauge(m, M_HOST_FABRIC_BUSIEST, 200000, (int64_t) (share * 1e6));
}

static void test_fabric_rate(void **state)
{
	static const struct {
		int buckets;
		double share;
		bool fires;
	} cases[] = { { 10, 0.95, true }, { 9, 0.95, false }, { 50, 0.89, false }, { 100, 1, true } };
	struct made m;

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		made_hour(&m, 1);
		made_fabric(&m, cases[i].buckets, cases[i].share);
		assert_int_equal(fires(&m, "fabric-rate"), cases[i].fires);
		made_done(&m);
	}
	made_hour(&m, 1);
	assert_false(fires(&m, "fabric-rate"));
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fabric_rate),
		cmocka_unit_test(test_throttled),
		cmocka_unit_test(test_oversubscribed),
		cmocka_unit_test(test_cpu_request),
		cmocka_unit_test(test_cpu_request_low_use),
		cmocka_unit_test(test_cpu_request_considers_stretches),
		cmocka_unit_test(test_foreign_load),
		cmocka_unit_test(test_swap),
		cmocka_unit_test(test_io_bound),
		cmocka_unit_test(test_shm_full),
		cmocka_unit_test(test_starved_by_series),
		cmocka_unit_test(test_a_share_of_time_is_not_seconds),
		cmocka_unit_test(test_starved_without_a_gpu),
		cmocka_unit_test(test_cpus_of_the_busiest_stretch),
		cmocka_unit_test(test_growth_before_a_kill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
