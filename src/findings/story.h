/* SPDX-License-Identifier: MIT
 *
 * The story of a run in which something happened: what ran out, who held what at that moment, how fast it grew and since
 * when, what was asked for, what to try. Pure: from what a recording has of that moment.
 */
#pragma once

#include "summary/summary.h"

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
	uint64_t at_ns;
	bool on_gpu;                       /* it is of memory of GPUs, and so is what follows; else of RAM */
	const struct story_held *held;     /* in any order; a process may be there more than once: what it holds adds up */
	size_t n_held;
	const struct story_level *levels;  /* of the job, in the order of time, until the moment */
	size_t n_levels;
};

/* May there be something to tell? Then *ret says when it was and of which memory; the caller fills in the rest. */
bool story_when(const struct summary *s, struct story_moment *ret);

/* Fills s->story, if there is one. Returns 0 or -ENOMEM. */
int story_make(struct summary *s, const struct story_moment *moment);
