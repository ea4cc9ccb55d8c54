/* SPDX-License-Identifier: MIT */
#include "model/wire.h"

#include <string.h>

#include "model/framebuf.h"

enum {
	TEXT_MOST = 16 << 10
}; /* longer texts are truncated */

static size_t text_size(const char *text)
{
	return text ? strnlen(text, TEXT_MOST) + 1 : 1;
}

static char *put_text(char *at, const char *text)
{
	size_t size = text_size(text);

	if (size > 1)
		memcpy(at, text, size - 1);
	at[size - 1] = '\0';
	return at + size;
}

static const char *get_text(char **at)
{
	const char *text = *at;

	*at += strlen(text) + 1;
	return text;
}

static size_t round_up(size_t n)
{
	return (n + 15) & ~(size_t) 15;
}

/* Copies n bytes to *at and advances *at. */
static void put(char **at, const void *from, size_t n)
{
	if (n > 0)
		memcpy(*at, from, n);
	*at += round_up(n);
}

static void *get(char **at, size_t n)
{
	void *found = *at;

	*at += round_up(n);
	return found;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static size_t birth_text_size(const struct birth *birth)
{
	struct birth copy = *birth;
	const char **texts[BIRTH_TEXTS];
	const unsigned n = birth_texts(&copy, texts);
	size_t size = 0;

	for (unsigned i = 0; i < n; i++)
		size += text_size(*texts[i]);
	return size;
}

size_t wire_frame_size(const struct frame *frame)
{
	size_t size = round_up(sizeof(struct wire_head)) + round_up(sizeof(*frame));

	size += round_up(frame->n_births * sizeof(*frame->births));
	size += round_up(frame->n_readings * sizeof(*frame->readings));
	size += round_up(frame->n_ends * sizeof(*frame->ends));
	size += round_up(frame->n_events * sizeof(*frame->events));
	size += round_up(frame->n_series * sizeof(*frame->series));
	for (size_t i = 0; i < frame->n_births; i++)
		size += birth_text_size(&frame->births[i]);
	for (size_t i = 0; i < frame->n_events; i++)
		size += text_size(frame->events[i].text);
	for (size_t i = 0; i < frame->n_series; i++)
		size += text_size(frame->series[i].name);
	return round_up(size);
}

static char *put_birth_texts(char *at, const struct birth *birth)
{
	struct birth copy = *birth;
	const char **texts[BIRTH_TEXTS];
	const unsigned n = birth_texts(&copy, texts);

	for (unsigned i = 0; i < n; i++)
		at = put_text(at, *texts[i]);
	return at;
}

void wire_frame_put(void *where, const struct frame *frame)
{
	const struct wire_head head = { .size = wire_frame_size(frame), .kind = WIRE_FRAME };
	char *at = where;

	put(&at, &head, sizeof(head));
	put(&at, frame, sizeof(*frame));
	put(&at, frame->births, frame->n_births * sizeof(*frame->births));
	put(&at, frame->readings, frame->n_readings * sizeof(*frame->readings));
	put(&at, frame->ends, frame->n_ends * sizeof(*frame->ends));
	put(&at, frame->events, frame->n_events * sizeof(*frame->events));
	put(&at, frame->series, frame->n_series * sizeof(*frame->series));
	for (size_t i = 0; i < frame->n_births; i++)
		at = put_birth_texts(at, &frame->births[i]);
	for (size_t i = 0; i < frame->n_events; i++)
		at = put_text(at, frame->events[i].text);
	for (size_t i = 0; i < frame->n_series; i++)
		at = put_text(at, frame->series[i].name);
}

struct frame *wire_frame_get(void *where)
{
	char *at = (char *) where + round_up(sizeof(struct wire_head));
	struct frame *frame = get(&at, sizeof(*frame));
	struct birth *births = get(&at, frame->n_births * sizeof(*births));
	struct event *events;
	struct series_value *series;

	frame->births = births;
	frame->readings = get(&at, frame->n_readings * sizeof(*frame->readings));
	frame->ends = get(&at, frame->n_ends * sizeof(*frame->ends));
	frame->events = events = get(&at, frame->n_events * sizeof(*events));
	frame->series = series = get(&at, frame->n_series * sizeof(*series));
	for (size_t i = 0; i < frame->n_births; i++) {
		const char **texts[BIRTH_TEXTS];
		const unsigned n = birth_texts(&births[i], texts);

		for (unsigned t = 0; t < n; t++)
			*texts[t] = get_text(&at);
	}
	for (size_t i = 0; i < frame->n_events; i++)
		events[i].text = get_text(&at);
	for (size_t i = 0; i < frame->n_series; i++)
		series[i].name = get_text(&at);
	return frame;
}

/* ---- from an untrusted process --------------------------------------------------------------- */

/* Advances *at past an array; false if it exceeds size. */
static bool skip(size_t *at, size_t size, size_t n, size_t each)
{
	if (n > size / each)
		return false;
	*at += round_up(n * each);
	return *at <= size;
}

static bool skip_texts(const char *bytes, size_t *at, size_t size, size_t n)
{
	for (; n > 0; n--) {
		const char *end = *at < size ? memchr(bytes + *at, '\0', size - *at) : NULL;

		if (!end)
			return false;
		*at = (size_t) (end - bytes) + 1;
	}
	return true;
}

bool wire_frame_is_whole(const void *where, size_t size)
{
	const char *bytes = where;
	const struct wire_head *head = where;
	size_t at = round_up(sizeof(*head)) + round_up(sizeof(struct frame));
	const struct frame *f = (const void *) (bytes + round_up(sizeof(*head)));

	if (size < at || head->size != size || head->kind != WIRE_FRAME)
		return false;
	const struct birth *births = (const void *) (bytes + at);

	if (!skip(&at, size, f->n_births, sizeof(*f->births)) ||
		!skip(&at, size, f->n_readings, sizeof(*f->readings)) ||
		!skip(&at, size, f->n_ends, sizeof(*f->ends)) ||
		!skip(&at, size, f->n_events, sizeof(*f->events)) ||
		!skip(&at, size, f->n_series, sizeof(*f->series)))
		return false;
	for (size_t i = 0; i < f->n_births; i++) {
		struct birth copy = births[i];
		const char **texts[BIRTH_TEXTS];

		if (!skip_texts(bytes, &at, size, birth_texts(&copy, texts)))
			return false;
	}
	return skip_texts(bytes, &at, size, f->n_events) && skip_texts(bytes, &at, size, f->n_series);
}
