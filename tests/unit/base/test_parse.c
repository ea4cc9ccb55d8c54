/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "base/parse.h"

/* Every parser is called through a function of this type. */
typedef int reader(const char **p, uint64_t *ret);

static int read_i64(const char **p, uint64_t *ret)
{
	int64_t value = 0;
	int code = parse_i64(p, &value);

	if (code == 0)
		*ret = (uint64_t) value;
	return code;
}

static const struct {
	reader *read;
	const char *text;
	int code;
	uint64_t value;
	size_t moved;
} numbers[] = {
	{ parse_u64, "0", 0, 0, 1 },
	{ parse_u64, "00042 kB", 0, 42, 5 },
	{ parse_u64, "18446744073709551615", 0, UINT64_MAX, 20 },
	{ parse_u64, "18446744073709551616", -ERANGE, 0, 0 },
	{ parse_u64, "99999999999999999999999", -ERANGE, 0, 0 },
	{ parse_u64, "", -EBADMSG, 0, 0 },
	{ parse_u64, "-1", -EBADMSG, 0, 0 },
	{ parse_u64, "+1", -EBADMSG, 0, 0 },
	{ parse_u64, " 1", -EBADMSG, 0, 0 },
	{ parse_u64, "a", -EBADMSG, 0, 0 },
	{ parse_u64, "1a", 0, 1, 1 },
	{ read_i64, "-1", 0, UINT64_MAX, 2 },
	{ read_i64, "7", 0, 7, 1 },
	{ read_i64, "-0", 0, 0, 2 },
	{ read_i64, "-", -EBADMSG, 0, 0 },
	{ read_i64, "--1", -EBADMSG, 0, 0 },
	{ read_i64, "9223372036854775807", 0, INT64_MAX, 19 },
	{ read_i64, "9223372036854775808", -ERANGE, 0, 0 },
	{ read_i64, "-9223372036854775808", 0, (uint64_t) INT64_MIN, 20 },
	{ read_i64, "-9223372036854775809", -ERANGE, 0, 0 },
	{ parse_hex, "ff", 0, 255, 2 },
	{ parse_hex, "DeadBeef-", 0, 0xdeadbeef, 8 },
	{ parse_hex, "0x10", 0, 0, 1 },
	{ parse_hex, "ffffffffffffffff", 0, UINT64_MAX, 16 },
	{ parse_hex, "10000000000000000", -ERANGE, 0, 0 },
	{ parse_hex, "g", -EBADMSG, 0, 0 },
	{ parse_ppm, "12.34", 0, 12340000, 5 },
	{ parse_ppm, "0.00", 0, 0, 4 },
	{ parse_ppm, "3", 0, 3000000, 1 },
	{ parse_ppm, "3. ", 0, 3000000, 1 },
	{ parse_ppm, "0.123456789 ", 0, 123456, 11 },
	{ parse_ppm, "0.999999999999999999999999999", 0, 999999, 29 },
	{ parse_ppm, ".5", -EBADMSG, 0, 0 },
	{ parse_ppm, "18446744073709.551615", 0, UINT64_MAX, 21 },
	{ parse_ppm, "18446744073709.551616", -ERANGE, 0, 0 },
	{ parse_ppm, "18446744073710", -ERANGE, 0, 0 },
};

static void test_numbers(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		const char *p = numbers[i].text;
		uint64_t value = 77;
		int code = numbers[i].read(&p, &value);

		if (code != numbers[i].code || (size_t) (p - numbers[i].text) != numbers[i].moved ||
			value != (code == 0 ? numbers[i].value : 77))
			fail_msg("'%s': code %d, value %ju, moved %td", numbers[i].text, code,
				(uintmax_t) value, p - numbers[i].text);
	}
}

static void test_words_and_lines(void **state)
{
	const char *text = "some avg\n\nfull", *p = text;

	(void) state;
	assert_false(parse_word(&p, "full"));
	assert_ptr_equal(p, text);
	assert_true(parse_word(&p, "some"));
	assert_ptr_equal(p, text + 4);
	assert_true(parse_word(&p, ""));
	parse_blanks(&p);
	assert_ptr_equal(p, text + 5);
	assert_true(parse_line(&p));
	assert_ptr_equal(p, text + 9);
	assert_true(parse_line(&p));
	assert_ptr_equal(p, text + 10);
	assert_false(parse_word(&p, "fuller"));
	assert_false(parse_line(&p));
	assert_ptr_equal(p, text + 14);
	assert_false(parse_line(&p));
	p = " \t\t x";
	parse_blanks(&p);
	assert_string_equal(p, "x");
	p = "last\n";
	assert_false(parse_line(&p));
	assert_int_equal(*p, '\0');
	p = text = "a\n\nb";
	assert_ptr_equal(parse_next_line(&p), text);
	assert_ptr_equal(parse_next_line(&p), text + 2); /* an empty line is a line */
	assert_ptr_equal(parse_next_line(&p), text + 3);
	assert_null(parse_next_line(&p));
	assert_int_equal(*p, '\0');
}

static void test_keys(void **state)
{
	static const char status[] = "Name:\tMemFree:  1 kB\nVmHWM:\t    1234 "
				     "kB\nThreads:\t3\nSigQ:\t1/95\nHuge:\t18014398509481984 kB\n"
				     "Bad:\tx\nVmHWMx:\t9 kB\nMore:\t5 kBytes\nLast:   7 kB";
	uint64_t value = 77;

	(void) state;
	assert_int_equal(parse_key(status, "VmHWM", &value), 0);
	assert_int_equal(value, 1234 * 1024);
	assert_int_equal(parse_key(status, "Threads", &value), 0);
	assert_int_equal(value, 3);
	assert_int_equal(parse_key(status, "SigQ", &value), 0);
	assert_int_equal(value, 1);
	assert_int_equal(parse_key(status, "More", &value), 0);
	assert_int_equal(value, 5);
	assert_int_equal(parse_key(status, "Last", &value), 0);
	assert_int_equal(value, 7 * 1024);
	value = 77;
	assert_int_equal(
		parse_key(status, "MemFree", &value), -ENOENT); /* a name may look like a key */
	assert_int_equal(parse_key(status, "VmHW", &value), -ENOENT);
	assert_int_equal(parse_key(status, "Bad", &value), -EBADMSG);
	assert_int_equal(parse_key(status, "Huge", &value), -ERANGE);
	assert_int_equal(parse_key("", "Last", &value), -ENOENT);
	assert_int_equal(value, 77);
}

static void test_flat(void **state)
{
	static const char stat[] = "anon 1650688\nanon_thp 5\nfile -1\nempty\nlast 9";
	uint64_t value = 77;

	(void) state;
	assert_int_equal(parse_flat(stat, "anon", &value), 0);
	assert_int_equal(value, 1650688);
	assert_int_equal(parse_flat(stat, "anon_thp", &value), 0);
	assert_int_equal(value, 5);
	assert_int_equal(parse_flat(stat, "last", &value), 0);
	assert_int_equal(value, 9);
	value = 77;
	assert_int_equal(parse_flat(stat, "file", &value), -EBADMSG);
	assert_int_equal(parse_flat(stat, "empty", &value), -ENOENT);
	assert_int_equal(parse_flat(stat, "thp", &value), -ENOENT);
	assert_int_equal(value, 77);
}

static void test_list(void **state)
{
	(void) state;
	assert_true(parse_list_has("GPU-1,GPU-22", "GPU-1", 5));
	assert_true(parse_list_has("GPU-1,,GPU-22", "GPU-22", 6));
	assert_true(parse_list_has("GPU-1,GPU-22", "GPU-22,GPU-3", 6));
	assert_false(parse_list_has("GPU-1,GPU-22", "GPU-2", 5));
	assert_false(parse_list_has("GPU-1", "GPU-22", 6));
	assert_false(parse_list_has("GPU-1, GPU-2", "GPU-2", 5));
	assert_false(parse_list_has("GPU-1,,GPU-2", "", 0));
	assert_false(parse_list_has("", "GPU-1", 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_words_and_lines),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_flat),
		cmocka_unit_test(test_list),
	};

	return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
