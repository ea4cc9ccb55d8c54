/* SPDX-License-Identifier: MIT */
#include "model/framebuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
	MAX_ENTRIES = 1 << 20, /* of a kind: far more than the processes of any machine */
	TEXT_FIRST =
		4096, /* bytes of the first block of texts; each further one is twice as large */
	TEXT_LARGEST = 1 << 20,
};

struct framebuf_text {
	struct framebuf_text *next;
	size_t cap, used;
	char bytes[];
};

/* Appends a block of at least size bytes after last (NULL: as the first). NULL: out of memory. */
static struct framebuf_text *text_block(struct framebuf *b, struct framebuf_text *last, size_t size)
{
	size_t cap = last ? last->cap * 2 : TEXT_FIRST;
	struct framebuf_text *block;

	if (cap > TEXT_LARGEST)
		cap = TEXT_LARGEST;
	if (cap < size)
		cap = size;
	block = malloc(sizeof(*block) + cap);
	if (!block)
		return NULL;
	block->next = NULL;
	block->cap = cap;
	block->used = 0;
	if (last)
		last->next = block;
	else
		b->text = block;
	return block;
}

/* Replaces *text by a copy that is valid until the next clear. */
static int keep_text(struct framebuf *b, const char **text)
{
	const char *from = *text ? *text : "";
	size_t size = strlen(from) + 1;
	struct framebuf_text *block = b->text, *last = NULL;

	for (; block && block->cap - block->used < size; block = block->next)
		last = block;
	if (!block)
		block = text_block(b, last, size);
	if (!block)
		return -ENOMEM;
	*text = memcpy(block->bytes + block->used, from, size);
	block->used += size;
	return 0;
}

unsigned birth_texts(struct birth *b, const char **texts[BIRTH_TEXTS])
{
	unsigned n = 0;

	if (b->entity == ENTITY_PROCESS) {
		texts[n++] = &b->process.name;
		texts[n++] = &b->process.command;
	} else if (b->entity == ENTITY_GPU) {
		texts[n++] = &b->gpu.uuid;
		texts[n++] = &b->gpu.name;
		texts[n++] = &b->gpu.vendor;
		texts[n++] = &b->gpu.pci;
		texts[n++] = &b->gpu.parent;
		texts[n++] = &b->gpu.driver;
	} else if (b->entity == ENTITY_GPU_PROCESS) {
		texts[n++] = &b->gpu_process.name;
	}
	return n;
}

static int keep_birth_texts(struct framebuf *b, struct birth *birth)
{
	const char **texts[BIRTH_TEXTS];
	const unsigned n = birth_texts(birth, texts);
	int code = 0;

	for (unsigned i = 0; i < n && code == 0; i++)
		code = keep_text(b, texts[i]);
	return code;
}

/* Stores the first error. Returns true if code is no error. */
static bool is_fine(struct framebuf *b, int code)
{
	if (code < 0 && b->error == 0)
		b->error = code;
	return code == 0;
}

void framebuf_birth(struct framebuf *b, const struct birth *birth)
{
	struct birth copy = *birth;

	if (is_fine(b,
		    vec_reserve(&b->births, &b->cap_births, b->n_births, sizeof(copy), MAX_ENTRIES)) &&
		is_fine(b, keep_birth_texts(b, &copy)))
		b->births[b->n_births++] = copy;
}

void framebuf_reading(struct framebuf *b, struct reading reading)
{
	if (is_fine(b, vec_reserve(&b->readings, &b->cap_readings, b->n_readings, sizeof(reading),
			       MAX_ENTRIES)))
		b->readings[b->n_readings++] = reading;
}

void framebuf_end(struct framebuf *b, const struct end *end)
{
	if (is_fine(b, vec_reserve(&b->ends, &b->cap_ends, b->n_ends, sizeof(*end), MAX_ENTRIES)))
		b->ends[b->n_ends++] = *end;
}

void framebuf_event(struct framebuf *b, const struct event *event)
{
	struct event copy = *event;

	if (is_fine(b,
		    vec_reserve(&b->events, &b->cap_events, b->n_events, sizeof(copy), MAX_ENTRIES)) &&
		is_fine(b, keep_text(b, &copy.text)))
		b->events[b->n_events++] = copy;
}

void framebuf_series(struct framebuf *b, const struct series_value *value)
{
	struct series_value copy = *value;

	if (is_fine(b,
		    vec_reserve(&b->series, &b->cap_series, b->n_series, sizeof(copy), MAX_ENTRIES)) &&
		is_fine(b, keep_text(b, &copy.name)))
		b->series[b->n_series++] = copy;
}

void framebuf_value(struct framebuf *b, enum metric metric, uint32_t id, int64_t value)
{
	framebuf_reading(b, reading_of(metric, id, value));
}

void framebuf_unknown(struct framebuf *b, enum metric metric, uint32_t id)
{
	framebuf_reading(b, (struct reading) { .id = id, .metric = (uint16_t) metric, .n = 1 });
}

struct frame framebuf_frame(
	const struct framebuf *b, enum frame_source source, uint64_t time_ns, uint64_t hold_ns)
{
	return (struct frame) {
		.time_ns = time_ns,
		.hold_ns = hold_ns,
		.source = source,
		.live = true,
		.n_births = b->n_births,
		.n_ends = b->n_ends,
		.n_readings = b->n_readings,
		.n_events = b->n_events,
		.n_series = b->n_series,
		.births = b->births,
		.readings = b->readings,
		.ends = b->ends,
		.events = b->events,
		.series = b->series,
	};
}

bool framebuf_is_empty(const struct framebuf *b)
{
	return b->n_births + b->n_readings + b->n_ends + b->n_events + b->n_series == 0;
}

void framebuf_clear(struct framebuf *b)
{
	b->n_births = b->n_readings = b->n_ends = b->n_events = b->n_series = 0;
	b->error = 0;
	for (struct framebuf_text *block = b->text; block; block = block->next)
		block->used = 0;
}

void framebuf_done(struct framebuf *b)
{
	for (struct framebuf_text *block = b->text, *next; block; block = next) {
		next = block->next;
		free(block);
	}
	free(b->births);
	free(b->readings);
	free(b->ends);
	free(b->events);
	free(b->series);
	*b = (struct framebuf) { 0 };
}
