/* SPDX-License-Identifier: MIT
 *
 * Which charts a report has without a program, and what is in them.
 */
#pragma once

#include "sink/html_svg.h"

#define ALONE METRIC_COUNT

/* The columns of a chart. */
struct picture {
	const char *title, *entity;
	enum svg_amount amount;
	bool is_loose;
	struct {
		const char *label;
		enum metric metric, added; /* the second is added to the first, or ALONE */
		bool is_dropped;           /* where it is always 0 */
	} lines[SVG_LINES];
};

extern const struct picture html_picture_table[];
extern const size_t html_picture_count;
