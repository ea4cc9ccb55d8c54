/* SPDX-License-Identifier: MIT */
#include "source/nvidia/nvml/samples.h"

#include <stdbool.h>

#include "source/nvidia/nvml/fields.h"

enum {
	ROOM = 256 /* the driver keeps 120 of a kind at most, as far as is known */
};

int nvml_samples_fold(const struct nvml_sample *list, size_t n, int type, uint64_t *seen_us, struct nvml_samples *ret)
{
	struct nvml_samples found = { .min = UINT64_MAX };
	uint64_t newest = *seen_us;

	for (size_t i = 0; i < n; i++) {
		const struct nvml_field_value value = { .type = (uint32_t) type, .value = list[i].value };
		uint64_t number, wraps;

		if (list[i].time_us <= *seen_us || nvml_field_number(&value, &number, &wraps) != NVML_SUCCESS || number > UINT32_MAX)
			continue;
		found.n++;
		found.sum += number;
		found.min = number < found.min ? number : found.min;
		found.max = number > found.max ? number : found.max;
		newest = list[i].time_us > newest ? list[i].time_us : newest;
	}
	bool is_first = *seen_us == 0;

	*seen_us = newest;
	if (found.n == 0 || is_first)
		return NVML_NOT_FOUND;
	*ret = found;
	return NVML_SUCCESS;
}

int nvml_samples_read(const struct nvml *nvml, void *handle, int what, uint64_t *seen_us, struct nvml_samples *ret)
{
	struct nvml_sample list[ROOM];
	unsigned n = ROOM;
	int type = -1;
	int code = NVML_CALL(nvml, samples, handle, what, *seen_us, &type, &n, list);

	if (code != NVML_SUCCESS)
		return code;
	return nvml_samples_fold(list, n < ROOM ? n : ROOM, type, seen_us, ret);
}
