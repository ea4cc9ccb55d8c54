/* SPDX-License-Identifier: MIT
 *
 * base/units: sizes and times as people write them, and the texts of any number.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

/* An error leaves the result unchanged and has a text; parsed values are never negative. */
static void check_parser(int (*parse)(const char *, int64_t *, struct err *), const char *text)
{
	struct err err = { "" };
	int64_t value = -77;
	int code = parse(text, &value, &err);

	check(code <= 0);
	check((code < 0) == (err.text[0] != '\0'));
	check(code < 0 ? value == -77 : value >= 0);
}

/* Every text fits its buffer, and no number has more than three digits of one unit. */
static void check_texts(int64_t number, int64_t whole)
{
	char buf[UNITS_LEN], words[UNITS_LEN * 2];

	check(strlen(units_bytes(number, UNITS_BYTES, buf)) < UNITS_LEN);
	check(strspn(units_bytes(number, UNITS_IEC, buf) + (number < 0), "0123456789") <= 3);
	check(strspn(units_bytes(number, UNITS_SI, buf) + (number < 0), "0123456789") <= 3);
	check((buf[0] == '-') == (number < 0));
	check(strlen(units_duration(number, buf)) < UNITS_LEN && buf[0]);
	check(strlen(units_words(number, words)) < UNITS_LEN * 2 && words[0]);
	check((units_percent(number, whole, buf)[0] == '\0') == (whole == 0));
	check(strlen(units_date((uint64_t) number, buf)) < UNITS_LEN);
	check(strlen(units_rfc3339((uint64_t) number, buf)) < UNITS_LEN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int64_t numbers[2] = { 0, 0 };
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	check_parser(units_parse_bytes, text);
	check_parser(units_parse_duration, text);
	memcpy(numbers, data, size < sizeof(numbers) ? size : sizeof(numbers));
	check_texts(numbers[0], numbers[1]);
	check_texts(numbers[1], numbers[0]);
	free(text);
	return 0;
}
