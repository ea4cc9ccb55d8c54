/* SPDX-License-Identifier: MIT
 *
 * The DCGM source on a fake library that includes a host engine. The fake keeps one scenario until
 * its process ends, so each test runs in a child process.
 */
#include "nvml_rig.h"

#include "source/nvidia/dcgm/internal.h"

#define PROFILING 1u
#define ENGINE    2u
#define PPM(x)    ((int64_t) ((x) * 1000000 + 0.5))

static void dcgm_env(struct nvml_rig *rig, const char *scenario)
{
	char text[512];

	rig_new(rig, "580", scenario, 0);
	(void) snprintf(text, sizeof(text), "%s/dcgm/libdcgm.so.4", FAKE_DRIVERS);
	assert_int_equal(setenv("HIWATER_DCGM", text, 1), 0);
	assert_int_equal(setenv("HIWATER_DCGM_ENGINE", "127.0.0.1", 1), 0);
}

static int dcgm_try(struct nvml_rig *rig)
{
	rig->root = temp_tree_root(&rig->tree);
	rig->root.live = true;
	rig->env = (struct source_env) { .root = &rig->root };
	return source_dcgm.open(&rig->env, &rig->s, &rig->err);
}

static void dcgm_open(struct nvml_rig *rig, const char *scenario)
{
	dcgm_env(rig, scenario);
	if (dcgm_try(rig) < 0)
		fail_msg("%s", rig->err.text);
}

/* A scenario of the test itself, based on one of the files. */
static void dcgm_scenario(struct nvml_rig *rig, const char *of, const char *text)
{
	char words[2048], path[256];

	dcgm_env(rig, "");
	(void) snprintf(words, sizeof(words), "include = %s/fake/scenarios/%s\n%s", TESTS_DIR, of, text);
	temp_tree_put(&rig->tree, "scenario", words);
	(void) snprintf(path, sizeof(path), "%s/scenario", rig->tree.path);
	assert_int_equal(setenv("HIWATER_FAKE_NVML", path, 1), 0);
	assert_int_equal(dcgm_try(rig), 0);
}

static void dcgm_read(struct nvml_rig *rig, double t, unsigned what)
{
	rig_at(rig, t);
	framebuf_clear(&rig->out);
	assert_int_equal(source_dcgm.read(rig->s, what, &rig->out), 0);
	assert_int_equal(rig->out.error, 0);
}

static void dcgm_done(struct nvml_rig *rig)
{
	source_dcgm.close(rig->s);
	framebuf_done(&rig->out);
	root_done(&rig->root);
	temp_tree_done(&rig->tree);
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Means of whole seconds, of devices identified by UUID; rates become counters. */
CHILD_TEST(activity_by_an_engine_that_profiles)
{
	(void) state;
	struct nvml_rig rig;

	dcgm_open(&rig, "dcgm.conf");
	dcgm_read(&rig, 0.1, PROFILING);
	assert_int_equal(rig.out.n_readings, 0); /* no mean yet, and no zero for it */
	assert_int_equal(rig.out.n_births, 0);
	dcgm_read(&rig, 2.5, PROFILING);
	const struct birth *b = find_birth(&rig.out, ENTITY_GPU, 0);

	assert_non_null(b);
	assert_string_equal(b->gpu.uuid, "GPU-a0000000-0000-4000-8000-000000000000");
	assert_string_equal(b->gpu.pci, "0000:00:00.0");
	assert_string_equal(b->gpu.name, "NVIDIA A100-SXM4-40GB");
	assert_int_equal(b->gpu.memory_bytes.value, 40 * GIB);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 1, PPM(0.58));
	check_value(&rig.out, M_GPU_GRAPHICS_ACTIVE, 1, PPM(0.97));
	check_value(&rig.out, M_GPU_SM_OCCUPANCY, 1, PPM(0.22));
	check_value(&rig.out, M_GPU_TENSOR_ACTIVE, 1, PPM(0.34));
	check_value(&rig.out, M_GPU_DRAM_ACTIVE, 1, PPM(0.39));
	check_value(&rig.out, M_GPU_FP32_ACTIVE, 1, PPM(0.07));
	check_value(&rig.out, M_GPU_FP64_ACTIVE, 1, 0); /* a measured zero */
	check_value(&rig.out, M_GPU_SM_ACTIVE, 2, PPM(0.4));
	assert_true(has_note(&rig.out, "gpu.sm_active", "reported by the DCGM host engine at 127.0.0.1"));
	dcgm_read(&rig, 2.6, PROFILING);
	assert_int_equal(rig.out.n_readings, 0); /* no new value: nothing is repeated */
	dcgm_read(&rig, 4.5, PROFILING);
	check_value(&rig.out, M_GPU_PCIE_TX, 1, 620000000); /* 310 MB/s, two seconds since the value before */
	check_value(&rig.out, M_GPU_PCIE_RX, 1, 1880000000);
	assert_int_equal(rig.out.n_births, 0);
	dcgm_done(&rig);
}

/* A profiler uses the counters for a while: a gap with the reason, then values again. */
CHILD_TEST(counters_that_a_profiler_takes)
{
	(void) state;
	struct nvml_rig rig;

	dcgm_open(&rig, "dcgm.conf");
	dcgm_read(&rig, 18.5, PROFILING);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 2, PPM(0.4));
	dcgm_read(&rig, 22.5, PROFILING);
	check_absent(&rig.out, M_GPU_SM_ACTIVE, 2);
	assert_non_null(find_reading(&rig.out, M_GPU_SM_ACTIVE, 2));
	assert_non_null(find_reading(&rig.out, M_GPU_SM_ACTIVE, 1)); /* the other GPU's continue */
	assert_true(has_note(&rig.out, "gpu.sm_active", "GPU 1: profiling is paused"));
	dcgm_read(&rig, 23.5, PROFILING);
	assert_null(find_reading(&rig.out, M_GPU_SM_ACTIVE, 2)); /* noted once */
	assert_int_equal(rig.out.n_events, 0);
	dcgm_read(&rig, 33.5, PROFILING);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 2, PPM(0.4));
	assert_true(has_note(&rig.out, "gpu.sm_active", "GPU 1: DCGM reports it again"));
	dcgm_done(&rig);
}

/* ---- shared counters ------------------------------------------------------------------------- */

CHILD_TEST(nothing_is_taken_that_nobody_has)
{
	(void) state;
	struct nvml_rig rig;

	dcgm_env(&rig, "dcgm-unwatched.conf");
	rig_log(&rig);
	assert_int_equal(dcgm_try(&rig), 0);
	assert_int_equal(rig_calls(&rig, "dcgmWatchFields", "-"), 1); /* names and uuids */
	dcgm_read(&rig, 3, PROFILING | ENGINE);
	assert_int_equal(rig_calls(&rig, "dcgmWatchFields", "-"), 1);
	assert_int_equal(rig.out.n_readings, 0);
	assert_true(has_note(&rig.out, "gpu.sm_active", "uses profiling counters"));
	assert_int_equal(rig_calls(&rig, "Embedded", "-"), 0);
	assert_int_equal(rig_calls(&rig, "Pause", "-"), 0);
	dcgm_done(&rig);
}

CHILD_TEST(profiling_on_request)
{
	(void) state;
	struct nvml_rig rig;

	assert_int_equal(setenv("HIWATER_DCGM_PROFILE", "1", 1), 0);
	dcgm_open(&rig, "dcgm-unwatched.conf");
	dcgm_read(&rig, 2.5, PROFILING);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 1, PPM(0.58));
	dcgm_done(&rig);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Zeros of a stuck module are not values. */
CHILD_TEST(a_module_that_is_stalled)
{
	(void) state;
	struct nvml_rig rig;
	const struct timespec moment = { .tv_nsec = 1000000 };

	dcgm_open(&rig, "dcgm-stalled.conf");
	for (double t = 1.5; t < 14; t++) {
		dcgm_read(&rig, t, PROFILING);
		for (size_t i = 0; i < rig.out.n_readings; i++)
			assert_false(rig.out.readings[i].known);
		(void) nanosleep(&moment, NULL);
	}
	rig.s->gpus[0].zero_since_ns = 1; /* long enough to count as stalled */
	dcgm_read(&rig, 15.5, PROFILING);
	assert_true(has_note(&rig.out, "gpu.sm_active", "GPU 0: the profiling module of DCGM is stalled"));
	dcgm_done(&rig);
}

CHILD_TEST(an_engine_that_ends_and_is_back)
{
	(void) state;
	struct nvml_rig rig;

	dcgm_scenario(&rig, "dcgm.conf", "[driver]\nengine_gone = 5\nengine_back = 20\n");
	dcgm_read(&rig, 4.5, PROFILING);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 1, PPM(0.58));
	dcgm_read(&rig, 6, PROFILING);
	check_absent(&rig.out, M_GPU_SM_ACTIVE, 1);
	assert_non_null(find_reading(&rig.out, M_GPU_SM_ACTIVE, 1));
	assert_true(has_note(&rig.out, "gpu.sm_active", "no longer answers"));
	dcgm_read(&rig, 10, PROFILING | ENGINE);
	assert_int_equal(rig.out.n_readings + rig.out.n_events, 0);
	dcgm_read(&rig, 21, PROFILING | ENGINE);
	dcgm_read(&rig, 24.5, PROFILING);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 1, PPM(0.58));
	assert_int_equal(rig.out.n_births, 0); /* the same device */
	assert_true(has_note(&rig.out, "gpu.sm_active", "GPU 0: DCGM reports it again"));
	dcgm_done(&rig);
}

/* The engine accepts connections before it knows its GPUs. */
CHILD_TEST(an_engine_that_is_back_slowly)
{
	(void) state;
	struct nvml_rig rig;

	dcgm_scenario(&rig, "dcgm.conf",
		"[driver]\nengine_gone = 5\nengine_back = 20\n[call dcgmGetAllSupportedDevices]\nerror = 37\nfrom = 20\nuntil = 25\n");
	dcgm_read(&rig, 4.5, PROFILING);
	dcgm_read(&rig, 6, PROFILING);
	dcgm_read(&rig, 21, PROFILING | ENGINE);
	dcgm_read(&rig, 31, PROFILING | ENGINE);
	dcgm_read(&rig, 34.5, PROFILING);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 1, PPM(0.58));
	dcgm_done(&rig);
}

/* The engine is shared: a failed attempt leaves no objects in it. */
CHILD_TEST(a_refusal_leaves_nothing)
{
	(void) state;
	struct nvml_rig rig;

	const int which = (int) (intptr_t) *state, code = which ? 34 : 33;
	char text[128];

	(void) snprintf(text, sizeof(text), "[call dcgmWatchFields]\nfirst = 1\nerror = %d\n", code);
	dcgm_scenario(&rig, "dcgm.conf", text);
	rig_log(&rig);
	for (int t = 0; t < 10; t++)
		dcgm_read(&rig, 10 * t + 2.5, PROFILING | ENGINE);
	/* a profiler ends; a missing module is permanent */
	assert_int_equal(rig_calls(&rig, " dcgmGroupCreate", "-"), which ? 10 : 0);
	assert_int_equal(rig_calls(&rig, " dcgmGroupDestroy", "-"), which ? 10 : 0);
	assert_int_equal(rig_calls(&rig, " dcgmFieldGroupDestroy", "-"), which ? 10 : 0);
	dcgm_done(&rig);
}

/* A refused watch gives the reason; a smaller one is tried if the hardware cannot count all fields
 * at once. */
CHILD_TEST(a_watch_that_is_refused)
{
	(void) state;
	struct nvml_rig rig;
	const struct {
		int code;
		const char *why;
	} refusals[] = { { 33, "lacks its profiling module" }, { 34, "a profiler has the counters" },
		{ 29, "no permission to profile" }, { 36, "no profiling counters" } };
	const int which = (int) (intptr_t) *state;
	char text[128];

	(void) snprintf(
		text, sizeof(text), "[call dcgmWatchFields]\nfirst = 1\nerror = %d\n", refusals[which].code);
	dcgm_scenario(&rig, "dcgm.conf", text);
	dcgm_read(&rig, 2.5, PROFILING | ENGINE);
	assert_int_equal(rig.out.n_readings, 0);
	assert_true(has_note(&rig.out, "gpu.sm_active", refusals[which].why));
	dcgm_done(&rig);
}

CHILD_TEST(hopper_and_later_are_left_to_nvml)
{
	(void) state;
	struct nvml_rig rig;

	dcgm_env(&rig, "");
	temp_tree_put(&rig.tree, "scenario",
		"[driver]\nengine = 127.0.0.1:5555\nprofiled = 1001\n[gpu 0]\nuuid = GPU-1\ncc_major = 9\ncc_minor = 0\n");
	char path[256];

	(void) snprintf(path, sizeof(path), "%s/scenario", rig.tree.path);
	assert_int_equal(setenv("HIWATER_FAKE_NVML", path, 1), 0);
	assert_int_equal(dcgm_try(&rig), -ENODEV);
	assert_non_null(strstr(rig.err.text, "NVML reports as much"));
	root_done(&rig.root);
	temp_tree_done(&rig.tree);
}

CHILD_TEST(no_engine_no_library)
{
	(void) state;
	struct nvml_rig rig;

	dcgm_env(&rig, "driver-580.conf"); /* nothing listens there */
	assert_int_equal(dcgm_try(&rig), -ENODEV);
	assert_non_null(strstr(rig.err.text, "no DCGM host engine answers at 127.0.0.1"));
	root_done(&rig.root);
	assert_int_equal(setenv("HIWATER_DCGM", "/nowhere/libdcgm.so", 1), 0);
	assert_int_equal(dcgm_try(&rig), -ENOENT);
	assert_non_null(strstr(rig.err.text, "libdcgm.so.4 was not found"));
	root_done(&rig.root);
	temp_tree_done(&rig.tree);
}

/* ---- availability ---------------------------------------------------------------------------- */

struct reported {
	struct source_probe of[METRIC_COUNT];
	char why[METRIC_COUNT][256];
};

static void take_told(void *ctx, const struct source_probe *probe)
{
	struct reported *p = ctx;

	p->of[probe->metric] = *probe;
	(void) snprintf(p->why[probe->metric], sizeof(p->why[0]), "%s", probe->why_not);
}

static void probe(struct nvml_rig *rig, const char *scenario, struct reported *ret)
{
	dcgm_env(rig, scenario);
	assert_int_equal(unsetenv("HIWATER_FAKE_TIME"), 0); /* its time goes on */
	rig->root = temp_tree_root(&rig->tree);
	rig->root.live = true;
	rig->env = (struct source_env) { .root = &rig->root };
	memset(ret, 0, sizeof(*ret));
	source_dcgm.probe(&rig->env, take_told, ret);
	root_done(&rig->root);
	temp_tree_done(&rig->tree);
}

CHILD_TEST(availability)
{
	(void) state;
	struct nvml_rig rig;
	struct reported probes;

	probe(&rig, "dcgm.conf", &probes);
	assert_true(probes.of[M_GPU_SM_ACTIVE].available);
	assert_true(probes.of[M_GPU_DRAM_ACTIVE].available);
}

CHILD_TEST(reasons_for_unavailability)
{
	(void) state;
	struct nvml_rig rig;
	struct reported probes;

	probe(&rig, "dcgm-unwatched.conf", &probes);
	assert_false(probes.of[M_GPU_SM_ACTIVE].available);
	assert_non_null(strstr(probes.why[M_GPU_SM_ACTIVE], "uses profiling counters"));
	assert_non_null(strstr(probes.of[M_GPU_SM_ACTIVE].remedy, "HIWATER_DCGM_PROFILE=1"));
}

/* ---- values ---------------------------------------------------------------------------------- */

static void a_value_may_be_none(void **state)
{
	struct dcgm_value v = { .type = 'd', .value.d = 0.25 };
	double x = 7;
	char text[8];

	(void) state;
	assert_int_equal(dcgm_number(&v, &x), DCGM_FINE);
	assert_true(x == 0.25);
	v.value.d = DCGM_BLANK_DOUBLE + DCGM_BLANK_NOT_SUPPORTED;
	assert_int_equal(dcgm_number(&v, &x), DCGM_NO_COUNTERS);
	v.value.d = DCGM_BLANK_DOUBLE + DCGM_BLANK_NOT_PERMITTED;
	assert_int_equal(dcgm_number(&v, &x), DCGM_FORBIDDEN);
	v.value.d = 1e300;
	assert_int_equal(dcgm_number(&v, &x), DCGM_COUNTERS_IN_USE);
	v.status = DCGM_NOT_WATCHED;
	assert_int_equal(dcgm_number(&v, &x), DCGM_NOBODY_PROFILES);
	v = (struct dcgm_value) { .type = 'i', .value.i64 = DCGM_BLANK_I64 };
	assert_int_equal(dcgm_number(&v, &x), DCGM_COUNTERS_IN_USE);
	v = (struct dcgm_value) { .type = 's', .value.text = "<<<NULL>>>" };
	assert_int_equal(dcgm_number(&v, &x), DCGM_NOT_YET);
	assert_true(x == 0.25); /* unchanged */
	dcgm_text(&v, text, sizeof(text));
	assert_string_equal(text, "");
	assert_false(dcgm_ppm(1.2).known);
	assert_false(dcgm_ppm(-0.1).known);
	assert_int_equal(dcgm_ppm(1.004).value, 1000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(activity_by_an_engine_that_profiles),
		cmocka_unit_test(counters_that_a_profiler_takes),
		cmocka_unit_test(nothing_is_taken_that_nobody_has),
		cmocka_unit_test(profiling_on_request),
		cmocka_unit_test(a_module_that_is_stalled),
		cmocka_unit_test(an_engine_that_ends_and_is_back),
		cmocka_unit_test(an_engine_that_is_back_slowly),
		{ "nothing is left by no module", a_refusal_leaves_nothing, NULL, NULL, (void *) 0 },
		{ "nothing is left by a profiler", a_refusal_leaves_nothing, NULL, NULL, (void *) 1 },
		{ "no module", a_watch_that_is_refused, NULL, NULL, (void *) 0 },
		{ "in use", a_watch_that_is_refused, NULL, NULL, (void *) 1 },
		{ "not root", a_watch_that_is_refused, NULL, NULL, (void *) 2 },
		{ "no counters", a_watch_that_is_refused, NULL, NULL, (void *) 3 },
		cmocka_unit_test(hopper_and_later_are_left_to_nvml),
		cmocka_unit_test(no_engine_no_library),
		cmocka_unit_test(availability),
		cmocka_unit_test(reasons_for_unavailability),
		cmocka_unit_test(a_value_may_be_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
