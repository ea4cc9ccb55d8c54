/* SPDX-License-Identifier: MIT */
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* The value of a digit, or a number above all bases. */
static inline unsigned digit_of(char c, unsigned base)
{
	const unsigned decimal = (unsigned) c - '0';

	if (base == 10 || decimal < 10)
		return decimal;
	if (c >= 'a' && c <= 'f')
		return (unsigned) (c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return (unsigned) (c - 'A') + 10;
	return 255;
}

static inline int parse_digits(const char **p, unsigned base, uint64_t *ret)
{
	const char *s = *p;
	uint64_t value = 0;

	if (digit_of(*s, base) >= base)
		return -EBADMSG;
	for (unsigned digit; (digit = digit_of(*s, base)) < base; s++) {
		if (__builtin_mul_overflow(value, base, &value) ||
			__builtin_add_overflow(value, digit, &value))
			return -ERANGE;
	}
	*p = s;
	*ret = value;
	return 0;
}

int parse_u64(const char **p, uint64_t *ret)
{
	return parse_digits(p, 10, ret);
}

int parse_i64(const char **p, int64_t *ret)
{
	const char *s = *p;
	bool minus = *s == '-';
	uint64_t value;

	if (minus)
		s++;
	int code = parse_digits(&s, 10, &value);

	if (code < 0)
		return code;
	if (value > (uint64_t) INT64_MAX + (minus ? 1 : 0))
		return -ERANGE;
	*p = s;
	*ret = (int64_t) (minus ? 0 - value : value);
	return 0;
}

int parse_hex(const char **p, uint64_t *ret)
{
	return parse_digits(p, 16, ret);
}

int parse_ppm(const char **p, uint64_t *ret)
{
	const char *s = *p;
	uint64_t value, weight = 1000000;
	int code = parse_digits(&s, 10, &value);

	if (code < 0)
		return code;
	if (__builtin_mul_overflow(value, weight, &value))
		return -ERANGE;
	if (*s == '.' && digit_of(s[1], 10) < 10) {
		for (s++; digit_of(*s, 10) < 10; s++) {
			weight /= 10;
			if (__builtin_add_overflow(value, weight * digit_of(*s, 10), &value))
				return -ERANGE;
		}
	}
	*p = s;
	*ret = value;
	return 0;
}

/* The C locale is built into the C library: nothing is allocated. */
int parse_double(const char **p, double *ret)
{
	const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
	double value;
	char *end;

	if (!c_locale)
		return -ENOMEM;
	value = strtod_l(*p, &end, c_locale);
	freelocale(c_locale);
	if (end == *p || isspace((unsigned char) **p))
		return -EBADMSG;
	*p = end;
	*ret = value;
	return 0;
}

void parse_blanks(const char **p)
{
	while (**p == ' ' || **p == '\t')
		(*p)++;
}

bool parse_line(const char **p)
{
	*p = strchrnul(*p, '\n');
	if (**p == '\n')
		(*p)++;
	return **p != '\0';
}

const char *parse_next_line(const char **p)
{
	const char *line = *p;

	(void) parse_line(p);
	return *line ? line : NULL;
}

/* The position after key and separator in the line that begins with them; NULL if there is none. */
static const char *find_line(const char *text, const char *key, const char *separator)
{
	const char *p = text;

	if (*p == '\0')
		return NULL;
	do {
		const char *at = p;

		if (parse_word(&at, key) && parse_word(&at, separator))
			return at;
	} while (parse_line(&p));
	return NULL;
}

/* proc_meminfo(5), proc_pid_status(5): "MemTotal:       24641548 kB" */
int parse_key(const char *text, const char *key, uint64_t *ret)
{
	const char *p = find_line(text, key, ":");
	uint64_t value;

	if (!p)
		return -ENOENT;
	parse_blanks(&p);
	int code = parse_digits(&p, 10, &value);

	if (code < 0)
		return code;
	parse_blanks(&p);
	if (parse_word(&p, "kB")) {
		parse_blanks(&p);
		if ((*p == '\0' || *p == '\n') && __builtin_mul_overflow(value, 1024, &value))
			return -ERANGE;
	}
	*ret = value;
	return 0;
}

/* Documentation/admin-guide/cgroup-v2.rst, "flat keyed": "anon 1650688" */
int parse_flat(const char *text, const char *key, uint64_t *ret)
{
	const char *p = find_line(text, key, " ");

	if (!p)
		return -ENOENT;
	parse_blanks(&p);
	return parse_digits(&p, 10, ret);
}

bool parse_list_has(const char *list, const char *entry, size_t len)
{
	for (const char *at = list; len > 0 && *at; at += strcspn(at, ","), at += *at == ',') {
		if (strcspn(at, ",") == len && memcmp(at, entry, len) == 0)
			return true;
	}
	return false;
}
