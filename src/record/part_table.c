/* SPDX-License-Identifier: MIT */
#include "record/part_table.h"

#include <errno.h>

#include "record/part_row.h"

static void put_columns(struct buf *sql, const struct part_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void) buf_printf(sql, ",%s %s", fields[i].name, fields[i].is_text ? "TEXT" : "INTEGER");
}

int part_tables_create(struct store *s)
{
	struct buf sql = BUF_INIT(1 << 16);
	int r;

	(void) buf_str(&sql, "CREATE TABLE part(number INTEGER PRIMARY KEY");
	put_columns(&sql, part_fields, part_field_count);
	(void) buf_str(&sql, ");CREATE TABLE node(number INTEGER PRIMARY KEY");
	put_columns(&sql, part_node_fields, part_node_field_count);
	(void) buf_str(&sql, ");CREATE TABLE problem(number INTEGER PRIMARY KEY, file TEXT, why TEXT);" PART_ROW_TABLE
			     "CREATE TABLE part_mark(part INTEGER, t INTEGER, text TEXT);"
			     "CREATE TABLE part_gpu(part INTEGER, gpu INTEGER, used INTEGER);"
			     "CREATE INDEX part_mark_of ON part_mark(part);");
	r = sql.error ? sql.error : store_run(s, sql.data);
	buf_done(&sql);
	return r;
}

/* INSERT with a number and a value for each field of *at. */
static int put_row(struct store *s, const char *table, size_t number, const void *at,
	const struct part_field *fields, size_t n)
{
	struct buf sql = BUF_INIT(1 << 12);
	sqlite3_stmt *st = NULL;

	(void) buf_printf(&sql, "INSERT INTO %s VALUES(?", table);
	for (size_t i = 0; i < n; i++)
		(void) buf_str(&sql, ",?");
	if (buf_str(&sql, ")") == 0)
		st = store_cached(s, sql.data);
	buf_done(&sql);
	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, (int64_t) number);
	for (size_t i = 0; i < n; i++) {
		const void *field = (const char *) at + fields[i].offset;
		const struct maybe *value = field;

		if (fields[i].is_text)
			store_bind_text(st, (int) i + 2, *(char *const *) field);
		else
			store_bind_if(st, (int) i + 2, value->known, value->value);
	}
	return store_step(s, st);
}

static int put_problem(struct store *s, size_t number, const struct part_problem *problem)
{
	sqlite3_stmt *st = store_cached(s, "INSERT INTO problem VALUES(?,?,?)");

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, (int64_t) number);
	store_bind_text(st, 2, problem->file);
	store_bind_text(st, 3, problem->why);
	return store_step(s, st);
}

int part_tables_put(struct store *s, const struct parts *p)
{
	int r = 0;

	for (size_t i = 0; i < p->n && r == 0; i++)
		r = put_row(s, "part", i + 1, &p->part[i], part_fields, part_field_count);
	for (size_t i = 0; i < p->n_nodes && r == 0; i++)
		r = put_row(s, "node", i + 1, &p->node[i], part_node_fields, part_node_field_count);
	for (size_t i = 0; i < p->n_problems && r == 0; i++)
		r = put_problem(s, i + 1, &p->problem[i]);
	if (r == 0)
		r = store_meta_int(s, "clocks_compared", p->clocks_compared);
	if (r == 0 && p->clock_rest_ns.known)
		r = store_meta_int(s, "clock_rest_ns", p->clock_rest_ns.value);
	return r;
}
