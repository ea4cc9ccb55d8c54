/* SPDX-License-Identifier: MIT
 *
 * The summary of a job: what main's peak is, and by what it is known.
 */
#include "job_rig.h"

static void assert_figure(const struct ram_figure *f, enum method method, const char *source, int64_t low,
	int64_t peak, int64_t high)
{
	assert_string_equal(method_name(f->method), method_name(method));
	assert_string_equal(f->source, source);
	assert_int_equal(f->low.value, low);
	assert_int_equal(f->peak.value, peak);
	assert_int_equal(f->high.value, high);
	assert_true(f->low.known && f->peak.known && f->high.known);
}

static void test_a_lone_main_is_exact_by_rusage(void **state)
{
	struct rig *r = *state;
	struct summary s;

	main_starts(r);
	main_reaped(r, 50 * MB, 0, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_true(s.complete);
	assert_figure(&s.main, METHOD_EXACT, "ru_maxrss", 50 * MB, 50 * MB, 50 * MB);
	assert_figure(&s.combined, METHOD_EXACT, "ru_maxrss", 50 * MB, 50 * MB, 50 * MB);
	assert_figure(&s.descendants, METHOD_EXACT, "procfs", 0, 0, 0);
	/* The totals agree. */
	assert_int_equal(most(r, M_JOB_RAM_MAIN), 50 * MB);
	assert_int_equal(most(r, M_JOB_RAM), 50 * MB);
	assert_int_equal(most(r, M_JOB_RAM_LOW), 50 * MB);
	assert_true(job_main(r->job)->peak_exact);
	assert_int_equal(job_main(r->job)->peak_bytes, 50 * MB);
	assert_int_equal(s.peak_alive.value, 1);
	summary_done(&s);
}

static void small_main_starts(struct rig *r)
{
	job_facts(r->job)->fork_rss_bytes = known(4 * MB);
	born(r, 1, 0, 77);
	rss(r, 1, MB, MB / 2);
	tick(r);
}

/* ru_maxrss includes hiwater's own image between fork and exec. */
static void test_a_small_main_is_bounded_by_hiwaters_own_size(void **state)
{
	struct rig *r = *state;
	struct summary s;

	small_main_starts(r);
	main_reaped(r, 4 * MB + 100 * KB, 0, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_figure(&s.main, METHOD_BOUNDED, "statm", 3 * MB / 2, 3 * MB / 2, 4 * MB + 100 * KB);
	assert_figure(&s.combined, METHOD_BOUNDED, "statm", 3 * MB / 2, 3 * MB / 2, 4 * MB + 100 * KB);
	assert_int_equal(most(r, M_JOB_RAM), 3 * MB / 2);
	summary_done(&s);
}

/* The only sample was before the exec. ru_maxrss probably belongs to main or to its reaped
 * children, whichever had more faults; each of main's own mapped at least a page. A sampled main
 * keeps its samples. */
static void test_a_main_unsampled_after_its_exec(void **state)
{
	static const struct {
		int64_t ticks, faults, waited, maxrss, peak;
		const char *source;
	} cases[] = {
		{ 1, 75000, 100, 300 * MB, 300 * MB, "ru_maxrss" },
		{ 1, 500, 75000, 300 * MB, 500 * PAGE, "faults" },
		{ 1, 10, 75000, 300 * MB, 200 * KB, "statm" },
		{ 1, 100, 0, 4 * MB, 100 * PAGE, "faults" }, /* hiwater's own size */
		{ 30, 75000, 100, 300 * MB, 200 * KB, "statm" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig r;
		struct summary s;
		struct facts *f;

		rig_new(&r, true, 0);
		f = job_facts(r.job);
		f->fork_rss_bytes = known(4 * MB);
		f->samples = known(cases[i].ticks);
		born(&r, 1, 0, 77);
		rss(&r, 1, 0, 200 * KB);
		tick(&r);
		f->main_faults = known(cases[i].faults);
		main_reaped(&r, cases[i].maxrss, cases[i].waited, 5, 6);
		finish(&r);
		s = summary_of(&r);
		assert_int_equal(s.main.method, METHOD_BOUNDED);
		assert_string_equal(s.main.source, cases[i].source);
		assert_int_equal(s.main.low.value, 200 * KB);
		assert_int_equal(s.main.peak.value, cases[i].peak);
		assert_int_equal(s.main.at_ns.known, cases[i].peak == 200 * KB);
		summary_done(&s);
		rig_done(&r);
	}
}

/* How many huge pages two processes share is unknown. */
static void test_huge_pages_of_several_are_an_upper_bound(void **state)
{
	struct rig *r = *state;
	struct summary s;

	born(r, 1, 0, 77);
	say(r, M_PROC_HUGETLB, 1, 100 * MB);
	rss(r, 1, MB, 0);
	tick(r);
	s = summary_of(r);
	assert_int_equal(s.hugetlb_peak.value, 100 * MB);
	assert_false(s.hugetlb_at_most);
	summary_done(&s);
	born(r, 2, 1, 77);
	say(r, M_PROC_HUGETLB, 2, 100 * MB);
	rss(r, 2, MB, 0);
	tick(r);
	s = summary_of(r);
	assert_int_equal(s.hugetlb_peak.value, 200 * MB);
	assert_true(s.hugetlb_at_most);
	summary_done(&s);
}

static void test_a_shell_with_a_large_child(void **state)
{
	struct rig *r = *state;
	struct summary s;

	small_main_starts(r);
	born(r, 2, 1, 78);
	rss(r, 1, MB, MB / 2);
	rss(r, 2, 295 * MB, 5 * MB);
	push(r);
	say(r, M_PROC_HWM, 1, 1700 * KB);
	say(r, M_PROC_HWM, 2, 305 * MB);
	tick(r);
	gone(r, 2);
	main_reaped(r, 308 * MB, 76000, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_figure(&s.main, METHOD_BOUNDED, "VmHWM", 1700 * KB, 1700 * KB, 308 * MB);
	/* Some process had 308 MB. */
	assert_int_equal(s.combined.low.value, 308 * MB);
	assert_within(s.combined.peak.value, 308 * MB, 311 * MB);
	assert_true(!s.combined.high.known || s.combined.high.value >= 308 * MB);
	assert_within(s.descendants.peak.value, 305 * MB, 306 * MB);
	assert_int_equal(s.descendants.low.value, 305 * MB);
	summary_done(&s);
}

/* With smaller children, ru_maxrss is main's. */
static void test_rusage_equal_to_the_high_water_mark(void **state)
{
	struct rig *r = *state;
	struct summary s;

	main_starts(r);
	say(r, M_PROC_HWM, 1, 600 * MB);
	tick(r);
	main_reaped(r, 600 * MB, 500, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_figure(&s.main, METHOD_EXACT, "VmHWM", 600 * MB, 600 * MB, 600 * MB);
	/* Children started and ended between two samples. */
	assert_int_equal(s.descendants.method, METHOD_UNKNOWN);
	assert_false(s.descendants.peak.known);
	assert_false(s.descendants.high.known);
	/* the 500 faults of unsampled children cannot have mapped much */
	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_int_equal(s.combined.peak.value, 600 * MB);
	summary_done(&s);
}

static void test_the_exit_record_is_exact(void **state)
{
	struct rig *r = *state;
	struct summary s;

	main_starts(r);
	ended_with(r, 1, 70 * MB);
	push(r);
	assert_int_equal(job_facts(r->job)->main_exit_hwm_bytes.value, 70 * MB);
	main_reaped(r, 300 * MB, 76000, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_figure(&s.main, METHOD_EXACT, "taskstats", 70 * MB, 70 * MB, 70 * MB);
	assert_int_equal(s.combined.low.value, 300 * MB);
	assert_true(s.combined.high.value >= 300 * MB);
	summary_done(&s);
}

/* Even if a sample reported its end before; a record without a name keeps the old one. */
static void test_the_exit_record_has_the_last_name(void **state)
{
	const struct end ends[] = {
		{ .entity = ENTITY_PROCESS, .id = 2, .how = END_TASKSTATS, .name = "hog" },
		{ .entity = ENTITY_PROCESS, .id = 3, .how = END_SEEN },
		{ .entity = ENTITY_PROCESS, .id = 3, .how = END_TASKSTATS, .name = "hog" },
		{ .entity = ENTITY_PROCESS, .id = 4, .how = END_TASKSTATS },
	};
	static const char *const names[] = { "hog", "hog", "sh" };
	struct rig *r = *state;

	born(r, 1, 0, 77);
	for (uint32_t id = 2; id <= 4; id++)
		born_as(r, "sh", id, 1, 77, BOOT + r->now);
	tick(r);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		framebuf_end(&r->buf, &ends[i]);
		push(r);
	}
	for (uint32_t id = 2; id <= 4; id++)
		assert_string_equal(job_process_by_id(r->job, id)->name, names[id - 2]);
}

static void test_attached_to_a_mark_that_did_not_rise(void **state)
{
	struct rig *r = *state;
	struct summary s;

	born_of(r, 1, 0, 77, BOOT - 9000 * MS);
	rss(r, 1, 20 * MB, 0);
	push(r);
	say(r, M_PROC_HWM, 1, 900 * MB);
	tick(r);
	rss(r, 1, 30 * MB, 0);
	push(r);
	say(r, M_PROC_HWM, 1, 900 * MB);
	tick(r);
	left(r, 1);
	finish(r);
	s = summary_of(r);
	assert_figure(&s.main, METHOD_BOUNDED, "statm", 30 * MB, 30 * MB, 900 * MB);
	assert_int_equal(job_main(r->job)->peak_bytes, 30 * MB);
	assert_int_equal(most(r, M_JOB_RAM), 30 * MB);
	summary_done(&s);
}

static void attach_and_rise(bool reset, int64_t first, int64_t then, enum method method)
{
	struct rig r;
	struct summary s;

	rig_new(&r, false, 0);
	born_of(&r, 1, 0, 77, BOOT - 9000 * MS);
	push(&r);
	if (reset)
		job_facts(r.job)->main_hwm_reset = known(1);
	rss(&r, 1, 20 * MB, 0);
	push(&r);
	say(&r, M_PROC_HWM, 1, first);
	tick(&r);
	rss(&r, 1, 30 * MB, 0);
	push(&r);
	say(&r, M_PROC_HWM, 1, then);
	tick(&r);
	if (method == METHOD_EXACT)
		left(&r, 1);
	else
		gone(&r, 1);
	finish(&r);
	s = summary_of(&r);
	assert_string_equal(method_name(s.main.method), method_name(method));
	assert_string_equal(s.main.source, "VmHWM");
	assert_int_equal(s.main.peak.value, then);
	assert_int_equal(s.main.low.value, then);
	assert_true(s.main.high.known == (method == METHOD_EXACT));
	assert_int_equal(s.combined.peak.value, then);
	summary_done(&s);
	rig_done(&r);
}

static void test_attached_to_a_mark_that_counts(void **state)
{
	(void) state;
	attach_and_rise(false, 25 * MB, 45 * MB, METHOD_EXACT);
	attach_and_rise(true, 21 * MB, 31 * MB, METHOD_EXACT);
	/* It ended between samples: it may have grown until then. */
	attach_and_rise(false, 25 * MB, 45 * MB, METHOD_SAMPLED);
}

static void test_a_lost_recorder_leaves_what_was_sampled(void **state)
{
	struct rig *r = *state;
	struct summary s;

	main_starts(r);
	say(r, M_PROC_HWM, 1, 15 * MB);
	tick(r);
	s = summary_of(r);
	assert_false(s.complete);
	assert_int_equal(s.main.method, METHOD_SAMPLED);
	assert_int_equal(s.main.peak.value, 15 * MB);
	assert_false(s.main.high.known);
	assert_int_equal(s.wall_ns.value, 100 * MS);
	summary_done(&s);
}

static void test_nothing_was_seen(void **state)
{
	struct rig *r = *state;
	struct summary s;

	s = summary_of(r);
	assert_int_equal(s.main.method, METHOD_UNKNOWN);
	assert_int_equal(s.combined.method, METHOD_UNKNOWN);
	assert_false(s.main.peak.known || s.combined.peak.known || s.descendants.peak.known);
	assert_false(s.user_ns.known || s.wall_ns.known || s.swap_peak.known || s.cgroup_peak.known);
	assert_false(s.oom_killed);
	summary_done(&s);
}

/* It ended before the first sample of its memory. */
static void test_a_main_of_a_moment(void **state)
{
	struct rig *r = *state;
	struct summary s;

	job_facts(r->job)->fork_rss_bytes = known(4 * MB);
	born(r, 1, 0, 77);
	push(r);
	r->now += MS;
	main_reaped(r, 20 * MB, 0, 5, 6);
	total(r);
	finish(r);
	s = summary_of(r);
	assert_figure(&s.main, METHOD_EXACT, "ru_maxrss", 20 * MB, 20 * MB, 20 * MB);
	assert_figure(&s.combined, METHOD_EXACT, "ru_maxrss", 20 * MB, 20 * MB, 20 * MB);
	summary_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_a_lone_main_is_exact_by_rusage),
		RIG_TEST(test_a_small_main_is_bounded_by_hiwaters_own_size),
		cmocka_unit_test(test_a_main_unsampled_after_its_exec),
		RIG_TEST(test_huge_pages_of_several_are_an_upper_bound),
		RIG_TEST(test_a_shell_with_a_large_child),
		RIG_TEST(test_rusage_equal_to_the_high_water_mark),
		RIG_TEST(test_the_exit_record_is_exact),
		RIG_TEST(test_the_exit_record_has_the_last_name),
		ATTACHED_RIG_TEST(test_attached_to_a_mark_that_did_not_rise),
		cmocka_unit_test(test_attached_to_a_mark_that_counts),
		RIG_TEST(test_a_lost_recorder_leaves_what_was_sampled),
		RIG_TEST(test_nothing_was_seen),
		RIG_TEST(test_a_main_of_a_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
