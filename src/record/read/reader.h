/* SPDX-License-Identifier: MIT
 *
 * Shared by replay and history: a read-only connection to a file from an untrusted source.
 *
 * Nothing in the file is trusted: tables may be views, values may have other types, queries may
 * never end. Unusable data is ignored; damage that SQLite reports is an error with a text.
 */
#pragma once

#include <sqlite3.h>

#include "base/err.h"
#include "model/frame.h"
#include "record/read/replay.h"
#include "record/rows.h"
#include "record/store.h"

/* Statements that every recording needs several times. */
enum reader_statement {
	READER_TABLE,
	READER_COLUMNS,
	READER_META,
	READER_STATEMENTS
};

struct replay {
	sqlite3 *db;
	sqlite3_stmt *kept[READER_STATEMENTS]; /* NULL: not used yet */
	struct store_open open;
	char *path;
	struct row_layout layout;
	uint64_t file_bytes;
	bool has_index;      /* of a journal, mapped (record/index_guard.h) */
	int64_t steps;       /* remaining budget of the running call, in units of READER_STEPS */
};

enum {
	READER_STEPS = 1000
};

/* Sets the step budget of a call, in proportion to the file size, so that queries on a damaged
 * file terminate. */
void reader_allow(struct replay *r);

/* Guards the index of the journal, if there is one. */
void reader_guard(struct replay *r);

/* Closes the connection, if there is one. */
void reader_disconnect(struct replay *r);

/* Converts an SQLite result code to 0 or -errno with text. */
int reader_error(struct replay *r, int rc, struct err *err);

/* True if name is an ordinary table, not a view. */
bool reader_has_table(struct replay *r, const char *name);

/* NULL if the statement cannot be prepared: a table or column in it does not exist. */
sqlite3_stmt *reader_prepare(struct replay *r, const char *sql);

/* The parts of a merged recording, the caller's; NULL: it is not a merged one. Returns 0 or -ENOMEM. */
struct parts;
int reader_parts(struct replay *r, struct parts **ret);

/* Selects all columns of schema_columns from entity's table in the order of time, with the
 * clause where after FROM. Missing columns read as NULL. Returns NULL if there is no such table. */
sqlite3_stmt *reader_rows(struct replay *r, enum entity entity, bool recent, const char *where);

/* Selects the columns (NULL-terminated) of a table, with the clauses behind after FROM table.
 * Missing columns read as NULL; rowid always exists. Returns NULL if there is no such table. */
sqlite3_stmt *reader_table(
	struct replay *r, const char *table, const char *const *columns, const char *behind);

/* A column as an integer, a time or an id; false if it is not one. */
bool reader_int(sqlite3_stmt *statement, int column, int64_t *ret);
bool reader_time(sqlite3_stmt *statement, int column, uint64_t *ret);
bool reader_id(sqlite3_stmt *statement, int column, uint32_t *ret);
int64_t reader_int_or(sqlite3_stmt *statement, int column, int64_t otherwise);
struct maybe reader_maybe(sqlite3_stmt *statement, int column);
/* A column as text, "" if it is not text; valid until the next step. */
const char *reader_text(sqlite3_stmt *statement, int column);

/* An integer, or a text (freed by the caller), of table meta. */
bool reader_meta_int(struct replay *r, const char *key, int64_t *ret);
char *reader_meta_text(struct replay *r, const char *key);

/* The number that sql selects; false if there is none. */
bool reader_number(struct replay *r, const char *sql, int64_t *ret);
