/* SPDX-License-Identifier: MIT */
#include "record/read/row_read.h"

static bool read_int(sqlite3_stmt *st, int at, int64_t *ret)
{
	if (sqlite3_column_type(st, at) != SQLITE_INTEGER)
		return false;
	*ret = sqlite3_column_int64(st, at);
	return true;
}

/* A NULL minimum next to a value equals the value (docs/recording.md); so does a NULL maximum,
 * which hiwater never writes. */
static void read_gauge(sqlite3_stmt *st, int at, struct cell *cell)
{
	cell->known = read_int(st, at + 1, &cell->value);
	if (!cell->known)
		return;
	if (!read_int(st, at, &cell->min) || cell->min > cell->value)
		cell->min = cell->value;
	if (!read_int(st, at + 2, &cell->max) || cell->max < cell->value)
		cell->max = cell->value;
}

static void read_cells(sqlite3_stmt *st, int at, const struct row_layout *l, enum entity entity, bool recent,
	struct row *row)
{
	for (unsigned c = 0; c < l->n[entity]; c++) {
		struct cell *cell = &row->cells[c];

		*cell = (struct cell) { .known = false };
		if (metrics[l->metric[entity][c]].kind == KIND_GAUGE && !recent) {
			read_gauge(st, at, cell);
			at += 3;
			continue;
		}
		cell->known = read_int(st, at, &cell->value);
		cell->min = cell->max = cell->value;
		at++;
	}
}

bool row_read(sqlite3_stmt *st, const struct row_layout *l, enum entity entity, bool recent, struct row *ret)
{
	int64_t t, id = 0, span = 0, n = 0;
	const char *part = NULL;
	int at = 0;

	if (!read_int(st, at++, &t) || t < 0)
		return false;
	if (entity_has_id(entity) && (!read_int(st, at++, &id) || id < 0 || id > UINT32_MAX))
		return false;
	if (!read_int(st, at++, &span) || span < 0)
		span = 0;
	if (span > INT64_MAX - t)
		span = INT64_MAX - t;
	if (!read_int(st, at++, &n) || n < 0 || n > UINT32_MAX)
		n = 0;
	if (sqlite3_column_type(st, at) == SQLITE_TEXT)
		part = (const char *) sqlite3_column_text(st, at);
	at++;
	ret->t_ns = (uint64_t) t;
	ret->span_ns = (uint64_t) span;
	ret->id = (uint32_t) id;
	ret->n = (uint32_t) n;
	read_cells(st, at, l, entity, recent, ret);
	row_part_read(ret, l, entity, recent ? NULL : part);
	if (recent)
		row_burst_read(ret, l, entity, part);
	return true;
}
