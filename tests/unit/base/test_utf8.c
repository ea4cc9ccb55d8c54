/* SPDX-License-Identifier: MIT
 *
 * Sequences of The Unicode Standard 15, tables 3-7 and 3-8.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/textwidth.h"

static void test_lengths(void **state)
{
	static const struct {
		const char *text;
		size_t length;
	} cases[] = {
		{ "a", 1 },
		{ "\xc3\xa9", 2 },
		{ "\xe2\x82\xac", 3 },
		{ "\xf0\x9f\x98\x80", 4 },
		{ "\xc0\xaf", 0 },         /* overlong */
		{ "\xe0\x80\xaf", 0 },
		{ "\xed\xa0\x80", 0 },     /* a surrogate */
		{ "\xf4\x90\x80\x80", 0 }, /* beyond the last code point */
		{ "\xe2\x82", 0 },         /* cut off */
		{ "\x80", 0 },
		{ "\xff", 0 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(utf8_length((const unsigned char *) cases[i].text), cases[i].length);
}

static void test_what_is_none(void **state)
{
	struct buf out = BUF_INIT(100);

	(void) state;
	assert_int_equal(utf8_add(&out, "a\xe2\x82z\xc3\xa9"), 0);
	assert_string_equal(out.data, "a\xef\xbf\xbd\xef\xbf\xbdz\xc3\xa9");
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_what_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
