/* SPDX-License-Identifier: MIT
 *
 * Read rates of GPUs, with a fake clock and made-up costs: groups are slowed in order, and the
 * total stays within its share of a core.
 */
#include "tree_helper.h"

#include "gpu/read_budget.h"

#define US     UINT64_C(1000)
#define MS     (1000 * US)
#define SECOND (1000 * MS)

enum {
	MEMORY,
	OTHERS,
	LISTS,
	GROUPS
};

static const struct source_group groups[GROUPS] = {
	[MEMORY] = { .name = "memory", .period_ns = 100 * MS },
	[OTHERS] = { .name = "others", .period_ns = 500 * MS, .rank = 1 },
	[LISTS] = { .name = "lists", .period_ns = SECOND, .moving_ns = 250 * MS, .idle_ns = 5 * SECOND },
};
static const struct source_ops ops = { .name = "made up", .groups = groups, .n_groups = GROUPS };

/* A simulated driver, and what it cost. */
struct played {
	struct read_budget budget;
	uint64_t cost_ns[GROUPS]; /* of one read; for lists, of one device */
	unsigned devices;         /* to be listed per read */
	uint64_t spent_ns;
	unsigned reads[GROUPS], listed;
};

/* Reads lists while the budget lasts, like a source. */
static uint64_t look(struct played *p)
{
	uint64_t cost = 10 * US;

	for (unsigned i = 0; i < p->devices && p->budget.lists.ns > (int64_t) cost; i++) {
		cost += p->cost_ns[LISTS];
		p->listed++;
	}
	return cost;
}

static void play(struct played *p, uint64_t from_ns, uint64_t until_ns)
{
	for (uint64_t now = from_ns; now < until_ns; now += 10 * MS) {
		if (read_budget_next(&p->budget) > now)
			continue;
		for (unsigned g = 0; g < GROUPS; g++) {
			if (!read_budget_is_due(&p->budget, g, now))
				continue;
			const uint64_t cost = g == LISTS ? look(p) : p->cost_ns[g];

			p->reads[g]++;
			p->spent_ns += cost;
			read_budget_spend(&p->budget, g, now, cost, cost);
		}
	}
}

static void forget(struct played *p)
{
	p->spent_ns = p->listed = 0;
	memset(p->reads, 0, sizeof(p->reads));
}

static struct played begun(uint64_t memory_ns, uint64_t others_ns, uint64_t list_ns, unsigned devices)
{
	struct played p = { .cost_ns = { memory_ns, others_ns, list_ns }, .devices = devices };

	read_budget_init(&p.budget, &ops, 100 * MS);
	return p;
}

/* Cheap groups are read at their planned period. */
static void planned_periods_are_kept(void **state)
{
	struct played p = begun(10 * US, 20 * US, 100 * US, 1);

	(void) state;
	p.budget.lists.moving = true;
	play(&p, SECOND, 101 * SECOND);
	assert_in_range(p.reads[MEMORY], 950, 1001);
	assert_in_range(p.reads[OTHERS], 190, 202);
	assert_in_range(p.listed, 390, 402);
}

/* Eight cards whose lists cost milliseconds: lists are slowed, memory is not, and the total limit
 * holds. */
static void lists_give_way_first(void **state)
{
	struct played p = begun(130 * US, 100 * US, 5 * MS, 8);

	(void) state;
	p.budget.lists.moving = true;
	play(&p, SECOND, 11 * SECOND);
	/* the savings at the start, 100 ms, and 10 s of 0.35 % of a core: the remainder of 0.5 % */
	assert_in_range(p.listed, 25, 28);
	play(&p, 11 * SECOND, 111 * SECOND);
	forget(&p);
	play(&p, 111 * SECOND, 1111 * SECOND);
	assert_in_range(p.spent_ns / MS, 4500, 5100);
	assert_in_range(p.reads[MEMORY], 9500, 10100);
	assert_in_range(p.reads[OTHERS], 1900, 2100);
	assert_in_range(p.listed, 600, 710);
}

/* If every group is expensive, memory is still read most often. */
static void memory_gives_way_last(void **state)
{
	struct played p = begun(1500 * US, 1500 * US, 50 * MS, 8);

	(void) state;
	play(&p, SECOND, 101 * SECOND);
	forget(&p);
	play(&p, 101 * SECOND, 1101 * SECOND);
	assert_in_range(p.spent_ns / MS, 4500, 5300);
	assert_true(p.reads[MEMORY] > 3 * p.reads[OTHERS]);
	assert_in_range(p.reads[MEMORY], 2300, 2600); /* three quarters of the limit */
	assert_in_range(p.reads[OTHERS], 550, 650);   /* three quarters of the remainder */
	assert_true(p.listed > 0);
}

/* What one source leaves is available to the other; if both need all, each gets half. */
static void sources_share(void **state)
{
	struct read_budget p;

	(void) state;
	read_budget_init(&p, &ops, 100 * MS);
	read_budget_share(&p, 1, 0);
	const double all = p.share;

	read_budget_share(&p, 2, all / 10);
	assert_true(p.share > all * 0.89 && p.share < all * 0.91);
	read_budget_share(&p, 2, all);
	assert_true(p.share > all * 0.49 && p.share < all * 0.51);
}

/* Each device may use 0.25 % of a core, all of them 0.5 % at least; so may each of two sources that need
 * all. */
static void the_limit_grows_with_devices(void **state)
{
	static const struct {
		unsigned devices;
		double share;
		uint64_t memory_ns; /* the period of 1.5 ms out of three quarters of it */
	} of[] = { { 0, 0.005, 400 * MS }, { 1, 0.005, 400 * MS }, { 2, 0.005, 400 * MS },
		{ 3, 0.0075, 266667 * US }, { 8, 0.02, 100 * MS } };

	(void) state;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct read_budget p;

		read_budget_init(&p, &ops, 100 * MS);
		p.lists.devices = of[i].devices;
		read_budget_share(&p, 1, 0);
		assert_true(p.share > of[i].share * 0.9999 && p.share < of[i].share * 1.0001);
		read_budget_spend(&p, MEMORY, SECOND, 1500 * US, 1500 * US);
		read_budget_spend(&p, MEMORY, 2 * SECOND, 1500 * US, 1500 * US);
		assert_in_range(read_budget_period(&p, MEMORY), of[i].memory_ns - 100 * US,
			of[i].memory_ns + 100 * US);
		read_budget_share(&p, 2, 1);
		assert_true(p.share > of[i].share * 0.4999 && p.share < of[i].share * 0.5001);
	}
}

/* The limit holds with eight GPUs, too: groups that would use 2.5 % of a core use 2 %. */
static void eight_devices_use_no_more(void **state)
{
	struct played p = begun(1500 * US, 5 * MS, 50 * MS, 8);

	(void) state;
	p.budget.lists.devices = 8;
	read_budget_share(&p.budget, 1, 0);
	play(&p, SECOND, 101 * SECOND);
	forget(&p);
	play(&p, 101 * SECOND, 1101 * SECOND);
	assert_in_range(p.reads[MEMORY], 9900, 10100);
	assert_in_range(p.reads[OTHERS], 700, 770); /* 0.375 % of a core: each 1.33 s */
	assert_in_range(p.spent_ns / MS, 19000, 20500);
}

enum {
	PAIRS,
	PLAIN,
	PAIR_GROUPS
};

/* The first read of a pair gives no value: the second follows as soon as it can give one, and no earlier,
 * since it would give none either. */
static void the_second_of_a_pair_follows_soon(void **state)
{
	static const struct source_group both[PAIR_GROUPS] = {
		[PAIRS] = { .name = "pairs", .period_ns = SECOND, .rank = 1, .pairs = true },
		[PLAIN] = { .name = "plain", .period_ns = SECOND, .rank = 1 },
	};
	static const struct source_ops paired = { .name = "made up", .groups = both, .n_groups = PAIR_GROUPS };
	static const uint64_t intervals[] = { 100 * MS, 10 * SECOND };
	const uint64_t first = 5 * SECOND, second = first + 110 * MS;

	(void) state;
	for (size_t i = 0; i < 2; i++) {
		struct read_budget p;
		const uint64_t period = intervals[i] > SECOND ? intervals[i] : SECOND;

		read_budget_init(&p, &paired, intervals[i]);
		assert_int_equal(read_budget_next(&p), 0);
		assert_true(read_budget_is_due(&p, PAIRS, first));
		read_budget_spend(&p, PAIRS, first, 10 * US, 10 * US);
		read_budget_spend(&p, PLAIN, first, 10 * US, 10 * US);
		assert_int_equal(read_budget_next(&p), second);
		assert_false(read_budget_is_due(&p, PAIRS, second - 1));
		assert_true(read_budget_is_due(&p, PAIRS, second));
		assert_false(read_budget_is_due(&p, PLAIN, second));
		read_budget_spend(&p, PAIRS, second, 10 * US, 10 * US);
		assert_int_equal(read_budget_next(&p), first + period); /* of the other */
		assert_false(read_budget_is_due(&p, PAIRS, second + 110 * MS));
		assert_false(read_budget_is_due(&p, PAIRS, second + period * 7 / 8 - 1));
		assert_true(read_budget_is_due(&p, PAIRS, second + period));
	}
}

/* A list stays valid until the device is listed again, however long that takes. */
static void lists_stay_valid_until_the_next(void **state)
{
	struct read_budget p;

	(void) state;
	read_budget_init(&p, &ops, 100 * MS);
	read_budget_spend(&p, LISTS, SECOND, MS, MS);
	assert_in_range(read_budget_hold(&p, LISTS), 3 * SECOND, 4 * SECOND);
	p.lists.waited_ns = 40 * SECOND;
	assert_in_range(read_budget_hold(&p, LISTS), 120 * SECOND, 121 * SECOND);
	assert_in_range(read_budget_hold(&p, MEMORY), 300 * MS, 310 * MS);
}

/* Lists that justify a debt neither wait until it is paid, nor as long for the driver's locks; the
 * debt is limited. */
static void urgent_lists_use_a_debt(void **state)
{
	struct read_budget p;

	(void) state;
	read_budget_init(&p, &ops, 100 * MS);
	p.lists.moving = true;
	/* 30 ms of debt, less 5 ms earned in the first second; the locks alone would require 3 s */
	read_budget_spend(&p, LISTS, SECOND, 130 * MS, 60 * MS);
	assert_in_range(read_budget_period(&p, LISTS), 4990 * MS, 5010 * MS);
	p.lists.floor_ns = -50 * (int64_t) MS;
	assert_in_range(read_budget_period(&p, LISTS), 600 * MS, 601 * MS);
	read_budget_spend(&p, LISTS, 2 * SECOND, 50 * MS, 60 * MS); /* 20 ms below the floor */
	assert_in_range(read_budget_period(&p, LISTS), 3990 * MS, 4010 * MS);
}

/* One device whose memory changed a lot waits only for the cost of its own list, not for that of
 * all lists before. */
static void an_urgent_list_waits_for_its_own_cost(void **state)
{
	struct read_budget p;

	(void) state;
	read_budget_init(&p, &ops, 100 * MS);
	p.lists.lists = 8;
	read_budget_spend(&p, LISTS, SECOND, MS, 120 * MS);
	p.lists.moving = true;
	p.lists.floor_ns = -50 * (int64_t) MS;
	p.lists.urgent = 8;
	assert_in_range(read_budget_period(&p, LISTS), 1200 * MS, 1201 * MS);
	p.lists.urgent = 4;
	assert_in_range(read_budget_period(&p, LISTS), 600 * MS, 601 * MS);
	p.lists.urgent = 1;
	/* the planned rate while memory moves */
	assert_in_range(read_budget_period(&p, LISTS), 250 * MS, 251 * MS);
}

/* Eight devices whose lists wait 20 ms each and cost little CPU time: one changes a lot all the
 * time, the others slowly. */
static uint64_t list_of_eight(struct read_budget *p, uint64_t now)
{
	read_budget_begin(p, LISTS, now);
	p->lists.lists = p->lists.debts_only ? 1 : 8;
	const uint64_t wall = p->lists.lists * 20 * MS;

	read_budget_spend(p, LISTS, now, 10 * US, wall);
	return wall;
}

/* Lists use the driver's locks for a tenth of the time if they justify a debt, else for a
 * fiftieth. */
static void an_urgent_list_does_not_list_others(void **state)
{
	struct read_budget p;
	uint64_t wall = 0, every = 0;

	(void) state;
	read_budget_init(&p, &ops, 100 * MS);
	p.lists.moving = true;
	p.lists.floor_ns = -50 * (int64_t) MS;
	p.lists.urgent = 1;
	for (uint64_t now = SECOND; now < 101 * SECOND; now += 10 * MS) {
		if (!read_budget_is_due(&p, LISTS, now))
			continue;
		wall += list_of_eight(&p, now);
		every += p.lists.lists == 8;
	}
	assert_in_range(wall, 8 * SECOND, 12 * SECOND);
	assert_in_range(every, 12, 13); /* 160 ms, each 8 s */
}

/* After a read of only one device, the others wait for their own cost. */
static void other_lists_wait_for_all(void **state)
{
	struct read_budget p;

	(void) state;
	read_budget_init(&p, &ops, 100 * MS);
	p.lists.moving = true;
	p.lists.urgent = 1;
	assert_int_equal(list_of_eight(&p, SECOND), 160 * MS);
	p.lists.floor_ns = -50 * (int64_t) MS;
	assert_int_equal(list_of_eight(&p, 2 * SECOND), 20 * MS);
	p.lists.floor_ns = 0;
	p.lists.urgent = 0;
	assert_int_equal(read_budget_period(&p, LISTS), 7 * SECOND); /* from the last read on */
	p.lists.floor_ns = -50 * (int64_t) MS;
	p.lists.urgent = 4; /* 80 ms */
	assert_int_equal(read_budget_period(&p, LISTS), 800 * MS);
}

/* What is reported to doctor, by group. */
struct schedules {
	struct gpu_schedule of[GROUPS];
	unsigned n;
};

static void take_schedule(void *ctx, const struct gpu_schedule *s)
{
	struct schedules *planned = ctx;

	assert_true(planned->n < GROUPS);
	planned->of[planned->n++] = *s;
}

static void take_each(void *ctx, const struct gpu_schedule *s)
{
	struct gpu_schedule **next = ctx;

	*(*next)++ = *s;
}

static struct schedules schedule_of(
	uint64_t memory_ns, uint64_t others_ns, uint64_t list_cpu_ns, uint64_t list_wall_ns)
{
	const struct source_cost costs[GROUPS] = {
		[MEMORY] = { .cpu_ns = memory_ns, .wall_ns = memory_ns, .n = 2 },
		[OTHERS] = { .cpu_ns = others_ns, .wall_ns = others_ns, .n = 2 },
		[LISTS] = { .cpu_ns = list_cpu_ns, .wall_ns = list_wall_ns, .n = 1 },
	};
	struct schedules planned = { .n = 0 };

	gpu_schedule(&(struct gpu_tried) { "made up", &ops, costs }, 1, 100 * MS, take_schedule, &planned);
	assert_int_equal(planned.n, GROUPS);
	return planned;
}

/* The schedule of the groups, adjusted to their costs. */
static void the_schedule_is_reported(void **state)
{
	struct schedules p = schedule_of(12 * US, 50 * US, 100 * US, 100 * US);

	(void) state;
	for (unsigned g = 0; g < GROUPS; g++) {
		assert_string_equal(p.of[g].group, groups[g].name);
		assert_int_equal(p.of[g].planned_ns, groups[g].period_ns);
		assert_int_equal(p.of[g].lasting_ns, groups[g].period_ns);
		assert_string_equal(p.of[g].why, "");
	}
	assert_int_equal(p.of[LISTS].moving_ns, groups[LISTS].moving_ns);
	assert_int_equal(p.of[MEMORY].moving_ns, 0);
	assert_true(p.of[MEMORY].share_max == 0.005);
}

static void the_schedule_says_what_gives_way_and_why(void **state)
{
	struct schedules p = schedule_of(12 * US, 50 * US, 36 * MS, 36 * MS);

	(void) state; /* 0.5 % of a core less 0.022 % leaves 4.78 ms per second */
	assert_int_equal(p.of[MEMORY].lasting_ns, 100 * MS);
	assert_in_range(p.of[LISTS].lasting_ns, 7500 * MS, 7560 * MS);
	assert_string_equal(p.of[LISTS].why,
		"all reads together may use 0.5 % of a core; lists of processes use the remainder");
	p = schedule_of(12 * US, 50 * US, 10 * US, 40 * MS);
	assert_int_equal(p.of[LISTS].lasting_ns, 2 * SECOND);
	assert_string_equal(p.of[LISTS].why,
		"lists of processes may lock the driver, and delay the job, for 2 % of the time");
	p = schedule_of(12 * US, 5 * MS, 10 * US, 10 * US);
	/* 5 ms of three quarters of 0.488 % */
	assert_in_range(p.of[OTHERS].lasting_ns, 1360 * MS, 1370 * MS);
	assert_string_equal(p.of[OTHERS].why, "all reads together may use 0.5 % of a core");
	assert_int_equal(p.of[MEMORY].lasting_ns, 100 * MS);
}

/* The same reads of eight GPUs. */
static void the_schedule_of_many_devices(void **state)
{
	const struct source_cost costs[GROUPS] = {
		[MEMORY] = { .cpu_ns = 1500 * US, .wall_ns = 1500 * US, .n = 2, .devices = 8 },
		[OTHERS] = { .cpu_ns = 5 * MS, .wall_ns = 5 * MS, .n = 2, .devices = 8 },
		[LISTS] = { .cpu_ns = 36 * MS, .wall_ns = 36 * MS, .n = 1, .devices = 8 },
	};
	struct schedules planned = { .n = 0 };

	(void) state;
	gpu_schedule(&(struct gpu_tried) { "made up", &ops, costs }, 1, 100 * MS, take_schedule, &planned);
	assert_true(planned.of[MEMORY].share_max == 0.02);
	assert_int_equal(planned.of[MEMORY].lasting_ns, 100 * MS); /* 1.5 %: three quarters */
	assert_in_range(planned.of[OTHERS].lasting_ns, 1330 * MS, 1340 * MS); /* three quarters of 0.5 % */
	assert_in_range(planned.of[LISTS].lasting_ns, 28700 * MS, 28900 * MS); /* 36 ms of 0.125 % */
	assert_string_equal(planned.of[OTHERS].why, "all reads together may use 2 % of a core");
}

/* Cheap lists as at any time, others as rarely as their cost requires, and none more often than its
 * sustained period. */
static void the_schedule_has_resting_lists(void **state)
{
	(void) state;
	assert_int_equal(schedule_of(12 * US, 50 * US, 100 * US, 100 * US).of[LISTS].idle_period_ns, 0);
	/* 5 ms of half of 0.478 % */
	assert_in_range(
		schedule_of(12 * US, 50 * US, 5 * MS, 2 * MS).of[LISTS].idle_period_ns, 2080 * MS, 2100 * MS);
	assert_int_equal(schedule_of(12 * US, 50 * US, 10 * US, 40 * MS).of[LISTS].idle_period_ns,
		groups[LISTS].idle_ns);
	assert_int_equal(schedule_of(12 * US, 50 * US, 36 * MS, 36 * MS).of[LISTS].idle_period_ns, 0);
	assert_int_equal(schedule_of(12 * US, 5 * MS, 2 * MS, 2 * MS).of[OTHERS].idle_period_ns, 0);
}

/* Another source that uses the whole limit leaves each its part. */
static void the_schedule_is_of_all_sources(void **state)
{
	const struct source_cost dear[GROUPS] = { [MEMORY] = { .cpu_ns = 10 * MS, .wall_ns = 10 * MS, .n = 2 } },
				 cheap[GROUPS] = { [MEMORY] = { .cpu_ns = 300 * US, .wall_ns = 300 * US, .n = 2 } };
	const struct gpu_tried tried[] = { { "made up", &ops, cheap }, { "made up", &ops, dear } };
	struct gpu_schedule reported[2 * GROUPS];
	struct gpu_schedule *next = reported;

	(void) state;
	gpu_schedule(tried, 2, 100 * MS, take_each, &next);
	assert_ptr_equal(next, reported + 2 * GROUPS);
	/* 0.3 % of three quarters of 0.25 % */
	assert_in_range(reported[MEMORY].lasting_ns, 159 * MS, 161 * MS);
	assert_string_equal(reported[MEMORY].why, "all reads together may use 0.5 % of a core");
	assert_int_equal(reported[OTHERS].cost.n, 0);
}

/* A list that hung for half a minute once is not expected to take that long again. */
static void one_slow_list_does_not_stop_reads(void **state)
{
	(void) state;
	struct played p = begun(0, 0, 0, 0);

	read_budget_spend(&p.budget, LISTS, SECOND, 10 * US, 30 * SECOND);
	assert_true(read_budget_period(&p.budget, LISTS) <= 10 * SECOND);
	read_budget_spend(&p.budget, LISTS, 11 * SECOND, 10 * US, 10 * US);
	assert_true(read_budget_period(&p.budget, LISTS) <= SECOND);
}

/* A longer interval applies from then on, and so does a shorter one; learned costs stay. */
static void the_interval_may_change(void **state)
{
	struct played p = begun(10 * US, 20 * US, 100 * US, 1);

	(void) state;
	play(&p, SECOND, 11 * SECOND);
	const uint64_t learned = p.budget.groups[MEMORY].cpu_ns;

	read_budget_set_interval(&p.budget, &ops, 10 * SECOND);
	forget(&p);
	play(&p, 11 * SECOND, 111 * SECOND);
	assert_in_range(p.reads[MEMORY], 9, 12);
	assert_in_range(p.reads[OTHERS], 9, 12);
	assert_in_range(p.budget.groups[MEMORY].cpu_ns, learned - US, learned + US);
	read_budget_set_interval(&p.budget, &ops, 100 * MS);
	forget(&p);
	play(&p, 111 * SECOND, 121 * SECOND);
	assert_in_range(p.reads[MEMORY], 95, 101);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(planned_periods_are_kept),
		cmocka_unit_test(lists_give_way_first),
		cmocka_unit_test(memory_gives_way_last),
		cmocka_unit_test(sources_share),
		cmocka_unit_test(the_limit_grows_with_devices),
		cmocka_unit_test(eight_devices_use_no_more),
		cmocka_unit_test(the_second_of_a_pair_follows_soon),
		cmocka_unit_test(lists_stay_valid_until_the_next),
		cmocka_unit_test(urgent_lists_use_a_debt),
		cmocka_unit_test(an_urgent_list_waits_for_its_own_cost),
		cmocka_unit_test(an_urgent_list_does_not_list_others),
		cmocka_unit_test(other_lists_wait_for_all),
		cmocka_unit_test(one_slow_list_does_not_stop_reads),
		cmocka_unit_test(the_schedule_is_reported),
		cmocka_unit_test(the_schedule_says_what_gives_way_and_why),
		cmocka_unit_test(the_schedule_of_many_devices),
		cmocka_unit_test(the_schedule_has_resting_lists),
		cmocka_unit_test(the_schedule_is_of_all_sources),
		cmocka_unit_test(the_interval_may_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
