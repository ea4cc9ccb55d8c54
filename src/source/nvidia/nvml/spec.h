/* SPDX-License-Identifier: MIT
 *
 * What a multiprocessor (SM) of NVIDIA's has, by compute capability.
 */
#pragma once

/* Of a compute capability. */
struct nvml_spec {
	int major, minor;
	const char *architecture;
	unsigned cores;        /* FP32, of an SM */
	unsigned tensor_cores; /* of an SM; 0: none */
	unsigned shared_kib;   /* of an SM */
	unsigned warps;        /* resident on an SM at most, of 32 threads */
	unsigned blocks;       /* likewise */
	unsigned registers;    /* of an SM, of 32 bits */
};

/* NULL for one that is not in the table: newer than this version. */
const struct nvml_spec *nvml_spec_of(int major, int minor);
