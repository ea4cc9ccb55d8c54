/* SPDX-License-Identifier: MIT
 *
 * A table for a terminal. Columns are as wide as their contents. If not all fit, texts are
 * shortened (numbers never), and the least important columns are left out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum {
	TABLE_COLUMNS = 10
};

struct table_column {
	const char *head;
	bool is_left;            /* left-aligned; else right-aligned */
	unsigned leaves;         /* rank in the order in which columns are left out, from 1; 0: never */
	unsigned least;          /* its texts may be shortened to this width; 0: they may not */
};

struct table {
	const struct table_column *columns;
	size_t n_columns, n_cells;
	unsigned widths[TABLE_COLUMNS]; /* 0: left out */
	bool utf8;
	struct buf cells;        /* row by row, each NUL-terminated */
};

/* Makes a table with the heads as its first row. columns is borrowed; free with table_done. */
void table_init(struct table *t, const struct table_column *columns, size_t n_columns, bool utf8);

/* Adds the next cell: from left to right, row by row. */
void table_cell(struct table *t, const char *text);

/* Appends the lines to out, at most width wide if that is possible; width 0: no limit. Returns 0 or
 * -errno. */
int table_put(struct table *t, unsigned width, struct buf *out);

void table_done(struct table *t);

/* ---- two texts in two columns, for doctor ---------------------------------------------------- */

/* Appends left and right side by side, each wrapped: left starts at column indent, right at column
 * at and ends before width. */
void add_two_columns(
	struct buf *out, size_t indent, const char *left, size_t at, const char *right, size_t width);
