/* SPDX-License-Identifier: MIT
 *
 * A streaming JSON reader for files of other programs, of any size: the caller pulls one token after the
 * other. A window of 1 MiB moves over the text, so memory does not grow with it.
 *
 * It is made for what is really in such files:
 *  - a text of more than JSON_READ_TEXT bytes is cut there (json_read_is_cut);
 *  - invalid UTF-8, lone surrogates and NULs become U+FFFD; raw control characters in strings pass;
 *  - NaN, Infinity and -Infinity are numbers; a number is text until it is asked for, and is then
 *    converted exactly, never through a double;
 *  - a comma before a closing bracket is ignored;
 *  - what is not JSON (unescaped quotes in a name) is a token of its own, JSON_BROKEN, after which
 *    json_read_resume continues with the next object of an array;
 *  - a text that ends too early is JSON_CUT: all tokens before it are valid.
 *
 *     while ((token = json_read_next(j)) == JSON_KEY) {
 *             if (strcmp(json_read_text(j, NULL), "pid") == 0)
 *                     ...
 *             token = json_read_skip(j);
 *     }
 *
 * One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define JSON_READ_TEXT  65536 /* bytes of a string or number that are kept */
#define JSON_READ_DEPTH 512   /* nested deeper: JSON_BROKEN */

enum json_token {
	JSON_OBJECT,
	JSON_OBJECT_END,
	JSON_ARRAY,
	JSON_ARRAY_END,
	JSON_KEY,    /* its value follows */
	JSON_STRING,
	JSON_NUMBER,
	JSON_TRUE,
	JSON_FALSE,
	JSON_NULL,
	JSON_END,    /* of the text; its one value is complete */
	JSON_CUT,    /* the text ended, or could not be read further, before that (json_read_why) */
	JSON_BROKEN, /* no JSON here (json_read_why) */
};

struct json_read;

/* read fills bytes with up to n bytes, and returns their number, 0 at the end, or -errno. Returns 0 or
 * -ENOMEM. */
int json_read_new(ssize_t (*read)(void *ctx, void *bytes, size_t n), void *ctx, struct json_read **ret);

/* A file, plain or compressed by gzip, which is found by its first bytes. Returns 0, or -errno with text;
 * -EINVAL: it is not a regular file. */
int json_read_open(const char *path, struct json_read **ret, struct err *err);
void json_read_free(struct json_read *j);

/* The next token. JSON_END, JSON_CUT and JSON_BROKEN come again and again. */
enum json_token json_read_next(struct json_read *j);

/* Of a key, a string or a number: its text, in UTF-8, until the next call; len may be NULL. */
const char *json_read_text(const struct json_read *j, size_t *len);
bool json_read_is_cut(const struct json_read *j);

/* A number's value times 10^digits, towards zero: digits 0 makes an integer, 3 of microseconds
 * nanoseconds. Returns 0, -ERANGE (beyond int64_t), or -EINVAL (NaN, infinite, no number). */
int json_read_scaled(const struct json_read *j, unsigned digits, int64_t *ret);
/* The same for any text. */
int json_scaled(const char *text, size_t len, unsigned digits, int64_t *ret);

/* After JSON_KEY, JSON_OBJECT or JSON_ARRAY: passes over the value, or to the end of the object or array.
 * Returns the last token of it, or JSON_CUT or JSON_BROKEN. */
enum json_token json_read_skip(struct json_read *j);

/* After JSON_BROKEN: passes to the next "{" after "}," (to "]" after "}", if that seems to be the end of
 * the array), and continues as if it were in an array at this depth: the number of objects and arrays
 * around its items. Returns false if there is none; the next token is then JSON_CUT. */
bool json_read_resume(struct json_read *j, unsigned depth);

/* The number of objects and arrays around the next token. */
unsigned json_read_depth(const struct json_read *j);
/* Where the last token begins, in bytes from the start of the (uncompressed) text. */
uint64_t json_read_offset(const struct json_read *j);
/* Bytes of the text so far read, and whether they come from a compressed file. */
bool json_read_is_compressed(const struct json_read *j);
/* Of JSON_CUT and JSON_BROKEN: "the file ends inside a string", "a comma or '}' was expected". */
const char *json_read_why(const struct json_read *j);
