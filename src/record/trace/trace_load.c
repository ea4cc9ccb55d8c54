/* SPDX-License-Identifier: MIT
 *
 * Continues the traced work of a recording: another trace is imported into a run. The file may be damaged or
 * forged: numbers are checked, as indices are made of them.
 */
#include <errno.h>
#include <string.h>

#include "record/trace/trace_internal.h"
#include "record/read/reader.h"

struct load {
	struct trace_write *w;
	sqlite3_stmt *st;
	int64_t next;          /* ids are 1, 2, ... without a gap */
};

static uint64_t number(const struct load *l, int column)
{
	const int64_t value = reader_int_or(l->st, column, 0);

	return value > 0 ? (uint64_t) value : 0;
}

static bool is_next(struct load *l)
{
	return reader_int_or(l->st, 0, 0) == l->next++;
}

static uint32_t small(const struct load *l, int column)
{
	const uint64_t value = number(l, column);

	return value <= UINT32_MAX ? (uint32_t) value : 0;
}

static int load_process(struct load *l)
{
	const struct trace_process process = {
		.pid = reader_int_or(l->st, 2, -1),
		.start_ns = number(l, 3),
		.name = reader_text(l->st, 4),
		.origin = reader_text(l->st, 5),
		.rank = reader_int_or(l->st, 6, -1),
	};
	struct trace_write *w = l->w;
	int r = is_next(l) ? trace_put_process(w, &process) : -EBADMSG;

	if (r == 0) {
		w->processes[w->n_processes - 1].in_job = reader_int_or(l->st, 1, 0);
		w->processes[w->n_processes - 1].is_lost_written = true;
		w->processes[w->n_processes - 1].is_written = true;
	}
	return r;
}

static int load_name(struct load *l)
{
	return is_next(l) ? trace_put_name(l->w, reader_text(l->st, 1)) : -EBADMSG;
}

static bool is_key(const struct trace_write *w, int kind, uint32_t process, uint32_t name, uint32_t domain)
{
	return kind >= 0 && process >= 1 && process <= w->n_processes && name <= w->n_names &&
	       domain <= w->n_names;
}

static uint32_t memory_of(const struct load *l, int column)
{
	const int memory = trace_memory_find(reader_text(l->st, column));

	return memory > 0 ? (uint32_t) memory : 0;
}

static int load_site(struct load *l)
{
	const int kind = trace_kind_find(reader_text(l->st, 1));
	struct site_key key;

	memset(&key, 0, sizeof(key));
	key.kind = (uint32_t) kind;
	key.process = small(l, 2);
	key.name = small(l, 3);
	key.domain = small(l, 4);
	key.tid = reader_int_or(l->st, 5, -1);
	key.device = reader_int_or(l->st, 6, -1);
	key.context = (uint64_t) reader_int_or(l->st, 7, 0);
	key.stream = (uint64_t) reader_int_or(l->st, 8, 0);
	for (int i = 0; i < 3; i++) {
		key.grid[i] = small(l, 9 + i);
		key.block[i] = small(l, 12 + i);
	}
	key.registers = small(l, 15);
	key.shared_static = small(l, 16);
	key.shared_dynamic = small(l, 17);
	key.source = memory_of(l, 18);
	key.target = memory_of(l, 19);
	key.copy = small(l, 20);
	if (!is_next(l) || !is_key(l->w, kind, key.process, key.name, key.domain))
		return -EBADMSG;
	return trace_put_site(l->w, &key);
}

static int load_stat(struct load *l)
{
	const int kind = trace_kind_find(reader_text(l->st, 1));
	struct stat_entry *stat;
	struct stat_key key;
	int r;

	memset(&key, 0, sizeof(key));
	key.kind = (uint32_t) kind;
	key.name = small(l, 2);
	key.domain = small(l, 3);
	key.process = small(l, 4);
	key.tid = reader_int_or(l->st, 5, -1);
	key.device = reader_int_or(l->st, 6, -1);
	key.stream = (uint64_t) reader_int_or(l->st, 7, 0);
	key.phase = reader_int_or(l->st, 8, 0) < 0 ? UINT32_MAX : small(l, 8);
	key.source = memory_of(l, 9);
	key.target = memory_of(l, 10);
	if (!is_next(l) || !is_key(l->w, kind, key.process, key.name, key.domain))
		return -EBADMSG;
	r = trace_put_stat(l->w, &key, &stat);
	if (r < 0)
		return r;
	if (stat->count || (size_t) (stat - l->w->stats) + 1 != l->w->n_stats)
		return -EBADMSG; /* a second one with the same key */
	stat->count = number(l, 11);
	stat->invalid = number(l, 12);
	stat->total_ns = number(l, 13);
	stat->min_ns = (uint64_t) reader_int_or(l->st, 14, INT64_MAX);
	stat->max_ns = number(l, 15);
	stat->sum_squares = sqlite3_column_double(l->st, 16);
	stat->bytes = number(l, 17);
	stat->rows = number(l, 18);
	return trace_histogram_read(&stat->histogram, sqlite3_column_blob(l->st, 19),
		(size_t) sqlite3_column_bytes(l->st, 19));
}

static int load_thread(struct load *l)
{
	const uint32_t process = small(l, 0);
	int r;

	if (process < 1 || process > l->w->n_processes)
		return -EBADMSG;
	r = trace_put_thread(l->w, process, reader_int_or(l->st, 1, -1), reader_text(l->st, 2));
	return r == -EFBIG ? 0 : r; /* its name stays in the file */
}

static int load_device(struct load *l)
{
	const uint32_t process = small(l, 0);
	uint32_t at;
	int r;

	if (process < 1 || process > l->w->n_processes)
		return -EBADMSG;
	r = trace_put_device(l->w, process, reader_int_or(l->st, 1, -1), &at);
	if (r < 0 || l->w->devices[at].name)
		return r;
	l->w->devices[at].name = strdup(reader_text(l->st, 2));
	l->w->devices[at].is_written = true;
	return l->w->devices[at].name ? 0 : -ENOMEM;
}

static int load_busy(struct load *l)
{
	struct trace_union_sums sums = {
		.traced_ns = number(l, 2),
		.busy_ns = number(l, 3),
		.kernels_ns = number(l, 4),
		.copies_ns = number(l, 5),
		.both_ns = number(l, 6),
		.gaps = number(l, 7),
		.longest_ns = number(l, 8),
		.longest_at_ns = number(l, 9),
		.first_ns = number(l, 10),
		.last_ns = number(l, 11),
		.late = number(l, 12),
	};
	const uint32_t process = small(l, 0);
	uint32_t at;
	int r;

	if (process < 1 || process > l->w->n_processes)
		return -EBADMSG;
	const uint64_t lost = trace_lost_work(l->w, process);

	r = trace_put_device(l->w, process, reader_int_or(l->st, 1, -1), &at);
	/* has_work remains false: unless more comes, the row stays as it is. */
	if (r == 0) {
		sums.late -= lost < sums.late ? lost : sums.late; /* put_busy adds it */
		trace_union_continue(&l->w->devices[at].busy, &sums);
	}
	return r;
}

static int load_peak(struct load *l)
{
	const int memory = trace_peak_find(reader_text(l->st, 2));
	const uint32_t process = small(l, 0);
	struct peak_entry *p;
	uint32_t at;
	int r;

	if (process < 1 || process > l->w->n_processes || memory < 0)
		return -EBADMSG;
	r = trace_put_peak(l->w, process, reader_int_or(l->st, 1, -1), (uint32_t) memory, &at);
	if (r < 0)
		return r;
	p = &l->w->peaks[at];
	p->sums = (struct peak_sums) { .live = number(l, 3), .peak = number(l, 4), .at_ns = number(l, 5) };
	p->written = p->sums;
	p->is_written = true;
	return 0;
}

static int load_window(struct load *l)
{
	const uint64_t begin = number(l, 1);
	int r;

	if (!is_next(l))
		return -EBADMSG;
	r = trace_put_window(l->w, begin, (uint64_t) reader_int_or(l->st, 2, -1), reader_text(l->st, 3));
	if (r == 0)
		l->w->windows[l->w->n_windows - 1].is_written = true;
	return r;
}

static int load_lost(struct load *l)
{
	const int cause = trace_loss_find(reader_text(l->st, 1));
	const uint32_t process = small(l, 0);

	if (cause >= 0 && process <= l->w->n_processes)
		trace_count_lost(l->w, process, (enum trace_loss) cause, number(l, 2));
	return 0;
}

static const struct {
	const char *sql;
	int (*row)(struct load *l);
} parts[] = {
	{ "SELECT * FROM trace_process ORDER BY id", load_process },
	{ "SELECT * FROM trace_name ORDER BY id", load_name },
	{ "SELECT * FROM trace_site ORDER BY id", load_site },
	{ "SELECT * FROM trace_stat ORDER BY id", load_stat },
	{ "SELECT * FROM trace_thread", load_thread },
	{ "SELECT * FROM trace_device", load_device },
	{ "SELECT * FROM trace_lost", load_lost },
	{ "SELECT * FROM trace_busy", load_busy }, /* after what was lost */
	{ "SELECT * FROM trace_peak", load_peak },
	{ "SELECT * FROM trace_window ORDER BY id", load_window },
};

static int load_part(struct trace_write *w, const char *sql, int (*row)(struct load *l))
{
	struct load l = { .w = w, .st = store_prepare(w->s, sql), .next = 1 };
	int rc = SQLITE_ROW, r = l.st ? 0 : -EBADMSG;

	while (r == 0 && (rc = sqlite3_step(l.st)) == SQLITE_ROW)
		r = row(&l);
	if (r == 0)
		r = store_error(w->s, rc);
	(void) sqlite3_finalize(l.st);
	return r;
}

static int count_rows(struct trace_write *w, enum trace_table table)
{
	struct buf sql = BUF_INIT(128);
	sqlite3_stmt *st;

	(void) buf_printf(&sql, "SELECT count(*) FROM %s", trace_tables[table].name);
	st = sql.error ? NULL : store_prepare(w->s, sql.data);
	buf_done(&sql);
	if (!st)
		return -EBADMSG;
	if (sqlite3_step(st) == SQLITE_ROW)
		w->rows[table] = (uint64_t) sqlite3_column_int64(st, 0);
	(void) sqlite3_finalize(st);
	return 0;
}

/* ---- phases ---------------------------------------------------------------------------------- */

struct open_phase {
	uint32_t number;
	uint64_t ended_ns;
};

/* Ends the phases that ended by time_ns, innermost first; each time its parent is the phase again. */
static void end_phases(struct trace_write *w, struct open_phase *open, size_t *n, uint64_t time_ns)
{
	while (*n > 0 && open[*n - 1].ended_ns <= time_ns) {
		const uint64_t ended = open[--*n].ended_ns;

		trace_write_phase(w, ended, *n > 0 ? open[*n - 1].number : 0);
	}
}

/* The innermost phase over time, of phases that are nested. */
static int load_phases(struct trace_write *w)
{
	enum {
		DEEPEST = 64
	};
	struct open_phase open[DEEPEST];
	struct load l = { .w = w };
	size_t n = 0;

	l.st = store_prepare(w->s, "SELECT number, began, coalesce(ended, 9223372036854775807) FROM phase"
				   " WHERE number > 0 ORDER BY began, number");
	if (!l.st)
		return -EBADMSG;
	while (sqlite3_step(l.st) == SQLITE_ROW) {
		const uint64_t began = number(&l, 1);

		end_phases(w, open, &n, began);
		if (n == DEEPEST)
			continue;
		open[n++] = (struct open_phase) { .number = small(&l, 0), .ended_ns = number(&l, 2) };
		trace_write_phase(w, began, open[n - 1].number);
	}
	end_phases(w, open, &n, INT64_MAX - 1);
	(void) sqlite3_finalize(l.st);
	return 0;
}

static bool has_table(struct trace_write *w, const char *name)
{
	sqlite3_stmt *st = store_prepare(w->s, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?");
	bool has = false;

	if (st) {
		(void) sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
		has = sqlite3_step(st) == SQLITE_ROW;
	}
	(void) sqlite3_finalize(st);
	return has;
}

int trace_load(struct trace_write *w)
{
	/* A row of the tables, with its share of pages that are not full. */
	enum {
		ROW_BYTES = 32
	};
	int r = load_phases(w);

	if (r < 0 || !has_table(w, "trace_process"))
		return r;
	r = trace_flush_tables(w); /* those that are missing */
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && r == 0; i++)
		r = load_part(w, parts[i].sql, parts[i].row);
	for (int t = 0; t < ROWS_COUNT && r == 0; t++)
		r = count_rows(w, (enum trace_table) t);
	w->written_names = w->n_names;
	w->written_sites = w->n_sites;
	for (size_t i = 0; i < w->n_threads; i++)
		w->threads[i].is_written = true;
	w->pages = w->flushed_pages = (int64_t) (trace_rows_all(w) * ROW_BYTES / STORE_PAGE);
	return r;
}
