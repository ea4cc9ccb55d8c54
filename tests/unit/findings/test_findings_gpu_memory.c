/* SPDX-License-Identifier: MIT
 *
 * Rules about GPU memory: leaks, and memory that was never used.
 */
#include "findings_gpu_rig.h"

#include <math.h>

static struct gpu leaking(int second)
{
	struct gpu g = good(second);

	g.job_gib = 20 + 0.006 * second / 60 * 10;
	return g;
}

static struct gpu caching(int second)
{
	struct gpu g = good(second);

	g.job_gib = 20 + 20 * (1 - exp(-second / 600.0));
	return g;
}

static void test_leak(void **state)
{
	struct made m;
	const struct finding *f = assert_fires(&m, leaking, "gpu-leak");

	(void) state;
	assert_says(f->message, "a leak is suspected");
	assert_true(fabs(evidence_of(f, "growth_bytes_per_s") * 60 / (double) MIB(1) - 61.4) < 2);
	made_done(&m);
	assert_silent(caching, "gpu-leak");
}

static struct gpu small(int second)
{
	struct gpu g = good(second);

	g.used_gib = 55;
	return g;
}

static struct gpu large(int second)
{
	struct gpu g = good(second);

	g.used_gib = second == 1000 ? 57 : 20;
	return g;
}

static struct gpu tiny(int second)
{
	struct gpu g = good(second);

	g.used_gib = 21.5;
	g.job_gib = 20;
	return g;
}

static struct gpu shared_with_others(int second)
{
	struct gpu g = tiny(second);

	g.used_gib = 51.5;
	g.foreign_gib = 30;
	return g;
}

static struct gpu unattributed(int second)
{
	struct gpu g = tiny(second);

	g.job_gib = -1;
	return g;
}

static struct gpu listed_late(int second)
{
	struct gpu g = tiny(second);

	g.used_gib = second == 1000 ? 45 : 20;
	return g;
}

/* The advised size covers the job's memory: not that of other processes, nor memory that cannot be
 * attributed. */
static void test_smallest_fit(void **state)
{
	const struct birth gpu = { .entity = ENTITY_GPU,
		.id = 1,
		.gpu = { .uuid = "GPU-1",
			.name = "x",
			.vendor = "nvidia",
			.pci = "",
			.parent = "",
			.driver = "",
			.index = known(0) } };
	const struct birth unlisted = { .entity = ENTITY_GPU_PROCESS,
		.id = 1,
		.gpu_process = { .gpu = 1, .process = 7, .pid = known(7), .name = "x" } };
	struct framebuf buf = { 0 };
	struct made m;

	(void) state;
	made_gpu(&m, shared_with_others);
	assert_says(judged(&m, "gpu-memory", NULL)->message, "As it is, a GPU with 24 GB may be enough.");
	framebuf_birth(&buf, &gpu);
	framebuf_birth(&buf, &unlisted);
	apply(&m, &buf, HOUR_S);
	assert_null(strstr(judged(&m, "gpu-memory", NULL)->message, "may be enough"));
	made_done(&m);
	made_gpu(&m, unattributed);
	assert_null(strstr(judged(&m, "gpu-memory", NULL)->message, "may be enough"));
	made_done(&m);
	/* 45 GiB for a moment that no process list covered: they may have been the job's. */
	made_gpu(&m, listed_late);
	framebuf_birth(&buf, &gpu);
	framebuf_value(&buf, M_GPU_UNATTRIBUTED_MEM, 1, 0);
	apply(&m, &buf, HOUR_S);
	assert_null(strstr(judged(&m, "gpu-memory", NULL)->message, "24 GB may be enough"));
	made_done(&m);
	framebuf_done(&buf);
}

static void test_memory(void **state)
{
	struct made m;

	(void) state;
	assert_says(assert_fires(&m, small, "gpu-memory")->message,
		"25.0 GiB of GPU memory was never used (peak 55.0 GiB of 80.0, 69 %)");
	made_done(&m);
	assert_silent(large, "gpu-memory");
	made_gpu(&m, tiny);
	assert_says(judged(&m, "gpu-memory", NULL)->message,
		"may be faster. As it is, a GPU with 24 GB may be enough.");
	assert_true(evidence_of(judged(&m, "gpu-memory", NULL), "enough_gpu_bytes") > 25e9);
	made_done(&m);
	made_gpu(&m, small); /* the smallest that fits is its own size */
	assert_null(strstr(judged(&m, "gpu-memory", NULL)->message, "may be enough"));
	made_done(&m);
	/* The GPU that needs most decides. */
	made_gpus(&m, (gpu_at *const[]) { tiny, small, NULL });
	assert_null(strstr(judged(&m, "gpu-memory", NULL)->message, "may be enough"));
	made_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leak),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_smallest_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
