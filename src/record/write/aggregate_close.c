/* SPDX-License-Identifier: MIT
 *
 * Closes a window: decides which rows it has and emits them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "record/write/aggregate_internal.h"

enum {
	MOST_RANKED = 1 << 20
};

/* ---- one slot's row -------------------------------------------------------------------------- */

static void fill_cell(const struct slot *slot, unsigned c, struct cell *cell)
{
	const struct column *column = &slot->columns[c];

	*cell = (struct cell) {
		.known = true,
		.min = column->last,
		.value = column->last,
		.max = column->last,
	};
	if (!columns_has(slot->gauge, c))
		return;
	cell->min = column->min;
	cell->max = column->max;
	cell->cover_ns = column->cover_ns;
	if (column->cover_ns > 0)
		cell->value = mean_of(column->sum, column->cover_ns);
}

static void fill_row(const struct slot *slot, uint64_t end_ns, struct row *row)
{
	unsigned c;

	row->t_ns = slot->begin_ns;
	row->span_ns = 0;
	row->id = slot->id;
	row->n = 0;
	for (c = 0; c < slot->n; c++)
		row->cells[c] = (struct cell) { .known = false };
	for (columns left = slot->have; columns_pop(&left, &c);) {
		const struct column *column = &slot->columns[c];

		fill_cell(slot, c, &row->cells[c]);
		if (column->cover_ns > row->span_ns)
			row->span_ns = column->cover_ns;
		if (column->samples > row->n)
			row->n = column->samples;
	}
	if (!(slot->have & slot->gauge))
		row->span_ns = end_ns - slot->begin_ns;
}

static bool column_changed(const struct slot *slot, unsigned c)
{
	const struct column *column = &slot->columns[c];

	if (!columns_has(slot->have, c))
		return column->out_known; /* read without success */
	if (!column->out_known)
		return true;
	if (!columns_has(slot->gauge, c))
		return column->last != column->out_value;
	return column->min != column->out_min || column->max != column->out_max ||
	       (column->cover_ns > 0 ? mean_of(column->sum, column->cover_ns) : column->last) !=
		       column->out_value;
}

static bool has_changed(const struct slot *slot)
{
	unsigned c;

	if (!slot->is_written)
		return slot->have != 0;
	for (columns left = slot->have | slot->was_read; columns_pop(&left, &c);) {
		if (column_changed(slot, c))
			return true;
	}
	return false;
}

static void remember(struct slot *slot, const struct row *row)
{
	unsigned c;

	for (columns left = slot->have | slot->was_read; columns_pop(&left, &c);) {
		struct column *column = &slot->columns[c];

		column->out_known = columns_has(slot->have, c);
		column->out_min = row->cells[c].min;
		column->out_value = row->cells[c].value;
		column->out_max = row->cells[c].max;
	}
	slot->is_written = !row_is_empty(row, slot->n);
}

/* The process is unknown from here on; without this row it would count as unchanged. */
static void write_unread(struct aggregate *f, struct slot *slot, uint64_t end_ns)
{
	struct row *row = &f->row;

	if (!slot->is_written)
		return;
	for (unsigned c = 0; c < slot->n; c++)
		row->cells[c] = (struct cell) { .known = false };
	row->t_ns = f->begin_ns;
	row->span_ns = end_ns - f->begin_ns;
	row->id = slot->id;
	row->n = 0;
	aggregate_emit(f, slot->entity, false, row);
	slot->is_written = false;
}

static void next_window(struct slot *slot, uint64_t end_ns)
{
	unsigned c;

	for (columns left = slot->have | slot->was_read; columns_pop(&left, &c);) {
		struct column *column = &slot->columns[c];

		column->sum = 0;
		column->cover_ns = 0;
		column->samples = 0;
		column->min = column->max = column->last;
	}
	slot->begin_ns = end_ns;
	slot->was_read = 0;
	slot->have = slot->valid;
}

/* ---- the remaining processes ----------------------------------------------------------------- */

static void add_gauge(struct cell *sum, const struct cell *cell, enum adds adds)
{
	if (!sum->known) {
		*sum = *cell;
		return;
	}
	if (cell->cover_ns > sum->cover_ns)
		sum->cover_ns = cell->cover_ns;
	if (adds == ADDS_SUM) {
		sum->min += cell->min;
		sum->value += cell->value;
		sum->max += cell->max;
	} else {
		sum->min = cell->min > sum->min ? cell->min : sum->min;
		sum->value = cell->value > sum->value ? cell->value : sum->value;
		sum->max = cell->max > sum->max ? cell->max : sum->max;
	}
}

/* This counter is the use within the shared row, by whichever processes were in it: it only
 * grows. */
static void add_counter(struct cell *sum, struct column *column)
{
	int64_t before = column->out_known ? column->out_value : 0;

	if (column->last > before)
		sum->value += column->last - before;
	column->out_known = true;
	column->out_value = column->last;
	sum->min = sum->max = sum->value;
	sum->known = true;
}

static void add_to_shared(struct aggregate *f, struct slot *slot, uint64_t end_ns)
{
	const struct row_layout *l = f->options.layout;
	struct row *row = &f->row;

	unsigned c;

	fill_row(slot, end_ns, row);
	for (columns left = slot->have; columns_pop(&left, &c);) {
		enum adds adds = metrics[l->metric[ENTITY_PROCESS][c]].adds;

		if (adds == ADDS_NONE)
			continue;
		if (columns_has(slot->gauge | slot->mark, c))
			add_gauge(&f->shared.cells[c], &row->cells[c], adds);
		else
			add_counter(&f->shared.cells[c], &slot->columns[c]);
	}
	if (row->span_ns > f->shared.span_ns)
		f->shared.span_ns = row->span_ns;
	if (row->n > f->shared.n)
		f->shared.n = row->n;
	write_unread(f, slot, end_ns);
}

static void reset_shared(struct aggregate *f)
{
	f->shared.span_ns = 0;
	f->shared.n = 0;
	for (unsigned c = 0; c < f->options.layout->n[ENTITY_PROCESS]; c++)
		f->shared.cells[c].known = false;
}

static void write_shared(struct aggregate *f, uint64_t end_ns)
{
	bool empty = row_is_empty(&f->shared, f->options.layout->n[ENTITY_PROCESS]);

	if (empty && !f->shared_written)
		return;
	f->shared.t_ns = f->begin_ns;
	if (empty)
		f->shared.span_ns = end_ns - f->begin_ns;
	aggregate_emit(f, ENTITY_PROCESS, false, &f->shared);
	f->shared_written = !empty;
}

/* ---- which processes have their own rows ----------------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
	const struct slot *const *x = a, *const *y = b;

	if ((*x)->rank != (*y)->rank)
		return (*x)->rank > (*y)->rank ? -1 : 1;
	return (*x)->id<(*y)->id ? -1 : (*x)->id>(*y)->id;
}

/* Size in this window. A process that already has its own row gets a bonus of an eighth, so that
 * processes of equal size do not alternate. */
static int64_t rank_of(const struct aggregate *f, const struct slot *slot)
{
	const unsigned place = f->options.layout->place[M_PROC_RSS];
	int64_t size = columns_has(slot->have, place) ? slot->columns[place].max : 0;

	if (slot->is_main)
		return INT64_MAX;
	if (size < 0 || size > INT64_MAX / 2)
		return size < 0 ? 0 : INT64_MAX - 1;
	return slot->is_written ? size + size / 8 : size;
}

static void choose_own_rows(struct aggregate *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_slots; i++) {
		struct slot *slot = f->slots[i];

		if (slot->entity != ENTITY_PROCESS)
			continue;
		if (vec_reserve(&f->ranked, &f->cap_ranked, n, sizeof(*f->ranked), MOST_RANKED) < 0) {
			f->error = -ENOMEM;
			return;
		}
		slot->in_shared = false;
		slot->rank = rank_of(f, slot);
		f->ranked[n++] = slot;
	}
	if (n <= f->options.others_after)
		return;
	qsort(f->ranked, n, sizeof(f->ranked[0]), by_rank);
	for (size_t i = f->options.others_after; i < n; i++)
		f->ranked[i]->in_shared = true;
}

/* ---- the window ------------------------------------------------------------------------------ */

static bool any_cover(const struct slot *slot)
{
	unsigned c;

	for (columns left = slot->have; columns_pop(&left, &c);) {
		if (slot->columns[c].cover_ns > 0)
			return true;
	}
	return false;
}

static void write_row(struct aggregate *f, struct slot *slot, uint64_t end_ns)
{
	if (slot->entity == ENTITY_PROCESS && !has_changed(slot))
		return;
	fill_row(slot, end_ns, &f->row);
	remember(slot, &f->row);
	aggregate_emit(f, slot->entity, false, &f->row);
}

static void close_slot(struct aggregate *f, struct slot *slot, uint64_t end_ns, bool job_was_read)
{
	if (!slot->was_read && !slot->ended) {
		if (slot->valid)
			return; /* its next row covers this window too */
		if (!any_cover(slot)) {
			if (slot->entity == ENTITY_PROCESS && job_was_read)
				write_unread(f, slot, end_ns);
			next_window(slot, end_ns);
			return;
		}
	}
	if (slot->in_shared && slot->entity == ENTITY_PROCESS)
		add_to_shared(f, slot, end_ns);
	else
		write_row(f, slot, end_ns);
	next_window(slot, end_ns);
}

static void drop_ended(struct aggregate *f)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->n_slots; i++) {
		struct slot *slot = f->slots[i];

		if (slot->ended) {
			map_remove(&f->places, slot_key(slot->entity, slot->id));
			free(slot);
			continue;
		}
		if (kept != i && map_put(&f->places, slot_key(slot->entity, slot->id), (uint32_t) kept) < 0)
			f->error = -ENOMEM; /* cannot fail: the key exists */
		f->slots[kept++] = slot;
	}
	f->n_slots = kept;
}

static bool was_job_read(const struct aggregate *f)
{
	uint32_t place;

	return map_get(&f->places, slot_key(ENTITY_JOB, 0), &place) && f->slots[place]->was_read;
}

void aggregate_close(struct aggregate *f, uint64_t end_ns)
{
	const uint64_t window = f->options.window_ns;
	bool job_was_read = was_job_read(f);

	for (size_t i = 0; i < f->n_slots; i++) {
		slot_flush(f, f->slots[i]);
		slot_advance(f->slots[i], end_ns);
	}
	choose_own_rows(f);
	reset_shared(f);
	for (size_t i = 0; i < f->n_slots; i++)
		close_slot(f, f->slots[i], end_ns, job_was_read);
	write_shared(f, end_ns);
	drop_ended(f);
	f->windows++;
	f->begin_ns = end_ns;
	f->end_ns = end_ns - end_ns % window + window;
}
