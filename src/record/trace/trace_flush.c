/* SPDX-License-Identifier: MIT
 *
 * Writes the tables of traced work, except its rows.
 */
#include <errno.h>
#include <string.h>

#include "record/trace/trace_internal.h"

/* Rows are ordered by time: they are read so, and the oldest ones are deleted first. */
static const char tables[] =
	"CREATE TABLE IF NOT EXISTS trace_process(id INTEGER PRIMARY KEY, process INTEGER, pid INTEGER, start INTEGER,"
	" name TEXT, origin TEXT, rank INTEGER);"
	"CREATE TABLE IF NOT EXISTS trace_thread(process INTEGER, tid INTEGER, name TEXT, PRIMARY KEY(process, tid))"
	" WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS trace_device(process INTEGER, device INTEGER, name TEXT,"
	" PRIMARY KEY(process, device)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS trace_name(id INTEGER PRIMARY KEY, text TEXT);"
	"CREATE TABLE IF NOT EXISTS trace_site(id INTEGER PRIMARY KEY, kind TEXT, process INTEGER, name INTEGER,"
	" domain INTEGER, tid INTEGER, device INTEGER, context INTEGER, stream INTEGER, grid_x INTEGER, grid_y INTEGER,"
	" grid_z INTEGER, block_x INTEGER, block_y INTEGER, block_z INTEGER, registers INTEGER, shared_static INTEGER,"
	" shared_dynamic INTEGER, source TEXT, target TEXT, copy INTEGER);"
	"CREATE TABLE IF NOT EXISTS trace_range(start INTEGER, duration INTEGER, site INTEGER, depth INTEGER,"
	" flags INTEGER, PRIMARY KEY(start, site, depth)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS trace_launch(start INTEGER, duration INTEGER, site INTEGER, correlation INTEGER,"
	" flags INTEGER, PRIMARY KEY(start, site, correlation)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS trace_kernel(start INTEGER, duration INTEGER, site INTEGER, correlation INTEGER,"
	" queued INTEGER, submitted INTEGER, flags INTEGER, PRIMARY KEY(start, site, correlation)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS trace_copy(start INTEGER, duration INTEGER, site INTEGER, correlation INTEGER,"
	" queued INTEGER, submitted INTEGER, flags INTEGER, bytes INTEGER, PRIMARY KEY(start, site, correlation))"
	" WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS trace_memory(t INTEGER, bytes INTEGER, site INTEGER, address INTEGER, flags INTEGER,"
	" PRIMARY KEY(t, site, address)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS trace_stat(id INTEGER PRIMARY KEY, kind TEXT, name INTEGER, domain INTEGER,"
	" process INTEGER, tid INTEGER, device INTEGER, stream INTEGER, phase INTEGER, source TEXT, target TEXT,"
	" count INTEGER, invalid INTEGER, total INTEGER, min INTEGER, max INTEGER, sum_squares REAL, bytes INTEGER,"
	" rows INTEGER, histogram BLOB);"
	"CREATE TABLE IF NOT EXISTS trace_busy(process INTEGER, device INTEGER, traced INTEGER, busy INTEGER,"
	" kernels INTEGER, copies INTEGER, both INTEGER, gaps INTEGER, longest INTEGER, longest_at INTEGER,"
	" first INTEGER, last INTEGER, late INTEGER, PRIMARY KEY(process, device)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS trace_peak(process INTEGER, device INTEGER, memory TEXT, live INTEGER, peak INTEGER,"
	" t INTEGER, PRIMARY KEY(process, device, memory)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS trace_window(id INTEGER PRIMARY KEY, start INTEGER, end INTEGER, why TEXT);"
	"CREATE TABLE IF NOT EXISTS trace_lost(process INTEGER, cause TEXT, n INTEGER, PRIMARY KEY(process, cause))"
	" WITHOUT ROWID;";

int trace_flush_tables(struct trace_write *w)
{
	int r = 0;

	if (w->has_tables)
		return 0;
	r = store_run(w->s, tables);
	w->has_tables = r == 0;
	return r;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* A process of the job begins at a clock tick: the probe may know it to the nanosecond. */
static int64_t find_in_job(struct trace_write *w, const struct trace_process *p)
{
	static const char sql[] =
		"SELECT id FROM process WHERE pid = ?1 AND (?2 = 0 OR abs(start - ?2) <= 10000000) ORDER BY id DESC LIMIT 1";
	sqlite3_stmt *st = p->pid > 0 ? store_cached(w->s, sql) : NULL;
	int64_t id = 0;

	if (!st)
		return 0;
	(void) sqlite3_bind_int64(st, 1, p->pid);
	store_bind_time(st, 2, p->start_ns);
	if (sqlite3_step(st) == SQLITE_ROW)
		id = sqlite3_column_int64(st, 0);
	(void) sqlite3_reset(st);
	return id;
}

static int put_process(struct trace_write *w, size_t at)
{
	sqlite3_stmt *st = store_cached(w->s, "INSERT OR REPLACE INTO trace_process VALUES(?,?,?,?,?,?,?)");
	struct process_entry *entry = &w->processes[at];
	const struct trace_process *p = &entry->process;

	if (!st)
		return store_step(w->s, NULL);
	(void) sqlite3_bind_int64(st, 1, (int64_t) at + 1);
	store_bind_if(st, 2, entry->in_job != 0, entry->in_job);
	store_bind_if(st, 3, p->pid >= 0, p->pid);
	store_bind_if(st, 4, p->start_ns != 0, (int64_t) p->start_ns);
	store_bind_text(st, 5, p->name);
	store_bind_text(st, 6, p->origin);
	store_bind_if(st, 7, p->rank >= 0, p->rank);
	return store_step(w->s, st);
}

/* Its birth may be reported after its first event. */
static int put_processes(struct trace_write *w)
{
	enum {
		MOST_TRIES = 8
	};
	int r = 0;

	for (size_t i = 0; i < w->n_processes && r == 0; i++) {
		struct process_entry *entry = &w->processes[i];
		const bool was_known = entry->in_job != 0;

		if (!was_known && !entry->is_of_part && entry->tries < MOST_TRIES) {
			entry->tries++;
			entry->in_job = find_in_job(w, &entry->process);
		}
		if (!entry->is_written || (!was_known && entry->in_job))
			r = put_process(w, i);
		entry->is_written = r == 0;
	}
	return r;
}

static int put_names(struct trace_write *w)
{
	sqlite3_stmt *st = store_cached(w->s, "INSERT OR REPLACE INTO trace_name VALUES(?,?)");
	int r = st ? 0 : store_step(w->s, NULL);

	for (size_t i = w->written_names; i < w->n_names && r == 0; i++) {
		(void) sqlite3_bind_int64(st, 1, (int64_t) i + 1);
		store_bind_text(st, 2, w->names[i]);
		r = store_step(w->s, st);
	}
	if (r == 0)
		w->written_names = w->n_names;
	return r;
}

static bool is_known_shape(const uint32_t *shape)
{
	return shape[0] || shape[1] || shape[2];
}

static void bind_memory(sqlite3_stmt *st, int at, uint32_t memory)
{
	store_bind_text(st, at, memory ? trace_memory_name((enum trace_memory) memory) : NULL);
}

static int put_site(struct trace_write *w, sqlite3_stmt *st, size_t number, const struct site_key *k)
{
	const bool has_grid = is_known_shape(k->grid), has_block = is_known_shape(k->block);
	const bool has_device = k->device >= 0;

	(void) sqlite3_bind_int64(st, 1, (int64_t) number);
	store_bind_text(st, 2, trace_kind_name((enum trace_kind) k->kind));
	(void) sqlite3_bind_int64(st, 3, k->process);
	store_bind_if(st, 4, k->name != 0, k->name);
	store_bind_if(st, 5, k->domain != 0, k->domain);
	store_bind_if(st, 6, k->tid >= 0, k->tid);
	store_bind_if(st, 7, has_device, k->device);
	store_bind_if(st, 8, k->context != 0, (int64_t) k->context);
	store_bind_if(st, 9, has_device || k->stream, (int64_t) k->stream);
	for (int i = 0; i < 3; i++) {
		store_bind_if(st, 10 + i, has_grid, k->grid[i]);
		store_bind_if(st, 13 + i, has_block, k->block[i]);
	}
	store_bind_if(st, 16, has_block || k->registers, k->registers);
	store_bind_if(st, 17, has_block || k->shared_static, k->shared_static);
	store_bind_if(st, 18, has_block || k->shared_dynamic, k->shared_dynamic);
	bind_memory(st, 19, k->source);
	bind_memory(st, 20, k->target);
	store_bind_if(st, 21, k->copy != 0, k->copy);
	return store_step(w->s, st);
}

static int put_sites(struct trace_write *w)
{
	sqlite3_stmt *st = store_cached(
		w->s, "INSERT OR REPLACE INTO trace_site VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
	int r = st ? 0 : store_step(w->s, NULL);

	for (size_t i = w->written_sites; i < w->n_sites && r == 0; i++)
		r = put_site(w, st, i + 1, &w->sites[i].key);
	if (r == 0)
		w->written_sites = w->n_sites;
	return r;
}

int trace_flush_keys(struct trace_write *w)
{
	int r = trace_flush_tables(w);

	if (r == 0)
		r = put_processes(w);
	if (r == 0 && w->written_names < w->n_names)
		r = put_names(w);
	if (r == 0 && w->written_sites < w->n_sites)
		r = put_sites(w);
	return r;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static int put_stat(
	struct trace_write *w, sqlite3_stmt *st, size_t number, const struct stat_entry *e, struct buf *blob)
{
	const struct stat_key *k = &e->key;
	const bool has_time = e->histogram.n > 0;
	/* Fewer rows than events say that the rows are not all of them. */
	const uint64_t rows = e->is_thinned && e->rows >= e->count ? e->count - (e->count > 0) : e->rows;
	int r;

	buf_clear(blob);
	r = trace_histogram_write(&e->histogram, blob);
	if (r < 0)
		return r;
	(void) sqlite3_bind_int64(st, 1, (int64_t) number);
	store_bind_text(st, 2, trace_kind_name((enum trace_kind) k->kind));
	(void) sqlite3_bind_int64(st, 3, k->name);
	(void) sqlite3_bind_int64(st, 4, k->domain);
	(void) sqlite3_bind_int64(st, 5, k->process);
	(void) sqlite3_bind_int64(st, 6, k->tid);
	(void) sqlite3_bind_int64(st, 7, k->device);
	(void) sqlite3_bind_int64(st, 8, (int64_t) k->stream);
	(void) sqlite3_bind_int64(st, 9, k->phase == UINT32_MAX ? -1 : (int64_t) k->phase);
	bind_memory(st, 10, k->source);
	bind_memory(st, 11, k->target);
	store_bind_time(st, 12, e->count);
	store_bind_time(st, 13, e->invalid);
	store_bind_time(st, 14, e->total_ns);
	store_bind_if(st, 15, has_time, (int64_t) e->min_ns);
	store_bind_if(st, 16, has_time, (int64_t) e->max_ns);
	(void) sqlite3_bind_double(st, 17, e->sum_squares);
	store_bind_time(st, 18, e->bytes);
	store_bind_time(st, 19, rows);
	if (blob->len > 0)
		(void) sqlite3_bind_blob(st, 20, blob->data, (int) blob->len, SQLITE_STATIC);
	else
		(void) sqlite3_bind_null(st, 20);
	return store_step(w->s, st);
}

static int put_stats(struct trace_write *w)
{
	sqlite3_stmt *st = store_cached(
		w->s, "INSERT OR REPLACE INTO trace_stat VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
	struct buf blob = BUF_INIT(1 << 20);
	int r = st ? 0 : store_step(w->s, NULL);

	trace_rows_mark_thinned(w);
	for (size_t i = 0; i < w->n_stats && r == 0; i++) {
		if (!w->stats[i].is_changed)
			continue;
		r = put_stat(w, st, i + 1, &w->stats[i], &blob);
		w->stats[i].is_changed = false;
	}
	if (st)
		(void) sqlite3_clear_bindings(st);
	buf_done(&blob);
	return r;
}

static int put_device(struct trace_write *w, const struct device_entry *d)
{
	sqlite3_stmt *st = store_cached(w->s, "INSERT OR REPLACE INTO trace_device VALUES(?,?,?)");

	if (!st)
		return store_step(w->s, NULL);
	(void) sqlite3_bind_int64(st, 1, d->process);
	(void) sqlite3_bind_int64(st, 2, d->device);
	store_bind_text(st, 3, d->name ? d->name : "");
	return store_step(w->s, st);
}

int trace_flush_busy(
	struct trace_write *w, const struct device_entry *d, const struct trace_union_sums *sums)
{
	sqlite3_stmt *st =
		store_cached(w->s, "INSERT OR REPLACE INTO trace_busy VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)");
	const uint64_t values[] = {
		sums->traced_ns,
		sums->busy_ns,
		sums->kernels_ns,
		sums->copies_ns,
		sums->both_ns,
		sums->gaps,
		sums->longest_ns,
		sums->longest_at_ns,
		sums->first_ns,
		sums->last_ns,
		sums->late,
	};

	if (!st)
		return store_step(w->s, NULL);
	(void) sqlite3_bind_int64(st, 1, d->process);
	(void) sqlite3_bind_int64(st, 2, d->device);
	for (int i = 0; i < (int) (sizeof(values) / sizeof(values[0])); i++)
		store_bind_time(st, 3 + i, values[i]);
	return store_step(w->s, st);
}

static int put_devices(struct trace_write *w)
{
	const uint64_t now_ns = w->last_ns > w->windows_end_ns ? w->last_ns : w->windows_end_ns;
	int r = 0;

	for (size_t i = 0; i < w->n_devices && r == 0; i++) {
		struct device_entry *d = &w->devices[i];
		struct trace_union_sums sums;

		if (!d->is_written)
			r = put_device(w, d);
		if (r == 0 && d->has_work) {
			r = trace_union_sums(&d->busy, w->spans, w->n_spans, now_ns, &sums);
			sums.late += trace_lost_work(w, d->process);
		}
		if (r == 0 && d->has_work &&
			(!d->is_written || memcmp(&sums, &d->written, sizeof(sums)) != 0)) {
			r = trace_flush_busy(w, d, &sums);
			d->written = sums;
		}
		d->is_written = r == 0;
	}
	return r;
}

static int put_threads(struct trace_write *w)
{
	sqlite3_stmt *st = store_cached(w->s, "INSERT OR REPLACE INTO trace_thread VALUES(?,?,?)");
	int r = st ? 0 : store_step(w->s, NULL);

	for (size_t i = 0; i < w->n_threads && r == 0; i++) {
		if (w->threads[i].is_written)
			continue;
		(void) sqlite3_bind_int64(st, 1, w->threads[i].process);
		(void) sqlite3_bind_int64(st, 2, w->threads[i].tid);
		store_bind_text(st, 3, w->threads[i].name);
		r = store_step(w->s, st);
		w->threads[i].is_written = r == 0;
	}
	w->has_new_threads = r < 0;
	return r;
}

static int put_windows(struct trace_write *w)
{
	sqlite3_stmt *st = store_cached(w->s, "INSERT OR REPLACE INTO trace_window VALUES(?,?,?,?)");
	int r = st ? 0 : store_step(w->s, NULL);

	for (size_t i = 0; i < w->n_windows && r == 0; i++) {
		const struct window_entry *window = &w->windows[i];

		if (window->is_written)
			continue;
		(void) sqlite3_bind_int64(st, 1, (int64_t) i + 1);
		store_bind_time(st, 2, window->begin_ns);
		store_bind_if(st, 3, window->end_ns != UINT64_MAX, (int64_t) window->end_ns);
		store_bind_text(st, 4, window->why);
		r = store_step(w->s, st);
		w->windows[i].is_written = r == 0;
	}
	return r;
}

static int put_losses(struct trace_write *w, uint32_t process, const uint64_t *lost, bool *is_written)
{
	sqlite3_stmt *st = store_cached(w->s, "INSERT OR REPLACE INTO trace_lost VALUES(?,?,?)");
	int r = st ? 0 : store_step(w->s, NULL);

	for (int cause = 0; cause < TRACE_LOSS_COUNT && r == 0 && !*is_written; cause++) {
		if (!lost[cause])
			continue;
		(void) sqlite3_bind_int64(st, 1, process);
		store_bind_text(st, 2, trace_loss_name((enum trace_loss) cause));
		store_bind_time(st, 3, lost[cause]);
		r = store_step(w->s, st);
	}
	*is_written = r == 0;
	return r;
}

int trace_flush_sums(struct trace_write *w)
{
	int r = put_stats(w);

	if (r == 0)
		r = put_devices(w);
	if (r == 0)
		r = trace_flush_peaks(w);
	if (r == 0 && w->has_new_threads)
		r = put_threads(w);
	if (r == 0)
		r = put_windows(w);
	if (r == 0)
		r = put_losses(w, 0, w->lost, &w->is_lost_written);
	for (size_t i = 0; i < w->n_processes && r == 0; i++)
		r = put_losses(w, (uint32_t) i + 1, w->processes[i].lost, &w->processes[i].is_lost_written);
	return r;
}
