/* SPDX-License-Identifier: MIT */
#include "sample/gpu_pace.h"

enum {
	SHARE = 400,          /* all readings may take one part of so many of a core: 0.25%, what is sent included */
	LOCK_SHARE = 50,      /* a list may hold the driver's locks, and with them the job, for one part of so many */
	SMOOTH = 4,
};
static const uint64_t least_period_ns = 100000000; /* drivers make new values no more often */

static uint64_t at_least(uint64_t period, uint64_t least)
{
	return period > least ? period : least;
}

void pace_init(struct pace *p, const struct source_ops *ops, uint64_t interval_ns)
{
	*p = (struct pace) { .n_groups = ops->n_groups < PACE_GROUPS ? ops->n_groups : PACE_GROUPS };
	for (unsigned g = 0; g < p->n_groups; g++) {
		const uint64_t wish = ops->groups[g].period_ns, moving = ops->groups[g].moving_ns;

		p->groups[g].period_ns = at_least(wish ? wish : at_least(interval_ns, least_period_ns), interval_ns);
		p->groups[g].moving_ns = moving ? at_least(moving, interval_ns) : 0;
	}
}

static uint64_t wished(const struct pace *p, const struct pace_group *g)
{
	const uint64_t wish = p->moving && g->moving_ns ? g->moving_ns : g->period_ns;

	return g->moving_ns ? at_least(wish, LOCK_SHARE * g->wall_ns) : wish;
}

uint64_t pace_period(const struct pace *p, unsigned group, unsigned sources)
{
	double share = 0;

	for (unsigned g = 0; g < p->n_groups; g++)
		share += (double) p->groups[g].cpu_ns / (double) wished(p, &p->groups[g]);
	share *= SHARE * (double) (sources ? sources : 1);
	return (uint64_t) ((double) wished(p, &p->groups[group]) * (share > 1 ? share : 1));
}

/* The first reading finds its symbols and its memory, it says little of the others; lists are dear at once. */
static uint64_t smooth(uint64_t before, uint64_t now, unsigned n)
{
	return n < 2 ? now : before - before / SMOOTH + now / SMOOTH;
}

void pace_done(struct pace *p, unsigned group, unsigned sources, uint64_t now_ns, uint64_t cpu_ns, uint64_t wall_ns)
{
	struct pace_group *g = &p->groups[group];

	if (g->n > 0 || g->moving_ns) {
		g->cpu_ns = smooth(g->cpu_ns, cpu_ns, g->n);
		g->wall_ns = smooth(g->wall_ns, wall_ns, g->n);
	}
	g->n++;
	g->next_ns = now_ns + pace_period(p, group, sources);
}

uint64_t pace_next(const struct pace *p)
{
	uint64_t next = UINT64_MAX;

	for (unsigned g = 0; g < p->n_groups; g++) {
		if (p->groups[g].next_ns < next)
			next = p->groups[g].next_ns;
	}
	return next;
}
