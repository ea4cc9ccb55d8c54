/* SPDX-License-Identifier: MIT
 *
 * Rules about GPU activity: idle, low use, waiting for data, bounds.
 */
#include "findings_gpu_rig.h"

#include <math.h>

#include "sink/sink.h"

static struct gpu idle_for_long(int second)
{
	struct gpu g = good(second);

	if (second >= 1000)
		g.busy = 0.01;
	return g;
}

static struct gpu idle_for_9_minutes(int second)
{
	struct gpu g = good(second);

	if (second >= 1000 && second < 1540)
		g.busy = 0.01;
	return g;
}

static struct gpu idle_and_free(int second)
{
	struct gpu g = idle_for_11_minutes(second);

	if (g.busy < 0.5)
		g.job_gib = 0;
	return g;
}

static void test_idle(void **state)
{
	struct made m;
	const struct finding *f = assert_fires(&m, idle_for_11_minutes, "gpu-idle");

	(void) state;
	assert_in_range((int) evidence_of(f, "idle_s"), 630, 720);
	assert_in_range(f->from_ns / 1000000000, 1000, 1090);
	assert_says(f->message, "used 60.0 GiB");
	made_done(&m);
	assert_silent(idle_for_9_minutes, "gpu-idle");
	assert_silent(idle_and_free, "gpu-idle");
	made_gpus(&m,
		(gpu_at *const[]) {
			good, idle_for_11_minutes, good, idle_for_long, idle_for_9_minutes, NULL });
	f = judged(&m, "gpu-idle", NULL);
	assert_says(f->message, "GPU 3 was idle for");
	assert_says(f->message, "The same applies to GPU 1 (2 of 5). Release it");
	assert_true(evidence_of_device(f, 1, "idle_s") > evidence_of_device(f, 2, "idle_s"));
	made_done(&m);
}

static void test_unused(void **state)
{
	struct made m;

	(void) state;
	made_gpus(&m, (gpu_at *const[]) { good, unused, NULL });
	assert_says(judged(&m, "gpu-idle", NULL)->message, "1 of 2 GPUs was never used");
	made_done(&m);
	/* A job that needs no GPU and requested none gets no finding. */
	made_gpu(&m, unused);
	assert_false(fires(&m, "gpu-idle"));
	set_text(&m.f->scheduler, "kubernetes"); /* a container is shown its own alone */
	assert_true(fires(&m, "gpu-idle"));
	/* Under Slurm the driver may show those of other jobs. */
	set_text(&m.f->scheduler, "slurm");
	assert_false(fires(&m, "gpu-idle"));
	m.f->request_gpus = known(1);
	assert_says(judged(&m, "gpu-idle", NULL)->message, "1 of 1 GPUs was never used");
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { good, unused, NULL });
	set_text(&m.f->scheduler, "slurm");
	m.f->request_gpus = known(1);
	assert_false(fires(&m, "gpu-idle"));
	m.f->request_gpus = known(2);
	assert_says(judged(&m, "gpu-idle", NULL)->message, "1 of 2 GPUs was never used");
	m.f->ranks = known(2);
	assert_false(fires(&m, "gpu-idle")); /* the other rank may use it */
	m.f->nodes = known(2);
	assert_true(fires(&m, "gpu-idle"));
	made_done(&m);
}

static void gpu_is_born(struct made *m, uint32_t id, const char *uuid)
{
	struct framebuf buf = { 0 };

	framebuf_birth(&buf,
		&(struct birth) {
			.entity = ENTITY_GPU, .id = id, .gpu = { .uuid = uuid, .name = "H100", .vendor = "nvidia", .parent = "" } });
	apply(m, &buf, HOUR_S);
	framebuf_done(&buf);
}

static void test_unused_of_those_allocated(void **state)
{
	struct made m;

	(void) state;
	made_gpus(&m, (gpu_at *const[]) { unused, unused, NULL });
	set_text(&m.f->scheduler, "slurm");
	m.f->request_gpus = known(2); /* of the job; the step was allocated fewer */
	set_text(&m.f->allocated_gpus, "");
	gpu_is_born(&m, 1, "GPU-a");
	gpu_is_born(&m, 2, "GPU-b");
	assert_false(fires(&m, "gpu-idle"));
	set_text(&m.f->allocated_gpus, "GPU-b");
	assert_says(judged(&m, "gpu-idle", NULL)->message, "1 of 1 GPUs was never used");
	set_text(&m.f->allocated_gpus, "GPU-a,GPU-b");
	assert_says(judged(&m, "gpu-idle", NULL)->message, "2 of 2 GPUs were never used");
	m.f->ranks = known(2);
	assert_false(fires(&m, "gpu-idle"));
	set_text(&m.f->part, "node"); /* has the processes of all its ranks */
	assert_true(fires(&m, "gpu-idle"));
	made_done(&m);
}

static struct gpu low_power(int second)
{
	struct gpu g = good(second);

	g.sm = -1;
	g.power = 0.39;
	return g;
}

static struct gpu not_busy(int second)
{
	struct gpu g = few_sms(second);

	g.busy = 0.79;
	return g;
}

static void test_low_use(void **state)
{
	struct made m;

	(void) state;
	assert_says(assert_fires(&m, few_sms, "gpu-low-use")->message,
		"busy 95 % of the time, which only says that some kernel ran");
	made_done(&m);
	assert_says(assert_fires(&m, low_power, "gpu-low-use")->message, "it drew 39 % of its power limit");
	made_done(&m);
	assert_silent(not_busy, "gpu-low-use");
}

static struct gpu fewer_sms(int second)
{
	struct gpu g = few_sms(second);

	g.sm = 0.1;
	return g;
}

/* The summary, wide enough for one line per finding, contains part. */
static void assert_written(struct made *m, enum sink_kind kind, const char *part)
{
	const struct sink_options options = { .width = 10000, .utf8 = false, .why = kind == SINK_TEXT };
	struct buf out = BUF_INIT(1 << 20);

	assert_int_equal(sink_summary(kind, &m->s, &options, &out), 0);
	assert_says(out.data, part);
	buf_done(&out);
}

/* A mean over all eight would hide one bad GPU. */
static void test_low_use_of_one(void **state)
{
	const struct finding *f;
	struct made m;

	(void) state;
	made_gpus(&m, (gpu_at *const[]) { good, good, good, few_sms, good, good, good, good, NULL });
	f = judged(&m, "gpu-low-use", NULL);
	assert_says(f->message,
		"GPU 3 was busy 95 % of the time, which only says that some kernel ran: its SMs were active 29 %");
	assert_says(f->message, "The other GPUs were better used");
	assert_int_equal((int) evidence_of(f, "gpu"), 3);
	assert_int_equal((int) evidence_of(f, "gpus_affected"), 1);
	assert_int_equal((int) evidence_of(f, "gpus"), 8);
	assert_int_equal(f->n_devices, 0);
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { good, few_sms, good, fewer_sms, NULL }); /* the worst first */
	f = judged(&m, "gpu-low-use", NULL);
	assert_says(f->message,
		"GPU 3 was busy 95 % of the time, which only says that some kernel ran: its SMs were active 10 %");
	assert_says(f->message, "The same applies to GPU 1 (2 of 4).");
	assert_int_equal(f->n_devices, 2);
	assert_int_equal((int) evidence_of_device(f, 1, "gpu"), 3);
	assert_int_equal((int) evidence_of_device(f, 2, "gpu"), 1);
	assert_true(fabs(evidence_of_device(f, 2, "sm_active_ratio") - 0.29) < 0.001);
	assert_written(&m, SINK_JSON,
		"\"gpus\": 4,\n        \"devices\": [\n          {\n            \"gpu\": 3,\n            \"gpu_busy_ratio\": 0.95,");
	assert_written(&m, SINK_TEXT, "gpus 4; gpu 1,");
	made_done(&m);
	made_gpus(&m,
		(gpu_at *const[]) { few_sms, few_sms, few_sms, few_sms, few_sms, few_sms, few_sms, NULL });
	f = judged(&m, "gpu-low-use", NULL);
	assert_says(f->message, "The same applies to GPU 1, GPU 2, GPU 3, GPU 4 and 2 more (7 of 7).");
	assert_null(strstr(f->message, "better used"));
	assert_int_equal(f->n_devices, 7);
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { good, not_busy, NULL });
	assert_says(judged(&m, "gpu-low-use", NULL)->why_not,
		"GPU 1 was busy 79 % of the time, SMs active 29 %, 70 % of the power limit (the least of 2)");
	made_done(&m);
}

static struct gpu waiting(int second)
{
	struct gpu g = good(second);

	g.busy = 0.4;
	g.sm = 0.3;
	return g;
}

/* A half idle GPU fires only with a cause; a busy one never. */
static void test_starved(void **state)
{
	struct made m;

	(void) state;
	assert_silent(waiting, "data-starved");
	made_gpu(&m, waiting);
	m.s.iowait_ppm = known(210000);
	assert_says(judged(&m, "data-starved", NULL)->message,
		"busy 40 % of the time: it may be waiting for data; CPUs wait for the disk");
	/* Then a larger batch would not help. */
	assert_false(fires(&m, "gpu-memory"));
	made_done(&m);
	made_gpu(&m, good);
	m.s.iowait_ppm = known(210000);
	assert_false(fires(&m, "data-starved"));
	made_done(&m);
	/* One of eight GPUs waits; two of three. */
	made_gpus(&m, (gpu_at *const[]) { good, good, good, waiting, good, good, good, good, NULL });
	m.s.iowait_ppm = known(210000);
	assert_says(judged(&m, "data-starved", NULL)->message,
		"GPU 3 was busy 40 % of the time: it may be waiting for data; CPUs wait for the disk");
	assert_int_equal((int) evidence_of(judged(&m, "data-starved", NULL), "gpu"), 3);
	assert_int_equal((int) evidence_of(judged(&m, "data-starved", NULL), "gpus"), 8);
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { waiting, good, waiting, NULL });
	m.s.iowait_ppm = known(210000);
	assert_says(judged(&m, "data-starved", NULL)->message, "The same applies to GPU 2 (2 of 3).");
	made_done(&m);
}

static struct gpu by_memory(int second)
{
	struct gpu g = good(second);

	g.dram = 0.61;
	return g;
}

static struct gpu by_compute(int second)
{
	struct gpu g = good(second);

	g.sm = 0.61;
	return g;
}

static struct gpu by_copies(int second)
{
	struct gpu g = good(second);

	g.pcie = 9e9;
	return g;
}

static void test_bound_by(void **state)
{
	static const struct {
		gpu_at *gpu;
		const char *by;
	} cases[] = {
		{ by_memory, "memory" },
		{ by_compute, "compute" },
		{ by_copies, "copy" },
		{ few_sms, "launch" },
		{ waiting, "input" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made m;
		const struct finding *f = assert_fires(&m, cases[i].gpu, "gpu-bound-by");

		assert_string_equal(words_of(f, "bound_by"), cases[i].by);
		made_done(&m);
	}
}

/* The bound of the worst GPU is reported, not that of a mean. */
static void test_one_is_bound(void **state)
{
	const struct finding *f;
	struct made m;

	(void) state;
	made_gpus(&m, (gpu_at *const[]) { by_compute, by_compute, waiting, by_compute, NULL });
	f = judged(&m, "gpu-bound-by", NULL);
	assert_says(f->message, "The work on GPU 2 may be bound by input, busy 40 %");
	assert_says(f->message, "The others are not.");
	assert_string_equal(words_of(f, "bound_by"), "input");
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { by_compute, by_compute, NULL });
	assert_says(judged(&m, "gpu-bound-by", NULL)->message, "The same applies to GPU 1 (2 of 2).");
	made_done(&m);
}

/* Its mean suggests input, but gpu-idle covers a GPU that was idle for most of the run. */
static void test_an_idle_one_is_not_bound(void **state)
{
	struct made m;

	(void) state;
	made_gpu(&m, idle_for_long);
	assert_true(fires(&m, "gpu-idle"));
	assert_says(judged(&m, "gpu-bound-by", NULL)->why_not, "see gpu-idle");
	made_done(&m);
	made_gpus(&m, (gpu_at *const[]) { idle_for_long, few_sms, NULL });
	assert_says(judged(&m, "gpu-bound-by", NULL)->message, "The work on GPU 1 may be bound by launch");
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_unused),
		cmocka_unit_test(test_unused_of_those_allocated),
		cmocka_unit_test(test_low_use),
		cmocka_unit_test(test_low_use_of_one),
		cmocka_unit_test(test_starved),
		cmocka_unit_test(test_bound_by),
		cmocka_unit_test(test_one_is_bound),
		cmocka_unit_test(test_an_idle_one_is_not_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
