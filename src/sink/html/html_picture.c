/* SPDX-License-Identifier: MIT */
#include "sink/html/html_picture.h"

/* Which runs have them: web/wanted.js and web/gpus.js have the same. Reasons why clocks are held back are called as in figure_throttles. */
const struct picture html_picture_table[] = {
	{ "RAM of the job", "job", AMOUNT_BYTES, false, ABOUT_PEAK | ABOUT_MACHINE, { { "job, shared pages once", M_JOB_RAM, ALONE, false, false }, { "swap", M_JOB_SWAP, ALONE, true, false }, { "charged to its cgroup", M_JOB_CGROUP_MEM, ALONE, true, false }, { "private", M_JOB_PRIVATE, ALONE, true, false }, { "shared", M_JOB_SHARED, ALONE, true, false } } },
	{ "RAM of the machine", "host", AMOUNT_BYTES, false, ABOUT_MACHINE, { { "in use by everybody", M_HOST_MEM_USED, ALONE, false, false }, { "swap", M_HOST_SWAP_USED, ALONE, true, false } } },
	{ "memory", "gpu", AMOUNT_BYTES, false, ABOUT_GPU | ABOUT_ALLOCATORS, { { "job", M_GPU_JOB_MEM, ALONE, false, false }, { "device", M_GPU_MEM, ALONE, false, false }, { "other jobs", M_GPU_FOREIGN_MEM, ALONE, true, false }, { "unattributed", M_GPU_UNATTRIBUTED_MEM, ALONE, true, false } } },
	{ "at work", "gpu", AMOUNT_SHARE, false, ABOUT_CLOCKS, { { "SM active", M_GPU_SM_ACTIVE, ALONE, false, false }, { "\"utilisation\": some kernel ran", M_GPU_BUSY, ALONE, false, false }, { "SM occupancy", M_GPU_SM_OCCUPANCY, ALONE, false, false }, { "memory bandwidth", M_GPU_DRAM_ACTIVE, ALONE, false, false }, { "tensor cores", M_GPU_TENSOR_ACTIVE, ALONE, true, false } } },
	{ "power", "gpu", AMOUNT_WATTS, false, ABOUT_CLOCKS, { { "drawn", M_GPU_POWER, ALONE, false, false }, { "limit", M_GPU_POWER_LIMIT, ALONE, false, true } } },
	{ "temperature", "gpu", AMOUNT_CELSIUS, true, ABOUT_CLOCKS, { { "GPU", M_GPU_TEMP, ALONE, false, false }, { "its memory", M_GPU_TEMP_MEM, ALONE, false, false } } },
	{ "held back by", "gpu", AMOUNT_SHARE, false, 0, { { NULL, M_GPU_THROTTLE_POWER, ALONE, true, false }, { NULL, M_GPU_THROTTLE_THERMAL, ALONE, true, false }, { NULL, M_GPU_THROTTLE_HW, ALONE, true, false }, { NULL, M_GPU_THROTTLE_OTHER, ALONE, true, false } } },
	{ "traffic", "gpu", AMOUNT_RATE, false, 0, { { "PCIe in", M_GPU_PCIE_RX, ALONE, true, false }, { "PCIe out", M_GPU_PCIE_TX, ALONE, true, false }, { "NVLink in", M_GPU_NVLINK_RX, ALONE, true, false }, { "NVLink out", M_GPU_NVLINK_TX, ALONE, true, false } } },
	{ "Processors in use by the job", "job", AMOUNT_CORES, false, ABOUT_CORES, { { "job", M_JOB_CPU_USER, M_JOB_CPU_SYSTEM, false, false }, { "in the kernel", M_JOB_CPU_SYSTEM, ALONE, false, false } } },
	{ "Tasks that waited", "host", AMOUNT_SHARE, false, 0, { { "for a processor", M_HOST_PSI_CPU, ALONE, true, false }, { "for memory", M_HOST_PSI_MEM, ALONE, true, false }, { "for a disk", M_HOST_PSI_IO, ALONE, true, false } } },
	{ "Held back by the cgroup's quota", "job", AMOUNT_SHARE, false, 0, { { "time", M_JOB_CGROUP_THROTTLED, ALONE, true, false } } },
	{ "Storage", "job", AMOUNT_RATE, false, 0, { { "job reads", M_JOB_READ_BYTES, ALONE, false, false }, { "job writes", M_JOB_WRITE_BYTES, ALONE, false, false } } },
	{ "Network of the machine", "host", AMOUNT_RATE, false, 0, { { "received", M_HOST_NET_RX, ALONE, true, false }, { "sent", M_HOST_NET_TX, ALONE, true, false } } },
};
const size_t html_picture_count = sizeof(html_picture_table) / sizeof(html_picture_table[0]);
