/* SPDX-License-Identifier: MIT
 *
 * What a job held: at least, at most, probably. Each story is told with the numbers that the kernel would give, and
 * the truth follows from the story.
 */
#include "job_rig.h"

/* Main fills 300 MB, then forks eight, each of which writes to 20 pages. */
static void fork_eight(struct rig *r, bool has_huge)
{
	born(r, 1, 0, 77);
	push(r);
	if (has_huge)
		huge_pages(r, 1000);
	rss(r, 1, MB / 2, MB / 2);
	tick(r);
	for (uint32_t id = 2; id <= 9; id++)
		born(r, id, 1, 77);
	rss(r, 1, 300 * MB + MB / 2, MB / 2);
	for (uint32_t id = 2; id <= 9; id++)
		rss(r, id, 300 * MB + MB / 2, MB / 2);
	push(r);
	assert_true(job_needs(r->job) & NEED_FAULTS);
	faults(r, 1, FILL + 128);
	for (uint32_t id = 2; id <= 9; id++)
		faults(r, id, 20);
	push(r);
	if (has_huge) {
		assert_true(job_needs(r->job) & NEED_FAULTS);
		huge_pages(r, 1000);
	}
	assert_false(job_needs(r->job) & NEED_FAULTS);
	tick(r);
}

static void test_eight_forks_share_what_they_were_given(void **state)
{
	(void) state;
	for (int has_huge = 0; has_huge < 2; has_huge++) {
		struct rig r;

		rig_new(&r, true, has_huge ? HUGE_PAGE : 0);
		fork_eight(&r, has_huge);
		/* Everything that was ever faulted in, and the files of nine processes. */
		assert_within(most(&r, M_JOB_RAM_HIGH), 300 * MB, 301 * MB + 8 * 20 * PAGE + 9 * MB / 2);
		/* Some of their faults mapped files. */
		assert_within(most(&r, M_JOB_RAM), most(&r, M_JOB_RAM_HIGH) - (128 + 8 * 20) * PAGE, most(&r, M_JOB_RAM_HIGH));
		assert_int_equal(most(&r, M_JOB_RAM_LOW), 301 * MB);
		assert_int_equal(last(&r, M_JOB_RSS_SUM), 9 * 301 * MB);
		assert_within(most(&r, M_JOB_RAM_REST_HIGH), 300 * MB, 301 * MB + 8 * 20 * PAGE + 9 * MB / 2);
		rig_done(&r);
	}
}

/* No pass saw the eight; that main had all of it alone before and after says nothing of what they shared. */
static void test_what_one_had_alone_is_not_how_several_share(void **state)
{
	struct rig *r = *state;
	struct summary s;

	fork_eight(r, false);
	for (uint32_t id = 2; id <= 9; id++)
		gone(r, id);
	rss(r, 1, 300 * MB, MB / 2);
	push(r);
	faults(r, 1, FILL + 128);
	tick(r);
	tick(r);
	main_reaped(r, 301 * MB, 8 * 20, 1, 1);
	finish(r);
	s = summary_of(r);
	assert_within(s.combined.peak.value, 300 * MB, 306 * MB);
	assert_false(s.combined.private_bytes.known);
	summary_done(&s);
}

static void test_without_their_faults_the_sum_is_the_bound(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, MB, 0);
	tick(r);
	born(r, 2, 1, 77);
	rss(r, 1, 300 * MB, 0);
	rss(r, 2, 300 * MB, 0);
	tick(r);
	assert_int_equal(most(r, M_JOB_RAM_HIGH), 600 * MB);
}

/* A small main, and what its child has in huge pages, one by each of its faults. */
static void child_has_huge_pages(struct rig *r, int64_t n)
{
	rss(r, 1, 0, MB);
	rss(r, 2, n * HUGE_PAGE, 0);
	push(r);
	faults(r, 1, 100);
	faults(r, 2, n);
	huge_pages(r, 1000 + n);
	tick(r);
}

/* The child had six of them before hiwater's sources were open, and fills the rest of 150 MB. */
static void test_huge_pages_count_from_before_the_job(void **state)
{
	struct rig *r = *state;

	huge_pages(r, 1000);
	huge_pages(r, 1006);
	born(r, 1, 0, 77);
	born(r, 2, 1, 77);
	child_has_huge_pages(r, 6);
	child_has_huge_pages(r, 75);
	assert_true(last(r, M_JOB_RAM_HIGH) >= 151 * MB);
}

static void test_a_child_that_fills_huge_pages_is_caught(void **state)
{
	struct rig *r = *state;

	fork_eight(r, true);
	/* 150 huge pages of its own in 150 faults; the other seven still share. */
	for (uint32_t id = 1; id <= 9; id++)
		rss(r, id, (id == 5 ? 600 : 300) * MB, MB / 2);
	push(r);
	faults(r, 1, FILL + 128);
	for (uint32_t id = 2; id <= 9; id++)
		faults(r, id, id == 5 ? 170 : 20);
	huge_pages(r, 1150);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 600 * MB, 620 * MB);
}

/* Huge pages that were given out after the last count must not be missed: then the sum is what there is. */
/* A child comes with a mark as high as its parent's memory, maybe before its own memory is read. */
static void test_a_childs_first_mark_is_its_parents_memory(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	push(r);
	rss(r, 1, 10 * MB, 0);
	faults(r, 1, 10 * MB / PAGE);
	tick(r);
	born(r, 2, 1, 77);
	rss(r, 1, 300 * MB, 0);
	faults(r, 1, 300 * MB / PAGE);
	say(r, M_PROC_HWM, 2, 300 * MB);
	faults(r, 2, 10);
	tick(r);
	assert_within(most(r, M_JOB_RAM), 300 * MB, 301 * MB);
	assert_within(most(r, M_JOB_RAM_HIGH), 300 * MB, 301 * MB);
}

/* Others take huge pages without end: that loosens what the job holds at most, not what it probably holds. */
static void test_huge_pages_of_others_are_not_the_jobs(void **state)
{
	struct rig *r = *state;

	fork_eight(r, true);
	for (int k = 1; k <= 20; k++) {
		for (uint32_t id = 1; id <= 9; id++)
			rss(r, id, (id == 5 && k >= 10 ? 400 : 300) * MB + MB / 2, MB / 2);
		push(r);
		faults(r, 1, FILL + 128);
		for (uint32_t id = 2; id <= 9; id++)
			faults(r, id, id == 5 && k >= 10 ? 70 : 20);
		huge_pages(r, 1000 + 100 * k);
		tick(r);
		if (k == 9) {
			assert_within(most(r, M_JOB_RAM), 300 * MB, 307 * MB);
			assert_true(last(r, M_JOB_RAM_HIGH) >= 1000 * MB);
		}
	}
	/* One did grow by 100 MB meanwhile, in huge pages. */
	assert_within(last(r, M_JOB_RAM), 400 * MB, 407 * MB);
}

static void test_an_old_count_of_huge_pages_is_not_believed(void **state)
{
	struct rig *r = *state;

	fork_eight(r, true);
	for (uint32_t id = 1; id <= 9; id++)
		rss(r, id, (id == 5 ? 600 : 300) * MB, 0);
	push(r);
	for (uint32_t id = 1; id <= 9; id++)
		faults(r, id, id == 1 ? FILL + 128 : id == 5 ? 170
							     : 20);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM_HIGH), 8 * 300 * MB + 600 * MB);
}

static void test_a_parent_that_writes_everything_anew_is_caught(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, 300 * MB, 0);
	push(r);
	faults(r, 1, FILL);
	tick(r);
	/* Two ticks alone, then a fork: one child keeps the old pages while main gets new ones. */
	rss(r, 1, 300 * MB, 0);
	tick(r);
	born(r, 2, 1, 77);
	rss(r, 1, 300 * MB, 0);
	rss(r, 2, 300 * MB, 0);
	push(r);
	faults(r, 1, 2 * FILL);
	faults(r, 2, 10);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 600 * MB, 600 * MB + 10 * PAGE);
}

/* The child was forked before the look that saw main shrink, and shows only after it: that look bounds nothing. */
static void test_a_child_that_was_missed_takes_pages_along(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, 300 * MB, 0);
	push(r);
	faults(r, 1, FILL);
	tick(r);
	/* Forked here, main gave its memory back; the look missed the child. */
	uint64_t forked = BOOT + r->now - 10 * MS;

	rss(r, 1, 1 * MB, 0);
	tick(r);
	born_of(r, 2, 1, 77, forked);
	rss(r, 1, 101 * MB, 0);
	rss(r, 2, 300 * MB, 0);
	push(r);
	faults(r, 1, FILL + 100 * MB / PAGE);
	faults(r, 2, 1);
	tick(r);
	/* Main has 100 MB that are new. */
	assert_within(last(r, M_JOB_RAM_HIGH), 400 * MB, 401 * MB);
}

/* Eight children sleep on what they were given: what main writes anew is main's. */
static void test_what_main_writes_beside_its_children_is_its_own(void **state)
{
	struct rig *r = *state;

	fork_eight(r, false);
	faults(r, 1, 2 * FILL + 128);
	tick(r);
	assert_within(last(r, M_JOB_RAM_REST_HIGH), 300 * MB, 306 * MB);
	assert_within(last(r, M_JOB_RAM_HIGH), 600 * MB, 607 * MB);
	assert_within(last(r, M_JOB_RAM), last(r, M_JOB_RAM_HIGH) - (128 + 8 * 20) * PAGE, last(r, M_JOB_RAM_HIGH));
}

/* Its mark, read last, tells of its size by a pass that found it grown since: the faults are none the older for it. */
static void test_a_mark_after_a_pass_is_no_new_look(void **state)
{
	struct rig *r = *state;

	fork_eight(r, false);
	rss(r, 1, 310 * MB, MB / 2);
	for (uint32_t id = 2; id <= 9; id++)
		rss(r, id, 300 * MB + MB / 2, MB / 2);
	push(r);
	faults(r, 1, FILL + 128 + 20 * MB / PAGE);
	for (uint32_t id = 2; id <= 9; id++)
		faults(r, id, 20);
	push(r);
	framebuf_reading(&r->buf, (struct reading) {
					  .metric = M_PROC_RSS,
					  .id = 1,
					  .known = true,
					  .value = 315 * MB,
					  .min = 315 * MB,
					  .max = 320 * MB,
					  .n = 1,
				  });
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 320 * MB, 340 * MB);
}

/* It takes and gives back 100 MB again and again: never are there more than what it holds and what they were given. */
static void test_what_is_given_back_beside_children_is_gone(void **state)
{
	struct rig *r = *state;

	fork_eight(r, false);
	for (int i = 0; i < 40; i++) {
		rss(r, 1, i % 2 ? 300 * MB : 400 * MB, MB / 2);
		push(r);
		faults(r, 1, FILL + 128 + (i / 2 + 1) * 100 * MB / PAGE);
		for (uint32_t id = 2; id <= 9; id++)
			faults(r, id, 20);
		tick(r);
		assert_within(last(r, M_JOB_RAM_HIGH), 400 * MB, 706 * MB);
		assert_within(last(r, M_JOB_RAM_REST_HIGH), 300 * MB, 306 * MB);
	}
}

/* Two children were forked while main held 200 MB each time, which it gave back before any look found them. */
static void test_what_a_missed_child_took_along_is_not_gone(void **state)
{
	const int64_t pages = 200 * MB / PAGE;
	struct rig *r = *state;
	uint64_t forked[2];

	born(r, 1, 0, 77);
	push(r);
	faults(r, 1, 0);
	tick(r);
	for (int i = 0; i < 2; i++) {
		rss(r, 1, 200 * MB, 0);
		push(r);
		faults(r, 1, (i + 1) * pages);
		tick(r);
		forked[i] = BOOT + r->now - 50 * MS;
		rss(r, 1, 0, 0);
		tick(r);
	}
	for (uint32_t i = 0; i < 2; i++) {
		born_of(r, 2 + i, 1, 77, forked[i]);
		rss(r, 2 + i, 200 * MB, 0);
	}
	rss(r, 1, 0, 0);
	push(r);
	faults(r, 1, 2 * pages);
	for (uint32_t id = 2; id <= 3; id++)
		faults(r, id, 0);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM_HIGH), 400 * MB);
}

/* What an ended member faulted in lives on in its children. */
static void test_an_ended_members_faults_stay(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, MB, 0);
	push(r);
	faults(r, 1, 256);
	tick(r);
	born(r, 2, 1, 77);
	rss(r, 1, MB, 0);
	rss(r, 2, 101 * MB, 0);
	push(r);
	faults(r, 1, 256);
	faults(r, 2, 100 * MB / PAGE);
	tick(r);
	born(r, 3, 2, 77);
	rss(r, 1, MB, 0);
	rss(r, 2, 201 * MB, 0);
	rss(r, 3, 201 * MB, 0);
	push(r);
	faults(r, 1, 256);
	faults(r, 2, 200 * MB / PAGE);
	faults(r, 3, 0);
	tick(r);
	framebuf_end(&r->buf, &(struct end) {
				      .entity = ENTITY_PROCESS,
				      .id = 2,
				      .how = END_TASKSTATS,
				      .faults_minor = known(200 * MB / PAGE + 5),
			      });
	rss(r, 1, 50 * MB, 0);
	rss(r, 3, 201 * MB, 0);
	push(r);
	faults(r, 1, 256 + 49 * MB / PAGE);
	faults(r, 3, 0);
	tick(r);
	/* Truth: 200 of the ended one in its child, 50 of main. */
	assert_within(last(r, M_JOB_RAM_HIGH), 250 * MB, 252 * MB);
}

static void test_exec_leaves_the_family(void **state)
{
	struct rig *r = *state;

	fork_eight(r, false);
	/* The second one runs another program, and that fills 200 MB of its own. */
	born(r, 2, 1, 88);
	for (uint32_t id = 1; id <= 9; id++)
		rss(r, id, (id == 2 ? 200 : 300) * MB, 0);
	push(r);
	for (uint32_t id = 1; id <= 9; id++)
		faults(r, id, id == 1 ? FILL + 128 : id == 2 ? 20 + 200 * MB / PAGE
							     : 20);
	tick(r);
	assert_within(last(r, M_JOB_RAM_HIGH), 500 * MB, 503 * MB);
	assert_int_equal(last(r, M_JOB_RAM_LOW), 300 * MB);
	/* Both new ones with the same stack are strangers all the same: no parenthood links them. */
	born(r, 10, 0, 77);
	for (uint32_t id = 1; id <= 10; id++)
		rss(r, id, (id == 2 ? 200 : 300) * MB, 0);
	push(r);
	for (uint32_t id = 1; id <= 10; id++)
		faults(r, id, id == 1 ? FILL + 128 : id == 2 ? 20 + 200 * MB / PAGE
							     : 20);
	tick(r);
	assert_within(last(r, M_JOB_RAM_HIGH), 800 * MB, 803 * MB);
}

static void test_smaller_large_pages_count_for_each_fault(void **state)
{
	struct rig *r = *state;
	const struct job_config config = {
		.page_bytes = PAGE,
		.fault_page_bytes = 64 * KB,
		.huge_page_bytes = HUGE_PAGE,
		.ours = true,
	};

	job_free(r->job);
	r->job = job_new(&config);
	assert_non_null(r->job);
	job_facts(r->job)->started_boot_ns = known((int64_t) BOOT);
	born(r, 1, 0, 77);
	push(r);
	huge_pages(r, 50);
	rss(r, 1, MB, 0);
	tick(r);
	born(r, 2, 1, 77);
	rss(r, 1, 101 * MB, 0);
	rss(r, 2, 101 * MB, 0);
	push(r);
	faults(r, 1, 100 * MB / (64 * KB));
	faults(r, 2, 16);
	huge_pages(r, 50);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM_HIGH), 102 * MB);
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static void test_a_shared_mapping_counts_once(void **state)
{
	struct rig *r = *state;

	for (uint32_t id = 1; id <= 4; id++)
		born(r, id, id == 1 ? 0 : 1, 100 + id);
	for (uint32_t id = 1; id <= 4; id++)
		rss(r, id, MB, 500 * MB);
	push(r);
	job_files_done(r->job, 500 * MB);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM_HIGH), 504 * MB);
	assert_int_equal(last(r, M_JOB_RAM_LOW), 501 * MB);
	/* One of them maps 10 MB more, and a fifth comes: what is new counts whole. */
	born(r, 5, 1, 200);
	for (uint32_t id = 1; id <= 5; id++)
		rss(r, id, MB, id == 5 ? 20 * MB : (id == 2 ? 510 : 500) * MB);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM_HIGH), 535 * MB);
}

static void test_different_files_add_up(void **state)
{
	struct rig *r = *state;

	for (uint32_t id = 1; id <= 3; id++)
		born(r, id, id == 1 ? 0 : 1, 100 + id);
	for (uint32_t id = 1; id <= 3; id++)
		rss(r, id, MB, 200 * MB);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM_HIGH), 603 * MB);
	for (uint32_t id = 1; id <= 3; id++)
		rss(r, id, MB, 200 * MB);
	push(r);
	job_files_done(r->job, 600 * MB);
	tick(r);
	assert_int_equal(last(r, M_JOB_RAM_HIGH), 603 * MB);
}

/* ---- anything at all ----------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return *seed >> 33;
}

static void check_invariants(const struct rig *r)
{
	int64_t largest = 0, largest_rest = 0;

	for (size_t i = 0; i < job_process_count(r->job); i++) {
		const struct process *p = job_process(r->job, i);

		if (p->peak_bytes > largest)
			largest = p->peak_bytes;
		if (!p->is_main && p->peak_bytes > largest_rest)
			largest_rest = p->peak_bytes;
	}
	assert_true(most(r, M_JOB_RAM_LOW) >= largest);
	assert_true(most(r, M_JOB_RAM) >= most(r, M_JOB_RAM_LOW));
	assert_true(most(r, M_JOB_RAM_HIGH) >= most(r, M_JOB_RAM));
	assert_true(last(r, M_JOB_RAM) >= last(r, M_JOB_RAM_LOW));
	assert_true(last(r, M_JOB_RAM_HIGH) >= last(r, M_JOB_RAM));
	assert_true(last(r, M_JOB_RSS_SUM) >= last(r, M_JOB_RAM_LOW) || job_facts(r->job)->pss_passes.known);
	assert_true(most(r, M_JOB_RAM_REST_LOW) >= largest_rest);
	assert_true(most(r, M_JOB_RAM_REST) >= most(r, M_JOB_RAM_REST_LOW));
	assert_true(most(r, M_JOB_RAM_REST_HIGH) >= most(r, M_JOB_RAM_REST));
	assert_true(most(r, M_JOB_RAM_REST_HIGH) <= most(r, M_JOB_RAM_HIGH));
	assert_true(last(r, M_JOB_RAM_REST_HIGH) <= last(r, M_JOB_RAM_HIGH));
}

/* Processes come, fork, exec, swell, burst and go, with passes and counts in any order. */
static void random_tick(struct rig *r, uint64_t *seed, uint64_t *stacks, uint32_t *n)
{
	uint32_t parent = 1 + (uint32_t) (next_random(seed) % *n);

	if (next_random(seed) % 3 == 0 && *n < 200 && !job_process_by_id(r->job, parent)->ended) {
		++*n;
		stacks[*n] = next_random(seed) % 2 ? stacks[parent] : 1000 + *n;
		born(r, *n, parent, stacks[*n]);
	}
	for (uint32_t id = 1; id <= *n; id++) {
		const struct process *p = job_process_by_id(r->job, id);
		int64_t size = (int64_t) (next_random(seed) % 4096) * PAGE;

		if (p && p->ended)
			continue;
		rss(r, id, size, (int64_t) (next_random(seed) % 512) * PAGE);
		if (next_random(seed) % 8 == 0) {
			stacks[id] = 5000 + next_random(seed);
			born(r, id, 0, stacks[id]);
		}
	}
	push(r);
	for (uint32_t id = 1; id <= *n; id++) {
		if (next_random(seed) % 2)
			faults(r, id, (int64_t) (r->now / MS));
		if (next_random(seed) % 4 == 0)
			say(r, M_PROC_HWM, id, (int64_t) (next_random(seed) % 9000) * PAGE);
		if (id > 1 && next_random(seed) % 40 == 0)
			gone(r, id);
	}
	if (next_random(seed) % 2)
		huge_pages(r, (int64_t) (r->now / MS / 50));
	if (next_random(seed) % 5 == 0)
		job_files_done(r->job, (next_random(seed) % 4096) * PAGE);
	push(r);
	if (next_random(seed) % 5 == 0) {
		for (uint32_t id = 1; id <= *n; id++)
			say(r, M_PROC_PSS, id, (int64_t) (next_random(seed) % 2048) * PAGE);
		push(r);
		job_facts(r->job)->pss_passes = known(1);
		job_pss_done(r->job, (struct pss_drift) { 0 }, next_random(seed) % 2);
	}
	(void) job_needs(r->job);
	tick(r);
}

static void test_low_peak_high_whatever_comes(void **state)
{
	(void) state;
	for (uint64_t s = 1; s <= 20; s++) {
		uint64_t seed = s * 7919, stacks[256] = { 0, 1 };
		uint32_t n = 1;
		struct rig r;
		struct summary sum;

		rig_new(&r, s % 2, s % 3 ? HUGE_PAGE : 0);
		born(&r, 1, 0, 1);
		push(&r);
		for (int i = 0; i < 300; i++) {
			random_tick(&r, &seed, stacks, &n);
			check_invariants(&r);
		}
		main_reaped(&r, (int64_t) (next_random(&seed) % 20000) * PAGE, (int64_t) (s % 3) - 1, 1, 1);
		finish(&r);
		check_invariants(&r);
		sum = summary_of(&r);
		assert_true(sum.combined.low.value <= sum.combined.peak.value);
		assert_true(sum.combined.peak.value <= sum.combined.high.value);
		assert_true(sum.combined.peak.value >= sum.main.peak.value);
		assert_true(sum.main.low.value <= sum.main.peak.value);
		assert_true(!sum.main.high.known || sum.main.peak.value <= sum.main.high.value);
		summary_done(&sum);
		rig_done(&r);
	}
}

/* ---- bursts that marks and records prove --------------------------------------------------------------------------- */

/* The marks of two are read at different times; both bursts may be of one moment. */
static void test_bursts_that_are_proven_one_after_the_other(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	born(r, 2, 1, 78);
	for (int i = 0; i < 2; i++) {
		rss(r, 1, MB, 0);
		rss(r, 2, MB, 0);
		tick(r);
	}
	ended_with(r, 2, 150 * MB);
	rss(r, 1, MB, 0);
	tick(r);
	rss(r, 1, MB, 0);
	push(r);
	say(r, M_PROC_HWM, 1, 150 * MB);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 299 * MB, 302 * MB);
	assert_within(most(r, M_JOB_RAM_LOW), 150 * MB, 151 * MB);
}

/* Main was the largest, then two children held as much together, and another was larger between two looks. */
static void test_the_rest_held_no_more_than_all(void **state)
{
	struct rig *r = *state;

	job_facts(r->job)->fork_rss_bytes = known(MB);
	job_facts(r->job)->rss_error_bytes = known(0);
	born(r, 1, 0, 77);
	rss(r, 1, 20 * MB, 0);
	tick(r);
	for (uint32_t id = 2; id < 4; id++) {
		born(r, id, 1, 76 + id);
		rss(r, id, 10 * MB, 0);
	}
	rss(r, 1, MB, 0);
	tick(r);
	gone(r, 2);
	gone(r, 3);
	tick(r);
	main_reaped(r, 30 * MB, 10000, 5, 6);
	finish(r);
	assert_int_equal(most(r, M_JOB_RAM_LOW), 30 * MB);
	assert_true(most(r, M_JOB_RAM_REST_HIGH) >= 30 * MB);
	assert_true(most(r, M_JOB_RAM_REST_HIGH) <= most(r, M_JOB_RAM_HIGH));
}

/* Forty that come and go one after the other; who sleeps beside them has not grown since its mark was read, though nobody asks. */
static void test_bursts_do_not_add_up_beside_one_that_sleeps(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	born(r, 2, 1, 77);
	for (int i = 0; i < 2; i++) {
		rss(r, 1, MB, 0);
		rss(r, 2, MB, 0);
		push(r);
		faults(r, 1, 300);
		faults(r, 2, 300);
		say(r, M_PROC_HWM, 1, MB);
		say(r, M_PROC_HWM, 2, MB);
		tick(r);
	}
	for (uint32_t id = 3; id <= 42; id++) {
		born(r, id, 1, 99);
		rss(r, id, MB, 0);
		tick(r);
		ended_with(r, id, 31 * MB);
		tick(r);
		faults(r, 1, 300);
		faults(r, 2, 300);
		tick(r);
	}
	/* It wakes: what it takes now is beside the last of them at most. */
	rss(r, 1, MB, 0);
	rss(r, 2, MB, 0);
	push(r);
	faults(r, 2, 300 + 10 * MB / PAGE);
	say(r, M_PROC_HWM, 2, 11 * MB);
	tick(r);
	assert_within(most(r, M_JOB_RAM_HIGH), 31 * MB, 80 * MB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eight_forks_share_what_they_were_given),
		RIG_TEST(test_what_one_had_alone_is_not_how_several_share),
		RIG_TEST(test_without_their_faults_the_sum_is_the_bound),
		HUGE_RIG_TEST(test_huge_pages_count_from_before_the_job),
		HUGE_RIG_TEST(test_a_child_that_fills_huge_pages_is_caught),
		RIG_TEST(test_a_childs_first_mark_is_its_parents_memory),
		HUGE_RIG_TEST(test_huge_pages_of_others_are_not_the_jobs),
		HUGE_RIG_TEST(test_an_old_count_of_huge_pages_is_not_believed),
		RIG_TEST(test_a_parent_that_writes_everything_anew_is_caught),
		RIG_TEST(test_a_child_that_was_missed_takes_pages_along),
		RIG_TEST(test_what_main_writes_beside_its_children_is_its_own),
		RIG_TEST(test_a_mark_after_a_pass_is_no_new_look),
		RIG_TEST(test_what_is_given_back_beside_children_is_gone),
		RIG_TEST(test_what_a_missed_child_took_along_is_not_gone),
		RIG_TEST(test_an_ended_members_faults_stay),
		RIG_TEST(test_exec_leaves_the_family),
		RIG_TEST(test_smaller_large_pages_count_for_each_fault),
		RIG_TEST(test_a_shared_mapping_counts_once),
		RIG_TEST(test_different_files_add_up),
		RIG_TEST(test_bursts_that_are_proven_one_after_the_other),
		RIG_TEST(test_bursts_do_not_add_up_beside_one_that_sleeps),
		RIG_TEST(test_the_rest_held_no_more_than_all),
		cmocka_unit_test(test_low_peak_high_whatever_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
