/* SPDX-License-Identifier: MIT
 *
 * Which charts a report has without a program, and what is in them.
 */
#pragma once

#include "sink/html/html_svg.h"

#define ALONE METRIC_COUNT

/* What a chart has beside its lines. */
enum picture_about {
	ABOUT_PEAK = 1 << 0,       /* of the job's RAM, with what was asked for and allowed */
	ABOUT_MACHINE = 1 << 1,    /* how much RAM it has */
	ABOUT_CORES = 1 << 2,      /* how many the job may use */
	ABOUT_GPU = 1 << 3,        /* how much memory it has */
	ABOUT_ALLOCATORS = 1 << 4, /* what frameworks say of their memory on it */
	ABOUT_CLOCKS = 1 << 5,     /* when they were held back */
};

/* The columns of a chart. */
struct picture {
	const char *title, *entity;
	enum svg_amount amount;
	bool is_loose;
	unsigned about;
	struct {
		const char *label;
		enum metric metric, added; /* the second is added to the first, or ALONE */
		bool is_dropped;           /* where it is always 0 */
		bool is_limit;             /* dashed */
	} lines[SVG_LINES];
};

extern const struct picture html_picture_table[];
extern const size_t html_picture_count;
