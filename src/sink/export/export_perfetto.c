/* SPDX-License-Identifier: MIT
 *
 * A Perfetto trace: counters of every metric, processes with their lifetimes, phases and gaps as
 * slices, marks and other events as instants. Times are CLOCK_BOOTTIME, related to the wall clock
 * by the first packet.
 *
 * A counter keeps its value until the next one, so unchanged values are written once, and counters
 * of ended entities fall to 0. The counter with the metric's name has the means of windows; once a
 * window has a larger maximum, a second counter has the maxima. Traced work follows
 * (export_perfetto_trace.c).
 */
#include "sink/export/export_perfetto.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/figures.h"

/* ---- parents of tracks ---------------------------------------------------------------------------------------------- */

uint64_t track_run(struct export *e)
{
	const char *name = e->facts->name && *e->facts->name ? e->facts->name
							     : export_private(e, e->facts->command);
	char text[200];

	(void) snprintf(text, sizeof(text), "run %.190s", name);
	return track_named(e, TRACK_RUN, 0, 0, text);
}

static uint64_t gpu_track(struct export *e, uint32_t id)
{
	const struct birth *b = names_find(&e->names, ENTITY_GPU, id);
	char text[200], number[UNITS_LEN];

	(void) snprintf(text, sizeof(text), "%s %s %.150s", b && *b->gpu.parent ? "MIG" : "GPU",
		names_gpu_number(&e->names, b, id, number), b ? b->gpu.name : "");
	return track_named(e, TRACK_GPU, id, 0, text);
}

/* A process on a GPU belongs to the track of the job's process, if it is one. */
static uint64_t gpu_process_track(struct export *e, uint32_t id)
{
	const struct birth *b = names_find(&e->names, ENTITY_GPU_PROCESS, id);
	const struct birth *process = b ? names_find(&e->names, ENTITY_PROCESS, b->gpu_process.process)
					: NULL;

	if (process)
		return track_process(e, process->id, process);
	return gpu_track(e, b ? b->gpu_process.gpu : 0);
}

static uint64_t entity_track(struct export *e, enum entity entity, uint32_t id)
{
	char text[200];

	switch (entity) {
	case ENTITY_HOST:
		(void) snprintf(text, sizeof(text), "machine %.190s", export_private(e, e->facts->host));
		return track_named(e, TRACK_HOST, 0, 0, text);
	case ENTITY_PROCESS:
		return track_process(e, id, names_find(&e->names, ENTITY_PROCESS, id));
	case ENTITY_GPU:
		return gpu_track(e, id);
	case ENTITY_GPU_PROCESS:
		return gpu_process_track(e, id);
	case ENTITY_JOB:
	case ENTITY_COUNT:
		break;
	}
	return track_run(e);
}

/* ---- counters ------------------------------------------------------------------------------------------------------------ */

static void put_reading(
	struct export *e, const struct reading *r, uint64_t time_ns, uint64_t end_ns, uint64_t parent)
{
	const struct perfetto *p = e->state;

	if (metrics[r->metric].kind != KIND_GAUGE) {
		track_count(e, TRACK_COUNTER, r, parent, end_ns, r->value);
		return;
	}
	track_count(e, TRACK_COUNTER, r, parent, time_ns, r->value);
	if (r->max != r->value || track_known(p, track_uuid(p, TRACK_COUNTER_MAX, r->metric, r->id)))
		track_count(e, TRACK_COUNTER_MAX, r, parent, time_ns, r->max);
}

static void put_row(void *ctx, const struct export_row *row)
{
	struct export *e = ctx;
	const uint64_t parent = entity_track(e, row->entity, row->id);

	for (unsigned m = 0; m < METRIC_COUNT; m++) {
		if (row->cells[m] && row->cells[m]->known)
			put_reading(e, row->cells[m], row->time_ns, row->time_ns + row->span_ns, parent);
	}
}

/* NaN and infinities cannot be drawn. */
static void put_value(struct export *e, uint64_t time_ns, const struct series_value *value)
{
	struct perfetto *p = e->state;
	const struct maybe place = export_series(e, value->name);

	if (!place.known || !isfinite(value->value))
		return;
	event_begin(e, TYPE_COUNTER, track_series(e, (uint32_t) place.value, track_run(e), value->name),
		time_ns, NULL);
	proto_double(&p->proto, 44, value->value);
	event_end(e);
}

/* ---- slices and instants --------------------------------------------------------------------------------------------------- */

static void begin_process(struct export *e, uint64_t time_ns, const struct birth *b)
{
	event_begin(e, TYPE_SLICE_BEGIN, track_process(e, b->id, b), time_ns, export_process_name(e, b));
	event_note(e, "command", export_private(e, b->process.command));
	event_number(e, "pid", known(b->process.pid));
	event_number(e, "ppid", known(b->process.ppid));
	event_end(e);
}

static void end_process(struct export *e, uint64_t time_ns, const struct end *end)
{
	event_begin(e, TYPE_SLICE_END, track_uuid(e->state, TRACK_PROCESS, 0, end->id), time_ns, NULL);
	event_note(e, "end_source", how_name(end->how));
	event_number(e, "status", end->status_known ? known(end->status) : UNKNOWN);
	event_end(e);
}

static void put_end(struct export *e, uint64_t time_ns, const struct end *end)
{
	struct perfetto *p = e->state;

	for (unsigned m = 0; m < METRIC_COUNT; m++) {
		if (metrics[m].entity == end->entity)
			track_end(e, m, end->id, time_ns);
	}
	if (end->entity != ENTITY_PROCESS)
		return;
	end_process(e, time_ns, end);
	map_remove(&p->tracks, track_uuid(p, TRACK_PROCESS, 0, end->id));
}

static void put_gap(struct export *e, const struct event *event)
{
	const uint64_t track = track_named(e, TRACK_GAPS, 0, track_run(e), "gaps");
	const uint64_t long_ns = event->value_ns > 0 ? (uint64_t) event->value_ns : 0;

	event_begin(e, TYPE_SLICE_BEGIN, track, event->time_ns > long_ns ? event->time_ns - long_ns : 0,
		"no samples");
	event_end(e);
	event_begin(e, TYPE_SLICE_END, track, event->time_ns, NULL);
	event_end(e);
}

static void put_instant(struct export *e, const struct event *event)
{
	const bool is_mark = event->kind == EVENT_MARK;
	const bool is_process = event->entity == ENTITY_PROCESS &&
				names_find(&e->names, ENTITY_PROCESS, event->id);
	const char *text = export_event_text(e, event);
	uint64_t track;
	char name[300];

	(void) snprintf(name, sizeof(name), "%s%s%s", is_mark ? "" : event_name(event->kind),
		is_mark || !*text ? "" : ": ", text);
	if (is_process)
		track = track_process(e, event->id, names_find(&e->names, ENTITY_PROCESS, event->id));
	else
		track = is_mark ? track_named(e, TRACK_MARKS, 0, track_run(e), "marks")
				: track_named(e, TRACK_EVENTS, 0, track_run(e), "events");
	event_begin(e, TYPE_INSTANT, track, event->time_ns, name);
	event_end(e);
}

static void put_event(struct export *e, const struct event *event)
{
	if (event->kind == EVENT_GAP)
		put_gap(e, event);
	else if (event->kind != EVENT_PHASE_BEGIN && event->kind != EVENT_PHASE_END)
		put_instant(e, event);
}

/* ---- phases ---------------------------------------------------------------------------------------------------------------- */

/* Slices of a track must be nested, but phases of two processes may cross: each phase goes to the
 * first lane in which it is nested in the open slices. All phases are known from the start; an open
 * one has no end. */
enum {
	LANES = 64,
	LANE_DEPTH = 64
};

struct lane {
	unsigned depth;
	const struct phase *open[LANE_DEPTH];
};

static uint64_t end_of(const struct phase *p)
{
	return p->end_ns ? p->end_ns : UINT64_MAX;
}

static uint64_t lane_track(struct export *e, unsigned lane)
{
	return track_named(e, TRACK_PHASES, lane, track_run(e), "phases");
}

static void close_lane(struct export *e, struct lane *lane, unsigned number, uint64_t until_ns)
{
	while (lane->depth > 0 && end_of(lane->open[lane->depth - 1]) <= until_ns) {
		const struct phase *p = lane->open[--lane->depth];

		if (p->end_ns == 0)
			continue;
		event_begin(e, TYPE_SLICE_END, lane_track(e, number), p->end_ns, NULL);
		event_end(e);
	}
}

static void begin_phase(struct export *e, struct lane *lane, unsigned number, const struct phase *p)
{
	struct buf label = BUF_INIT(1 << 16);

	figure_phase(p, false, &label);
	event_begin(e, TYPE_SLICE_BEGIN, lane_track(e, number), p->begin_ns, label.data);
	buf_done(&label);
	event_number(e, "phase", known(p->number));
	event_note(e, "facts", p->facts ? p->facts : "");
	event_number(e, "ram_before", p->ram_known ? known(p->ram_before) : UNKNOWN);
	event_number(e, "ram_peak", p->ram_known ? known(p->ram_peak) : UNKNOWN);
	event_end(e);
	lane->open[lane->depth++] = p;
}

static void put_phase(struct export *e, struct lane *lanes, const struct phase *p)
{
	for (unsigned i = 0; i < LANES; i++) {
		struct lane *lane = &lanes[i];

		close_lane(e, lane, i, p->begin_ns);
		if (lane->depth < LANE_DEPTH &&
			(lane->depth == 0 || end_of(p) <= end_of(lane->open[lane->depth - 1]))) {
			begin_phase(e, lane, i, p);
			return;
		}
	}
}

static void put_phases(struct export *e)
{
	struct lane *lanes = calloc(LANES, sizeof(*lanes));

	for (size_t i = 0; lanes && i < job_phase_count(e->job); i++)
		put_phase(e, lanes, job_phase(e->job, i));
	for (unsigned i = 0; lanes && i < LANES; i++)
		close_lane(e, &lanes[i], i, UINT64_MAX);
	if (!lanes)
		e->error = -ENOMEM;
	free(lanes);
}

/* ---- the format -------------------------------------------------------------------------------------------------------------- */

/* 64 bits of FNV-1a, never 0 where kind is not. */
static uint64_t salt_of(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; text && *text; text++)
		hash = (hash ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
	return hash;
}

static int begin(struct export *e, struct err *err)
{
	struct perfetto *p = calloc(1, sizeof(*p));

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	e->state = p;
	proto_init(&p->proto, &e->out);
	p->salt = salt_of(e->facts->id);
	(void) track_run(e);
	return 0;
}

static void see(struct export *e, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_births; i++) {
		if (frame->births[i].entity == ENTITY_PROCESS)
			begin_process(
				e, export_born(e, &frame->births[i], frame->time_ns), &frame->births[i]);
	}
	export_rows(frame, put_row, e);
	for (size_t i = 0; i < frame->n_series; i++)
		put_value(e, frame->time_ns, &frame->series[i]);
	for (size_t i = 0; i < frame->n_events; i++)
		put_event(e, &frame->events[i]);
	for (size_t i = 0; i < frame->n_ends; i++)
		put_end(e, frame->time_ns, &frame->ends[i]);
}

static void end(struct export *e)
{
	put_phases(e);
	if (e->o.trace)
		put_traced(e);
}

static void done(struct export *e)
{
	struct perfetto *p = e->state;

	if (p) {
		map_done(&p->tracks);
		free(p->counters);
	}
	free(p);
}

const struct export_format export_perfetto = {
	.name = "perfetto",
	.trace = EXPORT_TRACE_MAY,
	.default_table = EXPORT_ALL,
	.begin = begin,
	.see = see,
	.end = end,
	.done = done,
};
