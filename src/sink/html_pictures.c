/* SPDX-License-Identifier: MIT
 *
 * Charts that need no program: SVG, for browsers without JavaScript, for mail and for paper. A band from the lowest to the
 * highest value and a line of means; the page's charts take their place.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sink/html_put.h"

enum {
	WIDTH = 960,
	HEIGHT = 160,
	LEFT = 84,
	BOTTOM = 22,
	TOP = 8,
	POINTS = 480,
	LINES = 4,
	TICKS = 6,
};

enum amount {
	AMOUNT_BYTES,
	AMOUNT_CORES,
	AMOUNT_SHARE,
};

/* A chart and the columns in it; the second of a pair is added to the first. */
static const struct picture {
	const char *title, *entity;
	enum amount amount;
	struct {
		const char *label;
		enum metric metric, added; /* added: METRIC_COUNT for none */
	} lines[LINES];
} pictures[] = {
	{ "RAM of the job", "job", AMOUNT_BYTES, { { "RAM, shared pages once", M_JOB_RAM, METRIC_COUNT } } },
	{ "Processors in use by the job", "job", AMOUNT_CORES, { { "cores", M_JOB_CPU_USER, M_JOB_CPU_SYSTEM } } },
	{ "GPU memory", "gpu", AMOUNT_BYTES, { { "device", M_GPU_MEM, METRIC_COUNT }, { "job", M_GPU_JOB_MEM, METRIC_COUNT } } },
	{ "GPU at work", "gpu", AMOUNT_SHARE, { { "busy: some kernel ran", M_GPU_BUSY, METRIC_COUNT }, { "SM active", M_GPU_SM_ACTIVE, METRIC_COUNT } } },
};

struct point {
	double low, mean, high;
	unsigned n; /* of the readings that these are of */
};

struct drawing {
	struct html *h;
	uint64_t end_ns;
	double top;      /* of the scale */
	struct point points[LINES][POINTS];
	size_t n_lines;
	const char *labels[LINES];
};

/* ---- the numbers ----------------------------------------------------------------------------------------------------------- */

static void add_cell(struct point *p, const struct html_cell *cell)
{
	if (p->n == 0) {
		*p = (struct point) { cell->low, cell->mean, cell->high, 1 };
		return;
	}
	p->low = fmin(p->low, cell->low);
	p->high = fmax(p->high, cell->high);
	p->mean += (cell->mean - p->mean) / ++p->n;
}

/* How long a reading stands: three and a half times what lies between two on average, as in web/charts.js. */
static double hold_of(const struct html_table *t, const struct html_column *c)
{
	size_t n = 0, last = 0;

	for (size_t i = 0; i < t->n; i++) {
		if (c->cells[i].kind == CELL_NUMBER) {
			n++;
			last = i;
		}
	}
	return n > 1 ? 3.5 * (double) t->t[last] / (double) (n - 1) : 0;
}

static size_t next_number(const struct html_table *t, const struct html_column *c, size_t i)
{
	while (i < t->n && c->cells[i].kind != CELL_NUMBER)
		i++;
	return i;
}

/* Each reading stands until the next one, where that comes in time. */
static void reduce(const struct html_table *t, const struct html_column *c, uint64_t end_ns, struct point *points)
{
	const double scale = (double) POINTS / (double) end_ns, hold = c ? hold_of(t, c) : 0;

	for (size_t i = c ? next_number(t, c, 0) : t->n; i < t->n;) {
		const size_t next = next_number(t, c, i + 1);
		const uint64_t end = t->t[i] + t->span[i];
		const bool stands = next < t->n && t->t[next] > end && (double) (t->t[next] - end) <= hold;
		const size_t last = (size_t) ((double) (stands ? t->t[next] : end) * scale);

		for (size_t point = (size_t) ((double) t->t[i] * scale); point <= last && point < POINTS; point++)
			add_cell(&points[point], &c->cells[i]);
		i = next;
	}
}

static void take_line(struct drawing *d, const struct picture *p, size_t line, const struct html_table *t)
{
	const struct html_column *c = html_gather_column(t, p->lines[line].metric);
	struct point *points = d->points[d->n_lines], more[POINTS] = { 0 };

	if (!c)
		return;
	memset(points, 0, sizeof(d->points[0]));
	reduce(t, c, d->end_ns, points);
	if (p->lines[line].added < METRIC_COUNT)
		reduce(t, html_gather_column(t, p->lines[line].added), d->end_ns, more);
	for (size_t i = 0; i < POINTS; i++) {
		points[i].low += more[i].low;
		points[i].mean += more[i].mean;
		points[i].high += more[i].high;
		if (points[i].n > 0)
			d->top = fmax(d->top, points[i].high);
	}
	d->labels[d->n_lines++] = p->lines[line].label;
}

/* ---- the picture ----------------------------------------------------------------------------------------------------------- */

static double x_of(size_t point)
{
	return LEFT + (double) (WIDTH - LEFT) * (double) point / POINTS;
}

static double y_of(const struct drawing *d, double value)
{
	return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (d->top > 0 ? value / d->top : 0));
}

/* Tenths of a pixel: no locale's decimal point. */
static void put_point(struct html *h, double x, double y)
{
	const long tx = lround(x * 10), ty = lround(y * 10);

	html_printf(h, "%ld.%ld %ld.%ld", tx / 10, tx % 10, ty / 10, ty % 10);
}

static void put_stretch(const struct drawing *d, const struct point *points, size_t from, size_t to, size_t line)
{
	html_printf(d->h, "<path class=\"band c%zu\" d=\"", line);
	for (size_t i = from; i < to; i++) {
		html_raw(d->h, i == from ? "M" : "L");
		put_point(d->h, x_of(i), y_of(d, points[i].high));
	}
	for (size_t i = to; i-- > from;) {
		html_raw(d->h, "L");
		put_point(d->h, x_of(i), y_of(d, points[i].low));
	}
	html_printf(d->h, "Z\"/><path class=\"line c%zu\" d=\"", line);
	for (size_t i = from; i < to; i++) {
		html_raw(d->h, i == from ? "M" : "L");
		put_point(d->h, x_of(i), y_of(d, points[i].mean));
	}
	html_raw(d->h, "\"/>");
}

static void put_lines(const struct drawing *d)
{
	for (size_t line = 0; line < d->n_lines; line++) {
		const struct point *points = d->points[line];

		for (size_t i = 0; i < POINTS; i++) {
			const size_t from = i;

			while (i < POINTS && points[i].n > 0)
				i++;
			if (i > from)
				put_stretch(d, points, from, i, line);
		}
	}
}

static void put_amount(struct html *h, double value, enum amount amount)
{
	char text[UNITS_LEN];

	switch (amount) {
	case AMOUNT_BYTES:
		html_bytes(h, known((int64_t) value));
		break;
	case AMOUNT_CORES:
		html_printf(h, "%s cores", figure_number(value / 1e6, text));
		break;
	case AMOUNT_SHARE:
		html_raw(h, value > 0 ? units_percent((int64_t) value, 1000000, text) : "0 %");
		break;
	}
}

static void put_axes(const struct drawing *d, enum amount amount)
{
	for (int i = 0; i <= 2; i++) {
		const double y = y_of(d, d->top * i / 2);

		html_printf(d->h, "<path class=\"grid\" d=\"M%d %ldH%d\"/><text x=\"%d\" y=\"%ld\" text-anchor=\"end\">", LEFT, lround(y), WIDTH, LEFT - 8,
			lround(y) + 4);
		put_amount(d->h, d->top * i / 2, amount);
		html_raw(d->h, "</text>");
	}
	for (int i = 0; i <= TICKS; i++) {
		html_printf(d->h, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">", LEFT + (WIDTH - LEFT) * i / TICKS, HEIGHT - 6,
			i == 0 ? "start" : i == TICKS ? "end"
						      : "middle");
		html_duration(d->h, known((int64_t) (d->end_ns / TICKS * (uint64_t) i)));
		html_raw(d->h, "</text>");
	}
}

static void draw(struct drawing *d, const struct picture *p, const char *name)
{
	html_printf(d->h, "<figure class=\"picture\"><figcaption>%s", p->title);
	if (*name) {
		html_raw(d->h, ", ");
		html_raw(d->h, name);
	}
	for (size_t i = 0; i < d->n_lines; i++)
		html_printf(d->h, " <span class=\"key c%zu\">%s</span>", i, d->labels[i]);
	html_printf(d->h, "</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s, up to ", WIDTH, HEIGHT, p->title);
	put_amount(d->h, d->top, p->amount);
	html_raw(d->h, "\">");
	put_axes(d, p->amount);
	put_lines(d);
	html_raw(d->h, "</svg></figure>\n");
}

static void picture(struct html *h, const struct html_run *run, const struct picture *p, const struct html_table *t)
{
	struct drawing d = { .h = h, .end_ns = run->gather->now_ns ? run->gather->now_ns : 1, .top = p->amount == AMOUNT_SHARE ? 1e6 : 0 };
	char name[UNITS_LEN] = "";

	for (size_t line = 0; line < LINES && p->lines[line].label; line++)
		take_line(&d, p, line, t);
	for (size_t i = 0; i < job_gpu_count(run->summary->job); i++) {
		const struct birth *b = &job_gpu(run->summary->job, i)->birth;

		if (b->id == t->id)
			(void) figure_gpu(&b->gpu, name);
	}
	if (d.n_lines > 0)
		draw(&d, p, name);
}

static void pictures_of(struct html *h, const struct html_run *run)
{
	for (size_t i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++) {
		for (size_t k = 0; k < run->gather->n_tables; k++) {
			const struct html_table *t = &run->gather->tables[k];

			if (strcmp(t->entity, pictures[i].entity) == 0 && t->n > 1)
				picture(h, run, &pictures[i], t);
		}
	}
}

void html_pictures(struct html *h)
{
	for (size_t i = 0; i < h->n; i++)
		pictures_of(h, &h->runs[i]);
}
