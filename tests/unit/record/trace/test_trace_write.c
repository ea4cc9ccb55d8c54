/* SPDX-License-Identifier: MIT
 *
 * Traced work through a recording: what was sent is what is read, and what SQL says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/read/replay.h"
#include "record/thin/thin.h"
#include "record/trace/trace_file.h"
#include "record/trace/trace_read.h"
#include "record/trace/trace_write.h"

struct rig {
	char path[64];
	struct store *s;
	struct trace_write *w;
	const struct trace_sink *sink;
	uint32_t process;
	struct replay *r;
	struct trace_read *t;
};

static struct rig rig;

static void begin(const struct trace_write_options *options)
{
	static const struct trace_write_options standard = { 0 };
	const struct store_options store = {
		.path = rig.path, .name = rig.path, .wal = true, .wal_pages = 256
	};
	struct err err;

	(void) snprintf(rig.path, sizeof(rig.path), "/tmp/hiwater-trace-%d.hiw", (int) getpid());
	store_unlink(rig.path);
	assert_int_equal(store_create(&store, &rig.s, &err), 0);
	rig.w = trace_write_new(rig.s, options ? options : &standard);
	assert_non_null(rig.w);
	rig.sink = trace_write_sink(rig.w);
	assert_int_equal(store_begin(rig.s), 0);
}

static void flush(void)
{
	assert_int_equal(trace_write_flush(rig.w), 0);
	assert_int_equal(store_commit(rig.s), 0);
	assert_int_equal(store_begin(rig.s), 0);
}

/* Closes the writer and opens the file for reading. */
static void reopen(void)
{
	struct err err = { "" };

	flush();
	assert_int_equal(store_commit(rig.s), 0);
	trace_write_free(rig.w);
	assert_int_equal(store_close(rig.s, true), 0);
	assert_int_equal(replay_open(rig.path, &rig.r, &err), 0);
	assert_int_equal(trace_read_new(rig.r, &rig.t, &err), 0);
}

static void end(void)
{
	trace_read_free(rig.t);
	replay_close(rig.r);
	store_unlink(rig.path);
	memset(&rig, 0, sizeof(rig));
}

static uint32_t process(int64_t pid)
{
	const struct trace_process p = { .pid = pid, .name = "python", .origin = "probe", .rank = -1 };
	uint32_t number = 0;

	assert_int_equal(rig.sink->process(rig.sink->ctx, &p, &number), 0);
	return number;
}

static uint32_t site(enum trace_kind kind, uint32_t of, const char *name, int64_t place)
{
	const bool on_host = kind == TRACE_RANGE || kind == TRACE_MARK || kind == TRACE_LAUNCH;
	const struct trace_site s = {
		.kind = kind,
		.process = of,
		.name = name,
		.domain = on_host ? "d" : "",
		.tid = on_host ? place : -1,
		.device = on_host ? -1 : 0,
		.stream = on_host ? 0 : (uint64_t) place,
		.grid = { kind == TRACE_KERNEL ? 8 : 0, 1, 1 },
		.source = kind == TRACE_COPY ? TRACE_PAGEABLE : TRACE_MEMORY_UNKNOWN,
		.target = on_host ? TRACE_MEMORY_UNKNOWN : TRACE_DEVICE,
		.device_name = on_host ? "" : "NVIDIA H100 80GB HBM3",
	};
	uint32_t number = 0, again = 0;

	assert_int_equal(rig.sink->site(rig.sink->ctx, &s, &number), 0);
	assert_int_equal(rig.sink->site(rig.sink->ctx, &s, &again), 0);
	assert_int_equal(number, again);
	return number;
}

static void event(const struct trace_event *e)
{
	assert_int_equal(rig.sink->event(rig.sink->ctx, e), 0);
}

static void work(uint32_t of, uint64_t start, uint64_t end_ns, uint64_t correlation)
{
	event(&(struct trace_event) {
		.site = of, .start_ns = start, .end_ns = end_ns, .correlation = correlation });
}

static const struct trace_stat *stat_of(const char *name, uint32_t phase)
{
	for (size_t i = 0; i < trace_read_stat_count(rig.t); i++) {
		const struct trace_stat *stat = trace_read_stat(rig.t, i);

		if (strcmp(stat->name, name) == 0 && stat->phase == phase)
			return stat;
	}
	return NULL;
}

static int64_t number(const char *sql)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *st = NULL;
	int64_t value = -1;

	assert_int_equal(sqlite3_open_v2(rig.path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
	if (sqlite3_step(st) == SQLITE_ROW)
		value = sqlite3_column_int64(st, 0);
	(void) sqlite3_finalize(st);
	(void) sqlite3_close(db);
	return value;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_buckets(void **state)
{
	(void) state;
	assert_int_equal(trace_bucket(0), 0);
	assert_int_equal(trace_bucket(1), 0);
	assert_int_equal(trace_bucket(2), 32);
	assert_int_equal(trace_bucket(UINT64_C(1) << 40), 40 * 32);
	assert_int_equal(trace_bucket(UINT64_MAX), 2047);
	for (uint64_t ns = 1; ns < UINT64_C(1) << 62; ns += 1 + ns / 777) {
		const unsigned bucket = trace_bucket(ns);
		const double middle = (double) trace_bucket_ns(bucket),
			     off = fabs(middle - (double) ns) / (double) ns;

		/* Of few nanoseconds, those of a bucket are one. */
		assert_int_equal(bucket, (unsigned) floor(log2((double) ns) * 32 + 1e-9));
		assert_true(off < 0.0112 || middle - (double) ns < 1);
		assert_int_equal(trace_bucket(trace_bucket_ns(bucket)), bucket);
	}
}

static void test_what_was_sent_is_read(void **state)
{
	uint32_t kernel, range, alloc, copy;
	const struct trace_stat *stat;

	(void) state;
	begin(NULL);
	rig.process = process(4711);
	kernel = site(TRACE_KERNEL, rig.process, "gemm", 7);
	range = site(TRACE_RANGE, rig.process, "forward", 4712);
	alloc = site(TRACE_ALLOC, rig.process, "", 0);
	copy = site(TRACE_COPY, rig.process, "", 7);
	trace_write_phase(rig.w, 0, 0);
	trace_write_phase(rig.w, 1000, 3);
	event(&(struct trace_event) { .site = kernel,
		.start_ns = 900,
		.end_ns = 1400,
		.correlation = 5,
		.queued_ns = 800,
		.submitted_ns = 850,
		.flags = TRACE_NODE });
	work(kernel, 1000, 1100, 6);
	work(kernel, 2000, 1999, 7); /* invalid */
	event(&(struct trace_event) { .site = range, .start_ns = 500, .end_ns = 2500, .depth = 2 });
	event(&(struct trace_event) {
		.site = alloc, .start_ns = 600, .bytes = 4096, .address = 0xf000000000000000 });
	event(&(struct trace_event) { .site = copy, .start_ns = 700, .end_ns = 1000, .bytes = 1 << 20 });
	assert_int_equal(rig.sink->thread(rig.sink->ctx, rig.process, 4712, "main\x1b"), 0);
	assert_int_equal(rig.sink->lost(rig.sink->ctx, rig.process, TRACE_LOST_DROPPED, 4), 0);
	assert_int_equal(rig.sink->window(rig.sink->ctx, 0, UINT64_MAX, "whole run"), 0);
	flush();
	assert_int_equal(rig.sink->window(rig.sink->ctx, 0, 3000, "whole run"), 0);
	reopen();

	stat = stat_of("gemm", 0);
	assert_non_null(stat);
	assert_int_equal(stat->count, 1);
	assert_int_equal(stat->total_ns, 500);
	assert_int_equal(stat->invalid, 1);
	stat = stat_of("gemm", 3);
	assert_int_equal(stat->count, 1);
	assert_int_equal(stat->min_ns, 100);
	assert_int_equal(trace_stat_quantile(stat, 0.5), 100);
	assert_string_equal(stat_of("forward", 0)->domain, "d");
	assert_int_equal(trace_read_busy_count(rig.t), 1);
	assert_int_equal(trace_read_busy(rig.t, 0)->busy_ns, 700);
	assert_int_equal(trace_read_busy(rig.t, 0)->both_ns, 100);
	assert_int_equal(trace_read_busy(rig.t, 0)->traced_ns, 3000);
	assert_string_equal(trace_read_busy(rig.t, 0)->name, "NVIDIA H100 80GB HBM3");
	assert_int_equal(trace_read_window_count(rig.t), 1);
	assert_int_equal(trace_read_window(rig.t, 0)->end_ns, 3000);
	assert_int_equal(trace_read_lost_count(rig.t), 1);
	assert_int_equal(trace_read_lost(rig.t, 0)->n, 4);
	assert_string_equal(trace_read_thread(rig.t, rig.process ? 1 : 0, 4712), "main\x1b");
	assert_string_equal(trace_read_process(rig.t, 1)->origin, "probe");
	assert_null(trace_read_process(rig.t, 2));
	assert_int_equal(trace_read_site(rig.t, kernel)->grid[0], 8);
	assert_int_equal(number("SELECT bytes FROM trace_memory"), 4096);
	end();
}

struct seen {
	size_t n;
	uint64_t last_start;
	struct trace_event events[16];
};

static bool see(void *ctx, const struct trace_event *e)
{
	struct seen *seen = ctx;

	assert_true(e->start_ns >= seen->last_start);
	seen->last_start = e->start_ns;
	if (seen->n < 16)
		seen->events[seen->n] = *e;
	seen->n++;
	return true;
}

static const struct trace_peak *peak_of(uint32_t process, uint32_t memory)
{
	for (size_t i = 0; i < trace_read_peak_count(rig.t); i++) {
		const struct trace_peak *peak = trace_read_peak(rig.t, i);

		if (peak->process == process && peak->memory == memory)
			return peak;
	}
	return NULL;
}

static void memory(uint32_t of, uint64_t t, uint64_t bytes)
{
	event(&(struct trace_event) { .site = of, .start_ns = t, .bytes = bytes, .address = t });
}

static uint32_t memory_site(enum trace_kind kind, uint32_t of, enum trace_memory target)
{
	const struct trace_site s = { .kind = kind,
		.process = of,
		.name = "cuMemAlloc",
		.domain = "",
		.tid = -1,
		.target = target,
		.device_name = "" };
	uint32_t number = 0;

	assert_int_equal(rig.sink->site(rig.sink->ctx, &s, &number), 0);
	return number;
}

/* Of two threads, whose events arrive one after the other's: the order of time counts. Rows are thinned at once. */
static void test_peaks_of_memory(void **state)
{
	const struct trace_write_options options = { .limit_bytes = 1, .rows_a_second = 1 };
	const uint64_t s = 1000000000;
	uint32_t one, other, alloc, freed, managed, pinned;

	(void) state;
	begin(&options);
	one = process(1);
	other = process(2);
	alloc = memory_site(TRACE_ALLOC, one, TRACE_DEVICE);
	freed = memory_site(TRACE_FREE, one, TRACE_DEVICE);
	managed = memory_site(TRACE_ALLOC, one, TRACE_MANAGED);
	pinned = memory_site(TRACE_ALLOC, one, TRACE_PINNED);
	memory(memory_site(TRACE_ALLOC, other, TRACE_DEVICE), 7, 50);
	memory(alloc, s, 1000);
	memory(freed, s + 300, 1000);
	memory(managed, s + 200, 70); /* arrives later */
	memory(alloc, s + 400, 600);
	memory(pinned, s + 500, 5);
	flush();
	memory(alloc, s + 350, 500);
	memory(alloc, s + 500, 0); /* one that failed */
	flush();
	memory(alloc, 9 * s, 100); /* what was before counts for good now */
	flush();
	memory(freed, 9 * s + 1, 100);
	memory(freed, 9 * s + 2, 5000); /* more than there is */
	assert_int_equal(rig.sink->lost(rig.sink->ctx, other, TRACE_LOST_OVERWRITTEN, 1), 0);
	reopen();
	assert_int_equal(peak_of(one, TRACE_DEVICE)->peak_bytes, 1200);
	assert_int_equal(peak_of(one, TRACE_DEVICE)->peak_at_ns, 9 * s);
	assert_int_equal(peak_of(one, TRACE_DEVICE)->live_bytes, 0);
	assert_true(peak_of(one, TRACE_DEVICE)->is_exact);
	assert_int_equal(peak_of(one, TRACE_MANAGED)->peak_bytes, 70);
	assert_int_equal(peak_of(one, TRACE_PEAK_GPU)->peak_bytes, 1270);
	assert_int_equal(peak_of(one, TRACE_PINNED)->live_bytes, 5);
	assert_int_equal(peak_of(other, TRACE_PEAK_GPU)->peak_bytes, 50);
	assert_false(peak_of(other, TRACE_PEAK_GPU)->is_exact);
	assert_null(peak_of(one, TRACE_ARRAY));
	end();
}

/* The peak is that of all at once, not of each kind; also before what waits is old. */
static void test_a_peak_in_the_past(void **state)
{
	uint32_t one;

	(void) state;
	begin(NULL);
	one = process(1);
	memory(memory_site(TRACE_ALLOC, one, TRACE_DEVICE), 100, 1000);
	memory(memory_site(TRACE_FREE, one, TRACE_DEVICE), 300, 1000);
	memory(memory_site(TRACE_ALLOC, one, TRACE_MANAGED), 400, 800);
	flush();
	memory(memory_site(TRACE_ALLOC, one, TRACE_DEVICE), 200, 30);
	store_rollback(rig.s);
	trace_write_rolled_back(rig.w);
	assert_int_equal(store_begin(rig.s), 0);
	reopen();
	assert_int_equal(peak_of(one, TRACE_PEAK_GPU)->peak_bytes, 1030);
	assert_int_equal(peak_of(one, TRACE_PEAK_GPU)->peak_at_ns, 200);
	assert_int_equal(peak_of(one, TRACE_MANAGED)->peak_bytes, 800);
	end();
}

static void test_rows_of_a_span(void **state)
{
	uint32_t kernel, range;
	struct seen seen = { 0 };
	struct err err;

	(void) state;
	begin(NULL);
	rig.process = process(1);
	kernel = site(TRACE_KERNEL, rig.process, "k", 0);
	range = site(TRACE_RANGE, rig.process, "r", 1);
	for (uint64_t i = 100; i-- > 0;)
		work(kernel, i * 100, i * 100 + 50, i + 1);
	event(&(struct trace_event) { .site = range, .start_ns = 10, .end_ns = 9000 });
	event(&(struct trace_event) { .site = site(TRACE_MARK, rig.process, "m", 1), .start_ns = 1000 });
	reopen();
	assert_int_equal(trace_read_rows(rig.t, ~0U, 0, UINT64_MAX, see, &seen, &err), 0);
	assert_int_equal(seen.n, 102);
	seen = (struct seen) { 0 };
	assert_int_equal(trace_read_rows(rig.t, ~0U, 1000, 1200, see, &seen, &err), 0);
	assert_int_equal(seen.n, 4); /* the range, the mark, two kernels */
	assert_int_equal(seen.events[0].kind, TRACE_RANGE);
	assert_int_equal(seen.events[0].end_ns, 9000);
	seen = (struct seen) { 0 };
	assert_int_equal(trace_read_rows(rig.t, 1U << TRACE_KERNEL, 1049, 1101, see, &seen, &err), 0);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.events[0].correlation, 11);
	end();
}

/* Rows of which all keys are equal, as clocks of a microsecond make them. */
static void test_equal_rows(void **state)
{
	struct seen seen = { 0 };
	struct err err;
	uint32_t range;

	(void) state;
	begin(NULL);
	range = site(TRACE_RANGE, process(1), "r", 1);
	for (int i = 0; i < 10; i++)
		work(range, 1000, 1000 + (uint64_t) i, 0);
	reopen();
	assert_int_equal(trace_read_rows(rig.t, ~0U, 0, UINT64_MAX, see, &seen, &err), 0);
	assert_int_equal(seen.n, 10);
	assert_int_equal(stat_of("r", 0)->rows, 10);
	assert_int_equal(trace_read_lost_count(rig.t), 0);
	end();
}

static uint64_t runs_of_inserts(void)
{
	uint64_t runs = 0;

	for (sqlite3_stmt *st = NULL; (st = sqlite3_next_stmt(rig.s->db, st));) {
		if (strstr(sqlite3_sql(st), "INTO trace_range"))
			runs += (uint64_t) sqlite3_stmt_status(st, SQLITE_STMTSTATUS_RUN, 0);
	}
	return runs;
}

/* The same times again and again: of a site 65 rows have a place, the others are counted. Those are found without
 * trying all that are taken. */
static void test_many_equal_rows(void **state)
{
	enum {
		TIMES = 1000,
		AGAIN = 300,
		PLACES = 65
	};
	uint32_t range;

	(void) state;
	begin(NULL);
	range = site(TRACE_RANGE, process(1), "r", 1);
	for (int k = 0; k < AGAIN; k++) {
		for (uint64_t i = 0; i < TIMES; i++)
			work(range, 1000 * i, 1000 * i + 500, 0);
	}
	flush();
	assert_in_range(runs_of_inserts(), TIMES * AGAIN, TIMES * AGAIN * 3);
	reopen();
	assert_int_equal(number("SELECT count(*) FROM trace_range"), TIMES * PLACES);
	assert_int_equal(stat_of("r", 0)->count, TIMES * AGAIN);
	assert_int_equal(stat_of("r", 0)->rows, TIMES * PLACES);
	assert_int_equal(trace_read_lost(rig.t, 0)->cause, TRACE_LOST_THINNED);
	assert_int_equal(trace_read_lost(rig.t, 0)->n, TIMES * (AGAIN - PLACES));
	end();
}

static void expect_whole_sums(uint64_t count, uint64_t total)
{
	const struct trace_stat *stat = stat_of("k", 0);

	assert_int_equal(stat->count, count);
	assert_int_equal(stat->total_ns, total);
	assert_int_equal(stat->rows, number("SELECT count(*) FROM trace_kernel"));
	assert_int_equal(trace_read_lost_count(rig.t), 1);
	assert_int_equal(trace_read_lost(rig.t, 0)->cause, TRACE_LOST_THINNED);
	assert_int_equal(trace_read_lost(rig.t, 0)->n, count - stat->rows);
}

static void test_the_oldest_rows_go(void **state)
{
	enum {
		N = 200000
	};
	static const struct trace_write_options small = { .limit_bytes = 1 << 20 };
	struct stat st;
	uint32_t kernel;

	(void) state;
	begin(&small);
	kernel = site(TRACE_KERNEL, process(1), "k", 0);
	for (uint64_t i = 0; i < N; i++) {
		work(kernel, 1000000000 + i * 1000, 1000000000 + i * 1000 + 500, i + 1);
		if (i % 5000 == 0)
			flush();
	}
	reopen();
	expect_whole_sums(N, N * 500);
	assert_in_range(number("SELECT count(*) FROM trace_kernel"), 25000, 60000);
	assert_int_equal(number("SELECT max(start) FROM trace_kernel"), 1000000000 + (N - 1) * 1000);
	assert_int_equal(trace_read_busy(rig.t, 0)->busy_ns, N * 500);
	assert_int_equal(trace_read_busy(rig.t, 0)->gaps, N - 1);
	assert_int_equal(trace_read_busy(rig.t, 0)->late, 0);
	assert_int_equal(stat(rig.path, &st), 0);
	assert_true(st.st_size < 2 << 20);
	end();
}

/* A phase that is known after events in it: rows are deleted as those of another sum than they were added to. None
 * of the sums is taken for exact then. */
static void test_thinned_sums_are_not_exact(void **state)
{
	enum {
		N = 100000,
		EARLY = 1000
	};
	static const struct trace_write_options small = { .limit_bytes = 1 << 20 };
	uint32_t kernel, other;

	(void) state;
	begin(&small);
	kernel = site(TRACE_KERNEL, process(1), "k", 0);
	other = site(TRACE_KERNEL, process(1), "other", 0);
	for (uint64_t i = 0; i < N; i++) {
		work(kernel, 1000000000 + i * 1000, 1000000000 + i * 1000 + 500, i + 1);
		if (i == EARLY)
			trace_write_phase(rig.w, 1, 3);
		if (i % 5000 == 0)
			flush();
	}
	work(other, 1000000000 + N * 1000, 1000000000 + N * 1000 + 500, N + 1);
	reopen();
	assert_int_equal(stat_of("k", 0)->count, EARLY + 1);
	assert_int_equal(stat_of("k", 3)->count, N - EARLY - 1);
	assert_true(stat_of("k", 0)->rows < stat_of("k", 0)->count);
	assert_true(stat_of("k", 3)->rows < stat_of("k", 3)->count);
	assert_int_equal(stat_of("other", 3)->rows, 1);
	end();
}

static void test_one_of_n_gets_a_row(void **state)
{
	static const struct trace_write_options few = { .rows_a_second = 1000 };
	uint32_t kernel, launch;
	int64_t kernels;

	(void) state;
	begin(&few);
	kernel = site(TRACE_KERNEL, process(1), "k", 0);
	launch = site(TRACE_LAUNCH, process(1), "l", 0);
	for (uint64_t i = 0; i < 100000; i++) {
		work(launch, 1000000000 + i * 100000, 1000000000 + i * 100000 + 5, i + 1);
		work(kernel, 1000000000 + i * 100000 + 10, 1000000000 + i * 100000 + 20, i + 1);
	}
	reopen();
	kernels = number("SELECT count(*) FROM trace_kernel");
	assert_in_range(kernels, 2000, 15000); /* of 10 s */
	assert_int_equal(
		number("SELECT count(*) FROM trace_kernel JOIN trace_launch USING (correlation)"), kernels);
	assert_int_equal(stat_of("k", 0)->count, 100000);
	assert_int_equal(stat_of("k", 0)->rows, kernels);
	assert_int_equal(
		trace_read_lost(rig.t, 0)->n + (uint64_t) number("SELECT sum(rows) FROM trace_stat"),
		200000);
	end();
}

/* Of a transaction that is rolled back, everything but rows is written by the next one. */
static void test_a_rollback(void **state)
{
	uint32_t kernel;

	(void) state;
	begin(NULL);
	kernel = site(TRACE_KERNEL, process(1), "k", 0);
	for (uint64_t i = 0; i < 100; i++)
		work(kernel, 1000 + i * 100, 1000 + i * 100 + 10, i + 1);
	flush();
	for (uint64_t i = 0; i < 20; i++)
		work(kernel, 50000 + i * 100, 50000 + i * 100 + 10, i + 1000);
	(void) site(TRACE_KERNEL, process(2), "other", 0);
	assert_int_equal(trace_write_flush(rig.w), 0);
	store_rollback(rig.s);
	trace_write_rolled_back(rig.w);
	assert_int_equal(store_begin(rig.s), 0);
	for (uint64_t i = 0; i < 3; i++)
		work(kernel, 90000 + i * 100, 90000 + i * 100 + 10, i + 2000);
	reopen();
	expect_whole_sums(123, 1230);
	assert_int_equal(number("SELECT count(*) FROM trace_kernel"), 103);
	assert_int_equal(number("SELECT count(*) FROM trace_name"), 2);
	end();
}

/* An import into a run: the file has traced work. */
static void test_a_second_writer(void **state)
{
	static const struct trace_write_options standard = { 0 };
	uint32_t first, again;

	(void) state;
	begin(NULL);
	first = site(TRACE_KERNEL, process(1), "k", 0);
	work(first, 1000, 2000, 1);
	assert_int_equal(rig.sink->window(rig.sink->ctx, 0, 2500, "whole run"), 0);
	flush();
	trace_write_free(rig.w);
	assert_int_equal(store_run(rig.s, "INSERT INTO phase(number,parent,name,began,ended) "
					  "VALUES(1,0,'a',2500,9000),(2,1,'b',3500,5000)"),
		0);
	rig.w = trace_write_new(rig.s, &standard);
	assert_non_null(rig.w);
	rig.sink = trace_write_sink(rig.w);
	again = site(TRACE_KERNEL, process(1), "k", 0);
	assert_int_equal(again, first);
	work(again, 2100, 2200, 2);
	work(again, 3000, 4000, 3);
	work(again, 4000, 4100, 4);
	work(site(TRACE_KERNEL, process(2), "k", 0), 5000, 6000, 3);
	reopen();
	assert_int_equal(stat_of("k", 0)->count, 2);
	assert_int_equal(stat_of("k", 0)->total_ns, 1100);
	assert_int_equal(stat_of("k", 1)->count, 1);
	assert_int_equal(stat_of("k", 2)->count, 1);
	assert_int_equal(number("SELECT count(*) FROM trace_kernel"), 5);
	assert_int_equal(number("SELECT sum(count) FROM trace_stat WHERE phase = 1"), 2);
	assert_int_equal(trace_read_process_count(rig.t), 2);
	assert_int_equal(trace_read_busy(rig.t, 0)->busy_ns, 1100); /* the window ends at 2,500 */
	end();
}

/* The file's share of a row of 100,000 with the usual columns. */
static void test_bytes_of_a_row(void **state)
{
	enum {
		N = 100000
	};
	uint32_t kernel, range;
	struct stat st;

	(void) state;
	begin(NULL);
	kernel = site(TRACE_KERNEL, process(1), "k", 0);
	range = site(TRACE_RANGE, process(1), "r", 1);
	for (uint64_t i = 0; i < N; i++) {
		const uint64_t start = UINT64_C(3600000000000) + i * 200000 + (i * 7919) % 100000;

		if (i % 2)
			work(kernel, start, start + 100000 + i % 9973, i);
		else
			event(&(struct trace_event) { .site = range,
				.start_ns = start,
				.end_ns = start + 150000,
				.depth = (uint32_t) (i % 3) });
		if (i % 1000 == 0)
			flush();
	}
	reopen();
	assert_int_equal(stat(rig.path, &st), 0);
	print_message("%.1f bytes a row\n", (double) (st.st_size - 40 * 4096) / N);
	assert_true(st.st_size < N * 30);
	end();
}

/* The recorder sees the end of the job some time after it: windows last as long as the run. */
static void test_windows_end_with_the_run(void **state)
{
	uint32_t kernel;

	(void) state;
	begin(NULL);
	kernel = site(TRACE_KERNEL, process(4711), "gemm", 7);
	work(kernel, 500, 1700, 1);
	assert_int_equal(rig.sink->window(rig.sink->ctx, 0, 800, "steps 1-2"), 0);
	assert_int_equal(rig.sink->window(rig.sink->ctx, 900, 2500, "alert"), 0);
	assert_int_equal(rig.sink->window(rig.sink->ctx, 2000, UINT64_MAX, "api"), 0);
	flush();
	assert_int_equal(trace_write_end(rig.w, 1500), 0);
	reopen();
	assert_int_equal(trace_read_window(rig.t, 0)->end_ns, 800);
	assert_int_equal(trace_read_window(rig.t, 1)->end_ns, 1500);
	assert_int_equal(trace_read_window(rig.t, 2)->begin_ns, 1500);
	assert_int_equal(trace_read_window(rig.t, 2)->end_ns, 1500);
	assert_int_equal(trace_read_busy(rig.t, 0)->traced_ns, 800 + 600);
	assert_int_equal(trace_read_busy(rig.t, 0)->busy_ns, 300 + 600);
	end();
}

/* A recording's own limit is for all else: rows of events do not make it merge windows. */
static void test_windows_are_not_thinned_for_rows(void **state)
{
	const struct thin_options options = {
		.window_ns = 1000000000, .recent_ns = 1000000000, .max_bytes = 1 << 20
	};
	struct thin *thin = thin_new(&options);
	uint32_t kernel;

	(void) state;
	assert_non_null(thin);
	begin(NULL);
	kernel = site(TRACE_KERNEL, process(1), "k", 0);
	for (uint64_t i = 0; i < 150000; i++)
		work(kernel, i * 1000, i * 1000 + 10, i);
	flush();
	assert_false(thin_is_due(thin, rig.s));
	assert_false(thin_is_urgent(thin, rig.s));
	rig.s->trace_pages = 0;
	assert_true(thin_is_due(thin, rig.s));
	thin_free(thin);
	reopen();
	end();
}

static void test_no_tables_without_events(void **state)
{
	struct err err = { "" };

	(void) state;
	begin(NULL);
	flush();
	assert_int_equal(store_commit(rig.s), 0);
	trace_write_free(rig.w);
	assert_int_equal(store_close(rig.s, true), 0);
	assert_int_equal(number("SELECT count(*) FROM sqlite_master WHERE name LIKE 'trace%'"), 0);
	assert_int_equal(replay_open(rig.path, &rig.r, &err), 0);
	assert_int_equal(trace_read_new(rig.r, &rig.t, &err), -ENOENT);
	assert_non_null(strstr(err.text, "was not traced"));
	end();
}

static void add_kernel(uint64_t start)
{
	static const struct trace_write_options standard = { 0 };

	rig.w = trace_write_new(rig.s, &standard);
	assert_non_null(rig.w);
	rig.sink = trace_write_sink(rig.w);
	work(site(TRACE_KERNEL, process(1), "k", 0), start, start + 100, start);
	assert_int_equal(trace_write_flush(rig.w), 0);
	trace_write_free(rig.w);
}

/* An import without a run, and a second one into its recording; what is not kept changes nothing. */
static void test_files_of_imports(void **state)
{
	const struct trace_file_facts facts = {
		.name = "imported", .started_wall_ns = 5, .ended_ns = 4000, .rank = -1, .ranks = -1
	};
	struct err err = { "" };
	struct job *job = NULL;

	(void) state;
	(void) snprintf(rig.path, sizeof(rig.path), "/tmp/hiwater-trace-%d.hiw", (int) getpid());
	store_unlink(rig.path);
	assert_int_equal(trace_file_create(rig.path, false, &rig.s, &err), 0);
	assert_int_equal(trace_file_end(rig.s, rig.path, false, false, &err), 0);
	assert_int_equal(access(rig.path, F_OK), -1);
	assert_int_equal(trace_file_create(rig.path, false, &rig.s, &err), 0);
	add_kernel(1000);
	assert_int_equal(trace_file_facts_write(rig.s, &facts), 0);
	assert_int_equal(trace_file_end(rig.s, rig.path, true, false, &err), 0);
	assert_int_equal(trace_file_create(rig.path, false, &rig.s, &err), -EEXIST);
	for (int keep = 0; keep < 2; keep++) {
		assert_int_equal(trace_file_open(rig.path, &rig.s, &err), 0);
		add_kernel(2000);
		assert_int_equal(trace_file_end(rig.s, rig.path, keep, true, &err), 0);
		assert_int_equal(number("SELECT count(*) FROM trace_kernel"), 1 + keep);
		assert_int_equal(number("SELECT sum(count) FROM trace_stat"), 1 + keep);
	}
	assert_int_equal(replay_open(rig.path, &rig.r, &err), 0);
	assert_int_equal(replay_job(rig.r, &job, &err), 0);
	assert_string_equal(job_facts_const(job)->name, "imported");
	assert_int_equal(job_facts_const(job)->ended_ns.value, 4000);
	job_free(job);
	end();
}

/* A job may have more processes or devices than the tables: what has no place is counted, nothing ends. */
static void test_more_than_the_tables_hold(void **state)
{
	enum {
		MOST = 1 << 16,
		DEVICES = 1 << 14,
		MORE = 10
	};
	uint32_t kernel, of = 1;
	struct trace_site s = { .kind = TRACE_KERNEL, .name = "k", .domain = "", .tid = -1 };

	(void) state;
	begin(NULL);
	for (int64_t pid = 1; pid <= MOST; pid++)
		assert_int_equal(process(pid), pid);
	for (int64_t pid = MOST + 1; pid <= MOST + MORE; pid++)
		assert_int_equal(process(pid), 0);
	kernel = site(TRACE_KERNEL, 0, "k", 0);
	assert_int_equal(kernel, 0);
	work(kernel, 1000, 2000, 1);
	assert_int_equal(rig.sink->thread(rig.sink->ctx, 0, 5, "t"), 0);
	assert_int_equal(rig.sink->lost(rig.sink->ctx, 0, TRACE_LOST_DAMAGED, 2), 0);
	s.process = 1;
	for (s.device = 0; s.device < DEVICES + MORE; s.device++) {
		assert_int_equal(rig.sink->site(rig.sink->ctx, &s, &of), 0);
		work(of, 1000, 2000, 1);
	}
	reopen();
	assert_int_equal(number("SELECT count(*) FROM trace_process"), MOST);
	assert_int_equal(trace_read_busy_count(rig.t), DEVICES);
	assert_int_equal(number("SELECT sum(count) FROM trace_stat"), DEVICES);
	assert_int_equal(trace_read_lost_count(rig.t), 2);
	assert_int_equal(trace_read_lost(rig.t, 0)->n, 3);
	assert_int_equal(trace_read_lost(rig.t, 1)->n, MORE);
	end();
}

/* Names are kept for the whole run: they have a budget, and then events have one name in common. */
static void test_a_budget_of_names(void **state)
{
	enum {
		N = 2000,
		KEPT = (1 << 19) / (1000 + 64)
	};
	static const struct trace_write_options small = { .limit_bytes = 1 << 20 };
	char name[1001];
	uint32_t of;

	(void) state;
	begin(&small);
	rig.process = process(1);
	for (int i = 0; i < N; i++) {
		const struct trace_site s = { .kind = TRACE_RANGE, .process = rig.process, .name = name, .tid = 1 };

		(void) snprintf(name, sizeof(name), "%01000d", i);
		assert_int_equal(rig.sink->site(rig.sink->ctx, &s, &of), 0);
		work(of, 1000 + (uint64_t) i, 9000, 1);
	}
	reopen();
	assert_int_equal(number("SELECT count(*) FROM trace_name"), KEPT + 1);
	assert_int_equal(stat_of("(names full)", 0)->count, N - KEPT);
	assert_int_equal(trace_read_lost_count(rig.t), 1);
	assert_int_equal(trace_read_lost(rig.t, 0)->cause, TRACE_LOST_NAMES);
	assert_int_equal(trace_read_lost(rig.t, 0)->n, N - KEPT);
	end();
}

static void test_names_of_threads(void **state)
{
	enum {
		MOST = 4096,
		MORE = 100
	};
	char name[200];
	int changes;

	(void) state;
	begin(NULL);
	rig.process = process(1);
	for (int i = 1; i <= MOST + MORE; i++) {
		(void) snprintf(name, sizeof(name), "%04d%0*d\xc3\xa9", i, i % 2 ? 59 : 100, i);
		assert_int_equal(rig.sink->thread(rig.sink->ctx, rig.process, i, name), 0);
	}
	flush();
	changes = sqlite3_total_changes(rig.s->db);
	assert_int_equal(rig.sink->thread(rig.sink->ctx, rig.process, 1, "another"), 0);
	assert_int_equal(rig.sink->thread(rig.sink->ctx, rig.process, 3, "0003"), 0);
	flush();
	assert_in_range(sqlite3_total_changes(rig.s->db) - changes, 1, 4);
	reopen();
	assert_int_equal(number("SELECT count(*) FROM trace_thread"), MOST);
	assert_string_equal(trace_read_thread(rig.t, rig.process, 1), "another");
	assert_string_equal(trace_read_thread(rig.t, rig.process, 3), "0003");
	assert_int_equal(strlen(trace_read_thread(rig.t, rig.process, 4)), 64);
	assert_int_equal(strlen(trace_read_thread(rig.t, rig.process, 5)), 63); /* a whole character less */
	assert_int_equal(trace_read_lost_count(rig.t), 1);
	assert_int_equal(trace_read_lost(rig.t, 0)->cause, TRACE_LOST_NAMES);
	assert_int_equal(trace_read_lost(rig.t, 0)->n, MORE);
	end();
}

/* While nothing could be written nothing was read: that time is not idle time of the device. */
static void test_a_gap_is_in_no_window(void **state)
{
	static const uint64_t second = 1000000000;
	uint32_t kernel;

	(void) state;
	begin(NULL);
	rig.process = process(1);
	kernel = site(TRACE_KERNEL, rig.process, "k", 0);
	assert_int_equal(rig.sink->window(rig.sink->ctx, 0, UINT64_MAX, "whole run"), 0);
	assert_int_equal(rig.sink->window(rig.sink->ctx, 0, second, "60s+5s"), 0);
	work(kernel, second, 2 * second, 1);
	flush();
	assert_int_equal(trace_write_gap(rig.w, 2 * second, 8 * second), 0);
	/* Sent after the gap in which it began. */
	assert_int_equal(rig.sink->window(rig.sink->ctx, 5 * second, UINT64_MAX, "alert"), 0);
	work(kernel, 8 * second, 9 * second, 2);
	flush();
	assert_int_equal(trace_write_gap(rig.w, 9 * second, 10 * second), 0);
	assert_int_equal(rig.sink->window(rig.sink->ctx, 0, 11 * second, "whole run"), 0);
	assert_int_equal(rig.sink->window(rig.sink->ctx, 5 * second, 8 * second + 5, "alert"), 0);
	reopen();
	assert_int_equal(trace_read_busy(rig.t, 0)->traced_ns, 4 * second);
	assert_int_equal(trace_read_busy(rig.t, 0)->busy_ns, 2 * second);
	assert_int_equal(trace_read_busy(rig.t, 0)->gaps, 2);
	assert_int_equal(trace_read_busy(rig.t, 0)->longest_ns, second);
	assert_int_equal(number("SELECT count(*) FROM trace_window WHERE why = 'whole run'"), 3);
	assert_int_equal(number("SELECT sum(end - start) FROM trace_window WHERE why = 'whole run'"), 4 * second);
	assert_int_equal(number("SELECT sum(end - start) FROM trace_window WHERE why = 'alert'"), 5);
	end();
}

static void test_lost_work_bounds_busy(void **state)
{
	uint32_t kernel, other;

	(void) state;
	begin(NULL);
	rig.process = process(1);
	assert_int_equal(rig.sink->lost(rig.sink->ctx, rig.process, TRACE_LOST_OVERWRITTEN, 3), 0);
	kernel = site(TRACE_KERNEL, rig.process, "k", 0);
	other = site(TRACE_KERNEL, process(2), "k", 0);
	work(kernel, 1000, 2000, 1);
	work(other, 1000, 2000, 1);
	assert_int_equal(rig.sink->lost(rig.sink->ctx, rig.process, TRACE_LOST_DROPPED, 4), 0);
	reopen();
	assert_int_equal(trace_read_busy_count(rig.t), 2);
	assert_int_equal(trace_read_busy(rig.t, 0)->late, 7);
	assert_int_equal(trace_read_busy(rig.t, 1)->late, 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_what_was_sent_is_read),
		cmocka_unit_test(test_peaks_of_memory),
		cmocka_unit_test(test_a_peak_in_the_past),
		cmocka_unit_test(test_rows_of_a_span),
		cmocka_unit_test(test_equal_rows),
		cmocka_unit_test(test_the_oldest_rows_go),
		cmocka_unit_test(test_thinned_sums_are_not_exact),
		cmocka_unit_test(test_one_of_n_gets_a_row),
		cmocka_unit_test(test_a_rollback),
		cmocka_unit_test(test_a_second_writer),
		cmocka_unit_test(test_bytes_of_a_row),
		cmocka_unit_test(test_windows_end_with_the_run),
		cmocka_unit_test(test_windows_are_not_thinned_for_rows),
		cmocka_unit_test(test_no_tables_without_events),
		cmocka_unit_test(test_files_of_imports),
		cmocka_unit_test(test_more_than_the_tables_hold),
		cmocka_unit_test(test_many_equal_rows),
		cmocka_unit_test(test_a_budget_of_names),
		cmocka_unit_test(test_a_gap_is_in_no_window),
		cmocka_unit_test(test_lost_work_bounds_busy),
		cmocka_unit_test(test_names_of_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
