/* SPDX-License-Identifier: MIT */
#include "sink/html/html_gather.h"

const bool html_drawn[METRIC_COUNT] = {
	[M_JOB_RAM] = true,
	[M_JOB_RAM_LOW] = true,
	[M_JOB_RAM_HIGH] = true,
	[M_JOB_PRIVATE] = true,
	[M_JOB_SHARED] = true,
	[M_JOB_SWAP] = true,
	[M_JOB_PROCESSES] = true,
	[M_JOB_THREADS] = true,
	[M_JOB_CPU_USER] = true,
	[M_JOB_CPU_SYSTEM] = true,
	[M_JOB_READ_BYTES] = true,
	[M_JOB_WRITE_BYTES] = true,
	[M_JOB_WRITE_CANCELLED] = true, /* as what is missing in the former */
	[M_JOB_FAULTS_MAJOR] = true,
	[M_JOB_CGROUP_MEM] = true,
	[M_JOB_CGROUP_FILE] = true,
	[M_JOB_CGROUP_THROTTLED] = true,
	[M_HOST_MEM_USED] = true,
	[M_HOST_SWAP_USED] = true,
	[M_HOST_CPU_USER] = true,
	[M_HOST_CPU_SYSTEM] = true,
	[M_HOST_CPU_IOWAIT] = true,
	[M_HOST_DISK_READ] = true,
	[M_HOST_DISK_WRITE] = true,
	[M_HOST_NET_RX] = true,
	[M_HOST_NET_TX] = true,
	[M_HOST_PSI_CPU] = true,
	[M_HOST_PSI_MEM] = true,
	[M_HOST_PSI_IO] = true,
	[M_HOST_ENERGY] = true,
	[M_GPU_MEM] = true,
	[M_GPU_JOB_MEM] = true,
	[M_GPU_FOREIGN_MEM] = true,
	[M_GPU_UNATTRIBUTED_MEM] = true,
	[M_GPU_BUSY] = true,
	[M_GPU_GRAPHICS_ACTIVE] = true,
	[M_GPU_SM_ACTIVE] = true,
	[M_GPU_SM_OCCUPANCY] = true,
	[M_GPU_TENSOR_ACTIVE] = true,
	[M_GPU_DRAM_ACTIVE] = true,
	[M_GPU_POWER] = true,
	[M_GPU_POWER_LIMIT] = true,
	[M_GPU_TEMP] = true,
	[M_GPU_TEMP_MEM] = true,
	[M_GPU_CLOCK_SM] = true,
	[M_GPU_THROTTLE_POWER] = true,
	[M_GPU_THROTTLE_THERMAL] = true,
	[M_GPU_THROTTLE_HW] = true,
	[M_GPU_THROTTLE_OTHER] = true,
	[M_GPU_PCIE_RX] = true,
	[M_GPU_PCIE_TX] = true,
	[M_GPU_NVLINK_RX] = true,
	[M_GPU_NVLINK_TX] = true,
	[M_PROC_RSS] = true,
	[M_PROC_CPU_USER] = true,
	[M_PROC_CPU_SYSTEM] = true,
};

/* Strangers in its cgroup hold so much that the job would have no height beside it. */
static bool is_of_strangers(const struct job *job, enum metric metric)
{
	return (metric == M_JOB_CGROUP_MEM || metric == M_JOB_CGROUP_FILE) && job_facts_const(job)->cgroup_exclusive.value != 1;
}

bool html_is_drawn(const struct job *job, const struct reading *r)
{
	const enum metric metric = (enum metric) r->metric;
	const enum entity entity = metrics[metric].entity;

	if (!html_drawn[metric] || metric == M_JOB_WRITE_CANCELLED || is_of_strangers(job, metric))
		return false;
	return entity != ENTITY_PROCESS && (entity != ENTITY_HOST || r->id == 0);
}
