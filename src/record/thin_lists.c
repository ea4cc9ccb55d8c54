/* SPDX-License-Identifier: MIT
 *
 * Cutting down what is not in windows: values of series, events, processes that ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "record/thin_internal.h"

enum {
	CHUNK = 4096,     /* values of series looked at in one go */
	GROUP = 4,        /* of so many consecutive values of a series the least and the largest stay */
	PROCESSES = 512,  /* looked at in one go */
};

struct value {
	int64_t row, series;
	double value;
	bool nan, keep;
};

static int by_series(const void *a, const void *b)
{
	const struct value *x = a, *y = b;

	if (x->series != y->series)
		return x->series < y->series ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Reads values behind the cursor, those of the newest quarter left out. Returns how many, or -errno. */
static int64_t read_values(struct thin *t, struct store *s, struct value *values)
{
	sqlite3_stmt *st = store_prepare(s, "SELECT rowid, series, value FROM series_value WHERE rowid > ?1 AND rowid <="
			" (SELECT max(rowid) - (max(rowid) - min(rowid)) / 4 FROM series_value) ORDER BY rowid LIMIT ?2");
	int64_t n = 0;
	int rc = SQLITE_DONE;

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, t->series_cursor);
	(void) sqlite3_bind_int64(st, 2, CHUNK);
	while (n < CHUNK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		values[n++] = (struct value) {
			.row = sqlite3_column_int64(st, 0), .series = sqlite3_column_int64(st, 1),
			.value = sqlite3_column_double(st, 2), .nan = sqlite3_column_type(st, 2) == SQLITE_NULL,
		};
	}
	(void) sqlite3_finalize(st);
	rc = store_error(s, rc);
	return rc < 0 ? rc : n;
}

/* The first NaN, the least and the largest of a group stay; at most half of it may go. */
static void choose(struct value *group, size_t n)
{
	struct value *least = NULL, *largest = NULL, *nan = NULL;

	for (size_t i = 0; i < n; i++) {
		if (group[i].nan) {
			nan = nan ? nan : &group[i];
			continue;
		}
		if (!least || group[i].value < least->value)
			least = &group[i];
		if (!largest || group[i].value > largest->value)
			largest = &group[i];
	}
	if (nan)
		nan->keep = true;
	if (least)
		least->keep = largest->keep = true;
}

static void choose_all(struct value *values, size_t n)
{
	size_t begin = 0, dropped = 0;

	qsort(values, n, sizeof(values[0]), by_series);
	while (begin < n) {
		size_t end = begin;

		while (end < n && end - begin < GROUP && values[end].series == values[begin].series)
			end++;
		if (end - begin == GROUP)
			choose(values + begin, GROUP);
		for (size_t i = begin; i < end; i++) {
			values[i].keep = values[i].keep || end - begin < GROUP;
			dropped += !values[i].keep;
		}
		begin = end;
	}
	/* Too many series for groups: every second value goes, whatever it is. */
	for (size_t i = 1; dropped == 0 && i < n; i += 2)
		values[i].keep = false;
}

static int drop_values(struct store *s, const struct value *values, size_t n)
{
	sqlite3_stmt *st = store_prepare(s, "DELETE FROM series_value WHERE rowid = ?");
	int r = st ? 0 : store_step(s, NULL);
	int64_t gone = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		if (values[i].keep)
			continue;
		(void) sqlite3_bind_int64(st, 1, values[i].row);
		r = store_step(s, st);
		gone++;
	}
	(void) sqlite3_finalize(st);
	thin_count(s, CLASS_SERIES, gone);
	return r;
}

int thin_series(struct thin *t, struct store *s)
{
	struct value *values = calloc(CHUNK, sizeof(*values));
	int64_t n = values ? read_values(t, s, values) : -ENOMEM;
	int r = n < 0 ? (int) n : 0;

	if (n > 1) {
		t->series_cursor = values[n - 1].row;
		choose_all(values, (size_t) n);
		r = drop_values(s, values, (size_t) n);
	}
	if (n >= 0 && n < CHUNK)
		t->series_cursor = 0; /* from the beginning again */
	free(values);
	return r < 0 ? r : n > 1;
}

/* The oldest quarter. What the kernel killed for stays; a phase goes only as a whole. */
int thin_events(struct thin *t, struct store *s)
{
	static const char sql[] =
		"DELETE FROM event WHERE rowid <= ?1 AND kind <> 'oom' AND"
		" (phase = 0 OR phase IN (SELECT phase FROM event WHERE rowid <= ?1 AND kind = 'phase-end'))";
	int64_t cut, gone;
	bool found;
	int r = thin_number(s, "SELECT min(rowid) + (max(rowid) - min(rowid)) / 4 FROM event", 0, 0, &cut, &found);

	(void) t;
	if (r < 0 || !found)
		return r;
	gone = thin_delete(s, CLASS_EVENT, sql, cut, 0);
	if (gone < 0)
		return (int) gone;
	return gone > 0;
}

/* The smallest that ended go, a piece of the table at a time; the bound rises with each turn that was not enough. */
int thin_processes(struct thin *t, struct store *s)
{
	struct buf sql = BUF_INIT(512);
	int64_t last, gone;
	bool found;
	int r = thin_number(s, "SELECT max(id) FROM (SELECT id FROM process WHERE id > ? ORDER BY id LIMIT 512)",
			t->process_cursor, 0, &last, &found);

	if (r < 0)
		return r;
	if (!found) {
		bool again = t->process_cursor > 0 && t->process_least < INT64_MAX / 2;

		t->process_cursor = 0;
		if (again)
			t->process_least *= 2;
		return again;
	}
	(void) buf_printf(&sql, "DELETE FROM process WHERE id > ?1 AND id <= ?2 AND ended IS NOT NULL AND NOT is_main"
			" AND coalesce(peak, 0) < %" PRId64, t->process_least);
	gone = sql.error ? sql.error : thin_delete(s, CLASS_PROCESS, sql.data, t->process_cursor, last);
	buf_done(&sql);
	t->process_cursor = last;
	return gone < 0 ? (int) gone : 1;
}
