/* SPDX-License-Identifier: MIT
 *
 * Traced work as a Chrome trace in the shape of torch.profiler (Kineto): its categories, its names of
 * arguments, and its fields of the document, so that tools for those files read it. Times are
 * microseconds with nanoseconds as decimals, since baseTimeNanoseconds, which is the wall clock at
 * the run's start.
 *
 * As in Kineto's files a device is a process whose pid is its number, and a stream is a thread of it. A
 * second process with work on devices has numbers that no pid can be. A slice that is not nested in
 * its thread goes to a thread of its own below it, with a number that no tid can be.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "sink/export/export_trace.h"

enum {
	PIDS_END = 1 << 22,      /* Linux has smaller pids and tids */
	DEVICES_MOST = 1 << 12,
	NUMBERS = 1 << 25,       /* of threads without a usable number: this plus the track's */
	LANE_NUMBERS = 1 << 28,  /* of further lanes: this plus the track's times LANES_MOST, plus the lane's */
	TEXT_MOST = 1 << 20,
	DEVICE_TYPE_HOST = 0,    /* of Kineto's "Device Type" */
	DEVICE_TYPE_GPU = 1,
};

struct chrome {
	struct trace_tracks tracks;
	struct json json;        /* of the event that is being written */
	struct buf text;
	bool begun;              /* an event is written: a comma precedes the next one */
	uint32_t first_with_work;/* the process whose devices have their own numbers as pid; 0: none yet */
};

/* ---- events ---------------------------------------------------------------------------------------- */

static struct json *event_begin(struct export *e, const char *phase, const char *name)
{
	struct chrome *c = e->state;

	(void) buf_str(&e->out, c->begun ? ",\n" : "\n");
	c->begun = true;
	json_init(&c->json, &e->out, true);
	json_object(&c->json);
	json_key_str(&c->json, "ph", phase);
	json_key_str(&c->json, "name", name);
	return &c->json;
}

static void event_end(struct export *e)
{
	json_end(&((struct chrome *) e->state)->json);
	export_flush(e);
}

/* Microseconds of nanoseconds. */
static void put_time(struct json *j, const char *key, uint64_t ns)
{
	json_key(j, key);
	json_decimal(j, (int64_t) ns, 3);
}

static void put_where(struct json *j, int64_t pid, int64_t tid)
{
	json_key_int(j, "pid", pid);
	json_key_int(j, "tid", tid);
}

/* A metadata event: the name of a process or thread. */
static void put_meta(
	struct export *e, const char *name, int64_t pid, int64_t tid, const char *key, const char *text)
{
	struct json *j = event_begin(e, "M", name);

	json_key_int(j, "ts", 0);
	put_where(j, pid, tid);
	json_key_object(j, "args");
	json_key_str(j, key, text);
	json_end(j);
	event_end(e);
}

/* ---- tracks ------------------------------------------------------------------------------------------ */

static int64_t device_pid(struct export *e, uint32_t process, int64_t device)
{
	struct chrome *c = e->state;
	const int64_t number = device >= 0 && device < DEVICES_MOST - 1 ? device : DEVICES_MOST - 1;

	if (c->first_with_work == 0)
		c->first_with_work = process;
	return process == c->first_with_work ? number : PIDS_END + (int64_t) process * DEVICES_MOST + number;
}

/* The first track of a process or device names it. */
static void name_process(struct export *e, const struct trace_track *track, const struct trace_site *site)
{
	struct chrome *c = e->state;
	struct trace_track like = {
		.class = CLASS_DEVICE, .process = track->process, .tid = -1, .device = track->device
	};
	size_t i;
	char text[200];

	if (track->class == CLASS_THREAD)
		like.device = -2; /* its host side */
	i = trace_track_find(&c->tracks, &like);
	if (i == SIZE_MAX) {
		e->error = -ENOMEM;
		return;
	}
	if (c->tracks.tracks[i].begun)
		return;
	c->tracks.tracks[i].begun = true;
	put_meta(e, "process_name", track->pid, 0, "name", export_trace_process(e, track->process));
	if (track->class == CLASS_THREAD)
		(void) snprintf(text, sizeof(text), "CPU");
	else if (track->device < 0)
		(void) snprintf(text, sizeof(text), "device");
	else
		(void) snprintf(text, sizeof(text), "GPU %" PRId64 "%s%.150s", track->device,
			*site->device_name ? " " : "", site->device_name);
	put_meta(e, "process_labels", track->pid, 0, "labels", text);
}

static void name_thread(struct export *e, const struct trace_track *track)
{
	const char *name = export_trace_thread(e, track->process, track->tid);
	char text[300];

	if (track->class == CLASS_STREAM && track->context)
		(void) snprintf(text, sizeof(text), "stream %" PRIu64 " (context %" PRIu64 ")", track->stream,
			track->context);
	else if (track->class == CLASS_STREAM)
		(void) snprintf(text, sizeof(text), "stream %" PRIu64, track->stream);
	else
		(void) snprintf(text, sizeof(text), "thread %" PRId64 "%s%.200s%s", track->tid,
			*name ? " (" : "", name, *name ? ")" : "");
	put_meta(e, "thread_name", track->pid, track->tid_shown, "name", text);
}

/* Is it the first track of that stream of its device? Streams of another context may have its number. */
static bool is_first_stream(struct export *e, const struct trace_track *track)
{
	const struct trace_track like = {
		.class = CLASS_NUMBER,
		.process = track->process,
		.tid = -1,
		.device = track->device,
		.stream = track->stream,
	};
	struct chrome *c = e->state;
	const size_t i = trace_track_find(&c->tracks, &like);
	bool is_first;

	if (i == SIZE_MAX) {
		e->error = -ENOMEM;
		return false;
	}
	is_first = !c->tracks.tracks[i].begun;
	c->tracks.tracks[i].begun = true;
	return is_first && track->stream < PIDS_END;
}

static void begin_track(struct export *e, size_t i, const struct trace_site *site)
{
	struct chrome *c = e->state;
	struct trace_track track = c->tracks.tracks[i];

	track.begun = true;
	if (track.class == CLASS_STREAM) {
		track.pid = device_pid(e, track.process, track.device);
		track.tid_shown = is_first_stream(e, &track) ? (int64_t) track.stream
							     : NUMBERS + (int64_t) i;
	} else {
		track.pid = export_trace_pid(e, track.process);
		track.tid_shown = track.class == CLASS_MEMORY ? 0
				  : track.tid >= 0            ? track.tid
							      : NUMBERS + (int64_t) i;
	}
	c->tracks.tracks[i] = track;
	if (track.class == CLASS_MEMORY)
		return;
	name_process(e, &track, site);
	name_thread(e, &track);
}

static int64_t lane_tid(struct export *e, struct trace_track *track, unsigned lane)
{
	struct chrome *c = e->state;
	int64_t tid;

	if (lane == 0)
		return track->tid_shown;
	tid = LANE_NUMBERS + (track - c->tracks.tracks) * LANES_MOST + lane;
	if (lane >= track->n_named) {
		char text[100];

		track->n_named = lane + 1;
		(void) snprintf(text, sizeof(text),
			track->class == CLASS_THREAD ? "thread %" PRId64 " (crossing)"
						     : "stream %" PRId64 " (overlapping)",
			track->tid_shown);
		put_meta(e, "thread_name", track->pid, tid, "name", text);
	}
	return tid;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static const char *category(const struct trace_read *t, const struct trace_site *site)
{
	const struct trace_process *p = trace_read_process(t, site->process);

	switch (site->kind) {
	case TRACE_KERNEL:
		return "kernel";
	case TRACE_COPY:
		return "gpu_memcpy";
	case TRACE_FILL:
		return "gpu_memset";
	case TRACE_LAUNCH:
		return export_trace_is_driver(site->name) ? "cuda_driver" : "cuda_runtime";
	case TRACE_RANGE:
	case TRACE_MARK:
	case TRACE_ALLOC:
	case TRACE_FREE:
	case TRACE_KIND_COUNT:
		break;
	}
	/* of an imported Chrome trace the domain is the category that it had */
	if (*site->domain && p && (strcmp(p->origin, "kineto") == 0 || strcmp(p->origin, "chrome") == 0))
		return site->domain;
	return "user_annotation";
}

static void put_three(struct json *j, const char *key, const uint32_t three[3])
{
	json_key_array(j, key);
	for (unsigned i = 0; i < 3; i++)
		json_int(j, three[i]);
	json_end(j);
}

static void put_work(struct export *e, struct json *j, const struct trace_event *event,
	const struct trace_site *site)
{
	if (site->device >= 0)
		json_key_int(j, "device", site->device);
	json_key_int(j, "context", (int64_t) site->context);
	json_key_int(j, "stream", (int64_t) site->stream);
	if (site->kind != TRACE_KERNEL) {
		json_key_int(j, "bytes", (int64_t) event->bytes);
		return;
	}
	/* of this one time Kineto's files have the wall clock's nanoseconds */
	json_key_int(j, "queued", event->queued_ns ? (int64_t) export_wall(e, event->queued_ns) : 0);
	json_key_int(j, "registers per thread", site->registers);
	json_key_int(j, "shared memory", (int64_t) site->shared_static + site->shared_dynamic);
	put_three(j, "grid", site->grid);
	put_three(j, "block", site->block);
}

/* The process of device work where several processes have such work, and the thread of a crossing range. */
static void put_owner(struct export *e, struct json *j, const struct trace_track *track, bool is_moved)
{
	if (track->class == CLASS_STREAM && track->process != ((struct chrome *) e->state)->first_with_work)
		json_key_int(j, "process", export_trace_pid(e, track->process));
	if (track->class == CLASS_THREAD && is_moved && track->tid >= 0)
		json_key_int(j, "thread", track->tid);
}

static void put_args(struct export *e, struct json *j, const struct trace_event *event,
	const struct trace_site *site, const struct trace_track *track, bool is_moved)
{
	struct chrome *c = e->state;

	json_key_object(j, "args");
	if (event->correlation > 0) {
		json_key_int(j, "External id", (int64_t) event->correlation);
		json_key_int(j, "correlation", (int64_t) event->correlation);
	}
	if (track->class == CLASS_STREAM)
		put_work(e, j, event, site);
	else if (*site->domain && strcmp(category(e->o.trace, site), site->domain) != 0)
		json_key_str(j, "domain", site->domain);
	put_owner(e, j, track, is_moved);
	buf_clear(&c->text);
	export_trace_flags(&c->text, event->flags);
	if (c->text.len > 0)
		json_key_str(j, "flags", c->text.data);
	json_end(j);
}

/* The arrow from a call to the work that it started, as in Kineto's files. */
static void put_flow(struct export *e, const struct trace_event *event, uint32_t process,
	const struct trace_track *track, int64_t tid)
{
	const bool is_call = event->kind == TRACE_LAUNCH;
	struct json *j;

	if (event->correlation == 0 || (!is_call && track->class != CLASS_STREAM))
		return;
	j = event_begin(e, is_call ? "s" : "f", "ac2g");
	json_key_int(j, "id", (int64_t) export_trace_flow(e, event, process));
	put_where(j, track->pid, tid);
	put_time(j, "ts", event->start_ns);
	json_key_str(j, "cat", "ac2g");
	if (!is_call)
		json_key_str(j, "bp", "e");
	event_end(e);
}

/* Where too much is open at once, a slice becomes an instant that states its duration. */
static void put_slice(struct export *e, struct trace_track *track, struct trace_place *place,
	const struct trace_event *event, const struct trace_site *site)
{
	struct chrome *c = e->state;
	const int lane = event->kind == TRACE_MARK ? 0 : trace_lanes_open(track, event->end_ns);
	const int64_t tid = lane_tid(e, track, lane < 0 ? 0 : (unsigned) lane);
	const bool is_instant = event->kind == TRACE_MARK || lane < 0;
	struct json *j = event_begin(e, is_instant ? "i" : "X", export_trace_name(place, site, &c->text));

	json_key_str(j, "cat", category(e->o.trace, site));
	put_where(j, track->pid, tid);
	put_time(j, "ts", event->start_ns);
	if (is_instant)
		json_key_str(j, "s", "t");
	if (event->kind != TRACE_MARK)
		put_time(j, "dur", event->end_ns - event->start_ns);
	put_args(e, j, event, site, track, lane > 0);
	event_end(e);
	put_flow(e, event, site->process, track, tid);
}

static void put_memory(struct export *e, struct trace_track *track, const struct trace_event *event,
	const struct trace_site *site)
{
	const bool is_host = site->target == TRACE_PAGEABLE || site->target == TRACE_PINNED;
	const int64_t bytes = event->kind == TRACE_FREE ? -(int64_t) event->bytes : (int64_t) event->bytes;
	struct json *j = event_begin(e, "i", "[memory]");

	track->sum = (int64_t) ((uint64_t) track->sum + (uint64_t) bytes);
	json_key_str(j, "cat", "cpu_instant_event");
	put_where(j, track->pid, track->tid_shown);
	put_time(j, "ts", event->start_ns);
	json_key_str(j, "s", "t");
	json_key_object(j, "args");
	json_key_int(j, "Device Type", is_host ? DEVICE_TYPE_HOST : DEVICE_TYPE_GPU);
	json_key_int(j, "Device Id", is_host ? -1 : site->device);
	json_key_int(j, "Addr", (int64_t) event->address);
	json_key_int(j, "Bytes", bytes);
	json_key_int(j, "Total Allocated", track->sum);
	json_key_str(j, "memory", trace_memory_name(site->target));
	json_end(j);
	event_end(e);
}

static void see_row(struct export *e, const struct trace_event *event, const struct trace_site *site)
{
	struct chrome *c = e->state;
	struct trace_place *place = trace_place_of(&c->tracks, event->site, site);
	struct trace_track *track;
	size_t i;

	if (!place) {
		e->error = -ENOMEM;
		return;
	}
	i = place->track;
	if (!c->tracks.tracks[i].begun)
		begin_track(e, i, site);
	track = &c->tracks.tracks[i];
	trace_lanes_close(track, event->start_ns, NULL, NULL);
	if (track->class == CLASS_MEMORY)
		put_memory(e, track, event, site);
	else
		put_slice(e, track, place, event, site);
}

/* ---- the document ----------------------------------------------------------------------------------------- */

/* The rank of the first process that has one, else the run's; a job without ranks is rank 0. */
static int64_t rank_of(const struct export *e)
{
	for (uint32_t i = 1; i <= trace_read_process_count(e->o.trace); i++) {
		const struct trace_process *p = trace_read_process(e->o.trace, i);

		if (p && p->rank >= 0)
			return p->rank;
	}
	return e->facts->rank.known ? e->facts->rank.value : 0;
}

static int begin(struct export *e, struct err *err)
{
	struct chrome *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->text = BUF_INIT(TEXT_MOST);
	e->state = c;
	return 0;
}

static void see_frame(struct export *e, const struct frame *frame)
{
	(void) e;
	(void) frame;
}

/* The devices' names; those of the first process that has the device. */
static void put_devices(struct export *e)
{
	const struct trace_read *t = e->o.trace;
	struct map seen = { .used = 0 };
	struct json j;
	uint32_t unused;

	(void) buf_str(&e->out, "\"deviceProperties\": ");
	json_init(&j, &e->out, true);
	json_array(&j);
	for (size_t i = 0; i < trace_read_busy_count(t); i++) {
		const struct trace_busy *busy = trace_read_busy(t, i);

		if (busy->device < 0 || map_get(&seen, (uint64_t) busy->device, &unused))
			continue;
		if (map_put(&seen, (uint64_t) busy->device, 1) < 0)
			e->error = -ENOMEM;
		json_object(&j);
		json_key_int(&j, "id", busy->device);
		json_key_str(&j, "name", busy->name);
		json_end(&j);
	}
	json_end(&j);
	map_done(&seen);
	(void) buf_str(&e->out, ",\n");
}

static void put_head(struct export *e)
{
	(void) buf_str(&e->out, "{\n\"schemaVersion\": 1,\n");
	put_devices(e);
	(void) buf_printf(&e->out, "\"distributedInfo\": {\"rank\": %" PRId64, rank_of(e));
	if (e->facts->ranks.known)
		(void) buf_printf(&e->out, ", \"world_size\": %" PRId64, e->facts->ranks.value);
	(void) buf_printf(&e->out,
		"},\n\"baseTimeNanoseconds\": %" PRIu64 ",\n\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [",
		export_wall(e, 0));
}

/* What is missing, by cause, so that the file is not taken for complete. */
static void put_tail(struct export *e, uint64_t invalid)
{
	struct json j;

	(void) buf_str(&e->out, "\n],\n\"hiwater\": ");
	json_init(&j, &e->out, true);
	json_object(&j);
	json_key_str(&j, "run", e->facts->id ? e->facts->id : "");
	json_key_int(&j, "invalid", (int64_t) invalid);
	json_key_object(&j, "lost");
	for (int cause = 0; cause < TRACE_LOSS_COUNT; cause++) {
		uint64_t n = 0;

		for (size_t i = 0; i < trace_read_lost_count(e->o.trace); i++) {
			const struct trace_lost *lost = trace_read_lost(e->o.trace, i);

			n += (int) lost->cause == cause ? lost->n : 0;
		}
		if (n > 0)
			json_key_int(&j, trace_loss_name((enum trace_loss) cause), (int64_t) n);
	}
	json_end(&j);
	json_end(&j);
	(void) buf_str(&e->out, "\n}\n");
}

static void end(struct export *e)
{
	put_head(e);
	put_tail(e, export_trace_rows(e, TRACE_ALL_KINDS, see_row));
}

static void done(struct export *e)
{
	struct chrome *c = e->state;

	if (c) {
		trace_tracks_done(&c->tracks);
		buf_done(&c->text);
	}
	free(c);
}

const struct export_format export_chrome = {
	.name = "chrome",
	.trace = EXPORT_TRACE_MUST,
	.default_table = EXPORT_ALL,
	.wanted = export_no_metrics,
	.begin = begin,
	.see = see_frame,
	.end = end,
	.done = done,
};
