/* SPDX-License-Identifier: MIT */
#include "sink/compare/compare_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/figures.h"
#include "sink/text/layout.h"

enum {
	CELL_LEN = COMPARE_CELL_LEN,
	LABEL_COLUMNS = 22,
	CELL_COLUMNS = 24,
	GAP = 2,
	CHANGE_COLUMNS = 28,
	CHANGE_AMOUNT = 9,   /* of them before the test */
	CLOCK_SECONDS = 600, /* below it seconds, so that a mean and its deviation share their unit */
};

static const double MOMENT_SECONDS = 0.01; /* below it milliseconds, without exponents */
static const double BYTES_MOST = 9e18; /* a user series may have any value */

/* ---- cells -------------------------------------------------------------------------------------------------------------- */

/* The deviation behind "+-", in the unit of the mean and with as many decimals. mean_text: "22.4
 * GiB", "0.431". */
static void put_spread(
	const char *mean_text, const struct compare_cell *cell, double scale, char buf[UNITS_LEN])
{
	char *end;
	const double shown = strtod(mean_text, &end), mean = cell->mean * scale;
	const char *point = memchr(mean_text, '.', (size_t) (end - mean_text));
	const int digits = point ? (int) (end - point) - 1 : shown < 100 ? 1
									 : 0; /* 72 is 72.0 */
	const bool is_short = memchr(mean_text, 'e', (size_t) (end - mean_text)) == NULL;

	if (is_short && shown != 0 && mean != 0)
		(void) units_fixed(cell->deviation * scale * shown / mean, (unsigned) digits, buf);
	else
		(void) units_any(cell->deviation * scale, buf);
}

static const char *plus_minus(const struct sink_options *o)
{
	return o->utf8 ? "\xC2\xB1" : "+-"; /* U+00B1 */
}

/* "22.4 GiB" of several runs: "22.4 +- 0.1 GiB". */
static void put_bytes(const struct compare_cell *cell, const struct sink_options *o, char *buf)
{
	char mean[UNITS_LEN], spread[UNITS_LEN];
	const char *unit;

	(void) units_bytes((int64_t) cell->mean, o->units, mean);
	unit = strrchr(mean, ' ');
	put_spread(mean, cell, 1, spread);
	if (cell->n == 1)
		(void) snprintf(buf, CELL_LEN, "%s", mean);
	else
		(void) snprintf(buf, CELL_LEN, "%.*s %s %s%s", (int) strcspn(mean, " "), mean, plus_minus(o),
			spread, unit ? unit : "");
}

static void put_number(const struct compare_cell *cell, double scale, const char *unit,
	const struct sink_options *o, char *buf)
{
	char mean[UNITS_LEN], spread[UNITS_LEN];

	(void) units_any(cell->mean * scale, mean);
	put_spread(mean, cell, scale, spread);
	if (cell->n == 1)
		(void) snprintf(buf, CELL_LEN, "%s%s", mean, unit);
	else
		(void) snprintf(buf, CELL_LEN, "%s %s %s%s", mean, plus_minus(o), spread, unit);
}

static void put_seconds(const struct compare_cell *cell, const struct sink_options *o, char *buf)
{
	char mean[UNITS_LEN], spread[UNITS_LEN];

	if (cell->mean < CLOCK_SECONDS) {
		const bool is_moment = cell->mean > 0 && cell->mean < MOMENT_SECONDS;

		put_number(cell, is_moment ? 1000 : 1, is_moment ? " ms" : " s", o, buf);
		return;
	}
	(void) units_duration((int64_t) (cell->mean * 1e9), mean);
	(void) units_duration((int64_t) (cell->deviation * 1e9), spread);
	if (cell->n == 1)
		(void) snprintf(buf, CELL_LEN, "%s", mean);
	else
		(void) snprintf(buf, CELL_LEN, "%s %s %s", mean, plus_minus(o), spread);
}

char *compare_cell_text(const struct compare_row *row, const struct compare_cell *cell,
	const struct sink_options *o, char buf[COMPARE_CELL_LEN])
{
	if (cell->n == 0)
		(void) snprintf(buf, CELL_LEN, "unknown");
	else if (row->unit == COMPARE_BYTES && fabs(cell->mean) < BYTES_MOST)
		put_bytes(cell, o, buf);
	else if (row->unit == COMPARE_SECONDS)
		put_seconds(cell, o, buf);
	else
		put_number(cell, row->unit == COMPARE_RATIO ? 100 : 1,
			row->unit == COMPARE_RATIO    ? " %"
			: row->unit == COMPARE_JOULES ? " J"
						      : "",
			o, buf);
	return buf;
}

/* Where the base is 0 there is no percentage: the difference in the figure's own unit. */
static void put_amount(const struct compare_row *row, double difference, const struct sink_options *o,
	char buf[COMPARE_CHANGE_LEN])
{
	const struct compare_cell by = { .n = 1, .mean = fabs(difference) };

	buf[0] = difference < 0 ? '-' : '+';
	(void) compare_cell_text(row, &by, o, buf + 1);
}

/* "-15.1", "+123" and the unit. */
static void put_signed(double value, const char *unit, char buf[COMPARE_CHANGE_LEN])
{
	static const double three_digits = 99.95;
	char number[UNITS_LEN];

	(void) snprintf(buf, CELL_LEN, "%s%s%s", value < 0 ? "-" : "+",
		units_fixed(fabs(value), fabs(value) < three_digits, number), unit);
}

char *compare_change_text(const struct compare_row *row, const struct compare_change *change,
	const struct sink_options *o, char buf[COMPARE_CHANGE_LEN])
{
	if (change->result == COMPARE_UNKNOWN)
		buf[0] = '\0';
	else if (change->result == COMPARE_NO_DIFFERENCE)
		(void) snprintf(buf, CELL_LEN, "%s", o->utf8 ? "\xE2\x89\x88" : "~"); /* U+2248 */
	else if (row->unit == COMPARE_RATIO)
		put_signed(change->difference * 100, " pt", buf);
	else if (isnan(change->ratio))
		put_amount(row, change->difference, o, buf);
	else
		put_signed((change->ratio - 1) * 100, " %", buf);
	return buf;
}

static char *put_test(const struct compare_change *change, char *buf)
{
	char number[UNITS_LEN];

	buf[0] = '\0';
	if (change->result == COMPARE_TOO_FEW)
		(void) snprintf(buf, CELL_LEN, "too few runs for a test");
	else if (!isnan(change->p))
		(void) snprintf(buf, CELL_LEN, "p%s%s", change->p < 0.001 ? "<" : "=",
			units_fixed(fmax(change->p, 0.001), 3, number));
	return buf;
}

/* ---- the table ------------------------------------------------------------------------------------------------------------ */

/* From the most readable to the narrowest: columns of fixed widths, columns as wide as their cells,
 * and parts that flow. */
enum form {
	FORM_EVEN,
	FORM_TIGHT,
	FORM_FLOWING
};

struct table {
	const struct comparison *c;
	const struct sink_options *options;
	bool markdown;
	struct buf *out;
	enum form form;
	unsigned label_columns, cell_columns;
	unsigned widest_cell;
	struct layout layout;    /* of FORM_FLOWING */
};

/* Ends a line without trailing blanks. */
static void end_line(struct table *t)
{
	if (t->form == FORM_FLOWING) {
		layout_end(&t->layout);
		return;
	}
	if (t->markdown)
		(void) buf_str(t->out, " |");
	while (!t->markdown && t->out->len > 0 && t->out->data[t->out->len - 1] == ' ')
		t->out->data[--t->out->len] = '\0';
	(void) buf_str(t->out, "\n");
}

void compare_markdown(const char *text, struct buf *out)
{
	for (const char *p = text; *p; p++)
		(void) buf_printf(out, "%s%c", *p == '|' ? "\\" : "", *p);
}

static void put_markdown(struct table *t, const char *text)
{
	(void) buf_str(t->out, t->out->len && t->out->data[t->out->len - 1] != '\n' ? " | " : "| ");
	compare_markdown(text, t->out);
}

/* columns: of the field with its trailing blanks. */
static void put_field(struct table *t, const char *text, unsigned columns)
{
	struct buf clean = BUF_INIT(1 << 16);

	(void) text_clean(text, t->options->utf8, &clean);
	const unsigned width = text_width(clean.data);

	if (t->markdown)
		put_markdown(t, clean.data);
	else if (t->form == FORM_FLOWING)
		layout_part(&t->layout, "%s", clean.data);
	else
		(void) buf_printf(
			t->out, "%s%*s", clean.data, width < columns ? (int) (columns - width) : 1, "");
	buf_done(&clean);
}

static void put_label(struct table *t, const char *text)
{
	if (t->form == FORM_FLOWING)
		layout_row(&t->layout, TONE_NONE, text, t->label_columns);
	else
		put_field(t, text, t->label_columns);
}

static void put_cell(struct table *t, const char *text)
{
	const unsigned width = text_width(text);

	t->widest_cell = width > t->widest_cell ? width : t->widest_cell;
	put_field(t, text, t->cell_columns);
}

static void put_name(struct table *t, size_t group)
{
	const size_t n = comparison_runs_of(t->c, group);
	struct buf name = BUF_INIT(1 << 16);

	compare_name(t->c, group, t->options, &name);
	if (n != 1)
		(void) buf_printf(&name, " (n=%zu)", n);
	put_cell(t, name.data);
	buf_done(&name);
}

static void put_head(struct table *t)
{
	put_label(t, "");
	for (size_t g = 0; g < t->c->n_groups; g++) {
		put_name(t, g);
		if (g > 0)
			put_field(t, "change", CHANGE_COLUMNS);
	}
	end_line(t);
	for (size_t i = 0; t->markdown && i < 2 * t->c->n_groups; i++)
		(void) buf_str(t->out, i == 0 ? "| ---" : " | ---");
	if (t->markdown)
		end_line(t);
}

static void put_row(struct table *t, const struct compare_row *row)
{
	const bool is_tight = t->markdown || t->form == FORM_FLOWING;
	unsigned width;
	char text[CELL_LEN], change_text[COMPARE_CHANGE_LEN], test[CELL_LEN];
	char both[3 * CELL_LEN];

	put_label(t, row->label);
	for (size_t g = 0; g < t->c->n_groups; g++) {
		const struct compare_cell cell = comparison_cell(t->c, row, g);
		const struct compare_change change = comparison_change(t->c, row, g);

		put_cell(t, compare_cell_text(row, &cell, t->options, text));
		if (g == 0)
			continue;
		(void) compare_change_text(row, &change, t->options, change_text);
		width = text_width(change_text);
		(void) snprintf(both, sizeof(both), "%s%*s %s", change_text,
			is_tight || width >= CHANGE_AMOUNT ? 0 : (int) (CHANGE_AMOUNT - width), "",
			put_test(&change, test));
		put_field(t, is_tight || both[0] == ' ' ? both + strspn(both, " ") : both, CHANGE_COLUMNS);
	}
	end_line(t);
}

/* True if the figure is 0 or unknown in all runs (no swap, no GPU): its row is left out. */
bool compare_is_nothing(const struct comparison *c, const struct compare_row *row)
{
	for (size_t i = 0; i < c->n_runs; i++) {
		if (i < row->n && !isnan(row->values[i]) && row->values[i] != 0)
			return false;
	}
	return row->unit != COMPARE_NUMBER;
}

static unsigned label_columns(const struct comparison *c)
{
	unsigned most = 0;

	for (size_t i = 0; i < c->n_rows; i++) {
		const unsigned width = text_width(c->rows[i].label) + GAP;

		if (width > most && !compare_is_nothing(c, &c->rows[i]))
			most = width;
	}
	return most;
}

static void put_table(struct table *t)
{
	layout_init(&t->layout, t->out, t->options);
	put_head(t);
	for (size_t i = 0; i < t->c->n_rows; i++) {
		if (!compare_is_nothing(t->c, &t->c->rows[i]))
			put_row(t, &t->c->rows[i]);
	}
}

/* The first form that fits the terminal. */
static void put_fitting(struct table *t)
{
	const unsigned labels = label_columns(t->c);
	struct buf *const out = t->out;
	struct buf text = BUF_INIT(out->max);

	t->out = &text;
	t->label_columns = labels > LABEL_COLUMNS ? labels : LABEL_COLUMNS;
	t->cell_columns = CELL_COLUMNS;
	put_table(t);
	while (!t->markdown && t->options->width && t->form < FORM_FLOWING &&
		compare_is_too_wide(text.data, t->options->width)) {
		t->form++;
		t->label_columns = labels;
		t->cell_columns = t->widest_cell + GAP;
		buf_clear(&text);
		put_table(t);
	}
	(void) buf_str(out, text.data);
	if (text.error)
		out->error = text.error;
	t->out = out;
	buf_done(&text);
}

int compare_text(
	const struct comparison *c, const struct sink_options *options, bool markdown, struct buf *out)
{
	struct table t = { .c = c, .options = options, .markdown = markdown, .out = out };

	put_fitting(&t);
	if (markdown)
		(void) buf_str(out, "\n");
	compare_notes(c, options, markdown, out);
	return out->error;
}
