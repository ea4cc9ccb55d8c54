/* SPDX-License-Identifier: MIT */
#include "gpu_rig.h"

#define GIB (INT64_C(1) << 30)
#define MIB (INT64_C(1) << 20)
#define KIB INT64_C(1024)

static void an_integrated_gpu_of_intel(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_drm, tree_open("i915"));
	gpu_rig_read(&rig);
	const struct gpu_birth *gpu = &gpu_birth_of(&rig.out, ENTITY_GPU, 1)->gpu;

	assert_string_equal(gpu->uuid, "pci-0000:00:02.0");
	assert_string_equal(gpu->name, "Intel GPU 8086:a7a0");
	assert_string_equal(gpu->vendor, "intel");
	assert_true(gpu->unified);
	assert_int_equal(gpu->memory_bytes.value, 16 * GIB);
	check_value(&rig.out, M_GPU_MEM, 1, (80 + 20 + 10) * MIB);
	check_value(&rig.out, M_GPU_CLOCK_SM, 1, 650000000);
	check_value(&rig.out, M_GPU_ENERGY, 1, 123456789);
	check_lacks(&rig.out, M_GPU_TEMP, 1);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 2);
	check_value(&rig.out, M_GPROC_MEM, gpu_process(&rig.out, 1, 300), 100 * MIB);
	check_value(&rig.out, M_GPROC_MEM, gpu_process(&rig.out, 1, 301), 10 * MIB);
	uint32_t shell = gpu_process(&rig.out, 1, 300);

	gpu_rig_read(&rig);
	check_value(&rig.out, M_GPU_BUSY, 1, 0); /* all processes were read, and none worked */
	check_value(&rig.out, M_GPU_POWER, 1, 0);
	check_value(&rig.out, M_GPROC_SM_BUSY, shell, 0);
	gpu_rig_done(&rig);
}

static void a_card_of_intel(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_drm, tree_open("xe"));
	gpu_rig_read(&rig);
	assert_false(gpu_birth_of(&rig.out, ENTITY_GPU, 1)->gpu.unified);
	check_value(&rig.out, M_GPU_CLOCK_SM, 1, INT64_C(2400000000));
	check_value(&rig.out, M_GPU_ENERGY, 1, 900000000);
	check_value(&rig.out, M_GPU_TEMP, 1, 47000);
	check_value(&rig.out, M_GPU_TEMP_MEM, 1, 52000);
	check_value(&rig.out, M_GPU_POWER_LIMIT, 1, 190000000);
	check_lacks(&rig.out, M_GPU_MEM, 1); /* a captured machine has no device to query */
	check_lacks(&rig.out, M_GPU_FAN, 1); /* rpm are not a share */
	check_value(&rig.out, M_GPROC_MEM, gpu_process(&rig.out, 1, 900), 23992 * KIB);
	gpu_rig_done(&rig);
}

static void any_driver_by_its_keys(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_drm, tree_open("panfrost"));
	gpu_rig_read(&rig);
	const struct gpu_birth *gpu = &gpu_birth_of(&rig.out, ENTITY_GPU, 1)->gpu;

	assert_string_equal(gpu->uuid, "platform-gpu@ff9a0000");
	assert_string_equal(gpu->name, "rockchip,rk3399-mali");
	assert_string_equal(gpu->vendor, "");
	assert_true(gpu->unified);
	check_value(&rig.out, M_GPU_MEM, 1, 36496 * KIB);
	uint32_t id = gpu_process(&rig.out, 1, 200);

	check_value(&rig.out, M_GPROC_MEM, id, 36496 * KIB);
	gpu_rig_read(&rig);
	check_value(&rig.out, M_GPROC_SM_BUSY, id, 0);
	gpu_rig_done(&rig);
}

/* Only plausible values remain: client 3, of a process whose own start cannot be read. */
static void hostile_files_give_no_value(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_drm, tree_open("hostile-gpu"));
	gpu_rig_read(&rig);
	assert_int_equal(gpu_births(&rig.out, ENTITY_GPU), 1);
	check_value(&rig.out, M_GPU_CLOCK_SM, 1, 300000000);
	check_lacks(&rig.out, M_GPU_POWER, 1);
	for (int n = 0; n < 3; n++)
		gpu_rig_read(&rig);
	gpu_rig_done(&rig);
}

static void cards_of_others_are_left_to_them(void **state)
{
	(void) state;
	static const char *const drivers[] = { "amdgpu", "nvidia", "nouveau", "ast" };

	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
		struct temp_tree t;
		struct source *s = NULL;
		struct err err = { "" };
		char uevent[128];

		temp_tree_new(&t);
		snprintf(uevent, sizeof(uevent), "DRIVER=%s\nPCI_ID=10DE:1234\nPCI_SLOT_NAME=0000:01:00.0\n",
			drivers[i]);
		temp_tree_put(&t, "sys/class/drm/card0/device/uevent", uevent);
		if (strcmp(drivers[i], "ast") != 0) /* a display only */
			temp_tree_put(&t, "sys/class/drm/renderD128/device/uevent", uevent);
		struct root root = temp_tree_root(&t);
		struct source_env env = { .root = &root };
		int r = source_drm.open(&env, &s, &err);

		assert_int_equal(r, strcmp(drivers[i], "nouveau") == 0 ? 0 : -ENOENT);
		assert_true((r == 0) == (err.text[0] == '\0'));
		source_drm.close(s);
		root_done(&root);
		temp_tree_done(&t);
	}
}

static void an_npu_is_a_device_too(void **state)
{
	(void) state;
	struct temp_tree t;
	struct gpu_rig rig;

	temp_tree_new(&t);
	temp_tree_put(&t, "sys/class/accel/accel0/device/uevent",
		"DRIVER=amdxdna\nPCI_ID=1022:17F0\nPCI_SLOT_NAME=0000:c5:00.1\n");
	temp_tree_put(&t, "proc/meminfo", "MemTotal:       16777216 kB\n");
	gpu_rig_new(&rig, &source_drm, temp_tree_root(&t));
	gpu_rig_read(&rig);
	assert_string_equal(gpu_birth_of(&rig.out, ENTITY_GPU, 1)->gpu.name, "AMD NPU 1022:17f0");
	assert_true(gpu_birth_of(&rig.out, ENTITY_GPU, 1)->gpu.unified);
	check_value(&rig.out, M_GPU_MEM, 1, 0); /* no process uses any */
	gpu_rig_done(&rig);
	temp_tree_done(&t);
}

/* The visible clients are not all: neither the device's busy time nor its idleness is known. */
static void a_sum_over_some_is_not_the_device(void **state)
{
	(void) state;
	static const char uevent[] = "DRIVER=xe\nPCI_ID=8086:E20B\nPCI_SLOT_NAME=0000:03:00.0\n";
	struct temp_tree t;
	struct gpu_rig rig;
	uid_t uid = geteuid();
	char path[256];

	temp_tree_new(&t);
	temp_tree_put(&t, "sys/class/drm/card0/device/uevent", uevent);
	temp_tree_put(&t, "sys/class/drm/renderD128/device/uevent", uevent);
	temp_tree_put(&t, "proc/30/fd/x", "");
	assert_int_equal(chmod(t.path, 0755), 0);
	snprintf(path, sizeof(path), "%s/proc/30/fd", t.path);
	for (int may = 1; may >= 0; may--) {
		assert_int_equal(chmod(path, may ? 0755 : uid == 0 ? 0700
								   : 0),
			0);
		gpu_rig_new(&rig, &source_drm, temp_tree_root(&t));
		if (uid == 0)
			assert_int_equal(seteuid(65534), 0);
		gpu_rig_read(&rig);
		if (uid == 0)
			assert_int_equal(seteuid(0), 0);
		if (may)
			check_value(&rig.out, M_GPU_BUSY, 1, 0);
		else
			check_lacks(&rig.out, M_GPU_BUSY, 1);
		check_value(&rig.out, M_GPU_PROCESSES, 1, 0); /* as far as visible */
		gpu_rig_done(&rig);
	}
	assert_int_equal(chmod(path, 0755), 0);
	temp_tree_done(&t);
}

static size_t notes(const struct framebuf *out, const char *words)
{
	size_t n = 0;

	for (size_t i = 0; i < out->n_events; i++)
		n += strstr(out->events[i].text, words) != NULL;
	return n;
}

static enum note_cause only_cause(const struct framebuf *out)
{
	assert_int_equal(out->n_events, 1);
	return out->events[0].cause;
}

static void processes_that_cannot_be_listed_for_a_while(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_drm, tree_open("i915"));
	const int proc = rig.root.proc;

	for (int round = 0; round < 2; round++) {
		rig.root.proc = -1;
		gpu_rig_read(&rig);
		check_lacks(&rig.out, M_GPU_PROCESSES, 1);
		assert_int_equal(
			notes(&rig.out,
				"gpu.memory: Intel GPU 8086:a7a0 (0000:00:02.0) has processes that cannot be listed"),
			1);
		assert_int_equal(only_cause(&rig.out), CAUSE_DEVICE);
		gpu_rig_read(&rig);
		assert_int_equal(notes(&rig.out, "listed"), 0); /* reported once */
		rig.root.proc = proc;
		gpu_rig_read(&rig);
		check_value(&rig.out, M_GPU_PROCESSES, 1, 2);
		assert_int_equal(
			notes(&rig.out, "gpu: Intel GPU 8086:a7a0 (0000:00:02.0) lists its processes again"),
			1);
		assert_int_equal(only_cause(&rig.out), CAUSE_NONE);
		gpu_rig_read(&rig);
		assert_int_equal(notes(&rig.out, "listed"), 0);
	}
	gpu_rig_done(&rig);
}

static void power_is_the_rise_of_energy(void **state)
{
	(void) state;
	struct temp_tree t;
	struct gpu_rig rig;
	static const char uevent[] = "DRIVER=xe\nPCI_ID=8086:E20B\nPCI_SLOT_NAME=0000:03:00.0\n";
	static const char file[] = "sys/class/drm/card0/device/hwmon/hwmon0/energy1_input";

	temp_tree_new(&t);
	temp_tree_put(&t, "sys/class/drm/card0/device/uevent", uevent);
	temp_tree_put(&t, "sys/class/drm/renderD128/device/uevent", uevent);
	temp_tree_put(&t, "proc/x", "");
	temp_tree_put(&t, file, "1000\n");
	gpu_rig_new(&rig, &source_drm, temp_tree_root(&t));
	uint64_t before = clock_boot_ns();

	gpu_rig_read(&rig);
	uint64_t first = clock_boot_ns();

	check_silent(&rig.out, M_GPU_POWER, 1);
	temp_tree_put(&t, file, "1002\n"); /* 2 uJ: plausible in however short a time */
	uint64_t then = clock_boot_ns();

	gpu_rig_read(&rig);
	uint64_t after = clock_boot_ns();

	check_value(&rig.out, M_GPU_ENERGY, 1, 1002);
	const struct reading *power = find_reading(&rig.out, M_GPU_POWER, 1);

	assert_true(power && power->known);
	assert_true(power->value <= (int64_t) (2e9 / (double) (then - first + 1)) + 1);
	assert_true(power->value >= (int64_t) (2e9 / (double) (after - before)) - 1);
	temp_tree_put(&t, file, "nothing\n");
	gpu_rig_read(&rig);
	check_lacks(&rig.out, M_GPU_ENERGY, 1);
	check_lacks(&rig.out, M_GPU_POWER, 1);
	gpu_rig_done(&rig);
	temp_tree_done(&t);
}

static void probes_say_how_or_why_not(void **state)
{
	(void) state;
	static const char *const trees[] = { "i915", "panfrost", "xe", "hostile-gpu", "wsl", "amd-mi" };

	for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		struct root root = tree_open(trees[i]);
		struct source_env env = { .root = &root };
		struct probes probes = { 0 };

		source_drm.probe(&env, probes_take, &probes);
		assert_true(probes.told[M_GPU_MEM] && probes.told[M_GPROC_MEM]);
		assert_true(probes.of[M_GPU_MEM].available == (i < 2));
		assert_true(probes.of[M_GPROC_MEM].available == (i < 3) || i == 3);
		root_done(&root);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_integrated_gpu_of_intel),
		cmocka_unit_test(a_card_of_intel),
		cmocka_unit_test(any_driver_by_its_keys),
		cmocka_unit_test(hostile_files_give_no_value),
		cmocka_unit_test(cards_of_others_are_left_to_them),
		cmocka_unit_test(an_npu_is_a_device_too),
		cmocka_unit_test(a_sum_over_some_is_not_the_device),
		cmocka_unit_test(processes_that_cannot_be_listed_for_a_while),
		cmocka_unit_test(power_is_the_rise_of_energy),
		cmocka_unit_test(probes_say_how_or_why_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
