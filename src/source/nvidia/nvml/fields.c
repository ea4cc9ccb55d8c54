/* SPDX-License-Identifier: MIT */
#include "source/nvidia/nvml/fields.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "source/nvidia/nvml/tables.h"

#define ALL_LINKS UINT32_MAX

static const struct {
	uint32_t id, scope;
	bool counter;
} fields[NVML_FIELDS] = {
	[FIELD_THROTTLE_POWER] = { 74, 0, true }, /* ns since the driver was loaded, like the next four */
	[FIELD_THROTTLE_THERMAL] = { 75, 0, true },
	[FIELD_THROTTLE_SYNC_BOOST] = { 76, 0, true },
	[FIELD_THROTTLE_BOARD] = { 77, 0, true },
	[FIELD_THROTTLE_RELIABILITY] = { 79, 0, true },
	[FIELD_TEMP_MEMORY] = { 82, 0, false }, /* degrees Celsius; boards with HBM */
	[FIELD_PCIE_TX] = { 197, 0, true }, /* bytes, driver 555 */
	[FIELD_PCIE_RX] = { 198, 0, true },
	[FIELD_NVLINK_TX_KIB] = { 138, ALL_LINKS, true }, /* up to Hopper */
	[FIELD_NVLINK_RX_KIB] = { 139, ALL_LINKS, true },
	[FIELD_NVLINK_TX] = { 202, ALL_LINKS, true }, /* bytes, Blackwell */
	[FIELD_NVLINK_RX] = { 204, ALL_LINKS, true },
};

int nvml_field_number(const struct nvml_field_value *v, uint64_t *ret, uint64_t *ret_wraps)
{
	const union nvml_number *n = &v->value;
	uint64_t value, none = NVML_NONE_U64, wraps = 0;

	if (v->code != NVML_SUCCESS)
		return (int) v->code;
	switch (v->type) {
	case NVML_DOUBLE:
		if (!isfinite(n->d) || n->d < 0 || n->d >= 0x1p63)
			return NVML_NO_DATA;
		value = (uint64_t) n->d;
		break;
	case NVML_U16:
		value = n->u16;
		none = UINT16_MAX;
		wraps = 1ULL << 16;
		break;
	case NVML_U32:
		value = n->u32;
		none = NVML_NONE_U32;
		wraps = 1ULL << 32;
		break;
	case NVML_S32:
		if (n->s32 < 0)
			return NVML_NO_DATA;
		value = (uint64_t) n->s32;
		break;
	case NVML_S64:
		if (n->s64 < 0)
			return NVML_NO_DATA;
		value = (uint64_t) n->s64;
		break;
	case NVML_U64:
	case NVML_ULONG:
		value = n->u64;
		break;
	default:
		return NVML_NO_DATA;
	}
	if (value == none)
		return NVML_NO_DATA;
	*ret = value;
	*ret_wraps = wraps;
	return NVML_SUCCESS;
}

/* Keeps a counter monotonic: it continues over a wrap of its type, holds its value over a reset of
 * a 64-bit one, and continues from there with a reloaded driver, which starts at 0. */
static void count(struct nvml_fields *f, int i, uint64_t now, uint64_t wraps)
{
	uint64_t rise = now - f->raw[i]; /* modulo 2^64 */

	if (!f->seen[i])
		f->value[i] += now;
	else if (now >= f->raw[i])
		f->value[i] += rise;
	else if (wraps)
		f->value[i] += rise + wraps;
}

static void apply_value(struct nvml_fields *f, int i, const struct nvml_field_value *v)
{
	uint64_t now = 0, wraps = 0;
	int code = nvml_field_number(v, &now, &wraps);

	f->code[i] = code;
	if (code != NVML_SUCCESS) {
		/* A field's own "invalid argument" concerns its id or scope, not the device. */
		f->absent[i] = nvml_code(code)->meaning == NVML_ABSENT ||
			       nvml_code(code)->meaning == NVML_FORBIDDEN || code == NVML_INVALID_ARGUMENT;
		if (code == NVML_INVALID_ARGUMENT)
			f->code[i] = NVML_NOT_SUPPORTED;
		return;
	}
	if (fields[i].counter)
		count(f, i, now, wraps);
	else
		f->value[i] = now;
	f->raw[i] = now;
	f->seen[i] = true;
}

int nvml_fields_read(const struct nvml *nvml, void *handle, struct nvml_fields *f)
{
	struct nvml_field_value values[NVML_FIELDS];
	int which[NVML_FIELDS], n = 0;

	for (int i = 0; i < NVML_FIELDS; i++) {
		if (f->absent[i] || f->unwanted[i])
			continue;
		/* Detects fields that the driver does not fill. */
		values[n] = (struct nvml_field_value) {
			.id = fields[i].id, .scope = fields[i].scope, .type = UINT32_MAX, .code = NVML_UNKNOWN
		};
		which[n++] = i;
	}
	if (n == 0)
		return NVML_SUCCESS;
	int code = NVML_CALL(nvml, fields, handle, n, values);

	for (int k = 0; k < n; k++) {
		if (code != NVML_SUCCESS)
			values[k].code = (uint32_t) code;
		apply_value(f, which[k], &values[k]);
	}
	return code;
}

void nvml_fields_restart(struct nvml_fields *f)
{
	uint64_t value[NVML_FIELDS];

	memcpy(value, f->value, sizeof(value));
	memset(f, 0, sizeof(*f));
	memcpy(f->value, value, sizeof(value));
}
