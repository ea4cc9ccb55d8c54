/* SPDX-License-Identifier: MIT
 *
 * The story of a run in which something happened: what ran out, who held what at that moment, how fast it grew and since
 * when, what was asked for, what to try. Pure: from what a recording has of that moment.
 */
#pragma once

#include "job/summary.h"

/* What a process held at its last look before the moment. */
struct story_held {
	uint32_t id;
	int64_t bytes;
};

/* A total of the job, at an instant. */
struct story_level {
	uint64_t time_ns;
	int64_t bytes;
};

struct story_moment {
	const struct story_held *held;     /* in any order */
	size_t n_held;
	const struct story_level *levels;  /* of RAM, in the order of time, until the moment */
	size_t n_levels;
};

/* Is there something to tell, and of when? */
bool story_when(const struct summary *s, uint64_t *ret_ns);

/* Fills s->story. Returns 0 or -ENOMEM. */
int story_make(struct summary *s, uint64_t at_ns, const struct story_moment *moment);
