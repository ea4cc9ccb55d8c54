/* SPDX-License-Identifier: MIT
 *
 * The NVML source on each kind of driver and machine that the fake has: right figures, or none; never a zero that was not
 * read. What is expected stands in the scenarios (tests/fake/scenarios).
 */
#include "nvml_rig.h"
#include "source/nvml_spec.h"

/* ---- drivers -------------------------------------------------------------------------------------------------------- */

/* Two cards, the first at work; at 7 s this process has 7 GiB of it and another one 631 MiB. */
struct driver {
	const char *level, *scenario, *name;
	int64_t total, base, reserved; /* base: what nobody has; reserved: -1 unknown, and then part of what is used */
	int64_t hidden;
	bool by_field; /* throttling by the driver's counters */
	bool temp_mem;
};

static const struct driver drivers[] = {
	{ "450", "driver-450.conf", "Tesla V100-SXM2-16GB", 16160 * MIB, 4 * MIB, -1, 0, true, true },
	{ "470", "driver-470.conf", "NVIDIA A100-SXM4-40GB", 40 * GIB, 4 * MIB, -1, 571 * MIB, true, true },
	{ "535.43", "driver-535.43.conf", "NVIDIA GeForce RTX 4090", 24564 * MIB, 1 * MIB, 473 * MIB, 0, true, false },
	{ "535.98", "driver-535.98.conf", "NVIDIA A100-SXM4-40GB", 40 * GIB, 4 * MIB, 571 * MIB, 0, true, true },
	{ "550", "driver-550.conf", "NVIDIA GeForce RTX 4090", 24564 * MIB, 1 * MIB, 473 * MIB, 0, true, false },
	{ "580", "driver-580.conf", "NVIDIA A100-SXM4-40GB", 40 * GIB, 4 * MIB, 571 * MIB, 0, true, true },
	{ "615", "driver-615.conf", "NVIDIA B200", 183359 * MIB, 4 * MIB, 733 * MIB, 0, true, true },
};

static void check_processes(const struct framebuf *out)
{
	const struct birth *mine = find_process(out, 1, getpid()), *other = find_process(out, 1, 4100001);

	assert_non_null(mine);
	assert_non_null(other);
	assert_string_equal(mine->gpu_process.name, "train");
	assert_true(mine->gpu_process.uid.known && mine->gpu_process.uid.value == 1234);
	assert_true(mine->gpu_process.compute && !mine->gpu_process.graphics);
	assert_int_equal(mine->gpu_process.process, 0);
	assert_string_equal(other->gpu_process.name, "");
	assert_false(other->gpu_process.uid.known);
	check_value(out, M_GPU_PROCESSES, 1, 2);
	check_value(out, M_GPROC_MEM, mine->id, 7 * GIB);
	check_value(out, M_GPROC_MEM, other->id, 631 * MIB);
	check_value(out, M_GPU_PROCESSES, 2, 0);
}

static void check_device(const struct framebuf *out, const struct driver *d)
{
	const struct birth *birth = find_birth(out, ENTITY_GPU, 0);
	int64_t used = 7 * GIB + 631 * MIB + d->base + d->hidden;

	assert_non_null(birth);
	assert_int_equal(birth->id, 1);
	assert_string_equal(birth->gpu.name, d->name);
	assert_string_equal(birth->gpu.vendor, "nvidia");
	assert_string_equal(birth->gpu.parent, "");
	assert_true(birth->gpu.index.known && birth->gpu.index.value == 0);
	assert_true(birth->gpu.cuda_index.known && birth->gpu.cuda_index.value == 0);
	assert_true(birth->gpu.memory_bytes.known && birth->gpu.memory_bytes.value == d->total);
	assert_int_equal(strncmp(birth->gpu.driver, d->level, 3), 0);
	assert_false(birth->gpu.unified || birth->gpu.is_module);
	check_value(out, M_GPU_MEM, 1, used);
	if (d->reserved >= 0) {
		check_value(out, M_GPU_MEM_RESERVED, 1, d->reserved);
		check_value(out, M_GPU_MEM_FREE, 1, d->total - used - d->reserved);
	} else {
		check_absent(out, M_GPU_MEM_RESERVED, 1);
		check_value(out, M_GPU_MEM_FREE, 1, d->total - used);
	}
	check_value(out, M_GPU_BUSY, 1, 950000);
	check_value(out, M_GPU_MEM_BUSY, 1, 330000);
	check_value(out, M_GPU_POWER, 1, 240000000);
	check_value(out, M_GPU_PSTATE, 1, 0);
}

CHILD_TEST(every_driver)
{
	const struct driver *d = *state;
	struct nvml_rig rig;

	rig_new(&rig, d->level, d->scenario, 7);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	assert_non_null(find_birth(&rig.out, ENTITY_GPU, 1));
	assert_null(find_birth(&rig.out, ENTITY_GPU, 2));
	check_device(&rig.out, d);
	check_processes(&rig.out);
	assert_int_equal(find_reading(&rig.out, M_GPU_TEMP_MEM, 1)->known, d->temp_mem);
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(rig.out.n_births, 0);
	assert_int_equal(rig.out.n_ends, 0);
	check_absent(&rig.out, M_GPU_FAN, 99);
	rig_done(&rig);
}

/* ---- what a card is made of ------------------------------------------------------------------------------------------ */

static void take_spec(void *ctx, const struct nvml_device_spec *spec)
{
	int *n = ctx;

	assert_string_equal(spec->name, "NVIDIA H100 80GB HBM3");
	assert_string_equal(spec->pci, *n == 0 ? "0000:10:00.0" : "0000:11:00.0");
	assert_int_equal(spec->index, *n);
	assert_true(spec->major.value == 9 && spec->minor.value == 0);
	assert_string_equal(spec->of_sm->architecture, "Hopper");
	assert_int_equal(spec->cores.value, 16896);
	assert_int_equal(spec->sms.value, 132);
	assert_int_equal(spec->memory_bytes.value, 81559 * MIB);
	assert_int_equal(spec->bus_bits.value, 5120);
	assert_int_equal(spec->max_sm_hz.value, 1980000000);
	assert_int_equal(spec->max_memory_hz.value, 2619000000);
	assert_int_equal(spec->power_limit_uw.value, 700000000);
	assert_int_equal(spec->power_default_uw.value, 700000000);
	assert_int_equal(spec->power_min_uw.value, 200000000);
	assert_int_equal(spec->power_max_uw.value, 700000000);
	assert_int_equal(spec->pcie_generation.value, 5);
	assert_int_equal(spec->pcie_lanes.value, 16);
	assert_false(spec->divided || spec->unified);
	++*n;
}

CHILD_TEST(what_a_card_is_made_of)
{
	(void) state;
	struct nvml_rig rig;
	int n = 0;

	rig_new(&rig, "550", "gpm.conf", 0);
	rig.root = temp_tree_root(&rig.tree);
	rig.env = (struct source_env) { .root = &rig.root };
	assert_int_equal(nvml_specs(&rig.env, take_spec, &n, &rig.err), 2);
	assert_int_equal(n, 2);
	rig_done(&rig);
}

static void take_bare_spec(void *ctx, const struct nvml_device_spec *spec)
{
	(void) ctx;
	assert_false(spec->major.known || spec->cores.known || spec->sms.known || spec->bus_bits.known || spec->max_sm_hz.known ||
		     spec->power_limit_uw.known || spec->power_min_uw.known || spec->pcie_lanes.known);
	assert_null(spec->of_sm);
}

CHILD_TEST(a_card_that_tells_nothing_of_itself)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "450", "[driver]\nlevel = 450\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n");
	rig.root = temp_tree_root(&rig.tree);
	rig.env = (struct source_env) { .root = &rig.root };
	assert_int_equal(nvml_specs(&rig.env, take_bare_spec, NULL, &rig.err), 1);
	rig_done(&rig);
}

int main(void)
{
	struct CMUnitTest tests[64] = { { 0 } };
	size_t n = 0;

	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		tests[n++] = (struct CMUnitTest) { drivers[i].scenario, every_driver, NULL, NULL, (void *) (uintptr_t) &drivers[i] };
	tests[n++] = (struct CMUnitTest) cmocka_unit_test(what_a_card_is_made_of);
	tests[n++] = (struct CMUnitTest) cmocka_unit_test(a_card_that_tells_nothing_of_itself);
	return _cmocka_run_group_tests("nvml", tests, n, NULL, NULL);
}
