/* SPDX-License-Identifier: MIT
 *
 * The numbers that a report draws of one entity: rows in the order of time, columns of numbers. A
 * table that becomes too large is merged: neighbouring rows become one. A cell has the lowest, the
 * mean and the highest value of its row, so bursts survive merging.
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
	const char *name;     /* borrowed: of a metric or a series */
	const char *unit;     /* "bytes"; of a rate, the amount a second; "" of a series */
	bool is_rate, is_whole; /* is_whole: its values are integers */
	bool is_step;         /* the steps of a series' values: never rounded, no band */
	uint32_t process;     /* id, in the table of processes; 0: all others */
	unsigned weight;      /* expected streams: 1 (means), or 3 with lows and highs */
	struct html_cell *cells;
	bool has_last;        /* of a counter: last is set */
	double last;
	uint64_t last_ns, period_ns; /* period_ns: between its last two rates */
};

struct html_table {
	const char *entity;   /* "job", "gpu", "processes", "series" */
	uint32_t id;
	bool is_points;       /* rows are instants, without gaps */
	uint64_t *t, *span;   /* ns since the run's start; how long the row is valid */
	size_t n, cap;
	struct html_column *columns;
	size_t n_columns, cap_columns;
	uint64_t row_ns;      /* length that rows were merged to; 0: not merged */
	int16_t place[METRIC_COUNT]; /* index of a metric's column; -1: none */
};

void html_table_init(struct html_table *t, const char *entity, uint32_t id);
void html_table_done(struct html_table *t);

/* The row at time_ns: the last one, or a new one behind it. Returns its index, or -errno. */
int64_t html_table_row(struct html_table *t, uint64_t time_ns);
/* A new column, valid until the next one is made. NULL: out of memory. */
struct html_column *html_table_column(struct html_table *t);

/* Numbers that the table adds to a page, about. */
size_t html_table_weight(const struct html_table *t);
/* Merges neighbouring rows without a gap between them. False: nothing is left to merge. */
bool html_table_merge(struct html_table *t);
