/* SPDX-License-Identifier: MIT
 *
 * Unread values, and children that no sample found: unknown, not 0, and no bound without a basis.
 */
#include "job_rig.h"

static void start(struct rig *r, bool has_records)
{
	job_facts(r->job)->fork_rss_bytes = known(4 * MB);
	job_facts(r->job)->rss_error_bytes = known(0);
	job_facts(r->job)->taskstats = known(has_records);
	swapped_in(r, 7 * MB);
	born(r, 1, 0, 77);
	rss(r, 1, 10 * MB, MB);
	tick(r);
}

/* ---- nothing was read ------------------------------------------------------------------------ */

/* Totals without values are unknown, and so is their mean. */
static void test_nothing_was_read(void **state)
{
	struct rig *r = *state;
	struct summary s;

	born(r, 1, 0, 77);
	push(r);
	gone(r, 1);
	tick(r);
	tick(r);
	finish(r);
	assert_null(job_acc(r->job, M_JOB_RAM, 0));
	assert_null(job_acc(r->job, M_JOB_RSS_SUM, 0));
	assert_null(job_acc(r->job, M_JOB_RAM_MAIN, 0));
	s = summary_of(r);
	assert_false(s.combined.peak.known || s.combined.low.known || s.combined.mean.known);
	assert_int_equal(s.combined.method, METHOD_UNKNOWN);
	assert_int_equal(s.peak_alive.value, 1);
	summary_done(&s);
}

/* A process known only from its end has a peak, but no mean. */
static void test_a_peak_without_a_sample_has_no_mean(void **state)
{
	struct rig *r = *state;
	struct summary s;

	born(r, 1, 0, 77);
	push(r);
	ended_with(r, 1, 9 * MB);
	tick(r);
	tick(r);
	finish(r);
	assert_int_equal(most(r, M_JOB_RAM), 9 * MB);
	s = summary_of(r);
	assert_int_equal(s.combined.peak.value, 9 * MB);
	assert_false(s.combined.mean.known);
	summary_done(&s);
}

/* ---- children that no sample found ----------------------------------------------------------- */

/* A main process of 10 MB and a child of 100, whose faults are read; both end, and main's zombie
 * counts waited faults of its children. */
static struct summary with_a_child(struct rig *r, bool has_records, int64_t waited)
{
	start(r, has_records);
	born(r, 2, 1, 78);
	rss(r, 2, 100 * MB, 0);
	faults(r, 2, 30000);
	tick(r);
	rss(r, 2, 100 * MB, 0);
	tick(r);
	gone(r, 2);
	tick(r);
	main_reaped(r, 101 * MB, waited, 5, 6);
	finish(r);
	return summary_of(r);
}

/* It was not waited for, by a parent that ignores SIGCHLD: main's counters do not include it. */
static void test_an_unwaited_process_hides_no_other(void **state)
{
	struct summary s = with_a_child(*state, false, 29000);

	assert_true(s.seen_at_least);
	summary_done(&s);
}

static void test_faults_of_a_child_that_was_found_are_no_others(void **state)
{
	struct summary s = with_a_child(*state, false, 30000);

	assert_false(s.seen_at_least);
	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_within(s.combined.peak.value, 100 * MB, 115 * MB);
	assert_true(s.combined.high.value >= 110 * MB);
	summary_done(&s);
}

/* Without exit records their sizes and their number are unknown. */
static void test_many_unattributed_faults_make_it_sampled(void **state)
{
	struct summary s = with_a_child(*state, false, 60000);

	assert_true(s.seen_at_least);
	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_int_equal(s.descendants.method, METHOD_SAMPLED);
	assert_false(s.combined.high.known || s.descendants.high.known);
	assert_within(s.combined.peak.value, 100 * MB, 115 * MB);
	assert_string_equal(s.combined.source, "statm");
	summary_done(&s);
}

static void test_exit_records_are_complete(void **state)
{
	struct summary s = with_a_child(*state, true, 60000);

	assert_false(s.seen_at_least);
	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	summary_done(&s);
}

static void test_lost_exit_records_are_as_none(void **state)
{
	struct rig *r = *state;
	struct summary s;

	job_facts(r->job)->taskstats_lost = known(1);
	s = with_a_child(r, true, 60000);
	assert_true(s.seen_at_least);
	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	summary_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_nothing_was_read),
		RIG_TEST(test_a_peak_without_a_sample_has_no_mean),
		RIG_TEST(test_an_unwaited_process_hides_no_other),
		RIG_TEST(test_faults_of_a_child_that_was_found_are_no_others),
		RIG_TEST(test_many_unattributed_faults_make_it_sampled),
		RIG_TEST(test_exit_records_are_complete),
		RIG_TEST(test_lost_exit_records_are_as_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
