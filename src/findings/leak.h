/* SPDX-License-Identifier: MIT
 *
 * Does a level only ever grow? Tells a leak from a warm-up, a cache that fills, a sawtooth, a step and bumps: what is
 * looked at is the valleys, since what a job gives back again is no leak.
 */
#pragma once

#include "base/buf.h"
#include "job/job.h"

struct leak {
	double per_s;            /* how fast the valleys rise, in units a second */
	double grown;            /* by how much from from_ns to to_ns */
	int64_t from_ns, to_ns;
};

/* True if the course of a gauge, whose buckets are span_ns wide, is a leak's; else why_not says what it was like. */
bool leak_find(const struct course *course, uint64_t span_ns, struct leak *ret, struct buf *why_not);
