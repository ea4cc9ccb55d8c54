/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"

static void test_an_empty_buffer(void **state)
{
	struct buf b = BUF_INIT(100), zero = { 0 };

	(void) state;
	assert_string_equal(b.data, "");
	buf_clear(&b);
	assert_string_equal(b.data, "");
	assert_int_equal(buf_add(&b, NULL, 0), 0);
	assert_string_equal(b.data, "");
	buf_done(&b);
	assert_string_equal(b.data, "");
	buf_done(&b);
	buf_done(&zero);
	assert_string_equal(zero.data, "");
}

static void test_bytes_and_text(void **state)
{
	struct buf b = BUF_INIT(1000);

	(void) state;
	assert_int_equal(buf_str(&b, "ram "), 0);
	assert_int_equal(buf_printf(&b, "%d %s", 42, "MiB"), 0);
	assert_int_equal(buf_add(&b, "\0x", 2), 0);
	assert_int_equal(b.len, 12);
	assert_memory_equal(b.data, "ram 42 MiB\0x", 13);
	buf_done(&b);
}

static void test_it_grows_and_keeps_its_room(void **state)
{
	struct buf b = BUF_INIT(1 << 20);
	const char *data;

	(void) state;
	for (int i = 0; i < 10000; i++)
		assert_int_equal(buf_printf(&b, "%04d ", i), 0);
	assert_int_equal(b.len, 50000);
	assert_int_equal(strlen(b.data), 50000);
	assert_memory_equal(b.data + 5 * 1234, "1234 1235 ", 10);
	data = b.data;
	buf_clear(&b);
	assert_string_equal(b.data, "");
	assert_int_equal(buf_printf(&b, "%*s", 50000, "x"), 0);
	assert_ptr_equal(b.data, data);
	buf_done(&b);
}

static void test_the_maximum(void **state)
{
	struct buf b = BUF_INIT(10);

	(void) state;
	assert_int_equal(buf_str(&b, "123456789"), 0);
	assert_int_equal(buf_str(&b, "ab"), -EFBIG);
	assert_string_equal(b.data, "123456789");
	assert_int_equal(buf_str(&b, "a"), -EFBIG); /* it would fit, but would leave a hole */
	assert_int_equal(b.error, -EFBIG);
	buf_clear(&b);
	assert_int_equal(b.error, 0);
	assert_int_equal(buf_str(&b, "1234567890"), 0);
	assert_int_equal(buf_str(&b, ""), 0);
	assert_int_equal(buf_printf(&b, "%s", "x"), -EFBIG);
	assert_string_equal(b.data, "1234567890");
	buf_done(&b);

	struct buf printed = BUF_INIT(10);

	assert_int_equal(buf_printf(&printed, "%d", 12345), 0);
	assert_int_equal(buf_printf(&printed, "%d", 678901), -EFBIG);
	assert_string_equal(printed.data, "12345");
	assert_int_equal(printed.len, 5);
	buf_done(&printed);

	struct buf none = BUF_INIT(0);

	assert_int_equal(buf_str(&none, ""), 0);
	assert_int_equal(buf_str(&none, "x"), -EFBIG);
	assert_string_equal(none.data, "");
	buf_done(&none);

	struct buf endless = BUF_INIT(SIZE_MAX);

	assert_int_equal(buf_str(&endless, "fine"), 0);
	assert_int_equal(buf_add(&endless, "x", SIZE_MAX - 2), -EFBIG);
	assert_string_equal(endless.data, "fine");
	buf_done(&endless);
}

static void test_arrays(void **state)
{
	int *numbers = NULL;
	size_t cap = 0, n = 0;

	(void) state;
	for (; n < 1000; n++) {
		assert_int_equal(vec_reserve(&numbers, &cap, n, sizeof(*numbers), 1000), 0);
		assert_true(cap > n && cap <= 1000);
		numbers[n] = (int) n;
	}
	for (size_t i = 0; i < n; i++)
		assert_int_equal(numbers[i], (int) i);
	int *before = numbers;

	assert_int_equal(vec_reserve(&numbers, &cap, n, sizeof(*numbers), 1000), -EFBIG);
	assert_ptr_equal(numbers, before);
	assert_int_equal(cap, 1000);
	cap = 0;
	assert_int_equal(vec_reserve(&numbers, &cap, 0, SIZE_MAX / 4, 1000), -EFBIG);
	assert_int_equal(cap, 0);
	free(numbers);
}

static void test_errors_are_cut_at_their_end(void **state)
{
	struct err err = { "" };

	(void) state;
	assert_int_equal(err_set(NULL, -ENOENT, "%s", "nobody listens"), -ENOENT);
	assert_int_equal(err_set(&err, -EINVAL, "%s: %d", "why", 7), -EINVAL);
	assert_string_equal(err.text, "why: 7");
	assert_int_equal(err_set(&err, -EIO, "%1000s", "x"), -EIO);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_empty_buffer),
		cmocka_unit_test(test_bytes_and_text),
		cmocka_unit_test(test_it_grows_and_keeps_its_room),
		cmocka_unit_test(test_the_maximum),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_errors_are_cut_at_their_end),
	};

	return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
