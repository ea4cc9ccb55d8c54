/* SPDX-License-Identifier: MIT
 *
 * Writes rows into the tables of a recording. Parameters are bound in the order of schema.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/schema.h"
#include "record/store.h"

enum {
	MOST_SERIES = 4096,
	EVENT_TEXT_MOST = 4096
};

/* ---- values ---------------------------------------------------------------------------------- */

/* Number of continuation bytes that the first byte of a UTF-8 sequence announces; -1 if it is
 * not a first byte (RFC 3629). */
static int more_bytes(unsigned char c)
{
	if (c < 0x80)
		return 0;
	if (c >= 0xc2 && c <= 0xdf)
		return 1;
	if (c >= 0xe0 && c <= 0xef)
		return 2;
	return c >= 0xf0 && c <= 0xf4 ? 3 : -1;
}

static bool is_utf8(const char *text)
{
	const unsigned char *p = (const unsigned char *) text;

	while (*p) {
		unsigned char first = *p;
		int more = more_bytes(*p++);

		if (more < 0)
			return false;
		/* Overlong forms, surrogates and code points beyond U+10FFFF are visible in the
		 * second byte. */
		if ((first == 0xe0 && *p < 0xa0) || (first == 0xed && *p > 0x9f) ||
			(first == 0xf0 && *p < 0x90) || (first == 0xf4 && *p > 0x8f))
			return false;
		for (; more > 0; more--, p++) {
			if ((*p & 0xc0) != 0x80)
				return false;
		}
	}
	return true;
}

void store_bind_text(sqlite3_stmt *st, int at, const char *text)
{
	if (!text)
		(void) sqlite3_bind_null(st, at);
	else if (is_utf8(text))
		(void) sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
	else
		(void) sqlite3_bind_blob(st, at, text, (int) strlen(text), SQLITE_STATIC);
}

void store_bind_if(sqlite3_stmt *st, int at, bool is_known, int64_t value)
{
	if (is_known)
		(void) sqlite3_bind_int64(st, at, value);
	else
		(void) sqlite3_bind_null(st, at);
}

void store_bind_time(sqlite3_stmt *st, int at, uint64_t ns)
{
	(void) sqlite3_bind_int64(st, at, ns > INT64_MAX ? INT64_MAX : (int64_t) ns);
}

/* SQLite's record format: bytes of an integer in addition to its byte in the header. */
static unsigned int_bytes(int64_t value)
{
	static const struct {
		int64_t most;
		unsigned bytes;
	} sizes[] = {
		{ 1, 0 },
		{ INT8_MAX, 1 },
		{ INT16_MAX, 2 },
		{ 0x7fffff, 3 },
		{ INT32_MAX, 4 },
		{ 0x7fffffffffff, 6 },
	};

	if (value < 0)
		value = ~value;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (value <= sizes[i].most)
			return sizes[i].bytes;
	}
	return 8;
}

static void count(struct store *s, enum store_class class, uint64_t bytes)
{
	s->use[class].rows++;
	s->use[class].bytes += bytes;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* The maximum is always written, so that max() of the column is correct; a minimum equal to the
 * value is omitted. Returns the number of bytes used. */
static unsigned bind_gauge(sqlite3_stmt *st, int at, const struct cell *cell)
{
	unsigned bytes = int_bytes(cell->value) + int_bytes(cell->max);

	(void) sqlite3_bind_int64(st, at + 1, cell->value);
	(void) sqlite3_bind_int64(st, at + 2, cell->max);
	if (cell->min == cell->max)
		return bytes;
	(void) sqlite3_bind_int64(st, at, cell->min);
	return bytes + int_bytes(cell->min);
}

static unsigned bind_cells(sqlite3_stmt *st, int at, const struct row_layout *l, enum entity entity,
	bool recent, const struct row *row)
{
	unsigned bytes = 0;

	for (unsigned c = 0; c < l->n[entity]; c++) {
		const struct cell *cell = &row->cells[c];
		bool gauge = metrics[l->metric[entity][c]].kind == KIND_GAUGE && !recent;

		if (cell->known && gauge) {
			bytes += bind_gauge(st, at, cell);
		} else if (cell->known) {
			(void) sqlite3_bind_int64(st, at, cell->value);
			bytes += int_bytes(cell->value);
		}
		at += gauge ? 3 : 1;
		bytes += gauge ? 3 : 1;
	}
	return bytes;
}

static sqlite3_stmt *row_statement(struct store *s, enum entity entity, bool recent)
{
	sqlite3_stmt **st = &s->rows[entity][recent];
	struct buf sql = BUF_INIT(8192);

	if (!*st && schema_insert(&sql, &s->layout, entity, recent) == 0)
		*st = store_prepare(s, sql.data);
	buf_done(&sql);
	return *st;
}

int store_row(struct store *s, enum entity entity, bool recent, const struct row *row)
{
	sqlite3_stmt *st = row_statement(s, entity, recent);
	unsigned bytes;
	int at = 1;

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_clear_bindings(st);
	store_bind_time(st, at++, row->t_ns);
	if (entity_has_id(entity))
		(void) sqlite3_bind_int64(st, at++, row->id);
	store_bind_time(st, at++, row->span_ns);
	(void) sqlite3_bind_int64(st, at++, row->n);
	if (recent)
		row_burst_write(row, &s->layout, entity, &s->part);
	else
		row_part_write(row, &s->layout, entity, &s->part);
	if (s->part.len > 0)
		(void) sqlite3_bind_text(st, at, s->part.data, (int) s->part.len, SQLITE_STATIC);
	at++;
	bytes = bind_cells(st, at, &s->layout, entity, recent, row);
	count(s, recent ? CLASS_RECENT : CLASS_SAMPLE, bytes + 20 + s->part.len);
	return store_step(s, st);
}

/* ---- meta ------------------------------------------------------------------------------------ */

int store_meta_int(struct store *s, const char *key, int64_t value)
{
	sqlite3_stmt *st = store_get(s, PUT_META);

	if (!st)
		return store_step(s, NULL);
	store_bind_text(st, 1, key);
	(void) sqlite3_bind_int64(st, 2, value);
	return store_step(s, st);
}

int store_meta_text(struct store *s, const char *key, const char *value)
{
	sqlite3_stmt *st = store_get(s, PUT_META);

	if (!st)
		return store_step(s, NULL);
	store_bind_text(st, 1, key);
	store_bind_text(st, 2, value);
	return store_step(s, st);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static int put_process_birth(struct store *s, const struct birth *b, uint64_t time_ns)
{
	sqlite3_stmt *st = store_get(s, PUT_PROCESS_BIRTH);
	const struct process_birth *p = &b->process;

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, b->id);
	(void) sqlite3_bind_int64(st, 2, p->parent);
	(void) sqlite3_bind_int64(st, 3, p->pid);
	(void) sqlite3_bind_int64(st, 4, p->ppid);
	(void) sqlite3_bind_int64(st, 5, p->uid);
	store_bind_time(st, 6, p->start_ns);
	(void) sqlite3_bind_int64(st, 7, (int64_t) p->startstack);
	store_bind_time(st, 8, time_ns);
	(void) sqlite3_bind_int64(st, 9, p->is_main);
	store_bind_text(st, 10, p->name);
	store_bind_text(st, 11, p->command);
	store_bind_if(st, 12, p->rank.known, p->rank.value);
	count(s, CLASS_PROCESS, 120 + strlen(p->name ? p->name : "") + strlen(p->command ? p->command : ""));
	return store_step(s, st);
}

static int put_gpu_birth(struct store *s, const struct birth *b, uint64_t time_ns)
{
	sqlite3_stmt *st = store_get(s, PUT_GPU);

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, b->id);
	store_bind_text(st, 2, b->gpu.uuid);
	store_bind_text(st, 3, b->gpu.name);
	store_bind_text(st, 4, b->gpu.vendor);
	store_bind_if(st, 5, b->gpu.index.known, b->gpu.index.value);
	store_bind_if(st, 6, b->gpu.memory_bytes.known, b->gpu.memory_bytes.value);
	store_bind_time(st, 7, time_ns);
	store_bind_text(st, 8, b->gpu.pci);
	store_bind_text(st, 9, b->gpu.parent);
	store_bind_text(st, 10, b->gpu.driver);
	store_bind_if(st, 11, b->gpu.cuda_index.known, b->gpu.cuda_index.value);
	(void) sqlite3_bind_int64(st, 12, b->gpu.unified);
	(void) sqlite3_bind_int64(st, 13, b->gpu.is_module);
	(void) sqlite3_bind_int64(st, 14, b->gpu.is_numa);
	store_bind_if(st, 15, b->gpu.power_span_ns.known, b->gpu.power_span_ns.value);
	return store_step(s, st);
}

static int put_gpu_process_birth(struct store *s, const struct birth *b, uint64_t time_ns)
{
	sqlite3_stmt *st = store_get(s, PUT_GPU_PROCESS);

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, b->id);
	(void) sqlite3_bind_int64(st, 2, b->gpu_process.gpu);
	(void) sqlite3_bind_int64(st, 3, b->gpu_process.process);
	store_bind_if(st, 4, b->gpu_process.pid.known, b->gpu_process.pid.value);
	store_bind_time(st, 5, time_ns);
	store_bind_if(st, 6, b->gpu_process.uid.known, b->gpu_process.uid.value);
	store_bind_text(st, 7, b->gpu_process.name);
	(void) sqlite3_bind_int64(st, 8, b->gpu_process.compute);
	(void) sqlite3_bind_int64(st, 9, b->gpu_process.graphics);
	return store_step(s, st);
}

static int put_birth(struct store *s, const struct birth *birth, uint64_t time_ns)
{
	if (birth->entity == ENTITY_PROCESS)
		return put_process_birth(s, birth, time_ns);
	if (birth->entity == ENTITY_GPU)
		return put_gpu_birth(s, birth, time_ns);
	if (birth->entity == ENTITY_GPU_PROCESS)
		return put_gpu_process_birth(s, birth, time_ns);
	return 0;
}

static int put_end(struct store *s, const struct end *end, uint64_t time_ns)
{
	bool process = end->entity == ENTITY_PROCESS;
	sqlite3_stmt *st;

	if (!entity_has_id(end->entity))
		return 0;
	st = store_get(s, process ? PUT_PROCESS_END : end->entity == ENTITY_GPU ? END_GPU
										: END_GPU_PROCESS);
	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, end->id);
	store_bind_time(st, 2, time_ns);
	if (process) {
		(void) sqlite3_bind_text(st, 3, how_name(end->how), -1, SQLITE_STATIC);
		store_bind_if(st, 4, end->status_known, end->status);
	}
	return store_step(s, st);
}

/* The largest length up to most at which text can be cut without splitting a UTF-8 character. */
static size_t text_end(const char *text, size_t most)
{
	size_t len = strnlen(text, most + 1);

	if (len <= most)
		return len;
	for (len = most; len > most - 4 && ((unsigned char) text[len] & 0xc0) == 0x80; len--)
		;
	return len;
}

static int put_event(struct store *s, const struct event *event)
{
	sqlite3_stmt *st = store_get(s, PUT_EVENT);
	size_t len = text_end(event->text, EVENT_TEXT_MOST);
	char text[EVENT_TEXT_MOST + 1];

	if (!st || event->kind >= EVENT_KIND_COUNT || event->entity >= ENTITY_COUNT)
		return st ? 0 : store_step(s, NULL);
	memcpy(text, event->text, len);
	text[len] = '\0';
	store_bind_time(st, 1, event->time_ns);
	(void) sqlite3_bind_text(st, 2, event_name(event->kind), -1, SQLITE_STATIC);
	(void) sqlite3_bind_text(st, 3, entity_name(event->entity), -1, SQLITE_STATIC);
	(void) sqlite3_bind_int64(st, 4, event->id);
	(void) sqlite3_bind_int64(st, 5, event->phase);
	(void) sqlite3_bind_int64(st, 6, event->value_ns);
	store_bind_text(st, 7, text);
	(void) sqlite3_bind_text(
		st, 8, event->kind == EVENT_NOTE ? cause_name(event->cause) : NULL, -1, SQLITE_STATIC);
	count(s, CLASS_EVENT, 40 + len);
	return store_step(s, st);
}

/* ---- series ---------------------------------------------------------------------------------- */

uint64_t store_hash(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a */

	for (; *name; name++)
		hash = (hash ^ (unsigned char) *name) * 0x100000001b3U;
	return hash;
}

/* The index of name in series; n_series if it is new. */
static size_t series_place(const struct store *s, const char *name)
{
	uint32_t place;

	if (map_get(&s->series_places, store_hash(name), &place) && strcmp(s->series[place], name) == 0)
		return place;
	for (size_t i = 0; map_get(&s->series_places, store_hash(name), &place) && i < s->n_series; i++) {
		if (strcmp(s->series[i], name) == 0)
			return i;
	}
	return s->n_series;
}

int store_series(struct store *s, const char *name, int64_t *ret_id)
{
	size_t place = series_place(s, name);
	sqlite3_stmt *st;
	char *copy;

	*ret_id = 0;
	if (place == s->n_series) {
		if (s->n_series >= MOST_SERIES)
			return 0;
		st = store_get(s, PUT_SERIES);
		if (!st ||
			vec_reserve(
				&s->series, &s->cap_series, s->n_series, sizeof(*s->series), MOST_SERIES) < 0)
			return -ENOMEM;
		copy = strdup(name);
		if (!copy || map_put(&s->series_places, store_hash(name), (uint32_t) place) < 0) {
			free(copy);
			return -ENOMEM;
		}
		s->series[s->n_series++] = copy;
		(void) sqlite3_bind_int64(st, 1, (int64_t) place + 1);
		store_bind_text(st, 2, name);
		*ret_id = (int64_t) place + 1;
		return store_step(s, st);
	}
	*ret_id = (int64_t) place + 1;
	return 0;
}

static int put_value(struct store *s, const struct series_value *v, uint64_t time_ns)
{
	sqlite3_stmt *st = store_get(s, PUT_VALUE);
	int64_t id;
	int r = st ? store_series(s, v->name, &id) : store_step(s, NULL);

	if (r < 0 || id == 0)
		return r;
	store_bind_time(st, 1, time_ns);
	(void) sqlite3_bind_int64(st, 2, id);
	store_bind_if(st, 3, v->has_step, v->step);
	(void) sqlite3_bind_double(st, 4, v->value); /* SQLite stores NaN as NULL */
	count(s, CLASS_SERIES, 30);
	return store_step(s, st);
}

int store_frame(struct store *s, const struct frame *frame)
{
	int r = 0;

	for (size_t i = 0; i < frame->n_births && r == 0; i++)
		r = put_birth(s, &frame->births[i], frame->time_ns);
	for (size_t i = 0; i < frame->n_ends && r == 0; i++)
		r = put_end(s, &frame->ends[i], frame->time_ns);
	for (size_t i = 0; i < frame->n_events && r == 0; i++)
		r = put_event(s, &frame->events[i]);
	for (size_t i = 0; i < frame->n_series && r == 0; i++)
		r = put_value(s, &frame->series[i], frame->time_ns);
	return r;
}
