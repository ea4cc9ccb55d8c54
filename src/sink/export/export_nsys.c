/* SPDX-License-Identifier: MIT
 *
 * Traced work as a SQLite database with the public tables and columns of nsys' exports, so that scripts
 * for those read it: times since the session's start, names in StringIds, threads as numbers that
 * hold the pid too, kinds of memory one less than in CUPTI. A table is there if it has rows.
 *
 * A database cannot be written as a stream: it is made in a temporary file without a name, whose bytes
 * are then written.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sink/export/export_trace.h"

/* nsys' numbers. */
enum {
	EVENT_PUSH_POP = 59,
	EVENT_START_END = 60,
	EVENT_MARK_NUMBER = 34,
	EVENT_DOMAIN = 75,
	COPY_UNKNOWN = 0,
	COPY_HTOD = 1,
	COPY_DTOH = 2,
	COPY_HTOA = 3,
	COPY_ATOH = 4,
	COPY_ATOA = 5,
	COPY_ATOD = 6,
	COPY_DTOA = 7,
	COPY_DTOD = 8,
	COPY_HTOH = 9,
	MEMORY_UNKNOWN = 7,
	CLASS_RUNTIME = 0,
	CLASS_DRIVER = 1,
	ERROR_UNKNOWN = 999,
	LAUNCH_REGULAR = 1,
	ID_BITS = 24,        /* of a pid and a tid in globalTid */
};

enum {
	COPY_CHUNK = 1 << 16,
	TEXT_MOST = 1 << 20,
	SITES_MOST = 1 << 24,
};

enum table {
	KERNEL,
	MEMCPY,
	MEMSET,
	RUNTIME,
	MEMORY,
	NVTX,
	GPU,
	CUDA_DEVICE,
	SESSION,
	META,
	PROCESSES,
	THREADS,
	ENUM_COPY,
	ENUM_MEMORY,
	ENUM_OPERATION,
	ENUM_EVENT,
	TABLES,
};

#define ENUM "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT"
#define WORK \
	"start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, " \
	"greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "

static const struct {
	const char *name, *columns;
	unsigned n;
} tables[] = {
	[KERNEL] = { "CUPTI_ACTIVITY_KIND_KERNEL",
		WORK "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, "
		     "launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, "
		     "gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, "
		     "blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, "
		     "localMemoryPerThread INTEGER, localMemoryTotal INTEGER, gridId INTEGER, sharedMemoryExecuted INTEGER, "
		     "graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER",
		28 },
	[MEMCPY] = { "CUPTI_ACTIVITY_KIND_MEMCPY",
		WORK "bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, "
		     "dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, "
		     "dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER, "
		     "copyCount INTEGER",
		21 },
	[MEMSET] = { "CUPTI_ACTIVITY_KIND_MEMSET",
		WORK "value INTEGER, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER", 12 },
	[RUNTIME] = { "CUPTI_ACTIVITY_KIND_RUNTIME",
		"start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, "
		"correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER",
		8 },
	[MEMORY] = { "CUDA_GPU_MEMORY_USAGE_EVENTS",
		"start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
		"address INTEGER NOT NULL, pc INTEGER, bytes INTEGER NOT NULL, memKind INTEGER NOT NULL, "
		"memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER, streamId INTEGER, "
		"localMemoryPoolAddress INTEGER, localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER, "
		"localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER, importedMemoryPoolProcessId INTEGER",
		18 },
	[NVTX] = { "NVTX_EVENTS",
		"start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, "
		"color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, "
		"uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, "
		"floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT",
		20 },
	[GPU] = { "TARGET_INFO_GPU",
		"vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, isDiscrete INTEGER, "
		"l2CacheSize INTEGER, totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, "
		"pwGpuId INTEGER, uuid TEXT, luid INTEGER, chipName TEXT, cuDevice INTEGER",
		15 },
	[CUDA_DEVICE] = { "TARGET_INFO_CUDA_DEVICE",
		"gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT, numMultiprocessors INTEGER", 5 },
	[SESSION] = { "TARGET_INFO_SESSION_START_TIME", "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT", 3 },
	[META] = { "META_DATA_EXPORT", "name TEXT, value TEXT", 2 },
	[PROCESSES] = { "PROCESSES", "globalPid INTEGER, pid INTEGER, name TEXT", 3 },
	[THREADS] = { "ThreadNames", "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER", 3 },
	[ENUM_COPY] = { "ENUM_CUDA_MEMCPY_OPER", ENUM, 3 },
	[ENUM_MEMORY] = { "ENUM_CUDA_MEM_KIND", ENUM, 3 },
	[ENUM_OPERATION] = { "ENUM_CUDA_DEV_MEM_EVENT_OPER", ENUM, 3 },
	[ENUM_EVENT] = { "ENUM_NSYS_EVENT_TYPE", ENUM, 3 },
};

/* Numbers of texts of a site. */
struct names {
	int64_t shown, base, given, domain; /* domain 0: the default one */
};

struct nsys {
	sqlite3 *db;
	int fd;              /* of its file, which has no name any more */
	sqlite3_stmt *insert[TABLES], *find_text, *add_text;
	unsigned bound;      /* columns of the row that is being written */
	struct trace_tracks tracks;
	struct names *names;
	size_t n_names, cap_names;
	struct map domains;  /* of a process that have their event */
	struct buf text;
};

/* ---- the database ------------------------------------------------------------------------------------- */

static void fail(struct export *e, const char *what)
{
	struct nsys *x = e->state;
	const int code = sqlite3_errcode(x->db);

	if (e->error == 0)
		e->error = err_set(&e->why, code == SQLITE_NOMEM ? -ENOMEM : code == SQLITE_FULL ? -ENOSPC
												 : -EIO,
			"cannot %s in a temporary file: %s; set TMPDIR to a folder with room", what,
			sqlite3_errmsg(x->db));
}

static void execute(struct export *e, const char *sql)
{
	struct nsys *x = e->state;

	if (e->error == 0 && sqlite3_exec(x->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail(e, "write the database");
}

static sqlite3_stmt *prepare(struct export *e, const char *sql)
{
	struct nsys *x = e->state;
	sqlite3_stmt *statement = NULL;

	if (e->error == 0 && sqlite3_prepare_v2(x->db, sql, -1, &statement, NULL) != SQLITE_OK)
		fail(e, "write the database");
	return statement;
}

/* Creates the table before its first row. */
static void row_begin(struct export *e, enum table table)
{
	struct nsys *x = e->state;
	char sql[2000];
	int len;

	x->bound = 0;
	if (x->insert[table])
		return;
	(void) snprintf(sql, sizeof(sql), "CREATE TABLE %s (%s)", tables[table].name, tables[table].columns);
	execute(e, sql);
	len = snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (?", tables[table].name);
	for (unsigned i = 1; i < tables[table].n; i++)
		len += snprintf(sql + len, sizeof(sql) - (size_t) len, ",?");
	(void) snprintf(sql + len, sizeof(sql) - (size_t) len, ")");
	x->insert[table] = prepare(e, sql);
}

static void put_int(struct export *e, enum table table, int64_t value)
{
	struct nsys *x = e->state;

	(void) sqlite3_bind_int64(x->insert[table], (int) ++x->bound, value);
}

/* Columns whose value is unknown. */
static void put_nulls(struct export *e, unsigned n)
{
	((struct nsys *) e->state)->bound += n;
}

static void put_text(struct export *e, enum table table, const char *text)
{
	struct nsys *x = e->state;

	(void) sqlite3_bind_text(x->insert[table], (int) ++x->bound, text, -1, SQLITE_TRANSIENT);
}

/* Further columns are NULL. */
static void row_end(struct export *e, enum table table)
{
	struct nsys *x = e->state;

	if (e->error == 0 && sqlite3_step(x->insert[table]) != SQLITE_DONE)
		fail(e, "write the database");
	(void) sqlite3_reset(x->insert[table]);
	(void) sqlite3_clear_bindings(x->insert[table]);
}

/* ---- texts ------------------------------------------------------------------------------------------------ */

/* The number of a text in StringIds, from 1. */
static int64_t text_id(struct export *e, const char *text)
{
	struct nsys *x = e->state;
	int64_t id = 0;

	if (!x->add_text) {
		execute(e, "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)");
		execute(e, "CREATE UNIQUE INDEX by_value ON StringIds (value)");
		x->add_text = prepare(e, "INSERT INTO StringIds (value) VALUES (?)");
		x->find_text = prepare(e, "SELECT id FROM StringIds WHERE value = ?");
	}
	(void) sqlite3_bind_text(x->find_text, 1, text, -1, SQLITE_STATIC);
	if (sqlite3_step(x->find_text) == SQLITE_ROW)
		id = sqlite3_column_int64(x->find_text, 0);
	(void) sqlite3_reset(x->find_text);
	if (id > 0 || e->error)
		return id;
	(void) sqlite3_bind_text(x->add_text, 1, text, -1, SQLITE_STATIC);
	if (sqlite3_step(x->add_text) != SQLITE_DONE)
		fail(e, "write the database");
	(void) sqlite3_reset(x->add_text);
	return sqlite3_last_insert_rowid(x->db);
}

static int64_t global_pid(const struct export *e, uint32_t process)
{
	return (export_trace_pid(e, process) & ((1 << ID_BITS) - 1)) << ID_BITS;
}

static int64_t global_tid(const struct export *e, uint32_t process, int64_t tid)
{
	return global_pid(e, process) | (tid < 0 ? 0 : tid & ((1 << ID_BITS) - 1));
}

/* The last name before template arguments or parameters: of "void a::(anonymous namespace)::f<4>(int)" it
 * is "f". Other names are whole. */
static int64_t base_id(struct export *e, const char *name)
{
	static const char nowhere[] = "(anonymous namespace)";
	struct buf text = BUF_INIT(TEXT_MOST);
	const char *begin = name, *at = name;
	int64_t id;

	while (*at && *at != '<') {
		if (strncmp(at, nowhere, sizeof(nowhere) - 1) == 0)
			at += sizeof(nowhere) - 1;
		else if (*at == '(')
			break;
		else if (*at == ' ' || (at[0] == ':' && at[1] == ':'))
			begin = at += *at == ' ' ? 1 : 2;
		else
			at++;
	}
	if (!*at || at == begin)
		return text_id(e, name);
	(void) buf_add(&text, begin, (size_t) (at - begin));
	id = text_id(e, text.data);
	buf_done(&text);
	return id;
}

/* A domain has an event of its own in each process. */
static int64_t domain_id(struct export *e, const struct trace_site *site)
{
	struct nsys *x = e->state;
	int64_t id;
	uint32_t unused;

	if (!*site->domain)
		return 0;
	id = text_id(e, site->domain);
	if (map_get(&x->domains, (uint64_t) site->process << 32 | (uint32_t) id, &unused))
		return id;
	if (map_put(&x->domains, (uint64_t) site->process << 32 | (uint32_t) id, 1) < 0)
		e->error = -ENOMEM;
	row_begin(e, NVTX);
	put_int(e, NVTX, 0);
	put_nulls(e, 1);
	put_int(e, NVTX, EVENT_DOMAIN);
	put_nulls(e, 3);
	put_text(e, NVTX, site->domain);
	put_int(e, NVTX, global_tid(e, site->process, site->tid));
	put_nulls(e, 2);
	put_int(e, NVTX, id);
	row_end(e, NVTX);
	return id;
}

/* ---- what is written with a site's first event ------------------------------------------------------------------------ */

static void put_gpu(struct export *e, const struct trace_site *site)
{
	const struct trace_track like = { .class = CLASS_DEVICE, .tid = -1, .device = site->device };
	struct nsys *x = e->state;
	const size_t i = trace_track_find(&x->tracks, &like);

	if (i == SIZE_MAX) {
		e->error = -ENOMEM;
		return;
	}
	if (x->tracks.tracks[i].begun || site->device < 0)
		return;
	x->tracks.tracks[i].begun = true;
	row_begin(e, GPU);
	put_int(e, GPU, 0);
	put_int(e, GPU, site->device);
	put_text(e, GPU, site->device_name);
	row_end(e, GPU);
	row_begin(e, CUDA_DEVICE);
	put_int(e, CUDA_DEVICE, site->device);
	put_int(e, CUDA_DEVICE, site->device);
	row_end(e, CUDA_DEVICE);
}

static void put_thread(struct export *e, const struct trace_site *site)
{
	const char *name = export_trace_thread(e, site->process, site->tid);
	int64_t id;

	if (!*name)
		return;
	id = text_id(e, name);
	row_begin(e, THREADS);
	put_int(e, THREADS, id);
	put_nulls(e, 1);
	put_int(e, THREADS, global_tid(e, site->process, site->tid));
	row_end(e, THREADS);
}

static struct names names_of(struct export *e, struct trace_place *place, const struct trace_site *site)
{
	struct nsys *x = e->state;
	struct names names = { .domain = 0 };

	if (site->kind == TRACE_KERNEL) {
		const char *shown = export_trace_name(place, site, &x->text);

		names.shown = text_id(e, shown);
		names.base = base_id(e, shown);
		names.given = text_id(e, site->name);
	} else if (site->kind == TRACE_LAUNCH) {
		names.shown = text_id(e, site->name);
	} else if (site->kind == TRACE_RANGE || site->kind == TRACE_MARK) {
		names.domain = domain_id(e, site);
	}
	return names;
}

/* The texts of a site; its first event also describes its device or thread. NULL: an error is set. */
static const struct names *see_site(struct export *e, uint32_t number, const struct trace_site *site)
{
	struct nsys *x = e->state;
	struct trace_place *place = trace_place_of(&x->tracks, number, site);
	size_t track;

	if (!place ||
		vec_reserve(&x->names, &x->cap_names, x->n_names, sizeof(*x->names), SITES_MOST) < 0) {
		e->error = -ENOMEM;
		return NULL;
	}
	if (place->number > 0)
		return &x->names[place->number - 1];
	x->names[x->n_names++] = names_of(e, place, site);
	place->number = (uint32_t) x->n_names;
	track = place->track;
	if (!x->tracks.tracks[track].begun) {
		x->tracks.tracks[track].begun = true;
		if (x->tracks.tracks[track].class == CLASS_THREAD)
			put_thread(e, site);
		else
			put_gpu(e, site);
	}
	return &x->names[x->n_names - 1];
}

/* ---- rows -------------------------------------------------------------------------------------------------- */

static int64_t memory_number(enum trace_memory memory)
{
	return memory == TRACE_MEMORY_UNKNOWN ? MEMORY_UNKNOWN : (int64_t) memory - 1;
}

static int64_t copy_number(enum trace_memory source, enum trace_memory target)
{
	static const int8_t numbers[3][3] = {
		{ COPY_HTOH, COPY_HTOD, COPY_HTOA },
		{ COPY_DTOH, COPY_DTOD, COPY_DTOA },
		{ COPY_ATOH, COPY_ATOD, COPY_ATOA },
	};
	static const int8_t ends[] = {
		[TRACE_MEMORY_UNKNOWN] = -1,
		[TRACE_PAGEABLE] = 0,
		[TRACE_PINNED] = 0,
		[TRACE_DEVICE] = 1,
		[TRACE_MANAGED] = 1,
		[TRACE_ARRAY] = 2,
	};

	return ends[source] < 0 || ends[target] < 0 ? COPY_UNKNOWN : numbers[ends[source]][ends[target]];
}

static void put_correlation(struct export *e, enum table table, uint64_t correlation)
{
	if (correlation > 0)
		put_int(e, table, (int64_t) correlation);
	else
		put_nulls(e, 1);
}

/* The columns that kernels, copies and fills have in common. */
static void put_work(struct export *e, enum table table, const struct trace_event *event,
	const struct trace_site *site)
{
	row_begin(e, table);
	put_int(e, table, (int64_t) event->start_ns);
	put_int(e, table, (int64_t) event->end_ns);
	put_int(e, table, site->device < 0 ? 0 : site->device);
	put_int(e, table, (int64_t) site->context);
	put_nulls(e, 1);
	put_int(e, table, (int64_t) site->stream);
	put_correlation(e, table, event->correlation);
	put_int(e, table, global_pid(e, site->process));
}

/* The number of a node is unknown: 1 says that it is one. */
static void put_node(struct export *e, enum table table, const struct trace_event *event)
{
	if (event->flags & TRACE_NODE)
		put_int(e, table, 1);
	else
		put_nulls(e, 1);
}

static void put_kernel(struct export *e, const struct trace_event *event, const struct trace_site *site,
	const struct names *names)
{
	put_work(e, KERNEL, event, site);
	put_int(e, KERNEL, names->shown);
	put_int(e, KERNEL, names->base);
	put_int(e, KERNEL, names->given);
	put_int(e, KERNEL, LAUNCH_REGULAR);
	put_nulls(e, 1);
	put_int(e, KERNEL, site->registers);
	for (unsigned i = 0; i < 3; i++)
		put_int(e, KERNEL, site->grid[i]);
	for (unsigned i = 0; i < 3; i++)
		put_int(e, KERNEL, site->block[i]);
	put_int(e, KERNEL, site->shared_static);
	put_int(e, KERNEL, site->shared_dynamic);
	put_nulls(e, 4);
	put_node(e, KERNEL, event);
	row_end(e, KERNEL);
}

static void put_copy(struct export *e, const struct trace_event *event, const struct trace_site *site)
{
	put_work(e, MEMCPY, event, site);
	put_int(e, MEMCPY, (int64_t) event->bytes);
	put_int(e, MEMCPY, copy_number(site->source, site->target));
	put_nulls(e, 1);
	put_int(e, MEMCPY, memory_number(site->source));
	put_int(e, MEMCPY, memory_number(site->target));
	put_nulls(e, 5);
	put_node(e, MEMCPY, event);
	row_end(e, MEMCPY);
}

static void put_fill(struct export *e, const struct trace_event *event, const struct trace_site *site)
{
	put_work(e, MEMSET, event, site);
	put_nulls(e, 1);
	put_int(e, MEMSET, (int64_t) event->bytes);
	put_node(e, MEMSET, event);
	put_int(e, MEMSET, memory_number(site->target));
	row_end(e, MEMSET);
}

static void put_launch(struct export *e, const struct trace_event *event, const struct trace_site *site,
	const struct names *names)
{
	row_begin(e, RUNTIME);
	put_int(e, RUNTIME, (int64_t) event->start_ns);
	put_int(e, RUNTIME, (int64_t) event->end_ns);
	put_int(e, RUNTIME, export_trace_is_driver(site->name) ? CLASS_DRIVER : CLASS_RUNTIME);
	put_int(e, RUNTIME, global_tid(e, site->process, site->tid));
	put_correlation(e, RUNTIME, event->correlation);
	put_int(e, RUNTIME, names->shown);
	put_int(e, RUNTIME, event->flags & TRACE_FAILED ? ERROR_UNKNOWN : 0);
	row_end(e, RUNTIME);
}

/* An unclosed range has no end, as in nsys' own exports. A crossing one is of start and end, which need
 * not be nested; the others are of push and pop. */
static void put_range(struct export *e, const struct trace_event *event, const struct trace_site *site,
	const struct names *names)
{
	const bool is_mark = event->kind == TRACE_MARK;

	row_begin(e, NVTX);
	put_int(e, NVTX, (int64_t) event->start_ns);
	if (is_mark || event->flags & TRACE_UNCLOSED)
		put_nulls(e, 1);
	else
		put_int(e, NVTX, (int64_t) event->end_ns);
	put_int(e, NVTX,
		is_mark                         ? EVENT_MARK_NUMBER
		: event->flags & TRACE_CROSSING ? EVENT_START_END
						: EVENT_PUSH_POP);
	put_nulls(e, 3);
	put_text(e, NVTX, site->name);
	put_int(e, NVTX, global_tid(e, site->process, site->tid));
	put_nulls(e, 2);
	put_int(e, NVTX, names->domain);
	row_end(e, NVTX);
}

static void put_memory(struct export *e, const struct trace_event *event, const struct trace_site *site)
{
	row_begin(e, MEMORY);
	put_int(e, MEMORY, (int64_t) event->start_ns);
	put_int(e, MEMORY, global_pid(e, site->process));
	put_int(e, MEMORY, site->device < 0 ? 0 : site->device);
	put_int(e, MEMORY, (int64_t) site->context);
	put_int(e, MEMORY, (int64_t) event->address);
	put_nulls(e, 1);
	put_int(e, MEMORY, (int64_t) event->bytes);
	put_int(e, MEMORY, memory_number(site->target));
	put_int(e, MEMORY, event->kind == TRACE_FREE);
	put_text(e, MEMORY, site->name);
	row_end(e, MEMORY);
}

static void see_row(struct export *e, const struct trace_event *event, const struct trace_site *site)
{
	const struct names *names = see_site(e, event->site, site);

	if (!names)
		return;
	switch (event->kind) {
	case TRACE_KERNEL:
		put_kernel(e, event, site, names);
		break;
	case TRACE_COPY:
		put_copy(e, event, site);
		break;
	case TRACE_FILL:
		put_fill(e, event, site);
		break;
	case TRACE_LAUNCH:
		put_launch(e, event, site, names);
		break;
	case TRACE_RANGE:
	case TRACE_MARK:
		put_range(e, event, site, names);
		break;
	case TRACE_ALLOC:
	case TRACE_FREE:
		put_memory(e, event, site);
		break;
	case TRACE_KIND_COUNT:
		break;
	}
}

/* ---- the tables around them ------------------------------------------------------------------------------------ */

struct label {
	int64_t id;
	const char *name, *label;
};

static void put_labels(struct export *e, enum table table, const struct label *labels, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		row_begin(e, table);
		put_int(e, table, labels[i].id);
		put_text(e, table, labels[i].name);
		put_text(e, table, labels[i].label);
		row_end(e, table);
	}
}

#define LABELS(of) (of), sizeof(of) / sizeof((of)[0])

static void put_enums(struct export *e)
{
	static const struct label copies[] = {
		{ COPY_UNKNOWN, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown" },
		{ COPY_HTOD, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device" },
		{ COPY_DTOH, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host" },
		{ COPY_HTOA, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array" },
		{ COPY_ATOH, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host" },
		{ COPY_ATOA, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array" },
		{ COPY_ATOD, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device" },
		{ COPY_DTOA, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array" },
		{ COPY_DTOD, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device" },
		{ COPY_HTOH, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host" },
	};
	static const struct label memories[] = {
		{ 0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable" },
		{ 1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned" },
		{ 2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device" },
		{ 3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array" },
		{ 4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed" },
		{ MEMORY_UNKNOWN, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown" },
	};
	static const struct label operations[] = {
		{ 0, "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION", "Allocation" },
		{ 1, "CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION", "Deallocation" },
	};
	static const struct label events[] = {
		{ EVENT_MARK_NUMBER, "NvtxMark", "NVTX mark" },
		{ EVENT_PUSH_POP, "NvtxPushPopRange", "NVTX push/pop range" },
		{ EVENT_START_END, "NvtxStartEndRange", "NVTX start/end range" },
		{ EVENT_DOMAIN, "NvtxDomainCreate", "NVTX domain" },
	};
	const struct nsys *x = e->state;

	if (x->insert[MEMCPY])
		put_labels(e, ENUM_COPY, LABELS(copies));
	if (x->insert[MEMCPY] || x->insert[MEMSET] || x->insert[MEMORY])
		put_labels(e, ENUM_MEMORY, LABELS(memories));
	if (x->insert[MEMORY])
		put_labels(e, ENUM_OPERATION, LABELS(operations));
	if (x->insert[NVTX])
		put_labels(e, ENUM_EVENT, LABELS(events));
}

static void put_meta(struct export *e, const char *name, const char *value)
{
	row_begin(e, META);
	put_text(e, META, name);
	put_text(e, META, value);
	row_end(e, META);
}

/* What is missing, so that the file is not taken for complete. */
static void put_losses(struct export *e, uint64_t invalid)
{
	char name[64], value[32];

	put_meta(e, "EXPORTER", "hiwater");
	put_meta(e, "HIWATER_RUN", e->facts->id ? e->facts->id : "");
	(void) snprintf(value, sizeof(value), "%" PRIu64, invalid);
	put_meta(e, "HIWATER_INVALID", value);
	for (size_t i = 0; i < trace_read_lost_count(e->o.trace); i++) {
		const struct trace_lost *lost = trace_read_lost(e->o.trace, i);

		(void) snprintf(name, sizeof(name), "HIWATER_LOST %s", trace_loss_name(lost->cause));
		(void) snprintf(value, sizeof(value), "%" PRIu64, lost->n);
		put_meta(e, name, value);
	}
}

static void put_session(struct export *e)
{
	const uint64_t start_ns = export_wall(e, 0);
	char utc[UNITS_LEN];

	row_begin(e, SESSION);
	put_int(e, SESSION, (int64_t) start_ns);
	put_text(e, SESSION, units_rfc3339(start_ns, utc));
	row_end(e, SESSION);
}

static void put_processes(struct export *e)
{
	for (uint32_t i = 1; i <= trace_read_process_count(e->o.trace); i++) {
		row_begin(e, PROCESSES);
		put_int(e, PROCESSES, global_pid(e, i));
		put_int(e, PROCESSES, export_trace_pid(e, i));
		put_text(e, PROCESSES, export_trace_process(e, i));
		row_end(e, PROCESSES);
	}
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static int begin(struct export *e, struct err *err)
{
	struct nsys *x = calloc(1, sizeof(*x));
	const char *folder = getenv("TMPDIR");
	char path[4096];

	if (!x)
		return err_set(err, -ENOMEM, "out of memory");
	*x = (struct nsys) { .fd = -1, .text = BUF_INIT(TEXT_MOST) };
	e->state = x;
	(void) snprintf(path, sizeof(path), "%s/hiwater-XXXXXX", folder && *folder ? folder : "/var/tmp");
	x->fd = mkostemp(path, O_CLOEXEC);
	if (x->fd < 0)
		return err_set(err, -errno, "cannot create %s: %s; set TMPDIR to a folder with room", path,
			strerror(errno));
	if (sqlite3_open_v2(path, &x->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
		fail(e, "open a database");
	execute(e, "PRAGMA journal_mode = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF; BEGIN");
	(void) unlink(path);
	return e->error < 0 ? err_set(err, e->error, "%s", e->why.text) : 0;
}

static void see_frame(struct export *e, const struct frame *frame)
{
	(void) e;
	(void) frame;
}

static int close_database(struct nsys *x)
{
	for (unsigned i = 0; i < TABLES; i++)
		(void) sqlite3_finalize(x->insert[i]);
	(void) sqlite3_finalize(x->add_text);
	(void) sqlite3_finalize(x->find_text);
	memset((void *) x->insert, 0, sizeof(x->insert));
	x->add_text = x->find_text = NULL;
	return sqlite3_close(take_ptr(x->db));
}

static void write_file(struct export *e)
{
	struct nsys *x = e->state;
	char *chunk = malloc(COPY_CHUNK);
	off_t at = 0;
	ssize_t n = 1;

	if (!chunk)
		e->error = -ENOMEM;
	while (e->error == 0 && n > 0) {
		n = pread(x->fd, chunk, COPY_CHUNK, at);
		if (n < 0)
			e->error = -errno;
		if (n > 0)
			(void) buf_add(&e->out, chunk, (size_t) n);
		at += n;
		export_flush(e);
	}
	free(chunk);
}

static void end(struct export *e)
{
	struct nsys *x = e->state;

	put_losses(e, export_trace_rows(e, TRACE_ALL_KINDS, see_row));
	put_enums(e);
	put_session(e);
	put_processes(e);
	execute(e, "DROP INDEX IF EXISTS by_value");
	execute(e, "COMMIT");
	if (close_database(x) != SQLITE_OK && e->error == 0)
		e->error = -EIO;
	write_file(e);
}

static void done(struct export *e)
{
	struct nsys *x = e->state;

	if (!x)
		return;
	(void) close_database(x);
	if (x->fd >= 0)
		(void) close(x->fd);
	trace_tracks_done(&x->tracks);
	map_done(&x->domains);
	free(x->names);
	buf_done(&x->text);
	free(x);
}

const struct export_format export_nsys_sqlite = {
	.name = "nsys-sqlite",
	.trace = EXPORT_TRACE_MUST,
	.default_table = EXPORT_ALL,
	.wanted = export_no_metrics,
	.begin = begin,
	.see = see_frame,
	.end = end,
	.done = done,
};
