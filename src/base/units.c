/* SPDX-License-Identifier: MIT */
#include "base/units.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/parse.h"

#define NS_PER_S 1000000000ULL

enum {
	SECONDS_MOST = 100, /* from here on a time is in minutes, hours or days */
	MINUTE = 60,
	HOUR = 3600,
	DAY = 86400
};

/* A named multiple of the base unit. */
struct scale {
	const char *name;
	uint64_t size;
};

static const struct scale iec[] = {
	{ "B", 1 },
	{ "KiB", 1ULL << 10 },
	{ "MiB", 1ULL << 20 },
	{ "GiB", 1ULL << 30 },
	{ "TiB", 1ULL << 40 },
	{ "PiB", 1ULL << 50 },
	{ "EiB", 1ULL << 60 },
	{ NULL, 0 },
};

static const struct scale si[] = {
	{ "B", 1 },
	{ "kB", 1000 },
	{ "MB", 1000000 },
	{ "GB", 1000000000 },
	{ "TB", 1000000000000 },
	{ "PB", 1000000000000000 },
	{ "EB", 1000000000000000000 },
	{ NULL, 0 },
};

static const struct scale seconds[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "ms", 1000000 },
	{ "s", NS_PER_S },
	{ NULL, 0 },
};

static uint64_t magnitude(int64_t value)
{
	return value < 0 ? 0 - (uint64_t) value : (uint64_t) value;
}

/* value / size in units of 1/times, rounded to the nearest, halves up. */
static uint64_t rounded(uint64_t value, uint64_t size, unsigned times)
{
	return (uint64_t) (((unsigned __int128) value * times * 2 + size) /
			   ((unsigned __int128) size * 2));
}

/* Three significant digits in the first unit in which they round to less than 1000. Whole base
 * units have no point. */
static char *scaled(int64_t value, const struct scale *scales, char *buf, size_t room)
{
	static const unsigned powers[] = { 1, 10, 100, 1000 };
	uint64_t size = magnitude(value);
	const char *sign = value < 0 ? "-" : "";
	const struct scale *scale = scales;

	while (scale[1].name && rounded(size, scale->size, 1) >= 1000)
		scale++;
	int digits = scale == scales ? 0 : 3;

	while (digits > 0 && rounded(size, scale->size, powers[digits]) >= 1000)
		digits--;
	uint64_t number = rounded(size, scale->size, powers[digits]);

	if (digits == 0)
		(void) snprintf(buf, room, "%s%" PRIu64 " %s", sign, number, scale->name);
	else
		(void) snprintf(buf, room, "%s%" PRIu64 ".%0*" PRIu64 " %s", sign,
			number / powers[digits], digits, number % powers[digits], scale->name);
	return buf;
}

char *units_bytes(int64_t bytes, enum units units, char buf[UNITS_LEN])
{
	if (units == UNITS_BYTES)
		(void) snprintf(buf, UNITS_LEN, "%" PRId64 " bytes", bytes);
	else
		scaled(bytes, units == UNITS_SI ? si : iec, buf, UNITS_LEN);
	return buf;
}

char *units_bytes_like(int64_t bytes, int64_t like, enum units units, char buf[UNITS_LEN])
{
	static const unsigned powers[] = { 1, 10, 100, 1000, 10000 };
	const struct scale *scale = units == UNITS_SI ? si : iec;
	uint64_t size = magnitude(bytes);

	while (scale[1].name && rounded(magnitude(like), scale->size, 1) >= 1000)
		scale++;
	bool fits = bytes == 0 ||
		    (size >= (scale->size + 99) / 100 && rounded(size, scale->size, 1) < 1000);

	if (units == UNITS_BYTES) {
		(void) snprintf(buf, UNITS_LEN, "%" PRId64, bytes);
		return buf;
	}
	if (!fits)
		return units_bytes(bytes, units, buf);
	int digits = scale->size == 1 || bytes == 0 ? 0 : 4;

	while (digits > 0 && rounded(size, scale->size, powers[digits]) >= 1000)
		digits--;
	uint64_t number = rounded(size, scale->size, powers[digits]);

	const char *sign = bytes < 0 ? "-" : "";

	if (digits == 0)
		(void) snprintf(buf, UNITS_LEN, "%s%" PRIu64, sign, number);
	else
		(void) snprintf(buf, UNITS_LEN, "%s%" PRIu64 ".%0*" PRIu64, sign,
			number / powers[digits], digits, number % powers[digits]);
	return buf;
}

/* "12.0 ms" becomes "12 ms": zeros behind the point say nothing of a time. */
static char *without_zeros(char *text)
{
	char *unit = text + strcspn(text, " "), *end = unit;

	if (!memchr(text, '.', (size_t) (unit - text)))
		return text;
	while (end[-1] == '0')
		end--;
	if (end[-1] == '.')
		end--;
	memmove(end, unit, strlen(unit) + 1);
	return text;
}

/* The units of times from a minute on, largest first. */
static const struct span {
	const char *word, *name;
	uint64_t size; /* seconds */
} spans[] = {
	{ "day", "d", DAY },
	{ "hour", "h", HOUR },
	{ "minute", "min", MINUTE },
	{ "second", "s", 1 },
	{ NULL, NULL, 1 },
};

/* A time in the largest unit that it fills and the next smaller one: "2 h" and "14 min". */
struct two_units {
	const struct span *unit; /* of larger; smaller counts unit[1] */
	uint64_t larger, smaller;
};

/* The smaller unit takes the rounding, which may carry into the larger one. */
static struct two_units split_time(uint64_t s)
{
	const struct span *unit = spans;

	while (unit[1].word && s < unit->size)
		unit++;
	if (unit[1].word)
		s = (s + unit[1].size / 2) / unit[1].size * unit[1].size;
	if (unit > spans && s == unit[-1].size)
		unit--;
	return (struct two_units) { unit, s / unit->size, s % unit->size / unit[1].size };
}

char *units_duration(int64_t ns, char buf[UNITS_LEN])
{
	const char *sign = ns < 0 ? "-" : "";

	if (ns == 0)
		return scaled(0, &seconds[3], buf, UNITS_LEN);
	if (rounded(magnitude(ns), NS_PER_S, 10) < SECONDS_MOST * 10)
		return without_zeros(scaled(ns, seconds, buf, UNITS_LEN));

	const struct two_units t = split_time(rounded(magnitude(ns), NS_PER_S, 1));

	if (t.smaller > 0)
		(void) snprintf(buf, UNITS_LEN, "%s%" PRIu64 " %s %" PRIu64 " %s", sign, t.larger,
			t.unit->name, t.smaller, t.unit[1].name);
	else
		(void) snprintf(buf, UNITS_LEN, "%s%" PRIu64 " %s", sign, t.larger, t.unit->name);
	return buf;
}

char *units_instant(int64_t ns, char buf[UNITS_LEN])
{
	const uint64_t s = rounded(magnitude(ns), NS_PER_S, 1);
	const char *sign = ns < 0 ? "-" : "";
	char days[UNITS_LEN / 2] = "";

	if (s < HOUR)
		return units_duration(ns, buf);
	if (s >= DAY)
		(void) snprintf(days, sizeof(days), "%" PRIu64 " d ", s / DAY);
	(void) snprintf(buf, UNITS_LEN, "%s%s%u h %u min %u s", sign, days, (unsigned) (s % DAY / HOUR),
		(unsigned) (s % HOUR / MINUTE), (unsigned) (s % MINUTE));
	return buf;
}

/* "3 minutes", "1 minute" */
static void counted(uint64_t n, const char *unit, char *buf, size_t room)
{
	(void) snprintf(buf, room, "%" PRIu64 " %s%s", n, unit, n == 1 ? "" : "s");
}

/* "1.57 seconds": the three digits of units_duration(), without trailing zeros. */
static char *spoken(uint64_t ns, const char *sign, char buf[UNITS_LEN * 2])
{
	static const struct scale units[] = { { "", 1 }, { "millisecond", 1000000 }, { "second", NS_PER_S },
		{ NULL, 0 } };
	char text[UNITS_LEN];
	const bool is_one = strncmp(without_zeros(scaled((int64_t) ns, units, text, sizeof(text))), "1 ",
				    2) == 0;

	if (ns < 999500)
		(void) snprintf(buf, (size_t) UNITS_LEN * 2, "%sless than a millisecond", sign);
	else
		(void) snprintf(buf, (size_t) UNITS_LEN * 2, "%s%s%s", sign, text, is_one ? "" : "s");
	return buf;
}

char *units_words(int64_t ns, char buf[UNITS_LEN * 2])
{
	enum {
		ROOM = UNITS_LEN * 2
	};
	const uint64_t size = magnitude(ns);
	const char *sign = ns < 0 ? "minus " : "";
	char larger[UNITS_LEN - 6], smaller[UNITS_LEN - 6] = "";

	if (size != 0 && rounded(size, NS_PER_S, 10) < MINUTE * 10)
		return spoken(size, sign, buf);

	const struct two_units t = split_time(rounded(size, NS_PER_S, 1));

	counted(t.larger, t.unit->word, larger, sizeof(larger));
	if (t.smaller > 0)
		counted(t.smaller, t.unit[1].word, smaller, sizeof(smaller));
	(void) snprintf(buf, ROOM, "%s%s%s%s", sign, larger, t.smaller > 0 ? " " : "", smaller);
	return buf;
}

char *units_percent(int64_t part, int64_t whole, char buf[UNITS_LEN])
{
	uint64_t of = magnitude(whole);
	const char *sign = part != 0 && (part < 0) != (whole < 0) ? "-" : "";
	unsigned __int128 tenths;

	buf[0] = '\0';
	if (of == 0)
		return buf;
	tenths = ((unsigned __int128) magnitude(part) * 2000 + of) / ((unsigned __int128) of * 2);
	if (part == 0)
		(void) snprintf(buf, UNITS_LEN, "0 %%");
	else if (tenths == 0)
		(void) snprintf(buf, UNITS_LEN, "%s<0.1 %%", sign);
	else if (tenths < 100)
		(void) snprintf(buf, UNITS_LEN, "%s%u.%u %%", sign, (unsigned) tenths / 10,
			(unsigned) tenths % 10);
	else if (tenths / 10 > UINT64_MAX / 2)
		(void) snprintf(buf, UNITS_LEN, "%s>1e18 %%", sign);
	else
		(void) snprintf(
			buf, UNITS_LEN, "%s%" PRIu64 " %%", sign, (uint64_t) ((tenths + 5) / 10));
	return buf;
}

char *units_fixed(double value, unsigned decimals, char buf[UNITS_LEN])
{
	static const int64_t powers[] = { 1, 10, 100, 1000, 10000 };
	const double size = fabs(value) * (double) powers[decimals];

	if (!(size < (double) INT64_MAX))
		return units_any(value, buf);
	int64_t n = llround(size);
	const char *sign = value < 0 && n > 0 ? "-" : "";

	if (decimals == 0)
		(void) snprintf(buf, UNITS_LEN, "%s%" PRId64, sign, n);
	else
		(void) snprintf(buf, UNITS_LEN, "%s%" PRId64 ".%0*" PRId64, sign, n / powers[decimals],
			(int) decimals, n % powers[decimals]);
	return buf;
}

char *units_number(double value, char buf[UNITS_LEN])
{
	double size = fabs(value);

	if (size >= 99.95 || size == 0)
		return units_fixed(value, 0, buf);
	if (size >= 9.995)
		return units_fixed(value, 1, buf);
	if (size >= 0.9995)
		return units_fixed(value, 2, buf);
	return units_fixed(value, size >= 0.09995 ? 3 : 4, buf);
}

char *units_any(double value, char buf[UNITS_LEN])
{
	int exponent = 0;
	char mantissa[UNITS_LEN];

	if (!isfinite(value)) {
		(void) snprintf(buf, UNITS_LEN, "%s", isnan(value) ? "NaN" : value < 0 ? "-Infinity"
										       : "Infinity");
		return buf;
	}
	if (fabs(value) < 1e6 && value == round(value))
		return units_fixed(value, 0, buf);
	if (fabs(value) >= 0.001 && fabs(value) < 1e6)
		return units_number(value, buf);
	exponent = (int) floor(log10(fabs(value)));
	/* In two steps: 10^-308 times a denormal number would be infinite. */
	(void) units_fixed(value / pow(10, exponent / 2) / pow(10, exponent - exponent / 2), 2, mantissa);
	(void) snprintf(buf, UNITS_LEN, "%.20se%d", mantissa, exponent);
	return buf;
}

/* CPU time is counted in steps of 10 ms: a hundredth of a core is all that it supports. */
char *units_cores(int64_t ppm, char buf[UNITS_LEN])
{
	const double cores = (double) ppm / 1e6;

	if (ppm % 1000000 == 0)
		return units_fixed(cores, 0, buf);
	if (fabs(cores) < 0.01) {
		(void) snprintf(buf, UNITS_LEN, "%s<0.01", ppm < 0 ? "-" : "");
		return buf;
	}
	return units_fixed(cores, fabs(cores) < 9.995 ? 2 : fabs(cores) < 99.95 ? 1
										: 0,
		buf);
}

char *units_energy(int64_t uj, char buf[UNITS_LEN])
{
	static const double uj_a_wh = 3.6e9;
	const bool is_long = fabs((double) uj) >= uj_a_wh;
	char number[UNITS_LEN];

	(void) snprintf(buf, UNITS_LEN, "%.20s %s",
		units_number((double) uj / (is_long ? uj_a_wh : 1e6), number), is_long ? "Wh" : "J");
	return buf;
}

char *units_power(int64_t uw, char buf[UNITS_LEN])
{
	char number[UNITS_LEN];

	(void) snprintf(buf, UNITS_LEN, "%.20s W", units_number((double) uw / 1e6, number));
	return buf;
}

char *units_date(uint64_t wall_ns, char buf[UNITS_LEN])
{
	time_t s = (time_t) (wall_ns / NS_PER_S);
	struct tm tm;

	buf[0] = '\0';
	if (localtime_r(&s, &tm))
		(void) strftime(buf, UNITS_LEN, "%Y-%m-%d %H:%M:%S", &tm);
	return buf;
}

char *units_decimal(int64_t value, unsigned digits, char buf[UNITS_LEN])
{
	const uint64_t size = value < 0 ? 0 - (uint64_t) value : (uint64_t) value;
	uint64_t scale = 1;

	for (unsigned i = 0; i < digits; i++)
		scale *= 10;
	int len = snprintf(buf, UNITS_LEN, "%s%" PRIu64 ".%0*" PRIu64, value < 0 ? "-" : "", size / scale,
		(int) digits, size % scale);

	while (buf[len - 1] == '0')
		len--;
	if (buf[len - 1] == '.')
		len--;
	buf[len] = '\0';
	return buf;
}

/* Whatever the locale calls its decimal point (which may be several bytes) becomes a point. */
static void make_locale_free(char *text)
{
	static const char kept[] = "+-0123456789e";
	char *point = text + strspn(text, kept);
	size_t len = strcspn(point, kept);

	if (len == 0)
		return;
	*point = '.';
	memmove(point + 1, point + len, strlen(point + len) + 1);
}

/* 15 digits name a double if so many can; below DBL_MIN fewer may do. (A few powers of two get one
 * digit too many.) */
char *units_double(double value, char buf[UNITS_LEN])
{
	for (int digits = fabs(value) < DBL_MIN ? 1 : DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
		(void) snprintf(buf, UNITS_LEN, "%.*g", digits, value);
		const double back = strtod(buf, NULL);

		if (memcmp(&back, &value, sizeof(back)) == 0)
			break;
	}
	make_locale_free(buf);
	return buf;
}

char *units_rfc3339(uint64_t wall_ns, char buf[UNITS_LEN])
{
	time_t s = (time_t) (wall_ns / NS_PER_S);
	unsigned ms = (unsigned) (wall_ns % NS_PER_S / 1000000);
	struct tm tm;

	buf[0] = '\0';
	if (gmtime_r(&s, &tm)) {
		size_t len = strftime(buf, UNITS_LEN, "%Y-%m-%dT%H:%M:%S", &tm);

		(void) snprintf(buf + len, UNITS_LEN - len, ".%03uZ", ms);
	}
	return buf;
}

/* What a number may be followed by. The longest comes first where one begins with another. */
static const struct scale byte_suffixes[] = {
	{ "kib", 1ULL << 10 },
	{ "mib", 1ULL << 20 },
	{ "gib", 1ULL << 30 },
	{ "tib", 1ULL << 40 },
	{ "pib", 1ULL << 50 },
	{ "eib", 1ULL << 60 },
	{ "ki", 1ULL << 10 },
	{ "mi", 1ULL << 20 },
	{ "gi", 1ULL << 30 },
	{ "ti", 1ULL << 40 },
	{ "pi", 1ULL << 50 },
	{ "ei", 1ULL << 60 },
	{ "kb", 1000 },
	{ "mb", 1000000 },
	{ "gb", 1000000000 },
	{ "tb", 1000000000000 },
	{ "pb", 1000000000000000 },
	{ "eb", 1000000000000000000 },
	{ "k", 1ULL << 10 },
	{ "m", 1ULL << 20 },
	{ "g", 1ULL << 30 },
	{ "t", 1ULL << 40 },
	{ "p", 1ULL << 50 },
	{ "e", 1ULL << 60 },
	{ "b", 1 },
	{ NULL, 0 },
};

static const struct scale time_suffixes[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "ms", 1000000 },
	{ "sec", NS_PER_S },
	{ "s", NS_PER_S },
	{ "min", MINUTE * NS_PER_S },
	{ "m", MINUTE * NS_PER_S },
	{ "h", HOUR * NS_PER_S },
	{ "d", DAY * NS_PER_S },
	{ NULL, 0 },
};

/* Reads "1.5" as 1 and 500000000 (billionths; further digits are cut). */
static int parse_decimal(const char **p, uint64_t *whole, uint64_t *billionths)
{
	int code = parse_u64(p, whole);
	uint64_t weight = NS_PER_S;

	if (code < 0)
		return code;
	*billionths = 0;
	if (**p != '.' || (*p)[1] < '0' || (*p)[1] > '9')
		return 0;
	for ((*p)++; **p >= '0' && **p <= '9'; (*p)++) {
		weight /= 10;
		*billionths += weight * (uint64_t) (**p - '0');
	}
	return 0;
}

/* Moves over a suffix of the table, whatever its case; NULL if none stands there. */
static const struct scale *parse_suffix(const char **p, const struct scale *suffixes)
{
	for (; suffixes->name; suffixes++) {
		size_t len = strlen(suffixes->name);

		if (strncasecmp(*p, suffixes->name, len) == 0) {
			*p += len;
			return suffixes;
		}
	}
	return NULL;
}

/* Reads a number with a suffix (size bare where there is none, 0: one must follow) and adds it to
 * *sum. */
static int add_quantity(const char **p, const struct scale *suffixes, uint64_t bare, int64_t *sum)
{
	uint64_t whole, billionths;
	int code = parse_decimal(p, &whole, &billionths);
	int64_t amount;

	if (code < 0)
		return code;
	parse_blanks(p);
	const struct scale *scale = parse_suffix(p, suffixes);
	uint64_t size = scale ? scale->size : bare;

	if (size == 0)
		return -EBADMSG;
	/* A fraction of a unit that has no smaller one is cut. */
	unsigned __int128 part = (unsigned __int128) billionths * size / NS_PER_S;

	if (__builtin_mul_overflow(whole, size, &amount) ||
		__builtin_add_overflow(amount, (int64_t) part, &amount) ||
		__builtin_add_overflow(*sum, amount, sum))
		return -ERANGE;
	return 0;
}

static int bad_text(
	struct err *err, int code, const char *text, const char *what, const char *examples)
{
	if (code == -ERANGE)
		return err_set(err, -EINVAL, "'%.80s' is too large for a %s", text, what);
	return err_set(err, -EINVAL, "'%.80s' is not a %s; write it as %s", text, what, examples);
}

int units_parse_bytes(const char *text, int64_t *ret, struct err *err)
{
	const char *p = text;
	int64_t sum = 0;
	int code;

	parse_blanks(&p);
	code = add_quantity(&p, byte_suffixes, 1, &sum);
	parse_blanks(&p);
	if (code == 0 && *p != '\0')
		code = -EBADMSG;
	if (code < 0)
		return bad_text(err, code, text, "size",
			"24GiB, 8G (the same as 8GiB), 500MB or 1024 (bytes)");
	*ret = sum;
	return 0;
}

/* Adds n units of size seconds. */
static int add_seconds(uint64_t n, uint64_t size, int64_t *sum)
{
	int64_t amount;

	if (__builtin_mul_overflow(n, size * NS_PER_S, &amount) ||
		__builtin_add_overflow(*sum, amount, sum))
		return -ERANGE;
	return 0;
}

/* Slurm's forms (sbatch(1), --time): "minutes:seconds", "hours:minutes:seconds",
 * "days-hours[:minutes[:seconds]]"; the last one may have a fraction. */
static int parse_clock(const char **p, int64_t *sum)
{
	static const uint64_t from_days[] = { HOUR, MINUTE, 1 };
	uint64_t field[3], fraction = 0, days;
	size_t n = 0, first;
	const char *s = *p;
	int code = parse_u64(&s, &days);
	bool has_days = code == 0 && *s == '-';

	if (has_days) {
		*p = s + 1;
		code = add_seconds(days, DAY, sum);
	}
	do
		code = code < 0 ? code : parse_decimal(p, &field[n++], &fraction);
	while (code == 0 && n < 3 && fraction == 0 && parse_word(p, ":"));
	if (code < 0)
		return code;
	if (!has_days && n < 2)
		return -EBADMSG;
	first = has_days ? 0 : 3 - n;
	if (fraction > 0 && first + n < 3)
		return -EBADMSG; /* only seconds have fractions */
	for (size_t i = 0; i < n && code == 0; i++)
		code = i > 0 && field[i] >= 60 ? -EBADMSG
					       : add_seconds(field[i], from_days[first + i], sum);
	if (code == 0 && __builtin_add_overflow(*sum, (int64_t) fraction, sum))
		code = -ERANGE;
	return code;
}

int units_parse_duration(const char *text, int64_t *ret_ns, struct err *err)
{
	const char *p = text;
	int64_t sum = 0;
	int code;

	parse_blanks(&p);
	if (p[strspn(p, "0123456789")] == ':' || p[strspn(p, "0123456789")] == '-') {
		code = parse_clock(&p, &sum);
	} else {
		code = add_quantity(&p, time_suffixes, NS_PER_S, &sum);
		/* "1h30m", "1 h 30 min": the further ones need their unit */
		for (parse_blanks(&p); code == 0 && *p >= '0' && *p <= '9'; parse_blanks(&p))
			code = add_quantity(&p, time_suffixes, 0, &sum);
	}
	parse_blanks(&p);
	if (code == 0 && *p != '\0')
		code = -EBADMSG;
	if (code < 0)
		return bad_text(err, code, text, "time",
			"100ms, 1.5s, 10m, 2h, 90 (seconds), 1:30:00 or 1-02:03:04");
	*ret_ns = sum;
	return 0;
}

/* signal(7); real-time signals have no names. */
static const struct {
	int number;
	const char *name;
} signals[] = {
	{ SIGHUP, "SIGHUP" },
	{ SIGINT, "SIGINT" },
	{ SIGQUIT, "SIGQUIT" },
	{ SIGILL, "SIGILL" },
	{ SIGTRAP, "SIGTRAP" },
	{ SIGABRT, "SIGABRT" },
	{ SIGBUS, "SIGBUS" },
	{ SIGFPE, "SIGFPE" },
	{ SIGKILL, "SIGKILL" },
	{ SIGUSR1, "SIGUSR1" },
	{ SIGSEGV, "SIGSEGV" },
	{ SIGUSR2, "SIGUSR2" },
	{ SIGPIPE, "SIGPIPE" },
	{ SIGALRM, "SIGALRM" },
	{ SIGTERM, "SIGTERM" },
	{ SIGXCPU, "SIGXCPU" },
	{ SIGXFSZ, "SIGXFSZ" },
	{ SIGVTALRM, "SIGVTALRM" },
	{ SIGPROF, "SIGPROF" },
	{ SIGIO, "SIGIO" },
	{ SIGPWR, "SIGPWR" },
	{ SIGSYS, "SIGSYS" },
};

const char *units_signal(int signal)
{
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		if (signals[i].number == signal)
			return signals[i].name;
	}
	return NULL;
}
