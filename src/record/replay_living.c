/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/replay_internal.h"
#include "record/schema.h"

enum {
	MOST_LIVING = 1 << 16,
	PROCESS,
	GPU,
	GPU_PROCESS
};

enum {
	MOST_COLUMNS = 16
};

static const struct {
	enum entity entity;
	const char *table;
	const char *columns[MOST_COLUMNS]; /* id, born, ended first */
} sources[BIRTHS] = {
	{ ENTITY_PROCESS, "process", { "id", "born", "ended", "how", "status", "pid", "ppid", "parent", "uid", "start", "startstack", "name", "command", "is_main" } },
	{ ENTITY_GPU, "gpu", { "id", "born", "ended", "uuid", "name", "vendor", "number", "memory", "pci", "parent", "driver", "cuda", "unified", "is_module" } },
	{ ENTITY_GPU_PROCESS, "gpu_process", { "id", "born", "ended", "gpu", "process", "pid", "uid", "name", "compute", "graphics" } },
};

static uint64_t key_of(enum entity entity, uint32_t id)
{
	return (uint64_t) entity << 32 | id;
}

/* Moves to the next birth; what is none is passed over. */
static void step(struct population *p, struct births *b)
{
	uint64_t before = b->born_ns;
	int rc = SQLITE_DONE;

	b->waits = false;
	while (b->statement && !b->waits && (rc = sqlite3_step(b->statement)) == SQLITE_ROW) {
		b->waits = reader_id(b->statement, 0, &b->id) && reader_time(b->statement, 1, &b->born_ns);
		if (b->waits && b->born_ns < before)
			b->born_ns = before; /* ids only grow */
	}
	if (rc != SQLITE_ROW && rc != SQLITE_DONE && p->error == 0)
		p->error = reader_error(p->r, rc, NULL);
}

int population_open(struct population *p, struct replay *r)
{
	*p = (struct population) { .r = r, .next_end_ns = UINT64_MAX };
	for (int i = 0; i < BIRTHS; i++) {
		struct births *b = &p->births[i];

		b->entity = sources[i].entity;
		b->statement = reader_table(r, sources[i].table, sources[i].columns, "WHERE id > 0 ORDER BY id");
		step(p, b);
	}
	return p->error;
}

void population_done(struct population *p)
{
	for (int i = 0; i < BIRTHS; i++)
		(void) sqlite3_finalize(p->births[i].statement);
	for (size_t i = 0; i < p->n_living; i++)
		free(p->living[i].cells);
	free(p->living);
	map_done(&p->places);
}

uint64_t population_next(const struct population *p)
{
	uint64_t next = p->next_end_ns;

	for (int i = 0; i < BIRTHS; i++) {
		if (p->births[i].waits && p->births[i].born_ns < next)
			next = p->births[i].born_ns;
	}
	return next;
}

/* ---- births --------------------------------------------------------------------------------------------------------- */

static struct maybe maybe_int(sqlite3_stmt *st, int column)
{
	struct maybe value = UNKNOWN;

	value.known = reader_int(st, column, &value.value);
	return value;
}

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
	return b;
}

static struct birth read_gpu(sqlite3_stmt *st)
{
	struct birth b = { .entity = ENTITY_GPU };

	b.gpu.uuid = reader_text(st, 3);
	b.gpu.name = reader_text(st, 4);
	b.gpu.vendor = reader_text(st, 5);
	b.gpu.index = maybe_int(st, 6);
	b.gpu.memory_bytes = maybe_int(st, 7);
	b.gpu.pci = reader_text(st, 8);
	b.gpu.parent = reader_text(st, 9);
	b.gpu.driver = reader_text(st, 10);
	b.gpu.cuda_index = maybe_int(st, 11);
	b.gpu.unified = reader_int_or(st, 12, 0) != 0;
	b.gpu.is_module = reader_int_or(st, 13, 0) != 0;
	return b;
}

static struct birth read_gpu_process(sqlite3_stmt *st)
{
	struct birth b = { .entity = ENTITY_GPU_PROCESS };

	(void) reader_id(st, 3, &b.gpu_process.gpu);
	(void) reader_id(st, 4, &b.gpu_process.process);
	b.gpu_process.pid = maybe_int(st, 5);
	b.gpu_process.uid = maybe_int(st, 6);
	b.gpu_process.name = reader_text(st, 7);
	b.gpu_process.compute = reader_int_or(st, 8, 0) != 0;
	b.gpu_process.graphics = reader_int_or(st, 9, 0) != 0;
	return b;
}

static struct birth read_birth(const struct births *births)
{
	static struct birth (*const readers[ENTITY_COUNT])(sqlite3_stmt *st) = {
		[ENTITY_PROCESS] = read_process,
		[ENTITY_GPU] = read_gpu,
		[ENTITY_GPU_PROCESS] = read_gpu_process,
	};
	struct birth b = readers[births->entity](births->statement);

	b.id = births->id;
	return b;
}

static void add_living(struct population *p, const struct births *b)
{
	struct living l = { .entity = b->entity, .id = b->id, .ended_ns = UINT64_MAX };

	if (reader_time(b->statement, 2, &l.ended_ns) && l.ended_ns < b->born_ns)
		l.ended_ns = b->born_ns;
	if (b->entity == ENTITY_PROCESS) {
		int how = how_find(reader_text(b->statement, 3));

		l.how = how < 0 ? END_SEEN : (enum end_how) how;
		l.status = maybe_int(b->statement, 4);
	}
	if (vec_room(&p->living, &p->cap_living, p->n_living, sizeof(l), MOST_LIVING) < 0 ||
		map_put(&p->places, key_of(l.entity, l.id), (uint32_t) p->n_living) < 0)
		return; /* more than a recording ever has; its rows are left out */
	p->living[p->n_living++] = l;
	if (l.ended_ns < p->next_end_ns)
		p->next_end_ns = l.ended_ns;
}

static void bear(struct population *p, struct births *b, struct framebuf *out)
{
	struct birth birth = read_birth(b);

	if (!population_find(p, b->entity, b->id)) {
		framebuf_birth(out, &birth);
		add_living(p, b);
	}
	step(p, b);
}

void population_births(struct population *p, uint64_t time_ns, struct framebuf *out)
{
	for (int i = 0; i < BIRTHS; i++) {
		while (p->births[i].waits && p->births[i].born_ns <= time_ns)
			bear(p, &p->births[i], out);
	}
}

void population_births_to(struct population *p, enum entity entity, uint32_t id, struct framebuf *out)
{
	for (int i = 0; i < BIRTHS; i++) {
		struct births *b = &p->births[i];

		while (b->entity == entity && b->waits && b->id <= id)
			bear(p, b, out);
	}
}

/* ---- ends ----------------------------------------------------------------------------------------------------------- */

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

/* ---- looking -------------------------------------------------------------------------------------------------------- */

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
