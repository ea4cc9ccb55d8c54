/* SPDX-License-Identifier: MIT */
#include "source/drm/amdgpu/metrics.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* ---- units -------------------------------------------------------------------------------------------------------- */

enum scale {
	CELSIUS,
	CENTICELSIUS,
	PERCENT,
	CENTIPERCENT,
	WATT,
	MILLIWATT,
	MHZ,
	JOULE_2_16, /* 2^-16 J */
	PLAIN,
};

/* value = number * mul / div; a value above most is unknown (655 % was seen). */
static const struct {
	uint64_t mul, div, most;
} scales[] = {
	[CELSIUS] = { 1000, 1, 200000 },
	[CENTICELSIUS] = { 10, 1, 200000 },
	[PERCENT] = { 10000, 1, 1000000 },
	[CENTIPERCENT] = { 100, 1, 1000000 },
	[WATT] = { 1000000, 1, 5000000000 },
	[MILLIWATT] = { 1000, 1, 5000000000 },
	[MHZ] = { 1000000, 1, 10000000000 },
	[JOULE_2_16] = { 15625, 1024, INT64_MAX },
	[PLAIN] = { 1, 1, INT64_MAX },
};

static struct maybe scaled(uint64_t number, enum scale scale)
{
	uint64_t whole = number / scales[scale].div, rest = number % scales[scale].div, value;

	if (__builtin_mul_overflow(whole, scales[scale].mul, &value) ||
		__builtin_add_overflow(value, rest * scales[scale].mul / scales[scale].div, &value) ||
		value > scales[scale].most)
		return UNKNOWN;
	return known((int64_t) value);
}

/* A little-endian number of width bytes; all ones: absent. */
static struct maybe number_at(const uint8_t *at, unsigned width, enum scale scale)
{
	uint64_t value = 0;

	memcpy(&value, at, width);
	value = le64toh(value);
	if (value == UINT64_MAX >> (64 - 8 * width))
		return UNKNOWN;
	return scaled(value, scale);
}

/* ---- revisions with a fixed layout -------------------------------------------------------------------------------- */

struct field {
	uint8_t width; /* bytes; 0: not in this revision */
	uint16_t offset;
	enum scale scale;
};

/* Offsets on 64-bit machines, where the C compiler lays out the table. Omitted: energy before 1.4,
 * and power, activity and temperature of some APUs, whose units differ by chip or firmware. */
#define DISCRETE \
	[AMDGPU_TEMP] = { 2, 4, CELSIUS }, [AMDGPU_TEMP_HOTSPOT] = { 2, 6, CELSIUS }, \
	[AMDGPU_TEMP_MEM] = { 2, 8, CELSIUS }, [AMDGPU_BUSY] = { 2, 16, PERCENT }, \
	[AMDGPU_MEM_BUSY] = { 2, 18, PERCENT }, [AMDGPU_POWER] = { 2, 22, WATT }, \
	[AMDGPU_CLOCK] = { 2, 54, MHZ }, [AMDGPU_CLOCK_MEM] = { 2, 58, MHZ }
#define INSTINCT \
	[AMDGPU_TEMP_HOTSPOT] = { 2, 4, CELSIUS }, [AMDGPU_TEMP_MEM] = { 2, 6, CELSIUS }, \
	[AMDGPU_POWER] = { 2, 10, WATT }, [AMDGPU_BUSY] = { 2, 12, PERCENT }, \
	[AMDGPU_MEM_BUSY] = { 2, 14, PERCENT }
#define RESIDENCY(at) \
	[AMDGPU_ACC_ALL] = { 4, (at), PLAIN }, [AMDGPU_ACC_PROCHOT] = { 4, (at) + 4, PLAIN }, \
	[AMDGPU_ACC_POWER] = { 4, (at) + 8, PLAIN }, [AMDGPU_ACC_SOCKET] = { 4, (at) + 12, PLAIN }, \
	[AMDGPU_ACC_VR] = { 4, (at) + 16, PLAIN }, [AMDGPU_ACC_HBM] = { 4, (at) + 20, PLAIN }
#define APU_CLOCKS [AMDGPU_CLOCK] = { 2, 76, MHZ }, [AMDGPU_CLOCK_MEM] = { 2, 80, MHZ }

static const struct layout {
	uint8_t format, content;
	uint16_t size;
	struct field fields[AMDGPU_FIELDS];
} layouts[] = {
	{ 1, 0, 80,
		{
			[AMDGPU_TEMP] = { 2, 16, CELSIUS },
			[AMDGPU_TEMP_HOTSPOT] = { 2, 18, CELSIUS },
			[AMDGPU_TEMP_MEM] = { 2, 20, CELSIUS },
			[AMDGPU_BUSY] = { 2, 28, PERCENT },
			[AMDGPU_MEM_BUSY] = { 2, 30, PERCENT },
			[AMDGPU_POWER] = { 2, 34, WATT },
			[AMDGPU_CLOCK] = { 2, 54, MHZ },
			[AMDGPU_CLOCK_MEM] = { 2, 58, MHZ },
		} },
	{ 1, 1, 96, { DISCRETE } },
	{ 1, 2, 104, { DISCRETE } },
	{ 1, 3, 120, { DISCRETE, [AMDGPU_THROTTLE] = { 8, 112, PLAIN } } },
	{ 1, 4, 288,
		{ INSTINCT, [AMDGPU_ENERGY] = { 8, 24, JOULE_2_16 }, [AMDGPU_CLOCK] = { 2, 240, MHZ },
			[AMDGPU_CLOCK_MEM] = { 2, 280, MHZ } } },
	{ 1, 5, 360,
		{ INSTINCT, [AMDGPU_ENERGY] = { 8, 88, JOULE_2_16 }, [AMDGPU_CLOCK] = { 2, 312, MHZ },
			[AMDGPU_CLOCK_MEM] = { 2, 352, MHZ } } },
	{ 1, 6, 1664,
		{ INSTINCT, RESIDENCY(32), [AMDGPU_ENERGY] = { 8, 16, JOULE_2_16 },
			[AMDGPU_CLOCK] = { 2, 264, MHZ }, [AMDGPU_CLOCK_MEM] = { 2, 304, MHZ } } },
	{ 1, 7, 2208,
		{ INSTINCT, RESIDENCY(40), [AMDGPU_ENERGY] = { 8, 24, JOULE_2_16 },
			[AMDGPU_CLOCK] = { 2, 296, MHZ }, [AMDGPU_CLOCK_MEM] = { 2, 336, MHZ } } },
	{ 1, 8, 3360,
		{ INSTINCT, RESIDENCY(40), [AMDGPU_ENERGY] = { 8, 24, JOULE_2_16 },
			[AMDGPU_CLOCK] = { 2, 296, MHZ }, [AMDGPU_CLOCK_MEM] = { 2, 336, MHZ } } },
	{ 2, 0, 120,
		{
			[AMDGPU_TEMP] = { 2, 16, CENTICELSIUS },
			[AMDGPU_BUSY] = { 2, 40, CENTIPERCENT },
			[AMDGPU_CLOCK] = { 2, 80, MHZ },
			[AMDGPU_CLOCK_MEM] = { 2, 84, MHZ },
		} },
	{ 2, 1, 120,
		{ APU_CLOCKS, [AMDGPU_TEMP] = { 2, 4, CENTICELSIUS },
			[AMDGPU_BUSY] = { 2, 28, CENTIPERCENT } } },
	{ 2, 2, 128,
		{ APU_CLOCKS, [AMDGPU_TEMP] = { 2, 4, CENTICELSIUS }, [AMDGPU_BUSY] = { 2, 28, CENTIPERCENT },
			[AMDGPU_THROTTLE] = { 8, 120, PLAIN } } },
	{ 2, 3, 152,
		{ APU_CLOCKS, [AMDGPU_TEMP] = { 2, 4, CENTICELSIUS }, [AMDGPU_BUSY] = { 2, 28, CENTIPERCENT },
			[AMDGPU_THROTTLE] = { 8, 120, PLAIN } } },
	{ 2, 4, 168,
		{ APU_CLOCKS, [AMDGPU_TEMP] = { 2, 4, CENTICELSIUS }, [AMDGPU_BUSY] = { 2, 28, CENTIPERCENT },
			[AMDGPU_POWER] = { 2, 40, MILLIWATT }, [AMDGPU_THROTTLE] = { 8, 120, PLAIN } } },
	{ 3, 0, 264,
		{
			[AMDGPU_POWER] = { 4, 112, MILLIWATT },
			[AMDGPU_CLOCK] = { 2, 174, MHZ },
			[AMDGPU_CLOCK_MEM] = { 2, 186, MHZ },
		} },
};

static const struct layout *layout_of(uint8_t format, uint8_t content, size_t size)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (layouts[i].format == format && layouts[i].content == content && layouts[i].size == size)
			return &layouts[i];
	}
	return NULL;
}

static void layout_parse(const uint8_t *data, const struct layout *layout, struct amdgpu_metrics *ret)
{
	for (size_t i = 0; i < AMDGPU_FIELDS; i++) {
		const struct field *f = &layout->fields[i];

		if (f->width)
			ret->field[i] = number_at(data + f->offset, f->width, f->scale);
	}
}

/* ---- 1.9: a list of attributes ------------------------------------------------------------------------------------ */

/* enum amdgpu_metrics_attr_id: the first ones, which later kernels did not move; unit: the one the
 * attribute must have. */
static const struct attribute {
	uint16_t id;
	uint8_t unit;
	enum amdgpu_field field;
	enum scale scale;
} attributes[] = {
	{ 0, 2, AMDGPU_TEMP_HOTSPOT, CELSIUS },
	{ 1, 2, AMDGPU_TEMP_MEM, CELSIUS },
	{ 3, 3, AMDGPU_POWER, WATT },
	{ 4, 10, AMDGPU_BUSY, PERCENT },
	{ 5, 10, AMDGPU_MEM_BUSY, PERCENT },
	{ 7, 0, AMDGPU_ENERGY, JOULE_2_16 },
	{ 9, 0, AMDGPU_ACC_ALL, PLAIN },
	{ 10, 0, AMDGPU_ACC_PROCHOT, PLAIN },
	{ 11, 0, AMDGPU_ACC_POWER, PLAIN },
	{ 12, 0, AMDGPU_ACC_SOCKET, PLAIN },
	{ 13, 0, AMDGPU_ACC_VR, PLAIN },
	{ 14, 0, AMDGPU_ACC_HBM, PLAIN },
	{ 33, 1, AMDGPU_CLOCK, MHZ },
	{ 37, 1, AMDGPU_CLOCK_MEM, MHZ },
};

/* AMDGPU_METRICS_ENC_ATTR: describes the next attribute. */
struct encoding {
	unsigned unit, id, instances, width;
	bool is_signed;
};

static bool encoding_parse(const uint8_t *at, struct encoding *ret)
{
	uint64_t code;

	memcpy(&code, at, sizeof(code));
	code = le64toh(code);
	unsigned type = code >> 20 & 0xf;

	*ret = (struct encoding) {
		.unit = code >> 24 & 0xff,
		.id = code >> 10 & 0x3ff,
		.instances = code & 0x3ff,
		.width = 1u << (type >> 1),
		.is_signed = type & 1,
	};
	return type < 8 && ret->instances > 0 && code >> 32 == 0;
}

/* Stores the first instance of a known attribute; negative numbers are invalid. */
static void attribute_store(const struct encoding *code, const uint8_t *value, struct amdgpu_metrics *ret)
{
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		const struct attribute *a = &attributes[i];

		if (a->id == code->id && a->unit == code->unit &&
			!(code->is_signed && value[code->width - 1] & 0x80))
			ret->field[a->field] = number_at(value, code->width, a->scale);
	}
}

/* The header, int32 count, then for each attribute its encoding in 8 bytes and its values, packed. */
static int list_parse(const uint8_t *data, size_t size, struct amdgpu_metrics *ret)
{
	struct amdgpu_metrics found = *ret;
	struct encoding code;
	size_t at = 8;
	uint32_t count;

	if (size < at)
		return -EBADMSG;
	memcpy(&count, data + 4, sizeof(count));
	count = le32toh(count);
	for (uint32_t i = 0; i < count; i++) {
		if (size - at < 8 || !encoding_parse(data + at, &code))
			return -EBADMSG;
		at += 8;
		if (size - at < (size_t) code.width * code.instances)
			return -EBADMSG;
		attribute_store(&code, data + at, &found);
		at += (size_t) code.width * code.instances;
	}
	*ret = found;
	return 0;
}

/* ---- all of them -------------------------------------------------------------------------------------------------- */

int amdgpu_metrics_parse(const void *data, size_t size, struct amdgpu_metrics *ret)
{
	const uint8_t *bytes = data;
	uint16_t stated;

	*ret = (struct amdgpu_metrics) { 0 };
	if (size < 4)
		return -EBADMSG;
	memcpy(&stated, bytes, sizeof(stated));
	stated = le16toh(stated);
	ret->format = bytes[2];
	ret->content = bytes[3];
	if (stated > size || stated < 4)
		return -EBADMSG;
	if (ret->format == 1 && ret->content == 9)
		return list_parse(bytes, stated, ret);
	const struct layout *layout = layout_of(ret->format, ret->content, stated);

	if (!layout)
		return -EOPNOTSUPP;
	layout_parse(bytes, layout, ret);
	return 0;
}
