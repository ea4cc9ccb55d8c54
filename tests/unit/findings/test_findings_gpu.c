/* SPDX-License-Identifier: MIT
 *
 * Rules about GPUs: an hour without findings, MIG, load of other processes, heat, memory errors.
 */
#include "findings_gpu_rig.h"

static void test_no_findings(void **state)
{
	static const char *const codes[] = { "gpu-leak", "gpu-idle", "gpu-low-use", "gpu-memory",
		"gpu-throttle", "gpu-ecc", "data-starved", "gpu-bound-by", "cpu-contention" };

	(void) state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		assert_silent(good, codes[i]);
}

static void test_without_a_gpu(void **state)
{
	static const char *const codes[] = { "gpu-leak", "gpu-idle", "gpu-low-use", "gpu-memory",
		"gpu-throttle", "gpu-ecc", "gpu-bound-by" };
	struct made m;

	(void) state;
	made_new(&m);
	m.s.wall_ns = known(SECONDS(HOUR_S));
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		assert_says(judged(&m, codes[i], NULL)->why_not, "no GPU was used");
	made_done(&m);
}

/* The driver's number and size take precedence over values derived from samples; memory shared with
 * the host is not the GPU's. */
static void test_static_properties(void **state)
{
	struct birth birth = { .entity = ENTITY_GPU,
		.id = 1,
		.gpu = { .uuid = "GPU-1",
			.name = "x",
			.vendor = "nvidia",
			.pci = "",
			.parent = "",
			.driver = "",
			.index = known(5),
			.memory_bytes = known(GIB(100)) } };
	struct framebuf buf = { 0 };
	struct made m;

	(void) state;
	made_gpu(&m, idle_for_11_minutes);
	framebuf_birth(&buf, &birth);
	apply(&m, &buf, HOUR_S);
	assert_says(judged(&m, "gpu-idle", NULL)->message, "GPU 5 was idle");
	assert_says(judged(&m, "gpu-memory", NULL)->message, "peak 61.0 GiB of 100");
	made_done(&m);
	birth.gpu.unified = true;
	made_gpu(&m, good);
	framebuf_birth(&buf, &birth);
	apply(&m, &buf, HOUR_S);
	assert_says(judged(&m, "gpu-memory", NULL)->why_not, "unknown");
	made_done(&m);
	framebuf_done(&buf);
}

static struct gpu board(int second)
{
	struct gpu g = good(second);

	g.heat = 0.06;
	g.power = 0.1;
	g.sm = -1;
	g.busy = -1;
	return g;
}

static struct gpu instance(int second)
{
	struct gpu g = few_sms(second);

	g.busy = -1;
	g.engine = 0.9;
	g.power = -1;
	g.job_gib = 20;
	g.foreign_gib = 9;
	g.heat = -1;
	return g;
}

static struct gpu idle_instance(int second)
{
	struct gpu g = instance(second);

	if (second >= 1000 && second < 1720)
		g.engine = 0.01;
	return g;
}

static void bear_divided(struct made *m)
{
	static const struct gpu_birth gpus[] = {
		{ .uuid = "GPU-1",
			.name = "x",
			.vendor = "nvidia",
			.pci = "",
			.parent = "",
			.driver = "",
			.index = { 4, true } },
		{ .uuid = "MIG-1",
			.name = "x",
			.vendor = "nvidia",
			.pci = "",
			.parent = "GPU-1",
			.driver = "",
			.index = { 2, true } },
		{ .uuid = "MIG-2",
			.name = "x",
			.vendor = "nvidia",
			.pci = "",
			.parent = "GPU-1",
			.driver = "",
			.index = { 3, true } },
	};
	struct framebuf buf = { 0 };

	for (uint32_t i = 0; i < 3; i++)
		framebuf_birth(&buf, &(struct birth) { .entity = ENTITY_GPU, .id = i + 1, .gpu = gpus[i] });
	apply(m, &buf, HOUR_S);
	framebuf_done(&buf);
}

/* Activity is that of the instance; clocks are those of the whole GPU. Unused instances count, the
 * whole GPU does not. */
static void test_divided(void **state)
{
	const struct finding *f;
	struct made m;

	(void) state;
	made_gpus(&m, (gpu_at *const[]) { board, instance, unused, NULL });
	bear_divided(&m);
	f = judged(&m, "cpu-contention", NULL);
	assert_says(f->message, "used 9.00 GiB of memory on MIG 4.2, which the job used");
	assert_string_equal(f->evidence[0].text, "MIG-1");
	assert_says(judged(&m, "gpu-idle", NULL)->message, "1 of 2 GPUs was never used");
	assert_says(judged(&m, "gpu-throttle", NULL)->message,
		"throttled 6 % of the time because it was too hot");
	/* Busy time is that of its engine; power is that of all instances, and is not used. */
	f = judged(&m, "gpu-low-use", NULL);
	assert_says(f->message,
		"MIG 4.2 was busy 90 % of the time, which only says that some kernel ran: its SMs were active 29 %. ");
	assert_string_equal(words_of(f, "gpu_uuid"), "MIG-1");
	assert_says(judged(&m, "gpu-bound-by", NULL)->message, "The work on MIG 4.2 may be bound by launch");
	assert_int_equal(m.s.request.gpus.value.value, 1);
	assert_true(m.s.request.has_mig);
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { board, idle_instance, unused, NULL });
	bear_divided(&m);
	assert_says(judged(&m, "gpu-idle", NULL)->message, "MIG 4.2 was idle for");
	made_done(&m);
}

static struct gpu shared(int second)
{
	struct gpu g = good(second);

	g.foreign_gib = second == 500 ? 8.1 : 0;
	return g;
}

static struct gpu hardly_shared(int second)
{
	struct gpu g = good(second);

	g.foreign_gib = 8;
	return g;
}

static void test_foreign(void **state)
{
	struct made m;

	(void) state;
	assert_says(assert_fires(&m, shared, "cpu-contention")->message,
		"Other processes used 8.10 GiB of memory on GPU 0, which the job used");
	made_done(&m);
	assert_silent(hardly_shared, "cpu-contention");
}

/* Processes on GPU 1, one of the job's (until own_until) and another, with their shares of its
 * engine; -1: not reported, -2: no process of the job. */
static void made_users(struct made *m, double own, int own_until, double foreign, double busy)
{
	static const struct gpu_birth gpu = { .uuid = "GPU-1",
		.name = "x",
		.vendor = "nvidia",
		.pci = "",
		.parent = "",
		.driver = "",
		.index = { 4, true } };
	struct framebuf buf = { 0 };

	made_new(m);
	m->s.wall_ns = m->f->ended_ns = known(SECONDS(HOUR_S));
	framebuf_birth(&buf, &(struct birth) { .entity = ENTITY_GPU, .id = 1, .gpu = gpu });
	for (uint32_t id = own < -1 ? 2 : 1; id <= 2; id++)
		framebuf_birth(&buf,
			&(struct birth) { .entity = ENTITY_GPU_PROCESS,
				.id = id,
				.gpu_process = { .gpu = 1,
					.process = id == 1 ? 7 : 0,
					.pid = known(id),
					.name = "x" } });
	for (int t = 0; t <= HOUR_S; t += STEP_S) {
		struct gpu g = good(t);

		g.busy = busy;
		put_gpu(&buf, 1, &g, t);
		put_value(&buf, M_GPROC_SM_BUSY, 1, t <= own_until ? own * 1e6 : -1);
		put_value(&buf, M_GPROC_SM_BUSY, 2, foreign * 1e6);
		apply(m, &buf, t);
	}
	framebuf_done(&buf);
}

/* Work of other processes is reported where the driver reports it, and suspected where a GPU is
 * busy and the job is not. */
static void test_foreign_work(void **state)
{
	static const struct {
		double own;
		int own_until;
		double foreign, busy;
		const char *says;
	} cases[] = {
		{ 0.7, HOUR_S, 0.11, 0.8,
			"Other processes were active 11 % of the time (the driver's samples) on GPU 4, which the job used" },
		{ 0.7, HOUR_S, 0.09, 0.8, NULL },
		{ 0.7, HOUR_S, -1, 0.95, NULL },
		{ 0.01, HOUR_S, -1, 0.4,
			"GPU 4 was busy 40 % of the time, the job's processes on it 1 % (the driver's samples): other processes may have used it." },
		{ 0.01, 1200, -1, 0.4, NULL }, /* the job's activity is unknown for most of the time */
		{ -1, HOUR_S, -1, 0.4, NULL },
		{ -2, HOUR_S, 0.9, 0.9, NULL }, /* pids may be those of another namespace */
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made m;

		made_users(&m, cases[i].own, cases[i].own_until, cases[i].foreign, cases[i].busy);
		assert_int_equal(fires(&m, "cpu-contention"), cases[i].says != NULL);
		if (cases[i].says)
			assert_says(judged(&m, "cpu-contention", NULL)->message, cases[i].says);
		made_done(&m);
	}
}

static struct gpu hot(int second)
{
	struct gpu g = good(second);

	g.heat = 0.06;
	return g;
}

static struct gpu warm(int second)
{
	struct gpu g = good(second);

	g.heat = 0.05;
	return g;
}

static struct gpu hot_and_unused(int second)
{
	struct gpu g = unused(second);

	g.heat = 0.5;
	return g;
}

/* Throttled by heat, too, for less of the time. */
static struct gpu braked(int second)
{
	struct gpu g = hot(second);

	g.braked = 0.2;
	return g;
}

static void test_throttle(void **state)
{
	struct made m;

	(void) state;
	assert_says(assert_fires(&m, hot, "gpu-throttle")->message,
		"throttled 6 % of the time because it was too hot");
	made_done(&m);
	assert_silent(warm, "gpu-throttle");
	assert_says(assert_fires(&m, braked, "gpu-throttle")->message,
		"throttled 20 % of the time by its hardware, not for heat (an external power brake, or a surge of its own power)");
	assert_int_equal(
		(int) (evidence_of(finding_of(&m, "gpu-throttle"), "hardware_ratio") * 100 + 0.5), 20);
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { warm, hot, NULL });
	assert_says(judged(&m, "gpu-throttle", NULL)->message,
		"GPU 1's clocks were throttled 6 % of the time because it was too hot");
	assert_int_equal((int) evidence_of(judged(&m, "gpu-throttle", NULL), "gpu"), 1);
	made_done(&m);
	/* heat of an unused GPU does not matter */
	made_gpus(&m, (gpu_at *const[]) { good, hot_and_unused, NULL });
	assert_false(fires(&m, "gpu-throttle"));
	made_done(&m);
}

static struct gpu failing(int second)
{
	struct gpu g = good(second);

	g.errors = second < 1000 ? 3 : 5;
	return g;
}

static struct gpu failed_once(int second)
{
	struct gpu g = good(second);

	g.errors = second == HOUR_S;
	return g;
}

static struct gpu failed_before(int second)
{
	struct gpu g = good(second);

	g.errors = 3;
	return g;
}

static struct gpu failing_and_unused(int second)
{
	struct gpu g = unused(second);

	g.errors = second < 1000 ? 0 : 7;
	return g;
}

static struct gpu without_ecc(int second)
{
	struct gpu g = good(second);

	g.errors = -1;
	return g;
}

static void test_ecc(void **state)
{
	struct made m;

	(void) state;
	assert_says(assert_fires(&m, failing, "gpu-ecc")->message,
		"The memory of the GPU had 2 errors during the run that ECC could not correct: "
		"the job may have ended because of them");
	assert_int_equal((int) evidence_of(finding_of(&m, "gpu-ecc"), "ecc_uncorrected"), 2);
	made_done(&m);
	assert_says(assert_fires(&m, failed_once, "gpu-ecc")->message,
		"1 error during the run that ECC could not correct: the job may have ended because of it,");
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { failed_once, good, failing, NULL });
	assert_says(judged(&m, "gpu-ecc", NULL)->message, "The memory of GPU 2 had 2 errors");
	assert_says(finding_of(&m, "gpu-ecc")->message,
		"The same applies to GPU 0 (2 of 3). Run it on another GPU");
	assert_int_equal((int) evidence_of_device(finding_of(&m, "gpu-ecc"), 2, "gpu"), 0);
	made_done(&m);
	assert_silent(failed_before, "gpu-ecc");
	/* errors of an unused GPU do not matter */
	made_gpus(&m, (gpu_at *const[]) { good, failing_and_unused, NULL });
	assert_says(judged(&m, "gpu-ecc", NULL)->why_not, "fires at one");
	made_done(&m);
	made_gpu(&m, without_ecc);
	assert_says(judged(&m, "gpu-ecc", NULL)->why_not, "are unknown");
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_findings),
		cmocka_unit_test(test_without_a_gpu),
		cmocka_unit_test(test_static_properties),
		cmocka_unit_test(test_divided),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_foreign_work),
		cmocka_unit_test(test_throttle),
		cmocka_unit_test(test_ecc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
