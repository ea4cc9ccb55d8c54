/* SPDX-License-Identifier: MIT */
#include "record/trace/trace_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "record/read/reader.h"
#include "record/trace/trace_histogram.h"

enum {
	MOST_NAMES = 1 << 21,
	MOST_SITES = 1 << 22,
	MOST_STATS = 1 << 21,
	MOST_OTHERS = 1 << 17, /* processes, devices, windows, losses */
	BLOCK = 256,           /* sites are read so many at a time */
	TABLES = 5,
};

struct thread_name {
	uint32_t process;
	int64_t tid;
	char *name;
};

/* Sites of which the first has the number n * BLOCK + 1. */
struct block {
	struct trace_site sites[BLOCK];
	bool exists[BLOCK];
};

struct trace_read {
	struct replay *r;
	struct trace_process *processes; /* by number - 1 */
	size_t n_processes, cap_processes;
	char **names;
	size_t n_names, cap_names;
	struct block **blocks;
	size_t n_blocks, cap_blocks;
	struct trace_stat *stats;
	size_t n_stats, cap_stats;
	struct trace_busy *busy;
	size_t n_busy, cap_busy;
	struct trace_peak *peaks;
	size_t n_peaks, cap_peaks;
	struct trace_window *windows;
	size_t n_windows, cap_windows;
	struct trace_lost *lost;
	size_t n_lost, cap_lost;
	struct thread_name *threads;
	size_t n_threads, cap_threads;
	uint64_t longest_ns[TRACE_KIND_COUNT]; /* the longest event of each kind */
	char *step;
	struct maybe probe_bytes;
	struct err *err;                 /* of the running call */
};

static const char *name_of(const struct trace_read *t, uint32_t number)
{
	return number >= 1 && number <= t->n_names && t->names[number - 1] ? t->names[number - 1] : "";
}

static uint64_t at_least_0(sqlite3_stmt *st, int column)
{
	uint64_t value;

	return reader_time(st, column, &value) ? value : 0;
}

static uint32_t id_or_0(sqlite3_stmt *st, int column)
{
	uint32_t id;

	return reader_id(st, column, &id) ? id : 0;
}

static enum trace_memory memory_of(sqlite3_stmt *st, int column)
{
	const int memory = trace_memory_find(reader_text(st, column));

	return memory < 0 ? TRACE_MEMORY_UNKNOWN : (enum trace_memory) memory;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Rows that cannot be used are left out: the function of a row returns 0, or -ENOMEM. */
static int read_table(struct trace_read *t, const char *table, const char *const *columns, const char *behind,
	int (*row)(struct trace_read *t, sqlite3_stmt *st))
{
	sqlite3_stmt *st;
	int rc = SQLITE_DONE, r = 0;

	reader_allow(t->r);
	st = reader_table(t->r, table, columns, behind);
	while (st && r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
		r = row(t, st);
	(void) sqlite3_finalize(st);
	if (r < 0)
		return err_set(t->err, r, "%s: out of memory", t->r->path);
	return rc == SQLITE_ROW ? 0 : reader_error(t->r, rc, t->err);
}

static const char *const process_columns[] = { "id", "pid", "start", "name", "origin", "rank", NULL };

static int see_process(struct trace_read *t, sqlite3_stmt *st)
{
	const uint32_t id = id_or_0(st, 0);

	if (id < 1 || id > MOST_OTHERS)
		return 0;
	while (t->n_processes < id) {
		if (vec_reserve(&t->processes, &t->cap_processes, t->n_processes, sizeof(*t->processes),
			    MOST_OTHERS) < 0)
			return -ENOMEM;
		t->processes[t->n_processes++] = (struct trace_process) { .name = NULL };
	}
	struct trace_process *p = &t->processes[id - 1];

	if (p->name)
		return 0;
	*p = (struct trace_process) {
		.pid = reader_int_or(st, 1, -1),
		.start_ns = at_least_0(st, 2),
		.name = strdup(reader_text(st, 3)),
		.origin = strdup(reader_text(st, 4)),
		.rank = reader_int_or(st, 5, -1),
	};
	return p->name && p->origin ? 0 : -ENOMEM;
}

static const char *const name_columns[] = { "id", "text", NULL };

static int see_name(struct trace_read *t, sqlite3_stmt *st)
{
	const uint32_t id = id_or_0(st, 0);

	/* Numbers that a forged file leaves out would cost memory. */
	if (id < 1 || id > MOST_NAMES || id > t->n_names + MOST_OTHERS)
		return 0;
	while (t->n_names < id) {
		if (vec_reserve(&t->names, &t->cap_names, t->n_names, sizeof(*t->names), MOST_NAMES) < 0)
			return -ENOMEM;
		t->names[t->n_names++] = NULL;
	}
	if (!t->names[id - 1])
		t->names[id - 1] = strdup(reader_text(st, 1));
	return t->names[id - 1] ? 0 : -ENOMEM;
}

static const char *const stat_columns[] = { "kind", "name", "domain", "process", "tid", "device", "stream", "phase",
	"source", "target", "count", "invalid", "total", "min", "max", "sum_squares", "bytes", "rows", "histogram", NULL };

static bool has_process(const struct trace_read *t, uint32_t number)
{
	return number >= 1 && number <= t->n_processes && t->processes[number - 1].name;
}

static int see_stat(struct trace_read *t, sqlite3_stmt *st)
{
	const int kind = trace_kind_find(reader_text(st, 0));
	struct trace_stat stat = {
		.name = name_of(t, id_or_0(st, 1)),
		.domain = name_of(t, id_or_0(st, 2)),
		.process = id_or_0(st, 3),
		.tid = reader_int_or(st, 4, -1),
		.device = reader_int_or(st, 5, -1),
		.stream = (uint64_t) reader_int_or(st, 6, 0),
		.phase = reader_int_or(st, 7, 0) < 0 ? TRACE_PHASE_MIXED : id_or_0(st, 7),
		.source = memory_of(st, 8),
		.target = memory_of(st, 9),
		.count = at_least_0(st, 10),
		.invalid = at_least_0(st, 11),
		.total_ns = at_least_0(st, 12),
		.min_ns = at_least_0(st, 13),
		.max_ns = at_least_0(st, 14),
		.sum_squares = sqlite3_column_double(st, 15),
		.bytes = at_least_0(st, 16),
		.rows = at_least_0(st, 17),
	};

	if (kind < 0 || !has_process(t, stat.process))
		return 0;
	stat.kind = (enum trace_kind) kind;
	if (!(stat.sum_squares >= 0)) /* NaN */
		stat.sum_squares = 0;
	if (sqlite3_column_type(st, 18) == SQLITE_BLOB) {
		const void *blob = sqlite3_column_blob(st, 18);
		const size_t bytes = (size_t) sqlite3_column_bytes(st, 18);
		void *copy = bytes > 0 ? malloc(bytes) : NULL;

		if (bytes > 0 && !copy)
			return -ENOMEM;
		if (copy)
			memcpy(copy, blob, bytes);
		stat.histogram = copy;
		stat.histogram_bytes = bytes;
	}
	if (vec_reserve(&t->stats, &t->cap_stats, t->n_stats, sizeof(stat), MOST_STATS) < 0) {
		free((void *) (uintptr_t) stat.histogram);
		return -ENOMEM;
	}
	t->stats[t->n_stats++] = stat;
	if (stat.max_ns > t->longest_ns[kind])
		t->longest_ns[kind] = stat.max_ns;
	return 0;
}

static const char *const busy_columns[] = { "process", "device", "traced", "busy", "kernels", "copies", "both", "gaps",
	"longest", "longest_at", "first", "last", "late", NULL };

static int see_busy(struct trace_read *t, sqlite3_stmt *st)
{
	const struct trace_busy busy = {
		.process = id_or_0(st, 0),
		.device = reader_int_or(st, 1, -1),
		.name = "",
		.traced_ns = at_least_0(st, 2),
		.busy_ns = at_least_0(st, 3),
		.kernels_ns = at_least_0(st, 4),
		.copies_ns = at_least_0(st, 5),
		.both_ns = at_least_0(st, 6),
		.gaps = at_least_0(st, 7),
		.longest_ns = at_least_0(st, 8),
		.longest_at_ns = at_least_0(st, 9),
		.first_ns = at_least_0(st, 10),
		.last_ns = at_least_0(st, 11),
		.late = at_least_0(st, 12),
	};

	if (!has_process(t, busy.process))
		return 0;
	if (vec_reserve(&t->busy, &t->cap_busy, t->n_busy, sizeof(busy), MOST_OTHERS) < 0)
		return -ENOMEM;
	t->busy[t->n_busy++] = busy;
	return 0;
}

static const char *const device_columns[] = { "process", "device", "name", NULL };

static int see_device(struct trace_read *t, sqlite3_stmt *st)
{
	const uint32_t process = id_or_0(st, 0);
	const int64_t device = reader_int_or(st, 1, -1);

	for (size_t i = 0; i < t->n_busy; i++) {
		if (t->busy[i].process != process || t->busy[i].device != device || *t->busy[i].name)
			continue;
		t->busy[i].name = strdup(reader_text(st, 2));
		if (!t->busy[i].name) {
			t->busy[i].name = "";
			return -ENOMEM;
		}
		if (!*t->busy[i].name) {
			free((void *) (uintptr_t) t->busy[i].name);
			t->busy[i].name = "";
		}
	}
	return 0;
}

static const char gpu_memory[] = "gpu";

const char *trace_peak_name(uint32_t memory)
{
	return memory == TRACE_PEAK_GPU ? gpu_memory : trace_memory_name((enum trace_memory) memory);
}

int trace_peak_find(const char *name)
{
	const int memory = strcmp(name, gpu_memory) == 0 ? (int) TRACE_PEAK_GPU : trace_memory_find(name);

	return memory == TRACE_MEMORY_UNKNOWN ? -1 : memory;
}

static const char *const peak_columns[] = { "process", "device", "memory", "live", "peak", "t", NULL };

static int see_peak(struct trace_read *t, sqlite3_stmt *st)
{
	const int memory = trace_peak_find(reader_text(st, 2));
	const struct trace_peak peak = {
		.process = id_or_0(st, 0),
		.device = reader_int_or(st, 1, -1),
		.memory = (uint32_t) memory,
		.live_bytes = at_least_0(st, 3),
		.peak_bytes = at_least_0(st, 4),
		.peak_at_ns = at_least_0(st, 5),
		.is_exact = true,
	};

	if (memory < 0 || !has_process(t, peak.process))
		return 0;
	if (vec_reserve(&t->peaks, &t->cap_peaks, t->n_peaks, sizeof(peak), MOST_OTHERS) < 0)
		return -ENOMEM;
	t->peaks[t->n_peaks++] = peak;
	return 0;
}

static const char *const window_columns[] = { "start", "end", "why", NULL };

static int see_window(struct trace_read *t, sqlite3_stmt *st)
{
	struct trace_window window = { .begin_ns = at_least_0(st, 0), .end_ns = UINT64_MAX };

	(void) reader_time(st, 1, &window.end_ns);
	if (vec_reserve(&t->windows, &t->cap_windows, t->n_windows, sizeof(window), MOST_OTHERS) < 0)
		return -ENOMEM;
	window.why = strdup(reader_text(st, 2));
	if (!window.why)
		return -ENOMEM;
	t->windows[t->n_windows++] = window;
	return 0;
}

static const char *const lost_columns[] = { "process", "cause", "n", NULL };

static int see_lost(struct trace_read *t, sqlite3_stmt *st)
{
	const int cause = trace_loss_find(reader_text(st, 1));
	const struct trace_lost lost = {
		.process = id_or_0(st, 0),
		.cause = (enum trace_loss) cause,
		.n = at_least_0(st, 2),
	};

	if (cause < 0 || lost.n == 0 || (lost.process && !has_process(t, lost.process)))
		return 0;
	if (vec_reserve(&t->lost, &t->cap_lost, t->n_lost, sizeof(lost), MOST_OTHERS) < 0)
		return -ENOMEM;
	t->lost[t->n_lost++] = lost;
	if (cause != TRACE_LOST_OVERWRITTEN && cause != TRACE_LOST_THREADS && cause != TRACE_LOST_DAMAGED)
		return 0;
	for (size_t i = 0; i < t->n_peaks; i++)
		t->peaks[i].is_exact = t->peaks[i].is_exact && t->peaks[i].process != lost.process;
	return 0;
}

static const char *const thread_columns[] = { "process", "tid", "name", NULL };

static int see_thread(struct trace_read *t, sqlite3_stmt *st)
{
	struct thread_name thread = { .process = id_or_0(st, 0), .tid = reader_int_or(st, 1, -1) };

	if (!has_process(t, thread.process))
		return 0;
	if (vec_reserve(&t->threads, &t->cap_threads, t->n_threads, sizeof(thread), MOST_NAMES) < 0)
		return -ENOMEM;
	thread.name = strdup(reader_text(st, 2));
	if (!thread.name)
		return -ENOMEM;
	t->threads[t->n_threads++] = thread;
	return 0;
}

static int read_tables(struct trace_read *t)
{
	static const struct {
		const char *table;
		const char *const *columns;
		const char *behind;
		int (*row)(struct trace_read *t, sqlite3_stmt *st);
	} tables[] = {
		{ "trace_process", process_columns, "ORDER BY id", see_process },
		{ "trace_name", name_columns, "ORDER BY id", see_name },
		{ "trace_stat", stat_columns, "ORDER BY rowid", see_stat },
		{ "trace_busy", busy_columns, "ORDER BY process, device", see_busy },
		{ "trace_device", device_columns, "", see_device },
		{ "trace_peak", peak_columns, "ORDER BY process, device, memory", see_peak },
		{ "trace_window", window_columns, "ORDER BY rowid", see_window },
		{ "trace_lost", lost_columns, "ORDER BY process, cause", see_lost },
		{ "trace_thread", thread_columns, "ORDER BY process, tid", see_thread },
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && r == 0; i++)
		r = read_table(t, tables[i].table, tables[i].columns, tables[i].behind, tables[i].row);
	return r;
}

int trace_read_new(struct replay *r, struct trace_read **ret, struct err *err)
{
	struct trace_read *t;
	int code;

	reader_allow(r);
	if (!reader_has_table(r, "trace_process"))
		return err_set(err, -ENOENT,
			"%s was not traced; use: hiwater run --trace -- COMMAND, or: hiwater import FILE --into RUN", r->path);
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, -ENOMEM, "%s: out of memory", r->path);
	t->r = r;
	t->err = err;
	code = read_tables(t);
	t->err = NULL;
	t->step = reader_meta_text(r, "trace_step_re");
	t->probe_bytes.known = reader_meta_int(r, "trace_probe_bytes", &t->probe_bytes.value);
	if (code < 0) {
		trace_read_free(t);
		return code;
	}
	*ret = t;
	return 0;
}

void trace_read_free(struct trace_read *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_processes; i++) {
		free((void *) (uintptr_t) t->processes[i].name);
		free((void *) (uintptr_t) t->processes[i].origin);
	}
	for (size_t i = 0; i < t->n_names; i++)
		free(t->names[i]);
	for (size_t i = 0; i < t->n_stats; i++)
		free((void *) (uintptr_t) t->stats[i].histogram);
	for (size_t i = 0; i < t->n_busy; i++) {
		if (*t->busy[i].name)
			free((void *) (uintptr_t) t->busy[i].name);
	}
	for (size_t i = 0; i < t->n_windows; i++)
		free((void *) (uintptr_t) t->windows[i].why);
	for (size_t i = 0; i < t->n_threads; i++)
		free(t->threads[i].name);
	for (size_t i = 0; i < t->n_blocks; i++)
		free(t->blocks[i]);
	free(t->processes);
	free(t->names);
	free(t->stats);
	free(t->busy);
	free(t->peaks);
	free(t->step);
	free(t->windows);
	free(t->lost);
	free(t->threads);
	free(t->blocks);
	free(t);
}

/* ---- lists ----------------------------------------------------------------------------------- */

size_t trace_read_stat_count(const struct trace_read *t)
{
	return t->n_stats;
}

const struct trace_stat *trace_read_stat(const struct trace_read *t, size_t i)
{
	return i < t->n_stats ? &t->stats[i] : NULL;
}

size_t trace_read_busy_count(const struct trace_read *t)
{
	return t->n_busy;
}

const struct trace_busy *trace_read_busy(const struct trace_read *t, size_t i)
{
	return i < t->n_busy ? &t->busy[i] : NULL;
}

size_t trace_read_peak_count(const struct trace_read *t)
{
	return t->n_peaks;
}

const struct trace_peak *trace_read_peak(const struct trace_read *t, size_t i)
{
	return i < t->n_peaks ? &t->peaks[i] : NULL;
}

size_t trace_read_window_count(const struct trace_read *t)
{
	return t->n_windows;
}

const struct trace_window *trace_read_window(const struct trace_read *t, size_t i)
{
	return i < t->n_windows ? &t->windows[i] : NULL;
}

size_t trace_read_lost_count(const struct trace_read *t)
{
	return t->n_lost;
}

const struct trace_lost *trace_read_lost(const struct trace_read *t, size_t i)
{
	return i < t->n_lost ? &t->lost[i] : NULL;
}

const char *trace_read_step(const struct trace_read *t)
{
	return t->step;
}

struct maybe trace_read_probe_bytes(const struct trace_read *t)
{
	return t->probe_bytes;
}

const struct trace_process *trace_read_process(const struct trace_read *t, uint32_t number)
{
	return has_process(t, number) ? &t->processes[number - 1] : NULL;
}

size_t trace_read_process_count(const struct trace_read *t)
{
	return t->n_processes;
}

const char *trace_read_thread(struct trace_read *t, uint32_t process, int64_t tid)
{
	size_t low = 0, high = t->n_threads;

	while (low < high) {
		const size_t middle = (low + high) / 2;
		const struct thread_name *thread = &t->threads[middle];

		if (thread->process < process || (thread->process == process && thread->tid < tid))
			low = middle + 1;
		else
			high = middle;
	}
	return low < t->n_threads && t->threads[low].process == process && t->threads[low].tid == tid
		       ? t->threads[low].name
		       : "";
}

/* ---- sites ----------------------------------------------------------------------------------- */

static const char *const site_columns[] = { "id", "kind", "process", "name", "domain", "tid", "device", "context",
	"stream", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "shared_static",
	"shared_dynamic", "source", "target", NULL };

static const char *device_name(const struct trace_read *t, uint32_t process, int64_t device)
{
	for (size_t i = 0; i < t->n_busy; i++) {
		if (t->busy[i].process == process && t->busy[i].device == device)
			return t->busy[i].name;
	}
	return "";
}

static void see_site(struct trace_read *t, sqlite3_stmt *st, struct block *block)
{
	const int kind = trace_kind_find(reader_text(st, 1));
	const uint32_t id = id_or_0(st, 0);
	struct trace_site site = {
		.process = id_or_0(st, 2),
		.name = name_of(t, id_or_0(st, 3)),
		.domain = name_of(t, id_or_0(st, 4)),
		.tid = reader_int_or(st, 5, -1),
		.device = reader_int_or(st, 6, -1),
		.context = (uint64_t) reader_int_or(st, 7, 0),
		.stream = (uint64_t) reader_int_or(st, 8, 0),
		.registers = id_or_0(st, 15),
		.shared_static = id_or_0(st, 16),
		.shared_dynamic = id_or_0(st, 17),
		.source = memory_of(st, 18),
		.target = memory_of(st, 19),
	};

	if (id < 1 || kind < 0 || !has_process(t, site.process))
		return;
	site.kind = (enum trace_kind) kind;
	site.device_name = device_name(t, site.process, site.device);
	for (int i = 0; i < 3; i++) {
		site.grid[i] = id_or_0(st, 9 + i);
		site.block[i] = id_or_0(st, 12 + i);
	}
	block->sites[(id - 1) % BLOCK] = site;
	block->exists[(id - 1) % BLOCK] = true;
}

static struct block *read_block(struct trace_read *t, size_t number)
{
	struct block *block = calloc(1, sizeof(*block));
	sqlite3_stmt *st;
	char behind[96];

	(void) snprintf(behind, sizeof(behind), "WHERE id BETWEEN %zu AND %zu", number * BLOCK + 1, (number + 1) * BLOCK);
	st = block ? reader_table(t->r, "trace_site", site_columns, behind) : NULL;
	while (st && sqlite3_step(st) == SQLITE_ROW)
		see_site(t, st, block);
	(void) sqlite3_finalize(st);
	return block;
}

const struct trace_site *trace_read_site(struct trace_read *t, uint32_t number)
{
	const size_t place = (number - 1) / BLOCK;

	if (number < 1 || number > MOST_SITES)
		return NULL;
	while (t->n_blocks <= place) {
		if (vec_reserve(&t->blocks, &t->cap_blocks, t->n_blocks, sizeof(*t->blocks),
			    MOST_SITES / BLOCK) < 0)
			return NULL;
		t->blocks[t->n_blocks++] = NULL;
	}
	if (!t->blocks[place])
		t->blocks[place] = read_block(t, place);
	return t->blocks[place] && t->blocks[place]->exists[(number - 1) % BLOCK]
		       ? &t->blocks[place]->sites[(number - 1) % BLOCK]
		       : NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The next row of a table. */
struct rows {
	sqlite3_stmt *st;
	struct trace_event event;
	bool pending;
};

enum {
	START,
	DURATION,
	SITE,
	KEY,     /* correlation, address, depth */
	FLAGS,
	QUEUED,
	SUBMITTED,
	BYTES,
};

static const struct {
	const char *table, *start;
	unsigned kinds;
	const char *columns[9];
} row_tables[TABLES] = {
	{ "trace_range", "start", 1 << TRACE_RANGE | 1 << TRACE_MARK,
		{ "start", "duration", "site", "depth", "flags", NULL } },
	{ "trace_launch", "start", 1 << TRACE_LAUNCH, { "start", "duration", "site", "correlation", "flags", NULL } },
	{ "trace_kernel", "start", 1 << TRACE_KERNEL,
		{ "start", "duration", "site", "correlation", "flags", "queued", "submitted", NULL } },
	{ "trace_copy", "start", 1 << TRACE_COPY | 1 << TRACE_FILL,
		{ "start", "duration", "site", "correlation", "flags", "queued", "submitted", "bytes", NULL } },
	{ "trace_memory", "t", 1 << TRACE_ALLOC | 1 << TRACE_FREE, { "t", "bytes", "site", "address", "flags", NULL } },
};

static uint64_t before(sqlite3_stmt *st, int column, uint64_t start)
{
	uint64_t ns;

	return reader_time(st, column, &ns) && ns <= start ? start - ns : 0;
}

/* Reads the row on which the statement is; false: it is malformed, or of another kind. */
static bool read_row(struct trace_read *t, sqlite3_stmt *st, int table, unsigned kinds, struct trace_event *e)
{
	const struct trace_site *site;
	int64_t duration;

	*e = (struct trace_event) { .site = id_or_0(st, SITE), .flags = id_or_0(st, FLAGS) };
	if (!reader_time(st, START, &e->start_ns))
		return false;
	site = trace_read_site(t, e->site);
	if (!site || !(row_tables[table].kinds & 1U << site->kind) || !(kinds & 1U << site->kind))
		return false;
	e->kind = site->kind;
	e->end_ns = e->start_ns;
	duration = reader_int_or(st, DURATION, 0);
	if (e->kind == TRACE_ALLOC || e->kind == TRACE_FREE) {
		e->bytes = duration < 0 ? -(uint64_t) duration : (uint64_t) duration;
		e->address = (uint64_t) reader_int_or(st, KEY, 0);
		return true;
	}
	if (duration < 0 || duration > INT64_MAX - (int64_t) e->start_ns)
		return false;
	e->end_ns += (uint64_t) duration;
	if (e->kind == TRACE_RANGE || e->kind == TRACE_MARK) {
		e->depth = id_or_0(st, KEY);
		return true;
	}
	e->correlation = (uint64_t) reader_int_or(st, KEY, 0);
	if (e->kind != TRACE_LAUNCH) {
		e->queued_ns = before(st, QUEUED, e->start_ns);
		e->submitted_ns = before(st, SUBMITTED, e->start_ns);
		if (e->kind != TRACE_KERNEL)
			e->bytes = at_least_0(st, BYTES);
	}
	return true;
}

static int advance(
	struct trace_read *t, struct rows *rows, int table, unsigned kinds, uint64_t from_ns, struct err *err)
{
	int rc;

	rows->pending = false;
	while ((rc = sqlite3_step(rows->st)) == SQLITE_ROW) {
		/* Each row is progress: the budget is for steps that are none. */
		reader_allow(t->r);
		if (!read_row(t, rows->st, table, kinds, &rows->event))
			continue;
		if (rows->event.end_ns <= from_ns && rows->event.start_ns < from_ns)
			continue;
		rows->pending = true;
		return 0;
	}
	return reader_error(t->r, rc, err);
}

/* Rows that overlap a span may have begun earlier, by the longest event of their kinds at most. */
static sqlite3_stmt *select_rows(struct trace_read *t, int table, uint64_t from_ns, uint64_t to_ns)
{
	const char *start = row_tables[table].start;
	uint64_t longest = 0;
	char behind[256];

	for (int k = 0; k < TRACE_KIND_COUNT; k++) {
		if ((row_tables[table].kinds & 1U << k) && t->longest_ns[k] > longest)
			longest = t->longest_ns[k];
	}
	from_ns = from_ns > longest ? from_ns - longest : 0;
	if (from_ns > INT64_MAX)
		return NULL;
	(void) snprintf(behind, sizeof(behind), "WHERE %s >= %lld AND %s < %lld ORDER BY %s", start, (long long) from_ns,
		start, to_ns > INT64_MAX ? (long long) INT64_MAX : (long long) to_ns, start);
	return reader_table(t->r, row_tables[table].table, row_tables[table].columns, behind);
}

static struct rows *earliest(struct rows *rows)
{
	struct rows *first = NULL;

	for (int i = 0; i < TABLES; i++) {
		if (rows[i].pending && (!first || rows[i].event.start_ns < first->event.start_ns))
			first = &rows[i];
	}
	return first;
}

int trace_read_rows(struct trace_read *t, unsigned kinds, uint64_t from_ns, uint64_t to_ns,
	bool (*see)(void *ctx, const struct trace_event *event), void *ctx, struct err *err)
{
	struct rows rows[TABLES] = { { .st = NULL } }, *first;
	int r = 0;

	reader_allow(t->r);
	for (int i = 0; i < TABLES && r == 0; i++) {
		if (!(row_tables[i].kinds & kinds))
			continue;
		rows[i].st = select_rows(t, i, from_ns, to_ns);
		if (rows[i].st)
			r = advance(t, &rows[i], i, kinds, from_ns, err);
	}
	while (r == 0 && (first = earliest(rows))) {
		if (!see(ctx, &first->event))
			break;
		r = advance(t, first, (int) (first - rows), kinds, from_ns, err);
	}
	for (int i = 0; i < TABLES; i++)
		(void) sqlite3_finalize(rows[i].st);
	return r;
}

/* ---- failures -------------------------------------------------------------------------------- */

struct failures {
	struct trace_read *t;
	struct trace_failure *list;
	size_t n;
};

static bool see_mark(void *ctx, const struct trace_event *event)
{
	struct failures *f = ctx;
	const struct trace_site *site = trace_read_site(f->t, event->site);
	struct trace_failure new;

	if (!site || strcmp(site->domain, TRACE_FAILED_DOMAIN) != 0)
		return true;
	new = (struct trace_failure) {
		.process = site->process, .at_ns = event->start_ns, .count = 1
	};
	(void) snprintf(new.text, sizeof(new.text), "%s", site->name);
	for (size_t i = 0; i < f->n; i++) {
		if (f->list[i].process == new.process && strcmp(f->list[i].text, new.text) == 0) {
			f->list[i].count++;
			return true;
		}
	}
	if (f->n < TRACE_FAILURES)
		f->list[f->n++] = new;
	return true;
}

/* The sums say whether there are any, before all rows are looked at. */
static bool has_failures(const struct trace_read *t)
{
	for (size_t i = 0; i < trace_read_stat_count(t); i++) {
		const struct trace_stat *stat = trace_read_stat(t, i);

		if (stat->kind == TRACE_MARK && strcmp(stat->domain, TRACE_FAILED_DOMAIN) == 0)
			return true;
	}
	return false;
}

int trace_read_failures(struct trace_read *t, struct trace_failure list[static TRACE_FAILURES], size_t *ret_n,
	struct err *err)
{
	struct failures f = { .t = t, .list = list };
	int r = 0;

	if (has_failures(t))
		r = trace_read_rows(t, 1U << TRACE_MARK, 0, UINT64_MAX, see_mark, &f, err);
	*ret_n = f.n;
	return r;
}

/* ---- quantiles ------------------------------------------------------------------------------- */

uint64_t trace_stat_quantile(const struct trace_stat *stat, double q)
{
	struct trace_histogram histogram = { 0 };
	uint64_t ns = 0;

	if (trace_histogram_read(&histogram, stat->histogram, stat->histogram_bytes) == 0)
		ns = trace_histogram_quantile(&histogram, q);
	trace_histogram_done(&histogram);
	if (ns && ns < stat->min_ns)
		return stat->min_ns;
	return ns > stat->max_ns ? stat->max_ns : ns;
}
