/* SPDX-License-Identifier: MIT
 *
 * The last minutes of one value, for questions about a span: min, mean over time, p95, max. Times are
 * CLOCK_BOOTTIME in nanoseconds. A point is valid until the next one, or until until_ns: what lies
 * beyond is a gap, which no statistic covers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct point {
	uint64_t at_ns, until_ns;
	double value, max;       /* max: of the time that the point stands for */
};

struct ring {
	struct point *points;    /* from first on, wrapping around */
	size_t first, n, cap;
};

/* The statistics of a span. p95: the value that was not exceeded during 95 % of the covered time. */
struct spread {
	bool known;
	double min, mean, p95, max;
	double covered_s;        /* the part of the span for which there were values */
	uint64_t newest_ns;      /* time of the newest point; 0: none */
};

/* Adds a point, and drops those that ended before since_ns. Points that are not later than the last
 * one are ignored. Without memory, the point is dropped. */
void ring_add(struct ring *r, const struct point *p, uint64_t since_ns);
void ring_done(struct ring *r);

struct spread ring_spread(const struct ring *r, uint64_t from_ns, uint64_t now_ns);
