/* SPDX-License-Identifier: MIT */
#include "record/read/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "model/schema1.h"
#include "record/index_guard.h"
#include "record/schema.h"

enum {
	STEPS_LEAST = 2000000,
	STEPS_A_BYTE = 16, /* a row of a recording takes about two steps per byte */
};

void reader_allow(struct replay *r)
{
	r->steps = (int64_t) ((STEPS_LEAST + r->file_bytes * STEPS_A_BYTE) / READER_STEPS);
	reader_guard(r);
}

void reader_guard(struct replay *r)
{
	if (r->has_index)
		index_guard_watch(r->db);
}

int reader_error(struct replay *r, int rc, struct err *err)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_NOTADB:
		return err_set(err, -EBADMSG, "%s is not a hiwater recording", r->path);
	case SQLITE_INTERRUPT:
		return err_set(
			err, -EBADMSG, "%s is damaged: reading one of its tables does not end", r->path);
	case SQLITE_NOMEM:
		return err_set(err, -ENOMEM, "%s: out of memory", r->path);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(err, -EBUSY, "%s is locked by another program", r->path);
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
	case SQLITE_READONLY: {
		int code = r->db ? sqlite3_system_errno(r->db) : 0;

		return err_set(err, code > 0 ? -code : -EIO, "cannot read %s: %s", r->path,
			code > 0 ? strerror(code) : sqlite3_errstr(rc));
	}
	default:
		return err_set(err, -EBADMSG, "%s is damaged: %s", r->path, sqlite3_errstr(rc));
	}
}

sqlite3_stmt *reader_prepare(struct replay *r, const char *sql)
{
	sqlite3_stmt *st = NULL;

	if (sqlite3_prepare_v2(r->db, sql, -1, &st, NULL) != SQLITE_OK)
		return NULL;
	return st;
}

/* The statement of a kind, prepared once. The caller resets it. */
static sqlite3_stmt *reader_kept(struct replay *r, enum reader_statement which, const char *text)
{
	static const char *const sql_of[READER_STATEMENTS] = {
		[READER_TABLE] = "SELECT 1 FROM sqlite_master WHERE name = ? AND type = 'table' AND rootpage > 0",
		/* table_info omits generated columns, which could compute anything. */
		[READER_COLUMNS] = "SELECT name FROM pragma_table_info(?)",
		[READER_META] = "SELECT value FROM meta WHERE key = ?",
	};

	if (!r->kept[which])
		r->kept[which] = reader_prepare(r, sql_of[which]);
	if (r->kept[which])
		(void) sqlite3_bind_text(r->kept[which], 1, text, -1, SQLITE_STATIC);
	return r->kept[which];
}

void reader_disconnect(struct replay *r)
{
	const sqlite3 *db = r->db;

	for (int i = 0; i < READER_STATEMENTS; i++) {
		(void) sqlite3_finalize(r->kept[i]);
		r->kept[i] = NULL;
	}
	(void) sqlite3_close_v2(r->db);
	index_guard_forget(db);
	r->db = NULL;
}

bool reader_has_table(struct replay *r, const char *name)
{
	sqlite3_stmt *st = reader_kept(r, READER_TABLE, name);
	const bool has = st && sqlite3_step(st) == SQLITE_ROW;

	(void) sqlite3_reset(st);
	return has;
}

/* ---- rows of windows ------------------------------------------------------------------------- */

struct select {
	struct buf sql;
	struct buf have; /* the table's columns, each between two blanks */
	bool started;
};

static int read_columns(struct replay *r, struct select *s, const char *table)
{
	sqlite3_stmt *st = reader_kept(r, READER_COLUMNS, table);
	int rc = SQLITE_DONE;

	if (!st)
		return -EBADMSG;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW && !s->have.error)
		(void) buf_printf(&s->have, " %.64s ", reader_text(st, 0));
	(void) sqlite3_reset(st);
	return s->have.error ? s->have.error : reader_error(r, rc, NULL);
}

static bool has_column(const struct select *s, const char *column)
{
	char word[SCHEMA1_NAME];

	(void) snprintf(word, sizeof(word), " %s ", column);
	return strstr(s->have.data, word) || strcmp(column, "rowid") == 0;
}

/* Under its name in schema 1 if the table has only that. */
static int add_column(void *ctx, const char *column)
{
	struct select *s = ctx;
	char buf[SCHEMA1_NAME];
	const char *then = has_column(s, column) ? NULL : schema1_then(column, buf);
	const char *name = then ? then : column;

	(void) buf_printf(&s->sql, "%s%s", s->started ? "," : "", has_column(s, name) ? name : "NULL");
	s->started = true;
	return s->sql.error;
}

sqlite3_stmt *reader_rows(struct replay *r, enum entity entity, bool recent, const char *where)
{
	struct select s = { .sql = BUF_INIT(1 << 16), .have = BUF_INIT(1 << 16) };
	struct buf table = BUF_INIT(128);
	sqlite3_stmt *st = NULL;

	if (schema_name(&table, entity, recent) == 0 && reader_has_table(r, table.data) &&
		read_columns(r, &s, table.data) == 0) {
		(void) buf_str(&s.sql, "SELECT ");
		(void) schema_columns(&r->layout, entity, recent, add_column, &s);
		(void) buf_printf(&s.sql, " FROM %s %s ORDER BY t%s", table.data, where,
			entity_has_id(entity) ? ", id" : "");
		if (!s.sql.error)
			st = reader_prepare(r, s.sql.data);
	}
	buf_done(&table);
	buf_done(&s.sql);
	buf_done(&s.have);
	return st;
}

sqlite3_stmt *reader_table(
	struct replay *r, const char *table, const char *const *columns, const char *behind)
{
	struct select s = { .sql = BUF_INIT(1 << 12), .have = BUF_INIT(1 << 16) };
	sqlite3_stmt *st = NULL;
	char buf[SCHEMA1_NAME];
	bool has = reader_has_table(r, table);
	const char *then = has ? NULL : schema1_then(table, buf);

	if (then) {
		table = then;
		has = reader_has_table(r, table);
	}
	if (has && read_columns(r, &s, table) == 0) {
		(void) buf_str(&s.sql, "SELECT ");
		for (; *columns; columns++)
			(void) add_column(&s, *columns);
		(void) buf_printf(&s.sql, " FROM %s %s", table, behind);
		if (!s.sql.error)
			st = reader_prepare(r, s.sql.data);
	}
	buf_done(&s.sql);
	buf_done(&s.have);
	return st;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The value, which is safe to read where one thread has the connection: one search for the column, not two. */
bool reader_int(sqlite3_stmt *st, int column, int64_t *ret)
{
	sqlite3_value *value = sqlite3_column_value(st, column);

	if (sqlite3_value_type(value) != SQLITE_INTEGER)
		return false;
	*ret = sqlite3_value_int64(value);
	return true;
}

struct maybe reader_maybe(sqlite3_stmt *st, int column)
{
	struct maybe value = UNKNOWN;

	value.known = reader_int(st, column, &value.value);
	return value;
}

int64_t reader_int_or(sqlite3_stmt *st, int column, int64_t otherwise)
{
	(void) reader_int(st, column, &otherwise);
	return otherwise;
}

bool reader_time(sqlite3_stmt *st, int column, uint64_t *ret)
{
	int64_t value;

	if (!reader_int(st, column, &value) || value < 0)
		return false;
	*ret = (uint64_t) value;
	return true;
}

bool reader_id(sqlite3_stmt *st, int column, uint32_t *ret)
{
	int64_t value;

	if (!reader_int(st, column, &value) || value < 0 || value > UINT32_MAX)
		return false;
	*ret = (uint32_t) value;
	return true;
}

const char *reader_text(sqlite3_stmt *st, int column)
{
	int type = sqlite3_column_type(st, column);
	const unsigned char *text = NULL;

	/* Text that is not UTF-8 is stored as a blob; read as text, SQLite terminates it with
	 * NUL. */
	if (type == SQLITE_TEXT || type == SQLITE_BLOB)
		text = sqlite3_column_text(st, column);
	return text ? (const char *) text : "";
}

bool reader_meta_int(struct replay *r, const char *key, int64_t *ret)
{
	sqlite3_stmt *st = reader_kept(r, READER_META, key);
	const bool found = st && sqlite3_step(st) == SQLITE_ROW && reader_int(st, 0, ret);

	(void) sqlite3_reset(st);
	return found;
}

char *reader_meta_text(struct replay *r, const char *key)
{
	sqlite3_stmt *st = reader_kept(r, READER_META, key);
	char *text = st && sqlite3_step(st) == SQLITE_ROW ? strdup(reader_text(st, 0)) : NULL;

	(void) sqlite3_reset(st);
	return text;
}

bool reader_number(struct replay *r, const char *sql, int64_t *ret)
{
	sqlite3_stmt *st = reader_prepare(r, sql);
	bool found = st && sqlite3_step(st) == SQLITE_ROW && reader_int(st, 0, ret);

	(void) sqlite3_finalize(st);
	return found;
}
