/* SPDX-License-Identifier: MIT
 *
 * Charts: each column is filled up to its mean, with a dot at its largest value, so that bursts
 * stay visible when zoomed out. Unknown values are blank; a known zero is a line at the bottom.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"
#include "top/draw.h"
#include "top/format.h"

enum {
	LABEL = 12,       /* columns of names and scales */
	NAME = 4,         /* of a name next to the scale */
	CHARTS_MOST = 24,
	LOW = 6,          /* maximum lines of a chart */
	HIGH = 12,        /* likewise, where the panel is enlarged */
};

enum scale {
	SCALE_BYTES,
	SCALE_CORES,
	SCALE_SHARE,      /* ppm; the scale always ends at 1 */
	SCALE_NUMBER
};

struct chart {
	char name[24];
	const struct history_ring *history;
	enum scale scale;
	enum ink ink;
};

/* ---- choice of charts --------------------------------------------------------------------------------------------- */

struct charts {
	struct chart list[CHARTS_MOST];
	size_t n;
};

static void add(
	struct charts *c, const char *name, const struct history_ring *h, enum scale scale, enum ink ink)
{
	struct chart *chart;

	if (c->n == CHARTS_MOST || !h || !h->began)
		return;
	chart = &c->list[c->n++];
	*chart = (struct chart) { .history = h, .scale = scale, .ink = ink };
	(void) snprintf(chart->name, sizeof(chart->name), "%.20s", name);
}

/* The most important first: those that do not fit are left out. */
static struct charts choose(const struct picture *p)
{
	const struct model *m = p->m;
	struct charts c = { .n = 0 };
	unsigned gpus = 0;
	char name[GPU_NAME];

	add(&c, "RAM", &m->ram, SCALE_BYTES, INK_RAM);
	for (size_t i = 0; i < m->n_gpus; i++) {
		const char *what = m->gpus[i]->has_sm ? "SM" : "busy";

		model_gpu_name(m, i, what, what, name);
		if (model_uses(m, m->gpus[i]) && gpus++ < 2)
			add(&c, name, m->gpus[i]->busy, SCALE_SHARE, INK_GPU);
	}
	add(&c, "CPU", &m->cpu, SCALE_CORES, INK_CPU);
	for (size_t i = 0; i < m->n_gpus; i++) {
		model_gpu_name(m, i, "GPU", "MIG", name);
		if (model_uses(m, m->gpus[i]) && gpus++ < 4)
			add(&c, name, m->gpus[i]->mem, SCALE_BYTES, INK_GPU);
	}
	for (size_t i = 0; i < m->n_series; i++)
		add(&c, m->series[i]->name, &m->series[i]->history, SCALE_NUMBER, INK_SERIES);
	return c;
}

/* ---- one chart ----------------------------------------------------------------------------------------------------- */

struct plot {
	double low, high;
	uint64_t from_ns, to_ns;
	int columns, rows, parts, levels; /* parts, levels: values and heights per character */
};

static struct bucket value_at(const struct chart *c, const struct plot *plot, int i)
{
	const uint64_t span = plot->to_ns - plot->from_ns;
	const uint64_t n = (uint64_t) (plot->columns * plot->parts);
	const uint64_t from = plot->from_ns + span / n * (uint64_t) i,
		       to = plot->from_ns + span / n * (uint64_t) (i + 1);

	return history_span(c->history, from, to);
}

static void find_scale(const struct chart *c, struct plot *plot)
{
	double least = (double) INFINITY, most = 0;

	for (int i = 0; i < plot->columns * plot->parts; i++) {
		const struct bucket b = value_at(c, plot, i);

		if (b.n == 0)
			continue;
		most = fmax(most, (double) b.max);
		least = fmin(least, (double) b.mean);
	}
	plot->low = c->scale == SCALE_NUMBER && isfinite(least) ? fmin(least, most) : 0;
	plot->high = c->scale == SCALE_SHARE ? 1e6 : most;
	if (plot->high <= plot->low)
		plot->high = plot->low + 1;
}

/* Number of levels of the chart that a value reaches; a known zero reaches one. */
static int level_of(const struct plot *plot, double value)
{
	const int all = plot->rows * plot->levels;
	const int level = (int) ceil((value - plot->low) / (plot->high - plot->low) * all - 1e-9);

	return level < 1 ? 1 : level > all ? all
					   : level;
}

/* Braille: dots of the left and the right column from the bottom up (Unicode 15, U+2800). */
static void braille(const struct chart *c, const struct plot *plot, int column, int row, char buf[8])
{
	static const unsigned char dots[2][4] = { { 0x40, 0x04, 0x02, 0x01 }, { 0x80, 0x20, 0x10, 0x08 } };
	const int base = (plot->rows - 1 - row) * plot->levels;
	unsigned pattern = 0;

	for (int part = 0; part < 2; part++) {
		const struct bucket b = value_at(c, plot, column * 2 + part);
		const int mean = b.n ? level_of(plot, (double) b.mean) : 0,
			  max = b.n ? level_of(plot, (double) b.max) : 0;

		for (int i = 0; i < 4; i++) {
			if (base + i < mean || base + i == max - 1)
				pattern |= dots[part][i];
		}
	}
	(void) snprintf(buf, 8, "%c%c%c", 0xe2, 0xa0 | (int) (pattern >> 6), 0x80 | (int) (pattern & 0x3f));
	if (pattern == 0)
		(void) snprintf(buf, 8, " ");
}

static void ascii(const struct chart *c, const struct plot *plot, int column, int row, char buf[8])
{
	static const char fill[] = " .:|";
	const int base = (plot->rows - 1 - row) * plot->levels;
	const struct bucket b = value_at(c, plot, column);
	const int mean = b.n ? level_of(plot, (double) b.mean) - base : 0,
		  max = b.n ? level_of(plot, (double) b.max) - base : 0;
	char mark = fill[mean < 0 ? 0 : mean > 3 ? 3
						 : mean];

	if (mean <= 0 && max >= 1 && max <= 3)
		mark = max == 3 ? '\'' : max == 2 ? '-'
						  : '_';
	buf[0] = mark;
	buf[1] = '\0';
}

static void scale_text(const struct picture *p, const struct chart *c, double value, char buf[SHORT_LEN])
{
	switch (c->scale) {
	case SCALE_BYTES:
		(void) short_bytes(value, p->v->units, buf);
		return;
	case SCALE_SHARE:
		(void) snprintf(buf, SHORT_LEN, "%.0f%%", value / 1e4);
		return;
	case SCALE_CORES:
		(void) short_number(value, buf);
		return;
	case SCALE_NUMBER:
		break;
	}
	(void) snprintf(buf, SHORT_LEN, "%.3g", value);
}

static void draw_chart(struct picture *p, const struct chart *c, int y, int height, int x, int width)
{
	struct plot plot = {
		.from_ns = p->chart_from_ns, .to_ns = p->chart_to_ns, .columns = width - LABEL, .rows = height
	};
	char text[SHORT_LEN], cell[8];

	plot.parts = p->s->utf8 ? 2 : 1;
	plot.levels = p->s->utf8 ? 4 : 3;
	find_scale(c, &plot);
	if (text_width(c->name) > NAME && height > 2) /* there is room between the ends of the scale */
		(void) screen_put_front(p->s, y + 1, x + 1, LABEL - 3, INK_BOLD, c->name);
	else
		(void) screen_put_front(p->s, y, x + 1, NAME, INK_BOLD, c->name);
	scale_text(p, c, plot.high, text);
	(void) screen_print(p->s, y, x + LABEL - 7, INK_DIM, "%6s", text);
	scale_text(p, c, plot.low, text);
	if (height > 1)
		(void) screen_print(p->s, y + height - 1, x + LABEL - 7, INK_DIM, "%6s", text);
	for (int row = 0; row < height; row++) {
		(void) screen_put(
			p->s, y + row, x + LABEL - 1, 1, INK_DIM, p->s->utf8 ? "\xe2\x94\x82" : "|");
		for (int column = 0; column < plot.columns; column++) {
			(p->s->utf8 ? braille : ascii)(c, &plot, column, row, cell);
			(void) screen_put(p->s, y + row, x + LABEL + column, 1, c->ink, cell);
		}
	}
}

/* ---- all charts ---------------------------------------------------------------------------------------------------- */

static void set_span(struct picture *p)
{
	const uint64_t second = 1000000000, now = (p->m->now_ns / second + 1) * second,
		       span = view_span(p->v);

	p->chart_to_ns = p->v->to_ns ? p->v->to_ns : now;
	p->chart_from_ns = p->v->to_ns ? p->v->from_ns : span && now > span ? now - span
									    : 0;
	if (p->chart_to_ns <= p->chart_from_ns + 1000000)
		p->chart_to_ns = p->chart_from_ns + 1000000;
}

static void draw_title(struct picture *p, int y, int x, int width)
{
	char title[80], span[SHORT_LEN], to[SHORT_LEN];

	const char *mark = p->v->panel == PANEL_CHARTS ? "> " : "";

	if (p->v->to_ns)
		(void) snprintf(title, sizeof(title), "%s%s to %s, [ ] back", mark,
			short_time(p->chart_from_ns, span), short_time(p->chart_to_ns, to));
	else if (view_span(p->v) && p->m->now_ns > view_span(p->v))
		(void) snprintf(
			title, sizeof(title), "%slast %s, zoom [ ]", mark, short_span(view_span(p->v), span));
	else
		(void) snprintf(title, sizeof(title), "%ssince the start (%s), zoom [ ]", mark,
			short_span(p->m->now_ns, span));
	if (width < 60) /* too narrow for the keys */
		title[strcspn(title, ",")] = '\0';
	draw_rule(p, y, x, width, title);
}

int draw_charts(struct picture *p, int y, int height, int x, int width)
{
	const struct charts c = choose(p);
	const int room = height - 1, most = p->v->expanded ? HIGH : LOW;
	size_t shown = (size_t) (room < 6 ? 1 : room / 3);
	int at = y + 1, each;

	p->n_charts = c.n;
	if (room < 2 || c.n == 0 || width < LABEL + 8)
		return 0;
	if (shown > c.n)
		shown = c.n;
	p->charts_page = shown;
	if (p->v->charts_first + shown > c.n)
		p->v->charts_first = c.n - shown;
	each = room / (int) shown > most ? most : room / (int) shown;
	set_span(p);
	draw_title(p, y, x, width);
	for (size_t i = 0; i < shown; i++, at += each)
		draw_chart(p, &c.list[p->v->charts_first + i], at, each, x, width);
	p->chart_y = y + 1;
	p->chart_end = at;
	p->chart_x = x + LABEL;
	p->chart_columns = width - LABEL;
	return at - y;
}
