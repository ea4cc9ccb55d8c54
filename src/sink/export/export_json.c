/* SPDX-License-Identifier: MIT
 *
 * JSON lines: an object a line, with its "kind": the run first, then births, samples, ends, events
 * and values of series in the order of time. A value that could not be read is null; one that was
 * not read is left out.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/json.h"
#include "sink/export/export_internal.h"

static void begin_line(struct export *e, struct json *j, const char *kind)
{
	json_init(j, &e->out, true);
	json_object(j);
	json_key_text(j, "kind", kind);
}

static void end_line(struct export *e, struct json *j)
{
	json_end(j);
	(void) buf_str(&e->out, "\n");
}

static void put_time(struct export *e, struct json *j, uint64_t time_ns)
{
	char date[UNITS_LEN];

	json_key_seconds(j, "elapsed_s", known((int64_t) time_ns));
	json_key_text(j, "time",
		e->facts->started_wall_ns.known ? units_rfc3339(export_wall(e, time_ns), date) : NULL);
}

/* ---- entities ---------------------------------------------------------------------------------------------------------------- */

static void put_process(struct export *e, struct json *j, const struct birth *b)
{
	json_key_maybe(j, "pid", b ? known(b->process.pid) : UNKNOWN);
	json_key_text(j, "name", export_process_name(e, b));
}

static void put_gpu(struct export *e, struct json *j, const struct birth *b)
{
	(void) e;
	json_key_maybe(j, "index", b ? b->gpu.index : UNKNOWN);
	json_key_text(j, "uuid", b ? b->gpu.uuid : NULL);
	json_key_text(j, "parent", b && *b->gpu.parent ? b->gpu.parent : NULL);
	json_key_text(j, "name", b ? b->gpu.name : NULL);
}

static void put_gpu_process(struct export *e, struct json *j, const struct birth *b)
{
	json_key_maybe(j, "gpu", b ? known(b->gpu_process.gpu) : UNKNOWN);
	json_key_maybe(j, "process", b && b->gpu_process.process ? known(b->gpu_process.process) : UNKNOWN);
	json_key_maybe(j, "pid", b ? b->gpu_process.pid : UNKNOWN);
	json_key_text(j, "name", b ? export_private(e, b->gpu_process.name) : NULL);
}

static void put_identity(
	struct export *e, struct json *j, enum entity entity, uint32_t id, const struct birth *b)
{
	static void (*const putters[ENTITY_COUNT])(
		struct export *e, struct json *j, const struct birth *b) = {
		[ENTITY_PROCESS] = put_process,
		[ENTITY_GPU] = put_gpu,
		[ENTITY_GPU_PROCESS] = put_gpu_process,
	};

	json_key_text(j, "entity", entity_name(entity));
	if (!putters[entity])
		return;
	json_key_maybe(j, "id", known(id));
	putters[entity](e, j, b);
}

/* Facts of the birth alone. */
static void put_origin(struct export *e, struct json *j, const struct birth *b)
{
	if (b->entity == ENTITY_PROCESS) {
		json_key_maybe(j, "parent", b->process.parent ? known(b->process.parent) : UNKNOWN);
		json_key_maybe(j, "ppid", known(b->process.ppid));
		json_key_text(j, "command", export_private(e, b->process.command));
		json_key(j, "is_main");
		json_bool(j, b->process.is_main);
	} else if (b->entity == ENTITY_GPU) {
		json_key_text(j, "vendor", b->gpu.vendor);
		json_key_text(j, "driver", b->gpu.driver);
		json_key_text(j, "pci", b->gpu.pci);
		json_key_maybe(j, "memory_bytes", b->gpu.memory_bytes);
	}
}

static void put_birth(struct export *e, uint64_t time_ns, const struct birth *b)
{
	struct json j;

	begin_line(e, &j, "birth");
	put_time(e, &j, export_born(e, b, time_ns));
	put_identity(e, &j, b->entity, b->id, b);
	put_origin(e, &j, b);
	end_line(e, &j);
}

static void put_end(struct export *e, uint64_t time_ns, const struct end *end)
{
	struct json j;

	begin_line(e, &j, "end");
	put_time(e, &j, time_ns);
	put_identity(e, &j, end->entity, end->id, names_find(&e->names, end->entity, end->id));
	if (end->entity == ENTITY_PROCESS) {
		json_key_text(&j, "end_source", how_name(end->how));
		json_key_maybe(&j, "status", end->status_known ? known(end->status) : UNKNOWN);
	}
	end_line(e, &j);
}

/* ---- samples ------------------------------------------------------------------------------------------------------ */

struct line {
	struct json json;
	const struct export_row *row;
};

static void put_cell(void *ctx, enum metric metric, enum export_part part)
{
	struct line *line = ctx;
	const struct reading *r = line->row->cells[metric];
	char name[COLUMN_LEN];

	if (!r)
		return;
	json_key(&line->json, export_column(metric, part, name));
	if (r->known)
		json_decimal(&line->json, export_value(r, part), export_digits(metrics[metric].unit));
	else
		json_null(&line->json);
}

static void put_row(void *ctx, const struct export_row *row)
{
	struct export *e = ctx;
	struct line line = { .row = row };

	if (!export_wants(e, (int) row->entity))
		return;
	begin_line(e, &line.json, "sample");
	put_time(e, &line.json, row->time_ns);
	json_key_seconds(&line.json, "span_s", known((int64_t) row->span_ns));
	json_key_maybe(&line.json, "samples", known(row->n));
	put_identity(e, &line.json, row->entity, row->id, names_find(&e->names, row->entity, row->id));
	export_columns(row->entity, put_cell, &line);
	end_line(e, &line.json);
}

static void put_value(struct export *e, uint64_t time_ns, const struct series_value *value)
{
	struct json j;

	begin_line(e, &j, "series");
	put_time(e, &j, time_ns);
	json_key_text(&j, "series", value->name);
	json_key_maybe(&j, "step", value->has_step ? known(value->step) : UNKNOWN);
	json_key(&j, "value");
	json_num(&j, value->value);
	end_line(e, &j);
}

static void put_event(struct export *e, const struct event *event)
{
	struct json j;

	begin_line(e, &j, "event");
	put_time(e, &j, event->time_ns);
	json_key_text(&j, "event", event_name(event->kind));
	json_key_text(&j, "entity", entity_name(event->entity));
	json_key_maybe(&j, "id", event->id ? known(event->id) : UNKNOWN);
	json_key_maybe(&j, "phase", event->phase ? known(event->phase) : UNKNOWN);
	json_key_seconds(&j, "duration_s", event->kind == EVENT_GAP ? known(event->value_ns) : UNKNOWN);
	json_key_text(&j, "text", export_event_text(e, event));
	end_line(e, &j);
}

/* ---- the format --------------------------------------------------------------------------------------------------------- */

static int begin(struct export *e, struct err *err)
{
	const struct facts *f = e->facts;
	struct json j;

	(void) err;
	begin_line(e, &j, "run");
	json_key(&j, "schema");
	json_int(&j, 2);
	json_key_text(&j, "hiwater", f->version);
	json_key_text(&j, "id", f->id);
	json_key_text(&j, "name", f->name);
	json_key_text(&j, "command", export_private(e, f->command));
	json_key_text(&j, "host", export_private(e, f->host));
	json_key_text(&j, "user", export_private(e, f->user));
	put_time(e, &j, 0);
	json_key(&j, "complete");
	json_bool(&j, f->ended_ns.known);
	json_key_seconds(&j, "wall_s", f->ended_ns);
	json_key_seconds(&j, "interval_s", f->interval_ns);
	json_key_seconds(&j, "window_s", f->window_ns);
	end_line(e, &j);
	return e->out.error;
}

static void see(struct export *e, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_births; i++) {
		if (export_wants(e, (int) frame->births[i].entity))
			put_birth(e, frame->time_ns, &frame->births[i]);
	}
	export_rows(frame, put_row, e);
	for (size_t i = 0; export_wants(e, EXPORT_EVENTS) && i < frame->n_events; i++)
		put_event(e, &frame->events[i]);
	for (size_t i = 0; export_wants(e, EXPORT_SERIES) && i < frame->n_series; i++)
		put_value(e, frame->time_ns, &frame->series[i]);
	for (size_t i = 0; i < frame->n_ends; i++) {
		if (export_wants(e, (int) frame->ends[i].entity))
			put_end(e, frame->time_ns, &frame->ends[i]);
	}
}

static void end(struct export *e)
{
	(void) e;
}

const struct export_format export_json = {
	.name = "json",
	.tables = (1U << EXPORT_TABLES) - 1,
	.default_table = EXPORT_ALL,
	.begin = begin,
	.see = see,
	.end = end,
};
