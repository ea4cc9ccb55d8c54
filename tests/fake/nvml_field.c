// SPDX-License-Identifier: MIT
/* Field values and the samples that the driver keeps. */
#include "nvml_fake.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum value_type {
	TYPE_DOUBLE,
	TYPE_U32,
	TYPE_ULONG,
	TYPE_U64,
	TYPE_S64,
	TYPE_S32
};

/* Fields that use another key of the scenario if it has no "field N"; and the type of each. */
static const struct {
	uint32_t id;
	const char *key;
	enum value_type type;
} known[] = {
	{ 1, "ecc_mode", TYPE_U32 },
	{ 31, "retired_pending", TYPE_U32 },
	{ 82, "temperature_memory", TYPE_U32 },
	{ 83, "energy", TYPE_U64 },
	{ 90, NULL, TYPE_U32 },
	{ 91, NULL, TYPE_U32 },
	{ 94, "pcie_replay", TYPE_U32 },
	{ 142, NULL, TYPE_U32 },
	{ 143, NULL, TYPE_U32 },
	{ 144, NULL, TYPE_U32 },
	{ 145, NULL, TYPE_U32 },
	{ 185, NULL, TYPE_U32 },
	{ 186, "power", TYPE_U32 },
	{ 187, "power_min_limit", TYPE_U32 },
	{ 188, "power_max_limit", TYPE_U32 },
	{ 189, "power_default_limit", TYPE_U32 },
	{ 190, "power_limit", TYPE_U32 },
	{ 191, "energy", TYPE_U64 },
	{ 192, "power_management_limit", TYPE_U32 },
	{ 193, NULL, TYPE_S32 },
	{ 194, NULL, TYPE_S32 },
	{ 195, NULL, TYPE_S32 },
	{ 196, NULL, TYPE_S32 },
	{ 230, NULL, TYPE_U32 },
};

static size_t known_find(uint32_t id)
{
	size_t i = 0;

	while (i < sizeof(known) / sizeof(known[0]) && known[i].id != id)
		i++;
	return i;
}

/* "field N SCOPE", then "field N", then the key that replaces it. Scope 0 also applies to fields
 * without a scope. */
static int field_figure(const struct fake_gpu *gpu, const struct nvml_field *field, size_t at, double *ret)
{
	char scoped[48], plain[32];
	int code;

	snprintf(scoped, sizeof(scoped), "field %u %u", field->id, field->scope);
	snprintf(plain, sizeof(plain), "field %u", field->id);
	code = nvml_figure(gpu, scoped, ret);
	if (code == NVML_NOT_SUPPORTED && (field->scope == 0 || field->scope == UINT32_MAX)) {
		code = nvml_figure(gpu, plain, ret);
		if (code == NVML_NOT_SUPPORTED && at < sizeof(known) / sizeof(known[0]) && known[at].key)
			code = nvml_figure(gpu, known[at].key, ret);
	}
	return code;
}

static void field_fill(const struct fake_gpu *gpu, struct nvml_field *field)
{
	size_t at = known_find(field->id);
	double x = 0;
	int code = field_figure(gpu, field, at, &x);

	field->type = at < sizeof(known) / sizeof(known[0]) ? known[at].type : TYPE_U64;
	field->stamp = (int64_t) fake_stamp(fake_now());
	field->latency_us = 1;
	field->code = code == FAKE_UNKNOWN ? 0 : (uint32_t) code;
	if (code == FAKE_UNKNOWN)
		field->value.u64 = UINT64_MAX;
	else if (code == 0)
		field->value.s64 = llround(x); /* on a little-endian machine also the 32-bit types */
}

EXPORT int nvmlDeviceGetFieldValues(struct fake_gpu *gpu, int n, struct nvml_field *fields)
{
	int code = nvml_enter(__func__, gpu);

	if (code != 0 || !fields || n <= 0)
		return code ?: NVML_INVALID_ARGUMENT;
	for (int i = 0; i < n; i++)
		field_fill(gpu, &fields[i]);
	return NVML_SUCCESS;
}

/* ---- samples --------------------------------------------------------------------------------- */

enum {
	RING = 120
}; /* samples that the driver keeps */

/* The samples after last_seen, the oldest first. Returns their number. */
static unsigned samples_fill(
	const struct fake_gpu *gpu, const char *key, uint64_t last_seen, struct nvml_sample rows[])
{
	double interval = fake_bag_number(&gpu->bag, "sample_interval", 0, 0.1), t = fake_now(), x;
	long long newest = (long long) floor(t / interval), oldest = newest >= RING ? newest - RING + 1 : 0;
	unsigned n = 0;

	for (long long i = oldest; i <= newest; i++) {
		uint64_t stamp = fake_stamp((double) i * interval);
		if (stamp <= last_seen || nvml_figure_at(gpu, key, (double) i * interval, &x) != 0)
			continue;
		rows[n] = (struct nvml_sample) { .stamp = stamp };
		rows[n++].value.u32 = (uint32_t) llround(x);
	}
	return n;
}

EXPORT int nvmlDeviceGetSamples(struct fake_gpu *gpu, int type, unsigned long long last_seen, int *ret_type,
	unsigned *n, struct nvml_sample *rows)
{
	static const char *const keys[] = { "power", "util", "util_memory", "util_encoder", "util_decoder",
		"clock_sm", "clock_memory", "power_module", "util_jpg", "util_ofa" };
	struct nvml_sample found[RING];
	int code = nvml_enter(__func__, gpu);
	unsigned count;

	if (code != 0 || !ret_type || !n || type < 0 || type >= (int) (sizeof(keys) / sizeof(keys[0])))
		return code ?: NVML_INVALID_ARGUMENT;
	if (!fake_bag_find(&gpu->bag, keys[type]))
		return NVML_NOT_SUPPORTED;
	*ret_type = TYPE_U32;
	if (!rows) {
		*n = RING;
		return NVML_SUCCESS;
	}
	count = samples_fill(gpu, keys[type], last_seen, found);
	if (count == 0)
		return NVML_NOT_FOUND;
	if (count > *n) /* the driver returns as many as fit */
		count = *n;
	memcpy(rows, found, count * sizeof(*rows));
	*n = count;
	return NVML_SUCCESS;
}
