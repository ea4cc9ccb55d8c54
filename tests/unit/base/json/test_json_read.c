/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/json/json_read.h"

/* A text that comes in pieces, to which a repeated part may be added. */
struct text {
	const char *bytes;
	size_t len, at, piece;
	const char *repeated;
	size_t times;
	int error; /* instead of the end */
};

static ssize_t read_text(void *ctx, void *bytes, size_t n)
{
	struct text *t = ctx;
	size_t len = t->len - t->at;

	if (len == 0 && t->times) {
		t->times--;
		t->bytes = t->repeated;
		t->len = strlen(t->repeated);
		t->at = 0;
		len = t->len;
	}
	if (len == 0)
		return t->error;
	len = len < n ? len : n;
	len = t->piece && t->piece < len ? t->piece : len;
	memcpy(bytes, t->bytes + t->at, len);
	t->at += len;
	return (ssize_t) len;
}

static struct json_read *reader_of(struct text *t)
{
	struct json_read *j = NULL;

	assert_int_equal(json_read_new(read_text, t, &j), 0);
	return j;
}

/* The tokens of a text in short: "{k:1s:a}". */
static void write_tokens(struct json_read *j, struct buf *out)
{
	static const char marks[] = "{}[]ksntfz.!?";
	enum json_token token;

	do {
		token = json_read_next(j);
		(void) buf_printf(out, "%c", marks[token]);
		if (token == JSON_KEY || token == JSON_STRING || token == JSON_NUMBER)
			(void) buf_printf(out, ":%s ", json_read_text(j, NULL));
	} while (token < JSON_END);
}

static void check_text(const char *text, size_t len, const char *want)
{
	/* Whatever the pieces, the tokens are the same. */
	static const size_t pieces[] = { 0, 1, 2, 3, 7 };

	for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
		struct text t = { .bytes = text, .len = len, .piece = pieces[i] };
		struct json_read *j = reader_of(&t);
		struct buf out = BUF_INIT(1 << 20);

		write_tokens(j, &out);
		assert_string_equal(out.data, want);
		buf_done(&out);
		json_read_free(j);
	}
}

static void check_tokens(const char *text, const char *want)
{
	check_text(text, strlen(text), want);
}

static void test_json(void **state)
{
	(void) state;
	check_tokens("{}", "{}.");
	check_tokens(" [ ] \n", "[].");
	check_tokens("{\"a\": 1, \"b\" : [true,false , null, \"x\"]}", "{k:a n:1 k:b [tfzs:x ]}.");
	check_tokens("[[],[[]],{\"\":{}}]", "[[][[]]{k: {}}].");
	check_tokens("-1.5e-3", "n:-1.5e-3 .");
	check_tokens("\"x\"", "s:x .");
}

static void test_what_is_no_json_but_written(void **state)
{
	(void) state;
	check_tokens("[NaN, nan, Infinity, -Infinity, -inf]", "[n:NaN n:nan n:Infinity n:-Infinity n:-inf ].");
	check_tokens("[1,]", "[n:1 ].");
	check_tokens("{\"a\":1,}", "{k:a n:1 }.");
	check_tokens("[\"a\nb\tc\"]", "[s:a\nb\tc ].");
}

static void test_escapes_and_bytes(void **state)
{
	(void) state;
	check_tokens("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "[s:\"\\/\b\f\n\r\t ].");
	check_tokens("[\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"]", "[s:A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 ].");
	/* Lone surrogates, NUL as an escape and as a byte, invalid UTF-8. */
	check_tokens("[\"\\ud83dx\\ude00\\u0000\"]", "[s:\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd ].");
	check_text("[\"a\0b\"]", 7, "[s:a\xef\xbf\xbd"
				    "b ].");
	check_tokens("[\"a\xff\xc3\xa9\xe2\x82\"]", "[s:a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd ].");
}

static void test_broken(void **state)
{
	(void) state;
	check_tokens("[1 2]", "[n:1 ?");
	check_tokens("{\"a\" 1}", "{k:a ?");
	check_tokens("{1:2}", "{?");
	check_tokens("[\"\\x\"]", "[?");
	check_tokens("[\"\\u12g4\"]", "[?");
	check_tokens("[truth]", "[?");
	check_tokens("]", "?");
	check_tokens("[}", "[?");
	check_tokens("[1]]", "[n:1 ]?");
	check_tokens("hello", "?");
}

static void test_cut(void **state)
{
	const char *whole = "{\"a\": [1.5, \"x\\n\\u20ac\", true, {\"b\": null}], \"c\": \"\xc3\xa9\"}";
	struct buf all = BUF_INIT(1000);
	struct text t = { .bytes = whole, .len = strlen(whole) };
	struct json_read *j = reader_of(&t);

	(void) state;
	write_tokens(j, &all);
	json_read_free(j);
	/* Cut anywhere, the tokens are a part of those of the whole, and nothing is called broken. */
	for (size_t len = 0; len < strlen(whole); len++) {
		struct text part = { .bytes = whole, .len = len, .piece = len % 3 };
		struct buf out = BUF_INIT(1000);

		j = reader_of(&part);
		write_tokens(j, &out);
		assert_int_equal(out.data[out.len - 1], '!');
		assert_memory_equal(out.data, all.data, out.len - 1);
		assert_int_equal(json_read_offset(j), len);
		assert_string_not_equal(json_read_why(j), "");
		assert_int_equal(json_read_next(j), JSON_CUT);
		buf_done(&out);
		json_read_free(j);
	}
	buf_done(&all);
}

static void test_a_read_that_fails(void **state)
{
	struct text t = { .bytes = "[1", .len = 2, .error = -EIO };
	struct json_read *j = reader_of(&t);

	(void) state;
	assert_int_equal(json_read_next(j), JSON_ARRAY);
	assert_int_equal(json_read_next(j), JSON_CUT);
	assert_string_equal(json_read_why(j), strerror(EIO));
	json_read_free(j);
}

/* Skips, and the depth. */
static void test_skip(void **state)
{
	const char *text = "{\"a\": {\"x\": [1, {\"y\": 2}]}, \"b\": 3, \"c\": [[], 4], \"d\": 5}";
	struct text t = { .bytes = text, .len = strlen(text), .piece = 1 };
	struct json_read *j = reader_of(&t);
	struct buf keys = BUF_INIT(100);

	(void) state;
	assert_int_equal(json_read_next(j), JSON_OBJECT);
	while (json_read_next(j) == JSON_KEY) {
		assert_int_equal(json_read_depth(j), 1);
		(void) buf_str(&keys, json_read_text(j, NULL));
		assert_true(json_read_skip(j) < JSON_END);
	}
	assert_string_equal(keys.data, "abcd");
	assert_int_equal(json_read_next(j), JSON_END);
	buf_done(&keys);
	json_read_free(j);
}

/* Texts of any length take the same memory: what is too long is cut where a character begins. */
static void test_long_texts(void **state)
{
	struct text t = { .bytes = "[\"", .len = 2, .repeated = "\xe2\x82\xac", .times = 3 << 20 };
	struct text numbers = { .bytes = "[", .len = 1, .repeated = "123456789", .times = 1 << 18 };
	struct json_read *j = reader_of(&t);
	int64_t value;
	size_t len;

	(void) state;
	assert_int_equal(json_read_next(j), JSON_ARRAY);
	assert_int_equal(json_read_next(j), JSON_CUT); /* it has no end */
	json_read_free(j);

	t = (struct text) { .bytes = "[\"", .len = 2, .repeated = "0123456789abcdefghij\xe2\x82\xac", .times = 1 << 18 };
	j = reader_of(&t);
	assert_int_equal(json_read_next(j), JSON_ARRAY);
	assert_int_equal(json_read_next(j), JSON_CUT);
	json_read_free(j);

	t = (struct text) { .bytes = "[\"", .len = 2, .repeated = "\xe2\x82\xac", .times = 100000, .error = 0 };
	j = reader_of(&t);
	assert_int_equal(json_read_next(j), JSON_ARRAY);
	assert_int_equal(json_read_next(j), JSON_CUT);
	(void) json_read_text(j, &len);
	json_read_free(j);

	j = reader_of(&numbers);
	assert_int_equal(json_read_next(j), JSON_ARRAY);
	assert_int_equal(json_read_next(j), JSON_CUT);
	assert_int_equal(json_read_scaled(j, 0, &value), -ERANGE);
	json_read_free(j);
}

static void test_a_long_string(void **state)
{
	const size_t n = 300000;
	char *text = malloc(n + 16);
	struct text t = { .bytes = text };
	size_t len;

	(void) state;
	assert_non_null(text);
	text[0] = '[';
	text[1] = '"';
	for (size_t i = 0; i < n; i += 3)
		memcpy(text + 2 + i, "\xe2\x82\xac", 3);
	(void) snprintf(text + 2 + n, 14, "\", \"next\"]");
	t.len = strlen(text);
	for (size_t piece = 0; piece < 100000; piece = piece * 7 + 13) {
		struct text part = { .bytes = text, .len = t.len, .piece = piece };
		struct json_read *j = reader_of(&part);

		assert_int_equal(json_read_next(j), JSON_ARRAY);
		assert_int_equal(json_read_next(j), JSON_STRING);
		assert_true(json_read_is_cut(j));
		assert_memory_equal(json_read_text(j, &len), text + 2, JSON_READ_TEXT / 3 * 3);
		assert_int_equal(len, JSON_READ_TEXT / 3 * 3);
		assert_int_equal(json_read_next(j), JSON_STRING);
		assert_false(json_read_is_cut(j));
		assert_string_equal(json_read_text(j, NULL), "next");
		assert_int_equal(json_read_next(j), JSON_ARRAY_END);
		json_read_free(j);
	}
	free(text);
}

static void test_depth(void **state)
{
	struct text t = { .bytes = "", .len = 0, .repeated = "[", .times = 100000 };
	struct json_read *j = reader_of(&t);

	(void) state;
	for (int i = 0; i < JSON_READ_DEPTH; i++)
		assert_int_equal(json_read_next(j), JSON_ARRAY);
	assert_int_equal(json_read_next(j), JSON_BROKEN);
	assert_int_equal(json_read_offset(j), JSON_READ_DEPTH);
	json_read_free(j);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void check_scaled(const char *text, unsigned digits, int code, int64_t want)
{
	int64_t value = 77;

	assert_int_equal(json_scaled(text, strlen(text), digits, &value), code);
	assert_true(value == (code == 0 ? want : 77));
}

static void test_numbers(void **state)
{
	char long_one[500];

	(void) state;
	check_scaled("0", 0, 0, 0);
	check_scaled("4711", 0, 0, 4711);
	check_scaled("-4711.9", 0, 0, -4711);
	/* Through a double this would be 96 ns off. */
	check_scaled("4764746439646.112", 3, 0, 4764746439646112);
	check_scaled("1790857026000000.001", 3, 0, 1790857026000000001);
	check_scaled("0.0019", 3, 0, 1);
	check_scaled("-0.5", 3, 0, -500);
	check_scaled("1.5e3", 3, 0, 1500000);
	check_scaled("4.764746439646112E+12", 3, 0, 4764746439646112);
	check_scaled("150e-2", 3, 0, 1500);
	check_scaled("1e-400", 3, 0, 0);
	check_scaled("0e999999999999", 3, 0, 0);
	check_scaled("9223372036854775807", 0, 0, INT64_MAX);
	check_scaled("-9223372036854775808", 0, 0, INT64_MIN);
	check_scaled("9223372036854775808", 0, -ERANGE, 0);
	check_scaled("9223372036854775.807", 3, 0, INT64_MAX);
	check_scaled("9223372036854775.808", 3, -ERANGE, 0);
	check_scaled("1e400", 0, -ERANGE, 0);
	check_scaled("NaN", 3, -EINVAL, 0);
	check_scaled("Infinity", 3, -EINVAL, 0);
	check_scaled("", 0, -EINVAL, 0);
	check_scaled("-", 0, -EINVAL, 0);
	check_scaled(".", 0, -EINVAL, 0);
	check_scaled("1.2.3", 0, -EINVAL, 0);
	check_scaled("1e", 0, -EINVAL, 0);
	check_scaled("12a", 0, -EINVAL, 0);
	memset(long_one, '9', 400);
	long_one[400] = '\0';
	check_scaled(long_one, 0, -ERANGE, 0);
	long_one[1] = '.';
	check_scaled(long_one, 3, 0, 9999);
	memset(long_one, '0', 400);
	long_one[399] = '7';
	check_scaled(long_one, 3, 0, 7000);
}

/* Every value with every number of decimals, compared with a plain computation. */
static void test_numbers_like_integers(void **state)
{
	uint64_t random = 88172645463325252ULL;

	(void) state;
	for (int i = 0; i < 200000; i++) {
		char text[64];
		int64_t value;
		unsigned decimals;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		value = (int64_t) (random >> (1 + (random & 31)));
		decimals = (unsigned) (random >> 40) % 4;
		if (decimals == 0) {
			(void) snprintf(text, sizeof(text), "%lld", (long long) value);
			if (value > INT64_MAX / 1000)
				continue;
			value *= 1000;
		} else {
			const int64_t scale = decimals == 1 ? 10 : decimals == 2 ? 100
										 : 1000;

			(void) snprintf(text, sizeof(text), "%lld.%0*lld", (long long) (value / scale), (int) decimals,
				(long long) (value % scale));
			if (value > INT64_MAX / (1000 / scale))
				continue;
			value *= 1000 / scale;
		}
		check_scaled(text, 3, 0, value);
	}
}

/* ---- resumption ------------------------------------------------------------------------------ */

/* The numbers "n" of the objects of an array, with '!' for each place that is broken. */
static void check_resumed(const char *text, unsigned depth, const char *want)
{
	static const size_t pieces[] = { 0, 1, 5 };

	for (size_t i = 0; i < 3; i++) {
		struct text t = { .bytes = text, .len = strlen(text), .piece = pieces[i] };
		struct json_read *j = reader_of(&t);
		struct buf out = BUF_INIT(10000);
		enum json_token token;

		while (json_read_depth(j) < depth)
			(void) json_read_next(j);
		for (;;) {
			token = json_read_next(j);
			if (token == JSON_BROKEN) {
				(void) buf_str(&out, "!");
				(void) json_read_resume(j, depth);
			} else if (token >= JSON_END) {
				(void) buf_str(&out, token == JSON_END ? "." : "x");
				break;
			} else if (token == JSON_KEY && json_read_depth(j) == depth + 1 &&
				   strcmp(json_read_text(j, NULL), "n") == 0) {
				token = json_read_next(j);
				if (token == JSON_NUMBER)
					(void) buf_str(&out, json_read_text(j, NULL));
			}
		}
		assert_string_equal(out.data, want);
		buf_done(&out);
		json_read_free(j);
	}
}

static void test_resumption(void **state)
{
	(void) state;
	check_resumed("[{\"n\": 1}, {\"n\": 2}]", 1, "12.");
	check_resumed("[{\"n\": 1}, {\"s\": \"a \"b\" c\", \"n\": 2}, {\"n\": 3}]", 1, "1!3.");
	/* An odd number of quotes, and braces in what follows. */
	check_resumed("[{\"n\": 1}, {\"s\": \"a \"b c\", \"n\": 2},\n  {\"n\": 3}, {\"n\": 4}]", 1, "1!34.");
	check_resumed("[{\"n\": 1}, {\"s\": \"\"}, {\"\", \"n\": 2},\n  {\"n\": 3}, {\"n\": 4}]", 1, "1!34.");
	/* With an object inside, in the shape of torch.profiler. */
	check_resumed("[{\"n\": 1, \"s\": \"operator\"\" _a\", \"args\": {\n\"x\": 1\n}\n}, {\"n\": 2}]", 1, "1!2.");
	/* The last one. */
	check_resumed("{\"e\": [{\"n\": 1}, {\"s\": \"a\"b\"}], \"t\": 1}", 2, "1!.");
	check_resumed("[{\"n\": 1}, {\"s\": \"a\"b\"}]", 1, "1!.");
	check_resumed("[{\"n\": 1}, {\"s\": \"a\"b", 1, "1!x");
	/* An array of objects inside of the broken one. */
	check_resumed("{\"e\": [{\"n\": 1}, {\"s\": \"a\"b\", \"l\": [{\"n\": 7}, {\"q\": 8}], \"m\": 1}, {\"n\": 3}], \"t\": 1}",
		2, "1!!3.");
}

/* ---- files ----------------------------------------------------------------------------------- */

static void write_file(const char *path, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void test_files(void **state)
{
	char path[] = "/tmp/hiwater-json-XXXXXX", bytes[4096];
	const int fd = mkstemp(path);
	struct json_read *j = NULL;
	struct err err;
	gzFile gz;
	FILE *f;
	size_t len;

	(void) state;
	assert_true(fd >= 0);
	(void) close(fd);
	write_file(path, "[1]", 3);
	assert_int_equal(json_read_open(path, &j, &err), 0);
	assert_false(json_read_is_compressed(j));
	assert_int_equal(json_read_skip(j), JSON_ARRAY);
	json_read_free(j);

	gz = gzopen(path, "wb");
	assert_non_null(gz);
	assert_true(gzputs(gz, "[") > 0);
	for (int i = 0; i < 10000; i++)
		assert_true(gzprintf(gz, "%d, ", i) > 0);
	assert_true(gzputs(gz, "0]") > 0);
	assert_int_equal(gzclose(gz), Z_OK);
	assert_int_equal(json_read_open(path, &j, &err), 0);
	assert_true(json_read_is_compressed(j));
	assert_int_equal(json_read_next(j), JSON_ARRAY);
	assert_int_equal(json_read_skip(j), JSON_ARRAY_END);
	assert_int_equal(json_read_next(j), JSON_END);
	json_read_free(j);

	/* Its compressed data are cut, then damaged. */
	f = fopen(path, "rb");
	assert_non_null(f);
	len = fread(bytes, 1, sizeof(bytes), f);
	(void) fclose(f);
	write_file(path, bytes, len);
	assert_int_equal(json_read_open(path, &j, &err), 0);
	assert_int_equal(json_read_next(j), JSON_ARRAY);
	assert_int_equal(json_read_skip(j), JSON_CUT);
	assert_true(json_read_offset(j) > 1000);
	assert_string_equal(json_read_why(j), "the file ends within its compressed data");
	json_read_free(j);
	memset(bytes + 2000, 0x5a, 500);
	write_file(path, bytes, len);
	assert_int_equal(json_read_open(path, &j, &err), 0);
	assert_int_equal(json_read_next(j), JSON_ARRAY);
	assert_true(json_read_skip(j) >= JSON_CUT);
	json_read_free(j);

	(void) unlink(path);
	assert_int_equal(json_read_open(path, &j, &err), -ENOENT);
	assert_int_equal(json_read_open("/tmp", &j, &err), -EINVAL);
	assert_string_equal(err.text, "/tmp is not a regular file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_what_is_no_json_but_written),
		cmocka_unit_test(test_escapes_and_bytes),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_a_read_that_fails),
		cmocka_unit_test(test_skip),
		cmocka_unit_test(test_long_texts),
		cmocka_unit_test(test_a_long_string),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_numbers_like_integers),
		cmocka_unit_test(test_resumption),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
