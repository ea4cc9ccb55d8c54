/* SPDX-License-Identifier: MIT */
#include "source/nvidia/cuda/facts.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "source/nvidia/library.h"

/* CUdevice_attribute of cuda.h. */
static const struct {
	int attribute;
	enum gpu_fact fact;
} rows[] = {
	{ 1, GF_THREADS_BLOCK },
	{ 8, GF_SHARED_BLOCK },
	{ 9, GF_CONSTANT },
	{ 10, GF_WARP },
	{ 12, GF_REGISTERS_BLOCK },
	{ 16, GF_SMS },
	{ 37, GF_BUS_BITS },
	{ 38, GF_L2 },
	{ 39, GF_THREADS_SM },
	{ 40, GF_COPY_ENGINES },
	{ 81, GF_SHARED_SM },
	{ 82, GF_REGISTERS_SM },
	{ 97, GF_SHARED_BLOCK_MOST },
	{ 106, GF_BLOCKS_SM },
};

struct cuda {
	int (*init)(unsigned flags);
	int (*count)(int *);
	int (*device)(int *, int ordinal);
	int (*uuid)(unsigned char bytes[16], int device);
	int (*attribute)(int *, int attribute, int device);
};

bool cuda_facts_any(const struct gpu_fact_set *wanted)
{
	static const enum gpu_fact only_here[] = { GF_THREADS_BLOCK, GF_SHARED_BLOCK, GF_CONSTANT,
		GF_REGISTERS_BLOCK, GF_L2, GF_COPY_ENGINES, GF_SHARED_BLOCK_MOST };

	for (size_t i = 0; i < sizeof(only_here) / sizeof(only_here[0]); i++) {
		if (wanted->has[only_here[i]])
			return true;
	}
	return false;
}

static bool load(struct cuda *ret)
{
	static const char *const names[] = { "libcuda.so.1" };
	void *library = library_open("HIWATER_CUDA", names, 1);

	if (!library)
		return false;
	*(void **) &ret->init = dlsym(library, "cuInit");
	*(void **) &ret->count = dlsym(library, "cuDeviceGetCount");
	*(void **) &ret->device = dlsym(library, "cuDeviceGet");
	*(void **) &ret->uuid = dlsym(library, "cuDeviceGetUuid");
	*(void **) &ret->attribute = dlsym(library, "cuDeviceGetAttribute");
	return ret->init && ret->count && ret->device && ret->uuid && ret->attribute;
}

static void name_of(const unsigned char b[16], char ret[64])
{
	(void) snprintf(ret, 64, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		b[15]);
}

void cuda_facts(cuda_fact_reporter *report, void *ctx)
{
	struct cuda cuda;
	int n = 0, device, value;

	(void) unsetenv("CUDA_VISIBLE_DEVICES"); /* otherwise CUDA reports only some of them */
	if (!load(&cuda) || cuda.init(0) != 0 || cuda.count(&n) != 0)
		return;
	for (int i = 0; i < n; i++) {
		unsigned char bytes[16];
		char uuid[64];

		if (cuda.device(&device, i) != 0 || cuda.uuid(bytes, device) != 0)
			continue;
		name_of(bytes, uuid);
		for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
			if (cuda.attribute(&value, rows[row].attribute, device) == 0 && value >= 0)
				report(ctx, uuid, rows[row].fact, value);
		}
	}
}
