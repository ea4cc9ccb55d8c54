/* SPDX-License-Identifier: MIT
 *
 * The summary of a job: what of the memory of all together is private and what shared, and that it
 * is no more than their marks.
 */
#include "job_rig.h"

static void test_a_file_that_one_process_maps_is_private(void **state)
{
	struct rig *r = *state;
	struct summary s;

	born(r, 1, 0, 77);
	rss(r, 1, 10 * MB, 202 * MB);
	push(r);
	say(r, M_PROC_PSS, 1, 211 * MB);
	say(r, M_PROC_PRIVATE, 1, 210 * MB);
	say(r, M_PROC_SHARED, 1, 2 * MB);
	push(r);
	job_pss_done(r->job, (struct pss_drift) { 0 }, true);
	tick(r);
	/* A later pass, with most memory released, does not change the peak. */
	rss(r, 1, 10 * MB, 2 * MB);
	push(r);
	say(r, M_PROC_PSS, 1, 11 * MB);
	say(r, M_PROC_PRIVATE, 1, 0);
	say(r, M_PROC_SHARED, 1, 12 * MB);
	push(r);
	job_pss_done(r->job, (struct pss_drift) { 0 }, true);
	tick(r);
	main_reaped(r, 212 * MB, 0, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_within(s.main.private_bytes.value, 210 * MB - 1, 210 * MB);
	assert_int_equal(s.main.private_bytes.value + s.main.shared_bytes.value, s.main.peak.value);
	assert_within(s.combined.private_bytes.value, 210 * MB - 1, 210 * MB);
	summary_done(&s);
}

/* Four processes map a file that only main mapped before: at the peak it is shared. */
static void test_the_split_is_the_one_of_the_peak(void **state)
{
	struct rig *r = *state;
	struct summary s;

	born(r, 1, 0, 77);
	rss(r, 1, MB, 130 * MB);
	push(r);
	say(r, M_PROC_PSS, 1, 131 * MB);
	say(r, M_PROC_PRIVATE, 1, 131 * MB);
	say(r, M_PROC_SHARED, 1, 0);
	push(r);
	job_pss_done(r->job, (struct pss_drift) { 0 }, true);
	tick(r);
	born(r, 2, 1, 78);
	for (uint32_t id = 1; id <= 2; id++)
		rss(r, id, MB, 200 * MB);
	push(r);
	job_files_done(r->job, 200 * MB, 200 * MB);
	for (uint32_t id = 1; id <= 2; id++) {
		say(r, M_PROC_PSS, id, 101 * MB);
		say(r, M_PROC_PRIVATE, id, MB);
		job_pss(r->job, id, 101 * MB, -1, MB);
		say(r, M_PROC_SHARED, id, 200 * MB);
	}
	push(r);
	job_pss_done(r->job, (struct pss_drift) { 0 }, true);
	tick(r);
	s = summary_of(r);
	assert_int_equal(s.combined.peak.value, 202 * MB);
	assert_within(s.combined.private_bytes.value, 2 * MB - 1, 2 * MB);
	assert_within(s.combined.shared_bytes.value, 200 * MB, 200 * MB + 1);
	assert_within(s.main.private_bytes.value, MB - 1, MB);
	/* Memory of the other process: its own, and all that it shares with main. */
	assert_int_equal(s.descendants.peak.value, 201 * MB);
	assert_within(s.descendants.private_bytes.value, MB - 1, MB);
	summary_done(&s);
}

static void two_hold(struct rig *r, int64_t bytes, int64_t private, bool pass)
{
	for (uint32_t id = 1; id <= 2; id++)
		rss(r, id, bytes, 0);
	push(r);
	for (uint32_t id = 1; id <= 2 && pass; id++) {
		say(r, M_PROC_PSS, id, private + (bytes - private) / 2);
		say(r, M_PROC_PRIVATE, id, private);
		job_pss(r->job, id, private + (bytes - private) / 2, -1, private);
		say(r, M_PROC_SHARED, id, bytes - private);
	}
	push(r);
	if (pass)
		job_pss_done(r->job, (struct pss_drift) { 0 }, true);
	tick(r);
}

static void test_the_split_is_that_of_the_nearest_pass(void **state)
{
	struct rig *r = *state;
	struct summary s;

	born(r, 1, 0, 77);
	born(r, 2, 1, 77);
	two_hold(r, 60 * MB, 10 * MB, true);
	for (int i = 0; i < 10; i++)
		two_hold(r, 300 * MB, 0, false);
	s = summary_of(r);
	assert_false(s.combined.private_bytes.known); /* the pass saw a fifth of that */
	assert_false(s.main.private_bytes.known || s.descendants.private_bytes.known);
	summary_done(&s);
	two_hold(r, 295 * MB, 275 * MB, true);
	two_hold(r, 296 * MB, 0, true); /* farther away */
	s = summary_of(r);
	const double part = 2 * 275. / (2 * 275 + 20);

	assert_within(s.combined.private_bytes.value, (int64_t) (part * (double) s.combined.peak.value) - MB,
		(int64_t) (part * (double) s.combined.peak.value) + MB);
	assert_true(s.descendants.private_bytes.value > 270 * MB);
	assert_int_equal(s.descendants.private_bytes.value + s.descendants.shared_bytes.value,
		s.descendants.peak.value);
	summary_done(&s);
}

/* The kernel reports the peak after the end; it is split as in the last sample. */
static void test_a_little_growth_before_the_end_is_split(void **state)
{
	struct rig *r = *state;
	struct summary s;

	born(r, 1, 0, 77);
	born(r, 2, 1, 77);
	two_hold(r, 300 * MB, 200 * MB, true);
	ended_with(r, 2, 301 * MB);
	ended_with(r, 1, 302 * MB);
	tick(r);
	s = summary_of(r);
	assert_true(s.combined.peak.value >= 500 * MB);
	assert_within(s.combined.private_bytes.value, s.combined.peak.value / 5 * 4 - MB,
		s.combined.peak.value / 5 * 4 + MB);
	assert_true(s.descendants.peak.value > 300 * MB && s.descendants.private_bytes.known);
	summary_done(&s);
}

/* Except for later processes. */
static void test_growth_after_the_sample_is_not_split(void **state)
{
	struct rig *r = *state;
	struct summary s;

	born(r, 1, 0, 77);
	born(r, 2, 1, 77);
	two_hold(r, 300 * MB, 200 * MB, true);
	ended_with(r, 2, 300 * MB);
	tick(r);
	born(r, 3, 1, 78);
	ended_with(r, 3, 320 * MB);
	tick(r);
	s = summary_of(r);
	assert_int_equal(s.descendants.peak.value, 320 * MB);
	assert_false(s.descendants.private_bytes.known);
	summary_done(&s);
}

static void test_a_burst_is_not_split(void **state)
{
	struct rig *r = *state;
	struct summary s;

	born(r, 1, 0, 77);
	rss(r, 1, 10 * MB, 2 * MB);
	tick(r);
	s = summary_of(r);
	assert_int_equal(s.combined.private_bytes.value, 10 * MB);
	assert_int_equal(s.combined.shared_bytes.value, 2 * MB);
	assert_int_equal(s.main.private_bytes.value, 10 * MB);
	summary_done(&s);
	say(r, M_PROC_HWM, 1, 500 * MB);
	tick(r);
	s = summary_of(r);
	assert_int_equal(s.combined.peak.value, 500 * MB);
	assert_false(s.combined.private_bytes.known);
	summary_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_a_file_that_one_process_maps_is_private),
		RIG_TEST(test_the_split_is_the_one_of_the_peak),
		RIG_TEST(test_the_split_is_that_of_the_nearest_pass),
		RIG_TEST(test_a_little_growth_before_the_end_is_split),
		RIG_TEST(test_growth_after_the_sample_is_not_split),
		RIG_TEST(test_a_burst_is_not_split),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
