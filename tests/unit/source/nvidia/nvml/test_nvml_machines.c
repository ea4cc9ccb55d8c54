/* SPDX-License-Identifier: MIT
 *
 * The NVML source on many kinds of machines. Expected values are those of the scenarios
 * (tests/fake/scenarios).
 */
#include "base/clock.h"
#include "nvml_rig.h"
#include "source/nvidia/nvml/internal.h"

/* ---- Hopper and later ------------------------------------------------------------------------ */

CHILD_TEST(gpm_reports_the_mean_between_two_samples)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "gpm.conf", 0);
	rig_open(&rig);
	uint64_t begin = clock_boot_ns();

	rig_read(&rig, ALL_GROUPS);
	check_absent(&rig.out, M_GPU_SM_ACTIVE, 1); /* one sample is no pair */
	rig_at(&rig, 1);
	rig_read(&rig, GPM); /* too soon after the first, by the real clock */
	assert_int_equal(rig.out.n_readings, 0);
	rig_wait_gpm();
	rig_read(&rig, GPM);
	uint64_t longest = clock_boot_ns() - begin;

	check_value(&rig.out, M_GPU_GRAPHICS_ACTIVE, 1, 970000);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 1, 510000);
	check_value(&rig.out, M_GPU_SM_OCCUPANCY, 1, 240000);
	check_value(&rig.out, M_GPU_TENSOR_ACTIVE, 1, 310000);
	check_value(&rig.out, M_GPU_DRAM_ACTIVE, 1, 360000);
	check_value(&rig.out, M_GPU_FP64_ACTIVE, 1, 0);
	check_value(&rig.out, M_GPU_FP32_ACTIVE, 1, 90000);
	check_value(&rig.out, M_GPU_FP16_ACTIVE, 1, 20000);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 2, 0); /* idle: a measured zero */
	const struct reading *sent = find_reading(&rig.out, M_GPU_PCIE_TX, 1);

	assert_true(sent && sent->known && sent->value >= 286 * MIB / 10 &&
		    (double) sent->value <= 286.0 * MIB * (double) longest / 1e9);
	/* a mean over the time between the two samples; the total of a rate is of the moment */
	const uint64_t between = find_reading(&rig.out, M_GPU_SM_ACTIVE, 1)->span_ns;

	assert_in_range(between, 100000000, longest);
	assert_int_equal(find_reading(&rig.out, M_GPU_FP16_ACTIVE, 1)->span_ns, between);
	assert_int_equal(sent->span_ns, 0);
	/* reported by the driver's own counter, in another group */
	check_absent(&rig.out, M_GPU_NVLINK_TX, 1);
	rig_at(&rig, 4);
	rig_wait_gpm();
	rig_read(&rig, GPM);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 1, 340000); /* two of three seconds at 51% */
	rig_done(&rig);
}

CHILD_TEST(counters_and_states_of_a_card)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "gpm.conf", 0);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	rig_at(&rig, 15);
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_THROTTLE_POWER, 1, 5000000000);
	check_value(&rig.out, M_GPU_THROTTLE_THERMAL, 1, 0);
	check_value(&rig.out, M_GPU_NVLINK_TX, 1, 15 * 200000000LL * 1024);
	check_value(&rig.out, M_GPU_NVLINK_RX, 1, 15 * 200000000LL * 1024);
	check_value(&rig.out, M_GPU_TEMP, 1, 40000); /* 39.75, whole degrees */
	check_value(&rig.out, M_GPU_TEMP_MEM, 1, 47000);
	check_value(&rig.out, M_GPU_CLOCK_SM, 1, 1755000000);
	check_value(&rig.out, M_GPU_CLOCK_MEM, 1, 2619000000);
	check_value(&rig.out, M_GPU_POWER_LIMIT, 1, 700000000);
	check_value(&rig.out, M_GPU_ECC_CORRECTED, 1, 0);
	check_value(&rig.out, M_GPU_XID, 1, 0);
	check_absent(&rig.out, M_GPU_FAN, 1); /* it has no fan */
	/* Energy is the integral of power from 1 MJ: three of four periods at 552 W, 118 W else,
	 * and 3 s of the fourth. */
	int64_t joules = 1000 + 552 * 12 + 118 * 3;

	check_value(&rig.out, M_GPU_ENERGY, 1, joules * 1000000);
	rig_done(&rig);
}

#define BARE_GPU \
	"[driver]\nlevel = 580\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n"

/* The total of a rate lies between those of the shortest and the longest possible time. */
static void check_rate(const struct framebuf *out, enum metric metric, int64_t mib_s, uint64_t longest_ns)
{
	const struct reading *r = find_reading(out, metric, 1);

	assert_true(r && r->known);
	assert_true(r->value >= mib_s * MIB / 10 &&
		    (double) r->value <= (double) (mib_s * MIB) * (double) longest_ns / 1e9);
}

CHILD_TEST(traffic_without_counters_is_gpm_over_time)
{
	(void) state;
	struct nvml_rig rig;
	uint64_t begin = clock_boot_ns();

	rig_scenario(&rig, "580",
		BARE_GPU
		"gpm 20 = 300\ngpm 21 = 700\ngpm 60 = 2000\ngpm 61 = 100\nfield 197 = 5\nfield 198 = 5\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	rig_wait_gpm();
	rig_at(&rig, 1);
	rig_read(&rig, ALL_GROUPS);
	uint64_t longest = clock_boot_ns() - begin;

	check_rate(&rig.out, M_GPU_PCIE_TX, 300, longest);
	check_rate(&rig.out, M_GPU_PCIE_RX, 700, longest);
	check_rate(&rig.out, M_GPU_NVLINK_RX, 2000, longest);
	check_rate(&rig.out, M_GPU_NVLINK_TX, 100, longest);
	assert_true(find_reading(&rig.out, M_GPU_NVLINK_TX, 1)->value <
		    find_reading(&rig.out, M_GPU_NVLINK_RX, 1)->value / 10);
	assert_true(find_reading(&rig.out, M_GPU_PCIE_TX, 1)->value <
		    find_reading(&rig.out, M_GPU_PCIE_RX, 1)->value / 2);
	rig_done(&rig);
}

/* A run of half a second, read as the helper does: the second sample soon after the first, the third at the
 * end. The bytes between the last two are the job's. */
CHILD_TEST(a_short_run_has_its_traffic)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "580", BARE_GPU "gpm 2 = 40\ngpm 20 = 300\ngpm 21 = 700\n");
	rig_open(&rig);
	for (unsigned g = 0; g < NVML_GROUPS; g++)
		rig_read(&rig, 1u << g);
	rig_wait_gpm();
	rig_at(&rig, 0.11);
	const uint64_t second_ns = clock_boot_ns();

	rig_read(&rig, GPM);
	assert_true(find_reading(&rig.out, M_GPU_PCIE_TX, 1) && find_reading(&rig.out, M_GPU_PCIE_RX, 1));
	const int64_t sent = find_reading(&rig.out, M_GPU_PCIE_TX, 1)->value,
		      received = find_reading(&rig.out, M_GPU_PCIE_RX, 1)->value;

	rig_wait_gpm();
	rig_at(&rig, 0.5);
	rig_read(&rig, GPM);
	const struct reading *tx = find_reading(&rig.out, M_GPU_PCIE_TX, 1),
			     *rx = find_reading(&rig.out, M_GPU_PCIE_RX, 1);
	const double least_s = 0.1, most_s = (double) (clock_boot_ns() - second_ns) / 1e9;

	assert_true(tx && tx->known && rx && rx->known);
	assert_true((double) (tx->value - sent) >= 300.0 * MIB * least_s &&
		    (double) (tx->value - sent) <= 300.0 * MIB * most_s);
	assert_true((double) (rx->value - received) >= 700.0 * MIB * least_s &&
		    (double) (rx->value - received) <= 700.0 * MIB * most_s);
	rig_done(&rig);
}

/* The driver's counters of PCIe are expensive, so they are read only where GPM does not report PCIe. */
CHILD_TEST(fields_that_gpm_replaces_are_not_read)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "580",
		"[driver]\nlevel = 580\n[gpu 0-1]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 1Gi\n"
		"field 197 = rate 300 7\nfield 198 = rate 700 9\nfield 82 = rate 1 50\n[gpu 0]\ngpm 20 = 300\ngpm 21 = 700\n");
	rig_open(&rig);
	rig_read(&rig, COUNTERS); /* finds out what GPM reports */
	rig_at(&rig, 10);
	rig_read(&rig, COUNTERS);
	const struct nvml_fields *f = &rig.s->gpus[0]->fields;

	assert_int_equal(f->raw[FIELD_PCIE_TX], 7);
	assert_int_equal(f->raw[FIELD_PCIE_RX], 9);
	check_value(&rig.out, M_GPU_TEMP_MEM, 1, 60000); /* in the same call */
	assert_null(find_reading(&rig.out, M_GPU_PCIE_TX, 1));
	check_value(&rig.out, M_GPU_PCIE_TX, 2, 3007);
	check_value(&rig.out, M_GPU_PCIE_RX, 2, 7009);
	rig_done(&rig);
}

/* A row with a stamp in the future among valid ones is ignored, and later rows are used. */
CHILD_TEST(a_row_from_the_future_hides_no_other)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "580",
		BARE_GPU
		"[process 0]\npid = $HIWATER_FAKE_PID\nmemory = 1Gi\nsm = 40\n[process 0]\npid = 4100001\nmemory = 1Gi\nsm = 90\nahead = 9e7\n");
	rig_at(&rig, 3);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	const uint32_t mine = find_process(&rig.out, 1, getpid())->id,
		       other = find_process(&rig.out, 1, 4100001)->id;

	check_mean(&rig.out, M_GPROC_SM_BUSY, mine, 400000, 400000, 400000);
	assert_null(find_reading(&rig.out, M_GPROC_SM_BUSY, other));
	rig_at(&rig, 9);
	rig_read(&rig, PROCESSES);
	check_mean(&rig.out, M_GPROC_SM_BUSY, mine, 400000, 400000, 400000);
	rig_done(&rig);
}

CHILD_TEST(traffic_without_gpm_is_counted_by_fields)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "580",
		BARE_GPU
		"field 197 = rate 300 7\nfield 198 = rate 700 9\nfield 202 = rate 11\nfield 204 = rate 13\n");
	rig_open(&rig);
	rig_at(&rig, 10);
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_PCIE_TX, 1, 3007);
	check_value(&rig.out, M_GPU_PCIE_RX, 1, 7009);
	check_value(&rig.out, M_GPU_NVLINK_TX, 1, 110);
	check_value(&rig.out, M_GPU_NVLINK_RX, 1, 130);
	rig_done(&rig);
}

CHILD_TEST(processes_come_and_go)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "gpm.conf", 4);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	const struct birth *born = find_process(&rig.out, 1, getpid());

	assert_non_null(born);
	uint32_t mine = born->id;

	assert_null(find_process(&rig.out, 1, 4100000));
	check_value(&rig.out, M_GPROC_MEM, mine, 23 * GIB);
	check_mean(&rig.out, M_GPROC_SM_BUSY, mine, 950000, 950000, 950000);
	rig_at(&rig, 6);
	rig_read(&rig, PROCESSES);
	born = find_process(&rig.out, 1, 4100000);
	assert_non_null(born);
	uint32_t other = born->id;

	assert_true(other > mine);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 2);
	check_value(&rig.out, M_GPROC_MEM, other, 1540 * MIB);
	check_mean(&rig.out, M_GPROC_SM_BUSY, other, 20000, 20000, 20000);
	check_value(&rig.out, M_GPU_MEM, 1, 23 * GIB + 1544 * MIB);
	rig_read(&rig, PROCESSES); /* no newer sample: neither utilisation nor zeros are reported */
	assert_null(find_reading(&rig.out, M_GPROC_SM_BUSY, mine));
	check_value(&rig.out, M_GPROC_MEM, mine, 23 * GIB);
	rig_at(&rig, 46);
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig.out.n_ends, 1);
	assert_int_equal(rig.out.ends[0].entity, ENTITY_GPU_PROCESS);
	assert_int_equal(rig.out.ends[0].id, other);
	check_value(&rig.out, M_GPROC_MEM, mine, 31 * GIB);
	rig_done(&rig);
}

/* ---- the current values, and data that the driver keeps -------------------------------------- */

/* They are means already, and the driver's own samples of them cost milliseconds. */
CHILD_TEST(utilisation_and_power_are_the_current_values)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n"
		"util = square 20 80 2 0.5\nutil_memory = 10\npower = square 300000 100000 2 0.5\n");
	rig_at(&rig, 1.05);
	rig_log(&rig);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_BUSY, 1, 200000);
	check_value(&rig.out, M_GPU_POWER, 1, 300000000);
	rig_at(&rig, 2.95);
	rig_read(&rig, ACTIVITY);
	check_value(&rig.out, M_GPU_BUSY, 1, 800000);
	check_value(&rig.out, M_GPU_POWER, 1, 100000000);
	check_value(&rig.out, M_GPU_MEM_BUSY, 1, 100000);
	assert_int_equal(rig_calls(&rig, "nvmlDeviceGetUtilizationRates", "0"), 2);
	assert_int_equal(rig_calls(&rig, "nvmlDeviceGetSamples", "0"), 0);
	rig_done(&rig);
}

CHILD_TEST(accounting_is_the_drivers_own_mark)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "580", "accounting.conf", 3);
	rig_open(&rig);
	rig_read(&rig, PROCESSES);
	const struct birth *born = find_process(&rig.out, 1, 4100002);

	assert_non_null(born);
	uint32_t id = born->id;

	check_value(&rig.out, M_GPROC_MEM_PEAK, id, 1300 * MIB);
	check_value(&rig.out, M_GPROC_MEM, id, 1 * GIB);
	rig_at(&rig, 6);
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig.out.n_ends, 1);
	assert_int_equal(rig.out.ends[0].id, id);
	check_value(&rig.out, M_GPROC_MEM_PEAK, id, 1300 * MIB); /* read once more after its end */
	rig_done(&rig);
}

/* The first value of the mark of a process that began that many seconds after the run. */
static int64_t first_mark(const char *from)
{
	struct nvml_rig rig;
	char text[1024];

	(void) snprintf(text, sizeof(text),
		"[driver]\nlevel = 580\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 80Gi\n"
		"memory_used = 20Gi\naccounting_mode = 1\n"
		"[process 0]\npid = 4100002\nfrom = %s\nmemory = 1Gi\naccount_memory = 50Gi\n",
		from);
	rig_scenario(&rig, "580", text);
	rig_at(&rig, 3);
	rig.root = temp_tree_root(&rig.tree);
	rig.env = (struct source_env) { .root = &rig.root, .start_boot_ns = clock_boot_ns() - 2000000000 };
	assert_int_equal(source_nvml.open(&rig.env, &rig.s, &rig.err), 0);
	rig_read(&rig, PROCESSES);
	const struct birth *born = find_process(&rig.out, 1, 4100002);

	assert_non_null(born);
	const struct reading *first_read = rig.out.readings;

	check_value(&rig.out, M_GPROC_MEM_PEAK, born->id, 50 * GIB); /* the last one */
	while (first_read->metric != M_GPROC_MEM_PEAK)
		first_read++;
	const int64_t first = first_read->value;

	rig_done(&rig);
	return first;
}

CHILD_TEST(a_mark_that_began_in_the_run_began_at_zero)
{
	(void) state;
	assert_int_equal(first_mark("2.5"), 0);
}

CHILD_TEST(a_mark_that_began_before_the_run_did_not)
{
	(void) state;
	assert_int_equal(first_mark("-3600"), 50 * GIB);
}

/* Accounting data of a listed process which the driver reports as ended, with that start time. */
static bool has_mark(const char *epoch)
{
	struct nvml_rig rig;
	char text[1024];

	(void) snprintf(text, sizeof(text),
		"[driver]\nlevel = 580\nepoch = %s\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 80Gi\n"
		"memory_used = 20Gi\naccounting_mode = 1\n"
		"[process 0]\npid = 4100002\nuntil = 1\nmemory = 1Gi\naccount_memory = 50Gi\n"
		"[process 0]\npid = 4100002\nfrom = 2\nmemory = 20Gi\n",
		epoch);
	rig_scenario(&rig, "580", text);
	temp_tree_put(&rig.tree, "proc/4100002/stat",
		"4100002 (train) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 4096 1 18446744073709551615 1 1 1 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	rig_at(&rig, 3);
	rig_open(&rig);
	rig_read(&rig, PROCESSES);
	const struct birth *born = find_process(&rig.out, 1, 4100002);

	assert_non_null(born);
	check_value(&rig.out, M_GPROC_MEM, born->id, 20 * GIB);
	const bool has = find_reading(&rig.out, M_GPROC_MEM_PEAK, born->id) != NULL;

	rig_done(&rig);
	return has;
}

CHILD_TEST(the_mark_of_an_earlier_process_of_that_pid)
{
	(void) state;
	assert_false(has_mark("1000000000"));
}

CHILD_TEST(the_mark_of_one_that_has_just_ended)
{
	(void) state;
	assert_true(has_mark("4000000000"));
}

/* ---- integrals ------------------------------------------------------------------------------- */

CHILD_TEST(without_counters_time_is_added_up)
{
	(void) state;
	struct nvml_rig rig;

	/* 0xe8: hardware slowdown, software and hardware thermal, power brake */
	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n"
		"power = 100000\nevent_reasons = 0xe8\n");
	rig_open(&rig);
	uint64_t begin = clock_boot_ns();

	rig_read(&rig, ACTIVITY | COUNTERS | RARE);
	check_value(&rig.out, M_GPU_ENERGY, 1, 0);
	assert_true(has_note(&rig.out, "gpu.energy", "integrated"));
	rig_wait_gpm();
	rig_read(&rig, ACTIVITY | COUNTERS | RARE);
	int64_t longest = (int64_t) (clock_boot_ns() - begin), shortest = 100000000;
	const struct reading *energy = find_reading(&rig.out, M_GPU_ENERGY, 1),
			     *thermal = find_reading(&rig.out, M_GPU_THROTTLE_THERMAL, 1),
			     *hw = find_reading(&rig.out, M_GPU_THROTTLE_HW, 1);

	/* 100 W: 1 uJ each 10 ns */
	assert_true(energy->known && energy->value >= shortest / 10 && energy->value <= longest / 10);
	assert_true(thermal->known && thermal->value >= shortest && thermal->value <= longest);
	assert_true(hw->known && hw->value == thermal->value);
	check_value(&rig.out, M_GPU_THROTTLE_POWER, 1, 0);
	check_value(&rig.out, M_GPU_THROTTLE_OTHER, 1, 0);
	assert_int_equal(rig.out.n_events, 0); /* noted once */
	rig_done(&rig);
}

/* Thermal and hardware throttling over a tenth of a second and more, and what is noted. */
struct throttled {
	int64_t thermal_ns, hw_ns, least_ns, most_ns;
	bool noted;
};

static struct throttled throttled(const char *keys, double span_s)
{
	struct nvml_rig rig;
	struct throttled t;
	char text[512];

	(void) snprintf(text, sizeof(text),
		"[driver]\nlevel = 580\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\n%s",
		keys);
	rig_scenario(&rig, "580", text);
	rig_open(&rig);
	const uint64_t begin = clock_boot_ns();

	rig_read(&rig, COUNTERS);
	const struct reading *thermal = find_reading(&rig.out, M_GPU_THROTTLE_THERMAL, 1),
			     *hw = find_reading(&rig.out, M_GPU_THROTTLE_HW, 1);

	assert_true(thermal && thermal->known);
	t.noted = has_note(&rig.out, "gpu", "throttling by the hardware for heat is not in");
	t.thermal_ns = thermal->value;
	t.hw_ns = hw && hw->known ? hw->value : 0;
	rig_wait_gpm();
	rig_at(&rig, span_s);
	rig_read(&rig, COUNTERS);
	thermal = find_reading(&rig.out, M_GPU_THROTTLE_THERMAL, 1);
	hw = find_reading(&rig.out, M_GPU_THROTTLE_HW, 1);
	t.thermal_ns = thermal->value - t.thermal_ns;
	t.hw_ns = hw && hw->known ? hw->value - t.hw_ns : 0;
	t.least_ns = 100000000;
	t.most_ns = (int64_t) (clock_boot_ns() - begin);
	rig_done(&rig);
	return t;
}

CHILD_TEST(hardware_slowdown_for_heat_is_not_in_the_drivers_time)
{
	(void) state;
	const struct throttled t = throttled("field 75 = 7000000000\nevent_reasons = 0x48\n", 1);

	assert_true(t.thermal_ns >= t.least_ns && t.thermal_ns <= t.most_ns);
	assert_int_equal(t.hw_ns, 0);
}

CHILD_TEST(the_drivers_time_is_that_of_the_software)
{
	(void) state;
	/* 0.7 s of it, whatever the mask says of two instants */
	const struct throttled t = throttled("field 75 = rate 700000000 5\nevent_reasons = 0x28\n", 1);

	assert_int_equal(t.thermal_ns, 700000000);
}

CHILD_TEST(a_driver_whose_time_includes_the_hardwares)
{
	(void) state;
	const struct throttled t = throttled("field 75 = rate 1000000000\nevent_reasons = 0x48\n", 20);

	assert_int_equal(t.thermal_ns, 20000000000); /* not twice */
}

CHILD_TEST(a_power_brake_is_no_heat)
{
	(void) state;
	const struct throttled t = throttled("field 75 = 0\nevent_reasons = 0x88\n", 1);

	assert_int_equal(t.thermal_ns, 0);
	assert_true(t.hw_ns >= t.least_ns && t.hw_ns <= t.most_ns && !t.noted);
}

CHILD_TEST(without_the_reasons_it_is_noted)
{
	(void) state;
	const struct throttled t = throttled("field 75 = rate 300000000\n", 1);

	assert_int_equal(t.thermal_ns, 300000000);
	assert_true(t.noted);
}

/* ---- MIG ------------------------------------------------------------------------------------- */

CHILD_TEST(instances_are_devices)
{
	(void) state;
	static const char *const uuids[] = {
		"GPU-80000000-0000-4000-8000-000000000000", "GPU-80000000-0000-4000-8000-000000000001",
		"MIG-11111111-0000-5000-8000-000000000001", "MIG-22222222-0000-5000-8000-000000000001",
		"MIG-22222222-0000-5000-8000-000000000002"
	};
	struct nvml_rig rig;

	rig_new(&rig, "550", "mig.conf", 3);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	for (size_t i = 0; i < 5; i++) {
		const struct birth *b = find_birth(&rig.out, ENTITY_GPU, i);

		assert_non_null(b);
		assert_int_equal(b->id, i + 1);
		assert_string_equal(b->gpu.uuid, uuids[i]);
		assert_string_equal(b->gpu.parent, i < 2 ? "" : uuids[0]);
		assert_string_equal(b->gpu.pci, i == 1 ? "0000:11:00.0" : "0000:10:00.0");
	}
	assert_false(find_birth(&rig.out, ENTITY_GPU, 0)->gpu.cuda_index.known);
	assert_int_equal(find_birth(&rig.out, ENTITY_GPU, 2)->gpu.cuda_index.value, 0);
	assert_int_equal(find_birth(&rig.out, ENTITY_GPU, 1)->gpu.cuda_index.value, 1);
	check_value(&rig.out, M_GPU_POWER, 1, 210000000);
	check_absent(&rig.out, M_GPU_BUSY, 1);
	check_absent(&rig.out, M_GPU_BUSY, 3);
	check_absent(&rig.out, M_GPU_PROCESSES, 1); /* reported by the instances */
	check_value(&rig.out, M_GPU_PROCESSES, 3, 1);
	check_value(&rig.out, M_GPU_PROCESSES, 4, 1);
	check_value(&rig.out, M_GPU_PROCESSES, 5, 0);
	check_value(&rig.out, M_GPU_MEM, 3, 17 * GIB + 24 * MIB);
	check_value(&rig.out, M_GPU_MEM, 4, 3016 * MIB);
	check_value(&rig.out, M_GPROC_MEM, find_process(&rig.out, 3, getpid())->id, 17 * GIB);
	rig_wait_gpm();
	rig_at(&rig, 4);
	rig_read(&rig, GPM);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 3, 630000);
	check_value(&rig.out, M_GPU_SM_ACTIVE, 4, 70000);
	check_value(&rig.out, M_GPU_DRAM_ACTIVE, 5, 20000);
	check_absent(&rig.out, M_GPU_GRAPHICS_ACTIVE, 1);
	check_absent(&rig.out, M_GPU_PCIE_TX, 3);
	rig_done(&rig);
}

CHILD_TEST(a_gpu_is_divided_anew)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\nmig_mode = 1\nmig_max = 7\n"
		"[mig 0.0]\nname = A1\nuuid = MIG-1\ngi = 1\nci = 0\nmemory_total = 8Gi\nmemory_used = 1Gi\nuntil = 5\n"
		"[mig 0.1]\nname = A2\nuuid = MIG-2\ngi = 2\nci = 0\nmemory_total = 8Gi\nmemory_used = 2Gi\n"
		"[mig 0.2]\nname = A3\nuuid = MIG-3\ngi = 3\nci = 0\nmemory_total = 8Gi\nmemory_used = 3Gi\nfrom = 5\n"
		"[process 0.0]\npid = 4100001\nmemory = 1Gi\nuntil = 5\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	assert_null(find_birth(&rig.out, ENTITY_GPU, 3));
	uint32_t process = find_process(&rig.out, 2, 4100001)->id;

	rig_at(&rig, 6);
	rig_read(&rig, RARE | MEMORY);
	assert_int_equal(rig.out.n_ends, 2);
	assert_int_equal(rig.out.ends[0].id, process);
	assert_int_equal(rig.out.ends[1].id, 2);
	assert_int_equal(rig.out.ends[1].entity, ENTITY_GPU);
	assert_string_equal(find_birth(&rig.out, ENTITY_GPU, 0)->gpu.uuid, "MIG-3");
	check_value(&rig.out, M_GPU_MEM, 3, 2 * GIB);
	check_value(&rig.out, M_GPU_MEM, 4, 3 * GIB);
	check_absent(&rig.out, M_GPU_MEM, 2);
	rig_done(&rig);
}

/* The read budget grows with the whole GPUs that answer. */
CHILD_TEST(whole_gpus_that_answer_are_counted)
{
	(void) state;
	struct source_budget budget = { .most_ns = 100000000 };
	struct source_cost costs[NVML_GROUPS] = { { 0 } };
	struct probes probes = { 0 };
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-2]\nname = A\nuuid = GPU-%d\npci = 00000000:0%d:00.0\nmemory_total = 8Gi\nmemory_used = 1Gi\n"
		"[gpu 0]\nmig_mode = 1\nmig_max = 7\n[mig 0.0]\nname = A1\nuuid = MIG-1\ngi = 1\nci = 0\nmemory_total = 4Gi\n"
		"[call nvmlDevice*]\ngpu = 2\nfrom = 5\nuntil = 8\nerror = 15\n");
	assert_int_equal(rig_try(&rig), 0);
	rig.env.budget = &budget;
	rig.env.costs = costs;
	rig.s->retry_first_ns = 0;
	rig_read(&rig, MEMORY);
	assert_non_null(find_birth(&rig.out, ENTITY_GPU, 3)); /* with the instance */
	assert_int_equal(budget.devices, 3);
	source_nvml.probe(&rig.env, probes_take, &probes);
	for (unsigned g = 0; g < NVML_GROUPS; g++)
		assert_int_equal(costs[g].devices, 3);
	rig_at(&rig, 6);
	rig_read(&rig, MEMORY); /* loses it */
	rig_read(&rig, GPM);
	assert_int_equal(budget.devices, 2);
	rig_at(&rig, 9);
	rig_read(&rig, MEMORY);
	assert_int_equal(budget.devices, 3);
	rig_done(&rig);
}

/* Some drivers list the processes of the whole GPU for each instance. */
CHILD_TEST(an_instance_has_its_own_processes)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_total = 1Gi\nmig_mode = 1\nmig_max = 7\n"
		"[mig 0.0]\nname = A1\nuuid = MIG-1\ngi = 1\nci = 0\nmemory_total = 8Gi\nmemory_used = 1Gi\n"
		"[process 0.0]\npid = 4100001\nmemory = 1Gi\n[process 0.0]\npid = 4100002\nmemory = 2Gi\ngi = 7\n"
		"[process 0.0]\npid = 4100003\nmemory = 2Gi\nci = 1\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_PROCESSES, 2, 1);
	assert_non_null(find_process(&rig.out, 2, 4100001));
	assert_null(find_process(&rig.out, 2, 4100002));
	assert_null(find_process(&rig.out, 2, 4100003));
	rig_done(&rig);
}

/* Memory allocated while the lists are read belongs to no listed process: the smaller figure bounds
 * their sum. */
CHILD_TEST(memory_may_move_while_lists_are_read)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\nstep = 1\non = nvmlDeviceGetMemoryInfo_v2\n[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\n"
		"memory_total = 8Gi\nmemory_used = steps 0:1Gi 1:2Gi 2:5Gi\nmemory_reserved = 0\n");
	assert_int_equal(unsetenv("HIWATER_FAKE_TIME"), 0);
	rig_open(&rig); /* one call */
	rig_read(&rig, PROCESSES);
	check_mean(&rig.out, M_GPU_MEM, 1, 2 * GIB, 2 * GIB, 5 * GIB);
	rig_done(&rig);
}

/* ---- other environments ---------------------------------------------------------------------- */

/* Without lists there is no sign that the memory is the host's. */
CHILD_TEST(unreported_memory_is_not_assumed_to_be_the_hosts)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "580",
		BARE_GPU
		"[call nvmlDeviceGetMemoryInfo*]\nerror = 3\n[call nvmlDeviceGet*RunningProcesses*]\nerror = 3\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	const struct birth *b = find_birth(&rig.out, ENTITY_GPU, 0);

	assert_false(b->gpu.unified || b->gpu.memory_bytes.known);
	check_absent(&rig.out, M_GPU_MEM, 1);
	assert_false(has_note(&rig.out, "gpu.memory", "stands in"));
	rig_done(&rig);
}

CHILD_TEST(two_gpus_of_one_uuid_are_two)
{
	(void) state;
	struct nvml_rig rig;

	rig_scenario(&rig, "580",
		BARE_GPU "memory_used = 1Mi\n[gpu 1]\nname = B\nuuid = GPU-1\npci = 00000000:02:00.0\n"
			 "memory_total = 2Gi\nmemory_used = 2Mi\n");
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	assert_string_equal(find_birth(&rig.out, ENTITY_GPU, 0)->gpu.uuid, "GPU-1");
	assert_string_equal(find_birth(&rig.out, ENTITY_GPU, 1)->gpu.uuid, "pci-0000:02:00.0");
	assert_true(has_mere_note(&rig.out, "gpu", "GPU 1: it has the UUID of another GPU"));
	check_value(&rig.out, M_GPU_MEM, 1, MIB);
	check_value(&rig.out, M_GPU_MEM, 2, 2 * MIB);
	rig_done(&rig);
}

CHILD_TEST(unified_memory_is_the_sum_over_processes)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "580", "gb10.conf", 3);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	const struct birth *b = find_birth(&rig.out, ENTITY_GPU, 0);

	assert_true(b->gpu.unified);
	assert_int_equal(b->gpu.memory_bytes.value, 127000000LL * 1024);
	assert_string_equal(b->gpu.pci, "000f:01:00.0");
	check_value(&rig.out, M_GPU_MEM, 1, 21 * GIB + 172 * MIB);
	check_absent(&rig.out, M_GPU_MEM_FREE, 1);
	check_absent(&rig.out, M_GPU_MEM_RESERVED, 1);
	assert_true(has_note(&rig.out, "gpu.memory", "is used instead"));
	check_value(&rig.out, M_GPU_PROCESSES, 1, 2);
	assert_true(find_process(&rig.out, 1, 4100001)->gpu_process.graphics);
	rig_done(&rig);
}

CHILD_TEST(memory_that_is_not_available_is_absent)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "wsl.conf", 3);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_MEM, 1, 6300 * MIB);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 2); /* the pids remain */
	check_absent(&rig.out, M_GPROC_MEM, find_process(&rig.out, 1, getpid())->id);
	check_absent(&rig.out, M_GPROC_MEM, find_process(&rig.out, 1, 22)->id);
	assert_true(has_cause(
		&rig.out, "gpu.memory", "does not report how much memory some of its processes use", 1));
	check_absent(&rig.out, M_GPU_FAN, 1);
	check_absent(&rig.out, M_GPU_XID, 1);
	rig_done(&rig);
}

CHILD_TEST(processes_are_not_read_in_wsl)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "wsl.conf", 3);
	temp_tree_put(&rig.tree, "proc/version", "Linux version 5.15.90.1-microsoft-standard-WSL2 (gcc)\n");
	rig_log(&rig);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_BUSY, 1, 910000);
	check_absent(&rig.out, M_GPU_PROCESSES, 1);
	assert_null(find_birth(&rig.out, ENTITY_GPU_PROCESS, 0));
	assert_true(has_cause(&rig.out, "gpu.memory",
		"GPU 0: WSL's driver does not report processes; the job's memory on this GPU is unknown", 1));
	assert_true(rig_calls(&rig, "Utilization", "0") > 0);
	assert_int_equal(rig_calls(&rig, "RunningProcesses", "0"), 0);
	assert_int_equal(rig_calls(&rig, "ProcessUtilization", "0"), 0);
	assert_int_equal(rig_calls(&rig, "EventSet", "-"), 0);
	rig_done(&rig);
}

CHILD_TEST(a_container_sees_its_own_processes)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "580", "container.conf", 3);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	check_value(&rig.out, M_GPU_MEM, 1, 9 * GIB); /* the rest belongs to no visible process */
	check_value(&rig.out, M_GPROC_MEM, find_process(&rig.out, 1, getpid())->id, 3 * GIB);
	rig_done(&rig);
}

/* The host's pids belong to other processes in the container, or to none. */
CHILD_TEST(an_old_driver_reports_host_pids_in_a_container)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "470", "container-old.conf", 3);
	temp_tree_put(&rig.tree, "proc/1/status", "Name:\tinit\nTgid:\t1\nUid:\t0\t0\t0\t0\n");
	char path[128];

	snprintf(path, sizeof(path), "%s/proc/self/ns/pid", rig.tree.path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("pid:[4026532001]", path), 0);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	assert_null(find_process(&rig.out, 1, 1));
	const struct birth *b = find_birth(&rig.out, ENTITY_GPU_PROCESS, 0);

	assert_true(
		b && !b->gpu_process.pid.known && !b->gpu_process.uid.known && *b->gpu_process.name == '\0');
	check_value(&rig.out, M_GPU_PROCESSES, 1, 2);
	check_value(&rig.out, M_GPROC_MEM, b->id, 3 * GIB);
	rig_done(&rig);
}

CHILD_TEST(a_virtual_gpu_has_gaps)
{
	(void) state;
	struct nvml_rig rig;

	rig_new(&rig, "550", "vgpu.conf", 3);
	rig_open(&rig);
	rig_read(&rig, ALL_GROUPS);
	check_value(&rig.out, M_GPU_MEM, 1, 6 * GIB + 2 * MIB);
	check_value(&rig.out, M_GPU_MEM_RESERVED, 1, 512 * MIB);
	check_value(&rig.out, M_GPU_BUSY, 1, 770000);
	static const enum metric absent[] = { M_GPU_POWER, M_GPU_POWER_LIMIT, M_GPU_ENERGY, M_GPU_TEMP,
		M_GPU_TEMP_MEM, M_GPU_FAN, M_GPU_PCIE_RX, M_GPU_NVLINK_TX, M_GPU_SM_ACTIVE, M_GPU_XID,
		M_GPU_THROTTLE_POWER, M_GPU_THROTTLE_HW, M_GPU_ECC_CORRECTED };

	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
		check_absent(&rig.out, absent[i], 1);
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpm_reports_the_mean_between_two_samples),
		cmocka_unit_test(counters_and_states_of_a_card),
		cmocka_unit_test(traffic_without_counters_is_gpm_over_time),
		cmocka_unit_test(a_short_run_has_its_traffic),
		cmocka_unit_test(fields_that_gpm_replaces_are_not_read),
		cmocka_unit_test(a_row_from_the_future_hides_no_other),
		cmocka_unit_test(traffic_without_gpm_is_counted_by_fields),
		cmocka_unit_test(processes_come_and_go),
		cmocka_unit_test(utilisation_and_power_are_the_current_values),
		cmocka_unit_test(hardware_slowdown_for_heat_is_not_in_the_drivers_time),
		cmocka_unit_test(the_drivers_time_is_that_of_the_software),
		cmocka_unit_test(a_driver_whose_time_includes_the_hardwares),
		cmocka_unit_test(a_power_brake_is_no_heat),
		cmocka_unit_test(without_the_reasons_it_is_noted),
		cmocka_unit_test(a_mark_that_began_in_the_run_began_at_zero),
		cmocka_unit_test(a_mark_that_began_before_the_run_did_not),
		cmocka_unit_test(accounting_is_the_drivers_own_mark),
		cmocka_unit_test(the_mark_of_an_earlier_process_of_that_pid),
		cmocka_unit_test(the_mark_of_one_that_has_just_ended),
		cmocka_unit_test(without_counters_time_is_added_up),
		cmocka_unit_test(instances_are_devices),
		cmocka_unit_test(a_gpu_is_divided_anew),
		cmocka_unit_test(whole_gpus_that_answer_are_counted),
		cmocka_unit_test(an_instance_has_its_own_processes),
		cmocka_unit_test(memory_may_move_while_lists_are_read),
		cmocka_unit_test(unreported_memory_is_not_assumed_to_be_the_hosts),
		cmocka_unit_test(two_gpus_of_one_uuid_are_two),
		cmocka_unit_test(unified_memory_is_the_sum_over_processes),
		cmocka_unit_test(memory_that_is_not_available_is_absent),
		cmocka_unit_test(processes_are_not_read_in_wsl),
		cmocka_unit_test(a_container_sees_its_own_processes),
		cmocka_unit_test(an_old_driver_reports_host_pids_in_a_container),
		cmocka_unit_test(a_virtual_gpu_has_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
