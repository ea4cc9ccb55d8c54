/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/textwidth.h"
#include "sink/text/layout.h"
#include "sink/trace/trace_names.h"
#include "sink/where/where_sink.h"

enum {
	BETWEEN = 2,
	LEAST_NAME = 24,   /* columns of names; for less, columns of figures are left out */
	LEAST_WHERE = 8,   /* columns of places; for less they are left out */
	MOST_NAME = 60,
	UNLIMITED = 4000,  /* columns, where the output is no terminal */
	CALLERS = 3,
	FUNCTION_NAME = 72, /* columns, also where there is room for more: templates have names of a page */
	CALLER_NAME = 40,
	LABEL = 9,
	PYTHON_PARTS = 10, /* of the peak: rises that are shown */
	PYTHON_INNER = 5,  /* frames; the innermost, */
	PYTHON_OUTER = 3,  /* and the outermost */
	MOST_TEXT = 1 << 18,
};

static const uint64_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30;

/* ---- parts ----------------------------------------------------------------------------------- */

size_t where_parts(const struct where_view *view, struct where_part ret[static WHERE_PARTS])
{
	const struct where_part all[WHERE_PARTS] = { { WHERE_UNSAMPLED, view->unsampled_bytes },
		{ WHERE_FILES, view->files_bytes }, { WHERE_BEFORE, view->before_bytes },
		{ WHERE_OTHERS, view->out_bytes } };
	size_t n = 0;

	for (size_t i = 0; i < WHERE_PARTS; i++) {
		if (all[i].bytes > 0)
			ret[n++] = all[i];
	}
	return n;
}

uint64_t where_others(const struct where_view *view, size_t top, uint64_t *ret_n)
{
	uint64_t bytes = view->out_bytes;

	*ret_n = view->n_out;
	for (size_t i = top; top > 0 && i < view->n_lines; i++) {
		bytes += view->lines[i].bytes;
		(*ret_n)++;
	}
	return bytes;
}

/* ---- rows ------------------------------------------------------------------------------------ */

enum column {
	COLUMN_BYTES,
	COLUMN_SHARE,
	COLUMN_SIGMA,
	COLUMN_N,
	COLUMN_TOTAL,
	COLUMNS,
};

/* Least needed first. */
static const enum column dispensable[] = { COLUMN_TOTAL, COLUMN_N, COLUMN_SHARE };

typedef char cell_text[2 * UNITS_LEN];

struct row {
	cell_text cells[COLUMNS];
	struct buf name, where; /* cleaned; where has the callers too */
	uint64_t size;          /* that the row is sorted by */
	bool is_part;           /* no line of the view: its name may be wider than the column of names */
};

struct text {
	const struct where_view *view;
	const struct sink_options *options;
	struct buf *out;
	const char *unit;
	uint64_t unit_bytes;
	struct row *rows;
	size_t n_rows;
	unsigned width[COLUMNS];
	bool has[COLUMNS];
	int error;
};

static void choose_unit(struct text *t)
{
	const uint64_t peak = t->view->peak_bytes;

	if (t->options->units == UNITS_BYTES) {
		t->unit = "bytes";
		t->unit_bytes = 1;
	} else if (t->options->units == UNITS_SI) {
		t->unit = peak < 1000000 ? "kB" : peak < 100000000000 ? "MB"
								      : "GB";
		t->unit_bytes = peak < 1000000 ? 1000 : peak < 100000000000 ? 1000000
									    : 1000000000;
	} else {
		t->unit = peak < mib ? "KiB" : peak < 100 * gib ? "MiB"
								: "GiB";
		t->unit_bytes = peak < mib ? kib : peak < 100 * gib ? mib
								    : gib;
	}
}

static void put_amount(const struct text *t, uint64_t bytes, unsigned decimals, cell_text ret)
{
	if (t->unit_bytes == 1)
		(void) snprintf(ret, sizeof(cell_text), "%llu", (unsigned long long) bytes);
	else
		(void) units_fixed((double) bytes / (double) t->unit_bytes, decimals, ret);
}

static struct row *add_row(struct text *t, uint64_t bytes, uint64_t total)
{
	struct row *row = &t->rows[t->n_rows++];

	row->name = BUF_INIT(MOST_TEXT);
	row->where = BUF_INIT(MOST_TEXT);
	row->size = t->view->options.is_by_total ? total : bytes;
	put_amount(t, bytes, 1, row->cells[COLUMN_BYTES]);
	put_amount(t, total, 1, row->cells[COLUMN_TOTAL]);
	(void) units_fixed(
		t->view->peak_bytes > 0 ? 100 * (double) bytes / (double) t->view->peak_bytes : 0, 1,
		row->cells[COLUMN_SHARE]);
	(void) snprintf(row->cells[COLUMN_SIGMA], sizeof(cell_text), "-");
	(void) snprintf(row->cells[COLUMN_N], sizeof(cell_text), "-");
	return row;
}

static void put_clean(const struct text *t, const char *text, struct buf *out)
{
	(void) text_clean(text, t->options->utf8, out);
}

/* Long names are shortened in the middle. The mark of a cut stack is an ellipsis. */
static void put_function(const struct text *t, const struct where_function *f, const char *name,
	unsigned most, struct buf *out)
{
	struct buf clean = BUF_INIT(1 << 20);

	put_clean(t, f->is_cut && !t->options->utf8 ? "..." : name, &clean);
	(void) text_shorten(clean.data, most, t->options->utf8, out);
	buf_done(&clean);
}

/* "  < load_table < main": functions with names, plumbing left out; an ellipsis where the stack was cut. */
static void put_callers(const struct text *t, const struct where_line *line, struct buf *out)
{
	const struct where_view *v = t->view;
	uint32_t last = v->places[v->nodes[line->node].place].function;
	const bool is_script = v->functions[last].is_script; /* then its callers are, too */
	unsigned n = 0;

	for (uint32_t at = v->nodes[line->node].parent; at > 0; at = v->nodes[at - 1].parent) {
		const uint32_t function = v->places[v->nodes[at - 1].place].function;
		const struct where_function *f = &v->functions[function];
		const bool is_function = f->is_named && !f->is_plumbing && function != last;
		const bool is_shown = f->is_cut || (is_function && (!is_script || f->is_script));

		if (!is_shown)
			continue;
		if (n++ == CALLERS)
			return;
		(void) buf_str(out, n == 1 ? "  < " : " < ");
		put_function(t, f, where_text_of(v, f->name), CALLER_NAME, out);
		last = function;
	}
}

static void put_place(const struct text *t, const struct where_line *line, struct buf *out)
{
	const struct where_view *v = t->view;
	char process[WHERE_NAME_LEN];
	uint32_t number;
	const char *file = where_line_file(v, line, &number);

	if (v->options.by == WHERE_BY_LIBRARY)
		put_clean(t, where_text_of(v, v->places[v->nodes[line->node].place].module), out);
	else if (v->options.by != WHERE_BY_PROCESS)
		put_clean(t, *file ? file : where_line_library(v, line), out);
	if (*file && number > 0)
		(void) buf_printf(out, ":%u", number);
	if (v->options.by != WHERE_BY_PROCESS && v->options.by != WHERE_BY_LIBRARY)
		put_callers(t, line, out);
	if (v->options.by == WHERE_BY_STACK && v->n_processes > 1) {
		where_process_name(v, v->leaves[line->leaf].process, process);
		(void) buf_str(out, "  in ");
		put_clean(t, process, out);
	}
}

static void add_line(struct text *t, const struct where_line *line)
{
	const struct where_view *v = t->view;
	struct row *row = add_row(t, line->bytes, line->total);
	char name[WHERE_NAME_LEN], n[TRACE_COUNT_LEN];
	uint64_t sigma;

	if (where_line_sigma(line, &sigma))
		put_amount(t, sigma, sigma < 10 * t->unit_bytes ? 1 : 0, row->cells[COLUMN_SIGMA]);
	(void) snprintf(row->cells[COLUMN_N], sizeof(cell_text), "%s", trace_count_text(line->n, n));
	if (v->options.by <= WHERE_BY_STACK)
		put_function(t, &v->functions[v->places[v->nodes[line->node].place].function],
			where_line_name(v, line, name), FUNCTION_NAME, &row->name);
	else
		put_clean(t, where_line_name(v, line, name), &row->name);
	put_place(t, line, &row->where);
}

/* "libpython3.12.so.1.0 4.4, libc.so.6 1.3, ..." */
static void put_files(const struct text *t, struct buf *out)
{
	enum {
		SHOWN = 3
	};
	cell_text amount;

	for (size_t i = 0; i < t->view->n_files && i < SHOWN; i++) {
		put_amount(t, t->view->files[i].bytes, 1, amount);
		(void) buf_str(out, i > 0 ? ", " : "");
		put_clean(t, where_basename(where_text_of(t->view, t->view->files[i].name)), out);
		(void) buf_printf(out, " %s", amount);
	}
	if (t->view->n_files > SHOWN)
		(void) buf_str(out, ", ...");
}

static void add_part(struct text *t, const struct where_part *part, bool has_files)
{
	const struct where_view *v = t->view;
	struct row *row;

	if (has_files && strcmp(part->name, WHERE_FILES) == 0) {
		for (size_t i = 0; i < v->n_files; i++) {
			row = add_row(t, v->files[i].bytes, v->files[i].bytes);
			put_clean(t, where_basename(where_text_of(v, v->files[i].name)), &row->name);
			(void) buf_str(&row->where, "mapped file ");
			put_clean(t, where_text_of(v, v->files[i].name), &row->where);
		}
		return;
	}
	row = add_row(t, part->bytes, part->bytes);
	row->is_part = true;
	(void) buf_str(&row->name, part->name);
	if (strcmp(part->name, WHERE_FILES) == 0)
		put_files(t, &row->where);
	else if (strcmp(part->name, WHERE_UNSAMPLED) == 0) {
		(void) snprintf(row->cells[COLUMN_N], sizeof(cell_text), "0");
		(void) buf_str(&row->where, v->huge_bytes > 0 ? "or huge pages between samples; see `hiwater doctor`"
							      : "anonymous memory; see `hiwater doctor`");
	} else {
		(void) buf_str(&row->where, "resident when sampling began");
	}
}

static const char *things(const struct where_view *view, uint64_t n)
{
	static const char *const words[WHERE_BY_COUNT][2] = { { "function", "functions" },
		{ "line", "lines" }, { "stack", "stacks" }, { "library", "libraries" },
		{ "process", "processes" } };

	return words[view->options.by][n != 1];
}

static int by_size(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->size > y->size ? -1 : x->size < y->size;
}

/* Stable: rows of equal size stay in the order of the view. */
static void sort_rows(struct row *rows, size_t n, size_t sorted)
{
	for (size_t i = sorted; i < n; i++) {
		const struct row row = rows[i];
		size_t at = i;

		while (at > 0 && by_size(&rows[at - 1], &row) > 0)
			at--;
		memmove(&rows[at + 1], &rows[at], (i - at) * sizeof(row));
		rows[at] = row;
	}
}

static void make_rows(struct text *t, size_t top, bool has_files)
{
	const struct where_view *v = t->view;
	const size_t n = top > 0 && top < v->n_lines ? top : v->n_lines;
	struct where_part parts[WHERE_PARTS];
	const size_t n_parts = where_parts(v, parts);
	uint64_t n_others, others = where_others(v, top, &n_others);
	char text[TRACE_COUNT_LEN];

	t->rows = calloc(n + v->n_files + WHERE_PARTS + 2, sizeof(*t->rows));
	if (!t->rows) {
		t->error = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < n; i++)
		add_line(t, &v->lines[i]);
	for (size_t i = 0; i < n_parts; i++) {
		if (strcmp(parts[i].name, WHERE_OTHERS) != 0)
			add_part(t, &parts[i], has_files);
	}
	sort_rows(t->rows, t->n_rows, n);
	if (n_others > 0 || others > 0) {
		struct row *row = add_row(t, others, others);

		(void) buf_printf(&row->name, "others (%s %s)", trace_count_text(n_others, text),
			things(v, n_others));
	}
}

/* ---- writing --------------------------------------------------------------------------------- */

static unsigned figures_width(const struct text *t)
{
	unsigned width = 0;

	for (int i = 0; i < COLUMNS; i++)
		width += t->has[i] ? t->width[i] + BETWEEN : 0;
	return width;
}

/* room: columns for the name and what follows it; names: of it, for the name. */
static void put_line(struct text *t, const struct row *row, unsigned names, unsigned room)
{
	struct buf line = BUF_INIT(MOST_TEXT);
	unsigned taken = names;

	for (int i = 0; i < COLUMNS; i++) {
		if (t->has[i])
			(void) buf_printf(t->out, "%*s%s%*s",
				(int) (t->width[i] - text_width(row->cells[i])), "", row->cells[i], BETWEEN,
				"");
	}
	if (row->is_part && text_width(row->name.data) > names)
		taken = text_width(row->name.data) < room ? text_width(row->name.data) : room;
	(void) text_shorten(
		row->name.data, row->where.len > 0 && taken < room ? taken : room, t->options->utf8, &line);
	(void) buf_str(t->out, line.data);
	if (row->where.len > 0 && room >= taken + LEAST_WHERE + BETWEEN) {
		(void) buf_printf(t->out, "%*s", (int) (taken - text_width(line.data)) + BETWEEN, "");
		(void) text_shorten(row->where.data, room - taken - BETWEEN, t->options->utf8, t->out);
	}
	(void) buf_str(t->out, "\n");
	buf_done(&line);
}

static void put_table(struct text *t)
{
	static const char *const titles[COLUMNS] = { NULL, "%", "+-", "n", "total" };
	const unsigned width = t->options->width ? t->options->width : UNLIMITED;
	struct row head = { .name = BUF_INIT(64), .where = BUF_INIT(64) };
	unsigned names = 0, room;

	for (int i = 0; i < COLUMNS; i++) {
		(void) snprintf(head.cells[i], sizeof(cell_text), "%s", titles[i] ? titles[i] : t->unit);
		t->has[i] = i != COLUMN_TOTAL || t->view->options.by != WHERE_BY_PROCESS;
		t->width[i] = text_width(head.cells[i]);
		for (size_t k = 0; k < t->n_rows; k++) {
			if (text_width(t->rows[k].cells[i]) > t->width[i])
				t->width[i] = text_width(t->rows[k].cells[i]);
		}
	}
	for (size_t i = 0;
		i < sizeof(dispensable) / sizeof(dispensable[0]) && figures_width(t) + LEAST_NAME > width;
		i++)
		t->has[dispensable[i]] = false;
	room = width > figures_width(t) + LEAST_NAME / 2 ? width - figures_width(t) : LEAST_NAME / 2;
	(void) buf_str(&head.name, where_by_name(t->view->options.by));
	names = text_width(head.name.data);
	(void) buf_str(&head.where, t->view->options.by == WHERE_BY_PROCESS ? "" : "where");
	for (size_t i = 0; i < t->n_rows; i++) {
		if (!t->rows[i].is_part && text_width(t->rows[i].name.data) > names)
			names = text_width(t->rows[i].name.data);
	}
	if (t->options->width && names > MOST_NAME)
		names = MOST_NAME;
	if (names > room / 2 && t->options->width)
		names = room / 2 > LEAST_NAME ? room / 2 : room < LEAST_NAME ? room
									     : LEAST_NAME;
	put_line(t, &head, names, room);
	for (size_t i = 0; i < t->n_rows; i++)
		put_line(t, &t->rows[i], names, room);
	buf_done(&head.name);
	buf_done(&head.where);
}

/* "peak 603.0 MiB at 0.74 s, from 871 samples (256 KiB each, huge pages 128 MiB); 11 records lost" */
static void put_head(struct text *t, struct layout *l)
{
	const struct where_view *v = t->view;
	const int64_t at = v->at_ns.known ? v->at_ns.value : (int64_t) v->high_ns;
	char peak[UNITS_LEN], when[UNITS_LEN], n[TRACE_COUNT_LEN], size[UNITS_LEN], looked[UNITS_LEN];
	struct buf words = BUF_INIT(1 << 12);

	(void) buf_printf(&words, "peak" NB "%s at" NB "%s, from" NB "%s" NB "sample%s",
		units_bytes((int64_t) v->peak_bytes, t->options->units, peak), units_instant(at, when),
		trace_count_text(v->samples, n), v->samples == 1 ? "" : "s");
	if (v->sample_bytes > 0 && v->sample_bytes <= INT64_MAX) {
		(void) buf_printf(&words, " (%s" NB "each",
			units_bytes((int64_t) v->sample_bytes, t->options->units, size));
		if (v->huge_bytes > 0 && v->huge_bytes <= INT64_MAX)
			(void) buf_printf(&words, ", huge" NB "pages" NB "%s",
				units_bytes((int64_t) v->huge_bytes, t->options->units, size));
		(void) buf_str(&words, ")");
	}
	if (v->lost > 0)
		(void) buf_printf(&words, "; %s" NB "record%s" NB "lost", trace_count_text(v->lost, n),
			v->lost == 1 ? "" : "s");
	layout_row(l, TONE_NONE, "", 0);
	layout_part(l, "%s", words.data);
	if (v->n_recordings == 1) {
		const int64_t before = at - (int64_t) v->looked_ns;

		layout_part(l, "looked at %s, %s %s",
			units_bytes((int64_t) v->looked_bytes, t->options->units, looked),
			units_duration(before < 0 ? -before : before, when),
			before < 0 ? "later" : "earlier");
	} else {
		layout_part(l, "of %zu recordings", v->n_recordings);
	}
	layout_end(l);
	buf_done(&words);
}

static bool is_large_rise(const struct where_view *view, uint32_t number)
{
	const struct where_view_high *high = &view->highs[number - 1];
	const uint64_t before = number > 1 ? high[-1].total_bytes : 0;

	return number == view->high ||
	       counter_delta(before, high->total_bytes) >= view->peak_bytes / PYTHON_PARTS;
}

static bool is_same_stack(const struct where_view_python *a, const struct where_view_python *b)
{
	bool is_same = a->high == b->high && a->n_frames == b->n_frames;

	for (size_t i = 0; i < a->n_frames && is_same; i++)
		is_same = a->frames[i].function == b->frames[i].function &&
			  a->frames[i].file == b->frames[i].file && a->frames[i].line == b->frames[i].line;
	return is_same;
}

size_t where_python_group(const struct where_view *view, size_t at)
{
	const struct where_view_python *python = &view->pythons[at];
	size_t n = 0;

	if (!is_large_rise(view, python->high))
		return 0;
	for (size_t i = 0; i < view->n_pythons; i++) {
		if (!is_same_stack(&view->pythons[i], python))
			continue;
		if (i < at)
			return 0;
		n++;
	}
	return n;
}

void where_python_text(const struct where_view *view, const struct where_view_python *python, bool utf8,
	struct buf *out)
{
	for (size_t i = python->n_frames, n = 0; i-- > 0; n++) {
		const struct where_view_frame *frame = &python->frames[i];
		const char *file = where_text_of(view, frame->file);

		(void) buf_str(out, n > 0 ? " < " : "");
		if (!*file || (n == PYTHON_INNER && i >= PYTHON_OUTER)) { /* some are left out */
			(void) buf_str(out, utf8 ? "…" : "...");
			i = *file ? PYTHON_OUTER : i;
			continue;
		}
		(void) text_clean(where_text_of(view, frame->function), utf8, out);
		(void) buf_str(out, " ");
		(void) text_clean(where_basename(file), utf8, out);
		if (frame->line > 0)
			(void) buf_printf(out, ":%u", frame->line);
	}
}

static void put_python(
	const struct text *t, struct layout *l, const struct where_view_python *python, size_t n)
{
	struct buf words = BUF_INIT(MOST_TEXT);
	char when[UNITS_LEN], size[UNITS_LEN], process[WHERE_NAME_LEN];

	where_process_name(t->view, python->process, process);
	(void) buf_printf(&words, "at %s, on the way to %s, ", units_instant((int64_t) python->time_ns, when),
		units_bytes((int64_t) t->view->highs[python->high - 1].total_bytes, t->options->units, size));
	put_clean(t, process, &words);
	if (n > 1)
		(void) buf_printf(&words, " and %zu more were in ", n - 1);
	else if (python->thread != t->view->processes[python->process].pid)
		(void) buf_printf(&words, ", thread %lld, was in ", (long long) python->thread);
	else
		(void) buf_str(&words, " was in ");
	where_python_text(t->view, python, t->options->utf8, &words);
	layout_row(l, TONE_NONE, "python", LABEL);
	layout_words(l, words.data);
	layout_end(l);
	buf_done(&words);
}

static void put_note(struct layout *l, const char *text)
{
	layout_row(l, TONE_NONE, "note", LABEL);
	layout_words(l, text);
	layout_end(l);
}

/* Python ran, and its functions are not among the rows. */
static bool lacks_python(const struct where_view *view)
{
	bool has_interpreter = false, has_script = false;

	for (size_t i = 0; i < view->n_functions; i++) {
		const char *library = where_text_of(view, view->functions[i].library);

		has_script = has_script || view->functions[i].is_script;
		has_interpreter = has_interpreter || strncmp(library, "libpython3", 10) == 0 ||
				  strncmp(library, "python3", 7) == 0;
	}
	return has_interpreter && !has_script;
}

static void put_notes(const struct text *t, struct layout *l)
{
	const struct where_view *v = t->view;
	char text[128];

	if (v->n_given > v->n_recordings) {
		(void) snprintf(text, sizeof(text), "of %zu recordings %zu %s sampled", v->n_given,
			v->n_recordings, v->n_recordings == 1 ? "was" : "were");
		put_note(l, text);
	}
	if (v->is_growing)
		put_note(l, "the run is not over: all of it is up to now");
	layout_row(l, TONE_NONE, "", 0);
	layout_words(l, "first touched by, not owned by: memory that malloc reused counts for who touched "
			"it first");
	layout_end(l);
	if (!lacks_python(v))
		return;
	layout_row(l, TONE_NONE, "", 0);
	layout_words(l, "the interpreter's functions stand for those of Python: --where=python, with Python "
			"3.12 or later, names them");
	layout_end(l);
}

int where_text(const struct where_view *view, size_t top, bool has_files,
	const struct sink_options *options, struct buf *out)
{
	struct text t = { .view = view, .options = options, .out = out };
	struct sink_options wide = *options;
	struct layout l;

	if (wide.width == 0)
		wide.width = UNLIMITED;
	layout_init(&l, out, &wide);
	choose_unit(&t);
	put_head(&t, &l);
	make_rows(&t, top, has_files);
	if (t.rows)
		put_table(&t);
	for (size_t i = 0; i < view->n_pythons; i++) {
		const size_t n = where_python_group(view, i);

		if (n > 0)
			put_python(&t, &l, &view->pythons[i], n);
	}
	put_notes(&t, &l);
	for (size_t i = 0; i < t.n_rows; i++) {
		buf_done(&t.rows[i].name);
		buf_done(&t.rows[i].where);
	}
	free(t.rows);
	return t.error ? t.error : out->error;
}
