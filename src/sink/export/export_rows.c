/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/export/export_internal.h"

/* ---- rows ------------------------------------------------------------------------------------------------------------- */

static void add_cell(struct export_row *row, const struct reading *r)
{
	row->cells[r->metric] = r;
	if (r->known && r->n > row->n)
		row->n = r->n;
	if (r->span_ns > row->span_ns)
		row->span_ns = r->span_ns;
}

/* Readings of one entity are adjacent in a frame. */
void export_rows(const struct frame *frame, void (*see)(void *ctx, const struct export_row *row), void *ctx)
{
	size_t i = 0;

	while (i < frame->n_readings) {
		const struct reading *first = &frame->readings[i];
		struct export_row row = {
			.entity = metrics[first->metric].entity, .id = first->id, .time_ns = frame->time_ns
		};

		for (; i < frame->n_readings; i++) {
			const struct reading *r = &frame->readings[i];

			if (r->id != row.id || metrics[r->metric].entity != row.entity)
				break;
			add_cell(&row, r);
		}
		see(ctx, &row);
	}
}

/* ---- columns ---------------------------------------------------------------------------------------------------------- */

static const struct {
	const char *suffix;
	unsigned digits;
} base_units[] = {
	[UNIT_BYTES] = { "_bytes", 0 },
	[UNIT_NS] = { "_seconds", 9 },
	[UNIT_COUNT] = { "", 0 },
	[UNIT_PPM] = { "_ratio", 6 },
	[UNIT_UJ] = { "_joules", 6 },
	[UNIT_UW] = { "_watts", 6 },
	[UNIT_MCEL] = { "_celsius", 3 },
	[UNIT_HZ] = { "_hertz", 0 },
};

static const struct {
	const char *word;
	size_t offset; /* in struct reading */
} parts[] = {
	[EXPORT_MIN] = { "_min", offsetof(struct reading, min) },
	[EXPORT_MEAN] = { "_mean", offsetof(struct reading, value) },
	[EXPORT_MAX] = { "_max", offsetof(struct reading, max) },
	[EXPORT_LAST] = { "", offsetof(struct reading, value) },
};

void export_columns(
	enum entity entity, void (*see)(void *ctx, enum metric metric, enum export_part part), void *ctx)
{
	for (int m = 0; m < METRIC_COUNT; m++) {
		const bool is_gauge = metrics[m].kind == KIND_GAUGE;

		if (metrics[m].entity != entity)
			continue;
		for (int p = is_gauge ? EXPORT_MIN : EXPORT_LAST; p <= (is_gauge ? EXPORT_MAX : EXPORT_LAST);
			p++)
			see(ctx, (enum metric) m, (enum export_part) p);
	}
}

char *export_column(enum metric metric, enum export_part part, char buf[COLUMN_LEN])
{
	const char *unit = export_suffix(metrics[metric].unit);
	const int len = snprintf(buf, COLUMN_LEN, "%s%s", metrics[metric].name, parts[part].word);

	if (!text_ends(buf, unit)) /* read_bytes has its unit already */
		(void) snprintf(buf + len, COLUMN_LEN - (size_t) len, "%s", unit);
	return buf;
}

int64_t export_value(const struct reading *reading, enum export_part part)
{
	int64_t value;

	memcpy(&value, (const char *) reading + parts[part].offset, sizeof(value));
	return value;
}

unsigned export_digits(enum unit unit)
{
	return base_units[unit].digits;
}

const char *export_suffix(enum unit unit)
{
	return base_units[unit].suffix;
}
