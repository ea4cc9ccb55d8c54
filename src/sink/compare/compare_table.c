/* SPDX-License-Identifier: MIT
 *
 * Many groups of runs: a row a group, a column a figure. Where a group's name has several parts (a
 * model and its data), each part has a column.
 */
#include "sink/compare/compare_runs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"

enum {
	BETWEEN = 2,             /* blanks between columns */
	LEAST_WIDTH = 40
};

/* ---- names ---------------------------------------------------------------------------------------------------------- */

/* The ends of n parts of name, cut at the last separators. False: it has fewer. */
static bool cut(const char *name, char separator, size_t n, size_t ends[COMPARE_HEADS])
{
	size_t end = strlen(name);

	for (size_t i = n; i > 0; i--) {
		const char *at = i > 1 ? memrchr(name, separator, end) : NULL;

		if (i > 1 && !at)
			return false;
		ends[i - 1] = end;
		end = at ? (size_t) (at - name) : 0;
	}
	return true;
}

/* The first separator that cuts every name into n parts; 0: none does. */
static char separator_of(const struct comparison *c, size_t n)
{
	size_t ends[COMPARE_HEADS];

	for (const char *s = "/:, -_"; *s; s++) {
		size_t g = 0;

		while (g < c->n_groups && cut(c->groups[g], *s, n, ends))
			g++;
		if (g == c->n_groups)
			return *s;
	}
	return '\0';
}

void compare_part(const struct comparison *c, const struct compare_heads *heads, size_t group, size_t head,
	struct buf *out)
{
	const char *name = c->groups[group];
	const char separator = separator_of(c, heads->n);
	size_t ends[COMPARE_HEADS], from;

	if (separator == '\0' || !cut(name, separator, heads->n, ends)) {
		(void) buf_str(out, head == 0 ? name : ""); /* the whole name in the first column */
		return;
	}
	from = head > 0 ? ends[head - 1] + 1 : 0;
	(void) buf_add(out, name + from, ends[head] - from);
}

/* ---- the grid -------------------------------------------------------------------------------------------------------- */

/* Cells by row and column; the first row has the heads. */
struct grid {
	size_t rows, columns, heads;
	struct buf *cells;
};

static struct buf *at(const struct grid *g, size_t row, size_t column)
{
	return &g->cells[row * g->columns + column];
}

static void put(struct grid *g, size_t row, size_t column, const char *text, bool utf8)
{
	(void) text_clean(text, utf8, at(g, row, column));
}

static void fill_names(
	struct grid *g, const struct comparison *c, const struct compare_heads *heads, bool utf8)
{
	for (size_t h = 0; h < g->heads - 1; h++) {
		put(g, 0, h, heads->n ? heads->names[h] : "runs", utf8);
		for (size_t group = 0; group < c->n_groups; group++) {
			struct buf part = BUF_INIT(1 << 16);

			if (heads->n)
				compare_part(c, heads, group, h, &part);
			put(g, group + 1, h, heads->n ? (part.len ? part.data : "") : c->groups[group], utf8);
			buf_done(&part);
		}
	}
	put(g, 0, g->heads - 1, "n", utf8);
	for (size_t group = 0; group < c->n_groups; group++) {
		char n[24];

		(void) snprintf(n, sizeof(n), "%zu", comparison_runs_of(c, group));
		put(g, group + 1, g->heads - 1, n, utf8);
	}
}

static void fill_figures(struct grid *g, const struct comparison *c, const struct sink_options *options)
{
	size_t column = g->heads;

	for (size_t i = 0; i < c->n_rows; i++) {
		char text[COMPARE_CELL_LEN];

		if (compare_is_nothing(c, &c->rows[i]))
			continue;
		put(g, 0, column, c->rows[i].label, options->utf8);
		for (size_t group = 0; group < c->n_groups; group++) {
			const struct compare_cell cell = comparison_cell(c, &c->rows[i], group);

			put(g, group + 1, column, compare_cell_text(&c->rows[i], &cell, options, text),
				options->utf8);
		}
		column++;
	}
}

static size_t width_of(const struct grid *g, size_t column)
{
	size_t width = 0;

	for (size_t row = 0; row < g->rows; row++) {
		const size_t cell = at(g, row, column)->len ? text_width(at(g, row, column)->data) : 0;

		width = cell > width ? cell : width;
	}
	return width;
}

/* ---- text ------------------------------------------------------------------------------------------------------------ */

/* One cell, padded to its column's width unless it is the last. */
static void put_cell(const struct grid *g, size_t row, size_t column, bool is_last, struct buf *out)
{
	const struct buf *cell = at(g, row, column);
	const char *text = cell->len ? cell->data : "";
	const size_t width = width_of(g, column), taken = text_width(text);

	(void) buf_str(out, text);
	if (!is_last)
		(void) buf_printf(out, "%*s", (int) (width - taken) + BETWEEN, "");
}

/* The names of the rows, and figures from first on to end. */
static void put_block(const struct grid *g, size_t first, size_t end, struct buf *out)
{
	for (size_t row = 0; row < g->rows; row++) {
		for (size_t column = 0; column < g->heads; column++)
			put_cell(g, row, column, false, out);
		for (size_t column = first; column < end; column++)
			put_cell(g, row, column, column + 1 == end, out);
		(void) buf_str(out, "\n");
	}
}

/* As many columns as fit, at least one; the others below, with the names repeated. */
static void put_text(const struct grid *g, size_t room, struct buf *out)
{
	size_t names = 0;

	for (size_t column = 0; column < g->heads; column++)
		names += width_of(g, column) + BETWEEN;
	for (size_t first = g->heads, end; first < g->columns; first = end) {
		size_t width = names + width_of(g, first);

		for (end = first + 1; end < g->columns && width + BETWEEN + width_of(g, end) <= room; end++)
			width += BETWEEN + width_of(g, end);
		if (first > g->heads)
			(void) buf_str(out, "\n");
		put_block(g, first, end, out);
	}
}

/* ---- Markdown -------------------------------------------------------------------------------------------------------- */

static void put_markdown(const struct grid *g, struct buf *out)
{
	for (size_t row = 0; row < g->rows; row++) {
		for (size_t column = 0; column < g->columns; column++) {
			(void) buf_str(out, column ? " | " : "| ");
			compare_markdown(at(g, row, column)->len ? at(g, row, column)->data : "", out);
		}
		(void) buf_str(out, " |\n");
		for (size_t column = 0; row == 0 && column < g->columns; column++)
			(void) buf_str(out, column ? " | ---" : "| ---");
		if (row == 0)
			(void) buf_str(out, " |\n");
	}
}

/* ---- all of it ------------------------------------------------------------------------------------------------------- */

static bool grid_make(struct grid *g, const struct comparison *c, const struct compare_heads *heads)
{
	g->rows = c->n_groups + 1;
	g->heads = (heads->n ? heads->n : 1) + 1;
	g->columns = g->heads;
	for (size_t i = 0; i < c->n_rows; i++)
		g->columns += !compare_is_nothing(c, &c->rows[i]);
	g->cells = calloc(g->rows * g->columns, sizeof(*g->cells));
	for (size_t i = 0; g->cells && i < g->rows * g->columns; i++)
		g->cells[i] = BUF_INIT(1 << 16);
	return g->cells != NULL;
}

static void grid_done(struct grid *g)
{
	for (size_t i = 0; i < g->rows * g->columns; i++)
		buf_done(&g->cells[i]);
	free(g->cells);
}

int compare_table(const struct comparison *c, const struct compare_heads *heads,
	const struct sink_options *options, bool markdown, struct buf *out)
{
	const size_t width = options->width ? options->width : 80;
	struct grid g = { 0 };

	if (!grid_make(&g, c, heads))
		return -ENOMEM;
	fill_names(&g, c, heads, options->utf8);
	fill_figures(&g, c, options);
	if (markdown)
		put_markdown(&g, out);
	else
		put_text(&g, width > LEAST_WIDTH ? width : LEAST_WIDTH, out);
	grid_done(&g);
	(void) buf_str(out, "\n");
	compare_table_notes(c, options, markdown, out);
	return out->error;
}
