/* SPDX-License-Identifier: MIT
 *
 * Shared by frames.c (frames in the order of time), player.c (stretches), living.c (births, ends,
 * living entities) and job.c (the job). Included by no other file.
 */
#pragma once

#include "base/map.h"
#include "model/framebuf.h"
#include "record/read/reader.h"

/* An entity between its birth and its end. */
struct living {
	enum entity entity;
	uint32_t id;
	uint64_t ended_ns;      /* UINT64_MAX: still running at the end */
	enum end_how how;
	struct maybe status;
	bool has_state;
	struct cell *cells;     /* a process's last row, if has_state */
};

/* Births of one entity type, in the order of ids. */
struct births {
	sqlite3_stmt *statement;
	enum entity entity;
	bool pending;             /* the statement is on a row that was not emitted yet */
	uint32_t id;
	uint64_t born_ns;
	uint32_t last_id;       /* the last one emitted */
};

enum {
	BIRTHS = 3,
	BIRTH_COLUMNS = 20
};

/* living.c: the tables with births. */
struct birth_table {
	enum entity entity;
	const char *table;
	const char *columns[BIRTH_COLUMNS]; /* id, born, ended first; NULL-terminated */
};
extern const struct birth_table birth_tables[BIRTHS];
/* Reads a row of those columns; its texts are valid until the statement moves. */
struct birth birth_read(enum entity entity, sqlite3_stmt *st);

/* The columns of table event, and reading a row of them; false if it is malformed. The text is
 * valid until the statement moves. */
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
	struct map places;      /* from entity and id to the index in living */
	uint64_t next_end_ns;
	uint64_t from_ns;       /* entities that ended before are ignored */
	int error;
};

/* Starts with the entities alive at from_ns. */
void population_init(struct population *p, struct replay *r, uint64_t from_ns);
void population_done(struct population *p);
/* Reads the births that were not emitted yet, and the ends since since_ns. From _open to _close,
 * a statement is open on each table. */
int population_open(struct population *p, uint64_t since_ns);
void population_close(struct population *p);

/* Time of the next birth or end; UINT64_MAX: none. */
uint64_t population_next(const struct population *p);

/* Appends births to out: those up to time_ns, and all of entity up to id (0: none), whose
 * values come next. */
void population_births(struct population *p, uint64_t time_ns, struct framebuf *out);
void population_births_to(struct population *p, enum entity entity, uint32_t id, struct framebuf *out);

/* Appends the ends at exactly next_end_ns to out and removes their entities. */
void population_ends(struct population *p, struct framebuf *out);

/* The living entity with this id, or NULL. Valid until the next birth or end. */
struct living *population_find(const struct population *p, enum entity entity, uint32_t id);

/* Stores a process's row as its last one. */
void living_remember(struct population *p, struct living *l, const struct row *row);

/* ---- the order of time ----------------------------------------------------------------------- */

/* The rows of one table. */
struct cursor {
	sqlite3_stmt *statement;
	enum entity entity;
	bool recent;
	bool pending;             /* row is the next one to emit */
	struct row row;
	uint64_t next_ns;       /* rows before this time were emitted */
};

/* Events, or values of series. */
struct list {
	sqlite3_stmt *statement;
	bool pending;
	uint64_t t_ns;
	int64_t last_row;       /* rowid of the last one emitted */
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

/* A play runs in stretches. From _open to _close it reads one commit of the file; afterwards it
 * keeps nothing open, and the next stretch continues where it stopped. recent requires that
 * there is only one stretch. */
void play_init(struct play *p, struct replay *r, uint64_t from_ns);
void play_done(struct play *p);
void play_open(struct play *p, bool recent);
void play_run(struct play *p, uint64_t until_ns); /* emits all frames up to that time */
void play_close(struct play *p);
/* Emits the last row before from_ns of each process alive at from_ns, as a frame of that time. */
void play_state(struct play *p, uint64_t from_ns);
