/* SPDX-License-Identifier: MIT
 *
 * One instant of a recording: what each process held then, by its last row before it, and the way of the job's RAM
 * until then.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "record/reader.h"

enum {
	MOST_HELD = 100000,
	MOST_ROWS = 4000000
};
static const uint64_t recent_ns = 300000000000;

struct held {
	uint32_t id;
	int64_t rss;
	bool known;
};

struct moment {
	struct replay *r;
	struct map places;
	struct held *held;
	size_t n, cap;
	int error;
};

/* Those that lived then. */
static void take_living(struct moment *m, sqlite3_stmt *st)
{
	uint32_t id;

	if (!reader_id(st, 0, &id))
		return;
	m->error = vec_room(&m->held, &m->cap, m->n, sizeof(*m->held), MOST_HELD);
	if (m->error == 0)
		m->error = map_put(&m->places, id, (uint32_t) m->n);
	if (m->error == 0)
		m->held[m->n++] = (struct held) { .id = id };
}

static void take_row(struct moment *m, sqlite3_stmt *st)
{
	uint32_t id, place;
	int64_t rss;

	if (!reader_id(st, 0, &id) || !reader_int(st, 1, &rss) || rss < 0 || !map_get(&m->places, id, &place))
		return;
	m->held[place].rss = rss;
	m->held[place].known = true;
}

/* Calls take with each row of a table, at most so many. */
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

static int show_held(struct replay *r, uint64_t at_ns, uint64_t from_ns, const struct replay_seer *see)
{
	struct moment m = { .r = r };

	each(&m, "process", "SELECT id FROM process WHERE born <= ?1 AND (ended IS NULL OR ended >= ?1)", at_ns, 0, take_living);
	each(&m, "process_sample", "SELECT id, rss FROM process_sample WHERE t <= ?1 AND rss IS NOT NULL ORDER BY t", at_ns, 0,
		take_row);
	each(&m, "process_recent", "SELECT id, rss FROM process_recent WHERE t <= ?1 AND t >= ?2 AND rss IS NOT NULL ORDER BY t",
		at_ns, from_ns, take_row);
	for (size_t i = 0; i < m.n && m.error == 0; i++) {
		if (m.held[i].known)
			see->held(see->ctx, m.held[i].id, m.held[i].rss);
	}
	map_done(&m.places);
	free(m.held);
	return m.error;
}

static void show_levels(struct replay *r, const char *table, uint64_t from_ns, uint64_t to_ns, const struct replay_seer *see)
{
	char sql[128];
	sqlite3_stmt *st;

	(void) snprintf(sql, sizeof(sql), "SELECT t, ram FROM %s WHERE t >= ? AND t <= ? AND ram IS NOT NULL ORDER BY t", table);
	st = reader_has_table(r, table) ? reader_prepare(r, sql) : NULL;
	if (st) {
		(void) sqlite3_bind_int64(st, 1, (int64_t) from_ns);
		(void) sqlite3_bind_int64(st, 2, (int64_t) to_ns);
	}
	for (int i = 0; st && i < MOST_ROWS && sqlite3_step(st) == SQLITE_ROW; i++) {
		uint64_t time_ns;
		int64_t ram;

		if (reader_time(st, 0, &time_ns) && reader_int(st, 1, &ram))
			see->level(see->ctx, time_ns, ram);
	}
	(void) sqlite3_finalize(st);
}

int replay_moment(struct replay *r, uint64_t at_ns, const struct replay_seer *see)
{
	const uint64_t from = at_ns > recent_ns ? at_ns - recent_ns : 0;
	char sql[128];
	int64_t first;
	int code;

	reader_allow(r);
	(void) sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL); /* all of it as of one commit */
	code = show_held(r, at_ns, from, see);
	(void) snprintf(sql, sizeof(sql), "SELECT min(t) FROM job_recent WHERE t >= %" PRIu64 " AND t <= %" PRIu64, from, at_ns);
	if (!reader_number(r, sql, &first))
		first = (int64_t) at_ns + 1;
	if (first > 0)
		show_levels(r, "job_sample", 0, (uint64_t) first - 1, see);
	show_levels(r, "job_recent", (uint64_t) first, at_ns, see);
	(void) sqlite3_exec(r->db, "COMMIT", NULL, NULL, NULL);
	return code;
}
