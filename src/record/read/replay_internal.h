/* SPDX-License-Identifier: MIT
 *
 * What frames.c (the order of time), player.c (in stretches), living.c (who lives, and births) and job.c
 * (what became of it) share. Nobody else includes it.
 */
#pragma once

#include "base/map.h"
#include "model/framebuf.h"
#include "record/read/reader.h"

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
	uint32_t last_id;       /* of those that were given out */
};

enum {
	BIRTHS = 3,
	BIRTH_COLUMNS = 16
};

/* living.c: where births are kept. */
struct birth_table {
	enum entity entity;
	const char *table;
	const char *columns[BIRTH_COLUMNS]; /* id, born, ended first; NULL behind the last */
};
extern const struct birth_table birth_tables[BIRTHS];
/* A row of those columns; texts live until the statement moves. */
struct birth birth_read(enum entity entity, sqlite3_stmt *st);

/* What is selected of events, and a row of that; false: it is none. The text lives until the statement moves. */
extern const char *const event_columns[];
enum {
	EVENT_ROWID = 8
};
bool event_read(sqlite3_stmt *st, struct event *ret);

struct population {
	struct replay *r;
	struct births births[BIRTHS];
	struct living *living;
	size_t n_living, cap_living;
	struct map places;      /* from entity and id */
	uint64_t next_end_ns;
	uint64_t from_ns;       /* who ended before is nobody */
	int error;
};

/* From here on: those who live at from_ns, and who comes later. */
void population_init(struct population *p, struct replay *r, uint64_t from_ns);
void population_done(struct population *p);
/* The births that were not given out yet, and what is known by now of ends since since_ns; between _open and _close a
 * statement is held on each table. */
int population_open(struct population *p, uint64_t since_ns);
void population_close(struct population *p);

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

/* ---- the order of time ---------------------------------------------------------------------------------------------- */

/* Rows of one table, at one time. */
struct cursor {
	sqlite3_stmt *statement;
	enum entity entity;
	bool recent;
	bool waits;             /* row is the next one */
	struct row row;
	uint64_t next_ns;       /* rows before it were given out */
};

/* Events, or values of series. */
struct list {
	sqlite3_stmt *statement;
	bool waits;
	uint64_t t_ns;
	int64_t last_row;       /* rowid of the last one that was given out */
};

struct play {
	struct replay *r;
	struct population people;
	struct cursor cursors[ENTITY_COUNT][2]; /* windows, full rate */
	struct list events, values;
	struct framebuf out;
	uint64_t interval_ns;
	uint64_t last_ns;       /* time of the last frame */
	bool (*see)(void *ctx, const struct frame *frame);
	void *ctx;
	bool stopped;
	int error;
	struct err *err;
};

/* A play is in stretches: from _open to _close it reads one commit of the file; then it holds nothing of it, and goes on
 * behind what was given out. recent only with a single stretch. */
void play_init(struct play *p, struct replay *r, uint64_t from_ns);
void play_done(struct play *p);
void play_open(struct play *p, bool recent);
void play_run(struct play *p, uint64_t until_ns); /* all frames up to that time */
void play_close(struct play *p);
/* What each process that lives at from_ns held by its last row before it, as a frame of that time. */
void play_state(struct play *p, uint64_t from_ns);
