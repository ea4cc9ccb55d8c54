/* SPDX-License-Identifier: MIT
 *
 * CUDA's driver library, loaded at run time, with the few calls that the checks on a real GPU need:
 * neither a toolkit nor a GPU is needed to build. Every failure ends the program with the names of
 * the call and of the error.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	CUDA_OUT_OF_MEMORY = 2,
	CUDA_SMS = 16,            /* attributes of a device */
	CUDA_THREADS_SM = 39,
	CUDA_IPC_BYTES = 64,
};

struct cuda_ipc {
	char bytes[CUDA_IPC_BYTES];
};

/* X(member, parameters, name): as declared in cuda.h, with handles as pointers and addresses as
 * numbers. */
#define CUDA_CALLS(X) \
	X(init, (unsigned flags), "cuInit") \
	X(version, (int *), "cuDriverGetVersion") \
	X(device, (int *, int ordinal), "cuDeviceGet") \
	X(name, (char *, int size, int device), "cuDeviceGetName") \
	X(attribute, (int *, int attribute, int device), "cuDeviceGetAttribute") \
	X(context, (void **, int device), "cuDevicePrimaryCtxRetain") \
	X(use, (void *context), "cuCtxSetCurrent") \
	X(wait, (void), "cuCtxSynchronize") \
	X(info, (size_t *free, size_t *total), "cuMemGetInfo_v2") \
	X(alloc, (uint64_t *, size_t bytes), "cuMemAlloc_v2") \
	X(release, (uint64_t), "cuMemFree_v2") \
	X(set, (uint64_t, unsigned char value, size_t n), "cuMemsetD8_v2") \
	X(host_alloc, (void **, size_t bytes, unsigned flags), "cuMemHostAlloc") \
	X(to_device, (uint64_t, const void *, size_t), "cuMemcpyHtoD_v2") \
	X(to_host, (void *, uint64_t, size_t), "cuMemcpyDtoH_v2") \
	X(module, (void **, const void *ptx), "cuModuleLoadData") \
	X(function, (void **, void *module, const char *name), "cuModuleGetFunction") \
	X(launch, \
		(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
			unsigned bz, unsigned shared, void *stream, void **parameters, void **extra), \
		"cuLaunchKernel") \
	X(ipc_export, (struct cuda_ipc *, uint64_t), "cuIpcGetMemHandle") \
	X(ipc_open, (uint64_t *, struct cuda_ipc, unsigned flags), "cuIpcOpenMemHandle_v2") \
	X(ipc_close, (uint64_t), "cuIpcCloseMemHandle") \
	X(error_name, (int, const char **), "cuGetErrorName")

struct cuda {
#define X(member, parameters, name) int(*member) parameters;
	CUDA_CALLS(X)
#undef X
	int sms, threads_sm;
	char gpu[96];
};

/* Ends the program unless code is 0. */
void cuda_check(const struct cuda *cuda, int code, const char *what);
#define CUDA(cuda, member, ...) cuda_check(cuda, (cuda)->member(__VA_ARGS__), #member)

/* Loads the library (HIWATER_CUDA in the environment names another), and creates a context on the
 * first device. */
void cuda_open(struct cuda *ret);
