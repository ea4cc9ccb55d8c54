/* SPDX-License-Identifier: MIT
 *
 * The lists of the summary: phases, series, marks.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/text/text.h"
#include "summary/framework.h"

enum {
	NAME_LEAST = 14
};

const char *text_at_least(const struct text *t)
{
	return t->o->utf8 ? "\xE2\x89\xA5" : ">=";
}

void text_name(const struct text *t, const struct process *p, struct buf *out)
{
	char name[sizeof(p->name) + 1];

	memcpy(name, p->name, sizeof(p->name));
	name[sizeof(p->name)] = '\0';
	text_clean(name[0] ? name : "?", t->o->utf8, out);
}

void text_process(const struct text *t, const struct process *p, struct buf *out)
{
	text_name(t, p, out);
	buf_printf(out, "[%" PRId32 "]", p->pid);
}

/* ---- phases: a table that drops columns in a fixed order where the terminal is narrow ---------------------------------------------------------- */

enum column {
	COLUMN_BEGIN,
	COLUMN_LASTS,
	COLUMN_BEFORE,
	COLUMN_PEAK,
	COLUMN_AFTER,
	COLUMN_GPU_PEAK,
	COLUMN_GPU_BUSY,
	COLUMN_ENERGY,
	COLUMN_COUNT
};

static const struct {
	const char *title;
	unsigned width, dropped; /* the lowest goes first; 0: never */
} columns[COLUMN_COUNT] = {
	[COLUMN_BEGIN] = { "begin", 13, 5 },
	[COLUMN_LASTS] = { "duration", 13, 0 },
	[COLUMN_BEFORE] = { "before", 9, 1 },
	[COLUMN_PEAK] = { "peak", 9, 0 },
	[COLUMN_AFTER] = { "after", 9, 4 },
	[COLUMN_GPU_PEAK] = { "GPU peak", 11, 6 },
	[COLUMN_GPU_BUSY] = { "GPU use", 9, 3 },
	[COLUMN_ENERGY] = { "energy", 10, 2 },
};

struct phase_table {
	bool shown[COLUMN_COUNT], has[COLUMN_COUNT]; /* has: some phase has that figure */
	unsigned name_width;
	int64_t largest; /* all RAM is in its unit; 0: no RAM is known, and its columns are left out */
};

static void choose_columns(const struct text *t, struct phase_table *table)
{
	for (unsigned level = 0; level <= 6; level++) {
		unsigned used = 0;

		for (int c = 0; c < COLUMN_COUNT; c++) {
			table->shown[c] = (columns[c].dropped == 0 || columns[c].dropped > level) &&
					  table->has[c];
			used += table->shown[c] ? columns[c].width : 0;
		}
		/* At 40 columns, the minimum, duration and peak leave 8. */
		table->name_width = TEXT_INDENT + used < t->o->width ? t->o->width - TEXT_INDENT - used : 0;
		if (table->name_width >= NAME_LEAST)
			return;
	}
}

static void cell(struct text *t, const char *text, unsigned width)
{
	unsigned used = text_width(text);

	for (; used < width; used++)
		layout_more(&t->l, TONE_NONE, " ");
	layout_more(&t->l, TONE_NONE, text);
}

static void name_cell(struct text *t, const char *name, unsigned depth, unsigned width)
{
	struct buf clean = BUF_INIT(1 << 16), fitted = BUF_INIT(1 << 16);
	unsigned left = depth * 2 < width / 2 ? depth * 2 : width / 2;

	text_clean(name, t->o->utf8, &clean);
	text_shorten(clean.data, width - left, t->o->utf8, &fitted);
	cell(t, "", TEXT_INDENT + left - (t->l.column < TEXT_INDENT ? t->l.column : TEXT_INDENT));
	layout_more(&t->l, TONE_NONE, fitted.data);
	cell(t, "", width - left - text_width(fitted.data));
	buf_done(&clean);
	buf_done(&fitted);
}

/* With its facts, where there is room. */
static void phase_name(struct text *t, const struct phase *p, unsigned width)
{
	const unsigned depth = job_phase_depth(t->s->job, p);
	struct buf name = BUF_INIT(1 << 16);

	figure_phase(p, true, &name);
	if (depth * 2 + text_width(name.data) > width) {
		buf_clear(&name);
		figure_phase(p, false, &name);
	}
	name_cell(t, name.data, depth, width);
	buf_done(&name);
}

static struct maybe figure_of(const struct text *t, const struct phase *p, enum column c)
{
	const uint64_t end = p->end_ns ? p->end_ns : job_now(t->s->job);
	const struct maybe figures[COLUMN_COUNT] = {
		[COLUMN_BEGIN] = known((int64_t) p->begin_ns),
		[COLUMN_LASTS] = known((int64_t) (end - p->begin_ns)),
		[COLUMN_BEFORE] = { p->ram_before, p->ram_known },
		[COLUMN_PEAK] = { p->ram_peak, p->ram_known },
		[COLUMN_AFTER] = { p->ram_after, p->ram_known && p->end_ns },
		[COLUMN_GPU_PEAK] = job_phase_gpu_peak(t->s->job, p),
		[COLUMN_GPU_BUSY] = p->use.work[GPU_WORK_SM].known ? p->use.work[GPU_WORK_SM]
								   : p->use.work[GPU_WORK_BUSY],
		[COLUMN_ENERGY] = maybe_max(maybe_max(p->use.cpu_energy_uj, p->use.gpu_energy_uj),
			maybe_sum(p->use.cpu_energy_uj, p->use.gpu_energy_uj)),
	};

	return figures[c];
}

static void write_figure(
	const struct text *t, const struct phase_table *table, enum column c, int64_t value, char *text)
{
	if (c == COLUMN_BEGIN || c == COLUMN_LASTS)
		(void) units_duration(value, text);
	else if (c == COLUMN_GPU_PEAK)
		(void) units_bytes(value, t->o->units, text);
	else if (c == COLUMN_GPU_BUSY)
		(void) units_percent(value, 1000000, text);
	else if (c == COLUMN_ENERGY)
		(void) units_energy(value, text);
	else
		(void) units_bytes_like(value, table->largest, t->o->units, text);
}

static void phase_row(struct text *t, const struct phase_table *table, const struct phase *p)
{
	char text[UNITS_LEN];

	layout_row(&t->l, TONE_NONE, "", TEXT_INDENT);
	phase_name(t, p, table->name_width);
	for (int c = 0; c < COLUMN_COUNT; c++) {
		const struct maybe figure = figure_of(t, p, (enum column) c);
		const char *sign = !figure.known ? "" : c == COLUMN_ENERGY           ? "~"
						: c == COLUMN_PEAK && !p->peak_exact ? text_at_least(t)
										     : "";
		struct buf value = BUF_INIT(256);

		if (!table->shown[c])
			continue;
		write_figure(t, table, (enum column) c, figure.value, text);
		buf_printf(&value, "%s%s", sign, figure.known ? text : "-");
		cell(t, value.data, columns[c].width);
		buf_done(&value);
	}
	layout_end(&t->l);
}

/* "main, MiB" and the titles. */
static void phase_titles(struct text *t, const struct phase_table *table)
{
	char unit[UNITS_LEN];
	struct buf what = BUF_INIT(256);

	(void) units_bytes(table->largest, t->o->units, unit);
	if (table->largest > 0)
		buf_printf(&what, "main,%s", strchr(unit, ' '));
	layout_row(&t->l, TONE_LABEL, "Phases", TEXT_INDENT);
	name_cell(t, what.data, 0, table->name_width);
	for (int c = 0; c < COLUMN_COUNT; c++) {
		if (table->shown[c])
			cell(t, columns[c].title, columns[c].width);
	}
	layout_end(&t->l);
	buf_done(&what);
}

void text_phases(struct text *t)
{
	size_t n = t->s->job ? job_phase_count(t->s->job) : 0;
	/* A line "and 1 more" would take the place of that phase. */
	size_t shown = n > PHASES_SHOWN ? PHASES_SHOWN - 1 : n;
	struct phase_table table = { .largest = 0 };

	if (n == 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const struct phase *p = job_phase(t->s->job, i);

		if (p->ram_known && p->ram_peak > table.largest)
			table.largest = p->ram_peak;
		for (int c = 0; c < COLUMN_COUNT; c++)
			table.has[c] = table.has[c] || figure_of(t, p, (enum column) c).known;
	}
	for (int c = COLUMN_BEFORE; c <= COLUMN_AFTER; c++) /* an open phase has no "after" yet */
		table.has[c] = table.largest > 0;
	choose_columns(t, &table);
	phase_titles(t, &table);
	for (size_t i = 0; i < shown; i++)
		phase_row(t, &table, job_phase(t->s->job, i));
	if (shown < n) {
		layout_row(&t->l, TONE_NONE, "", TEXT_INDENT);
		layout_part(&t->l, "and %zu more (show --json lists all)", n - shown);
		layout_end(&t->l);
	}
}

/* ---- series -------------------------------------------------------------------------------------------------------- */

char *text_series_value(const struct text *t, const struct series *v, double value, char buf[UNITS_LEN * 2])
{
	const double most_s = 1e9;

	if (!(series_is_seconds(v->name) && value >= 0 && value < most_s)) /* NaN is no time */
		return units_any(value, buf);
	return t->o->plain ? units_words((int64_t) (value * 1e9), buf)
			   : units_duration((int64_t) (value * 1e9), buf);
}

static void series(struct text *t, const struct series *v)
{
	const char *arrow = t->o->utf8 ? "\xE2\x86\x92" : "->";
	struct buf name = BUF_INIT(1 << 16), fitted = BUF_INIT(1 << 16);
	char first[UNITS_LEN * 2], last[UNITS_LEN * 2], low[UNITS_LEN * 2], high[UNITS_LEN * 2];

	text_clean(v->name, t->o->utf8, &name);
	text_shorten(name.data, (t->o->width - TEXT_INDENT) / 2, t->o->utf8, &fitted);
	layout_part(&t->l, "%s" NB "%s" NB "%s" NB "%s", keep_together(fitted.data),
		text_series_value(t, v, v->first, first), arrow, text_series_value(t, v, v->last, last));
	layout_part(&t->l, "from %s to %s, %llu value%s", text_series_value(t, v, v->min, low),
		text_series_value(t, v, v->max, high), (unsigned long long) v->n, v->n == 1 ? "" : "s");
	buf_done(&name);
	buf_done(&fitted);
}

size_t text_series_of(const struct text *t, const struct series **list)
{
	size_t n = 0;

	for (size_t i = 0; t->s->job && i < job_series_count(t->s->job); i++) {
		const struct series *v = job_series(t->s->job, i);

		if (framework_has(v->name))
			continue;
		if (n < SERIES_SHOWN)
			list[n] = v;
		n++;
	}
	return n;
}

void text_series(struct text *t)
{
	const struct series *list[SERIES_SHOWN];
	const size_t n = text_series_of(t, list);

	if (n == 0)
		return;
	layout_row(&t->l, TONE_LABEL, "Series", TEXT_INDENT);
	for (size_t i = 0; i < n && i < SERIES_SHOWN; i++) {
		if (i > 0)
			layout_break(&t->l);
		series(t, list[i]);
	}
	if (n > SERIES_SHOWN) {
		layout_break(&t->l);
		layout_part(&t->l, "and %zu more (show --json lists all)", n - SERIES_SHOWN);
	}
	layout_end(&t->l);
}

/* ---- marks --------------------------------------------------------------------------------------------------------- */

static void row(struct text *t, const char *label)
{
	layout_row(&t->l, TONE_LABEL, label, TEXT_INDENT);
}

void text_mark(const struct text *t, const struct mark *mark, struct buf *out)
{
	struct buf clean = BUF_INIT(1 << 16);

	text_clean(mark->text, t->o->utf8, &clean);
	text_shorten(clean.data, MARK_WIDTH, t->o->utf8, out);
	if (clean.error)
		out->error = clean.error;
	buf_done(&clean);
}

size_t text_marks_shown(const struct text *t, size_t *ret_before)
{
	const size_t kept = t->s->job ? job_mark_count(t->s->job) : 0,
		     shown = kept < MARKS_SHOWN ? kept : MARKS_SHOWN;

	*ret_before = (size_t) maybe_max(t->f->marks_seen, known((int64_t) kept)).value - shown;
	return shown;
}

const struct mark *text_mark_of(const struct text *t, size_t shown, size_t i)
{
	return job_mark(t->s->job, job_mark_count(t->s->job) - shown + i);
}

static void mark(struct text *t, const char *title, const struct mark *mark)
{
	struct buf text = BUF_INIT(1 << 16);
	char at[UNITS_LEN];

	row(t, title);
	layout_part(&t->l, "at" NB "%s:", keep_together(units_instant((int64_t) mark->time_ns, at)));
	text_mark(t, mark, &text);
	layout_words(&t->l, text.data);
	layout_end(&t->l);
	if (text.error)
		t->l.out->error = text.error;
	buf_done(&text);
}

/* The last marks, since they say what the job was doing at its end. */
void text_marks(struct text *t)
{
	size_t before;
	const size_t shown = text_marks_shown(t, &before);

	for (size_t i = 0; i < shown; i++)
		mark(t, i == 0 ? "Marks" : "", text_mark_of(t, shown, i));
	if (shown == 0 || before == 0)
		return;
	row(t, "");
	layout_part(&t->l, "and" NB "%zu" NB "earlier marks", before);
	layout_end(&t->l);
}
