/* SPDX-License-Identifier: MIT
 *
 * Robust growth rate over a sliding time span, insensitive to single peaks and dips. The span is
 * divided into SLOPE_PARTS equal parts. Each keeps its smallest value, as memory that is released
 * between two steps is no growth. The rate is the Theil-Sen estimate (the median of the slopes
 * between all pairs of parts) of the whole span or of its later half, whichever is smaller, so that
 * a warm-up does not count. Initialize a struct slope to zero and set part_ns.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	SLOPE_PARTS = 32,
	SLOPE_LEAST = 16 /* parts that must have passed before the rate is known */
};

struct slope {
	uint64_t part_ns;
	uint64_t first, last;           /* numbers of parts since the run's start; last is being filled */
	bool has[SLOPE_PARTS], begun;
	double least[SLOPE_PARTS];
	bool known;
	double per_s;                   /* growth per second, over full parts */
};

/* Adds a value; times do not go back. */
void slope_add(struct slope *s, uint64_t time_ns, double value);
