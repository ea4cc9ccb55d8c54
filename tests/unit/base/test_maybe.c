/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/maybe.h"

static void is(struct maybe m, bool is_known, int64_t value)
{
	assert_int_equal(m.known, is_known);
	if (is_known)
		assert_int_equal(m.value, value);
}

static void test_unknown_is_not_zero(void **state)
{
	(void) state;
	is(maybe_max(known(-5), UNKNOWN), true, -5);
	is(maybe_max(UNKNOWN, known(-5)), true, -5);
	is(maybe_plus(known(2), known(3)), true, 5);
	is(maybe_plus(known(2), UNKNOWN), true, 2);
	is(maybe_plus(UNKNOWN, known(3)), true, 3);
	is(maybe_plus(UNKNOWN, UNKNOWN), false, 0);
	is(maybe_plus(known(INT64_MAX), known(1)), true, INT64_MAX);
	is(maybe_plus(known(INT64_MIN), known(-1)), true, INT64_MIN);
	is(maybe_max(UNKNOWN, UNKNOWN), false, 0);
	is(maybe_max(known(3), known(4)), true, 4);
	is(maybe_max(known(4), known(3)), true, 4);
	is(maybe_min(known(5), UNKNOWN), true, 5);
	is(maybe_min(UNKNOWN, known(5)), true, 5);
	is(maybe_min(UNKNOWN, UNKNOWN), false, 0);
	is(maybe_min(known(3), known(4)), true, 3);
	is(maybe_min(known(4), known(3)), true, 3);
	is(maybe_sum(known(3), known(4)), true, 7);
	is(maybe_sum(known(3), UNKNOWN), false, 0);
	is(maybe_sum(UNKNOWN, known(3)), false, 0);
}

static void test_a_reset_counter_gives_nothing(void **state)
{
	(void) state;
	assert_int_equal(counter_delta(5, 12), 7);
	assert_int_equal(counter_delta(5, 5), 0);
	assert_int_equal(counter_delta(12, 5), 0);
	assert_int_equal(counter_delta(0, UINT64_MAX), UINT64_MAX);
}

static void test_clocks_go_on(void **state)
{
	uint64_t boot = clock_boot_ns(), cpu = clock_process_cpu_ns();

	(void) state;
	assert_true(boot > 0);
	assert_true(clock_boot_ns() >= boot);
	assert_true(clock_process_cpu_ns() >= cpu);
	assert_true(clock_wall_ns() > 1700000000000000000); /* 2023 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown_is_not_zero),
		cmocka_unit_test(test_a_reset_counter_gives_nothing),
		cmocka_unit_test(test_clocks_go_on),
	};

	return cmocka_run_group_tests_name("maybe", tests, NULL, NULL);
}
