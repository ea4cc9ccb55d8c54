/* SPDX-License-Identifier: MIT
 *
 * Internals of the fake NVML: its structs, in their layout on 64-bit machines, and shared
 * functions. Names with a suffix have a struct of their own; a plain name is the oldest form of the
 * call.
 */
#pragma once

#include "fake.h"

enum nvml_code {
	NVML_SUCCESS = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_TIMEOUT = 10,
	NVML_GPU_IS_LOST = 15,
	NVML_ARGUMENT_VERSION_MISMATCH = 25,
};

struct nvml_memory {
	uint64_t total, free, used;
};
struct nvml_memory_v2 {
	uint32_t version, pad;
	uint64_t total, reserved, free, used;
};
struct nvml_utilization {
	uint32_t gpu, memory;
};
struct nvml_pci_v1 {
	char bus_id[16];
	uint32_t domain, bus, device, pci_device;
};
struct nvml_pci_v2 {
	struct nvml_pci_v1 v1;
	uint32_t subsystem;
};
struct nvml_pci_v3 {
	struct nvml_pci_v2 v2; /* bus_id in the short form */
	char bus_id[32];
};
struct nvml_process_v1 {
	uint32_t pid, pad;
	uint64_t memory;
};
struct nvml_process_v2 {
	uint32_t pid, pad;
	uint64_t memory;
	uint32_t gi, ci;
};
struct nvml_process_detail { /* also the _v3 of 535.43 */
	uint32_t pid, pad;
	uint64_t memory;
	uint32_t gi, ci;
	uint64_t memory_protected;
};
struct nvml_detail_list {
	uint32_t version, mode, n, pad;
	struct nvml_process_detail *rows;
};
struct nvml_process_sample {
	uint32_t pid, pad;
	uint64_t stamp;
	uint32_t sm, mem, enc, dec;
};
struct nvml_process_util {
	uint64_t stamp;
	uint32_t pid, sm, mem, enc, dec, jpg, ofa, pad;
};
struct nvml_processes_util {
	uint32_t version, n;
	uint64_t last_seen;
	struct nvml_process_util *rows;
};
struct nvml_account {
	uint32_t util, util_memory;
	uint64_t max_memory, time_ms, start_us;
	uint32_t is_running, reserved[5];
};
union nvml_value {
	double d;
	uint32_t u32;
	uint64_t u64;
	int64_t s64;
};
struct nvml_sample {
	uint64_t stamp;
	union nvml_value value;
};
struct nvml_field {
	uint32_t id, scope;
	int64_t stamp, latency_us;
	uint32_t type, code;
	union nvml_value value;
};
struct nvml_gpm_metric {
	uint32_t id, code;
	double value;
	const char *short_name, *long_name, *unit;
};
struct nvml_gpm_get {
	uint32_t version, n;
	struct nvml_gpm_sample *sample1, *sample2;
	struct nvml_gpm_metric metrics[];
};
struct nvml_versioned { /* a version word and one more */
	uint32_t version, value;
};
struct nvml_temperature {
	uint32_t version, sensor;
	int32_t celsius;
};
struct nvml_fan_rpm {
	uint32_t version, fan, rpm;
};
struct nvml_attributes {
	uint32_t sms, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices;
	uint64_t memory_mib;
};
struct nvml_event_v1 {
	struct fake_gpu *gpu;
	uint64_t type, data;
};
struct nvml_event_v2 {
	struct fake_gpu *gpu;
	uint64_t type, data;
	uint32_t gi, ci;
};

#define SIZE_IS(type, size) _Static_assert(sizeof(struct type) == (size), #type)
SIZE_IS(nvml_memory, 24);
SIZE_IS(nvml_memory_v2, 40);
SIZE_IS(nvml_pci_v3, 68);
SIZE_IS(nvml_process_v1, 16);
SIZE_IS(nvml_process_v2, 24);
SIZE_IS(nvml_process_detail, 32);
SIZE_IS(nvml_detail_list, 24);
SIZE_IS(nvml_process_sample, 32);
SIZE_IS(nvml_process_util, 40);
SIZE_IS(nvml_processes_util, 24);
SIZE_IS(nvml_account, 56);
SIZE_IS(nvml_sample, 16);
SIZE_IS(nvml_field, 40);
SIZE_IS(nvml_gpm_metric, 40);
SIZE_IS(nvml_gpm_get, 24);
SIZE_IS(nvml_temperature, 12);
SIZE_IS(nvml_attributes, 40);
SIZE_IS(nvml_event_v2, 32);
#undef SIZE_IS

/* The version word of a struct. */
#define NVML_VERSION(type, number) ((uint32_t) (sizeof(struct type) | (number) << 24))

/* ---- nvml_level_*: generated, one a library -------------------------------------------------- */

/* "550": the library's name among the drivers; the number for comparing (535.43 is 535043); the
 * driver's version. */
extern const char nvml_level_name[], nvml_level_version[];
extern const unsigned nvml_level;

/* ---- nvml_core.c ----------------------------------------------------------------------------- */

struct fake_scenario *nvml_scenario(void);

/* Called first by each function on a device (NULL: none): 0 to continue, else the code to return.
 * An invalid handle ends the process, and so does a driver initialised before a fork. */
int nvml_enter(const char *call, const struct fake_gpu *gpu);

/* A figure of the device now: a code, possibly FAKE_UNKNOWN; *ret is set for 0. nvml_figure_at: at
 * time t. */
int nvml_figure(const struct fake_gpu *gpu, const char *key, double *ret);
int nvml_figure_at(const struct fake_gpu *gpu, const char *key, double t, double *ret);

/* The same as a call's result. ret NULL is an invalid argument; an unknown figure has all bits
 * set. */
int nvml_u32(const struct fake_gpu *gpu, const char *key, uint32_t *ret);
int nvml_u64(const struct fake_gpu *gpu, const char *key, uint64_t *ret);

/* Copies a text into a buffer of size bytes, or returns INSUFFICIENT_SIZE. text NULL:
 * NOT_SUPPORTED. */
int nvml_text(const char *text, char *ret, unsigned size);

/* A figure without an error; else `otherwise`. */
uint64_t nvml_number(const struct fake_gpu *gpu, const char *key, uint64_t otherwise);

/* ---- nvml_device.c --------------------------------------------------------------------------- */

const char *nvml_uuid(const struct fake_gpu *gpu);
