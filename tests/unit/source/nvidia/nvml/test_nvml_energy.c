/* SPDX-License-Identifier: MIT
 *
 * The NVML source with an energy counter that is missing, ends, is stuck or returns: integrated
 * power replaces it. Power is read in one group, and the counter, less often, in another.
 */
#include "nvml_rig.h"
#include "source/nvidia/nvml/internal.h"

static_assert(MEMORY == 1 << NVML_GROUP_MEMORY && ACTIVITY == 1 << NVML_GROUP_ACTIVITY &&
		      COUNTERS == 1 << NVML_GROUP_COUNTERS && RARE == 1 << NVML_GROUP_RARE &&
		      PROCESSES == 1 << NVML_GROUP_PROCESSES && GPM == 1 << NVML_GROUP_GPM &&
		      EVENTS == 1 << NVML_GROUP_EVENTS && ALL_GROUPS == (1u << NVML_GROUPS) - 1,
	"nvml_rig.h has the groups of enum nvml_group");

enum {
	DRAWN_W = 250
};

/* Reads power, then energy. */
static void read_both(struct nvml_rig *rig)
{
	rig_read(rig, ACTIVITY);
	assert_null(find_reading(&rig->out, M_GPU_ENERGY, 1));
	rig_read(rig, RARE);
}

/* Lets time pass; energy at that power. */
static int64_t pass(struct nvml_rig *rig, unsigned ms)
{
	for (size_t i = 0; i < rig->s->n_gpus; i++) {
		struct nvml_power *p = &rig->s->gpus[i]->power;

		p->read_ns -= p->read_ns ? ms * UINT64_C(1000000) : 0;
		p->moved_ns -= p->moved_ns ? ms * UINT64_C(1000000) : 0;
	}
	return ms * INT64_C(1000) * DRAWN_W;
}

/* Energy at that power over this time since the read before. */
static int64_t later(struct nvml_rig *rig, unsigned ms)
{
	const int64_t drawn = pass(rig, ms);

	read_both(rig);
	return drawn;
}

static int64_t three_seconds_later(struct nvml_rig *rig)
{
	return later(rig, 3000);
}

/* Energy above least was drawn while the test itself ran. */
static void check_energy(const struct nvml_rig *rig, uint32_t gpu, int64_t least, uint64_t began_ns)
{
	const struct reading *r = find_reading(&rig->out, M_GPU_ENERGY, gpu);

	assert_true(r && r->known);
	assert_in_range(
		r->value, least, least + (int64_t) ((clock_boot_ns() - began_ns) / 1000 * DRAWN_W) + DRAWN_W);
}

/* The counter is used until it ends, and power is integrated from there: each joule counts once. */
CHILD_TEST(energy_continues_where_the_counter_ends)
{
	(void) state;
	struct nvml_rig rig;
	const uint64_t began_ns = clock_boot_ns();
	int64_t so_far = INT64_C(9000000000);

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n"
		"power = 250000\nenergy = steps 0:8000000 3:9000000 6:absent\n");
	rig_open(&rig);
	read_both(&rig);
	check_value(&rig.out, M_GPU_ENERGY, 1, INT64_C(8000000000));
	rig_at(&rig, 3);
	(void) three_seconds_later(&rig);
	check_value(&rig.out, M_GPU_ENERGY, 1, so_far);
	assert_int_equal(rig.out.n_events, 0);
	rig_at(&rig, 6);
	so_far += three_seconds_later(&rig);
	check_energy(&rig, 1, so_far, began_ns);
	assert_true(has_mere_note(&rig.out, "gpu.energy", "GPU 0: its energy counter became unavailable"));
	so_far += three_seconds_later(&rig);
	check_energy(&rig, 1, so_far, began_ns);
	rig_done(&rig);
}

/* GPU 1 draws no power, so its counter may stay constant. */
CHILD_TEST(a_stuck_energy_counter)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 1Gi\n"
		"power = 250000\nenergy = 8000000\n[gpu 1]\npower = 0\n");
	rig_open(&rig);
	read_both(&rig);
	check_value(&rig.out, M_GPU_ENERGY, 1, INT64_C(8000000000));
	const int64_t more = three_seconds_later(&rig);

	check_energy(&rig, 1, INT64_C(8000000000) + more, began_ns);
	assert_true(has_note(
		&rig.out, "gpu.energy", "GPU 0: its energy counter does not advance while power is drawn"));
	check_value(&rig.out, M_GPU_ENERGY, 2, INT64_C(8000000000));
	assert_int_equal(rig.out.n_events, 1);
	rig_done(&rig);
}

/* A run may end before that time: the last read uses a shorter one. */
CHILD_TEST(a_stuck_energy_counter_in_a_short_run)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct source_budget budget = { .most_ns = 100000000 };
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 1Gi\n"
		"power = 250000\nenergy = 0\n[gpu 1]\nenergy = steps 0:0 1:100\n");
	assert_int_equal(rig_try(&rig), 0);
	rig.env.budget = &budget;
	read_both(&rig);
	budget.last = true;
	rig_at(&rig, 1);
	const int64_t drawn = later(&rig, 400);

	check_energy(&rig, 1, drawn, began_ns);
	assert_true(has_note(
		&rig.out, "gpu.energy", "GPU 0: its energy counter does not advance while power is drawn"));
	check_value(&rig.out, M_GPU_ENERGY, 2, 100000);
	assert_int_equal(rig.out.n_events, 1);
	rig_done(&rig);
}

#define COMES_BACK(energy) \
	"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n" \
	"power = 250000\nenergy = " energy "\n[call nvmlDevice*]\nfrom = 5\nuntil = 8\nerror = 15\n"

/* Energy reported from power beyond the counter, t seconds in, counts once; then the device is lost
 * and found again. */
static int64_t reported_until_return(struct nvml_rig *rig, double t, uint64_t began_ns)
{
	rig_open(rig);
	rig->s->retry_first_ns = 0;
	read_both(rig);
	check_value(&rig->out, M_GPU_ENERGY, 1, INT64_C(8000000000));
	rig_at(rig, t);
	const int64_t more = three_seconds_later(rig);

	check_energy(rig, 1, INT64_C(8000000000) + more, began_ns);
	const int64_t reported = find_reading(&rig->out, M_GPU_ENERGY, 1)->value;

	rig_at(rig, 6);
	rig_read(rig, ALL_GROUPS & ~(unsigned) RARE);
	assert_false(find_reading(&rig->out, M_GPU_ENERGY, 1)->known);
	rig_at(rig, 9);
	rig_read(rig, MEMORY);
	assert_true(has_note(&rig->out, "gpu", "GPU 0: it answers again"));
	read_both(rig);
	return reported;
}

/* It has advanced, and is below the reported energy: it stays ignored, and is not taken for a
 * reset. */
CHILD_TEST(a_stuck_energy_counter_returns)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct nvml_rig rig;

	rig_scenario(&rig, "550", COMES_BACK("steps 0:8000000 8:8000100"));
	const int64_t reported = reported_until_return(&rig, 1, began_ns);

	check_energy(&rig, 1, reported, began_ns);
	const int64_t more = three_seconds_later(&rig);

	check_energy(&rig, 1, reported + more, began_ns);
	rig_done(&rig);
}

/* A counter that had ended continues from the energy reported meanwhile, by as much as it
 * advances. */
CHILD_TEST(an_ended_energy_counter_returns)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550", COMES_BACK("steps 0:8000000 2:absent 8:8000100 10:8000300"));
	const int64_t reported = reported_until_return(&rig, 3, clock_boot_ns());

	check_value(&rig.out, M_GPU_ENERGY, 1, reported);
	rig_at(&rig, 10);
	read_both(&rig);
	check_value(&rig.out, M_GPU_ENERGY, 1, reported + 200000);
	rig_done(&rig);
}

/* What it counted before belongs to no run. */
CHILD_TEST(an_energy_counter_that_appears_after_power)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct nvml_rig rig;

	rig_scenario(&rig, "550", COMES_BACK("steps 0:absent 8:8000000 10:8000300"));
	rig_open(&rig);
	rig.s->retry_first_ns = 0;
	read_both(&rig);
	const int64_t drawn = three_seconds_later(&rig);

	check_energy(&rig, 1, drawn, began_ns);
	const int64_t reported = find_reading(&rig.out, M_GPU_ENERGY, 1)->value;

	rig_at(&rig, 6);
	rig_read(&rig, ALL_GROUPS & ~(unsigned) RARE);
	rig_at(&rig, 9);
	rig_read(&rig, MEMORY);
	read_both(&rig);
	check_value(&rig.out, M_GPU_ENERGY, 1, reported);
	rig_at(&rig, 10);
	read_both(&rig);
	check_value(&rig.out, M_GPU_ENERGY, 1, reported + 300000);
	rig_done(&rig);
}

/* The error concerns power, from which the energy is made. */
CHILD_TEST(an_error_of_power_is_not_noted_for_energy)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\npower = 250000\n"
		"[call nvmlDeviceGetPowerUsage]\nfrom = 2\nuntil = 5\nerror = 999\n");
	rig_open(&rig);
	read_both(&rig);
	check_value(&rig.out, M_GPU_ENERGY, 1, 0);
	rig_at(&rig, 3);
	rig_read(&rig, ACTIVITY);
	assert_true(has_note(&rig.out, "gpu", "GPU 0: the driver returns error 999 for gpu.power"));
	rig_read(&rig, RARE);
	assert_false(has_note(&rig.out, "gpu", "gpu.energy"));
	assert_false(find_reading(&rig.out, M_GPU_ENERGY, 1)->known);
	rig_done(&rig);
}

/* ---- in the helper's rhythm ------------------------------------------------------------------ */

/* Reads power each 0.2 s, from at_ms on until until_ms, and energy at the end. Returns the energy drawn. */
static int64_t helper_reads(struct nvml_rig *rig, unsigned at_ms, unsigned until_ms)
{
	int64_t drawn = 0;

	while (at_ms < until_ms) {
		at_ms += 200;
		drawn += pass(rig, 200);
		rig_at(rig, at_ms / 1000.0);
		rig_read(rig, ACTIVITY);
		assert_non_null(find_reading(&rig->out, M_GPU_POWER, 1));
		assert_null(find_reading(&rig->out, M_GPU_ENERGY, 1));
	}
	rig_read(rig, RARE);
	return drawn;
}

/* It stops between two reads of it: no read shows when. From its last value on each joule counts once. */
CHILD_TEST(a_counter_gets_stuck_between_two_reads)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct nvml_rig rig;
	int64_t so_far = INT64_C(8750000000);

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 1Gi\n"
		"power = 250000\nenergy = steps 0:8000000 3:8750000\n"
		"[gpu 1]\nenergy = steps 0:1000000 5:2250000 10:3500000 15:4750000\n");
	rig_open(&rig);
	read_both(&rig);
	check_value(&rig.out, M_GPU_ENERGY, 1, INT64_C(8000000000));
	(void) helper_reads(&rig, 0, 5000);
	check_value(&rig.out, M_GPU_ENERGY, 1, so_far);
	assert_int_equal(rig.out.n_events, 0);
	so_far += helper_reads(&rig, 5000, 10000);
	check_energy(&rig, 1, so_far, began_ns);
	check_value(&rig.out, M_GPU_ENERGY, 2, INT64_C(3500000000));
	assert_true(has_note(
		&rig.out, "gpu.energy", "GPU 0: its energy counter does not advance while power is drawn"));
	assert_int_equal(rig.out.n_events, 1);
	so_far += helper_reads(&rig, 10000, 15000);
	check_energy(&rig, 1, so_far, began_ns);
	check_value(&rig.out, M_GPU_ENERGY, 2, INT64_C(4750000000));
	assert_int_equal(rig.out.n_events, 0);
	rig_done(&rig);
}

CHILD_TEST(a_counter_ends_between_two_reads)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct nvml_rig rig;
	int64_t so_far = INT64_C(9250000000);

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n"
		"power = 250000\nenergy = steps 0:8000000 5:9250000 7:absent\n");
	rig_open(&rig);
	read_both(&rig);
	(void) helper_reads(&rig, 0, 5000);
	check_value(&rig.out, M_GPU_ENERGY, 1, so_far);
	so_far += helper_reads(&rig, 5000, 10000);
	check_energy(&rig, 1, so_far, began_ns);
	assert_true(has_mere_note(&rig.out, "gpu.energy", "GPU 0: its energy counter became unavailable"));
	so_far += helper_reads(&rig, 10000, 15000);
	check_energy(&rig, 1, so_far, began_ns);
	rig_done(&rig);
}

/* The counter is read some time after power: what was drawn before that is in the counter. */
CHILD_TEST(power_counts_from_the_counters_last_value_on)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n"
		"power = 250000\nenergy = steps 0:8000000 1:8500000\n");
	rig_open(&rig);
	read_both(&rig);
	(void) pass(&rig, 2000);
	rig_at(&rig, 2);
	rig_read(&rig, RARE);
	check_value(&rig.out, M_GPU_ENERGY, 1, INT64_C(8500000000));
	const int64_t more = later(&rig, 3000);

	check_energy(&rig, 1, INT64_C(8500000000) + more, began_ns);
	assert_true(has_note(
		&rig.out, "gpu.energy", "GPU 0: its energy counter does not advance while power is drawn"));
	rig_done(&rig);
}

/* The device is lost after power was read, but before energy is; then it returns with its counter. */
CHILD_TEST(energy_until_the_loss_is_not_lost)
{
	(void) state;
	const uint64_t began_ns = clock_boot_ns();
	struct nvml_rig rig;
	int64_t so_far = INT64_C(9250000000);

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n"
		"power = 250000\nenergy = steps 0:8000000 5:9250000 7:absent 14:9250100 20:9250300\n"
		"[call nvmlDevice*]\nfrom = 12.1\nuntil = 14\nerror = 15\n");
	rig_open(&rig);
	rig.s->retry_first_ns = 0;
	read_both(&rig);
	(void) helper_reads(&rig, 0, 5000);
	so_far += helper_reads(&rig, 5000, 10000);
	check_energy(&rig, 1, so_far, began_ns);
	for (int i = 0; i < 10; i++) { /* 2 s */
		so_far += pass(&rig, 200);
		rig_read(&rig, ACTIVITY);
	}
	rig_at(&rig, 13);
	rig_read(&rig, MEMORY);
	assert_false(find_reading(&rig.out, M_GPU_ENERGY, 1)->known);
	rig_at(&rig, 15);
	rig_read(&rig, MEMORY);
	assert_true(has_note(&rig.out, "gpu", "GPU 0: it answers again"));
	read_both(&rig);
	check_energy(&rig, 1, so_far, began_ns);
	so_far = find_reading(&rig.out, M_GPU_ENERGY, 1)->value;
	rig_at(&rig, 20);
	read_both(&rig);
	check_value(&rig.out, M_GPU_ENERGY, 1, so_far + 200000);
	rig_done(&rig);
}

/* Without a counter and before the first read of power there is nothing to report, and nothing to note. */
CHILD_TEST(energy_waits_for_power)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\npower = 250000\n");
	rig_open(&rig);
	rig_read(&rig, RARE);
	check_absent(&rig.out, M_GPU_ENERGY, 1);
	assert_int_equal(rig.out.n_events, 0);
	read_both(&rig);
	check_value(&rig.out, M_GPU_ENERGY, 1, 0);
	assert_true(has_mere_note(&rig.out, "gpu.energy", "GPU 0: no energy counter"));
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(energy_continues_where_the_counter_ends),
		cmocka_unit_test(a_stuck_energy_counter),
		cmocka_unit_test(a_stuck_energy_counter_in_a_short_run),
		cmocka_unit_test(a_stuck_energy_counter_returns),
		cmocka_unit_test(an_ended_energy_counter_returns),
		cmocka_unit_test(an_energy_counter_that_appears_after_power),
		cmocka_unit_test(an_error_of_power_is_not_noted_for_energy),
		cmocka_unit_test(a_counter_gets_stuck_between_two_reads),
		cmocka_unit_test(a_counter_ends_between_two_reads),
		cmocka_unit_test(power_counts_from_the_counters_last_value_on),
		cmocka_unit_test(energy_until_the_loss_is_not_lost),
		cmocka_unit_test(energy_waits_for_power),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
