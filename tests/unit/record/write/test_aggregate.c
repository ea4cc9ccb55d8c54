/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "model/framebuf.h"
#include "record/write/aggregate.h"

#define MS UINT64_C(1000000)
#define S  (1000 * MS)
#define MB INT64_C(1048576)

enum {
	MOST = 60000
};

struct caught {
	enum entity entity;
	bool recent;
	struct row row;
};

/* All emitted rows, and the next input. */
struct bench {
	struct row_layout layout;
	struct aggregate *aggregate;
	struct framebuf buf;
	struct caught *rows;
	size_t n;
};

static int catch_row(void *ctx, enum entity entity, bool recent, const struct row *row)
{
	struct bench *b = ctx;

	assert_in_range(b->n, 0, MOST - 1);
	b->rows[b->n++] = (struct caught) { entity, recent, *row };
	return 0;
}

static void bench_new(struct bench *b, unsigned others_after)
{
	memset(b, 0, sizeof(*b));
	row_layout_init(&b->layout);
	b->rows = calloc(MOST, sizeof(*b->rows));
	b->aggregate = aggregate_new(&(struct aggregate_options) { .window_ns = S,
		.others_after = others_after,
		.layout = &b->layout,
		.row = catch_row,
		.ctx = b });
	assert_non_null(b->rows);
	assert_non_null(b->aggregate);
}

static void bench_done(struct bench *b)
{
	aggregate_free(b->aggregate);
	framebuf_done(&b->buf);
	free(b->rows);
}

static void send(struct bench *b, uint64_t time_ns, uint64_t hold_ns)
{
	const struct frame frame = framebuf_frame(&b->buf, FRAME_PROCFS, time_ns, hold_ns);

	assert_int_equal(aggregate_frame(b->aggregate, &frame), 0);
	framebuf_clear(&b->buf);
}

/* One reading as a frame. */
static void look(struct bench *b, uint64_t time_ns, enum metric metric, uint32_t id, int64_t value)
{
	framebuf_value(&b->buf, metric, id, value);
	send(b, time_ns, 300 * MS);
}

/* The i-th row of a table, from 0. */
static const struct row *row_at(const struct bench *b, enum entity entity, bool recent, size_t i)
{
	aggregate_settle(b->aggregate);
	for (size_t k = 0; k < b->n; k++) {
		if (b->rows[k].entity == entity && b->rows[k].recent == recent && i-- == 0)
			return &b->rows[k].row;
	}
	return NULL;
}

static size_t count(const struct bench *b, enum entity entity, bool recent)
{
	size_t n = 0;

	while (row_at(b, entity, recent, n))
		n++;
	return n;
}

static const struct cell *cell_of(const struct bench *b, const struct row *row, enum metric metric)
{
	assert_non_null(row);
	return &row->cells[b->layout.place[metric]];
}

static void expect_cell(const struct bench *b, const struct row *row, enum metric metric, int64_t min,
	int64_t value, int64_t max)
{
	const struct cell *cell = cell_of(b, row, metric);

	assert_true(cell->known);
	assert_int_equal(cell->min, min);
	assert_int_equal(cell->value, value);
	assert_int_equal(cell->max, max);
}

/* ---- windows --------------------------------------------------------------------------------- */

static void a_gauge_keeps_min_mean_by_time_and_max(void **state)
{
	struct bench b;

	(void) state;
	bench_new(&b, 200);
	/* 100 for 0.2 s, 400 for 0.3 s, 200 for 0.5 s: (20 + 120 + 100) = 240 */
	framebuf_value(&b.buf, M_JOB_RAM, 0, 100);
	send(&b, 0, S);
	framebuf_value(&b.buf, M_JOB_RAM, 0, 400);
	send(&b, 200 * MS, S);
	framebuf_value(&b.buf, M_JOB_RAM, 0, 200);
	send(&b, 500 * MS, S);
	assert_int_equal(count(&b, ENTITY_JOB, false), 0);
	look(&b, S, M_JOB_RAM, 0, 7);
	assert_int_equal(count(&b, ENTITY_JOB, false), 1);
	const struct row *row = row_at(&b, ENTITY_JOB, false, 0);

	expect_cell(&b, row, M_JOB_RAM, 100, 240, 400);
	assert_int_equal(row->t_ns, 0);
	assert_int_equal(row->span_ns, S);
	assert_int_equal(row->n, 3);
	assert_false(cell_of(&b, row, M_JOB_SWAP)->known);
	assert_int_equal(aggregate_windows(b.aggregate), 1);
	bench_done(&b);
}

static void a_level_goes_on_over_the_border_as_long_as_it_may_stand(void **state)
{
	struct bench b;
	const struct row *row;

	(void) state;
	bench_new(&b, 200);
	look(&b, 900 * MS, M_JOB_RAM, 0, 1000); /* valid until 1.2 s */
	look(&b, 1600 * MS, M_JOB_RAM, 0, 3000);
	look(&b, 2000 * MS, M_JOB_RAM, 0, 5);
	row = row_at(&b, ENTITY_JOB, false, 0);
	expect_cell(&b, row, M_JOB_RAM, 1000, 1000, 1000);
	assert_int_equal(row->span_ns, 100 * MS);
	row = row_at(&b, ENTITY_JOB, false, 1);
	/* 1000 for 0.2 s, nothing for 0.4 s, 3000 for 0.3 s, nothing for 0.1 s */
	expect_cell(&b, row, M_JOB_RAM, 1000, 2200, 3000);
	assert_int_equal(row->span_ns, 500 * MS);
	assert_int_equal(row->n, 1);
	bench_done(&b);
}

static void silence_is_a_gap(void **state)
{
	struct bench b;
	const struct row *row;

	(void) state;
	bench_new(&b, 200);
	look(&b, 900 * MS, M_JOB_RAM, 0, 1000);
	look(&b, 3600 * S, M_JOB_RAM, 0, 2000);
	assert_int_equal(aggregate_end(b.aggregate, 3600 * S + 100 * MS), 0);
	assert_int_equal(count(&b, ENTITY_JOB, false), 3);
	/* The time for which it was still valid in the window after the last sample. */
	row = row_at(&b, ENTITY_JOB, false, 1);
	assert_int_equal(row->t_ns, S);
	assert_int_equal(row->span_ns, 200 * MS);
	assert_int_equal(row->n, 0);
	row = row_at(&b, ENTITY_JOB, false, 2);
	assert_int_equal(row->t_ns, 3600 * S);
	expect_cell(&b, row, M_JOB_RAM, 2000, 2000, 2000);
	bench_done(&b);
}

static void a_slow_source_has_rows_over_several_windows(void **state)
{
	struct bench b;
	const struct row *row;

	(void) state;
	bench_new(&b, 200);
	for (int i = 0; i < 3; i++) {
		framebuf_value(&b.buf, M_HOST_LOAD1, 0, 10 * (i + 1));
		send(&b, (uint64_t) i * 5 * S, 15 * S);
		look(&b, (uint64_t) i * 5 * S + 2 * S, M_JOB_RAM, 0, 1);
	}
	row = row_at(&b, ENTITY_HOST, false, 0);
	assert_int_equal(row->t_ns, 0);
	assert_int_equal(row->span_ns, S);
	row = row_at(&b, ENTITY_HOST, false, 1);
	assert_int_equal(row->t_ns, S);
	assert_int_equal(row->span_ns, 5 * S); /* from 1 s to 6 s: 4 s at 10, 1 s at 20 */
	expect_cell(&b, row, M_HOST_LOAD1, 10, 12, 20);
	bench_done(&b);
}

static void a_counter_keeps_its_last_value_and_a_mark_its_largest(void **state)
{
	struct bench b;
	const struct row *row;

	(void) state;
	bench_new(&b, 200);
	look(&b, 100 * MS, M_PROC_CPU_USER, 1, 50);
	look(&b, 200 * MS, M_PROC_HWM, 1, 900);
	look(&b, 300 * MS, M_PROC_CPU_USER, 1, 70);
	look(&b, 400 * MS, M_PROC_HWM, 1, 300); /* another program has its own mark */
	look(&b, S, M_PROC_CPU_USER, 1, 80);
	row = row_at(&b, ENTITY_PROCESS, false, 0);
	expect_cell(&b, row, M_PROC_CPU_USER, 70, 70, 70);
	expect_cell(&b, row, M_PROC_HWM, 900, 900, 900);
	bench_done(&b);
}

static void a_burst_that_a_mark_proves_stays(void **state)
{
	struct reading burst = reading_of(M_JOB_RAM, 0, 100);
	struct bench b;

	(void) state;
	bench_new(&b, 200);
	burst.max = 700;
	framebuf_reading(&b.buf, burst);
	send(&b, 0, S);
	look(&b, S, M_JOB_RAM, 0, 100);
	expect_cell(&b, row_at(&b, ENTITY_JOB, false, 0), M_JOB_RAM, 100, 100, 700);
	expect_cell(&b, row_at(&b, ENTITY_JOB, true, 0), M_JOB_RAM, 100, 100, 700);
	bench_done(&b);
}

static void what_a_look_proves_happened_in_the_window_that_it_ends(void **state)
{
	struct reading burst = reading_of(M_JOB_RAM, 0, 100);
	struct bench b;

	(void) state;
	bench_new(&b, 200);
	look(&b, 0, M_JOB_RAM, 0, 90);
	look(&b, 900 * MS, M_JOB_RAM, 0, 110);
	look(&b, S, M_PROC_RSS, 1, 5); /* the first frame of the sample */
	burst.max = 700;
	framebuf_reading(&b.buf, burst);
	send(&b, S, S);
	look(&b, S + 1, M_PROC_HWM, 1, 7);
	look(&b, S + 100 * MS, M_JOB_RAM, 0, 120);
	look(&b, 2 * S, M_JOB_RAM, 0, 120);
	assert_int_equal(row_at(&b, ENTITY_JOB, false, 0)->n, 2);
	expect_cell(&b, row_at(&b, ENTITY_JOB, false, 0), M_JOB_RAM, 90, 95, 700);
	assert_int_equal(row_at(&b, ENTITY_JOB, false, 1)->n, 2);
	assert_int_equal(cell_of(&b, row_at(&b, ENTITY_JOB, false, 1), M_JOB_RAM)->max, 120);
	assert_int_equal(row_at(&b, ENTITY_PROCESS, false, 0)->t_ns, S);
	expect_cell(&b, row_at(&b, ENTITY_PROCESS, false, 0), M_PROC_HWM, 7, 7, 7);
	bench_done(&b);
}

/* A GPU helper read it before the sample that ends the window, but its frame arrives later. */
static void what_was_read_before_the_look_that_ends_a_window_is_in_it(void **state)
{
	struct bench b;
	const struct row *row;

	(void) state;
	bench_new(&b, 200);
	look(&b, 800 * MS, M_GPU_MEM, 1, 100);
	look(&b, 1000 * MS, M_HOST_MEM_USED, 0, 7);
	look(&b, 900 * MS, M_GPU_MEM, 1, 300);
	aggregate_settle(b.aggregate);
	look(&b, 1100 * MS, M_GPU_MEM, 1, 500);
	look(&b, 2000 * MS, M_HOST_MEM_USED, 0, 7);
	row = row_at(&b, ENTITY_GPU, false, 0);
	expect_cell(&b, row, M_GPU_MEM, 100, 200, 300);
	assert_int_equal(row->span_ns, 200 * MS);
	/* 300 until 1.1 s, 500 until 1.4 s */
	row = row_at(&b, ENTITY_GPU, false, 1);
	expect_cell(&b, row, M_GPU_MEM, 300, 450, 500);
	assert_int_equal(row->span_ns, 400 * MS);
	bench_done(&b);
}

static void what_could_not_be_had_stands_for_nothing(void **state)
{
	struct bench b;
	const struct row *row;

	(void) state;
	bench_new(&b, 200);
	framebuf_value(&b.buf, M_JOB_SWAP, 0, 10);
	framebuf_value(&b.buf, M_JOB_RAM, 0, 1);
	send(&b, 0, 2 * S);
	framebuf_unknown(&b.buf, M_JOB_SWAP, 0);
	framebuf_value(&b.buf, M_JOB_RAM, 0, 1);
	send(&b, 250 * MS, 2 * S);
	look(&b, S, M_JOB_RAM, 0, 1);
	look(&b, 2 * S, M_JOB_RAM, 0, 1);
	row = row_at(&b, ENTITY_JOB, false, 0);
	expect_cell(&b, row, M_JOB_SWAP, 10, 10, 10);
	assert_int_equal(cell_of(&b, row, M_JOB_SWAP)->cover_ns, 250 * MS);
	assert_int_equal(row->span_ns, S);
	assert_false(cell_of(&b, row_at(&b, ENTITY_JOB, false, 1), M_JOB_SWAP)->known);
	bench_done(&b);
}

static void single_cores_are_not_stored(void **state)
{
	struct bench b;

	(void) state;
	bench_new(&b, 200);
	framebuf_value(&b.buf, M_HOST_CPU_USER, 0, 10);
	framebuf_value(&b.buf, M_HOST_CPU_USER, 3, 10);
	send(&b, 0, S);
	assert_int_equal(aggregate_end(b.aggregate, S), 0);
	assert_int_equal(count(&b, ENTITY_HOST, false), 1);
	assert_int_equal(row_at(&b, ENTITY_HOST, false, 0)->id, 0);
	assert_int_equal(count(&b, ENTITY_HOST, true), 1);
	bench_done(&b);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void born(struct bench *b, uint32_t id, bool is_main)
{
	struct birth birth = { .entity = ENTITY_PROCESS, .id = id };

	birth.process.is_main = is_main;
	birth.process.name = birth.process.command = "x";
	framebuf_birth(&b->buf, &birth);
}

static void ended(struct bench *b, uint32_t id)
{
	framebuf_end(&b->buf, &(struct end) { .entity = ENTITY_PROCESS, .id = id });
}

/* The job and the processes 1..n with their rss, in ten samples of the window that begins at s
 * seconds. */
static void window(struct bench *b, uint64_t s, const int64_t *rss, uint32_t n)
{
	for (uint64_t i = 0; i < 10; i++) {
		for (uint32_t id = 1; id <= n; id++) {
			if (rss[id - 1] >= 0)
				framebuf_value(&b->buf, M_PROC_RSS, id, rss[id - 1]);
		}
		framebuf_value(&b->buf, M_JOB_RAM, 0, 1);
		send(b, s * S + i * 100 * MS, 300 * MS);
	}
}

static void a_process_that_does_not_change_has_no_row(void **state)
{
	struct bench b;

	(void) state;
	bench_new(&b, 200);
	born(&b, 1, true);
	for (uint64_t s = 0; s < 5; s++)
		window(&b, s, (int64_t[]) { s == 3 ? 99 : 50 }, 1);
	assert_int_equal(aggregate_end(b.aggregate, 5 * S), 0);
	assert_int_equal(count(&b, ENTITY_JOB, false), 5);
	/* 50; in window 3 it is 99; in window 4 it is 50 again. Full rate likewise. */
	assert_int_equal(count(&b, ENTITY_PROCESS, false), 3);
	expect_cell(&b, row_at(&b, ENTITY_PROCESS, false, 0), M_PROC_RSS, 50, 50, 50);
	expect_cell(&b, row_at(&b, ENTITY_PROCESS, false, 1), M_PROC_RSS, 99, 99, 99);
	assert_int_equal(row_at(&b, ENTITY_PROCESS, false, 1)->t_ns, 3 * S);
	assert_int_equal(row_at(&b, ENTITY_PROCESS, false, 2)->t_ns, 4 * S);
	assert_int_equal(count(&b, ENTITY_PROCESS, true), 3);
	assert_int_equal(count(&b, ENTITY_JOB, true), 50);
	bench_done(&b);
}

static void a_process_that_was_not_read_has_a_row_of_nothing(void **state)
{
	struct bench b;
	const struct row *row;

	(void) state;
	bench_new(&b, 200);
	born(&b, 1, true);
	window(&b, 0, (int64_t[]) { 50 }, 1);
	for (uint64_t s = 1; s < 4; s++)
		window(&b, s, (int64_t[]) { -1 }, 1);
	window(&b, 4, (int64_t[]) { 50 }, 1);
	assert_int_equal(aggregate_end(b.aggregate, 5 * S), 0);
	assert_int_equal(count(&b, ENTITY_PROCESS, false), 3);
	row = row_at(&b, ENTITY_PROCESS, false, 1);
	/* in window 1 its last sample was still valid for 0.2 s, unchanged */
	assert_int_equal(row->t_ns, 2 * S);
	assert_true(row_is_empty(row, b.layout.n[ENTITY_PROCESS]));
	row = row_at(&b, ENTITY_PROCESS, false, 2);
	assert_int_equal(row->t_ns, 4 * S);
	expect_cell(&b, row, M_PROC_RSS, 50, 50, 50);
	bench_done(&b);
}

static void an_ended_process_has_a_last_row(void **state)
{
	struct bench b;
	const struct row *row;

	(void) state;
	bench_new(&b, 200);
	born(&b, 1, true);
	born(&b, 2, false);
	framebuf_value(&b.buf, M_PROC_RSS, 2, 500);
	framebuf_value(&b.buf, M_PROC_RSS, 1, 10);
	framebuf_value(&b.buf, M_JOB_RAM, 0, 10);
	send(&b, 0, S);
	ended(&b, 2);
	send(&b, 400 * MS, S);
	for (uint64_t s = 1; s < 3; s++)
		window(&b, s, (int64_t[]) { 10 }, 1);
	row = row_at(&b, ENTITY_PROCESS, false, 1);
	assert_int_equal(row->id, 2);
	assert_int_equal(row->span_ns, 400 * MS);
	assert_int_equal(count(&b, ENTITY_PROCESS, false), 2); /* and never again */
	bench_done(&b);
}

static const struct row *row_of(const struct bench *b, uint32_t id, uint64_t t_ns)
{
	for (size_t k = 0; k < b->n; k++) {
		if (b->rows[k].entity == ENTITY_PROCESS && !b->rows[k].recent && b->rows[k].row.id == id &&
			b->rows[k].row.t_ns == t_ns)
			return &b->rows[k].row;
	}
	return NULL;
}

static void past_the_limit_the_smallest_are_one_row(void **state)
{
	struct bench b;
	/* the main process is the smallest and nevertheless has its own row */
	int64_t rss[6] = { 1, 500, 400, 30, 20, 10 };
	const unsigned cells = (bench_new(&b, 3), b.layout.n[ENTITY_PROCESS]);

	(void) state;
	for (uint32_t id = 1; id <= 6; id++)
		born(&b, id, id == 1);
	window(&b, 0, rss, 6);
	rss[3] = 900; /* 4 becomes the largest, 3 moves to the shared row */
	window(&b, 1, rss, 6);
	rss[3] = 30;
	window(&b, 2, rss, 6);
	assert_int_equal(aggregate_end(b.aggregate, 3 * S), 0);
	expect_cell(&b, row_of(&b, 0, 0), M_PROC_RSS, 60, 60, 60);
	expect_cell(&b, row_of(&b, 1, 0), M_PROC_RSS, 1, 1, 1);
	expect_cell(&b, row_of(&b, 2, 0), M_PROC_RSS, 500, 500, 500);
	expect_cell(&b, row_of(&b, 3, 0), M_PROC_RSS, 400, 400, 400);
	assert_null(row_of(&b, 4, 0));
	expect_cell(&b, row_of(&b, 4, S), M_PROC_RSS, 900, 900, 900);
	expect_cell(&b, row_of(&b, 0, S), M_PROC_RSS, 430, 430, 430);
	assert_true(row_is_empty(row_of(&b, 3, S), cells));
	assert_true(row_is_empty(row_of(&b, 4, 2 * S), cells));
	expect_cell(&b, row_of(&b, 3, 2 * S), M_PROC_RSS, 400, 400, 400);
	expect_cell(&b, row_of(&b, 0, 2 * S), M_PROC_RSS, 60, 60, 60);
	bench_done(&b);
}

static void counters_of_the_others_only_grow(void **state)
{
	struct bench b;
	int64_t before = 0, sum = 0;

	(void) state;
	bench_new(&b, 2);
	for (uint32_t id = 1; id <= 8; id++)
		born(&b, id, id == 1);
	for (uint64_t s = 0; s < 20; s++) {
		for (uint32_t id = 1; id <= 8; id++) {
			framebuf_value(&b.buf, M_PROC_RSS, id, (int64_t) (1 + (id * 7 + s * 3) % 8));
			framebuf_value(&b.buf, M_PROC_CPU_USER, id, (int64_t) (id * 1000 + s * 10));
		}
		send(&b, s * S, 300 * MS);
	}
	assert_int_equal(aggregate_end(b.aggregate, 20 * S), 0);
	for (uint64_t s = 0; s < 20; s++) {
		const struct cell *cell = cell_of(&b, row_of(&b, 0, s * S), M_PROC_CPU_USER);

		assert_true(cell->known);
		assert_true(cell->value >= before);
		before = cell->value;
	}
	for (uint32_t id = 2; id <= 8; id++)
		sum += id * 1000 + 190;
	assert_in_range(before, 1, sum);
	bench_done(&b);
}

static void the_shared_row_ends_with_its_processes(void **state)
{
	struct bench b;

	(void) state;
	bench_new(&b, 1);
	born(&b, 1, true);
	born(&b, 2, false);
	window(&b, 0, (int64_t[]) { 5, 6 }, 2);
	ended(&b, 2);
	window(&b, 1, (int64_t[]) { 5 }, 1);
	window(&b, 2, (int64_t[]) { 5 }, 1);
	window(&b, 3, (int64_t[]) { 5 }, 1);
	expect_cell(&b, row_of(&b, 0, 0), M_PROC_RSS, 6, 6, 6);
	assert_true(row_is_empty(row_of(&b, 0, S), b.layout.n[ENTITY_PROCESS]));
	bench_done(&b);
}

/* ---- full rate ------------------------------------------------------------------------------- */

static void sources_of_one_tick_share_a_row(void **state)
{
	struct bench b;
	const struct row *row;

	(void) state;
	bench_new(&b, 200);
	look(&b, 100 * MS, M_JOB_CGROUP_MEM, 0, 1);
	look(&b, 100 * MS, M_JOB_RAM, 0, 2);
	look(&b, 200 * MS, M_JOB_RAM, 0, 3);
	look(&b, 200 * MS, M_JOB_RAM, 0, 4); /* on request: a second sample at the same instant */
	assert_int_equal(aggregate_flush(b.aggregate), 0);
	assert_int_equal(count(&b, ENTITY_JOB, true), 3);
	row = row_at(&b, ENTITY_JOB, true, 0);
	assert_int_equal(row->t_ns, 100 * MS);
	assert_int_equal(row->span_ns, 0);
	expect_cell(&b, row, M_JOB_CGROUP_MEM, 1, 1, 1);
	expect_cell(&b, row, M_JOB_RAM, 2, 2, 2);
	assert_false(cell_of(&b, row_at(&b, ENTITY_JOB, true, 1), M_JOB_CGROUP_MEM)->known);
	assert_true(row_at(&b, ENTITY_JOB, true, 2)->t_ns > row_at(&b, ENTITY_JOB, true, 1)->t_ns);
	bench_done(&b);
}

/* ---- properties ------------------------------------------------------------------------------ */

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* For any times and values: over all rows, the integral, the extremes and the last value are
 * those of the samples. */
static void windows_keep_the_samples(void **state)
{
	uint64_t seed = 88172645463325252;

	(void) state;
	for (int turn = 0; turn < 50; turn++) {
		struct bench b;
		uint64_t t = 0, until = 0, at = 0, cover = 0, got_cover = 0, looks = 0, got_looks = 0;
		int64_t level = 0, max = INT64_MIN, min = INT64_MAX, got_max = INT64_MIN, got_min = INT64_MAX;
		__int128 sum = 0, got = 0;

		bench_new(&b, 200);
		for (int i = 0; i < 300; i++) {
			uint64_t hold = next_random(&seed) % (4 * S), to;
			int64_t value = (int64_t) (next_random(&seed) % 1000000007) * 1000;

			t += next_random(&seed) % (i % 17 ? 700 * MS : 9 * S);
			to = t < until ? t : until;
			if (i > 0 && to > at) {
				sum += (__int128) level * (to - at);
				cover += to - at;
			}
			framebuf_value(&b.buf, M_JOB_RAM, 0, value);
			send(&b, t, hold);
			looks++;
			level = value;
			at = t;
			until = t + hold;
			max = value > max ? value : max;
			min = value < min ? value : min;
		}
		assert_int_equal(aggregate_end(b.aggregate, t), 0);
		for (size_t i = 0; i < count(&b, ENTITY_JOB, false); i++) {
			const struct row *row = row_at(&b, ENTITY_JOB, false, i);
			const struct cell *cell = cell_of(&b, row, M_JOB_RAM);

			got += (__int128) cell->value * cell->cover_ns;
			got_cover += cell->cover_ns;
			got_looks += row->n;
			got_max = cell->max > got_max ? cell->max : got_max;
			got_min = cell->min < got_min ? cell->min : got_min;
			assert_true(cell->min <= cell->value && cell->value <= cell->max);
		}
		assert_int_equal(got_max, max);
		assert_int_equal(got_min, min);
		assert_int_equal(got_looks, looks);
		/* aggregate_end closes at least a nanosecond if the last sample is on the
		 * border. */
		assert_in_range(got_cover, cover, cover + 1);
		/* Each row's mean is rounded by at most half a unit. */
		__int128 off = got > sum ? got - sum : sum - got;

		assert_true(off <= (__int128) cover + level);
		bench_done(&b);
	}
}

static struct row random_row(const struct row_layout *l, uint64_t *seed, uint64_t t)
{
	struct row row = {
		.t_ns = t, .span_ns = 1 + next_random(seed) % S, .n = (uint32_t) (next_random(seed) % 100)
	};

	for (unsigned c = 0; c < l->n[ENTITY_JOB]; c++) {
		struct cell *cell = &row.cells[c];

		cell->known = next_random(seed) % 4 != 0;
		if (!cell->known)
			continue;
		cell->min = cell->value = cell->max = (int64_t) (next_random(seed) % 100000);
		if (metrics[l->metric[ENTITY_JOB][c]].kind == KIND_GAUGE) {
			cell->min -= (int64_t) (next_random(seed) % 1000);
			cell->max += (int64_t) (next_random(seed) % 1000);
			cell->cover_ns = next_random(seed) % 3 ? row.span_ns
							       : next_random(seed) % row.span_ns;
		}
	}
	return row;
}

static void merging_is_associative(void **state)
{
	struct row_layout l;
	uint64_t seed = 362436069;

	(void) state;
	row_layout_init(&l);
	for (int turn = 0; turn < 2000; turn++) {
		struct row a = random_row(&l, &seed, 0), b = random_row(&l, &seed, S),
			   c = random_row(&l, &seed, 2 * S);
		struct row left = a, right = b;

		row_merge(&left, &b, &l, ENTITY_JOB);
		row_merge(&left, &c, &l, ENTITY_JOB);
		row_merge(&right, &c, &l, ENTITY_JOB);
		struct row whole = a;

		row_merge(&whole, &right, &l, ENTITY_JOB);
		assert_int_equal(left.span_ns, a.span_ns + b.span_ns + c.span_ns);
		assert_int_equal(left.span_ns, whole.span_ns);
		assert_int_equal(left.n, a.n + b.n + c.n);
		assert_int_equal(left.n, whole.n);
		for (unsigned i = 0; i < l.n[ENTITY_JOB]; i++) {
			const struct cell *x = &left.cells[i], *y = &whole.cells[i];

			assert_int_equal(x->known, y->known);
			assert_int_equal(x->known, a.cells[i].known || b.cells[i].known || c.cells[i].known);
			if (!x->known)
				continue;
			assert_int_equal(x->min, y->min);
			assert_int_equal(x->max, y->max);
			assert_int_equal(x->cover_ns, y->cover_ns);
			assert_true(llabs(x->value - y->value) <= 1); /* each merge rounds a mean once */
		}
	}
}

static void part_says_what_covers_less(void **state)
{
	struct row_layout l;
	struct buf part = BUF_INIT(4096);
	struct row row = { .span_ns = 1000 }, back;

	(void) state;
	row_layout_init(&l);
	row.cells[l.place[M_JOB_RAM]] = (struct cell) { 1, 1, 1, 1000, true };
	row.cells[l.place[M_JOB_SWAP]] = (struct cell) { 1, 1, 1, 250, true };
	row.cells[l.place[M_JOB_HUGETLB]] = (struct cell) { 1, 1, 1, 0, true };
	row.cells[l.place[M_JOB_CPU_USER]] = (struct cell) { 1, 1, 1, 0, true };
	row_part_write(&row, &l, ENTITY_JOB, &part);
	assert_string_equal(part.data, "swap 250 hugetlb 0");
	back = row;
	for (unsigned c = 0; c < l.n[ENTITY_JOB]; c++)
		back.cells[c].cover_ns = 77;
	row_part_read(&back, &l, ENTITY_JOB, part.data);
	assert_int_equal(back.cells[l.place[M_JOB_RAM]].cover_ns, 1000);
	assert_int_equal(back.cells[l.place[M_JOB_SWAP]].cover_ns, 250);
	assert_int_equal(back.cells[l.place[M_JOB_HUGETLB]].cover_ns, 0);
	/* Text written there by others does no harm. */
	row_part_read(&back, &l, ENTITY_JOB, "swap  9999999999 ram -5 x");
	assert_int_equal(back.cells[l.place[M_JOB_SWAP]].cover_ns, 1000);
	row_part_read(&back, &l, ENTITY_JOB, "   swap");
	row_part_read(&back, &l, ENTITY_JOB, "");
	buf_done(&part);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gauge_keeps_min_mean_by_time_and_max),
		cmocka_unit_test(a_level_goes_on_over_the_border_as_long_as_it_may_stand),
		cmocka_unit_test(silence_is_a_gap),
		cmocka_unit_test(a_slow_source_has_rows_over_several_windows),
		cmocka_unit_test(a_counter_keeps_its_last_value_and_a_mark_its_largest),
		cmocka_unit_test(a_burst_that_a_mark_proves_stays),
		cmocka_unit_test(what_a_look_proves_happened_in_the_window_that_it_ends),
		cmocka_unit_test(what_was_read_before_the_look_that_ends_a_window_is_in_it),
		cmocka_unit_test(what_could_not_be_had_stands_for_nothing),
		cmocka_unit_test(single_cores_are_not_stored),
		cmocka_unit_test(a_process_that_does_not_change_has_no_row),
		cmocka_unit_test(a_process_that_was_not_read_has_a_row_of_nothing),
		cmocka_unit_test(an_ended_process_has_a_last_row),
		cmocka_unit_test(past_the_limit_the_smallest_are_one_row),
		cmocka_unit_test(counters_of_the_others_only_grow),
		cmocka_unit_test(the_shared_row_ends_with_its_processes),
		cmocka_unit_test(sources_of_one_tick_share_a_row),
		cmocka_unit_test(windows_keep_the_samples),
		cmocka_unit_test(merging_is_associative),
		cmocka_unit_test(part_says_what_covers_less),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
