/* SPDX-License-Identifier: MIT */
#include "gpu_rig.h"

/* A removed device, by the folder of its files: they stay open, and reading them gives ENODEV. */
static const char *taken_away;

ssize_t __real_pread64(int fd, void *buf, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *buf, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *buf, size_t size, off_t offset);

ssize_t __wrap_pread64(int fd, void *buf, size_t size, off_t offset)
{
	char link[64], path[512];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = taken_away ? readlink(link, path, sizeof(path) - 1) : 0;

	path[len > 0 ? len : 0] = '\0';
	if (taken_away && strstr(path, taken_away) && !strstr(path, "/power/")) {
		errno = ENODEV;
		return -1;
	}
	return __real_pread64(fd, buf, size, offset);
}

/* Which of the two is called depends on the size of off_t. */
ssize_t __wrap_pread(int fd, void *buf, size_t size, off_t offset)
{
	return __wrap_pread64(fd, buf, size, offset);
}

#define GIB (INT64_C(1) << 30)
#define MIB (INT64_C(1) << 20)

static void all_values_of_a_card(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_amdgpu, tree_open("amd-vega"));
	gpu_rig_read(&rig);
	const struct gpu_birth *gpu = &gpu_birth_of(&rig.out, ENTITY_GPU, 1)->gpu;

	assert_string_equal(gpu->uuid, "amd-11d3f8f0a2b4c6d8");
	assert_string_equal(gpu->name, "AMD GPU 1002:66af");
	assert_string_equal(gpu->vendor, "amd");
	assert_string_equal(gpu->pci, "0000:0a:00.0");
	assert_int_equal(gpu->memory_bytes.value, INT64_C(17163091968));
	assert_false(gpu->unified);
	check_value(&rig.out, M_GPU_MEM, 1, 3 * GIB);
	check_value(&rig.out, M_GPU_MEM_FREE, 1, INT64_C(17163091968) - 3 * GIB);
	check_silent(&rig.out, M_GPU_MEM_HOST, 1);
	check_value(&rig.out, M_GPU_BUSY, 1, 640000);
	check_value(&rig.out, M_GPU_MEM_BUSY, 1, 210000);
	check_value(&rig.out, M_GPU_POWER, 1, 187000000);
	check_value(&rig.out, M_GPU_POWER_LIMIT, 1, 250000000);
	check_value(&rig.out, M_GPU_TEMP, 1, 58000);
	check_value(&rig.out, M_GPU_TEMP_MEM, 1, 61000);
	check_value(&rig.out, M_GPU_CLOCK_SM, 1, 1800000000); /* from the firmware's table; hwmon
	                                                       * lacks it here */
	check_value(&rig.out, M_GPU_CLOCK_MEM, 1, 900000000);
	check_value(&rig.out, M_GPU_FAN, 1, 400000);
	check_value(&rig.out, M_GPU_ECC_CORRECTED, 1, 12);
	check_value(&rig.out, M_GPU_ECC_UNCORRECTED, 1, 1);
	check_lacks(&rig.out, M_GPU_ENERGY, 1); /* table 1.1: its unit differs by chip */
	check_lacks(&rig.out, M_GPU_THROTTLE_POWER, 1);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	uint32_t id = gpu_process(&rig.out, 1, 400);

	check_value(&rig.out, M_GPROC_MEM, id, GIB);
	check_silent(&rig.out, M_GPROC_MEM_HOST, id);
	check_lacks(&rig.out, M_GPROC_SM_BUSY, id); /* shares need two reads */
	gpu_rig_read(&rig);
	assert_int_equal(rig.out.n_births, 0);
	assert_int_equal(rig.out.n_ends, 0);
	check_silent(&rig.out, M_GPU_ENERGY, 1); /* reported once */
	check_value(&rig.out, M_GPROC_SM_BUSY, id, 0);
	gpu_rig_done(&rig);
}

static bool is_noted(const struct framebuf *out, const char *words)
{
	for (size_t i = 0; i < out->n_events; i++) {
		if (strstr(out->events[i].text, words))
			return true;
	}
	return false;
}

/* More memory in use than exists, and a temperature below 0: left out, with a note, once. */
static void impossible_values_are_left_out(void **state)
{
	(void) state;
	static const char uevent[] = "DRIVER=amdgpu\nPCI_ID=1002:74A1\nPCI_SLOT_NAME=0000:03:00.0\n";
	struct temp_tree t;
	struct gpu_rig rig;

	temp_tree_new(&t);
	temp_tree_put(&t, "sys/class/drm/card0/device/uevent", uevent);
	temp_tree_put(&t, "sys/class/drm/renderD128/device/uevent", uevent);
	temp_tree_put(&t, "sys/class/drm/card0/device/mem_info_vram_used", "8192\n");
	temp_tree_put(&t, "sys/class/drm/card0/device/mem_info_vram_total", "4096\n");
	temp_tree_put(&t, "sys/class/drm/card0/device/hwmon/hwmon0/temp1_input", "-4000\n");
	gpu_rig_new(&rig, &source_amdgpu, temp_tree_root(&t));
	gpu_rig_read(&rig);
	check_lacks(&rig.out, M_GPU_MEM, 1);
	check_lacks(&rig.out, M_GPU_TEMP, 1);
	assert_true(is_noted(
		&rig.out, "AMD GPU 1002:74a1 (0000:03:00.0) reports an impossible value of gpu.mem"));
	assert_true(is_noted(
		&rig.out, "AMD GPU 1002:74a1 (0000:03:00.0) reports an impossible value of gpu.temp"));
	gpu_rig_read(&rig);
	assert_false(is_noted(&rig.out, "cannot be so"));
	gpu_rig_done(&rig);
	temp_tree_done(&t);
}

/* All ones, in the width of the driver's counter, mean unknown: not an impossible value. */
static void all_ones_are_unknown(void **state)
{
	(void) state;
	static const char uevent[] = "DRIVER=amdgpu\nPCI_ID=1002:74A1\nPCI_SLOT_NAME=0000:03:00.0\n";
	struct temp_tree t;
	struct gpu_rig rig;

	temp_tree_new(&t);
	temp_tree_put(&t, "sys/class/drm/card0/device/uevent", uevent);
	temp_tree_put(&t, "sys/class/drm/renderD128/device/uevent", uevent);
	temp_tree_put(&t, "sys/class/drm/card0/device/gpu_busy_percent", "4294967295\n");
	temp_tree_put(&t, "sys/class/drm/card0/device/mem_busy_percent", "65535\n");
	temp_tree_put(&t, "sys/class/drm/card0/device/hwmon/hwmon0/power1_average", "18446744073709551615\n");
	temp_tree_put(&t, "sys/class/drm/card0/device/hwmon/hwmon0/temp1_input", "-4000\n");
	gpu_rig_new(&rig, &source_amdgpu, temp_tree_root(&t));
	gpu_rig_read(&rig);
	check_lacks(&rig.out, M_GPU_BUSY, 1);
	check_lacks(&rig.out, M_GPU_POWER, 1);
	assert_true(is_noted(&rig.out, "an impossible value of gpu.temp"));
	assert_false(is_noted(&rig.out, "gpu.busy"));
	assert_false(is_noted(&rig.out, "gpu.mem_busy"));
	assert_false(is_noted(&rig.out, "gpu.power"));
	gpu_rig_done(&rig);
	temp_tree_done(&t);
}

/* Client 10 is open twice in 500, inherited by 501 and by 499, which has the smaller pid but
 * started later. */
static void a_client_counts_once_for_the_process_that_started_first(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_amdgpu, tree_open("amd-rdna"));
	gpu_rig_read(&rig);
	assert_string_equal(gpu_birth_of(&rig.out, ENTITY_GPU, 1)->gpu.uuid,
		"pci-0000:03:00.0"); /* unique_id 0 means none
	                                                                                           */
	check_value(&rig.out, M_GPU_PROCESSES, 1, 2);
	assert_int_equal(gpu_births(&rig.out, ENTITY_GPU_PROCESS), 2);
	uint32_t game = gpu_process(&rig.out, 1, 500), other = gpu_process(&rig.out, 1, 502);

	check_value(&rig.out, M_GPROC_MEM, game, 2 * GIB + 1000);
	check_value(&rig.out, M_GPROC_MEM, other, 3 * MIB);
	assert_true(gpu_birth_of(&rig.out, ENTITY_GPU_PROCESS, game)->gpu_process.compute);
	assert_true(gpu_birth_of(&rig.out, ENTITY_GPU_PROCESS, game)->gpu_process.graphics);
	assert_false(gpu_birth_of(&rig.out, ENTITY_GPU_PROCESS, other)->gpu_process.compute);
	check_value(&rig.out, M_GPU_CLOCK_SM, 1, INT64_C(2435000000));
	check_value(&rig.out, M_GPU_FAN, 1, 1000000);
	/* status: power limit and hotspot, since the driver was loaded; time counts from here on */
	check_value(&rig.out, M_GPU_THROTTLE_POWER, 1, 0);
	gpu_rig_read(&rig);
	assert_true(find_reading(&rig.out, M_GPU_THROTTLE_POWER, 1)->value > 0);
	assert_int_equal(find_reading(&rig.out, M_GPU_THROTTLE_POWER, 1)->value,
		find_reading(&rig.out, M_GPU_THROTTLE_THERMAL, 1)->value);
	check_value(&rig.out, M_GPU_THROTTLE_HW, 1, 0);
	check_value(&rig.out, M_GPU_THROTTLE_OTHER, 1, 0);
	gpu_rig_done(&rig);
}

static void fdinfo_before_5_19(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_amdgpu, tree_open("amdgpu-old"));
	gpu_rig_read(&rig);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	check_value(&rig.out, M_GPROC_MEM, gpu_process(&rig.out, 1, 610), 256 * MIB);
	check_value(&rig.out, M_GPU_MEM, 1, 512 * MIB);
	gpu_rig_done(&rig);
}

static void an_apu_works_in_the_hosts_memory(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_amdgpu, tree_open("amd-apu"));
	gpu_rig_read(&rig);
	assert_int_equal(gpu_birth_of(&rig.out, ENTITY_GPU, 1)->gpu.memory_bytes.value, 256 * MIB + 8 * GIB);
	check_value(&rig.out, M_GPU_MEM, 1, 192 * MIB + 6 * GIB);
	check_value(&rig.out, M_GPU_MEM_HOST, 1, 6 * GIB);
	check_value(&rig.out, M_GPU_POWER, 1, 18042000);
	check_lacks(&rig.out, M_GPU_MEM_BUSY, 1);
	check_lacks(&rig.out, M_GPU_POWER_LIMIT, 1);
	uint32_t id = gpu_process(&rig.out, 1, 700);

	check_value(&rig.out, M_GPROC_MEM, id, 5 * MIB + 6 * GIB + MIB); /* not the 64 KiB of gds */
	check_value(&rig.out, M_GPROC_MEM_HOST, id, 6 * GIB + MIB);
	gpu_rig_done(&rig);
}

/* 800 has 40 GiB by KFD and the same by fdinfo, and 512 MiB on the other card by KFD alone; 801 is
 * another user's; 802 has only opened the device; 803 has partly gone and 999 has ended. */
static void rocm_by_kfd(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_amdgpu, tree_open("amd-mi"));
	gpu_rig_read(&rig);
	assert_string_equal(gpu_birth_of(&rig.out, ENTITY_GPU, 2)->gpu.uuid, "amd-0918273645546372");
	assert_string_equal(gpu_birth_of(&rig.out, ENTITY_GPU, 1)->gpu.name, "AMD Instinct MI300X OAM");
	assert_int_equal(gpu_births(&rig.out, ENTITY_GPU_PROCESS), 3);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 2);
	check_value(&rig.out, M_GPU_PROCESSES, 2, 1);
	check_value(&rig.out, M_GPROC_MEM, gpu_process(&rig.out, 1, 800), 40 * GIB);
	check_value(&rig.out, M_GPROC_MEM, gpu_process(&rig.out, 2, 800), 512 * MIB);
	check_value(&rig.out, M_GPROC_MEM, gpu_process(&rig.out, 1, 801), 7 * GIB);
	assert_true(gpu_birth_of(&rig.out, ENTITY_GPU_PROCESS, gpu_process(&rig.out, 1, 801))
			->gpu_process.compute);
	check_value(&rig.out, M_GPU_TEMP, 1, 71000); /* it has no edge sensor */
	check_value(&rig.out, M_GPU_ENERGY, 1, 1024000000);
	check_value(&rig.out, M_GPU_THROTTLE_POWER, 1, 0);
	check_lacks(&rig.out, M_GPU_THROTTLE_OTHER, 1); /* 1.6 counts three reasons */
	check_lacks(&rig.out, M_GPU_THROTTLE_POWER, 2); /* 1.5 has no status that means the same everywhere */
	gpu_rig_done(&rig);
}

static void take_how(void *ctx, const struct source_probe *probe)
{
	if (probe->metric == M_GPROC_MEM)
		snprintf(ctx, 256, "%s", probe->how);
}

/* The method that doctor shows for the memory of processes. */
static void check_how(struct root root, const char *wanted)
{
	const struct source_env env = { .root = &root };
	char how[256] = "";

	source_amdgpu.probe(&env, take_how, how);
	if (strncmp(how, wanted, strlen(wanted)) != 0)
		fail_msg("%s", how);
	root_done(&root);
}

/* In a pid namespace KFD's pids mean other processes: a note says so. */
static void pids_of_another_namespace_are_refused(void **state)
{
	(void) state;
	struct temp_tree t;
	struct gpu_rig rig;

	temp_tree_new(&t);
	temp_tree_put(&t, "sys/class/drm/card0/device/uevent",
		"DRIVER=amdgpu\nPCI_ID=1002:74A1\nPCI_SLOT_NAME=0000:03:00.0\n");
	temp_tree_put(&t, "sys/class/drm/renderD128/device/uevent",
		"DRIVER=amdgpu\nPCI_ID=1002:74A1\nPCI_SLOT_NAME=0000:03:00.0\n");
	temp_tree_put(&t, "sys/class/drm/card0/device/mem_info_vram_used", "4096\n");
	temp_tree_put(&t, "sys/class/kfd/kfd/topology/nodes/1/gpu_id", "77\n");
	temp_tree_put(&t, "sys/class/kfd/kfd/topology/nodes/1/properties", "location_id 768\ndomain 0\n");
	temp_tree_put(&t, "sys/class/kfd/kfd/proc/30/vram_77", "4096\n");
	temp_tree_put(&t, "proc/30/stat",
		"30 (x) S 1 30 30 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 55 1000 10 18446744073709551615 1 1 1 0 0 0\n");
	char path[256];

	for (int first = 0; first < 2; first++) {
		snprintf(path, sizeof(path), "%s/proc/self/ns", t.path);
		if (!first)
			temp_tree_put(&t, "proc/self/ns/x", "");
		snprintf(path, sizeof(path), "%s/proc/self/ns/pid", t.path);
		(void) unlink(path);
		assert_int_equal(symlink(first ? "pid:[4026531836]" : "pid:[4026532999]", path), 0);
		gpu_rig_new(&rig, &source_amdgpu, temp_tree_root(&t));
		gpu_rig_read(&rig);
		check_value(&rig.out, M_GPU_PROCESSES, 1, first);
		assert_int_equal(rig.out.n_events, !first);
		if (!first)
			assert_non_null(strstr(rig.out.events[0].text,
				"may have ROCm processes that cannot be identified here: KFD reports pids of the host"));
		gpu_rig_read(&rig);
		assert_int_equal(rig.out.n_events, 0);
		gpu_rig_done(&rig);
		check_how(temp_tree_root(&t),
			first ? "the larger of KFD vram and DRM fdinfo"
			      : "DRM fdinfo alone, which may be less than is used: KFD");
	}
	temp_tree_done(&t);
}

static void a_sleeping_gpu_is_left_alone(void **state)
{
	(void) state;
	struct gpu_rig rig;
	struct probes probes = { 0 };

	gpu_rig_new(&rig, &source_amdgpu, tree_open("amd-asleep"));
	gpu_rig_read(&rig);
	assert_int_equal(gpu_births(&rig.out, ENTITY_GPU), 1);
	check_lacks(&rig.out, M_GPU_BUSY, 1);
	check_lacks(&rig.out, M_GPU_POWER, 1);
	assert_null(find_reading(&rig.out, M_GPU_MEM, 1));
	gpu_rig_read(&rig);
	check_silent(&rig.out, M_GPU_BUSY, 1);
	source_amdgpu.probe(&rig.env, probes_take, &probes);
	assert_false(probes.of[M_GPU_BUSY].available);
	assert_non_null(strstr(probes.of[M_GPU_BUSY].why_not, "sleeps"));
	gpu_rig_done(&rig);
}

/* One card falls off the bus: reported once, and the other is not affected. */
static void a_removed_card(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_amdgpu, tree_open("amd-mi"));
	gpu_rig_read(&rig);
	check_value(&rig.out, M_GPU_POWER, 1, 612000000);
	taken_away = "/card1/";
	gpu_rig_read(&rig);
	check_lacks(&rig.out, M_GPU_MEM, 1);
	check_lacks(&rig.out, M_GPU_POWER, 1);
	check_lacks(&rig.out, M_GPU_ENERGY, 1);
	check_value(&rig.out, M_GPU_POWER, 2, 141000000);
	assert_int_equal(rig.out.n_events, 1);
	assert_int_equal(rig.out.events[0].kind, EVENT_NOTE);
	assert_int_equal(rig.out.events[0].id, 1);
	assert_string_equal(rig.out.events[0].text, "gpu: AMD Instinct MI300X OAM (0000:c1:00.0) is gone");
	assert_int_equal(rig.out.events[0].cause, CAUSE_DEVICE);
	gpu_rig_read(&rig);
	check_silent(&rig.out, M_GPU_POWER, 1);
	check_value(&rig.out, M_GPU_POWER, 2, 141000000);
	assert_int_equal(rig.out.n_events, 0);
	taken_away = NULL;
	gpu_rig_done(&rig);
}

static void processes_come_and_go(void **state)
{
	(void) state;
	struct temp_tree t;
	struct gpu_rig rig;
	static const char uevent[] = "DRIVER=amdgpu\nPCI_ID=1002:73BF\nPCI_SLOT_NAME=0000:03:00.0\n";
	static const char stat[] =
		"30 (x) S 1 30 30 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 55 1000 10 18446744073709551615 1 1 1 0 0 0\n";
	static const char info[] =
		"drm-driver:\tamdgpu\ndrm-client-id:\t5\ndrm-pdev:\t0000:03:00.0\ndrm-resident-vram:\t%s\n";
	char text[256], path[256];

	temp_tree_new(&t);
	temp_tree_put(&t, "sys/class/drm/card0/device/uevent", uevent);
	temp_tree_put(&t, "sys/class/drm/renderD128/device/uevent", uevent);
	temp_tree_put(&t, "proc/30/stat", stat);
	temp_tree_put(&t, "proc/30/fd/x", "");
	snprintf(text, sizeof(text), info, "1 MiB");
	temp_tree_put(&t, "proc/30/fdinfo/4", text);
	snprintf(path, sizeof(path), "%s/proc/30/fd/4", t.path);
	gpu_rig_new(&rig, &source_amdgpu, temp_tree_root(&t));
	gpu_rig_read(&rig);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 0);
	assert_int_equal(symlink("/dev/dri/renderD128", path), 0);
	gpu_rig_read(&rig);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	uint32_t id = gpu_process(&rig.out, 1, 30);

	check_value(&rig.out, M_GPROC_MEM, id, MIB);
	snprintf(text, sizeof(text), info, "4097");
	temp_tree_put(&t, "proc/30/fdinfo/4", text);
	gpu_rig_read(&rig);
	check_value(&rig.out, M_GPROC_MEM, id, 4097);
	/* another program with the same pid: another process */
	temp_tree_put(&t, "proc/30/stat",
		"30 (x) S 1 30 30 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 77 1000 10 18446744073709551615 1 1 1 0 0 0\n");
	gpu_rig_read(&rig);
	gpu_rig_read(&rig);
	gpu_rig_read(&rig);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/proc/30/fdinfo/4", t.path);
	assert_int_equal(unlink(path), 0);
	gpu_rig_read(&rig);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 0);
	assert_int_equal(rig.out.n_ends, 1);
	assert_int_equal(rig.out.ends[0].entity, ENTITY_GPU_PROCESS);
	assert_int_equal(rig.out.ends[0].id, id + 1); /* ids are never reused */
	gpu_rig_done(&rig);
	temp_tree_done(&t);
}

static void hostile_files_give_no_value(void **state)
{
	(void) state;
	struct gpu_rig rig;

	gpu_rig_new(&rig, &source_amdgpu, tree_open("hostile-gpu"));
	for (int n = 0; n < 3; n++) {
		gpu_rig_read(&rig);
		for (size_t i = 0; i < rig.out.n_readings; i++) {
			const struct reading *r = &rig.out.readings[i];

			/* only 1 kB of 4 is true of the third card, and no process is on any */
			if (r->known && r->metric != M_GPU_PROCESSES)
				fail_msg("%s of %u is known", metrics[r->metric].name, (unsigned) r->id);
		}
	}
	gpu_rig_done(&rig);
}

static void probes_say_how_or_why_not(void **state)
{
	(void) state;
	static const char *const trees[] = { "amd-vega", "amd-rdna", "amd-apu", "amd-mi", "hostile-gpu",
		"wsl" };

	for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		struct root root = tree_open(trees[i]);
		struct source_env env = { .root = &root };
		struct probes probes = { 0 };

		source_amdgpu.probe(&env, probes_take, &probes);
		assert_true(probes.told[M_GPU_MEM] && probes.told[M_GPROC_MEM]);
		assert_true(probes.of[M_GPU_MEM].available == (i < 4));
		assert_false(probes.of[M_GPU_PCIE_RX].available);
		root_done(&root);
	}
	struct root root = tree_open("amd-apu");
	struct source_env env = { .root = &root };
	struct probes probes = { 0 };

	source_amdgpu.probe(&env, probes_take, &probes);
	assert_string_equal(probes.of[M_GPU_POWER].how, "hwmon power1_input");
	root_done(&root);
}

static void without_one_there_is_a_reason(void **state)
{
	(void) state;
	struct root root = tree_open("i915");
	struct source_env env = { .root = &root };
	struct source *s = NULL;
	struct err err = { "" };

	assert_int_equal(source_amdgpu.open(&env, &s, &err), -ENOENT);
	assert_non_null(strstr(err.text, "no AMD GPU"));
	root_done(&root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_values_of_a_card),
		cmocka_unit_test(impossible_values_are_left_out),
		cmocka_unit_test(all_ones_are_unknown),
		cmocka_unit_test(a_client_counts_once_for_the_process_that_started_first),
		cmocka_unit_test(fdinfo_before_5_19),
		cmocka_unit_test(an_apu_works_in_the_hosts_memory),
		cmocka_unit_test(rocm_by_kfd),
		cmocka_unit_test(pids_of_another_namespace_are_refused),
		cmocka_unit_test(a_sleeping_gpu_is_left_alone),
		cmocka_unit_test(a_removed_card),
		cmocka_unit_test(processes_come_and_go),
		cmocka_unit_test(hostile_files_give_no_value),
		cmocka_unit_test(probes_say_how_or_why_not),
		cmocka_unit_test(without_one_there_is_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
