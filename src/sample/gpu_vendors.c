/* SPDX-License-Identifier: MIT
 *
 * Who reads GPUs: a vendor is a row here.
 */
#include "sample/gpu.h"

const struct gpu_vendor gpu_vendors[] = {
	{ &source_nvml, "NVML", NULL },
	{ &source_amdgpu, "amdgpu", NULL },
	{ &source_drm, "DRM", NULL },
	{ &source_dcgm, "DCGM", &source_nvml },
	{ NULL, NULL, NULL },
};
