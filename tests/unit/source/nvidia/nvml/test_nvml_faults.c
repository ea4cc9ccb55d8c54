/* SPDX-License-Identifier: MIT
 *
 * The NVML source without a library, driver or GPU, and with failing calls; and the availability
 * that doctor shows.
 */
#include "nvml_rig.h"
#include "source/nvidia/nvml/internal.h"

/* ---- nothing to open ------------------------------------------------------------------------- */

struct closed {
	const char *level, *scenario, *words;
	int error;
};

static const struct closed closed[] = {
	{ "550", "mismatch.conf", "different versions", -ELIBBAD },
	{ "550", "no-driver.conf", "kernel module is not loaded", -ENXIO },
};

CHILD_TEST(a_driver_that_fails_to_start_reports_why)
{
	const struct closed *c = *state;
	struct nvml_rig rig;
	struct probes probes = { 0 };

	rig_new(&rig, c->level, c->scenario, 0);
	assert_int_equal(rig_try(&rig), c->error);
	assert_null(rig.s);
	assert_non_null(strstr(rig.err.text, c->words));
	source_nvml.probe(&rig.env, probes_take, &probes);
	assert_true(
		probes.told[M_GPU_MEM] && !probes.of[M_GPU_MEM].available && *probes.of[M_GPU_MEM].remedy);
	assert_true(probes.told[M_GPU_SM_ACTIVE] && !probes.of[M_GPU_SM_ACTIVE].available);
	rig_done(&rig);
}

CHILD_TEST(no_library_is_another_thing_than_no_driver)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "default.conf", 0);
	assert_int_equal(setenv("HIWATER_NVML", "/nowhere/libnvidia-ml.so.1", 1), 0);
	assert_int_equal(rig_try(&rig), -EINVAL);
	assert_non_null(strstr(rig.err.text, "/nowhere/libnvidia-ml.so.1"));
	/* This machine's driver is not used for a captured machine. */
	assert_int_equal(unsetenv("HIWATER_NVML"), 0);
	assert_int_equal(source_nvml.open(&rig.env, &rig.s, &rig.err), -ENODEV);
	assert_non_null(strstr(rig.err.text, "captured"));
	rig_done(&rig);
}

/* ---- calls that fail ------------------------------------------------------------------------- */

/* Every call of the table fails, one at a time, for the first GPU from 1 s on, or from the start:
 * no value is made up, the second GPU is unaffected, and nothing crashes. */
static const char *const calls[] = {
#define X(member, parameters, ...) __VA_ARGS__,
	NVML_CALLS(X)
#undef X
};

static const int failures[] = { 3, 4, 15, 25, 999 };

struct failing {
	const char *call;
	int code;
	int from;
};

static void check_second(const struct framebuf *out, uint32_t second)
{
	static const enum metric some[] = { M_GPU_MEM, M_GPU_MEM_FREE, M_GPU_MEM_RESERVED, M_GPU_BUSY,
		M_GPU_POWER, M_GPU_ENERGY, M_GPU_TEMP, M_GPU_TEMP_MEM, M_GPU_CLOCK_SM, M_GPU_PSTATE,
		M_GPU_THROTTLE_HW, M_GPU_NVLINK_RX, M_GPU_PROCESSES, M_GPU_POWER_LIMIT, M_GPU_ECC_CORRECTED };

	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		const struct reading *r = find_reading(out, some[i], second);

		if (!r || !r->known)
			fail_msg("the second GPU lost its %s", metrics[some[i]].name);
	}
}

/* On the first GPU of gpm.conf at 1 s these are not zero, so a zero was not read. */
static void check_no_false_zero(const struct framebuf *out)
{
	static const enum metric some[] = { M_GPU_MEM, M_GPU_MEM_FREE, M_GPU_MEM_RESERVED, M_GPU_BUSY,
		M_GPU_MEM_BUSY, M_GPU_POWER, M_GPU_TEMP, M_GPU_TEMP_MEM, M_GPU_CLOCK_SM, M_GPU_CLOCK_MEM,
		M_GPU_POWER_LIMIT, M_GPU_NVLINK_RX, M_GPU_NVLINK_TX, M_GPU_PROCESSES, M_GPU_SM_ACTIVE,
		M_GPU_PCIE_TX };

	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		const struct reading *r = find_reading(out, some[i], 1);

		if (r && r->known && r->value == 0)
			fail_msg("%s is zero, which nobody read", metrics[some[i]].name);
	}
}

static void a_call_that_fails(void **state)
{
	const struct failing *f = *state;
	struct nvml_rig rig;
	char text[512];

	snprintf(text, sizeof(text),
		"include = %s/fake/scenarios/gpm.conf\n[call %s]\ngpu = 0\nfrom = %d\nerror = %d\n",
		TESTS_DIR, f->call, f->from, f->code);
	rig_scenario(&rig, "550", text);
	rig_at(&rig, 0.5);
	if (rig_try(&rig) == 0) {
		rig_read(&rig, ALL_GROUPS);
		/* If the first GPU could not be opened, the second is the first one born. */
		bool both = find_birth(&rig.out, ENTITY_GPU, 1) != NULL;

		rig_at(&rig, 1.5);
		rig_read(&rig, ALL_GROUPS);
		if (both)
			check_no_false_zero(&rig.out);
		check_second(&rig.out, both ? 2 : 1);
	} else {
		assert_true(*rig.err.text);
	}
	rig_done(&rig);
}

static void every_call_may_fail(void **state)
{
	(void) state;

	for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
		for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
			struct failing f = { calls[c], failures[i], (int) (c + i) % 2 };

			printf("# %s answers %d from %d s on\n", f.call, f.code, f.from);
			in_child(a_call_that_fails, &f, c % 10 == 0 && i == 0);
		}
	}
}

/* ---- availability ---------------------------------------------------------------------------- */

CHILD_TEST(doctor_reports_ways_and_reasons)
{
	(void) state;
	struct nvml_rig rig;
	struct probes probes = { 0 };

	rig_new(&rig, "470", "driver-470.conf", 7);
	rig.root = temp_tree_root(&rig.tree);
	rig.env = (struct source_env) { .root = &rig.root };
	source_nvml.probe(&rig.env, probes_take, &probes);
	assert_true(probes.of[M_GPU_MEM].available);
	/* before 510 without reserved memory */
	assert_string_equal(probes.of[M_GPU_MEM].how, "nvmlDeviceGetMemoryInfo");
	assert_false(probes.of[M_GPU_MEM_RESERVED].available);
	assert_true(probes.of[M_GPU_BUSY].available);
	assert_true(probes.of[M_GPROC_MEM].available);
	assert_true(probes.of[M_GPROC_SM_BUSY].available);
	assert_false(probes.of[M_GPU_SM_ACTIVE].available);
	assert_non_null(strstr(probes.of[M_GPU_SM_ACTIVE].remedy, "DCGM"));
	assert_false(probes.of[M_GPROC_MEM_PEAK].available);
	assert_non_null(strstr(probes.of[M_GPROC_MEM_PEAK].remedy, "accounting-mode"));
	rig_done(&rig);
}

CHILD_TEST(doctor_waits_for_a_pair)
{
	(void) state;
	struct nvml_rig rig;
	struct probes probes = { 0 };
	char text[64];
	struct timespec now;

	rig_new(&rig, "550", "gpm.conf", 0);
	assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &now), 0);
	snprintf(text, sizeof(text), "since:%lld", (long long) now.tv_sec - 1);
	assert_int_equal(setenv("HIWATER_FAKE_TIME", text, 1), 0);
	rig.root = temp_tree_root(&rig.tree);
	rig.env = (struct source_env) { .root = &rig.root };
	source_nvml.probe(&rig.env, probes_take, &probes);
	assert_true(probes.of[M_GPU_SM_ACTIVE].available);
	assert_true(probes.of[M_GPU_PCIE_TX].available);
	assert_true(probes.of[M_GPU_NVLINK_TX].available);
	assert_true(probes.of[M_GPU_XID].available);
	rig_done(&rig);
}

CHILD_TEST(absent_calls_are_made_once)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "vgpu.conf", 3);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	rig_log(&rig);
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(rig_calls(&rig, "Power", "0"), 0);
	assert_int_equal(rig_calls(&rig, "Temperature", "0"), 0);
	assert_int_equal(rig_calls(&rig, "FieldValues", "0"), 0);
	assert_int_equal(rig_calls(&rig, "Gpm", "0"), 0);
	assert_int_equal(rig_calls(&rig, "PcieThroughput", "0"), 0);
	assert_int_equal(rig_calls(&rig, "HandleBy", "0"), 0);
	assert_true(rig_calls(&rig, "MemoryInfo_v2", "0") > 0);
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "mismatch", a_driver_that_fails_to_start_reports_why, NULL, NULL,
			(void *) (uintptr_t) &closed[0] },
		{ "no-driver", a_driver_that_fails_to_start_reports_why, NULL, NULL,
			(void *) (uintptr_t) &closed[1] },
		cmocka_unit_test(no_library_is_another_thing_than_no_driver),
		cmocka_unit_test(every_call_may_fail),
		cmocka_unit_test(doctor_reports_ways_and_reasons),
		cmocka_unit_test(doctor_waits_for_a_pair),
		cmocka_unit_test(absent_calls_are_made_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
