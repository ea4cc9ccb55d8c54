/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static void test_a_document(void **state)
{
	struct buf out = BUF_INIT(10000);
	struct json j;

	(void) state;
	json_init(&j, &out, false);
	json_object(&j);
	json_key(&j, "ram");
	json_object(&j);
	json_key(&j, "peak_bytes");
	json_int(&j, INT64_MIN);
	json_key(&j, "low_bytes");
	json_maybe(&j, UNKNOWN);
	json_key(&j, "high_bytes");
	json_maybe(&j, known(7));
	json_end(&j);
	json_key(&j, "empty");
	json_object(&j);
	json_end(&j);
	json_key(&j, "list");
	json_array(&j);
	json_bool(&j, true);
	json_bool(&j, false);
	json_null(&j);
	json_str(&j, NULL);
	json_array(&j);
	json_end(&j);
	json_num(&j, 0.5);
	json_end(&j);
	json_end(&j);
	assert_int_equal(out.error, 0);
	assert_string_equal(out.data, "{\n"
				      "  \"ram\": {\n"
				      "    \"peak_bytes\": -9223372036854775808,\n"
				      "    \"low_bytes\": null,\n"
				      "    \"high_bytes\": 7\n"
				      "  },\n"
				      "  \"empty\": {},\n"
				      "  \"list\": [\n"
				      "    true,\n"
				      "    false,\n"
				      "    null,\n"
				      "    null,\n"
				      "    [],\n"
				      "    0.5\n"
				      "  ]\n"
				      "}");
	buf_done(&out);
}

static void test_a_compact_document(void **state)
{
	struct buf out = BUF_INIT(10000);
	struct json j;

	(void) state;
	json_init(&j, &out, true);
	json_array(&j);
	json_object(&j);
	json_key(&j, "a");
	json_int(&j, 1);
	json_key(&j, "b");
	json_array(&j);
	json_int(&j, 2);
	json_int(&j, 3);
	json_end(&j);
	json_end(&j);
	json_end(&j);
	assert_int_equal(out.error, 0);
	assert_string_equal(out.data, "[{\"a\":1,\"b\":[2,3]}]");
	buf_done(&out);
}

/* Each has one wrong step, which sets -EINVAL. */
static void key_outside(struct json *j)
{
	json_key(j, "k");
}
static void key_in_array(struct json *j)
{
	json_array(j);
	json_key(j, "k");
}
static void value_without_key(struct json *j)
{
	json_object(j);
	json_int(j, 1);
}
static void nest_without_key(struct json *j)
{
	json_object(j);
	json_array(j);
}
static void key_after_key(struct json *j)
{
	json_object(j);
	json_key(j, "k");
	json_key(j, "k");
}
static void end_after_key(struct json *j)
{
	json_object(j);
	json_key(j, "k");
	json_end(j);
}
static void end_of_nothing(struct json *j)
{
	json_end(j);
}
static void end_twice(struct json *j)
{
	json_array(j);
	json_end(j);
	json_end(j);
}
static void second_document(struct json *j)
{
	json_int(j, 1);
	json_int(j, 2);
}
static void key_of_null(struct json *j)
{
	json_object(j);
	json_key(j, NULL);
}
static void too_deep(struct json *j)
{
	for (int i = 0; i <= JSON_DEPTH; i++)
		json_array(j);
}

static void test_wrong_nesting(void **state)
{
	static void (*const wrong[])(struct json *j) = {
		key_outside,
		key_in_array,
		value_without_key,
		nest_without_key,
		key_after_key,
		end_after_key,
		end_of_nothing,
		end_twice,
		second_document,
		key_of_null,
		too_deep,
	};

	(void) state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct buf out = BUF_INIT(10000);
		struct json j;

		json_init(&j, &out, false);
		wrong[i](&j);
		if (out.error != -EINVAL)
			fail_msg("mistake %zu was not seen", i);
		json_end(&j); /* later calls do no harm */
		json_key(&j, "k");
		json_int(&j, 1);
		buf_done(&out);
	}
}

static void test_the_deepest(void **state)
{
	struct buf out = BUF_INIT(10000);
	struct json j;

	(void) state;
	json_init(&j, &out, true);
	for (int i = 0; i < JSON_DEPTH; i++)
		json_array(&j);
	json_int(&j, 1);
	for (int i = 0; i < JSON_DEPTH; i++)
		json_end(&j);
	assert_int_equal(out.error, 0);
	assert_int_equal(out.len, 2 * JSON_DEPTH + 1);
	buf_done(&out);
}

static void test_strings(void **state)
{
	static const char *const pairs[][2] = {
		{ "plain", "\"plain\"" },
		{ "", "\"\"" },
		{ "a\"b\\c/", "\"a\\\"b\\\\c/\"" },
		{ "\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\"" },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8a",
			"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8a\"" },
		{ "a\xff"
		  "b",
			"\"a\xef\xbf\xbd"
			"b\"" },
		{ "\xc3", "\"\xef\xbf\xbd\"" }, /* cut off */
		{ "\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xf0\x9f\x8c", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"" }, /* overlong form */
		{ "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" }, /* a surrogate */
		{ "\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
				      "\"" }, /* beyond U+10FFFF */
		{ "\xe2\x82x", "\"\xef\xbf\xbd\xef\xbf\xbdx\"" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		struct buf out = BUF_INIT(10000);
		struct json j;

		json_init(&j, &out, true);
		json_str(&j, pairs[i][0]);
		assert_string_equal(out.data, pairs[i][1]);
		buf_done(&out);
	}
}

/* The text is valid JSON and as short as another implementation's (Python's repr). */
static void test_numbers(void **state)
{
	static const struct {
		double value;
		const char *text;
	} numbers[] = {
		{ 0.0, "0" },
		{ -0.0, "-0" },
		{ 1.0, "1" },
		{ 0.1, "0.1" },
		{ 0.1 + 0.2, "0.30000000000000004" },
		{ 1.0 / 3, "0.3333333333333333" },
		{ 2.507, "2.507" },
		{ -123456789.125, "-123456789.125" },
		{ 1e22, "1e+22" },
		{ 1e-7, "1e-07" },
		{ 5e-324, "5e-324" },
		{ DBL_MAX, "1.7976931348623157e+308" },
		{ DBL_MIN, "2.2250738585072014e-308" },
		{ 9007199254740993.0, "9007199254740992" },
		{ 2e-310, "2e-310" },
		{ (double) NAN, "\"NaN\"" },
		{ (double) INFINITY, "\"Infinity\"" },
		{ -(double) INFINITY, "\"-Infinity\"" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		struct buf out = BUF_INIT(100);
		struct json j;

		json_init(&j, &out, true);
		json_num(&j, numbers[i].value);
		assert_string_equal(out.data, numbers[i].text);
		buf_done(&out);
	}
}

static void test_any_number_reads_back(void **state)
{
	struct buf out = BUF_INIT(100);
	uint64_t bits = 88172645463325252ULL;

	(void) state;
	for (int i = 0; i < 20000; i++) {
		struct json j;
		double value, back;

		bits ^= bits << 13;
		bits ^= bits >> 7;
		bits ^= bits << 17;
		memcpy(&value, &bits, sizeof(value));
		if (!isfinite(value))
			continue;
		buf_clear(&out);
		json_init(&j, &out, true);
		json_num(&j, value);
		assert_true(strspn(out.data, "+-0123456789.e") == out.len);
		back = strtod(out.data, NULL);
		assert_memory_equal(&back, &value, sizeof(value));
	}
	buf_done(&out);
}

static void test_no_locale(void **state)
{
	static const char *const with_comma[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
		"de_DE", "ps_AF.UTF-8" };
	struct buf out = BUF_INIT(100);
	struct json j;
	size_t i = 0;

	(void) state;
	while (i < 5 && !setlocale(LC_NUMERIC, with_comma[i]))
		i++;
	if (i == 5) {
		print_message("# no locale here writes a decimal comma\n");
		skip();
	}
	json_init(&j, &out, true);
	json_num(&j, 1234.5);
	assert_string_equal(out.data, "1234.5");
	setlocale(LC_NUMERIC, "C");
	buf_done(&out);
}

static void test_seconds(void **state)
{
	static const struct {
		struct maybe ns;
		const char *text;
	} times[] = {
		{ { 0, true }, "0" },
		{ { 0, false }, "null" },
		{ { 1, true }, "0.000000001" },
		{ { 12300000000, true }, "12.3" },
		{ { 100000000000, true }, "100" },
		{ { -1500000000, true }, "-1.5" },
		{ { -1, true }, "-0.000000001" },
		{ { INT64_MAX, true }, "9223372036.854775807" },
		{ { INT64_MIN, true }, "-9223372036.854775808" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		struct buf out = BUF_INIT(100);
		struct json j;

		json_init(&j, &out, true);
		json_seconds(&j, times[i].ns);
		assert_string_equal(out.data, times[i].text);
		buf_done(&out);
	}
}

static void test_a_full_buffer(void **state)
{
	struct buf out = BUF_INIT(20);
	struct json j;

	(void) state;
	json_init(&j, &out, true);
	json_array(&j);
	for (int i = 0; i < 100; i++)
		json_int(&j, i);
	json_end(&j);
	assert_int_equal(out.error, -EFBIG);
	assert_true(out.len <= 20);
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_document),
		cmocka_unit_test(test_a_compact_document),
		cmocka_unit_test(test_wrong_nesting),
		cmocka_unit_test(test_the_deepest),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_any_number_reads_back),
		cmocka_unit_test(test_no_locale),
		cmocka_unit_test(test_seconds),
		cmocka_unit_test(test_a_full_buffer),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
