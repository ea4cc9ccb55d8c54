/* SPDX-License-Identifier: MIT
 *
 * Private to export_perfetto*.c: packets and tracks of a Perfetto trace
 * (perfetto.dev/docs/reference/synthetic-track-event). Field numbers are those of
 * protos/perfetto/trace/ in google/perfetto.
 */
#pragma once

#include "base/proto.h"
#include "sink/export/export_internal.h"

/* TracePacket and its fields. */
enum {
	TRACE_PACKET = 1,
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_CLOCK = 58,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK = 60,
	PACKET_IS_FIRST = 87,
};

enum {
	CLOCK_WALL = 1,
	CLOCK_BOOT = 6,      /* BUILTIN_CLOCK_BOOTTIME, the clock of the trace */
	CLOCK_STEPS = 64,    /* of one sequence: each time is the step from the one before */
	SEQUENCE = 1,        /* of all but traced work */
	SEQUENCE_TRACED = 2, /* the first of traced work, whose tracks have one each */
	STATE_CLEARED = 1,
};

enum event_type {
	TYPE_SLICE_BEGIN = 1,
	TYPE_SLICE_END = 2,
	TYPE_INSTANT = 3,
	TYPE_COUNTER = 4,
};

/* Kinds of tracks; kind, metric and id make the uuid. 0 is no track. */
enum track_kind {
	TRACK_NONE,
	TRACK_RUN,
	TRACK_HOST,
	TRACK_PROCESS,
	TRACK_GPU,
	TRACK_COUNTER,
	TRACK_COUNTER_MAX,
	TRACK_SERIES,
	TRACK_MARKS,
	TRACK_EVENTS,
	TRACK_GAPS,
	TRACK_PHASES,
	TRACK_TRACED,        /* of traced work: the track, its number as id */
	TRACK_TRACED_LANE,   /* a further lane of it, its number as metric */
	TRACK_TRACED_PROCESS,
};

/* A described counter and its last value: an unchanged value is not repeated. */
struct track {
	int64_t last;
	uint32_t next_free;
};

struct perfetto {
	struct proto proto;
	uint64_t salt;       /* of the run: traces of several runs can be put into one file */
	bool begun;          /* the first packet is written */
	struct map tracks;   /* from uuid to the index of a counter; 0 for other tracks */
	struct track *counters;
	size_t n, cap;
	uint32_t free_place; /* + 1; 0: none */
	struct traced *traced; /* of export_perfetto_trace.c, while it writes */
};

uint64_t track_uuid(const struct perfetto *p, enum track_kind kind, unsigned metric, uint32_t id);

/* Begins a TrackDescriptor (name NULL: none), whose further fields follow, then track_described(); false: it
 * is described already. */
bool track_describe(struct export *e, uint64_t uuid, uint64_t parent, const char *name);
void track_described(struct export *e);

/* Describe a group of tracks, a process, a series, the first time only. Return the uuid. */
uint64_t track_named(struct export *e, enum track_kind kind, uint32_t id, uint64_t parent, const char *name);
uint64_t track_process(struct export *e, uint32_t id, const struct birth *birth);
uint64_t track_series(struct export *e, uint32_t id, uint64_t parent, const char *name);

/* Writes the counter's value at that time, in the metric's unit, if it changed. */
void track_count(struct export *e, enum track_kind kind, const struct reading *reading, uint64_t parent,
	uint64_t time_ns, int64_t value);
/* True if the track was described. */
bool track_known(const struct perfetto *p, uint64_t uuid);
/* Ends the counter of an entity that ended: a gauge drops to 0. */
void track_end(struct export *e, unsigned metric, uint32_t id, uint64_t time_ns);

/* A clock and its time in a ClockSnapshot. */
void put_clock(struct proto *out, unsigned clock, uint64_t time_ns, bool steps);
/* CLOCK_BOOTTIME of a time of the run. */
uint64_t boot_time(const struct export *e, uint64_t time_ns);

/* Begins a TracePacket with the time; its fields follow, then packet_end(). */
void packet_begin(struct export *e, uint64_t time_ns);
void packet_end(struct export *e);

/* Begins a TrackEvent (name NULL: none); its annotations follow, then event_end(). */
void event_begin(struct export *e, enum event_type type, uint64_t track, uint64_t time_ns, const char *name);
void event_end(struct export *e);
void event_note(struct export *e, const char *key, const char *text);       /* a debug annotation */
void event_number(struct export *e, const char *key, struct maybe value);   /* unknown: none */

/* The track of the run, to which all that is of no entity belongs. */
uint64_t track_run(struct export *e);
/* Writes traced work, after all frames. */
void put_traced(struct export *e);
