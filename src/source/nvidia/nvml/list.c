/* SPDX-License-Identifier: MIT */
#include "source/nvidia/nvml/list.h"

#include <stdlib.h>
#include <string.h>

#include "source/nvidia/nvml/abi.h"

size_t nvml_list_stride(const uint8_t *bytes, size_t size, size_t n, bool maybe_long)
{
	size_t written = size;

	while (written > 0 && bytes[written - 1] == NVML_PATTERN)
		written--;
	if (written > n * NVML_ENTRY_LONG)
		return maybe_long ? NVML_ENTRY_LONG : NVML_ENTRY;
	return written > n * NVML_ENTRY ? NVML_ENTRY_LONG : NVML_ENTRY;
}

static uint32_t u32_at(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

size_t nvml_list_decode(const uint8_t *bytes, size_t n, size_t stride, struct nvml_listed *ret)
{
	size_t found = 0;

	for (const uint8_t *p = bytes, *end = bytes + n * stride; p < end; p += stride) {
		struct nvml_listed entry = {
			.pid = u32_at(p),
			.gpu_instance = NVML_NONE_U32,
			.compute_instance = NVML_NONE_U32,
		};

		memcpy(&entry.bytes, p + 8, sizeof(entry.bytes));
		if (stride >= NVML_ENTRY) {
			entry.gpu_instance = u32_at(p + 16);
			entry.compute_instance = u32_at(p + 20);
		}
		if (entry.pid != 0)
			ret[found++] = entry;
	}
	return found;
}

static int by_pid(const void *a, const void *b)
{
	uint32_t x = ((const struct nvml_listed *) a)->pid, y = ((const struct nvml_listed *) b)->pid;

	return (x > y) - (x < y);
}

/* What holds nothing is in no list: some drivers write 0 where they do not know. */
static bool is_known(uint64_t bytes)
{
	return bytes != NVML_NONE_U64 && bytes != 0;
}

size_t nvml_list_merge(struct nvml_listed *list, size_t n)
{
	size_t kept = 0;

	if (n > 0)
		qsort(list, n, sizeof(*list), by_pid);
	for (size_t i = 0; i < n; i++) {
		struct nvml_listed now = list[i];

		now.bytes = is_known(now.bytes) ? now.bytes : NVML_NONE_U64;
		if (kept == 0 || list[kept - 1].pid != now.pid) {
			list[kept++] = now;
			continue;
		}
		struct nvml_listed *same = &list[kept - 1];

		if (same->bytes == NVML_NONE_U64 || (now.bytes != NVML_NONE_U64 && now.bytes > same->bytes))
			same->bytes = now.bytes;
		same->compute |= now.compute;
		same->graphics |= now.graphics;
	}
	return kept;
}
