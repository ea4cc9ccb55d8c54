/* SPDX-License-Identifier: MIT
 *
 * Who reads GPUs: a vendor is a row here.
 */
#include "sample/gpu.h"

const struct gpu_vendor gpu_vendors[] = {
	{ &source_nvml, "NVML" },
	{ &source_amdgpu, "amdgpu" },
	{ &source_drm, "DRM" },
	{ NULL, NULL },
};
