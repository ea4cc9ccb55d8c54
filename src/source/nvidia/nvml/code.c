/* SPDX-License-Identifier: MIT */
#include "source/nvidia/nvml/code.h"

static const struct nvml_code codes[] = {
	{ NVML_SUCCESS, NVML_FINE, "", "" },
	{ NVML_NOT_SUPPORTED, NVML_ABSENT, "this device does not give it", "" },
	{ NVML_FUNCTION_NOT_FOUND, NVML_ABSENT, "this driver does not have it", "a newer driver may" },
	{ NVML_DEPRECATED, NVML_ABSENT, "this driver does not have it any more", "" },
	{ NVML_ARGUMENT_VERSION_MISMATCH, NVML_ABSENT, "this driver knows another version of it", "" },
	{ NVML_NO_PERMISSION, NVML_FORBIDDEN, "no permission", "root may; with MIG, whoever may read the device's mig/monitor capability" },
	{ NVML_INSUFFICIENT_SIZE, NVML_GROW, "the list is too long", "" },
	{ NVML_GPU_IS_LOST, NVML_LOST, "the GPU has fallen off the bus", "reboot; the kernel's log says why" },
	{ NVML_RESET_REQUIRED, NVML_LOST, "the GPU needs a reset", "nvidia-smi --gpu-reset, or reboot" },
	{ NVML_GPU_NOT_FOUND, NVML_LOST, "the GPU is not there any more", "" },
	{ NVML_UNINITIALIZED, NVML_STALE, "the driver was unloaded", "" },
	{ NVML_INVALID_ARGUMENT, NVML_STALE, "the driver does not know the device any more", "" },
	{ NVML_NOT_FOUND, NVML_NOT_NOW, "no data at this moment", "" },
	{ NVML_NO_DATA, NVML_NOT_NOW, "no data at this moment", "" },
	{ NVML_NOT_READY, NVML_NOT_NOW, "no data at this moment", "" },
	{ NVML_NONSENSE, NVML_NOT_NOW, "what the driver says cannot be so", "" },
	{ NVML_TIMEOUT, NVML_NOT_NOW, "the driver did not answer in time", "" },
};

const struct nvml_code *nvml_code(int code)
{
	static const struct nvml_code other = { NVML_UNKNOWN, NVML_NOT_NOW, "the driver answers with an error that says nothing", "" };

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if (codes[i].code == code)
			return &codes[i];
	}
	return &other;
}
