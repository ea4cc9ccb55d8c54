/* SPDX-License-Identifier: MIT */
#include "source.h"

enum {
	REST = 2,         /* while nothing moves, lists take one part in so many of what they earn: the rest is saved up */
	REST_LOCKS = 500, /* and may hold the driver's locks, and with them the job, for one part of so many */
};

uint64_t source_rest_ns(const struct source_group *group, const struct source_cost *cost, double share)
{
	const double locks = REST_LOCKS * (double) cost->wall_ns;
	const double saved = share > 0 ? REST * (double) cost->cpu_ns / share : (double) group->rest_ns;
	const double ns = saved > locks ? saved : locks;

	if (ns <= (double) group->period_ns || group->rest_ns <= group->period_ns)
		return group->period_ns;
	return ns < (double) group->rest_ns ? (uint64_t) ns : group->rest_ns;
}
