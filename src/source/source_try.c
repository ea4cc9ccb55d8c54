/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "source.h"

static const uint64_t slow_ns = 1000000000;

static void read_one(const struct source_ops *ops, struct source_cost *cost, struct source *source, unsigned group, struct framebuf *out)
{
	const uint64_t began = clock_boot_ns(), cpu = clock_thread_cpu_ns();

	(void) ops->read(source, 1u << group, out);
	if (cost)
		*cost = (struct source_cost) { clock_thread_cpu_ns() - cpu, clock_boot_ns() - began, cost->n + 1 };
}

/* What one reading of a slow driver took is mostly the driver's own: nobody waits for another, but for what only two tell. */
static bool is_enough(const struct source_cost *cost, const struct source_group *group)
{
	return cost && cost->n > 0 && !group->pairs && (group->moving_ns || cost->wall_ns > slow_ns);
}

void source_try(const struct source_ops *ops, const struct source_env *env, struct source *source, struct framebuf *out)
{
	for (unsigned g = 0; g < ops->n_groups; g++) {
		struct source_cost *cost = env->costs ? &env->costs[g] : NULL;

		if (!is_enough(cost, &ops->groups[g]))
			read_one(ops, cost, source, g, out);
	}
}
