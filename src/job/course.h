/* SPDX-License-Identifier: MIT
 *
 * The course of a metric over the run, for whoever must know how it went and not only how far: equal buckets of time
 * from the run's start, at most COURSE_BUCKETS. When they are full, neighbours become one and every bucket is twice as
 * wide; what buckets say of a longer time is what they said of its parts. Made as frames are applied, stored like an
 * accumulator and put back by replay, so that a run says the same live, afterwards, cut off or thinned.
 *
 * A gauge's bucket has its extremes and its integral; a counter's the same of the rate between two looks, so that a
 * counter's sum is what it rose by. course.c lists the metrics that are followed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/metric.h"

enum {
	COURSE_BUCKETS = 128
};

struct course_bucket {
	bool known;          /* something was read, or stood, in it */
	uint64_t cover_ns;   /* time of it that sum stands for; less than the whole at the run's ends and around gaps */
	int64_t min, max;    /* gauge: in its unit; counter: its rate in units a second (processor time: 1e9 is a core) */
	double sum;          /* gauge: value x ns; counter: what it rose by */
	uint64_t seq;        /* of the job's frame that changed it last */
};

struct course {
	enum metric metric;
	uint32_t id;
	struct course_bucket buckets[COURSE_BUCKETS];
};

/* Gauge: its mean; counter: its rate in units a ns (processor time: cores). 0 where nothing is covered. */
double course_mean(const struct course_bucket *bucket);

/* The bucket b and the one behind it as one. */
struct course_bucket course_merged(const struct course_bucket *b, const struct course_bucket *next);
