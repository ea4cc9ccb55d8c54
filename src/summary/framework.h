/* SPDX-License-Identifier: MIT
 *
 * What the frameworks of the job say of their own allocators: PyTorch, JAX, TensorFlow. The job pushes it as series
 * FRAMEWORK/DEVICE/FIGURE (python/hiwater/_frameworks.py), which belong beside the driver's figures of that device.
 * DEVICE is gpuN, N as CUDA numbers them in PCI order, or a uuid or how it begins.
 */
#pragma once

#include "job/job.h"

struct framework {
	const char *name;          /* static: "torch" */
	struct maybe allocated_peak, reserved_peak;  /* bytes */
	struct maybe fragmentation_ppm;              /* at most */
	struct maybe alloc_retries, ooms;
};

enum {
	FRAMEWORKS_MOST = 3,
	FRAMEWORK_LEN = 40
};

/* Is a series of this name such a figure? */
bool framework_has(const char *series);

/* How a series of such memory of this GPU is called, "torch allocated", in buf; NULL: it is none. */
const char *framework_memory(const struct job *job, const struct birth *gpu, const char *series, char buf[FRAMEWORK_LEN]);

/* What each of them said of the GPU, those that said something. Returns how many; ret has FRAMEWORKS_MOST. */
size_t frameworks_of(const struct job *job, const struct birth *gpu, struct framework *ret);
