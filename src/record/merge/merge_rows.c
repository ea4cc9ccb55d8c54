/* SPDX-License-Identifier: MIT
 *
 * Copies the windows of the parts: of each what the job's figures need, at most 1,000 rows of a node and 128 of a rank.
 */
#include <errno.h>
#include <stdio.h>

#include "record/merge/merge_internal.h"

/* Several windows of a part as one. */
struct part_row {
	uint64_t t_ns, end_ns;
	bool any;
	struct maybe ram_min, ram_max, low_min, low_max, high, user, system, read, written, processes;
	double ram_sum; /* value x ns */
	uint64_t ram_ns;
};

static int put(struct merge *m, int64_t rows, const struct part_row *row)
{
	sqlite3_stmt *st = store_cached(
		m->store, "INSERT OR REPLACE INTO part_row VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
	const struct maybe values[] = { row->ram_min,
		row->ram_ns > 0 ? known((int64_t) (row->ram_sum / (double) row->ram_ns)) : UNKNOWN,
		row->ram_max, row->low_min, row->low_max, row->high, row->user, row->system, row->read,
		row->written, row->processes };

	if (!st)
		return store_step(m->store, NULL);
	(void) sqlite3_bind_int64(st, 1, rows);
	store_bind_time(st, 2, row->t_ns);
	store_bind_time(st, 3, row->end_ns - row->t_ns);
	for (int i = 0; i < (int) (sizeof(values) / sizeof(values[0])); i++)
		store_bind_if(st, i + 4, values[i].known, values[i].value);
	return store_step(m->store, st);
}

/* The columns of a recording's windows that are needed: reading all of them would take ten times as long. */
enum {
	COLUMN_T,
	COLUMN_SPAN,
	COLUMN_RAM,
	COLUMN_LOW = COLUMN_RAM + 3,
	COLUMN_HIGH = COLUMN_LOW + 3,
	COLUMN_PROCESSES = COLUMN_HIGH + 2,
	COLUMN_COUNTERS = COLUMN_PROCESSES + 2,
};
static const char *const window_columns[] = { "t", "span", "ram_min", "ram", "ram_max", "ram_low_min",
	"ram_low", "ram_low_max", "ram_high", "ram_high_max", "processes", "processes_max", "cpu_user",
	"cpu_system", "read_bytes", "write_bytes", NULL };

static struct maybe column(sqlite3_stmt *st, int at)
{
	struct maybe value = UNKNOWN;

	value.known = reader_int(st, at, &value.value);
	return value;
}

/* An extreme that equals the value is not stored (docs/recording.md). */
static struct maybe extreme(sqlite3_stmt *st, int at, struct maybe value)
{
	const struct maybe stored = column(st, at);

	return value.known && stored.known ? stored : value;
}

static void add(sqlite3_stmt *st, uint64_t t_ns, uint64_t span_ns, struct part_row *to)
{
	const struct maybe ram = column(st, COLUMN_RAM + 1), low = column(st, COLUMN_LOW + 1),
			   high = column(st, COLUMN_HIGH), processes = column(st, COLUMN_PROCESSES);
	struct maybe *const counters[] = { &to->user, &to->system, &to->read, &to->written };

	if (!to->any)
		to->t_ns = t_ns;
	to->end_ns = t_ns + span_ns;
	if (ram.known) {
		to->ram_min = maybe_min(to->ram_min, extreme(st, COLUMN_RAM, ram));
		to->ram_max = maybe_max(to->ram_max, extreme(st, COLUMN_RAM + 2, ram));
		to->ram_sum += (double) ram.value * (double) span_ns;
		to->ram_ns += span_ns;
		/* One window without an upper bound leaves none for all. */
		to->high = !high.known || (to->any && !to->high.known)
				   ? UNKNOWN
				   : maybe_max(to->high, extreme(st, COLUMN_HIGH + 1, high));
	}
	if (low.known) {
		to->low_min = maybe_min(to->low_min, extreme(st, COLUMN_LOW, low));
		to->low_max = maybe_max(to->low_max, extreme(st, COLUMN_LOW + 2, low));
	}
	to->processes = maybe_max(to->processes, extreme(st, COLUMN_PROCESSES + 1, processes));
	for (int i = 0; i < (int) (sizeof(counters) / sizeof(counters[0])); i++)
		*counters[i] = maybe_max(*counters[i], column(st, COLUMN_COUNTERS + i));
	to->any = true;
}

static uint64_t width_of(const struct part *p)
{
	const uint64_t most = part_is(p, "rank") ? MERGE_ROWS_RANK : MERGE_ROWS_NODE;

	return p->wall_ns.known && p->wall_ns.value > 0 ? (uint64_t) p->wall_ns.value / most + 1
							: UINT64_MAX;
}

static int from_recording(struct merge *m, const struct part *p, struct replay *r)
{
	const uint64_t width = width_of(p);
	sqlite3_stmt *st = reader_table(r, "job_sample", window_columns, "ORDER BY t");
	struct part_row sum = { 0 };
	uint64_t t, span;
	int code = 0;

	while (st && code == 0 && sqlite3_step(st) == SQLITE_ROW) {
		if (!reader_time(st, COLUMN_T, &t) || !reader_time(st, COLUMN_SPAN, &span) ||
			t > INT64_MAX - span)
			continue;
		if (sum.any && t / width != sum.t_ns / width) {
			code = put(m, p->rows.value, &sum);
			sum = (struct part_row) { 0 };
		}
		add(st, t, span, &sum);
	}
	(void) sqlite3_finalize(st);
	return code == 0 && sum.any ? put(m, p->rows.value, &sum) : code;
}

static const char *const row_columns[] = { "t", "span", "ram_min", "ram", "ram_max", "low_min", "low_max",
	"high", "user", "system", "read", "written", "processes", NULL };

static int from_merge(struct merge *m, const struct part *p, struct replay *r, int64_t number)
{
	sqlite3_stmt *to = store_cached(
		m->store, "INSERT OR REPLACE INTO part_row VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
	char behind[64];
	sqlite3_stmt *st;
	int code = 0;

	(void) snprintf(behind, sizeof(behind), "WHERE part = %lld ORDER BY t", (long long) number);
	st = reader_table(r, "part_row", row_columns, behind);
	while (st && to && code == 0 && sqlite3_step(st) == SQLITE_ROW) {
		uint64_t t;

		if (!reader_time(st, 0, &t))
			continue;
		(void) sqlite3_bind_int64(to, 1, p->rows.value);
		for (int i = 0; row_columns[i]; i++)
			(void) sqlite3_bind_value(to, i + 2, sqlite3_column_value(st, i));
		code = store_step(m->store, to);
	}
	(void) sqlite3_finalize(st);
	return to ? code : store_step(m->store, NULL);
}

int merge_read_rows(struct merge *m, struct candidate *c, struct replay *r)
{
	const struct maybe before = c->part.rows;

	c->part.rows = known((int64_t) ++m->last_rows);
	return c->number > 0 ? from_merge(m, &c->part, r, before.value) : from_recording(m, &c->part, r);
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
