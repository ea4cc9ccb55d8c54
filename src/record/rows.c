/* SPDX-License-Identifier: MIT */
#include "record/rows.h"

#include <inttypes.h>
#include <errno.h>
#include <string.h>

#include "base/parse.h"

void row_layout_init(struct row_layout *l)
{
	memset(l, 0, sizeof(*l));
	for (unsigned m = 0; m < METRIC_COUNT; m++) {
		enum entity e = metrics[m].entity;

		l->place[m] = (uint8_t) l->n[e];
		l->metric[e][l->n[e]++] = (uint16_t) m;
	}
}

int row_layout_of(struct row_layout *l, const bool wanted[METRIC_COUNT])
{
	memset(l, 0, sizeof(*l));
	for (unsigned m = 0; m < METRIC_COUNT; m++) {
		enum entity e = metrics[m].entity;

		l->place[m] = ROW_CELLS - 1;
		if (!wanted[m])
			continue;
		if (l->n[e] == ROW_CELLS - 1)
			return -EINVAL;
		l->place[m] = (uint8_t) l->n[e];
		l->metric[e][l->n[e]++] = (uint16_t) m;
	}
	return 0;
}

int64_t mean_of(__int128 sum, uint64_t by)
{
	__int128 half = by / 2;

	return (int64_t) ((sum < 0 ? sum - half : sum + half) / (__int128) by);
}

static void merge_gauge(struct cell *a, const struct cell *b)
{
	uint64_t cover = a->cover_ns + b->cover_ns;

	if (b->min < a->min)
		a->min = b->min;
	if (b->max > a->max)
		a->max = b->max;
	if (cover == 0)
		a->value = b->value;
	else
		a->value = mean_of(
			(__int128) a->value * a->cover_ns + (__int128) b->value * b->cover_ns, cover);
	a->cover_ns = cover;
}

static void merge_cell(struct cell *a, const struct cell *b, enum metric_kind kind)
{
	if (!b->known)
		return;
	if (!a->known)
		*a = *b;
	else if (kind == KIND_GAUGE)
		merge_gauge(a, b);
	else if (kind == KIND_COUNTER || b->value > a->value)
		*a = *b;
}

void row_merge(struct row *into, const struct row *next, const struct row_layout *l, enum entity entity)
{
	into->span_ns += next->span_ns;
	into->n += next->n;
	for (unsigned c = 0; c < l->n[entity]; c++)
		merge_cell(&into->cells[c], &next->cells[c], metrics[l->metric[entity][c]].kind);
}

bool cells_same(const struct cell *a, const struct cell *b, unsigned n_cells)
{
	for (unsigned c = 0; c < n_cells; c++) {
		if (a[c].known != b[c].known)
			return false;
		if (a[c].known && (a[c].min != b[c].min || a[c].value != b[c].value || a[c].max != b[c].max))
			return false;
	}
	return true;
}

bool row_is_empty(const struct row *row, unsigned n_cells)
{
	for (unsigned c = 0; c < n_cells; c++) {
		if (row->cells[c].known)
			return false;
	}
	return true;
}

void row_part_write(const struct row *row, const struct row_layout *l, enum entity entity, struct buf *out)
{
	buf_clear(out);
	for (unsigned c = 0; c < l->n[entity]; c++) {
		const struct metric_info *m = &metrics[l->metric[entity][c]];

		if (m->kind == KIND_GAUGE && row->cells[c].known && row->cells[c].cover_ns != row->span_ns)
			(void) buf_printf(
				out, "%s%s %" PRIu64, out->len ? " " : "", m->name, row->cells[c].cover_ns);
	}
}

void row_burst_write(const struct row *row, const struct row_layout *l, enum entity entity, struct buf *out)
{
	buf_clear(out);
	for (unsigned c = 0; c < l->n[entity]; c++) {
		const char *name = metrics[l->metric[entity][c]].name;
		const struct cell *cell = &row->cells[c];

		if (cell->known && cell->max != cell->value)
			(void) buf_printf(out, "%s%s_max %" PRId64, out->len ? " " : "", name, cell->max);
		if (cell->known && cell->min != cell->value)
			(void) buf_printf(out, "%s%s_min %" PRId64, out->len ? " " : "", name, cell->min);
	}
}

/* The metric of entity whose name is the word at *p without the suffix end; -1 if there is none.
 * Advances *p past the word if it has that suffix. */
static int read_name(const char **p, enum entity entity, const char *end)
{
	char name[64];
	size_t len = strcspn(*p, " "), cut = strlen(end);
	const char *word = *p;

	if (len < cut || len - cut >= sizeof(name) || memcmp(word + len - cut, end, cut) != 0)
		return -1;
	*p += len;
	memcpy(name, word, len - cut);
	name[len - cut] = '\0';
	return metric_find(entity, name);
}

void row_burst_read(struct row *row, const struct row_layout *l, enum entity entity, const char *part)
{
	while (part && *part) {
		const char *word = part;
		int max = read_name(&part, entity, "_max");
		int min = max < 0 ? read_name(&part, entity, "_min") : -1;
		struct cell *cell = max < 0 && min < 0 ? NULL : &row->cells[l->place[max < 0 ? min : max]];
		int64_t value;

		if (part == word)
			return;
		parse_blanks(&part);
		if (parse_i64(&part, &value) < 0)
			return;
		if (cell && cell->known && max >= 0 && value > cell->value)
			cell->max = value;
		if (cell && cell->known && min >= 0 && value < cell->value)
			cell->min = value;
		parse_blanks(&part);
	}
}

void row_part_read(struct row *row, const struct row_layout *l, enum entity entity, const char *part)
{
	for (unsigned c = 0; c < l->n[entity]; c++) {
		bool gauge = metrics[l->metric[entity][c]].kind == KIND_GAUGE;

		row->cells[c].cover_ns = gauge && row->cells[c].known ? row->span_ns : 0;
	}
	while (part && *part) {
		const char *word = part;
		int metric = read_name(&part, entity, "");
		uint64_t ns;

		if (part == word)
			return;
		parse_blanks(&part);
		if (parse_u64(&part, &ns) < 0)
			return;
		if (metric >= 0 && row->cells[l->place[metric]].known && ns <= row->span_ns)
			row->cells[l->place[metric]].cover_ns = ns;
		parse_blanks(&part);
	}
}
