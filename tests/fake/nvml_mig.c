// SPDX-License-Identifier: MIT
/* MIG: instances of a device as devices of their own. */
#include "nvml_fake.h"

EXPORT int nvmlDeviceGetMigMode(struct fake_gpu *gpu, uint32_t *now, uint32_t *pending)
{
	int code = nvml_enter(__func__, gpu) ?: nvml_u32(gpu, "mig_mode", now);

	if (code != 0 || !pending)
		return code ?: NVML_INVALID_ARGUMENT;
	*pending = (uint32_t) nvml_number(gpu, "mig_pending", *now);
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(struct fake_gpu *gpu, uint32_t *ret)
{
	int code = nvml_enter(__func__, gpu);

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	*ret = (uint32_t) nvml_number(gpu, "mig_max", 0);
	return NVML_SUCCESS;
}

/* The instance, if it exists now; a gap is NOT_FOUND. */
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(struct fake_gpu *gpu, unsigned index, struct fake_gpu **ret)
{
	struct fake_scenario *s = nvml_scenario();
	int code = nvml_enter(__func__, gpu);
	double t = fake_now();

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	if (nvml_number(gpu, "mig_mode", 0) != 1)
		return NVML_NOT_SUPPORTED;
	if (index >= nvml_number(gpu, "mig_max", 0))
		return NVML_INVALID_ARGUMENT;
	for (size_t i = 0; i < s->n_migs; i++) {
		struct fake_gpu *mig = s->migs[i];
		bool is_there = t >= fake_bag_number(&mig->bag, "from", t, t) &&
				t < fake_bag_number(&mig->bag, "until", t, t + 1);
		if (mig->parent == gpu && mig->index == index && is_there) {
			*ret = mig;
			return NVML_SUCCESS;
		}
	}
	return NVML_NOT_FOUND;
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct fake_gpu *mig, struct fake_gpu **ret)
{
	int code = nvml_enter(__func__, mig);

	if (code != 0 || !ret || !mig->parent)
		return code ?: NVML_INVALID_ARGUMENT;
	*ret = mig->parent;
	return NVML_SUCCESS;
}

EXPORT int nvmlDeviceIsMigDeviceHandle(struct fake_gpu *gpu, unsigned *ret)
{
	int code = nvml_enter(__func__, gpu);

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	*ret = gpu->parent != NULL;
	return NVML_SUCCESS;
}

static int instance_get(const char *call, const struct fake_gpu *gpu, const char *key, uint32_t *ret)
{
	int code = nvml_enter(call, gpu);

	if (code != 0 || !gpu->parent)
		return code ?: NVML_NOT_SUPPORTED;
	return nvml_u32(gpu, key, ret);
}

EXPORT int nvmlDeviceGetGpuInstanceId(struct fake_gpu *gpu, uint32_t *ret)
{
	return instance_get(__func__, gpu, "gi", ret);
}

EXPORT int nvmlDeviceGetComputeInstanceId(struct fake_gpu *gpu, uint32_t *ret)
{
	return instance_get(__func__, gpu, "ci", ret);
}

EXPORT int nvmlDeviceGetAttributes_v2(struct fake_gpu *gpu, struct nvml_attributes *ret)
{
	int code = nvml_enter(__func__, gpu);

	if (code != 0 || !ret)
		return code ?: NVML_INVALID_ARGUMENT;
	if (!gpu->parent)
		return NVML_NOT_SUPPORTED;
	*ret = (struct nvml_attributes) {
		.sms = (uint32_t) nvml_number(gpu, "sms", 0),
		.gi_slices = (uint32_t) nvml_number(gpu, "slices", 0),
		.ci_slices = (uint32_t) nvml_number(gpu, "slices", 0),
		.memory_mib = nvml_number(gpu, "memory_total", 0) >> 20,
	};
	return NVML_SUCCESS;
}
