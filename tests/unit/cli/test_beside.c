/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/columns.h"

static void assert_beside(const char *left, size_t at, const char *right, size_t width, const char *expected)
{
	struct buf out = BUF_INIT(4096);

	add_two_columns(&out, 2, left, at, right, width);
	assert_string_equal(out.data, expected);
	buf_done(&out);
}

static void test_columns(void **state)
{
	(void) state;
	assert_beside("ram", 8, "resident", 40, "  ram   resident\n");
	assert_beside("Gr\xc3\xb6\xc3\x9f"
		      "e",
		10, "resident", 40, "  Gr\xc3\xb6\xc3\x9f"
				    "e   resident\n");
	/* two wide ones */
	assert_beside(
		"\xe8\xae\xb0\xe5\xbf\x86", 8, "resident", 40, "  \xe8\xae\xb0\xe5\xbf\x86  resident\n");
}

static void test_lines_are_full(void **state)
{
	(void) state;
	/* seven columns, not bytes */
	assert_beside("a", 4, "\xc3\xa4\xc3\xa4\xc3\xa4 \xc3\xb6\xc3\xb6\xc3\xb6 b", 11,
		"  a \xc3\xa4\xc3\xa4\xc3\xa4 \xc3\xb6\xc3\xb6\xc3\xb6\n    b\n");
	assert_beside("a", 4, "/abcdefgh i", 8, "  a /abc\n    defg\n    h i\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_lines_are_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
