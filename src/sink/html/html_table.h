/* SPDX-License-Identifier: MIT
 *
 * What a report draws of one entity: rows in the order of time, columns of numbers, folded where they get too many. A cell
 * has the lowest, the mean and the highest value of its row, so a burst outlives any folding.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/metric.h"

enum html_kind {
	CELL_NONE,    /* nothing was read in that row */
	CELL_NAN,
	CELL_PLUS_INF,
	CELL_MINUS_INF,
	CELL_NUMBER,
};

struct html_cell {
	double low, mean, high;
	enum html_kind kind;
};

struct html_column {
	const char *name;     /* borrowed: of metric.def, or a series' */
	const char *unit;     /* "bytes"; of a rate, what it counts a second; "" of a series */
	bool is_rate, is_whole; /* is_whole: its values are integers */
	bool is_step;         /* of a series: the step that was given with each value; never rounded, told without a band */
	uint32_t process;     /* whose it is, in the table of processes; 0: others */
	unsigned weight;      /* streams that it is likely to become: one for each of low, mean, high */
	struct html_cell *cells;
	bool has_last;        /* of a counter: where it stood, when */
	double last;
	uint64_t last_ns, period_ns; /* period_ns: between its last two rates */
};

struct html_table {
	const char *entity;   /* "job", "gpu", "processes", "series" */
	uint32_t id;
	bool is_points;       /* rows are instants: no gap lies between them */
	uint64_t *t, *span;   /* ns since the run's start; how long the row stands */
	size_t n, cap;
	struct html_column *columns;
	size_t n_columns, cap_columns;
	uint64_t fold_ns;     /* rows are this long at least, where they could be folded */
	int16_t place[METRIC_COUNT]; /* of a metric's column; -1: it has none */
};

void html_table_init(struct html_table *t, const char *entity, uint32_t id);
void html_table_done(struct html_table *t);

/* The row at time_ns, which is the last one or a new one behind it. Returns its number, or -errno. */
int64_t html_table_row(struct html_table *t, uint64_t time_ns);
/* A new column; NULL: out of memory. Valid until the next. */
struct html_column *html_table_column(struct html_table *t);

/* How much of a page it takes. */
size_t html_table_weight(const struct html_table *t);
/* Makes neighbours one row where no gap lies between them. False: nothing is left to fold. */
bool html_table_fold(struct html_table *t);
