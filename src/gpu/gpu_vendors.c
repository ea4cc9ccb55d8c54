/* SPDX-License-Identifier: MIT
 *
 * Who reads GPUs: a vendor is a row here.
 */
#include "gpu/gpu.h"

const struct gpu_vendor gpu_vendors[] = {
	{ &source_nvml, "NVML", NULL, CAUSE_NVML },
	{ &source_amdgpu, "amdgpu", NULL, CAUSE_AMDGPU },
	{ &source_drm, "DRM", NULL, CAUSE_DRM },
	{ &source_dcgm, "DCGM", &source_nvml, CAUSE_NONE }, /* it lists nobody */
	{ NULL, NULL, NULL, CAUSE_NONE },
};
