/* SPDX-License-Identifier: MIT */
#include "source/trace/select.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "base/units.h"

enum {
	IS_PHASE = 1,
	IS_STEP = 2,
	IS_API_START = 4,
	IS_API_STOP = 8,
	IS_RANGE = 16,             /* and this shifted by the number of the window whose expression it matches */
};
static const uint64_t alert_ns = UINT64_C(10000000000);
static const uint64_t ahead_ns = 1000000000; /* before the first step of a window its kernels are kept already */
enum {
	STEPS_SOON = 100, /* and where the time of a step is not known yet, so many steps before it */
};

enum window_kind {
	WINDOW_RUN,
	WINDOW_TIME,
	WINDOW_STEPS,
	WINDOW_RANGE,
	WINDOW_API,
	WINDOW_ALERT,
	WINDOW_LAST,
};

struct window {
	enum window_kind kind;
	uint64_t from, to;         /* ns, or numbers of steps, or the length of the last span */
	regex_t range;
	char why[100];
	bool wanted;               /* by what was seen so far; of steps, ranges and the API */
	unsigned depth;            /* open ranges that match */
	uint64_t first_ns, end_ns; /* of steps: when the first began and the last ended; 0: not yet */
	bool is_announced;         /* of steps: the sink has its begin */
	uint64_t until_ns;         /* of alerts */
	bool begins_open;          /* with the run, before the first update */
	bool is_open, has_opened;  /* has: the sink had word of it */
	uint64_t begin_ns;
};

struct trace_select {
	regex_t phase_range, step;
	bool has_phase_range, has_step;
	struct window windows[TRACE_WINDOWS_MOST];
	unsigned n_windows;
	uint64_t steps;            /* begun */
	uint64_t first_step_ns;    /* when the first began */
	uint32_t phases;           /* begun */
	_Atomic unsigned alerts;
	unsigned alerts_seen;
	bool has_begun;
	const struct trace_sink *sink;
	pthread_mutex_t lock;      /* of what follows */
	struct trace_phase_edge *edges;
	size_t first, n, cap;
	uint64_t left_out;
	struct window added[TRACE_WINDOWS_MOST]; /* while the job runs; the next update takes them */
	unsigned n_added;
};

/* ---- options --------------------------------------------------------------------------------- */

static int compile(regex_t *ret, const char *option, const char *text, struct err *err)
{
	const int code = regcomp(ret, text, REG_EXTENDED | REG_NOSUB);
	char why[120];

	if (code == 0)
		return 0;
	(void) regerror(code, ret, why, sizeof(why));
	return err_set(err, -EINVAL, "%s: '%.80s' is not an extended regular expression: %s", option, text, why);
}

static int parse_steps(const char *text, struct window *w, struct err *err)
{
	const char *p = text;

	if (parse_u64(&p, &w->from) == 0 && *p == '-' && (p++, parse_u64(&p, &w->to) == 0) && !*p &&
		w->from <= w->to)
		return 0;
	return err_set(err, -EINVAL, "--trace-window: 'steps=%.80s': give the first and the last, such as steps=10-20", text);
}

/* "60s+5s" */
static int parse_span(const char *text, struct window *w, struct err *err)
{
	const char *plus = strchr(text, '+');
	char from[40];
	int64_t at, length;

	if (plus && (size_t) (plus - text) < sizeof(from)) {
		(void) snprintf(from, sizeof(from), "%.*s", (int) (plus - text), text);
		if (units_parse_duration(from, &at, NULL) == 0 &&
			units_parse_duration(plus + 1, &length, NULL) == 0 && at >= 0 && length > 0) {
			w->from = (uint64_t) at;
			w->to = (uint64_t) at + (uint64_t) length;
			return 0;
		}
	}
	return err_set(err, -EINVAL,
		"--trace-window: unknown window '%.80s'; give one of 60s+5s, steps=10-20, range=RE, api, alert, last=60s", text);
}

static int parse_last(const char *text, struct window *w, struct err *err)
{
	int64_t length;

	if (units_parse_duration(text, &length, NULL) < 0 || length <= 0)
		return err_set(err, -EINVAL, "--trace-window: 'last=%.80s': give a time, such as last=60s", text);
	w->to = (uint64_t) length;
	return 0;
}

static int parse_window(const char *text, struct window *w, struct err *err)
{
	const char *p = text;
	int r = 0;

	(void) snprintf(w->why, sizeof(w->why), "%.90s", text);
	if (parse_word(&p, "steps=")) {
		w->kind = WINDOW_STEPS;
		r = parse_steps(p, w, err);
		w->wanted = r == 0 && w->from <= STEPS_SOON;
		(void) snprintf(w->why, sizeof(w->why), "steps %.80s", p);
	} else if (parse_word(&p, "range=")) {
		w->kind = WINDOW_RANGE;
		r = compile(&w->range, "--trace-window range", p, err);
		(void) snprintf(w->why, sizeof(w->why), "range %.80s", p);
	} else if (parse_word(&p, "last=")) {
		w->kind = WINDOW_LAST;
		r = parse_last(p, w, err);
		(void) snprintf(w->why, sizeof(w->why), "last %.80s", p);
	} else if (strcmp(text, "api") == 0) {
		w->kind = WINDOW_API;
	} else if (strcmp(text, "alert") == 0) {
		w->kind = WINDOW_ALERT;
	} else {
		w->kind = WINDOW_TIME;
		r = parse_span(text, w, err);
	}
	return r;
}

static int parse_windows(struct trace_select *s, const char *const *texts, struct err *err)
{
	int r = 0;

	if (!texts || !*texts) {
		s->windows[s->n_windows++] = (struct window) { .kind = WINDOW_RUN, .why = "whole run" };
		return 0;
	}
	for (; *texts && r == 0; texts++) {
		if (s->n_windows == TRACE_WINDOWS_MOST)
			return err_set(err, -EINVAL, "--trace-window: at most %d may be given", TRACE_WINDOWS_MOST);
		r = parse_window(*texts, &s->windows[s->n_windows], err);
		s->n_windows += r == 0;
	}
	return r;
}

int trace_select_add(struct trace_select *s, const char *window, struct err *err)
{
	struct window w = { 0 };
	int r = parse_window(window, &w, err);

	if (r < 0)
		return r;
	(void) pthread_mutex_lock(&s->lock);
	if (s->n_windows + s->n_added < TRACE_WINDOWS_MOST)
		s->added[s->n_added++] = w;
	else
		r = err_set(err, -EINVAL, "at most %d windows may be given", TRACE_WINDOWS_MOST);
	(void) pthread_mutex_unlock(&s->lock);
	if (r < 0 && w.kind == WINDOW_RANGE)
		regfree(&w.range);
	return r;
}

static bool is_wanted(const struct window *w, uint64_t now_ns)
{
	switch (w->kind) {
	case WINDOW_RUN:
	case WINDOW_LAST:
		return true;
	case WINDOW_TIME:
		return now_ns >= w->from && now_ns < w->to;
	case WINDOW_ALERT:
		return now_ns < w->until_ns;
	case WINDOW_STEPS:
	case WINDOW_RANGE:
	case WINDOW_API:
		return w->wanted;
	}
	return false;
}

int trace_select_new(const struct trace_select_options *options, struct trace_select **ret, struct err *err)
{
	struct trace_select *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	(void) pthread_mutex_init(&s->lock, NULL);
	if (options->step) {
		r = compile(&s->step, "--step", options->step, err);
		s->has_step = r == 0;
	}
	if (r == 0 && options->phase_range) {
		r = compile(&s->phase_range, "--phase-range", options->phase_range, err);
		s->has_phase_range = r == 0;
	}
	if (r == 0)
		r = parse_windows(s, options->windows, err);
	if (r < 0) {
		trace_select_free(s);
		return r;
	}
	for (unsigned i = 0; i < s->n_windows; i++)
		s->windows[i].begins_open = is_wanted(&s->windows[i], 0);
	*ret = s;
	return 0;
}

static void free_ranges(struct window *windows, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (windows[i].kind == WINDOW_RANGE)
			regfree(&windows[i].range);
	}
}

void trace_select_free(struct trace_select *s)
{
	if (!s)
		return;
	if (s->has_step)
		regfree(&s->step);
	if (s->has_phase_range)
		regfree(&s->phase_range);
	free_ranges(s->windows, s->n_windows);
	free_ranges(s->added, s->n_added);
	free(s->edges);
	(void) pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* The usual expression is compiled with the first range, since most jobs that start have none. */
static bool is_step(struct trace_select *s, const char *name)
{
	if (!s->has_step)
		s->has_step = compile(&s->step, "--step", TRACE_STEP_DEFAULT, NULL) == 0;
	return s->has_step && regexec(&s->step, name, 0, NULL, 0) == 0;
}

unsigned trace_select_of(void *select, enum trace_kind kind, const char *name)
{
	struct trace_select *s = select;
	unsigned what = 0;

	if (kind == TRACE_LAUNCH)
		return strcmp(name, "cuProfilerStart") == 0  ? IS_API_START
		       : strcmp(name, "cuProfilerStop") == 0 ? IS_API_STOP
							     : 0;
	if (kind != TRACE_RANGE)
		return 0;
	if (s->has_phase_range && regexec(&s->phase_range, name, 0, NULL, 0) == 0)
		what |= IS_PHASE;
	if (is_step(s, name))
		what |= IS_STEP;
	for (unsigned i = 0; i < s->n_windows; i++) {
		if (s->windows[i].kind == WINDOW_RANGE &&
			regexec(&s->windows[i].range, name, 0, NULL, 0) == 0)
			what |= (unsigned) IS_RANGE << i;
	}
	return what;
}

/* An edge that cannot be kept is left out: a phase without an end ends with the run. */
static void add_edge(struct trace_select *s, uint32_t number, const char *name, uint64_t time_ns, bool begins)
{
	(void) pthread_mutex_lock(&s->lock);
	if (s->first > 0 && s->first == s->n)
		s->first = s->n = 0;
	if (s->n == s->cap) {
		const size_t cap = s->cap ? 2 * s->cap : 64;
		struct trace_phase_edge *grown =
			cap <= 4 * TRACE_PHASES_MOST ? realloc(s->edges, cap * sizeof(*grown)) : NULL;

		s->edges = grown ? grown : s->edges;
		s->cap = grown ? cap : s->cap;
	}
	if (s->n < s->cap) {
		struct trace_phase_edge *edge = &s->edges[s->n++];

		*edge = (struct trace_phase_edge) { .time_ns = time_ns, .number = number, .begins = begins };
		(void) snprintf(edge->name, sizeof(edge->name), "%s", name);
	}
	(void) pthread_mutex_unlock(&s->lock);
}

static void edge_of_phase(
	struct trace_select *s, const char *name, uint64_t time_ns, bool begins, uint32_t *number)
{
	if (begins && s->phases == TRACE_PHASES_MOST) {
		(void) pthread_mutex_lock(&s->lock);
		s->left_out++;
		(void) pthread_mutex_unlock(&s->lock);
		return;
	}
	if (begins)
		*number = TRACE_PHASE_FIRST + s->phases++;
	if (!*number)
		return;
	if (s->sink && s->sink->phase)
		s->sink->phase(s->sink->phase_ctx, time_ns, *number, begins);
	add_edge(s, *number, name, time_ns, begins);
}

/* The number in a step's name, "ProfilerStep#12": the last one; else how many steps have begun. */
static uint64_t step_number(const char *name, uint64_t begun)
{
	const char *p = name + strlen(name);
	uint64_t number;

	while (p > name && !isdigit((unsigned char) p[-1]))
		p--;
	while (p > name && isdigit((unsigned char) p[-1]))
		p--;
	return parse_u64(&p, &number) == 0 ? number : begun;
}

/* Will step number from begin soon, if it is as long as those before it? */
static bool is_soon(const struct trace_select *s, uint64_t number, uint64_t from, uint64_t time_ns)
{
	const uint64_t steps_to_go = from > number ? from - number : 0;
	const uint64_t mean_ns = s->steps > 1 ? (time_ns - s->first_step_ns) / (s->steps - 1) : 0;

	if (s->steps < 2 || time_ns < s->first_step_ns)
		return steps_to_go <= STEPS_SOON;
	return steps_to_go <= 1 || mean_ns == 0 || steps_to_go <= ahead_ns / mean_ns;
}

/* As soon as it is known, so that the window comes before its kernels. */
static int announce_steps(struct window *w, const struct trace_sink *sink)
{
	const uint64_t begin_ns = w->first_ns > w->begin_ns ? w->first_ns : w->begin_ns;

	if (w->is_announced || !w->is_open || !w->first_ns)
		return 0;
	w->is_announced = w->has_opened = true;
	return sink->window(sink->ctx, begin_ns, UINT64_MAX, w->why);
}

/* Edges are read late, so the kernels of a window's first step are kept from some time before it on, and the window
 * is what lies between the edges. */
static void edge_of_step(struct trace_select *s, const char *name, uint64_t time_ns, bool begins)
{
	if (begins && s->steps++ == 0)
		s->first_step_ns = time_ns;
	const uint64_t number = step_number(name, s->steps);

	for (unsigned i = 0; i < s->n_windows; i++) {
		struct window *w = &s->windows[i];

		if (w->kind != WINDOW_STEPS || w->end_ns)
			continue;
		if (begins && number >= w->from && number <= w->to && !w->first_ns)
			w->first_ns = time_ns;
		if (s->sink) /* an error comes again with the next window */
			(void) announce_steps(w, s->sink);
		if (w->first_ns && (begins ? number > w->to : number >= w->to))
			w->end_ns = time_ns;
		if (begins)
			w->wanted = w->first_ns || (number < w->from && is_soon(s, number, w->from, time_ns));
		if (w->end_ns)
			w->wanted = false;
	}
}

void trace_select_edge(
	void *select, unsigned what, const char *name, uint64_t time_ns, bool begins, uint32_t *number)
{
	struct trace_select *s = select;

	if (what & IS_PHASE)
		edge_of_phase(s, name, time_ns, begins, number);
	if (what & IS_STEP)
		edge_of_step(s, name, time_ns, begins);
	for (unsigned i = 0; i < s->n_windows; i++) {
		struct window *w = &s->windows[i];

		if (w->kind == WINDOW_API && (what & (IS_API_START | IS_API_STOP)))
			w->wanted = what & IS_API_START;
		if (w->kind != WINDOW_RANGE || !(what & (unsigned) IS_RANGE << i))
			continue;
		w->depth += begins ? 1 : w->depth > 0 ? -1U
						      : 0;
		w->wanted = w->depth > 0;
	}
}

bool trace_select_phase(struct trace_select *s, struct trace_phase_edge *ret)
{
	bool has;

	(void) pthread_mutex_lock(&s->lock);
	has = s->first < s->n;
	if (has)
		*ret = s->edges[s->first++];
	(void) pthread_mutex_unlock(&s->lock);
	return has;
}

uint64_t trace_select_phases_left_out(struct trace_select *s)
{
	uint64_t n;

	(void) pthread_mutex_lock(&s->lock);
	n = s->left_out;
	(void) pthread_mutex_unlock(&s->lock);
	return n;
}

void trace_select_pass_to(struct trace_select *s, const struct trace_sink *sink)
{
	s->sink = sink;
}

/* ---- windows --------------------------------------------------------------------------------- */

void trace_select_alert(struct trace_select *s)
{
	(void) atomic_fetch_add(&s->alerts, 1);
}

bool trace_select_begins_open(const struct trace_select *s)
{
	for (unsigned i = 0; i < s->n_windows; i++) {
		if (s->windows[i].begins_open)
			return true;
	}
	return false;
}

/* A window of the last seconds is known at the end: rows before it are there too, as long as there is room. One of
 * steps that did not come is none. */
static int close_window(struct window *w, uint64_t now_ns, const struct trace_sink *sink)
{
	uint64_t begin_ns = w->begin_ns, end_ns = now_ns;

	w->is_open = false;
	if (w->kind == WINDOW_LAST)
		begin_ns = now_ns > w->to ? now_ns - w->to : 0;
	if (w->kind == WINDOW_STEPS && !w->first_ns)
		return 0;
	if (w->kind == WINDOW_STEPS && w->first_ns > begin_ns)
		begin_ns = w->first_ns;
	if (w->kind == WINDOW_STEPS && w->end_ns)
		end_ns = w->end_ns;
	return end_ns > begin_ns ? sink->window(sink->ctx, begin_ns, end_ns, w->why) : 0;
}

static int open_window(struct window *w, uint64_t now_ns, bool is_first, const struct trace_sink *sink)
{
	w->is_open = true;
	w->begin_ns = is_first ? 0 : now_ns; /* the first drain comes after the begin */
	if (w->kind == WINDOW_STEPS)
		return announce_steps(w, sink);
	w->has_opened = true;
	return w->kind == WINDOW_LAST ? 0 : sink->window(sink->ctx, w->begin_ns, UINT64_MAX, w->why);
}

/* The first window that is given while the job runs takes the place of the whole run. */
static int take_added(struct trace_select *s, uint64_t now_ns, const struct trace_sink *sink)
{
	struct window *whole = &s->windows[0];
	int r = 0;

	(void) pthread_mutex_lock(&s->lock);
	if (s->n_added > 0 && s->n_windows == 1 && whole->kind == WINDOW_RUN) {
		s->n_windows = 0;
		r = whole->is_open ? close_window(whole, now_ns, sink) : 0;
	}
	for (unsigned i = 0; i < s->n_added; i++)
		s->windows[s->n_windows++] = s->added[i];
	s->n_added = 0;
	(void) pthread_mutex_unlock(&s->lock);
	return r;
}

int trace_select_update(
	struct trace_select *s, uint64_t now_ns, bool last, const struct trace_sink *sink, bool *ret_open)
{
	const unsigned alerts = atomic_load(&s->alerts);
	int r = take_added(s, now_ns, sink);

	*ret_open = false;
	for (unsigned i = 0; i < s->n_windows && r == 0; i++) {
		struct window *w = &s->windows[i];

		if (alerts != s->alerts_seen)
			w->until_ns = now_ns + alert_ns;
		const bool wanted = is_wanted(w, now_ns), is_first = !s->has_begun && w->begins_open;

		if ((wanted || is_first) && !w->is_open)
			r = open_window(w, now_ns, is_first, sink);
		if (r == 0 && w->is_open && (last || !wanted))
			r = close_window(w, now_ns, sink);
		*ret_open |= w->is_open;
	}
	s->alerts_seen = alerts;
	s->has_begun = true;
	return r;
}

const char *trace_select_unopened(const struct trace_select *s, unsigned *i)
{
	while (*i < s->n_windows) {
		const struct window *w = &s->windows[(*i)++];

		if (!w->has_opened && w->kind != WINDOW_ALERT)
			return w->why;
	}
	return NULL;
}
