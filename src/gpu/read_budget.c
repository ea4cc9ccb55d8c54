/* SPDX-License-Identifier: MIT */
#include "gpu/read_budget.h"

#include <stdio.h>

enum {
	SHARE = 200,          /* all reads may use one part in this many of a core: 0.5 %; */
	SHARE_EACH = 400,     /* and for each device one in this many: 0.25 % */
	LEAST_SHARE = 16,     /* lists get at least one part in this many of that */
	LOCK_SHARE = 50,      /* lists may hold the driver's locks for one part in this many of the time */
	URGENT_LOCK_SHARE = 10, /* the same for lists that justify a debt, which limits them too */
	SMOOTH = 4,
	LISTS = SOURCE_RANKS, /* the rank of lists of processes */
	HOLD = 3,             /* periods */
	NEAR = 8,             /* due within one part in this many of its period counts as due */
};
static const double rank_share[SOURCE_RANKS] = { 0.75, 0.75 }; /* of what lower ranks leave */
static const uint64_t least_period_ns = 100000000; /* drivers update values no more often */
static const uint64_t pair_ns = 110000000; /* between the two reads that a first value may need */
static const int64_t lists_most_ns = 100000000;
static const uint64_t count_ns = 5000000000;
static const uint64_t list_wall_most_ns = 200000000; /* one slow list delays the next by 10 s at most */

static bool is_list(const struct read_budget *b, unsigned group)
{
	return b->groups[group].rank == LISTS;
}

static uint64_t at_least(uint64_t period, uint64_t least)
{
	return period > least ? period : least;
}

/* The share of a core for this many devices. */
static double limit_of(unsigned devices)
{
	const double all = 1.0 / SHARE, each = (double) devices / SHARE_EACH;

	return each > all ? each : all;
}

void read_budget_init(struct read_budget *b, const struct source_ops *ops, uint64_t interval_ns)
{
	*b = (struct read_budget) {
		.n_groups = ops->n_groups < GPU_GROUPS ? ops->n_groups : GPU_GROUPS,
		.share = limit_of(0),
		.lists = { .ns = lists_most_ns, .most_ns = lists_most_ns },
	};
	for (unsigned g = 0; g < b->n_groups; g++) {
		const struct source_group *of = &ops->groups[g];
		struct read_budget_group *group = &b->groups[g];

		group->rank = of->moving_ns ? LISTS : of->rank < SOURCE_RANKS ? of->rank
									      : SOURCE_RANKS - 1;
		group->pairs = of->pairs;
	}
	read_budget_set_interval(b, ops, interval_ns);
}

void read_budget_set_interval(struct read_budget *b, const struct source_ops *ops, uint64_t interval_ns)
{
	for (unsigned g = 0; g < b->n_groups; g++) {
		const struct source_group *of = &ops->groups[g];
		const uint64_t period_ns = of->period_ns ? of->period_ns : least_period_ns;

		b->groups[g].period_ns = at_least(period_ns, interval_ns);
		b->groups[g].moving_ns = of->moving_ns ? at_least(of->moving_ns, interval_ns) : 0;
	}
}

/* The expected time of the next lists if only those that justify a debt are read. */
static uint64_t urgent_wall_ns(const struct read_budget *b, const struct read_budget_group *g)
{
	const struct source_budget *c = &b->lists;
	const uint64_t ns = c->urgent && c->lists ? g->wall_ns / c->lists * c->urgent : g->wall_ns;

	return ns < list_wall_most_ns ? ns : list_wall_most_ns;
}

/* How long lists wait for the driver's locks: for those that justify a debt, only their own time;
 * for the others, the time of all at the last list. */
static uint64_t locks_ns(const struct read_budget *b, const struct read_budget_group *g)
{
	if (b->lists.floor_ns < 0)
		return URGENT_LOCK_SHARE * urgent_wall_ns(b, g);
	return at_least(LOCK_SHARE * g->wall_ns, b->others_ns > g->last_ns ? b->others_ns - g->last_ns : 0);
}

/* ---- shares of the budget -------------------------------------------------------------------- */

/* The share of a core that the groups of a rank would use at their planned periods. */
static double demand_of(const struct read_budget *b, unsigned rank)
{
	double share = 0;

	for (unsigned g = 0; g < b->n_groups; g++) {
		if (b->groups[g].rank == rank)
			share += (double) b->groups[g].cpu_ns / (double) b->groups[g].period_ns;
	}
	return share;
}

/* The share of a core left for lists; *ret_stretch: the factor by which periods of rank are
 * extended. */
static double share_left(const struct read_budget *b, unsigned rank, double *ret_stretch)
{
	double left = b->share;

	*ret_stretch = 1;
	for (unsigned r = 0; r < SOURCE_RANKS; r++) {
		const double wish = demand_of(b, r), most = left * rank_share[r];

		if (r == rank && wish > most)
			*ret_stretch = wish / most;
		left -= wish < most ? wish : most;
	}
	return left > b->share / LEAST_SHARE ? left : b->share / LEAST_SHARE;
}

static double list_share(const struct read_budget *b)
{
	double stretch;

	return share_left(b, SOURCE_RANKS, &stretch);
}

void read_budget_share(struct read_budget *b, unsigned sources, double others_spent)
{
	const double all = limit_of(b->lists.devices);
	const double part = all / (sources ? sources : 1), left = all - others_spent;

	b->share = left > part ? left : part;
}

uint64_t read_budget_period(const struct read_budget *b, unsigned group)
{
	const struct read_budget_group *g = &b->groups[group];
	double stretch;

	if (g->rank == LISTS) {
		const int64_t left_ns = b->lists.ns - b->lists.floor_ns;
		const uint64_t period = at_least(b->lists.moving ? g->moving_ns : g->period_ns,
			locks_ns(b, g));

		if (left_ns > 0)
			return period;
		return at_least(period, (uint64_t) ((double) -left_ns / list_share(b)));
	}
	(void) share_left(b, g->rank, &stretch);
	return (uint64_t) ((double) g->period_ns * stretch);
}

uint64_t read_budget_hold(const struct read_budget *b, unsigned group)
{
	const uint64_t period = read_budget_period(b, group), wall = b->groups[group].wall_ns;

	return HOLD * (is_list(b, group) ? at_least(period, b->lists.waited_ns) : period) + wall;
}

/* ---- timing ---------------------------------------------------------------------------------- */

/* The first read of a pair gives no value, so the second follows at once. */
static bool is_half_pair(const struct read_budget_group *g)
{
	return g->pairs && g->n == 1;
}

static uint64_t due_at(const struct read_budget *b, unsigned group)
{
	const struct read_budget_group *g = &b->groups[group];

	if (g->n == 0)
		return 0;
	return g->last_ns + (is_half_pair(g) ? pair_ns : read_budget_period(b, group));
}

bool read_budget_is_due(const struct read_budget *b, unsigned group, uint64_t now_ns)
{
	const struct read_budget_group *g = &b->groups[group];

	const uint64_t period_ns = is_list(b, group) && b->lists.moving ? g->moving_ns : g->period_ns;

	return due_at(b, group) <= now_ns + (is_half_pair(g) ? 0 : period_ns / NEAR);
}

uint64_t read_budget_next(const struct read_budget *b)
{
	uint64_t next = UINT64_MAX;

	for (unsigned g = 0; g < b->n_groups; g++) {
		const uint64_t due = due_at(b, g);

		next = due < next ? due : next;
	}
	return next;
}

/* Lists earn what the other groups leave. */
static void earn(struct read_budget *b, uint64_t now_ns)
{
	b->lists.share = list_share(b);
	if (now_ns > b->earned_ns) {
		b->lists.ns += (int64_t) (b->lists.share * (double) (now_ns - b->earned_ns));
		b->earned_ns = now_ns;
	}
	if (b->lists.ns > b->lists.most_ns)
		b->lists.ns = b->lists.most_ns;
}

static void count(struct read_budget *b, uint64_t now_ns, uint64_t cpu_ns)
{
	b->spent_ns += cpu_ns;
	if (now_ns < b->since_ns + count_ns)
		return;
	b->spent = (double) b->spent_ns / (double) (now_ns - b->since_ns);
	b->spent_ns = 0;
	b->since_ns = now_ns;
}

static uint64_t smooth(uint64_t before, uint64_t now, unsigned n)
{
	return n < 2 ? now : before - before / SMOOTH + now / SMOOTH;
}

void read_budget_begin(struct read_budget *b, unsigned group, uint64_t now_ns)
{
	if (is_list(b, group))
		b->lists.debts_only = b->lists.floor_ns < 0 && now_ns < b->others_ns;
}

/* The first read resolves symbols and allocates, so it does not represent later ones; the cost of
 * lists counts at once. */
void read_budget_spend(struct read_budget *b, unsigned group, uint64_t now_ns, uint64_t cpu_ns,
	uint64_t wall_ns)
{
	struct read_budget_group *g = &b->groups[group];

	if (g->rank == LISTS) {
		b->lists.ns -= (int64_t) cpu_ns;
		g->wall_ns = wall_ns < list_wall_most_ns ? wall_ns : list_wall_most_ns;
		if (!b->lists.debts_only)
			b->others_ns = now_ns + LOCK_SHARE * g->wall_ns;
	} else if (g->n > 0) {
		g->cpu_ns = smooth(g->cpu_ns, cpu_ns, g->n);
		g->wall_ns = smooth(g->wall_ns, wall_ns, g->n);
	}
	earn(b, now_ns);
	count(b, now_ns, cpu_ns);
	g->n++;
	g->last_ns = now_ns;
}

/* ---- the schedule, for doctor ---------------------------------------------------------------- */

/* Fills a budget from probed costs: for most groups the second read counts. Lists start without
 * savings, so that their period is the sustained one. */
static void learn(const struct gpu_tried *tried, uint64_t interval_ns, struct read_budget *ret)
{
	read_budget_init(ret, tried->ops, interval_ns);
	ret->lists.ns = 0;
	for (unsigned g = 0; g < ret->n_groups; g++) {
		if (tried->costs[g].devices > ret->lists.devices)
			ret->lists.devices = tried->costs[g].devices;
	}
	ret->share = limit_of(ret->lists.devices);
	for (unsigned g = 0; g < ret->n_groups; g++) {
		const struct source_cost *cost = &tried->costs[g];
		const unsigned times = is_list(ret, g) ? 1 : 2;

		for (unsigned i = 0; i < times && cost->n; i++)
			read_budget_spend(ret, g, 0, cost->cpu_ns, cost->wall_ns);
	}
}

/* Share of a core of all groups except lists. */
static double total_demand(const struct read_budget *b)
{
	double share = 0;

	for (unsigned r = 0; r < SOURCE_RANKS; r++)
		share += demand_of(b, r);
	return share;
}

/* Lists are slowed by the locks that they hold, and by the limit for all reads. */
static void explain(const struct read_budget *b, unsigned group, struct gpu_schedule *s)
{
	struct read_budget saved = *b;

	saved.lists.ns = saved.lists.most_ns;
	if (s->lasting_ns <= s->planned_ns)
		return;
	if (is_list(b, group) && read_budget_period(&saved, group) >= s->lasting_ns)
		(void) snprintf(s->why, sizeof(s->why),
			"lists of processes may lock the driver, and delay the job, for %.3g %% of the time",
			100.0 * (double) b->groups[group].wall_ns / (double) s->lasting_ns);
	else
		(void) snprintf(s->why, sizeof(s->why), "all reads together may use %g %% of a core%s",
			100 * s->share_max,
			is_list(b, group) ? "; lists of processes use the remainder" : "");
}

/* 0: not longer than the sustained period. */
static uint64_t idle_period_ns(const struct gpu_tried *tried, const struct read_budget *b, unsigned group)
{
	const struct source_group *g = &tried->ops->groups[group];
	const uint64_t idle_ns = g->idle_ns ? source_idle_ns(g, &tried->costs[group], list_share(b)) : 0;

	return idle_ns > read_budget_period(b, group) ? idle_ns : 0;
}

static void report_groups(const struct gpu_tried *tried, const struct read_budget *b, double share_max,
	gpu_schedule_reporter *report, void *ctx)
{
	for (unsigned g = 0; g < b->n_groups; g++) {
		const struct source_group *group = &tried->ops->groups[g];
		const uint64_t moving_ns = b->groups[g].moving_ns;
		struct gpu_schedule s = {
			.source = tried->label,
			.group = group->name,
			.contents = group->contents ? group->contents : "",
			.planned_ns = b->groups[g].period_ns,
			.moving_ns = moving_ns < b->groups[g].period_ns ? moving_ns : 0,
			.idle_period_ns = idle_period_ns(tried, b, g),
			.lasting_ns = read_budget_period(b, g),
			.cost = tried->costs[g],
			.share_max = share_max,
		};

		explain(b, g, &s);
		report(ctx, &s);
	}
}

void gpu_schedule(const struct gpu_tried *tried, unsigned n, uint64_t interval_ns,
	gpu_schedule_reporter *report, void *ctx)
{
	struct read_budget b;
	double all = 0;

	for (unsigned i = 0; i < n; i++) {
		learn(&tried[i], interval_ns, &b);
		all += total_demand(&b);
	}
	for (unsigned i = 0; i < n; i++) {
		learn(&tried[i], interval_ns, &b);
		const double share_max = b.share;

		read_budget_share(&b, n, all - total_demand(&b));
		report_groups(&tried[i], &b, share_max, report, ctx);
	}
}
