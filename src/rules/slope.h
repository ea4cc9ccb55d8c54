/* SPDX-License-Identifier: MIT
 *
 * How fast something rises over the last while, in a way that neither a peak nor a dip decides: the time is divided
 * into SLOPE_PARTS equal parts, each keeps its smallest value (the valleys: what is given back between two steps is no
 * growth), and the median of the slopes between all pairs of parts is taken (Theil and Sen), of all of it and of the
 * later half: the gentler one counts, because what has warmed up does not grow any more. All zero but for part_ns is an
 * empty one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	SLOPE_PARTS = 32,
	SLOPE_LEAST = 16 /* parts that must have passed before anything is said */
};

struct slope {
	uint64_t part_ns;
	uint64_t first, last;           /* numbers of parts since the run's start; the last one is still filled */
	bool has[SLOPE_PARTS], begun;
	double least[SLOPE_PARTS];
	bool known;
	double per_s;                   /* over the parts that are full */
};

/* Adds a value; times do not go back. */
void slope_take(struct slope *s, uint64_t time_ns, double value);
