/* SPDX-License-Identifier: MIT
 *
 * A table for a terminal: columns are as wide as what stands in them. Where there is no room for all, those that matter least
 * are left out; texts are shortened, numbers never.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum {
	TABLE_COLUMNS = 8
};

struct table_column {
	const char *head;
	bool is_left;            /* where its texts stand */
	unsigned leaves;         /* in which order it is left out; 0: it stays */
	unsigned least;          /* a text that may be shortened to so many columns; 0: it may not */
};

struct table {
	const struct table_column *columns;
	size_t n_columns, n_cells;
	unsigned widths[TABLE_COLUMNS]; /* 0: left out */
	bool utf8;
	struct buf cells;        /* row by row, a NUL behind each */
};

/* With the heads as its first row. Ended by table_done. */
void table_init(struct table *t, const struct table_column *columns, size_t n_columns, bool utf8);

/* The next cell: from left to right, row by row. */
void table_cell(struct table *t, const char *text);

/* Appends the lines, none wider than width where that can be; 0: as wide as they are. Returns 0 or -errno. */
int table_put(struct table *t, unsigned width, struct buf *out);

void table_done(struct table *t);

/* ---- two texts in two columns, for doctor -------------------------------------------------------------------------- */

/* left and right beside each other, each broken into lines of width: left from column indent on, right from column at on. */
void beside_add(struct buf *out, size_t indent, const char *left, size_t at, const char *right, size_t width);
