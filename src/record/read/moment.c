/* SPDX-License-Identifier: MIT
 *
 * One instant of a recording: the RAM or GPU memory that each process used then, from its last row
 * before that time, and the job's use from the start until then.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "record/read/reader.h"

enum {
	MOST_USERS = 100000,
	MOST_ROWS = 4000000
};
static const uint64_t recent_ns = 300000000000;

/* The columns to read for one kind of memory. living: id, and the id of the process that it
 * belongs to. */
static const struct kind {
	const char *sample, *recent, *living, *in_sample, *in_recent, *level;
	uint64_t late_ns; /* larger values this much later count too: lists follow totals */
} kinds[] = {
	{ "process_sample", "process_recent",
		"SELECT id, id FROM process WHERE born <= ?1 AND (ended IS NULL OR ended >= ?1)",
		"SELECT id, rss, t FROM process_sample WHERE t <= ?1 AND rss IS NOT NULL ORDER BY t",
		"SELECT id, rss, t FROM process_recent WHERE t <= ?1 AND t >= ?2 AND rss IS NOT NULL ORDER BY t",
		"ram", 0 },
	{ "gpu_process_sample", "gpu_process_recent",
		"SELECT id, process FROM gpu_process WHERE process > 0 AND born <= ?1 AND (ended IS NULL OR ended >= ?1)",
		"SELECT id, mem, t FROM gpu_process_sample WHERE t <= ?1 AND mem IS NOT NULL ORDER BY t",
		"SELECT id, mem, t FROM gpu_process_recent WHERE t <= ?1 AND t >= ?2 AND mem IS NOT NULL ORDER BY t",
		"gpu_mem", UINT64_C(1000000000) },
};

struct user {
	uint32_t process;
	int64_t bytes;
	bool known;
};

struct moment {
	struct replay *r;
	uint64_t at_ns;
	struct map places;
	struct user *users;
	size_t n, cap;
	int error;
};

/* The entities that were alive at that time. */
static void add_living(struct moment *m, sqlite3_stmt *st)
{
	uint32_t id, process;

	if (!reader_id(st, 0, &id) || !reader_id(st, 1, &process))
		return;
	m->error = vec_reserve(&m->users, &m->cap, m->n, sizeof(*m->users), MOST_USERS);
	if (m->error == 0)
		m->error = map_put(&m->places, id, (uint32_t) m->n);
	if (m->error == 0)
		m->users[m->n++] = (struct user) { .process = process };
}

static void apply_row(struct moment *m, sqlite3_stmt *st)
{
	uint32_t id, place;
	int64_t bytes;
	uint64_t time_ns;

	if (!reader_id(st, 0, &id) || !reader_int(st, 1, &bytes) || bytes < 0 ||
		!reader_time(st, 2, &time_ns) || !map_get(&m->places, id, &place))
		return;
	if (time_ns > m->at_ns && m->users[place].known && m->users[place].bytes >= bytes)
		return;
	m->users[place].bytes = bytes;
	m->users[place].known = true;
}

/* Calls take with each row of a table, up to a maximum. */
static void each(struct moment *m, const char *table, const char *sql, uint64_t to_ns, uint64_t from_ns,
	void (*take)(struct moment *m, sqlite3_stmt *st))
{
	sqlite3_stmt *st = m->error == 0 && reader_has_table(m->r, table) ? reader_prepare(m->r, sql) : NULL;

	if (st) {
		(void) sqlite3_bind_int64(st, 1, (int64_t) to_ns);
		if (sqlite3_bind_parameter_count(st) > 1)
			(void) sqlite3_bind_int64(st, 2, (int64_t) from_ns);
	}
	for (int i = 0; st && i < MOST_ROWS && m->error == 0 && sqlite3_step(st) == SQLITE_ROW; i++)
		take(m, st);
	(void) sqlite3_finalize(st);
}

static int report_used(struct replay *r, const struct kind *kind, uint64_t at_ns, uint64_t from_ns,
	const struct replay_frame_fn *see)
{
	struct moment m = { .r = r, .at_ns = at_ns };
	const uint64_t until = at_ns + kind->late_ns;

	each(&m, "process", kind->living, at_ns, 0, add_living);
	each(&m, kind->sample, kind->in_sample, until, 0, apply_row);
	each(&m, kind->recent, kind->in_recent, until, from_ns, apply_row);
	for (size_t i = 0; i < m.n && m.error == 0; i++) {
		if (m.users[i].known)
			see->held(see->ctx, m.users[i].process, m.users[i].bytes);
	}
	map_done(&m.places);
	free(m.users);
	return m.error;
}

static void report_levels(struct replay *r, const char *table, const char *column, uint64_t from_ns,
	uint64_t to_ns, const struct replay_frame_fn *see)
{
	char sql[160];
	sqlite3_stmt *st;

	(void) snprintf(sql, sizeof(sql),
		"SELECT t, %s FROM %s WHERE t >= ? AND t <= ? AND %s IS NOT NULL ORDER BY t", column, table,
		column);
	st = reader_has_table(r, table) ? reader_prepare(r, sql) : NULL;
	if (st) {
		(void) sqlite3_bind_int64(st, 1, (int64_t) from_ns);
		(void) sqlite3_bind_int64(st, 2, (int64_t) to_ns);
	}
	for (int i = 0; st && i < MOST_ROWS && sqlite3_step(st) == SQLITE_ROW; i++) {
		uint64_t time_ns;
		int64_t bytes;

		if (reader_time(st, 0, &time_ns) && reader_int(st, 1, &bytes))
			see->level(see->ctx, time_ns, bytes);
	}
	(void) sqlite3_finalize(st);
}

int replay_moment(struct replay *r, uint64_t at_ns, bool on_gpu, bool of_limit,
	const struct replay_frame_fn *see)
{
	const struct kind *kind = &kinds[on_gpu];
	const char *level = of_limit ? "limit_unreclaimable" : kind->level;
	const uint64_t from = at_ns > recent_ns ? at_ns - recent_ns : 0;
	char sql[128];
	int64_t first;
	int code;

	reader_allow(r);
	(void) sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL); /* read all tables as of one commit */
	code = report_used(r, kind, at_ns, from, see);
	(void) snprintf(sql, sizeof(sql),
		"SELECT min(t) FROM job_recent WHERE t >= %" PRIu64 " AND t <= %" PRIu64, from, at_ns);
	if (!reader_number(r, sql, &first))
		first = (int64_t) at_ns + 1;
	if (first > 0)
		report_levels(r, "job_sample", level, 0, (uint64_t) first - 1, see);
	report_levels(r, "job_recent", level, (uint64_t) first, at_ns, see);
	(void) sqlite3_exec(r->db, "COMMIT", NULL, NULL, NULL);
	return code;
}
