/* SPDX-License-Identifier: MIT
 *
 * The parts of the sinks that meet hostile bytes: text on its way to a terminal, a recording's
 * arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "sink/figures.h"
#include "base/textwidth.h"
#include "sink/argv.h"
#include "sink/export/export_internal.h"
#include "sink/sink.h"
#include "sink/text/text.h"

static void test_control_characters_are_replaced(void **state)
{
	static const struct {
		const char *in, *utf8, *ascii;
		unsigned width;
	} rows[] = {
		{ "plain", "plain", "plain", 5 },
		{ "a\tb\nc", "a b c", "a b c", 5 },
		{ "\x1b[31m", "?[31m", "?[31m", 5 },
		{ "\x7f\xc2\x9b"
		  "5n",
			"??5n", "??5n", 4 },
		{ "\xe2\x80\xae"
		  "abc",
			"?abc", "?abc", 4 },
		{ "\xe6\x97\xa5", "\xe6\x97\xa5", "?", 2 },
		{ "e\xcc\x81", "e\xcc\x81", "e?", 1 },
		{ "\xff", "\xef\xbf\xbd", "?", 1 },
		{ "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd", "??", 2 },
		{ "\xe6\x97", "\xef\xbf\xbd\xef\xbf\xbd", "??", 2 },
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "???", 3 },
		{ "\x1f", "?", "?", 1 },
		{ "", "", "", 0 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct buf utf8 = BUF_INIT(100), ascii = BUF_INIT(100);

		assert_int_equal(text_clean(rows[i].in, true, &utf8), 0);
		assert_int_equal(text_clean(rows[i].in, false, &ascii), 0);
		assert_string_equal(utf8.data, rows[i].utf8);
		assert_string_equal(ascii.data, rows[i].ascii);
		assert_int_equal(text_width(utf8.data), rows[i].width);
		buf_done(&utf8);
		buf_done(&ascii);
	}
}

static void test_names_are_shortened_in_the_middle(void **state)
{
	static const struct {
		const char *in;
		unsigned columns;
		bool utf8;
		const char *out;
	} rows[] = {
		{ "abcdefghij", 10, true, "abcdefghij" },
		{ "abcdefghij", 9, true, "abcd\xe2\x80\xa6ghij" },
		{ "abcdefghij", 9, false, "abc...hij" },
		{ "abcdefghij", 4, false, "a..." },
		{ "abcdefghij", 3, false, "abc" },
		{ "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 5, true, "\xe6\x97\xa5\xe2\x80\xa6\xe8\xaa\x9e" },
		{ "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 4, true, "\xe6\x97\xa5\xe2\x80\xa6" },
		{ "abc", 0, true, "" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct buf out = BUF_INIT(100);

		assert_int_equal(text_shorten(rows[i].in, rows[i].columns, rows[i].utf8, &out), 0);
		assert_string_equal(out.data, rows[i].out);
		buf_done(&out);
	}
}

static void test_fields_of_csv(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "plain", "plain" },
		{ "", "" },
		{ "a,b", "\"a,b\"" },
		{ "say \"x\"", "\"say \"\"x\"\"\"" },
		{ "a\nb", "\"a\nb\"" },
		{ "a\rb", "\"a b\"" },
		{ "=A1", "\"'=A1\"" },
		{ " a", "\" a\"" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct buf out = BUF_INIT(100);

		export_csv_text(&out, rows[i].in);
		assert_string_equal(out.data, rows[i].out);
		buf_done(&out);
	}
}

static void join(void *ctx, const char *text)
{
	buf_printf(ctx, "<%s>", text);
}

static void test_argv(void **state)
{
	static const struct {
		const char *json;
		int code;
		const char *out;
	} rows[] = {
		{ "[]", 0, "" },
		{ " [ \"a\" , \"b c\" ] ", 0, "<a><b c>" },
		{ "[\"\"]", 0, "<>" },
		{ "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", 0, "<\"\\/\b\f\n\r\t>" },
		{ "[\"\\u00e9\\u65E5\\ud83d\\ude00\"]", 0, "<\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80>" },
		{ "[\"\\ud83d\\u0041\\u0000\"]", 0, "<\xef\xbf\xbd"
						    "A\xef\xbf\xbd>" },
		{ "", -EBADMSG, "" },
		{ "[", -EBADMSG, "" },
		{ "[\"a", -EBADMSG, "" },
		{ "[\"a\",]", -EBADMSG, "<a>" },
		{ "[\"a\"", -EBADMSG, "<a>" },
		{ "[\"a\"] x", -EBADMSG, "<a>" },
		{ "[1]", -EBADMSG, "" },
		{ "[\"\\x\"]", -EBADMSG, "" },
		{ "[\"\\u12g4\"]", -EBADMSG, "" },
		{ "[\"\n\"]", -EBADMSG, "" },
		{ "[\"\\", -EBADMSG, "" },
		{ "{}", -EBADMSG, "" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct buf out = BUF_INIT(1000);

		if (argv_each(rows[i].json, join, &out) != rows[i].code)
			fail_msg("%s", rows[i].json);
		assert_string_equal(out.data, rows[i].out);
		buf_done(&out);
	}
}

/* The end of a key determines the unit. */
static void test_evidence(void **state)
{
	static const struct {
		struct evidence evidence;
		const char *out;
	} rows[] = {
		{ { .key = "peak_bytes", .value = 1073741824 }, "peak 1.00 GiB" },
		{ { .key = "growth_bytes_per_s", .value = 1048576 }, "growth 1.00 MiB/s" },
		{ { .key = "step_s", .value = 0.25 }, "step 250 ms" },
		{ { .key = "gpu_busy_ratio", .value = 0.95 }, "gpu busy 95 %" },
		{ { .key = "gpus", .value = 8 }, "gpus 8" },
		{ { .key = "bound_by", .text = "copy" }, "bound by copy" },
	};
	const struct sink_options options = { .utf8 = true };
	const struct text text = { .o = &options };

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct buf out = BUF_INIT(1000);

		text_evidence(&text, &rows[i].evidence, &out);
		assert_string_equal(out.data, rows[i].out);
		buf_done(&out);
	}
}

/* What was reached, not what was asked for. */
static void test_a_rate(void **state)
{
	static const struct {
		int64_t interval_ns, samples, skipped;
		const char *text;
	} cases[] = {
		{ 100000000, 1000, 0, "10/s" },
		{ 1000000, 1000, 0, "1000/s" },
		{ 1000000, 1000, 20, "1000/s" },
		{ 1000000, 558, 442, "558/s" },
		{ 1000000000, 50, 50, "every 2 s" },
	};
	char text[UNITS_LEN];

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct facts facts = {
			.interval_ns = known(cases[i].interval_ns),
			.samples = known(cases[i].samples),
			.skipped_samples = known(cases[i].skipped),
		};

		assert_string_equal(figure_rate(&facts, text), cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_control_characters_are_replaced),
		cmocka_unit_test(test_names_are_shortened_in_the_middle),
		cmocka_unit_test(test_fields_of_csv),
		cmocka_unit_test(test_argv),
		cmocka_unit_test(test_evidence),
		cmocka_unit_test(test_a_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
