/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/text/layout.h"
#include "sink/trace/trace_names.h"
#include "sink/trace/trace_sink.h"

enum {
	BETWEEN = 2,
	LEAST_NAME = 24,   /* columns of names; for less, columns of figures are left out */
	MOST_DEVICES_SHOWN = 16,
	UNLIMITED = 4000,  /* columns, where the output is no terminal */
	LABEL = 9,
	NOTES_SHOWN = 5,
};

/* ---- records --------------------------------------------------------------------------------- */

uint64_t trace_lost_all(const struct trace_view *view)
{
	uint64_t lost = 0;

	for (int cause = 0; cause < TRACE_LOSS_COUNT; cause++)
		lost += cause == TRACE_LOST_THINNED || cause == TRACE_LOST_NAMES ? 0 : view->lost[cause];
	return lost;
}

bool trace_is_complete(const struct trace_view *view)
{
	bool is_cut = false;

	for (size_t i = 0; i < view->n_recordings; i++)
		is_cut = is_cut || view->recordings[i].is_cut || view->recordings[i].n_notes > 0;
	return !is_cut && trace_lost_all(view) == 0;
}

void trace_lost_text(const struct trace_view *view, struct buf *out)
{
	static const char *const why[TRACE_LOSS_COUNT] = {
		[TRACE_LOST_OVERWRITTEN] = "overwritten before they were read",
		[TRACE_LOST_THREADS] = "of more threads than the trace has room for",
		[TRACE_LOST_DROPPED] = "dropped by the GPU's library",
		[TRACE_LOST_INCOMPLETE] = "in flight when their process ended",
		[TRACE_LOST_DAMAGED] = "damaged",
	};
	const uint64_t lost = trace_lost_all(view), all = view->events + view->invalid + lost;
	const char *between = ": ";
	char n[TRACE_COUNT_LEN], of[TRACE_COUNT_LEN], since[UNITS_LEN];

	(void) buf_printf(out, "%s%s of %s records lost", trace_is_complete(view) ? "complete, " : "",
		trace_count_text(lost, n),
		trace_count_text(all, of));
	for (int cause = 0; cause < TRACE_LOSS_COUNT; cause++) {
		if (!why[cause] || !view->lost[cause])
			continue;
		(void) buf_printf(
			out, "%s%s %s", between, trace_count_text(view->lost[cause], n), why[cause]);
		if (cause == TRACE_LOST_INCOMPLETE && view->incomplete_ns != UINT64_MAX)
			(void) buf_printf(out, ", incomplete since %s",
				units_instant((int64_t) view->incomplete_ns, since));
		between = ", ";
	}
}

static size_t processes_of(const struct trace_view *view)
{
	size_t n = 0;

	for (size_t i = 0; i < view->n_recordings; i++)
		n += view->recordings[i].n_processes;
	return n;
}

void trace_process_text(const struct trace_view *view, size_t recording, uint32_t process, struct buf *out)
{
	const struct trace_view_recording *r = &view->recordings[recording];
	const struct trace_process *p;
	int64_t rank;

	if (processes_of(view) < 2 || process < 1 || process > r->n_processes)
		return;
	p = &r->processes[process - 1];
	rank = p->rank >= 0 ? p->rank : r->rank.known ? r->rank.value
						      : -1;
	if (rank >= 0)
		(void) buf_printf(out, "rank %lld ", (long long) rank);
	(void) buf_str(out, *p->name ? p->name : "process");
	if (p->pid >= 0)
		(void) buf_printf(out, " (%lld)", (long long) p->pid);
}

/* ---- the lines above the table --------------------------------------------------------------- */

struct text {
	const struct trace_view *view;
	const struct sink_options *options;
	struct layout l;
	struct buf *out;
};

/* A part of a row whose text is any bytes. */
static void put_part(struct text *t, const char *text)
{
	struct buf clean = BUF_INIT(1 << 18);

	(void) text_clean(text, t->options->utf8, &clean);
	if (clean.len > 0)
		layout_part(&t->l, "%s", clean.data);
	buf_done(&clean);
}

static const char *percent(uint64_t part, uint64_t whole, char buf[UNITS_LEN])
{
	return units_fixed(whole > 0 ? 100 * (double) part / (double) whole : 0, 1, buf);
}

static void put_lost(struct text *t)
{
	struct buf lost = BUF_INIT(1 << 12);

	trace_lost_text(t->view, &lost);
	layout_part(&t->l, "%s", lost.data);
	buf_done(&lost);
}

static void put_traced(struct text *t, uint64_t traced_ns, uint64_t wall_ns)
{
	char traced[UNITS_LEN], wall[UNITS_LEN];

	layout_part(&t->l, "traced %s of %s", units_duration((int64_t) traced_ns, traced),
		units_duration((int64_t) wall_ns, wall));
}

static void put_idle(struct text *t, const struct trace_view_device *d)
{
	const struct trace_busy *b = &d->busy;
	const uint64_t idle = b->traced_ns > b->busy_ns ? b->traced_ns - b->busy_ns : 0;
	char share[UNITS_LEN], longest[UNITS_LEN], at[UNITS_LEN], gaps[TRACE_COUNT_LEN];
	struct buf phase = BUF_INIT(1 << 12);

	if (b->gaps == 0) {
		layout_part(&t->l, "idle %s%%", percent(idle, b->traced_ns, share));
		return;
	}
	if (d->phase) {
		(void) buf_str(&phase, " in phase \"");
		(void) text_clean(d->phase, t->options->utf8, &phase);
		(void) buf_str(&phase, "\"");
	}
	layout_part(&t->l, "idle %s%%: %s gap%s, longest %s at %s%s", percent(idle, b->traced_ns, share),
		trace_count_text(b->gaps, gaps), b->gaps == 1 ? "" : "s",
		units_duration((int64_t) b->longest_ns, longest),
		units_instant((int64_t) b->longest_at_ns, at), phase.data);
	buf_done(&phase);
}

/* What was allocated at once. The figure is that of the GPU; those of other kinds follow it. */
static void put_peaks(struct text *t, const struct trace_view_memory *m)
{
	static const uint32_t others[] = { TRACE_MANAGED, TRACE_PINNED, TRACE_PAGEABLE };
	const struct trace_peak *gpu = &m->peaks[TRACE_PEAK_GPU];
	char bytes[UNITS_LEN], at[UNITS_LEN];

	layout_row(&t->l, TONE_NONE, "memory", LABEL);
	if (gpu->peak_bytes > 0)
		layout_part(&t->l, "peak %s at %s, %s: calls of this process", units_bytes((int64_t) gpu->peak_bytes, t->options->units, bytes),
			units_instant((int64_t) gpu->peak_at_ns, at), m->is_exact ? "exact" : "at least");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const struct trace_peak *peak = &m->peaks[others[i]];

		if (peak->peak_bytes > 0)
			layout_part(&t->l, "%s %s", trace_peak_name(others[i]),
				units_bytes((int64_t) peak->peak_bytes, t->options->units, bytes));
	}
	layout_end(&t->l);
}

static bool is_memory_of(const struct trace_view_memory *m, const struct trace_view_device *d)
{
	return m->recording == d->recording && m->process == d->busy.process &&
	       m->device == d->busy.device;
}

/* Of a device that ran nothing, or whose kernels are not followed. */
static void put_memory_alone(struct text *t, const struct trace_view_memory *m)
{
	struct buf process = BUF_INIT(1 << 12);
	char label[32];

	for (size_t i = 0; i < t->view->n_devices; i++) {
		if (is_memory_of(m, &t->view->devices[i]))
			return;
	}
	(void) snprintf(label, sizeof(label), m->device >= 0 ? "GPU %lld" : "GPU", (long long) m->device);
	layout_row(&t->l, TONE_LABEL, label, LABEL);
	trace_process_text(t->view, m->recording, m->process, &process);
	put_part(t, process.data);
	buf_done(&process);
	layout_end(&t->l);
	put_peaks(t, m);
}

static void put_device(struct text *t, const struct trace_view_device *d, bool is_first)
{
	const struct trace_busy *b = &d->busy;
	char label[32], busy[UNITS_LEN], kernels[UNITS_LEN], copies[UNITS_LEN], both[UNITS_LEN];
	struct buf process = BUF_INIT(1 << 12);

	(void) snprintf(label, sizeof(label), b->device >= 0 ? "GPU %lld" : "GPU", (long long) b->device);
	layout_row(&t->l, TONE_LABEL, label, LABEL);
	put_part(t, b->name);
	trace_process_text(t->view, d->recording, b->process, &process);
	put_part(t, process.data);
	buf_done(&process);
	put_traced(t, b->traced_ns, t->view->recordings[d->recording].wall_ns);
	if (is_first)
		put_lost(t);
	layout_end(&t->l);
	layout_row(&t->l, TONE_NONE, "busy", LABEL);
	layout_part(&t->l, "%s%%" NB NB "(kernels %s, copies %s, both at once %s)",
		percent(b->busy_ns, b->traced_ns, busy), percent(b->kernels_ns, b->traced_ns, kernels),
		percent(b->copies_ns, b->traced_ns, copies), percent(b->both_ns, b->traced_ns, both));
	put_idle(t, d);
	layout_end(&t->l);
	for (size_t i = 0; i < t->view->n_memory; i++) {
		if (is_memory_of(&t->view->memory[i], d))
			put_peaks(t, &t->view->memory[i]);
	}
}

/* Without a device. */
static void put_host(struct text *t)
{
	uint64_t traced_ns = 0, wall_ns = 0;
	char n[TRACE_COUNT_LEN];

	for (size_t i = 0; i < t->view->n_recordings; i++) {
		const struct trace_view_recording *r = &t->view->recordings[i];

		wall_ns = r->wall_ns > wall_ns ? r->wall_ns : wall_ns;
		traced_ns = r->n_windows == 0 ? wall_ns : r->windows_ns > traced_ns ? r->windows_ns
										    : traced_ns;
	}
	layout_row(&t->l, TONE_LABEL, "trace", LABEL);
	layout_part(&t->l, "%s event%s of %zu process%s", trace_count_text(t->view->events, n),
		t->view->events == 1 ? "" : "s", processes_of(t->view),
		processes_of(t->view) == 1 ? "" : "es");
	put_traced(t,
		t->view->has_span && t->view->to_ns < wall_ns ? t->view->to_ns - t->view->from_ns
							      : traced_ns,
		wall_ns);
	put_lost(t);
	layout_end(&t->l);
}

static void put_heads(struct text *t)
{
	const struct trace_view *v = t->view;
	char from[UNITS_LEN], to[UNITS_LEN];

	for (size_t i = 0; i < v->n_devices && i < MOST_DEVICES_SHOWN; i++)
		put_device(t, &v->devices[i], i == 0);
	if (v->n_devices > MOST_DEVICES_SHOWN) {
		layout_row(&t->l, TONE_NONE, "", LABEL);
		layout_part(&t->l, "and %zu more devices (--json lists all)",
			v->n_devices - MOST_DEVICES_SHOWN);
		layout_end(&t->l);
	}
	if (v->n_devices == 0)
		put_host(t);
	for (size_t i = 0; i < v->n_memory && i < MOST_DEVICES_SHOWN; i++)
		put_memory_alone(t, &v->memory[i]);
	if (v->has_span) {
		layout_row(&t->l, TONE_NONE, "span", LABEL);
		layout_part(&t->l, "from %s to %s", units_instant((int64_t) v->from_ns, from),
			v->to_ns == UINT64_MAX ? "the end" : units_instant((int64_t) v->to_ns, to));
		layout_end(&t->l);
	}
}

/* ---- the table ------------------------------------------------------------------------------- */

enum column {
	COLUMN_SHARE,
	COLUMN_TOTAL,
	COLUMN_COUNT,
	COLUMN_BYTES,
	COLUMN_RATE,
	COLUMN_AVG,
	COLUMN_MED,
	COLUMN_MIN,
	COLUMN_MAX,
	COLUMN_DEVIATION,
	COLUMN_THREADS,
	COLUMNS,
};

static const char *const titles[COLUMNS] = {
	[COLUMN_SHARE] = "Time %",
	[COLUMN_TOTAL] = "Total",
	[COLUMN_COUNT] = "Count",
	[COLUMN_BYTES] = "Bytes",
	[COLUMN_RATE] = "Rate",
	[COLUMN_AVG] = "Avg",
	[COLUMN_MED] = "Med",
	[COLUMN_MIN] = "Min",
	[COLUMN_MAX] = "Max",
	[COLUMN_DEVIATION] = "StdDev",
	[COLUMN_THREADS] = "Threads",
};

static const char *const name_titles[TRACE_BY_COUNT] = {
	[TRACE_BY_KERNEL] = "Kernel",
	[TRACE_BY_RANGE] = "Range",
	[TRACE_BY_PHASE] = "Phase",
	[TRACE_BY_PROCESS] = "Process",
	[TRACE_BY_STREAM] = "Stream",
	[TRACE_BY_COPY] = "Copy",
	[TRACE_BY_API] = "Call",
};

/* Least needed first. */
static const enum column dispensable[] = { COLUMN_DEVIATION, COLUMN_MIN, COLUMN_MAX, COLUMN_MED,
	COLUMN_THREADS, COLUMN_AVG };

typedef char cell_text[2 * UNITS_LEN];

struct columns {
	bool has[COLUMNS];
	unsigned width[COLUMNS];
	unsigned names; /* columns that are left for names */
};

static void fill_cell(const struct text *t, enum column c, const struct trace_line *line, cell_text ret)
{
	const enum units units = t->options->units;
	char n[TRACE_COUNT_LEN];

	ret[0] = '\0';
	if (c == COLUMN_COUNT)
		(void) snprintf(ret, sizeof(cell_text), "%s", trace_count_text(line->count, n));
	if (c == COLUMN_THREADS && line->n_tids > 0)
		(void) snprintf(ret, sizeof(cell_text), "%s", trace_count_text(line->n_tids, n));
	if (line->is_instant || line->count == 0)
		return;
	if (c == COLUMN_SHARE)
		(void) percent(line->total_ns, t->view->table.total_ns, ret);
	else if (c == COLUMN_TOTAL)
		(void) units_duration((int64_t) line->total_ns, ret);
	else if (c == COLUMN_BYTES)
		(void) units_bytes((int64_t) line->bytes, units, ret);
	else if (c == COLUMN_RATE && line->total_ns > 0)
		(void) snprintf(ret, sizeof(cell_text), "%s/s",
			units_bytes((int64_t) (1e9 * (double) line->bytes / (double) line->total_ns), units,
				ret + UNITS_LEN));
	else if (c == COLUMN_AVG)
		(void) units_duration((int64_t) (trace_line_mean(line) + 0.5), ret);
	else if (c == COLUMN_MED)
		(void) units_duration((int64_t) line->median_ns, ret);
	else if (c == COLUMN_MIN)
		(void) units_duration((int64_t) line->min_ns, ret);
	else if (c == COLUMN_MAX)
		(void) units_duration((int64_t) line->max_ns, ret);
	else if (c == COLUMN_DEVIATION && line->count > 1)
		(void) units_duration((int64_t) (trace_line_deviation(line) + 0.5), ret);
}

static unsigned width_of(const struct columns *c)
{
	unsigned width = 0;

	for (int i = 0; i < COLUMNS; i++)
		width += c->has[i] ? c->width[i] + BETWEEN : 0;
	return width;
}

static struct columns choose_columns(const struct text *t, size_t n)
{
	const unsigned room = t->options->width ? t->options->width : UNLIMITED;
	struct columns c = { .names = 0 };
	bool is_copy = t->view->by == TRACE_BY_COPY,
	     is_range = t->view->by == TRACE_BY_RANGE || t->view->is_of_ranges;
	cell_text text;

	for (int i = 0; i < COLUMNS; i++) {
		c.has[i] = true;
		c.width[i] = text_width(titles[i]);
		for (size_t k = 0; k < n; k++) {
			fill_cell(t, (enum column) i, &t->view->table.lines[k], text);
			if (text_width(text) > c.width[i])
				c.width[i] = text_width(text);
		}
	}
	/* Ranges lie in ranges: their times are no shares of a whole. */
	c.has[COLUMN_SHARE] = !is_range;
	c.has[COLUMN_THREADS] = is_range;
	c.has[COLUMN_BYTES] = c.has[COLUMN_RATE] = is_copy;
	for (size_t i = 0;
		i < sizeof(dispensable) / sizeof(dispensable[0]) && width_of(&c) + LEAST_NAME > room; i++)
		c.has[dispensable[i]] = false;
	c.names = room > width_of(&c) + LEAST_NAME / 2 ? room - width_of(&c) : LEAST_NAME / 2;
	return c;
}

static void put_cells(struct text *t, const struct columns *c, const struct trace_line *line)
{
	cell_text text;

	for (int i = 0; i < COLUMNS; i++) {
		if (!c->has[i])
			continue;
		if (line)
			fill_cell(t, (enum column) i, line, text);
		else
			(void) snprintf(text, sizeof(text), "%s", titles[i]);
		(void) buf_printf(
			t->out, "%*s%s%*s", (int) (c->width[i] - text_width(text)), "", text, BETWEEN, "");
	}
}

static void put_name(struct text *t, const struct columns *c, const struct trace_line *line)
{
	struct buf name = BUF_INIT(1 << 20), clean = BUF_INIT(1 << 20);

	if (*line->domain)
		(void) buf_printf(&name, "%s: ", line->domain);
	(void) buf_str(&name, line->name);
	(void) text_clean(name.data, t->options->utf8, &clean);
	(void) text_shorten(clean.data, c->names, t->options->utf8, t->out);
	(void) buf_str(t->out, "\n");
	buf_done(&name);
	buf_done(&clean);
}

static void put_table(struct text *t, size_t top)
{
	const struct trace_table *table = &t->view->table;
	const size_t n = top > 0 && top < table->n ? top : table->n;
	const struct columns c = choose_columns(t, n);
	char left[TRACE_COUNT_LEN];

	if (table->n == 0) {
		(void) buf_printf(t->out, "no %s in the trace\n",
			t->view->by == TRACE_BY_API ? "calls" : t->view->by == TRACE_BY_COPY ? "copies"
							: t->view->by == TRACE_BY_RANGE      ? "ranges"
											     : "kernels");
		return;
	}
	put_cells(t, &c, NULL);
	(void) buf_printf(t->out, "%s\n", name_titles[t->view->by]);
	for (size_t i = 0; i < n; i++) {
		put_cells(t, &c, &table->lines[i]);
		put_name(t, &c, &table->lines[i]);
	}
	if (n < table->n)
		(void) buf_printf(
			t->out, "and %s more (--top 0 lists all)\n", trace_count_text(table->n - n, left));
}

/* ---- the lines below it ---------------------------------------------------------------------- */

static void put_copies(struct text *t)
{
	const struct trace_table *copies = &t->view->copies;
	char bytes[UNITS_LEN], time[UNITS_LEN], rate[UNITS_LEN], share[UNITS_LEN];

	if (copies->n == 0 || t->view->by == TRACE_BY_COPY)
		return;
	layout_row(&t->l, TONE_LABEL, "copies", LABEL);
	for (size_t i = 0; i < copies->n; i++) {
		const struct trace_line *line = &copies->lines[i];
		struct buf more = BUF_INIT(256);

		if (line->total_ns > 0)
			(void) buf_printf(&more, NB NB "(%s/s%s%s%s)",
				units_bytes(
					(int64_t) (1e9 * (double) line->bytes / (double) line->total_ns),
					t->options->units, rate),
				line->pageable ? ", " : "",
				line->pageable
					? units_fixed(100 * (double) line->pageable / (double) line->bytes,
						  0, share)
					: "",
				line->pageable ? "% pageable" : "");
		layout_part(&t->l, "%s" NB "%s" NB NB "%s%s", line->name,
			units_bytes((int64_t) line->bytes, t->options->units, bytes),
			units_duration((int64_t) line->total_ns, time), more.data);
		buf_done(&more);
	}
	layout_end(&t->l);
}

/* Calls that found no memory, or after which nothing else worked. */
static void put_failures(struct text *t)
{
	for (size_t i = 0; i < t->view->n_recordings; i++) {
		const struct trace_view_recording *r = &t->view->recordings[i];

		for (size_t k = 0; k < r->n_failures; k++) {
			struct buf process = BUF_INIT(1 << 12);
			char at[UNITS_LEN], again[TRACE_COUNT_LEN];

			layout_row(&t->l, TONE_LABEL, "failed", LABEL);
			put_part(t, r->failures[k].text);
			layout_part(&t->l, "at %s", units_instant((int64_t) r->failures[k].at_ns, at));
			if (r->failures[k].count > 1)
				layout_part(&t->l, "again %s times", trace_count_text(r->failures[k].count - 1, again));
			trace_process_text(t->view, i, r->failures[k].process, &process);
			put_part(t, process.data);
			buf_done(&process);
			layout_end(&t->l);
		}
	}
}

static void put_note(struct text *t, const char *text)
{
	layout_row(&t->l, TONE_NONE, "note", LABEL);
	layout_words(&t->l, text);
	layout_end(&t->l);
}

static bool has_bounded_median(const struct trace_view *v, size_t top)
{
	for (size_t i = 0; i < v->table.n && (top == 0 || i < top); i++) {
		if (!v->table.lines[i].is_median_exact && !v->table.lines[i].is_instant &&
			v->table.lines[i].count > 0)
			return true;
	}
	return false;
}

static void put_recording_notes(struct text *t, const struct trace_view_recording *r)
{
	char text[256], at[UNITS_LEN];

	if (r->is_cut) {
		(void) snprintf(text, sizeof(text), "the recorder was lost %s into the run; what came later is missing",
			units_instant((int64_t) r->wall_ns, at));
		put_note(t, text);
	}
	for (size_t i = 0; i < r->n_notes && i < NOTES_SHOWN; i++) {
		struct buf clean = BUF_INIT(1 << 16);

		(void) text_clean(r->notes[i], t->options->utf8, &clean);
		put_note(t, clean.data);
		buf_done(&clean);
	}
	if (r->n_notes > NOTES_SHOWN) {
		(void) snprintf(text, sizeof(text), "and %zu more (--json lists them)", r->n_notes - NOTES_SHOWN);
		put_note(t, text);
	}
}

static void put_notes(struct text *t, size_t top)
{
	const struct trace_view *v = t->view;
	char text[256], n[TRACE_COUNT_LEN], rows[TRACE_COUNT_LEN];
	uint64_t late = 0;
	bool grows = false;

	for (size_t i = 0; i < v->n_devices; i++)
		late += v->devices[i].busy.late;
	for (size_t i = 0; i < v->n_recordings; i++)
		grows = grows || v->recordings[i].is_growing;
	for (size_t i = 0; i < v->n_recordings; i++)
		put_recording_notes(t, &v->recordings[i]);
	if (v->invalid > 0) {
		(void) snprintf(text, sizeof(text),
			"invalid %s: records without times, or with an end before their start; they are in no sum",
			trace_count_text(v->invalid, n));
		put_note(t, text);
	}
	if (has_bounded_median(v, top))
		put_note(t, "Med is bounded: within 1.1 %, by histogram");
	if (v->lost[TRACE_LOST_THINNED] > 0) {
		(void) snprintf(text, sizeof(text),
			"%s of %s events have no row (--trace-limit); all of them are in the sums%s",
			trace_count_text(v->lost[TRACE_LOST_THINNED], n),
			trace_count_text(v->lost[TRACE_LOST_THINNED] + v->rows, rows),
			v->is_span_partial ? ", but not in those of a span" : "");
		put_note(t, text);
	}
	if (v->lost[TRACE_LOST_NAMES] > 0)
		put_note(t, "there were more names than the trace has room for; further ones are \"(names "
			    "full)\"");
	if (late > 0) {
		(void) snprintf(text, sizeof(text),
			"busy is a lower bound: %s records were lost, or came too far out of order",
			trace_count_text(late, n));
		put_note(t, text);
	}
	if (v->n_given > v->n_recordings) {
		(void) snprintf(text, sizeof(text), "of %zu recordings %zu %s traced", v->n_given,
			v->n_recordings, v->n_recordings == 1 ? "was" : "were");
		put_note(t, text);
	} else if (v->n_given > 1) {
		(void) snprintf(text, sizeof(text), "of %zu recordings", v->n_given);
		put_note(t, text);
	}
	if (grows)
		put_note(t, "the run is not over: all of it is up to now");
}

static void put_deeper(struct text *t)
{
	struct buf line = BUF_INIT(1 << 18), clean = BUF_INIT(1 << 18);

	if (t->view->by == TRACE_BY_KERNEL && t->view->table.n > 0 && !t->view->is_opencl &&
		trace_ncu(t->view, 1, &line, NULL) == 0 &&
		text_clean(line.data, t->options->utf8, &clean) == 0)
		(void) buf_printf(t->out, "%-*s%s\n", LABEL, "deeper", clean.data);
	buf_done(&line);
	buf_done(&clean);
}

int trace_text(const struct trace_view *view, size_t top, const struct sink_options *options, struct buf *out)
{
	struct sink_options wide = *options;
	struct text t = { .view = view, .options = options, .out = out };

	if (wide.width == 0)
		wide.width = UNLIMITED;
	layout_init(&t.l, out, &wide);
	put_heads(&t);
	put_table(&t, top);
	put_copies(&t);
	put_failures(&t);
	put_notes(&t, top);
	put_deeper(&t);
	return out->error;
}
