/* SPDX-License-Identifier: MIT
 *
 * The NVML source where something is wrong: no driver, a GPU that is lost, asleep or closed, calls that fail.
 */
#include "nvml_rig.h"
#include "source/nvml_internal.h"

/* ---- nothing to open ------------------------------------------------------------------------------------------------ */

struct closed {
	const char *level, *scenario, *words;
	int error;
};

static const struct closed closed[] = {
	{ "550", "mismatch.conf", "different versions", -ELIBBAD },
	{ "550", "no-driver.conf", "kernel module is not loaded", -ENXIO },
};

CHILD_TEST(a_driver_that_does_not_start_says_why)
{
	const struct closed *c = *state;
	struct nvml_rig rig;
	struct probes probes = { 0 };

	rig_new(&rig, c->level, c->scenario, 0);
	assert_int_equal(rig_try(&rig), c->error);
	assert_null(rig.s);
	assert_non_null(strstr(rig.err.text, c->words));
	source_nvml.probe(&rig.env, probes_take, &probes);
	assert_true(probes.told[M_GPU_MEM] && !probes.of[M_GPU_MEM].available && *probes.of[M_GPU_MEM].remedy);
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
	/* A captured machine is not asked by this machine's driver. */
	assert_int_equal(unsetenv("HIWATER_NVML"), 0);
	assert_int_equal(source_nvml.open(&rig.env, &rig.s, &rig.err), -ENODEV);
	assert_non_null(strstr(rig.err.text, "captured"));
	rig_done(&rig);
}

/* ---- one GPU of two ------------------------------------------------------------------------------------------------- */

CHILD_TEST(a_lost_gpu_leaves_the_other)
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
		assert_int_not_equal(metrics[rig.out.readings[i].metric].entity == ENTITY_GPU ? rig.out.readings[i].id : 1, 2);
	assert_int_equal(rig.out.n_events, 0);
	assert_int_equal(rig_calls(&rig, "nvml", "1"), 0); /* asked again only now and then */
	assert_true(find_reading(&rig.out, M_GPU_MEM, 1)->known);
	rig_done(&rig);
}

/* How many shown frames had the power of one GPU, and of both. */
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

/* Somebody may have to do without the second, over which the driver hangs or crashes. */
CHILD_TEST(what_one_gpu_said_does_not_wait_for_the_next)
{
	struct shown shown = { 0 };
	struct nvml_rig rig;

	(void) state;
	rig_new(&rig, "550", "lost.conf", 9);
	rig_open(&rig);
	rig.env.so_far = take_shown;
	rig.env.told_ctx = &shown;
	rig_read(&rig, ACTIVITY);
	assert_int_equal(shown.one, 1);
	assert_int_equal(shown.both, 1);
	rig_done(&rig);
}

CHILD_TEST(processes_of_a_lost_gpu_are_gone)
{
	(void) state;
	struct nvml_rig rig;
	char text[512];

	snprintf(text, sizeof(text), "include = %s/fake/scenarios/lost.conf\n[process 1]\npid = 4100007\nmemory = 1Gi\n", TESTS_DIR);
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
	rig_read(&rig, ALL_GROUPS); /* asked again in vain: nothing more is said */
	assert_int_equal(rig.out.n_events, 0);
	assert_null(find_reading(&rig.out, M_GPU_ENERGY, 2));
	rig_at(&rig, 9);
	rig_read(&rig, ALL_GROUPS);
	assert_true(has_mere_note(&rig.out, "gpu", "GPU 1: it answers again"));
	assert_int_equal(rig.out.n_births, 0); /* the same one */
	check_value(&rig.out, M_GPU_ENERGY, 2, 5280000000 + 70100000); /* its counters began anew */
	check_value(&rig.out, M_GPU_ECC_CORRECTED, 2, 3);
	check_value(&rig.out, M_GPU_POWER, 2, 70000000);
	check_value(&rig.out, M_GPU_XID, 2, 1);
	rig_at(&rig, 10);
	rig_read(&rig, ACTIVITY);
	check_value(&rig.out, M_GPU_ENERGY, 2, 5280000000 + 140100000);
	rig_done(&rig);
}

/* Its time has come, without waiting for it. */
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

/* Any look asks, soon at first; the longer it is lost in vain, the less often. One that was back for a moment is no other. */
CHILD_TEST(a_lost_gpu_is_asked_less_and_less_often)
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
	rig.s->gpus[0]->awake_ns -= UINT64_C(30000000000); /* it has answered for so long */
	rig_at(&rig, 6);
	rig_read(&rig, MEMORY);
	check_waits(&rig, 1);
	rig_done(&rig);
}

/* The driver is unloaded and loaded again: the devices are gone, and back as who they were; the library is initialised
 * anew. */
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
	rig_read(&rig, ALL_GROUPS); /* in vain */
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

enum {
	DRAWN_W = 250
};

/* That power for so long since the look before. */
static int64_t later(struct nvml_rig *rig, unsigned ms)
{
	for (size_t i = 0; i < rig->s->n_gpus; i++) {
		rig->s->gpus[i]->power.read_ns -= ms * UINT64_C(1000000);
		rig->s->gpus[i]->power.moved_ns -= ms * UINT64_C(1000000);
	}
	rig_read(rig, ACTIVITY);
	return ms * INT64_C(1000) * DRAWN_W;
}

static int64_t three_seconds_later(struct nvml_rig *rig)
{
	return later(rig, 3000);
}

/* More than least is what was drawn while the test itself ran. */
static void check_energy(const struct nvml_rig *rig, uint32_t gpu, int64_t least, uint64_t began_ns)
{
	const struct reading *r = find_reading(&rig->out, M_GPU_ENERGY, gpu);

	assert_true(r && r->known);
	assert_in_range(r->value, least, least + (int64_t) ((clock_boot_ns() - began_ns) / 1000 * DRAWN_W) + DRAWN_W);
}

/* Energy is counted up to where the counter ends, and power is added up from there: each joule once. */
CHILD_TEST(energy_goes_on_where_the_counter_ends)
{
	(void) state;
	struct nvml_rig rig;
	const uint64_t began_ns = clock_boot_ns();
	int64_t so_far = INT64_C(9000000000);

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n"
		"power = 250000\nenergy = steps 0:8000000 3:9000000 6:absent\n");
	rig_open(&rig);
	rig_read(&rig, ACTIVITY);
	check_value(&rig.out, M_GPU_ENERGY, 1, INT64_C(8000000000));
	rig_at(&rig, 3);
	(void) three_seconds_later(&rig);
	check_value(&rig.out, M_GPU_ENERGY, 1, so_far);
	assert_int_equal(rig.out.n_events, 0);
	rig_at(&rig, 6);
	so_far += three_seconds_later(&rig);
	check_energy(&rig, 1, so_far, began_ns);
	assert_true(has_mere_note(&rig.out, "gpu.energy", "GPU 0: its energy counter ended"));
	so_far += three_seconds_later(&rig);
	check_energy(&rig, 1, so_far, began_ns);
	rig_done(&rig);
}

/* GPU 1 draws nothing: its counter may stand still. */
CHILD_TEST(a_counter_of_energy_that_stands_still)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 1Gi\n"
		"power = 250000\nenergy = 8000000\n[gpu 1]\npower = 0\n");
	rig_open(&rig);
	rig_read(&rig, ACTIVITY);
	check_value(&rig.out, M_GPU_ENERGY, 1, INT64_C(8000000000));
	const int64_t more = three_seconds_later(&rig);

	check_energy(&rig, 1, INT64_C(8000000000) + more, began_ns);
	assert_true(has_note(&rig.out, "gpu.energy", "GPU 0: its energy counter stands still while power is drawn"));
	check_value(&rig.out, M_GPU_ENERGY, 2, INT64_C(8000000000));
	assert_int_equal(rig.out.n_events, 1);
	rig_done(&rig);
}

/* A run may be over before that: its last reading judges by less. */
CHILD_TEST(a_counter_of_energy_that_stands_still_in_a_short_run)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct source_credit credit = { .most_ns = 100000000 };
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 1Gi\n"
		"power = 250000\nenergy = 0\n[gpu 1]\nenergy = steps 0:0 1:100\n");
	assert_int_equal(rig_try(&rig), 0);
	rig.env.credit = &credit;
	rig_read(&rig, ACTIVITY);
	credit.last = true;
	rig_at(&rig, 1);
	const int64_t drawn = later(&rig, 400);

	check_energy(&rig, 1, drawn, began_ns);
	assert_true(has_note(&rig.out, "gpu.energy", "GPU 0: its energy counter stands still while power is drawn"));
	check_value(&rig.out, M_GPU_ENERGY, 2, 100000);
	assert_int_equal(rig.out.n_events, 1);
	rig_done(&rig);
}

#define COMES_BACK(energy) \
	"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n" \
	"power = 250000\nenergy = " energy "\n[call nvmlDevice*]\nfrom = 5\nuntil = 8\nerror = 15\n"

/* What power told beyond the counter, t seconds in, is told once, and the device is lost and found again. */
static int64_t told_until_it_came_back(struct nvml_rig *rig, double t, uint64_t began_ns)
{
	rig_open(rig);
	rig->s->retry_first_ns = 0;
	rig_read(rig, ACTIVITY);
	check_value(&rig->out, M_GPU_ENERGY, 1, INT64_C(8000000000));
	rig_at(rig, t);
	const int64_t more = three_seconds_later(rig);

	check_energy(rig, 1, INT64_C(8000000000) + more, began_ns);
	const int64_t told = find_reading(&rig->out, M_GPU_ENERGY, 1)->value;

	rig_at(rig, 6);
	rig_read(rig, ALL_GROUPS & ~(unsigned) RARE);
	assert_false(find_reading(&rig->out, M_GPU_ENERGY, 1)->known);
	rig_at(rig, 9);
	rig_read(rig, ALL_GROUPS);
	assert_true(has_note(&rig->out, "gpu", "GPU 0: it answers again"));
	return told;
}

/* It has moved since, and is below what was told: it is not believed, nor begun again from. */
CHILD_TEST(a_counter_of_energy_that_stood_still_comes_back)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct nvml_rig rig;

	rig_scenario(&rig, "550", COMES_BACK("steps 0:8000000 8:8000100"));
	const int64_t told = told_until_it_came_back(&rig, 1, began_ns);

	check_energy(&rig, 1, told, began_ns);
	const int64_t more = three_seconds_later(&rig);

	check_energy(&rig, 1, told + more, began_ns);
	rig_done(&rig);
}

/* One that had ended goes on from what was told meanwhile, and as much as it rises. */
CHILD_TEST(a_counter_of_energy_that_ended_comes_back)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550", COMES_BACK("steps 0:8000000 2:absent 8:8000100 10:8000300"));
	const int64_t told = told_until_it_came_back(&rig, 3, clock_boot_ns());

	check_value(&rig.out, M_GPU_ENERGY, 1, told);
	rig_at(&rig, 10);
	rig_read(&rig, ACTIVITY);
	check_value(&rig.out, M_GPU_ENERGY, 1, told + 200000);
	rig_done(&rig);
}

/* What it had counted before is of no run. */
CHILD_TEST(a_counter_of_energy_that_comes_after_power)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct nvml_rig rig;

	rig_scenario(&rig, "550", COMES_BACK("steps 0:absent 8:8000000 10:8000300"));
	rig_open(&rig);
	rig.s->retry_first_ns = 0;
	rig_read(&rig, ACTIVITY);
	const int64_t drawn = three_seconds_later(&rig);

	check_energy(&rig, 1, drawn, began_ns);
	const int64_t told = find_reading(&rig.out, M_GPU_ENERGY, 1)->value;

	rig_at(&rig, 6);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) RARE);
	rig_at(&rig, 9);
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_ENERGY, 1, told);
	rig_at(&rig, 10);
	rig_read(&rig, ACTIVITY);
	check_value(&rig.out, M_GPU_ENERGY, 1, told + 300000);
	rig_done(&rig);
}

/* The error is power's, of which the energy is made. */
CHILD_TEST(an_error_of_power_is_not_told_of_energy)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\npower = 250000\n"
		"[call nvmlDeviceGetPowerUsage]\nfrom = 2\nuntil = 5\nerror = 999\n");
	rig_open(&rig);
	rig_read(&rig, ACTIVITY);
	rig_at(&rig, 3);
	rig_read(&rig, ACTIVITY);
	assert_true(has_note(&rig.out, "gpu", "GPU 0: the driver answers with error 999 for gpu.power"));
	assert_false(has_note(&rig.out, "gpu", "gpu.energy"));
	assert_false(find_reading(&rig.out, M_GPU_ENERGY, 1)->known);
	rig_done(&rig);
}

/* Nor more than there is: who it is stays known, and is told of. */
CHILD_TEST(a_process_with_more_than_there_is)
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
	assert_true(has_cause(&rig.out, "gpu.memory", "that they hold more than there is: it is left out", 1));
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig.out.n_events, 0);
	rig_at(&rig, 2);
	rig_read(&rig, PROCESSES);
	check_value(&rig.out, M_GPROC_MEM, id, 20 * GIB);
	rig_done(&rig);
}

CHILD_TEST(what_nobody_should_believe)
{
	(void) state;
	static const enum metric none[] = { M_GPU_BUSY, M_GPU_MEM_BUSY, M_GPU_TEMP, M_GPU_FAN, M_GPU_CLOCK_SM, M_GPU_THROTTLE_HW,
		M_GPU_MEM_RESERVED, M_GPU_SM_ACTIVE, M_GPU_SM_OCCUPANCY, M_GPU_TENSOR_ACTIVE, M_GPU_DRAM_ACTIVE };
	struct nvml_rig rig;

	rig_new(&rig, "550", "hostile.conf", 6);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	const struct birth *mine = find_process(&rig.out, 1, getpid());

	assert_non_null(mine);
	assert_true(mine->gpu_process.compute && mine->gpu_process.graphics);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 2); /* pid 0 is none */
	assert_true(has_mere_note(&rig.out, "gpu", "error 77"));
	rig_at(&rig, 7);
	rig_wait_gpm();
	rig_read(&rig, ALL_GROUPS);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		check_absent(&rig.out, none[i], 1);
	for (size_t i = 0; i < rig.out.n_readings; i++) {
		const struct reading *r = &rig.out.readings[i];

		if (metrics[r->metric].unit == UNIT_PPM && r->known && (r->value < 0 || r->max > 1000000))
			fail_msg("%s: %lld", metrics[r->metric].name, (long long) r->value);
	}
	check_value(&rig.out, M_GPU_GRAPHICS_ACTIVE, 1, 970000); /* the others are there */
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

/* It may hold what the job has on it: it is there by its number, and another one once it says who it is. */
CHILD_TEST(a_gpu_that_never_answered_is_there)
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

/* Lost before it could tell its memory, it tells it when it is back: a second birth of the same one. */
CHILD_TEST(a_gpu_that_comes_back_tells_its_memory)
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
	rig_read(&rig, ALL_GROUPS); /* in vain */
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
	rig_at(&rig, 7.5); /* ECC is turned on by a reset: less is left */
	rig_read(&rig, ALL_GROUPS);
	assert_null(find_birth(&rig.out, ENTITY_GPU, 0));
	rig_at(&rig, 9);
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(gpu_births_of(&rig.out), 2);
	assert_int_equal(find_birth(&rig.out, ENTITY_GPU, 0)->gpu.memory_bytes.value, 6 * GIB);
	assert_int_equal(find_birth(&rig.out, ENTITY_GPU, 1)->id, 2);
	rig_done(&rig);
}

/* An answer that says nothing, at the start, is no reason to go without a total. */
CHILD_TEST(a_total_that_was_not_had_is_had_later)
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
	static const char *const files[][2] = { { "vendor", "0x10de\n" }, { "class", "0x030200\n" }, { "power/control", "auto\n" } };
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
	temp_tree_put(&rig.tree, "sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n"); /* its sound */
	temp_tree_put(&rig.tree, "sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
	rig_log(&rig);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) RARE);
	assert_int_equal(rig_calls(&rig, "nvml", "1"), 0);
	assert_int_equal(rig_calls(&rig, "ByIndex", "-"), 0);
	put_pci(&rig, "0000:01:00.0", "active\n"); /* somebody else woke it */
	rig_read(&rig, ALL_GROUPS);
	assert_string_equal(find_birth(&rig.out, ENTITY_GPU, 0)->gpu.uuid, "GPU-00000000-0000-4000-8000-000000000001");
	check_value(&rig.out, M_GPU_BUSY, 2, 870000);
	put_pci(&rig, "0000:01:00.0", "suspended\n");
	rig_log(&rig);
	rig_read(&rig, RARE | MEMORY | ACTIVITY);
	assert_false(find_reading(&rig.out, M_GPU_BUSY, 2)->known);
	assert_true(has_cause(&rig.out, "gpu", "GPU 1: asleep", 2));
	assert_int_equal(rig_calls(&rig, "nvml", "1"), 0);
	rig_done(&rig);
}

/* What a GPU lacks is said once, however often it sleeps. */
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
	assert_true(has_cause(&rig.out, "gpu.memory", "does not tell how much", 1));
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

/* Likewise what its rows lack. */
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
	assert_true(has_note(&rig.out, "gpu", "GPU 0: what the driver says for gpu.mem cannot be so"));
	assert_true(has_note(&rig.out, "gpu", "GPU 0: what the driver says for gpu.temp cannot be so"));
	assert_true(has_note(&rig.out, "gpu", "GPU 0: the driver answers with error 77 for gpu.busy"));
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

/* ---- calls that fail ------------------------------------------------------------------------------------------------ */

/* Every call of the table, one at a time, fails for the first GPU from 1 s on, or from the start: nothing known is made
 * of it, the second GPU is as it was, and nothing crashes. */
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
	static const enum metric some[] = { M_GPU_MEM, M_GPU_MEM_FREE, M_GPU_MEM_RESERVED, M_GPU_BUSY, M_GPU_POWER, M_GPU_ENERGY,
		M_GPU_TEMP, M_GPU_TEMP_MEM, M_GPU_CLOCK_SM, M_GPU_PSTATE, M_GPU_THROTTLE_HW, M_GPU_NVLINK_RX, M_GPU_PROCESSES,
		M_GPU_POWER_LIMIT, M_GPU_ECC_CORRECTED };

	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		const struct reading *r = find_reading(out, some[i], second);

		if (!r || !r->known)
			fail_msg("the second GPU lost its %s", metrics[some[i]].name);
	}
}

/* On the first GPU of gpm.conf at 1 s these are not zero: a zero was not read. */
static void check_no_false_zero(const struct framebuf *out)
{
	static const enum metric some[] = { M_GPU_MEM, M_GPU_MEM_FREE, M_GPU_MEM_RESERVED, M_GPU_BUSY, M_GPU_MEM_BUSY, M_GPU_POWER,
		M_GPU_TEMP, M_GPU_TEMP_MEM, M_GPU_CLOCK_SM, M_GPU_CLOCK_MEM, M_GPU_POWER_LIMIT, M_GPU_NVLINK_RX, M_GPU_NVLINK_TX,
		M_GPU_PROCESSES, M_GPU_SM_ACTIVE, M_GPU_PCIE_TX };

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

	snprintf(text, sizeof(text), "include = %s/fake/scenarios/gpm.conf\n[call %s]\ngpu = 0\nfrom = %d\nerror = %d\n", TESTS_DIR,
		f->call, f->from, f->code);
	rig_scenario(&rig, "550", text);
	rig_at(&rig, 0.5);
	if (rig_try(&rig) == 0) {
		rig_read(&rig, ALL_GROUPS);
		/* Where the first could not even be opened, the second is the first that is born. */
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

/* ---- figures that are none ------------------------------------------------------------------------------------------ */

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
	rig_wait_gpm();
	rig_at(&rig, 1);
	rig_read(&rig, ALL_GROUPS);
	for (size_t i = 0; i < rig.out.n_readings; i++) {
		const struct reading *r = &rig.out.readings[i];

		if (r->known && r->metric != M_GPU_PROCESSES)
			fail_msg("%s: %lld", metrics[r->metric].name, (long long) r->value);
	}
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	rig_done(&rig);
}

/* All ones are "there is none"; more memory in use than there is, or a temperature of 0, is told, also where it never was
 * otherwise. */
static void check_what_cannot_be(const char *level)
{
	struct nvml_rig rig;
	char text[512];

	snprintf(text, sizeof(text),
		"[driver]\nlevel = %s\n[gpu 0-1]\nname = A\nuuid = GPU-%%d\npci = 00000000:0%%d:00.0\nmemory_total = 8Gi\n"
		"memory_used = steps 0:9Gi 3:1Gi\nmemory_reserved = 0\ntemperature = 0\n[gpu 1]\ntemperature = unknown\nmemory_used = 1Gi\n",
		level);
	rig_scenario(&rig, level, text);
	rig_open(&rig);
	rig_read(&rig, MEMORY | STATE);
	assert_false(find_reading(&rig.out, M_GPU_MEM, 1)->known);
	assert_false(find_reading(&rig.out, M_GPU_TEMP, 1)->known);
	assert_true(has_mere_note(&rig.out, "gpu", "GPU 0: what the driver says for gpu.mem cannot be so"));
	assert_true(has_note(&rig.out, "gpu", "GPU 0: what the driver says for gpu.temp cannot be so"));
	assert_int_equal(rig.out.n_events, 2);
	check_value(&rig.out, M_GPU_MEM, 2, GIB);
	rig_at(&rig, 3);
	rig_read(&rig, MEMORY | STATE);
	check_value(&rig.out, M_GPU_MEM, 1, GIB);
	assert_int_equal(rig.out.n_events, 0);
	rig_done(&rig);
}

CHILD_TEST(what_cannot_be_is_left_out)
{
	(void) state;
	check_what_cannot_be("550");
}

CHILD_TEST(what_cannot_be_is_left_out_by_old_calls)
{
	(void) state;
	check_what_cannot_be("450");
}

static size_t count_notes(const struct framebuf *b, const char *words)
{
	size_t n = 0;

	for (size_t i = 0; i < b->n_events; i++)
		n += b->events[i].kind == EVENT_NOTE && strstr(b->events[i].text, words) != NULL;
	return n;
}

/* More than all of the time, from the first look on and of whatever: a note each, once; the other card has none. */
CHILD_TEST(what_is_refused_is_told_once)
{
	static const char *const notes[] = {
		"GPU 0: what the driver says for gpu.busy cannot be so: it is left out",
		"GPU 0: what the driver says for gpu.mem_busy cannot be so: it is left out",
		"GPU 0: what the driver says for gpu.enc_busy cannot be so: it is left out",
		"GPU 0: what the driver says for gpu.fan cannot be so: it is left out",
		"GPU 0: what the driver says for a process's sm_busy cannot be so: such samples of processes are left out",
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
	assert_int_equal(count_notes(&rig.out, "cannot be so"), sizeof(notes) / sizeof(notes[0]));
	check_value(&rig.out, M_GPU_MEM_BUSY, 2, 1000000);
	rig_at(&rig, 6);
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(count_notes(&rig.out, "cannot be so"), 0);
	rig_done(&rig);
}

/* GPM's figures likewise, those of one look together. Not a number is none, which is told where there was one. */
CHILD_TEST(what_gpm_says_is_refused_once)
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
	rig_at(&rig, 2);
	rig_wait_gpm();
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 1, 300000);
	assert_true(has_mere_note(&rig.out, "gpu",
		"GPU 0: what GPM says for gpu.sm_occupancy, gpu.tensor_active, gpu.pcie_tx cannot be so: it is left out"));
	assert_int_equal(count_notes(&rig.out, "cannot be so"), 1);
	rig_at(&rig, 4);
	rig_wait_gpm();
	rig_read(&rig, ALL_GROUPS);
	assert_true(has_mere_note(&rig.out, "gpu", "GPU 0: what GPM says for gpu.sm_active cannot be so: it is left out"));
	assert_int_equal(count_notes(&rig.out, "cannot be so"), 1);
	rig_at(&rig, 5);
	rig_wait_gpm();
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(count_notes(&rig.out, "cannot be so"), 0);
	check_absent(&rig.out, M_GPU_SM_ACTIVE, 1);
	rig_done(&rig);
}

/* The moment has a value, and what was between two looks cannot be. */
CHILD_TEST(samples_that_are_refused_are_told_once)
{
	struct nvml_rig rig;

	(void) state;
	rig_scenario(&rig, "580",
		"[driver]\nlevel = 580\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 8Gi\n"
		"util = steps 0:50 3:250 4:60\nutil_memory = 10\n");
	rig_open(&rig);
	rig_at(&rig, 2);
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(count_notes(&rig.out, "cannot be so"), 0);
	rig_at(&rig, 5);
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_BUSY, 1, 600000);
	assert_int_equal(count_notes(&rig.out, "GPU 0: what the driver has sampled of gpu.busy cannot be so: the value of the moment stands for it"), 1);
	assert_int_equal(count_notes(&rig.out, "cannot be so"), 1);
	rig_at(&rig, 6);
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(count_notes(&rig.out, "cannot be so"), 0);
	rig_done(&rig);
}

/* All ones behind a value is no nonsense: the driver has none any more. */
CHILD_TEST(all_ones_behind_a_value)
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

		snprintf(text, sizeof(text), "GPU 0: gpu.%s is missing from then on: the driver says that it is not available any more", ended[i]);
		if (count_notes(&rig.out, text) != 1)
			fail_msg("%zu times: %s", count_notes(&rig.out, text), text);
	}
	assert_int_equal(count_notes(&rig.out, "cannot be so"), 0);
	rig_at(&rig, 5);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) PROCESSES);
	assert_int_equal(rig.out.n_events, 0);
	rig_done(&rig);
}

/* What is missing from some moment on is said then, once: a mean of the run is one of less. */
CHILD_TEST(figures_that_cease)
{
	(void) state;
	struct nvml_rig rig;
	char text[1024];

	snprintf(text, sizeof(text), "include = %s/fake/scenarios/gpm.conf\n[gpu 0-1]\npower = 100000\nutil = 50\ngpm 2 = 30\n"
				     "[gpu 0]\nutil = steps 0:50 3:250\n[gpu 1]\ngpm 2 = steps 0:30 3:nan\n"
				     "[call nvmlDeviceGetTemperature*]\nfrom = 3\ngpu = 1\nerror = 3\n"
				     "[call nvmlGpmSampleGet]\nfrom = 3\ngpu = 0\nerror = 999\n",
		TESTS_DIR);
	rig_scenario(&rig, "550", text);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	rig_at(&rig, 2);
	rig_wait_gpm();
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 1, 300000);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 2, 300000);
	assert_int_equal(rig.out.n_events, 0);
	rig_at(&rig, 4);
	rig_wait_gpm();
	rig_read(&rig, ALL_GROUPS);
	assert_true(has_note(&rig.out, "gpu", "GPU 0: what the driver says for gpu.busy cannot be so"));
	assert_true(has_mere_note(&rig.out, "gpu", "GPU 1: gpu.temp is missing from then on: this device does not give it (NVML's code 3)"));
	assert_true(has_mere_note(&rig.out, "gpu.sm_active", "GPU 0: missing from then on: GPM: the driver answers with an error"));
	assert_true(has_mere_note(&rig.out, "gpu", "GPU 1: what GPM says for gpu.sm_active cannot be so: it is left out"));
	rig_at(&rig, 5);
	rig_wait_gpm();
	rig_read(&rig, ALL_GROUPS);
	assert_int_equal(rig.out.n_events, 0);
	rig_done(&rig);
}

CHILD_TEST(a_bare_device_has_nothing)
{
	(void) state;
	struct nvml_rig rig;
	struct probes probes = { 0 };

	rig_scenario(&rig, "450", "[driver]\nlevel = 450\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	for (size_t i = 0; i < rig.out.n_readings; i++) {
		const struct reading *r = &rig.out.readings[i];

		if (r->known && r->metric != M_GPU_PROCESSES && r->metric != M_GPU_MEM)
			fail_msg("%s: %lld", metrics[r->metric].name, (long long) r->value);
	}
	source_nvml.probe(&rig.env, probes_take, &probes);
	for (int m = 0; m < METRIC_COUNT; m++) {
		if (probes.told[m] && probes.of[m].available && m != M_GPU_PROCESSES && m != M_GPROC_MEM && m != M_GPU_MEM)
			fail_msg("%s is said to be there", metrics[m].name);
	}
	assert_true(probes.told[M_GPU_TEMP] && !probes.of[M_GPU_TEMP].available);
	rig_done(&rig);
}

/* ---- what can be had ------------------------------------------------------------------------------------------------ */

CHILD_TEST(doctor_tells_ways_and_reasons)
{
	(void) state;
	struct nvml_rig rig;
	struct probes probes = { 0 };

	rig_new(&rig, "470", "driver-470.conf", 7);
	rig.root = temp_tree_root(&rig.tree);
	rig.env = (struct source_env) { .root = &rig.root };
	source_nvml.probe(&rig.env, probes_take, &probes);
	assert_true(probes.of[M_GPU_MEM].available);
	assert_non_null(strstr(probes.of[M_GPU_MEM].how, "what the driver reserved"));
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

/* ---- cost ----------------------------------------------------------------------------------------------------------- */

CHILD_TEST(lists_are_read_where_memory_moved)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "gpm.conf", 3);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	rig_log(&rig);
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "RunningProcesses", "0"), 0);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	rig_at(&rig, 6);
	rig_read(&rig, PROCESSES);
	assert_true(rig_calls(&rig, "GetComputeRunningProcesses_v3", "0") == 1);
	assert_int_equal(rig_calls(&rig, "GraphicsRunningProcesses", "0"), 0); /* nobody was in it a moment ago */
	assert_int_equal(rig_calls(&rig, "MPSComputeRunningProcesses", "0"), 0);
	assert_int_equal(rig_calls(&rig, "RunningProcesses", "1"), 0); /* nothing moved there */
	check_value(&rig.out, M_GPU_PROCESSES, 1, 2);
	rig_done(&rig);
}

/* Where lists cost more than there is credit for, whose memory is at a new high comes first; who is known no more is not
 * told of, and memory that stands still speaks for the list as it was. */
CHILD_TEST(lists_on_credit_are_for_new_highs)
{
	(void) state;
	struct nvml_rig rig;
	struct source_credit credit = { .ns = 100, .most_ns = 100000000 };

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nmemory_total = 8Gi\nmemory_reserved = 0\n"
		"[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_used = steps 0:1Gi 2:1029Mi 3:1536Mi\n"
		"[gpu 1]\nname = B\nuuid = GPU-2\npci = 00000000:02:00.0\nmemory_used = 1Gi\n");
	rig_at(&rig, 1);
	assert_int_equal(rig_try(&rig), 0);
	rig.env.credit = &credit;
	rig_read(&rig, MEMORY);
	rig_log(&rig);
	rig_read(&rig, PROCESSES); /* the first time in any case */
	assert_int_equal(rig_calls(&rig, "GetComputeRunningProcesses_v3", "0"), 1);
	assert_int_equal(rig_calls(&rig, "GetComputeRunningProcesses_v3", "1"), 1);
	assert_int_equal(rig_calls(&rig, "GraphicsRunningProcesses", "0"), 0); /* that can wait */
	assert_false(credit.moving);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 0);
	rig_log(&rig);
	rig_at(&rig, 2.5); /* half a per cent more: no new high */
	rig_read(&rig, MEMORY);
	assert_false(credit.moving);
	credit.ns = 100;
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "RunningProcesses", "0"), 0);
	assert_null(find_reading(&rig.out, M_GPU_PROCESSES, 1));
	check_value(&rig.out, M_GPU_PROCESSES, 2, 0);
	rig_at(&rig, 3.5);
	rig_read(&rig, MEMORY);
	assert_true(credit.moving);
	credit.ns = 0; /* nothing at all */
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "RunningProcesses", "0"), 0);
	credit.ns = 100;
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "GetComputeRunningProcesses_v3", "0"), 1);
	assert_int_equal(rig_calls(&rig, "RunningProcesses", "1"), 0);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 0);
	rig_done(&rig);
}

#define THREE_GPUS(a, b, c) \
	"[driver]\nlevel = 550\n[gpu 0-2]\nmemory_total = 80Gi\nmemory_reserved = 0\n" \
	"[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_used = " a "\n" \
	"[gpu 1]\nname = B\nuuid = GPU-2\npci = 00000000:02:00.0\nmemory_used = " b "\n" \
	"[gpu 2]\nname = C\nuuid = GPU-3\npci = 00000000:03:00.0\nmemory_used = " c "\n"

/* A move of GiB is worth a debt, that of a new high a larger one, and whose memory has moved most is first; less waits. */
CHILD_TEST(far_moves_are_listed_on_debt)
{
	(void) state;
	struct nvml_rig rig;
	struct source_credit credit = { .ns = 1000, .most_ns = 100000000 };

	rig_scenario(&rig, "550", THREE_GPUS("steps 0:1Gi 2:3Gi 3:1Gi", "steps 0:1Gi 2:50Gi", "steps 0:1Gi 2:1100Mi"));
	assert_int_equal(rig_try(&rig), 0);
	rig.env.credit = &credit;
	rig_read(&rig, MEMORY | PROCESSES);
	assert_int_equal(credit.floor_ns, 0);
	assert_int_equal(credit.lists, 3);
	assert_int_equal(credit.urgent, 0);
	rig_at(&rig, 2);
	rig_read(&rig, MEMORY);
	assert_int_equal(credit.floor_ns, -50000000);
	assert_int_equal(credit.urgent, 2);
	rig_log(&rig);
	credit.ns = -50000000;
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "0"), 0);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "1"), 0);
	credit.ns = -49999999; /* one */
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "0"), 0);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "1"), 1);
	assert_int_equal(credit.lists, 1);
	assert_int_equal(credit.urgent, 1);
	credit.ns = -30000000;
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "0"), 1);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "1"), 1);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "2"), 0);
	assert_int_equal(credit.floor_ns, 0);
	rig_at(&rig, 3); /* down again */
	rig_read(&rig, MEMORY);
	assert_int_equal(credit.floor_ns, -25000000);
	rig_done(&rig);
}

/* A look that comes early for one is for that one, whatever there is to be spent. */
CHILD_TEST(who_is_worth_no_debt_is_not_brought_along)
{
	(void) state;
	struct nvml_rig rig;
	struct source_credit credit = { .ns = 100000000, .most_ns = 100000000 };

	rig_scenario(&rig, "550", THREE_GPUS("steps 0:1Gi 2:50Gi", "steps 0:1Gi 2:1100Mi", "1Gi"));
	assert_int_equal(rig_try(&rig), 0);
	rig.env.credit = &credit;
	rig_read(&rig, MEMORY | PROCESSES);
	rig_at(&rig, 2);
	rig_read(&rig, MEMORY);
	rig_log(&rig);
	credit.debts_only = true;
	rig_read(&rig, PROCESSES);
	assert_int_equal(credit.lists, 1);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses_v3", "0"), 1);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "1"), 0);
	credit.debts_only = false;
	rig_read(&rig, PROCESSES);
	assert_int_equal(credit.lists, 1);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses_v3", "1"), 1);
	rig_done(&rig);
}

/* Who holds how much is what a list said until memory has moved away from it, and again from the next list on. */
CHILD_TEST(a_list_that_memory_has_left_is_no_word)
{
	(void) state;
	struct nvml_rig rig;
	const struct timespec stale = { .tv_sec = 1, .tv_nsec = 1000000 };
	struct source_credit credit = { .ns = 1000, .most_ns = 100000000 };

	rig_scenario(&rig, "550", THREE_GPUS("steps 0:1Gi 2:3Gi", "steps 0:1Gi 2:1025Mi", "1Gi") "[process 0]\npid = 7\nmemory = 1Gi\n");
	assert_int_equal(rig_try(&rig), 0);
	rig.env.credit = &credit;
	rig_read(&rig, MEMORY | PROCESSES);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	check_value(&rig.out, M_GPROC_MEM, 1, GIB);
	rig_at(&rig, 2);
	credit.ns = -100000000;
	rig_read(&rig, MEMORY);
	assert_null(find_reading(&rig.out, M_GPU_PROCESSES, 1)); /* a list may be on its way */
	nanosleep(&stale, NULL);
	rig_read(&rig, MEMORY);
	assert_non_null(find_reading(&rig.out, M_GPU_PROCESSES, 1));
	assert_false(find_reading(&rig.out, M_GPU_PROCESSES, 1)->known);
	assert_null(find_reading(&rig.out, M_GPU_PROCESSES, 2)); /* noise */
	assert_null(find_reading(&rig.out, M_GPU_PROCESSES, 3));
	rig_read(&rig, MEMORY); /* is said once */
	assert_null(find_reading(&rig.out, M_GPU_PROCESSES, 1));
	credit.ns = 1000;
	rig_read(&rig, MEMORY | PROCESSES);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	check_value(&rig.out, M_GPROC_MEM, 1, GIB);
	rig_done(&rig);
}

CHILD_TEST(what_is_absent_is_asked_once)
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
		{ "mismatch", a_driver_that_does_not_start_says_why, NULL, NULL, (void *) (uintptr_t) &closed[0] },
		{ "no-driver", a_driver_that_does_not_start_says_why, NULL, NULL, (void *) (uintptr_t) &closed[1] },
		cmocka_unit_test(no_library_is_another_thing_than_no_driver),
		cmocka_unit_test(a_lost_gpu_leaves_the_other),
		cmocka_unit_test(what_one_gpu_said_does_not_wait_for_the_next),
		cmocka_unit_test(processes_of_a_lost_gpu_are_gone),
		cmocka_unit_test(a_gpu_that_was_reset_goes_on),
		cmocka_unit_test(a_lost_gpu_is_asked_less_and_less_often),
		cmocka_unit_test(a_driver_that_is_reloaded),
		cmocka_unit_test(energy_goes_on_where_the_counter_ends),
		cmocka_unit_test(a_counter_of_energy_that_stands_still),
		cmocka_unit_test(a_counter_of_energy_that_stands_still_in_a_short_run),
		cmocka_unit_test(a_counter_of_energy_that_stood_still_comes_back),
		cmocka_unit_test(a_counter_of_energy_that_ended_comes_back),
		cmocka_unit_test(a_counter_of_energy_that_comes_after_power),
		cmocka_unit_test(an_error_of_power_is_not_told_of_energy),
		cmocka_unit_test(a_process_with_more_than_there_is),
		cmocka_unit_test(what_nobody_should_believe),
		cmocka_unit_test(a_gpu_that_is_not_ours_leaves_the_other),
		cmocka_unit_test(a_gpu_that_never_answered_is_there),
		cmocka_unit_test(a_gpu_that_comes_back_tells_its_memory),
		cmocka_unit_test(a_total_that_was_not_had_is_had_later),
		cmocka_unit_test(a_sleeping_gpu_is_not_woken),
		cmocka_unit_test(every_call_may_fail),
		cmocka_unit_test(all_ones_and_nonsense_are_absent),
		cmocka_unit_test(what_is_refused_is_told_once),
		cmocka_unit_test(what_gpm_says_is_refused_once),
		cmocka_unit_test(samples_that_are_refused_are_told_once),
		cmocka_unit_test(what_cannot_be_is_left_out),
		cmocka_unit_test(what_cannot_be_is_left_out_by_old_calls),
		cmocka_unit_test(all_ones_behind_a_value),
		cmocka_unit_test(figures_that_cease),
		cmocka_unit_test(a_bare_device_has_nothing),
		cmocka_unit_test(doctor_tells_ways_and_reasons),
		cmocka_unit_test(doctor_waits_for_a_pair),
		cmocka_unit_test(lists_are_read_where_memory_moved),
		cmocka_unit_test(waking_notes_no_list_again),
		cmocka_unit_test(waking_notes_no_figure_again),
		cmocka_unit_test(lists_on_credit_are_for_new_highs),
		cmocka_unit_test(who_is_worth_no_debt_is_not_brought_along),
		cmocka_unit_test(far_moves_are_listed_on_debt),
		cmocka_unit_test(a_list_that_memory_has_left_is_no_word),
		cmocka_unit_test(what_is_absent_is_asked_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
