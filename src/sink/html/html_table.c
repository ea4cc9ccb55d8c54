/* SPDX-License-Identifier: MIT */
#include "sink/html/html_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
	ROWS_FIRST = 256,
	ROWS_MOST = 1 << 21,
	COLUMNS_MOST = 1 << 12,
};

static const uint64_t merged_first_ns = 200000000, slack_ns = 1000000;

void html_table_init(struct html_table *t, const char *entity, uint32_t id)
{
	*t = (struct html_table) { .entity = entity, .id = id };
	for (int m = 0; m < METRIC_COUNT; m++)
		t->place[m] = -1;
}

void html_table_done(struct html_table *t)
{
	for (size_t i = 0; i < t->n_columns; i++)
		free(t->columns[i].cells);
	free(t->columns);
	free(t->t);
	free(t->span);
}

/* ---- growing ---------------------------------------------------------------------------------------------------------- */

static int grow_times(uint64_t **times, size_t cap)
{
	uint64_t *grown = realloc(*times, cap * sizeof(**times));

	if (!grown)
		return -ENOMEM;
	*times = grown;
	return 0;
}

static int grow_cells(struct html_column *c, size_t from, size_t cap)
{
	struct html_cell *grown = realloc(c->cells, cap * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	memset(grown + from, 0, (cap - from) * sizeof(*grown));
	c->cells = grown;
	return 0;
}

static int grow(struct html_table *t)
{
	const size_t cap = t->cap ? 2 * t->cap : ROWS_FIRST;
	int r = cap > ROWS_MOST ? -EFBIG : grow_times(&t->t, cap);

	if (r == 0)
		r = grow_times(&t->span, cap);
	for (size_t i = 0; r == 0 && i < t->n_columns; i++)
		r = grow_cells(&t->columns[i], t->cap, cap);
	if (r == 0)
		t->cap = cap;
	return r;
}

int64_t html_table_row(struct html_table *t, uint64_t time_ns)
{
	int r;

	if (t->n > 0 && t->t[t->n - 1] >= time_ns)
		return (int64_t) t->n - 1;
	r = t->n == t->cap ? grow(t) : 0;
	if (r < 0)
		return r;
	t->t[t->n] = time_ns;
	t->span[t->n] = 0;
	return (int64_t) t->n++;
}

struct html_column *html_table_column(struct html_table *t)
{
	struct html_column *c;

	if (vec_reserve(&t->columns, &t->cap_columns, t->n_columns, sizeof(*c), COLUMNS_MOST) < 0)
		return NULL;
	c = &t->columns[t->n_columns];
	*c = (struct html_column) { .unit = "", .weight = 1 };
	if (t->cap > 0 && grow_cells(c, 0, t->cap) < 0)
		return NULL;
	t->n_columns++;
	return c;
}

/* ---- merging ---------------------------------------------------------------------------------------------------------- */

size_t html_table_weight(const struct html_table *t)
{
	size_t streams = 0;

	for (size_t i = 0; i < t->n_columns; i++)
		streams += t->row_ns > 0 && !t->columns[i].is_step ? 3 : t->columns[i].weight;
	return streams * t->n;
}

static uint64_t end_of(const struct html_table *t, size_t row)
{
	return t->t[row] + t->span[row];
}

static bool belong_together(const struct html_table *t, size_t a, size_t b)
{
	const uint64_t hole = t->t[b] > end_of(t, a) ? t->t[b] - end_of(t, a) : 0;

	return end_of(t, b) - t->t[a] <= t->row_ns && (t->is_points || hole <= t->span[a] / 2 + slack_ns);
}

/* NaN and infinities win over numbers: their presence matters more. */
static struct html_cell both(
	const struct html_cell *a, uint64_t a_ns, const struct html_cell *b, uint64_t b_ns)
{
	const double wa = a_ns ? (double) a_ns : 1, wb = b_ns ? (double) b_ns : 1;

	if (a->kind == CELL_NONE || (b->kind != CELL_NUMBER && b->kind != CELL_NONE))
		return *b;
	if (b->kind == CELL_NONE || a->kind != CELL_NUMBER)
		return *a;
	return (struct html_cell) {
		.low = a->low < b->low ? a->low : b->low,
		.mean = (a->mean * wa + b->mean * wb) / (wa + wb),
		.high = a->high > b->high ? a->high : b->high,
		.kind = CELL_NUMBER,
	};
}

static void merge(struct html_table *t, size_t a, size_t b)
{
	const uint64_t end = end_of(t, b) > end_of(t, a) ? end_of(t, b) : end_of(t, a);

	for (size_t i = 0; i < t->n_columns; i++) {
		struct html_cell *cells = t->columns[i].cells;

		cells[a] = both(&cells[a], t->span[a], &cells[b], t->span[b]);
	}
	t->span[a] = end - t->t[a];
}

static void move(struct html_table *t, size_t to, size_t from)
{
	if (to == from)
		return;
	for (size_t i = 0; i < t->n_columns; i++)
		t->columns[i].cells[to] = t->columns[i].cells[from];
	t->t[to] = t->t[from];
	t->span[to] = t->span[from];
}

static void merge_once(struct html_table *t)
{
	size_t to = 0;

	for (size_t i = 1; i < t->n; i++) {
		if (belong_together(t, to, i))
			merge(t, to, i);
		else
			move(t, ++to, i);
	}
	for (size_t c = 0; c < t->n_columns; c++)
		memset(&t->columns[c].cells[to + 1], 0, (t->n - to - 1) * sizeof(struct html_cell));
	t->n = to + 1;
}

/* Rows of one table may differ in length: shorter ones are merged first. */
bool html_table_merge(struct html_table *t)
{
	const size_t before = t->n;

	while (t->n > 1 && t->n > before - before / 4) {
		if (t->row_ns > UINT64_MAX / 4)
			return false;
		t->row_ns = t->row_ns ? 2 * t->row_ns : merged_first_ns;
		merge_once(t);
	}
	return t->n < before;
}
