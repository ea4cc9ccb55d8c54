/* SPDX-License-Identifier: MIT
 *
 * base/parse: every parser at every position of the text. None may leave the text, and a failing
 * one must not advance.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static int read_i64(const char **p, uint64_t *ret)
{
	int64_t value = 0;
	int code = parse_i64(p, &value);

	*ret = code < 0 ? *ret : (uint64_t) value;
	return code;
}

static void check_reader(
	int (*reader)(const char **, uint64_t *), const char *from, const char *end)
{
	const char *p = from;
	uint64_t value = 77;
	int code = reader(&p, &value);

	check(code <= 0 && p >= from && p <= end);
	check(code < 0 ? p == from && value == 77 : p > from);
}

static void check_key(int (*find)(const char *, const char *, uint64_t *), const char *text)
{
	static const char *const keys[] = { "VmHWM", "anon", "", "a", "Name" };
	uint64_t value;

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		value = 77;
		check(find(text, keys[i], &value) == 0 || value == 77);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	const char *end, *p;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	end = text + strlen(text);
	for (const char *from = text; from <= end && from < text + 64; from++) {
		check_reader(parse_u64, from, end);
		check_reader(read_i64, from, end);
		check_reader(parse_hex, from, end);
		check_reader(parse_ppm, from, end);
		p = from;
		parse_blanks(&p);
		check(p <= end && *p != ' ' && *p != '\t');
		p = from;
		check(parse_word(&p, "some") == (p == from + 4) && p <= end);
	}
	p = text;
	while (parse_line(&p))
		check(p[-1] == '\n' && p < end);
	check(p == end);
	check_key(parse_key, text);
	check_key(parse_flat, text);
	free(text);
	return 0;
}
