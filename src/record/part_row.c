/* SPDX-License-Identifier: MIT */
#include "record/part_row.h"

#include <errno.h>

enum {
	ROOM = 256 << 10, /* bytes that the rows of a node take at most, with the journal */
};

/* Several windows of a part as one. */
struct part_row {
	uint64_t t_ns, end_ns;
	bool any;
	struct maybe ram_min, ram_max, low_min, low_max, high, user, system, read, written, processes;
	double ram_sum; /* value x ns */
	double ram_ns;
};

static int put(struct store *s, int64_t number, const struct part_row *row)
{
	sqlite3_stmt *st = store_cached(s, PART_ROW_INSERT);
	const struct maybe values[] = { row->ram_min,
		row->ram_ns > 0 ? known((int64_t) (row->ram_sum / row->ram_ns)) : UNKNOWN,
		row->ram_max, row->low_min, row->low_max, row->high, row->user, row->system, row->read,
		row->written, row->processes };

	if (!st)
		return store_step(s, NULL);
	(void) sqlite3_bind_int64(st, 1, number);
	store_bind_time(st, 2, row->t_ns);
	store_bind_time(st, 3, row->end_ns - row->t_ns);
	for (int i = 0; i < (int) (sizeof(values) / sizeof(values[0])); i++)
		store_bind_if(st, i + 4, values[i].known, values[i].value);
	return store_step(s, st);
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
const char *const part_row_windows[] = { "t", "span", "ram_min", "ram", "ram_max", "ram_low_min",
	"ram_low", "ram_low_max", "ram_high", "ram_high_max", "processes", "processes_max", "cpu_user",
	"cpu_system", "read_bytes", "write_bytes", NULL };

/* A column that is no integer is not known. */
static struct maybe column(sqlite3_stmt *st, int at)
{
	sqlite3_value *value = sqlite3_column_value(st, at); /* one search for the column, not two: it is most of the time */

	return sqlite3_value_type(value) == SQLITE_INTEGER ? known(sqlite3_value_int64(value)) : UNKNOWN;
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
		to->ram_ns += (double) span_ns;
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

bool part_row_is_time(struct maybe value)
{
	return value.known && value.value >= 0 && value.value < INT64_MAX / 4;
}

int part_rows_sum(struct store *s, int64_t number, uint64_t width_ns, sqlite3_stmt *windows)
{
	struct part_row sum = { 0 };
	int r = 0;

	while (windows && r == 0 && sqlite3_step(windows) == SQLITE_ROW) {
		const struct maybe t = column(windows, COLUMN_T), span = column(windows, COLUMN_SPAN);

		if (!part_row_is_time(t) || !part_row_is_time(span))
			continue;
		if (sum.any && (uint64_t) t.value / width_ns != sum.t_ns / width_ns) {
			r = put(s, number, &sum);
			sum = (struct part_row) { 0 };
		}
		add(windows, (uint64_t) t.value, (uint64_t) span.value, &sum);
	}
	return r == 0 && sum.any ? put(s, number, &sum) : r;
}

uint64_t part_row_width(struct maybe wall_ns, bool is_rank)
{
	const uint64_t most = is_rank ? PART_ROWS_RANK : PART_ROWS_NODE;

	return wall_ns.known && wall_ns.value > 0 ? (uint64_t) wall_ns.value / most + 1 : UINT64_MAX;
}

/* ---- the end of a recording ------------------------------------------------------------------ */

/* True if it is the recording of a rank or a node, with so many windows that a sum saves most of the work of reading them. */
static bool is_worth_it(struct store *s, bool *ret_is_rank)
{
	sqlite3_stmt *st = store_cached(s, "SELECT value = 'rank', (SELECT count(*) FROM job_sample) FROM meta "
					   "WHERE key = 'part' AND value IN ('rank', 'node')");
	bool is = false;

	if (st && sqlite3_step(st) == SQLITE_ROW) {
		*ret_is_rank = sqlite3_column_int(st, 0);
		is = sqlite3_column_int64(st, 1) > 2 * (*ret_is_rank ? PART_ROWS_RANK : PART_ROWS_NODE);
	}
	if (st)
		(void) sqlite3_reset(st);
	return is;
}

static int store_sums(struct store *s, uint64_t width_ns)
{
	struct buf sql = BUF_INIT(4096);
	sqlite3_stmt *st;
	int r;

	(void) buf_str(&sql, "SELECT t");
	for (size_t i = 1; part_row_windows[i]; i++)
		(void) buf_printf(&sql, ",%s", part_row_windows[i]);
	(void) buf_str(&sql, " FROM job_sample ORDER BY t");
	st = sql.error ? NULL : store_prepare(s, sql.data);
	r = st ? store_run(s, PART_ROW_TABLE) : -EIO;
	if (r == 0)
		r = part_rows_sum(s, 0, width_ns, st);
	(void) sqlite3_finalize(st);
	buf_done(&sql);
	return r;
}

void part_rows_store(struct store *s, uint64_t wall_ns, uint64_t max_bytes)
{
	const uint64_t most = max_bytes + s->trace_pages * STORE_PAGE;
	bool is_rank = false;

	if (!s->wal || !is_worth_it(s, &is_rank) || store_disk_bytes(s) + ROOM > most ||
		store_harm(s) != HARM_NONE || store_begin(s) < 0)
		return;
	if (store_sums(s, part_row_width(known((int64_t) wall_ns), is_rank)) < 0 || store_commit(s) < 0)
		store_rollback(s);
}
