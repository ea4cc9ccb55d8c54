/* SPDX-License-Identifier: MIT */
#include "rules/cells.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- places -------------------------------------------------------------------------------------------------------- */

static bool is_single(enum entity entity)
{
	return entity == ENTITY_HOST || entity == ENTITY_JOB;
}

/* Allocates n places in the crowd and cells in the slots of its kind. */
static int reserve_places(struct cells *c, enum entity entity, size_t n)
{
	struct crowd *crowd = &c->crowds[entity];
	size_t cap = crowd->cap ? crowd->cap : 16;
	struct place *places;

	if (n <= crowd->cap)
		return 0;
	if (n > PLACES_MOST)
		return -ENOMEM;
	while (cap < n)
		cap *= 2;
	for (size_t i = 0; i < c->n_slots; i++) {
		struct slot *s = &c->slots[i];
		struct cell *cells = s->name.entity == entity ? reallocarray(s->cells, cap, sizeof(*cells))
							      : s->cells;

		if (s->name.entity == entity && !cells)
			return -ENOMEM;
		s->cells = cells;
	}
	places = reallocarray(crowd->places, cap, sizeof(*places));
	if (!places)
		return -ENOMEM;
	crowd->places = places;
	crowd->cap = cap;
	return 0;
}

static void clear_cells(struct cells *c, enum entity entity, size_t place)
{
	for (size_t i = 0; i < c->n_slots; i++) {
		struct slot *s = &c->slots[i];

		if (s->name.entity == entity)
			s->cells[place] = (struct cell) { .slope.part_ns = s->growth_ns / SLOPE_PARTS };
	}
}

int cells_init(struct cells *c)
{
	memset(c->by_metric, 0xff, sizeof(c->by_metric));
	for (int e = ENTITY_HOST; e <= ENTITY_JOB; e++) {
		if (reserve_places(c, (enum entity) e, 1) < 0)
			return -ENOMEM;
		c->crowds[e].places[0] = (struct place) { .id = 1 };
		c->crowds[e].n = 1;
	}
	return 0;
}

void cells_done(struct cells *c)
{
	for (size_t e = 0; e < ENTITY_COUNT; e++) {
		free(c->crowds[e].places);
		map_done(&c->crowds[e].by_id);
	}
	for (size_t i = 0; i < c->n_slots; i++)
		free(c->slots[i].cells);
}

int cells_place(const struct cells *c, enum entity entity, uint32_t id)
{
	uint32_t place;

	if (is_single(entity))
		return id == 0 ? 0 : -1; /* single cores are not supported */
	return map_get(&c->crowds[entity].by_id, id, &place) ? (int) place : -1;
}

int cells_gpu(const struct cells *c, uint32_t index)
{
	const struct crowd *gpus = &c->crowds[ENTITY_GPU];

	for (size_t i = 0; i < gpus->n; i++) {
		if (gpus->places[i].id && gpus->places[i].has_index && gpus->places[i].index == index)
			return (int) i;
	}
	return -1;
}

static int new_place(struct cells *c, enum entity entity, uint32_t id)
{
	struct crowd *crowd = &c->crowds[entity];
	size_t i = 0;

	while (i < crowd->n && crowd->places[i].id)
		i++;
	if (reserve_places(c, entity, i + 1) < 0 || map_put(&crowd->by_id, id, (uint32_t) i) < 0)
		return -1;
	if (i == crowd->n)
		crowd->n++;
	crowd->places[i] = (struct place) { .id = id };
	clear_cells(c, entity, i);
	return (int) i;
}

static void fill_process(struct place *p, const struct process_birth *b)
{
	p->pid = b->pid;
	p->uid = b->uid;
	(void) snprintf(p->name, sizeof(p->name), "%s", b->name ? b->name : "");
	(void) snprintf(p->command, sizeof(p->command), "%s", b->command ? b->command : "");
}

static void fill_gpu_process(struct cells *c, struct place *p, const struct gpu_process_birth *b)
{
	const int gpu = cells_place(c, ENTITY_GPU, b->gpu);

	p->gpu = b->gpu;
	p->ours = b->process != 0;
	p->pid = b->pid.known ? (int32_t) b->pid.value : 0;
	p->whole = gpu >= 0 ? c->crowds[ENTITY_GPU].places[gpu].whole : UNKNOWN;
	(void) snprintf(p->name, sizeof(p->name), "%s", b->name ? b->name : "");
}

/* Updates the processes on it, too: a second birth may add values that were unknown at the
 * first. */
static void fill_gpu(struct cells *c, struct place *p, const struct gpu_birth *b)
{
	const struct crowd *users = &c->crowds[ENTITY_GPU_PROCESS];

	/* A MIG instance has no number of its own. */
	p->has_index = b->index.known && !(b->parent && *b->parent);
	p->index = (uint32_t) b->index.value;
	p->whole = b->memory_bytes;
	for (size_t i = 0; i < users->n; i++) {
		if (users->places[i].id && users->places[i].gpu == p->id)
			users->places[i].whole = p->whole;
	}
	(void) snprintf(p->name, sizeof(p->name), "%s", b->name ? b->name : "");
}

int cells_birth(struct cells *c, const struct birth *b, uint64_t time_ns, bool *ret_new)
{
	int i;

	*ret_new = false;
	if (is_single(b->entity) || b->entity >= ENTITY_COUNT)
		return -1;
	i = cells_place(c, b->entity, b->id);
	if (i < 0) {
		i = new_place(c, b->entity, b->id);
		if (i < 0)
			return -1;
		*ret_new = true;
		c->crowds[b->entity].places[i].born_ns = time_ns;
	}
	struct place *p = &c->crowds[b->entity].places[i];

	if (b->entity == ENTITY_PROCESS)
		fill_process(p, &b->process);
	else if (b->entity == ENTITY_GPU)
		fill_gpu(c, p, &b->gpu);
	else
		fill_gpu_process(c, p, &b->gpu_process);
	return i;
}

void cells_free_place(struct cells *c, enum entity entity, size_t place)
{
	struct crowd *crowd = &c->crowds[entity];

	map_remove(&crowd->by_id, crowd->places[place].id);
	crowd->places[place].id = 0;
}

/* ---- slots --------------------------------------------------------------------------------------------------------- */

static bool is_same_name(const struct rule_name *a, const struct rule_name *b)
{
	if (a->what != b->what || a->entity != b->entity)
		return false;
	return a->what == RULE_SERIES ? strcmp(a->series, b->series) == 0
				      : a->metric == b->metric && a->also == b->also;
}

static void link_slot(struct cells *c, size_t slot, int metric, size_t chain)
{
	c->slots[slot].next[chain] = c->by_metric[metric];
	c->by_metric[metric] = (uint16_t) slot;
}

size_t cells_slot(struct cells *c, const struct rule_term *term)
{
	const uint64_t growth = term->test == TEST_GROWTH ? term->span_ns : 0;
	const struct rule_name *name = &term->name;
	struct slot *s;
	size_t i = 0;

	while (i < c->n_slots && !(is_same_name(&c->slots[i].name, name) && c->slots[i].growth_ns == growth))
		i++;
	if (i < c->n_slots) {
		c->slots[i].wants_gaps |= term->whole == WHOLE_MEDIAN;
		return i;
	}
	s = &c->slots[c->n_slots++];
	*s = (struct slot) {
		.name = *name,
		.growth_ns = growth,
		.wants_gaps = term->whole == WHOLE_MEDIAN,
		.next = { NO_SLOT, NO_SLOT },
	};
	if (name->what == RULE_METRIC) {
		link_slot(c, i, name->metric, 0);
		if (name->also >= 0)
			link_slot(c, i, name->also, 1);
	}
	s->cells = c->crowds[name->entity].cap ? calloc(c->crowds[name->entity].cap, sizeof(*s->cells))
					       : NULL;
	if (s->cells)
		s->cells[0].slope.part_ns = growth / SLOPE_PARTS;
	c->has_series |= name->what == RULE_SERIES;
	return i;
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

/* Adds the value until now to the mean. */
static void settle(struct cell *cell, uint64_t now)
{
	uint64_t until = now < cell->expires_ns ? now : cell->expires_ns;

	if (!cell->known || until <= cell->at_ns)
		return;
	cell->sum += cell->value * (double) (until - cell->at_ns);
	cell->weight += (double) (until - cell->at_ns);
}

static void record_rate(struct cell *cell, uint64_t now)
{
	const struct point here = { true, now, cell->value };

	if (!cell->older.known || cell->value < cell->newer.value)
		cell->older = cell->newer = here; /* first value, or the counter was reset */
	if (now - cell->newer.time_ns < RATE_SPAN_NS)
		return;
	cell->older = cell->newer;
	cell->newer = here;
}

static int by_length(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

uint64_t cell_gap(const struct cell *cell)
{
	enum {
		MOST = sizeof(cell->gaps.ns) / sizeof(cell->gaps.ns[0]),
		LEAST = 5
	};
	const size_t n = cell->gaps.n < MOST ? cell->gaps.n : MOST;
	uint64_t sorted[MOST];

	if (n < LEAST)
		return 0;
	memcpy(sorted, cell->gaps.ns, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), by_length);
	return sorted[n / 2];
}

static void record_gap(struct cell *cell, uint64_t now)
{
	cell->gaps.ns[cell->gaps.n++ % (sizeof(cell->gaps.ns) / sizeof(cell->gaps.ns[0]))] = now -
											     cell->at_ns;
}

/* Records the new value of the cell (low, value, high, expires_ns are set). */
static void record_value(struct slot *s, struct cell *cell, uint64_t now)
{
	if (!cell->ever) {
		cell->first = cell->value;
		cell->peak = cell->high;
	} else if (s->wants_gaps) {
		record_gap(cell, now);
	}
	cell->ever = cell->known = s->ever = true;
	cell->at_ns = now;
	if (cell->high > cell->peak || isnan(cell->peak))
		cell->peak = cell->high;
	if (s->name.what == RULE_METRIC && metrics[s->name.metric].kind == KIND_COUNTER)
		record_rate(cell, now);
	if (s->growth_ns && isfinite(cell->low))
		slope_add(&cell->slope, now, cell->low);
}

static void apply_reading(
	struct slot *s, struct cell *cell, bool also, const struct reading *r, const struct frame *frame)
{
	const uint64_t now = frame->time_ns;

	settle(cell, now);
	if (!r->known) {
		cell->known = false;
		return;
	}
	cell->low = (double) r->min;
	cell->value = (double) r->value;
	cell->high = (double) r->max;
	if (s->name.also >= 0) {
		cell->part[also] = cell->value;
		cell->parts[also] = true;
		if (!cell->parts[!also])
			return;
		cell->low = cell->value = cell->high = cell->part[0] + cell->part[1];
	}
	cell->span_ns = r->span_ns;
	if (r->span_ns > 0 && metrics[r->metric].kind == KIND_GAUGE) {
		cell->sum += cell->value * (double) r->span_ns;
		cell->weight += (double) r->span_ns;
	}
	cell->expires_ns = frame->hold_ns ? now + frame->hold_ns : UINT64_MAX;
	record_value(s, cell, now);
}

uint64_t cells_reading(struct cells *c, const struct reading *r, const struct frame *frame)
{
	uint64_t rules = 0;
	int place;

	if (r->metric >= METRIC_COUNT || c->by_metric[r->metric] == NO_SLOT)
		return 0;
	place = cells_place(c, metrics[r->metric].entity, r->id);
	if (place < 0)
		return 0;
	for (uint16_t i = c->by_metric[r->metric]; i != NO_SLOT;) {
		struct slot *s = &c->slots[i];
		const bool also = s->name.metric != r->metric;

		apply_reading(s, &s->cells[place], also, r, frame);
		rules |= s->rules;
		i = s->next[also];
	}
	return rules;
}

static void apply_series(struct slot *s, double value, uint64_t now)
{
	struct cell *cell = &s->cells[0];

	cell->low = cell->value = cell->high = value;
	cell->expires_ns = UINT64_MAX;
	if (isfinite(value)) {
		cell->sum += value;
		cell->weight++;
	}
	record_value(s, cell, now);
}

/* True if v is a value of the slot. Step numbers come with any series; a repeated step number is no
 * new value. */
static bool is_value_of(const struct slot *s, const struct series_value *v, double *ret)
{
	const bool is_step = strcmp(s->name.series, "step") == 0,
		   is_it = strcmp(s->name.series, v->name) == 0;

	if (!is_it && !(is_step && v->has_step))
		return false;
	*ret = is_it ? v->value : (double) v->step;
	return !is_step || !s->cells[0].known || s->cells[0].value != *ret;
}

uint64_t cells_series(struct cells *c, const struct series_value *v, uint64_t now)
{
	uint64_t rules = 0;

	if (!c->has_series)
		return 0;
	for (size_t i = 0; i < c->n_slots; i++) {
		struct slot *s = &c->slots[i];
		double value;

		if (s->name.what != RULE_SERIES || !is_value_of(s, v, &value))
			continue;
		apply_series(s, value, now);
		rules |= s->rules;
	}
	return rules;
}
