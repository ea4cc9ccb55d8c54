/* SPDX-License-Identifier: MIT */
#include "job_rig.h"

#include <malloc.h>
#include <math.h>

#define SECOND (1000 * MS)

static void cpu(struct rig *r, uint32_t id, int64_t user_ms, int64_t system_ms)
{
	say(r, M_PROC_CPU_USER, id, user_ms * (int64_t) MS);
	say(r, M_PROC_CPU_SYSTEM, id, system_ms * (int64_t) MS);
}

static void waited(struct rig *r, uint32_t id, int64_t user_ms, int64_t system_ms)
{
	say(r, M_PROC_CPU_WAITED_USER, id, user_ms * (int64_t) MS);
	say(r, M_PROC_CPU_WAITED_SYSTEM, id, system_ms * (int64_t) MS);
}

static int64_t user_ms(const struct rig *r)
{
	return last(r, M_JOB_CPU_USER) / (int64_t) MS;
}

/* ---- accumulators ---------------------------------------------------------------------------- */

static void host_reading(struct rig *r, uint64_t now, uint64_t hold, struct reading reading)
{
	const struct frame frame = {
		.time_ns = now,
		.hold_ns = hold,
		.source = FRAME_HOST,
		.live = reading.span_ns == 0,
		.n_readings = 1,
		.readings = &reading,
	};

	assert_int_equal(job_apply(r->job, &frame), 0);
}

static void test_a_gauge_is_weighted_by_time(void **state)
{
	struct rig *r = *state;
	const struct acc *acc;

	assert_null(job_acc(r->job, M_HOST_MEM_USED, 0));
	host_reading(r, 0, 3 * SECOND, reading_of(M_HOST_MEM_USED, 0, 100));
	host_reading(r, 1 * SECOND, 3 * SECOND, reading_of(M_HOST_MEM_USED, 0, 400));
	host_reading(r, 3 * SECOND, 3 * SECOND, reading_of(M_HOST_MEM_USED, 0, 10));
	/* Silence for ten seconds: 10 is valid for three of them. */
	host_reading(r, 13 * SECOND, 3 * SECOND, reading_of(M_HOST_MEM_USED, 0, 50));
	/* An unknown value ends the validity of the last one. */
	host_reading(r, 14 * SECOND, 3 * SECOND, (struct reading) { .metric = M_HOST_MEM_USED });
	host_reading(r, 20 * SECOND, 3 * SECOND, reading_of(M_HOST_MEM_USED, 0, 50));
	acc = job_acc(r->job, M_HOST_MEM_USED, 0);
	assert_non_null(acc);
	assert_int_equal(acc->n, 5);
	assert_int_equal(acc->min, 10);
	assert_int_equal(acc->max, 400);
	assert_int_equal(acc->max_at_ns, 1 * SECOND);
	assert_int_equal(acc->last, 50);
	assert_int_equal(acc->span_ns, 7 * SECOND);
	assert_true(fabs(acc->sum / 1e9 - (100 + 2 * 400 + 3 * 10 + 50)) < 1e-6);
	/* A core's values are not the machine's. */
	host_reading(r, 21 * SECOND, SECOND, reading_of(M_HOST_CPU_USER, 3, 1));
	assert_null(job_acc(r->job, M_HOST_CPU_USER, 0));
	assert_int_equal(job_now(r->job), 21 * SECOND);
}

static void test_a_window_brings_its_own_span(void **state)
{
	struct rig *r = *state;
	const struct acc *acc;
	struct reading window = {
		.metric = M_HOST_MEM_USED,
		.known = true,
		.n = 10,
		.value = 30,
		.min = 5,
		.max = 90,
		.span_ns = SECOND,
	};

	host_reading(r, SECOND, 0, window);
	window.value = 50;
	window.max = 80;
	window.span_ns = 3 * SECOND;
	host_reading(r, 4 * SECOND, 0, window);
	acc = job_acc(r->job, M_HOST_MEM_USED, 0);
	assert_int_equal(acc->n, 20);
	assert_int_equal(acc->min, 5);
	assert_int_equal(acc->max, 90);
	assert_int_equal(acc->span_ns, 4 * SECOND);
	assert_true(fabs(acc->sum / (double) acc->span_ns - 45) < 1e-9);
}

/* GPM's means over the time between two samples, read live. */
static void test_a_live_mean_counts_for_the_time_before_it(void **state)
{
	struct rig *r = *state;
	const struct acc *acc;
	const uint64_t spans[] = { 9 * SECOND, SECOND };

	for (int64_t i = 0; i < 2; i++) {
		struct reading mean = reading_of(M_GPU_SM_ACTIVE, 1, i * 1000000);

		mean.span_ns = spans[i];
		const struct frame frame = { .time_ns = (uint64_t) (9 + i) * SECOND,
			.hold_ns = 3 * SECOND,
			.source = FRAME_NVML,
			.live = true,
			.n_readings = 1,
			.readings = &mean };

		assert_int_equal(job_apply(r->job, &frame), 0);
	}
	job_end(r->job, 12 * SECOND, &r->totals); /* it does not stay valid */
	acc = job_acc(r->job, M_GPU_SM_ACTIVE, 1);
	assert_non_null(acc);
	assert_int_equal(acc->span_ns, 10 * SECOND);
	assert_true(fabs(acc->sum / (double) acc->span_ns - 100000) < 1e-6);
	assert_int_equal(acc->n, 2);
	assert_int_equal(acc->min, 0);
	assert_int_equal(acc->max, 1000000);
	assert_int_equal(acc->last, 1000000);
}

static void test_counters_keep_first_and_last(void **state)
{
	struct rig *r = *state;
	const struct acc *acc;

	host_reading(r, 0, SECOND, reading_of(M_HOST_ENERGY, 0, 1000));
	host_reading(r, SECOND, SECOND, reading_of(M_HOST_ENERGY, 0, 1500));
	acc = job_acc(r->job, M_HOST_ENERGY, 0);
	assert_int_equal(acc->min, 1000);
	assert_int_equal(acc->max, 1500);
	assert_int_equal(acc->last, 1500);
}

/* ---- who is in it ---------------------------------------------------------------------------- */

static void test_birth_exec_and_end(void **state)
{
	struct rig *r = *state;
	const struct process *p;
	struct birth exec = { .entity = ENTITY_PROCESS,
		.id = 2,
		.process = { .pid = 9999,
			.startstack = 5,
			.name = "a-name-that-is-far-too-long",
			.command = "other --x",
			.uid = 8 } };

	assert_null(job_main(r->job));
	born(r, 1, 0, 77);
	born(r, 2, 1, 77);
	rss(r, 1, MB, MB);
	rss(r, 2, 3 * MB, MB);
	tick(r);
	assert_int_equal(job_alive(r->job), 2);
	assert_int_equal(job_main(r->job)->id, 1);
	framebuf_birth(&r->buf, &exec);
	rss(r, 2, MB, 0);
	tick(r);
	p = job_process_by_id(r->job, 2);
	assert_non_null(p);
	assert_string_equal(p->name, "a-name-that-is-");
	assert_string_equal(p->command, "other --x");
	assert_int_equal(p->pid, 1002);
	assert_int_equal(p->parent, 1);
	assert_int_equal(p->uid, 8);
	assert_int_equal(p->startstack, 5);
	assert_int_equal(p->peak_bytes, 4 * MB);
	assert_int_equal(p->rss_bytes, MB);
	assert_int_equal(job_facts(r->job)->processes_seen.value, 2);
	gone(r, 2);
	push(r);
	assert_true(job_process_by_id(r->job, 2)->ended);
	assert_int_equal(job_process_by_id(r->job, 2)->ended_ns, r->now);
	assert_int_equal(job_process_by_id(r->job, 2)->rss_bytes, 0);
	assert_int_equal(job_alive(r->job), 1);
	/* Values and ends of ended processes and non-members do no harm. */
	rss(r, 2, 100 * MB, 0);
	rss(r, 77, 100 * MB, 0);
	gone(r, 77);
	gone(r, 2);
	tick(r);
	assert_int_equal(last(r, M_JOB_RSS_SUM), 2 * MB);
	assert_int_equal(last(r, M_JOB_PROCESSES), 1);
	assert_int_equal(job_process_count(r->job), 2);
}

static void test_many_come_and_go(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, MB, 0);
	tick(r);
	for (uint32_t id = 2; id < 400; id++) {
		born(r, id, 1, id % 2 ? 77 : id);
		rss(r, 1, MB, 0);
		rss(r, id, (int64_t) id * PAGE, 0);
		total(r);
		if (id >= 12)
			gone(r, id - 10);
		if (id >= 12)
			push(r);
	}
	assert_int_equal(job_alive(r->job), 11);
	assert_int_equal(job_process_count(r->job), 399);
	for (uint32_t id = 1; id < 400; id++) {
		assert_int_equal(job_process_by_id(r->job, id)->id, id);
		assert_int_equal(
			job_process_by_id(r->job, id)->peak_bytes, id == 1 ? MB : (int64_t) id * PAGE);
	}
}

/* A job that keeps 16 processes. */
static void keep_few(struct rig *r)
{
	const struct job_config config = { .page_bytes = PAGE, .ours = true, .max_processes = 16 };

	job_free(r->job);
	r->job = job_new(&config);
	assert_non_null(r->job);
}

static void test_the_largest_are_kept_by_name(void **state)
{
	struct rig *r = *state;

	keep_few(r);
	born(r, 1, 0, 77);
	rss(r, 1, PAGE, 0);
	tick(r);
	/* Sizes in an order that neither rises nor falls; the largest are those of ids 100 k +
	 * 1. */
	for (uint32_t id = 2; id <= 500; id++) {
		born(r, id, 1, id);
		rss(r, id, (int64_t) (1 + id * 37 % 501) * PAGE, 0);
		push(r);
		gone(r, id);
		push(r);
		assert_true(job_process_count(r->job) <= 16 + 1);
	}
	assert_int_equal(job_facts(r->job)->processes_seen.value, 500);
	assert_true(job_process_count(r->job) >= 14);
	assert_non_null(job_main(r->job));
	assert_int_equal(job_process_by_id(r->job, 1)->id, 1);
	/* It includes the ten largest of all. */
	for (uint32_t id = 2; id <= 500; id++) {
		if (1 + id * 37 % 501 > 491)
			assert_non_null(job_process_by_id(r->job, id));
	}
}

/* A sample that drops ended processes moves all others to other indices: new ones must be found
 * nevertheless, and none twice. */
static void test_new_processes_are_found_by_id(void **state)
{
	struct rig *r = *state;

	keep_few(r);
	born(r, 1, 0, 77);
	for (uint32_t id = 2; id <= 17; id++) {
		born(r, id, 1, id);
		rss(r, id, PAGE, 0);
		push(r);
		gone(r, id);
		push(r);
	}
	born(r, 18, 1, 18);
	push(r);
	const size_t places = job_process_count(r->job);

	assert_int_equal(job_process_behind(r->job, 18), places);
	gone(r, 18);
	push(r);
	born(r, 19, 1, 19);
	born(r, 20, 1, 20);
	push(r);
	assert_true(job_process_count(r->job) < places);
	assert_int_equal(job_process_count(r->job) - job_process_behind(r->job, 18), 2);
	assert_int_equal(job_process(r->job, job_process_behind(r->job, 18))->id, 19);
	assert_int_equal(job_process_behind(r->job, 20), job_process_count(r->job));
	assert_int_equal(job_process(r->job, job_process_behind(r->job, 0))->id, 1);
}

/* ---- CPU time -------------------------------------------------------------------------------- */

static void test_waited_children_count_once(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	born(r, 2, 1, 78);
	cpu(r, 1, 100, 10);
	cpu(r, 2, 500, 50);
	waited(r, 1, 0, 0);
	tick(r);
	assert_int_equal(user_ms(r), 600);
	assert_int_equal(last(r, M_JOB_CPU_SYSTEM), 60 * (int64_t) MS);
	/* It ends after 20 ms more; its parent waits later. */
	gone(r, 2);
	tick(r);
	assert_int_equal(user_ms(r), 600);
	cpu(r, 1, 110, 10);
	waited(r, 1, 520, 52);
	tick(r);
	assert_int_equal(user_ms(r), 630);
	/* Children that no sample found show only in the waited counters. */
	waited(r, 1, 1520, 52);
	tick(r);
	assert_int_equal(user_ms(r), 1630);
}

static void test_children_of_the_careless_count_too(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	tick(r);
	for (uint32_t id = 2; id < 12; id++) {
		born(r, id, 1, id);
		cpu(r, id, 30, 0);
		push(r);
		gone(r, id);
		cpu(r, 1, 5, 0);
		waited(r, 1, 0, 0);
		tick(r);
	}
	assert_int_equal(user_ms(r), 305);
}

/* sh ends right after its child: its rusage includes the child's time. */
static void test_a_parent_that_ends_first_has_counted(void **state)
{
	struct rig *r = *state;
	struct summary s;

	born(r, 1, 0, 77);
	born(r, 2, 1, 78);
	rss(r, 1, MB, 0);
	rss(r, 2, MB, 0);
	cpu(r, 1, 10, 0);
	cpu(r, 2, 500, 0);
	tick(r);
	main_reaped(r, 10 * MB, 5, 560 * (int64_t) MS, 10 * (int64_t) MS);
	gone(r, 2);
	tick(r);
	assert_int_equal(user_ms(r), 560);
	job_facts(r->job)->cpu_is_exact = known(1);
	finish(r);
	s = summary_of(r);
	assert_true(s.cpu_exact);
	assert_int_equal(s.user_ns.value, 560 * MS);
	assert_int_equal(s.system_ns.value, 10 * MS);
	summary_done(&s);
}

/* A daemon outlives the main process and is reaped by hiwater: both count. */
static void test_an_orphan_counts_in_addition_to_its_parent(void **state)
{
	struct rig *r = *state;
	struct facts *f;

	f = job_facts(r->job);
	born(r, 1, 0, 77);
	born(r, 2, 1, 78);
	rss(r, 1, MB, 0);
	rss(r, 2, MB, 0);
	cpu(r, 1, 10, 0);
	cpu(r, 2, 500, 0);
	tick(r);
	main_reaped(r, 10 * MB, 0, 60 * (int64_t) MS, 0);
	rss(r, 2, MB, 0);
	cpu(r, 2, 600, 0);
	tick(r);
	assert_int_equal(user_ms(r), 660);
	f->reaped_user_ns = known(f->reaped_user_ns.value + 700 * (int64_t) MS);
	framebuf_end(&r->buf, &(struct end) {
				      .entity = ENTITY_PROCESS,
				      .id = 2,
				      .how = END_REAPED,
				      .cpu_user_ns = known(700 * (int64_t) MS),
				      .cpu_system_ns = known(0),
			      });
	tick(r);
	assert_int_equal(user_ms(r), 760);
	finish(r);
	assert_int_equal(user_ms(r), 760);
}

static void test_counters_do_not_go_back(void **state)
{
	struct rig *r = *state;
	uint64_t seed = 11;
	int64_t before = 0;

	born(r, 1, 0, 77);
	for (uint32_t id = 2; id < 300; id++) {
		seed = seed * 6364136223846793005U + 1442695040888963407U;
		born(r, id, seed >> 60 ? id - 1 : 1, id);
		cpu(r, id, (int64_t) (seed >> 50 & 255), 0);
		waited(r, id - 1, (int64_t) (seed >> 40 & 255), 0);
		if (seed >> 33 & 1)
			gone(r, id / 2 + 1);
		tick(r);
		assert_true(last(r, M_JOB_CPU_USER) >= before);
		before = last(r, M_JOB_CPU_USER);
	}
}

static int64_t read_kb(const struct rig *r)
{
	return last(r, M_JOB_READ_BYTES) / KB;
}

/* The kernel adds a child's I/O to its parent's when the parent waits for it. */
static void test_io_of_waited_children_counts_once(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	born(r, 2, 1, 78);
	say(r, M_PROC_READ_BYTES, 1, 100 * KB);
	say(r, M_PROC_READ_BYTES, 2, 1000 * KB);
	rss(r, 1, MB, 0);
	rss(r, 2, MB, 0);
	tick(r);
	assert_int_equal(read_kb(r), 1100);
	/* It ends; its parent has not waited yet, then waits and reads 50 more. */
	gone(r, 2);
	tick(r);
	assert_int_equal(read_kb(r), 1100);
	say(r, M_PROC_READ_BYTES, 1, 1170 * KB);
	tick(r);
	assert_int_equal(read_kb(r), 1170);
	assert_int_equal(job_main(r->job)->read_bytes, 170 * KB);
	/* The next one is in its parent's counter before its end is reported. */
	born(r, 3, 1, 79);
	say(r, M_PROC_READ_BYTES, 3, 500 * KB);
	rss(r, 1, MB, 0);
	rss(r, 3, MB, 0);
	tick(r);
	say(r, M_PROC_READ_BYTES, 1, 1670 * KB);
	gone(r, 3);
	tick(r);
	assert_int_equal(read_kb(r), 1670);
	/* The last one ends with its parent, which had waited: the rusage includes it. */
	born(r, 4, 1, 80);
	say(r, M_PROC_READ_BYTES, 4, 300 * KB);
	rss(r, 1, MB, 0);
	rss(r, 4, MB, 0);
	tick(r);
	framebuf_end(&r->buf, &(struct end) {
				      .entity = ENTITY_PROCESS,
				      .id = 1,
				      .how = END_SEEN,
				      .io.read_bytes = known(1980 * KB),
			      });
	gone(r, 4);
	tick(r);
	assert_int_equal(read_kb(r), 1980);
}

static void ends(struct rig *r, uint32_t id, enum end_how how, int64_t kb)
{
	framebuf_end(&r->buf,
		&(struct end) {
			.entity = ENTITY_PROCESS, .id = id, .how = how, .io.read_bytes = known(kb * KB) });
}

/* An exit record has a process's own I/O; its parent's counter includes it too, once it was
 * waited for. */
static void test_io_of_exit_records_counts_once(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	say(r, M_PROC_READ_BYTES, 1, 100 * KB);
	tick(r);
	/* Two that no sample found are in their parent's counter at once; their records come
	 * later, one by one. */
	say(r, M_PROC_READ_BYTES, 1, 500 * KB);
	push(r);
	born(r, 2, 1, 78);
	ends(r, 2, END_TASKSTATS, 200);
	push(r);
	born(r, 3, 1, 79);
	ends(r, 3, END_TASKSTATS, 200);
	tick(r);
	assert_int_equal(read_kb(r), 500);
	/* One that is not waited for yet, and then is. */
	born(r, 4, 1, 80);
	ends(r, 4, END_TASKSTATS, 50);
	tick(r);
	assert_int_equal(read_kb(r), 550);
	say(r, M_PROC_READ_BYTES, 1, 550 * KB);
	tick(r);
	assert_int_equal(read_kb(r), 550);
	/* Its own record after 20 more; the zombie's counters are the same. */
	ends(r, 1, END_TASKSTATS, 120);
	push(r);
	ends(r, 1, END_REAPED, 570);
	tick(r);
	assert_int_equal(read_kb(r), 570);
	assert_int_equal(job_main(r->job)->read_bytes, 120 * KB);
}

/* A zombie left by its parent was in no counter: hiwater waits for it. */
static void test_io_of_a_zombie_left_behind_counts(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	born(r, 2, 1, 78);
	say(r, M_PROC_READ_BYTES, 1, 10 * KB);
	say(r, M_PROC_READ_BYTES, 2, 30 * KB);
	rss(r, 1, MB, 0);
	rss(r, 2, MB, 0);
	tick(r);
	ends(r, 2, END_SEEN, 30);
	push(r);
	say(r, M_PROC_READ_BYTES, 1, 40 * KB);
	tick(r);
	assert_int_equal(read_kb(r), 40); /* counted as waited for */
	ends(r, 1, END_REAPED, 40);
	push(r);
	ends(r, 2, END_REAPED, 30);
	tick(r);
	assert_int_equal(read_kb(r), 70);
}

static void test_io_before_the_run_is_none_of_it(void **state)
{
	struct rig *r = *state;

	born_of(r, 1, 0, 77, BOOT - 3600 * SECOND);
	born_of(r, 2, 1, 78, BOOT - 3600 * SECOND);
	say(r, M_PROC_READ_BYTES, 1, 5 * KB);
	say(r, M_PROC_READ_BYTES, 2, 1000 * KB);
	rss(r, 1, MB, 0);
	rss(r, 2, MB, 0);
	tick(r);
	ends(r, 2, END_SEEN, 1010);
	push(r);
	say(r, M_PROC_READ_BYTES, 1, 1016 * KB);
	tick(r);
	assert_int_equal(read_kb(r), 11);
}

static void test_io_of_unwaited_children_counts(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	say(r, M_PROC_READ_BYTES, 1, 10 * KB);
	for (uint32_t id = 2; id < 7; id++) {
		born(r, id, 1, id);
		say(r, M_PROC_READ_BYTES, id, 100 * KB);
		rss(r, id, MB, 0);
		tick(r);
		gone(r, id);
	}
	tick(r);
	assert_int_equal(read_kb(r), 510);
	/* An orphan. */
	born(r, 7, 1, 9);
	say(r, M_PROC_READ_BYTES, 7, 40 * KB);
	rss(r, 7, MB, 0);
	tick(r);
	gone(r, 1);
	push(r);
	rss(r, 7, MB, 0);
	say(r, M_PROC_READ_BYTES, 7, 60 * KB);
	tick(r);
	gone(r, 7);
	tick(r);
	assert_int_equal(read_kb(r), 570);
}

/* The use of an older process before it was attached is not this run's. */
static void test_attached_counts_from_its_start(void **state)
{
	struct rig *r = *state;

	born_of(r, 1, 0, 77, BOOT - 3600 * SECOND);
	cpu(r, 1, 900000, 0);
	say(r, M_PROC_READ_BYTES, 1, 5 * MB);
	say(r, M_PROC_FAULTS_MAJOR, 1, 7);
	tick(r);
	assert_int_equal(user_ms(r), 0);
	cpu(r, 1, 900250, 0);
	say(r, M_PROC_READ_BYTES, 1, 6 * MB);
	born(r, 2, 1, 78);
	cpu(r, 2, 40, 0);
	tick(r);
	assert_int_equal(user_ms(r), 290);
	assert_int_equal(last(r, M_JOB_READ_BYTES), MB);
	assert_int_equal(last(r, M_JOB_FAULTS_MAJOR), 0);
	assert_int_equal(job_main(r->job)->cpu_user_ns, 250 * MS);
}

static void test_levels_are_of_the_living(void **state)
{
	struct rig *r = *state;

	for (uint32_t id = 1; id <= 3; id++) {
		born(r, id, id == 1 ? 0 : 1, id);
		say(r, M_PROC_THREADS, id, 4);
		say(r, M_PROC_SWAP, id, id * MB);
		say(r, M_PROC_READ_BYTES, id, 100);
	}
	tick(r);
	assert_int_equal(last(r, M_JOB_THREADS), 12);
	assert_int_equal(last(r, M_JOB_SWAP), 6 * MB);
	assert_null(job_acc(r->job, M_JOB_HUGETLB, 0));
	assert_null(job_acc(r->job, M_JOB_CPU_USER, 0));
	assert_null(job_acc(r->job, M_JOB_WRITE_BYTES, 0));
	say(r, M_PROC_THREADS, 2, 10);
	gone(r, 3);
	tick(r);
	assert_int_equal(last(r, M_JOB_THREADS), 14);
	assert_int_equal(last(r, M_JOB_SWAP), 3 * MB);
	assert_int_equal(last(r, M_JOB_READ_BYTES), 300);
}

/* ---- events, phases, series ------------------------------------------------------------------ */

static void event(struct rig *r, enum event_kind kind, uint32_t phase, const char *text)
{
	framebuf_event(&r->buf, &(struct event) {
					.time_ns = r->now,
					.kind = kind,
					.entity = ENTITY_JOB,
					.phase = phase,
					.text = text,
				});
	push(r);
}

static void test_the_last_events_are_kept(void **state)
{
	struct rig *r = *state;
	char text[32];

	assert_null(job_event(r->job, 0));
	for (int i = 0; i < 2500; i++) {
		(void) snprintf(text, sizeof(text), "e%d", i);
		event(r, EVENT_MARK, 0, text);
	}
	assert_int_equal(job_event_count(r->job), 1000);
	assert_string_equal(job_event(r->job, 0)->text, "e1500");
	assert_string_equal(job_event(r->job, 999)->text, "e2499");
	assert_null(job_event(r->job, 1000));
}

static void test_phases_nest(void **state)
{
	struct rig *r = *state;
	const struct phase *outer, *inner;

	born(r, 1, 0, 77);
	rss(r, 1, 10 * MB, 0);
	tick(r);
	event(r, EVENT_PHASE_BEGIN, 1, "epoch");
	rss(r, 1, 20 * MB, 0);
	tick(r);
	event(r, EVENT_PHASE_BEGIN, 2, "batch");
	rss(r, 1, 90 * MB, 0);
	push(r);
	say(r, M_PROC_HWM, 1, 95 * MB);
	tick(r);
	rss(r, 1, 30 * MB, 0);
	tick(r);
	event(r, EVENT_PHASE_END, 2, "");
	rss(r, 1, 40 * MB, 0);
	tick(r);
	assert_int_equal(job_phase_count(r->job), 2);
	outer = job_phase(r->job, 0);
	inner = job_phase(r->job, 1);
	assert_string_equal(inner->name, "batch");
	assert_int_equal(outer->parent, 0);
	assert_int_equal(inner->parent, 1);
	assert_int_equal(inner->ram_before, 20 * MB);
	assert_int_equal(inner->ram_peak, 95 * MB);
	assert_int_equal(inner->ram_after, 30 * MB);
	assert_int_equal(inner->end_ns, 400 * MS);
	assert_int_equal(outer->end_ns, 0);
	assert_int_equal(outer->ram_before, 10 * MB);
	assert_int_equal(outer->ram_peak, 95 * MB);
	finish(r);
	assert_int_equal(job_phase(r->job, 0)->end_ns, 500 * MS);
	assert_int_equal(job_phase(r->job, 0)->ram_after, 40 * MB);
}

/* Each is found by its number at once: a scan at each start and end would take minutes here.
 * Numbers come in any order, and a known one is not added again. */
static void test_as_many_phases_as_anybody_has(void **state)
{
	enum {
		MANY = 300000
	};
	struct rig *r = *state;

	born(r, 1, 0, 77);
	event(r, EVENT_PHASE_BEGIN, UINT32_MAX, "all");
	for (uint32_t i = MANY; i > 0; i--) {
		event(r, EVENT_PHASE_BEGIN, i, "step");
		event(r, EVENT_PHASE_BEGIN, i, "again");
		event(r, EVENT_PHASE_END, i, "");
	}
	finish(r);
	assert_int_equal(job_phase_count(r->job), MANY + 1);
	for (size_t i = 1; i <= MANY; i++) {
		const struct phase *p = job_phase(r->job, i);

		assert_int_equal(p->number, MANY + 1 - i);
		assert_string_equal(p->name, "step");
		assert_ptr_equal(job_phase_parent(r->job, p), job_phase(r->job, 0));
		assert_int_equal(job_phase_depth(r->job, p), 1);
	}
}

/* A peak is exact only if both the start and the end of the phase were reported and it is
 * closed. */
static void test_phase_edges(void **state)
{
	struct rig *r = *state;

	born(r, 1, 0, 77);
	rss(r, 1, 10 * MB, 0);
	tick(r);
	event(r, EVENT_PHASE_BEGIN, 1, "epoch\nepoch=3\nsplit=train");
	job_phase_edge(r->job, 1);
	event(r, EVENT_PHASE_BEGIN, 2, "batch");
	event(r, EVENT_PHASE_BEGIN, 3, "late");
	job_phase_edge(r->job, 3);
	event(r, EVENT_PHASE_END, 2, "batch");
	job_phase_edge(r->job, 2);
	assert_false(job_phase(r->job, 0)->peak_exact);
	event(r, EVENT_PHASE_END, 1, "epoch");
	job_phase_edge(r->job, 1);
	event(r, EVENT_PHASE_END, 3, "late");
	job_phase_edge(r->job, 99);
	assert_true(job_phase(r->job, 0)->peak_exact);
	assert_false(job_phase(r->job, 1)->peak_exact);
	assert_false(job_phase(r->job, 2)->peak_exact);
	assert_string_equal(job_phase(r->job, 0)->name, "epoch");
	assert_string_equal(job_phase(r->job, 0)->facts, "epoch=3\nsplit=train");
	assert_string_equal(job_phase(r->job, 1)->facts, "");
}

static void test_series(void **state)
{
	struct rig *r = *state;
	const double values[] = { 5, NAN, 1, 9, 3 };
	const struct series *s;

	for (int i = 0; i < 5; i++) {
		framebuf_series(&r->buf,
			&(struct series_value) {
				.name = "loss", .value = values[i], .has_step = true, .step = i });
		framebuf_series(&r->buf, &(struct series_value) { .name = "other", .value = 2 });
		push(r);
	}
	assert_int_equal(job_series_count(r->job), 2);
	s = job_series(r->job, 0);
	assert_string_equal(s->name, "loss");
	assert_int_equal(s->n, 5);
	assert_true(s->first == 5 && s->last == 3 && s->min == 1 && s->max == 9);
	assert_int_equal(s->last_step, 4);
	assert_false(job_series(r->job, 1)->has_step);
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* A sanitizer's allocator reports nothing here; the plain build does. */
static void test_what_names_of_series_say(void **state)
{
	static const char *const seconds[] = { "load_seconds", "data_wait", "train/data_wait",
		"step_time/rank0", "a//step_s", "data_s", "hiwater/step_s" };
	static const char *const none[] = { "", "/", "loss", "hiwater/data_wait", "my_step_time",
		"step_timed", "data_wait_share" };

	(void) state;
	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		if (!series_is_seconds(seconds[i]) || series_is_seconds(none[i]))
			fail_msg("%s, %s", seconds[i], none[i]);
	}
	assert_string_equal(series_time("step_time/rank0", SERIES_STEP), "/rank0");
	assert_string_equal(series_time("data_wait_s", SERIES_WAIT), "");
	assert_null(series_time("data_wait_s", SERIES_STEP));
	assert_null(series_time("hiwater/data_wait", SERIES_WAIT));
}

static void test_a_steady_tick_allocates_nothing(void **state)
{
	struct rig *r = *state;
	size_t before = 0;

	for (uint32_t id = 1; id <= 100; id++)
		born(r, id, id == 1 ? 0 : 1, id % 3 ? 77 : id);
	for (int i = 0; i < 100; i++) {
		if (i == 10)
			before = mallinfo2().uordblks;
		for (uint32_t id = 1; id <= 100; id++)
			rss(r, id, (id + i % 7) * MB, MB);
		push(r);
		(void) job_needs(r->job);
		for (uint32_t id = 1; id <= 100; id++) {
			faults(r, id, i * 10);
			cpu(r, id, i, i);
			say(r, M_PROC_HWM, id, (id + 8) * MB);
		}
		huge_pages(r, i);
		tick(r);
	}
	assert_int_equal(mallinfo2().uordblks, before);
}

/* Each process has limits of its own; the one that came nearest to them is named. */
static void test_limits_are_of_processes(void **state)
{
	struct rig *r = *state;
	const struct facts *f = job_facts_const(r->job);

	main_starts(r);
	assert_false(f->vm_limit_bytes.known || f->data_limit_bytes.known);
	born(r, 2, 1, 78);
	born(r, 3, 1, 79);
	/* Together they use more than each may. */
	rss(r, 2, 400 * MB, 0);
	rss(r, 3, 500 * MB, 0);
	say(r, M_PROC_VM_LIMIT, 2, 1000 * MB);
	say(r, M_PROC_VM, 2, 700 * MB);
	say(r, M_PROC_VM_LIMIT, 3, 800 * MB);
	say(r, M_PROC_VM, 3, 600 * MB);
	tick(r);
	assert_int_equal(f->vm_limit_bytes.value, 800 * MB);
	assert_int_equal(f->vm_peak_bytes.value, 600 * MB);
	assert_int_equal(f->vm_pid.value, 1003);
	assert_string_equal(f->vm_name, "p3");
	assert_false(f->data_limit_bytes.known);
	/* An exit record has the last value; resident pages are part of the address space. */
	framebuf_end(&r->buf, &(struct end) {
				      .entity = ENTITY_PROCESS,
				      .id = 2,
				      .how = END_TASKSTATS,
				      .hwm_bytes = known(900 * MB),
				      .vm_bytes = known(950 * MB),
			      });
	tick(r);
	assert_int_equal(f->vm_peak_bytes.value, 950 * MB);
	assert_string_equal(f->vm_name, "p2");
	ended_with(r, 3, 799 * MB);
	tick(r);
	assert_int_equal(f->vm_peak_bytes.value, 799 * MB);
	assert_int_equal(f->vm_limit_bytes.value, 800 * MB);
	/* Another program of the same process starts anew; its data segment is another limit. */
	say(r, M_PROC_DATA_LIMIT, 1, 100 * MB);
	say(r, M_PROC_DATA, 1, 40 * MB);
	tick(r);
	assert_int_equal(f->data_peak_bytes.value, 40 * MB); /* not its resident size */
	assert_int_equal(f->data_limit_bytes.value, 100 * MB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_a_gauge_is_weighted_by_time),
		RIG_TEST(test_a_window_brings_its_own_span),
		RIG_TEST(test_a_live_mean_counts_for_the_time_before_it),
		RIG_TEST(test_counters_keep_first_and_last),
		RIG_TEST(test_birth_exec_and_end),
		RIG_TEST(test_limits_are_of_processes),
		RIG_TEST(test_many_come_and_go),
		RIG_TEST(test_the_largest_are_kept_by_name),
		RIG_TEST(test_new_processes_are_found_by_id),
		RIG_TEST(test_waited_children_count_once),
		RIG_TEST(test_children_of_the_careless_count_too),
		RIG_TEST(test_a_parent_that_ends_first_has_counted),
		RIG_TEST(test_an_orphan_counts_in_addition_to_its_parent),
		RIG_TEST(test_counters_do_not_go_back),
		RIG_TEST(test_io_of_waited_children_counts_once),
		RIG_TEST(test_io_of_exit_records_counts_once),
		RIG_TEST(test_io_of_a_zombie_left_behind_counts),
		ATTACHED_RIG_TEST(test_io_before_the_run_is_none_of_it),
		RIG_TEST(test_io_of_unwaited_children_counts),
		ATTACHED_RIG_TEST(test_attached_counts_from_its_start),
		RIG_TEST(test_levels_are_of_the_living),
		RIG_TEST(test_the_last_events_are_kept),
		RIG_TEST(test_phases_nest),
		RIG_TEST(test_as_many_phases_as_anybody_has),
		RIG_TEST(test_phase_edges),
		RIG_TEST(test_series),
		cmocka_unit_test(test_what_names_of_series_say),
		HUGE_RIG_TEST(test_a_steady_tick_allocates_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
