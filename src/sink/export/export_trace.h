/* SPDX-License-Identifier: MIT
 *
 * Private to export*.c: traced work (record/trace/trace_read.h) for the formats that have it. Its rows
 * come in the order of their start; each goes to a track, which is a thread of the host, or a stream of
 * a device.
 *
 * Slices of a track must be nested in every viewer. Ranges of a thread may cross, work of a stream may
 * overlap: so a track has lanes, and a slice goes to the first lane whose open slices contain it. The
 * first lane is the track itself, the others are shown below it. Only the ends of open slices are
 * kept: memory grows with how many are open at once, with sites and with tracks, and not with rows.
 */
#pragma once

#include "base/map.h"
#include "model/trace.h"
#include "record/trace/trace_read.h"
#include "sink/export/export_internal.h"

/* ---- tracks ------------------------------------------------------------------------------------ */

enum track_class {
	CLASS_THREAD, /* process, tid: ranges, marks, launches */
	CLASS_STREAM, /* process, device, context, stream: kernels, copies, fills */
	CLASS_DEVICE, /* process, device: a group of streams */
	CLASS_MEMORY, /* process, device, kind of memory: the bytes allocated */
	CLASS_PROCESS,/* process: what a format remembers of it */
	CLASS_NUMBER, /* process, device, stream: of any context */
};

enum {
	LANES_MOST = 1024,
	LANE_DEPTH_MOST = 1 << 16
};

struct lane {
	uint64_t *ends;      /* of the open slices, the innermost last */
	size_t depth, cap;
};

struct trace_track {
	enum track_class class;
	uint32_t process;
	int64_t tid, device;
	uint64_t context, stream;
	enum trace_memory memory;
	uint32_t next;       /* + 1, of the next track with the same hash; 0: none */
	struct lane *lanes;
	unsigned n_lanes;
	/* of the format, 0 at first */
	bool begun, names_bytes;
	uint32_t n_names;
	uint64_t last_ns, uuid;
	int64_t pid, tid_shown, sum;
	unsigned n_named;    /* lanes that have a name */
};

/* The track of a site, and a number that the format gives it; 0: not yet. */
struct trace_place {
	uint32_t track, number;
	char *demangled;     /* its name; NULL: not yet, or it is as it was given */
};

struct trace_tracks {
	struct trace_track *tracks;
	size_t n, cap;
	struct map by_hash, by_site;
	struct trace_place *places;
	size_t n_places, cap_places;
};

void trace_tracks_done(struct trace_tracks *t);

/* Finds or adds a track with the key of like; SIZE_MAX: out of memory. Pointers to tracks are valid until
 * another is added. */
size_t trace_track_find(struct trace_tracks *t, const struct trace_track *like);
/* The place of a site; NULL: out of memory. Valid until the next call. */
struct trace_place *trace_place_of(struct trace_tracks *t, uint32_t number, const struct trace_site *site);

/* Ends the open slices that end at or before until_ns; calls ended (may be NULL) for each, in the order of
 * time. */
void trace_lanes_close(struct trace_track *track, uint64_t until_ns,
	void (*ended)(void *ctx, struct trace_track *track, unsigned lane, uint64_t end_ns), void *ctx);
/* Opens a slice that begins now, after trace_lanes_close; its lane, or -1 if none is free (then nothing
 * changed). */
int trace_lanes_open(struct trace_track *track, uint64_t end_ns);

/* ---- rows ------------------------------------------------------------------------------------------ */

enum {
	TRACE_HOST_KINDS = 1 << TRACE_RANGE | 1 << TRACE_MARK | 1 << TRACE_LAUNCH,
	TRACE_WORK_KINDS = 1 << TRACE_KERNEL | 1 << TRACE_COPY | 1 << TRACE_FILL,
	TRACE_MEMORY_KINDS = 1 << TRACE_ALLOC | 1 << TRACE_FREE,
	TRACE_ALL_KINDS = TRACE_HOST_KINDS | TRACE_WORK_KINDS | TRACE_MEMORY_KINDS,
};

/* Calls see for each row of the kinds, in the order of start; of equal starts the longest first, so that
 * what is around comes before what is inside. Rows without valid times cannot be placed: they are left
 * out. Returns their number. Errors go to e->error and e->why. */
uint64_t export_trace_rows(struct export *e, unsigned kinds,
	void (*see)(struct export *e, const struct trace_event *event, const struct trace_site *site));

/* ---- texts ------------------------------------------------------------------------------------------ */

/* The name to show: of kernels demangled, of copies and fills as Kineto has them, "Memcpy HtoD (Pageable ->
 * Device)". Borrowed from the site, its place, or text, which it overwrites. */
const char *export_trace_name(struct trace_place *place, const struct trace_site *site, struct buf *text);

/* Appends "unclosed, crossing" for the flags; nothing for none. */
void export_trace_flags(struct buf *out, unsigned flags);

/* Direction of a copy by its ends: "HtoD", "DtoH", "DtoD", "HtoH"; "" if an end is unknown. */
const char *export_trace_direction(enum trace_memory source, enum trace_memory target);

/* Is it a function of CUDA's driver (cuLaunchKernel), not of its runtime (cudaLaunchKernel)? */
bool export_trace_is_driver(const char *name);

/* The number of the flow from a call to the work that it started: a correlation is unique within its
 * process alone. */
uint64_t export_trace_flow(const struct export *e, const struct trace_event *event, uint32_t process);

/* The name of a thread or process; "" if unknown, or left out by --redact. */
const char *export_trace_thread(const struct export *e, uint32_t process, int64_t tid);
const char *export_trace_process(const struct export *e, uint32_t process);
/* Its pid; of a process without one a number above those that Linux gives. */
int64_t export_trace_pid(const struct export *e, uint32_t process);
