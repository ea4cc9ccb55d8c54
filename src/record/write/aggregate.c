/* SPDX-License-Identifier: MIT */
#include "record/write/aggregate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "record/write/aggregate_internal.h"

enum {
	MOST_SLOTS = 1 << 20,
	SAME_SAMPLE_NS = 1000000, /* values of several sources within this time are one row at full rate */
	EDGE_NS = 20000000,     /* the longest time that the sample which ends a window may take */
};

void aggregate_emit(struct aggregate *f, enum entity entity, bool recent, const struct row *row)
{
	int r = f->options.row(f->options.ctx, entity, recent, row);

	if (r < 0 && f->error == 0)
		f->error = r;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static struct slot *find_slot(const struct aggregate *f, enum entity entity, uint32_t id)
{
	uint32_t place;

	return map_get(&f->places, slot_key(entity, id), &place) ? f->slots[place] : NULL;
}

static struct slot *make_slot(struct aggregate *f, enum entity entity, uint32_t id)
{
	const struct row_layout *l = f->options.layout;
	struct slot *slot;

	if (vec_reserve(&f->slots, &f->cap_slots, f->n_slots, sizeof(*f->slots), MOST_SLOTS) < 0)
		return NULL;
	slot = calloc(1, sizeof(*slot) + l->n[entity] * sizeof(slot->columns[0]));
	if (!slot)
		return NULL;
	if (map_put(&f->places, slot_key(entity, id), (uint32_t) f->n_slots) < 0) {
		free(slot);
		return NULL;
	}
	slot->entity = entity;
	slot->id = id;
	slot->begin_ns = f->begin_ns;
	slot->n = l->n[entity];
	for (unsigned c = 0; c < slot->n; c++) {
		columns_set(&slot->gauge, c, metrics[l->metric[entity][c]].kind == KIND_GAUGE);
		columns_set(&slot->mark, c, metrics[l->metric[entity][c]].kind == KIND_HWM);
	}
	f->slots[f->n_slots++] = slot;
	return slot;
}

static struct slot *need_slot(struct aggregate *f, enum entity entity, uint32_t id)
{
	struct slot *slot = find_slot(f, entity, id);

	if (!slot)
		slot = make_slot(f, entity, id);
	if (!slot && f->error == 0)
		f->error = -ENOMEM;
	return slot;
}

/* ---- full rate ------------------------------------------------------------------------------- */

static bool is_new(const struct column *column)
{
	if (column->pending_known != column->recent_known)
		return true;
	return column->pending_known &&
	       (column->pending_min != column->recent_min || column->pending_value != column->recent_value ||
		       column->pending_max != column->recent_max);
}

/* Moves the pending sample into the row and remembers its values. Returns whether any of them is
 * new. */
static bool move_pending(struct slot *slot, struct row *row)
{
	bool any_new = false;
	unsigned c;

	for (c = 0; c < slot->n; c++)
		row->cells[c].known = false;
	while (columns_pop(&slot->pending, &c)) {
		struct column *column = &slot->columns[c];

		any_new = any_new || is_new(column);
		row->cells[c].known = column->recent_known = column->pending_known;
		row->cells[c].min = column->recent_min = column->pending_min;
		row->cells[c].value = column->recent_value = column->pending_value;
		row->cells[c].max = column->recent_max = column->pending_max;
		row->cells[c].cover_ns = 0;
	}
	return any_new;
}

void slot_flush(struct aggregate *f, struct slot *slot)
{
	struct row *row = &f->row;
	bool any_new;

	if (!slot->pending)
		return;
	any_new = move_pending(slot, row);
	if (slot->entity == ENTITY_PROCESS && (!any_new || slot->in_shared))
		return;
	row->id = slot->id;
	row->n = 1;
	row->span_ns = 0;
	row->t_ns = slot->pending_ns > slot->flushed_ns || slot->flushed_ns == 0 ? slot->pending_ns
										 : slot->flushed_ns + 1;
	slot->flushed_ns = row->t_ns;
	aggregate_emit(f, slot->entity, true, row);
}

static void set_pending(
	struct aggregate *f, struct slot *slot, unsigned c, const struct reading *r, uint64_t time_ns)
{
	struct column *column = &slot->columns[c];
	const bool gauge = columns_has(slot->gauge, c);

	if (slot->pending && (columns_has(slot->pending, c) || time_ns - slot->pending_ns > SAME_SAMPLE_NS))
		slot_flush(f, slot);
	if (!slot->pending)
		slot->pending_ns = time_ns;
	columns_set(&slot->pending, c, true);
	column->pending_known = r->known;
	column->pending_min = gauge ? r->min : r->value;
	column->pending_value = r->value;
	column->pending_max = gauge ? r->max : r->value;
}

/* ---- samples --------------------------------------------------------------------------------- */

static void advance_column(struct slot *slot, unsigned c, uint64_t time_ns)
{
	struct column *column = &slot->columns[c];
	uint64_t to = time_ns < column->until_ns ? time_ns : column->until_ns;

	if (to > column->at_ns) {
		column->sum += (__int128) column->last * (to - column->at_ns);
		column->cover_ns += to - column->at_ns;
		column->at_ns = to;
	}
	columns_set(&slot->valid, c, time_ns < column->until_ns);
}

void slot_advance(struct slot *slot, uint64_t time_ns)
{
	unsigned c;

	for (columns left = slot->valid; columns_pop(&left, &c);)
		advance_column(slot, c, time_ns);
}

static void add_gauge_value(
	struct slot *slot, unsigned c, const struct reading *r, uint64_t time_ns, uint64_t hold_ns)
{
	struct column *column = &slot->columns[c];
	/* A value from before the window that was not valid in it is not an extreme of it. */
	const bool first = !columns_has(slot->have, c) || (column->samples == 0 && column->cover_ns == 0);

	if (first || r->min < column->min)
		column->min = r->min;
	if (first || r->max > column->max)
		column->max = r->max;
	column->last = r->value;
	column->at_ns = time_ns;
	if (__builtin_add_overflow(time_ns, hold_ns, &column->until_ns))
		column->until_ns = UINT64_MAX;
	columns_set(&slot->valid, c, hold_ns > 0);
}

static void add_value(
	struct slot *slot, unsigned c, const struct reading *r, uint64_t time_ns, uint64_t hold_ns)
{
	struct column *column = &slot->columns[c];

	if (columns_has(slot->valid, c))
		advance_column(slot, c, time_ns);
	columns_set(&slot->was_read, c, true);
	if (!r->known) {
		columns_set(&slot->valid, c, false);
		return;
	}
	if (columns_has(slot->gauge, c))
		add_gauge_value(slot, c, r, time_ns, hold_ns);
	else if (!columns_has(slot->mark & slot->have, c) || r->value > column->last)
		column->last = r->value;
	columns_set(&slot->have, c, true);
	column->samples += r->n;
}

/* ---- the sample that ends a window ----------------------------------------------------------- */

/* The values of this sample belong to the next window. Extremes that it proves for the interval
 * before it (a high-water mark of the kernel) belong to the window
 * that ends. */
static void add_ahead(const struct aggregate *f, struct slot *slot, unsigned c, const struct reading *r,
	const struct frame *frame)
{
	struct column *column = &slot->columns[c];
	const bool gauge = columns_has(slot->gauge, c);
	const bool proves = r->known && columns_has(slot->have, c) &&
			    frame->time_ns < f->end_ns + f->options.window_ns;

	columns_set(&slot->ahead, c, true);
	column->ahead_known = r->known;
	column->ahead_n = r->n;
	column->ahead_value = r->value;
	column->ahead_min = gauge && !proves ? r->min : r->value;
	column->ahead_max = gauge && !proves ? r->max : r->value;
	column->ahead_ns = frame->time_ns;
	column->ahead_hold_ns = frame->hold_ns;
	if (!proves)
		return;
	if (gauge && r->min < r->value && r->min < column->min)
		column->min = r->min;
	if (gauge && r->max > r->value && r->max > column->max)
		column->max = r->max;
	if (columns_has(slot->mark, c) && r->value > column->last)
		column->last = r->value;
}

/* The pending values of the sample that ended the last window, dated time_ns at the latest. */
static void apply_ahead(struct slot *slot, uint64_t time_ns)
{
	unsigned c;

	while (columns_pop(&slot->ahead, &c)) {
		const struct column *column = &slot->columns[c];
		const struct reading r = {
			.known = column->ahead_known,
			.n = column->ahead_n,
			.min = column->ahead_min,
			.value = column->ahead_value,
			.max = column->ahead_max,
		};

		add_value(slot, c, &r, time_ns < column->ahead_ns ? time_ns : column->ahead_ns,
			column->ahead_hold_ns);
	}
}

void aggregate_settle(struct aggregate *f)
{
	const uint64_t begin = f->edge_ns - f->edge_ns % f->options.window_ns;

	if (f->edge_ns == 0)
		return;
	f->edge_ns = 0;
	aggregate_close(f, f->end_ns);
	if (begin > f->begin_ns) /* no samples in the windows between */
		aggregate_close(f, begin);
	for (size_t i = 0; i < f->n_slots; i++)
		apply_ahead(f->slots[i], UINT64_MAX);
}

/* A second reading of the same metric belongs to a new sample. */
static bool is_read_again(const struct aggregate *f, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_readings; i++) {
		const struct reading *r = &frame->readings[i];
		const struct slot *slot = r->metric < METRIC_COUNT
						  ? find_slot(f, metrics[r->metric].entity, r->id)
						  : NULL;

		if (slot && columns_has(slot->ahead, f->options.layout->place[r->metric]))
			return true;
	}
	return false;
}

static void check_edge(struct aggregate *f, const struct frame *frame)
{
	if (f->edge_ns > 0 && frame->time_ns > f->edge_ns &&
		(frame->time_ns - f->edge_ns > EDGE_NS || is_read_again(f, frame)))
		aggregate_settle(f);
	if (f->edge_ns == 0 && frame->time_ns >= f->end_ns)
		f->edge_ns = frame->time_ns;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void add_reading(struct aggregate *f, const struct reading *r, const struct frame *frame)
{
	struct slot *slot;
	unsigned c;

	if (r->metric >= METRIC_COUNT)
		return;
	/* Single cores are for live views; their history would be the largest part of the file. */
	if (metrics[r->metric].entity == ENTITY_HOST && r->id > 0)
		return;
	slot = need_slot(f, metrics[r->metric].entity, r->id);
	if (!slot)
		return;
	c = f->options.layout->place[r->metric];
	if (f->edge_ns > 0 && frame->time_ns >= f->end_ns)
		add_ahead(f, slot, c, r, frame);
	else
		add_value(slot, c, r, frame->time_ns, frame->hold_ns);
	set_pending(f, slot, c, r, frame->time_ns);
}

static void add_births(struct aggregate *f, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_births; i++) {
		const struct birth *birth = &frame->births[i];
		struct slot *slot = birth->entity < ENTITY_COUNT ? need_slot(f, birth->entity, birth->id)
								 : NULL;

		if (slot && birth->entity == ENTITY_PROCESS)
			slot->is_main = birth->process.is_main;
	}
}

/* An end found by the sample that ends a window happened in that window. */
static void add_ends(struct aggregate *f, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_ends; i++) {
		const struct end *end = &frame->ends[i];
		struct slot *slot = find_slot(f, end->entity, end->id);

		if (!slot || slot->ended)
			continue;
		apply_ahead(slot, f->end_ns);
		slot_advance(slot, frame->time_ns < f->end_ns ? frame->time_ns : f->end_ns);
		slot->valid = 0;
		slot->ended = true;
	}
}

int aggregate_frame(struct aggregate *f, const struct frame *frame)
{
	f->error = 0;
	check_edge(f, frame);
	add_births(f, frame);
	for (size_t i = 0; i < frame->n_readings; i++)
		add_reading(f, &frame->readings[i], frame);
	add_ends(f, frame);
	return f->error;
}

int aggregate_flush(struct aggregate *f)
{
	int r;

	aggregate_settle(f);
	for (size_t i = 0; i < f->n_slots; i++)
		slot_flush(f, f->slots[i]);
	r = f->error; /* of an earlier aggregate_settle, too */
	f->error = 0;
	return r;
}

int aggregate_end(struct aggregate *f, uint64_t time_ns)
{
	f->error = 0;
	aggregate_settle(f);
	for (size_t i = 0; i < f->n_slots; i++)
		slot_flush(f, f->slots[i]);
	if (time_ns >= f->begin_ns)
		aggregate_close(f, time_ns > f->begin_ns ? time_ns : f->begin_ns + 1);
	return f->error;
}

uint64_t aggregate_windows(const struct aggregate *f)
{
	return f->windows;
}

uint64_t aggregate_begin(const struct aggregate *f)
{
	return f->begin_ns;
}

struct aggregate *aggregate_new(const struct aggregate_options *options)
{
	struct aggregate *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->options = *options;
	f->end_ns = options->window_ns;
	return f;
}

void aggregate_free(struct aggregate *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n_slots; i++)
		free(f->slots[i]);
	free(f->slots);
	free(f->ranked);
	map_done(&f->places);
	free(f);
}
