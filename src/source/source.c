/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "source/source.h"

static const uint64_t slow_ns = 1000000000;

static void read_one(const struct source_ops *ops, struct source_cost *cost, struct source *source,
	unsigned group, struct framebuf *out)
{
	const uint64_t began = clock_boot_ns(), cpu = clock_thread_cpu_ns();

	(void) ops->read(source, 1u << group, out);
	if (cost)
		*cost = (struct source_cost) { .cpu_ns = clock_thread_cpu_ns() - cpu,
			.wall_ns = clock_boot_ns() - began,
			.n = cost->n + 1 };
}

/* The cost of the first read of a slow driver is mostly the driver's own. A second read is done
 * only for groups whose values need two. */
static bool is_enough(const struct source_cost *cost, const struct source_group *group)
{
	return cost && cost->n > 0 && !group->pairs && (group->moving_ns || cost->wall_ns > slow_ns);
}

void source_try(const struct source_ops *ops, const struct source_env *env, struct source *source,
	struct framebuf *out)
{
	for (unsigned g = 0; g < ops->n_groups; g++) {
		struct source_cost *cost = env->costs ? &env->costs[g] : NULL;

		if (!is_enough(cost, &ops->groups[g]))
			read_one(ops, cost, source, g, out);
	}
}

/* ---- the period of expensive process lists while no device memory changes ------------------------------------------ */

enum {
	REST = 2,         /* while no memory changes, lists spend one part in this many of their
	                   * earned CPU time; the rest is saved */
	REST_LOCKS = 500, /* and may occupy the driver's locks, which the job may wait for, one part
	                   * in this many of the time */
};

uint64_t source_idle_ns(const struct source_group *group, const struct source_cost *cost, double share)
{
	const double locks = REST_LOCKS * (double) cost->wall_ns;
	const double saved = share > 0 ? REST * (double) cost->cpu_ns / share : (double) group->idle_ns;
	const double ns = saved > locks ? saved : locks;

	if (ns <= (double) group->period_ns || group->idle_ns <= group->period_ns)
		return group->period_ns;
	return ns < (double) group->idle_ns ? (uint64_t) ns : group->idle_ns;
}
