/* SPDX-License-Identifier: MIT
 *
 * Copies of what is shared, which make nobody larger: main holds 300 MB and forks a child, one of them writes them all anew
 * and has them no more at the next look. Both had 300 MB, so 600 MB were there.
 */
#include "job_rig.h"

/* ---- what happens in most stories ------------------------------------------------------------------------------------- */

static void main_is_small(struct rig *r)
{
	born(r, 1, 0, 77);
	rss(r, 1, MB / 2, MB / 2);
	push(r);
	faults(r, 1, 128);
	tick(r);
}

/* As it stays: its memory, and in the frame after it the faults that it took to fill it. */
static void main_has_filled(struct rig *r)
{
	rss(r, 1, 300 * MB + MB / 2, MB / 2);
	push(r);
	faults(r, 1, FILL + 128);
}

static void main_and_one_child(struct rig *r)
{
	main_is_small(r);
	born(r, 2, 1, 77);
	rss(r, 2, 300 * MB, MB / 2);
	main_has_filled(r);
	faults(r, 2, 20);
	tick(r);
}

static void main_alone(struct rig *r)
{
	born(r, 1, 0, 77);
	main_has_filled(r);
	tick(r);
}

static void both_are_looked_at(struct rig *r)
{
	rss(r, 1, 300 * MB + MB / 2, MB / 2);
	rss(r, 2, MB / 4, MB / 2);
}

/* The child is found when it has given back what it was given; its faults were read before its memory. */
static void child_found_small(struct rig *r, int64_t minor)
{
	born(r, 2, 1, 77);
	faults(r, 1, FILL + 128);
	faults(r, 2, minor);
	push(r);
	both_are_looked_at(r);
}

static void child_gives_back(struct rig *r, int64_t minor)
{
	both_are_looked_at(r);
	push(r);
	faults(r, 1, FILL + 128);
	faults(r, 2, minor);
	tick(r);
}

static void copied_and_ended(struct rig *r, uint32_t id)
{
	ended_with_faults(r, id, 300 * MB + MB / 2, FILL + 20);
}

static void assert_were_twice_there(struct rig *r)
{
	assert_within(most(r, M_JOB_RAM_HIGH), 599 * MB, 603 * MB);
}

static void assert_are_once_there(struct rig *r)
{
	assert_within(last(r, M_JOB_RAM_HIGH), 300 * MB, 303 * MB);
}

static void assert_were_once_there(struct rig *r)
{
	assert_within(most(r, M_JOB_RAM_HIGH), 300 * MB, 303 * MB);
}

/* ---- who copies and ends ------------------------------------------------------------------------------------------------ */

static void test_a_child_that_copies_and_ends(void **state)
{
	struct rig *r = *state;

	main_and_one_child(r);
	assert_were_once_there(r);
	copied_and_ended(r, 2);
	main_has_filled(r);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 600 * MB, 603 * MB);
	assert_within(most(r, M_JOB_RAM), 598 * MB, 603 * MB);
	assert_within(most(r, M_JOB_RAM_REST_HIGH), 600 * MB, 603 * MB); /* they may have held the old pages, too */
	assert_int_equal(most(r, M_JOB_RAM_LOW), 301 * MB);
	assert_within(last(r, M_JOB_RAM_HIGH), 300 * MB, 302 * MB);
}

/* Its record comes later than its end was seen. */
static void test_a_child_that_copies_and_whose_record_is_late(void **state)
{
	struct rig *r = *state;

	main_and_one_child(r);
	gone(r, 2);
	tick(r);
	copied_and_ended(r, 2);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 600 * MB, 603 * MB);
}

/* Main writes anew what its child holds, and its last faults are told after its end was seen, with those of another child. */
static void test_a_main_that_copies_and_is_waited_for_later(void **state)
{
	struct rig *r = *state;

	main_and_one_child(r);
	rss(r, 2, 300 * MB, MB / 2);
	main_has_filled(r);
	say(r, M_PROC_FAULTS_WAITED, 1, 16);
	faults(r, 2, 20);
	tick(r);
	gone(r, 1);
	rss(r, 2, 300 * MB, MB / 2);
	push(r);
	faults(r, 2, 20);
	tick(r);
	job_facts(r->job)->main_zombie_cminflt = known(16);
	framebuf_end(&r->buf, &(struct end) {
				      .entity = ENTITY_PROCESS,
				      .id = 1,
				      .how = END_REAPED,
				      .faults_minor = known(2 * FILL + 128 + 16),
			      });
	tick(r);
	assert_were_twice_there(r);
}

/* Nobody is left when main's counters tell what the child brought, whose record has its mark alone. */
static void test_a_child_whose_faults_are_told_when_all_have_ended(void **state)
{
	struct rig *r = *state;

	main_and_one_child(r);
	ended_with(r, 2, 300 * MB + MB / 2);
	gone(r, 1);
	push(r);
	job_facts(r->job)->main_zombie_cminflt = known(FILL + 20);
	framebuf_end(&r->buf, &(struct end) {
				      .entity = ENTITY_PROCESS,
				      .id = 1,
				      .how = END_REAPED,
				      .faults_minor = known(2 * FILL + 128 + 20),
			      });
	tick(r);
	assert_were_twice_there(r);
}

/* A child that copied 20 MB is seen to have ended when main has been waited for, with what it had waited for itself. */
static void test_what_main_waited_for_is_not_copied_again(void **state)
{
	struct rig *r = *state;
	const int64_t copied = 20 * MB / PAGE;

	main_and_one_child(r);
	rss(r, 2, 300 * MB, MB / 2);
	main_has_filled(r);
	faults(r, 2, copied);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 320 * MB, 323 * MB);
	say(r, M_PROC_FAULTS_WAITED, 1, copied);
	main_reaped(r, 301 * MB, copied, 5, 6);
	gone(r, 2);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 320 * MB, 323 * MB);
}

static void test_one_that_no_look_found_lived_beside_what_the_next_one_finds(void **state)
{
	struct rig *r = *state;

	main_is_small(r);
	born(r, 2, 1, 77);
	copied_and_ended(r, 2);
	main_has_filled(r);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 600 * MB, 603 * MB);
}

/* Its child ended long ago. What its last faults brought, it held inside its mark; but of a child that nobody has seen
 * it may have copied that. */
static void test_a_main_that_was_left_alone_copies_nothing_at_its_end(void **state)
{
	struct rig *r = *state;

	main_and_one_child(r);
	ended_with_faults(r, 2, 300 * MB + MB / 2, 20);
	main_has_filled(r);
	tick(r);
	main_has_filled(r);
	tick(r);
	ended_with_faults(r, 1, 301 * MB, FILL + 128 + 600);
	tick(r);
	assert_within(most(r, M_JOB_RAM), 300 * MB, 301 * MB + MB / 4);
	assert_within(most(r, M_JOB_RAM_HIGH), 301 * MB + 600 * PAGE, 304 * MB);
}

/* ---- who copies and gives the copy back --------------------------------------------------------------------------------- */

static void test_a_child_that_copies_and_gives_back(void **state)
{
	struct rig *r = *state;

	main_and_one_child(r);
	child_gives_back(r, FILL + 20);
	assert_were_twice_there(r);
	assert_within(most(r, M_JOB_RAM), 598 * MB, 603 * MB);
	assert_are_once_there(r);
}

/* What it was given and gave back was never twice there. */
static void test_a_child_that_gives_back_without_a_copy(void **state)
{
	struct rig *r = *state;

	main_and_one_child(r);
	child_gives_back(r, 40);
	assert_were_once_there(r);
}

/* The first look at it finds all it did. */
static void test_a_child_that_copied_and_gave_back_before_its_first_look(void **state)
{
	struct rig *r = *state;

	main_alone(r);
	child_found_small(r, FILL + 20);
	say(r, M_PROC_HWM, 2, 300 * MB + MB);
	tick(r);
	assert_were_twice_there(r);
	assert_within(most(r, M_JOB_RAM), 598 * MB, 603 * MB);
	assert_are_once_there(r);
}

/* It was given 300 MB, gave them back and did little else. */
static void test_a_child_that_only_gave_back_before_its_first_look(void **state)
{
	struct rig *r = *state;

	main_alone(r);
	child_found_small(r, 20);
	say(r, M_PROC_HWM, 2, 300 * MB + MB);
	tick(r);
	assert_were_once_there(r);
}

/* Its faults were read before it copied, its memory after it had given the copy back, and nobody told of its last faults but
 * its parent, which waited for it. */
static void test_a_child_that_copies_and_gives_back_within_its_first_look(void **state)
{
	struct rig *r = *state;

	main_alone(r);
	child_found_small(r, 20);
	say(r, M_PROC_HWM, 2, 300 * MB + MB);
	tick(r);
	gone(r, 2);
	main_has_filled(r);
	say(r, M_PROC_FAULTS_WAITED, 1, FILL + 40);
	tick(r);
	assert_were_twice_there(r);
	assert_are_once_there(r);
}

/* The same of one whose record comes later than its end was seen, with the mark that it was given. */
static void test_a_child_that_copies_and_gives_back_and_whose_record_is_late(void **state)
{
	struct rig *r = *state;

	main_alone(r);
	child_found_small(r, 20);
	tick(r);
	gone(r, 2);
	tick(r);
	copied_and_ended(r, 2);
	tick(r);
	assert_were_twice_there(r);
	assert_are_once_there(r);
}

/* It ends before the total of the only look that found it. */
static void test_a_child_that_copied_and_gave_back_and_ended_untold(void **state)
{
	struct rig *r = *state;

	main_alone(r);
	child_found_small(r, FILL + 20);
	push(r);
	(void) job_needs(r->job); /* which looks at what there is */
	gone(r, 2);
	push(r);
	copied_and_ended(r, 2);
	tick(r);
	assert_were_twice_there(r);
}

/* What it was given it gave back, and then filled as much anew, a part of it after a look, and gave that back, too: its mark is that of
 * what it was given, and was there before. */
static void child_fills_what_it_was_given(struct rig *r)
{
	main_alone(r);
	child_found_small(r, 20);
	tick(r);
	main_has_filled(r);
	rss(r, 2, 200 * MB, MB / 2);
	push(r);
	faults(r, 2, FILL / 3 * 2 + 20);
	tick(r);
	child_gives_back(r, FILL + 20);
}

static void test_a_child_that_fills_what_it_was_given_and_gives_that_back(void **state)
{
	struct rig *r = *state;

	child_fills_what_it_was_given(r);
	assert_were_twice_there(r);
	assert_are_once_there(r);
}

/* When it is seen to have ended, main's faults tell what it can have copied at last beside what there was since its mark was read. */
static void test_faults_are_read_where_an_end_may_hide_copies(void **state)
{
	struct rig *r = *state;

	child_fills_what_it_was_given(r);
	main_has_filled(r);
	faults(r, 2, FILL + 20);
	tick(r);
	gone(r, 2);
	rss(r, 1, 300 * MB + MB / 2, MB / 2);
	push(r);
	assert_true(job_needs(r->job) & NEED_FAULTS);
	faults(r, 1, FILL + 128);
	tick(r);
	assert_were_twice_there(r);
}

/* What is mapped a fork hands on to nobody: the child's faults bring it what its parent has, too. */
static void test_a_child_that_is_about_to_map_what_its_parent_has(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, MB / 2, 300 * MB);
	push(r);
	faults(r, 1, FILL + 128);
	tick(r);
	born(r, 2, 1, 77);
	faults(r, 2, FILL / 16);
	push(r);
	rss(r, 1, MB / 2, 300 * MB);
	rss(r, 2, MB / 4, 200 * MB);
	push(r);
	job_files_done(r->job, 300 * MB);
	tick(r);
	assert_within(most(r, M_JOB_RAM), 300 * MB, 302 * MB);
	assert_were_once_there(r);
}

/* What it fills then is the new program's, though a look found it before it told of its exec. */
static void test_a_child_that_runs_another_program_copied_no_more_than_it_was(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	born(r, 2, 1, 77);
	rss(r, 1, 1 * MB, 0);
	rss(r, 2, 1 * MB, 0);
	push(r);
	faults(r, 1, MB / PAGE);
	faults(r, 2, 10);
	tick(r);
	rss(r, 1, 1 * MB, 0);
	rss(r, 2, 130 * MB, 0);
	push(r);
	born(r, 2, 1, 88);
	push(r);
	faults(r, 1, MB / PAGE);
	faults(r, 2, 10 + 130 * MB / PAGE);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 131 * MB, 133 * MB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_a_child_that_copies_and_ends),
		RIG_TEST(test_a_child_that_copies_and_whose_record_is_late),
		RIG_TEST(test_a_main_that_copies_and_is_waited_for_later),
		RIG_TEST(test_a_child_whose_faults_are_told_when_all_have_ended),
		RIG_TEST(test_what_main_waited_for_is_not_copied_again),
		RIG_TEST(test_a_main_that_was_left_alone_copies_nothing_at_its_end),
		RIG_TEST(test_one_that_no_look_found_lived_beside_what_the_next_one_finds),
		RIG_TEST(test_a_child_that_copies_and_gives_back),
		RIG_TEST(test_a_child_that_gives_back_without_a_copy),
		RIG_TEST(test_a_child_that_copied_and_gave_back_before_its_first_look),
		RIG_TEST(test_a_child_that_only_gave_back_before_its_first_look),
		RIG_TEST(test_a_child_that_copies_and_gives_back_within_its_first_look),
		RIG_TEST(test_a_child_that_copies_and_gives_back_and_whose_record_is_late),
		RIG_TEST(test_a_child_that_copied_and_gave_back_and_ended_untold),
		RIG_TEST(test_a_child_that_fills_what_it_was_given_and_gives_that_back),
		RIG_TEST(test_faults_are_read_where_an_end_may_hide_copies),
		RIG_TEST(test_a_child_that_is_about_to_map_what_its_parent_has),
		RIG_TEST(test_a_child_that_runs_another_program_copied_no_more_than_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
