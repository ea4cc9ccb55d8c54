/* SPDX-License-Identifier: MIT
 *
 * Data written by a driver: process lists of any stride, samples, field values, values of DCGM; and
 * CUDA_VISIBLE_DEVICES, which is set by users. The first byte selects the part.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "source/nvidia/cuda/order.h"
#include "source/nvidia/dcgm/value.h"
#include "source/nvidia/nvml/fields.h"
#include "source/nvidia/nvml/processes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(what) ((what) ? (void) 0 : abort())

/* The driver wrote as many entries as fit, and reports n. */
static void fuzz_list(const uint8_t *data, size_t size)
{
	size_t cap = size / NVML_ENTRY_LONG + 1, n = size ? data[0] % (cap + 1) : 0;
	uint8_t *bytes = malloc(cap * NVML_ENTRY_LONG);
	struct nvml_listed *list = calloc(3 * cap, sizeof(*list));

	REQUIRE(bytes && list);
	memset(bytes, NVML_PATTERN, cap * NVML_ENTRY_LONG);
	memcpy(bytes, data, size);
	size_t stride = nvml_list_stride(bytes, cap * NVML_ENTRY_LONG, n, size & 1);

	REQUIRE(stride == NVML_ENTRY || stride == NVML_ENTRY_LONG);
	size_t found = nvml_list_decode(bytes, n, stride, list);

	REQUIRE(found <= n);
	found += nvml_list_decode(bytes, n, NVML_ENTRY_V1, list + found);
	size_t kept = nvml_list_merge(list, found);

	REQUIRE(kept <= found && (found == 0 || kept > 0));
	for (size_t i = 0; i < kept; i++)
		REQUIRE(list[i].pid != 0 && list[i].bytes != 0 && (i == 0 || list[i - 1].pid < list[i].pid));
	free(list);
	free(bytes);
}

static void fuzz_field(const uint8_t *data, size_t size)
{
	struct nvml_field_value v;
	uint64_t number = 7, wraps = 7;

	if (size < sizeof(v))
		return;
	memcpy(&v, data, sizeof(v));
	v.code = size & 1 ? v.code : NVML_SUCCESS;
	v.type = size & 2 ? v.type : v.type % 8;
	if (nvml_field_number(&v, &number, &wraps) != NVML_SUCCESS)
		REQUIRE(number == 7 && wraps == 7);
	else
		REQUIRE(wraps == 0 || number < wraps);
}

static void fuzz_visible(const uint8_t *data, size_t size)
{
	static const struct cuda_device devices[] = {
		{ "GPU-aa", "0000:01:00.0", "A", "", true, 0, 0, 0 },
		{ "MIG-ab", "0000:01:00.0", "A", "GPU-aa", false, 0, 3, 0 },
		{ "GPU-ac", "0000:02:00.0", "A", "", false, 0, 0, 0 },
		{ "GPU-b", "0000:00:00.0", "A", "", false, 0, 0, 0 },
	};
	const size_t n = sizeof(devices) / sizeof(devices[0]);
	size_t order[4], ret[4];
	char *value = malloc(size + 1);

	REQUIRE(value);
	memcpy(value, data, size);
	value[size] = '\0';
	ssize_t n_order = cuda_order(devices, n, CUDA_PCI_BUS_ID, order);

	REQUIRE(n_order == 3);
	ssize_t found = cuda_visible(devices, n, order, (size_t) n_order, value, ret);

	REQUIRE(found >= 0 && found <= (ssize_t) n);
	for (ssize_t i = 0; i < found; i++)
		REQUIRE(ret[i] < n && !devices[ret[i]].is_divided);
	free(value);
}

static void fuzz_dcgm(const uint8_t *data, size_t size)
{
	struct dcgm_value v = { .type = "idst"[size % 4] };
	char text[96];
	double number = 7;

	memcpy(&v.value, data, size < sizeof(v.value) ? size : sizeof(v.value));
	const enum dcgm_why why = dcgm_number(&v, &number);

	REQUIRE(why < DCGM_WHYS && dcgm_reason(why)->why);
	REQUIRE(why == DCGM_FINE ? number < 0x1p63 : number == 7);
	const struct maybe ppm = dcgm_ppm(number);

	REQUIRE(!ppm.known || (ppm.value >= 0 && ppm.value <= 1000000));
	dcgm_text(&v, text, sizeof(text));
	REQUIRE(strlen(text) < sizeof(text) && strncmp(text, "<<<", 3) != 0);
}

static void (*const parts[])(
	const uint8_t *data, size_t size) = { fuzz_list, fuzz_field, fuzz_visible, fuzz_dcgm };

/* Letters, to keep the corpus readable: 'a' is the first part. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0)
		parts[(uint8_t) (data[0] - 'a') % (sizeof(parts) / sizeof(parts[0]))](data + 1, size - 1);
	return 0;
}
