/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>

#include "base/map.h"

static void test_an_empty_table(void **state)
{
	struct map m = { 0 };
	uint32_t value = 77;

	(void) state;
	assert_false(map_get(&m, 0, &value));
	assert_int_equal(value, 77);
	map_remove(&m, 0);
	map_done(&m);
	map_done(&m);
}

static void test_any_key_and_value(void **state)
{
	static const uint64_t keys[] = { 0, 1, UINT64_MAX, 1ULL << 32, 1ULL << 63 };
	struct map m = { 0 };
	uint32_t value;

	(void) state;
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(map_put(&m, keys[i], UINT32_MAX - i), 0);
	for (uint32_t i = 0; i < 5; i++) {
		assert_true(map_get(&m, keys[i], &value));
		assert_int_equal(value, UINT32_MAX - i);
	}
	assert_int_equal(map_put(&m, 0, 0), 0);
	assert_true(map_get(&m, 0, &value));
	assert_int_equal(value, 0);
	assert_int_equal(m.used, 5);
	map_done(&m);
	assert_int_equal(m.used, 0);
}

/* Any sequence of puts and removals, compared with an array that is indexed by the key. */
static void test_like_an_array(void **state)
{
	enum {
		KEYS = 3000,
		STEPS = 300000
	};
	static struct {
		uint32_t value;
		bool full;
	} model[KEYS];
	struct map m = { 0 };
	uint64_t random = 88172645463325252ULL;
	size_t used = 0;

	(void) state;
	for (uint32_t step = 0; step < STEPS; step++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		uint32_t key = (uint32_t) (random % KEYS), value = 77;
		bool found = map_get(&m, key, &value);

		assert_int_equal(found, model[key].full);
		assert_int_equal(value, found ? model[key].value : 77);
		/* Phases of growth and of shrinking alternate. */
		if ((random >> 32) % 8 < (step / 30000 % 2 ? 2 : 6)) {
			assert_int_equal(map_put(&m, key, step), 0);
			used += !model[key].full;
			model[key].full = true;
			model[key].value = step;
		} else {
			map_remove(&m, key);
			used -= model[key].full;
			model[key].full = false;
		}
		assert_int_equal(m.used, used);
	}
	for (uint32_t key = 0; key < KEYS; key++) {
		uint32_t value = 0;

		assert_int_equal(map_get(&m, key, &value), model[key].full);
		if (model[key].full)
			assert_int_equal(value, model[key].value);
	}
	map_done(&m);
}

/* A job that starts and ends a process per sample must not make the table grow or be rebuilt. */
static void test_churn_allocates_nothing(void **state)
{
	struct map m = { 0 };
	const struct map_cell *cells;

	(void) state;
	for (uint32_t pid = 0; pid < 100; pid++)
		assert_int_equal(map_put(&m, pid, pid), 0);
	cells = m.cells;
	for (uint32_t pid = 100; pid < 100000; pid++) {
		map_remove(&m, pid - 100);
		assert_int_equal(map_put(&m, pid, pid), 0);
		assert_ptr_equal(m.cells, cells);
	}
	assert_int_equal(m.used, 100);
	map_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_empty_table),
		cmocka_unit_test(test_any_key_and_value),
		cmocka_unit_test(test_like_an_array),
		cmocka_unit_test(test_churn_allocates_nothing),
	};

	return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
