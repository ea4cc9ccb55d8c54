/* SPDX-License-Identifier: MIT
 *
 * Pictures of a model: each part takes the lines it is given and returns how many it used. draw.c says what goes where.
 */
#pragma once

#include "top/feed.h"
#include "top/model.h"
#include "top/screen.h"
#include "top/view.h"

struct picture {
	struct screen *s;
	struct view *v;
	struct model *m;
	const struct feed *f;
	int name_columns;        /* of the meters of the head */
	/* where things ended up, for the mouse */
	int table_y, table_columns; /* the line of heads; how wide the table is */
	int chart_y, chart_end, chart_x, chart_columns;
	uint64_t chart_from_ns, chart_to_ns;
	/* what there is, for keys: charts and events in all, of which so many fit */
	size_t n_charts, charts_page, n_events, events_page;
	size_t help_rest, help_page; /* lines below the help page's end; lines of it */
};

/* All of it. */
void draw(struct picture *p);

/* draw_head.c: the machine or the job at a glance, in at most lines lines. */
int draw_head(struct picture *p, int y, int lines);
/* draw_chart.c: how it went, height lines in all, between columns x and x + width. */
int draw_charts(struct picture *p, int y, int height, int x, int width);
/* draw_table.c: what happened, the newest last; the processes; one of them in full. */
int draw_events(struct picture *p, int y, int lines, int width);
void draw_table(struct picture *p, int y, int lines, int width);
int draw_detail(struct picture *p, int y, int lines, int width);
/* Where a column of the table begins; its width, 0: it is not shown. */
int table_column(const struct picture *p, enum column column, int *ret_width);
/* draw_help.c: keys. */
void draw_help(struct picture *p);
/* Cleaned text over as many lines as it needs, the last of them at bottom. Returns how many they are. */
int draw_wrapped(struct screen *s, int bottom, enum ink ink, const char *text);
/* keys.c: what keys are called and do: rows of two texts, NULL behind the last. */
const char *const *key_texts(void);

/* A line across with a title in it. */
void draw_rule(struct picture *p, int y, int x, int width, const char *title);
