/* SPDX-License-Identifier: MIT
 *
 * Replays a recording as frames. One cursor per table reads its rows in the order of time, and the
 * earliest row of all cursors comes next. A process without a row in a window of the job is
 * unchanged (docs/recording.md): its last row is repeated, so that consumers of frames need not
 * know this rule.
 *
 * Memory use: one row per table and the last row of each living process.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/read/replay_internal.h"
#include "record/read/row_read.h"
#include "record/schema.h"

static const enum frame_source source_of[ENTITY_COUNT] = {
	[ENTITY_HOST] = FRAME_HOST,
	[ENTITY_JOB] = FRAME_TOTALS,
	[ENTITY_PROCESS] = FRAME_PROCFS,
	[ENTITY_GPU] = FRAME_NVML,
	[ENTITY_GPU_PROCESS] = FRAME_NVML,
};

/* Sets the error of a recording whose population could not be formed; returns the code. */
static int unreadable(struct play *p, int code)
{
	return err_set(p->err, code, code == -ENOMEM ? "%s: out of memory" : "%s is damaged", p->r->path);
}

/* ---- giving out ------------------------------------------------------------------------------ */

static void emit(struct play *p, enum frame_source source, uint64_t time_ns, uint64_t hold_ns)
{
	struct frame frame;

	if (p->out.error && p->error == 0)
		p->error = err_set(p->err, -ENOMEM, "%s: out of memory", p->r->path);
	if (!framebuf_is_empty(&p->out) && !p->stopped && p->error == 0) {
		if (time_ns < p->last_ns)
			time_ns = p->last_ns;
		p->last_ns = time_ns;
		frame = framebuf_frame(&p->out, source, time_ns, hold_ns);
		frame.live = false;
		p->stopped = !p->see(p->ctx, &frame);
	}
	framebuf_clear(&p->out);
}

static void fail(struct play *p, int rc)
{
	if (p->error == 0)
		p->error = reader_error(p->r, rc, p->err);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void step(struct play *p, struct cursor *c)
{
	const uint64_t before = c->row.t_ns;
	int rc = SQLITE_DONE;

	c->pending = false;
	while (c->statement && !c->pending && (rc = sqlite3_step(c->statement)) == SQLITE_ROW)
		c->pending = row_read(c->statement, &p->r->layout, c->entity, c->recent, &c->row) &&
			     c->row.t_ns >= before;
	fail(p, rc);
}

static void append_cell(struct play *p, const struct cursor *c, unsigned place, const struct row *row)
{
	const struct cell *cell = &row->cells[place];
	const enum metric metric = p->r->layout.metric[c->entity][place];
	struct reading r = reading_of(metric, row->id, cell->value);

	if (!cell->known)
		return;
	r.n = row->n;
	r.min = cell->min;
	r.max = cell->max;
	if (!c->recent)
		r.span_ns = metrics[metric].kind == KIND_GAUGE ? cell->cover_ns : row->span_ns;
	framebuf_reading(&p->out, r);
}

/* A row without known cells: the values are unknown from here on. */
static void append_unread(struct play *p, const struct cursor *c, const struct row *row)
{
	for (unsigned i = 0; i < p->r->layout.n[c->entity]; i++) {
		if (metrics[p->r->layout.metric[c->entity][i]].kind == KIND_GAUGE)
			framebuf_unknown(&p->out, p->r->layout.metric[c->entity][i], row->id);
	}
}

static void append_row(struct play *p, const struct cursor *c, const struct row *row)
{
	if (row_is_empty(row, p->r->layout.n[c->entity])) {
		append_unread(p, c, row);
		return;
	}
	for (unsigned i = 0; i < p->r->layout.n[c->entity]; i++)
		append_cell(p, c, i, row);
}

/* The pending row of the cursor, unless its entity is unknown. Id 0 of the processes is the row
 * of the remaining processes. */
static void append_pending(struct play *p, struct cursor *c)
{
	const enum entity e = c->entity;
	struct living *l = NULL;

	if (entity_has_id(e) && c->row.id > 0) {
		population_births_to(&p->people, e, c->row.id, &p->out);
		l = population_find(&p->people, e, c->row.id);
		if (!l)
			return;
	}
	append_row(p, c, &c->row);
	if (l && e == ENTITY_PROCESS)
		living_remember(&p->people, l, &c->row);
}

/* Repeats the last rows of the processes that have no row at time_ns although the job has one.
 * done: the ids that have a row. */
static void append_unchanged(
	struct play *p, const struct cursor *c, const struct row *job, const struct map *done)
{
	const unsigned n = p->r->layout.n[ENTITY_PROCESS];
	struct row row;
	uint32_t mark;

	for (size_t i = 0; i < p->people.n_living; i++) {
		const struct living *l = &p->people.living[i];

		if (l->entity != ENTITY_PROCESS || !l->has_state || l->ended_ns <= job->t_ns ||
			map_get(done, l->id, &mark))
			continue;
		row = (struct row) { .t_ns = job->t_ns, .span_ns = job->span_ns, .id = l->id };
		if (l->ended_ns - job->t_ns < row.span_ns)
			row.span_ns = l->ended_ns - job->t_ns;
		memcpy(row.cells, l->cells, n * sizeof(row.cells[0]));
		for (unsigned k = 0; k < n; k++)
			row.cells[k].cover_ns = row.span_ns;
		if (!row_is_empty(&row, n))
			append_row(p, c, &row);
	}
}

static uint64_t hold_of(const struct play *p, bool recent, uint64_t span_ns)
{
	uint64_t hold = recent ? p->interval_ns : span_ns;

	return hold > UINT64_MAX / 3 ? UINT64_MAX : 3 * hold;
}

/* Emits all rows of a table at time_ns as one frame, including the unchanged processes. */
static void emit_rows(struct play *p, enum entity e, bool recent, uint64_t time_ns, const struct row *job)
{
	struct cursor *c = &p->cursors[e][recent];
	struct map done = { 0 };
	uint64_t span = job ? job->span_ns : 0;

	while (c->pending && c->row.t_ns == time_ns && p->error == 0) {
		c->next_ns = time_ns + 1;
		if (c->row.span_ns > span)
			span = c->row.span_ns;
		append_pending(p, c);
		if (job && map_put(&done, c->row.id, 1) < 0 && p->error == 0)
			p->error = -ENOMEM;
		step(p, c);
	}
	if (job && e == ENTITY_PROCESS)
		append_unchanged(p, c, job, &done);
	map_done(&done);
	emit(p, source_of[e], time_ns, hold_of(p, recent, span));
}

/* For each id, the time of its last row before from_ns. */
static const char last_rows[] = "SELECT id, max(t) FROM process_sample WHERE t < ? AND id > 0 GROUP BY id";

static void append_row_at(struct play *p, struct cursor *c, uint32_t id, uint64_t time_ns)
{
	char where[80];

	if (!population_find(&p->people, ENTITY_PROCESS, id))
		return;
	(void) snprintf(where, sizeof(where), "WHERE id = %" PRIu32 " AND t = %" PRIu64, id, time_ns);
	c->statement = reader_rows(p->r, ENTITY_PROCESS, false, where);
	step(p, c);
	if (c->pending)
		append_pending(p, c);
	(void) sqlite3_finalize(c->statement);
	c->statement = NULL;
}

void play_state(struct play *p, uint64_t from_ns)
{
	sqlite3_stmt *st = reader_has_table(p->r, "process_sample") ? reader_prepare(p->r, last_rows) : NULL;
	struct cursor one = { .entity = ENTITY_PROCESS };
	uint64_t time_ns;
	uint32_t id;

	population_births(&p->people, from_ns, &p->out);
	if (st)
		(void) sqlite3_bind_int64(st, 1, (int64_t) from_ns);
	while (st && p->error == 0 && sqlite3_step(st) == SQLITE_ROW) {
		one.row.t_ns = 0;
		if (reader_id(st, 0, &id) && reader_time(st, 1, &time_ns))
			append_row_at(p, &one, id, time_ns);
	}
	(void) sqlite3_finalize(st);
	emit(p, FRAME_PROCFS, from_ns, 3 * p->interval_ns);
}

static void emit_tables(struct play *p, uint64_t time_ns)
{
	for (int recent = 0; recent < 2; recent++) {
		const struct cursor *c = &p->cursors[ENTITY_JOB][recent];
		struct row job = c->row;
		bool has_job = c->pending && job.t_ns == time_ns;

		emit_rows(p, ENTITY_HOST, recent, time_ns, NULL);
		emit_rows(p, ENTITY_PROCESS, recent, time_ns, has_job ? &job : NULL);
		emit_rows(p, ENTITY_JOB, recent, time_ns, NULL);
		emit_rows(p, ENTITY_GPU, recent, time_ns, NULL);
		emit_rows(p, ENTITY_GPU_PROCESS, recent, time_ns, NULL);
	}
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* The pending row was emitted. */
static void step_list(struct play *p, struct list *list)
{
	const uint64_t before = list->t_ns;
	int rc = SQLITE_DONE;

	list->pending = false;
	while (list->statement && !list->pending && (rc = sqlite3_step(list->statement)) == SQLITE_ROW)
		list->pending = reader_time(list->statement, 0, &list->t_ns);
	if (list->t_ns < before)
		list->t_ns = before;
	fail(p, rc);
}

static enum frame_source append_event(struct play *p, sqlite3_stmt *st, uint64_t time_ns)
{
	struct event event;

	if (!event_read(st, &event))
		return FRAME_RECORDER;
	event.time_ns = time_ns;
	framebuf_event(&p->out, &event);
	return event.kind == EVENT_MARK || event.phase > 0 ? FRAME_USER : FRAME_RECORDER;
}

static void emit_events(struct play *p, uint64_t time_ns)
{
	while (p->events.pending && p->events.t_ns <= time_ns && p->error == 0 && !p->stopped) {
		enum frame_source source = append_event(p, p->events.statement, p->events.t_ns);

		p->events.last_row = sqlite3_column_int64(p->events.statement, EVENT_ROWID);
		emit(p, source, time_ns, 0);
		step_list(p, &p->events);
	}
}

static void append_value(struct play *p, sqlite3_stmt *st)
{
	struct series_value value = { .name = reader_text(st, 3) };
	int type = sqlite3_column_type(st, 2);

	value.value = type == SQLITE_FLOAT || type == SQLITE_INTEGER ? sqlite3_column_double(st, 2)
								     : (double) NAN;
	value.has_step = reader_int(st, 1, &value.step);
	framebuf_series(&p->out, &value);
}

static void emit_values(struct play *p, uint64_t time_ns)
{
	enum {
		AT_ONCE = 1024
	};
	unsigned n = 0;

	while (p->values.pending && p->values.t_ns <= time_ns && p->error == 0) {
		append_value(p, p->values.statement);
		p->values.last_row = sqlite3_column_int64(p->values.statement, 4);
		if (++n % AT_ONCE == 0)
			emit(p, FRAME_USER, time_ns, 0);
		step_list(p, &p->values);
	}
	emit(p, FRAME_USER, time_ns, 0);
}

/* ---- the order of time ----------------------------------------------------------------------- */

static uint64_t next_time(const struct play *p)
{
	uint64_t next = population_next(&p->people);

	for (int e = 0; e < ENTITY_COUNT; e++) {
		for (int recent = 0; recent < 2; recent++) {
			const struct cursor *c = &p->cursors[e][recent];

			if (c->pending && c->row.t_ns < next)
				next = c->row.t_ns;
		}
	}
	if (p->events.pending && p->events.t_ns < next)
		next = p->events.t_ns;
	if (p->values.pending && p->values.t_ns < next)
		next = p->values.t_ns;
	return next;
}

void play_run(struct play *p, uint64_t until_ns)
{
	uint64_t now;

	while (!p->stopped && p->error == 0 && (now = next_time(p)) != UINT64_MAX && now <= until_ns) {
		population_births(&p->people, now, &p->out);
		emit(p, FRAME_PROCFS, now, 0);
		emit_tables(p, now);
		emit_events(p, now);
		emit_values(p, now);
		while (p->people.next_end_ns <= now)
			population_ends(&p->people, &p->out);
		emit(p, FRAME_PROCFS, now, 0);
		if (p->error == 0 && p->people.error < 0)
			p->error = unreadable(p, p->people.error);
	}
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Start of the last stretch at full rate without a gap. Earlier rows may exist: they are kept
 * around triggers. */
static void skip_holes(struct replay *r, uint64_t interval_ns, int64_t *first)
{
	const uint64_t least = 30000000000, hole = 10 * interval_ns > least ? 10 * interval_ns : least;
	char sql[160];
	int64_t begin;

	(void) snprintf(sql, sizeof(sql),
		"SELECT max(t) FROM (SELECT t, t - lag(t) OVER (ORDER BY t) AS d FROM job_recent)"
		" WHERE d > %" PRIu64,
		hole);
	if (reader_number(r, sql, &begin) && begin > *first)
		*first = begin;
}

/* The time from which the full rate replaces the windows: the start of a window, so that nothing
 * is reported twice. */
static bool find_border(struct replay *r, uint64_t interval_ns, int64_t *ret)
{
	int64_t first, window, span = 0;

	if (!reader_number(r, "SELECT min(t) FROM job_recent", &first) &&
		!reader_number(r, "SELECT min(t) FROM host_recent", &first) &&
		!reader_number(r, "SELECT min(t) FROM process_recent", &first))
		return false;
	skip_holes(r, interval_ns, &first);
	if (!reader_number(r, "SELECT min(t) FROM job_sample", &window)) {
		*ret = 0;
		return true;
	}
	(void) reader_number(r, "SELECT span FROM job_sample ORDER BY t LIMIT 1", &span);
	if (first < window || first - window <= span) {
		*ret = 0; /* the whole run is available at full rate */
		return true;
	}
	char sql[96];

	(void) snprintf(sql, sizeof(sql), "SELECT min(t) FROM job_sample WHERE t >= %" PRId64, first);
	if (!reader_number(r, sql, ret))
		*ret = first;
	return true;
}

static void open_rows(struct play *p, struct cursor *c, enum entity entity, bool recent, int64_t border)
{
	char where[96];

	c->entity = entity;
	c->recent = recent;
	(void) snprintf(where, sizeof(where), "WHERE t >= %" PRIu64, c->next_ns);
	if (recent)
		(void) snprintf(where, sizeof(where), "WHERE t >= %" PRId64, border);
	else if (border)
		(void) snprintf(where, sizeof(where), "WHERE t < %" PRId64, border);
	c->statement = reader_rows(p->r, entity, recent, where);
	step(p, c);
}

static void open_lists(struct play *p)
{
	char sql[256];

	(void) snprintf(sql, sizeof(sql), "WHERE rowid > %" PRId64 " AND t >= %" PRIu64 " ORDER BY rowid",
		p->events.last_row, p->people.from_ns);
	p->events.statement = reader_table(p->r, "event", event_columns, sql);
	(void) snprintf(sql, sizeof(sql),
		"SELECT t, step, value, (SELECT name FROM series WHERE id = series_value.series), rowid"
		" FROM series_value WHERE rowid > %" PRId64 " AND t >= %" PRIu64 " ORDER BY rowid",
		p->values.last_row, p->people.from_ns);
	if (reader_has_table(p->r, "series_value") && reader_has_table(p->r, "series"))
		p->values.statement = reader_prepare(p->r, sql);
	step_list(p, &p->events);
	step_list(p, &p->values);
}

static void open_cursors(struct play *p, bool recent)
{
	int64_t border = 0;

	recent = recent && find_border(p->r, p->interval_ns, &border);
	for (int e = 0; e < ENTITY_COUNT; e++) {
		if (!recent || border)
			open_rows(p, &p->cursors[e][0], (enum entity) e, false, border);
		if (recent)
			open_rows(p, &p->cursors[e][1], (enum entity) e, true, border);
	}
	open_lists(p);
}

static void close_statement(sqlite3_stmt **statement, bool *pending)
{
	(void) sqlite3_finalize(*statement);
	*statement = NULL;
	*pending = false;
}

static void close_cursors(struct play *p)
{
	for (int e = 0; e < ENTITY_COUNT; e++) {
		close_statement(&p->cursors[e][0].statement, &p->cursors[e][0].pending);
		close_statement(&p->cursors[e][1].statement, &p->cursors[e][1].pending);
	}
	close_statement(&p->events.statement, &p->events.pending);
	close_statement(&p->values.statement, &p->values.pending);
}

void play_init(struct play *p, struct replay *r, uint64_t from_ns)
{
	*p = (struct play) { .r = r, .interval_ns = 1000000000, .last_ns = from_ns };
	population_init(&p->people, r, from_ns);
	for (int e = 0; e < ENTITY_COUNT; e++)
		p->cursors[e][0].next_ns = from_ns;
}

void play_done(struct play *p)
{
	close_cursors(p);
	population_done(&p->people);
	framebuf_done(&p->out);
}

void play_open(struct play *p, bool recent)
{
	int64_t interval;

	reader_allow(p->r);
	(void) sqlite3_exec(p->r->db, "BEGIN", NULL, NULL, NULL); /* read all tables as of one commit */
	if (reader_meta_int(p->r, "interval_ns", &interval) && interval > 0)
		p->interval_ns = (uint64_t) interval;
	const int code = population_open(&p->people, p->last_ns);

	if (code < 0)
		p->error = unreadable(p, code);
	open_cursors(p, recent);
}

void play_close(struct play *p)
{
	close_cursors(p);
	population_close(&p->people);
	(void) sqlite3_exec(p->r->db, "COMMIT", NULL, NULL, NULL);
}

int replay_frames(struct replay *r, bool recent, bool (*see)(void *ctx, const struct frame *frame), void *ctx,
	struct err *err)
{
	struct play *p = malloc(sizeof(*p));
	int code;

	if (!p)
		return err_set(err, -ENOMEM, "%s: out of memory", r->path);
	play_init(p, r, 0);
	p->see = see;
	p->ctx = ctx;
	p->err = err;
	play_open(p, recent);
	play_run(p, UINT64_MAX);
	play_close(p);
	play_done(p);
	code = p->error;
	free(p);
	return code;
}
