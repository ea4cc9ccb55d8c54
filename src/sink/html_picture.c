/* SPDX-License-Identifier: MIT */
#include "sink/html_picture.h"

/* Which runs have them: web/wanted.js and web/gpus.js have the same. Reasons why clocks are held back are called as in figure_throttles. */
const struct picture html_picture_table[] = {
	{ "RAM of the job", "job", AMOUNT_BYTES, false, { { "job, shared pages once", M_JOB_RAM, ALONE, false }, { "swap", M_JOB_SWAP, ALONE, true }, { "charged to its cgroup", M_JOB_CGROUP_MEM, ALONE, true }, { "private", M_JOB_PRIVATE, ALONE, true }, { "shared", M_JOB_SHARED, ALONE, true } } },
	{ "RAM of the machine", "host", AMOUNT_BYTES, false, { { "in use by everybody", M_HOST_MEM_USED, ALONE, false }, { "swap", M_HOST_SWAP_USED, ALONE, true } } },
	{ "memory", "gpu", AMOUNT_BYTES, false, { { "job", M_GPU_JOB_MEM, ALONE, false }, { "device", M_GPU_MEM, ALONE, false }, { "other jobs", M_GPU_FOREIGN_MEM, ALONE, true }, { "unattributed", M_GPU_UNATTRIBUTED_MEM, ALONE, true } } },
	{ "at work", "gpu", AMOUNT_SHARE, false, { { "SM active", M_GPU_SM_ACTIVE, ALONE, false }, { "\"utilisation\": some kernel ran", M_GPU_BUSY, ALONE, false }, { "SM occupancy", M_GPU_SM_OCCUPANCY, ALONE, false }, { "memory bandwidth", M_GPU_DRAM_ACTIVE, ALONE, false }, { "tensor cores", M_GPU_TENSOR_ACTIVE, ALONE, true } } },
	{ "power", "gpu", AMOUNT_WATTS, false, { { "limit", M_GPU_POWER_LIMIT, ALONE, false }, { "drawn", M_GPU_POWER, ALONE, false } } },
	{ "temperature", "gpu", AMOUNT_CELSIUS, true, { { "GPU", M_GPU_TEMP, ALONE, false }, { "its memory", M_GPU_TEMP_MEM, ALONE, false } } },
	{ "held back by", "gpu", AMOUNT_SHARE, false, { { NULL, M_GPU_THROTTLE_POWER, ALONE, true }, { NULL, M_GPU_THROTTLE_THERMAL, ALONE, true }, { NULL, M_GPU_THROTTLE_HW, ALONE, true }, { NULL, M_GPU_THROTTLE_OTHER, ALONE, true } } },
	{ "traffic", "gpu", AMOUNT_BYTES, false, { { "PCIe in, each second", M_GPU_PCIE_RX, ALONE, true }, { "PCIe out, each second", M_GPU_PCIE_TX, ALONE, true }, { "NVLink in, each second", M_GPU_NVLINK_RX, ALONE, true }, { "NVLink out, each second", M_GPU_NVLINK_TX, ALONE, true } } },
	{ "Processors in use by the job", "job", AMOUNT_CORES, false, { { "job", M_JOB_CPU_USER, M_JOB_CPU_SYSTEM, false }, { "in the kernel", M_JOB_CPU_SYSTEM, ALONE, false } } },
	{ "Tasks that waited", "host", AMOUNT_SHARE, false, { { "for a processor", M_HOST_PSI_CPU, ALONE, true }, { "for memory", M_HOST_PSI_MEM, ALONE, true }, { "for a disk", M_HOST_PSI_IO, ALONE, true } } },
	{ "Held back by the cgroup's quota", "job", AMOUNT_SHARE, false, { { "time", M_JOB_CGROUP_THROTTLED, ALONE, true } } },
	{ "Storage", "job", AMOUNT_BYTES, false, { { "job reads, each second", M_JOB_READ_BYTES, ALONE, false }, { "job writes, each second", M_JOB_WRITE_BYTES, ALONE, false } } },
	{ "Network of the machine", "host", AMOUNT_BYTES, false, { { "received, each second", M_HOST_NET_RX, ALONE, true }, { "sent, each second", M_HOST_NET_TX, ALONE, true } } },
};
const size_t html_picture_count = sizeof(html_picture_table) / sizeof(html_picture_table[0]);
