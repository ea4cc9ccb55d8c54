/* SPDX-License-Identifier: MIT
 *
 * Combined memory between two looks: bursts that a mark or an exit record proves, and what a PSS pass says.
 */
#include "job_rig.h"

/* ---- bursts ------------------------------------------------------------------------------------------------------- */

static void test_a_burst_of_a_lone_process(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, 10 * MB, 0);
	tick(r);
	rss(r, 1, 11 * MB, 0);
	push(r);
	say(r, M_PROC_HWM, 1, 500 * MB);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM), 500 * MB);
	assert_int_equal(most(r, M_JOB_RAM_LOW), 500 * MB);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 500 * MB);
	assert_int_equal(most(r, M_JOB_RAM_MAIN), 500 * MB);
	assert_int_equal(last(r, M_JOB_RAM), 11 * MB);
	assert_int_equal(job_main(r->job)->peak_bytes, 500 * MB);
	/* The source tells of the same burst with the next rss: no news. */
	struct reading again = reading_of(M_PROC_RSS, 1, 11 * MB);

	again.max = 500 * MB;
	framebuf_reading(&r->buf, again);
	say(r, M_PROC_HWM, 1, 500 * MB);
	tick(r);
	assert_int_equal(job_acc(r->job, M_JOB_RAM, 0)->max_at_ns, 50 * MS); /* between the two looks */
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 500 * MB);
}

static void test_bursts_of_several_may_coincide(void **state)
{
	struct rig *r = *state;

	for (uint32_t id = 1; id <= 3; id++)
		born(r, id, id == 1 ? 0 : 1, 100 + id);
	for (uint32_t id = 1; id <= 3; id++)
		rss(r, id, 100 * MB, 0);
	tick(r);
	for (uint32_t id = 1; id <= 3; id++)
		rss(r, id, 50 * MB, 0);
	push(r);
	say(r, M_PROC_HWM, 2, 150 * MB);
	say(r, M_PROC_HWM, 3, 120 * MB);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 370 * MB);
	assert_int_equal(most(r, M_JOB_RAM_LOW), 150 * MB);
	assert_int_equal(most(r, M_JOB_RAM), 350 * MB);
	assert_int_equal(most(r, M_JOB_RAM_REST_HIGH), 270 * MB);
	assert_int_equal(last(r, M_JOB_RAM_HIGH), 150 * MB);
	/* Marks that rise with what is seen are no bursts. */
	for (uint32_t id = 1; id <= 3; id++)
		rss(r, id, 200 * MB, 0);
	push(r);
	for (uint32_t id = 1; id <= 3; id++)
		say(r, M_PROC_HWM, id, 200 * MB);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 600 * MB);
}

/* A mark as high as its parent was is the fork's, and proves nothing where it surely is one. By its name alone it may as well be
 * another run of the same program: the estimate takes it for a fork, the upper bound for neither. */
static void test_a_hidden_fork_may_be_none(void **state)
{
	static const struct {
		uint64_t startstack;
		int64_t least, most; /* the upper bound */
	} cases[] = {
		{ 77, 300 * MB, 310 * MB },
		{ STARTSTACK_HIDDEN | 1, 595 * MB, 610 * MB },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rig r;

		rig_new(&r, true, 0);
		born(&r, 1, 0, cases[i].startstack);
		rss(&r, 1, 300 * MB, 0);
		push(&r);
		faults(&r, 1, 300 * MB / PAGE);
		tick(&r);
		born(&r, 2, 1, cases[i].startstack);
		rss(&r, 1, 300 * MB, 0);
		rss(&r, 2, 5 * MB, 0); /* it has given back the rest */
		push(&r);
		faults(&r, 1, 300 * MB / PAGE);
		faults(&r, 2, 2);
		say(&r, M_PROC_HWM, 2, 300 * MB);
		tick(&r);
		assert_true(most(&r, M_JOB_RAM) <= 310 * MB);
		assert_within(most(&r, M_JOB_RAM_HIGH), cases[i].least, cases[i].most);
		rig_done(&r);
	}
}

/* What main waited for was that large at any time of its life: the end is as far from that as may be. */
static void test_a_burst_that_only_ru_maxrss_knows(void **state)
{
	struct rig *r = *state;

	job_facts(r->job)->fork_rss_bytes = known(4 * MB);
	born(r, 1, 0, 77);
	born(r, 2, 1, 78);
	for (int i = 0; i < 7; i++) {
		rss(r, 1, 2 * MB, 0);
		rss(r, 2, 2 * MB, 0);
		tick(r);
	}
	main_reaped(r, 150 * MB, 76000, 5, 6);
	finish(r);
	assert_int_equal(most(r, M_JOB_RAM), 152 * MB);
	assert_int_equal(job_acc(r->job, M_JOB_RAM, 0)->max_at_ns, 350 * MS);
}

static void test_a_burst_that_only_the_exit_record_knows(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	born(r, 2, 1, 78);
	rss(r, 1, 10 * MB, 0);
	rss(r, 2, 10 * MB, 0);
	tick(r);
	ended_with(r, 2, 400 * MB);
	rss(r, 1, 10 * MB, 0);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_LOW), 400 * MB);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 410 * MB);
	assert_int_equal(most(r, M_JOB_RAM_REST), 400 * MB);
	assert_true(job_process_by_id(r->job, 2)->peak_exact);
	assert_int_equal(job_process_by_id(r->job, 2)->peak_bytes, 400 * MB);
}

/* Lived and died between two looks: what it had of its parent is no more memory, what its faults brought is. */
static void missed_as(struct rig *r, const char *name, uint32_t id, int64_t hwm, int64_t faults)
{
	born_as(r, name, id, 1, 0, 0);
	ended_with_faults(r, id, hwm, faults);
}

static void missed_child(struct rig *r, uint32_t id, int64_t hwm, int64_t faults)
{
	missed_as(r, "another", id, hwm, faults);
}

static void test_children_that_only_exit_records_know(void **state)
{
	(void) state;
	for (int has_huge = 0; has_huge < 2; has_huge++) {
		struct rig r;

		rig_new(&r, true, has_huge ? HUGE_PAGE : 0);
		born(&r, 1, 0, 77);
		for (int i = 0; i < 3; i++) {
			if (has_huge)
				huge_pages(&r, 1000);
			rss(&r, 1, 300 * MB, 0);
			tick(&r);
		}
		/* Ten forks that wrote to ten pages each. */
		for (uint32_t id = 2; id <= 11; id++)
			missed_child(&r, id, 300 * MB, 10);
		rss(&r, 1, 300 * MB, 0);
		push(&r);
		if (has_huge)
			huge_pages(&r, 1000);
		tick(&r);
		assert_within(most(&r, M_JOB_RAM_HIGH), 300 * MB + 100 * PAGE, 300 * MB + 100 * 64 * KB);
		assert_within(most(&r, M_JOB_RAM), 300 * MB, 300 * MB + 100 * 64 * KB);
		/* One that filled 200 MB of its own. */
		missed_child(&r, 12, 200 * MB, has_huge ? 100 : 200 * MB / PAGE);
		rss(&r, 1, 300 * MB, 0);
		push(&r);
		if (has_huge)
			huge_pages(&r, 1100);
		tick(&r);
		assert_within(most(&r, M_JOB_RAM_HIGH), 500 * MB, 507 * MB);
		assert_within(most(&r, M_JOB_RAM), 500 * MB, 507 * MB);
		assert_int_equal(job_facts(r.job)->processes_seen.value, 12);
		/* Nobody counted the huge pages: it may have had as many. */
		missed_child(&r, 13, 250 * MB, 10);
		rss(&r, 1, 300 * MB, 0);
		tick(&r);
		if (has_huge)
			assert_within(most(&r, M_JOB_RAM_HIGH), 550 * MB, 557 * MB);
		rig_done(&r);
	}
}

/* What it adds is told by what it is larger than its parent, and by its faults; what the machine gave out to others, or
 * may have, is in the bound. */
static void test_a_copy_that_no_look_saw_adds_little(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r, true, HUGE_PAGE);
	born(&r, 1, 0, 77);
	for (int i = 0; i < 3; i++) {
		huge_pages(&r, 1000);
		rss(&r, 1, 300 * MB, 0);
		tick(&r);
	}
	missed_as(&r, "p1", 2, 320 * MB, 20 * MB / PAGE);
	rss(&r, 1, 300 * MB, 0);
	push(&r);
	huge_pages(&r, 2000);
	tick(&r);
	assert_within(most(&r, M_JOB_RAM), 320 * MB, 340 * MB);
	assert_within(most(&r, M_JOB_RAM_HIGH), 600 * MB, 620 * MB);
	rig_done(&r);
}

/* Main alone, with so much of its own. */
static void founded(struct rig *r, int64_t bytes)
{
	born(r, 1, 0, 77);
	rss(r, 1, bytes, 0);
	faults(r, 1, bytes / PAGE);
	tick(r);
}

static void missed_of(struct rig *r, uint32_t id, uint32_t parent, int64_t hwm, int64_t faults, enum end_program program)
{
	born_as(r, "p1", id, parent, 0, 0);
	framebuf_end(&r->buf, &(struct end) {
				      .entity = ENTITY_PROCESS,
				      .id = id,
				      .how = END_TASKSTATS,
				      .hwm_bytes = known(hwm),
				      .faults_minor = known(faults),
				      .program = program,
			      });
}

/* The exit record says whether it ran a program of its own: then it was given nothing, whatever it is called; of a fork that maps
 * a file by few faults, what it is larger by than its parent it brought. */
static void test_an_exit_record_tells_whose_program_it_was(void **state)
{
	static const struct {
		enum end_program program;
		int64_t hwm, least, most;
	} cases[] = {
		{ PROGRAM_OWN, 150 * MB, 500 * MB, 502 * MB },
		{ PROGRAM_OF_PARENT, 150 * MB, 200 * MB, 213 * MB },
		{ PROGRAM_OF_PARENT, 350 * MB, 500 * MB, 513 * MB },
		{ PROGRAM_UNKNOWN, 350 * MB, 500 * MB, 513 * MB },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig r;

		rig_new(&r, true, 0);
		founded(&r, 200 * MB);
		for (uint32_t id = 2; id <= 3; id++)
			missed_of(&r, id, 1, cases[i].hwm, 100, cases[i].program);
		rss(&r, 1, 200 * MB, 0);
		tick(&r);
		assert_within(most(&r, M_JOB_RAM_HIGH), cases[i].least, cases[i].most);
		assert_true(most(&r, M_JOB_RAM) >= (cases[i].program == PROGRAM_OWN ? 350 * MB : cases[i].hwm));
		rig_done(&r);
	}
}

/* In the last total main's ru_maxrss is known: it may be that of the very forks. */
static void test_unseen_forks_of_the_last_span(void **state)
{
	struct rig *r = *state;

	founded(r, 200 * MB);
	missed_of(r, 2, 1, 350 * MB, 100, PROGRAM_OF_PARENT);
	missed_of(r, 3, 1, 350 * MB, 100, PROGRAM_OF_PARENT);
	job_facts(r->job)->main_maxrss_bytes = known(350 * MB);
	rss(r, 1, 200 * MB, 0);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 500 * MB, 513 * MB);
}

/* What main gave a fork is in no other's figures where main is left out. */
static void test_an_unseen_fork_of_main_holds_that_for_the_descendants(void **state)
{
	struct rig *r = *state;

	founded(r, 200 * MB);
	missed_of(r, 2, 1, 200 * MB, 100, PROGRAM_OF_PARENT);
	missed_of(r, 3, 1, 200 * MB, 100, PROGRAM_OF_PARENT);
	missed_of(r, 4, 1, 30 * MB, 8000, PROGRAM_OWN);
	rss(r, 1, 200 * MB, 0);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 230 * MB, 244 * MB);
	assert_within(most(r, M_JOB_RAM_REST_HIGH), 230 * MB, 244 * MB);
}

/* Of a parent of which nothing was read nobody knows what it gave. */
static void test_an_unseen_fork_of_an_unseen_parent_may_have_all_alone(void **state)
{
	struct rig *r = *state;

	founded(r, 500 * MB);
	born_as(r, "sh", 2, 1, 0, 0);
	missed_of(r, 3, 2, 250 * MB, 130, PROGRAM_OF_PARENT);
	rss(r, 1, 500 * MB, 0);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 750 * MB, 752 * MB);
}

/* Of thousands the smallest that ended are only counted: they are so before the total that judges what they added. */
static void test_more_unseen_ones_than_are_kept(void **state)
{
	const struct job_config config = { .page_bytes = PAGE, .fault_page_bytes = PAGE, .ours = true, .max_processes = 8 };
	struct rig r = { .job = job_new(&config) };

	(void) state;
	founded(&r, 10 * MB);
	for (uint32_t id = 2; id <= 40; id++)
		missed_of(&r, id, 1, 2 * MB, 600, PROGRAM_OWN);
	push(&r);
	rss(&r, 1, 10 * MB, 0);
	tick(&r);
	assert_within(most(&r, M_JOB_RAM_HIGH), (10 + 39 * 2) * MB, (10 + 39 * 2) * MB);
	rig_done(&r);
}

/* Counters of a machine may go back (a container that was moved): no process is smaller for that. */
static void test_huge_pages_that_go_back_take_nothing_off(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r, true, HUGE_PAGE);
	for (int i = 0; i < 2; i++) {
		huge_pages(&r, 1000);
		rss(&r, 1, 100 * MB, 0);
		if (i == 0)
			born(&r, 1, 0, 77);
		push(&r);
		huge_pages(&r, 1000);
		tick(&r);
	}
	missed_of(&r, 2, 1, 300 * MB, 100, PROGRAM_OWN);
	rss(&r, 1, 100 * MB, 0);
	push(&r);
	huge_pages(&r, 900);
	tick(&r);
	assert_within(most(&r, M_JOB_RAM_HIGH), 400 * MB, 402 * MB);
	rig_done(&r);
}

/* Forks that come between the first two totals: huge pages count from the start of the run. Their parent has grown by then. */
static void test_forks_before_the_second_look_add_little(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r, true, HUGE_PAGE);
	huge_pages(&r, 1000);
	born(&r, 1, 0, 77);
	rss(&r, 1, 10 * MB, 0);
	tick(&r);
	for (uint32_t id = 2; id <= 11; id++)
		missed_as(&r, "p1", id, 300 * MB, 100);
	rss(&r, 1, 300 * MB, 0);
	push(&r);
	huge_pages(&r, 1000);
	tick(&r);
	assert_within(most(&r, M_JOB_RAM_HIGH), 300 * MB + 1000 * PAGE, 300 * MB + 1000 * 64 * KB);
	rig_done(&r);
}

/* A loop forks, waits and forks again: whoever ended made room for the next, also where that was never looked at. */
static void test_children_that_come_one_after_the_other(void **state)
{
	struct rig r;
	uint32_t id = 2;

	(void) state;
	rig_new(&r, true, 0);
	founded(&r, 20 * MB);
	for (int i = 0; i < 20; i++) {
		born(&r, id, 1, 77);
		rss(&r, 1, 20 * MB, 0);
		rss(&r, id, 40 * MB, 0);
		push(&r);
		faults(&r, id, 20 * MB / PAGE);
		tick(&r);
		ended_with_faults(&r, id, 70 * MB, 50 * MB / PAGE);
		missed_as(&r, "p1", id + 1, 70 * MB, 50 * MB / PAGE);
		id += 2;
	}
	rss(&r, 1, 20 * MB, 0);
	tick(&r);
	assert_within(most(&r, M_JOB_RAM), 70 * MB, 72 * MB);
	assert_within(most(&r, M_JOB_RAM_REST), 70 * MB, 72 * MB);
	assert_true(most(&r, M_JOB_RAM_HIGH) >= 120 * MB); /* they may have been there at once */
	rig_done(&r);
}

/* What forks that have ended took with them is not held beside those that came after them. */
static void test_forks_take_with_them_what_they_brought(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r, true, 0);
	founded(&r, 100 * MB);
	for (uint32_t id = 2; id <= 40; id += 2) {
		for (uint32_t k = 0; k < 2; k++) {
			born(&r, id + k, 1, 77);
			rss(&r, id + k, 130 * MB, 0);
		}
		rss(&r, 1, 100 * MB, 0);
		push(&r);
		for (uint32_t k = 0; k < 2; k++)
			faults(&r, id + k, 30 * MB / PAGE);
		tick(&r);
		for (uint32_t k = 0; k < 2; k++)
			gone(&r, id + k);
	}
	rss(&r, 1, 100 * MB, 0);
	tick(&r);
	assert_within(most(&r, M_JOB_RAM), 160 * MB, 162 * MB);
	rig_done(&r);
}

/* What they took and gave back before what is held was counted anew is none of what they take with them. */
static void test_forks_that_churned_take_no_more_with_them(void **state)
{
	struct rig r;
	int64_t before;

	(void) state;
	rig_new(&r, true, 0);
	founded(&r, 100 * MB);
	for (uint32_t id = 2; id < 10; id++)
		born(&r, id, 1, 77);
	for (int i = 1; i <= 40; i++) {
		rss(&r, 1, 100 * MB, 0);
		for (uint32_t id = 2; id < 10; id++)
			rss(&r, id, (i % 2 ? 150 : 120) * MB, 0);
		push(&r);
		for (uint32_t id = 2; id < 10; id++)
			faults(&r, id, i * 40 * MB / PAGE);
		tick(&r);
	}
	before = job_acc(r.job, M_JOB_RAM, 0)->last;
	gone(&r, 9);
	rss(&r, 1, 100 * MB, 0);
	for (uint32_t id = 2; id < 9; id++)
		rss(&r, id, 150 * MB, 0);
	tick(&r);
	assert_within(job_acc(r.job, M_JOB_RAM, 0)->last, before - 150 * MB, (100 + 7 * 150) * MB);
	rig_done(&r);
}

/* ---- the PSS pass -------------------------------------------------------------------------------------------------- */

static void pass(struct rig *r, uint32_t n, int64_t pss, int64_t private, bool valid)
{
	for (uint32_t id = 1; id <= n; id++) {
		say(r, M_PROC_PSS, id, pss);
		say(r, M_PROC_PRIVATE, id, private);
		say(r, M_PROC_SHARED, id, 301 * MB - private);
	}
	push(r);
	job_pss_done(r->job, (struct pss_drift) { 0 }, valid);
}

/* A look takes long on a busy machine: what it read may be gone when it is added up. */
static void test_who_ends_before_its_look_is_added_up_counts(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 1);
	rss(r, 1, MB, 0);
	tick(r);
	for (uint32_t id = 2; id <= 9; id++) {
		born(r, id, 1, id);
		rss(r, id, 100 * MB, 0);
	}
	rss(r, 1, MB, 0);
	push(r);
	for (uint32_t id = 2; id <= 9; id++)
		faults(r, id, 100 * MB / PAGE);
	push(r);
	for (uint32_t id = 2; id <= 9; id++)
		gone(r, id);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 801 * MB, 810 * MB);
	assert_within(most(r, M_JOB_RAM_REST_HIGH), 800 * MB, 810 * MB);
	assert_within(most(r, M_JOB_RAM), 100 * MB, 810 * MB);
	/* The same of what one had grown by. */
	born(r, 10, 1, 10);
	rss(r, 10, 10 * MB, 0);
	tick(r);
	rss(r, 10, 2000 * MB, 0);
	push(r);
	gone(r, 10);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 2001 * MB, 2010 * MB);
}

/* Forks that were read, and were gone before that look was added up, held what their parent had given them; also where
 * that went in the same look. */
static void test_a_copy_that_ends_before_its_look_is_added_up_adds_little(void **state)
{
	(void) state;
	for (int parent_first = 0; parent_first < 2; parent_first++) {
		struct rig r;

		rig_new(&r, true, HUGE_PAGE);
		born(&r, 1, 0, 77);
		huge_pages(&r, 1000);
		rss(&r, 1, 300 * MB, 0);
		tick(&r);
		for (uint32_t id = 2; id <= 4; id++) {
			born(&r, id, 1, 77);
			rss(&r, id, 301 * MB, 0);
		}
		rss(&r, 1, 300 * MB, 0);
		push(&r);
		if (parent_first)
			gone(&r, 1);
		for (uint32_t id = 2; id <= 4; id++)
			gone(&r, id);
		tick(&r);
		assert_within(most(&r, M_JOB_RAM), 301 * MB, 305 * MB);
		assert_within(most(&r, M_JOB_RAM_HIGH), 900 * MB, 1205 * MB); /* they may have written to all of it */
		/* One that was only found: its exit record comes behind its end. */
		rig_done(&r);
		rig_new(&r, true, HUGE_PAGE);
		born(&r, 1, 0, 77);
		huge_pages(&r, 1000);
		rss(&r, 1, 300 * MB, 0);
		tick(&r);
		born(&r, 2, 1, 77);
		push(&r);
		if (parent_first)
			gone(&r, 1);
		gone(&r, 2);
		push(&r);
		ended_with(&r, 2, 301 * MB);
		tick(&r);
		assert_within(most(&r, M_JOB_RAM), 301 * MB, 305 * MB);
		assert_within(most(&r, M_JOB_RAM_HIGH), 601 * MB, 605 * MB);
		rig_done(&r);
	}
}

static void test_a_valid_pass_raises_low_and_leads_the_estimate(void **state)
{
	struct rig *r = *state;

	/* Nine that share 300 MB, attached to: nothing is known of their past. */
	for (uint32_t id = 1; id <= 9; id++)
		born_of(r, id, id == 1 ? 0 : 1, 77, BOOT - 1000 * MS);
	for (uint32_t id = 1; id <= 9; id++)
		rss(r, id, 301 * MB, 0);
	push(r);
	assert_true(job_needs(r->job) & NEED_PSS);
	pass(r, 9, 36 * MB, 1 * MB, true);
	assert_false(job_needs(r->job) & NEED_PSS);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM), 324 * MB);
	assert_int_equal(last(r, M_JOB_RAM_LOW), 324 * MB);
	assert_int_equal(last(r, M_JOB_RAM_HIGH), 9 * 301 * MB);
	assert_within(last(r, M_JOB_PRIVATE), 9 * MB - 1, 9 * MB);
	assert_within(last(r, M_JOB_SHARED), 315 * MB, 315 * MB + 1);
	/* The pass told of one instant: later low is what one process holds, and the estimate moves with high. */
	for (uint32_t id = 1; id <= 9; id++)
		rss(r, id, (id == 1 ? 311 : 301) * MB, 0);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM), 334 * MB);
	assert_int_equal(last(r, M_JOB_RAM_LOW), 311 * MB);
}

/* Pages that came and went while a pass went round are in its sum more than once, or in part: what is certain is less. */
static void test_what_moved_in_a_pass_is_not_certain(void **state)
{
	struct rig *r = *state;

	for (uint32_t id = 1; id <= 4; id++)
		born_of(r, id, id == 1 ? 0 : 1, 77, BOOT - 1000 * MS);
	for (uint32_t id = 1; id <= 4; id++)
		rss(r, id, 200 * MB, 0);
	push(r);
	for (uint32_t id = 1; id <= 4; id++)
		say(r, M_PROC_PSS, id, 60 * MB);
	push(r);
	job_pss_done(r->job, (struct pss_drift) { .moved = 30 * MB }, true);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM_LOW), 210 * MB);
	assert_int_equal(last(r, M_JOB_RAM), 240 * MB);
}

/* What grew between the look and the pass is held once: a burst of it proves the same bytes, not more beside them. */
static void test_what_grew_before_a_pass_is_not_held_by_others(void **state)
{
	struct rig *r = *state;
	struct reading again = reading_of(M_PROC_RSS, 2, 12 * MB);

	born(r, 1, 0, 77);
	born_of(r, 2, 1, 77, BOOT - 1000 * MS);
	rss(r, 1, MB, 0);
	rss(r, 2, 2 * MB, 0);
	push(r);
	say(r, M_PROC_PSS, 1, MB);
	say(r, M_PROC_PSS, 2, 12 * MB);
	push(r);
	job_pss_done(r->job, (struct pss_drift) { .grown = 10 * MB }, true);
	tick(r);
	assert_within(last(r, M_JOB_RAM), 2 * MB, 3 * MB);
	assert_true(last(r, M_JOB_RAM_HIGH) <= 3 * MB);
	again.max = 126 * MB;
	framebuf_reading(&r->buf, again);
	push(r);
	tick(r);
	assert_within(most(r, M_JOB_RAM), 126 * MB, 127 * MB);
	assert_within(most(r, M_JOB_RAM_HIGH), 126 * MB, 127 * MB);
}

static void test_a_spoilt_pass_changes_nothing(void **state)
{
	struct rig *r = *state;

	for (uint32_t id = 1; id <= 3; id++)
		born(r, id, id == 1 ? 0 : 1, 100 + id);
	for (uint32_t id = 1; id <= 3; id++)
		rss(r, id, 301 * MB, 0);
	push(r);
	pass(r, 3, 1000 * MB, 1 * MB, false);
	assert_true(job_needs(r->job) & NEED_PSS);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM), 903 * MB);
	assert_int_equal(last(r, M_JOB_RAM_LOW), 301 * MB);
	assert_null(job_acc(r->job, M_JOB_PRIVATE, 0));
	/* Spoilt again and again: it is left alone until the job grows. */
	pass(r, 3, 1000 * MB, 1 * MB, false);
	pass(r, 3, 1000 * MB, 1 * MB, false);
	assert_false(job_needs(r->job) & NEED_PSS);
}

/* A pass that proves more than the bound said raises the bound. */
static void test_high_is_never_below_a_pass(void **state)
{
	struct rig *r = *state;

	for (uint32_t id = 1; id <= 2; id++) {
		born(r, id, id == 1 ? 0 : 1, 100 + id);
		rss(r, id, 300 * MB, 0);
	}
	push(r);
	pass(r, 2, 310 * MB, 290 * MB, true);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM_HIGH), 620 * MB);
	assert_int_equal(last(r, M_JOB_RAM_LOW), 620 * MB);
}

static void test_when_a_pass_is_wanted(void **state)
{
	struct rig r;

	(void) state;
	rig_new(&r, true, 0);
	born(&r, 1, 0, 77);
	rss(&r, 1, 500 * MB, 4 * MB);
	push(&r);
	assert_false(job_needs(r.job) & NEED_PSS); /* lone, and nothing of note is mapped */
	total(&r);
	assert_int_equal(last(&r, M_JOB_PRIVATE), 500 * MB);
	rss(&r, 1, 100 * MB, 200 * MB);
	push(&r);
	assert_false(job_needs(r.job) & NEED_PSS); /* it was larger before */
	rig_done(&r);

	rig_new(&r, true, 0);
	born(&r, 1, 0, 77);
	rss(&r, 1, 10 * MB, 200 * MB);
	push(&r);
	assert_true(job_needs(r.job) & NEED_PSS);
	say(&r, M_PROC_PSS, 1, 205 * MB);
	say(&r, M_PROC_PRIVATE, 1, 205 * MB);
	say(&r, M_PROC_SHARED, 1, 5 * MB);
	push(&r);
	job_pss_done(r.job, (struct pss_drift) { 0 }, true);
	tick(&r);
	assert_int_equal(last(&r, M_JOB_PRIVATE), 205 * MB);
	assert_int_equal(last(&r, M_JOB_SHARED), 5 * MB);
	assert_false(job_needs(r.job) & NEED_PSS);
	born(&r, 2, 1, 78);
	rss(&r, 1, 10 * MB, 200 * MB);
	rss(&r, 2, 2 * MB, 0);
	tick(&r);
	assert_false(job_needs(r.job) & NEED_PSS); /* under 2% more */
	/* It grew a little and then stopped. */
	for (int i = 0; i < 8; i++) {
		rss(&r, 1, 10 * MB, 200 * MB);
		rss(&r, 2, 4 * MB, 0);
		tick(&r);
	}
	assert_true(job_needs(r.job) & NEED_PSS);
	rig_done(&r);
}

static void test_what_a_cgroup_holds_is_a_lower_bound(void **state)
{
	struct rig *r = *state;
	struct facts *f;

	f = job_facts(r->job);
	for (uint32_t id = 1; id <= 3; id++) {
		born(r, id, id == 1 ? 0 : 1, 100 + id);
		rss(r, id, 100 * MB, 0);
	}
	push(r);
	say(r, M_JOB_CGROUP_ANON, 0, 260 * MB);
	total(r);
	assert_int_equal(last(r, M_JOB_RAM_LOW), 100 * MB); /* others may be in it */
	f->cgroup_exclusive = known(1);
	f->own_rss_bytes = known(10 * MB);
	say(r, M_JOB_CGROUP_ANON, 0, 260 * MB);
	total(r);
	assert_int_equal(last(r, M_JOB_RAM_LOW), 250 * MB);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM_LOW), 100 * MB); /* it told of one instant */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_a_burst_of_a_lone_process),
		RIG_TEST(test_bursts_of_several_may_coincide),
		cmocka_unit_test(test_a_hidden_fork_may_be_none),
		RIG_TEST(test_a_burst_that_only_ru_maxrss_knows),
		RIG_TEST(test_a_burst_that_only_the_exit_record_knows),
		cmocka_unit_test(test_children_that_only_exit_records_know),
		cmocka_unit_test(test_a_copy_that_no_look_saw_adds_little),
		cmocka_unit_test(test_an_exit_record_tells_whose_program_it_was),
		RIG_TEST(test_unseen_forks_of_the_last_span),
		RIG_TEST(test_an_unseen_fork_of_main_holds_that_for_the_descendants),
		RIG_TEST(test_an_unseen_fork_of_an_unseen_parent_may_have_all_alone),
		cmocka_unit_test(test_more_unseen_ones_than_are_kept),
		cmocka_unit_test(test_huge_pages_that_go_back_take_nothing_off),
		cmocka_unit_test(test_forks_before_the_second_look_add_little),
		cmocka_unit_test(test_children_that_come_one_after_the_other),
		cmocka_unit_test(test_forks_take_with_them_what_they_brought),
		cmocka_unit_test(test_forks_that_churned_take_no_more_with_them),
		RIG_TEST(test_who_ends_before_its_look_is_added_up_counts),
		cmocka_unit_test(test_a_copy_that_ends_before_its_look_is_added_up_adds_little),
		ATTACHED_RIG_TEST(test_a_valid_pass_raises_low_and_leads_the_estimate),
		ATTACHED_RIG_TEST(test_what_moved_in_a_pass_is_not_certain),
		RIG_TEST(test_what_grew_before_a_pass_is_not_held_by_others),
		RIG_TEST(test_a_spoilt_pass_changes_nothing),
		RIG_TEST(test_high_is_never_below_a_pass),
		cmocka_unit_test(test_when_a_pass_is_wanted),
		RIG_TEST(test_what_a_cgroup_holds_is_a_lower_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
