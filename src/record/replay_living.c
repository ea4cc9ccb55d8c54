/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/replay_internal.h"
#include "record/schema.h"

enum {
	MOST_LIVING = 1 << 16
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

		b->entity = birth_tables[i].entity;
		b->statement = reader_table(r, birth_tables[i].table, birth_tables[i].columns, "WHERE id > 0 ORDER BY id");
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

static void add_living(struct population *p, const struct births *b)
{
	struct living l = { .entity = b->entity, .id = b->id, .ended_ns = UINT64_MAX };

	if (reader_time(b->statement, 2, &l.ended_ns) && l.ended_ns < b->born_ns)
		l.ended_ns = b->born_ns;
	if (b->entity == ENTITY_PROCESS) {
		int how = how_find(reader_text(b->statement, 3));

		l.how = how < 0 ? END_SEEN : (enum end_how) how;
		l.status.known = reader_int(b->statement, 4, &l.status.value);
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
	struct birth birth = birth_read(b->entity, b->statement);

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
