/* SPDX-License-Identifier: MIT
 *
 * Merges a pair of windows into one of twice the width.
 *
 * An unchanged process has no row (docs/recording.md), so its last row has to be known when the
 * pair is merged, and later rows must stay correct: if the merged row differs from the last row of
 * the pair and the next window has no row, a row is written there. Each level stores the last row
 * of each process at the time at which the level begins.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "record/read/row_read.h"
#include "record/thin/thin_internal.h"

enum {
	KEPT_WINDOWS = 64,      /* the newest windows are not merged */
	MOST_ROWS = 1 << 20,
	SWEEP = 256,            /* merges between two removals of ended processes */
};

/* The pair of windows to merge. */
struct pair {
	struct thin *t;
	struct store *s;
	struct thin_level *level; /* the level of the two windows */
	uint64_t begin_ns, middle_ns, end_ns;
	bool has_first, has_second;
	struct row next_job;      /* the first window after the pair */
	bool next_known;
};

/* ---- reading and writing --------------------------------------------------------------------- */

static sqlite3_stmt *select_rows(
	struct store *s, enum entity entity, uint64_t from_ns, uint64_t to_ns, unsigned most)
{
	struct buf sql = BUF_INIT(512);
	sqlite3_stmt *st;

	(void) buf_printf(&sql, "SELECT * FROM %s_sample WHERE t >= ?1 AND t < ?2 ORDER BY %st LIMIT %u",
		entity_name(entity), entity_has_id(entity) && most > 1 ? "id, " : "", most);
	st = store_cached(s, sql.data);
	buf_done(&sql);
	if (st) {
		(void) sqlite3_bind_int64(st, 1, (int64_t) from_ns);
		(void) sqlite3_bind_int64(st, 2, to_ns > INT64_MAX ? INT64_MAX : (int64_t) to_ns);
	}
	return st;
}

/* The rows of entity in the pair, by id and time. */
static int load(struct pair *p, enum entity entity, struct row **rows, size_t *n, size_t *cap)
{
	sqlite3_stmt *st = select_rows(p->s, entity, p->begin_ns, p->end_ns, MOST_ROWS);
	int r = st ? 0 : store_step(p->s, NULL), rc = SQLITE_DONE;

	*n = 0;
	while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		r = vec_reserve(rows, cap, *n, sizeof(**rows), MOST_ROWS);
		if (r == 0 && row_read(st, &p->s->layout, entity, false, &(*rows)[*n])) {
			p->has_first = p->has_first || (*rows)[*n].t_ns < p->middle_ns;
			p->has_second = p->has_second || (*rows)[*n].t_ns >= p->middle_ns;
			(*n)++;
		}
	}
	rc = store_error(p->s, rc);
	if (st)
		(void) sqlite3_reset(st);
	return r < 0 ? r : rc;
}

static int clear(struct pair *p, enum entity entity)
{
	struct buf sql = BUF_INIT(256);
	int64_t gone;

	(void) buf_str(&sql, "DELETE FROM ");
	(void) buf_printf(&sql, "%s_sample WHERE t >= ?1 AND t < ?2", entity_name(entity));
	gone = thin_delete(p->s, CLASS_SAMPLE, sql.data, (int64_t) p->begin_ns, (int64_t) p->end_ns);
	buf_done(&sql);
	return gone < 0 ? (int) gone : 0;
}

static int find_next_job(struct pair *p)
{
	sqlite3_stmt *st = select_rows(p->s, ENTITY_JOB, p->end_ns, UINT64_MAX, 1);
	int rc = st ? sqlite3_step(st) : SQLITE_NOMEM;

	p->next_known = rc == SQLITE_ROW && row_read(st, &p->s->layout, ENTITY_JOB, false, &p->next_job);
	rc = store_error(p->s, rc);
	if (st)
		(void) sqlite3_reset(st);
	return rc;
}

/* ---- processes ------------------------------------------------------------------------------- */

static struct thin_state *find_state(const struct thin_level *level, uint32_t id)
{
	uint32_t place;

	return map_get(&level->places, id, &place) ? level->states[place] : NULL;
}

static int set_state(struct pair *p, uint32_t id, const struct cell *cells)
{
	const size_t size = p->s->layout.n[ENTITY_PROCESS] * sizeof(*cells);
	struct thin_level *level = p->level;
	struct thin_state *state = find_state(level, id);

	if (!state) {
		if (vec_reserve(&level->states, &level->cap_states, level->n_states, sizeof(state),
			    MOST_ROWS) < 0)
			return -ENOMEM;
		state = malloc(sizeof(*state) + size);
		if (!state || map_put(&level->places, id, (uint32_t) level->n_states) < 0) {
			free(state);
			return -ENOMEM;
		}
		state->id = id;
		level->states[level->n_states++] = state;
	}
	memcpy(state->cells, cells, size);
	return 0;
}

static void drop_state(struct thin_level *level, size_t place)
{
	struct thin_state *last = level->states[--level->n_states];

	map_remove(&level->places, level->states[place]->id);
	free(level->states[place]);
	if (place < level->n_states) {
		level->states[place] = last;
		(void) map_put(&level->places, last->id, (uint32_t) place);
	}
}

struct life {
	bool known;        /* the process exists; id 0 always does */
	uint64_t ended_ns; /* UINT64_MAX: still running */
};

static int read_life(struct store *s, uint32_t id, struct life *ret)
{
	int64_t ended;
	bool found;
	int r;

	*ret = (struct life) { .known = true, .ended_ns = UINT64_MAX };
	if (id == 0)
		return 0;
	r = thin_number(s, "SELECT coalesce(ended, -1) FROM process WHERE id = ?", id, 0, &ended, &found);
	ret->known = found;
	if (found && ended >= 0)
		ret->ended_ns = (uint64_t) ended;
	return r;
}

/* The row of a process without one in a window of the job: unchanged values. */
static void repeat_row(const struct pair *p, const struct cell *cells, const struct row *job,
	const struct life *life, struct row *ret)
{
	const struct row_layout *l = &p->s->layout;

	*ret = (struct row) { .t_ns = job->t_ns, .span_ns = job->span_ns };
	if (life->ended_ns - job->t_ns < ret->span_ns)
		ret->span_ns = life->ended_ns - job->t_ns;
	for (unsigned c = 0; c < l->n[ENTITY_PROCESS]; c++) {
		ret->cells[c] = cells[c];
		if (metrics[l->metric[ENTITY_PROCESS][c]].kind == KIND_GAUGE)
			ret->cells[c].cover_ns = ret->span_ns;
	}
}

struct merging {
	struct row sum;          /* merged rows so far */
	bool started;
	struct cell now[ROW_CELLS]; /* the latest values so far */
	bool has_now;
};

static void add(const struct pair *p, struct merging *m, const struct row *row)
{
	if (m->started)
		row_merge(&m->sum, row, &p->s->layout, ENTITY_PROCESS);
	else
		m->sum = *row;
	m->started = true;
	memcpy(m->now, row->cells, sizeof(m->now));
	m->has_now = true;
}

/* Goes through the windows of the job and the n rows of one process in the order of time. */
static void add_all(
	const struct pair *p, struct merging *m, const struct row *rows, size_t n, const struct life *life)
{
	const struct thin *t = p->t;
	struct row still;
	size_t i = 0;

	for (size_t j = 0; j < t->n_jobs; j++) {
		const struct row *job = &t->jobs[j];

		for (; i < n && rows[i].t_ns < job->t_ns; i++)
			add(p, m, &rows[i]);
		if (i < n && rows[i].t_ns == job->t_ns) {
			add(p, m, &rows[i++]);
		} else if (m->has_now && life->ended_ns > job->t_ns) {
			repeat_row(p, m->now, job, life, &still);
			add(p, m, &still);
		}
	}
	for (; i < n; i++)
		add(p, m, &rows[i]);
}

/* Writes a row into the window after the pair with the process's last values, unless there is
 * one. */
static int write_next(struct pair *p, uint32_t id, const struct merging *m, const struct life *life)
{
	struct row row;
	int64_t there;
	bool found;
	int r;

	if (!p->next_known || life->ended_ns <= p->next_job.t_ns)
		return 0;
	r = thin_number(p->s, "SELECT 1 FROM process_sample WHERE t = ?1 AND id = ?2",
		(int64_t) p->next_job.t_ns, id, &there, &found);
	if (r < 0 || found)
		return r;
	repeat_row(p, m->now, &p->next_job, life, &row);
	row.id = id;
	return store_row(p->s, ENTITY_PROCESS, false, &row);
}

static int merge_process(struct pair *p, const struct row *rows, size_t n)
{
	const unsigned cells = p->s->layout.n[ENTITY_PROCESS];
	const uint32_t id = rows[0].id;
	const struct thin_state *state = find_state(p->level, id);
	struct merging m = { .has_now = state != NULL };
	struct life life;
	int r = read_life(p->s, id, &life);

	if (r < 0 || !life.known)
		return r;
	if (state)
		memcpy(m.now, state->cells, cells * sizeof(m.now[0]));
	add_all(p, &m, rows, n, &life);
	m.sum.t_ns = p->t->n_jobs > 0 ? p->t->jobs[0].t_ns : p->begin_ns; /* the job's: merged later */
	m.sum.id = id;
	if (!state || !cells_same(state->cells, m.sum.cells, cells))
		r = store_row(p->s, ENTITY_PROCESS, false, &m.sum);
	if (r == 0 && !cells_same(m.now, m.sum.cells, cells))
		r = write_next(p, id, &m, &life);
	return r < 0 ? r : set_state(p, id, m.sum.cells);
}

static int merge_processes(struct pair *p)
{
	struct thin *t = p->t;
	size_t begin = 0, end;
	int r = load(p, ENTITY_PROCESS, &t->rows, &t->n_rows, &t->cap_rows);

	if (r == 0 && t->n_rows > 0)
		r = clear(p, ENTITY_PROCESS);
	for (; r == 0 && begin < t->n_rows; begin = end) {
		for (end = begin + 1; end < t->n_rows && t->rows[end].id == t->rows[begin].id;)
			end++;
		r = merge_process(p, t->rows + begin, end - begin);
	}
	return r;
}

/* Drops the processes that ended before the start of the level. */
static int sweep(struct pair *p)
{
	struct thin_level *level = p->level;
	int r = 0;

	if (++level->merges < SWEEP)
		return 0;
	level->merges = 0;
	for (size_t i = level->n_states; i > 0 && r == 0; i--) {
		struct life life;

		r = read_life(p->s, level->states[i - 1]->id, &life);
		if (r == 0 && (!life.known || life.ended_ns <= p->end_ns))
			drop_state(level, i - 1);
	}
	return r;
}

/* ---- rows that stand for themselves ---------------------------------------------------------- */

/* Rows of entities whose missing rows mean "not present". A row from before the pair may extend
 * into it, so the merged one begins where the first row of the pair did. */
static int merge_plain(struct pair *p, enum entity entity, struct row *rows, size_t n)
{
	int r = n > 0 ? clear(p, entity) : 0;
	size_t i = 0;

	while (i < n && r == 0) {
		struct row *sum = &rows[i];

		for (i++; i < n && rows[i].id == sum->id; i++)
			row_merge(sum, &rows[i], &p->s->layout, entity);
		r = store_row(p->s, entity, false, sum);
	}
	return r;
}

static int merge_all(struct pair *p)
{
	struct thin *t = p->t;
	int r = load(p, ENTITY_JOB, &t->jobs, &t->n_jobs, &t->cap_jobs);

	if (r == 0)
		r = find_next_job(p);
	if (r == 0)
		r = merge_processes(p);
	for (int e = 0; e < ENTITY_COUNT && r == 0; e++) {
		if (e == ENTITY_JOB || e == ENTITY_PROCESS)
			continue;
		r = load(p, (enum entity) e, &t->rows, &t->n_rows, &t->cap_rows);
		if (r == 0)
			r = merge_plain(p, (enum entity) e, t->rows, t->n_rows);
	}
	if (r == 0)
		r = merge_plain(p, ENTITY_JOB, t->jobs, t->n_jobs);
	return r == 0 ? sweep(p) : r;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static uint64_t width_of(const struct thin *t, unsigned level)
{
	return t->options.window_ns << level;
}

/* The end of the windows of level that may be merged. */
static uint64_t end_of(const struct thin *t, unsigned level, uint64_t begin_ns)
{
	const uint64_t kept = KEPT_WINDOWS * t->options.window_ns;

	if (level > 0)
		return t->levels[level - 1].begin_ns;
	return begin_ns > kept ? begin_ns - kept : 0;
}

/* The level with the most windows among those that have a pair; -1 if none has. */
static int choose_level(const struct thin *t, uint64_t begin_ns)
{
	int best = -1;

	for (unsigned l = 0; l < t->n_levels && l + 1 < THIN_LEVELS; l++) {
		if (width_of(t, l) > UINT64_MAX / 16 ||
			t->levels[l].begin_ns + 2 * width_of(t, l) > end_of(t, l, begin_ns))
			continue;
		if (best < 0 || t->levels[l].windows > t->levels[best].windows)
			best = (int) l;
	}
	return best;
}

/* The pair is empty: continue at the next row, or at the end of the level. */
static int skip_gap(struct thin *t, struct store *s, unsigned level, uint64_t end_ns)
{
	const uint64_t width = 2 * width_of(t, level);
	uint64_t to = end_ns - end_ns % width;
	int64_t next;
	bool found;
	int r = thin_number(s,
		"SELECT min(t) FROM (SELECT min(t) AS t FROM job_sample WHERE t >= ?1 UNION ALL"
		" SELECT min(t) FROM host_sample WHERE t >= ?1 UNION ALL"
		" SELECT min(t) FROM process_sample WHERE t >= ?1 UNION ALL"
		" SELECT min(t) FROM gpu_sample WHERE t >= ?1 UNION ALL"
		" SELECT min(t) FROM gpu_process_sample WHERE t >= ?1)",
		(int64_t) t->levels[level].begin_ns, 0, &next, &found);

	if (r < 0)
		return r;
	if (found && (uint64_t) next - (uint64_t) next % width < to)
		to = (uint64_t) next - (uint64_t) next % width;
	if (to > t->levels[level].begin_ns)
		t->levels[level].begin_ns = to;
	return 1;
}

static void lower(uint64_t *count, uint64_t by)
{
	*count = *count > by ? *count - by : 0;
}

int thin_merge(struct thin *t, struct store *s, uint64_t begin_ns)
{
	int level = choose_level(t, begin_ns);
	struct pair p = { .t = t, .s = s };
	int r;

	if (level < 0)
		return 0;
	p.level = &t->levels[level];
	p.begin_ns = p.level->begin_ns;
	p.middle_ns = p.begin_ns + width_of(t, (unsigned) level);
	p.end_ns = p.middle_ns + width_of(t, (unsigned) level);
	r = merge_all(&p);
	if (r < 0)
		return r;
	p.level->begin_ns = p.end_ns;
	if ((unsigned) level + 1 == t->n_levels)
		t->n_levels++;
	if (!p.has_first && !p.has_second)
		return skip_gap(t, s, (unsigned) level, end_of(t, (unsigned) level, begin_ns));
	lower(&p.level->windows, (uint64_t) p.has_first + (uint64_t) p.has_second);
	p.level[1].windows++;
	return 1;
}
