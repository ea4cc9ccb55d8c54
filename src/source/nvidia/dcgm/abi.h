/* SPDX-License-Identifier: MIT
 *
 * The part of DCGM's binary interface (versions 3 and 4) that hiwater uses, declared here so that
 * no header of NVIDIA's is needed to build. Sizes are those of x86-64 and aarch64.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* Return codes of calls, and the status of a value. DCGM has more. */
enum dcgm_return {
	DCGM_OK = 0,
	DCGM_NOT_SUPPORTED = -6,
	DCGM_UNINITIALIZED = -10,
	DCGM_TIMEOUT = -11,
	DCGM_VER_MISMATCH = -12,
	DCGM_UNKNOWN_FIELD = -13,
	DCGM_NO_DATA = -14,
	DCGM_STALE = -15,
	DCGM_NOT_WATCHED = -16,
	DCGM_NO_PERMISSION = -17,
	DCGM_GPU_IS_LOST = -18,
	DCGM_RESET_REQUIRED = -19,
	DCGM_FUNCTION_NOT_FOUND = -20,
	DCGM_CONNECTION_NOT_VALID = -21,
	DCGM_GPU_NOT_SUPPORTED = -22,
	DCGM_LIBRARY_NOT_FOUND = -25,
	DCGM_REQUIRES_ROOT = -29,
	DCGM_MODULE_NOT_LOADED = -33,
	DCGM_IN_USE = -34,
	DCGM_PROFILING_NOT_SUPPORTED = -36,
	DCGM_PROFILING_LIBRARY_ERROR = -37,
	DCGM_PROFILING_MULTI_PASS = -38,
	DCGM_PAUSED = -54,
	DCGM_DRIVER_TIMEOUT = -57,
};

/* Blank values start here; the offset (enum dcgm_blank) gives the reason. */
#define DCGM_BLANK_I64    INT64_C(0x7ffffffffffffff0)
#define DCGM_BLANK_DOUBLE 140737488355328.0
enum dcgm_blank {
	DCGM_BLANK = 0,
	DCGM_BLANK_NOT_FOUND = 1,
	DCGM_BLANK_NOT_SUPPORTED = 2,
	DCGM_BLANK_NOT_PERMITTED = 3,
};

/* Field ids, unchanged since version 1; NVIDIA renamed some fields. */
enum dcgm_field {
	DCGM_NAME = 50,
	DCGM_INDEX = 52,   /* NVML's index */
	DCGM_UUID = 54,
	DCGM_PCI = 57,
	DCGM_CAPABILITY = 63, /* of CUDA: major << 16 | minor */
	DCGM_BUSY = 203,   /* per cent */
	DCGM_MEM_TOTAL = 250, /* MiB */
	/* Profiling module: shares of time, and bytes per second. */
	DCGM_GRACT = 1001,
	DCGM_SMACT = 1002,
	DCGM_SMOCC = 1003,
	DCGM_TENSOR = 1004,
	DCGM_DRAMA = 1005,
	DCGM_FP64 = 1006,
	DCGM_FP32 = 1007,
	DCGM_FP16 = 1008,
	DCGM_PCIE_TX = 1009,
	DCGM_PCIE_RX = 1010,
	DCGM_NVLINK_TX = 1011,
	DCGM_NVLINK_RX = 1012,
};

enum {
	DCGM_GPUS = 64,        /* room for ids: the library writes 32 at most */
	DCGM_GROUP_EMPTY = 1,  /* a kind of group */
};

struct dcgm_connect {
	uint32_t version, persist, timeout_ms, is_unix;
};
#define DCGM_CONNECT_VERSION ((uint32_t) sizeof(struct dcgm_connect) | 2u << 24)
static_assert(sizeof(struct dcgm_connect) == 16, "dcgmConnectV2Params_v2");

/* dcgmFieldValue_v1 */
struct dcgm_value {
	uint32_t version;
	uint16_t field, type;  /* 'i', 'd', 's', 't' */
	int32_t status;
	int64_t stamp_us;      /* wall clock */
	union {
		int64_t i64;
		double d;
		char text[256];
		char bytes[4096];
	} value;
};
static_assert(sizeof(struct dcgm_value) == 4120, "dcgmFieldValue_v1");
static_assert(offsetof(struct dcgm_value, value) == 24, "dcgmFieldValue_v1");

/* X(member of struct dcgm, parameters, name). Handles are integers as wide as a pointer. */
#define DCGM_CALLS(X) \
	X(init, (void), "dcgmInit") \
	X(connect, (const char *address, const struct dcgm_connect *, uintptr_t *handle), "dcgmConnect_v2") \
	X(disconnect, (uintptr_t), "dcgmDisconnect") \
	X(devices, (uintptr_t, unsigned ids[], int *n), "dcgmGetAllSupportedDevices") \
	X(group, (uintptr_t, int kind, const char *name, uintptr_t *ret), "dcgmGroupCreate") \
	X(group_add, (uintptr_t, uintptr_t group, unsigned gpu), "dcgmGroupAddDevice") \
	X(field_group, (uintptr_t, int n, const uint16_t ids[], const char *name, uintptr_t *ret), \
		"dcgmFieldGroupCreate") \
	X(group_end, (uintptr_t, uintptr_t group), "dcgmGroupDestroy") \
	X(field_group_end, (uintptr_t, uintptr_t fields), "dcgmFieldGroupDestroy") \
	X(watch, \
		(uintptr_t, uintptr_t group, uintptr_t fields, long long every_us, double keep_s, \
			int keep_n), \
		"dcgmWatchFields") \
	X(update, (uintptr_t, int wait), "dcgmUpdateAllFields") \
	X(latest, (uintptr_t, int gpu, const uint16_t ids[], unsigned n, struct dcgm_value *ret), \
		"dcgmGetLatestValuesForFields")
