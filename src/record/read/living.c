/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/read/replay_internal.h"
#include "record/schema.h"

enum {
	MOST_LIVING = 1 << 16
};

static uint64_t key_of(enum entity entity, uint32_t id)
{
	return (uint64_t) entity << 32 | id;
}

/* Advances to the next birth; skips malformed rows. */
static void step(struct population *p, struct births *b)
{
	uint64_t before = b->born_ns;
	int rc = SQLITE_DONE;

	b->pending = false;
	while (b->statement && !b->pending && (rc = sqlite3_step(b->statement)) == SQLITE_ROW) {
		b->pending = reader_id(b->statement, 0, &b->id) && reader_time(b->statement, 1, &b->born_ns);
		if (b->pending && b->born_ns < before)
			b->born_ns = before; /* ids increase with time */
	}
	if (rc != SQLITE_ROW && rc != SQLITE_DONE && p->error == 0)
		p->error = reader_error(p->r, rc, NULL);
}

void population_init(struct population *p, struct replay *r, uint64_t from_ns)
{
	*p = (struct population) { .r = r, .next_end_ns = UINT64_MAX, .from_ns = from_ns };
	for (int i = 0; i < BIRTHS; i++)
		p->births[i].entity = birth_tables[i].entity;
}

void population_close(struct population *p)
{
	for (int i = 0; i < BIRTHS; i++) {
		(void) sqlite3_finalize(p->births[i].statement);
		p->births[i].statement = NULL;
		p->births[i].pending = false;
	}
}

void population_done(struct population *p)
{
	population_close(p);
	for (size_t i = 0; i < p->n_living; i++)
		free(p->living[i].cells);
	free(p->living);
	map_done(&p->places);
}

uint64_t population_next(const struct population *p)
{
	uint64_t next = p->next_end_ns;

	for (int i = 0; i < BIRTHS; i++) {
		if (p->births[i].pending && p->births[i].born_ns < next)
			next = p->births[i].born_ns;
	}
	return next;
}

/* ---- births ---------------------------------------------------------------------------------- */

/* When and how it ended, if it ended; not before at_least_ns. */
static void read_end(struct living *l, sqlite3_stmt *st, uint64_t least_ns)
{
	if (reader_time(st, 2, &l->ended_ns) && l->ended_ns < least_ns)
		l->ended_ns = least_ns;
	if (l->entity == ENTITY_PROCESS) {
		int how = how_find(reader_text(st, 3));

		l->how = how < 0 ? END_SEEN : (enum end_how) how;
		l->status.known = reader_int(st, 4, &l->status.value);
	}
}

static void add_living(struct population *p, const struct births *b)
{
	struct living l = { .entity = b->entity, .id = b->id, .ended_ns = UINT64_MAX };

	read_end(&l, b->statement, b->born_ns);
	if (vec_reserve(&p->living, &p->cap_living, p->n_living, sizeof(l), MOST_LIVING) < 0 ||
		map_put(&p->places, key_of(l.entity, l.id), (uint32_t) p->n_living) < 0)
		return; /* beyond the limit of any recording: its rows are ignored */
	p->living[p->n_living++] = l;
	if (l.ended_ns < p->next_end_ns)
		p->next_end_ns = l.ended_ns;
}

static void append_birth(struct population *p, struct births *b, struct framebuf *out)
{
	struct birth birth = birth_read(b->entity, b->statement);

	b->last_id = b->id;
	if (!population_find(p, b->entity, b->id)) {
		framebuf_birth(out, &birth);
		add_living(p, b);
	}
	step(p, b);
}

void population_births(struct population *p, uint64_t time_ns, struct framebuf *out)
{
	for (int i = 0; i < BIRTHS; i++) {
		while (p->births[i].pending && p->births[i].born_ns <= time_ns)
			append_birth(p, &p->births[i], out);
	}
}

void population_births_to(struct population *p, enum entity entity, uint32_t id, struct framebuf *out)
{
	for (int i = 0; i < BIRTHS; i++) {
		struct births *b = &p->births[i];

		while (b->entity == entity && b->pending && b->id <= id)
			append_birth(p, b, out);
	}
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void forget(struct population *p, size_t place)
{
	struct living *last = &p->living[p->n_living - 1];

	map_remove(&p->places, key_of(p->living[place].entity, p->living[place].id));
	free(p->living[place].cells);
	if (&p->living[place] != last) {
		p->living[place] = *last;
		(void) map_put(&p->places, key_of(last->entity, last->id), (uint32_t) place);
	}
	p->n_living--;
}

void population_ends(struct population *p, struct framebuf *out)
{
	const uint64_t now = p->next_end_ns;

	p->next_end_ns = UINT64_MAX;
	for (size_t i = p->n_living; i > 0; i--) {
		const struct living *l = &p->living[i - 1];
		struct end end = { .entity = l->entity, .id = l->id, .how = l->how };

		if (l->ended_ns != now) {
			if (l->ended_ns < p->next_end_ns)
				p->next_end_ns = l->ended_ns;
			continue;
		}
		end.status_known = l->status.known;
		end.status = (int32_t) l->status.value;
		framebuf_end(out, &end);
		forget(p, i - 1);
	}
}

/* ---- stretches ------------------------------------------------------------------------------- */

/* Reads the ends that were written since the last stretch. */
static void read_new_ends(struct population *p, const struct birth_table *table, uint64_t since_ns)
{
	char behind[64];
	sqlite3_stmt *st;
	uint32_t id;

	(void) snprintf(behind, sizeof(behind), "WHERE ended >= %" PRIu64, since_ns);
	st = reader_table(p->r, table->table, table->columns, behind);
	while (st && sqlite3_step(st) == SQLITE_ROW) {
		struct living *l = reader_id(st, 0, &id) ? population_find(p, table->entity, id) : NULL;

		if (!l || l->ended_ns != UINT64_MAX)
			continue;
		read_end(l, st, since_ns);
		if (l->ended_ns < p->next_end_ns)
			p->next_end_ns = l->ended_ns;
	}
	(void) sqlite3_finalize(st);
}

int population_open(struct population *p, uint64_t since_ns)
{
	const uint64_t slack = 60000000000; /* the writer may be behind by this much */
	char behind[128];

	for (int i = 0; i < BIRTHS; i++) {
		struct births *b = &p->births[i];

		if (p->n_living > 0)
			read_new_ends(p, &birth_tables[i], since_ns > slack ? since_ns - slack : 0);
		(void) snprintf(behind, sizeof(behind),
			"WHERE id > %" PRIu32 " AND (ended IS NULL OR ended >= %" PRIu64 ") ORDER BY id",
			b->last_id, p->from_ns);
		b->statement = reader_table(p->r, birth_tables[i].table, birth_tables[i].columns, behind);
		step(p, b);
	}
	return p->error;
}

/* ---- finding --------------------------------------------------------------------------------- */

struct living *population_find(const struct population *p, enum entity entity, uint32_t id)
{
	uint32_t place;

	return map_get(&p->places, key_of(entity, id), &place) ? &p->living[place] : NULL;
}

void living_remember(struct population *p, struct living *l, const struct row *row)
{
	const size_t size = p->r->layout.n[ENTITY_PROCESS] * sizeof(*l->cells);

	if (!l->cells)
		l->cells = malloc(size);
	l->has_state = l->cells != NULL;
	if (l->cells)
		memcpy(l->cells, row->cells, size);
	else if (p->error == 0)
		p->error = -ENOMEM;
}

/* ---- rows of processes, GPUs and processes on GPUs as births --------------------------------- */

const struct birth_table birth_tables[BIRTHS] = {
	{ ENTITY_PROCESS, "process",
		{ "id", "born", "ended", "end_source", "status", "pid", "ppid", "parent", "uid", "start",
			"startstack", "name", "command", "is_main", "rank" } },
	{ ENTITY_GPU, "gpu",
		{ "id", "born", "ended", "uuid", "name", "vendor", "number", "memory", "pci", "parent",
			"driver", "cuda", "unified", "is_module", "is_numa", "power_span" } },
	{ ENTITY_GPU_PROCESS, "gpu_process",
		{ "id", "born", "ended", "gpu", "process", "pid", "uid", "name", "compute", "graphics" } },
};

static struct birth read_process(sqlite3_stmt *st)
{
	struct birth b = { .entity = ENTITY_PROCESS };

	b.process.pid = (int32_t) reader_int_or(st, 5, 0);
	b.process.ppid = (int32_t) reader_int_or(st, 6, 0);
	(void) reader_id(st, 7, &b.process.parent);
	(void) reader_id(st, 8, &b.process.uid);
	(void) reader_time(st, 9, &b.process.start_ns);
	b.process.startstack = (uint64_t) reader_int_or(st, 10, 0);
	b.process.name = reader_text(st, 11);
	b.process.command = reader_text(st, 12);
	b.process.is_main = reader_int_or(st, 13, 0) != 0;
	b.process.rank = reader_maybe(st, 14);
	return b;
}

static struct birth read_gpu(sqlite3_stmt *st)
{
	struct birth b = { .entity = ENTITY_GPU };

	b.gpu.uuid = reader_text(st, 3);
	b.gpu.name = reader_text(st, 4);
	b.gpu.vendor = reader_text(st, 5);
	b.gpu.index = reader_maybe(st, 6);
	b.gpu.memory_bytes = reader_maybe(st, 7);
	b.gpu.pci = reader_text(st, 8);
	b.gpu.parent = reader_text(st, 9);
	b.gpu.driver = reader_text(st, 10);
	b.gpu.cuda_index = reader_maybe(st, 11);
	b.gpu.unified = reader_int_or(st, 12, 0) != 0;
	b.gpu.is_module = reader_int_or(st, 13, 0) != 0;
	b.gpu.is_numa = reader_int_or(st, 14, 0) != 0;
	b.gpu.power_span_ns = reader_maybe(st, 15);
	return b;
}

static struct birth read_gpu_process(sqlite3_stmt *st)
{
	struct birth b = { .entity = ENTITY_GPU_PROCESS };

	(void) reader_id(st, 3, &b.gpu_process.gpu);
	(void) reader_id(st, 4, &b.gpu_process.process);
	b.gpu_process.pid = reader_maybe(st, 5);
	b.gpu_process.uid = reader_maybe(st, 6);
	b.gpu_process.name = reader_text(st, 7);
	b.gpu_process.compute = reader_int_or(st, 8, 0) != 0;
	b.gpu_process.graphics = reader_int_or(st, 9, 0) != 0;
	return b;
}

struct birth birth_read(enum entity entity, sqlite3_stmt *st)
{
	static struct birth (*const readers[ENTITY_COUNT])(sqlite3_stmt *st) = {
		[ENTITY_PROCESS] = read_process,
		[ENTITY_GPU] = read_gpu,
		[ENTITY_GPU_PROCESS] = read_gpu_process,
	};
	struct birth b = readers[entity](st);

	(void) reader_id(st, 0, &b.id);
	return b;
}

/* ---- events ---------------------------------------------------------------------------------- */

const char *const event_columns[] = { "t", "kind", "entity", "id", "phase", "value", "text", "cause", "rowid",
	NULL };

bool event_read(sqlite3_stmt *st, struct event *ret)
{
	const int kind = event_find(reader_text(st, 1)), entity = entity_find(reader_text(st, 2));

	*ret = (struct event) { .value_ns = reader_int_or(st, 5, 0), .text = reader_text(st, 6) };
	if (kind < 0 || entity < 0 || !reader_time(st, 0, &ret->time_ns))
		return false;
	ret->kind = (enum event_kind) kind;
	ret->entity = (enum entity) entity;
	(void) reader_id(st, 3, &ret->id);
	(void) reader_id(st, 4, &ret->phase);
	if (ret->kind == EVENT_NOTE)
		ret->cause = cause_find(reader_text(st, 7));
	return true;
}
