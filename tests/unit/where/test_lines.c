/* SPDX-License-Identifier: MIT
 *
 * The lines between the sampler and the recorder: any text comes back, and no line, however broken, is more than a text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "where/lines.h"

static void assert_round_trip(const char *first, const char *second, uint64_t number)
{
	struct buf line = BUF_INIT(1 << 20);
	char *at, *text;
	uint64_t value;

	assert_int_equal(buf_str(&line, "word"), 0);
	lines_text(&line, first);
	lines_number(&line, number);
	lines_text(&line, second);
	assert_int_equal(line.error, 0);
	assert_null(strchr(line.data, '\n'));
	for (const char *p = line.data; *p; p++)
		assert_true((unsigned char) *p >= 32 || *p == '\t');
	at = line.data;
	assert_true(lines_next_text(&at, &text));
	assert_string_equal(text, "word");
	assert_true(lines_next_text(&at, &text));
	assert_string_equal(text, first);
	assert_true(lines_next_number(&at, &value));
	assert_int_equal(value, number);
	assert_true(lines_next_text(&at, &text));
	assert_string_equal(text, second);
	assert_false(lines_next_text(&at, &text));
	assert_false(lines_next_number(&at, &value));
	buf_done(&line);
}

static void any_text_comes_back(void **state)
{
	static const char *const texts[] = { "", " ", "\t", "\n", "\\", "\\\\", "\\x41", "\\x", "\\x4", "\\xzz", "\\x00", "x\\",
		"\x1b[2J", "a\tb\nc", "/tmp/ä…/\xff\xfe", "\x7f" };
	char all[256];

	(void) state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++)
			assert_round_trip(texts[i], texts[k], i);
	}
	for (int i = 1; i < 256; i++)
		all[i - 1] = (char) i;
	all[255] = '\0';
	assert_round_trip(all, all, UINT64_MAX);
	srand(1);
	for (int k = 0; k < 2000; k++) {
		const int n = rand() % 255;

		for (int i = 0; i < n; i++)
			all[i] = (char) (k % 2 ? "\\x0123456789abcdefxyz\t\n"[rand() % 23] : 1 + rand() % 255);
		all[n] = '\0';
		assert_round_trip(all, all + n / 2, (uint64_t) rand());
	}
}

/* A broken code is a text; one of a NUL does not end it. */
static void broken_codes_stay(void **state)
{
	static const char *const pairs[][2] = { { "\\x", "\\x" }, { "\\x4", "\\x4" }, { "\\x4g", "\\x4g" },
		{ "\\xG4", "\\xG4" }, { "\\x00", "\\x00" }, { "a\\x00b", "a\\x00b" }, { "\\x41", "A" },
		{ "\\x5cx41", "\\x41" }, { "\\xff", "\xff" }, { "\\xFF", "\\xFF" }, { "\\\\x41", "\\A" }, { "\\", "\\" },
		{ "", "" } };

	(void) state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		/* In a block of its own size: a sanitizer detects a byte read past it. */
		char *const line = strdup(pairs[i][0]), *at = line, *text;

		assert_true(lines_next_text(&at, &text));
		assert_string_equal(text, pairs[i][1]);
		assert_false(lines_next_text(&at, &text));
		free(line);
	}
}

static void only_numbers_are_numbers(void **state)
{
	static const char *const not[] = { "", "-1", "+1", " 1", "1 ", "1x", "0x10", "1.0", "18446744073709551616",
		"99999999999999999999999999", "\\x", "ten" };
	static const struct {
		const char *text;
		uint64_t value;
	} good[] = { { "0", 0 }, { "00", 0 }, { "7", 7 }, { "18446744073709551615", UINT64_MAX }, { "\\x31", 1 } };
	uint64_t value;
	char line[64], *at;

	(void) state;
	for (size_t i = 0; i < sizeof(not) / sizeof(*not); i++) {
		at = strcpy(line, not[i]);
		assert_false(lines_next_number(&at, &value));
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		at = strcpy(line, good[i].text);
		assert_true(lines_next_number(&at, &value));
		assert_int_equal(value, good[i].value);
	}
}

static void empty_values_are_values(void **state)
{
	char line[] = "\t\ta\t", *at = line, *text;
	static const char *const values[] = { "", "", "a", "" };

	(void) state;
	for (size_t i = 0; i < 4; i++) {
		assert_true(lines_next_text(&at, &text));
		assert_string_equal(text, values[i]);
	}
	assert_false(lines_next_text(&at, &text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_text_comes_back),
		cmocka_unit_test(broken_codes_stay),
		cmocka_unit_test(only_numbers_are_numbers),
		cmocka_unit_test(empty_values_are_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
