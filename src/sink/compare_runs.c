/* SPDX-License-Identifier: MIT */
#include "sink/compare_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/figures.h"
#include "base/textwidth.h"

enum {
	CELL_LEN = COMPARE_CELL_LEN,
	LABEL_COLUMNS = 22,
	CELL_COLUMNS = 24,
	CHANGE_COLUMNS = 28,
	WARNED_LEN = 60,     /* of a fact in a warning */
	WARNED_BEFORE = 20,  /* of it, what is alike in both */
	CLOCK_SECONDS = 600, /* from here on minutes and seconds say more than digits */
};

static const double MOMENT_SECONDS = 0.01; /* below it milliseconds stand, and no exponents */
static const double BYTES_MOST = 9e18; /* what a program logs may be any number */

/* ---- cells -------------------------------------------------------------------------------------------------------------- */

/* What stands behind "+-": in the unit of the mean and with as many digits behind the point, since more of them would say
 * nothing. mean_text: "22.4 GiB", "0.431". */
static void put_spread(const char *mean_text, const struct compare_cell *cell, double scale, char buf[UNITS_LEN])
{
	char *end;
	const double shown = strtod(mean_text, &end), mean = cell->mean * scale;
	const char *point = memchr(mean_text, '.', (size_t) (end - mean_text));
	const int digits = point ? (int) (end - point) - 1 : shown < 100 ? 1
									 : 0; /* 72 stands for 72.0 */
	const bool is_short = memchr(mean_text, 'e', (size_t) (end - mean_text)) == NULL;

	if (is_short && shown != 0 && mean != 0)
		(void) snprintf(buf, UNITS_LEN, "%.*f", digits, cell->deviation * scale * shown / mean);
	else
		(void) figure_any(cell->deviation * scale, buf);
}

/* "22.4 GiB" of several runs: "22.4 +- 0.1 GiB". */
static void put_bytes(const struct compare_cell *cell, enum units units, char *buf)
{
	char mean[UNITS_LEN], spread[UNITS_LEN];
	const char *unit;

	(void) units_bytes((int64_t) cell->mean, units, mean);
	unit = strrchr(mean, ' ');
	put_spread(mean, cell, 1, spread);
	if (cell->n == 1)
		(void) snprintf(buf, CELL_LEN, "%s", mean);
	else
		(void) snprintf(buf, CELL_LEN, "%.*s +- %s%s", (int) strcspn(mean, " "), mean, spread, unit ? unit : "");
}

static void put_number(const struct compare_cell *cell, double scale, const char *unit, char *buf)
{
	char mean[UNITS_LEN], spread[UNITS_LEN];

	(void) figure_any(cell->mean * scale, mean);
	put_spread(mean, cell, scale, spread);
	if (cell->n == 1)
		(void) snprintf(buf, CELL_LEN, "%s%s", mean, unit);
	else
		(void) snprintf(buf, CELL_LEN, "%s +- %s%s", mean, spread, unit);
}

static void put_seconds(const struct compare_cell *cell, char *buf)
{
	char mean[UNITS_LEN], spread[UNITS_LEN];

	if (cell->mean < CLOCK_SECONDS) {
		const bool is_moment = cell->mean > 0 && cell->mean < MOMENT_SECONDS;

		put_number(cell, is_moment ? 1000 : 1, is_moment ? " ms" : " s", buf);
		return;
	}
	(void) units_duration((int64_t) (cell->mean * 1e9), mean);
	(void) units_duration((int64_t) (cell->deviation * 1e9), spread);
	(void) snprintf(buf, CELL_LEN, cell->n == 1 ? "%s" : "%s +- %s", mean, spread);
}

char *compare_cell_text(const struct compare_row *row, const struct compare_cell *cell, enum units units, char buf[COMPARE_CELL_LEN])
{
	if (cell->n == 0)
		(void) snprintf(buf, CELL_LEN, "not known");
	else if (row->unit == COMPARE_BYTES && fabs(cell->mean) < BYTES_MOST)
		put_bytes(cell, units, buf);
	else if (row->unit == COMPARE_SECONDS)
		put_seconds(cell, buf);
	else
		put_number(cell, row->unit == COMPARE_RATIO ? 100 : 1, row->unit == COMPARE_RATIO ? " %" : row->unit == COMPARE_JOULES ? " J"
																       : "",
			buf);
	return buf;
}

/* "-15.1 %", "+11 pt", "~"; what the test says stands beside it. */
static char *put_change(const struct compare_row *row, const struct compare_change *change, char *buf)
{
	char number[UNITS_LEN];

	if (change->verdict == COMPARE_UNKNOWN)
		buf[0] = '\0';
	else if (change->verdict == COMPARE_NO_DIFFERENCE)
		(void) snprintf(buf, CELL_LEN, "~");
	else if (row->unit == COMPARE_RATIO)
		(void) snprintf(buf, CELL_LEN, "%+.1f pt", change->difference * 100);
	else if (isnan(change->ratio))
		(void) snprintf(buf, CELL_LEN, "%s%s", change->difference > 0 ? "+" : "", figure_any(change->difference, number));
	else
		(void) snprintf(buf, CELL_LEN, "%+.1f %%", (change->ratio - 1) * 100);
	return buf;
}

static char *put_test(const struct compare_change *change, char *buf)
{
	buf[0] = '\0';
	if (change->verdict == COMPARE_TOO_FEW)
		(void) snprintf(buf, CELL_LEN, "too few runs to tell");
	else if (!isnan(change->p))
		(void) snprintf(buf, CELL_LEN, change->p < 0.001 ? "p<0.001" : "p=%.3f", change->p);
	return buf;
}

/* ---- the table ------------------------------------------------------------------------------------------------------------ */

struct table {
	const struct comparison *c;
	const struct sink_options *options;
	bool markdown;
	struct buf *out;
	int label_columns;
	bool some_single;
};

/* Ends a line without blanks behind it. */
static void end_line(struct table *t)
{
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

static void put_field(struct table *t, const char *text, int columns)
{
	struct buf clean = BUF_INIT(1 << 16);

	(void) text_clean(text, t->options->utf8, &clean);
	if (t->markdown) {
		(void) buf_str(t->out, t->out->len && t->out->data[t->out->len - 1] != '\n' ? " | " : "| ");
		compare_markdown(clean.data, t->out);
	} else {
		(void) buf_printf(t->out, "%-*s ", columns - 1, clean.data);
	}
	buf_done(&clean);
}

static void put_head(struct table *t)
{
	put_field(t, "", t->label_columns);
	for (size_t g = 0; g < t->c->n_groups; g++) {
		char name[CELL_LEN];
		const size_t n = comparison_runs_of(t->c, g);

		(void) snprintf(name, sizeof(name), n == 1 ? "%.40s" : "%.40s (n=%zu)", t->c->groups[g], n);
		put_field(t, name, CELL_COLUMNS);
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
	char text[CELL_LEN], change_text[CELL_LEN], test[CELL_LEN], both[2 * CELL_LEN + 4];

	put_field(t, row->label, t->label_columns);
	for (size_t g = 0; g < t->c->n_groups; g++) {
		const struct compare_cell cell = comparison_cell(t->c, row, g);
		const struct compare_change change = comparison_change(t->c, row, g);

		put_field(t, compare_cell_text(row, &cell, t->options->units, text), CELL_COLUMNS);
		if (g == 0)
			continue;
		t->some_single |= change.verdict == COMPARE_SINGLE;
		(void) snprintf(both, sizeof(both), t->markdown ? "%s %s" : "%-9s %s", put_change(row, &change, change_text), put_test(&change, test));
		put_field(t, t->markdown || both[0] == ' ' ? both + strspn(both, " ") : both, CHANGE_COLUMNS);
	}
	end_line(t);
}

/* Of swap, files or a GPU that nobody used there is nothing to tell. */
bool compare_is_nothing(const struct comparison *c, const struct compare_row *row)
{
	for (size_t i = 0; i < c->n_runs; i++) {
		if (i < row->n && !isnan(row->values[i]) && row->values[i] != 0)
			return false;
	}
	return row->unit != COMPARE_NUMBER;
}

/* "new is 1.18 +- 0.01 times faster and uses 1.11 times the RAM." of what is told apart. */
static void put_sentence(struct table *t, size_t group)
{
	const struct compare_row *wall = comparison_row(t->c, "time.wall_s"), *ram = comparison_row(t->c, "ram.combined.peak_bytes");
	const struct compare_change none = { .verdict = COMPARE_UNKNOWN };
	const struct compare_change time = wall ? comparison_change(t->c, wall, group) : none;
	const struct compare_change memory = ram ? comparison_change(t->c, ram, group) : none;
	const bool has_time = time.verdict == COMPARE_DIFFERS && !isnan(time.ratio);
	const bool has_memory = memory.verdict == COMPARE_DIFFERS && !isnan(memory.ratio);

	if (!has_time && !has_memory)
		return;
	(void) buf_printf(t->out, "%s", t->c->groups[group]);
	if (has_time && time.ratio < 1)
		(void) buf_printf(t->out, " is %.2f +- %.2f times faster", 1 / time.ratio, time.ratio_error / (time.ratio * time.ratio));
	else if (has_time)
		(void) buf_printf(t->out, " takes %.2f +- %.2f times as long", time.ratio, time.ratio_error);
	if (has_memory)
		(void) buf_printf(t->out, "%s uses %.2f times the RAM", has_time ? " and" : "", memory.ratio);
	(void) buf_str(t->out, ".\n");
}

/* Of two long texts the part in which they differ: who begins alike is told from where that ends, "...train.py mlp". */
static void put_difference(const char *one, const char *other, struct buf *out)
{
	const char *const texts[] = { one, other };
	size_t alike = 0;

	while (one[alike] && one[alike] == other[alike])
		alike++;
	for (size_t i = 0; i < 2; i++) {
		const size_t len = strlen(texts[i]);
		size_t from = len > WARNED_LEN && alike > WARNED_BEFORE ? alike - WARNED_BEFORE : 0;

		while (from > 0 && ((unsigned char) texts[i][from] & 0xc0) == 0x80)
			from--;
		(void) buf_printf(out, "%s %s", i ? ";" : "", from > 0 ? "..." : "");
		(void) buf_printf(out, "%.*s%s", WARNED_LEN, len ? texts[i] + from : "unknown", len > from + WARNED_LEN ? "..." : "");
	}
	(void) buf_str(out, "\n");
}

void compare_warnings(const struct comparison *c, bool other_commands, struct buf *out)
{
	const char *what, *one, *other;
	size_t lost = 0;

	for (size_t i = 0; comparison_differs(c, i, &what, &one, &other); i++) {
		if (other_commands && strcmp(what, "commands") == 0)
			continue;
		(void) buf_printf(out, "warning: the %s differ:", what);
		put_difference(one, other, out);
	}
	for (size_t i = 0; i < c->n_runs; i++)
		lost += !c->runs[i].complete;
	if (lost > 0)
		(void) buf_printf(out, "warning: the end of %zu of the runs is not recorded\n", lost);
}

static int label_columns(const struct comparison *c)
{
	int most = LABEL_COLUMNS;

	for (size_t i = 0; i < c->n_rows; i++) {
		const int width = (int) text_width(c->rows[i].label) + 2;

		if (width > most && !compare_is_nothing(c, &c->rows[i]))
			most = width;
	}
	return most;
}

int compare_text(const struct comparison *c, const struct sink_options *options, bool markdown, struct buf *out)
{
	struct table t = { .c = c, .options = options, .markdown = markdown, .out = out, .label_columns = label_columns(c) };

	put_head(&t);
	for (size_t i = 0; i < c->n_rows; i++) {
		if (!compare_is_nothing(c, &c->rows[i]))
			put_row(&t, &c->rows[i]);
	}
	if (markdown)
		(void) buf_str(out, "\n");
	if (t.some_single)
		(void) buf_str(out, "single runs: how much of a difference is chance cannot be told\n");
	for (size_t g = 1; g < c->n_groups; g++)
		put_sentence(&t, g);
	compare_warnings(c, false, out);
	return out->error;
}

/* ---- JSON ----------------------------------------------------------------------------------------------------------------- */

static const char *const unit_names[] = {
	[COMPARE_SECONDS] = "s",
	[COMPARE_BYTES] = "bytes",
	[COMPARE_RATIO] = "ratio",
	[COMPARE_JOULES] = "j",
	[COMPARE_NUMBER] = "",
};
static const char *const verdict_names[] = {
	[COMPARE_UNKNOWN] = "unknown",
	[COMPARE_SINGLE] = "single-runs",
	[COMPARE_TOO_FEW] = "too-few-runs",
	[COMPARE_NO_DIFFERENCE] = "no-difference",
	[COMPARE_DIFFERS] = "differs",
};

static void key_str(struct json *j, const char *key, const char *text)
{
	json_key(j, key);
	json_str(j, text);
}

static void key_num(struct json *j, const char *key, double value, bool known)
{
	json_key(j, key);
	if (known && !isnan(value))
		json_num(j, value);
	else
		json_null(j);
}

static void put_parts(struct json *j, const struct comparison *c, const struct compare_heads *heads, size_t group)
{
	json_key(j, "by");
	json_object(j);
	for (size_t h = 0; h < heads->n; h++) {
		struct buf part = BUF_INIT(1 << 16);

		compare_part(c, heads, group, h, &part);
		key_str(j, heads->names[h], part.len ? part.data : "");
		buf_done(&part);
	}
	json_end(j);
}

static void put_group(struct json *j, const struct comparison *c, const struct compare_heads *heads, size_t group)
{
	json_object(j);
	key_str(j, "name", c->groups[group]);
	if (heads->n)
		put_parts(j, c, heads, group);
	json_key(j, "runs");
	json_array(j);
	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].group != group)
			continue;
		json_object(j);
		key_str(j, "recording", c->runs[i].path);
		json_key(j, "complete");
		json_bool(j, c->runs[i].complete);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void put_values(struct json *j, const struct comparison *c, const struct compare_row *row, size_t group)
{
	const struct compare_cell cell = comparison_cell(c, row, group);
	const struct compare_change change = comparison_change(c, row, group);

	json_object(j);
	json_key(j, "n");
	json_int(j, (int64_t) cell.n);
	key_num(j, "mean", cell.mean, cell.n > 0);
	key_num(j, "deviation", cell.deviation, cell.n > 1);
	if (group > 0) {
		key_str(j, "verdict", verdict_names[change.verdict]);
		key_num(j, "difference", change.difference, change.verdict != COMPARE_UNKNOWN);
		key_num(j, "ratio", change.ratio, true);
		key_num(j, "ratio_error", change.ratio_error, cell.n > 1);
		key_num(j, "p", change.p, true);
	}
	json_key(j, "values");
	json_array(j);
	for (size_t i = 0; i < c->n_runs; i++) {
		if (c->runs[i].group == group && i < row->n && !isnan(row->values[i]))
			json_num(j, row->values[i]);
		else if (c->runs[i].group == group)
			json_null(j);
	}
	json_end(j);
	json_end(j);
}

int compare_json(const struct comparison *c, const struct compare_heads *heads, struct json *j)
{
	const char *what, *one, *other;

	json_key(j, "groups");
	json_array(j);
	for (size_t g = 0; g < c->n_groups; g++)
		put_group(j, c, heads, g);
	json_end(j);
	json_key(j, "figures");
	json_array(j);
	for (size_t i = 0; i < c->n_rows; i++) {
		json_object(j);
		key_str(j, "key", c->rows[i].key);
		key_str(j, "unit", unit_names[c->rows[i].unit]);
		json_key(j, "groups");
		json_array(j);
		for (size_t g = 0; g < c->n_groups; g++)
			put_values(j, c, &c->rows[i], g);
		json_end(j);
		json_end(j);
	}
	json_end(j);
	json_key(j, "differ");
	json_array(j);
	for (size_t i = 0; comparison_differs(c, i, &what, &one, &other); i++)
		json_str(j, what);
	json_end(j);
	return j->out->error;
}
