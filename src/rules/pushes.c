/* SPDX-License-Identifier: MIT
 *
 * The list is a ring of events with increasing numbers. Each push becomes a frame of series for the
 * engine.
 */
#include "rules/pushes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rules/engine.h"

enum {
	CHANGE = PUSH_SERIES + PUSH_RATIOS,  /* names in rules: series, ratios, "change" */
	NAMES,
};

struct pushes {
	struct pushes_options options;
	char names[NAMES][PUSH_NAME];
	struct push_ratio ratios[PUSH_RATIOS];
	struct push_event *ring;
	uint64_t first, end;               /* numbers of the events in the ring */
	struct push_event last;            /* values of the last push */
	bool has_last;                     /* since begin */
	double mark;                       /* of the last push; NaN: unknown */
	struct push_stats stats;
	bool is_active;
	uint64_t active_since_ns;
	struct watch *watch;               /* NULL: no rules */
	uint64_t watch_began_ns;
	size_t n_rules;
	uint32_t needs[PUSH_RULES];        /* bit n: the rule names names[n] */
	uint32_t needed;                   /* by any of them */
};

static bool is_known(const struct push_event *e, unsigned i)
{
	return e->known >> i & 1;
}

static const struct push_event *event_at(const struct pushes *p, uint64_t number)
{
	return &p->ring[number % p->options.max_events];
}

static const struct facts no_facts;        /* pushed values have no percentages of a machine */

/* ---- construction -------------------------------------------------------------------------------------------------- */

static int set_name(struct pushes *p, size_t i, const char *name, struct err *err)
{
	if (!name || !*name || strlen(name) >= PUSH_NAME)
		return err_set(err, -EINVAL, "a series' name has 1 to %d bytes", PUSH_NAME - 1);
	for (size_t j = 0; j < NAMES; j++) {
		if (j != i && strcmp(p->names[j], name) == 0)
			return err_set(err, -EINVAL, "duplicate series '%s'", name);
	}
	(void) snprintf(p->names[i], PUSH_NAME, "%s", name);
	return 0;
}

static int check(const struct pushes_options *o, struct err *err)
{
	if (o->max_events < 1 || o->max_events > PUSH_EVENTS_MOST)
		return err_set(err, -EINVAL, "a list holds 1 to %d events", PUSH_EVENTS_MOST);
	if (o->n_series < 1 || o->n_series > PUSH_SERIES || o->n_ratios > PUSH_RATIOS)
		return err_set(err, -EINVAL, "a list has 1 to %d series and at most %d ratios", PUSH_SERIES,
			PUSH_RATIOS);
	for (size_t i = 0; i < o->n_ratios; i++) {
		if (o->ratios[i].of >= o->n_series || o->ratios[i].by >= o->n_series)
			return err_set(err, -EINVAL, "a ratio needs two series of the list");
	}
	return 0;
}

static int fill(struct pushes *p, struct err *err)
{
	const struct pushes_options *o = &p->options;
	int r = 0;

	(void) snprintf(p->names[CHANGE], PUSH_NAME, "change");
	for (size_t i = 0; r == 0 && i < o->n_series; i++)
		r = set_name(p, i, o->series[i], err);
	for (size_t i = 0; r == 0 && i < o->n_ratios; i++) {
		r = set_name(p, PUSH_SERIES + i, o->ratios[i].name, err);
		p->ratios[i] = o->ratios[i];
	}
	if (r < 0)
		return r;
	p->mark = (double) NAN;
	p->ring = calloc(o->max_events, sizeof(*p->ring));
	return p->ring ? 0 : -ENOMEM;
}

int pushes_new(const struct pushes_options *options, struct pushes **ret, struct err *err)
{
	struct pushes *p;
	int r = check(options, err);

	if (r < 0)
		return r;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->options = *options;
	r = fill(p, err);
	if (r < 0) {
		pushes_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

static void drop_events(struct pushes *p)
{
	for (uint64_t n = p->first; p->ring && n < p->end; n++)
		free(p->ring[n % p->options.max_events].text);
	p->first = p->end;
}

void pushes_free(struct pushes *p)
{
	if (!p)
		return;
	drop_events(p);
	free(p->ring);
	watch_free(p->watch);
	free(p);
}

size_t pushes_series(const struct pushes *p)
{
	return p->options.n_series;
}

/* ---- rules --------------------------------------------------------------------------------------------------------- */

/* The names of a rule as bits; -EINVAL for a name that is not pushed. */
static int names_of(const struct pushes *p, const struct rule *rule, uint32_t *ret, struct err *err)
{
	*ret = 0;
	for (size_t i = 0; i < rule->n_terms; i++) {
		const struct rule_name *name = &rule->terms[i].name;
		char text[RULE_NAME];
		size_t n = 0;

		if (name->what == RULE_TIME)
			continue;
		while (n < NAMES && (name->what != RULE_SERIES || strcmp(p->names[n], name->series) != 0))
			n++;
		if (n == NAMES)
			return err_set(err, -EINVAL, "rule '%s': '%s' is not pushed here; '%s' is",
				rule->text, rule_name_text(name, text), p->names[0]);
		*ret |= UINT32_C(1) << n;
	}
	return 0;
}

static int add_rule(
	const struct pushes *p, struct watch *w, const char *text, uint32_t *ret_needs, struct err *err)
{
	struct rule rule;
	int r = rule_parse(text, RULE_ALERT, &rule, err);

	if (r < 0)
		return r;
	r = names_of(p, &rule, ret_needs, err);
	if (r < 0) {
		rule_done(&rule);
		return r;
	}
	r = watch_add(w, &rule);
	return r < 0 ? r : 0;
}

int pushes_rules(struct pushes *p, const char *const *rules, size_t n, uint64_t now_ns, struct err *err)
{
	struct watch *w = NULL;
	uint32_t needs[PUSH_RULES] = { 0 };
	int r = 0;

	if (n > PUSH_RULES)
		return err_set(err, -E2BIG, "too many rules (at most %d)", PUSH_RULES);
	if (n > 0) {
		w = watch_new(&no_facts);
		if (!w)
			return -ENOMEM;
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_rule(p, w, rules[i], &needs[i], err);
	if (r < 0) {
		watch_free(w);
		return r;
	}
	watch_free(p->watch);
	p->watch = w;
	p->watch_began_ns = now_ns;
	p->n_rules = n;
	p->needed = 0;
	memcpy(p->needs, needs, sizeof(needs));
	for (size_t i = 0; i < n; i++)
		p->needed |= needs[i];
	return 0;
}

/* ---- events -------------------------------------------------------------------------------------------------------- */

static void append(struct pushes *p, const struct push_event *e)
{
	struct push_event *place = &p->ring[p->end % p->options.max_events];

	if (p->end - p->first == p->options.max_events) {
		free(place->text);
		p->first++;
	}
	*place = *e;
	p->end++;
	p->stats.events++;
	p->stats.counts[e->kind]++;
}

static void append_kind(struct pushes *p, const struct push_event *reading, enum push_kind kind)
{
	struct push_event e = *reading;

	e.kind = (uint8_t) kind;
	append(p, &e);
}

static void update_peaks(struct pushes *p, const struct push_event *e, double highest)
{
	for (unsigned i = 0; i < p->options.n_series; i++) {
		const double value = i == 0 ? highest : e->values[i];

		if (!is_known(e, i) || isnan(value) ||
			(p->stats.known >> i & 1 && p->stats.peaks[i] >= value))
			continue;
		p->stats.peaks[i] = value;
		p->stats.known |= (uint8_t) (1U << i);
	}
}

/* The highest value of the first series since the last push. */
static double highest_of(struct pushes *p, const struct push_event *e, double mark)
{
	const bool rose = mark > p->mark; /* false with NaN: rises before begin do not count */
	const double value = e->values[0];

	if (!isnan(mark))
		p->mark = mark;
	return rose && mark > value ? mark : value;
}

static void append_changes(struct pushes *p, const struct push_event *e, double mark)
{
	const bool had_peak = p->stats.known & 1;
	const double before = p->stats.peaks[0], highest = highest_of(p, e, mark);

	update_peaks(p, e, highest);
	if (!p->options.changes || !is_known(e, 0))
		return;
	if (highest > (had_peak ? before : 0)) {
		struct push_event peak = *e;

		peak.values[0] = highest;
		append_kind(p, &peak, PUSH_PEAK);
	}
	if (e->change > 0) {
		p->stats.risen += e->change;
		append_kind(p, e, PUSH_ALLOCATION);
	} else if (e->change < 0) {
		p->stats.fallen -= e->change;
		append_kind(p, e, PUSH_DEALLOCATION);
	}
}

/* ---- evaluation of rules ------------------------------------------------------------------------------------------- */

/* Values for rules, by the numbers of names. Returns which are known, as bits. */
static uint32_t figures(const struct pushes *p, const struct push_event *e, double ret[NAMES])
{
	uint32_t known = e->known;

	memcpy(ret, e->values, sizeof(e->values));
	for (size_t i = 0; i < p->options.n_ratios; i++) {
		const struct push_ratio *r = &p->ratios[i];

		if (!is_known(e, r->of) || !is_known(e, r->by) || !(e->values[r->by] > 0))
			continue;
		ret[PUSH_SERIES + i] = e->values[r->of] / e->values[r->by];
		known |= UINT32_C(1) << (PUSH_SERIES + i);
	}
	ret[CHANGE] = e->change;
	return isnan(e->change) ? known : known | UINT32_C(1) << CHANGE;
}

static void evaluate(struct pushes *p, const double values[NAMES], uint32_t known, uint64_t now_ns)
{
	struct series_value series[NAMES];
	struct frame frame = { .source = FRAME_USER, .live = true, .series = series };

	frame.time_ns = counter_delta(p->watch_began_ns, now_ns);
	for (size_t i = 0; i < NAMES; i++) {
		if (known >> i & 1)
			series[frame.n_series++] = (struct series_value) { .name = p->names[i],
				.value = values[i] };
	}
	watch_frame(p->watch, &frame);
}

/* Appends events of rules that began or ceased to hold, with the engine's text. */
static uint32_t append_transitions(struct pushes *p, const struct push_event *reading)
{
	struct alert alert;
	uint32_t raised = 0;

	while (watch_next(p->watch, &alert)) {
		struct push_event e = *reading;

		e.kind = alert.raised ? PUSH_ALERT : PUSH_CLEARED;
		e.rule = (uint8_t) alert.rule;
		e.level = (uint8_t) alert.level;
		e.text = strdup(alert.text);
		append(p, &e);
		raised |= alert.raised ? UINT32_C(1) << alert.rule : 0;
	}
	return raised;
}

/* Appends an event for every rule that holds. */
static uint32_t append_holding(struct pushes *p, const struct push_event *reading, uint32_t known)
{
	struct alert alert;
	uint32_t holding = 0;

	while (watch_next(p->watch, &alert))
		;
	for (size_t i = 0; i < p->n_rules; i++) {
		struct push_event e = *reading;

		if ((p->needs[i] & ~known) || !watch_stands(p->watch, i, 0))
			continue;
		e.kind = PUSH_ALERT;
		e.rule = (uint8_t) i;
		e.level = (uint8_t) watch_rule(p->watch, i)->level;
		append(p, &e);
		holding |= UINT32_C(1) << i;
	}
	return holding;
}

static uint32_t judge(struct pushes *p, const struct push_event *e, uint64_t now_ns)
{
	double values[NAMES];
	uint32_t known;

	if (!p->watch)
		return 0;
	known = figures(p, e, values);
	evaluate(p, values, known & p->needed, now_ns);
	return p->options.every ? append_holding(p, e, known) : append_transitions(p, e);
}

/* ---- pushes -------------------------------------------------------------------------------------------------------- */

static struct push_event event_of(const struct pushes *p, const struct push *push)
{
	struct push_event e = { .time_ns = push->time_ns, .change = (double) NAN };

	e.known = (uint8_t) (push->known & ((1U << p->options.n_series) - 1));
	for (unsigned i = 0; i < p->options.n_series; i++)
		e.values[i] = is_known(&e, i) ? push->values[i] : 0;
	if (p->has_last && is_known(&e, 0) && is_known(&p->last, 0))
		e.change = e.values[0] - p->last.values[0];
	return e;
}

void pushes_push(struct pushes *p, const struct push *push, struct push_result *ret)
{
	const struct push_event e = event_of(p, push);

	ret->first = p->end;
	append_changes(p, &e, push->mark);
	ret->rules = judge(p, &e, push->now_ns);
	if (p->options.samples)
		append_kind(p, &e, PUSH_SAMPLE);
	ret->end = p->end;
	p->last = e;
	p->has_last = true;
}

int pushes_note(struct pushes *p, const struct push *push, unsigned kind, uint32_t tag, const char *text)
{
	struct push_event e = push->values ? event_of(p, push) : p->last;

	if (kind < PUSH_OWN || kind >= PUSH_KINDS)
		return -EINVAL;
	e.time_ns = push->time_ns;
	e.kind = (uint8_t) kind;
	e.change = 0;
	e.tag = tag;
	e.text = text ? strndup(text, PUSH_TEXT - 1) : NULL;
	if (text && !e.text)
		return -ENOMEM;
	append(p, &e);
	return 0;
}

void pushes_begin(struct pushes *p, uint64_t now_ns, const struct push *push)
{
	p->has_last = push != NULL;
	p->mark = (double) NAN;
	if (push) {
		p->last = event_of(p, push);
		p->last.change = (double) NAN;
		p->mark = push->mark;
	}
	if (!p->is_active)
		p->active_since_ns = now_ns;
	p->is_active = true;
}

void pushes_end(struct pushes *p, uint64_t now_ns)
{
	if (p->is_active)
		p->stats.active_ns += counter_delta(p->active_since_ns, now_ns);
	p->is_active = false;
}

void pushes_clear(struct pushes *p)
{
	drop_events(p);
	p->stats = (struct push_stats) { .active_ns = p->stats.active_ns };
}

/* ---- queries ------------------------------------------------------------------------------------------------------- */

static bool passes(const struct push_event *e, const struct push_filter *f)
{
	return (f->kinds == 0 || f->kinds >> e->kind & 1) && e->time_ns >= f->since_ns;
}

/* Returns the number of the first event to copy; *ret_n: how many pass; *ret_texts: size of their
 * texts. */
static uint64_t survey(const struct pushes *p, const struct push_filter *f, size_t *ret_n, size_t *ret_texts)
{
	const uint64_t from = f->from > p->first ? f->from : p->first;
	uint64_t begin = p->end;

	*ret_n = *ret_texts = 0;
	while (begin > from && (f->last == 0 || *ret_n < f->last)) {
		const struct push_event *e = event_at(p, --begin);

		if (!passes(e, f))
			continue;
		++*ret_n;
		*ret_texts += e->text ? strlen(e->text) + 1 : 0;
	}
	return begin;
}

static void copy_event(struct push_event *to, const struct push_event *e, char **texts)
{
	*to = *e;
	if (!e->text)
		return;
	const size_t size = strlen(e->text) + 1;

	to->text = memcpy(*texts, e->text, size);
	*texts += size;
}

int pushes_read(
	const struct pushes *p, const struct push_filter *filter, struct push_event **ret, size_t *ret_n)
{
	size_t n, texts_size, i = 0;
	const uint64_t begin = survey(p, filter, &n, &texts_size);
	struct push_event *events = malloc(n * sizeof(*events) + texts_size + 1);
	char *texts = (char *) (events + n);

	if (!events)
		return -ENOMEM;
	for (uint64_t number = begin; number < p->end && i < n; number++) {
		const struct push_event *e = event_at(p, number);

		if (passes(e, filter))
			copy_event(&events[i++], e, &texts);
	}
	*ret = events;
	*ret_n = n;
	return 0;
}

int pushes_timeline(const struct pushes *p, uint64_t interval_ns, struct push_event **ret, size_t *ret_n)
{
	const size_t n = (size_t) (p->end - p->first);
	struct push_event *points = malloc((n + 1) * sizeof(*points));
	size_t i = 0;
	uint64_t interval = 0;

	if (!points || interval_ns == 0) {
		free(points);
		return points ? -EINVAL : -ENOMEM;
	}
	for (uint64_t number = p->first; number < p->end; number++) {
		const struct push_event *e = event_at(p, number);
		const uint64_t begin_ns = event_at(p, p->first)->time_ns;
		const uint64_t here = counter_delta(begin_ns, e->time_ns) / interval_ns;

		if (i == 0 || here > interval) /* the wall clock may go back */
			i++;
		interval = here > interval ? here : interval;
		points[i - 1] = *e;
		points[i - 1].time_ns = begin_ns + interval * interval_ns;
		points[i - 1].text = NULL;
	}
	*ret = points;
	*ret_n = i;
	return 0;
}

void pushes_stats(const struct pushes *p, uint64_t now_ns, struct push_stats *ret)
{
	*ret = p->stats;
	ret->kept = p->end - p->first;
	if (p->is_active)
		ret->active_ns += counter_delta(p->active_since_ns, now_ns);
}
