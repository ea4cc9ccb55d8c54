/* SPDX-License-Identifier: MIT
 *
 * The NVML source with impossible values, or values that disappear: they are left out, and noted
 * once.
 */
#include "nvml_rig.h"

/* Reads all groups at that second; GPM's means are since the last call. */
static void read_next_pair(struct nvml_rig *rig, int at)
{
	rig_at(rig, at);
	rig_wait_gpm();
	rig_read(rig, ALL_GROUPS);
}

static size_t count_notes(const struct framebuf *b, const char *words)
{
	size_t n = 0;

	for (size_t i = 0; i < b->n_events; i++)
		n += b->events[i].kind == EVENT_NOTE && strstr(b->events[i].text, words) != NULL;
	return n;
}

CHILD_TEST(all_ones_and_nonsense_are_absent)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "580",
		"[driver]\nlevel = 580\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = unknown\n"
		"memory_used = unknown\nmemory_reserved = unknown\nutil = 255\nutil_memory = unknown\npower = unknown\nenergy = unknown\n"
		"temperature = 0\ntemperature_memory = unknown\nclock_sm = unknown\nclock_memory = unknown\npstate = 32\nfan = unknown\n"
		"event_reasons = unknown\npower_limit = unknown\nutil_encoder = unknown\necc_corrected_volatile = unknown\n"
		"field 74 = unknown\nfield 138 = unknown\nfield 139 = unknown\nfield 197 = unknown\nfield 198 = unknown\n"
		"gpm 1 = nan\ngpm 2 = nan\ngpm 20 = nan\n[process 0]\npid = 4100001\nmemory = 0\nsm = 140\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	assert_true(has_mere_note(&rig.out, "gpu",
		"GPU 0: the driver returns no value for gpu.mem, gpu.mem_free, gpu.mem_reserved, gpu.mem_busy, gpu.enc_busy, gpu.power, "
		"gpu.power_limit, gpu.energy, gpu.temp_mem, gpu.clock_sm, gpu.clock_mem, gpu.pstate, gpu.fan, gpu.ecc_corrected"));
	assert_int_equal(count_notes(&rig.out, "returns no value"), 1);
	rig_wait_gpm();
	rig_at(&rig, 1);
	rig_read(&rig, ALL_GROUPS);
	assert_true(has_mere_note(&rig.out, "gpu",
		"GPU 0: GPM returns no value for gpu.graphics_active, gpu.sm_active, gpu.pcie_tx"));
	assert_int_equal(count_notes(&rig.out, "returns no value"), 1);
	for (size_t i = 0; i < rig.out.n_readings; i++) {
		const struct reading *r = &rig.out.readings[i];

		if (r->known && r->metric != M_GPU_PROCESSES)
			fail_msg("%s: %lld", metrics[r->metric].name, (long long) r->value);
	}
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	rig_done(&rig);
}

/* All ones means "no value"; more memory in use than there is, or a temperature of 0, is noted as
 * impossible, even if no other value was ever read. */
static void check_impossible_values(const char *level)
{
	struct nvml_rig rig;
	char text[512];

	snprintf(text, sizeof(text),
		"[driver]\nlevel = %s\n[gpu 0-1]\nname = A\nuuid = GPU-%%d\npci = 00000000:0%%d:00.0\nmemory_total = 8Gi\n"
		"memory_used = steps 0:9Gi 3:1Gi\nmemory_reserved = 0\ntemperature = 0\n[gpu 1]\ntemperature = unknown\nmemory_used = 1Gi\n",
		level);
	rig_scenario(&rig, level, text);
	rig_open(&rig);
	rig_read(&rig, MEMORY | ACTIVITY);
	assert_false(find_reading(&rig.out, M_GPU_MEM, 1)->known);
	assert_false(find_reading(&rig.out, M_GPU_TEMP, 1)->known);
	assert_true(
		has_mere_note(&rig.out, "gpu", "GPU 0: the driver reports impossible values for gpu.mem;"));
	assert_true(has_note(&rig.out, "gpu", "GPU 0: the driver reports impossible values for gpu.temp;"));
	assert_true(has_mere_note(&rig.out, "gpu", "GPU 1: the driver returns no value for gpu.temp"));
	assert_int_equal(rig.out.n_events, 3);
	check_value(&rig.out, M_GPU_MEM, 2, GIB);
	rig_at(&rig, 3);
	rig_read(&rig, MEMORY | ACTIVITY);
	check_value(&rig.out, M_GPU_MEM, 1, GIB);
	assert_int_equal(rig.out.n_events, 0);
	rig_done(&rig);
}

CHILD_TEST(what_cannot_be_is_left_out)
{
	(void) state;
	check_impossible_values("550");
}

CHILD_TEST(impossible_values_are_left_out_by_old_calls)
{
	(void) state;
	check_impossible_values("450");
}

/* No device draws megawatts or has clocks of petahertz; values far above existing hardware are accepted.
 * Energy is not integrated from impossible power. */
CHILD_TEST(impossible_power_and_clocks)
{
	static const enum metric refused[] = { M_GPU_POWER, M_GPU_POWER_LIMIT, M_GPU_CLOCK_SM,
		M_GPU_CLOCK_MEM, M_GPU_PSTATE };
	struct nvml_rig rig;

	(void) state;
	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 8Gi\n"
		"[gpu 0]\npower = 2147483647\npower_limit = 2147483647\nclock_sm = 2147483647\nclock_memory = 65535\npstate = 77\n"
		"[gpu 1]\npower = 9000000\npower_limit = 9000000\nclock_sm = 40000\nclock_memory = 40000\npstate = 15\n");
	rig_open(&rig);
	rig_at(&rig, 2);
	rig_read(&rig, ALL_GROUPS);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		check_absent(&rig.out, refused[i], 1);
	check_absent(&rig.out, M_GPU_ENERGY, 1);
	assert_true(has_mere_note(&rig.out, "gpu", "impossible values for gpu.power"));
	assert_true(has_mere_note(&rig.out, "gpu", "gpu.power_limit"));
	assert_true(has_mere_note(&rig.out, "gpu", "gpu.clock_sm"));
	check_value(&rig.out, M_GPU_POWER, 2, 9000000000);
	check_value(&rig.out, M_GPU_POWER_LIMIT, 2, 9000000000);
	check_value(&rig.out, M_GPU_CLOCK_SM, 2, 40000000000);
	check_value(&rig.out, M_GPU_PSTATE, 2, 15);
	rig_at(&rig, 5);
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_POWER, 2, 9000000000);
	rig_done(&rig);
}

/* A process cannot use more than there is: the process is still reported. */
CHILD_TEST(a_process_with_more_memory_than_the_device)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 80Gi\nmemory_used = steps 0:20Gi 2:25Gi\n"
		"[process 0]\npid = 4100002\nmemory = steps 0:200Gi 2:20Gi\n");
	rig_open(&rig);
	rig_read(&rig, PROCESSES);
	const struct birth *born = find_process(&rig.out, 1, 4100002);

	assert_non_null(born);
	const uint32_t id = born->id;

	check_absent(&rig.out, M_GPROC_MEM, id);
	assert_true(has_cause(&rig.out, "gpu.memory",
		"more memory for some of its processes than the GPU has; these values are left out", 1));
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig.out.n_events, 0);
	rig_at(&rig, 2);
	rig_read(&rig, PROCESSES);
	check_value(&rig.out, M_GPROC_MEM, id, 20 * GIB);
	rig_done(&rig);
}

CHILD_TEST(implausible_answers)
{
	(void) state;
	static const enum metric none[] = { M_GPU_BUSY, M_GPU_MEM_BUSY, M_GPU_TEMP, M_GPU_FAN, M_GPU_CLOCK_SM,
		M_GPU_THROTTLE_HW, M_GPU_MEM_RESERVED, M_GPU_SM_ACTIVE, M_GPU_SM_OCCUPANCY,
		M_GPU_TENSOR_ACTIVE, M_GPU_DRAM_ACTIVE };
	struct nvml_rig rig;

	rig_new(&rig, "550", "hostile.conf", 6);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	const struct birth *mine = find_process(&rig.out, 1, getpid());

	assert_non_null(mine);
	assert_true(mine->gpu_process.compute && mine->gpu_process.graphics);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 2); /* pid 0 is unused */
	assert_true(has_mere_note(&rig.out, "gpu", "error 77"));
	read_next_pair(&rig, 7);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		check_absent(&rig.out, none[i], 1);
	for (size_t i = 0; i < rig.out.n_readings; i++) {
		const struct reading *r = &rig.out.readings[i];

		if (metrics[r->metric].unit == UNIT_PPM && r->known && (r->value < 0 || r->max > 1000000))
			fail_msg("%s: %lld", metrics[r->metric].name, (long long) r->value);
	}
	check_value(&rig.out, M_GPU_GRAPHICS_ACTIVE, 1, 970000); /* the others are reported */
	rig_done(&rig);
}

/* More than all of the time, from the first read on: one note each; the other card has none. */
CHILD_TEST(rejected_values_are_noted_once)
{
	static const char *const notes[] = {
		"GPU 0: the driver reports impossible values for gpu.busy; they are left out",
		"GPU 0: the driver reports impossible values for gpu.mem_busy; they are left out",
		"GPU 0: the driver reports impossible values for gpu.enc_busy; they are left out",
		"GPU 0: the driver reports impossible values for gpu.fan; they are left out",
		"GPU 0: the driver reports impossible values for a process's sm_busy; such samples of processes are left out",
	};
	struct nvml_rig rig;

	(void) state;
	rig_scenario(&rig, "580",
		"[driver]\nlevel = 580\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 8Gi\n"
		"[gpu 0]\nutil = 255\nutil_memory = 101\nutil_encoder = 300\nfan = 255\n[gpu 1]\nutil = unknown\nutil_memory = 100\nfan = 150\n"
		"[process 0]\npid = 4100001\nmemory = 1Gi\nsm = 140\n[process 1]\npid = 4100002\nmemory = 1Gi\nsm = 40\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		if (count_notes(&rig.out, notes[i]) != 1)
			fail_msg("%zu times: %s", count_notes(&rig.out, notes[i]), notes[i]);
	}
	assert_int_equal(count_notes(&rig.out, "impossible values"), sizeof(notes) / sizeof(notes[0]));
	check_value(&rig.out, M_GPU_MEM_BUSY, 2, 1000000);
	rig_at(&rig, 6);
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(count_notes(&rig.out, "impossible values"), 0);
	rig_done(&rig);
}

/* The same for GPM, with one note per read. NaN means "no value", and is noted if there was a value
 * before. */
CHILD_TEST(impossible_gpm_values_are_noted_once)
{
	struct nvml_rig rig;
	char text[512];

	(void) state;
	snprintf(text, sizeof(text),
		"include = %s/fake/scenarios/gpm.conf\n[gpu 0]\ngpm 1 = nan\ngpm 2 = steps 0:30 3:nan\ngpm 3 = -12\ngpm 5 = 250\ngpm 20 = -1\n",
		TESTS_DIR);
	rig_scenario(&rig, "550", text);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	read_next_pair(&rig, 2);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 1, 300000);
	assert_true(has_mere_note(&rig.out, "gpu",
		"GPU 0: GPM reports impossible values for gpu.sm_occupancy, gpu.tensor_active, gpu.pcie_tx; they are left out"));
	assert_int_equal(count_notes(&rig.out, "impossible values"), 1);
	read_next_pair(&rig, 4);
	assert_true(has_mere_note(&rig.out, "gpu",
		"GPU 0: GPM reports impossible values for gpu.sm_active; they are left out"));
	assert_int_equal(count_notes(&rig.out, "impossible values"), 1);
	read_next_pair(&rig, 5);
	assert_int_equal(count_notes(&rig.out, "impossible values"), 0);
	check_absent(&rig.out, M_GPU_SM_ACTIVE, 1);
	rig_done(&rig);
}

/* The reason why GPM or the samples of processes are refused is noted once. */
CHILD_TEST(a_refusal_of_gpm_is_noted)
{
	struct nvml_rig rig;
	char text[512];

	(void) state;
	snprintf(text, sizeof(text),
		"include = %s/fake/scenarios/gpm.conf\n[call nvmlGpmSampleGet]\nerror = 4\ngpu = 0\n",
		TESTS_DIR);
	rig_scenario(&rig, "550", text);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	assert_true(has_mere_note(&rig.out, "gpu.sm_active",
		"GPU 0: not available from GPM: no permission (NVML code 4); run as root; with MIG, access"));
	read_next_pair(&rig, 2);
	assert_int_equal(count_notes(&rig.out, "not available from GPM"), 0);
	rig_done(&rig);
}

CHILD_TEST(failing_samples_of_processes_are_noted)
{
	struct nvml_rig rig;

	(void) state;
	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 8Gi\n"
		"[process 0]\npid = 4100001\nmemory = 1Mi\nsm = 40\n[call nvmlDeviceGetProcess*Utilization*]\nerror = 7\ngpu = 0\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	assert_true(has_mere_note(&rig.out, "gpu",
		"GPU 0: the driver does not report which processes used the SMs and other engines: the list is too long (NVML code 7)"));
	rig_at(&rig, 2);
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(count_notes(&rig.out, "used the SMs"), 0);
	rig_done(&rig);
}

/* All ones after a value are not impossible: the driver no longer has a value. */
CHILD_TEST(all_ones_after_a_value)
{
	static const char *const ended[] = { "mem", "busy", "temp", "clock_sm", "pstate", "fan" };
	struct nvml_rig rig;

	(void) state;
	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 8Gi\n"
		"memory_used = steps 0:1Gi 3:unknown\nutil = steps 0:50 3:unknown\nutil_memory = 10\ntemperature = steps 0:50 3:unknown\n"
		"clock_sm = steps 0:1000 3:unknown\npstate = steps 0:2 3:32\nfan = steps 0:30 3:unknown\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) PROCESSES);
	rig_at(&rig, 4);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) PROCESSES);
	for (size_t i = 0; i < sizeof(ended) / sizeof(ended[0]); i++) {
		char text[160];

		snprintf(text, sizeof(text),
			"GPU 0: gpu.%s became unavailable: the driver reports that it is no longer available",
			ended[i]);
		if (count_notes(&rig.out, text) != 1)
			fail_msg("%zu times: %s", count_notes(&rig.out, text), text);
	}
	assert_int_equal(count_notes(&rig.out, "impossible values"), 0);
	rig_at(&rig, 5);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) PROCESSES);
	assert_int_equal(rig.out.n_events, 0);
	rig_done(&rig);
}

/* Values that become unavailable are noted once, since the run's means cover only a part of it. */
CHILD_TEST(figures_that_become_unavailable)
{
	(void) state;
	struct nvml_rig rig;
	char text[1024];

	snprintf(text, sizeof(text),
		"include = %s/fake/scenarios/gpm.conf\n[gpu 0-1]\npower = 100000\nutil = 50\ngpm 2 = 30\n"
		"[gpu 0]\nutil = steps 0:50 3:250\n[gpu 1]\ngpm 2 = steps 0:30 3:nan\n"
		"[call nvmlDeviceGetTemperature*]\nfrom = 3\ngpu = 1\nerror = 3\n"
		"[call nvmlGpmSampleGet]\nfrom = 3\ngpu = 0\nerror = 999\n",
		TESTS_DIR);
	rig_scenario(&rig, "550", text);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	read_next_pair(&rig, 2);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 1, 300000);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 2, 300000);
	assert_int_equal(rig.out.n_events, 0);
	read_next_pair(&rig, 4);
	assert_true(has_note(&rig.out, "gpu", "GPU 0: the driver reports impossible values for gpu.busy;"));
	assert_true(has_mere_note(&rig.out, "gpu",
		"GPU 1: gpu.temp became unavailable: this device does not support it (NVML code 3)"));
	assert_true(has_mere_note(&rig.out, "gpu.sm_active",
		"GPU 0: no longer available from GPM: the driver reports an unspecified error"));
	assert_true(has_mere_note(&rig.out, "gpu",
		"GPU 1: GPM reports impossible values for gpu.sm_active; they are left out"));
	read_next_pair(&rig, 5);
	assert_int_equal(rig.out.n_events, 0);
	rig_done(&rig);
}

CHILD_TEST(a_bare_device_has_nothing)
{
	(void) state;
	struct nvml_rig rig;
	struct probes probes = { 0 };

	rig_scenario(&rig, "450",
		"[driver]\nlevel = 450\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	for (size_t i = 0; i < rig.out.n_readings; i++) {
		const struct reading *r = &rig.out.readings[i];

		if (r->known && r->metric != M_GPU_PROCESSES && r->metric != M_GPU_MEM)
			fail_msg("%s: %lld", metrics[r->metric].name, (long long) r->value);
	}
	source_nvml.probe(&rig.env, probes_take, &probes);
	for (int m = 0; m < METRIC_COUNT; m++) {
		if (probes.told[m] && probes.of[m].available && m != M_GPU_PROCESSES && m != M_GPROC_MEM &&
			m != M_GPU_MEM)
			fail_msg("%s is reported as available", metrics[m].name);
	}
	assert_true(probes.told[M_GPU_TEMP] && !probes.of[M_GPU_TEMP].available);
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_with_more_memory_than_the_device),
		cmocka_unit_test(implausible_answers),
		cmocka_unit_test(all_ones_and_nonsense_are_absent),
		cmocka_unit_test(rejected_values_are_noted_once),
		cmocka_unit_test(impossible_gpm_values_are_noted_once),
		cmocka_unit_test(a_refusal_of_gpm_is_noted),
		cmocka_unit_test(failing_samples_of_processes_are_noted),
		cmocka_unit_test(what_cannot_be_is_left_out),
		cmocka_unit_test(impossible_values_are_left_out_by_old_calls),
		cmocka_unit_test(impossible_power_and_clocks),
		cmocka_unit_test(all_ones_after_a_value),
		cmocka_unit_test(figures_that_become_unavailable),
		cmocka_unit_test(a_bare_device_has_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
