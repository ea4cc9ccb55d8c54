/* SPDX-License-Identifier: MIT */
#include "record/thin/thin.h"

#include <stdlib.h>

#include "record/thin/thin_internal.h"

enum {
	FEWEST_WAL_PAGES = 8,
	MOST_WAL_PAGES = 256,
	SHM_BYTES = 32 << 10,  /* the journal's index; SQLite extends it in steps of this size */
	SHARES = 4,            /* each list may use a quarter of the limit */
};

unsigned thin_wal_pages(uint64_t max_bytes)
{
	uint64_t pages = max_bytes / STORE_PAGE / 32;

	if (pages < FEWEST_WAL_PAGES)
		return FEWEST_WAL_PAGES;
	return pages > MOST_WAL_PAGES ? MOST_WAL_PAGES : (unsigned) pages;
}

/* Space for the journal before and during a checkpoint, for its index, and for the rows of one
 * window. */
static uint64_t reserve(uint64_t max_bytes)
{
	return (2 * (uint64_t) thin_wal_pages(max_bytes) + 16) * STORE_PAGE + SHM_BYTES + max_bytes / 16;
}

struct thin *thin_new(const struct thin_options *options)
{
	struct thin *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->options = *options;
	t->n_levels = 1;
	t->wal_pages = thin_wal_pages(options->max_bytes);
	t->process_least = 1 << 20;
	t->high_bytes = options->max_bytes > 2 * reserve(options->max_bytes)
				? options->max_bytes - reserve(options->max_bytes)
				: options->max_bytes / 2;
	t->low_bytes = t->high_bytes - t->high_bytes / 32;
	return t;
}

void thin_free(struct thin *t)
{
	if (!t)
		return;
	for (unsigned l = 0; l < THIN_LEVELS; l++) {
		for (size_t i = 0; i < t->levels[l].n_states; i++)
			free(t->levels[l].states[i]);
		free(t->levels[l].states);
		map_done(&t->levels[l].places);
	}
	free(t->rows);
	free(t->jobs);
	free(t);
}

unsigned thin_steps(const struct thin *t)
{
	return t->wal_pages / 4;
}

void thin_window(struct thin *t)
{
	t->levels[0].windows++;
}

/* ---- SQL ------------------------------------------------------------------------------------- */

void thin_count(struct store *s, enum store_class class, int64_t gone)
{
	struct store_use *use = &s->use[class];

	if (gone > 0 && (uint64_t) gone < use->rows) {
		use->bytes -= (uint64_t) ((__int128) use->bytes * gone / use->rows);
		use->rows -= (uint64_t) gone;
	} else if (gone > 0) {
		*use = (struct store_use) { 0 };
	}
}

static void bind_two(sqlite3_stmt *st, int64_t first, int64_t second)
{
	int n = sqlite3_bind_parameter_count(st);

	if (n > 0)
		(void) sqlite3_bind_int64(st, 1, first);
	if (n > 1)
		(void) sqlite3_bind_int64(st, 2, second);
}

int64_t thin_delete(struct store *s, enum store_class class, const char *sql, int64_t first, int64_t second)
{
	sqlite3_stmt *st = store_cached(s, sql);
	int64_t gone;
	int r;

	if (!st)
		return store_step(s, NULL);
	bind_two(st, first, second);
	r = store_step(s, st);
	if (r < 0)
		return r;
	gone = sqlite3_changes(s->db);
	thin_count(s, class, gone);
	return gone;
}

int thin_number(
	struct store *s, const char *sql, int64_t first, int64_t second, int64_t *ret, bool *ret_found)
{
	sqlite3_stmt *st = store_cached(s, sql);
	int rc;

	if (!st)
		return store_step(s, NULL);
	bind_two(st, first, second);
	rc = sqlite3_step(st);
	*ret_found = rc == SQLITE_ROW && sqlite3_column_type(st, 0) == SQLITE_INTEGER;
	*ret = *ret_found ? sqlite3_column_int64(st, 0) : 0;
	rc = store_error(s, rc);
	(void) sqlite3_reset(st);
	return rc;
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* Without the pages of traced work, which has a limit of its own (record/trace/trace_write.h) and thins its own
 * rows. */
static int pages_of_windows(struct store *s, uint64_t *ret_used, uint64_t *ret_all)
{
	const int r = store_pages(s, ret_used, ret_all);
	const uint64_t traced = s->trace_pages < *ret_used ? s->trace_pages : *ret_used;

	*ret_used -= traced;
	*ret_all -= traced;
	return r;
}

bool thin_is_urgent(struct thin *t, struct store *s)
{
	uint64_t used, all;

	return pages_of_windows(s, &used, &all) == 0 &&
	       all * STORE_PAGE > t->high_bytes + t->options.max_bytes / 32;
}

bool thin_is_due(struct thin *t, struct store *s)
{
	uint64_t used, all;

	if (pages_of_windows(s, &used, &all) < 0)
		return false;
	used *= STORE_PAGE;
	t->thinning = used > (t->thinning ? t->low_bytes : t->high_bytes);
	return t->thinning || all * STORE_PAGE > t->high_bytes + STORE_PAGE * t->wal_pages / 2;
}

/* Truncates free pages at the end of the file. */
static int shrink(struct thin *t, struct store *s)
{
	struct buf sql = BUF_INIT(64);
	uint64_t used, all;
	int r = pages_of_windows(s, &used, &all);

	if (r < 0 || all * STORE_PAGE <= t->high_bytes || used == all)
		return r;
	(void) buf_printf(&sql, "PRAGMA incremental_vacuum(%u)", t->wal_pages / 2);
	r = sql.error ? sql.error : store_run(s, sql.data);
	buf_done(&sql);
	return r < 0 ? r : 1;
}

static const struct {
	enum store_class class;
	int (*step)(struct thin *t, struct store *s);
} lists[] = {
	{ CLASS_RECENT, thin_recent },
	{ CLASS_SERIES, thin_series },
	{ CLASS_EVENT, thin_events },
	{ CLASS_PROCESS, thin_processes },
};

/* Cuts each list that uses more than its share of the limit. Returns 1 if one was cut. */
static int cut_lists(struct thin *t, struct store *s, uint64_t share)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		int r = s->use[lists[i].class].bytes > share ? lists[i].step(t, s) : 0;

		if (r != 0)
			return r;
	}
	return 0;
}

int thin_step(struct thin *t, struct store *s, uint64_t begin_ns)
{
	int r = shrink(t, s);

	if (r != 0 || !t->thinning)
		return r;
	r = cut_lists(t, s, t->options.max_bytes / SHARES);
	if (r == 0)
		r = thin_merge(t, s, begin_ns);
	if (r == 0)
		r = cut_lists(t, s, t->options.max_bytes / 64);
	return r;
}
