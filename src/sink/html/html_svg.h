/* SPDX-License-Identifier: MIT
 *
 * The static chart renderer: SVG without a program, for browsers without JavaScript, mail, paper,
 * notebooks and `hiwater export --to svg`. A chart has lines of means in bands from the lowest to
 * the highest value, with phases and events behind them. Colours are attributes, so that the chart
 * survives mail programs that drop styles; a style sheet (web/report.css, a notebook's) overrides
 * them.
 */
#pragma once

#include "sink/html/html_put.h"

enum {
	SVG_WIDTH = 960,
	SVG_HEIGHT = 180,
	SVG_TOP = 6,
	SVG_BOTTOM = 22,
	SVG_RIGHT = 8,
	SVG_FINE = 10, /* paths are in tenths of a pixel: integers are short and independent of the locale */
	SVG_LEFT = 84,        /* edge of the plot */
	SVG_POINTS = 400,     /* of a line, at most */
	SVG_LINES = 6,        /* of a report's chart, at most */
	SVG_LINES_MOST = 10,  /* of a figure's chart, which may have a line a GPU */
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
	double at_ns;         /* mean time of its values */
	unsigned n;           /* number of values; 0: nothing was read */
	const char *special;  /* "NaN", "Infinity": the line breaks here; NULL: none */
};

struct svg_line {
	const char *label;    /* borrowed; any text */
	bool is_dashed;       /* a limit, or the second figure of a device */
	unsigned color;       /* of svg_colors */
	bool is_instants;     /* joins points across gaps; else each is valid for its stretch of the run */
	struct svg_point points[SVG_POINTS];
};

struct svg_reference {
	const char *label;
	double value;
};

/* A shaded stretch of time behind the lines. */
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

/* The plot's edges, in pixels. */
struct svg_box {
	double left, right, top, bottom;
};

/* The box of charts in a report. */
extern const struct svg_box svg_report_box;

struct svg_chart {
	struct svg_box box;
	const char *title, *of;   /* any text; of: "" or the device: "GPU 0" */
	size_t run;               /* of several */
	enum svg_amount amount;
	bool is_loose;            /* the scale need not begin at 0 */
	uint64_t end_ns;
	struct svg_line lines[SVG_LINES_MOST];
	size_t n_lines;
	struct svg_reference references[SVG_REFERENCES];
	size_t n_references;
	struct maybe flag_ns;     /* time of the flag at the peak */
	double flag;
	const char *flag_words;   /* borrowed; any text */
	const struct svg_stretch *stretches;
	size_t n_stretches;
	const struct svg_moment *moments;
	size_t n_moments;
	const char *note;         /* below it; NULL: none */
};

/* Writes a chart as a figure of a report. */
void svg_chart(struct html *h, const struct svg_chart *c);
/* A picture of a whole run: CPUs, RAM, GPUs and user series, one below the other on one time axis. */
struct svg_figure {
	bool has_job, has_gpus, has_series;
	const char *label;         /* for screen readers */
	const char *const *series; /* to draw; n_series 0: the first ones */
	size_t n_series;
	unsigned width, height;    /* pixels: of the picture, of each chart; 0: default */
};

/* The metrics that it draws. */
extern const bool svg_figure_drawn[METRIC_COUNT];

/* Writes the svg element of h's only run into h->out; errors stay there. */
void svg_figure(struct html *h, const struct svg_figure *what);
/* Writes phases and events of a run, if it has any (html_timeline.c). */
void svg_timeline(struct html *h, size_t run);

/* ---- parts of a chart, for figures ---- */
struct svg_scale {
	const struct svg_chart *c;
	double bottom, top;
};

/* Writes the contents of the box with the axis of values, within an svg element. */
void svg_plot(struct html *h, const struct svg_scale *s);
struct svg_scale svg_scale(const struct svg_chart *c);
bool svg_is_shown(const struct svg_scale *s, double value);
double svg_x(const struct svg_box *box, uint64_t end_ns, double at_ns); /* pixels, as the next */
double svg_y(const struct svg_scale *s, double value);
void svg_grid(struct html *h, const struct svg_scale *s);
/* the time axis, its labels at y */
void svg_times(struct html *h, const struct svg_box *box, uint64_t end_ns, int y);
void svg_pixels(struct html *h, double value);          /* "12.5", in any locale */
void svg_amount(struct html *h, double value, enum svg_amount amount);
void svg_text(struct html *h, double x, double y,
	const char *anchor); /* opens a text element; anchor: "start", "middle", "end" */
/* Opens figure and figcaption. of: "" or the device. */
void svg_caption(struct html *h, size_t run, const char *title, const char *of);
extern const char *const svg_colors[SVG_COLORS];
