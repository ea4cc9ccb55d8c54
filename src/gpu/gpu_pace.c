/* SPDX-License-Identifier: MIT */
#include "gpu/gpu_pace.h"

enum {
	SHARE = 500,          /* all readings may take one part of so many of a core: 0.2%; what the recorder does comes on top */
	LEAST_SHARE = 16,     /* lists have one part of so many of that in any case */
	LOCK_SHARE = 50,      /* a list may hold the driver's locks, and with them the job, for one part of so many */
	URGENT_LOCK_SHARE = 10, /* where it is worth a debt, which bounds it */
	SMOOTH = 4,
	LISTS = SOURCE_RANKS, /* the rank of groups that live on credit */
	HOLD = 3,             /* periods */
	NEAR = 8,             /* what is due within one part in so many of its period is read with what is due now */
};
static const double rank_share[SOURCE_RANKS] = { 0.75, 0.5 }; /* of what those before it leave */
static const uint64_t least_period_ns = 100000000; /* drivers make new values no more often */
static const int64_t credit_most_ns = 100000000;
static const uint64_t count_ns = 5000000000;
static const uint64_t list_wall_most_ns = 200000000; /* a call that was stuck once says little of the next: one in 10 s at worst */

static uint64_t at_least(uint64_t period, uint64_t least)
{
	return period > least ? period : least;
}

void pace_init(struct pace *p, const struct source_ops *ops, uint64_t interval_ns)
{
	*p = (struct pace) {
		.n_groups = ops->n_groups < PACE_GROUPS ? ops->n_groups : PACE_GROUPS,
		.share = 1.0 / SHARE,
		.credit = { .ns = credit_most_ns, .most_ns = credit_most_ns },
	};
	for (unsigned g = 0; g < p->n_groups; g++) {
		const struct source_group *of = &ops->groups[g];
		struct pace_group *group = &p->groups[g];

		group->rank = of->moving_ns ? LISTS : of->rank < SOURCE_RANKS ? of->rank
									      : SOURCE_RANKS - 1;
	}
	pace_change(p, ops, interval_ns);
}

void pace_change(struct pace *p, const struct source_ops *ops, uint64_t interval_ns)
{
	for (unsigned g = 0; g < p->n_groups; g++) {
		const struct source_group *of = &ops->groups[g];

		p->groups[g].period_ns = at_least(of->period_ns ? of->period_ns : at_least(interval_ns, least_period_ns), interval_ns);
		p->groups[g].moving_ns = of->moving_ns ? at_least(of->moving_ns, interval_ns) : 0;
	}
}

/* What the next look at lists will take where those that are worth a debt are listed alone. */
static uint64_t urgent_wall_ns(const struct pace *p, const struct pace_group *g)
{
	const struct source_credit *c = &p->credit;
	const uint64_t ns = c->urgent && c->lists ? g->wall_ns / c->lists * c->urgent : g->wall_ns;

	return ns < list_wall_most_ns ? ns : list_wall_most_ns;
}

/* How long lists wait for the driver's locks: those that are worth a debt for what they hold them themselves, the others
 * for what all did when they were listed last. */
static uint64_t locks_ns(const struct pace *p, const struct pace_group *g)
{
	if (p->credit.floor_ns < 0)
		return URGENT_LOCK_SHARE * urgent_wall_ns(p, g);
	return at_least(LOCK_SHARE * g->wall_ns, p->others_ns > g->last_ns ? p->others_ns - g->last_ns : 0);
}

/* ---- who gives way -------------------------------------------------------------------------------------------------- */

/* What the groups of a rank would take of a core. */
static double wish_of(const struct pace *p, unsigned rank)
{
	double share = 0;

	for (unsigned g = 0; g < p->n_groups; g++) {
		if (p->groups[g].rank == rank)
			share += (double) p->groups[g].cpu_ns / (double) p->groups[g].period_ns;
	}
	return share;
}

/* What is left of a core for lists; *ret_stretch: by what the periods of rank are longer than wished. */
static double share_left(const struct pace *p, unsigned rank, double *ret_stretch)
{
	double left = p->share;

	*ret_stretch = 1;
	for (unsigned r = 0; r < SOURCE_RANKS; r++) {
		const double wish = wish_of(p, r), most = left * rank_share[r];

		if (r == rank && wish > most)
			*ret_stretch = wish / most;
		left -= wish < most ? wish : most;
	}
	return left > p->share / LEAST_SHARE ? left : p->share / LEAST_SHARE;
}

static double list_share(const struct pace *p)
{
	double stretch;

	return share_left(p, SOURCE_RANKS, &stretch);
}

void pace_allow(struct pace *p, unsigned sources, double others_spent)
{
	const double all = 1.0 / SHARE, part = all / (double) (sources ? sources : 1), left = all - others_spent;

	p->share = left > part ? left : part;
}

uint64_t pace_period(const struct pace *p, unsigned group)
{
	const struct pace_group *g = &p->groups[group];
	double stretch;

	if (g->rank == LISTS) {
		const int64_t left_ns = p->credit.ns - p->credit.floor_ns;
		const uint64_t period = at_least(p->credit.moving ? g->moving_ns : g->period_ns, locks_ns(p, g));

		return left_ns > 0 ? period : at_least(period, (uint64_t) ((double) -left_ns / list_share(p)));
	}
	(void) share_left(p, g->rank, &stretch);
	return (uint64_t) ((double) g->period_ns * stretch);
}

uint64_t pace_rest(const struct pace *p, const struct source_group *group, const struct source_cost *cost)
{
	return source_rest_ns(group, cost, list_share(p));
}

uint64_t pace_hold(const struct pace *p, unsigned group)
{
	const uint64_t period = pace_period(p, group), wall = p->groups[group].wall_ns;

	return HOLD * (p->groups[group].rank == LISTS ? at_least(period, p->credit.waited_ns) : period) + wall;
}

/* ---- the clock ------------------------------------------------------------------------------------------------------ */

static uint64_t due_at(const struct pace *p, unsigned group)
{
	return p->groups[group].n ? p->groups[group].last_ns + pace_period(p, group) : 0;
}

bool pace_is_due(const struct pace *p, unsigned group, uint64_t now_ns)
{
	const struct pace_group *g = &p->groups[group];

	return due_at(p, group) <= now_ns + (g->rank == LISTS && p->credit.moving ? g->moving_ns : g->period_ns) / NEAR;
}

uint64_t pace_next(const struct pace *p)
{
	uint64_t next = UINT64_MAX;

	for (unsigned g = 0; g < p->n_groups; g++) {
		const uint64_t due = due_at(p, g);

		next = due < next ? due : next;
	}
	return next;
}

/* Lists earn what the others leave. */
static void earn(struct pace *p, uint64_t now_ns)
{
	p->credit.share = list_share(p);
	if (now_ns > p->earned_ns) {
		p->credit.ns += (int64_t) (p->credit.share * (double) (now_ns - p->earned_ns));
		p->earned_ns = now_ns;
	}
	if (p->credit.ns > p->credit.most_ns)
		p->credit.ns = p->credit.most_ns;
}

static void count(struct pace *p, uint64_t now_ns, uint64_t cpu_ns)
{
	p->spent_ns += cpu_ns;
	if (now_ns < p->since_ns + count_ns)
		return;
	p->spent = (double) p->spent_ns / (double) (now_ns - p->since_ns);
	p->spent_ns = 0;
	p->since_ns = now_ns;
}

static uint64_t smooth(uint64_t before, uint64_t now, unsigned n)
{
	return n < 2 ? now : before - before / SMOOTH + now / SMOOTH;
}

void pace_begin(struct pace *p, unsigned group, uint64_t now_ns)
{
	if (p->groups[group].rank == LISTS)
		p->credit.debts_only = p->credit.floor_ns < 0 && now_ns < p->others_ns;
}

/* The first reading finds its symbols and its memory, it says little of the others; lists are dear at once. */
void pace_done(struct pace *p, unsigned group, uint64_t now_ns, uint64_t cpu_ns, uint64_t wall_ns)
{
	struct pace_group *g = &p->groups[group];

	if (g->rank == LISTS) {
		p->credit.ns -= (int64_t) cpu_ns;
		g->wall_ns = wall_ns < list_wall_most_ns ? wall_ns : list_wall_most_ns;
		if (!p->credit.debts_only)
			p->others_ns = now_ns + LOCK_SHARE * g->wall_ns;
	} else if (g->n > 0) {
		g->cpu_ns = smooth(g->cpu_ns, cpu_ns, g->n);
		g->wall_ns = smooth(g->wall_ns, wall_ns, g->n);
	}
	earn(p, now_ns);
	count(p, now_ns, cpu_ns);
	g->n++;
	g->last_ns = now_ns;
}
