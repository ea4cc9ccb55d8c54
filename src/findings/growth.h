/* SPDX-License-Identifier: MIT
 *
 * How RAM or memory of GPUs grew at the last: from its last low to where it ran out. Pure. What is told of it, in the story
 * and in findings, comes from here.
 */
#pragma once

#include "findings/story.h"

struct growth {
	bool known;           /* it grew */
	int64_t since_ns;
	int64_t from_bytes;
	double per_s;
};

/* Of what a recording has of that moment; victim: whom the kernel killed then, or NULL. */
struct growth growth_of_levels(const struct story_moment *moment, const struct process *victim);

/* Of RAM, as the summary tells it: the story's, which is finer, else by the course of the job's anonymous memory. */
struct growth growth_of_run(const struct summary *s);
