/* SPDX-License-Identifier: MIT
 *
 * Where memory came from through a recording: what was sent is what is read; what is forged is left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/where/where_read.h"
#include "record/where/where_write.h"

struct rig {
	char path[64];
	struct store *s;
	struct where_write *w;
	const struct where_sink *sink;
	struct replay *r;
	struct where_data *data;
	struct err err;
};

static struct rig rig;

static void begin(void)
{
	const struct store_options store = {
		.path = rig.path, .name = rig.path, .wal = true, .wal_pages = 256
	};

	memset(&rig, 0, sizeof(rig));
	(void) snprintf(rig.path, sizeof(rig.path), "/tmp/hiwater-where-%d.hiw", (int) getpid());
	store_unlink(rig.path);
	assert_int_equal(store_create(&store, &rig.s, &rig.err), 0);
	rig.w = where_write_new(rig.s);
	assert_non_null(rig.w);
	rig.sink = where_write_sink(rig.w);
	assert_int_equal(store_begin(rig.s), 0);
}

static void frame(uint32_t number, const char *function)
{
	const struct where_frame f = { .module = "/bin/app", .build_id = "ab", .offset = number, .function = function, .file = "a.c", .line = number };

	assert_int_equal(rig.sink->frame(rig.sink->ctx, number, &f), 0);
}

static void stack(uint32_t number, uint32_t parent, uint32_t of)
{
	const struct where_stack s = { .parent = parent, .frame = of };

	assert_int_equal(rig.sink->stack(rig.sink->ctx, number, &s), 0);
}

static void high(uint32_t number, uint64_t time_ns, uint64_t bytes, uint32_t of, uint32_t process)
{
	const struct where_row row = { .stack = of, .process = process, .bytes = bytes, .n = 3 };
	const struct where_file file = { .name = "/lib/x.so", .bytes = 5 };
	const struct where_high h = {
		.time_ns = time_ns,
		.total_bytes = 1000,
		.looked_ns = time_ns - 1,
		.looked_bytes = 999,
		.before_bytes = 7,
		.sample_bytes = 4096,
		.huge_bytes = 8192,
		.lost = 2,
		.rows = &row,
		.n_rows = 1,
		.files = &file,
		.n_files = 1,
	};

	assert_int_equal(rig.sink->high(rig.sink->ctx, number, &h), 0);
}

/* Frames 1 main and 2 load, the stack 2 of both, a process, the high 1. */
static void write_small(void)
{
	const struct where_process p = { .pid = 4711, .rank = 3, .name = "python" };

	frame(1, "main");
	frame(2, "");
	stack(1, 0, 1);
	stack(2, 1, 2);
	assert_int_equal(rig.sink->process(rig.sink->ctx, 1, &p), 0);
	high(1, 500, 600, 2, 1);
}

static void sql(const char *text)
{
	if (store_run(rig.s, text) < 0)
		fail_msg("%s: %s", text, store_why(rig.s));
}

static int reopen(void)
{
	assert_int_equal(store_commit(rig.s), 0);
	where_write_free(rig.w);
	assert_int_equal(store_close(rig.s, true), 0);
	assert_int_equal(replay_open(rig.path, &rig.r, &rig.err), 0);
	return where_read(rig.r, &rig.data, &rig.err);
}

static void end(void)
{
	where_data_free(rig.data);
	replay_close(rig.r);
	store_unlink(rig.path);
}

static void reads_what_was_written(void **state)
{
	const struct where_high *h;

	(void) state;
	begin();
	write_small();
	frame(2, "load"); /* its name became known later */
	high(2, 900, 800, 2, 1);
	high(2, 950, 850, 1, 1); /* replaces it */
	high(3, 990, 900, 1, 1);
	assert_int_equal(rig.sink->drop(rig.sink->ctx, 1), 0);
	assert_int_equal(reopen(), 0);
	assert_int_equal(rig.data->n_frames, 2);
	assert_string_equal(rig.data->frames[1].function, "load");
	assert_string_equal(rig.data->frames[0].module, "/bin/app");
	assert_string_equal(rig.data->frames[0].build_id, "ab");
	assert_string_equal(rig.data->frames[0].file, "a.c");
	assert_int_equal(rig.data->frames[1].line, 2);
	assert_int_equal(rig.data->frames[1].offset, 2);
	assert_int_equal(rig.data->n_stacks, 2);
	assert_int_equal(rig.data->stacks[1].parent, 1);
	assert_int_equal(rig.data->stacks[0].parent, 0);
	assert_int_equal(rig.data->stacks[1].frame, 2);
	assert_int_equal(rig.data->n_processes, 1);
	assert_int_equal(rig.data->processes[0].pid, 4711);
	assert_int_equal(rig.data->processes[0].rank, 3);
	assert_string_equal(rig.data->processes[0].name, "python");
	assert_int_equal(rig.data->n_highs, 2);
	h = &rig.data->highs[0];
	assert_int_equal(h->time_ns, 950);
	assert_int_equal(h->total_bytes, 1000);
	assert_int_equal(h->looked_ns, 949);
	assert_int_equal(h->looked_bytes, 999);
	assert_int_equal(h->before_bytes, 7);
	assert_int_equal(h->sample_bytes, 4096);
	assert_int_equal(h->huge_bytes, 8192);
	assert_int_equal(h->lost, 2);
	assert_int_equal(h->n_rows, 1);
	assert_int_equal(h->rows[0].bytes, 850);
	assert_int_equal(h->rows[0].stack, 1);
	assert_int_equal(h->rows[0].process, 1);
	assert_int_equal(h->rows[0].n, 3);
	assert_int_equal(h->n_files, 1);
	assert_string_equal(h->files[0].name, "/lib/x.so");
	assert_int_equal(h->files[0].bytes, 5);
	assert_int_equal(rig.data->highs[1].time_ns, 990);
	end();
}

/* What Python was doing: stacks of a high, frame by frame. */
static void reads_pythons(void **state)
{
	const struct where_python_frame frames[] = { { "<module>", "/x/job.py", 9 }, { "main", "", 0 } };
	const struct where_python pythons[] = { { 1, 4711, 400, frames, 2 }, { 1, 4712, 401, frames, 1 } };
	struct where_high h = { .time_ns = 500, .total_bytes = 600, .pythons = pythons, .n_pythons = 2 };
	const struct where_python *p;

	(void) state;
	begin();
	write_small();
	assert_int_equal(rig.sink->high(rig.sink->ctx, 2, &h), 0);
	h.n_pythons = 1;
	assert_int_equal(rig.sink->high(rig.sink->ctx, 3, &h), 0);
	h.n_pythons = 0; /* replaces it */
	assert_int_equal(rig.sink->high(rig.sink->ctx, 3, &h), 0);
	/* forged: too many, of no high, of no process, of other types; after those that count */
	sql("WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 400)"
	    " INSERT INTO where_python SELECT 2, i, 1, 1, 1, 1, 'f', 'f', 1 FROM n");
	sql("WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 400)"
	    " INSERT INTO where_python SELECT 2, 2, i, 1, 1, 1, 'f', 'f', 1 FROM n");
	sql("INSERT INTO where_python VALUES(7, 1, 1, 1, 1, 1, 'f', 'f', 1), (1, 1, 1, 99, -1, -1, NULL, x'00', 'a')");
	assert_int_equal(reopen(), 0);
	assert_int_equal(rig.data->n_highs, 3);
	assert_int_equal(rig.data->highs[0].n_pythons, 1);
	assert_int_equal(rig.data->highs[0].pythons[0].process, 0);
	assert_int_equal(rig.data->highs[2].n_pythons, 0);
	assert_int_equal(rig.data->highs[1].n_pythons, WHERE_PYTHONS);
	p = rig.data->highs[1].pythons;
	assert_true(p[0].process == 1 && p[0].thread == 4711 && p[0].time_ns == 400 && p[0].n_frames == 2);
	assert_string_equal(p[0].frames[0].function, "<module>");
	assert_string_equal(p[0].frames[0].file, "/x/job.py");
	assert_int_equal(p[0].frames[0].line, 9);
	assert_string_equal(p[0].frames[1].file, "");
	assert_true(p[1].thread == 4712 && p[1].n_frames == WHERE_PYTHON_DEPTH);
	end();
}

static void refuses_other_recordings(void **state)
{
	(void) state;
	begin();
	sql("CREATE TABLE other(id INTEGER)");
	assert_int_equal(reopen(), -ENOENT);
	assert_non_null(strstr(rig.err.text, "was not sampled; use: hiwater run --where -- COMMAND"));
	end();
	begin();
	write_small();
	assert_int_equal(rig.sink->drop(rig.sink->ctx, 1), 0);
	assert_int_equal(reopen(), -ENOENT);
	assert_non_null(strstr(rig.err.text, "no high"));
	end();
	begin();
	sql("CREATE VIEW where_high AS SELECT 1 AS id, 1 AS t");
	assert_int_equal(reopen(), -ENOENT);
	end();
}

/* A row of every kind that refers to nothing, or is of another type. */
static void leaves_out_what_is_forged(void **state)
{
	(void) state;
	begin();
	write_small();
	sql("INSERT INTO where_stack VALUES(5, 6, 1), (6, 5, 1), (7, 7, 1), (8, 900, 1), (9, NULL, 900), (10, 5, 1), (11, 'x', 1),"
	    " (12, -1, 1), (13, 1, x'01'), (14, 0, 1), (4294967296, 1, 1), (500001, 1, 1)");
	sql("INSERT INTO where_row VALUES(1, 5, 1, 1, 1, 0), (1, 6, 1, 1, 1, 0), (1, 7, 1, 1, 1, 0), (1, 8, 1, 1, 1, 0), (1, 9, 1, 1, 1, 0),"
	    " (1, 10, 1, 1, 1, 0), (1, 11, 1, 1, 1, 0), (1, 12, 1, 1, 1, 0), (1, 13, 1, 1, 1, 0), (1, 14, 1, 1, 1, 0), (1, 3, 1, 1, 1, 0),"
	    " (1, 500001, 1, 1, 1, 0), (9, 1, 1, 1, 1, 0), (1, 1, 2, 1, 1, 0), (1, 1, 0, 1, 1, 0), (1, 1, 1, -1, 1, 0), (1, 1, 'a', 1, 1, 0)");
	sql("INSERT INTO where_file VALUES(1, 'a', -1), (1, 'b', 1.5), (2, 'c', 1), (1, 'd', 9223372036854775807)");
	sql("INSERT INTO where_process VALUES(200001, 1, 1, 'far'), (-1, 1, 1, 'x')");
	sql("INSERT INTO where_frame VALUES(200001, 'm', '', 0, 'far', '', 0)");
	assert_int_equal(reopen(), 0);
	assert_int_equal(rig.data->n_frames, 2);
	assert_int_equal(rig.data->n_processes, 1);
	assert_int_equal(rig.data->n_highs, 1);
	assert_int_equal(rig.data->highs[0].n_rows, 1);
	assert_int_equal(rig.data->highs[0].n_files, 1);
	for (size_t i = 2; i < rig.data->n_stacks; i++)
		assert_int_equal(rig.data->stacks[i].frame, 0);
	end();
}

/* Of every stack the callers come before it, down to one without a caller: a walk ends. */
static void numbers_with_gaps(void **state)
{
	(void) state;
	begin();
	write_small();
	sql("INSERT INTO where_stack VALUES(100, 2, 2), (400000, 100, 1), (450000, 99, 1)");
	sql("INSERT INTO where_frame VALUES(150000, 'm', '', -1, x'ff00', 'f', -5)");
	sql("INSERT INTO where_process VALUES(9999, -7, -7, NULL)");
	sql("INSERT INTO where_row VALUES(1, 400000, 9999, 11, 1, 12)");
	assert_int_equal(reopen(), 0);
	assert_int_equal(rig.data->n_stacks, 400000);
	assert_int_equal(rig.data->n_frames, 150000);
	assert_string_equal(rig.data->frames[1000].function, "");
	assert_string_equal(rig.data->frames[1000].module, "");
	assert_string_equal(rig.data->frames[149999].function, "\xff");
	assert_int_equal(rig.data->frames[149999].line, 0);
	assert_int_equal(rig.data->processes[9998].pid, -1);
	assert_int_equal(rig.data->processes[9998].rank, -1);
	assert_string_equal(rig.data->processes[5000].name, "");
	assert_int_equal(rig.data->highs[0].n_rows, 2);
	assert_int_equal(rig.data->highs[0].rows[1].copied_bytes, 11); /* not more than there is */
	for (size_t i = 0; i < rig.data->n_stacks; i++)
		assert_true(rig.data->stacks[i].parent <= i);
	end();
}

/* Sums of a high's parts fit into 64 bits, whatever the file has; so do those of many recordings. */
static void huge_numbers(void **state)
{
	uint64_t sum = 0;

	(void) state;
	begin();
	write_small();
	sql("DELETE FROM where_high; INSERT INTO where_high VALUES(1, 1, 1000, 0, 0, 100, 0, 0, 0),"
	    " (2, 2, 9223372036854775807, 0, 0, 0, 0, 0, 0), (3, 3, 5, 0, 0, 9223372036854775807, 0, 0, 0), (0, 4, 5, 0, 0, 0, 0, 0, 0)");
	sql("WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
	    " INSERT INTO where_stack SELECT i, 1, 1 FROM n");
	sql("INSERT INTO where_row SELECT 1, id, 1, 1125899906842000, 9223372036854775807, 0 FROM where_stack WHERE id > 4000");
	sql("INSERT INTO where_row SELECT 1, id, 1, 1125899906842000, 1, 0 FROM where_stack WHERE id >= 10 AND id <= 4000");
	assert_int_equal(reopen(), 0);
	assert_int_equal(rig.data->n_highs, 1);
	for (size_t i = 0; i < rig.data->highs[0].n_rows; i++) {
		sum += rig.data->highs[0].rows[i].bytes;
		assert_true(rig.data->highs[0].rows[i].n <= UINT64_C(1) << 40);
	}
	assert_true(sum > 0 && sum <= UINT64_C(1) << 50);
	end();
}

static void at_most_16_highs(void **state)
{
	(void) state;
	begin();
	write_small();
	sql("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 40)"
	    " INSERT INTO where_high SELECT i, 1000 - i, i, 0, 0, 0, 0, 0, 0 FROM n");
	assert_int_equal(reopen(), 0);
	assert_int_equal(rig.data->n_highs, WHERE_HIGHS);
	for (size_t i = 1; i < rig.data->n_highs; i++)
		assert_true(rig.data->highs[i - 1].time_ns <= rig.data->highs[i].time_ns);
	end();
}

static void other_tables(void **state)
{
	(void) state;
	begin();
	write_small();
	sql("DROP TABLE where_frame; DROP TABLE where_file; DROP TABLE where_process; CREATE TABLE where_process(id INTEGER)");
	sql("INSERT INTO where_process VALUES(1)");
	assert_int_equal(reopen(), 0);
	assert_int_equal(rig.data->n_stacks, 0);
	assert_int_equal(rig.data->highs[0].n_rows, 0);
	assert_int_equal(rig.data->highs[0].n_files, 0);
	assert_string_equal(rig.data->processes[0].name, "");
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_was_written),
		cmocka_unit_test(reads_pythons),
		cmocka_unit_test(refuses_other_recordings),
		cmocka_unit_test(leaves_out_what_is_forged),
		cmocka_unit_test(numbers_with_gaps),
		cmocka_unit_test(huge_numbers),
		cmocka_unit_test(at_most_16_highs),
		cmocka_unit_test(other_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
