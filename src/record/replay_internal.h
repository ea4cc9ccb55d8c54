/* SPDX-License-Identifier: MIT
 *
 * What replay_frames.c (the order of time), replay_living.c (who lives) and replay_job.c (what became of it) share. Nobody else includes it.
 */
#pragma once

#include "base/map.h"
#include "framebuf.h"
#include "record/reader.h"

/* An entity with births and ends, between the two. */
struct living {
	enum entity entity;
	uint32_t id;
	uint64_t ended_ns;      /* UINT64_MAX: it lived on */
	enum end_how how;
	struct maybe status;
	bool has_state;
	struct cell *cells;     /* a process's last row, if has_state */
};

/* Births of one entity, in the order of their ids. */
struct births {
	sqlite3_stmt *statement;
	enum entity entity;
	bool waits;             /* the statement stands on one */
	uint32_t id;
	uint64_t born_ns;
};

enum {
	BIRTHS = 3,
	BIRTH_COLUMNS = 16
};

/* replay_births.c: where births are kept. */
struct birth_table {
	enum entity entity;
	const char *table;
	const char *columns[BIRTH_COLUMNS]; /* id, born, ended first; NULL behind the last */
};
extern const struct birth_table birth_tables[BIRTHS];
/* A row of those columns; texts live until the statement moves. */
struct birth birth_read(enum entity entity, sqlite3_stmt *st);

struct population {
	struct replay *r;
	struct births births[BIRTHS];
	struct living *living;
	size_t n_living, cap_living;
	struct map places;      /* from entity and id */
	uint64_t next_end_ns;
	int error;
};

int population_open(struct population *p, struct replay *r);
void population_done(struct population *p);

/* Time of the next birth or end; UINT64_MAX: none. */
uint64_t population_next(const struct population *p);

/* Puts births into out: those up to time_ns, and all of entity up to id (0: none), whose readings come next. */
void population_births(struct population *p, uint64_t time_ns, struct framebuf *out);
void population_births_to(struct population *p, enum entity entity, uint32_t id, struct framebuf *out);

/* Puts the ends at exactly next_end_ns into out and forgets who ended. */
void population_ends(struct population *p, struct framebuf *out);

/* Who has this id and lives; NULL. Valid until the next birth or end. */
struct living *population_find(const struct population *p, enum entity entity, uint32_t id);

/* Remembers a process's row. */
void living_remember(struct population *p, struct living *l, const struct row *row);
