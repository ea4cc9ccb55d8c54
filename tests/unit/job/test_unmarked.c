/* SPDX-License-Identifier: MIT
 *
 * Marks that nobody reads: a child of 10 MB has 120 MB more between two looks, beside a main of 200 MB, and then ends or runs another
 * program before its mark is read.
 */
#include "job_rig.h"

#define BURST (120 * MB / PAGE) /* faults that bring 120 MB */

static void main_stands(struct rig *r)
{
	rss(r, 1, 200 * MB, 0);
}

static void main_faults(struct rig *r)
{
	faults(r, 1, 200 * MB / PAGE);
}

/* The child as it stands, and the faults that it had until then. */
static void child_stands(struct rig *r, uint32_t id, int64_t anon, int64_t minor)
{
	main_stands(r);
	rss(r, id, anon, 0);
	push(r);
	main_faults(r);
	faults(r, id, minor);
	tick(r);
}

static void main_begins(struct rig *r, bool has_records)
{
	job_facts(r->job)->taskstats = known(has_records);
	job_facts(r->job)->fork_rss_bytes = known(4 * MB);
	job_facts(r->job)->rss_error_bytes = known(0);
	born(r, 1, 0, 77);
	main_stands(r);
	push(r);
	main_faults(r);
	tick(r);
}

static void child_begins(struct rig *r, uint32_t id)
{
	born(r, id, 1, 77 + id);
	child_stands(r, id, 10 * MB, 10 * MB / PAGE);
}

static struct summary main_ends(struct rig *r, int64_t maxrss)
{
	main_reaped(r, maxrss, 10 * MB / PAGE + BURST, 5, 6);
	finish(r);
	return summary_of(r);
}

static void assert_most(struct rig *r, int64_t rest, int64_t more)
{
	struct summary s = main_ends(r, 200 * MB);

	assert_within(s.descendants.high.value, rest, rest + more);
	assert_within(s.combined.high.value, 200 * MB + rest, 200 * MB + rest + more);
	assert_within(s.descendants.low.value, 10 * MB, 12 * MB);
	summary_done(&s);
}

static void test_what_ran_another_program(void **state)
{
	struct rig *r = *state;

	main_begins(r, true);
	child_begins(r, 2);
	born(r, 2, 1, 99);
	child_stands(r, 2, MB, 11 * MB / PAGE + BURST);
	ended_with(r, 2, MB);
	assert_most(r, 130 * MB, 2 * MB);
}

/* Its faults were not read any more before it ended, too: its record has them. */
static void test_what_ran_another_program_and_ended(void **state)
{
	struct rig *r = *state;

	main_begins(r, true);
	child_begins(r, 2);
	born(r, 2, 1, 99);
	push(r);
	ended_with_faults(r, 2, MB, 11 * MB / PAGE + BURST);
	assert_most(r, 130 * MB, 2 * MB);
}

static void ended_as(struct rig *r, uint32_t id, const char *name, int64_t hwm, int64_t minor)
{
	struct end end = { .entity = ENTITY_PROCESS, .id = id, .how = END_TASKSTATS, .hwm_bytes = known(hwm) };

	snprintf(end.name, sizeof(end.name), "%s", name);
	end.faults_minor = known(minor);
	framebuf_end(&r->buf, &end);
}

/* No look found the other program, but its exit record has another name. */
static void test_whose_record_is_another_programs(void **state)
{
	struct rig *r = *state;

	main_begins(r, true);
	child_begins(r, 2);
	gone(r, 2);
	tick(r);
	ended_as(r, 2, "other", MB, 11 * MB / PAGE + BURST);
	assert_most(r, 130 * MB, 2 * MB);
}

static void test_whose_record_is_its_own(void **state)
{
	struct rig *r = *state;

	main_begins(r, true);
	child_begins(r, 2);
	child_stands(r, 2, 10 * MB, 10 * MB / PAGE + BURST);
	ended_with_faults(r, 2, 11 * MB, 11 * MB / PAGE + BURST);
	assert_most(r, 11 * MB, 0);
}

static void test_who_ended_unrecorded(void **state)
{
	struct rig *r = *state;

	main_begins(r, false);
	child_begins(r, 2);
	child_stands(r, 2, 10 * MB, 10 * MB / PAGE + BURST);
	rss(r, 1, 200 * MB, 0);
	rss(r, 2, 10 * MB, 0);
	tick(r);
	gone(r, 2);
	assert_most(r, 130 * MB, 2 * MB);
}

/* Nothing that main waited for was larger than its ru_maxrss. */
static void test_nobody_was_larger_than_the_largest(void **state)
{
	struct rig *r = *state;
	struct summary s;

	job_facts(r->job)->taskstats = known(0);
	main_starts(r);
	born(r, 2, 1, 79);
	rss(r, 2, 10 * MB, 0);
	push(r);
	faults(r, 2, 10 * MB / PAGE);
	tick(r);
	rss(r, 2, 10 * MB, 0);
	push(r);
	faults(r, 2, 10 * MB / PAGE + BURST);
	tick(r);
	rss(r, 2, 10 * MB, 0);
	tick(r);
	gone(r, 2);
	tick(r);
	s = main_ends(r, 14 * MB);
	assert_within(s.descendants.high.value, 14 * MB, 20 * MB);
	summary_done(&s);
}

/* What its mark told is no more than what it was. */
static void test_whose_mark_was_read_meanwhile(void **state)
{
	struct rig *r = *state;

	main_begins(r, false);
	child_begins(r, 2);
	main_stands(r);
	rss(r, 2, 10 * MB, 0);
	push(r);
	main_faults(r);
	faults(r, 2, 10 * MB / PAGE + BURST);
	say(r, M_PROC_HWM, 2, 12 * MB);
	tick(r);
	child_stands(r, 2, 10 * MB, 10 * MB / PAGE + BURST);
	child_stands(r, 2, 10 * MB, 10 * MB / PAGE + BURST);
	gone(r, 2);
	assert_most(r, 12 * MB, 3 * MB);
}

static void runs_another(struct rig *r, uint32_t id)
{
	born(r, id, 1, 99 + id);
	child_stands(r, id, MB, 11 * MB / PAGE + BURST);
	ended_with(r, id, MB);
	tick(r);
}

static void test_one_after_the_other(void **state)
{
	struct rig *r = *state;

	main_begins(r, true);
	child_begins(r, 2);
	runs_another(r, 2);
	child_begins(r, 3);
	runs_another(r, 3);
	assert_most(r, 130 * MB, 2 * MB);
}

static void test_both_at_once(void **state)
{
	struct rig *r = *state;

	main_begins(r, true);
	child_begins(r, 2);
	child_begins(r, 3);
	runs_another(r, 2);
	runs_another(r, 3);
	assert_most(r, 260 * MB, 4 * MB);
}

/* So many that neighbours in time are told as one. */
static void test_thousands_one_after_the_other(void **state)
{
	struct rig *r = *state;

	main_begins(r, true);
	for (uint32_t id = 2; id < 5000; id++) {
		child_begins(r, id);
		runs_another(r, id);
	}
	assert_most(r, 130 * MB, 2 * MB);
}

/* Of the last look's faults some came after its memory was read: the next look shows them, and they are none of its own. */
static void test_faults_are_read_behind_the_memory(void **state)
{
	struct rig *r = *state;

	main_begins(r, true);
	child_begins(r, 2);
	child_stands(r, 2, 60 * MB, 66 * MB / PAGE);
	child_stands(r, 2, 100 * MB, 106 * MB / PAGE);
	born(r, 2, 1, 99);
	child_stands(r, 2, MB, 131 * MB / PAGE);
	ended_with(r, 2, MB);
	tick(r);
	struct summary s = main_ends(r, 200 * MB);
	assert_within(s.descendants.high.value, 130 * MB, 132 * MB);
	summary_done(&s);
}

/* The next look shows them where faults are not read again, too. */
static void test_faults_that_are_shown_before_others_are_read(void **state)
{
	struct rig *r = *state;

	main_begins(r, false);
	child_begins(r, 2);
	child_stands(r, 2, 60 * MB, 100 * MB / PAGE);
	main_stands(r);
	rss(r, 2, 100 * MB, 0);
	tick(r);
	child_stands(r, 2, 100 * MB, 100 * MB / PAGE);
	gone(r, 2);
	tick(r);
	finish(r);
	assert_true(job_facts_const(r->job)->unmarked_rest_bytes.value <= 101 * MB);
}

/* Of the machine's count of huge pages only what it gave out during the run may be a child's, whose memory no look found. */
static void test_huge_pages_from_before_the_run_are_nobodys(void **state)
{
	struct rig *r = *state;
	struct summary s;

	job_facts(r->job)->huge_page_bytes = known(HUGE_PAGE);
	huge_pages(r, 100000);
	main_begins(r, true);
	born(r, 2, 1, 79);
	push(r);
	ended_as(r, 2, "other", MB, 2000);
	huge_pages(r, 100001);
	s = main_ends(r, 200 * MB);
	assert_within(s.descendants.high.value, 2000 * PAGE, 2000 * PAGE + HUGE_PAGE + 2 * MB);
	summary_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_what_ran_another_program),
		RIG_TEST(test_what_ran_another_program_and_ended),
		RIG_TEST(test_whose_record_is_another_programs),
		RIG_TEST(test_whose_record_is_its_own),
		RIG_TEST(test_who_ended_unrecorded),
		RIG_TEST(test_nobody_was_larger_than_the_largest),
		RIG_TEST(test_whose_mark_was_read_meanwhile),
		RIG_TEST(test_one_after_the_other),
		RIG_TEST(test_both_at_once),
		RIG_TEST(test_thousands_one_after_the_other),
		RIG_TEST(test_faults_are_read_behind_the_memory),
		RIG_TEST(test_faults_that_are_shown_before_others_are_read),
		HUGE_RIG_TEST(test_huge_pages_from_before_the_run_are_nobodys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
