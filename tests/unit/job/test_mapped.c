/* SPDX-License-Identifier: MIT
 *
 * Faults that map files and shared memory do not copy pages inherited by a fork: the estimate for a
 * family.
 */
#include "job_rig.h"

enum {
	CHILDREN = 4
};

/* A main process with some private and some shared memory, and children that it forks when it
 * has both. */
static void parent(struct rig *r, int64_t anon, int64_t shared)
{
	born(r, 1, 0, 10);
	rss(r, 1, 0, 0);
	push(r);
	faults(r, 1, 0);
	tick(r);
	rss(r, 1, anon, shared);
	push(r);
	faults(r, 1, (anon + shared) / PAGE);
	tick(r);
}

static void children(struct rig *r)
{
	for (uint32_t id = 2; id < 2 + CHILDREN; id++)
		born(r, id, 1, 10);
}

/* 200 MB of each kind. */
static void parent_and_children(struct rig *r)
{
	parent(r, 200 * MB, 200 * MB);
	children(r);
}

static void each(struct rig *r, int64_t anon, int64_t shared)
{
	for (uint32_t id = 2; id < 2 + CHILDREN; id++)
		rss(r, id, anon, shared);
}

static void each_faults(struct rig *r, int64_t minor)
{
	for (uint32_t id = 2; id < 2 + CHILDREN; id++)
		faults(r, id, minor);
}

static void look(
	struct rig *r, int64_t main_anon, int64_t main_shared, int64_t anon, int64_t shared, int64_t minor)
{
	rss(r, 1, main_anon, main_shared);
	each(r, anon, shared);
	push(r);
	faults(r, 1, (main_anon + main_shared) / PAGE);
	each_faults(r, minor);
	job_files_done(r->job, (uint64_t) main_shared, (uint64_t) main_shared);
	tick(r);
}

static void test_writing_what_is_shared_copies_nothing(void **state)
{
	struct rig *r = *state;

	parent_and_children(r);
	look(r, 200 * MB, 200 * MB, 200 * MB, 80 * MB, 80 * MB / PAGE);
	look(r, 200 * MB, 200 * MB, 200 * MB, 200 * MB, 200 * MB / PAGE);
	look(r, 200 * MB, 200 * MB, 200 * MB, 200 * MB, 200 * MB / PAGE);
	assert_within(most(r, M_JOB_RAM), 400 * MB, 404 * MB);
	/* They may have copied their private pages, and mapped shared ones with fewer faults. */
	assert_true(last(r, M_JOB_RAM_HIGH) >= 400 * MB + CHILDREN * 200 * MB);
}

static void test_reading_what_is_shared_copies_nothing(void **state)
{
	struct rig *r = *state;

	parent_and_children(r);
	look(r, 200 * MB, 200 * MB, 200 * MB, 200 * MB, 200 * MB / (16 * PAGE));
	assert_within(most(r, M_JOB_RAM), 400 * MB, 402 * MB);
}

static void test_copies_are_reported_by_the_next_sample_at_the_latest(void **state)
{
	struct rig *r = *state;

	parent_and_children(r);
	look(r, 200 * MB, 200 * MB, 200 * MB, 10 * MB, 150 * MB / PAGE);
	look(r, 200 * MB, 200 * MB, 200 * MB, 10 * MB, 150 * MB / PAGE);
	assert_within(last(r, M_JOB_RAM), 400 * MB + CHILDREN * 138 * MB, 400 * MB + CHILDREN * 150 * MB);
}

static void test_who_maps_nothing_copies(void **state)
{
	struct rig *r = *state;

	parent_and_children(r);
	look(r, 200 * MB, 200 * MB, 200 * MB, 0, 150 * MB / PAGE);
	assert_int_equal(last(r, M_JOB_RAM), 400 * MB + CHILDREN * 150 * MB);
}

/* Memory that main filled is its own, even if it maps much more with few faults. */
static void test_what_was_filled_is_not_what_was_mapped(void **state)
{
	struct rig *r = *state;

	parent(r, 200 * MB, 0);
	rss(r, 1, 200 * MB, 200 * MB);
	push(r);
	faults(r, 1, (200 * MB + 200 * MB / 16) / PAGE);
	tick(r);
	children(r);
	rss(r, 1, 200 * MB, 200 * MB);
	each(r, 200 * MB, 0);
	push(r);
	faults(r, 1, (200 * MB + 200 * MB / 16) / PAGE);
	each_faults(r, 100 * MB / PAGE);
	tick(r);
	assert_within(
		last(r, M_JOB_RAM), 400 * MB + CHILDREN * 100 * MB, 400 * MB + CHILDREN * 100 * MB + MB);
}

static void test_who_ends_takes_with_it_what_it_mapped(void **state)
{
	struct rig *r = *state;

	parent_and_children(r);
	look(r, 200 * MB, 200 * MB, 200 * MB, 200 * MB, 200 * MB / PAGE);
	look(r, 200 * MB, 200 * MB, 200 * MB, 200 * MB, 200 * MB / PAGE);
	for (uint32_t id = 2; id < 1 + CHILDREN; id++)
		gone(r, id);
	/* The last one copies its inherited pages. */
	rss(r, 1, 200 * MB, 200 * MB);
	rss(r, 1 + CHILDREN, 200 * MB, 200 * MB);
	push(r);
	faults(r, 1, 400 * MB / PAGE);
	faults(r, 1 + CHILDREN, 350 * MB / PAGE);
	tick(r);
	assert_within(last(r, M_JOB_RAM), 550 * MB, 551 * MB);
}

static void test_main_is_none_of_the_others(void **state)
{
	struct rig *r = *state;

	parent_and_children(r);
	look(r, 200 * MB, 200 * MB, 200 * MB, 200 * MB, 200 * MB / PAGE);
	for (int i = 0; i < 3; i++)
		look(r, 200 * MB, 200 * MB, 200 * MB, 200 * MB, 200 * MB / PAGE);
	look(r, 250 * MB, 300 * MB, 200 * MB, 200 * MB, 200 * MB / PAGE);
	assert_within(last(r, M_JOB_RAM), 550 * MB, 554 * MB);
	assert_within(last(r, M_JOB_RAM_DESCENDANTS), 500 * MB, 504 * MB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_writing_what_is_shared_copies_nothing),
		RIG_TEST(test_reading_what_is_shared_copies_nothing),
		RIG_TEST(test_copies_are_reported_by_the_next_sample_at_the_latest),
		RIG_TEST(test_who_maps_nothing_copies),
		RIG_TEST(test_what_was_filled_is_not_what_was_mapped),
		RIG_TEST(test_who_ends_takes_with_it_what_it_mapped),
		RIG_TEST(test_main_is_none_of_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
