/* SPDX-License-Identifier: MIT
 *
 * Draws a model on the screen. Each part gets a number of lines and returns how many it used;
 * draw.c has the layout.
 */
#pragma once

#include "top/feed.h"
#include "top/model.h"
#include "top/screen.h"
#include "top/view.h"

/* Everything that is needed for drawing, and the layout of the last drawing. */
struct picture {
	struct screen *s;
	struct view *v;
	struct model *m;
	const struct feed *f;
	int name_columns;        /* width of the names of meters */
	/* positions, for the mouse */
	int table_y, table_columns; /* line of column titles; width of the table */
	int chart_y, chart_end, chart_x, chart_columns;
	uint64_t chart_from_ns, chart_to_ns;
	/* for keys: number of charts and events in all, and of those that fit */
	size_t n_charts, charts_page, n_events, events_page;
	size_t help_rest, help_page; /* lines of help below the screen; lines that fit */
};

/* Draws the whole screen. */
void draw(struct picture *p);

/* draw_head.c: totals of the machine or the job, in at most lines lines. */
int draw_head(struct picture *p, int y, int lines);
/* draw_chart.c: charts over time, height lines in all, between columns x and x + width. */
int draw_charts(struct picture *p, int y, int height, int x, int width);
/* draw_table.c: events, the newest last; the process table; details of a process. */
int draw_events(struct picture *p, int y, int lines, int width);
void draw_table(struct picture *p, int y, int lines, int width);
int draw_detail(struct picture *p, int y, int lines, int width);
/* First column on the screen of a table column. *ret_width 0: it is not shown. */
int table_column(const struct picture *p, enum column column, int *ret_width);
/* draw_help.c: the help page. */
void draw_help(struct picture *p);
/* Draws cleaned text over as many lines as it needs, the last at bottom. Returns their number. */
int draw_wrapped(struct screen *s, int bottom, enum ink ink, const char *text);
/* keys.c: keys and their descriptions: pairs of texts, NULL-terminated. */
const char *const *key_texts(void);

/* Draws a horizontal line with a title. */
void draw_rule(struct picture *p, int y, int x, int width, const char *title);
