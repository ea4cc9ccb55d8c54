/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "source.h"

static void read_one(const struct source_ops *ops, struct source_cost *cost, struct source *source, unsigned group, struct framebuf *out)
{
	const uint64_t began = clock_boot_ns(), cpu = clock_thread_cpu_ns();

	(void) ops->read(source, 1u << group, out);
	if (cost)
		*cost = (struct source_cost) { clock_thread_cpu_ns() - cpu, clock_boot_ns() - began, cost->n + 1 };
}

void source_try(const struct source_ops *ops, const struct source_env *env, struct source *source, struct framebuf *out)
{
	for (unsigned g = 0; g < ops->n_groups; g++) {
		struct source_cost *cost = env->costs ? &env->costs[g] : NULL;

		if (!cost || cost->n == 0 || !ops->groups[g].moving_ns || ops->groups[g].pairs)
			read_one(ops, cost, source, g, out);
	}
}
