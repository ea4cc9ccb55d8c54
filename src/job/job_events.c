/* SPDX-License-Identifier: MIT
 *
 * Events, marks, phases and series.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "job/job_internal.h"

enum {
	MAX_PHASES = 1 << 20,
	MAX_SERIES = 1 << 16,
	MAX_DEPTH = 8
};

/* ---- events ---------------------------------------------------------------------------------- */

/* Keeps the last MAX_EVENTS, replacing the oldest. */
static int event_keep(struct job *job, const struct event *event)
{
	struct event copy = *event;
	int r = vec_reserve(&job->events, &job->cap_events, job->n_events, sizeof(*job->events), MAX_EVENTS);

	if (r < 0 && r != -EFBIG)
		return r;
	copy.text = strdup(event->text ? event->text : "");
	if (!copy.text)
		return -ENOMEM;
	if (r == 0) {
		job->events[job->n_events++] = copy;
		return 0;
	}
	free((char *) (uintptr_t) job->events[job->first_event].text);
	job->events[job->first_event] = copy;
	job->first_event = (job->first_event + 1) % MAX_EVENTS;
	return 0;
}

size_t job_event_count(const struct job *job)
{
	return job->n_events;
}

const struct event *job_event(const struct job *job, size_t i)
{
	return i < job->n_events ? &job->events[(job->first_event + i) % job->n_events] : NULL;
}

/* ---- the user's marks ------------------------------------------------------------------------- */

/* Marks are stored apart from other events, which may be numerous. Their number is a fact, too: a
 * thinned recording has lost some marks. */
static void marks_count(struct job *job)
{
	struct maybe *seen = &job->facts.marks_seen;

	job->n_marks++;
	*seen = maybe_max(*seen, known((int64_t) job->n_marks));
}

int mark_apply(struct job *job, const struct event *event)
{
	struct mark *mark = &job->marks[job->n_marks % MARKS_KEPT];
	char *text = strdup(event->text ? event->text : "");

	if (!text)
		return -ENOMEM;
	free(mark->text);
	*mark = (struct mark) { event->time_ns, text };
	marks_count(job);
	return 0;
}

size_t job_mark_count(const struct job *job)
{
	return job->n_marks < MARKS_KEPT ? job->n_marks : MARKS_KEPT;
}

const struct mark *job_mark(const struct job *job, size_t i)
{
	const size_t kept = job_mark_count(job);

	return i < kept ? &job->marks[(job->n_marks - kept + i) % MARKS_KEPT] : NULL;
}

void marks_done(struct job *job)
{
	for (size_t i = 0; i < MARKS_KEPT; i++)
		free(job->marks[i].text);
}

/* ---- phases ---------------------------------------------------------------------------------- */

struct phase *phase_find(const struct job *job, uint32_t number)
{
	uint32_t place;

	return map_get(&job->phase_places, number, &place) ? &job->phases[place] : NULL;
}

int phase_add(struct job *job, const struct phase *phase)
{
	const size_t place = job->n_phases;
	int r = vec_reserve(&job->phases, &job->cap_phases, place, sizeof(*job->phases), MAX_PHASES);

	if (r == 0)
		r = map_put(&job->phase_places, phase->number, (uint32_t) place);
	if (r < 0)
		return r;
	r = phase_unsettle(job, place);
	if (r < 0) {
		map_remove(&job->phase_places, phase->number);
		return r;
	}
	job->phases[job->n_phases++] = *phase;
	job->n_open++;
	return 0;
}

static uint32_t innermost_open(const struct job *job)
{
	for (size_t i = job->n_unsettled; i-- > 0 && job->n_open > 0;) {
		if (job->phases[job->unsettled[i]].end_ns == 0)
			return job->phases[job->unsettled[i]].number;
	}
	return 0;
}

void phase_done(struct phase *phase)
{
	free(phase->name);
	free(phase->facts);
}

/* The first line of the text is the phase's name, further lines are its facts. Returns 0 or
 * -ENOMEM. */
static int phase_name(struct phase *phase, const char *text)
{
	const size_t len = strcspn(text, "\n");

	phase->name = strndup(text, len);
	phase->facts = strdup(text[len] ? text + len + 1 : "");
	if (phase->name && phase->facts)
		return 0;
	free(phase->name);
	free(phase->facts);
	return -ENOMEM;
}

static int phase_begin(struct job *job, const struct event *event)
{
	const struct process *main = job_main(job);
	struct phase phase = {
		.number = event->phase,
		.parent = innermost_open(job),
		.begin_ns = event->time_ns,
	};
	int r;

	if (phase_find(job, event->phase))
		return 0;
	if (phase_name(&phase, event->text ? event->text : "") < 0)
		return -ENOMEM;
	if (main && !main->ended && main->rss_bytes > 0) {
		phase.ram_known = true;
		phase.ram_before = phase.ram_peak = phase.ram_after = main->rss_bytes;
	}
	phase_use_begin(job, &phase);
	r = phase_add(job, &phase);
	if (r < 0)
		phase_done(&phase);
	return r == -ENOMEM ? r : 0;
}

static void phase_end(struct job *job, struct phase *phase, uint64_t time_ns)
{
	if (!phase || phase->end_ns != 0)
		return;
	/* 0 means open. */
	phase->end_ns = time_ns > 0 ? time_ns : 1;
	job->n_open--;
	phase_use_end(job, phase);
}

/* An inner phase may reset the mark again: its value until then was read first. */
void job_phase_edge(struct job *job, uint32_t number)
{
	struct phase *phase = phase_find(job, number);

	if (phase && phase->end_ns == 0)
		phase->hwm_reset = true;
	else if (phase)
		phase->peak_exact = phase->hwm_reset && phase->ram_known;
}

void phases_update_main(struct job *job, int64_t value, int64_t max)
{
	size_t open = job->n_open;

	for (size_t i = job->n_unsettled; i-- > 0 && open > 0;) {
		struct phase *phase = &job->phases[job->unsettled[i]];

		if (phase->end_ns != 0)
			continue;
		open--;
		if (!phase->ram_known)
			phase->ram_before = phase->ram_peak = value;
		phase->ram_known = true;
		phase->ram_after = value;
		if (max > phase->ram_peak)
			phase->ram_peak = max;
	}
}

void phases_close(struct job *job, uint64_t time_ns)
{
	for (size_t i = job->n_unsettled; i-- > 0 && job->n_open > 0;)
		phase_end(job, &job->phases[job->unsettled[i]], time_ns);
}

size_t job_phase_count(const struct job *job)
{
	return job->n_phases;
}

const struct phase *job_phase(const struct job *job, size_t i)
{
	return i < job->n_phases ? &job->phases[i] : NULL;
}

const struct phase *job_phase_parent(const struct job *job, const struct phase *phase)
{
	const struct phase *parent = phase->parent > 0 ? phase_find(job, phase->parent) : NULL;

	return parent && parent < phase ? parent : NULL;
}

unsigned job_phase_depth(const struct job *job, const struct phase *phase)
{
	unsigned depth = 0;

	while (depth < MAX_DEPTH && (phase = job_phase_parent(job, phase)))
		depth++;
	return depth;
}

int event_apply(struct job *job, const struct event *event)
{
	int r = event_keep(job, event);
	int more = 0;

	if (event->kind == EVENT_PHASE_BEGIN)
		more = phase_begin(job, event);
	else if (event->kind == EVENT_PHASE_END)
		phase_end(job, phase_find(job, event->phase), event->time_ns);
	else if (event->kind == EVENT_OOM)
		job->oom_events++;
	else if (event->kind == EVENT_MARK)
		more = mark_apply(job, event);
	else if (event->kind == EVENT_NOTE)
		gpu_note_apply(job, event);
	return r < 0 ? r : more;
}

/* ---- series ---------------------------------------------------------------------------------- */

static struct series *series_find(struct job *job, const char *name)
{
	for (size_t i = 0; i < job->n_series; i++) {
		if (strcmp(job->series[i].name, name) == 0)
			return &job->series[i];
	}
	return NULL;
}

static struct series *series_make(struct job *job, const char *name)
{
	char *copy;

	if (vec_reserve(&job->series, &job->cap_series, job->n_series, sizeof(*job->series), MAX_SERIES) < 0)
		return NULL;
	copy = strdup(name);
	if (!copy)
		return NULL;
	job->series[job->n_series] = (struct series) { .name = copy, .min = NAN, .max = NAN };
	return &job->series[job->n_series++];
}

int series_apply(struct job *job, const struct series_value *value)
{
	struct series *series = series_find(job, value->name);

	if (!series)
		series = series_make(job, value->name);
	if (!series)
		return -ENOMEM;
	if (minima_wanted(series->name))
		minima_add(&series->minima, series->n, value->value);
	if (series->n++ == 0)
		series->first = value->value;
	series->last = value->value;
	if (isfinite(value->value))
		series->sum += value->value;
	/* fmin and fmax ignore a NaN if the other is a number. */
	series->min = fmin(series->min, value->value);
	series->max = fmax(series->max, value->value);
	if (value->has_step) {
		series->has_step = true;
		series->last_step = value->step;
	}
	return 0;
}

int64_t job_oom_events(const struct job *job)
{
	return job->oom_events;
}

size_t job_series_count(const struct job *job)
{
	return job->n_series;
}

const struct series *job_series(const struct job *job, size_t i)
{
	return i < job->n_series ? &job->series[i] : NULL;
}

int job_restore_series(struct job *job, const struct series *series)
{
	struct series *mine = series_find(job, series->name);

	if (!mine)
		mine = series_make(job, series->name);
	if (!mine)
		return -ENOMEM;
	char *name = mine->name;

	*mine = *series;
	mine->name = name;
	return 0;
}

void events_done(struct job *job)
{
	marks_done(job);
	for (size_t i = 0; i < job->n_events; i++)
		free((char *) (uintptr_t) job->events[i].text);
	for (size_t i = 0; i < job->n_phases; i++)
		phase_done(&job->phases[i]);
	for (size_t i = 0; i < job->n_series; i++)
		free(job->series[i].name);
	free(job->events);
	free(job->phases);
	map_done(&job->phase_places);
	free(job->unsettled);
	free(job->series);
}
