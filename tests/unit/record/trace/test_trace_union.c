/* SPDX-License-Identifier: MIT
 *
 * The union of a device's work, compared with an array of nanoseconds in which each one is marked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "record/trace/trace_union.h"

enum {
	TIME = 200000,
	EVENTS = 20000,
};

struct event {
	bool is_kernel;
	uint64_t begin, end, key;
};

static uint64_t random_state;
static struct event events[EVENTS];
static unsigned char marks[TIME]; /* bits: 1 a kernel, 2 a copy, 4 a window */

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

static int by_key(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

/* n events whose order differs from that of their ends by disorder at most. */
static void make_events(size_t n, uint64_t longest, uint64_t disorder)
{
	memset(marks, 0, sizeof(marks));
	for (size_t i = 0; i < n; i++) {
		events[i].is_kernel = random_below(3) > 0;
		events[i].begin = random_below(TIME - longest);
		events[i].end = events[i].begin + random_below(longest);
		events[i].key = events[i].end + random_below(disorder + 1);
		for (uint64_t t = events[i].begin; t < events[i].end; t++)
			marks[t] |= events[i].is_kernel ? 1 : 2;
	}
	qsort(events, n, sizeof(events[0]), by_key);
}

static void mark_windows(const struct trace_span *windows, size_t n)
{
	for (size_t w = 0; w < n; w++) {
		for (uint64_t t = windows[w].begin; t < windows[w].end && t < TIME; t++)
			marks[t] |= 4;
	}
}

/* What the array says, of windows that do not touch. */
static struct trace_union_sums count_marks(uint64_t until)
{
	struct trace_union_sums sums = { 0 };
	uint64_t gap = 0;

	for (uint64_t t = 0; t <= until; t++) {
		const unsigned char mark = t < until ? marks[t] : 0;

		if (mark == 4) {
			gap++;
		} else if (gap > 0) {
			sums.gaps++;
			if (gap > sums.longest_ns) {
				sums.longest_ns = gap;
				sums.longest_at_ns = t - gap;
			}
			gap = 0;
		}
		if (!(mark & 4))
			continue;
		sums.traced_ns++;
		sums.kernels_ns += mark & 1;
		sums.copies_ns += (mark & 2) != 0;
		sums.busy_ns += (mark & 3) != 0;
		sums.both_ns += (mark & 3) == 3;
	}
	return sums;
}

static void expect_sums(const struct trace_union_sums *got, const struct trace_union_sums *truth)
{
	assert_int_equal(got->traced_ns, truth->traced_ns);
	assert_int_equal(got->busy_ns, truth->busy_ns);
	assert_int_equal(got->kernels_ns, truth->kernels_ns);
	assert_int_equal(got->copies_ns, truth->copies_ns);
	assert_int_equal(got->both_ns, truth->both_ns);
	assert_int_equal(got->gaps, truth->gaps);
	assert_int_equal(got->longest_ns, truth->longest_ns);
	assert_int_equal(got->longest_at_ns, truth->longest_at_ns);
}

static void compare(size_t n, uint64_t longest, uint64_t disorder, const struct trace_union_limits *limits,
	const struct trace_span *windows, size_t n_windows)
{
	struct trace_union u = { 0 };
	struct trace_union_sums sums, truth;
	uint64_t last = 0, first = UINT64_MAX;

	make_events(n, longest, disorder);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(trace_union_add(&u, events[i].is_kernel, events[i].begin, events[i].end), 0);
		assert_int_equal(trace_union_trim(&u, limits, windows, n_windows), 0);
		last = events[i].end > last ? events[i].end : last;
		first = events[i].begin < first ? events[i].begin : first;
	}
	const struct trace_span whole = { first, last };

	mark_windows(n_windows ? windows : &whole, n_windows ? n_windows : 1);
	truth = count_marks(last);
	assert_int_equal(trace_union_sums(&u, windows, n_windows, last, &sums), 0);
	expect_sums(&sums, &truth);
	assert_int_equal(sums.late, 0);
	assert_int_equal(sums.first_ns, first);
	assert_int_equal(sums.last_ns, last);
	trace_union_done(&u);
}

static const struct trace_union_limits roomy = { 1 << 20, 0, 1 << 20 };

static void test_random_work(void **state)
{
	(void) state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		random_state = seed * 88172645463325252ULL;
		compare(1 + random_below(2000), 1 + random_below(300), TIME, &roomy, NULL, 0);
	}
}

static void test_windows_cut_work_and_gaps(void **state)
{
	static const struct trace_span windows[] = { { 0, 10 }, { 1000, 1001 }, { 5000, 60000 },
		{ 100000, UINT64_MAX } };

	(void) state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		random_state = seed * 98172645463325251ULL;
		compare(1 + random_below(2000), 1 + random_below(300), TIME, &roomy, windows, 4);
	}
}

/* Spans that are added up and forgotten change nothing, if the disorder is less than the horizon. */
static void test_forgotten_spans(void **state)
{
	static const struct trace_union_limits tight = { 100, 2000, 1 << 20 };
	static const struct trace_span windows[] = { { 300, 70000 }, { 90000, UINT64_MAX } };

	(void) state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		random_state = seed * 18172645463325257ULL;
		compare(EVENTS, 8, 1900, &tight, seed % 2 ? windows : NULL, seed % 2 ? 2 : 0);
	}
}

/* What comes too late is counted as such, and never makes a device busier than it was. */
static void test_late_work(void **state)
{
	static const struct trace_union_limits tight = { 10, 0, 10 };
	struct trace_union u = { 0 };
	struct trace_union_sums sums;

	(void) state;
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(trace_union_add(&u, true, 1000 + i * 100, 1000 + i * 100 + 10), 0);
		assert_int_equal(trace_union_sums(&u, NULL, 0, UINT64_MAX, &sums), 0);
		assert_int_equal(trace_union_trim(&u, &tight, NULL, 0), 0);
	}
	assert_int_equal(trace_union_add(&u, true, 500, 600), 0);
	assert_int_equal(trace_union_sums(&u, NULL, 0, UINT64_MAX, &sums), 0);
	assert_int_equal(sums.late, 1);
	assert_int_equal(sums.busy_ns, 1000);
	assert_int_equal(sums.gaps, 99);
	trace_union_done(&u);
}

static void test_sums_of_an_earlier_writer(void **state)
{
	const struct trace_union_sums before = {
		.busy_ns = 50, .kernels_ns = 50, .gaps = 1, .longest_ns = 7, .first_ns = 3, .last_ns = 60
	};
	struct trace_union_sums sums;
	struct trace_union u = { 0 };

	(void) state;
	trace_union_continue(&u, &before);
	assert_int_equal(trace_union_add(&u, false, 70, 90), 0);
	assert_int_equal(trace_union_sums(&u, NULL, 0, 90, &sums), 0);
	assert_int_equal(sums.busy_ns, 70);
	assert_int_equal(sums.copies_ns, 20);
	assert_int_equal(sums.gaps, 2);
	assert_int_equal(sums.longest_ns, 10);
	assert_int_equal(sums.longest_at_ns, 60);
	trace_union_done(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_work),
		cmocka_unit_test(test_windows_cut_work_and_gaps),
		cmocka_unit_test(test_forgotten_spans),
		cmocka_unit_test(test_late_work),
		cmocka_unit_test(test_sums_of_an_earlier_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
