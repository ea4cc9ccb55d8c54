/* SPDX-License-Identifier: MIT */
#include "source/trace/import/nest.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "base/buf.h"

enum {
	THREADS_MOST = 1 << 20,
	OPEN_MOST = 1024, /* ranges of a thread, one in the other */
};

struct nest_thread {
	uint64_t last_start, last_end;
	uint64_t *ends; /* of the ranges that are open at last_start */
	size_t n, cap;
	bool has_last, is_unordered;
};

static struct nest_thread *find_thread(struct nest *nest, uint64_t key)
{
	uint32_t place;

	if (map_get(&nest->places, key, &place))
		return &nest->threads[place];
	if (vec_reserve(&nest->threads, &nest->cap, nest->n, sizeof(*nest->threads), THREADS_MOST) < 0 ||
		map_put(&nest->places, key, (uint32_t) nest->n) < 0)
		return NULL;
	nest->threads[nest->n] = (struct nest_thread) { 0 };
	return &nest->threads[nest->n++];
}

static void close_sorted(struct nest *nest)
{
	(void) sqlite3_finalize(nest->insert);
	(void) sqlite3_close_v2(nest->sorted);
	nest->insert = NULL;
	nest->sorted = NULL;
}

void nest_start(struct nest *nest, bool is_reading_facts)
{
	nest->is_reading_facts = is_reading_facts;
	close_sorted(nest);
	for (size_t i = 0; i < nest->n; i++) {
		nest->threads[i].n = 0;
		nest->threads[i].has_last = false;
	}
}

void nest_done(struct nest *nest)
{
	close_sorted(nest);
	for (size_t i = 0; i < nest->n; i++)
		free(nest->threads[i].ends);
	free(nest->threads);
	map_done(&nest->places);
	*nest = (struct nest) { 0 };
}

/* The event is not before the last one of its thread, and of two that begin at once the longer one came
 * first. */
static bool is_in_order(struct nest_thread *t, const struct trace_event *e)
{
	const bool is = !t->has_last || e->start_ns > t->last_start ||
			(e->start_ns == t->last_start && e->end_ns <= t->last_end);

	t->has_last = true;
	t->last_start = e->start_ns;
	t->last_end = e->end_ns;
	return is;
}

static void set_depth(struct nest_thread *t, struct trace_event *e)
{
	size_t open = 0;

	e->depth = 0;
	for (size_t i = 0; i < t->n; i++) {
		if (t->ends[i] <= e->start_ns)
			continue;
		t->ends[open++] = t->ends[i];
		if (t->ends[i] >= e->end_ns)
			e->depth++;
		else
			e->flags |= TRACE_CROSSING;
	}
	t->n = open;
	if (e->end_ns > e->start_ns && vec_reserve(&t->ends, &t->cap, t->n, sizeof(*t->ends), OPEN_MOST) == 0)
		t->ends[t->n++] = e->end_ns;
}

/* ---- threads without order ------------------------------------------------------------------- */

static int sql_error(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return 0;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	default:
		return -EIO;
	}
}

static int open_sorted(struct nest *nest)
{
	static const char tables[] =
		"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA temp_store=FILE; PRAGMA cache_size=-8192;"
		"PRAGMA locking_mode=EXCLUSIVE; BEGIN;"
		"CREATE TABLE event(thread INTEGER, start INTEGER, end INTEGER, site INTEGER, kind INTEGER, flags INTEGER)";
	/* A name that is empty: a file that SQLite makes, and removes. */
	const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	int rc = sqlite3_open_v2("", &nest->sorted, flags, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(nest->sorted, tables, NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(nest->sorted, "INSERT INTO event VALUES(?,?,?,?,?,?)", -1, &nest->insert, NULL);
	return sql_error(rc);
}

static int keep(struct nest *nest, uint64_t thread, const struct trace_event *e)
{
	const uint64_t values[] = { thread, e->start_ns, e->end_ns, e->site, e->kind, e->flags };
	int r = nest->sorted ? 0 : open_sorted(nest);

	if (r < 0)
		return r;
	for (int i = 0; i < 6; i++)
		(void) sqlite3_bind_int64(nest->insert, i + 1, (int64_t) values[i]);
	r = sql_error(sqlite3_step(nest->insert));
	(void) sqlite3_reset(nest->insert);
	return r;
}

int nest_add(struct nest *nest, uint64_t thread, struct trace_event *event)
{
	struct nest_thread *t = find_thread(nest, thread);

	if (!t)
		return -ENOMEM;
	if (nest->is_reading_facts) {
		t->is_unordered |= !is_in_order(t, event);
		return 1;
	}
	if (t->is_unordered) {
		const int r = keep(nest, thread, event);

		return r < 0 ? r : 0;
	}
	set_depth(t, event);
	return 1;
}

int nest_flush(struct nest *nest, int (*pass)(void *ctx, const struct trace_event *event), void *ctx)
{
	sqlite3_stmt *st = NULL;
	int rc, r = 0;

	if (!nest->sorted)
		return 0;
	rc = sqlite3_prepare_v2(nest->sorted,
		"SELECT thread, start, end, site, kind, flags FROM event ORDER BY thread, start, end DESC, rowid", -1, &st,
		NULL);
	while (rc == SQLITE_OK && r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct trace_event e = {
			.start_ns = (uint64_t) sqlite3_column_int64(st, 1),
			.end_ns = (uint64_t) sqlite3_column_int64(st, 2),
			.site = (uint32_t) sqlite3_column_int64(st, 3),
			.kind = (enum trace_kind) sqlite3_column_int(st, 4),
			.flags = (uint32_t) sqlite3_column_int64(st, 5),
		};
		struct nest_thread *t = find_thread(nest, (uint64_t) sqlite3_column_int64(st, 0));

		if (t)
			set_depth(t, &e);
		r = t ? pass(ctx, &e) : -ENOMEM;
		rc = SQLITE_OK;
	}
	(void) sqlite3_finalize(st);
	close_sorted(nest);
	return r < 0 ? r : sql_error(rc);
}
