/* SPDX-License-Identifier: MIT
 *
 * A streaming JSON writer. Two spaces per indent, keys in the order written, no newline after the
 * document. It checks nesting: a key outside an object, a value without a key in one, a second
 * document, or an unmatched end sets the buffer's error (-EINVAL). Strings are UTF-8; other bytes
 * become U+FFFD. NaN and infinities are written as strings ("NaN", "Infinity", "-Infinity").
 *
 *     json_object(&j);
 *     json_key(&j, "ram"); json_int(&j, 42);
 *     json_end(&j);
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/maybe.h"

#define JSON_DEPTH 32

struct json {
	struct buf *out;
	bool compact; /* one line, no blanks */
	unsigned depth;
	char stack[JSON_DEPTH]; /* '{' or '[' */
	bool first[JSON_DEPTH + 1];
	bool after_key;
};

void json_init(struct json *j, struct buf *out, bool compact);
void json_object(struct json *j);
void json_array(struct json *j);
void json_end(struct json *j);
void json_key(struct json *j, const char *key);
void json_str(struct json *j, const char *value); /* NULL is null */
void json_key_text(struct json *j, const char *key, const char *text); /* null if text is NULL or empty */
void json_int(struct json *j, int64_t value);
void json_num(
	struct json *j, double value); /* reads back the same; shortest except for 46 powers of 2 */
void json_bool(struct json *j, bool value);
void json_null(struct json *j);

/* value / 10^digits, exactly (units_decimal). */
void json_decimal(struct json *j, int64_t value, unsigned digits);
/* value / 1e9, exactly, as a decimal number (seconds of nanoseconds); null if unknown. */
void json_seconds(struct json *j, struct maybe ns);
/* null if unknown. */
void json_maybe(struct json *j, struct maybe value);

/* A key and its value, as above. */
void json_key_str(struct json *j, const char *key, const char *value);
void json_key_int(struct json *j, const char *key, int64_t value);
void json_key_bool(struct json *j, const char *key, bool value);
void json_key_maybe(struct json *j, const char *key, struct maybe value);
void json_key_seconds(struct json *j, const char *key, struct maybe ns);
/* A key, and the beginning of its value. */
void json_key_object(struct json *j, const char *key);
void json_key_array(struct json *j, const char *key);
