/* SPDX-License-Identifier: MIT
 *
 * Copies the windows of the parts: of each what the job's figures need, at most 1,000 rows of a node and 128 of a rank.
 */
#include <errno.h>
#include <stdio.h>

#include "record/merge/merge_internal.h"
#include "record/read/row_read.h"

/* Several windows of a part as one. */
struct part_row {
	uint64_t t_ns, end_ns;
	bool any;
	struct maybe ram_min, ram_max, low_min, low_max, high, user, system, read, written, processes;
	double ram_sum; /* value x ns */
	uint64_t ram_ns;
};

static int put(struct merge *m, size_t part, const struct part_row *row)
{
	sqlite3_stmt *st = store_cached(
		m->store, "INSERT OR REPLACE INTO part_row VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
	const struct maybe values[] = { row->ram_min,
		row->ram_ns > 0 ? known((int64_t) (row->ram_sum / (double) row->ram_ns)) : UNKNOWN,
		row->ram_max, row->low_min, row->low_max, row->high, row->user, row->system, row->read,
		row->written, row->processes };

	if (!st)
		return store_step(m->store, NULL);
	(void) sqlite3_bind_int64(st, 1, (int64_t) part + 1);
	store_bind_time(st, 2, row->t_ns);
	store_bind_time(st, 3, row->end_ns - row->t_ns);
	for (int i = 0; i < (int) (sizeof(values) / sizeof(values[0])); i++)
		store_bind_if(st, i + 4, values[i].known, values[i].value);
	return store_step(m->store, st);
}

static const struct cell *cell_of(const struct replay *r, const struct row *row, enum metric metric)
{ return &row->cells[r->layout.place[metric]]; }

static struct maybe value_of(const struct replay *r, const struct row *row, enum metric metric)
{
	const struct cell *c = cell_of(r, row, metric);

	return c->known ? known(c->value) : UNKNOWN;
}

static void add(const struct replay *r, const struct row *row, struct part_row *to)
{
	const struct cell *ram = cell_of(r, row, M_JOB_RAM), *low = cell_of(r, row, M_JOB_RAM_LOW),
			  *high = cell_of(r, row, M_JOB_RAM_HIGH),
			  *processes = cell_of(r, row, M_JOB_PROCESSES);

	if (!to->any)
		to->t_ns = row->t_ns;
	to->end_ns = row->t_ns + row->span_ns;
	if (ram->known) {
		to->ram_min = maybe_min(to->ram_min, known(ram->min));
		to->ram_max = maybe_max(to->ram_max, known(ram->max));
		to->ram_sum += (double) ram->value * (double) ram->cover_ns;
		to->ram_ns += ram->cover_ns;
		/* One window without an upper bound leaves none for all. */
		to->high = !high->known                 ? UNKNOWN
			   : to->any && !to->high.known ? UNKNOWN
							: maybe_max(to->high, known(high->max));
	}
	if (low->known) {
		to->low_min = maybe_min(to->low_min, known(low->min));
		to->low_max = maybe_max(to->low_max, known(low->max));
	}
	if (processes->known)
		to->processes = maybe_max(to->processes, known(processes->max));
	to->user = maybe_max(to->user, value_of(r, row, M_JOB_CPU_USER));
	to->system = maybe_max(to->system, value_of(r, row, M_JOB_CPU_SYSTEM));
	to->read = maybe_max(to->read, value_of(r, row, M_JOB_READ_BYTES));
	to->written = maybe_max(to->written, value_of(r, row, M_JOB_WRITE_BYTES));
	to->any = true;
}

static uint64_t width_of(const struct part *p)
{
	const uint64_t most = part_is(p, "rank") ? MERGE_ROWS_RANK : MERGE_ROWS_NODE;

	return p->wall_ns.known && p->wall_ns.value > 0 ? (uint64_t) p->wall_ns.value / most + 1
							: UINT64_MAX;
}

static int from_recording(struct merge *m, size_t part, struct replay *r)
{
	const uint64_t width = width_of(&m->parts->part[part]);
	sqlite3_stmt *st = reader_rows(r, ENTITY_JOB, false, "");
	struct part_row sum = { 0 };
	struct row row;
	int code = 0;

	while (st && code == 0 && sqlite3_step(st) == SQLITE_ROW) {
		if (!row_read(st, &r->layout, ENTITY_JOB, false, &row))
			continue;
		if (sum.any && row.t_ns / width != sum.t_ns / width) {
			code = put(m, part, &sum);
			sum = (struct part_row) { 0 };
		}
		add(r, &row, &sum);
	}
	(void) sqlite3_finalize(st);
	return code == 0 && sum.any ? put(m, part, &sum) : code;
}

static const char *const row_columns[] = { "t", "span", "ram_min", "ram", "ram_max", "low_min", "low_max",
	"high", "user", "system", "read", "written", "processes", NULL };

static int from_merge(struct merge *m, size_t part, struct replay *r, uint32_t number)
{
	sqlite3_stmt *to = store_cached(
		m->store, "INSERT OR REPLACE INTO part_row VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
	char behind[64];
	sqlite3_stmt *st;
	int code = 0;

	(void) snprintf(behind, sizeof(behind), "WHERE part = %u ORDER BY t", (unsigned) number);
	st = reader_table(r, "part_row", row_columns, behind);
	while (st && to && code == 0 && sqlite3_step(st) == SQLITE_ROW) {
		uint64_t t;

		if (!reader_time(st, 0, &t))
			continue;
		(void) sqlite3_bind_int64(to, 1, (int64_t) part + 1);
		for (int i = 0; row_columns[i]; i++)
			(void) sqlite3_bind_value(to, i + 2, sqlite3_column_value(st, i));
		code = store_step(m->store, to);
	}
	(void) sqlite3_finalize(st);
	return to ? code : store_step(m->store, NULL);
}

static int put_marks(struct merge *m, size_t part)
{
	const struct candidate *c = &m->candidates[part];
	sqlite3_stmt *st = store_cached(m->store, "INSERT INTO part_mark VALUES(?,?,?)");
	int r = st ? 0 : store_step(m->store, NULL);

	for (size_t i = 0; i < c->n_marks && r == 0; i++) {
		(void) sqlite3_bind_int64(st, 1, (int64_t) part + 1);
		store_bind_time(st, 2, c->marks[i].t_ns);
		store_bind_text(st, 3, c->marks[i].text);
		r = store_step(m->store, st);
	}
	return r;
}

/* A file that could be read a moment ago and no longer can is a problem; its part stays without windows. */
int merge_copy_rows(struct merge *m)
{
	int r = 0;

	for (size_t i = 0; i < m->n && r == 0; i++) {
		const struct candidate *c = &m->candidates[i];
		struct replay *replay = NULL;
		struct err err = { "" };

		r = put_marks(m, i);
		if (r < 0 || m->parts->part[i].has_recording.value != 1)
			continue;
		if (replay_open(m->inputs[c->input].path, &replay, &err) < 0) {
			r = parts_add_problem(m->parts, m->inputs[c->input].name, err.text);
			continue;
		}
		reader_allow(replay);
		r = c->number > 0 ? from_merge(m, i, replay, c->number) : from_recording(m, i, replay);
		replay_close(replay);
	}
	return r;
}
