/* SPDX-License-Identifier: MIT */
#include "record/where/where_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "record/read/reader.h"

enum {
	MOST_ROWS = 1 << 20,  /* of one high */
	MOST_FILES = 1 << 16,
};

/* No computer has as much: sums of what is read do not overflow. */
static const uint64_t most_bytes = UINT64_C(1) << 50;
static const uint64_t most_samples = UINT64_C(1) << 40;

struct loading {
	struct replay *r;
	struct where_data *to;
	size_t cap_frames, cap_stacks, cap_processes, cap_highs;
	uint32_t numbers[WHERE_HIGHS];   /* of the highs, as the file has them */
	uint64_t sums[WHERE_HIGHS];      /* bytes of their parts */
	size_t cap_rows[WHERE_HIGHS], cap_files[WHERE_HIGHS];
	const struct where_high *python_high; /* of the stack that is being read */
	uint32_t python_stack;
	struct err *err;
};

/* ---- values ---------------------------------------------------------------------------------- */

static uint64_t at_least_0(sqlite3_stmt *st, int column)
{
	uint64_t value;

	return reader_time(st, column, &value) ? value : 0;
}

/* 0: no number. */
static uint32_t number_of(sqlite3_stmt *st, int column)
{
	uint32_t id;

	return reader_id(st, column, &id) ? id : 0;
}

/* Empty texts have no memory of their own. NULL: out of memory. */
static const char *copy_text(sqlite3_stmt *st, int column)
{
	const char *text = reader_text(st, column);

	return *text ? strdup(text) : "";
}

static void free_text(const char *text)
{
	if (text && *text)
		free((void *) (uintptr_t) text);
}

/* Rows that cannot be used are left out: the function of a row returns 0, or -ENOMEM. */
static int read_table(struct loading *g, const char *table, const char *const *columns, const char *behind,
	int (*row)(struct loading *g, sqlite3_stmt *st))
{
	sqlite3_stmt *st;
	int rc = SQLITE_DONE, r = 0;

	reader_allow(g->r);
	st = reader_table(g->r, table, columns, behind);
	while (st && r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		r = row(g, st);
	(void) sqlite3_finalize(st);
	if (r < 0)
		return err_set(g->err, r, "%s: out of memory", g->r->path);
	return rc == SQLITE_ROW ? 0 : reader_error(g->r, rc, g->err);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const char *const frame_columns[] = { "id", "module", "build_id", "offset", "function", "file",
	"line", NULL };

static const struct where_frame no_frame = { .module = "", .build_id = "", .function = "", .file = "" };

static int see_frame(struct loading *g, sqlite3_stmt *st)
{
	struct where_data *to = g->to;
	const uint32_t id = number_of(st, 0);

	if (id <= to->n_frames || id > WHERE_FRAMES)
		return 0; /* also a number that comes again */
	while (to->n_frames < id) {
		if (vec_reserve(&to->frames, &g->cap_frames, to->n_frames, sizeof(*to->frames),
			    WHERE_FRAMES) < 0)
			return -ENOMEM;
		to->frames[to->n_frames++] = no_frame;
	}
	struct where_frame *f = &to->frames[id - 1];

	*f = (struct where_frame) {
		.module = copy_text(st, 1),
		.build_id = copy_text(st, 2),
		.offset = (uint64_t) reader_int_or(st, 3, 0),
		.function = copy_text(st, 4),
		.file = copy_text(st, 5),
		.line = number_of(st, 6),
	};
	return f->module && f->build_id && f->function && f->file ? 0 : -ENOMEM;
}

static const char *const stack_columns[] = { "id", "parent", "frame", NULL };

static bool has_stack(const struct where_data *data, uint32_t number)
{
	return number >= 1 && number <= data->n_stacks && data->stacks[number - 1].frame > 0;
}

static int see_stack(struct loading *g, sqlite3_stmt *st)
{
	struct where_data *to = g->to;
	const uint32_t id = number_of(st, 0), parent = number_of(st, 1), frame = number_of(st, 2);
	const bool is_outermost = sqlite3_column_type(st, 1) == SQLITE_NULL;

	if (id <= to->n_stacks || id > WHERE_STACKS || frame < 1 || frame > to->n_frames)
		return 0;
	/* Those before it have been read: a parent that is not there yet would be no earlier one. */
	if (!is_outermost && !has_stack(to, parent))
		return 0;
	while (to->n_stacks < id) {
		if (vec_reserve(&to->stacks, &g->cap_stacks, to->n_stacks, sizeof(*to->stacks),
			    WHERE_STACKS) < 0)
			return -ENOMEM;
		to->stacks[to->n_stacks++] = (struct where_stack) { .frame = 0 };
	}
	to->stacks[id - 1] = (struct where_stack) { .parent = is_outermost ? 0 : parent, .frame = frame };
	return 0;
}

static const char *const process_columns[] = { "id", "pid", "rank", "name", NULL };

static int see_process(struct loading *g, sqlite3_stmt *st)
{
	struct where_data *to = g->to;
	const uint32_t id = number_of(st, 0);

	if (id <= to->n_processes || id > WHERE_PROCESSES)
		return 0;
	while (to->n_processes < id) {
		if (vec_reserve(&to->processes, &g->cap_processes, to->n_processes, sizeof(*to->processes),
			    WHERE_PROCESSES) < 0)
			return -ENOMEM;
		to->processes[to->n_processes++] =
			(struct where_process) { .pid = -1, .rank = -1, .name = "" };
	}
	struct where_process *p = &to->processes[id - 1];

	*p = (struct where_process) {
		.pid = reader_int_or(st, 1, -1),
		.rank = reader_int_or(st, 2, -1),
		.name = copy_text(st, 3),
	};
	p->pid = p->pid < 0 ? -1 : p->pid;
	p->rank = p->rank < 0 ? -1 : p->rank;
	return p->name ? 0 : -ENOMEM;
}

/* -1: no high has this number. */
static int index_of_high(const struct loading *g, uint32_t id)
{
	for (size_t i = 0; i < g->to->n_highs; i++) {
		if (g->numbers[i] == id)
			return (int) i;
	}
	return -1;
}

static const char *const high_columns[] = { "id", "t", "total", "looked", "looked_total", "before",
	"sample_bytes", "huge_bytes", "lost", NULL };

static int see_high(struct loading *g, sqlite3_stmt *st)
{
	struct where_data *to = g->to;
	const struct where_high high = {
		.time_ns = at_least_0(st, 1),
		.total_bytes = at_least_0(st, 2),
		.looked_ns = at_least_0(st, 3),
		.looked_bytes = at_least_0(st, 4),
		.before_bytes = at_least_0(st, 5),
		.sample_bytes = at_least_0(st, 6),
		.huge_bytes = at_least_0(st, 7),
		.lost = at_least_0(st, 8),
	};
	const uint32_t id = number_of(st, 0);

	if (id < 1 || to->n_highs == WHERE_HIGHS || high.total_bytes > most_bytes ||
		high.looked_bytes > most_bytes || high.before_bytes > most_bytes ||
		high.lost > most_samples)
		return 0;
	if (index_of_high(g, id) >= 0)
		return 0;
	if (vec_reserve(&to->highs, &g->cap_highs, to->n_highs, sizeof(high), WHERE_HIGHS) < 0)
		return -ENOMEM;
	g->sums[to->n_highs] = high.before_bytes;
	g->numbers[to->n_highs] = id;
	to->highs[to->n_highs++] = high;
	return 0;
}

/* The high of a row, if there is room for its bytes; else -1. */
static int high_of(struct loading *g, sqlite3_stmt *st, int bytes_column, uint64_t *ret_bytes)
{
	const int i = index_of_high(g, number_of(st, 0));

	if (i < 0 || !reader_time(st, bytes_column, ret_bytes) || *ret_bytes > most_bytes - g->sums[i])
		return -1;
	g->sums[i] += *ret_bytes;
	return i;
}

static const char *const row_columns[] = { "high", "stack", "process", "bytes", "n", "copied", NULL };

static int see_row(struct loading *g, sqlite3_stmt *st)
{
	struct where_row row = {
		.stack = number_of(st, 1),
		.process = number_of(st, 2),
		.n = at_least_0(st, 4),
		.copied_bytes = at_least_0(st, 5),
	};
	struct where_high *high;
	int i;

	if (!has_stack(g->to, row.stack) || row.process < 1 || row.process > g->to->n_processes ||
		row.n > most_samples)
		return 0;
	i = high_of(g, st, 3, &row.bytes);
	if (i < 0)
		return 0;
	if (row.copied_bytes > row.bytes)
		row.copied_bytes = row.bytes;
	high = &g->to->highs[i];
	if (high->n_rows == MOST_ROWS)
		return 0;
	if (vec_reserve(&high->rows, &g->cap_rows[i], high->n_rows, sizeof(row), MOST_ROWS) < 0)
		return -ENOMEM;
	((struct where_row *) (uintptr_t) high->rows)[high->n_rows++] = row;
	return 0;
}

static const char *const file_columns[] = { "high", "name", "bytes", NULL };

static int see_file(struct loading *g, sqlite3_stmt *st)
{
	struct where_file file;
	struct where_high *high;
	const int i = high_of(g, st, 2, &file.bytes);

	if (i < 0)
		return 0;
	high = &g->to->highs[i];
	if (high->n_files == MOST_FILES)
		return 0;
	if (vec_reserve(&high->files, &g->cap_files[i], high->n_files, sizeof(file), MOST_FILES) < 0)
		return -ENOMEM;
	file.name = copy_text(st, 1);
	if (!file.name)
		return -ENOMEM;
	((struct where_file *) (uintptr_t) high->files)[high->n_files++] = file;
	return 0;
}

static const char *const python_columns[] = { "high", "stack", "depth", "process", "thread", "t", "function", "file",
	"line", NULL };

/* The frames of a stack follow each other; the first one begins it. */
static struct where_python *python_of(struct loading *g, struct where_high *high, sqlite3_stmt *st)
{
	struct where_python *list = (struct where_python *) (uintptr_t) high->pythons, *new;

	if (g->python_high == high && g->python_stack == number_of(st, 1) && high->n_pythons > 0)
		return &list[high->n_pythons - 1];
	if (high->n_pythons == WHERE_PYTHONS)
		return NULL;
	if (!list)
		high->pythons = list = calloc(WHERE_PYTHONS, sizeof(*list));
	if (!list)
		return NULL;
	g->python_high = high;
	g->python_stack = number_of(st, 1);
	new = &list[high->n_pythons++];
	*new = (struct where_python) {
		.process = number_of(st, 3),
		.thread = reader_int_or(st, 4, 0),
		.time_ns = at_least_0(st, 5),
		.frames = calloc(WHERE_PYTHON_DEPTH, sizeof(*new->frames)),
	};
	if (new->process > g->to->n_processes)
		new->process = 0;
	return new;
}

static int see_python(struct loading *g, sqlite3_stmt *st)
{
	const int i = index_of_high(g, number_of(st, 0));
	struct where_python *const to = i >= 0 ? python_of(g, &g->to->highs[i], st) : NULL;
	struct where_python_frame *new;

	if (!to || to->n_frames == WHERE_PYTHON_DEPTH)
		return 0;
	if (!to->frames)
		return -ENOMEM;
	new = (struct where_python_frame *) (uintptr_t) &to->frames[to->n_frames++];
	new->function = strdup(reader_text(st, 6));
	new->file = strdup(reader_text(st, 7));
	new->line = number_of(st, 8);
	return new->function && new->file ? 0 : -ENOMEM;
}

static int read_tables(struct loading *g)
{
	static const struct {
		const char *table;
		const char *const *columns;
		const char *behind;
		int (*row)(struct loading *g, sqlite3_stmt *st);
	} tables[] = {
		{ "where_frame", frame_columns, "ORDER BY id", see_frame },
		{ "where_stack", stack_columns, "ORDER BY id", see_stack },
		{ "where_process", process_columns, "ORDER BY id", see_process },
		{ "where_high", high_columns, "ORDER BY t, id", see_high },
		{ "where_row", row_columns, "ORDER BY high, stack, process", see_row },
		{ "where_file", file_columns, "ORDER BY high, bytes DESC, name", see_file },
		{ "where_python", python_columns, "ORDER BY high, stack, depth", see_python },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && r == 0; i++)
		r = read_table(g, tables[i].table, tables[i].columns, tables[i].behind, tables[i].row);
	return r;
}

int where_read(struct replay *r, struct where_data **ret, struct err *err)
{
	struct loading g = { .r = r, .err = err };
	int code;

	reader_allow(r);
	if (!reader_has_table(r, "where_high"))
		return err_set(
			err, -ENOENT, "%s was not sampled; use: hiwater run --where -- COMMAND", r->path);
	g.to = calloc(1, sizeof(*g.to));
	if (!g.to)
		return err_set(err, -ENOMEM, "%s: out of memory", r->path);
	g.to->is_merged = reader_has_table(r, "part");
	(void) sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL); /* read all tables as of one commit */
	code = read_tables(&g);
	(void) sqlite3_exec(r->db, "COMMIT", NULL, NULL, NULL);
	if (code == 0 && g.to->n_highs == 0)
		code = err_set(err, -ENOENT, "%s was sampled, but no high of its memory was kept", r->path);
	if (code < 0) {
		where_data_free(g.to);
		return code;
	}
	*ret = g.to;
	return 0;
}

void where_data_free(struct where_data *data)
{
	if (!data)
		return;
	for (size_t i = 0; i < data->n_frames; i++) {
		free_text(data->frames[i].module);
		free_text(data->frames[i].build_id);
		free_text(data->frames[i].function);
		free_text(data->frames[i].file);
	}
	for (size_t i = 0; i < data->n_processes; i++)
		free_text(data->processes[i].name);
	for (size_t i = 0; i < data->n_highs; i++) {
		for (size_t k = 0; k < data->highs[i].n_files; k++)
			free_text(data->highs[i].files[k].name);
		for (size_t k = 0; k < data->highs[i].n_pythons; k++)
			where_python_done((struct where_python *) (uintptr_t) &data->highs[i].pythons[k]);
		free((void *) (uintptr_t) data->highs[i].pythons);
		free((void *) (uintptr_t) data->highs[i].files);
		free((void *) (uintptr_t) data->highs[i].rows);
	}
	free(data->frames);
	free(data->stacks);
	free(data->processes);
	free(data->highs);
	free(data);
}

/* ---- to a peak ------------------------------------------------------------------------------- */

uint64_t where_share(uint64_t whole, uint64_t part, uint64_t of)
{
	return of > 0 ? (uint64_t) ((__int128) whole * part / of) : 0;
}

uint64_t where_scaled(uint64_t room, uint64_t bytes, uint64_t of, uint64_t *done)
{
	const uint64_t before = where_share(room, *done, of);

	*done += bytes;
	return where_share(room, *done, of) - before;
}

struct where_divided where_divide(const struct where_high *high, uint64_t peak)
{
	struct where_divided p = { .before = high->before_bytes };

	for (size_t i = 0; i < high->n_rows; i++)
		p.rows += high->rows[i].bytes;
	for (size_t i = 0; i < high->n_files; i++)
		p.files += high->files[i].bytes;
	p.files_room = p.files;
	p.before_room = p.before;
	if (p.files + p.before > peak) {
		p.files_room = where_share(peak, p.files, p.files + p.before);
		p.before_room = peak - p.files_room;
	}
	p.rows_room = peak - p.files_room - p.before_room;
	if (p.rows_room > p.rows)
		p.rows_room = p.rows;
	p.unsampled = peak - p.rows_room - p.files_room - p.before_room;
	return p;
}
