/* SPDX-License-Identifier: MIT
 *
 * Traced work in a Perfetto trace: a track a thread with its ranges, marks and calls, a track a stream
 * below its device with kernels, copies and fills, a counter of the bytes that a process has
 * allocated, and flows from calls to the work that they started.
 *
 * A slice is to take at most 30 bytes, so a track has a packet sequence of its own: the sequence has the
 * track and the clock as defaults, times are steps from the packet before, names are interned (a site's
 * when it first occurs, for a site is of one track). A packet is then about 12 bytes. Flow ids are
 * written in the field for varints, which is older than the one of eight bytes and has its meaning.
 *
 * Steps cannot be negative: the ends of open slices are written in the order of time before the next
 * beginning (export_trace.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/export/export_perfetto.h"
#include "sink/export/export_trace.h"

/* Fields of TrackEvent, InternedData and DebugAnnotation. */
enum {
	FIELD_CATEGORY_IID = 3,
	FIELD_NOTE = 4,
	FIELD_TYPE = 9,
	FIELD_NAME_IID = 10,
	FIELD_TRACK = 11,
	FIELD_COUNTER = 30,
	FIELD_FLOW = 47,
	INTERNED_CATEGORY = 1,
	INTERNED_NAME = 2,
	INTERNED_NOTE = 3,
	NOTE_NAME_IID = 1,
	NOTE_UINT = 3,
	BYTES_IID = 1,
};

struct traced {
	struct export *e;
	struct trace_tracks tracks;
	struct buf text;
};

static struct proto *proto_of(struct export *e)
{
	return &((struct perfetto *) e->state)->proto;
}

/* ---- descriptions of tracks ------------------------------------------------------------------------- */

/* The job's process that it is; NULL: none. */
static const struct process *in_job(const struct export *e, const struct trace_process *p)
{
	for (size_t i = 0; p->pid >= 0 && p->start_ns > 0 && i < job_process_count(e->job); i++) {
		const struct process *process = job_process(e->job, i);

		if (process->pid == p->pid && process->start_ns == p->start_ns)
			return process;
	}
	return NULL;
}

static uint64_t described_process(struct export *e, uint32_t number, const struct trace_process *p)
{
	const uint64_t uuid = track_uuid(e->state, TRACK_TRACED_PROCESS, 0, number);
	struct proto *out = proto_of(e);
	char text[200];

	(void) snprintf(text, sizeof(text), "process %" PRIu32 " %.150s", number, export_private(e, p->name));
	if (!track_describe(e, uuid, 0, p->pid < 0 ? text : NULL))
		return uuid;
	if (p->pid >= 0) {
		proto_begin(out, 3);
		proto_int(out, 1, p->pid);
		proto_text(out, 6, export_private(e, p->name));
		proto_end(out);
	}
	track_described(e);
	return uuid;
}

/* The track of a process that the job has, else one of its own. */
static uint64_t find_process(struct export *e, uint32_t number)
{
	const struct trace_process *p = trace_read_process(e->o.trace, number);
	const struct process *process = p ? in_job(e, p) : NULL;

	if (!p)
		return track_run(e);
	if (process) {
		const struct birth birth = {
			.entity = ENTITY_PROCESS,
			.id = process->id,
			.process = { .pid = process->pid,
				.start_ns = process->start_ns,
				.name = process->name,
				.command = process->command ? process->command : "" },
		};

		return track_process(e, process->id, &birth);
	}
	return described_process(e, number, p);
}

static uint64_t process_track(struct export *e, uint32_t number)
{
	const struct trace_track like = {
		.class = CLASS_PROCESS, .process = number, .tid = -1, .device = -1
	};
	struct traced *t = ((struct perfetto *) e->state)->traced;
	const size_t i = trace_track_find(&t->tracks, &like);

	if (i == SIZE_MAX) {
		e->error = -ENOMEM;
		return 0;
	}
	if (!t->tracks.tracks[i].begun)
		t->tracks.tracks[i].uuid = find_process(e, number);
	t->tracks.tracks[i].begun = true;
	return t->tracks.tracks[i].uuid;
}

/* The track is a copy: to describe its process may add a track. */
static void describe_thread(struct export *e, struct trace_track track)
{
	const struct trace_process *p = trace_read_process(e->o.trace, track.process);
	const char *name = export_trace_thread(e, track.process, track.tid);
	const bool is_of_system = p && p->pid >= 0 && track.tid >= 0;
	const uint64_t parent = process_track(e, track.process);
	struct proto *out = proto_of(e);
	char text[200] = "ranges";

	if (track.tid >= 0)
		(void) snprintf(text, sizeof(text), "thread %" PRId64 "%s%.150s", track.tid, *name ? " " : "",
			name);
	if (!track_describe(e, track.uuid, parent, is_of_system ? NULL : text))
		return;
	if (is_of_system) {
		proto_begin(out, 4);
		proto_int(out, 1, p->pid);
		proto_int(out, 2, track.tid);
		proto_text(out, 5, name);
		proto_end(out);
	}
	track_described(e);
}

/* The group of a device's streams. */
static uint64_t device_track(struct traced *t, uint32_t process, const struct trace_site *site)
{
	const struct trace_track like = {
		.class = CLASS_DEVICE, .process = process, .tid = -1, .device = site->device
	};
	const size_t i = trace_track_find(&t->tracks, &like);
	uint64_t uuid;
	char text[200];

	if (i == SIZE_MAX) {
		t->e->error = -ENOMEM;
		return 0;
	}
	if (site->device < 0)
		(void) snprintf(text, sizeof(text), "device");
	else
		(void) snprintf(text, sizeof(text), "device %" PRId64 "%s%.150s", site->device,
			*site->device_name ? " " : "", site->device_name);
	uuid = track_uuid(t->e->state, TRACK_TRACED, 0, (uint32_t) i);
	if (track_describe(t->e, uuid, process_track(t->e, process), text))
		track_described(t->e);
	return uuid;
}

static void describe_stream(struct traced *t, size_t i, const struct trace_site *site)
{
	const uint64_t parent = device_track(t, site->process, site);
	struct trace_track *track = &t->tracks.tracks[i];
	char text[100];

	if (site->context)
		(void) snprintf(text, sizeof(text), "stream %" PRIu64 " (context %" PRIu64 ")", site->stream,
			site->context);
	else
		(void) snprintf(text, sizeof(text), "stream %" PRIu64, site->stream);
	if (track_describe(t->e, track->uuid, parent, text))
		track_described(t->e);
}

static void describe_memory(struct traced *t, size_t i, const struct trace_site *site)
{
	const uint64_t parent = device_track(t, site->process, site);
	const char *memory = trace_memory_name(site->target);
	struct proto *out = proto_of(t->e);
	char text[100];

	(void) snprintf(text, sizeof(text), "allocated%s%s", *memory ? " " : "", memory);
	if (!track_describe(t->e, t->tracks.tracks[i].uuid, parent, text))
		return;
	proto_begin(out, 8);
	proto_uint(out, 3, 3); /* bytes */
	proto_end(out);
	track_described(t->e);
}

/* The first packet of a track's sequence. All clocks of steps begin with the run: Perfetto wants the
 * snapshots of a clock in the order of time. */
static void begin_sequence(struct export *e, const struct trace_track *track, size_t i)
{
	struct proto *out = proto_of(e);

	proto_begin(out, TRACE_PACKET);
	proto_uint(out, PACKET_SEQUENCE, SEQUENCE_TRACED + i);
	proto_uint(out, PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
	proto_uint(out, PACKET_IS_FIRST, 1);
	proto_begin(out, PACKET_CLOCK_SNAPSHOT);
	put_clock(out, CLOCK_BOOT, boot_time(e, 0), false);
	put_clock(out, CLOCK_STEPS, boot_time(e, 0), true);
	proto_end(out);
	proto_begin(out, PACKET_DEFAULTS);
	proto_begin(out, FIELD_TRACK); /* the defaults of track events */
	proto_uint(out, FIELD_TRACK, track->uuid);
	proto_end(out);
	proto_uint(out, PACKET_CLOCK, CLOCK_STEPS);
	proto_end(out);
	proto_end(out);
}

static void begin_track(struct traced *t, size_t i, const struct trace_site *site)
{
	const enum track_class class = t->tracks.tracks[i].class;

	t->tracks.tracks[i].uuid = track_uuid(t->e->state, TRACK_TRACED, 0, (uint32_t) i);
	t->tracks.tracks[i].begun = true;
	if (class == CLASS_THREAD)
		describe_thread(t->e, t->tracks.tracks[i]);
	else if (class == CLASS_STREAM)
		describe_stream(t, i, site);
	else
		describe_memory(t, i, site);
	begin_sequence(t->e, &t->tracks.tracks[i], i);
}

static uint64_t lane_track(struct traced *t, const struct trace_track *track, unsigned lane)
{
	const uint32_t i = (uint32_t) (track - t->tracks.tracks);
	const uint64_t uuid = track_uuid(t->e->state, TRACK_TRACED_LANE, lane, i);

	if (track_describe(t->e, uuid, track->uuid, track->class == CLASS_THREAD ? "crossing" : "overlapping"))
		track_described(t->e);
	return uuid;
}

/* ---- events ------------------------------------------------------------------------------------------- */

static void intern(struct proto *out, unsigned field, uint32_t iid, const char *text)
{
	proto_begin(out, field);
	proto_uint(out, 1, iid);
	proto_text(out, 2, text);
	proto_end(out);
}

/* The first event of a site names it, and its domain as category. */
static void intern_site(struct traced *t, struct trace_track *track, struct trace_place *place,
	const struct trace_site *site)
{
	struct proto *out = proto_of(t->e);

	place->number = ++track->n_names;
	proto_begin(out, PACKET_INTERNED);
	intern(out, INTERNED_NAME, place->number, export_trace_name(place, site, &t->text));
	if (*site->domain)
		intern(out, INTERNED_CATEGORY, place->number, site->domain);
	if (site->kind == TRACE_COPY || site->kind == TRACE_FILL) {
		if (!track->names_bytes)
			intern(out, INTERNED_NOTE, BYTES_IID, "bytes");
		track->names_bytes = true;
	}
	proto_end(out);
}

/* Begins a packet of the track's sequence. */
static void step_to(struct traced *t, struct trace_track *track, uint64_t time_ns)
{
	struct proto *out = proto_of(t->e);

	proto_begin(out, TRACE_PACKET);
	proto_uint(out, PACKET_TIMESTAMP, time_ns - track->last_ns);
	proto_uint(out, PACKET_SEQUENCE, SEQUENCE_TRACED + (uint64_t) (track - t->tracks.tracks));
	track->last_ns = time_ns;
}

static void end_step(struct export *e)
{
	proto_end(proto_of(e));
	proto_end(proto_of(e));
	export_flush(e);
}

static void end_slice(void *ctx, struct trace_track *track, unsigned lane, uint64_t end_ns)
{
	struct traced *t = ctx;
	struct proto *out = proto_of(t->e);

	step_to(t, track, end_ns);
	proto_begin(out, PACKET_TRACK_EVENT);
	proto_uint(out, FIELD_TYPE, TYPE_SLICE_END);
	if (lane > 0)
		proto_uint(out, FIELD_TRACK, lane_track(t, track, lane));
	end_step(t->e);
}

static void put_notes(struct traced *t, const struct trace_event *event, bool is_cut)
{
	struct proto *out = proto_of(t->e);

	if (event->kind == TRACE_COPY || event->kind == TRACE_FILL) {
		proto_begin(out, FIELD_NOTE);
		proto_uint(out, NOTE_NAME_IID, BYTES_IID);
		proto_uint(out, NOTE_UINT, event->bytes);
		proto_end(out);
	}
	buf_clear(&t->text);
	export_trace_flags(&t->text, event->flags);
	event_note(t->e, "flags", t->text.data);
	if (is_cut)
		event_number(t->e, "duration_ns", known((int64_t) (event->end_ns - event->start_ns)));
}

/* Where too much is open at once, a slice becomes an instant that states its duration. */
static void begin_slice(struct traced *t, struct trace_track *track, struct trace_place *place,
	const struct trace_event *event, const struct trace_site *site)
{
	const bool is_mark = event->kind == TRACE_MARK;
	struct proto *out = proto_of(t->e);
	const int lane = is_mark ? 0 : trace_lanes_open(track, event->end_ns);
	const uint64_t uuid = lane > 0 ? lane_track(t, track, (unsigned) lane) : 0;

	step_to(t, track, event->start_ns);
	if (place->number == 0)
		intern_site(t, track, place, site);
	proto_begin(out, PACKET_TRACK_EVENT);
	proto_uint(out, FIELD_TYPE, is_mark || lane < 0 ? TYPE_INSTANT : TYPE_SLICE_BEGIN);
	proto_uint(out, FIELD_NAME_IID, place->number);
	if (*site->domain)
		proto_uint(out, FIELD_CATEGORY_IID, place->number);
	if (lane > 0)
		proto_uint(out, FIELD_TRACK, uuid);
	if (event->correlation > 0)
		proto_fixed(out, FIELD_FLOW, export_trace_flow(t->e, event, site->process));
	put_notes(t, event, lane < 0);
	end_step(t->e);
}

static void put_allocated(struct traced *t, struct trace_track *track, const struct trace_event *event)
{
	const uint64_t sum = (uint64_t) track->sum;
	struct proto *out = proto_of(t->e);

	track->sum = (int64_t) (event->kind == TRACE_FREE ? sum - event->bytes : sum + event->bytes);
	step_to(t, track, event->start_ns);
	proto_begin(out, PACKET_TRACK_EVENT);
	proto_uint(out, FIELD_TYPE, TYPE_COUNTER);
	proto_int(out, FIELD_COUNTER, track->sum);
	end_step(t->e);
}

static void see(struct export *e, const struct trace_event *event, const struct trace_site *site)
{
	struct traced *t = ((struct perfetto *) e->state)->traced;
	struct trace_place *place = trace_place_of(&t->tracks, event->site, site);
	struct trace_track *track;

	if (!place) {
		e->error = -ENOMEM;
		return;
	}
	if (!t->tracks.tracks[place->track].begun)
		begin_track(t, place->track, site);
	track = &t->tracks.tracks[place->track];
	trace_lanes_close(track, event->start_ns, end_slice, t);
	if (track->class == CLASS_MEMORY)
		put_allocated(t, track, event);
	else
		begin_slice(t, track, place, event, site);
}

/* ---- all of it ------------------------------------------------------------------------------------------- */

static void put_missing(struct export *e, const char *text)
{
	event_begin(e, TYPE_INSTANT, track_named(e, TRACK_EVENTS, 0, track_run(e), "events"), e->now_ns, text);
	event_end(e);
}

static void put_losses(struct export *e, uint64_t invalid)
{
	char text[100];

	if (invalid > 0) {
		(void) snprintf(text, sizeof(text), "trace: %" PRIu64 " events without valid times are left out",
			invalid);
		put_missing(e, text);
	}
	for (size_t i = 0; i < trace_read_lost_count(e->o.trace); i++) {
		const struct trace_lost *lost = trace_read_lost(e->o.trace, i);

		(void) snprintf(text, sizeof(text), "trace: %" PRIu64 " events are missing: %s", lost->n,
			trace_loss_name(lost->cause));
		put_missing(e, text);
	}
}

void put_traced(struct export *e)
{
	struct traced t = { .e = e, .text = BUF_INIT(1 << 20) };
	uint64_t invalid;

	((struct perfetto *) e->state)->traced = &t;
	invalid = export_trace_rows(e, TRACE_ALL_KINDS, see);
	for (size_t i = 0; e->error == 0 && i < t.tracks.n; i++)
		trace_lanes_close(&t.tracks.tracks[i], UINT64_MAX, end_slice, &t);
	put_losses(e, invalid);
	trace_tracks_done(&t.tracks);
	buf_done(&t.text);
}
