/* SPDX-License-Identifier: MIT
 *
 * What the driver sampled by itself since it was last asked.
 */
#pragma once

#include "source/nvidia/nvml/load.h"

/* In the units of the call: mW, per cent. */
struct nvml_samples {
	uint64_t n, sum, min, max;
};

/* The samples of kind what (NVML_SAMPLES_*) that are newer than *seen_us, the driver's wall clock, which moves on.
 * Returns NVML's code: NVML_NOT_FOUND where there is none, and at the first look (*seen_us 0), which learns where the
 * driver's clock stands: what it kept until then may be hours old. */
int nvml_samples_read(const struct nvml *nvml, void *handle, int what, uint64_t *seen_us, struct nvml_samples *ret);

/* The same of n samples of that type; entries that are older, and values that are none, are left out. */
int nvml_samples_fold(const struct nvml_sample *list, size_t n, int type, uint64_t *seen_us, struct nvml_samples *ret);
