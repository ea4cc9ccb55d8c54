/* SPDX-License-Identifier: MIT
 *
 * What doctor reports of GPUs that several sources can read: a fake source for a CPU's own GPU, and
 * NVML without a library.
 */
#include "tree_helper.h"

#include <signal.h>
#include <unistd.h>

#include "gpu/gpu.h"

static int never_open(const struct source_env *env, struct source **ret, struct err *err)
{
	(void) env;
	(void) ret;
	return err_set(err, -ENODEV, "made up");
}

static void probe_some(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	(void) env;
	report(ctx, &(struct source_probe) { M_GPU_MEM, true, "made up", "", "" });
	report(ctx, &(struct source_probe) { M_GPU_TEMP, false, "made up", "no sensor", "" });
}

static const struct source_ops made_up = {
	.name = "made up", .frame = FRAME_DRM, .open = never_open, .probe = probe_some
};
static const struct gpu_vendor vendors[] = { { &source_nvml, "NVML", NULL, CAUSE_NVML },
	{ &made_up, "made up", NULL, CAUSE_NONE }, { NULL, NULL, NULL, CAUSE_NONE } };

struct reported {
	bool available[METRIC_COUNT];
	char why[METRIC_COUNT][256], remedy[METRIC_COUNT][256];
};

static void take_report(void *ctx, const struct source_probe *probe)
{
	struct reported *t = ctx;

	t->available[probe->metric] = probe->available;
	(void) snprintf(t->why[probe->metric], sizeof(t->why[0]), "%s", probe->why_not);
	(void) snprintf(t->remedy[probe->metric], sizeof(t->remedy[0]), "%s", probe->remedy);
}

static void ask(const char *vendor, struct reported *ret)
{
	struct temp_tree t;
	struct root root;

	temp_tree_new(&t);
	temp_tree_put(&t, "proc/version", "Linux version 6.1\n");
	temp_tree_put(&t, "sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");
	temp_tree_put(&t, "sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n");
	temp_tree_put(&t, "sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
	temp_tree_put(&t, "sys/bus/pci/devices/0000:01:00.0/vendor", vendor);
	root = temp_tree_root(&t);
	root.live = true; /* otherwise a library is no source */
	memset(ret, 0, sizeof(*ret));
	assert_int_equal(setenv("HIWATER_NVML", "/nowhere/libnvidia-ml.so.1", 1), 0);
	assert_int_equal(
		gpu_probe(vendors, &(struct source_env) { .root = &root }, 100000000, take_report, NULL, ret),
		0);
	root_done(&root);
	temp_tree_done(&t);
}

static void a_card_without_its_driver_beside_another(void **state)
{
	struct reported reported;

	(void) state;
	ask("0x10de\n", &reported);
	assert_true(reported.available[M_GPU_MEM]);
	assert_string_equal(
		reported.why[M_GPU_SM_ACTIVE], "the library that HIWATER_NVML names cannot be loaded");
	assert_non_null(strstr(reported.remedy[M_GPU_SM_ACTIVE], "unset HIWATER_NVML"));
	assert_non_null(strstr(reported.remedy[M_GPU_TEMP], "unset HIWATER_NVML"));
	ask("0x8086\n", &reported); /* NVIDIA's driver is not needed */
	assert_true(reported.available[M_GPU_MEM]);
	assert_string_equal(reported.why[M_GPU_TEMP], "no sensor");
	assert_null(strstr(reported.why[M_GPU_SM_ACTIVE], "nvidia"));
}

static void probe_and_crash(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	probe_some(env, report, ctx);
	(void) raise(SIGSEGV);
}

static void probe_and_exit(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	probe_some(env, report, ctx);
	_exit(3);
}

/* Its earlier answers are ignored, since the later ones are missing. */
static void a_source_whose_helper_ends(void **state)
{
	static const struct source_ops crashes = {
		.name = "crashes", .frame = FRAME_DRM, .open = never_open, .probe = probe_and_crash
	};
	static const struct source_ops exits = {
		.name = "exits", .frame = FRAME_DRM, .open = never_open, .probe = probe_and_exit
	};
	static const struct {
		const struct source_ops *ops;
		const char *why;
	} cases[] = {
		{ &crashes, "the helper was killed by signal 11 in a call of X" },
		{ &exits, "the helper exited with status 3 in a call of X" },
	};
	const struct root root = { .live = true, .proc = -1, .sys = -1, .top = -1 };

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct gpu_vendor x[] = { { cases[i].ops, "X", NULL, CAUSE_NONE },
			{ NULL, NULL, NULL, CAUSE_NONE } };
		struct reported reported = { .available = { false } };

		assert_int_equal(gpu_probe(x, &(struct source_env) { .root = &root }, 100000000, take_report,
					 NULL, &reported),
			0);
		assert_false(reported.available[M_GPU_MEM]);
		assert_string_equal(reported.why[M_GPU_MEM], cases[i].why);
		assert_non_null(strstr(reported.remedy[M_GPU_MEM], "kernel log"));
	}
}

static void an_npu_is_no_gpu(void **state)
{
	(void) state;
	assert_true(gpu_is_npu(&(struct gpu_birth) { .name = "Intel NPU 8086:7d1d" }));
	assert_false(gpu_is_npu(&(struct gpu_birth) { .name = "Intel GPU 8086:7d55" }));
	assert_false(gpu_is_npu(&(struct gpu_birth) { .name = "NVIDIA H100 80GB HBM3" }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_card_without_its_driver_beside_another),
		cmocka_unit_test(a_source_whose_helper_ends),
		cmocka_unit_test(an_npu_is_no_gpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
