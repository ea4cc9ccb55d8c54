/* SPDX-License-Identifier: MIT */
#include "source/trace/import/chrome_event.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"

/* Passes over the value whose first token was read. */
static enum json_token rest_of(struct json_read *j, enum json_token token)
{
	return token == JSON_OBJECT || token == JSON_ARRAY ? json_read_skip(j) : token;
}

enum json_token chrome_number_read(struct json_read *j, unsigned digits, int64_t *ret)
{
	const enum json_token token = json_read_next(j);

	if (token == JSON_NUMBER || token == JSON_STRING)
		(void) json_read_scaled(j, digits, ret);
	return rest_of(j, token);
}

/* Copies as many whole characters as fit. */
static void copy_text(const struct json_read *j, char *ret, size_t size)
{
	size_t len;
	const char *text = json_read_text(j, &len);

	if (len >= size) {
		len = size - 1;
		while (len > 0 && ((unsigned char) text[len] & 0xc0) == 0x80)
			len--;
	}
	memcpy(ret, text, len);
	ret[len] = '\0';
}

enum json_token chrome_text_read(struct json_read *j, char *ret, size_t size)
{
	const enum json_token token = json_read_next(j);

	if (token == JSON_STRING || token == JSON_NUMBER)
		copy_text(j, ret, size);
	return rest_of(j, token);
}

static enum json_token read_time(struct json_read *j, struct chrome_event *e, bool *ret_has, int64_t *ret_ns)
{
	const enum json_token token = json_read_next(j);
	int r = -EINVAL;

	if (token == JSON_NUMBER || token == JSON_STRING)
		r = json_read_scaled(j, 3, ret_ns);
	*ret_has = r == 0;
	e->is_beyond |= r == -ERANGE;
	return rest_of(j, token);
}

static enum json_token read_id(struct json_read *j, struct chrome_id *ret)
{
	const enum json_token token = json_read_next(j);

	*ret = (struct chrome_id) { .is_known = token == JSON_STRING || token == JSON_NUMBER };
	if (!ret->is_known)
		return rest_of(j, token);
	ret->is_text = json_read_scaled(j, 0, &ret->number) < 0;
	if (ret->is_text)
		copy_text(j, ret->text, sizeof(ret->text));
	return token;
}

/* An array of up to three numbers. */
static enum json_token read_three(struct json_read *j, int64_t ret[3])
{
	enum json_token token = json_read_next(j);

	if (token != JSON_ARRAY)
		return rest_of(j, token);
	for (size_t i = 0;; i++) {
		token = json_read_next(j);
		if (token >= JSON_END || token == JSON_ARRAY_END)
			return token;
		if (token == JSON_NUMBER && i < 3)
			(void) json_read_scaled(j, 0, &ret[i]);
		token = rest_of(j, token);
		if (token >= JSON_END)
			return token;
	}
}

static void clear_args(struct chrome_event *e)
{
	e->device = e->context = e->stream = e->correlation = e->bytes = e->registers = e->shared = -1;
	for (int i = 0; i < 3; i++)
		e->grid[i] = e->block[i] = -1;
	e->about[0] = e->domain[0] = '\0';
}

static enum json_token read_arg(struct json_read *j, struct chrome_event *e)
{
	const struct {
		const char *key;
		int64_t *number;
	} numbers[] = {
		{ "device", &e->device },
		{ "context", &e->context },
		{ "stream", &e->stream },
		{ "correlation", &e->correlation },
		{ "bytes", &e->bytes },
		{ "registers per thread", &e->registers },
		{ "shared memory", &e->shared },
	};
	const char *key = json_read_text(j, NULL);

	/* Most keys are none of these ("External id"); these begin with few letters. */
	switch (key[0]) {
	case 'g':
		if (strcmp(key, "grid") == 0)
			return read_three(j, e->grid);
		break;
	case 'b':
		if (strcmp(key, "block") == 0)
			return read_three(j, e->block);
		break;
	case 'n':
	case 'l':
		if (strcmp(key, "name") == 0 || strcmp(key, "labels") == 0)
			return chrome_text_read(j, e->about, sizeof(e->about));
		return json_read_skip(j);
	case 'd':
		if (strcmp(key, "domain") == 0)
			return chrome_text_read(j, e->domain, sizeof(e->domain));
		break;
	case 'c':
	case 'r':
	case 's':
		break;
	default:
		return json_read_skip(j);
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (key[0] == numbers[i].key[0] && strcmp(key, numbers[i].key) == 0)
			return chrome_number_read(j, 0, numbers[i].number);
	}
	return json_read_skip(j);
}

static enum json_token read_args(struct json_read *j, struct chrome_event *e)
{
	enum json_token token = json_read_next(j);

	clear_args(e);
	if (token != JSON_OBJECT)
		return rest_of(j, token);
	while ((token = json_read_next(j)) == JSON_KEY) {
		token = read_arg(j, e);
		if (token >= JSON_END)
			break;
	}
	return token;
}

static enum json_token read_phase(struct json_read *j, struct chrome_event *e)
{
	char ph[3] = "";
	const enum json_token token = chrome_text_read(j, ph, sizeof(ph));

	e->ph = '\0';
	if (ph[1] == '\0')
		e->ph = ph[0];
	return token;
}

static enum json_token read_name(struct json_read *j, struct chrome_event *e)
{
	const enum json_token token = chrome_text_read(j, e->name, sizeof(e->name));

	e->is_name_cut = token == JSON_STRING && json_read_is_cut(j);
	return token;
}

static enum json_token read_field(struct json_read *j, struct chrome_event *e)
{
	size_t len;
	const char *key = json_read_text(j, &len);

	/* There are eight keys an event, of millions. */
	switch (len) {
	case 2:
		if (memcmp(key, "ph", 2) == 0)
			return read_phase(j, e);
		if (memcmp(key, "ts", 2) == 0)
			return read_time(j, e, &e->has_ts, &e->ts_ns);
		break;
	case 3:
		if (memcmp(key, "cat", 3) == 0)
			return chrome_text_read(j, e->category, sizeof(e->category));
		if (memcmp(key, "pid", 3) == 0)
			return read_id(j, &e->pid);
		if (memcmp(key, "tid", 3) == 0)
			return read_id(j, &e->tid);
		if (memcmp(key, "dur", 3) == 0)
			return read_time(j, e, &e->has_dur, &e->dur_ns);
		break;
	case 4:
		if (memcmp(key, "name", 4) == 0)
			return read_name(j, e);
		if (memcmp(key, "args", 4) == 0)
			return read_args(j, e);
		break;
	default:
		break;
	}
	return json_read_skip(j);
}

enum json_token chrome_event_read(struct json_read *j, struct chrome_event *ret)
{
	enum json_token token;

	ret->ph = ret->name[0] = ret->category[0] = '\0';
	ret->has_ts = ret->has_dur = ret->is_beyond = ret->is_name_cut = false;
	ret->ts_ns = ret->dur_ns = 0;
	ret->pid.is_known = ret->tid.is_known = false;
	clear_args(ret);
	while ((token = json_read_next(j)) == JSON_KEY) {
		token = read_field(j, ret);
		if (token >= JSON_END)
			break;
	}
	return token;
}
