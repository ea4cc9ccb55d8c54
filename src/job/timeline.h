/* SPDX-License-Identifier: MIT
 *
 * The timeline of a metric over the run, for findings that depend on its development and not only
 * on its extremes: equal buckets of time from the run's start, at most TIMELINE_BUCKETS. When all are
 * used, pairs are merged and every bucket becomes twice as wide; a merged bucket is exact.
 * Timelines are updated as frames are applied, stored like accumulators, and restored by replay, so
 * that live runs and finished, cut-off or thinned recordings have the same.
 *
 * A bucket of a gauge has its extremes and its integral. A bucket of a counter has those of its
 * rate between two samples, so that its sum is the counter's increase. timeline.c lists the metrics
 * that have timelines.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/metric.h"

enum {
	TIMELINE_BUCKETS = 128
};

struct timeline_bucket {
	bool known;          /* the value was known at some time in it */
	uint64_t cover_ns;   /* time covered by sum; less than the whole at the run's ends and around gaps */
	/* gauge: in its unit; counter: rate in units per second (CPU time: 1e9 is a core) */
	int64_t min, max;
	double sum;          /* gauge: value x ns; counter: increase */
	uint64_t seq;        /* the job's frame that changed it last */
};

struct timeline {
	enum metric metric;
	uint32_t id;
	struct timeline_bucket buckets[TIMELINE_BUCKETS];
};

/* Gauge: its mean; counter: its rate in units per ns (CPU time: cores). 0 if nothing is covered. */
double timeline_mean(const struct timeline_bucket *bucket);

/* The bucket b and the next one merged. */
struct timeline_bucket timeline_merged(const struct timeline_bucket *b, const struct timeline_bucket *next);
