/* SPDX-License-Identifier: MIT
 *
 * The NVML source on each kind of driver and machine that the fake supports: correct figures or
 * none, never a zero that was not read. Expected values are those of the scenarios
 * (tests/fake/scenarios).
 */
#include "nvml_rig.h"

/* ---- drivers --------------------------------------------------------------------------------- */

/* Two cards, the first one busy; at 7 s this process uses 7 GiB of it and another one 631 MiB. */
struct driver {
	const char *level, *scenario, *name;
	int64_t total, base, reserved; /* base: used by no process; reserved: -1 unknown, then part of used */
	int64_t hidden;
	bool by_field; /* throttling by the driver's counters */
	bool temp_mem;
};

static const struct driver drivers[] = {
	{ "450", "driver-450.conf", "Tesla V100-SXM2-16GB", 16160 * MIB, 4 * MIB, -1, 0, true, true },
	{ "470", "driver-470.conf", "NVIDIA A100-SXM4-40GB", 40 * GIB, 4 * MIB, -1, 571 * MIB, true, true },
	{ "535.43", "driver-535.43.conf", "NVIDIA GeForce RTX 4090", 24564 * MIB, 1 * MIB, 473 * MIB, 0, true,
		false },
	{ "535.98", "driver-535.98.conf", "NVIDIA A100-SXM4-40GB", 40 * GIB, 4 * MIB, 571 * MIB, 0, true,
		true },
	{ "550", "driver-550.conf", "NVIDIA GeForce RTX 4090", 24564 * MIB, 1 * MIB, 473 * MIB, 0, true,
		false },
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

/* ---- hardware facts -------------------------------------------------------------------------- */

/* The reported facts by device. */
struct reported {
	bool has[3][GPU_FACT_COUNT];
	struct gpu_fact_value facts[3][GPU_FACT_COUNT];
};

static void take_fact(void *ctx, const struct gpu_fact_value *fact)
{
	struct reported *reported = ctx;

	assert_in_range(fact->id, 1, 2);
	reported->has[fact->id][fact->fact] = true;
	reported->facts[fact->id][fact->fact] = *fact;
}

static void ask_facts(struct nvml_rig *rig, struct reported *reported)
{
	struct gpu_fact_set all;

	memset(&all, 1, sizeof(all));
	memset(reported, 0, sizeof(*reported));
	rig_open(rig);
	rig_read(rig, MEMORY);
	source_nvml.facts(rig->s, &all, take_fact, reported);
}

CHILD_TEST(facts_of_a_card)
{
	static const struct {
		enum gpu_fact fact;
		int64_t value;
	} expected[] = {
		{ GF_CAPABILITY, 90 },
		{ GF_CORES, 16896 },
		{ GF_SMS, 132 },
		{ GF_TENSOR_CORES, 528 },
		{ GF_WARP, 32 },
		{ GF_WARPS_SM, 64 },
		{ GF_THREADS_SM, 2048 },
		{ GF_BLOCKS_SM, 32 },
		{ GF_REGISTERS_SM, 65536 },
		{ GF_SHARED_SM, 228 << 10 },
		{ GF_BUS_BITS, 5120 },
		{ GF_MAX_CLOCK_SM, 1980000000 },
		{ GF_MAX_CLOCK_MEM, 2619000000 },
		{ GF_POWER_SET, 700000000 },
		{ GF_POWER_DEFAULT, 700000000 },
		{ GF_POWER_MIN, 200000000 },
		{ GF_POWER_MAX, 700000000 },
		{ GF_PCIE_GENERATION_MAX, 5 },
		{ GF_PCIE_LANES_MAX, 16 },
		{ GF_PCIE_GENERATION, 5 },
		{ GF_TEMP_SLOWDOWN, 89000 },
		{ GF_TEMP_SHUTDOWN, 92000 },
		{ GF_ECC, 1 },
		{ GF_MIG, 0 },
		{ GF_PERSISTENCE, 1 },
		{ GF_REASONS_KNOWN, 511 },
		{ GF_PCI_DEVICE, 590352606 },
		{ GF_ACCOUNTING_ROOM, 4000 },
	};
	(void) state;
	struct nvml_rig rig;
	struct reported reported;

	rig_new(&rig, "550", "gpm.conf", 0);
	ask_facts(&rig, &reported);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		if (!reported.has[1][expected[i].fact] ||
			reported.facts[1][expected[i].fact].value != expected[i].value)
			fail_msg("%s: %lld", gpu_facts[expected[i].fact].name,
				(long long) reported.facts[1][expected[i].fact].value);
	}
	assert_string_equal(reported.facts[1][GF_ARCHITECTURE].text, "Hopper");
	assert_string_equal(reported.facts[1][GF_VBIOS].text, "96.00.61.00.01");
	assert_string_equal(reported.facts[1][GF_SERIAL].text, "1653122000000");
	assert_string_equal(reported.facts[2][GF_SERIAL].text, "1653122000001");
	assert_false(reported.has[1][GF_LOST] || reported.has[1][GF_GPU_INSTANCE] || reported.has[1][GF_L2] ||
		     reported.has[1][GF_TEMP_MARGIN]);
	rig_done(&rig);
}

CHILD_TEST(a_card_without_an_identity)
{
	(void) state;
	struct nvml_rig rig;
	struct reported reported;
	int n = 0;

	rig_scenario(&rig, "450",
		"[driver]\nlevel = 450\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n");
	ask_facts(&rig, &reported);
	for (int f = 0; f < GPU_FACT_COUNT; f++)
		n += reported.has[1][f] && f != GF_PCI_DEVICE && f != GF_PCI_SUBSYSTEM && f != GF_MINOR &&
		     f != GF_CUDA_VERSION && f != GF_LIBRARY;
	assert_int_equal(n, 0);
	rig_done(&rig);
}

/* An impossible fact is an error of the driver, and has no value. */
CHILD_TEST(impossible_facts)
{
	static const enum gpu_fact refused[] = { GF_POWER_DEFAULT, GF_MAX_CLOCK_SM, GF_TEMP_SHUTDOWN,
		GF_PCIE_GENERATION, GF_PCIE_LANES_MAX, GF_PERSISTENCE, GF_BUS_BITS };
	struct nvml_rig rig;
	struct reported reported;

	(void) state;
	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n"
		"power_default_limit = 2147483647\nclock_max_sm = 2147483647\ntemperature_shutdown = 2147483647\npcie_gen = 2147483647\n"
		"pcie_width_max = 2147483647\npersistence_mode = 2147483647\nbus_width = 2147483647\n"
		"power_max_limit = 3000000\npower_min_limit = 200000\nclock_max_memory = 24000\npcie_gen_max = 8\n");
	ask_facts(&rig, &reported);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		if (!reported.has[1][refused[i]] || reported.facts[1][refused[i]].lack != GPU_LACK_ERROR)
			fail_msg("%s: %lld", gpu_facts[refused[i]].name,
				(long long) reported.facts[1][refused[i]].value);
	}
	assert_int_equal(reported.facts[1][GF_POWER_MAX].value, 3000000000);
	assert_int_equal(reported.facts[1][GF_MAX_CLOCK_MEM].value, 24000000000);
	assert_int_equal(reported.facts[1][GF_PCIE_GENERATION_MAX].value, 8);
	rig_done(&rig);
}

int main(void)
{
	struct CMUnitTest tests[64] = { { 0 } };
	size_t n = 0;

	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		tests[n++] = (struct CMUnitTest) { drivers[i].scenario, every_driver, NULL, NULL,
			(void *) (uintptr_t) &drivers[i] };
	tests[n++] = (struct CMUnitTest) cmocka_unit_test(facts_of_a_card);
	tests[n++] = (struct CMUnitTest) cmocka_unit_test(a_card_without_an_identity);
	tests[n++] = (struct CMUnitTest) cmocka_unit_test(impossible_facts);
	return _cmocka_run_group_tests("nvml", tests, n, NULL, NULL);
}
