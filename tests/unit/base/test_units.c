/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"

#define S   1000000000LL
#define GIB (1LL << 30)
#define MIB (1LL << 20)

static const struct {
	int64_t bytes;
	enum units units;
	const char *text;
} sizes[] = {
	{ 0, UNITS_IEC, "0 B" },
	{ 0, UNITS_SI, "0 B" },
	{ 0, UNITS_BYTES, "0 bytes" },
	{ 1, UNITS_IEC, "1 B" },
	{ 999, UNITS_IEC, "999 B" },
	{ 1000, UNITS_IEC, "0.977 KiB" },
	{ 1023, UNITS_IEC, "0.999 KiB" },
	{ 1024, UNITS_IEC, "1.00 KiB" },
	{ 10188, UNITS_IEC, "9.95 KiB" },
	{ 10240, UNITS_IEC, "10.0 KiB" },
	{ 999 * MIB, UNITS_IEC, "999 MiB" },
	{ 999 * MIB + MIB / 2 - 1, UNITS_IEC, "999 MiB" },
	{ 999 * MIB + MIB / 2, UNITS_IEC, "0.976 GiB" },
	{ 1000 * MIB, UNITS_IEC, "0.977 GiB" },
	{ 1023 * MIB, UNITS_IEC, "0.999 GiB" },
	{ GIB - 1, UNITS_IEC, "1.00 GiB" },
	{ 24051816858, UNITS_IEC, "22.4 GiB" },
	{ 24054000000, UNITS_SI, "24.1 GB" },
	{ 24054000000, UNITS_BYTES, "24054000000 bytes" },
	{ 99950000, UNITS_SI, "100 MB" },
	{ 99949999, UNITS_SI, "99.9 MB" },
	{ 999499999, UNITS_SI, "999 MB" },
	{ 999500000, UNITS_SI, "1.00 GB" },
	{ -1, UNITS_IEC, "-1 B" },
	{ -5 * GIB, UNITS_IEC, "-5.00 GiB" },
	{ -1500, UNITS_SI, "-1.50 kB" },
	{ -1500, UNITS_BYTES, "-1500 bytes" },
	{ INT64_MAX, UNITS_IEC, "8.00 EiB" },
	{ INT64_MIN, UNITS_IEC, "-8.00 EiB" },
	{ INT64_MIN, UNITS_SI, "-9.22 EB" },
	{ INT64_MIN, UNITS_BYTES, "-9223372036854775808 bytes" },
};

static void test_bytes(void **state)
{
	char buf[UNITS_LEN];

	(void) state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		assert_string_equal(
			units_bytes(sizes[i].bytes, sizes[i].units, buf), sizes[i].text);
}

static const struct {
	int64_t ns;
	const char *text, *words;
} durations[] = {
	{ 0, "0 s", "0 seconds" },
	{ 512, "512 ns", "less than a millisecond" },
	{ 999999, "1 ms", "1 millisecond" },
	{ 12300000, "12.3 ms", "12.3 milliseconds" },
	{ 999499999, "999 ms", "999 milliseconds" },
	{ 999600000, "1 s", "1 second" },
	{ 1570000000, "1.57 s", "1.57 seconds" },
	{ 10 * S, "10 s", "10 seconds" },
	{ 100000000, "100 ms", "100 milliseconds" },
	{ 1002000, "1 ms", "1 millisecond" },
	{ 41200000000, "41.2 s", "41.2 seconds" },
	{ 59940000000, "59.9 s", "59.9 seconds" },
	{ 59950000000, "60 s", "1 minute" },
	{ 60 * S, "60 s", "1 minute" },
	{ 76 * S, "76 s", "1 minute 16 seconds" },
	{ 99940000000, "99.9 s", "1 minute 40 seconds" },
	{ 100 * S, "1 min 40 s", "1 minute 40 seconds" },
	{ 231 * S, "3 min 51 s", "3 minutes 51 seconds" },
	{ 760 * S, "12 min 40 s", "12 minutes 40 seconds" },
	{ 3599 * S + S / 2, "1 h", "1 hour" },
	{ 7170 * S, "2 h", "2 hours" },
	{ 7150 * S, "1 h 59 min", "1 hour 59 minutes" },
	{ 86399 * S, "1 d", "1 day" },
	{ 86399 * S + S / 2, "1 d", "1 day" },
	{ 93784 * S, "1 d 2 h", "1 day 2 hours" },
	{ 3 * 86400 * S, "3 d", "3 days" },
	{ -12300000, "-12.3 ms", "minus 12.3 milliseconds" },
	{ -231 * S, "-3 min 51 s", "minus 3 minutes 51 seconds" },
	{ INT64_MAX, "106752 d", "106752 days" },
	{ INT64_MIN, "-106752 d", "minus 106752 days" },
};

static void test_durations(void **state)
{
	char buf[UNITS_LEN], words[UNITS_LEN * 2];

	(void) state;
	for (size_t i = 0; i < sizeof(durations) / sizeof(*durations); i++) {
		assert_string_equal(units_duration(durations[i].ns, buf), durations[i].text);
		assert_string_equal(units_words(durations[i].ns, words), durations[i].words);
	}
}

static void test_instants_keep_their_seconds(void **state)
{
	static const struct {
		int64_t ns;
		const char *text;
	} instants[] = {
		{ 41200000000, "41.2 s" },
		{ 760 * S, "12 min 40 s" },
		{ 3599 * S + S / 2, "1 h 0 min 0 s" },
		{ 8045 * S, "2 h 14 min 5 s" },
		{ 93784 * S, "1 d 2 h 3 min 4 s" },
		{ INT64_MAX, "106751 d 23 h 47 min 17 s" },
	};
	char buf[UNITS_LEN];

	(void) state;
	for (size_t i = 0; i < sizeof(instants) / sizeof(*instants); i++)
		assert_string_equal(units_instant(instants[i].ns, buf), instants[i].text);
}

static void test_numbers_of_any_size(void **state)
{
	char buf[UNITS_LEN];

	(void) state;
	assert_string_equal(units_number(1602, buf), "1602");
	assert_string_equal(units_number(12.34, buf), "12.3");
	assert_string_equal(units_number(-0.04567, buf), "-0.0457");
	assert_string_equal(units_number(1e19, buf), "1.00e19");
	assert_string_equal(units_number(-1e300, buf), "-1.00e300");
	assert_string_equal(units_fixed(9e18, 2, buf), "9.00e18");
}

static const struct {
	int64_t value;
	const char *cores, *energy, *power;
} amounts[] = {
	{ 0, "0", "0 J", "0 W" },
	{ 4000, "<0.01", "0.0040 J", "0.0040 W" },
	{ 79600, "0.08", "0.0796 J", "0.0796 W" },
	{ 1900000, "1.90", "1.90 J", "1.90 W" },
	{ 2000000, "2", "2.00 J", "2.00 W" },
	{ 12340000, "12.3", "12.3 J", "12.3 W" },
	{ 123400000, "123", "123 J", "123 W" },
	{ 3600000000, "3600", "1.00 Wh", "3600 W" },
};

static void test_amounts(void **state)
{
	char buf[UNITS_LEN];

	(void) state;
	for (size_t i = 0; i < sizeof(amounts) / sizeof(*amounts); i++) {
		assert_string_equal(units_cores(amounts[i].value, buf), amounts[i].cores);
		assert_string_equal(units_energy(amounts[i].value, buf), amounts[i].energy);
		assert_string_equal(units_power(amounts[i].value, buf), amounts[i].power);
	}
}

static void test_side_by_side(void **state)
{
	static const struct {
		int64_t bytes, like;
		const char *text;
	} rows[] = {
		{ INT64_C(64) << 30, INT64_C(24054000000), "64.0" },
		{ INT64_C(512) << 20, INT64_C(24054000000), "0.500" },
		{ INT64_C(900) << 20, INT64_C(101) << 20, "900" },
		{ INT64_C(8) << 30, INT64_C(101) << 20, "8.00 GiB" },
		{ INT64_C(1) << 30, INT64_C(101) << 20, "1.00 GiB" },
		{ INT64_C(4) << 10, INT64_C(64) << 30, "4.00 KiB" },
		{ INT64_C(6871947), INT64_C(1160000000), "6.55 MiB" }, /* 0.0064 GiB */
		{ INT64_C(10737419), INT64_C(1) << 30, "0.0100" },
		{ INT64_C(10737418), INT64_C(1) << 30, "10.2 MiB" },
		{ 0, INT64_C(64) << 30, "0" },
	};
	char buf[UNITS_LEN];

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_string_equal(
			units_bytes_like(rows[i].bytes, rows[i].like, UNITS_IEC, buf), rows[i].text);
}

static void test_percent(void **state)
{
	char buf[UNITS_LEN];

	(void) state;
	assert_string_equal(units_percent(35, 100, buf), "35 %");
	assert_string_equal(units_percent(1, 0, buf), "");
	assert_string_equal(units_percent(0, 0, buf), "");
	assert_string_equal(units_percent(0, 7, buf), "0 %");
	assert_string_equal(units_percent(1, 3, buf), "33 %");
	assert_string_equal(units_percent(2, 3, buf), "67 %");
	assert_string_equal(units_percent(7, 200, buf), "3.5 %");
	assert_string_equal(units_percent(9949, 100000, buf), "9.9 %");
	assert_string_equal(units_percent(9950, 100000, buf), "10 %");
	assert_string_equal(units_percent(1, 100000, buf), "<0.1 %");
	assert_string_equal(units_percent(5, 2, buf), "250 %");
	assert_string_equal(units_percent(-7, 200, buf), "-3.5 %");
	assert_string_equal(units_percent(7, -200, buf), "-3.5 %");
	assert_string_equal(units_percent(INT64_MAX, INT64_MAX, buf), "100 %");
	assert_string_equal(units_percent(INT64_MIN, INT64_MIN, buf), "100 %");
}

static void test_dates(void **state)
{
	/* `date -u -d 2026-11-21T05:35:33Z +%s` gives 1795239333 */
	uint64_t at = 1795239333123999999;
	char buf[UNITS_LEN];

	(void) state;
	assert_string_equal(units_rfc3339(at, buf), "2026-11-21T05:35:33.123Z");
	assert_string_equal(units_rfc3339(0, buf), "1970-01-01T00:00:00.000Z");
	setenv("TZ", "XYZ-5:30", 1); /* POSIX: 5:30 hours east of Greenwich */
	tzset();
	assert_string_equal(units_date(at, buf), "2026-11-21 11:05:33");
	assert_string_equal(units_rfc3339(UINT64_MAX, buf), "2554-07-21T23:34:33.709Z");
}

typedef int parser(const char *text, int64_t *ret, struct err *err);

static const struct {
	parser *parse;
	const char *text;
	int64_t value; /* -1: refused */
} texts[] = {
	{ units_parse_bytes, "24GiB", 24 * GIB },
	{ units_parse_bytes, "8G", 8 * GIB },
	{ units_parse_bytes, "8g", 8 * GIB },
	{ units_parse_bytes, "8Gi", 8 * GIB },
	{ units_parse_bytes, "500MB", 500000000 },
	{ units_parse_bytes, "500 MB", 500000000 },
	{ units_parse_bytes, " 1.5G ", GIB + GIB / 2 },
	{ units_parse_bytes, "0.5kB", 500 },
	{ units_parse_bytes, "1024", 1024 },
	{ units_parse_bytes, "12B", 12 },
	{ units_parse_bytes, "0", 0 },
	{ units_parse_bytes, "1.9", 1 },
	{ units_parse_bytes, "7EiB", 7LL << 60 },
	{ units_parse_bytes, "9223372036854775807", INT64_MAX },
	{ units_parse_bytes, "9223372036854775808", -1 },
	{ units_parse_bytes, "8EiB", -1 },
	{ units_parse_bytes, "", -1 },
	{ units_parse_bytes, "G", -1 },
	{ units_parse_bytes, "-1", -1 },
	{ units_parse_bytes, "1e9", -1 },
	{ units_parse_bytes, "1GiBs", -1 },
	{ units_parse_bytes, "1.G", -1 },
	{ units_parse_bytes, ".5G", -1 },
	{ units_parse_bytes, "nan", -1 },
	{ units_parse_bytes, "0x10", -1 },
	{ units_parse_duration, "100ms", S / 10 },
	{ units_parse_duration, "10m", 600 * S },
	{ units_parse_duration, "10 min", 600 * S },
	{ units_parse_duration, "2h", 7200 * S },
	{ units_parse_duration, "1.5s", S + S / 2 },
	{ units_parse_duration, "90", 90 * S },
	{ units_parse_duration, "0.25", S / 4 },
	{ units_parse_duration, "250us", 250000 },
	{ units_parse_duration, "7ns", 7 },
	{ units_parse_duration, "3d", 3 * 86400 * S },
	{ units_parse_duration, "1h30m", 5400 * S },
	{ units_parse_duration, "2 h 14 min", 8040 * S },
	{ units_parse_duration, "1 d 2 h 3 min 4 s", 93784 * S },
	{ units_parse_duration, "2 h 14", -1 },
	{ units_parse_duration, "1:30:00", 5400 * S },
	{ units_parse_duration, "1:30", 90 * S },
	{ units_parse_duration, "1:30.5", 90 * S + S / 2 },
	{ units_parse_duration, "100:00:00", 360000 * S },
	{ units_parse_duration, "1-02:03:04", 93784 * S },
	{ units_parse_duration, "1-02:03", 93780 * S },
	{ units_parse_duration, "1-02", 93600 * S },
	{ units_parse_duration, "", -1 },
	{ units_parse_duration, "-1", -1 },
	{ units_parse_duration, "s", -1 },
	{ units_parse_duration, "10x", -1 },
	{ units_parse_duration, "1h30", -1 },
	{ units_parse_duration, "1:60", -1 },
	{ units_parse_duration, "1:2:3:4", -1 },
	{ units_parse_duration, "1:", -1 },
	{ units_parse_duration, "1-", -1 },
	{ units_parse_duration, "1-2.5", -1 },
	{ units_parse_duration, "1.5:00", -1 },
	{ units_parse_duration, "9999999999999", -1 },
	{ units_parse_duration, "999999-00:00:00", -1 },
	{ units_parse_duration, "inf", -1 },
};

static void test_signals(void **state)
{
	(void) state;
	assert_string_equal(units_signal(15), "SIGTERM");
	assert_string_equal(units_signal(27), "SIGPROF");
	assert_null(units_signal(40));
	assert_null(units_signal(0));
}

static void test_parsing(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct err err = { "" };
		int64_t value = 77;
		int code = texts[i].parse(texts[i].text, &value, &err);
		bool refused = texts[i].value < 0;

		if (code != (refused ? -EINVAL : 0) || value != (refused ? 77 : texts[i].value))
			fail_msg("'%s': code %d, value %jd", texts[i].text, code, (intmax_t) value);
		/* The text names what was given. */
		assert_int_equal(err.text[0] != '\0', refused);
		if (refused)
			assert_non_null(strstr(err.text, texts[i].text));
	}
	assert_int_equal(units_parse_bytes("x", &(int64_t) { 0 }, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_numbers_of_any_size),
		cmocka_unit_test(test_instants_keep_their_seconds),
		cmocka_unit_test(test_amounts),
		cmocka_unit_test(test_side_by_side),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_dates),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_parsing),
	};

	return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
