/* SPDX-License-Identifier: MIT */
#include "gpu/gpu_plan.h"

#include <stdio.h>

#include "gpu/gpu.h"
#include "gpu/gpu_pace.h"

static bool is_list(const struct pace *p, unsigned group)
{
	return p->groups[group].moving_ns > 0;
}

/* A pace that knows what was tried: of most groups it believes the second reading. Lists have nothing saved up, so that their
 * period is the one that lasts. */
static void learn(const struct gpu_tried *tried, uint64_t interval_ns, struct pace *ret)
{
	pace_init(ret, tried->vendor->ops, interval_ns);
	ret->credit.ns = 0;
	for (unsigned g = 0; g < ret->n_groups; g++) {
		const struct source_cost *cost = &tried->costs[g];
		const unsigned times = is_list(ret, g) ? 1 : 2;

		for (unsigned i = 0; i < times && cost->n; i++)
			pace_done(ret, g, 0, cost->cpu_ns, cost->wall_ns);
	}
}

/* Of a core, what cannot wait for credit. */
static double wish_of(const struct pace *p)
{
	double share = 0;

	for (unsigned g = 0; g < p->n_groups; g++) {
		if (!is_list(p, g))
			share += (double) p->groups[g].cpu_ns / (double) p->groups[g].period_ns;
	}
	return share;
}

/* Lists give way to the locks that they hold, and to what all may cost. */
static void say_why(const struct pace *p, unsigned group, struct gpu_plan *plan)
{
	struct pace saved = *p;

	saved.credit.ns = saved.credit.most_ns;
	if (plan->lasting_ns <= plan->planned_ns)
		return;
	if (is_list(p, group) && pace_period(&saved, group) >= plan->lasting_ns)
		(void) snprintf(plan->why, sizeof(plan->why), "a list may hold the driver's locks, and the job, for %.3g %% of the time",
			100.0 * (double) p->groups[group].wall_ns / (double) plan->lasting_ns);
	else
		(void) snprintf(plan->why, sizeof(plan->why), "all readings together may take %g %% of a core%s", 100 * plan->share_most,
			is_list(p, group) ? ", and lists have what the others leave" : "");
}

/* Nothing slower than that is kept up anyway. */
static uint64_t resting_ns(const struct gpu_tried *tried, const struct pace *p, unsigned group)
{
	const struct source_group *g = &tried->vendor->ops->groups[group];
	const uint64_t rest_ns = g->rest_ns ? pace_rest(p, g, &tried->costs[group]) : 0;

	return rest_ns > pace_period(p, group) ? rest_ns : 0;
}

static void tell_of(const struct gpu_tried *tried, const struct pace *p, double share_most, gpu_planner *tell, void *ctx)
{
	for (unsigned g = 0; g < p->n_groups; g++) {
		const struct source_group *group = &tried->vendor->ops->groups[g];
		struct gpu_plan plan = {
			.source = tried->vendor->label,
			.group = group->name,
			.holds = group->holds ? group->holds : "",
			.planned_ns = p->groups[g].period_ns,
			.moving_ns = p->groups[g].moving_ns < p->groups[g].period_ns ? p->groups[g].moving_ns : 0,
			.resting_ns = resting_ns(tried, p, g),
			.lasting_ns = pace_period(p, g),
			.cost = tried->costs[g],
			.share_most = share_most,
		};

		say_why(p, g, &plan);
		tell(ctx, &plan);
	}
}

void gpu_plan(const struct gpu_tried *tried, unsigned n, uint64_t interval_ns, gpu_planner *tell, void *ctx)
{
	struct pace p;
	double all = 0;

	for (unsigned i = 0; i < n; i++) {
		learn(&tried[i], interval_ns, &p);
		all += wish_of(&p);
	}
	for (unsigned i = 0; i < n; i++) {
		learn(&tried[i], interval_ns, &p);
		const double share_most = p.share;

		pace_allow(&p, n, all - wish_of(&p));
		tell_of(&tried[i], &p, share_most, tell, ctx);
	}
}
