// SPDX-License-Identifier: MIT
/* The functions of the fake driver of cuda_traced.c, as its programs call them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct traced_kernel {
	const char *name; /* mangled */
	uint64_t ns;
};

struct traced_graph {
	unsigned id, nodes;
	struct traced_kernel kernel; /* of each node */
};

struct array_descriptor {
	size_t width, height, depth;
	unsigned format, channels, flags;
};

struct memory_properties {
	unsigned type, handles, location, device;
	uint64_t more[2];
};

#define TRACED __attribute__((visibility("default"))) int

extern void (*traced_between)(void);

TRACED cuInit(unsigned flags);
TRACED cuCtxCreate_v2(void **ret, unsigned flags, int device);
TRACED cuCtxSetCurrent(void *context);
TRACED cuCtxDestroy_v2(void *context);
TRACED cuMemAlloc_v2(uint64_t *ret, size_t bytes);
TRACED cuMemAllocUnseen(uint64_t *ret, size_t bytes);
TRACED cuMemAllocPitch_v2(uint64_t *ret, size_t *pitch, size_t width, size_t height, unsigned element);
TRACED cuMemAllocManaged(uint64_t *ret, size_t bytes, unsigned flags);
TRACED cuMemAllocAsync(uint64_t *ret, size_t bytes, void *stream);
TRACED cuMemFree_v2(uint64_t at);
TRACED cuMemFreeAsync(uint64_t at, void *stream);
TRACED cuMemHostAlloc(void **ret, size_t bytes, unsigned flags);
TRACED cuMemFreeHost(void *at);
TRACED cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags);
TRACED cuMemHostUnregister(void *at);
TRACED cuArray3DCreate_v2(uint64_t *ret, const struct array_descriptor *array);
TRACED cuArrayDestroy(uint64_t array);
TRACED cuMemCreate(uint64_t *ret, size_t bytes, const struct memory_properties *properties, unsigned long long flags);
TRACED cuMemRelease(uint64_t handle);
TRACED cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags);
TRACED cuMemUnmap(uint64_t at, size_t bytes);
TRACED cuMemRetainAllocationHandle(uint64_t *ret, void *at);
TRACED cuMemImportFromShareableHandle(uint64_t *ret, void *handle, int type);
TRACED cuLaunchKernel(const struct traced_kernel *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
	unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters, void **extra);
TRACED cuStreamBeginCapture_v2(void *stream, int mode);
TRACED cuStreamEndCapture(void *stream, void **graph);
TRACED cuGraphLaunch(const struct traced_graph *graph, void *stream);
TRACED cuMemcpyHtoD_v2(uint64_t at, const void *from, size_t bytes);
TRACED cuMemcpyPeer(uint64_t at, void *to, uint64_t from_at, void *from, size_t bytes);
TRACED cuMemsetD8_v2(uint64_t at, unsigned char value, size_t bytes);
TRACED cuCtxSynchronize(void);
TRACED cuModuleLoadData(void **ret, const void *image);
