/* SPDX-License-Identifier: MIT
 *
 * Evaluation of rules: those that use a value in the frame, and those that are due (a time span is
 * over, a value expires, a silence has lasted). Any other rule costs one comparison per frame.
 */
#include "rules/engine.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/engine_internal.h"

/* before a rule without a time span is cleared */
static const uint64_t least_quiet_ns = UINT64_C(1000000000);

/* ---- values for the terms ------------------------------------------------------------------------------------------ */

static void due_at(struct judging *j, uint64_t time_ns)
{
	if (time_ns > j->now && time_ns < j->next)
		j->next = time_ns;
}

static double nan_unless(bool known, double value)
{
	return known ? value : (double) NAN;
}

/* The current value, peak, mean or last value of a cell. NaN is a known value. */
static void value_of(const struct cell *cell, const struct rule_term *t, struct rule_value *ret)
{
	const bool lasts = t->name.part != PART_NOW;
	double value = cell->value;

	ret->known = lasts ? cell->ever : cell->known;
	if (t->name.part == PART_PEAK)
		value = cell->peak;
	else if (t->name.part == PART_MEAN && cell->weight > 0)
		value = cell->sum / cell->weight;
	ret->low = lasts ? value : cell->low;
	ret->high = lasts ? value : cell->high;
	ret->value = value;
}

static void rate_of(const struct cell *cell, struct rule_value *ret)
{
	const uint64_t span = cell->at_ns - cell->older.time_ns;

	ret->known = cell->known && cell->older.known && span >= RATE_SPAN_NS;
	if (ret->known)
		ret->low = ret->value = ret->high = (cell->value - cell->older.value) / ((double) span / 1e9);
}

/* Counters of the host and of GPUs began before the run: subtracts their first value. */
static void since_start(const struct cell *cell, struct rule_value *ret)
{
	ret->low -= cell->first;
	ret->value -= cell->first;
	ret->high -= cell->first;
}

static void lookup_silence(
	struct judging *j, const struct cell *cell, const struct rule_term *t, struct rule_value *ret)
{
	const struct place *p = &j->w->cells.crowds[t->name.entity].places[j->value_place];
	const uint64_t begun = cell->ever ? cell->at_ns : p->born_ns;
	const uint64_t from = begun > j->w->first_ns ? begun : j->w->first_ns;

	ret->known = true;
	ret->low = ret->value = ret->high = (double) (j->now - from);
	if (t->whole == WHOLE_MEDIAN) {
		const uint64_t gap = cell_gap(cell);

		ret->whole_known = gap > 0;
		ret->whole = (double) gap;
		due_at(j, from + (uint64_t) (t->value * (double) gap));
	} else {
		due_at(j, from + t->span_ns);
	}
}

static void lookup_cell(
	struct judging *j, const struct cell *cell, const struct rule_term *t, struct rule_value *ret)
{
	const bool is_counter = t->name.what == RULE_METRIC && metrics[t->name.metric].kind == KIND_COUNTER;
	const bool is_older = t->name.entity == ENTITY_HOST || t->name.entity == ENTITY_GPU;

	if (t->test == TEST_SILENT) {
		lookup_silence(j, cell, t, ret);
		return;
	}
	if (t->test == TEST_GROWTH) {
		ret->known = cell->known && cell->slope.known;
		ret->low = ret->value = ret->high = cell->slope.per_s;
	} else if (t->rate) {
		rate_of(cell, ret);
	} else {
		value_of(cell, t, ret);
	}
	if (is_counter && is_older && !t->rate && t->test == TEST_COMPARE)
		since_start(cell, ret);
	if (cell->known && cell->expires_ns <= j->now && t->name.part == PART_NOW)
		ret->known = false;
	due_at(j, cell->expires_ns);
	if (cell->known && cell->span_ns > j->span)
		j->span = cell->span_ns;
}

static void lookup_field(const struct place *p, const struct rule_term *t, struct rule_value *ret)
{
	const double number = t->name.field == FIELD_PID ? (double) p->pid : (double) p->uid;

	ret->known = true;
	ret->low = ret->value = ret->high = number;
	if (t->name.field == FIELD_NAME || t->name.field == FIELD_COMMAND)
		ret->text = t->name.field == FIELD_NAME ? p->name : p->command;
}

/* The place of a term's value: of the subject, of a certain GPU, or of the only entity of its
 * kind. */
static int place_of(const struct judging *j, const struct rule_term *t)
{
	if (t->name.indexed)
		return cells_gpu(&j->w->cells, t->name.index);
	return t->name.entity == j->subject ? (int) j->place : 0;
}

void judging_lookup(void *ctx, const struct rule *rule, size_t number, struct rule_value *ret)
{
	struct judging *j = ctx;
	const struct rule_term *t = &rule->terms[number];
	const int place = place_of(j, t);

	if (t->name.what == RULE_TIME) {
		ret->known = true;
		ret->low = ret->value = ret->high = (double) j->now;
		if (t->test == TEST_COMPARE && t->value > (double) j->now && t->value < 1e18)
			due_at(j, (uint64_t) t->value);
		return;
	}
	if (t->name.what == RULE_EXIT) {
		const struct maybe code = job_exit_code(j->w->facts);

		ret->known = code.known;
		ret->low = ret->value = ret->high = (double) code.value;
		return;
	}
	if (place < 0)
		return;
	const struct place *p = &j->w->cells.crowds[t->name.entity].places[place];

	j->value_place = (size_t) place;
	if (t->name.what == RULE_FIELD) {
		lookup_field(p, t, ret);
		return;
	}
	lookup_cell(j, &j->w->cells.slots[j->watched->slots[number]].cells[place], t, ret);
	if (t->whole != WHOLE_NONE && t->whole != WHOLE_MEDIAN) {
		const struct maybe whole = whole_of(j->w->facts, t, p->whole);

		ret->whole_known = whole.known;
		ret->whole = nan_unless(whole.known, (double) whole.value);
	}
}

/* ---- raising and clearing ------------------------------------------------------------------------------------------ */

static void set_raised(struct watch *w, struct watched *r, struct state *s, bool raised)
{
	s->raised = raised;
	if (rule_memory(&r->rule) != RULE_NO_MEMORY)
		w->memory_raised += raised ? 1 : -1;
}

static void holds_now(struct judging *j, struct state *s, const struct rule_seen *seen)
{
	const uint64_t least = j->watched->rule.for_ns;

	s->is_quiet = false;
	if (!s->is_holding) {
		s->is_holding = true;
		/* a window counts from its beginning */
		s->since_ns = j->now - (j->span < j->now ? j->span : j->now);
	}
	if (s->raised)
		return;
	if (j->now - s->since_ns < least) {
		due_at(j, s->since_ns + least);
		return;
	}
	set_raised(j->w, j->watched, s, true);
	alert_append(j, true, seen);
}

static void holds_not(struct judging *j, struct state *s, const struct rule_seen *seen)
{
	const uint64_t least = j->watched->quiet_ns;

	s->is_holding = false;
	if (!s->raised)
		return;
	if (!s->is_quiet) {
		s->is_quiet = true;
		s->quiet_ns = j->now;
	}
	if (j->now - s->quiet_ns < least) {
		due_at(j, s->quiet_ns + least);
		return;
	}
	set_raised(j->w, j->watched, s, false);
	alert_append(j, false, seen);
}

static void judge_one(struct judging *j)
{
	struct state *s = &j->watched->states[j->place];
	struct rule_seen seen;

	j->span = 0;
	if (rule_holds(&j->watched->rule, judging_lookup, j, &seen))
		holds_now(j, s, &seen);
	else
		holds_not(j, s, &seen);
	j->watched->history.had |= !seen.missing;
}

static void judge(struct watch *w, size_t number, uint64_t now)
{
	struct watched *r = &w->rules[number];
	const struct crowd *crowd = &w->cells.crowds[r->rule.subject];
	struct judging j = {
		.w = w,
		.watched = r,
		.number = number,
		.subject = r->rule.subject,
		.now = now,
		.next = UINT64_MAX,
	};

	for (j.place = 0; j.place < crowd->n; j.place++) {
		if (crowd->places[j.place].id)
			judge_one(&j);
	}
	r->next_ns = j.next;
}

/* The exit status is a fact and comes in no frame. */
static uint64_t rules_about_exit(struct watch *w)
{
	if (w->ended || !job_exit_code(w->facts).known)
		return 0;
	w->ended = true;
	return w->exit_rules;
}

static void judge_due(struct watch *w, uint64_t rules, uint64_t now)
{
	rules |= rules_about_exit(w);
	for (size_t i = 0; i < w->n; i++) {
		if ((rules >> i & 1) || w->rules[i].next_ns <= now)
			judge(w, i, now);
	}
}

/* ---- births and ends ----------------------------------------------------------------------------------------------- */

static uint64_t rules_about(const struct watch *w, enum entity entity)
{
	uint64_t rules = 0;

	for (size_t i = 0; i < w->n; i++)
		rules |= (uint64_t) (w->rules[i].rule.subject == entity) << i;
	return rules;
}

static int make_states(struct watch *w, enum entity entity)
{
	const size_t cap = w->cells.crowds[entity].cap;

	for (size_t i = 0; i < w->n; i++) {
		struct watched *r = &w->rules[i];

		if (r->rule.subject != entity || r->cap >= cap)
			continue;
		struct state *states = reallocarray(r->states, cap, sizeof(*states));

		if (!states)
			return -ENOMEM;
		memset(states + r->cap, 0, (cap - r->cap) * sizeof(*states));
		r->states = states;
		r->cap = cap;
	}
	return 0;
}

/* If memory is short, the entity is not watched. */
static uint64_t apply_birth(struct watch *w, const struct birth *birth, uint64_t now)
{
	bool is_new;
	const int place = w->entities >> birth->entity & 1 ? cells_birth(&w->cells, birth, now, &is_new) : -1;

	if (place < 0 || !is_new)
		return 0;
	if (make_states(w, birth->entity) < 0) {
		cells_free_place(&w->cells, birth->entity, (size_t) place);
		return 0;
	}
	for (size_t i = 0; i < w->n; i++) {
		if (w->rules[i].rule.subject == birth->entity)
			w->rules[i].states[place] = (struct state) { 0 };
	}
	return rules_about(w, birth->entity);
}

/* Clears the rules that are raised for it. */
static void apply_end(struct watch *w, const struct end *end, uint64_t now)
{
	const int place = end->entity == ENTITY_HOST || end->entity == ENTITY_JOB
				  ? -1
				  : cells_place(&w->cells, end->entity, end->id);

	if (place < 0)
		return;
	for (size_t i = 0; i < w->n; i++) {
		struct watched *r = &w->rules[i];
		struct judging j = { .w = w,
			.watched = r,
			.number = i,
			.subject = end->entity,
			.place = (size_t) place,
			.now = now };

		if (r->rule.subject != end->entity)
			continue;
		if (r->rule.kind == RULE_CHECK)
			counts_add(&j, &r->ended);
		if (!r->states[place].raised)
			continue;
		set_raised(w, r, &r->states[place], false);
		alert_append(&j, false, NULL);
	}
	cells_free_place(&w->cells, end->entity, (size_t) place);
}

void watch_frame(void *ctx, const struct frame *frame)
{
	struct watch *w = ctx;
	uint64_t rules = 0;

	if (w->n == 0)
		return;
	if (!w->begun) {
		w->begun = true;
		w->first_ns = frame->time_ns;
		rules = UINT64_MAX;
	}
	w->now_ns = frame->time_ns;
	for (size_t i = 0; i < frame->n_births; i++)
		rules |= apply_birth(w, &frame->births[i], frame->time_ns);
	for (size_t i = 0; i < frame->n_readings; i++)
		rules |= cells_reading(&w->cells, &frame->readings[i], frame);
	for (size_t i = 0; i < frame->n_series; i++)
		rules |= cells_series(&w->cells, &frame->series[i], frame->time_ns);
	judge_due(w, rules, frame->time_ns);
	for (size_t i = 0; i < frame->n_ends; i++)
		apply_end(w, &frame->ends[i], frame->time_ns);
}

void watch_advance(struct watch *w, uint64_t time_ns)
{
	if (!w->begun || time_ns < w->now_ns)
		return;
	w->now_ns = time_ns;
	judge_due(w, 0, time_ns);
}

/* ---- construction -------------------------------------------------------------------------------------------------- */

struct watch *watch_new(const struct facts *facts)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->facts = facts;
	if (cells_init(&w->cells) < 0) {
		watch_free(w);
		return NULL;
	}
	return w;
}

void watch_free(struct watch *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->n; i++) {
		rule_done(&w->rules[i].rule);
		free(w->rules[i].states);
	}
	cells_done(&w->cells);
	free(w);
}

/* Marks the kinds of entities in the rule's terms; a process on a GPU needs the GPU, too. */
static void mark_entities(struct watch *w, const struct rule *rule)
{
	for (size_t i = 0; i < rule->n_terms; i++)
		w->entities |= 1U << rule->terms[i].name.entity;
	if (w->entities >> ENTITY_GPU_PROCESS & 1)
		w->entities |= 1U << ENTITY_GPU;
}

static int add_slots(struct watch *w, struct watched *r, size_t number)
{
	for (size_t i = 0; i < r->rule.n_terms; i++) {
		const struct rule_term *t = &r->rule.terms[i];

		if (t->name.what == RULE_EXIT)
			w->exit_rules |= UINT64_C(1) << number;
		if (t->name.what != RULE_METRIC && t->name.what != RULE_SERIES)
			continue;
		r->slots[i] = (uint16_t) cells_slot(&w->cells, t);
		struct slot *s = &w->cells.slots[r->slots[i]];

		if (!s->cells && w->cells.crowds[t->name.entity].cap)
			return -ENOMEM;
		s->rules |= UINT64_C(1) << number;
	}
	return 0;
}

/* Time for which it must not hold before it is cleared. A silence ends with the first value. */
static uint64_t quiet_of(const struct rule *rule)
{
	for (size_t i = 0; i < rule->n_terms; i++) {
		if (rule->terms[i].test == TEST_SILENT && rule->for_ns == 0)
			return 0;
	}
	return rule->for_ns > least_quiet_ns ? rule->for_ns : least_quiet_ns;
}

int watch_add(struct watch *w, struct rule *rule)
{
	const size_t number = w->n;
	struct watched *r = &w->rules[number];

	if (number == WATCH_RULES) {
		rule_done(rule);
		return -E2BIG;
	}
	*r = (struct watched) { .rule = *rule, .quiet_ns = quiet_of(rule) };
	*rule = (struct rule) { 0 };
	w->n++; /* watch_free() frees it from here on */
	mark_entities(w, &r->rule);
	if (add_slots(w, r, number) < 0 || make_states(w, r->rule.subject) < 0)
		return -ENOMEM;
	return (int) number;
}

const struct rule *watch_rule(const struct watch *w, size_t number)
{
	return number < w->n ? &w->rules[number].rule : NULL;
}

const struct rule_name *watch_never_known(const struct watch *w, size_t number)
{
	const struct watched *r = &w->rules[number];

	for (size_t i = 0; i < r->rule.n_terms && !r->history.had && r->history.raised == 0; i++) {
		const struct rule_term *t = &r->rule.terms[i];

		if ((t->name.what == RULE_METRIC || t->name.what == RULE_SERIES) &&
			!w->cells.slots[r->slots[i]].ever)
			return &t->name;
	}
	return NULL;
}

bool watch_about_memory(const struct watch *w)
{
	return w->memory_raised > 0;
}

const struct watch_history *watch_history(const struct watch *w, size_t number)
{
	return &w->rules[number].history;
}

/* ---- counts over processes and GPUs, for rules on a finished run --------------------------------------------------- */

/* Of two subjects with the same result, is a closer to the threshold, or further beyond it? Without
 * ever, always or never, to violating the rule. */
static bool is_nearer(const struct rule *rule, const struct rule_seen *a, const struct rule_seen *b)
{
	const struct rule_term *t = a->term;

	if (t != b->term || t->test != TEST_COMPARE || !a->value.known || !b->value.known)
		return false;
	return ((t->op == OP_GT || t->op == OP_GE) != (rule->quantifier == RULE_BARE)) ==
	       (a->value.value > b->value.value);
}

void counts_add(struct judging *j, struct counts *counts)
{
	const struct rule *rule = &j->watched->rule;
	struct rule_seen seen;
	const bool holds = rule_holds(rule, judging_lookup, j, &seen);
	struct subject_count *t = &counts->of[holds ? COUNT_HOLDS : seen.missing ? COUNT_UNKNOWN
										 : COUNT_HOLDS_NOT];

	seen.value.text = NULL; /* its owner may be freed */
	if (t->n++ > 0 && !is_nearer(rule, &seen, &t->seen))
		return;
	t->seen = seen;
	alert_subject(j, t->subject, sizeof(t->subject));
}

void watch_count(struct watch *w, size_t number, struct counts *ret)
{
	struct watched *r = &w->rules[number];
	const struct crowd *crowd = &w->cells.crowds[r->rule.subject];
	struct judging j = {
		.w = w, .watched = r, .number = number, .subject = r->rule.subject, .now = w->now_ns
	};

	*ret = r->ended;
	for (j.place = 0; j.place < crowd->n; j.place++) {
		if (crowd->places[j.place].id)
			counts_add(&j, ret);
	}
}

/* ---- the base of a percentage -------------------------------------------------------------------------------------- */

static struct maybe cores_of(const struct facts *f, enum entity entity)
{
	const struct maybe cpus = f->cpus.known ? known(f->cpus.value * INT64_C(1000000000)) : UNKNOWN;
	const struct maybe quota = f->limit_cpu_ppm.known ? known(f->limit_cpu_ppm.value * 1000) : UNKNOWN;

	return entity == ENTITY_HOST ? cpus : maybe_min(quota, cpus);
}

struct maybe whole_of(const struct facts *f, const struct rule_term *t, struct maybe gpu_bytes)
{
	const struct maybe limit = f->limit_bytes.known ? f->limit_bytes : f->request_bytes;

	switch (t->whole) {
	case WHOLE_RAM:
		return limit.known ? limit : f->capacity_bytes;
	case WHOLE_LIMIT:
		return limit;
	case WHOLE_CAPACITY:
		return f->capacity_bytes;
	case WHOLE_GPU:
		return gpu_bytes;
	case WHOLE_CORES:
		return cores_of(f, t->name.entity);
	case WHOLE_NONE:
	case WHOLE_BASE:
	case WHOLE_MEDIAN:
		break;
	}
	return UNKNOWN;
}
