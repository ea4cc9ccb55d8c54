/* SPDX-License-Identifier: MIT
 *
 * The sampling loop: groups that are due, late samples and gaps, windows.
 */
#include "sampler_rig.h"

/* ---- the clock ------------------------------------------------------------------------------- */

static void nothing_is_due_before_it_is(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 3600 * 1000 * MS, true);
	rig_make(&r);
	assert_int_equal(sampler_time(r.s), 0);
	sampler_step(r.s); /* not started */
	sampler_now(r.s);
	assert_int_equal(r.n_frames, 0);
	rig_start(&r, main.pid);
	const size_t frames = r.n_frames;

	assert_true(frames > 0 && was_born(&r, main.pid));
	assert_int_equal(sampler_fd(r.s), sampler_fd(r.s));
	sampler_step(r.s);
	assert_int_equal(r.n_frames, frames);
	child_end(&main);
	rig_done(&r);
}

static void frames_are_in_the_order_of_time(void **state)
{
	const struct event mark = { .kind = EVENT_MARK, .entity = ENTITY_JOB, .text = "late" };
	struct frame late = { .source = FRAME_USER, .live = true, .n_events = 1, .events = &mark };
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 5 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	for (int i = 0; i < 20; i++) {
		steps(&r, 2);
		sampler_now(r.s);
		late.time_ns = r.last_ns / 2; /* far in the past */
		sampler_push(r.s, &late);
		assert_int_equal(job_now(sampler_job(r.s)), r.last_ns);
	}
	sampler_end(r.s);
	assert_false(r.went_back);
	assert_true(r.last_ns <= sampler_time(r.s));
	child_end(&main);
	rig_done(&r);
}

static void late_ticks_are_counted(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 20 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	steps(&r, 1);
	sampler_cost(r.s);
	const int64_t ticks = facts_of(&r)->samples.value, late = facts_of(&r)->late_samples.value;

	assert_int_equal(ticks, 1);
	wait_for(300 * MS); /* no step for fifteen samples */
	steps(&r, 1);
	sampler_cost(r.s);
	assert_int_equal(facts_of(&r)->samples.value, ticks + 1); /* missed samples are not repeated */
	assert_int_equal(facts_of(&r)->late_samples.value, late + 1);
	assert_true(facts_of(&r)->skipped_samples.value >= 13);
	assert_true(facts_of(&r)->longest_gap_ns.value >= (int64_t) (300 * MS));
	assert_int_equal(r.n_gaps, 0); /* under two seconds it is late, but no gap */
	/* The timer is in step again: the next sample is at a multiple of the interval. */
	assert_true(r.s->due_ns % (20 * MS) == 0 && r.s->due_ns > r.s->last_sample_ns);
	child_end(&main);
	rig_done(&r);
}

static void a_long_silence_is_a_gap(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 50 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	steps(&r, 1);
	sampler_cost(r.s);
	assert_null(facts_of(&r)->longest_gap_cause);
	wait_for(2100 * MS);
	steps(&r, 1);
	assert_int_equal(r.n_gaps, 1);
	assert_true(r.gap_ns >= (int64_t) (2100 * MS));
	assert_string_equal(r.gap_cause, "busy");
	sampler_cost(r.s);
	assert_string_equal(facts_of(&r)->longest_gap_cause, "busy");
	wait_for(2200 * MS);
	sampler_continued(r.s);
	steps(&r, 1);
	assert_string_equal(r.gap_cause, "stopped");
	sampler_end(r.s);
	assert_true(facts_of(&r)->longest_gap_ns.value >= r.gap_ns);
	child_end(&main);
	rig_done(&r);
}

static void a_gap_has_a_cause(void **state)
{
	(void) state;
	assert_string_equal(sampler_gap_cause(3000 * MS, 3000 * MS, false), "busy");
	assert_string_equal(sampler_gap_cause(3000 * MS, 3001 * MS, false), "busy"); /* two reads of clocks */
	assert_string_equal(sampler_gap_cause(3000 * MS, 2999 * MS, true), "stopped");
	assert_string_equal(sampler_gap_cause(3000 * MS, 100 * MS, false), "suspended");
	assert_string_equal(sampler_gap_cause(3000 * MS, 100 * MS, true), "suspended");
}

static void a_window_closes_once(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 10 * MS, true);
	r.options.window_ns = 40 * MS;
	rig_make(&r);
	rig_start(&r, main.pid);
	assert_false(sampler_window_closed(r.s));
	while (!sampler_window_closed(r.s))
		steps(&r, 1);
	assert_true(r.last_ns >= 40 * MS);
	assert_false(sampler_window_closed(r.s));
	sampler_end(r.s);
	assert_true(sampler_window_closed(r.s)); /* the last window may be shorter */
	child_end(&main);
	rig_done(&r);
}

/* However rarely memory is read, no process lives for more than a second without being found. */
static void between_far_ticks_new_processes_are_found(void **state)
{
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 3600 * 1000 * MS, true);
	rig_make(&r);
	struct child main = waiting_child();

	rig_start(&r, main.pid);
	struct child orphan = waiting_child(); /* ours: like one adopted by the subreaper */
	const size_t readings = r.n_rss;

	steps(&r, 1);
	assert_true(was_born(&r, orphan.pid));
	assert_true(r.last_ns < 60 * 1000 * MS);
	assert_int_equal(r.n_rss, readings);
	sampler_cost(r.s);
	assert_int_equal(facts_of(&r)->samples.value, 0);
	child_end(&orphan);
	child_end(&main);
	rig_done(&r);
}

/* A flood of marks must not cause a flood of samples. */
static void what_is_asked_for_at_once_has_its_limit(void **state)
{
	struct child main = waiting_child();
	struct rig r;

	(void) state;
	rig_prepare(&r, NULL, 3600 * 1000 * MS, true);
	rig_make(&r);
	rig_start(&r, main.pid);
	const size_t before = r.n_rss;

	sampler_now(r.s);
	assert_int_equal(r.n_rss, before + 1);
	assert_true(r.s->next_now_ns > 0);
	r.s->next_now_ns = UINT64_MAX; /* it was expensive */
	for (int i = 0; i < 100; i++)
		sampler_now(r.s);
	assert_int_equal(r.n_rss, before + 1);
	r.s->next_now_ns = 0;
	sampler_now(r.s);
	assert_int_equal(r.n_rss, before + 2);
	child_end(&main);
	rig_done(&r);
}

/* An interval of an hour becomes 20 ms, with the machine's own shortest period, and an hour
 * again; the change is no gap. */
static void the_interval_may_change(void **state)
{
	struct rig r;
	struct child main = waiting_child();

	(void) state;
	rig_prepare(&r, NULL, 3600 * 1000 * MS, false);
	rig_make(&r);
	assert_int_equal(sampler_set_interval(r.s, 20 * MS), -ESRCH);
	rig_start(&r, main.pid);
	const size_t before = r.n_rss, mem_before = r.n_mem_used;

	assert_int_equal(sampler_set_interval(r.s, 20 * MS), 0);
	while (r.n_rss < before + 5 || r.n_mem_used < mem_before + 2)
		steps(&r, 1);
	assert_true(sampler_time(r.s) < 1000 * 1000 * MS); /* less than an hour */
	assert_true(r.s->next_window_ns <= sampler_time(r.s) + 1000 * MS);
	assert_int_equal(sampler_set_interval(r.s, 3600 * 1000 * MS), 0);
	const size_t after = r.n_rss;

	steps(&r, 2); /* searches for new processes, one per second */
	assert_int_equal(r.n_rss, after);
	assert_int_equal(r.n_gaps, 0);
	child_end(&main);
	rig_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHILDREN_TEST(nothing_is_due_before_it_is),
		CHILDREN_TEST(frames_are_in_the_order_of_time),
		CHILDREN_TEST(late_ticks_are_counted),
		CHILDREN_TEST(a_long_silence_is_a_gap),
		cmocka_unit_test(a_gap_has_a_cause),
		CHILDREN_TEST(a_window_closes_once),
		CHILDREN_TEST(between_far_ticks_new_processes_are_found),
		CHILDREN_TEST(what_is_asked_for_at_once_has_its_limit),
		CHILDREN_TEST(the_interval_may_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
