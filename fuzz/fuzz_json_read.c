/* SPDX-License-Identifier: MIT
 *
 * base/json/json_read: any bytes in pieces of any size. The tokens nest, do not depend on the pieces, and every
 * text ends in JSON_END or JSON_CUT, whatever is broken on the way.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size, piece;
};

static void check(bool holds)
{
	if (!holds)
		abort();
}

static ssize_t read_input(void *ctx, void *bytes, size_t n)
{
	struct input *in = ctx;

	n = in->size < n ? in->size : n;
	n = in->piece && in->piece < n ? in->piece : n;
	memcpy(bytes, in->data, n);
	in->data += n;
	in->size -= n;
	return (ssize_t) n;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ ((const uint8_t *) bytes)[i]) * 1099511628211U;
	return hash;
}

static uint64_t see(const struct json_read *j, enum json_token token, size_t size, unsigned *depth, uint64_t hash)
{
	size_t len = 0;
	const char *text = "";
	int64_t value = 77;

	*depth += token == JSON_OBJECT || token == JSON_ARRAY;
	*depth -= token == JSON_OBJECT_END || token == JSON_ARRAY_END;
	check(json_read_depth(j) == *depth && *depth <= JSON_READ_DEPTH && json_read_offset(j) <= size);
	if (token == JSON_KEY || token == JSON_STRING || token == JSON_NUMBER) {
		text = json_read_text(j, &len);
		check(len <= JSON_READ_TEXT && strlen(text) == len);
	}
	if (token == JSON_NUMBER)
		check(json_read_scaled(j, 3, &value) == 0 || value == 77);
	hash = mix(hash, text, len);
	return mix(hash, &token, sizeof(token));
}

static uint64_t read_all(const uint8_t *data, size_t size, size_t piece, unsigned resumed)
{
	struct input in = { data, size, piece };
	struct json_read *j = NULL;
	enum json_token token;
	uint64_t hash = 0;
	unsigned depth = 0;

	if (json_read_new(read_input, &in, &j) < 0)
		return 0;
	do {
		token = json_read_next(j);
		hash = see(j, token, size, &depth, hash);
		if (token == JSON_BROKEN) {
			if (json_read_resume(j, resumed))
				depth = resumed;
			depth = json_read_depth(j);
			check(json_read_next(j) != JSON_BROKEN || json_read_offset(j) > 0);
			depth = json_read_depth(j);
		}
	} while (token < JSON_END || token == JSON_BROKEN);
	json_read_free(j);
	return hash;
}

static void skip_all(const uint8_t *data, size_t size)
{
	struct input in = { data, size, 0 };
	struct json_read *j = NULL;
	enum json_token token;

	if (json_read_new(read_input, &in, &j) < 0)
		return;
	(void) json_read_next(j);
	while ((token = json_read_next(j)) == JSON_KEY) {
		const unsigned depth = json_read_depth(j);

		token = json_read_skip(j);
		check(token >= JSON_END || json_read_depth(j) == depth);
	}
	json_read_free(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint64_t whole = read_all(data, size, 0, 2);

	check(read_all(data, size, 1, 2) == whole && read_all(data, size, 5, 2) == whole);
	(void) read_all(data, size, 0, 1);
	skip_all(data, size);
	return 0;
}
