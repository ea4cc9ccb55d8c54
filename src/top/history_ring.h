/* SPDX-License-Identifier: MIT
 *
 * The history of one figure, for a chart: the last 20 minutes by the second, and the whole time in
 * buckets that widen as it grows. A bucket keeps its largest value, so that no peak is lost when
 * zooming out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HISTORY_FINE = 1200,
	HISTORY_COARSE = 2048
};

struct bucket {
	float mean, max;
	uint32_t n;              /* number of samples; 0: unknown */
};

struct history_ring {
	struct bucket fine[HISTORY_FINE];     /* a ring, one per second */
	struct bucket coarse[HISTORY_COARSE]; /* since the start */
	uint64_t fine_last_s;    /* newest second in the ring */
	uint64_t coarse_ns;      /* width of a bucket */
	uint64_t last_ns, hold_ns;
	float last_mean;
	bool began;
};

/* Adds a value at time_ns, valid for hold_ns. Times do not go back. */
void history_add(struct history_ring *h, uint64_t time_ns, uint64_t hold_ns, double mean, double max);

/* Mean and largest value of a time span; n is 0 if unknown. */
struct bucket history_span(const struct history_ring *h, uint64_t from_ns, uint64_t to_ns);
