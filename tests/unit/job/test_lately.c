/* SPDX-License-Identifier: MIT
 *
 * What went between two looks was there beside what came: one gives way to another, and nobody knows whether they met.
 */
#include "job_rig.h"

/* One fills until it ends, between two looks, while the other fills and stays: its record comes now, or looks later. */
static void one_ends_while_another_grows(struct rig *r, bool late)
{
	born(r, 1, 0, 77);
	rss(r, 1, 10 * MB, 0);
	tick(r);
	born(r, 2, 1, 78);
	rss(r, 2, 100 * MB, 0);
	born(r, 3, 1, 79);
	rss(r, 3, 100 * MB, 0);
	tick(r);
	rss(r, 3, 500 * MB, 0);
	push(r);
	if (late) {
		gone(r, 2);
		tick(r);
		rss(r, 3, 50 * MB, 0);
		tick(r);
	}
	ended_with(r, 2, 500 * MB);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 1010 * MB);
	assert_int_equal(most(r, M_JOB_RAM_REST_HIGH), 1000 * MB);
	assert_true(most(r, M_JOB_RAM) < 1010 * MB);
}

static void test_one_ends_while_another_grows(void **state)
{
	one_ends_while_another_grows(*state, false);
}

static void test_one_ends_while_another_grows_and_tells_late(void **state)
{
	one_ends_while_another_grows(*state, true);
}

/* One gives way to the next between two looks: nobody knows that it had gone when the next one filled. */
static void test_one_ends_where_the_next_one_begins(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, 10 * MB, 0);
	tick(r);
	born(r, 2, 1, 78);
	rss(r, 2, 100 * MB, 20 * MB);
	tick(r);
	gone(r, 2);
	born(r, 3, 1, 79);
	rss(r, 3, 100 * MB, 20 * MB);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 250 * MB);
	rss(r, 3, 10 * MB, 20 * MB);
	tick(r);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 250 * MB);
}

/* Main has 10 MB, the first child as much as is told. */
static void first_holds(struct rig *r, uint64_t startstack, int64_t anon, int64_t file)
{
	born(r, 1, 0, 77);
	rss(r, 1, 10 * MB, 0);
	tick(r);
	born(r, 2, 1, startstack);
	rss(r, 2, anon, file);
	tick(r);
}

/* The other, no relative, is born and holds 300 MB. */
static void other_holds(struct rig *r)
{
	born(r, 3, 1, 79);
	rss(r, 3, 300 * MB, 0);
	tick(r);
}

static void test_files_went_too(void **state)
{
	struct rig *r = *state;

	first_holds(r, 78, MB, 300 * MB);
	ended_with(r, 2, 301 * MB);
	other_holds(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 611 * MB);
	assert_int_equal(most(r, M_JOB_RAM_REST_HIGH), 601 * MB);
	assert_int_equal(most(r, M_JOB_RAM), 311 * MB);
}

/* Two that map the same file. */
static void test_a_file_of_several_went_once(void **state)
{
	struct rig *r = *state;

	first_holds(r, 78, MB, 300 * MB);
	born(r, 4, 1, 80);
	rss(r, 4, MB, 300 * MB);
	push(r);
	job_files_done(r->job, 300 * MB);
	tick(r);
	gone(r, 2);
	gone(r, 4);
	rss(r, 3, 0, 0);
	push(r);
	job_files_done(r->job, 0);
	other_holds(r);
	assert_int_equal(last(r, M_JOB_RAM_HIGH), 310 * MB);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 612 * MB);
}

/* Three map the same file, main and its two forks; one ends, and those that live may have mapped another in its place. */
static void one_of_three_ends(struct rig *r, int64_t faults_of_main)
{
	born(r, 1, 0, 77);
	rss(r, 1, MB, 300 * MB);
	faults(r, 1, 5000);
	tick(r);
	for (uint32_t id = 2; id <= 3; id++) {
		born(r, id, 1, 77);
		rss(r, id, MB, 300 * MB);
		faults(r, id, 4700);
	}
	push(r);
	job_files_done(r->job, 300 * MB);
	for (int i = 0; i < 3; i++) {
		faults(r, 1, 5000);
		faults(r, 2, 4700);
		faults(r, 3, 4700);
		tick(r);
	}
	assert_within(most(r, M_JOB_RAM_HIGH), 301 * MB, 304 * MB);
	ended_with_faults(r, 2, 301 * MB, 4702);
	rss(r, 1, MB, 300 * MB);
	rss(r, 3, MB, 300 * MB);
	faults(r, 1, 5000 + faults_of_main);
	faults(r, 3, 4700);
	tick(r);
}

static void test_a_file_that_others_map_still_did_not_go(void **state)
{
	struct rig *r = *state;

	one_of_three_ends(r, 1);
	assert_within(most(r, M_JOB_RAM_HIGH), 301 * MB, 320 * MB);
}

static void test_a_file_may_have_gone_where_another_was_mapped(void **state)
{
	struct rig *r = *state;

	one_of_three_ends(r, 5000);
	assert_true(most(r, M_JOB_RAM_HIGH) >= 600 * MB);
}

static void test_what_an_exec_dropped_went(void **state)
{
	struct rig *r = *state;

	first_holds(r, 78, 300 * MB, 0);
	born(r, 2, 1, 80);
	rss(r, 2, MB, MB);
	other_holds(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 612 * MB);
	assert_int_equal(most(r, M_JOB_RAM), 312 * MB);
}

/* Main's memory was read, then both went on, and one ended before its own was read: it was there beside what the next look finds. */
static void test_who_ended_during_the_look_went_after_it(void **state)
{
	struct rig *r = *state;

	first_holds(r, 78, 150 * MB, 0);
	rss(r, 1, 125 * MB, 0);
	gone(r, 2);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 275 * MB);
	rss(r, 1, 150 * MB, 0);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 300 * MB);
	rss(r, 1, 200 * MB, 0);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 300 * MB);
}

/* By then it had grown again: what it held of the old program is no part of that. */
static void test_what_an_exec_dropped_went_though_the_next_program_is_as_large(void **state)
{
	struct rig *r = *state;

	first_holds(r, 78, 300 * MB, 0);
	born(r, 2, 1, 80);
	rss(r, 2, 300 * MB, 0);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 610 * MB);
}

/* The look had read its memory when it found out: of the old program, which is told of once. */
static void test_what_an_exec_dropped_did_not_go_before_it_was_read(void **state)
{
	struct rig *r = *state;

	first_holds(r, 78, 300 * MB, 0);
	rss(r, 2, 300 * MB, 0);
	push(r);
	born(r, 2, 1, 80);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 310 * MB);
}

static void test_what_is_given_back_went(void **state)
{
	struct rig *r = *state;

	first_holds(r, 78, 300 * MB, 0);
	rss(r, 2, MB, 0);
	other_holds(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 610 * MB);
	assert_int_equal(most(r, M_JOB_RAM_REST_HIGH), 600 * MB);
	assert_int_equal(most(r, M_JOB_RAM), 311 * MB);
}

/* Its mark, read two looks later, rose at any time since: also while the other was there. */
static void test_a_mark_may_have_risen_beside_what_went(void **state)
{
	struct rig *r = *state;

	first_holds(r, 78, 300 * MB, 0);
	rss(r, 1, 10 * MB, 0);
	rss(r, 2, MB, 0);
	other_holds(r);
	tick(r);
	say(r, M_PROC_HWM, 1, 60 * MB);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 660 * MB);
}

/* Who goes up and down alone held no more than at its top. */
static void test_who_is_alone_gives_way_to_nobody(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	for (int i = 0; i < 10; i++) {
		rss(r, 1, i % 2 ? 300 * MB : 100 * MB, 0);
		tick(r);
		assert_int_equal(last(r, M_JOB_RAM_HIGH), i % 2 ? 300 * MB : 100 * MB);
	}
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 300 * MB);
}

/* A fork that was given 9 MB fills 400 in huge pages: its faults are few, the pages that the machine gave out are not. */
static void test_huge_pages_of_a_fork_went_too(void **state)
{
	struct rig *r = *state;

	huge_pages(r, 1000);
	first_holds(r, 77, 9 * MB, 0);
	for (int i = 0; i < 3; i++) {
		rss(r, 1, 10 * MB, 0);
		rss(r, 2, 409 * MB, 0);
		push(r);
		faults(r, 1, 2560);
		faults(r, 2, 250 + i);
		huge_pages(r, 1200);
		tick(r);
	}
	ended_with_faults(r, 2, 409 * MB, 253);
	rss(r, 1, 10 * MB, 0);
	other_holds(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 709 * MB, 730 * MB);
}

/* Eight forks of 300 MB end one after the other, and each time a stranger is born: what they shared is there still. */
static void forks_end(struct rig *r, bool is_main_last)
{
	born(r, 1, 0, 77);
	rss(r, 1, MB, 0);
	tick(r);
	for (uint32_t id = 2; id <= 9; id++)
		born(r, id, 1, 77);
	for (uint32_t first = 2; first <= 9; first++) {
		rss(r, 1, is_main_last ? 300 * MB : MB, 0);
		for (uint32_t id = first; id <= 9; id++)
			rss(r, id, 300 * MB, 0);
		push(r);
		faults(r, 1, FILL);
		for (uint32_t id = first; id <= 9; id++)
			faults(r, id, 20);
		tick(r);
		gone(r, first);
	}
}

static void test_what_forks_share_stays(void **state)
{
	struct rig *r = *state;

	forks_end(r, true);
	assert_within(most(r, M_JOB_RAM_HIGH), 300 * MB, 305 * MB);
}

/* When all forks end at once only faults tell that what they shared is there still. */
static void test_faults_are_needed_where_forks_end(void **state)
{
	struct rig *r = *state;

	for (uint32_t id = 1; id <= 4; id++)
		born(r, id, id > 1, 77);
	for (uint32_t id = 1; id <= 4; id++)
		rss(r, id, 300 * MB, 0);
	push(r);
	for (uint32_t id = 1; id <= 4; id++)
		faults(r, id, id > 1 ? 20 : FILL);
	tick(r);
	for (uint32_t id = 2; id <= 4; id++)
		ended_with_faults(r, id, 300 * MB, 20);
	rss(r, 1, 300 * MB, 0);
	push(r);
	assert_int_equal(job_needs(r->job) & NEED_FAULTS, NEED_FAULTS);
	faults(r, 1, FILL);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 300 * MB, 305 * MB);
}

/* What only they held goes with the last of them, whoever brought it. */
static void test_what_forks_were_given_goes_with_the_last(void **state)
{
	struct rig *r = *state;

	forks_end(r, false);
	rss(r, 1, MB, 0);
	push(r);
	faults(r, 1, FILL);
	born(r, 10, 1, 99);
	rss(r, 10, 300 * MB, 0);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 600 * MB, 610 * MB);
}

/* A pool: at each look one worker is new, one has filled 20 MB of its own, and one has ended. */
static void test_workers_that_come_and_go_take_theirs_along(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, 200 * MB, 0);
	push(r);
	faults(r, 1, 200 * MB / PAGE);
	tick(r);
	for (uint32_t id = 2; id < 40; id++) {
		born(r, id, 1, 77);
		if (id > 3)
			ended_with_faults(r, id - 2, 220 * MB, 20 * MB / PAGE);
		rss(r, 1, 200 * MB, 0);
		rss(r, id, 200 * MB, 0);
		if (id > 2)
			rss(r, id - 1, 220 * MB, 0);
		push(r);
		faults(r, 1, 200 * MB / PAGE + id);
		faults(r, id, 10);
		if (id > 2)
			faults(r, id - 1, 20 * MB / PAGE);
		tick(r);
	}
	assert_within(most(r, M_JOB_RAM_HIGH), 220 * MB, 265 * MB);
}

/* Main fills 100 MB more when its memory was looked at and its faults were not, and only then its child lets go of its 100: all that main
 * brought is among the faults of the look before, none of it in what that one found. */
static void test_what_came_before_faults_were_read_was_beside_what_went(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, MB, 0);
	tick(r);
	born(r, 2, 1, 77);
	for (int i = 0; i < 4; i++) {
		rss(r, 1, i < 3 ? 100 * MB : 200 * MB, 0);
		rss(r, 2, i < 3 ? 100 * MB : 0, 0);
		push(r);
		faults(r, 1, (i < 2 ? 100 : 200) * MB / PAGE);
		faults(r, 2, 100 * MB / PAGE);
		tick(r);
	}
	assert_within(most(r, M_JOB_RAM_HIGH), 300 * MB, 305 * MB);
}

/* Main forks a child that the next look misses, and gives back what that one holds still: what it found was no bound of what there was
 * when the other child let go of its 100 MB. */
static void test_what_a_child_held_that_a_look_missed_was_beside_what_went(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, MB, 0);
	push(r);
	faults(r, 1, MB / PAGE);
	tick(r);
	born(r, 2, 1, 77);
	for (int i = 0; i < 4; i++) {
		if (i == 3)
			born_of(r, 3, 1, 77, BOOT + r->now - 150 * MS);
		rss(r, 1, i < 2 ? 300 * MB : 0, 0);
		rss(r, 2, i < 3 ? 100 * MB : 0, 0);
		if (i == 3)
			rss(r, 3, 300 * MB, 0);
		push(r);
		faults(r, 1, FILL);
		faults(r, 2, 100 * MB / PAGE);
		if (i == 3)
			faults(r, 3, 20);
		tick(r);
	}
	assert_within(most(r, M_JOB_RAM_REST_HIGH), 400 * MB, 405 * MB);
}

/* Main has 300 MB, and a child that it forks writes them all anew and has given that back at its first look. */
static void fork_copies_before_its_first_look(struct rig *r, void (*meanwhile)(struct rig *r))
{
	born(r, 1, 0, 77);
	rss(r, 1, MB, 0);
	push(r);
	faults(r, 1, MB / PAGE);
	tick(r);
	born(r, 2, 1, 78);
	rss(r, 2, 400 * MB, 0);
	rss(r, 1, 300 * MB, 0);
	push(r);
	faults(r, 1, FILL);
	tick(r);
	born(r, 3, 1, 77);
	rss(r, 3, MB, 0);
	rss(r, 1, 300 * MB, 0);
	meanwhile(r);
	push(r);
	faults(r, 1, FILL);
	faults(r, 3, FILL);
	tick(r);
}

static void one_gives_way(struct rig *r)
{
	gone(r, 2);
	born(r, 4, 1, 79);
	rss(r, 4, 400 * MB, 0);
}

static void test_a_copy_before_a_first_look_was_beside_what_went(void **state)
{
	struct rig *r = *state;

	fork_copies_before_its_first_look(r, one_gives_way);
	assert_within(most(r, M_JOB_RAM_HIGH), 1400 * MB, 1405 * MB);
	assert_within(most(r, M_JOB_RAM_REST_HIGH), 1100 * MB, 1105 * MB);
}

static void one_is_missed(struct rig *r)
{
	rss(r, 2, 400 * MB, 0);
	born(r, 4, 1, 79);
	ended_with_faults(r, 4, 400 * MB, 400 * MB / PAGE);
}

static void test_a_copy_before_a_first_look_was_beside_one_that_no_look_found(void **state)
{
	struct rig *r = *state;

	fork_copies_before_its_first_look(r, one_is_missed);
	assert_within(most(r, M_JOB_RAM_HIGH), 1400 * MB, 1405 * MB);
	assert_within(most(r, M_JOB_RAM_REST_HIGH), 1100 * MB, 1105 * MB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_one_ends_while_another_grows),
		RIG_TEST(test_one_ends_while_another_grows_and_tells_late),
		RIG_TEST(test_one_ends_where_the_next_one_begins),
		RIG_TEST(test_files_went_too),
		RIG_TEST(test_a_file_of_several_went_once),
		RIG_TEST(test_a_file_that_others_map_still_did_not_go),
		RIG_TEST(test_a_file_may_have_gone_where_another_was_mapped),
		RIG_TEST(test_who_ended_during_the_look_went_after_it),
		RIG_TEST(test_what_an_exec_dropped_went),
		RIG_TEST(test_what_an_exec_dropped_did_not_go_before_it_was_read),
		RIG_TEST(test_what_an_exec_dropped_went_though_the_next_program_is_as_large),
		RIG_TEST(test_what_is_given_back_went),
		RIG_TEST(test_a_mark_may_have_risen_beside_what_went),
		RIG_TEST(test_who_is_alone_gives_way_to_nobody),
		HUGE_RIG_TEST(test_huge_pages_of_a_fork_went_too),
		RIG_TEST(test_what_forks_share_stays),
		RIG_TEST(test_faults_are_needed_where_forks_end),
		RIG_TEST(test_what_forks_were_given_goes_with_the_last),
		RIG_TEST(test_workers_that_come_and_go_take_theirs_along),
		RIG_TEST(test_what_came_before_faults_were_read_was_beside_what_went),
		RIG_TEST(test_what_a_child_held_that_a_look_missed_was_beside_what_went),
		RIG_TEST(test_a_copy_before_a_first_look_was_beside_what_went),
		RIG_TEST(test_a_copy_before_a_first_look_was_beside_one_that_no_look_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
