/* SPDX-License-Identifier: MIT
 *
 * Copies the windows of the parts: of each what the job's figures need, at most 1,000 rows of a node and 128 of a rank.
 */
#include <errno.h>
#include <stdio.h>

#include "record/merge/merge_internal.h"
#include "record/part_row.h"

static const char *const row_columns[] = { "t", "span", "ram_min", "ram", "ram_max", "low_min", "low_max",
	"high", "user", "system", "read", "written", "processes", NULL };

/* Rows that were summed up before, of the part that has this number in the file. *ret_any: there are some. */
static int from_rows(struct merge *m, const struct part *p, struct replay *r, int64_t number, bool *ret_any)
{
	sqlite3_stmt *to = store_cached(m->store, PART_ROW_INSERT);
	char behind[64];
	sqlite3_stmt *st;
	int code = 0;

	(void) snprintf(behind, sizeof(behind), "WHERE part = %lld ORDER BY t", (long long) number);
	st = reader_table(r, "part_row", row_columns, behind);
	while (st && to && code == 0 && sqlite3_step(st) == SQLITE_ROW) {
		const struct maybe t = reader_maybe(st, 0), span = reader_maybe(st, 1);

		if (!part_row_is_time(t) || !part_row_is_time(span))
			continue;
		(void) sqlite3_bind_int64(to, 1, p->rows.value);
		for (int i = 0; row_columns[i]; i++)
			(void) sqlite3_bind_value(to, i + 2, sqlite3_column_value(st, i));
		code = store_step(m->store, to);
		*ret_any = true;
	}
	(void) sqlite3_finalize(st);
	return to ? code : store_step(m->store, NULL);
}

/* All windows of a recording. */
static int from_windows(struct merge *m, const struct part *p, struct replay *r)
{
	sqlite3_stmt *st = reader_table(r, "job_sample", part_row_windows, "ORDER BY t");
	const int code = part_rows_sum(
		m->store, p->rows.value, part_row_width(p->wall_ns, part_is(p, "rank")), st);

	(void) sqlite3_finalize(st);
	return code;
}

int merge_read_rows(struct merge *m, struct candidate *c, struct replay *r)
{
	const struct maybe before = c->part.rows;
	const bool is_merged = c->number > 0;
	bool any = false;
	int code = 0;

	c->part.rows = known((int64_t) ++m->last_rows);
	if (is_merged || part_is(&c->part, "rank") || part_is(&c->part, "node"))
		code = from_rows(m, &c->part, r, is_merged ? before.value : 0, &any);
	return code < 0 || any || is_merged ? code : from_windows(m, &c->part, r);
}

int merge_drop_rows(struct merge *m, const struct part *p)
{
	sqlite3_stmt *st = store_cached(m->store, "DELETE FROM part_row WHERE part = ?");

	if (!p->rows.known)
		return 0;
	if (!st)
		return store_step(m->store, NULL);
	(void) sqlite3_bind_int64(st, 1, p->rows.value);
	return store_step(m->store, st);
}

static int put_marks(struct merge *m, size_t part)
{
	const struct candidate *c = &m->candidates[part];
	sqlite3_stmt *st = store_cached(m->store, "INSERT INTO part_mark VALUES(?,?,?)");
	int r = st ? 0 : store_step(m->store, NULL);

	for (size_t i = 0; i < c->n_marks && r == 0; i++) {
		(void) sqlite3_bind_int64(st, 1, (int64_t) part + 1);
		store_bind_time(st, 2, c->marks[i].t_ns);
		store_bind_text(st, 3, c->marks[i].text);
		r = store_step(m->store, st);
	}
	return r;
}

int merge_put_marks(struct merge *m)
{
	int r = 0;

	for (size_t i = 0; i < m->n && r == 0; i++)
		r = put_marks(m, i);
	return r;
}
