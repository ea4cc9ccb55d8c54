/* SPDX-License-Identifier: MIT
 *
 * Rows of the tables of processes, GPUs and processes on GPUs as births; of events.
 */
#include "record/read/replay_internal.h"

const struct birth_table birth_tables[BIRTHS] = {
	{ ENTITY_PROCESS, "process",
		{ "id", "born", "ended", "how", "status", "pid", "ppid", "parent", "uid", "start", "startstack", "name", "command",
			"is_main" } },
	{ ENTITY_GPU, "gpu",
		{ "id", "born", "ended", "uuid", "name", "vendor", "number", "memory", "pci", "parent", "driver", "cuda", "unified",
			"is_module" } },
	{ ENTITY_GPU_PROCESS, "gpu_process",
		{ "id", "born", "ended", "gpu", "process", "pid", "uid", "name", "compute", "graphics" } },
};

static struct maybe maybe_int(sqlite3_stmt *st, int column)
{
	struct maybe value = UNKNOWN;

	value.known = reader_int(st, column, &value.value);
	return value;
}

static struct birth read_process(sqlite3_stmt *st)
{
	struct birth b = { .entity = ENTITY_PROCESS };

	b.process.pid = (int32_t) reader_int_or(st, 5, 0);
	b.process.ppid = (int32_t) reader_int_or(st, 6, 0);
	(void) reader_id(st, 7, &b.process.parent);
	(void) reader_id(st, 8, &b.process.uid);
	(void) reader_time(st, 9, &b.process.start_ns);
	b.process.startstack = (uint64_t) reader_int_or(st, 10, 0);
	b.process.name = reader_text(st, 11);
	b.process.command = reader_text(st, 12);
	b.process.is_main = reader_int_or(st, 13, 0) != 0;
	return b;
}

static struct birth read_gpu(sqlite3_stmt *st)
{
	struct birth b = { .entity = ENTITY_GPU };

	b.gpu.uuid = reader_text(st, 3);
	b.gpu.name = reader_text(st, 4);
	b.gpu.vendor = reader_text(st, 5);
	b.gpu.index = maybe_int(st, 6);
	b.gpu.memory_bytes = maybe_int(st, 7);
	b.gpu.pci = reader_text(st, 8);
	b.gpu.parent = reader_text(st, 9);
	b.gpu.driver = reader_text(st, 10);
	b.gpu.cuda_index = maybe_int(st, 11);
	b.gpu.unified = reader_int_or(st, 12, 0) != 0;
	b.gpu.is_module = reader_int_or(st, 13, 0) != 0;
	return b;
}

static struct birth read_gpu_process(sqlite3_stmt *st)
{
	struct birth b = { .entity = ENTITY_GPU_PROCESS };

	(void) reader_id(st, 3, &b.gpu_process.gpu);
	(void) reader_id(st, 4, &b.gpu_process.process);
	b.gpu_process.pid = maybe_int(st, 5);
	b.gpu_process.uid = maybe_int(st, 6);
	b.gpu_process.name = reader_text(st, 7);
	b.gpu_process.compute = reader_int_or(st, 8, 0) != 0;
	b.gpu_process.graphics = reader_int_or(st, 9, 0) != 0;
	return b;
}

struct birth birth_read(enum entity entity, sqlite3_stmt *st)
{
	static struct birth (*const readers[ENTITY_COUNT])(sqlite3_stmt *st) = {
		[ENTITY_PROCESS] = read_process,
		[ENTITY_GPU] = read_gpu,
		[ENTITY_GPU_PROCESS] = read_gpu_process,
	};
	struct birth b = readers[entity](st);

	(void) reader_id(st, 0, &b.id);
	return b;
}

/* ---- events --------------------------------------------------------------------------------------------------------- */

const char *const event_columns[] = { "t", "kind", "entity", "id", "phase", "value", "text", "cause", "rowid", NULL };

bool event_read(sqlite3_stmt *st, struct event *ret)
{
	const int kind = event_find(reader_text(st, 1)), entity = entity_find(reader_text(st, 2));

	*ret = (struct event) { .value_ns = reader_int_or(st, 5, 0), .text = reader_text(st, 6) };
	if (kind < 0 || entity < 0 || !reader_time(st, 0, &ret->time_ns))
		return false;
	ret->kind = (enum event_kind) kind;
	ret->entity = (enum entity) entity;
	(void) reader_id(st, 3, &ret->id);
	(void) reader_id(st, 4, &ret->phase);
	if (ret->kind == EVENT_NOTE)
		ret->cause = cause_find(reader_text(st, 7));
	return true;
}
