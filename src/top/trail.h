/* SPDX-License-Identifier: MIT
 *
 * How one figure went, for a chart: the last 20 minutes by the second, and everything by buckets that widen as it gets
 * longer. A bucket keeps the largest value, so that no peak is lost however far one zooms out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TRAIL_FINE = 1200,
	TRAIL_COARSE = 2048
};

struct bucket {
	float mean, max;
	uint32_t n;              /* looks; 0: nothing is known */
};

struct trail {
	struct bucket fine[TRAIL_FINE];     /* a ring by second */
	struct bucket coarse[TRAIL_COARSE]; /* from the start */
	uint64_t fine_last_s;    /* newest second in the ring */
	uint64_t coarse_ns;      /* width of a bucket */
	uint64_t last_ns, hold_ns;
	float last_mean;
	bool began;
};

/* A value at time_ns, since when it may stand for hold_ns. Times do not go back. */
void trail_add(struct trail *h, uint64_t time_ns, uint64_t hold_ns, double mean, double max);

/* What is known of a span of time; n is 0 where nothing is. */
struct bucket trail_span(const struct trail *h, uint64_t from_ns, uint64_t to_ns);
