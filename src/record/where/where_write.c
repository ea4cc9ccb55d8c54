/* SPDX-License-Identifier: MIT */
#include "record/where/where_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Approximate bytes of frames and stacks. The rows and files of highs, which the sampler limits, are 3 MiB more. */
	NAMELESS_MOST = 3 << 20, /* of frames before they have names, */
	MOST_BYTES = 5 << 20,    /* which come at the end */
	ROW_BYTES = 24,
};

struct where_write {
	struct store *s;
	struct where_sink sink;
	bool has_tables;
	uint64_t bytes;
};

static const char tables[] =
	"CREATE TABLE IF NOT EXISTS where_frame(id INTEGER PRIMARY KEY, module TEXT, build_id TEXT, "
	"offset INTEGER,"
	" function TEXT, file TEXT, line INTEGER);"
	"CREATE TABLE IF NOT EXISTS where_stack(id INTEGER PRIMARY KEY, parent INTEGER, frame INTEGER);"
	"CREATE TABLE IF NOT EXISTS where_process(id INTEGER PRIMARY KEY, pid INTEGER, rank INTEGER, "
	"name TEXT);"
	"CREATE TABLE IF NOT EXISTS where_high(id INTEGER PRIMARY KEY, t INTEGER, total INTEGER, "
	"looked INTEGER,"
	" looked_total INTEGER, before INTEGER, sample_bytes INTEGER, huge_bytes INTEGER, lost INTEGER);"
	"CREATE TABLE IF NOT EXISTS where_row(high INTEGER, stack INTEGER, process INTEGER, bytes INTEGER, "
	"n INTEGER, copied INTEGER,"
	" PRIMARY KEY(high, stack, process)) WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS where_file(high INTEGER, name TEXT, bytes INTEGER, PRIMARY KEY(high, "
	"name))"
	" WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS where_python(high INTEGER, stack INTEGER, depth INTEGER, "
	"process INTEGER, thread INTEGER, t INTEGER, function TEXT, file TEXT, line INTEGER,"
	" PRIMARY KEY(high, stack, depth)) WITHOUT ROWID;";

static sqlite3_stmt *prepare(struct where_write *w, const char *sql)
{
	if (!w->has_tables && store_run(w->s, tables) < 0)
		return NULL;
	w->has_tables = true;
	return store_cached(w->s, sql);
}

static int put(struct where_write *w, sqlite3_stmt *st, uint64_t bytes)
{
	w->bytes += bytes;
	return store_step(w->s, st);
}

static int put_frame(void *ctx, uint32_t number, const struct where_frame *f)
{
	struct where_write *w = ctx;
	sqlite3_stmt *st;

	if (w->bytes > (*f->function ? MOST_BYTES : NAMELESS_MOST))
		return 0;
	st = prepare(w, "INSERT OR REPLACE INTO where_frame VALUES(?, ?, ?, ?, ?, ?, ?)");
	if (!st)
		return -EIO;
	(void) sqlite3_bind_int64(st, 1, number);
	store_bind_text(st, 2, f->module);
	store_bind_text(st, 3, f->build_id);
	(void) sqlite3_bind_int64(st, 4, (int64_t) f->offset);
	store_bind_text(st, 5, f->function);
	store_bind_text(st, 6, f->file);
	store_bind_if(st, 7, f->line > 0, f->line);
	return put(w, st,
		ROW_BYTES + strlen(f->module) + strlen(f->build_id) + strlen(f->function) + strlen(f->file));
}

static int put_stack(void *ctx, uint32_t number, const struct where_stack *stack)
{
	struct where_write *w = ctx;
	sqlite3_stmt *st;

	if (w->bytes > NAMELESS_MOST)
		return 0;
	st = prepare(w, "INSERT OR REPLACE INTO where_stack VALUES(?, ?, ?)");
	if (!st)
		return -EIO;
	(void) sqlite3_bind_int64(st, 1, number);
	store_bind_if(st, 2, stack->parent > 0, stack->parent);
	(void) sqlite3_bind_int64(st, 3, stack->frame);
	return put(w, st, ROW_BYTES);
}

static int put_process(void *ctx, uint32_t number, const struct where_process *p)
{
	struct where_write *w = ctx;
	sqlite3_stmt *st = prepare(w, "INSERT OR REPLACE INTO where_process VALUES(?, ?, ?, ?)");

	if (!st)
		return -EIO;
	(void) sqlite3_bind_int64(st, 1, number);
	store_bind_if(st, 2, p->pid >= 0, p->pid);
	store_bind_if(st, 3, p->rank >= 0, p->rank);
	store_bind_text(st, 4, p->name);
	return put(w, st, ROW_BYTES);
}

static int drop(void *ctx, uint32_t number)
{
	static const char *const from[] = { "DELETE FROM where_high WHERE id = ?",
		"DELETE FROM where_row WHERE high = ?",
		"DELETE FROM where_file WHERE high = ?", "DELETE FROM where_python WHERE high = ?" };
	struct where_write *w = ctx;
	int r = 0;

	for (size_t i = 0; i < sizeof(from) / sizeof(*from) && r == 0; i++) {
		sqlite3_stmt *st = prepare(w, from[i]);

		if (!st)
			return -EIO;
		(void) sqlite3_bind_int64(st, 1, number);
		r = store_step(w->s, st);
	}
	return r;
}

static int put_rows(struct where_write *w, uint32_t number, const struct where_high *h)
{
	int r = 0;

	for (size_t i = 0; i < h->n_rows && r == 0; i++) {
		sqlite3_stmt *st = prepare(w, "INSERT OR REPLACE INTO where_row VALUES(?, ?, ?, ?, ?, ?)");

		if (!st)
			return -EIO;
		(void) sqlite3_bind_int64(st, 1, number);
		(void) sqlite3_bind_int64(st, 2, h->rows[i].stack);
		(void) sqlite3_bind_int64(st, 3, h->rows[i].process);
		(void) sqlite3_bind_int64(st, 4, (int64_t) h->rows[i].bytes);
		(void) sqlite3_bind_int64(st, 5, (int64_t) h->rows[i].n);
		(void) sqlite3_bind_int64(st, 6, (int64_t) h->rows[i].copied_bytes);
		r = store_step(w->s, st);
	}
	for (size_t i = 0; i < h->n_files && r == 0; i++) {
		sqlite3_stmt *st = prepare(w, "INSERT OR REPLACE INTO where_file VALUES(?, ?, ?)");

		if (!st)
			return -EIO;
		(void) sqlite3_bind_int64(st, 1, number);
		store_bind_text(st, 2, h->files[i].name);
		(void) sqlite3_bind_int64(st, 3, (int64_t) h->files[i].bytes);
		r = store_step(w->s, st);
	}
	return r;
}

static int put_python(struct where_write *w, uint32_t high, size_t stack, const struct where_python *p)
{
	int r = 0;

	for (size_t i = 0; i < p->n_frames && r == 0; i++) {
		const struct where_python_frame *const f = &p->frames[i];
		sqlite3_stmt *st = prepare(
			w, "INSERT OR REPLACE INTO where_python VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");

		if (!st)
			return -EIO;
		(void) sqlite3_bind_int64(st, 1, high);
		(void) sqlite3_bind_int64(st, 2, (int64_t) stack + 1);
		(void) sqlite3_bind_int64(st, 3, (int64_t) i + 1);
		(void) sqlite3_bind_int64(st, 4, p->process);
		(void) sqlite3_bind_int64(st, 5, p->thread);
		(void) sqlite3_bind_int64(st, 6, (int64_t) p->time_ns);
		store_bind_text(st, 7, f->function);
		store_bind_text(st, 8, f->file);
		store_bind_if(st, 9, f->line > 0, f->line);
		r = store_step(w->s, st);
	}
	return r;
}

static int put_high(void *ctx, uint32_t number, const struct where_high *h)
{
	struct where_write *w = ctx;
	int r = drop(w, number);
	sqlite3_stmt *st;

	if (r < 0)
		return r;
	st = prepare(w, "INSERT INTO where_high VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
	if (!st)
		return -EIO;
	const uint64_t values[] = { number, h->time_ns, h->total_bytes, h->looked_ns, h->looked_bytes,
		h->before_bytes,
		h->sample_bytes, h->huge_bytes, h->lost };

	for (int i = 0; i < (int) (sizeof(values) / sizeof(*values)); i++)
		(void) sqlite3_bind_int64(st, i + 1, (int64_t) values[i]);
	r = store_step(w->s, st);
	if (r == 0)
		r = put_rows(w, number, h);
	for (size_t i = 0; i < h->n_pythons && r == 0; i++)
		r = put_python(w, number, i, &h->pythons[i]);
	return r;
}

/* The facts of the run's end were written before; those of hiwater as a whole include its helpers. */
static int put_cost(void *ctx, uint64_t cpu_ns, uint64_t rss_bytes)
{
	const struct {
		const char *name, *whole;
		uint64_t value;
	} costs[] = { { "where_cpu_ns", "own_cpu_ns", cpu_ns },
		{ "where_rss_bytes", "own_rss_bytes", rss_bytes } };
	struct where_write *w = ctx;
	int r = 0;

	for (size_t i = 0; i < sizeof(costs) / sizeof(*costs) && r == 0; i++) {
		sqlite3_stmt *st = store_cached(
			w->s, "UPDATE meta SET value = value + ? WHERE key = ? AND typeof(value) = 'integer'");

		if (!st)
			return -EIO;
		(void) sqlite3_bind_int64(st, 1, (int64_t) costs[i].value);
		store_bind_text(st, 2, costs[i].whole);
		r = store_step(w->s, st);
		if (r == 0)
			r = store_meta_int(w->s, costs[i].name, (int64_t) costs[i].value);
	}
	return r;
}

struct where_write *where_write_new(struct store *s)
{
	struct where_write *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->s = s;
	w->sink = (struct where_sink) {
		.frame = put_frame,
		.stack = put_stack,
		.process = put_process,
		.high = put_high,
		.drop = drop,
		.cost = put_cost,
		.ctx = w,
	};
	return w;
}

void where_write_rolled_back(struct where_write *w)
{
	w->has_tables = false;
	w->bytes = 0;
}

void where_write_free(struct where_write *w)
{
	free(w);
}

const struct where_sink *where_write_sink(struct where_write *w)
{
	return &w->sink;
}
