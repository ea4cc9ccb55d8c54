/* SPDX-License-Identifier: MIT
 *
 * The one static chart: SVG that needs no program, for browsers without JavaScript, for mail, for paper, for notebooks and
 * `hiwater export --to svg`. Bands from the lowest to the highest value, lines of means, what happened behind them. Colours are
 * attributes, which a style (web/report.css, a notebook's) overrides, so that it is still a chart where a mail program drops
 * that.
 */
#pragma once

#include "sink/html/html_put.h"

enum {
	SVG_WIDTH = 960,
	SVG_HEIGHT = 180,
	SVG_TOP = 6,
	SVG_BOTTOM = 22,
	SVG_RIGHT = 8,
	SVG_FINE = 10, /* paths are in tenths of a pixel: integers are short, and the same in each locale */
	SVG_LEFT = 84,        /* of the plot */
	SVG_POINTS = 400,     /* a line has at most */
	SVG_LINES = 6,        /* of a report's chart; */
	SVG_LINES_MOST = 10,  /* of one with a line a GPU */
	SVG_REFERENCES = 3,
	SVG_COLORS = 6,
};

enum svg_amount {
	AMOUNT_BYTES,
	AMOUNT_RATE,          /* bytes each second */
	AMOUNT_CORES,         /* millionths, as the others */
	AMOUNT_SHARE,
	AMOUNT_WATTS,         /* microwatts */
	AMOUNT_CELSIUS,       /* thousandths */
	AMOUNT_PLAIN,
};

struct svg_point {
	double low, mean, high;
	double at_ns;         /* mean of the times of what it is made of */
	unsigned n;           /* of those; 0: nothing was read */
	const char *special;  /* "NaN": a value that is no number, where a line breaks; NULL: there is none */
};

struct svg_line {
	const char *label;    /* borrowed; any text */
	bool is_dashed;       /* a limit, or the second figure of a device */
	unsigned color;       /* of svg_colors */
	bool is_instants;     /* points are joined whatever lies between them; else each stands for its stretch of the run */
	struct svg_point points[SVG_POINTS];
};

struct svg_reference {
	const char *label;
	double value;
};

/* A stretch of time behind the lines. */
struct svg_stretch {
	uint64_t from_ns, to_ns;
	const char *kind;     /* "phase", "gap", "held" */
	const char *words;
};

struct svg_moment {
	uint64_t at_ns;
	bool is_alert;
	const char *words;    /* borrowed; any text */
};

/* Where its lines are, in pixels. */
struct svg_box {
	double left, right, top, bottom;
};

/* In a report. */
extern const struct svg_box svg_report_box;

struct svg_chart {
	struct svg_box box;
	const char *title, *of;   /* any text; of: "", or whose: "GPU 0" */
	size_t run;               /* of several */
	enum svg_amount amount;
	bool is_loose;            /* the scale need not begin at 0 */
	uint64_t end_ns;
	struct svg_line lines[SVG_LINES_MOST];
	size_t n_lines;
	struct svg_reference references[SVG_REFERENCES];
	size_t n_references;
	struct maybe flag_ns;     /* where the peak is marked */
	double flag;
	const char *flag_words;   /* borrowed; any text */
	const struct svg_stretch *stretches;
	size_t n_stretches;
	const struct svg_moment *moments;
	size_t n_moments;
	const char *note;         /* below it; NULL: none */
};

/* A figure of a report. */
void svg_chart(struct html *h, const struct svg_chart *c);
/* All of a run at a glance as a picture of its own: CPUs, RAM, GPUs and what it logged, one below the other over the same time. */
struct svg_figure {
	bool has_job, has_gpus, has_series;
	const char *label;         /* what a screen reader says */
	const char *const *series; /* which; n_series 0: the first that were logged */
	size_t n_series;
	unsigned width, height;    /* pixels: of all, of each chart; 0: as usual */
};

/* What it draws of readings. */
extern const bool svg_figure_drawn[METRIC_COUNT];

/* Writes the svg element of h's only run into h->out; errors stay there. */
void svg_figure(struct html *h, const struct svg_figure *what);
/* Phases and events of a run, where it has any (html_timeline.c). */
void svg_timeline(struct html *h, size_t run);

/* What it has for others. */
struct svg_scale {
	const struct svg_chart *c;
	double bottom, top;
};

/* What is in its box, with the axis of values, within an svg element. */
void svg_plot(struct html *h, const struct svg_scale *s);
struct svg_scale svg_scale(const struct svg_chart *c);
bool svg_is_shown(const struct svg_scale *s, double value);
double svg_x(const struct svg_box *box, uint64_t end_ns, double at_ns); /* pixels, as the next */
double svg_y(const struct svg_scale *s, double value);
void svg_grid(struct html *h, const struct svg_scale *s);
void svg_times(struct html *h, const struct svg_box *box, uint64_t end_ns, int y); /* the time axis, its words standing at y */
void svg_pixels(struct html *h, double value);          /* "12.5", in any locale */
void svg_amount(struct html *h, double value, enum svg_amount amount);
void svg_text(struct html *h, double x, double y, const char *anchor); /* opens it; anchor: "start", "middle", "end" */
/* Opens figure and figcaption. of: "", or whose it is. */
void svg_caption(struct html *h, size_t run, const char *title, const char *of);
extern const char *const svg_colors[SVG_COLORS];
