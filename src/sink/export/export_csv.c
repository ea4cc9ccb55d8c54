/* SPDX-License-Identifier: MIT
 *
 * One table, quoted as in RFC 4180, lines ended by a line feed alone. An unknown value is empty.
 */
#include <inttypes.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/export/export_internal.h"

/* Columns between the time and the values. */
static const char *const identities[EXPORT_TABLES] = {
	[ENTITY_HOST] = "",
	[ENTITY_JOB] = "",
	[ENTITY_PROCESS] = ",id,pid,name",
	[ENTITY_GPU] = ",id,index,uuid,parent,name",
	[ENTITY_GPU_PROCESS] = ",id,gpu,process,pid,name",
	[EXPORT_SERIES] = ",series,step,value",
	[EXPORT_EVENTS] = ",kind,entity,id,phase,duration_s,text",
};

/* ---- fields ------------------------------------------------------------------------------------------------------------- */

void export_csv_text(struct buf *out, const char *text)
{
	const bool has_blank_edge = *text == ' ' || text_ends(text, " ");
	const bool is_formula = export_is_formula(text);
	const char *quote = is_formula || has_blank_edge || text[strcspn(text, ",\"\t\r\n")] ? "\"" : "";

	(void) buf_printf(out, "%s%s", quote, is_formula ? "'" : "");
	while (*text) {
		if (*text == '"')
			(void) buf_str(out, "\"");
		if (*text != '\n') {
			text = text_clean_next(text, true, out);
			continue;
		}
		(void) buf_str(out, "\n");
		text++;
	}
	(void) buf_str(out, quote);
}

static void put_text(struct buf *out, const char *text)
{
	(void) buf_str(out, ",");
	export_csv_text(out, text);
}

static void put_int(struct buf *out, int64_t value)
{
	(void) buf_printf(out, ",%" PRId64, value);
}

static void put_maybe(struct buf *out, struct maybe value)
{
	if (value.known)
		put_int(out, value.value);
	else
		(void) buf_str(out, ",");
}

static void put_decimal(struct buf *out, int64_t value, unsigned digits)
{
	char text[UNITS_LEN];

	(void) buf_printf(out, ",%s", units_decimal(value, digits, text));
}

static void put_time(struct export *e, uint64_t time_ns)
{
	char elapsed[UNITS_LEN], date[UNITS_LEN] = "";

	if (e->facts->started_wall_ns.known)
		(void) units_rfc3339(export_wall(e, time_ns), date);
	(void) buf_printf(&e->out, "%s,%s", units_decimal((int64_t) time_ns, 9, elapsed), date);
}

/* ---- tables of entities ------------------------------------------------------------------------------------------------- */

static void put_process(struct export *e, const struct birth *b)
{
	put_maybe(&e->out, b ? known(b->process.pid) : UNKNOWN);
	put_text(&e->out, export_process_name(e, b));
}

static void put_gpu(struct export *e, const struct birth *b)
{
	put_maybe(&e->out, b ? b->gpu.index : UNKNOWN);
	put_text(&e->out, b ? b->gpu.uuid : "");
	put_text(&e->out, b ? b->gpu.parent : "");
	put_text(&e->out, b ? b->gpu.name : "");
}

static void put_gpu_process(struct export *e, const struct birth *b)
{
	put_maybe(&e->out, b ? known(b->gpu_process.gpu) : UNKNOWN);
	put_maybe(&e->out, b && b->gpu_process.process ? known(b->gpu_process.process) : UNKNOWN);
	put_maybe(&e->out, b ? b->gpu_process.pid : UNKNOWN);
	put_text(&e->out, b ? export_private(e, b->gpu_process.name) : "");
}

static void put_identity(struct export *e, enum entity entity, uint32_t id)
{
	static void (*const putters[ENTITY_COUNT])(struct export *e, const struct birth *b) = {
		[ENTITY_PROCESS] = put_process,
		[ENTITY_GPU] = put_gpu,
		[ENTITY_GPU_PROCESS] = put_gpu_process,
	};

	if (!putters[entity])
		return;
	put_int(&e->out, id);
	putters[entity](e, names_find(&e->names, entity, id));
}

struct line {
	struct export *e;
	const struct export_row *row;
};

static void put_cell(void *ctx, enum metric metric, enum export_part part)
{
	const struct line *line = ctx;
	const struct reading *r = line->row->cells[metric];

	if (r && r->known)
		put_decimal(&line->e->out, export_value(r, part), export_digits(metrics[metric].unit));
	else
		(void) buf_str(&line->e->out, ",");
}

static void put_row(void *ctx, const struct export_row *row)
{
	struct export *e = ctx;
	struct line line = { e, row };

	if ((int) row->entity != e->table)
		return;
	put_time(e, row->time_ns);
	put_decimal(&e->out, (int64_t) row->span_ns, 9);
	put_int(&e->out, row->n);
	put_identity(e, row->entity, row->id);
	export_columns(row->entity, put_cell, &line);
	(void) buf_str(&e->out, "\n");
}

/* ---- the other tables --------------------------------------------------------------------------------------------------- */

static void put_value(struct export *e, const struct frame *frame, const struct series_value *value)
{
	put_time(e, frame->time_ns);
	put_text(&e->out, value->name);
	put_maybe(&e->out, value->has_step ? known(value->step) : UNKNOWN);
	(void) buf_str(&e->out, ",");
	export_double(&e->out, value->value, "Infinity");
	(void) buf_str(&e->out, "\n");
}

static void put_event(struct export *e, const struct event *event)
{
	put_time(e, event->time_ns);
	put_text(&e->out, event_name(event->kind));
	put_text(&e->out, entity_name(event->entity));
	put_maybe(&e->out, event->id ? known(event->id) : UNKNOWN);
	put_maybe(&e->out, event->phase ? known(event->phase) : UNKNOWN);
	if (event->kind == EVENT_GAP)
		put_decimal(&e->out, event->value_ns, 9);
	else
		(void) buf_str(&e->out, ",");
	put_text(&e->out, export_event_text(e, event));
	(void) buf_str(&e->out, "\n");
}

/* ---- the format --------------------------------------------------------------------------------------------------------- */

static void put_title(void *ctx, enum metric metric, enum export_part part)
{
	struct export *e = ctx;
	char name[COLUMN_LEN];

	(void) buf_printf(&e->out, ",%s", export_column(metric, part, name));
}

static int begin(struct export *e, struct err *err)
{
	const bool has_windows = e->table < ENTITY_COUNT;

	(void) err;
	(void) buf_printf(
		&e->out, "elapsed_s,time%s%s", has_windows ? ",span_s,samples" : "", identities[e->table]);
	if (has_windows)
		export_columns((enum entity) e->table, put_title, e);
	return buf_str(&e->out, "\n");
}

static void see(struct export *e, const struct frame *frame)
{
	if (e->table < ENTITY_COUNT)
		export_rows(frame, put_row, e);
	for (size_t i = 0; e->table == EXPORT_SERIES && i < frame->n_series; i++)
		put_value(e, frame, &frame->series[i]);
	for (size_t i = 0; e->table == EXPORT_EVENTS && i < frame->n_events; i++)
		put_event(e, &frame->events[i]);
}

static void end(struct export *e)
{
	(void) e;
}

const struct export_format export_csv = {
	.name = "csv",
	.tables = (1U << EXPORT_TABLES) - 1,
	.default_table = ENTITY_JOB,
	.begin = begin,
	.see = see,
	.end = end,
};
