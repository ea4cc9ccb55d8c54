/* SPDX-License-Identifier: MIT */
#include "record/write/fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "record/write/fold_internal.h"

enum {
	MOST_SLOTS = 1 << 20,
	SAME_LOOK_NS = 1000000, /* readings of several sources within this time are one row at full rate */
	EDGE_NS = 20000000,     /* the longest time that the sample which ends a window may take */
};

void fold_emit(struct fold *f, enum entity entity, bool recent, const struct row *row)
{
	int r = f->options.row(f->options.ctx, entity, recent, row);

	if (r < 0 && f->error == 0)
		f->error = r;
}

/* ---- slots ---------------------------------------------------------------------------------------------------------- */

static struct slot *find_slot(const struct fold *f, enum entity entity, uint32_t id)
{
	uint32_t place;

	return map_get(&f->places, slot_key(entity, id), &place) ? f->slots[place] : NULL;
}

static struct slot *make_slot(struct fold *f, enum entity entity, uint32_t id)
{
	const struct row_layout *l = f->options.layout;
	struct slot *slot;

	if (vec_room(&f->slots, &f->cap_slots, f->n_slots, sizeof(*f->slots), MOST_SLOTS) < 0)
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
		columns_put(&slot->gauge, c, metrics[l->metric[entity][c]].kind == KIND_GAUGE);
		columns_put(&slot->mark, c, metrics[l->metric[entity][c]].kind == KIND_MARK);
	}
	f->slots[f->n_slots++] = slot;
	return slot;
}

static struct slot *need_slot(struct fold *f, enum entity entity, uint32_t id)
{
	struct slot *slot = find_slot(f, entity, id);

	if (!slot)
		slot = make_slot(f, entity, id);
	if (!slot && f->error == 0)
		f->error = -ENOMEM;
	return slot;
}

/* ---- full rate ------------------------------------------------------------------------------------------------------ */

static bool is_news(const struct column *column)
{
	if (column->waits_known != column->seen_known)
		return true;
	return column->waits_known && (column->wait_min != column->seen_min ||
					      column->wait_value != column->seen_value || column->wait_max != column->seen_max);
}

/* Moves the pending sample into the row and remembers its values. Returns whether any of them is
 * new. */
static bool take_waiting(struct slot *slot, struct row *row)
{
	bool news = false;
	unsigned c;

	for (c = 0; c < slot->n; c++)
		row->cells[c].known = false;
	while (columns_take(&slot->waits, &c)) {
		struct column *column = &slot->columns[c];

		news = news || is_news(column);
		row->cells[c].known = column->seen_known = column->waits_known;
		row->cells[c].min = column->seen_min = column->wait_min;
		row->cells[c].value = column->seen_value = column->wait_value;
		row->cells[c].max = column->seen_max = column->wait_max;
		row->cells[c].cover_ns = 0;
	}
	return news;
}

void slot_flush(struct fold *f, struct slot *slot)
{
	struct row *row = &f->row;
	bool news;

	if (!slot->waits)
		return;
	news = take_waiting(slot, row);
	if (slot->entity == ENTITY_PROCESS && (!news || slot->is_other))
		return;
	row->id = slot->id;
	row->n = 1;
	row->span_ns = 0;
	row->t_ns = slot->wait_ns > slot->flushed_ns || slot->flushed_ns == 0 ? slot->wait_ns : slot->flushed_ns + 1;
	slot->flushed_ns = row->t_ns;
	fold_emit(f, slot->entity, true, row);
}

static void wait_for_company(struct fold *f, struct slot *slot, unsigned c, const struct reading *r, uint64_t time_ns)
{
	struct column *column = &slot->columns[c];
	const bool gauge = columns_has(slot->gauge, c);

	if (slot->waits && (columns_has(slot->waits, c) || time_ns - slot->wait_ns > SAME_LOOK_NS))
		slot_flush(f, slot);
	if (!slot->waits)
		slot->wait_ns = time_ns;
	columns_put(&slot->waits, c, true);
	column->waits_known = r->known;
	column->wait_min = gauge ? r->min : r->value;
	column->wait_value = r->value;
	column->wait_max = gauge ? r->max : r->value;
}

/* ---- looks ---------------------------------------------------------------------------------------------------------- */

static void advance_column(struct slot *slot, unsigned c, uint64_t time_ns)
{
	struct column *column = &slot->columns[c];
	uint64_t to = time_ns < column->until_ns ? time_ns : column->until_ns;

	if (to > column->at_ns) {
		column->sum += (__int128) column->last * (to - column->at_ns);
		column->cover_ns += to - column->at_ns;
		column->at_ns = to;
	}
	columns_put(&slot->held, c, time_ns < column->until_ns);
}

void slot_advance(struct slot *slot, uint64_t time_ns)
{
	unsigned c;

	for (columns left = slot->held; columns_take(&left, &c);)
		advance_column(slot, c, time_ns);
}

static void look_gauge(struct slot *slot, unsigned c, const struct reading *r, uint64_t time_ns, uint64_t hold_ns)
{
	struct column *column = &slot->columns[c];
	/* A value from before the window that was not valid in it is not an extreme of it. */
	const bool first = !columns_has(slot->have, c) || (column->looks == 0 && column->cover_ns == 0);

	if (first || r->min < column->min)
		column->min = r->min;
	if (first || r->max > column->max)
		column->max = r->max;
	column->last = r->value;
	column->at_ns = time_ns;
	if (__builtin_add_overflow(time_ns, hold_ns, &column->until_ns))
		column->until_ns = UINT64_MAX;
	columns_put(&slot->held, c, hold_ns > 0);
}

static void look(struct slot *slot, unsigned c, const struct reading *r, uint64_t time_ns, uint64_t hold_ns)
{
	struct column *column = &slot->columns[c];

	if (columns_has(slot->held, c))
		advance_column(slot, c, time_ns);
	columns_put(&slot->looked, c, true);
	if (!r->known) {
		columns_put(&slot->held, c, false);
		return;
	}
	if (columns_has(slot->gauge, c))
		look_gauge(slot, c, r, time_ns, hold_ns);
	else if (!columns_has(slot->mark & slot->have, c) || r->value > column->last)
		column->last = r->value;
	columns_put(&slot->have, c, true);
	column->looks += r->n;
}

/* ---- the sample that ends a window ---------------------------------------------------------------------------------- */

/* The values of this sample belong to the next window. Extremes that it proves for the interval
 * before it (a high-water mark of the kernel, the driver's own samples) belong to the window
 * that ends. */
static void look_ahead(const struct fold *f, struct slot *slot, unsigned c, const struct reading *r,
	const struct frame *frame)
{
	struct column *column = &slot->columns[c];
	const bool gauge = columns_has(slot->gauge, c);
	const bool proves = r->known && columns_has(slot->have, c) && frame->time_ns < f->end_ns + f->options.window_ns;

	columns_put(&slot->ahead, c, true);
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
static void take_ahead(struct slot *slot, uint64_t time_ns)
{
	unsigned c;

	while (columns_take(&slot->ahead, &c)) {
		const struct column *column = &slot->columns[c];
		const struct reading r = {
			.known = column->ahead_known,
			.n = column->ahead_n,
			.min = column->ahead_min,
			.value = column->ahead_value,
			.max = column->ahead_max,
		};

		look(slot, c, &r, time_ns < column->ahead_ns ? time_ns : column->ahead_ns, column->ahead_hold_ns);
	}
}

void fold_settle(struct fold *f)
{
	const uint64_t begin = f->edge_ns - f->edge_ns % f->options.window_ns;

	if (f->edge_ns == 0)
		return;
	f->edge_ns = 0;
	fold_close(f, f->end_ns);
	if (begin > f->begin_ns) /* no samples in the windows between */
		fold_close(f, begin);
	for (size_t i = 0; i < f->n_slots; i++)
		take_ahead(f->slots[i], UINT64_MAX);
}

/* A second reading of the same metric belongs to a new sample. */
static bool was_looked_at(const struct fold *f, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_readings; i++) {
		const struct reading *r = &frame->readings[i];
		const struct slot *slot = r->metric < METRIC_COUNT ? find_slot(f, metrics[r->metric].entity, r->id) : NULL;

		if (slot && columns_has(slot->ahead, f->options.layout->place[r->metric]))
			return true;
	}
	return false;
}

static void come_to_edge(struct fold *f, const struct frame *frame)
{
	if (f->edge_ns > 0 && frame->time_ns > f->edge_ns &&
		(frame->time_ns - f->edge_ns > EDGE_NS || was_looked_at(f, frame)))
		fold_settle(f);
	if (f->edge_ns == 0 && frame->time_ns >= f->end_ns)
		f->edge_ns = frame->time_ns;
}

/* ---- frames --------------------------------------------------------------------------------------------------------- */

static void take_reading(struct fold *f, const struct reading *r, const struct frame *frame)
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
		look_ahead(f, slot, c, r, frame);
	else
		look(slot, c, r, frame->time_ns, frame->hold_ns);
	wait_for_company(f, slot, c, r, frame->time_ns);
}

static void take_births(struct fold *f, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_births; i++) {
		const struct birth *birth = &frame->births[i];
		struct slot *slot = birth->entity < ENTITY_COUNT ? need_slot(f, birth->entity, birth->id) : NULL;

		if (slot && birth->entity == ENTITY_PROCESS)
			slot->is_main = birth->process.is_main;
	}
}

/* An end found by the sample that ends a window happened in that window. */
static void take_ends(struct fold *f, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_ends; i++) {
		const struct end *end = &frame->ends[i];
		struct slot *slot = find_slot(f, end->entity, end->id);

		if (!slot || slot->ended)
			continue;
		take_ahead(slot, f->end_ns);
		slot_advance(slot, frame->time_ns < f->end_ns ? frame->time_ns : f->end_ns);
		slot->held = 0;
		slot->ended = true;
	}
}

int fold_frame(struct fold *f, const struct frame *frame)
{
	f->error = 0;
	come_to_edge(f, frame);
	take_births(f, frame);
	for (size_t i = 0; i < frame->n_readings; i++)
		take_reading(f, &frame->readings[i], frame);
	take_ends(f, frame);
	return f->error;
}

int fold_flush(struct fold *f)
{
	f->error = 0;
	fold_settle(f);
	for (size_t i = 0; i < f->n_slots; i++)
		slot_flush(f, f->slots[i]);
	return f->error;
}

int fold_end(struct fold *f, uint64_t time_ns)
{
	f->error = 0;
	fold_settle(f);
	for (size_t i = 0; i < f->n_slots; i++)
		slot_flush(f, f->slots[i]);
	if (time_ns >= f->begin_ns)
		fold_close(f, time_ns > f->begin_ns ? time_ns : f->begin_ns + 1);
	return f->error;
}

uint64_t fold_windows(const struct fold *f)
{
	return f->windows;
}

uint64_t fold_begin(const struct fold *f)
{
	return f->begin_ns;
}

struct fold *fold_new(const struct fold_options *options)
{
	struct fold *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->options = *options;
	f->end_ns = options->window_ns;
	return f;
}

void fold_free(struct fold *f)
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
