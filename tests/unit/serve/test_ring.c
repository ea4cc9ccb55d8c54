/* SPDX-License-Identifier: MIT
 *
 * The last minutes of a value: statistics of a span, gaps, the bound of memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "serve/ring.h"

#define SECOND UINT64_C(1000000000)

static void add(struct ring *r, uint64_t at_s, uint64_t hold_s, double value, double max)
{
	ring_add(r, &(const struct point) { at_s * SECOND, (at_s + hold_s) * SECOND, value, max }, 0);
}

static void statistics_are_weighted_by_time(void **state)
{
	struct ring r = { 0 };

	(void) state;
	add(&r, 10, 100, 1, 1);
	add(&r, 19, 100, 5, 7); /* 9 s of 1, then 1 s of 5 */
	const struct spread s = ring_spread(&r, 10 * SECOND, 20 * SECOND);

	assert_true(s.known);
	assert_true(s.min == 1 && s.max == 7 && s.mean > 1.39 && s.mean < 1.41);
	assert_true(s.p95 == 5);
	assert_true(s.covered_s == 10);
	assert_int_equal(s.newest_ns, 19 * SECOND);
	const struct spread early = ring_spread(&r, 10 * SECOND, 19 * SECOND);

	assert_true(early.p95 == 1 && early.max == 1);
	ring_done(&r);
}

static void one_point_in_twenty_is_not_the_p95(void **state)
{
	struct ring r = { 0 };

	(void) state;
	for (uint64_t t = 0; t < 100; t++)
		add(&r, t, 1, t < 4 ? 9 : 2, 9);
	assert_true(ring_spread(&r, 0, 100 * SECOND).p95 == 2);
	assert_true(ring_spread(&r, 0, 100 * SECOND).max == 9);
	ring_done(&r);
}

static void a_gap_is_not_covered(void **state)
{
	struct ring r = { 0 };

	(void) state;
	add(&r, 10, 3, 4, 4);
	add(&r, 30, 3, 8, 8);
	const struct spread s = ring_spread(&r, 0, 100 * SECOND);

	assert_true(s.covered_s == 6 && s.mean == 6);
	assert_false(ring_spread(&r, 40 * SECOND, 100 * SECOND).known);
	assert_false(ring_spread(&r, 14 * SECOND, 29 * SECOND).known);
	ring_done(&r);
}

static void old_points_are_dropped_and_memory_is_bounded(void **state)
{
	struct ring r = { 0 };

	(void) state;
	for (uint64_t t = 1; t < 100000; t++)
		ring_add(&r, &(const struct point) { t * SECOND, (t + 3) * SECOND, (double) t, (double) t },
			t > 600 ? (t - 600) * SECOND : 0);
	assert_true(r.n <= 602 && r.cap <= 1024);
	const struct spread s = ring_spread(&r, 0, 100000 * SECOND);

	assert_true(s.min >= 99398 && s.max == 99999);
	for (uint64_t t = 1; t < 100000; t++) /* none is dropped by its age */
		ring_add(&r, &(const struct point) { (100000 + t) * SECOND, (200000 + t) * SECOND, 1, 1 }, 0);
	assert_true(r.cap <= 8192);
	ring_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statistics_are_weighted_by_time),
		cmocka_unit_test(one_point_in_twenty_is_not_the_p95),
		cmocka_unit_test(a_gap_is_not_covered),
		cmocka_unit_test(old_points_are_dropped_and_memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
