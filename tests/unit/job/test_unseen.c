/* SPDX-License-Identifier: MIT
 *
 * What was not read, and children that no look found: unknown, not 0, and no bound where there is none.
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

/* The child is gone, then main, whose ru_maxrss and whose children's faults are told. */
static struct summary child_and_main_end(struct rig *r, int64_t maxrss, int64_t waited)
{
	gone(r, 2);
	tick(r);
	main_reaped(r, maxrss, waited, 5, 6);
	finish(r);
	return summary_of(r);
}

/* ---- nothing was read ------------------------------------------------------------------------------------------------ */

/* Totals over nothing are none, and neither is their mean. */
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

/* What is known of its end alone has a peak, and no mean. */
static void test_a_peak_without_a_look_has_no_mean(void **state)
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

/* ---- children that no look found ------------------------------------------------------------------------------------- */

/* Main of 10 MB and a child of 100, whose faults are read; both end, and main's zombie counts waited faults of its
 * children. */
static struct summary with_a_child(struct rig *r, bool has_records, int64_t waited)
{
	start(r, has_records);
	born(r, 2, 1, 78);
	rss(r, 2, 100 * MB, 0);
	faults(r, 2, 30000);
	tick(r);
	rss(r, 2, 100 * MB, 0);
	tick(r);
	return child_and_main_end(r, 101 * MB, waited);
}

static void expect_bounded(struct rig *r, bool has_records, int64_t waited)
{
	struct summary s = with_a_child(r, has_records, waited);

	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_int_equal(s.descendants.method, METHOD_BOUNDED);
	assert_true(s.combined.high.value >= s.combined.peak.value && s.combined.high.value < 115 * MB);
	assert_int_equal(s.seen_at_least, !has_records && waited > 30000);
	summary_done(&s);
}

/* It was not waited for, by a parent that ignores SIGCHLD: main's counters have others, or nobody. */
static void test_what_was_seen_and_not_waited_for_hides_nobody(void **state)
{
	struct summary s = with_a_child(*state, false, 29000);

	assert_true(s.seen_at_least);
	summary_done(&s);
}

static void test_the_childs_own_faults_change_nothing(void **state)
{
	expect_bounded(*state, false, 30000);
}

/* What they brought may have been there beside the rest: a page each, and of files no more than ru_maxrss. */
static void test_few_unseen_faults_raise_the_bound(void **state)
{
	struct summary s = with_a_child(*state, false, 32000);

	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_within(s.combined.peak.value, 100 * MB, 115 * MB);
	assert_within(s.combined.high.value, 100 * MB + 2000 * PAGE + 101 * MB, 120 * MB + 2000 * PAGE + 101 * MB);
	assert_within(s.descendants.high.value, 100 * MB + 2000 * PAGE + 101 * MB, s.combined.high.value);
	summary_done(&s);
}

/* Or a piece of a file each. */
static void test_very_few_unseen_faults_bring_no_more_than_a_piece_each(void **state)
{
	struct summary s = with_a_child(*state, false, 30000 + 100);

	assert_within(s.combined.high.value, 100 * MB + 100 * 65536, 115 * MB + 100 * 65536);
	summary_done(&s);
}

/* Of huge pages the machine gave out so many: unseen faults, few as they are, may have brought as many. */
static struct summary beside_huge_pages(struct rig *r, int64_t given, int64_t waited)
{
	job_facts(r->job)->huge_page_bytes = known(HUGE_PAGE);
	huge_pages(r, 1000);
	start(r, false);
	born(r, 2, 1, 78);
	rss(r, 2, 300 * MB, 0);
	faults(r, 2, FILL);
	huge_pages(r, 1000);
	tick(r);
	rss(r, 2, 300 * MB, 0);
	tick(r);
	gone(r, 2);
	tick(r);
	huge_pages(r, 1000 + given);
	main_reaped(r, 300 * MB, waited, 5, 6);
	finish(r);
	return summary_of(r);
}

static void test_unseen_faults_that_may_have_brought_huge_pages_matter(void **state)
{
	struct summary s = beside_huge_pages(*state, 100, FILL + 600);

	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_false(s.combined.high.known || s.descendants.high.known);
	summary_done(&s);
}

static void test_late_faults_may_have_brought_huge_pages_too(void **state)
{
	struct summary s = beside_huge_pages(*state, 100, FILL + 200);

	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_within(s.combined.high.value, 300 * MB + 200 * 65536 + 100 * HUGE_PAGE, 315 * MB + 200 * 65536 + 100 * HUGE_PAGE);
	summary_done(&s);
}

/* It grew by 80 MB after its faults were read; who filled huge pages meanwhile had few faults for that, and the others were
 * somebody else's. */
static struct summary grown_child(struct rig *r, uint64_t stack, int64_t given, int64_t swapped)
{
	job_facts(r->job)->huge_page_bytes = known(HUGE_PAGE);
	huge_pages(r, 1000);
	start(r, false);
	born(r, 2, 1, stack);
	rss(r, 2, 10 * MB, 0);
	faults(r, 2, 10 * MB / PAGE);
	tick(r);
	rss(r, 2, 90 * MB, 0);
	huge_pages(r, 1000 + given);
	swapped_in(r, 7 * MB + swapped);
	tick(r);
	return child_and_main_end(r, 100 * MB, 90 * MB / PAGE);
}

static void test_what_a_child_grew_by_its_faults_brought(void **state)
{
	struct summary s = grown_child(*state, 78, 0, 0);

	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_within(s.combined.high.value, 90 * MB, 115 * MB);
	summary_done(&s);
}

/* Then major faults did, which are not among those: others brought as much as these. */
static void test_unless_it_came_back_from_swap(void **state)
{
	struct summary s = grown_child(*state, 78, 0, 80 * MB);

	assert_true(!s.combined.high.known || s.combined.high.value >= 170 * MB);
	summary_done(&s);
}

static void test_unless_huge_pages_may_have_brought_it(void **state)
{
	struct summary s = grown_child(*state, 78, 40, 0);

	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_false(s.combined.high.known);
	summary_done(&s);
}

/* 100 faults brought 150 MB, of huge pages; looks since they were read show all of that. */
static void test_what_was_read_explains_what_huge_pages_do_not(void **state)
{
	struct rig *r = *state;
	struct summary s;

	job_facts(r->job)->huge_page_bytes = known(HUGE_PAGE);
	huge_pages(r, 1000);
	start(r, false);
	born(r, 2, 1, 78);
	rss(r, 2, 150 * MB, 0);
	push(r);
	faults(r, 2, 100);
	huge_pages(r, 9000);
	tick(r);
	rss(r, 2, 150 * MB, 0);
	tick(r);
	s = child_and_main_end(r, 152 * MB, 100);
	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_within(s.combined.high.value, 150 * MB, 165 * MB);
	summary_done(&s);
}

/* Eight copies of a large main, and children that no look found: what its fork gave a child no fault of its own brought. */
static void test_what_a_fork_gave_explains_no_faults(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	rss(r, 1, 400 * MB, MB);
	push(r);
	faults(r, 1, 400 * MB / PAGE);
	tick(r);
	for (uint32_t id = 2; id < 10; id++) {
		born(r, id, 1, 77);
		rss(r, id, 400 * MB, 0);
		push(r);
		faults(r, id, 50);
	}
	for (int i = 0; i < 2; i++) {
		for (uint32_t id = 1; id < 10; id++)
			rss(r, id, 400 * MB, id == 1 ? MB : 0);
		tick(r);
	}
	for (uint32_t id = 2; id < 10; id++)
		gone(r, id);
	tick(r);
	main_reaped(r, 402 * MB, 8 * 50 + 70 * MB / PAGE, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_false(s.combined.high.known || s.descendants.high.known);
	summary_done(&s);
}

/* Where resident sizes may be off by more than it has, too. */
static void test_a_first_look_at_a_fork_explains_no_faults(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	job_facts(r->job)->rss_error_bytes = known(MB);
	born(r, 2, 1, 77);
	rss(r, 2, MB / 5, MB);
	tick(r);
	s = child_and_main_end(r, 100 * MB, 400 * MB / PAGE);
	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_false(s.combined.high.known);
	summary_done(&s);
}

/* Nor does one whose stack is hidden: it may be a fork that hid itself (prctl, PR_SET_DUMPABLE), not a program of its own. */
static void test_a_hidden_child_may_be_a_fork_that_explains_no_faults(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	rss(r, 1, 300 * MB, MB);
	tick(r);
	born(r, 2, 1, STARTSTACK_HIDDEN | 1);
	rss(r, 2, 300 * MB, MB);
	tick(r);
	gone(r, 2);
	tick(r);
	main_reaped(r, 300 * MB, 240 * MB / PAGE, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_false(s.combined.high.known);
	summary_done(&s);
}

/* Its memory was read at 88 MB, and its faults when it had 90: that is in no figure. */
static void test_faults_read_after_the_last_look_were_not_seen(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	born(r, 2, 1, 78);
	rss(r, 2, 88 * MB, 0);
	push(r);
	faults(r, 2, 90 * MB / PAGE);
	tick(r);
	s = child_and_main_end(r, 100 * MB, 90 * MB / PAGE);
	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_true(s.combined.high.value >= 90 * MB + 512 * 65536 && s.descendants.high.value >= 88 * MB + 512 * 65536);
	summary_done(&s);
}

static void test_exit_records_tell_of_everybody(void **state)
{
	expect_bounded(*state, true, 60000);
}

/* But for those whose records were lost. */
static void test_lost_exit_records_tell_of_nobody(void **state)
{
	struct rig *r = *state;
	struct summary s;

	job_facts(r->job)->taskstats_lost = known(1);
	s = with_a_child(r, true, 60000);
	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_int_equal(s.descendants.method, METHOD_SAMPLED);
	assert_true(!s.combined.high.known && !s.descendants.high.known);
	assert_true(s.seen_at_least);
	summary_done(&s);
}

static void test_much_unseen_is_sampled(void **state)
{
	struct summary s = with_a_child(*state, false, 60000);

	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_int_equal(s.descendants.method, METHOD_SAMPLED);
	assert_true(s.combined.peak.value >= 100 * MB && !s.combined.high.known && !s.descendants.high.known);
	assert_true(s.seen_at_least);
	summary_done(&s);
}

/* None was found, and each fault may have brought a piece of a file. */
static void test_where_none_was_seen_faults_bound_them(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	main_reaped(r, 50 * MB, 100, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_true(s.combined.peak.value >= 50 * MB && !s.combined.high.known);
	assert_int_equal(s.descendants.low.value, 0);
	assert_int_equal(s.descendants.high.value, 100 * 65536);
	summary_done(&s);
}

/* Or a whole folio of it, as much as the largest of them is; beside it the others may have had a piece for each fault. */
static void test_where_none_was_seen_one_may_have_mapped_folios(void **state)
{
	struct rig *r = *state;
	struct summary s;

	job_facts(r->job)->file_fault_bytes = known(HUGE_PAGE);
	start(r, false);
	main_reaped(r, 250 * MB, 325, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_within(s.descendants.high.value, 250 * MB + 200 * 65536, 250 * MB + 325 * 65536);
	summary_done(&s);
}

/* Who lives on is in no ru_maxrss: then that is no bound, and a folio for each of thousands of faults would say nothing. */
static void test_folios_beside_one_that_lives_on(void **state)
{
	struct rig *r = *state;
	struct summary s;

	job_facts(r->job)->file_fault_bytes = known(HUGE_PAGE);
	start(r, false);
	born(r, 2, 1, 78);
	for (int i = 0; i < 3; i++) {
		if (i == 2)
			born(r, 3, 1, 79);
		rss(r, 1, 10 * MB, MB);
		rss(r, 2, 100 * MB, 0);
		if (i == 2)
			rss(r, 3, MB, 0);
		push(r);
		faults(r, 2, 30000);
		if (i == 2)
			faults(r, 3, 200);
		tick(r);
	}
	gone(r, 2);
	tick(r);
	main_reaped(r, 101 * MB, 32000, 5, 6);
	left(r, 3);
	finish(r);
	s = summary_of(r);
	assert_within(s.combined.high.value, 100 * MB + 2000 * 65536, 130 * MB + 2000 * 65536);
	summary_done(&s);
}

/* One was found, and was gone before it was read. */
static void test_what_was_found_and_not_read_is_unknown(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	born(r, 2, 1, 78);
	push(r);
	s = child_and_main_end(r, 50 * MB, 10000);
	assert_false(s.descendants.peak.known || s.descendants.mean.known || s.descendants.high.known);
	assert_int_equal(s.descendants.method, METHOD_UNKNOWN);
	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	summary_done(&s);
}

/* A look finds what is left of it, with what it had at its end. */
static void found_dead(struct rig *r, uint32_t id, int64_t minor)
{
	framebuf_end(&r->buf,
		&(struct end) { .entity = ENTITY_PROCESS, .id = id, .how = END_SEEN, .faults_minor = known(minor) });
}

static void expect_no_bound(struct rig *r, int64_t peak)
{
	struct summary s = summary_of(r);

	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_false(s.combined.high.known || s.descendants.high.known);
	assert_int_equal(s.descendants.peak.known, peak > 0);
	assert_true(s.descendants.peak.value == peak && s.descendants.method != METHOD_BOUNDED);
	assert_false(s.seen_at_least);
	summary_done(&s);
}

/* Twenty of 2 MB each that had ended when the look came: each one's faults are few. */
static void test_of_whom_zombies_alone_were_found_nothing_was_seen(void **state)
{
	struct rig *r = *state;

	start(r, false);
	for (uint32_t id = 2; id < 22; id++) {
		born(r, id, 1, 77);
		push(r);
		found_dead(r, id, 520);
		push(r);
	}
	tick(r);
	main_reaped(r, 3 * MB, 20 * 520, 5, 6);
	finish(r);
	expect_no_bound(r, 0);
}

/* It was seen at 5 MB and grew to 100 until it ended; main waits for it later. */
static void test_what_grew_after_the_last_look_was_not_seen(void **state)
{
	struct rig *r = *state;

	start(r, false);
	born(r, 2, 1, 78);
	rss(r, 2, 5 * MB, 0);
	push(r);
	faults(r, 2, 5 * MB / PAGE);
	tick(r);
	found_dead(r, 2, 100 * MB / PAGE);
	tick(r);
	main_reaped(r, 12 * MB, 100 * MB / PAGE, 5, 6);
	finish(r);
	expect_no_bound(r, 5 * MB);
}

/* Main waited for nobody; an orphan did, for whom no look found. */
static void test_children_of_an_orphan_that_no_look_found(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	born(r, 2, 1, 78);
	rss(r, 2, 5 * MB, 0);
	push(r);
	faults(r, 2, 5 * MB / PAGE);
	tick(r);
	main_reaped(r, 11 * MB, 0, 5, 6);
	framebuf_end(&r->buf, &(struct end) {
				      .entity = ENTITY_PROCESS,
				      .id = 2,
				      .how = END_REAPED,
				      .faults_minor = known(5 * MB / PAGE + 50000),
				      .faults_waited = known(50000),
			      });
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_false(s.combined.high.known || s.descendants.high.known);
	assert_true(s.seen_at_least);
	summary_done(&s);
}

/* A shell of 2 MB in whose last faults 300 MB have no place: its child, seen at 180, was that large. */
static struct summary shell(struct rig *r, int64_t late)
{
	job_facts(r->job)->fork_rss_bytes = known(2 * MB);
	job_facts(r->job)->rss_error_bytes = known(0);
	job_facts(r->job)->taskstats = known(0);
	born(r, 1, 0, 77);
	rss(r, 1, MB, MB);
	push(r);
	faults(r, 1, 150);
	tick(r);
	born(r, 2, 1, 78);
	rss(r, 2, 180 * MB, 0);
	say(r, M_PROC_HWM, 1, 2 * MB);
	push(r);
	faults(r, 2, 180 * MB / PAGE);
	tick(r);
	gone(r, 2);
	tick(r);
	job_facts(r->job)->main_faults = known(150 + late);
	main_reaped(r, 300 * MB, 300 * MB / PAGE, 5, 6);
	finish(r);
	return summary_of(r);
}

static void test_what_main_cannot_have_been_a_child_was(void **state)
{
	struct summary s = shell(*state, 20);

	assert_int_equal(s.main.peak.value, 2 * MB);
	assert_int_equal(s.main.high.value, 2 * MB + 20 * 65536);
	assert_int_equal(s.descendants.low.value, 300 * MB);
	assert_within(s.descendants.peak.value, 300 * MB, 301 * MB);
	assert_int_equal(s.combined.low.value, 300 * MB);
	assert_within(s.combined.peak.value, s.descendants.peak.value, 303 * MB);
	summary_done(&s);
}

/* Nor did any look find it. */
static void test_what_main_cannot_have_been_an_unseen_child_was(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	job_facts(r->job)->main_faults = known(150);
	main_reaped(r, 50 * MB, 50 * MB / PAGE, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.main.high.value, 11 * MB + 150 * 65536);
	assert_int_equal(s.descendants.low.value, 50 * MB);
	assert_int_equal(s.descendants.high.value, 16 * 50 * MB);
	assert_false(s.descendants.peak.known);
	summary_done(&s);
}

static void test_faults_that_brought_more_than_they_can_are_no_bound(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	job_facts(r->job)->main_faults = known(150);
	main_reaped(r, 50 * MB, 100, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.descendants.low.value, 50 * MB);
	assert_false(s.descendants.high.known);
	summary_done(&s);
}

/* Kernels that keep sizes per processor tell them with an error. */
static void test_mains_size_may_be_off(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	job_facts(r->job)->rss_error_bytes = known(8 * MB);
	job_facts(r->job)->main_faults = known(10);
	main_reaped(r, 50 * MB, 50 * MB / PAGE, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.main.high.value, 11 * MB + 8 * MB + 10 * 65536);
	summary_done(&s);
}

static void test_what_main_can_have_been_it_may_have_been(void **state)
{
	struct summary s = shell(*state, 10000);

	assert_int_equal(s.main.high.value, 300 * MB);
	assert_int_equal(s.descendants.low.value, 180 * MB);
	assert_int_equal(s.combined.low.value, 300 * MB);
	summary_done(&s);
}

static void orphan_reaped(struct rig *r, uint32_t id, int64_t maxrss, int64_t minor, int64_t waited)
{
	framebuf_end(&r->buf, &(struct end) {
				      .entity = ENTITY_PROCESS,
				      .id = id,
				      .how = END_REAPED,
				      .maxrss_bytes = known(maxrss),
				      .faults_minor = known(minor),
				      .faults_waited = known(waited),
			      });
	push(r);
}

/* Main waited for little ones, and for a child of so many bytes, when an orphan of 100 MB had been seen, and its ru_maxrss is 60. */
static int64_t beside_an_orphan(struct rig *r, int64_t waited_for)
{
	struct summary s;
	int64_t high;

	start(r, false);
	born(r, 2, 1, 79);
	born(r, 3, 1, 78);
	faults(r, 2, 100 * MB / PAGE);
	push(r);
	rss(r, 2, 100 * MB, 0);
	rss(r, 3, waited_for, 0);
	tick(r);
	gone(r, 3);
	push(r);
	orphan_reaped(r, 2, 100 * MB, 100 * MB / PAGE, 0);
	tick(r);
	job_facts(r->job)->main_faults = known(60 * MB / PAGE);
	main_reaped(r, 60 * MB, 100, 5, 6);
	finish(r);
	s = summary_of(r);
	high = s.combined.high.value;
	summary_done(&s);
	return high;
}

static void test_main_may_have_been_it_beside_one_that_was_larger(void **state)
{
	assert_int_equal(beside_an_orphan(*state, MB), 161 * MB);
}

static void test_who_was_waited_for_may_have_been_it(void **state)
{
	assert_int_equal(beside_an_orphan(*state, 60 * MB), 171 * MB);
}

/* ---- orphans, for whom hiwater waits --------------------------------------------------------------------------------- */

/* No look found them, or their zombies alone; all may have been there at once, whoever their parent was. */
static void orphans_of_100_mb(struct rig *r, bool found)
{
	struct summary s;

	start(r, false);
	for (uint32_t id = 2; id < 6 && found; id++) {
		born(r, id, 1, 77);
		push(r);
		found_dead(r, id, 100 * MB / PAGE);
		push(r);
	}
	tick(r);
	main_reaped(r, 11 * MB, 0, 5, 6);
	for (uint32_t id = 2; id < 6; id++) {
		if (!found)
			born_of(r, id, 0, 0, 0);
		push(r);
		orphan_reaped(r, id, 100 * MB, 100 * MB / PAGE, 0);
	}
	tick(r);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_int_equal(s.combined.low.value, 100 * MB);
	assert_within(s.combined.peak.value, 100 * MB, 111 * MB);
	assert_within(s.combined.high.value, 400 * MB, 411 * MB);
	assert_within(s.descendants.peak.value, 100 * MB, 111 * MB);
	assert_within(s.descendants.high.value, 400 * MB, 411 * MB);
	summary_done(&s);
}

/* One look found them while they filled, and their ends: each proves what it was when it is waited for, and all may have been so large
 * at one instant. */
static void test_orphans_that_ended_in_the_look_that_found_them_add_up(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	for (uint32_t id = 2; id < 6; id++) {
		born(r, id, 1, 77);
		rss(r, id, 40 * MB, 0);
		faults(r, id, 40 * MB / PAGE);
	}
	push(r);
	for (uint32_t id = 2; id < 6; id++) {
		gone(r, id);
		push(r);
	}
	tick(r);
	main_reaped(r, 11 * MB, 0, 5, 6);
	for (uint32_t id = 2; id < 6; id++)
		orphan_reaped(r, id, 100 * MB, 100 * MB / PAGE, 0);
	tick(r);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.combined.method, METHOD_BOUNDED);
	assert_within(s.combined.high.value, 400 * MB, 411 * MB);
	assert_within(s.descendants.high.value, 400 * MB, 411 * MB);
	summary_done(&s);
}

static void test_orphans_that_no_look_found_add_up(void **state)
{
	orphans_of_100_mb(*state, false);
}

static void test_orphans_whose_zombies_were_found_add_up(void **state)
{
	orphans_of_100_mb(*state, true);
}

/* It is no larger than main: so large it was by what it was given, or by memory of its own. */
static void test_an_orphan_that_is_no_larger_than_its_parent_proves_nothing(void **state)
{
	struct rig *r = *state;
	struct summary s;

	start(r, false);
	main_reaped(r, 11 * MB, 0, 5, 6);
	born_of(r, 2, 0, 0, 0);
	push(r);
	orphan_reaped(r, 2, 10 * MB, 8 * MB / PAGE, 0);
	tick(r);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.combined.method, METHOD_SAMPLED);
	assert_int_equal(s.combined.peak.value, 11 * MB);
	assert_false(s.combined.high.known || s.descendants.peak.known || s.descendants.high.known);
	summary_done(&s);
}

/* Its few faults brought 5 MB: the others gave it what it had beside, whichever was its parent. */
static void relay(struct rig *r, bool found)
{
	start(r, false);
	born(r, 2, 1, 77);
	rss(r, 2, 80 * MB, MB);
	push(r);
	faults(r, 2, 70 * MB / PAGE);
	tick(r);
	if (found) {
		born_of(r, 3, 0, 77, 0);
		push(r);
		found_dead(r, 3, 5 * MB / PAGE);
		tick(r);
	}
	if (!found)
		born_of(r, 3, 0, 0, 0);
	push(r);
	orphan_reaped(r, 3, 100 * MB, 5 * MB / PAGE, 0);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_LOW), 100 * MB);
	assert_within(most(r, M_JOB_RAM), 100 * MB, 106 * MB);
	assert_within(most(r, M_JOB_RAM_HIGH), 170 * MB, 200 * MB);
}

static void test_what_an_orphan_was_given_is_not_counted_twice(void **state)
{
	relay(*state, false);
}

static void test_nor_where_its_zombie_was_found(void **state)
{
	relay(*state, true);
}

/* A vfork and an exec: its ru_maxrss is that of the memory that main lent it, which was larger than at any look. */
static void lent_by_main(struct rig *r, bool found)
{
	struct summary s;

	start(r, false);
	if (found) {
		born(r, 2, 1, 77);
		push(r);
		found_dead(r, 2, 150);
	}
	tick(r);
	main_reaped(r, 200 * MB, 100, 5, 6);
	if (!found)
		born_of(r, 2, 0, 0, 0);
	push(r);
	orphan_reaped(r, 2, 200 * MB, 150, 0);
	tick(r);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.main.high.value, 200 * MB);
	assert_int_equal(s.combined.low.value, 200 * MB);
	assert_true(s.descendants.low.value < MB && s.descendants.peak.value < MB);
	summary_done(&s);
}

static void test_what_main_lent_an_orphan_is_mains(void **state)
{
	lent_by_main(*state, true);
}

static void test_nor_is_it_that_of_an_orphan_that_no_look_found(void **state)
{
	lent_by_main(*state, false);
}

/* Sixty faults brought a huge page each: main was too small to have given it that. */
static void test_huge_pages_of_an_orphan_are_its_own(void **state)
{
	struct rig *r = *state;

	start(r, false);
	born(r, 2, 1, 78);
	rss(r, 2, 80 * MB, 0);
	tick(r);
	born(r, 3, 1, 77);
	push(r);
	found_dead(r, 3, 60);
	tick(r);
	orphan_reaped(r, 3, 100 * MB, 60, 0);
	tick(r);
	assert_within(most(r, M_JOB_RAM), 175 * MB, 195 * MB);
}

/* Looks saw that they share 11 MB; each may have left its copy for a program of its own since. */
static void test_what_orphans_shared_may_be_gone(void **state)
{
	struct rig *r = *state;

	start(r, false);
	for (uint32_t id = 2; id < 6; id++) {
		born(r, id, 1, 77);
		rss(r, id, 10 * MB, MB);
		push(r);
		faults(r, id, 20);
	}
	tick(r);
	for (uint32_t id = 2; id < 6; id++)
		found_dead(r, id, 15 * MB / PAGE);
	tick(r);
	main_reaped(r, 11 * MB, 0, 5, 6);
	for (uint32_t id = 2; id < 6; id++)
		orphan_reaped(r, id, 15 * MB, 15 * MB / PAGE, 0);
	tick(r);
	finish(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 60 * MB, 105 * MB);
	assert_within(most(r, M_JOB_RAM_REST_HIGH), 60 * MB, 105 * MB);
}

/* Nobody counted the faults of its children. */
static void deaf_main(struct rig *r, bool has_records)
{
	struct summary s;

	start(r, has_records);
	job_facts(r->job)->main_ignored_sigchld = known(1);
	main_reaped(r, 50 * MB, 0, 5, 6);
	finish(r);
	s = summary_of(r);
	assert_int_equal(s.main.method, METHOD_EXACT);
	assert_int_equal(s.combined.method, has_records ? METHOD_EXACT : METHOD_SAMPLED);
	assert_int_equal(s.combined.peak.value, 50 * MB);
	assert_int_equal(s.combined.high.known, has_records);
	assert_int_equal(s.descendants.peak.known, has_records);
	summary_done(&s);
}

static void test_a_main_that_ignores_sigchld_may_have_had_children(void **state)
{
	deaf_main(*state, false);
}

static void test_its_children_would_have_had_exit_records(void **state)
{
	deaf_main(*state, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_nothing_was_read),
		RIG_TEST(test_a_peak_without_a_look_has_no_mean),
		RIG_TEST(test_what_was_seen_and_not_waited_for_hides_nobody),
		RIG_TEST(test_the_childs_own_faults_change_nothing),
		RIG_TEST(test_few_unseen_faults_raise_the_bound),
		RIG_TEST(test_very_few_unseen_faults_bring_no_more_than_a_piece_each),
		HUGE_RIG_TEST(test_unseen_faults_that_may_have_brought_huge_pages_matter),
		HUGE_RIG_TEST(test_late_faults_may_have_brought_huge_pages_too),
		HUGE_RIG_TEST(test_what_a_child_grew_by_its_faults_brought),
		HUGE_RIG_TEST(test_unless_it_came_back_from_swap),
		HUGE_RIG_TEST(test_unless_huge_pages_may_have_brought_it),
		HUGE_RIG_TEST(test_what_was_read_explains_what_huge_pages_do_not),
		RIG_TEST(test_what_a_fork_gave_explains_no_faults),
		RIG_TEST(test_a_first_look_at_a_fork_explains_no_faults),
		RIG_TEST(test_a_hidden_child_may_be_a_fork_that_explains_no_faults),
		RIG_TEST(test_faults_read_after_the_last_look_were_not_seen),
		RIG_TEST(test_exit_records_tell_of_everybody),
		RIG_TEST(test_lost_exit_records_tell_of_nobody),
		RIG_TEST(test_much_unseen_is_sampled),
		RIG_TEST(test_where_none_was_seen_faults_bound_them),
		RIG_TEST(test_where_none_was_seen_one_may_have_mapped_folios),
		RIG_TEST(test_folios_beside_one_that_lives_on),
		RIG_TEST(test_what_was_found_and_not_read_is_unknown),
		RIG_TEST(test_of_whom_zombies_alone_were_found_nothing_was_seen),
		RIG_TEST(test_what_grew_after_the_last_look_was_not_seen),
		RIG_TEST(test_children_of_an_orphan_that_no_look_found),
		RIG_TEST(test_what_main_cannot_have_been_a_child_was),
		RIG_TEST(test_what_main_cannot_have_been_an_unseen_child_was),
		RIG_TEST(test_faults_that_brought_more_than_they_can_are_no_bound),
		RIG_TEST(test_mains_size_may_be_off),
		RIG_TEST(test_what_main_can_have_been_it_may_have_been),
		RIG_TEST(test_main_may_have_been_it_beside_one_that_was_larger),
		RIG_TEST(test_who_was_waited_for_may_have_been_it),
		RIG_TEST(test_orphans_that_ended_in_the_look_that_found_them_add_up),
		RIG_TEST(test_orphans_that_no_look_found_add_up),
		RIG_TEST(test_orphans_whose_zombies_were_found_add_up),
		RIG_TEST(test_an_orphan_that_is_no_larger_than_its_parent_proves_nothing),
		RIG_TEST(test_what_an_orphan_was_given_is_not_counted_twice),
		RIG_TEST(test_nor_where_its_zombie_was_found),
		RIG_TEST(test_what_main_lent_an_orphan_is_mains),
		RIG_TEST(test_nor_is_it_that_of_an_orphan_that_no_look_found),
		HUGE_RIG_TEST(test_huge_pages_of_an_orphan_are_its_own),
		RIG_TEST(test_what_orphans_shared_may_be_gone),
		RIG_TEST(test_a_main_that_ignores_sigchld_may_have_had_children),
		RIG_TEST(test_its_children_would_have_had_exit_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
