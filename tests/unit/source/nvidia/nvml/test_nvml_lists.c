/* SPDX-License-Identifier: MIT
 *
 * When the NVML source reads the lists of processes, its most expensive calls, and what it reports
 * after memory has moved.
 */
#include "nvml_rig.h"

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
	assert_int_equal(rig_calls(&rig, "GraphicsRunningProcesses", "0"), 0); /* it was empty a moment ago */
	assert_int_equal(rig_calls(&rig, "MPSComputeRunningProcesses", "0"), 0);
	assert_int_equal(rig_calls(&rig, "RunningProcesses", "1"), 0); /* no change there */
	check_value(&rig.out, M_GPU_PROCESSES, 1, 2);
	rig_done(&rig);
}

/* If lists cost more than the credit, devices at a new high come first; after a change without a
 * list the processes are not reported, and without a change the old list remains valid. */
CHILD_TEST(credit_is_for_new_highs)
{
	(void) state;
	struct nvml_rig rig;
	struct source_budget budget = { .ns = 100, .most_ns = 100000000 };

	rig_scenario(&rig, "550",
		"[driver]\nlevel = 550\n[gpu 0-1]\nmemory_total = 8Gi\nmemory_reserved = 0\n"
		"[gpu 0]\nname = A\nuuid = GPU-1\npci = 00000000:01:00.0\nmemory_used = steps 0:1Gi 2:1029Mi 3:1536Mi\n"
		"[gpu 1]\nname = B\nuuid = GPU-2\npci = 00000000:02:00.0\nmemory_used = 1Gi\n");
	rig_at(&rig, 1);
	assert_int_equal(rig_try(&rig), 0);
	rig.env.budget = &budget;
	rig_read(&rig, MEMORY);
	rig_log(&rig);
	rig_read(&rig, PROCESSES); /* always the first time */
	assert_int_equal(rig_calls(&rig, "GetComputeRunningProcesses_v3", "0"), 1);
	assert_int_equal(rig_calls(&rig, "GetComputeRunningProcesses_v3", "1"), 1);
	assert_int_equal(rig_calls(&rig, "GraphicsRunningProcesses", "0"), 0); /* can wait */
	assert_false(budget.moving);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 0);
	rig_log(&rig);
	rig_at(&rig, 2.5); /* 0.5 % more: no new high */
	rig_read(&rig, MEMORY);
	assert_false(budget.moving);
	budget.ns = 100;
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "RunningProcesses", "0"), 0);
	assert_null(find_reading(&rig.out, M_GPU_PROCESSES, 1));
	check_value(&rig.out, M_GPU_PROCESSES, 2, 0);
	rig_at(&rig, 3.5);
	rig_read(&rig, MEMORY);
	assert_true(budget.moving);
	budget.ns = 0; /* nothing at all */
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "RunningProcesses", "0"), 0);
	budget.ns = 100;
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

/* A change of GiB justifies a debt, that of a new high a larger one, and the largest change comes
 * first; smaller ones wait. */
CHILD_TEST(far_moves_are_listed_on_debt)
{
	(void) state;
	struct nvml_rig rig;
	struct source_budget budget = { .ns = 1000, .most_ns = 100000000 };

	rig_scenario(&rig, "550",
		THREE_GPUS("steps 0:1Gi 2:3Gi 3:1Gi", "steps 0:1Gi 2:50Gi", "steps 0:1Gi 2:1100Mi"));
	assert_int_equal(rig_try(&rig), 0);
	rig.env.budget = &budget;
	rig_read(&rig, MEMORY | PROCESSES);
	assert_int_equal(budget.floor_ns, 0);
	assert_int_equal(budget.lists, 3);
	assert_int_equal(budget.urgent, 0);
	rig_at(&rig, 2);
	rig_read(&rig, MEMORY);
	assert_int_equal(budget.floor_ns, -50000000);
	assert_int_equal(budget.urgent, 2);
	rig_log(&rig);
	budget.ns = -50000000;
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "0"), 0);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "1"), 0);
	budget.ns = -49999999; /* one */
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "0"), 0);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "1"), 1);
	assert_int_equal(budget.lists, 1);
	assert_int_equal(budget.urgent, 1);
	budget.ns = -30000000;
	rig_read(&rig, PROCESSES);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "0"), 1);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "1"), 1);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "2"), 0);
	assert_int_equal(budget.floor_ns, 0);
	rig_at(&rig, 3); /* down again */
	rig_read(&rig, MEMORY);
	assert_int_equal(budget.floor_ns, -25000000);
	rig_done(&rig);
}

/* An early read of lists is for the device that caused it, however much credit there is. */
CHILD_TEST(devices_not_worth_a_debt_are_not_listed_early)
{
	(void) state;
	struct nvml_rig rig;
	struct source_budget budget = { .ns = 100000000, .most_ns = 100000000 };

	rig_scenario(&rig, "550", THREE_GPUS("steps 0:1Gi 2:50Gi", "steps 0:1Gi 2:1100Mi", "1Gi"));
	assert_int_equal(rig_try(&rig), 0);
	rig.env.budget = &budget;
	rig_read(&rig, MEMORY | PROCESSES);
	rig_at(&rig, 2);
	rig_read(&rig, MEMORY);
	rig_log(&rig);
	budget.debts_only = true;
	rig_read(&rig, PROCESSES);
	assert_int_equal(budget.lists, 1);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses_v3", "0"), 1);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses", "1"), 0);
	budget.debts_only = false;
	rig_read(&rig, PROCESSES);
	assert_int_equal(budget.lists, 1);
	assert_int_equal(rig_calls(&rig, "ComputeRunningProcesses_v3", "1"), 1);
	rig_done(&rig);
}

/* A list is valid until memory moves away from it; the next list is valid again. */
CHILD_TEST(a_list_is_invalid_after_memory_moved)
{
	(void) state;
	struct nvml_rig rig;
	const struct timespec stale = { .tv_sec = 1, .tv_nsec = 1000000 };
	struct source_budget budget = { .ns = 1000, .most_ns = 100000000 };

	rig_scenario(&rig, "550",
		THREE_GPUS("steps 0:1Gi 2:3Gi", "steps 0:1Gi 2:1025Mi",
			"1Gi") "[process 0]\npid = 7\nmemory = 1Gi\n");
	assert_int_equal(rig_try(&rig), 0);
	rig.env.budget = &budget;
	rig_read(&rig, MEMORY | PROCESSES);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	check_value(&rig.out, M_GPROC_MEM, 1, GIB);
	rig_at(&rig, 2);
	budget.ns = -100000000;
	rig_read(&rig, MEMORY);
	assert_null(find_reading(&rig.out, M_GPU_PROCESSES, 1)); /* a list may follow */
	nanosleep(&stale, NULL);
	rig_read(&rig, MEMORY);
	assert_non_null(find_reading(&rig.out, M_GPU_PROCESSES, 1));
	assert_false(find_reading(&rig.out, M_GPU_PROCESSES, 1)->known);
	assert_null(find_reading(&rig.out, M_GPU_PROCESSES, 2)); /* noise */
	assert_null(find_reading(&rig.out, M_GPU_PROCESSES, 3));
	rig_read(&rig, MEMORY); /* reported once */
	assert_null(find_reading(&rig.out, M_GPU_PROCESSES, 1));
	budget.ns = 1000;
	rig_read(&rig, MEMORY | PROCESSES);
	check_value(&rig.out, M_GPU_PROCESSES, 1, 1);
	check_value(&rig.out, M_GPROC_MEM, 1, GIB);
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_read_where_memory_moved),
		cmocka_unit_test(credit_is_for_new_highs),
		cmocka_unit_test(devices_not_worth_a_debt_are_not_listed_early),
		cmocka_unit_test(far_moves_are_listed_on_debt),
		cmocka_unit_test(a_list_is_invalid_after_memory_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
