/* SPDX-License-Identifier: MIT
 *
 * The NVML source on GPUs that are lost, closed or asleep, those that return, and the other GPUs
 * meanwhile.
 */
#include "nvml_rig.h"
#include "source/nvidia/nvml/internal.h"

CHILD_TEST(a_lost_gpu_does_not_affect_the_other)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "lost.conf", 9);
	rig_open(&rig);
	rig.s->retry_first_ns = UINT64_MAX;
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_POWER, 2, 70000000);
	check_value(&rig.out, M_GPU_XID, 2, 0);
	rig_at(&rig, 12);
	rig_read(&rig, ALL_GROUPS);
	assert_true(has_cause(&rig.out, "gpu", "GPU 1: lost: the GPU has fallen off the bus", 2));
	assert_true(has_mere_note(&rig.out, "gpu.xid", "GPU 1: Xid 79"));
	check_value(&rig.out, M_GPU_XID, 2, 1);
	assert_false(find_reading(&rig.out, M_GPU_POWER, 2)->known);
	assert_false(find_reading(&rig.out, M_GPU_MEM, 2)->known);
	check_value(&rig.out, M_GPU_MEM, 1, 23 * GIB + 1544 * MIB);
	rig_log(&rig);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) EVENTS);
	for (size_t i = 0; i < rig.out.n_readings; i++)
		assert_int_not_equal(
			metrics[rig.out.readings[i].metric].entity == ENTITY_GPU ? rig.out.readings[i].id : 1,
			2);
	assert_int_equal(rig.out.n_events, 0);
	assert_int_equal(rig_calls(&rig, "nvml", "1"), 0); /* retried only now and then */
	assert_true(find_reading(&rig.out, M_GPU_MEM, 1)->known);
	rig_done(&rig);
}

/* Number of published frames with the power of one GPU, and of both. */
struct shown {
	unsigned one, both;
};

static void take_shown(void *ctx, const struct framebuf *known)
{
	struct shown *shown = ctx;
	const bool first = find_reading(known, M_GPU_POWER, 1), second = find_reading(known, M_GPU_POWER, 2);

	shown->one += first && !second;
	shown->both += first && second;
}

/* The second GPU may be lost for the client, if the driver hangs or crashes in a call about it. */
CHILD_TEST(values_of_one_gpu_are_published_before_the_next)
{
	struct shown shown = { 0 };
	struct nvml_rig rig;

	(void) state;
	rig_new(&rig, "550", "lost.conf", 9);
	rig_open(&rig);
	rig.env.on_partial = take_shown;
	rig.env.progress_ctx = &shown;
	rig_read(&rig, ACTIVITY);
	assert_int_equal(shown.one, 1);
	assert_int_equal(shown.both, 1);
	rig_done(&rig);
}

CHILD_TEST(processes_of_a_lost_gpu_end)
{
	(void) state;
	struct nvml_rig rig;
	char text[512];

	snprintf(text, sizeof(text),
		"include = %s/fake/scenarios/lost.conf\n[process 1]\npid = 4100007\nmemory = 1Gi\n",
		TESTS_DIR);
	rig_scenario(&rig, "550", text);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	uint32_t id = find_process(&rig.out, 2, 4100007)->id;

	rig_at(&rig, 11);
	rig_read(&rig, MEMORY);
	assert_int_equal(rig.out.n_ends, 1);
	assert_int_equal(rig.out.ends[0].entity, ENTITY_GPU_PROCESS);
	assert_int_equal(rig.out.ends[0].id, id);
	rig_done(&rig);
}

static size_t gpu_births_of(const struct framebuf *b)
{
	size_t n = 0;

	while (find_birth(b, ENTITY_GPU, n))
		n++;
	return n;
}

CHILD_TEST(a_gpu_that_was_reset_goes_on)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "reset.conf", 4);
	rig_open(&rig);
	rig.s->retry_first_ns = 0;
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_ENERGY, 2, 5280000000);
	check_value(&rig.out, M_GPU_ECC_CORRECTED, 2, 3);
	rig_at(&rig, 6);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) RARE);
	assert_true(has_note(&rig.out, "gpu", "GPU 1: lost"));
	assert_false(find_reading(&rig.out, M_GPU_ENERGY, 2)->known);
	rig_read(&rig, ALL_GROUPS); /* retried without success: no further note */
	assert_int_equal(rig.out.n_events, 0);
	assert_null(find_reading(&rig.out, M_GPU_ENERGY, 2));
	rig_at(&rig, 9);
	rig_read(&rig, ALL_GROUPS);
	assert_true(has_mere_note(&rig.out, "gpu", "GPU 1: it answers again"));
	assert_int_equal(rig.out.n_births, 0); /* the same GPU */
	check_value(&rig.out, M_GPU_ENERGY, 2, 5280000000 + 70100000); /* its counters restarted */
	check_value(&rig.out, M_GPU_ECC_CORRECTED, 2, 3);
	check_value(&rig.out, M_GPU_POWER, 2, 70000000);
	check_value(&rig.out, M_GPU_XID, 2, 1);
	rig_at(&rig, 10);
	rig_read(&rig, ACTIVITY);
	assert_null(find_reading(&rig.out, M_GPU_ENERGY, 2));
	rig_read(&rig, RARE);
	check_value(&rig.out, M_GPU_ENERGY, 2, 5280000000 + 140100000);
	rig_done(&rig);
}

/* Makes the retry due now. */
static void ask_again(struct nvml_rig *rig, unsigned groups)
{
	rig->s->gpus[0]->retry_ns = 0;
	rig_read(rig, groups);
}

static void check_waits(const struct nvml_rig *rig, unsigned seconds)
{
	const struct nvml_gpu *d = rig->s->gpus[0];

	assert_int_equal(d->state, NVML_AWAY);
	assert_int_equal(d->wait_ns, seconds * UINT64_C(1000000000));
	assert_in_range(d->retry_ns - d->wait_ns, rig->s->now_ns, clock_boot_ns());
}

/* Any read retries, soon at first, then less often the longer the GPU is lost. A GPU that was back
 * only for a moment does not start over. */
CHILD_TEST(a_lost_gpu_is_retried_less_and_less_often)
{
	static const unsigned seconds[] = { 2, 4, 8, 16, 30, 30 };
	struct nvml_rig rig;

	(void) state;
	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\nmemory_used = 1Gi\n"
		"memory_reserved = 0\n[call nvmlDevice*]\nfrom = 5\nuntil = 8\nerror = 15\n[call nvmlDevice*]\nfrom = 9\nuntil = 10\nerror = 15\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	rig_at(&rig, 6);
	rig_read(&rig, MEMORY);
	check_waits(&rig, 1);
	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		ask_again(&rig, MEMORY);
		check_waits(&rig, seconds[i]);
	}
	rig_at(&rig, 8.5);
	ask_again(&rig, MEMORY);
	assert_true(has_note(&rig.out, "gpu", "GPU 0: it answers again"));
	check_value(&rig.out, M_GPU_MEM, 1, GIB);
	rig_at(&rig, 9.5);
	rig_read(&rig, MEMORY);
	check_waits(&rig, 30);
	rig_at(&rig, 10);
	ask_again(&rig, MEMORY);
	rig.s->gpus[0]->awake_ns -= UINT64_C(30000000000); /* it has answered long enough */
	rig_at(&rig, 6);
	rig_read(&rig, MEMORY);
	check_waits(&rig, 1);
	rig_done(&rig);
}

/* The driver is unloaded and loaded again: the devices are lost, and return with their identity;
 * the library is initialised again. */
CHILD_TEST(a_driver_that_is_reloaded)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 8Gi\n"
		"memory_used = 1Gi\nmemory_reserved = 0\nenergy = steps 0:5000 8:50 9:70\n"
		"[process 1]\npid = 4100007\nmemory = 1Gi\n"
		"[call nvmlDevice*]\nfrom = 5\nuntil = 8\nerror = 1\n[call nvmlEvent*]\nfrom = 5\nuntil = 8\nerror = 1\n"
		"[call nvmlInit*]\nfrom = 5\nuntil = 8\nerror = 9\n");
	rig_open(&rig);
	rig.s->retry_first_ns = 0;
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_ENERGY, 1, 5000000);
	assert_non_null(find_process(&rig.out, 2, 4100007));
	rig_at(&rig, 6);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) RARE);
	assert_true(has_cause(&rig.out, "gpu", "GPU 0: lost: the driver was unloaded", 1));
	assert_true(has_cause(&rig.out, "gpu", "GPU 1: lost: the driver was unloaded", 2));
	assert_false(find_reading(&rig.out, M_GPU_ENERGY, 1)->known);
	assert_int_equal(rig.out.n_ends, 1);
	rig_at(&rig, 7);
	rig_read(&rig, ALL_GROUPS); /* without success */
	assert_int_equal(rig.out.n_events, 0);
	assert_null(find_reading(&rig.out, M_GPU_MEM, 1));
	rig_at(&rig, 9);
	rig_read(&rig, ALL_GROUPS);
	assert_true(has_note(&rig.out, "gpu", "GPU 0: it answers again"));
	assert_true(has_mere_note(&rig.out, "gpu", "GPU 1: it answers again"));
	assert_int_equal(gpu_births_of(&rig.out), 0); /* the same ones */
	check_value(&rig.out, M_GPU_ENERGY, 1, 5000000 + 70000);
	check_value(&rig.out, M_GPU_MEM, 2, 1 * GIB);
	check_value(&rig.out, M_GPU_PROCESSES, 2, 1);
	rig_done(&rig);
}

CHILD_TEST(a_gpu_that_is_not_ours_leaves_the_other)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "no-permission.conf", 0);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	assert_non_null(find_birth(&rig.out, ENTITY_GPU, 0));
	assert_null(find_birth(&rig.out, ENTITY_GPU, 1));
	assert_true(has_cause(&rig.out, "gpu", "GPU 1: closed: no permission", 0));
	assert_true(find_reading(&rig.out, M_GPU_MEM, 1)->known);
	rig_done(&rig);
}

/* The job may use its memory: it is reported by its number, and as a new GPU once its identity is
 * known. */
CHILD_TEST(a_gpu_that_never_answered_is_reported)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 8Gi\n"
		"memory_used = 1Gi\nmemory_reserved = 0\n[process 0]\npid = 4100007\nmemory = 1Gi\n"
		"[call nvmlDeviceGetHandleBy*]\ngpu = 0\nuntil = 5\nerror = 999\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) RARE);
	const struct birth *lost = find_birth(&rig.out, ENTITY_GPU, 0);

	assert_non_null(lost);
	assert_int_equal(lost->id, 1);
	assert_true(lost->gpu.index.known && lost->gpu.index.value == 0 && !lost->gpu.cuda_index.known);
	assert_string_equal(lost->gpu.uuid, "");
	assert_false(find_reading(&rig.out, M_GPU_PROCESSES, 1)->known);
	check_value(&rig.out, M_GPU_PROCESSES, 2, 0);
	rig.s->gpus[0]->retry_ns = 0;
	rig_at(&rig, 6);
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(rig.out.n_ends, 1);
	assert_int_equal(rig.out.ends[0].id, 1);
	assert_string_equal(find_birth(&rig.out, ENTITY_GPU, 0)->gpu.uuid, "GPU-0");
	check_value(&rig.out, M_GPU_PROCESSES, 3, 1);
	rig_done(&rig);
}

/* Lost before its memory could be read: a second birth of the same GPU reports it after its
 * return. */
CHILD_TEST(a_gpu_that_returns_reports_its_memory)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = steps 0:8Gi 8:6Gi\n"
		"memory_used = 1Gi\nmemory_reserved = 0\n"
		"[call nvmlDeviceGetMemoryInfo*]\ngpu = 0\nuntil = 5\nerror = 15\n"
		"[call nvmlDevice*]\nfrom = 7\nuntil = 8\nerror = 15\n");
	rig_open(&rig);
	rig.s->retry_first_ns = 0;
	rig_read(&rig, ALL_GROUPS & ~(unsigned) RARE);
	assert_string_equal(find_birth(&rig.out, ENTITY_GPU, 0)->gpu.uuid, "GPU-0");
	assert_false(find_birth(&rig.out, ENTITY_GPU, 0)->gpu.memory_bytes.known);
	rig.s->gpus[0]->retry_ns = rig.s->gpus[0]->wait_ns = 0;
	rig_read(&rig, ALL_GROUPS); /* without success */
	assert_null(find_birth(&rig.out, ENTITY_GPU, 0));
	rig_at(&rig, 6);
	rig_read(&rig, ALL_GROUPS);
	const struct birth *again = find_birth(&rig.out, ENTITY_GPU, 0);

	assert_non_null(again);
	assert_int_equal(again->id, 1);
	assert_true(again->gpu.memory_bytes.known && again->gpu.memory_bytes.value == 8 * GIB);
	assert_int_equal(rig.out.n_ends, 0);
	check_value(&rig.out, M_GPU_MEM, 1, GIB);
	rig_read(&rig, ALL_GROUPS); /* once */
	assert_null(find_birth(&rig.out, ENTITY_GPU, 0));
	rig_at(&rig, 7.5); /* a reset turned ECC on: less memory */
	rig_read(&rig, ALL_GROUPS);
	assert_null(find_birth(&rig.out, ENTITY_GPU, 0));
	rig_at(&rig, 9);
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(gpu_births_of(&rig.out), 2);
	assert_int_equal(find_birth(&rig.out, ENTITY_GPU, 0)->gpu.memory_bytes.value, 6 * GIB);
	assert_int_equal(find_birth(&rig.out, ENTITY_GPU, 1)->id, 2);
	rig_done(&rig);
}

/* An error at the start does not prevent a later total. */
CHILD_TEST(a_missing_total_is_reported_later)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 8Gi\n"
		"memory_used = 1Gi\nmemory_reserved = 0\n[call nvmlDeviceGetMemoryInfo*]\nuntil = 5\nerror = 999\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	assert_false(find_birth(&rig.out, ENTITY_GPU, 0)->gpu.memory_bytes.known);
	rig_at(&rig, 6);
	rig_read(&rig, MEMORY);
	rig_read(&rig, MEMORY);
	assert_non_null(find_birth(&rig.out, ENTITY_GPU, 0));
	assert_int_equal(find_birth(&rig.out, ENTITY_GPU, 0)->gpu.memory_bytes.value, 8 * GIB);
	rig_done(&rig);
}

static void put_pci(struct nvml_rig *rig, const char *id, const char *status)
{
	static const char *const files[][2] = { { "vendor", "0x10de\n" }, { "class", "0x030200\n" },
		{ "power/control", "auto\n" } };
	char path[128];

	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/%s", id, files[i][0]);
		temp_tree_put(&rig->tree, path, files[i][1]);
	}
	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/power/runtime_status", id);
	temp_tree_put(&rig->tree, path, status);
}

CHILD_TEST(a_sleeping_gpu_is_not_woken)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "default.conf", 0);
	put_pci(&rig, "0000:00:00.0", "active\n");
	put_pci(&rig, "0000:01:00.0", "suspended\n");
	/* its sound device */
	temp_tree_put(&rig.tree, "sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");
	temp_tree_put(&rig.tree, "sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
	rig_log(&rig);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) RARE);
	assert_int_equal(rig_calls(&rig, "nvml", "1"), 0);
	assert_int_equal(rig_calls(&rig, "ByIndex", "-"), 0);
	put_pci(&rig, "0000:01:00.0", "active\n"); /* another program woke it */
	rig_read(&rig, ALL_GROUPS);
	assert_string_equal(
		find_birth(&rig.out, ENTITY_GPU, 0)->gpu.uuid, "GPU-00000000-0000-4000-8000-000000000001");
	check_value(&rig.out, M_GPU_BUSY, 2, 870000);
	put_pci(&rig, "0000:01:00.0", "suspended\n");
	rig_log(&rig);
	rig_read(&rig, RARE | MEMORY | ACTIVITY);
	assert_false(find_reading(&rig.out, M_GPU_BUSY, 2)->known);
	assert_true(has_cause(&rig.out, "gpu", "GPU 1: asleep", 2));
	assert_int_equal(rig_calls(&rig, "nvml", "1"), 0);
	rig_done(&rig);
}

/* An unsupported list is noted once, however often the GPU sleeps. */
CHILD_TEST(waking_notes_no_list_again)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 8Gi\nmemory_used = 1Gi\n"
		"[process 0]\npid = 7\nmemory = unknown\n[call nvmlDeviceGetGraphicsRunningProcesses*]\nerror = 999\n");
	put_pci(&rig, "0000:01:00.0", "active\n");
	rig_open(&rig);
	rig_read(&rig, RARE | PROCESSES);
	assert_true(has_cause(&rig.out, "gpu.memory", "graphics processes cannot be listed", 1));
	assert_true(has_cause(&rig.out, "gpu.memory", "does not report how much memory", 1));
	put_pci(&rig, "0000:01:00.0", "suspended\n");
	rig_read(&rig, RARE | PROCESSES);
	assert_true(has_cause(&rig.out, "gpu", "GPU 0: asleep", 1));
	put_pci(&rig, "0000:01:00.0", "active\n");
	rig_read(&rig, RARE | PROCESSES);
	check_absent(&rig.out, M_GPU_PROCESSES, 1);
	assert_non_null(find_birth(&rig.out, ENTITY_GPU_PROCESS, 0));
	assert_false(has_note(&rig.out, "gpu.memory", ""));
	rig_done(&rig);
}

/* The same for rows. */
CHILD_TEST(waking_notes_no_figure_again)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 8Gi\nmemory_used = 9Gi\n"
		"memory_reserved = 0\ntemperature = 0\npower = 100000\n[call nvmlDeviceGetUtilizationRates]\nerror = 77\n");
	put_pci(&rig, "0000:01:00.0", "active\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	assert_true(has_note(&rig.out, "gpu", "GPU 0: the driver reports impossible values for gpu.mem;"));
	assert_true(has_note(&rig.out, "gpu", "GPU 0: the driver reports impossible values for gpu.temp;"));
	assert_true(has_note(&rig.out, "gpu", "GPU 0: the driver returns error 77 for gpu.busy"));
	assert_true(has_note(&rig.out, "gpu.energy", "GPU 0: "));
	for (int i = 0; i < 3; i++) {
		put_pci(&rig, "0000:01:00.0", "suspended\n");
		rig_read(&rig, ALL_GROUPS);
		put_pci(&rig, "0000:01:00.0", "active\n");
		rig_read(&rig, ALL_GROUPS);
		for (size_t e = 0; e < rig.out.n_events; e++)
			assert_non_null(strstr(rig.out.events[e].text, "GPU 0: it answers again"));
	}
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_gpu_does_not_affect_the_other),
		cmocka_unit_test(values_of_one_gpu_are_published_before_the_next),
		cmocka_unit_test(processes_of_a_lost_gpu_end),
		cmocka_unit_test(a_gpu_that_was_reset_goes_on),
		cmocka_unit_test(a_lost_gpu_is_retried_less_and_less_often),
		cmocka_unit_test(a_driver_that_is_reloaded),
		cmocka_unit_test(a_gpu_that_is_not_ours_leaves_the_other),
		cmocka_unit_test(a_gpu_that_never_answered_is_reported),
		cmocka_unit_test(a_gpu_that_returns_reports_its_memory),
		cmocka_unit_test(a_missing_total_is_reported_later),
		cmocka_unit_test(a_sleeping_gpu_is_not_woken),
		cmocka_unit_test(waking_notes_no_list_again),
		cmocka_unit_test(waking_notes_no_figure_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
