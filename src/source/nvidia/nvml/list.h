/* SPDX-License-Identifier: MIT
 *
 * Process lists as drivers write them. An entry is 16 bytes (pid, memory), 24 (and GPU and compute instance) or 32: the
 * drivers 535.43 to 535.86 write 32 under the name of the 24. So a list is read into room for the longest, filled with a
 * pattern before, and how far the driver wrote says which it was.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NVML_ENTRY_V1 = 16,
	NVML_ENTRY = 24,
	NVML_ENTRY_LONG = 32,
	NVML_PATTERN = 0xA5,
};

struct nvml_listed {
	uint32_t pid;
	uint64_t bytes; /* NVML_NONE_U64: the driver does not say */
	uint32_t gpu_instance, compute_instance; /* NVML_NONE_U32: no MIG */
	bool compute, graphics; /* the lists it was in */
};

/* The length of n entries in size bytes that held the pattern. maybe_long: what to take where more was written than n
 * entries of either kind. */
size_t nvml_list_stride(const uint8_t *bytes, size_t size, size_t n, bool maybe_long);

/* Adds up to n entries of stride bytes to ret, which has room for them; entries of pid 0 are left out. Returns how many. */
size_t nvml_list_decode(const uint8_t *bytes, size_t n, size_t stride, struct nvml_listed *ret);

/* Sorts by pid and makes one entry of those of the same process: a pid may be in several lists with what may be the
 * same memory, so the largest counts, not the sum. Returns how many are left. */
size_t nvml_list_merge(struct nvml_listed *list, size_t n);
