/* SPDX-License-Identifier: MIT
 *
 * A row an event. Rows wait in memory and are written in the order of time, so that the tables, which are
 * ordered by it, grow at their end.
 */
#include <errno.h>
#include <stdlib.h>

#include "record/trace/trace_internal.h"

enum {
	PENDING = 8192,
	LEAST_DELETED = 2000, /* rows a flush; or twice those since the flush before */
};

const struct trace_table_info trace_tables[ROWS_COUNT] = {
	[ROWS_RANGE] = { "trace_range", "start", "start,duration,site,depth,flags" },
	[ROWS_LAUNCH] = { "trace_launch", "start", "start,duration,site,correlation,flags" },
	[ROWS_KERNEL] = { "trace_kernel", "start", "start,duration,site,correlation,queued,submitted,flags" },
	[ROWS_COPY] = { "trace_copy", "start", "start,duration,site,correlation,queued,submitted,flags,bytes" },
	[ROWS_MEMORY] = { "trace_memory", "t", "t,bytes,site,address,flags" },
};

static const char *const inserts[ROWS_COUNT] = {
	[ROWS_RANGE] = "INSERT OR IGNORE INTO trace_range(start,duration,site,depth,flags) VALUES(?,?,?,?,?)",
	[ROWS_LAUNCH] =
		"INSERT OR IGNORE INTO trace_launch(start,duration,site,correlation,flags) VALUES(?,?,?,?,?)",
	[ROWS_KERNEL] =
		"INSERT OR IGNORE INTO trace_kernel(start,duration,site,correlation,queued,submitted,flags)"
		" VALUES(?,?,?,?,?,?,?)",
	[ROWS_COPY] =
		"INSERT OR IGNORE INTO trace_copy(start,duration,site,correlation,queued,submitted,flags,bytes)"
		" VALUES(?,?,?,?,?,?,?,?)",
	[ROWS_MEMORY] = "INSERT OR IGNORE INTO trace_memory(t,bytes,site,address,flags) VALUES(?,?,?,?,?)",
};

enum trace_table trace_table_of(enum trace_kind kind)
{
	switch (kind) {
	case TRACE_RANGE:
	case TRACE_MARK:
		return ROWS_RANGE;
	case TRACE_LAUNCH:
		return ROWS_LAUNCH;
	case TRACE_KERNEL:
		return ROWS_KERNEL;
	case TRACE_COPY:
	case TRACE_FILL:
		return ROWS_COPY;
	case TRACE_ALLOC:
	case TRACE_FREE:
	case TRACE_KIND_COUNT:
		break;
	}
	return ROWS_MEMORY;
}

uint64_t trace_rows_all(const struct trace_write *w)
{
	uint64_t rows = 0;

	for (int t = 0; t < ROWS_COUNT; t++)
		rows += w->rows[t];
	return rows;
}

/* ---- one of n -------------------------------------------------------------------------------- */

/* A launch and what it started are both kept, or neither; so are an allocation and its release. */
static bool is_chosen(struct trace_write *w, const struct trace_event *e)
{
	const uint64_t by = e->correlation ? e->correlation : e->address ? e->address
									 : ++w->events_seen;

	return (trace_hash(&by, sizeof(by)) & ((UINT64_C(1) << w->shift) - 1)) == 0;
}

/* The budget is of a second of the events' time, whose end is that of the latest event; the share of the
 * second before holds for the next one, and is halved each time the budget is used up. */
static bool has_budget(struct trace_write *w, const struct trace_event *e)
{
	const uint64_t budget = w->options.rows_a_second, second = w->last_ns / 1000000000;

	if (budget == 0)
		return true;
	if (second != w->second) {
		w->shift = 0;
		while (w->shift < 32 && (w->events_in_second >> w->shift) > budget)
			w->shift++;
		w->second = second;
		w->events_in_second = w->rows_in_second = 0;
	}
	w->events_in_second++;
	if (w->shift > 0 && !is_chosen(w, e))
		return false;
	if (++w->rows_in_second >= budget && w->shift < 32) {
		w->shift++;
		w->rows_in_second = budget / 2;
	}
	return true;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static uint64_t before(uint64_t start_ns, uint64_t time_ns)
{
	return time_ns > 0 && time_ns <= start_ns ? start_ns - time_ns : UINT64_MAX;
}

int trace_rows_put(struct trace_write *w, const struct trace_event *e, uint32_t stat)
{
	const struct site_key *site = &w->sites[e->site - 1].key;
	const enum trace_kind kind = (enum trace_kind) site->kind;
	int r = 0;

	if (!has_budget(w, e)) {
		trace_count_lost(w, site->process, TRACE_LOST_THINNED, 1);
		return 0;
	}
	if (!w->pending)
		w->pending = malloc(PENDING * sizeof(*w->pending));
	if (!w->pending) {
		trace_count_lost(w, site->process, TRACE_LOST_THINNED, 1);
		return 0;
	}
	if (w->n_pending == PENDING)
		r = trace_rows_spill(w);
	if (r < 0)
		return r;
	w->pending[w->n_pending++] = (struct pending_row) {
		.start_ns = e->start_ns,
		.duration_ns = kind == TRACE_MARK || e->end_ns < e->start_ns ? 0 : e->end_ns - e->start_ns,
		.correlation = e->correlation,
		.bytes = e->bytes,
		.address = e->address,
		.queued_ns = before(e->start_ns, e->queued_ns),
		.submitted_ns = before(e->start_ns, e->submitted_ns),
		.site = e->site,
		.stat = stat,
		.flags = e->flags,
		.depth = e->depth,
		.table = (uint8_t) trace_table_of(kind),
		.is_release = kind == TRACE_FREE,
	};
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct pending_row *x = a, *y = b;

	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void bind_before(sqlite3_stmt *st, int at, uint64_t ns)
{
	store_bind_if(st, at, ns != UINT64_MAX, (int64_t) ns);
}

static void bind_work(sqlite3_stmt *st, const struct pending_row *row)
{
	(void) sqlite3_bind_int64(st, 4, (int64_t) row->correlation);
	bind_before(st, 5, row->queued_ns);
	bind_before(st, 6, row->submitted_ns);
	store_bind_if(st, 7, row->flags != 0, row->flags);
	if (row->table == ROWS_COPY)
		store_bind_time(st, 8, row->bytes);
}

static void bind_row(
	sqlite3_stmt *st, const struct trace_write *w, const struct pending_row *row, uint32_t site)
{
	store_bind_time(st, 1, row->start_ns);
	store_bind_if(st, 2, w->sites[row->site - 1].key.kind != TRACE_MARK, (int64_t) row->duration_ns);
	(void) sqlite3_bind_int64(st, 3, site);
	if (row->table == ROWS_KERNEL || row->table == ROWS_COPY) {
		bind_work(st, row);
		return;
	}
	(void) sqlite3_bind_int64(st, 4, (int64_t) row->correlation);
	if (row->table == ROWS_RANGE)
		(void) sqlite3_bind_int64(st, 4, row->depth);
	if (row->table == ROWS_MEMORY) {
		store_bind_time(st, 2, row->bytes);
		if (row->is_release)
			(void) sqlite3_bind_int64(st, 2, -(int64_t) (row->bytes & INT64_MAX));
		(void) sqlite3_bind_int64(st, 4, (int64_t) row->address);
	}
	store_bind_if(st, 5, row->flags != 0, row->flags);
}

/* The last twin that a row with these keys went to, or 0. */
static uint32_t *last_twin(struct trace_write *w, const struct pending_row *row)
{
	const uint64_t number = row->table == ROWS_MEMORY  ? row->address
				: row->table == ROWS_RANGE ? row->depth
							   : row->correlation,
		       keys[] = { row->start_ns, row->site, number };
	const uint64_t hash = trace_hash(keys, sizeof(keys));
	struct twin_hint *hint;

	if (!w->twin_hints)
		w->twin_hints = calloc(TRACE_TWIN_HINTS, sizeof(*w->twin_hints));
	if (!w->twin_hints)
		return NULL;
	hint = &w->twin_hints[hash % TRACE_TWIN_HINTS];
	if (hint->key != hash)
		*hint = (struct twin_hint) { .key = hash };
	return &hint->twin;
}

/* Returns 1: it is there now, 0: one with equal keys was, or -errno. */
static int try_row(
	struct trace_write *w, sqlite3_stmt *st, const struct pending_row *row, uint32_t site)
{
	struct stat_entry *stat = &w->stats[row->stat];
	int r = site != row->site ? trace_flush_keys(w) : 0; /* a twin may be new */

	if (r < 0)
		return r;
	bind_row(st, w, row, site);
	r = store_step(w->s, st);
	if (r < 0 || sqlite3_changes(w->s->db) == 0)
		return r;
	w->rows[row->table]++;
	w->rows_since_flush++;
	stat->rows++;
	stat->added++;
	stat->is_changed = true;
	return 1;
}

/* Where a row with equal keys exists, it is one of an equal site. Of many such rows each has another one: those
 * that were used for the same keys are not tried again. */
static int write_row(struct trace_write *w, sqlite3_stmt *st, const struct pending_row *row)
{
	uint32_t site = row->site, *hint = NULL;
	int r = try_row(w, st, row, site);

	if (r == 0)
		hint = last_twin(w, row);
	if (hint && *hint)
		site = *hint;
	while (r == 0) {
		if (trace_site_twin(w, site, &site) < 0) {
			trace_count_lost(w, w->stats[row->stat].key.process, TRACE_LOST_THINNED, 1);
			break;
		}
		r = try_row(w, st, row, site);
	}
	if (hint)
		*hint = site;
	return r < 0 ? r : 0;
}

int trace_rows_spill(struct trace_write *w)
{
	uint64_t before = 0, after = 0, all = 0;
	size_t i = 0;
	int r;

	trace_write_begins(w);
	if (w->n_pending == 0)
		return 0;
	r = store_pages(w->s, &before, &all);
	if (r == 0)
		r = trace_flush_keys(w);
	qsort(w->pending, w->n_pending, sizeof(*w->pending), by_time);
	for (sqlite3_stmt *st = NULL; i < w->n_pending && r == 0; i++) {
		if (i == 0 || w->pending[i].table != w->pending[i - 1].table)
			st = store_cached(w->s, inserts[w->pending[i].table]);
		r = st ? write_row(w, st, &w->pending[i]) : store_step(w->s, NULL);
	}
	/* An error ends the transaction: none of these rows is there. */
	for (; r < 0 && i < w->n_pending; i++)
		trace_count_lost(w, w->stats[w->pending[i].stat].key.process, TRACE_LOST_THINNED, 1);
	w->n_pending = 0;
	if (r == 0)
		r = store_pages(w->s, &after, &all);
	w->has_failed = w->has_failed || r < 0;
	w->pages += (int64_t) after - (int64_t) before;
	return r;
}

/* ---- the limit ------------------------------------------------------------------------------- */

static uint64_t hash_of_sums(uint32_t kind, uint32_t process, uint32_t name, uint32_t domain)
{
	const uint32_t parts[] = { kind, process, name, domain };

	return trace_hash(parts, sizeof(parts));
}

static int note_thinned(struct trace_write *w, const struct site_key *site)
{
	const uint64_t hash = hash_of_sums(site->kind, site->process, site->name, site->domain);
	uint32_t unused;

	if (map_get(&w->thinned, hash, &unused))
		return 0;
	w->has_new_thinned = true;
	return map_put(&w->thinned, hash, 0);
}

void trace_rows_mark_thinned(struct trace_write *w)
{
	uint32_t unused;

	for (size_t i = 0; i < w->n_stats && w->thinned.used > 0; i++) {
		struct stat_entry *stat = &w->stats[i];
		const struct stat_key *key = &stat->key;

		if (stat->is_thinned || (!w->has_new_thinned && !stat->is_changed) ||
			!map_get(&w->thinned, hash_of_sums(key->kind, key->process, key->name, key->domain),
				&unused))
			continue;
		stat->is_thinned = stat->is_changed = true;
	}
	w->has_new_thinned = false;
}

static int delete_row(struct trace_write *w, enum trace_table table, sqlite3_stmt *st)
{
	const int64_t start = sqlite3_column_int64(st, 0), site = sqlite3_column_int64(st, 1);
	uint32_t at;
	int r;

	if (site < 1 || (uint64_t) site > w->n_sites) /* of a damaged file */
		return 0;
	r = trace_stat_of(w, (uint32_t) site, trace_phase_at(w, (uint64_t) start), &at);
	if (r == 0)
		r = note_thinned(w, &w->sites[site - 1].key);
	if (r < 0)
		return r;
	struct stat_entry *stat = &w->stats[at];

	trace_count_lost(w, stat->key.process, TRACE_LOST_THINNED, 1);
	w->rows[table] -= w->rows[table] > 0;
	if (stat->rows > 0) {
		stat->rows--;
		stat->removed++;
	}
	stat->is_changed = true;
	return 0;
}

static int delete_before(struct trace_write *w, enum trace_table table, int64_t time_ns)
{
	const struct trace_table_info *info = &trace_tables[table];
	struct buf sql = BUF_INIT(256);
	sqlite3_stmt *st;
	int r = 0, rc = SQLITE_ROW;

	(void) buf_printf(&sql, "SELECT %s,site FROM %s WHERE %s < ?", info->time, info->name, info->time);
	st = sql.error ? NULL : store_cached(w->s, sql.data);
	if (st)
		(void) sqlite3_bind_int64(st, 1, time_ns);
	while (st && r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		r = delete_row(w, table, st);
	if (st)
		(void) sqlite3_reset(st);
	if (r == 0)
		r = st ? store_error(w->s, rc) : store_step(w->s, NULL);
	buf_clear(&sql);
	(void) buf_printf(&sql, "DELETE FROM %s WHERE %s < ?", info->name, info->time);
	st = r == 0 && !sql.error ? store_cached(w->s, sql.data) : NULL;
	if (st) {
		(void) sqlite3_bind_int64(st, 1, time_ns);
		r = store_step(w->s, st);
	} else if (r == 0) {
		r = store_step(w->s, NULL);
	}
	buf_done(&sql);
	return r;
}

/* The start of the row after the first n ones; INT64_MAX: there are no more. */
static int start_after(struct trace_write *w, enum trace_table table, uint64_t n, int64_t *ret)
{
	const struct trace_table_info *info = &trace_tables[table];
	struct buf sql = BUF_INIT(256);
	sqlite3_stmt *st;
	int rc;

	(void) buf_printf(
		&sql, "SELECT %s FROM %s ORDER BY %s LIMIT 1 OFFSET ?", info->time, info->name, info->time);
	st = sql.error ? NULL : store_cached(w->s, sql.data);
	buf_done(&sql);
	if (!st)
		return store_step(w->s, NULL);
	(void) sqlite3_bind_int64(st, 1, (int64_t) n);
	rc = sqlite3_step(st);
	*ret = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : INT64_MAX;
	(void) sqlite3_reset(st);
	return store_error(w->s, rc);
}

/* Deletes about n of the oldest rows of all tables. */
static int delete_oldest(struct trace_write *w, uint64_t n)
{
	int64_t cut = INT64_MAX, start = INT64_MAX;
	int r = 0;

	for (int t = 0; t < ROWS_COUNT && r == 0; t++) {
		r = start_after(w, (enum trace_table) t, n, &start);
		if (r == 0 && start < cut)
			cut = start;
	}
	for (int t = 0; t < ROWS_COUNT && r == 0; t++)
		r = delete_before(w, (enum trace_table) t, cut);
	return r;
}

int trace_rows_thin(struct trace_write *w)
{
	const uint64_t limit = w->options.limit_bytes / STORE_PAGE;
	uint64_t n = 2 * w->rows_since_flush;
	int r = 0;

	w->rows_since_flush = 0;
	if (w->pages <= 0 || (uint64_t) w->pages <= limit)
		return 0;
	if (n < LEAST_DELETED)
		n = LEAST_DELETED;
	/* What exceeds the limit, and a hundredth more, so that not every flush deletes. */
	const uint64_t rows = trace_rows_all(w),
		       excess = rows * ((uint64_t) w->pages - limit + limit / 100) / (uint64_t) w->pages + 1;

	r = delete_oldest(w, n < excess ? n : excess);
	return r;
}
