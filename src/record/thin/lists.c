/* SPDX-License-Identifier: MIT
 *
 * Thins the data outside of windows: series values, events, ended processes.
 */
#include <errno.h>
#include <stdlib.h>

#include "record/thin/thin_internal.h"

enum {
	CHUNK = 4096,     /* series values read per step, */
	CHUNK_A_PAGE = 64,/* fewer if the journal is small */
	PROCESSES_A_PAGE = 8,
	GROUP = 4,        /* of each group of consecutive values, the smallest and the largest stay */
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

/* Reads values after the cursor, up to the newest quarter (whose row numbers are still
 * consecutive, as it was not thinned yet). Returns their number or -errno. */
static int64_t read_values(struct thin *t, struct store *s, struct value *values, int64_t most)
{
	sqlite3_stmt *st = store_prepare(s,
		"SELECT rowid, series, value FROM series_value WHERE rowid > ?1 AND rowid <="
		" (SELECT max(rowid) FROM series_value) - ?3 ORDER BY rowid LIMIT ?2");
	int64_t n = 0;
	int rc = SQLITE_DONE;

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, t->series_cursor);
	(void) sqlite3_bind_int64(st, 2, most);
	(void) sqlite3_bind_int64(st, 3, (int64_t) s->use[CLASS_SERIES].rows / 4);
	while (n < most && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		values[n++] = (struct value) {
			.row = sqlite3_column_int64(st, 0),
			.series = sqlite3_column_int64(st, 1),
			.value = sqlite3_column_double(st, 2),
			.nan = sqlite3_column_type(st, 2) == SQLITE_NULL,
		};
	}
	(void) sqlite3_finalize(st);
	rc = store_error(s, rc);
	return rc < 0 ? rc : n;
}

/* The first NaN, the smallest and the largest value of a group stay; at least half of it stays. */
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
	/* Too many series to form groups: delete every second value. */
	for (size_t i = 1; dropped == 0 && i < n; i += 2)
		values[i].keep = false;
}

static int drop_values(struct store *s, const struct value *values, size_t n)
{
	sqlite3_stmt *st = store_cached(s, "DELETE FROM series_value WHERE rowid = ?");
	int r = st ? 0 : store_step(s, NULL);
	int64_t gone = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		if (values[i].keep)
			continue;
		(void) sqlite3_bind_int64(st, 1, values[i].row);
		r = store_step(s, st);
		gone++;
	}
	thin_count(s, CLASS_SERIES, gone);
	return r;
}

int thin_series(struct thin *t, struct store *s)
{
	const int64_t most = t->wal_pages * CHUNK_A_PAGE < CHUNK ? t->wal_pages * CHUNK_A_PAGE : CHUNK;
	struct value *values = calloc(CHUNK, sizeof(*values));
	int64_t n = values ? read_values(t, s, values, most) : -ENOMEM;
	int r = n < 0 ? (int) n : 0;

	if (n > 1) {
		t->series_cursor = values[n - 1].row;
		choose_all(values, (size_t) n);
		r = drop_values(s, values, (size_t) n);
	}
	if (n >= 0 && n < most)
		t->series_cursor = 0; /* start again at the beginning */
	free(values);
	return r < 0 ? r : n > 1;
}

/* Deletes from the oldest quarter; if all of that has to stay, from the oldest half, and so on.
 * OOM kills stay, and so do the marks that a summary lists (MARKS_KEPT) and the notes on a GPU's
 * energy, which are stored nowhere else. A phase is only deleted as a whole. */
int thin_events(struct thin *t, struct store *s)
{
	static const char sql[] =
		"DELETE FROM event WHERE rowid <= ?1 AND kind <> 'oom' AND NOT (kind = 'mark' AND rowid >="
		" (SELECT min(rowid) FROM (SELECT rowid FROM event WHERE kind = 'mark' ORDER BY rowid DESC LIMIT 50))) AND NOT (kind = 'note' AND text GLOB 'gpu.energy: *') AND"
		" (phase = 0 OR phase IN (SELECT phase FROM event WHERE rowid <= ?1 AND kind = 'phase-end'))";

	(void) t;
	for (int64_t quarters = 1; quarters <= 3; quarters++) {
		int64_t cut, gone;
		bool found;
		int r = thin_number(s, "SELECT rowid FROM event ORDER BY rowid LIMIT 1 OFFSET ?1",
			(int64_t) s->use[CLASS_EVENT].rows * quarters / 4, 0, &cut, &found);

		if (r < 0 || !found)
			return r;
		gone = thin_delete(s, CLASS_EVENT, sql, cut, 0);
		if (gone != 0)
			return gone < 0 ? (int) gone : 1;
	}
	return 0;
}

static int drop_processes(struct thin *t, struct store *s, int64_t last)
{
	sqlite3_stmt *st = store_cached(s,
		"DELETE FROM process WHERE id > ?1 AND id <= ?2 AND ended IS NOT NULL AND NOT"
		" is_main AND coalesce(peak, 0) < ?3");
	int r;

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, t->process_cursor);
	(void) sqlite3_bind_int64(st, 2, last);
	(void) sqlite3_bind_int64(st, 3, t->process_least);
	r = store_step(s, st);
	if (r == 0)
		thin_count(s, CLASS_PROCESS, sqlite3_changes(s->db));
	return r;
}

/* Deletes the smallest ended processes, one piece of the table at a time; the bound rises with
 * each pass that freed too little. */
int thin_processes(struct thin *t, struct store *s)
{
	int64_t last;
	bool found;
	int r = thin_number(s,
		"SELECT max(id) FROM (SELECT id FROM process WHERE id > ?1 ORDER BY id LIMIT ?2)",
		t->process_cursor, t->wal_pages * PROCESSES_A_PAGE, &last, &found);

	if (r < 0)
		return r;
	if (!found) {
		bool again = t->process_cursor > 0 && t->process_least < INT64_MAX / 2;

		t->process_cursor = 0;
		if (again)
			t->process_least *= 2;
		return again;
	}
	r = drop_processes(t, s, last);
	t->process_cursor = last;
	return r < 0 ? r : 1;
}
