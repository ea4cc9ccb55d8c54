/* SPDX-License-Identifier: MIT
 *
 * The view of where memory came from, compared with sums that are made here from the same rows.
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

#include "sink/where/where_sink.h"
#include "sink/where/where_view.h"

enum {
	FRAMES = 30,
	STACKS = 200,
	PROCESSES = 3,
	ROWS = 150,
	FILES = 6,
	ROUNDS = 300,
	LEAST_FRAMES = 3, /* so that no function is the only one */
};

static uint64_t random_state = 88172645463325252;
static struct where_frame frames[FRAMES];
static struct where_stack stacks[STACKS];
static struct where_process processes[PROCESSES];
static struct where_row rows[ROWS];
static struct where_file files[FILES];
static struct where_high the_high;
static const struct where_data data = { frames, FRAMES, stacks, STACKS, processes, PROCESSES, &the_high, 1, false };
static char names[FRAMES][32];

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

/* The last third of the frames is plumbing. */
static bool is_plumbing_frame(uint32_t i)
{
	return i >= FRAMES * 2 / 3;
}

static uint64_t random_bytes(void)
{
	return random_below(UINT64_C(1) << random_below(40));
}

static void make_data(void)
{
	for (uint32_t i = 0; i < FRAMES; i++) {
		const bool is_plumbing = is_plumbing_frame(i);

		(void) snprintf(names[i], sizeof(names[i]), "f%u", is_plumbing ? i : i % (FRAMES / 2));
		frames[i] = (struct where_frame) { .module = is_plumbing ? "/lib/libc.so.6" : "/bin/app",
			.build_id = "",
			.offset = i,
			.function = names[i],
			.file = i % 3 ? "a.c" : "b.c",
			.line = i };
	}
	for (uint32_t i = 0; i < STACKS; i++)
		stacks[i] = (struct where_stack) { .parent = i < LEAST_FRAMES ? 0 : (uint32_t) random_below(i + 1),
			.frame = (uint32_t) random_below(FRAMES) + 1 };
	for (uint32_t i = 0; i < PROCESSES; i++)
		processes[i] = (struct where_process) { .pid = i, .rank = -1, .name = "job" };
	for (uint32_t i = 0; i < ROWS; i++)
		rows[i] = (struct where_row) { .stack = i + 1, .process = (uint32_t) random_below(PROCESSES) + 1, .bytes = random_bytes(), .n = random_below(50) };
	for (uint32_t i = 0; i < FILES; i++)
		files[i] = (struct where_file) { .name = names[i], .bytes = random_bytes() };
	the_high = (struct where_high) { .time_ns = 5, .total_bytes = random_bytes(), .before_bytes = random_below(2) * random_bytes(), .rows = rows, .n_rows = ROWS, .files = files, .n_files = FILES };
}

static struct where_view *view_of(struct where_view_options options, struct maybe peak)
{
	struct where_view *view = NULL;
	struct err err = { "" };

	assert_int_equal(where_view_new(&options, &view, &err), 0);
	assert_int_equal(where_view_add(view, &data, peak, UNKNOWN, false, &err), 0);
	assert_int_equal(where_view_end(view), 0);
	return view;
}

static uint64_t rows_sum(void)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < ROWS; i++)
		sum += rows[i].bytes;
	return sum;
}

static uint64_t files_sum(void)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < FILES; i++)
		sum += files[i].bytes;
	return sum;
}

static uint64_t lines_sum(const struct where_view *view)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < view->n_lines; i++)
		sum += view->lines[i].bytes;
	return sum;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* To the byte, for all keys, whatever the peak is. */
static void parts_are_the_peak(void **state)
{
	(void) state;
	for (int round = 0; round < ROUNDS; round++) {
		struct where_view_options options = { .is_self = random_below(2), .is_by_total = random_below(2), .under = random_below(3) ? NULL : "^f[1-3]$" };
		struct maybe peak = random_below(4) ? known((int64_t) random_bytes()) : UNKNOWN;
		uint64_t wanted, sum = 0, fold = 0;

		make_data();
		if (random_below(3) == 0)
			peak = known((int64_t) (rows_sum() + files_sum() + the_high.before_bytes) + (int64_t) random_below(3) - 1);
		wanted = peak.known ? (uint64_t) peak.value : the_high.total_bytes;
		for (int by = 0; by < WHERE_BY_COUNT; by++) {
			struct where_view *view;

			options.by = (enum where_by) by;
			view = view_of(options, peak);
			assert_int_equal(view->peak_bytes, wanted);
			assert_int_equal(lines_sum(view), view->rows_bytes);
			assert_int_equal(view->rows_bytes + view->out_bytes + view->files_bytes + view->before_bytes + view->unsampled_bytes,
				wanted);
			sum = fold = 0;
			for (size_t i = 0; i < view->n_files; i++)
				sum += view->files[i].bytes;
			assert_int_equal(sum, view->files_bytes);
			for (size_t i = 0; i < view->n_sums; i++)
				fold += view->sums[i].bytes;
			assert_int_equal(fold, view->rows_bytes);
			if (rows_sum() + files_sum() + the_high.before_bytes <= wanted) {
				assert_int_equal(view->rows_bytes + view->out_bytes, rows_sum());
				assert_int_equal(view->files_bytes, files_sum());
			} else {
				assert_int_equal(view->unsampled_bytes, 0);
			}
			where_view_free(view);
		}
	}
}

/* The stacks give way first, in proportion; then the files, and what was there before. */
static void what_is_too_much_is_scaled(void **state)
{
	(void) state;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t rest, before;
		struct where_view *view;

		make_data();
		before = the_high.before_bytes + files_sum();
		rest = random_below(rows_sum() + 1);
		view = view_of((struct where_view_options) { .by = WHERE_BY_STACK }, known((int64_t) (before + rest)));
		assert_int_equal(view->files_bytes + view->before_bytes, before);
		assert_int_equal(view->rows_bytes, rest);
		for (size_t i = 0; i < view->n_leaves; i++) {
			const double exact = (double) rest * (double) rows[i].bytes / (double) rows_sum();

			assert_true(fabs((double) view->leaves[i].bytes - exact) <= 1 + exact * 1e-12);
		}
		where_view_free(view);
		view = view_of((struct where_view_options) { .by = WHERE_BY_STACK }, known((int64_t) (before / 2)));
		assert_int_equal(view->rows_bytes, 0);
		assert_int_equal(view->files_bytes + view->before_bytes, before / 2);
		where_view_free(view);
	}
}

/* ---- functions ------------------------------------------------------------------------------- */

/* The frames of a stack, the innermost first. */
static size_t walk(uint32_t stack, uint32_t ret[STACKS])
{
	size_t n = 0;

	for (; stack > 0; stack = stacks[stack - 1].parent)
		ret[n++] = stacks[stack - 1].frame - 1;
	return n;
}

static void counts_as_counted_here(void **state)
{
	(void) state;
	for (int round = 0; round < 60; round++) {
		const bool is_self = round % 2;
		struct where_view *view;

		make_data();
		view = view_of((struct where_view_options) { .is_self = is_self, .is_by_total = true }, known(INT64_C(1) << 50));
		for (size_t i = 0; i < view->n_lines; i++) {
			const struct where_line *line = &view->lines[i];
			char name[WHERE_NAME_LEN];
			const char *text = where_line_name(view, line, name);
			uint64_t bytes = 0, total = 0, n = 0;
			double variance = 0;
			uint64_t sigma;

			for (size_t k = 0; k < ROWS; k++) {
				uint32_t chain[STACKS];
				const size_t depth = walk(rows[k].stack, chain);
				size_t at = 0;
				bool is_in = false;

				while (!is_self && at + 1 < depth && is_plumbing_frame(chain[at]))
					at++;
				at = !is_self && is_plumbing_frame(chain[at]) ? 0 : at;
				for (size_t d = 0; d < depth; d++)
					is_in = is_in || strcmp(names[chain[d]], text) == 0;
				total += is_in ? rows[k].bytes : 0;
				if (strcmp(names[chain[at]], text) != 0)
					continue;
				bytes += rows[k].bytes;
				n += rows[k].n;
				if (rows[k].n > 0)
					variance += (double) rows[k].bytes * (double) rows[k].bytes / (double) rows[k].n;
			}
			assert_int_equal(line->bytes, bytes);
			assert_int_equal(line->total, total);
			assert_int_equal(line->n, n);
			assert_int_equal(where_line_sigma(line, &sigma), n > 0);
			assert_true(fabs((double) sigma - sqrt(variance)) <= 1 + sqrt(variance) * 1e-9);
			assert_true(i == 0 || view->lines[i - 1].total >= total);
		}
		where_view_free(view);
	}
}

/* Samples of one size: one sigma of n of them is size x sqrt(n). */
static void sigma_of_equal_samples(void **state)
{
	struct where_view *view;
	uint64_t sigma;

	(void) state;
	make_data();
	for (size_t i = 0; i < ROWS; i++)
		rows[i] = (struct where_row) { .stack = 1, .process = 1, .bytes = 1000 * (i + 1), .n = i + 1 };
	view = view_of((struct where_view_options) { .is_self = true }, UNKNOWN);
	where_view_free(view);
	view = view_of((struct where_view_options) { .is_self = true }, known(INT64_C(1) << 50));
	assert_int_equal(view->n_lines, 1);
	assert_true(where_line_sigma(&view->lines[0], &sigma));
	assert_int_equal(sigma, (uint64_t) (1000 * sqrt(ROWS * (ROWS + 1) / 2.0) + 0.5));
	where_view_free(view);
}

static void plumbing(void **state)
{
	static const char *const yes[][2] = { { "libc.so.6", "anything" }, { "libc.so.6", "" }, { "ld-linux-x86-64.so.2", "_dl_map" },
		{ "app", "malloc" }, { "app", "_int_malloc" }, { "app", "_Znwm" }, { "app", "__memset_avx2_erms" },
		{ "libjemalloc.so.2", "x" }, { "libtcmalloc_minimal.so.4", "x" }, { "libmimalloc.so.2", "x" },
		{ "python3.12", "_PyObject_Malloc" }, { "python3.12", "PyMem_RawMalloc" }, { "python3.12", "_PyMem_DebugRawAlloc" },
		{ "app", "_ZNSt6vectorIiSaIiEE9push_backERKi" }, { "app", "_ZSt4fillIPiiEvT_S1_RKT0_" }, { "libjvm.so", "_ZN2os6mallocEm" },
		{ "app", "_ZN5alloc7raw_vec11finish_grow17h0123456789abcdefE" }, { "app", "runtime.mallocgc" } };
	static const char *const no[][2] = { { "app", "main" }, { "app", "" }, { "app", "memsetter" }, { "app", "mallocate" },
		{ "python3.12", "list_resize" }, { "python3.12", "dictresize" }, { "python3.12", "_PyEval_EvalFrameDefault" },
		{ "libtorch_cpu.so", "_ZN2at6native4fillE" }, { "app", "_ZN4core6Engine4loadEv" }, { "app", "_ZN2os6mallocEm" },
		{ "app", "mi_estimate" }, { "libc++helper.so", "x" }, { "libcrypto.so.3", "x" }, { "libnumpy.so", "" } };

	(void) state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (!where_is_plumbing(yes[i][0], yes[i][1]))
			fail_msg("%s of %s", yes[i][1], yes[i][0]);
	}
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		if (where_is_plumbing(no[i][0], no[i][1]))
			fail_msg("%s of %s", no[i][1], no[i][0]);
	}
}

/* A cut stack shows that it is cut, and does not count for the mark. */
static void cut_stacks(void **state)
{
	static const struct where_frame cut = { .module = "", .build_id = "", .function = "\xE2\x80\xA6", .file = "" };
	struct where_view *view;
	struct buf out = BUF_INIT(1 << 20);
	char name[WHERE_NAME_LEN];

	(void) state;
	make_data();
	frames[0] = cut;
	stacks[0] = (struct where_stack) { .parent = 0, .frame = 1 };
	stacks[1] = (struct where_stack) { .parent = 1, .frame = FRAMES }; /* plumbing */
	the_high.n_rows = 2;
	rows[0] = (struct where_row) { .stack = 2, .process = 1, .bytes = 100, .n = 1 };
	rows[1] = (struct where_row) { .stack = 1, .process = 1, .bytes = 10, .n = 1 };
	view = view_of((struct where_view_options) { .by = WHERE_BY_FUNCTION }, known(INT64_C(1) << 50));
	assert_int_equal(view->n_lines, 2);
	assert_string_equal(where_line_name(view, &view->lines[0], name), names[FRAMES - 1]);
	assert_string_equal(where_line_name(view, &view->lines[1], name), cut.function);
	assert_int_equal(where_folded(view, &out), 0);
	assert_non_null(strstr(out.data, "\xE2\x80\xA6;f29 100\n"));
	assert_non_null(strstr(out.data, "\xE2\x80\xA6 10\n"));
	buf_done(&out);
	where_view_free(view);
}

static void wrong_options(void **state)
{
	const struct where_view_options bad = { .under = "(" };
	struct where_view *view = NULL;
	struct err err = { "" };

	(void) state;
	make_data();
	assert_int_equal(where_view_new(&bad, &view, &err), -EINVAL);
	assert_int_equal(where_view_new(&(struct where_view_options) { .high = 2 }, &view, &err), 0);
	assert_int_equal(where_view_add(view, &data, UNKNOWN, UNKNOWN, false, &err), -EINVAL);
	assert_non_null(strstr(err.text, "no high 2"));
	where_view_free(view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_are_the_peak),
		cmocka_unit_test(what_is_too_much_is_scaled),
		cmocka_unit_test(counts_as_counted_here),
		cmocka_unit_test(sigma_of_equal_samples),
		cmocka_unit_test(plumbing),
		cmocka_unit_test(cut_stacks),
		cmocka_unit_test(wrong_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
