/* SPDX-License-Identifier: MIT
 *
 * Each figure with how it was obtained.
 */
#include "job_rig.h"

#include <signal.h>

static void assert_figure(const struct ram_figure *f, enum method method, const char *source, int64_t low, int64_t peak,
	int64_t high)
{
	assert_string_equal(method_name(f->method), method_name(method));
	assert_string_equal(f->source, source);
	assert_int_equal(f->low.value, low);
	assert_int_equal(f->peak.value, peak);
	assert_int_equal(f->high.value, high);
	assert_true(f->low.known && f->peak.known && f->high.known);
}

static void start(struct rig *r)
{
	job_facts(r->job)->fork_rss_bytes = known(4 * MB);
	job_facts(r->job)->rss_error_bytes = known(0);
	born(r, 1, 0, 77);
	rss(r, 1, 10 * MB, MB);
	tick(r);
}

/* ---- main ----------------------------------------------------------------------------------------------------------- */

static void test_a_lone_main_is_exact_by_rusage(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r);
	main_reaped(r, 50 * MB, 0, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_true(s.complete);
	assert_figure(&s.main, METHOD_EXACT, "ru_maxrss", 50 * MB, 50 * MB, 50 * MB);
	assert_figure(&s.combined, METHOD_EXACT, "ru_maxrss", 50 * MB, 50 * MB, 50 * MB);
	assert_figure(&s.descendants, METHOD_EXACT, "procfs", 0, 0, 0);
	/* The totals say so too, for whoever reads those. */
	assert_int_equal(most(r, M_JOB_RAM_MAIN), 50 * MB);
	assert_int_equal(most(r, M_JOB_RAM), 50 * MB);
	assert_int_equal(most(r, M_JOB_RAM_LOW), 50 * MB);
	assert_true(job_main(r->job)->peak_exact);
	assert_int_equal(job_main(r->job)->peak_bytes, 50 * MB);
	assert_int_equal(s.peak_alive.value, 1);
	summary_done(&s);
}

/* What hiwater itself was between fork and exec is in ru_maxrss. */
static void test_a_small_main_is_bounded_by_hiwaters_own_size(void **state)
{
	struct rig *r = *state;
	struct summary s;

	job_facts(r->job)->fork_rss_bytes = known(4 * MB);
	born(r, 1, 0, 77);
	rss(r, 1, MB, MB / 2);
	tick(r);
	main_reaped(r, 4 * MB + 100 * KB, 0, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_figure(&s.main, METHOD_BOUNDED, "statm", 3 * MB / 2, 3 * MB / 2, 4 * MB + 100 * KB);
	assert_figure(&s.combined, METHOD_BOUNDED, "statm", 3 * MB / 2, 3 * MB / 2, 4 * MB + 100 * KB);
	assert_int_equal(most(r, M_JOB_RAM), 3 * MB / 2);
	summary_done(&s);
}

/* Its only look was at what it was before its exec. Of main and the children that it waited for, who had more faults was probably as
 * large as ru_maxrss; faults of main's own brought a page each at least. A main that was watched is what looks saw. */
static void test_a_main_that_no_look_found_after_its_exec(void **state)
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
		f->ticks = known(cases[i].ticks);
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

/* Of two processes nobody knows what of their huge pages is the same. */
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

	job_facts(r->job)->fork_rss_bytes = known(4 * MB);
	born(r, 1, 0, 77);
	rss(r, 1, MB, MB / 2);
	tick(r);
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
	/* Some process was 308 MB large. */
	assert_int_equal(s.combined.low.value, 308 * MB);
	assert_within(s.combined.peak.value, 308 * MB, 311 * MB);
	assert_within(s.combined.high.value, 309 * MB, 312 * MB);
	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_within(s.descendants.peak.value, 305 * MB, 306 * MB);
	assert_int_equal(s.descendants.low.value, 305 * MB);
	summary_done(&s);
}

/* Children that were smaller leave ru_maxrss to main. */
static void test_rusage_that_says_no_more_than_the_mark(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r);
	say(r, M_PROC_HWM, 1, 600 * MB);
	tick(r);
	main_reaped(r, 600 * MB, 500, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_figure(&s.main, METHOD_EXACT, "VmHWM", 600 * MB, 600 * MB, 600 * MB);
	/* Children came and went between two looks. */
	assert_int_equal(s.descendants.method, METHOD_UNKNOWN);
	assert_false(s.descendants.peak.known);
	assert_int_equal(s.descendants.high.value, 600 * MB);
	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_int_equal(s.combined.peak.value, 600 * MB);
	assert_int_equal(s.n_notes, 3); /* the third: no GPU was asked */
	summary_done(&s);
}

static void test_the_exit_record_is_exact(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r);
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

/* Also where a look had told of its end before; who did not say it keeps the name that it had. */
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
		job_facts(r.job)->main_mark_reset = known(1);
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
	/* It ended unseen: it may have grown until then. */
	attach_and_rise(false, 25 * MB, 45 * MB, METHOD_SAMPLED);
}

static void test_a_lost_recorder_leaves_what_was_sampled(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r);
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

/* Gone before the first look at its memory. */
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

/* ---- private and shared --------------------------------------------------------------------------------------------- */

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
	/* A later pass when most is given back changes nothing about the peak. */
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

/* Four map one file that main mapped alone before: at the peak it is shared. */
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
	job_files_done(r->job, 200 * MB);
	for (uint32_t id = 1; id <= 2; id++) {
		say(r, M_PROC_PSS, id, 101 * MB);
		say(r, M_PROC_PRIVATE, id, MB);
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
	/* What the other one holds: its own and what it shares with main, whole. */
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
	assert_false(s.combined.private_bytes.known); /* it was of a fifth of that */
	assert_false(s.main.private_bytes.known || s.descendants.private_bytes.known);
	summary_done(&s);
	two_hold(r, 295 * MB, 275 * MB, true);
	two_hold(r, 296 * MB, 0, true); /* farther away */
	s = summary_of(r);
	const double part = 2 * 275. / (2 * 275 + 20);

	assert_within(s.combined.private_bytes.value, (int64_t) (part * (double) s.combined.peak.value) - MB,
		(int64_t) (part * (double) s.combined.peak.value) + MB);
	assert_true(s.descendants.private_bytes.value > 270 * MB);
	assert_int_equal(s.descendants.private_bytes.value + s.descendants.shared_bytes.value, s.descendants.peak.value);
	summary_done(&s);
}

/* The kernel tells of it when nobody is there any more; it is split as at the look before. */
static void test_what_grew_a_little_before_its_end_is_split(void **state)
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
	assert_true(s.combined.peak.value > 500 * MB);
	assert_within(s.combined.private_bytes.value, s.combined.peak.value / 5 * 4 - MB, s.combined.peak.value / 5 * 4 + MB);
	assert_true(s.descendants.peak.value > 300 * MB && s.descendants.private_bytes.known);
	summary_done(&s);
}

/* But for whom came since. */
static void test_what_came_after_the_look_is_not_split(void **state)
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

static void test_nobody_knows_what_a_burst_was_made_of(void **state)
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

/* Three looks at main, the second at so much, and its end. */
/* A pass that found one of them small and late, and one that had grown meanwhile: 40 MB each, and neither ever had more
 * than 30. */
static void two_were_found_too_large(struct rig *r, bool all_exact)
{
	job_facts(r->job)->processes_seen = known(2);
	born(r, 1, 0, 77);
	born(r, 2, 1, 78);
	rss(r, 1, 20 * MB, 0);
	rss(r, 2, 20 * MB, 0);
	push(r);
	for (uint32_t id = 1; id <= 2; id++) {
		say(r, M_PROC_PSS, id, 40 * MB);
		say(r, M_PROC_PRIVATE, id, 40 * MB);
		say(r, M_PROC_SHARED, id, 0);
	}
	push(r);
	job_pss_done(r->job, (struct pss_drift) { 0 }, true);
	tick(r);
	if (all_exact)
		ended_with(r, 2, 30 * MB);
	else
		gone(r, 2);
	ended_with(r, 1, 30 * MB);
	tick(r);
}

static void test_all_together_are_no_more_than_their_marks(void **state)
{
	struct rig *r = *state;
	struct summary s;

	two_were_found_too_large(r, true);
	s = summary_of(r); /* whether others were missed is not known */
	assert_int_equal(s.combined.low.value, 80 * MB);
	summary_done(&s);
	job_facts(r->job)->taskstats = known(1);
	s = summary_of(r);
	assert_int_equal(s.combined.low.value, 60 * MB);
	assert_int_equal(s.combined.peak.value, 60 * MB);
	assert_true(s.combined.high.value >= 80 * MB);
	assert_int_equal(s.descendants.peak.value, 30 * MB);
	summary_done(&s);
	job_facts(r->job)->processes_seen = known(3);
	s = summary_of(r);
	assert_int_equal(s.combined.low.value, 80 * MB);
	summary_done(&s);
}

static void test_one_whose_mark_is_not_known_may_have_held_the_rest(void **state)
{
	struct rig *r = *state;
	struct summary s;

	two_were_found_too_large(r, false);
	job_facts(r->job)->taskstats = known(1);
	s = summary_of(r);
	assert_int_equal(s.combined.low.value, 80 * MB);
	summary_done(&s);
}

static void ran_alone(struct rig *r, int64_t bytes)
{
	const int64_t looks[] = { 10 * MB, bytes, 10 * MB };

	born(r, 1, 0, 77);
	for (size_t i = 0; i < 3; i++) {
		rss(r, 1, looks[i], 0);
		tick(r);
	}
	main_reaped(r, 40 * MB, 0, 30 * (int64_t) MS, 60 * (int64_t) MS);
	job_facts(r->job)->cpu_is_exact = known(1);
}

static void test_means_and_times(void **state)
{
	struct rig *r = *state;
	struct summary s;

	ran_alone(r, 40 * MB);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.main.mean.value, 20 * MB);
	assert_int_equal(s.main.at_ns.value, 100 * MS);
	assert_int_equal(s.combined.mean.value, 20 * MB);
	assert_int_equal(s.wall_ns.value, 300 * MS);
	assert_true(s.cpu_exact);
	assert_int_equal(s.cores_mean_ppm.value, 300000);
	/* A second end changes nothing. */
	r->now += 500 * MS;
	finish(r);
	summary_done(&s);
	s = summary_of(r);
	assert_int_equal(s.main.mean.value, 20 * MB);
	assert_int_equal(s.wall_ns.value, 300 * MS);
	summary_done(&s);
}

/* Recordings that do not tell main's end apart have it as the run's: who was followed beyond it used processors, too. */
static void test_cores_are_over_all_that_was_followed(void **state)
{
	struct rig *r = *state;
	struct summary s;

	ran_alone(r, 10 * MB);
	job_facts(r->job)->ended_ns = known(100 * (int64_t) MS);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.wall_ns.value, 100 * MS);
	assert_int_equal(s.cores_mean_ppm.value, 300000);
	summary_done(&s);
	job_facts(r->job)->main_ended_ns = known(100 * (int64_t) MS);
	job_facts(r->job)->ended_ns = known(200 * (int64_t) MS);
	s = summary_of(r);
	assert_int_equal(s.cores_mean_ppm.value, 450000);
	summary_done(&s);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------ */

static void test_out_of_memory(void **state)
{
	struct rig *r = *state;
	struct summary s;
	struct facts *f;

	start(r);
	f = job_facts(r->job);
	say(r, M_JOB_OOM_KILLS, 0, 3);
	say(r, M_HOST_OOM_KILLS, 0, 70);
	tick(r);
	f->exit_status = known(SIGKILL);
	f->cgroup_exclusive = known(1);
	s = summary_of(r);
	assert_int_equal(s.cgroup_oom_kills.value, 0);
	assert_int_equal(s.oom_kills.value, 0);
	assert_int_equal(s.host_oom_kills.value, 0);
	assert_false(s.oom_killed);
	summary_done(&s);
	say(r, M_JOB_OOM_KILLS, 0, 4);
	say(r, M_HOST_OOM_KILLS, 0, 75);
	tick(r);
	s = summary_of(r);
	assert_int_equal(s.cgroup_oom_kills.value, 1);
	assert_int_equal(s.oom_kills.value, 1);
	assert_int_equal(s.host_oom_kills.value, 5);
	assert_true(s.oom_killed);
	summary_done(&s);
	f->exit_status = known(0); /* a descendant, then */
	s = summary_of(r);
	assert_true(s.oom_killed);
	summary_done(&s);
}

/* Others in the cgroup may be whom the kernel killed, also where SIGKILL ended main: somebody may have sent that. */
static void test_out_of_memory_where_others_are(void **state)
{
	const struct event event = { .kind = EVENT_OOM, .entity = ENTITY_PROCESS, .id = 1, .text = "" };
	const struct frame named = { .source = FRAME_RECORDER, .live = true, .n_events = 1, .events = &event };
	struct rig *r = *state;
	struct summary s;
	struct facts *f;

	start(r);
	f = job_facts(r->job);
	f->cgroup_exclusive = known(0);
	f->exit_status = known(0);
	say(r, M_JOB_OOM_KILLS, 0, 3);
	tick(r);
	say(r, M_JOB_OOM_KILLS, 0, 4);
	tick(r);
	s = summary_of(r);
	assert_false(s.cgroup_oom_kills.known);
	assert_int_equal(s.oom_kills.value, 1);
	assert_false(s.oom_killed);
	summary_done(&s);
	f->exit_status = known(SIGKILL);
	s = summary_of(r);
	assert_false(s.oom_killed);
	assert_int_equal(s.oom_kills.value, 1);
	summary_done(&s);
	assert_int_equal(job_apply(r->job, &named), 0);
	s = summary_of(r);
	assert_true(s.oom_killed);
	summary_done(&s);
}

/* Whom the kernel named was killed, counted or not. */
static void test_out_of_memory_named(void **state)
{
	const struct event event = { .kind = EVENT_OOM, .entity = ENTITY_PROCESS, .id = 1, .text = "" };
	const struct frame frame = { .source = FRAME_RECORDER, .live = true, .n_events = 1, .events = &event };
	struct rig *r = *state;
	struct summary s;

	start(r);
	tick(r);
	s = summary_of(r);
	assert_false(s.oom_killed);
	assert_false(s.oom_kills.known);
	summary_done(&s);
	assert_int_equal(job_apply(r->job, &frame), 0);
	s = summary_of(r);
	assert_true(s.oom_killed);
	assert_int_equal(s.oom_kills.value, 1);
	summary_done(&s);
}

static void test_the_cgroup_counts_only_if_it_is_the_jobs(void **state)
{
	struct rig *r = *state;
	struct summary s;
	struct facts *f;

	start(r);
	f = job_facts(r->job);
	f->limit_bytes = known(100 * MB);
	say(r, M_JOB_CGROUP_MEM, 0, 50 * MB);
	say(r, M_JOB_CGROUP_FILE, 0, 20 * MB);
	tick(r);
	s = summary_of(r);
	assert_false(s.cgroup_peak.known);
	assert_false(s.cgroup_limit.known);
	assert_int_equal(s.facts->limit_bytes.value, 100 * MB);
	summary_done(&s);
	f->cgroup_exclusive = known(1);
	s = summary_of(r);
	assert_int_equal(s.cgroup_limit.value, 100 * MB);
	assert_int_equal(s.cgroup_peak.value, 50 * MB); /* no mark of this run was had */
	assert_int_equal(s.cgroup_method, METHOD_SAMPLED);
	assert_int_equal(s.cgroup_file_at_peak.value, 20 * MB);
	summary_done(&s);
	say(r, M_JOB_CGROUP_PEAK, 0, 80 * MB);
	tick(r);
	s = summary_of(r);
	assert_int_equal(s.cgroup_peak.value, 80 * MB);
	assert_int_equal(s.cgroup_method, METHOD_EXACT);
	assert_false(s.cgroup_file_at_peak.known); /* what the job itself held is not known, either */
	summary_done(&s);
}

/* Anonymous memory is read less often than the charge: its last reading says nothing of the peak. */
static void test_page_cache_is_what_nobody_else_held(void **state)
{
	const int64_t mapped[] = { 20 * MB, 50 * MB };
	const int64_t cache[] = { (80 - 20 - 3 - 1) * MB, (80 - 50 - 3 - 1) * MB };

	(void) state;
	for (size_t i = 0; i < 2; i++) {
		struct rig r;
		struct summary s;
		struct facts *f;

		rig_new(&r, true, 0);
		start(&r);
		f = job_facts(r.job);
		f->cgroup_exclusive = known(1);
		f->own_rss_bytes = known(3 * MB);
		say(&r, M_JOB_CGROUP_MEM, 0, 12 * MB);
		say(&r, M_JOB_CGROUP_FILE, 0, 5 * MB);
		say(&r, M_JOB_CGROUP_ANON, 0, 6 * MB);
		say(&r, M_JOB_CGROUP_KERNEL, 0, 1 * MB);
		tick(&r);
		say(&r, M_JOB_CGROUP_PEAK, 0, 80 * MB);
		main_reaped(&r, mapped[i], 0, 5, 6);
		finish(&r);
		s = summary_of(&r);
		assert_int_equal(s.combined.high.value, mapped[i]);
		assert_int_equal(s.cgroup_file_at_peak.value, cache[i]);
		summary_done(&s);
		rig_done(&r);
	}
}

static void test_the_machine(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r);
	for (int i = 0; i < 2; i++) {
		say(r, M_HOST_ENERGY, 0, 1000 + i * 500);
		say(r, M_HOST_MEM_USED, 0, (3 - i) * MB);
		say(r, M_HOST_CPU_USER, 0, i * 60);
		say(r, M_HOST_CPU_SYSTEM, 0, i * 10);
		say(r, M_HOST_CPU_IDLE, 0, i * 10);
		say(r, M_HOST_CPU_IOWAIT, 0, i * 20);
		tick(r);
	}
	s = summary_of(r);
	assert_int_equal(s.cpu_energy_uj.value, 500);
	assert_int_equal(s.system_peak.value, 3 * MB);
	assert_int_equal(s.iowait_ppm.value, 200000);
	summary_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_a_lone_main_is_exact_by_rusage),
		RIG_TEST(test_a_small_main_is_bounded_by_hiwaters_own_size),
		cmocka_unit_test(test_a_main_that_no_look_found_after_its_exec),
		RIG_TEST(test_huge_pages_of_several_are_an_upper_bound),
		RIG_TEST(test_a_shell_with_a_large_child),
		RIG_TEST(test_rusage_that_says_no_more_than_the_mark),
		RIG_TEST(test_the_exit_record_is_exact),
		RIG_TEST(test_the_exit_record_has_the_last_name),
		ATTACHED_RIG_TEST(test_attached_to_a_mark_that_did_not_rise),
		cmocka_unit_test(test_attached_to_a_mark_that_counts),
		RIG_TEST(test_a_lost_recorder_leaves_what_was_sampled),
		RIG_TEST(test_nothing_was_seen),
		RIG_TEST(test_a_main_of_a_moment),
		RIG_TEST(test_a_file_that_one_process_maps_is_private),
		RIG_TEST(test_the_split_is_the_one_of_the_peak),
		RIG_TEST(test_the_split_is_that_of_the_nearest_pass),
		RIG_TEST(test_what_grew_a_little_before_its_end_is_split),
		RIG_TEST(test_what_came_after_the_look_is_not_split),
		RIG_TEST(test_nobody_knows_what_a_burst_was_made_of),
		RIG_TEST(test_all_together_are_no_more_than_their_marks),
		RIG_TEST(test_one_whose_mark_is_not_known_may_have_held_the_rest),
		RIG_TEST(test_means_and_times),
		RIG_TEST(test_cores_are_over_all_that_was_followed),
		RIG_TEST(test_out_of_memory),
		RIG_TEST(test_out_of_memory_where_others_are),
		RIG_TEST(test_out_of_memory_named),
		RIG_TEST(test_the_cgroup_counts_only_if_it_is_the_jobs),
		cmocka_unit_test(test_page_cache_is_what_nobody_else_held),
		RIG_TEST(test_the_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
