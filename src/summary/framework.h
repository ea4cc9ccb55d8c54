/* SPDX-License-Identifier: MIT
 *
 * Memory statistics of the allocators of PyTorch, JAX and TensorFlow, which the job pushes as
 * series FRAMEWORK/DEVICE/FIGURE (python/hiwater/_frameworks.py); outputs show them with the
 * driver's figures of that device. DEVICE is gpuN, where N is CUDA's index in PCI order, or a UUID
 * or the beginning of one.
 */
#pragma once

#include "job/job.h"

struct framework {
	const char *name;          /* static: "torch" */
	struct maybe allocated_peak, reserved_peak;  /* bytes */
	struct maybe fragmentation_ppm;              /* highest value */
	struct maybe alloc_retries, ooms;
};

enum {
	FRAMEWORKS_MOST = 3,
	FRAMEWORK_LEN = 40
};

/* True if a series of this name is such a figure. */
bool framework_has(const char *series);

/* The label of a memory series of this GPU, "torch allocated", in buf; NULL: the series is none. */
const char *framework_memory(
	const struct job *job, const struct birth *gpu, const char *series, char buf[FRAMEWORK_LEN]);

/* The statistics of each framework that reported on the GPU, into ret, which has FRAMEWORKS_MOST.
 * Returns how many. */
size_t frameworks_of(const struct job *job, const struct birth *gpu, struct framework *ret);
