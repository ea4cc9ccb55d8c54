/* SPDX-License-Identifier: MIT
 *
 * What replay and history share: a connection to a file that anybody may have written.
 *
 * Nothing in the file is believed: tables that are views, values of other types, rows that never end. What cannot be
 * used is left out; what SQLite calls damaged is an error with a text.
 */
#pragma once

#include <sqlite3.h>

#include "base/err.h"
#include "model/frame.h"
#include "record/read/replay.h"
#include "record/rows.h"

struct replay {
	sqlite3 *db;
	char *path;
	struct row_layout layout;
	uint64_t file_bytes;
	int64_t steps;       /* left to the call that is running, in units of READER_STEPS */
};

enum {
	READER_STEPS = 1000
};

/* Allows a call its work: in proportion to the file, so that tables that go in circles come to an end. */
void reader_allow(struct replay *r);

/* What sqlite says as 0 or -errno with text. */
int reader_error(struct replay *r, int rc, struct err *err);

/* True if name is a table with rows of its own. */
bool reader_has_table(struct replay *r, const char *name);

/* NULL if it cannot be: something that it names is not there. */
sqlite3_stmt *reader_prepare(struct replay *r, const char *sql);

/* Selects from entity's table all columns of schema_columns, NULL for those that it lacks, with where behind FROM, in
 * the order of time. NULL if there is no such table. */
sqlite3_stmt *reader_rows(struct replay *r, enum entity entity, bool recent, const char *where);

/* Selects the columns (NULL behind the last) of a table, NULL for those that it lacks, with what follows FROM table;
 * rowid is one that it has. NULL if there is no such table. */
sqlite3_stmt *reader_table(struct replay *r, const char *table, const char *const *columns, const char *behind);

/* A column as an integer, a time or an id; false if it is none. */
bool reader_int(sqlite3_stmt *statement, int column, int64_t *ret);
bool reader_time(sqlite3_stmt *statement, int column, uint64_t *ret);
bool reader_id(sqlite3_stmt *statement, int column, uint32_t *ret);
int64_t reader_int_or(sqlite3_stmt *statement, int column, int64_t otherwise);
/* A column as text, "" if it is none; valid until the next step. */
const char *reader_text(sqlite3_stmt *statement, int column);

/* An integer, or a text (the caller's to free), of meta. */
bool reader_meta_int(struct replay *r, const char *key, int64_t *ret);
char *reader_meta_text(struct replay *r, const char *key);

/* The number that sql selects; false if there is none. */
bool reader_number(struct replay *r, const char *sql, int64_t *ret);
