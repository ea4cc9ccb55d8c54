/* SPDX-License-Identifier: MIT
 *
 * RFC 8259, with checks of the nesting: see json.h.
 */
#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"
#include "base/units.h"

void json_init(struct json *j, struct buf *out, bool compact)
{
	*j = (struct json) { .out = out, .compact = compact, .first = { true } };
}

static void misplaced(struct json *j)
{
	if (j->out->error == 0)
		j->out->error = -EINVAL;
}

/* Writes the comma after the previous entry and the new line. */
static void separate(struct json *j)
{
	if (!j->first[j->depth])
		buf_str(j->out, ",");
	j->first[j->depth] = false;
	if (j->depth > 0 && !j->compact)
		buf_printf(j->out, "\n%*s", (int) j->depth * 2, "");
}

/* Called before each value; false where none is allowed. */
static bool begin_value(struct json *j)
{
	if (j->out->error)
		return false;
	if (j->after_key) {
		j->after_key = false;
		return true;
	}
	bool is_second_document = j->depth == 0 && !j->first[0];
	bool lacks_key = j->depth > 0 && j->stack[j->depth - 1] == '{';

	if (is_second_document || lacks_key) {
		misplaced(j);
		return false;
	}
	separate(j);
	return true;
}

static void raw_value(struct json *j, const char *text)
{
	if (begin_value(j))
		buf_str(j->out, text);
}

static void begin_nest(struct json *j, char bracket)
{
	if (j->depth == JSON_DEPTH) {
		misplaced(j);
		return;
	}
	if (!begin_value(j))
		return;
	buf_add(j->out, &bracket, 1);
	j->stack[j->depth++] = bracket;
	j->first[j->depth] = true;
}

void json_object(struct json *j)
{
	begin_nest(j, '{');
}

void json_array(struct json *j)
{
	begin_nest(j, '[');
}

void json_end(struct json *j)
{
	if (j->depth == 0 || j->after_key) {
		misplaced(j);
		return;
	}
	bool empty = j->first[j->depth];

	j->depth--;
	if (!empty && !j->compact)
		buf_printf(j->out, "\n%*s", (int) j->depth * 2, "");
	buf_str(j->out, j->stack[j->depth] == '{' ? "}" : "]");
}

/* True if the byte needs no escape in a string. */
static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void escape(struct buf *out, unsigned char c)
{
	static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* the byte, then its letter */

	for (const char *p = letters; *p; p += 2) {
		if ((unsigned char) *p == c) {
			buf_printf(out, "\\%c", p[1]);
			return;
		}
	}
	buf_printf(out, "\\u%04x", c);
}

static void put_string(struct buf *out, const char *text)
{
	const unsigned char *s = (const unsigned char *) text;

	buf_str(out, "\"");
	while (*s) {
		size_t n = 0;

		while (is_plain(s[n]))
			n++;
		if (n == 0 && *s < 0x80) {
			escape(out, *s++);
			continue;
		}
		if (n == 0)
			n = utf8_length(s);
		if (n == 0) {
			buf_str(out, "\xef\xbf\xbd"); /* U+FFFD */
			s++;
			continue;
		}
		buf_add(out, s, n);
		s += n;
	}
	buf_str(out, "\"");
}

void json_key(struct json *j, const char *key)
{
	if (j->out->error)
		return;
	if (j->depth == 0 || j->stack[j->depth - 1] != '{' || j->after_key || !key) {
		misplaced(j);
		return;
	}
	separate(j);
	put_string(j->out, key);
	buf_str(j->out, j->compact ? ":" : ": ");
	j->after_key = true;
}

void json_str(struct json *j, const char *value)
{
	if (!value)
		json_null(j);
	else if (begin_value(j))
		put_string(j->out, value);
}

void json_key_text(struct json *j, const char *key, const char *text)
{
	json_key(j, key);
	json_str(j, text && *text ? text : NULL);
}

void json_int(struct json *j, int64_t value)
{
	if (begin_value(j))
		buf_printf(j->out, "%" PRId64, value);
}

void json_num(struct json *j, double value)
{
	char text[UNITS_LEN];

	if (isnan(value)) {
		json_str(j, "NaN");
	} else if (isinf(value)) {
		json_str(j, value < 0 ? "-Infinity" : "Infinity");
	} else {
		raw_value(j, units_double(value, text));
	}
}

void json_bool(struct json *j, bool value)
{
	raw_value(j, value ? "true" : "false");
}

void json_null(struct json *j)
{
	raw_value(j, "null");
}

void json_decimal(struct json *j, int64_t value, unsigned digits)
{
	char text[UNITS_LEN];

	raw_value(j, units_decimal(value, digits, text));
}

void json_seconds(struct json *j, struct maybe ns)
{
	if (ns.known)
		json_decimal(j, ns.value, 9);
	else
		json_null(j);
}

void json_maybe(struct json *j, struct maybe value)
{
	if (value.known)
		json_int(j, value.value);
	else
		json_null(j);
}

void json_key_maybe(struct json *j, const char *key, struct maybe value)
{
	json_key(j, key);
	json_maybe(j, value);
}

void json_key_seconds(struct json *j, const char *key, struct maybe ns)
{
	json_key(j, key);
	json_seconds(j, ns);
}

void json_key_str(struct json *j, const char *key, const char *value)
{
	json_key(j, key);
	json_str(j, value);
}

void json_key_bool(struct json *j, const char *key, bool value)
{
	json_key(j, key);
	json_bool(j, value);
}

void json_key_object(struct json *j, const char *key)
{
	json_key(j, key);
	json_object(j);
}

void json_key_array(struct json *j, const char *key)
{
	json_key(j, key);
	json_array(j);
}

void json_key_int(struct json *j, const char *key, int64_t value)
{
	json_key(j, key);
	json_int(j, value);
}
