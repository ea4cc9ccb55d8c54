/* SPDX-License-Identifier: MIT */
#include "sink/trace/trace_view.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "record/store.h"
#include "record/trace/trace_union.h"
#include "sink/trace/trace_names.h"

enum {
	MOST_LINES = 1 << 20,
	MOST_RECORDINGS = 1 << 14,
	MOST_DEVICES = 1 << 16,
	MOST_PLACES = 1 << 16,
	MOST_TIDS = 4096,
	EXACT_ROWS = 300000, /* so many rows at most are read for exact medians */
};

#define BIT(kind) (1U << (kind))
#define WORK      (BIT(TRACE_KERNEL) | BIT(TRACE_COPY) | BIT(TRACE_FILL))
#define RANGES    (BIT(TRACE_RANGE) | BIT(TRACE_MARK))

static const char *const by_names[] = {
	[TRACE_BY_DEFAULT] = "",
	[TRACE_BY_KERNEL] = "kernel",
	[TRACE_BY_RANGE] = "range",
	[TRACE_BY_PHASE] = "phase",
	[TRACE_BY_PROCESS] = "process",
	[TRACE_BY_STREAM] = "stream",
	[TRACE_BY_COPY] = "copy",
	[TRACE_BY_API] = "api",
};

const char *trace_by_name(enum trace_by by)
{
	return by_names[by];
}

/* A recording while it is added. */
struct source {
	struct trace_view *view;
	struct trace_read *t;
	const struct job *job;
	size_t recording;
	struct map lines;          /* from a site and a phase to a line of the table, plus 1; 0: in none */
	uint64_t phase_from_ns, phase_to_ns; /* where the last phase found is the innermost one */
	uint32_t phase;
	struct trace_union *unions; /* of a span, by the index of trace_read_busy */
	struct trace_span *windows;
	size_t n_windows;
	int error;
};

/* ---- lines ----------------------------------------------------------------------------------- */

static void line_done(struct trace_line *line)
{
	free(line->key);
	free(line->name);
	free(line->domain);
	free(line->raw);
	free(line->durations);
	free(line->places);
	free(line->tids);
	trace_histogram_done(&line->histogram);
}

static void table_done(struct trace_table *table)
{
	for (size_t i = 0; i < table->n; i++)
		line_done(&table->lines[i]);
	free(table->lines);
	map_done(&table->places);
}

/* The index of the line with this key; UINT32_MAX: there is none. */
static uint32_t find_line(const struct trace_table *table, const char *key)
{
	uint64_t hash = store_hash(key);
	uint32_t at;

	for (; map_get(&table->places, hash, &at); hash++) {
		if (strcmp(table->lines[at].key, key) == 0)
			return at;
	}
	return UINT32_MAX;
}

/* The line with this key; *ret_is_new: its texts are not set. NULL: out of memory. */
static struct trace_line *line_of(struct trace_table *table, const char *key, bool *ret_is_new)
{
	struct trace_line line = { .min_ns = UINT64_MAX };
	uint32_t at = find_line(table, key), other;
	uint64_t hash = store_hash(key);

	*ret_is_new = at == UINT32_MAX;
	if (!*ret_is_new)
		return &table->lines[at];
	while (map_get(&table->places, hash, &other))
		hash++;
	if (vec_reserve(&table->lines, &table->cap, table->n, sizeof(line), MOST_LINES) < 0 ||
		map_put(&table->places, hash, (uint32_t) table->n) < 0)
		return NULL;
	line.key = strdup(key);
	if (!line.key)
		return NULL;
	table->lines[table->n] = line;
	return &table->lines[table->n++];
}

static int name_line(struct trace_line *line, const char *name, const char *domain, const char *raw)
{
	line->name = strdup(name);
	line->domain = strdup(domain);
	line->raw = strdup(raw);
	return line->name && line->domain && line->raw ? 0 : -ENOMEM;
}

double trace_line_mean(const struct trace_line *line)
{
	return line->count > 0 ? (double) line->total_ns / (double) line->count : 0;
}

double trace_line_deviation(const struct trace_line *line)
{
	const double n = (double) line->count, mean = trace_line_mean(line);
	const double squares = line->sum_squares - n * mean * mean;

	return line->count > 1 && squares > 0 ? sqrt(squares / (n - 1)) : 0;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static struct trace_place *find_place(const struct trace_line *line, size_t recording, uint32_t process)
{
	for (size_t i = line->n_places; i-- > 0;) {
		if (line->places[i].recording == recording && line->places[i].process == process)
			return &line->places[i];
	}
	return NULL;
}

static int add_place(struct trace_line *line, size_t recording, uint32_t process, uint64_t count)
{
	struct trace_place *place = find_place(line, recording, process);

	if (place)
		place->count += count;
	if (place || line->n_places >= MOST_PLACES)
		return 0;
	if (vec_reserve(&line->places, &line->cap_places, line->n_places, sizeof(*line->places),
		    MOST_PLACES) < 0)
		return -ENOMEM;
	line->places[line->n_places++] = (struct trace_place) { recording, process, count, 0 };
	return 0;
}

/* Threads are counted up to MOST_TIDS. */
static int add_tid(struct trace_line *line, size_t recording, uint32_t process, int64_t tid)
{
	const int64_t key = tid ^ (int64_t) (((uint64_t) recording << 48) ^ ((uint64_t) process << 32));

	if (tid < 0 || line->n_tids >= MOST_TIDS)
		return 0;
	for (size_t i = line->n_tids; i-- > 0;) {
		if (line->tids[i] == key)
			return 0;
	}
	if (vec_reserve(&line->tids, &line->cap_tids, line->n_tids, sizeof(*line->tids), MOST_TIDS) < 0)
		return -ENOMEM;
	line->tids[line->n_tids++] = key;
	return 0;
}

/* Of a single event there is no histogram. */
static int add_histogram(struct trace_line *line, const struct trace_stat *stat)
{
	if (stat->histogram)
		return trace_histogram_read(&line->histogram, stat->histogram, stat->histogram_bytes);
	return stat->count == 1 && !line->is_instant
		       ? trace_histogram_add(&line->histogram, stat->total_ns, 1)
		       : 0;
}

static int add_sums(struct source *s, struct trace_line *line, const struct trace_stat *stat)
{
	int r = add_place(line, s->recording, stat->process, stat->count);

	line->count = sum(line->count, stat->count);
	line->invalid = sum(line->invalid, stat->invalid);
	line->total_ns = sum(line->total_ns, stat->total_ns);
	line->bytes = sum(line->bytes, stat->bytes);
	if (stat->source == TRACE_PAGEABLE || stat->target == TRACE_PAGEABLE)
		line->pageable = sum(line->pageable, stat->bytes);
	line->rows = sum(line->rows, stat->rows);
	line->sum_squares += stat->sum_squares;
	if (stat->count > 0 && stat->min_ns < line->min_ns)
		line->min_ns = stat->min_ns;
	if (stat->max_ns > line->max_ns)
		line->max_ns = stat->max_ns;
	if (r == 0)
		r = add_tid(line, s->recording, stat->process, stat->tid);
	return r == 0 ? add_histogram(line, stat) : r;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static bool is_host(enum trace_memory memory)
{
	return memory == TRACE_PAGEABLE || memory == TRACE_PINNED;
}

/* "HtoD", "memset"; "copy" where an end is unknown. */
static const char *direction_of(const struct trace_stat *stat)
{
	if (stat->kind == TRACE_FILL)
		return "memset";
	if (stat->source == TRACE_MEMORY_UNKNOWN || stat->target == TRACE_MEMORY_UNKNOWN)
		return "copy";
	if (is_host(stat->source))
		return is_host(stat->target) ? "HtoH" : "HtoD";
	return is_host(stat->target) ? "DtoH" : "DtoD";
}

static const struct phase *phase_of(const struct job *job, uint32_t number)
{
	const struct phase *p =
		number >= 1 && number <= job_phase_count(job) ? job_phase(job, number - 1) : NULL;

	if (p && p->number == number)
		return p;
	for (size_t i = 0; i < job_phase_count(job); i++) {
		if (job_phase(job, i)->number == number)
			return job_phase(job, i);
	}
	return NULL;
}

static void put_process(const struct source *s, uint32_t number, struct buf *out)
{
	const struct trace_process *p = trace_read_process(s->t, number);
	const struct maybe rank = s->view->recordings[s->recording].rank;

	if (p->rank >= 0 || rank.known)
		(void) buf_printf(out, "rank %lld ", (long long) (p->rank >= 0 ? p->rank : rank.value));
	(void) buf_str(out, *p->name ? p->name : "process");
	if (p->pid >= 0)
		(void) buf_printf(out, " (%lld)", (long long) p->pid);
}

static void put_name(const struct source *s, enum trace_by by, const struct trace_stat *stat, struct buf *out)
{
	const struct phase *phase;
	uint64_t step;

	switch (by) {
	case TRACE_BY_PHASE:
		phase = stat->phase == TRACE_PHASE_MIXED ? NULL : phase_of(s->job, stat->phase);
		(void) buf_str(out, phase                              ? phase->name
				    : stat->phase == TRACE_PHASE_MIXED ? "(several phases)"
								       : "(no phase)");
		break;
	case TRACE_BY_PROCESS:
		put_process(s, stat->process, out);
		break;
	case TRACE_BY_STREAM:
		if (stat->device >= 0)
			(void) buf_printf(out, "GPU %lld ", (long long) stat->device);
		(void) buf_printf(out, "stream %llu, ", (unsigned long long) stat->stream);
		put_process(s, stat->process, out);
		break;
	case TRACE_BY_COPY:
		(void) buf_str(out, direction_of(stat));
		if (stat->kind == TRACE_COPY && stat->source && stat->target)
			(void) buf_printf(out, " %s to %s", trace_memory_name(stat->source),
				trace_memory_name(stat->target));
		break;
	case TRACE_BY_RANGE:
		if (s->view->options.folds_steps && trace_step_number(stat->name, &step)) {
			trace_step_fold(stat->name, out);
			break;
		}
		/* fall through */
	case TRACE_BY_KERNEL:
	case TRACE_BY_API:
	case TRACE_BY_DEFAULT:
	case TRACE_BY_COUNT:
		trace_demangle(*stat->name ? stat->name : "(no name)", out);
	}
}

/* Kernels of one name, mangled, are one line: demangling takes longer than finding it. */
static int put_key(const struct source *s, enum trace_by by, const struct trace_stat *stat, struct buf *key)
{
	if (by != TRACE_BY_KERNEL && by != TRACE_BY_API && by != TRACE_BY_RANGE) {
		put_name(s, by, stat, key);
		return key->error;
	}
	(void) buf_str(key, stat->kind == TRACE_MARK ? "m" : "");
	(void) buf_printf(key, "%s\x1f", by == TRACE_BY_RANGE ? stat->domain : "");
	if (by == TRACE_BY_RANGE && s->view->options.folds_steps)
		trace_step_fold(stat->name, key);
	else
		(void) buf_str(key, stat->name);
	return key->error;
}

/* Adds sums to the line of a table that they belong to; *ret_line: its index. */
static int add_to(struct source *s, struct trace_table *table, enum trace_by by,
	const struct trace_stat *stat, size_t *ret_line)
{
	struct buf key = BUF_INIT(1 << 20), name = BUF_INIT(1 << 20);
	struct trace_line *line = NULL;
	bool is_new = false;
	int r = put_key(s, by, stat, &key);

	if (r == 0) {
		line = line_of(table, key.data, &is_new);
		r = line ? 0 : -ENOMEM;
	}
	if (r == 0 && is_new) {
		put_name(s, by, stat, &name);
		line->is_instant = stat->kind == TRACE_MARK;
		r = name.error ? name.error
			       : name_line(line, name.data, by == TRACE_BY_RANGE ? stat->domain : "",
					 stat->name);
	}
	if (r == 0)
		r = add_sums(s, line, stat);
	*ret_line = line ? (size_t) (line - table->lines) : 0;
	buf_done(&key);
	buf_done(&name);
	return r;
}

/* The kinds that a table counts. */
static unsigned kinds_of(enum trace_by by)
{
	switch (by) {
	case TRACE_BY_RANGE:
		return RANGES;
	case TRACE_BY_COPY:
		return BIT(TRACE_COPY) | BIT(TRACE_FILL);
	case TRACE_BY_STREAM:
		return WORK;
	case TRACE_BY_API:
		return BIT(TRACE_LAUNCH);
	case TRACE_BY_DEFAULT:
	case TRACE_BY_PHASE:
	case TRACE_BY_PROCESS:
		return BIT(TRACE_KERNEL) | RANGES;
	case TRACE_BY_KERNEL:
	case TRACE_BY_COUNT:
		break;
	}
	return BIT(TRACE_KERNEL);
}

/* Sums of kernels and of ranges are in tables of their own until it is known whether there are kernels. */
static struct trace_table *table_of(struct trace_view *view, enum trace_kind kind)
{
	return BIT(kind) & RANGES && view->options.by != TRACE_BY_RANGE ? &view->ranges : &view->table;
}

static enum trace_by by_of(const struct trace_view *view, enum trace_kind kind)
{
	if (view->options.by != TRACE_BY_DEFAULT)
		return view->options.by;
	return BIT(kind) & RANGES ? TRACE_BY_RANGE : TRACE_BY_KERNEL;
}

/* Adds sums, or one event, to all that they count for. *ret_line: the line of the table, plus 1; 0: none. */
static int add_stat(struct source *s, const struct trace_stat *stat, size_t *ret_line)
{
	struct trace_view *view = s->view;
	size_t line;
	int r = 0;

	*ret_line = 0;
	if (stat->kind == TRACE_KERNEL) {
		view->kernels = sum(view->kernels, stat->count);
		view->kernels_ns = sum(view->kernels_ns, stat->total_ns);
	}
	if (stat->kind == TRACE_COPY || stat->kind == TRACE_FILL) {
		bool is_new;
		struct trace_line *l = line_of(&view->copies, direction_of(stat), &is_new);

		r = l ? 0 : -ENOMEM;
		if (l && is_new)
			r = name_line(l, l->key, "", l->key);
		if (r == 0)
			r = add_sums(s, l, stat);
	}
	if (r == 0 && (kinds_of(view->options.by) & BIT(stat->kind))) {
		r = add_to(s, table_of(view, stat->kind), by_of(view, stat->kind), stat, &line);
		*ret_line = line + 1;
	}
	return r;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The innermost phase at a time; times mostly come in their order. */
static uint32_t phase_at(struct source *s, uint64_t time_ns)
{
	uint64_t began = 0;

	if (time_ns >= s->phase_from_ns && time_ns < s->phase_to_ns)
		return s->phase;
	s->phase = 0;
	s->phase_from_ns = 0;
	s->phase_to_ns = UINT64_MAX;
	for (size_t i = 0; i < job_phase_count(s->job); i++) {
		const struct phase *p = job_phase(s->job, i);
		const uint64_t edges[] = { p->begin_ns, p->end_ns ? p->end_ns : UINT64_MAX };

		for (int e = 0; e < 2; e++) {
			if (edges[e] <= time_ns && edges[e] > s->phase_from_ns)
				s->phase_from_ns = edges[e];
			if (edges[e] > time_ns && edges[e] < s->phase_to_ns)
				s->phase_to_ns = edges[e];
		}
		if (edges[0] <= time_ns && time_ns < edges[1] && edges[0] >= began) {
			began = edges[0];
			s->phase = p->number;
		}
	}
	return s->phase;
}

static struct trace_stat stat_of_event(
	struct source *s, const struct trace_site *site, const struct trace_event *e)
{
	const bool is_instant = e->kind == TRACE_MARK || e->kind == TRACE_ALLOC || e->kind == TRACE_FREE;
	const uint64_t ns = is_instant ? 0 : e->end_ns - e->start_ns;

	return (struct trace_stat) {
		.kind = e->kind,
		.process = site->process,
		.name = site->name,
		.domain = site->domain,
		.tid = site->tid,
		.device = site->device,
		.stream = site->stream,
		.phase = s->view->options.by == TRACE_BY_PHASE ? phase_at(s, e->start_ns) : 0,
		.source = site->source,
		.target = site->target,
		.count = 1,
		.total_ns = ns,
		.min_ns = ns,
		.max_ns = ns,
		.sum_squares = (double) ns * (double) ns,
		.bytes = e->bytes,
		.rows = 1,
	};
}

static int keep_duration(struct trace_line *line, uint64_t ns)
{
	if (vec_reserve(&line->durations, &line->cap_durations, line->n_durations, sizeof(ns), EXACT_ROWS) <
		0)
		return line->n_durations < EXACT_ROWS ? -ENOMEM : 0;
	line->durations[line->n_durations++] = ns;
	return 0;
}

static int add_busy(struct source *s, const struct trace_site *site, const struct trace_event *e)
{
	for (size_t i = 0; i < trace_read_busy_count(s->t); i++) {
		const struct trace_busy *busy = trace_read_busy(s->t, i);

		if (busy->process == site->process && busy->device == site->device)
			return trace_union_add(
				&s->unions[i], e->kind == TRACE_KERNEL, e->start_ns, e->end_ns);
	}
	return 0;
}

/* A row of a span: its sums are made of these. */
static bool see_of_span(void *ctx, const struct trace_event *e)
{
	struct source *s = ctx;
	const struct trace_site *site = trace_read_site(s->t, e->site);
	struct trace_stat stat = stat_of_event(s, site, e);
	size_t line = 0;

	if (BIT(e->kind) & WORK)
		s->error = add_busy(s, site, e);
	if (s->error == 0 && e->start_ns >= s->view->from_ns) {
		s->view->events++;
		s->error = add_stat(s, &stat, &line);
	}
	if (s->error == 0 && line > 0)
		s->error = keep_duration(&table_of(s->view, e->kind)->lines[line - 1], stat.total_ns);
	return s->error == 0;
}

/* A row for the median of its line. */
static bool see_for_median(void *ctx, const struct trace_event *e)
{
	struct source *s = ctx;
	const struct trace_site *site = trace_read_site(s->t, e->site);
	const struct trace_stat stat = stat_of_event(s, site, e);
	struct trace_table *table = table_of(s->view, e->kind);
	const uint64_t key = (uint64_t) e->site << 32 | stat.phase;
	uint32_t at = 0;

	if (!map_get(&s->lines, key, &at)) {
		struct buf line = BUF_INIT(1 << 20);

		s->error = put_key(s, by_of(s->view, e->kind), &stat, &line);
		at = find_line(table, line.data);
		buf_done(&line);
		if (s->error == 0)
			s->error = map_put(&s->lines, key, at);
	}
	if (s->error == 0 && at < table->n)
		s->error = keep_duration(&table->lines[at], stat.total_ns);
	return s->error == 0;
}

static int read_medians(struct source *s, struct err *err)
{
	const unsigned kinds = kinds_of(s->view->options.by);
	uint64_t rows = 0;
	int r;

	for (size_t i = 0; i < trace_read_stat_count(s->t); i++) {
		const struct trace_stat *stat = trace_read_stat(s->t, i);

		if (kinds & BIT(stat->kind))
			rows = sum(rows, stat->rows);
	}
	if (rows > s->view->exact_rows_left)
		return 0;
	s->view->exact_rows_left -= rows;
	r = trace_read_rows(s->t, kinds, 0, UINT64_MAX, see_for_median, s, err);
	return r < 0 ? r : s->error;
}

/* ---- spans ----------------------------------------------------------------------------------- */

struct steps {
	struct source *s;
	uint64_t first, last, begin_ns, end_ns;
};

static bool see_step(void *ctx, const struct trace_event *e)
{
	struct steps *steps = ctx;
	uint64_t number;

	if (!trace_step_number(trace_read_site(steps->s->t, e->site)->name, &number) ||
		number < steps->first || number > steps->last)
		return true;
	if (e->start_ns < steps->begin_ns)
		steps->begin_ns = e->start_ns;
	if (e->end_ns > steps->end_ns)
		steps->end_ns = e->end_ns;
	return true;
}

/* From the beginning of the first step to the end of the last one. */
static int find_steps(struct source *s, uint64_t *ret_from, uint64_t *ret_to, struct err *err)
{
	const struct trace_view_options *o = &s->view->options;
	struct steps steps = { .s = s, .first = o->first_step, .last = o->last_step, .begin_ns = UINT64_MAX };
	const int r = trace_read_rows(s->t, BIT(TRACE_RANGE), 0, UINT64_MAX, see_step, &steps, err);

	if (r < 0)
		return r;
	if (steps.end_ns == 0)
		return err_set(err, -ENOENT,
			"no range of the trace is one of the steps %llu to %llu; ranges called step N, iteration N or "
			"ProfilerStep#N are",
			(unsigned long long) o->first_step, (unsigned long long) o->last_step);
	*ret_from = steps.begin_ns;
	*ret_to = steps.end_ns;
	return 0;
}

/* A kernel before the span, for the number of launches that ncu is to skip. */
static bool see_before(void *ctx, const struct trace_event *e)
{
	struct source *s = ctx;
	const struct trace_site *site = trace_read_site(s->t, e->site);
	struct trace_table *table = &s->view->table;
	struct trace_place *place = NULL;
	uint32_t at;

	if (e->start_ns >= s->view->from_ns)
		return false;
	if (!map_get(&s->lines, e->site, &at)) {
		struct buf key = BUF_INIT(1 << 20);

		(void) buf_printf(&key, "\x1f%s", site->name);
		at = find_line(table, key.data);
		buf_done(&key);
		if (map_put(&s->lines, e->site, at) < 0)
			return false;
	}
	if (at < table->n)
		place = find_place(&table->lines[at], s->recording, site->process);
	if (place)
		place->before++;
	return true;
}

/* The windows of the trace within the span. */
static int cut_windows(struct source *s)
{
	const struct trace_view_recording *recording = &s->view->recordings[s->recording];
	const size_t n = recording->n_windows;

	s->windows = calloc(n + 1, sizeof(*s->windows));
	if (!s->windows)
		return -ENOMEM;
	if (n == 0)
		s->windows[s->n_windows++] = (struct trace_span) { s->view->from_ns, s->view->to_ns };
	for (size_t i = 0; i < n; i++) {
		struct trace_span w = { recording->windows[i].begin_ns, recording->windows[i].end_ns };

		w.begin = w.begin > s->view->from_ns ? w.begin : s->view->from_ns;
		w.end = w.end < s->view->to_ns ? w.end : s->view->to_ns;
		if (w.begin < w.end && (s->n_windows == 0 || w.begin >= s->windows[s->n_windows - 1].end))
			s->windows[s->n_windows++] = w;
	}
	return 0;
}

static int read_span(struct source *s, struct err *err)
{
	struct trace_view *view = s->view;
	int r = 0;

	view->from_ns = view->options.from_ns;
	view->to_ns = view->options.has_span ? view->options.to_ns : UINT64_MAX;
	if (view->options.has_steps)
		r = find_steps(s, &view->from_ns, &view->to_ns, err);
	if (r == 0)
		r = cut_windows(s);
	s->unions = calloc(trace_read_busy_count(s->t) + 1, sizeof(*s->unions));
	if (r == 0 && !s->unions)
		r = -ENOMEM;
	if (r == 0)
		r = trace_read_rows(s->t, ~0U, view->from_ns, view->to_ns, see_of_span, s, err);
	if (r == 0 && s->error == 0 && by_of(view, TRACE_KERNEL) == TRACE_BY_KERNEL && view->from_ns > 0)
		r = trace_read_rows(s->t, BIT(TRACE_KERNEL), 0, view->from_ns, see_before, s, err);
	return r < 0 ? r : s->error;
}

/* ---- recordings ------------------------------------------------------------------------------ */

static int copy_processes(struct trace_view_recording *to, const struct trace_read *t)
{
	const size_t n = trace_read_process_count(t);

	to->processes = calloc(n + 1, sizeof(*to->processes));
	if (!to->processes)
		return -ENOMEM;
	to->n_processes = n;
	for (size_t i = 0; i < n; i++) {
		const struct trace_process *p = trace_read_process(t, (uint32_t) i + 1);

		to->processes[i] = p ? *p : (struct trace_process) { .pid = -1, .rank = -1 };
		to->processes[i].name = strdup(p ? p->name : "");
		to->processes[i].origin = strdup(p ? p->origin : "");
		if (!to->processes[i].name || !to->processes[i].origin)
			return -ENOMEM;
	}
	return 0;
}

static int by_begin(const void *a, const void *b)
{
	const struct trace_window *x = a, *y = b;

	return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

/* In the order of time; their length together counts what overlaps once. */
static int copy_windows(struct trace_view_recording *to, const struct trace_read *t)
{
	const size_t n = trace_read_window_count(t);
	uint64_t until = 0;

	to->windows = calloc(n + 1, sizeof(*to->windows));
	if (!to->windows)
		return -ENOMEM;
	to->n_windows = n;
	for (size_t i = 0; i < n; i++) {
		to->windows[i] = *trace_read_window(t, i);
		to->windows[i].why = strdup(to->windows[i].why);
		if (!to->windows[i].why)
			return -ENOMEM;
	}
	qsort(to->windows, n, sizeof(*to->windows), by_begin);
	for (size_t i = 0; i < n; i++) {
		const uint64_t end =
			to->windows[i].end_ns < to->wall_ns ? to->windows[i].end_ns : to->wall_ns;
		const uint64_t begin = to->windows[i].begin_ns > until ? to->windows[i].begin_ns : until;

		if (begin < end) {
			to->windows_ns += end - begin;
			until = end;
		}
	}
	return 0;
}

static int add_recording(struct source *s, bool is_growing)
{
	struct trace_view *view = s->view;
	const struct facts *f = job_facts_const(s->job);
	struct trace_view_recording *to;
	int r;

	if (vec_reserve(&view->recordings, &view->cap_recordings, view->n_recordings, sizeof(*to),
		    MOST_RECORDINGS) < 0)
		return -ENOMEM;
	s->recording = view->n_recordings++;
	to = &view->recordings[s->recording];
	*to = (struct trace_view_recording) {
		.argv_json = f->argv_json ? strdup(f->argv_json) : NULL,
		.command = f->command ? strdup(f->command) : NULL,
		.rank = f->rank,
		.wall_ns = f->ended_ns.known ? (uint64_t) f->ended_ns.value : job_now(s->job),
		.is_growing = is_growing,
	};
	r = copy_processes(to, s->t);
	return r == 0 ? copy_windows(to, s->t) : r;
}

static int add_device(struct source *s, size_t i)
{
	struct trace_view *view = s->view;
	struct trace_view_device device = { .busy = *trace_read_busy(s->t, i), .recording = s->recording };
	const struct phase *phase;
	struct trace_union_sums sums;
	int r;

	if (s->unions) {
		r = trace_union_sums(&s->unions[i], s->windows, s->n_windows,
			view->to_ns < view->recordings[s->recording].wall_ns
				? view->to_ns
				: view->recordings[s->recording].wall_ns,
			&sums);
		if (r < 0)
			return r;
		device.busy.traced_ns = sums.traced_ns;
		device.busy.busy_ns = sums.busy_ns;
		device.busy.kernels_ns = sums.kernels_ns;
		device.busy.copies_ns = sums.copies_ns;
		device.busy.both_ns = sums.both_ns;
		device.busy.gaps = sums.gaps;
		device.busy.longest_ns = sums.longest_ns;
		device.busy.longest_at_ns = sums.longest_at_ns;
		device.busy.late = 0;
	}
	if (vec_reserve(&view->devices, &view->cap_devices, view->n_devices, sizeof(device), MOST_DEVICES) <
		0)
		return -ENOMEM;
	phase = device.busy.longest_ns > 0 ? phase_of(s->job, phase_at(s, device.busy.longest_at_ns)) : NULL;
	device.busy.name = strdup(device.busy.name);
	device.phase = phase ? strdup(phase->name) : NULL;
	view->devices[view->n_devices++] = device;
	return device.busy.name && (!phase || device.phase) ? 0 : -ENOMEM;
}

static int add_peak(struct source *s, const struct trace_peak *peak)
{
	struct trace_view *view = s->view;
	struct trace_view_memory *m = view->n_memory > 0 ? &view->memory[view->n_memory - 1] : NULL;

	/* They come by process and device. */
	if (!m || m->recording != s->recording || m->process != peak->process || m->device != peak->device) {
		if (vec_reserve(&view->memory, &view->cap_memory, view->n_memory, sizeof(*m), MOST_DEVICES) < 0)
			return -ENOMEM;
		m = &view->memory[view->n_memory++];
		*m = (struct trace_view_memory) {
			.recording = s->recording, .process = peak->process, .device = peak->device
		};
	}
	m->peaks[peak->memory] = *peak;
	m->is_exact = peak->is_exact;
	return 0;
}

/* A process that was killed owes records: the last that it delivered of each of its devices is the end of what is
 * known. */
static void add_lost(struct source *s, const struct trace_lost *lost)
{
	struct trace_view *view = s->view;
	uint64_t last_ns = 0;

	view->lost[lost->cause] = sum(view->lost[lost->cause], lost->n);
	if (lost->cause != TRACE_LOST_INCOMPLETE)
		return;
	for (size_t i = 0; i < trace_read_busy_count(s->t); i++) {
		const struct trace_busy *busy = trace_read_busy(s->t, i);

		if (busy->process == lost->process && busy->last_ns > last_ns)
			last_ns = busy->last_ns;
	}
	if (last_ns > 0 && last_ns < view->incomplete_ns)
		view->incomplete_ns = last_ns;
}

static int add_stats(struct source *s, struct err *err)
{
	struct trace_view *view = s->view;
	size_t line;
	int r = 0;

	for (size_t i = 0; i < trace_read_stat_count(s->t) && r == 0; i++) {
		const struct trace_stat *stat = trace_read_stat(s->t, i);

		view->invalid = sum(view->invalid, stat->invalid);
		view->rows = sum(view->rows, stat->rows);
		if (view->has_span) {
			view->is_span_partial = view->is_span_partial || stat->rows < stat->count;
			continue;
		}
		view->events = sum(view->events, stat->count);
		r = add_stat(s, stat, &line);
	}
	if (r < 0)
		return r;
	if (view->has_span)
		return read_span(s, err);
	return view->options.no_medians ? 0 : read_medians(s, err);
}

int trace_view_add(struct trace_view *view, struct trace_read *t, const struct job *job, bool is_growing,
	struct err *err)
{
	struct source s = { .view = view, .t = t, .job = job };
	int r = add_recording(&s, is_growing);

	if (r == 0)
		r = add_stats(&s, err);
	for (size_t i = 0; r == 0 && i < trace_read_busy_count(t); i++)
		r = add_device(&s, i);
	for (size_t i = 0; r == 0 && i < trace_read_peak_count(t); i++)
		r = add_peak(&s, trace_read_peak(t, i));
	for (size_t i = 0; r == 0 && i < trace_read_lost_count(t); i++)
		add_lost(&s, trace_read_lost(t, i));
	for (size_t i = 0; s.unions && i < trace_read_busy_count(t); i++)
		trace_union_done(&s.unions[i]);
	free(s.unions);
	free(s.windows);
	map_done(&s.lines);
	if (r == -ENOMEM && !err->text[0])
		(void) err_set(err, r, "out of memory");
	return r;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int by_total(const void *a, const void *b)
{
	const struct trace_line *x = a, *y = b;

	if (x->is_instant != y->is_instant)
		return x->is_instant ? 1 : -1;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return strcmp(x->key, y->key);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

	return x < y ? -1 : x > y;
}

static void find_median(struct trace_line *line)
{
	const size_t n = line->n_durations;

	line->is_median_exact = n > 0 && n == line->count;
	if (line->is_median_exact) {
		qsort(line->durations, n, sizeof(*line->durations), by_value);
		line->median_ns = n % 2 ? line->durations[n / 2]
					: line->durations[n / 2 - 1] +
						  (line->durations[n / 2] - line->durations[n / 2 - 1]) / 2;
	} else {
		line->median_ns = trace_histogram_quantile(&line->histogram, 0.5);
		if (line->median_ns < line->min_ns)
			line->median_ns = line->min_ns;
		if (line->median_ns > line->max_ns)
			line->median_ns = line->max_ns;
	}
	free(line->durations);
	line->durations = NULL;
}

static void end_table(struct trace_table *table)
{
	for (size_t i = 0; i < table->n; i++) {
		struct trace_line *line = &table->lines[i];

		table->total_ns = sum(table->total_ns, line->total_ns);
		table->count = sum(table->count, line->count);
		find_median(line);
		if (line->min_ns == UINT64_MAX)
			line->min_ns = 0;
	}
	if (table->n > 0)
		qsort(table->lines, table->n, sizeof(*table->lines), by_total);
	map_done(&table->places); /* the places are no longer theirs */
}

void trace_view_end(struct trace_view *view)
{
	const bool has_kernels = view->table.n > 0 || view->kernels > 0 || view->n_devices > 0;

	view->by = view->options.by;
	if (view->by == TRACE_BY_DEFAULT)
		view->by = has_kernels ? TRACE_BY_KERNEL : TRACE_BY_RANGE;
	view->is_of_ranges = !has_kernels && view->options.by != TRACE_BY_RANGE && view->ranges.n > 0;
	if (view->is_of_ranges) {
		const struct trace_table table = view->table;

		view->table = view->ranges;
		view->ranges = table;
	}
	end_table(&view->table);
	end_table(&view->ranges);
	end_table(&view->copies);
}

int trace_view_new(const struct trace_view_options *options, struct trace_view **ret)
{
	struct trace_view *view = calloc(1, sizeof(*view));

	if (!view)
		return -ENOMEM;
	view->options = *options;
	view->has_span = options->has_span || options->has_steps;
	view->exact_rows_left = EXACT_ROWS;
	view->incomplete_ns = UINT64_MAX;
	*ret = view;
	return 0;
}

void trace_view_free(struct trace_view *view)
{
	if (!view)
		return;
	for (size_t i = 0; i < view->n_recordings; i++) {
		struct trace_view_recording *r = &view->recordings[i];

		for (size_t p = 0; r->processes && p < r->n_processes; p++) {
			free((void *) (uintptr_t) r->processes[p].name);
			free((void *) (uintptr_t) r->processes[p].origin);
		}
		for (size_t w = 0; r->windows && w < r->n_windows; w++)
			free((void *) (uintptr_t) r->windows[w].why);
		free(r->processes);
		free(r->windows);
		free(r->argv_json);
		free(r->command);
	}
	for (size_t i = 0; i < view->n_devices; i++) {
		free((void *) (uintptr_t) view->devices[i].busy.name);
		free(view->devices[i].phase);
	}
	table_done(&view->table);
	table_done(&view->ranges);
	table_done(&view->copies);
	free(view->recordings);
	free(view->memory);
	free(view->devices);
	free(view);
}
