/* SPDX-License-Identifier: MIT
 *
 * SQLite exports of Nsight Systems (nsys export --type sqlite). Tables exist only if they have rows, their
 * columns differ between versions, rows come in any order, and texts are ids in StringIds. Times are
 * nanoseconds since the session's start, whose wall-clock time is a table of its own.
 *
 * Ids of processes and threads are packed: bits 24 to 47 are the pid, bits 0 to 23 the tid.
 *
 * The file may be anything: only real tables and columns are read, views, virtual tables and triggers are
 * off, and each statement has a budget of steps, so that a damaged tree ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/textwidth.h"
#include "source/trace/import/import_internal.h"

enum {
	STEPS = 10000,           /* between two calls of the progress handler */
	STEPS_LEAST = 20000000,
	STEPS_A_BYTE = 32,
	PROCESSES_MOST = 1 << 16,
	TEXTS_MOST = 1 << 16,    /* domains; names of processes, threads and devices */
	LENGTH_MOST = 16 << 20,  /* of a row */
	NAME_BYTES = 512,
};

/* A text of a key: of a domain, a process. */
struct text {
	uint64_t key;
	char *text;
};

struct process {
	int64_t global;
	uint32_t number; /* of the sink, in this pass; 0: not there yet */
};

struct nsys {
	sqlite3 *db;
	int64_t steps;           /* left of the statement's, in STEPS */
	uint64_t file_bytes;
	int64_t base_ns;
	bool has_strings;        /* the table StringIds */
	struct process *processes;
	size_t n_processes, cap_processes;
	struct map process_places;
	struct text *texts;
	size_t n_texts, cap_texts;
	struct map text_places;
	int64_t some_process;    /* a globalPid of the host's events; -1: none */
	bool has_kernels, has_copies, has_calls, has_ranges;
	char ranges_table[64];
};

/* A table and what is read of it. A column is a list of names, "end|stop": the first that is not NULL. */
struct query {
	const char *table;
	const char *columns[20]; /* NULL after the last */
	const char *name;        /* columns of an id in StringIds; NULL: none */
	const char *where, *order; /* SQL; NULL: none */
};

/* ---- SQLite ---------------------------------------------------------------------------------- */

static int count_steps(void *ctx)
{
	struct nsys *n = ctx;

	return --n->steps < 0;
}

static void protect(struct nsys *n)
{
	static const struct {
		int limit, value;
	} limits[] = {
		{ SQLITE_LIMIT_LENGTH, LENGTH_MOST },
		{ SQLITE_LIMIT_SQL_LENGTH, 1 << 16 },
		{ SQLITE_LIMIT_EXPR_DEPTH, 64 },
		{ SQLITE_LIMIT_ATTACHED, 0 },
		{ SQLITE_LIMIT_TRIGGER_DEPTH, 1 },
	};

	(void) sqlite3_db_config(n->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void) sqlite3_db_config(n->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	(void) sqlite3_db_config(n->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	(void) sqlite3_db_config(n->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
		(void) sqlite3_limit(n->db, limits[i].limit, limits[i].value);
	sqlite3_progress_handler(n->db, STEPS, count_steps, n);
	n->steps = STEPS_LEAST / STEPS;
	(void) sqlite3_exec(n->db, "PRAGMA cell_size_check=ON; PRAGMA query_only=ON; PRAGMA mmap_size=0; "
				   "PRAGMA temp_store=FILE; PRAGMA cache_size=-4096",
		NULL, NULL, NULL);
}

static int sql_error(const struct trace_import *f, int rc, struct err *err)
{
	const struct nsys *n = f->reader;

	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return err_set(err, -ENOMEM, "%s: out of memory", f->path);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(err, -EBUSY, "%s is locked by another program", f->path);
	case SQLITE_INTERRUPT:
		return err_set(err, -EBADMSG, "%s is damaged: reading one of its tables does not end", f->path);
	default:
		return err_set(err, -EBADMSG, "%s cannot be read as SQLite: %s", f->path,
			n->db ? sqlite3_errmsg(n->db) : sqlite3_errstr(rc));
	}
}

/* Nothing is next to the file: then it can be opened as one that never changes, which needs no lock, makes no
 * file in its folder, and works where the folder cannot be written. */
static bool is_alone(const char *path)
{
	static const char *const endings[] = { "-wal", "-journal" };
	struct stat st;

	for (size_t i = 0; i < 2; i++) {
		struct buf name = BUF_INIT(1 << 16);
		bool is_there;

		(void) buf_printf(&name, "%s%s", path, endings[i]);
		is_there = stat(name.data, &st) == 0 && st.st_size > 0;
		buf_done(&name);
		if (is_there)
			return false;
	}
	return true;
}

static int connect_as(struct nsys *n, const char *path, bool is_immutable)
{
	struct buf uri = BUF_INIT(1 << 18);
	char *absolute = realpath(path, NULL);
	int rc = SQLITE_NOMEM;

	(void) buf_str(&uri, "file:");
	for (const char *p = absolute ? absolute : path; *p; p++)
		(void) buf_printf(&uri, "%%%02x", (unsigned char) *p);
	(void) buf_printf(&uri, "?mode=ro%s", is_immutable ? "&immutable=1" : "");
	free(absolute);
	if (!uri.error)
		rc = sqlite3_open_v2(uri.data, &n->db,
			SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
	buf_done(&uri);
	if (rc != SQLITE_OK)
		return rc;
	protect(n);
	return sqlite3_exec(n->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
}

static int connect_file(struct trace_import *f, struct err *err)
{
	struct nsys *n = f->reader;
	const bool alone = is_alone(f->path);
	int rc = connect_as(n, f->path, alone);

	if (rc != SQLITE_OK && !alone && (rc & 0xff) != SQLITE_BUSY && (rc & 0xff) != SQLITE_NOTADB) {
		/* Its journal cannot be used (a folder that cannot be written): what the file itself has. */
		(void) sqlite3_close_v2(n->db);
		n->db = NULL;
		rc = connect_as(n, f->path, true);
		if (rc == SQLITE_OK)
			import_note(f, "the journal next to the file cannot be read here; rows that are only there are missing");
	}
	return rc == SQLITE_OK ? 0 : sql_error(f, rc, err);
}

static sqlite3_stmt *prepare(struct nsys *n, const char *sql, const char *text)
{
	sqlite3_stmt *st = NULL;

	n->steps = (int64_t) ((STEPS_LEAST + n->file_bytes * STEPS_A_BYTE) / STEPS);
	if (sqlite3_prepare_v2(n->db, sql, -1, &st, NULL) != SQLITE_OK)
		return NULL;
	if (text)
		(void) sqlite3_bind_text(st, 1, text, -1, SQLITE_STATIC);
	return st;
}

static bool has_table(struct nsys *n, const char *name)
{
	sqlite3_stmt *st = prepare(n,
		"SELECT 1 FROM sqlite_master WHERE name = ? AND type = 'table' AND rootpage > 0", name);
	const bool has = st && sqlite3_step(st) == SQLITE_ROW;

	(void) sqlite3_finalize(st);
	return has;
}

/* The table's columns, each between two line ends; without generated ones. */
static void read_columns(struct nsys *n, const char *table, struct buf *ret)
{
	sqlite3_stmt *st = prepare(n, "SELECT name FROM pragma_table_info(?)", table);

	(void) buf_str(ret, "\n");
	while (st && sqlite3_step(st) == SQLITE_ROW && !ret->error)
		(void) buf_printf(ret, "%.64s\n", (const char *) sqlite3_column_text(st, 0));
	(void) sqlite3_finalize(st);
}

/* Writes the SQL of a column, of those names that the table has. Returns how many these are. */
static unsigned add_column(struct buf *sql, const struct buf *have, const char *names)
{
	unsigned n = 0;
	struct buf found = BUF_INIT(1024);

	for (const char *p = names; *p;) {
		const int len = (int) strcspn(p, "|");
		char line[80];

		(void) snprintf(line, sizeof(line), "\n%.*s\n", len, p);
		if (strstr(have->data, line))
			(void) buf_printf(&found, "%st.\"%.*s\"", n++ ? ", " : "", len, p);
		p += len + (p[len] == '|');
	}
	if (n == 0)
		(void) buf_str(sql, "NULL");
	else
		(void) buf_printf(sql, n == 1 ? "%s" : "coalesce(%s)", found.data);
	buf_done(&found);
	return n;
}

static bool has_columns(struct nsys *n, const char *table, const char *first, const char *second)
{
	struct buf have = BUF_INIT(1 << 16), unused = BUF_INIT(1 << 10);
	bool has = has_table(n, table);

	if (has)
		read_columns(n, table, &have);
	has = has && !have.error && add_column(&unused, &have, first) && add_column(&unused, &have, second);
	buf_done(&have);
	buf_done(&unused);
	return has;
}

/* The statement of a query; the last column of its result is the name. NULL: see sqlite3_errmsg. */
static sqlite3_stmt *prepare_query(struct nsys *n, const struct query *q)
{
	struct buf sql = BUF_INIT(1 << 14), have = BUF_INIT(1 << 16);
	sqlite3_stmt *st = NULL;
	bool joins = false;

	read_columns(n, q->table, &have);
	(void) buf_str(&sql, "SELECT ");
	for (size_t i = 0; q->columns[i]; i++) {
		(void) add_column(&sql, &have, q->columns[i]);
		(void) buf_str(&sql, ", ");
	}
	if (q->name && n->has_strings) {
		struct buf id = BUF_INIT(1024);

		joins = add_column(&id, &have, q->name) > 0;
		(void) buf_printf(&sql, "%s FROM \"%s\" t", joins ? "s.value" : "NULL", q->table);
		if (joins)
			(void) buf_printf(&sql, " LEFT JOIN StringIds s ON s.id = %s", id.data);
		buf_done(&id);
	} else {
		(void) buf_printf(&sql, "NULL FROM \"%s\" t", q->table);
	}
	if (q->where)
		(void) buf_printf(&sql, " WHERE %s", q->where);
	if (q->order)
		(void) buf_printf(&sql, " ORDER BY %s", q->order);
	if (!sql.error && !have.error)
		st = prepare(n, sql.data, NULL);
	buf_done(&sql);
	buf_done(&have);
	return st;
}

/* Calls see for each row until it returns other than 0. A table that cannot be read to its end is
 * noted, and its rows until there count. Returns 0 or what see returned. */
static int each_row(struct trace_import *f, const struct query *q,
	int (*see)(struct trace_import *f, sqlite3_stmt *row))
{
	struct nsys *n = f->reader;
	sqlite3_stmt *st = prepare_query(n, q);
	unsigned long long rows = 0;
	int rc = SQLITE_ERROR, r = 0;

	while (st && r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		rows++;
		r = see(f, st);
	}
	if (r == 0 && rc != SQLITE_DONE && !f->target) {
		f->facts.broken++;
		import_note(f, "the table %s cannot be read after row %llu (%s); its other rows are lost", q->table,
			rows, rc == SQLITE_INTERRUPT ? "it does not end" : sqlite3_errmsg(n->db));
	}
	(void) sqlite3_finalize(st);
	return r == 0 && (rc & 0xff) == SQLITE_NOMEM ? -ENOMEM : r;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool is_number(sqlite3_stmt *row, int i)
{
	const int type = sqlite3_column_type(row, i);

	return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

static uint64_t positive(sqlite3_stmt *row, int i)
{
	const int64_t value = sqlite3_column_int64(row, i);

	return value > 0 ? (uint64_t) value : 0;
}

static uint32_t positive32(sqlite3_stmt *row, int i)
{
	const uint64_t value = positive(row, i);

	return value <= UINT32_MAX ? (uint32_t) value : 0;
}

static int64_t number_or(sqlite3_stmt *row, int i, int64_t unknown)
{
	return is_number(row, i) ? sqlite3_column_int64(row, i) : unknown;
}

static const char *text_of(sqlite3_stmt *row, int i)
{
	const char *text = (const char *) sqlite3_column_text(row, i);

	return text ? text : "";
}

/* The name, which is the last column. */
static const char *name_of(sqlite3_stmt *row)
{
	return text_of(row, sqlite3_column_count(row) - 1);
}

static int64_t pid_of(int64_t global)
{
	return global >> 24 & 0xffffff;
}

static void set_times(const struct nsys *n, sqlite3_stmt *row, struct import_event *e)
{
	const enum trace_kind kind = e->site.kind;
	const bool is_instant = kind == TRACE_MARK || kind == TRACE_ALLOC || kind == TRACE_FREE;

	e->is_invalid = !is_number(row, 0) ||
			__builtin_add_overflow(n->base_ns, sqlite3_column_int64(row, 0), &e->start_ns);
	e->end_ns = e->start_ns;
	if (!is_instant)
		e->is_invalid |= !is_number(row, 1) ||
				 __builtin_add_overflow(n->base_ns, sqlite3_column_int64(row, 1), &e->end_ns);
}

/* ---- texts of keys --------------------------------------------------------------------------- */

enum text_class {
	TEXT_PROCESS,
	TEXT_THREAD,
	TEXT_DEVICE,
	TEXT_DOMAIN,
	TEXT_MEMORY,
};

static uint64_t text_key(enum text_class class, int64_t a, int64_t b)
{
	return import_hash(import_hash((uint64_t) class, (uint64_t) a), (uint64_t) b);
}

static const char *find_text(const struct nsys *n, uint64_t key)
{
	uint32_t place;

	return map_get(&n->text_places, key, &place) ? n->texts[place].text : "";
}

/* The first of a key stays. What does not fit goes without. */
static void keep_text(struct nsys *n, uint64_t key, const char *text)
{
	uint32_t place;
	char *copy;

	if (text[0] == '\0' || map_get(&n->text_places, key, &place) ||
		vec_reserve(&n->texts, &n->cap_texts, n->n_texts, sizeof(*n->texts), TEXTS_MOST) < 0)
		return;
	copy = strndup(text, NAME_BYTES);
	if (!copy || map_put(&n->text_places, key, (uint32_t) n->n_texts) < 0) {
		free(copy);
		return;
	}
	n->texts[n->n_texts++] = (struct text) { key, copy };
}

static int see_process_name(struct trace_import *f, sqlite3_stmt *row)
{
	keep_text(f->reader, text_key(TEXT_PROCESS, sqlite3_column_int64(row, 0) >> 24, 0), text_of(row, 1));
	return 0;
}

static int see_device(struct trace_import *f, sqlite3_stmt *row)
{
	keep_text(f->reader, text_key(TEXT_DEVICE, sqlite3_column_int64(row, 0), 0), text_of(row, 1));
	return 0;
}

static int see_domain(struct trace_import *f, sqlite3_stmt *row)
{
	const char *text = text_of(row, 2);

	const int64_t process = sqlite3_column_int64(row, 0) >> 24, domain = sqlite3_column_int64(row, 1);

	keep_text(f->reader, text_key(TEXT_DOMAIN, process, domain), text[0] ? text : name_of(row));
	return 0;
}

static int see_memory_kind(struct trace_import *f, sqlite3_stmt *row)
{
	keep_text(f->reader, text_key(TEXT_MEMORY, sqlite3_column_int64(row, 0), 0), text_of(row, 1));
	return 0;
}

static int see_base(struct trace_import *f, sqlite3_stmt *row)
{
	struct nsys *n = f->reader;
	const int64_t base = number_or(row, 0, 0);

	/* Later than the sum of it and any of its times can hold: not a time. */
	if (base > 0 && base < INT64_MAX / 2) {
		n->base_ns = base;
		f->facts.is_wall = true;
	}
	return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The sink's number of the process with that global id. */
static int register_process(struct trace_import *f, int64_t global, uint32_t *ret)
{
	struct nsys *n = f->reader;
	const int64_t key = global < 0 ? -1 : global >> 24;
	uint32_t place;
	int r = 0;

	if (!map_get(&n->process_places, (uint64_t) key, &place)) {
		r = vec_reserve(&n->processes, &n->cap_processes, n->n_processes, sizeof(struct process),
			PROCESSES_MOST);
		if (r == 0)
			r = map_put(&n->process_places, (uint64_t) key, (uint32_t) n->n_processes);
		if (r < 0)
			return r;
		place = (uint32_t) n->n_processes;
		n->processes[n->n_processes++] = (struct process) { .global = key };
	}
	if (f->target && n->processes[place].number == 0) {
		const struct trace_process process = {
			.pid = key < 0 ? -1 : pid_of(global),
			.origin = "nsys",
			.name = find_text(n, text_key(TEXT_PROCESS, key, 0)),
			.rank = f->target->rank < 0 ? f->facts.rank : f->target->rank,
		};

		r = f->target->sink->process(f->target->sink->ctx, &process, &n->processes[place].number);
	}
	*ret = f->target ? n->processes[place].number : place + 1;
	return r;
}

/* Passes on an event of the process with that global id (0 or less: unknown). */
static int pass_event(struct trace_import *f, struct import_event *e, int64_t global)
{
	struct nsys *n = f->reader;
	int r;

	if (global > 0 && n->some_process < 0)
		n->some_process = global;
	r = register_process(f, global > 0 ? global : n->some_process, &e->site.process);
	if (r == 0 && e->site.device >= 0)
		e->site.device_name = find_text(n, text_key(TEXT_DEVICE, e->site.device, 0));
	return r < 0 ? r : import_event(f, e);
}

/* Columns that work on a device begins with. */
#define WORK "start", "end", "globalPid", "deviceId|srcDeviceId", "contextId|srcContextId", \
	     "streamId", "correlationId", "graphNodeId"
enum {
	WORK_COLUMNS = 8
};

static int pass_work(struct trace_import *f, struct import_event *e, sqlite3_stmt *row)
{
	set_times(f->reader, row, e);
	e->site.device = number_or(row, 3, -1);
	e->site.context = positive(row, 4);
	e->site.stream = positive(row, 5);
	e->correlation = positive(row, 6);
	e->flags = positive(row, 7) ? TRACE_NODE : 0;
	return pass_event(f, e, number_or(row, 2, -1));
}

static int see_kernel(struct trace_import *f, sqlite3_stmt *row)
{
	struct import_event e = import_new(TRACE_KERNEL, name_of(row));

	for (int i = 0; i < 3; i++) {
		e.site.grid[i] = positive32(row, WORK_COLUMNS + i);
		e.site.block[i] = positive32(row, WORK_COLUMNS + 3 + i);
	}
	e.site.registers = positive32(row, WORK_COLUMNS + 6);
	e.site.shared_static = positive32(row, WORK_COLUMNS + 7);
	e.site.shared_dynamic = positive32(row, WORK_COLUMNS + 8);
	return pass_work(f, &e, row);
}

static int see_graph(struct trace_import *f, sqlite3_stmt *row)
{
	char name[64] = "";
	struct import_event e = import_new(TRACE_KERNEL, name);

	(void) snprintf(name, sizeof(name), "CUDA graph %lld", (long long) number_or(row, WORK_COLUMNS, 0));
	return pass_work(f, &e, row);
}

/* A kind of memory: by the file's own table of them, else by its number, which is CUPTI's less 1. */
static enum trace_memory memory_of(const struct nsys *n, sqlite3_stmt *row, int i)
{
	static const enum trace_memory kinds[] = { TRACE_PAGEABLE, TRACE_PINNED, TRACE_DEVICE, TRACE_ARRAY,
		TRACE_MANAGED, TRACE_DEVICE, TRACE_MANAGED };
	const int64_t kind = number_or(row, i, -1);
	const char *label = find_text(n, text_key(TEXT_MEMORY, kind, 0));
	const enum trace_memory memory = import_memory(label, strlen(label));

	if (memory != TRACE_MEMORY_UNKNOWN)
		return memory;
	if (kind < 0 || (size_t) kind >= sizeof(kinds) / sizeof(*kinds))
		return TRACE_MEMORY_UNKNOWN;
	return kinds[kind];
}

/* As torch.profiler names it: "Memcpy HtoD (Pageable -> Device)". */
static void name_copy(int64_t kind, const struct trace_site *site, char *ret, size_t size)
{
	static const char *const directions[] = { "", " HtoD", " DtoH", " HtoA", " AtoH", " AtoA", " AtoD", " DtoA",
		" DtoD", " HtoH", " PtoP", " HtoD", " DtoH", " DtoD" };
	static const char *const memories[] = { "Unknown", "Pageable", "Pinned", "Device", "Array", "Managed" };
	const bool is_known = kind > 0 && (size_t) kind < sizeof(directions) / sizeof(*directions);

	_Static_assert(sizeof(memories) / sizeof(*memories) == TRACE_MEMORY_COUNT, "a word a kind");
	(void) snprintf(ret, size, "Memcpy%s (%s -> %s)", is_known ? directions[kind] : "",
		memories[site->source], memories[site->target]);
}

static int pass_copy(struct trace_import *f, sqlite3_stmt *row, int64_t kind)
{
	const struct nsys *n = f->reader;
	char name[NAME_BYTES] = "";
	struct import_event e = import_new(TRACE_COPY, name);

	e.bytes = positive(row, WORK_COLUMNS);
	e.site.source = memory_of(n, row, WORK_COLUMNS + 2);
	e.site.target = memory_of(n, row, WORK_COLUMNS + 3);
	name_copy(kind, &e.site, name, sizeof(name));
	return pass_work(f, &e, row);
}

static int see_copy(struct trace_import *f, sqlite3_stmt *row)
{
	return pass_copy(f, row, number_or(row, WORK_COLUMNS + 1, 0));
}

/* Copies between devices have a table of their own. */
static int see_peer_copy(struct trace_import *f, sqlite3_stmt *row)
{
	return pass_copy(f, row, number_or(row, WORK_COLUMNS + 1, 10));
}

static int see_fill(struct trace_import *f, sqlite3_stmt *row)
{
	struct import_event e = import_new(TRACE_FILL, "Memset");

	e.bytes = positive(row, WORK_COLUMNS);
	e.site.target = memory_of(f->reader, row, WORK_COLUMNS + 1);
	return pass_work(f, &e, row);
}

static int see_call(struct trace_import *f, sqlite3_stmt *row)
{
	struct import_event e = import_new(TRACE_LAUNCH, name_of(row));
	const int64_t global = number_or(row, 2, -1);

	set_times(f->reader, row, &e);
	e.site.tid = global > 0 ? global & 0xffffff : -1;
	e.correlation = positive(row, 3);
	e.flags = number_or(row, 4, 0) ? TRACE_FAILED : 0;
	return pass_event(f, &e, global);
}

static int see_memory(struct trace_import *f, sqlite3_stmt *row)
{
	const int64_t operation = number_or(row, 8, -1);
	struct import_event e = import_new(operation ? TRACE_FREE : TRACE_ALLOC, name_of(row));

	if (operation != 0 && operation != 1)
		return 0;
	set_times(f->reader, row, &e);
	e.site.device = number_or(row, 3, -1);
	e.site.context = positive(row, 4);
	e.correlation = positive(row, 5);
	e.bytes = positive(row, 6);
	e.address = positive(row, 7);
	e.site.target = memory_of(f->reader, row, 9);
	return pass_event(f, &e, number_or(row, 2, -1));
}

enum {
	NVTX_MARK = 34,
	NVTX_PUSH_POP = 59,
	NVTX_START_END = 60,
	NVTX_DOMAIN = 75,
};

static int see_range(struct trace_import *f, sqlite3_stmt *row)
{
	struct nsys *n = f->reader;
	const int64_t type = number_or(row, 2, NVTX_PUSH_POP), global = number_or(row, 3, -1);
	const char *text = text_of(row, 6);
	const char *name = text[0] ? text : name_of(row);
	struct import_event e = import_new(type == NVTX_MARK ? TRACE_MARK : TRACE_RANGE, name);

	if (type != NVTX_MARK && type != NVTX_PUSH_POP && type != NVTX_START_END)
		return 0;
	e.site.tid = global > 0 ? global & 0xffffff : -1;
	e.thread = (uint64_t) global;
	e.site.domain = find_text(n, text_key(TEXT_DOMAIN, global >> 24, number_or(row, 5, 0)));
	set_times(n, row, &e);
	if (is_number(row, 0) && type != NVTX_MARK && sqlite3_column_type(row, 1) == SQLITE_NULL) {
		/* It was open when the capture ended. */
		e.is_invalid = __builtin_add_overflow(n->base_ns, sqlite3_column_int64(row, 0), &e.start_ns);
		e.end_ns = f->has_time && f->facts.last_ns > e.start_ns ? f->facts.last_ns : e.start_ns;
		e.flags |= TRACE_UNCLOSED;
	}
	if (type == NVTX_START_END && is_number(row, 4) && sqlite3_column_int64(row, 4) != global)
		e.flags |= TRACE_CROSSING;
	return pass_event(f, &e, global);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct {
	struct query query;
	int (*see)(struct trace_import *f, sqlite3_stmt *row);
	size_t has; /* place of a flag in struct nsys that says that it is there */
} tables[] = {
	{ { "CUPTI_ACTIVITY_KIND_RUNTIME", { "start", "end", "globalTid", "correlationId", "returnValue", NULL },
		  "nameId", NULL, NULL },
		see_call, offsetof(struct nsys, has_calls) },
	{ { "CUPTI_ACTIVITY_KIND_DRIVER", { "start", "end", "globalTid", "correlationId", "returnValue", NULL },
		  "nameId", NULL, NULL },
		see_call, offsetof(struct nsys, has_calls) },
	{ { "CUPTI_ACTIVITY_KIND_KERNEL", { WORK, "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory", NULL },
		  "demangledName|mangledName|shortName", NULL, NULL },
		see_kernel, offsetof(struct nsys, has_kernels) },
	{ { "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", { WORK, "graphId", NULL }, NULL, NULL, NULL }, see_graph,
		offsetof(struct nsys, has_kernels) },
	{ { "CUPTI_ACTIVITY_KIND_MEMCPY", { WORK, "bytes", "copyKind", "srcKind", "dstKind", NULL }, NULL, NULL, NULL },
		see_copy, offsetof(struct nsys, has_copies) },
	{ { "CUPTI_ACTIVITY_KIND_MEMCPY2", { WORK, "bytes", "copyKind", "srcKind", "dstKind", NULL }, NULL, NULL, NULL },
		see_peer_copy, offsetof(struct nsys, has_copies) },
	{ { "CUPTI_ACTIVITY_KIND_MEMSET", { WORK, "bytes", "memKind", NULL }, NULL, NULL, NULL }, see_fill,
		offsetof(struct nsys, has_copies) },
	{ { "CUDA_GPU_MEMORY_USAGE_EVENTS", { "start", "start", "globalPid", "deviceId", "contextId", "correlationId", "bytes", "address", "memoryOperationType", "memKind", NULL }, "name", NULL, NULL }, see_memory, 0 },
};

static bool *flag_of(struct nsys *n, size_t place)
{
	return place ? (bool *) (void *) ((char *) n + place) : NULL;
}

/* The call of the driver that a call of the runtime makes has the number of that one: it is the same launch. */
static const char *where_of(struct nsys *n, const char *table)
{
	static const char driver[] = "CUPTI_ACTIVITY_KIND_DRIVER", runtime[] = "CUPTI_ACTIVITY_KIND_RUNTIME";

	if (strcmp(table, driver) != 0 || !has_columns(n, driver, "correlationId", "globalTid") ||
		!has_columns(n, runtime, "correlationId", "globalTid"))
		return NULL;
	return "(coalesce(t.\"correlationId\", 0), coalesce(t.\"globalTid\", 0) >> 24) NOT IN"
	       " (SELECT r.\"correlationId\", r.\"globalTid\" >> 24 FROM \"CUPTI_ACTIVITY_KIND_RUNTIME\" r"
	       " WHERE r.\"correlationId\" > 0 AND r.\"globalTid\" IS NOT NULL)";
}

static int read_events(struct trace_import *f)
{
	struct nsys *n = f->reader;
	const struct query ranges = { n->ranges_table,
		{ "start", "end", "eventType", "globalTid", "endGlobalTid", "domainId", "text", NULL }, "textId", NULL,
		"t.\"start\", t.\"end\" IS NOT NULL, t.\"end\" DESC" };
	int r = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables) && r == 0; i++) {
		struct query query = tables[i].query;

		if (!has_table(n, query.table))
			continue;
		if (tables[i].has)
			*flag_of(n, tables[i].has) = true;
		query.where = where_of(n, query.table);
		r = each_row(f, &query, tables[i].see);
	}
	/* Last, as ranges without an end last until the last event. */
	if (r == 0 && n->ranges_table[0])
		r = each_row(f, &ranges, see_range);
	return r;
}

/* NVTX_EVENTS, or with the largest number NVTX_EVENTS_V2, _V3; "": there is none. */
static void find_ranges(struct nsys *n)
{
	if (has_table(n, "NVTX_EVENTS"))
		(void) snprintf(n->ranges_table, sizeof(n->ranges_table), "NVTX_EVENTS");
	for (int i = 2; i < 16; i++) {
		char name[sizeof(n->ranges_table)];

		(void) snprintf(name, sizeof(name), "NVTX_EVENTS_V%d", i);
		if (has_table(n, name))
			memcpy(n->ranges_table, name, sizeof(name));
	}
	n->has_ranges = n->ranges_table[0] != '\0';
}

static int read_texts(struct trace_import *f)
{
	struct nsys *n = f->reader;
	const struct {
		struct query query;
		int (*see)(struct trace_import *f, sqlite3_stmt *row);
	} texts[] = {
		{ { "TARGET_INFO_SESSION_START_TIME", { "utcEpochNs", NULL }, NULL, NULL, NULL }, see_base },
		{ { "PROCESSES", { "globalPid", "name", NULL }, NULL, NULL, NULL }, see_process_name },
		{ { "TARGET_INFO_GPU", { "id", "name", NULL }, NULL, NULL, NULL }, see_device },
		{ { "ENUM_CUDA_MEM_KIND", { "id", "label", NULL }, NULL, NULL, NULL }, see_memory_kind },
		{ { n->ranges_table, { "globalTid", "domainId", "text", "eventType", NULL }, "textId",
			  "t.eventType = 75", NULL },
			see_domain },
	};
	int r = 0;

	_Static_assert(NVTX_DOMAIN == 75, "as in the query");
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts) && r == 0; i++) {
		if (texts[i].query.table[0] && has_table(n, texts[i].query.table))
			r = each_row(f, &texts[i].query, texts[i].see);
	}
	return r;
}

static int see_thread(struct trace_import *f, sqlite3_stmt *row)
{
	const struct nsys *n = f->reader;
	const int64_t global = number_or(row, 0, -1);
	uint32_t place;

	if (global <= 0 || !map_get(&n->process_places, (uint64_t) global >> 24, &place) ||
		n->processes[place].number == 0)
		return 0;
	return f->target->sink->thread(f->target->sink->ctx, n->processes[place].number, global & 0xffffff,
		name_of(row));
}

/* ---- the file -------------------------------------------------------------------------------- */

static int pass_nsys(struct trace_import *f, struct err *err)
{
	static const struct query threads = { "ThreadNames", { "globalTid", NULL }, "nameId", NULL, NULL };
	struct nsys *n = f->reader;
	int r;

	(void) err;
	for (size_t i = 0; i < n->n_processes; i++)
		n->processes[i].number = 0;
	r = read_events(f);
	if (r == 0 && has_table(n, threads.table))
		r = each_row(f, &threads, see_thread);
	return r;
}

static void free_nsys(void *reader)
{
	struct nsys *n = reader;

	(void) sqlite3_close_v2(n->db);
	for (size_t i = 0; i < n->n_texts; i++)
		free(n->texts[i].text);
	free(n->texts);
	free(n->processes);
	map_done(&n->text_places);
	map_done(&n->process_places);
	free(n);
}

/* What the export lacks: a table that is absent or empty was not traced. */
static void note_missing(struct trace_import *f)
{
	const struct nsys *n = f->reader;
	struct buf list = BUF_INIT(200);
	const struct {
		bool is_there;
		const char *what;
	} parts[] = {
		{ n->has_copies, "copies" },
		{ n->has_calls, "calls of CUDA" },
		{ n->has_ranges, "NVTX ranges" },
	};

	if (!n->has_kernels)
		import_note(f, "empty capture: the export has no table of kernels, so no GPU work was traced; see nsys "
			       "profile --trace=cuda, and whether the capture range was reached");
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		if (!parts[i].is_there)
			(void) buf_printf(&list, "%s%s", list.len ? ", " : "", parts[i].what);
	}
	if (list.len)
		import_note(f, "not traced: %s", list.data);
	buf_done(&list);
	if (f->facts.invalid)
		import_note(f, "%llu events have no valid times: counted as invalid, in no sum",
			(unsigned long long) f->facts.invalid);
}

/* Does the file begin as SQLite's do? */
static bool is_sqlite(const char *path, uint64_t *ret_bytes)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	char magic[16];

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	*ret_bytes = (uint64_t) st.st_size;
	return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) && memcmp(magic, "SQLite format 3", 16) == 0;
}

int import_open_nsys(struct trace_import *f, struct err *err)
{
	uint64_t bytes = 0;
	struct nsys *n;
	int r;

	if (text_ends(f->path, ".nsys-rep") || text_ends(f->path, ".qdrep"))
		return err_set(err, -EINVAL, "%s is a report of Nsight Systems, which only nsys reads; make a file for "
					     "hiwater with: nsys export --type sqlite %s",
			f->path, f->path);
	if (!is_sqlite(f->path, &bytes))
		return -EPROTO;
	n = calloc(1, sizeof(*n));
	if (!n)
		return err_set(err, -ENOMEM, "%s: out of memory", f->path);
	n->some_process = -1;
	n->file_bytes = bytes;
	f->reader = n;
	f->free = free_nsys;
	f->pass = pass_nsys;
	f->facts.format = "Nsight Systems";
	f->facts.origin = "nsys";
	r = connect_file(f, err);
	if (r < 0)
		return r;
	n->has_strings = has_table(n, "StringIds");
	find_ranges(n);
	if (!n->has_strings && !n->has_ranges && !has_table(n, "CUPTI_ACTIVITY_KIND_KERNEL") &&
		!has_table(n, "TARGET_INFO_SESSION_START_TIME"))
		return err_set(err, -EBADMSG, "%s is an SQLite file, but no export of Nsight Systems (it has none of its "
					      "tables)%s",
			f->path, has_table(n, "meta") ? "; if it is a recording of hiwater, see hiwater show" : "");
	r = read_texts(f);
	if (r == 0)
		r = read_events(f);
	if (r < 0)
		return err_set(err, r, "%s: %s", f->path, r == -EFBIG ? "it has too many processes" : strerror(-r));
	note_missing(f);
	return 0;
}
