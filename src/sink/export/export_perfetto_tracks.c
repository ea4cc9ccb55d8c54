/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sink/export/export_perfetto.h"

enum {
	MOST_COUNTERS = 1 << 20,
};

/* ---- packets ------------------------------------------------------------------------------------------------------------ */

uint64_t boot_time(const struct export *e, uint64_t time_ns)
{
	return (e->facts->started_boot_ns.known ? (uint64_t) e->facts->started_boot_ns.value : 0) + time_ns;
}

void put_clock(struct proto *out, unsigned clock, uint64_t time_ns, bool steps)
{
	proto_begin(out, 1);
	proto_uint(out, 1, clock);
	proto_uint(out, 2, time_ns);
	if (steps)
		proto_uint(out, 3, 1);
	proto_end(out);
}

/* The first packet relates the boot clock to the wall clock. */
static void put_first(struct export *e)
{
	struct perfetto *p = e->state;

	p->begun = true;
	proto_begin(&p->proto, TRACE_PACKET);
	proto_uint(&p->proto, PACKET_SEQUENCE, SEQUENCE);
	proto_uint(&p->proto, PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
	proto_uint(&p->proto, PACKET_IS_FIRST, 1);
	proto_begin(&p->proto, PACKET_CLOCK_SNAPSHOT);
	put_clock(&p->proto, CLOCK_BOOT, boot_time(e, 0), false);
	put_clock(&p->proto, CLOCK_WALL, export_wall(e, 0), false);
	proto_uint(&p->proto, 2, CLOCK_BOOT);
	proto_end(&p->proto);
	proto_end(&p->proto);
}

void packet_begin(struct export *e, uint64_t time_ns)
{
	struct perfetto *p = e->state;

	if (!p->begun)
		put_first(e);
	proto_begin(&p->proto, TRACE_PACKET);
	proto_uint(&p->proto, PACKET_TIMESTAMP, boot_time(e, time_ns));
	proto_uint(&p->proto, PACKET_CLOCK, CLOCK_BOOT);
	proto_uint(&p->proto, PACKET_SEQUENCE, SEQUENCE);
}

void packet_end(struct export *e)
{
	struct perfetto *p = e->state;

	proto_end(&p->proto);
	export_flush(e);
}

/* ---- events ------------------------------------------------------------------------------------------------------------- */

void event_begin(struct export *e, enum event_type type, uint64_t track, uint64_t time_ns, const char *name)
{
	struct proto *out = &((struct perfetto *) e->state)->proto;

	packet_begin(e, time_ns);
	proto_begin(out, PACKET_TRACK_EVENT);
	proto_uint(out, 9, type);
	proto_uint(out, 11, track);
	if (name)
		proto_text(out, 23, name);
}

void event_end(struct export *e)
{
	proto_end(&((struct perfetto *) e->state)->proto);
	packet_end(e);
}

void event_note(struct export *e, const char *key, const char *text)
{
	struct proto *out = &((struct perfetto *) e->state)->proto;

	if (!*text)
		return;
	proto_begin(out, 4);
	proto_text(out, 10, key);
	proto_text(out, 6, text);
	proto_end(out);
}

void event_number(struct export *e, const char *key, struct maybe value)
{
	struct proto *out = &((struct perfetto *) e->state)->proto;

	if (!value.known)
		return;
	proto_begin(out, 4);
	proto_text(out, 10, key);
	proto_int(out, 4, value.value);
	proto_end(out);
}

/* ---- tracks ------------------------------------------------------------------------------------------------------------- */

uint64_t track_uuid(const struct perfetto *p, enum track_kind kind, unsigned metric, uint32_t id)
{
	return p->salt ^ ((uint64_t) kind << 48 | (uint64_t) metric << 32 | id);
}

bool track_known(const struct perfetto *p, uint64_t uuid)
{
	uint32_t place;

	return map_get(&p->tracks, uuid, &place);
}

/* Begins a TrackDescriptor; false: the track is described already. */
static bool describe(struct export *e, uint64_t uuid, uint64_t parent, const char *name, uint32_t place)
{
	struct perfetto *p = e->state;

	if (track_known(p, uuid))
		return false;
	if (map_put(&p->tracks, uuid, place) < 0)
		e->error = -ENOMEM;
	packet_begin(e, e->now_ns);
	proto_begin(&p->proto, PACKET_TRACK);
	proto_uint(&p->proto, 1, uuid);
	if (parent)
		proto_uint(&p->proto, 5, parent);
	if (name)
		proto_text(&p->proto, 2, name);
	return true;
}

bool track_describe(struct export *e, uint64_t uuid, uint64_t parent, const char *name)
{
	return describe(e, uuid, parent, name, 0);
}

void track_described(struct export *e)
{
	proto_end(&((struct perfetto *) e->state)->proto);
	packet_end(e);
}

uint64_t track_named(struct export *e, enum track_kind kind, uint32_t id, uint64_t parent, const char *name)
{
	const uint64_t uuid = track_uuid(e->state, kind, 0, id);

	if (describe(e, uuid, parent, name, 0))
		track_described(e);
	return uuid;
}

uint64_t track_process(struct export *e, uint32_t id, const struct birth *birth)
{
	struct proto *out = &((struct perfetto *) e->state)->proto;
	const uint64_t uuid = track_uuid(e->state, TRACK_PROCESS, 0, id);

	if (!birth)
		return track_named(e, TRACK_PROCESS, id, 0, export_process_name(e, NULL));
	if (!describe(e, uuid, 0, NULL, 0))
		return uuid;
	proto_begin(out, 3);
	proto_int(out, 1, birth->process.pid);
	proto_text(out, 6, export_process_name(e, birth));
	if (*export_private(e, birth->process.command))
		proto_text(out, 2, birth->process.command);
	proto_int(out, 7, (int64_t) birth->process.start_ns);
	proto_end(out);
	track_described(e);
	return uuid;
}

/* ---- counters ----------------------------------------------------------------------------------------------------------- */

/* Units of CounterDescriptor, or names of others. */
static const struct {
	unsigned unit;
	const char *name;
} units_of[] = {
	[UNIT_BYTES] = { 3, NULL },
	[UNIT_NS] = { 1, NULL },
	[UNIT_COUNT] = { 2, NULL },
	[UNIT_PPM] = { 0, "ratio" },
	[UNIT_UJ] = { 0, "J" },
	[UNIT_UW] = { 0, "W" },
	[UNIT_MCEL] = { 0, "C" },
	[UNIT_HZ] = { 0, "Hz" },
};

static uint32_t take_place(struct export *e)
{
	struct perfetto *p = e->state;
	uint32_t place = p->free_place;

	if (place > 0) {
		p->free_place = p->counters[place - 1].next_free;
		return place - 1;
	}
	if (vec_reserve(&p->counters, &p->cap, p->n, sizeof(*p->counters), MOST_COUNTERS) < 0) {
		e->error = -ENOMEM;
		return 0;
	}
	return (uint32_t) p->n++;
}

static void put_unit(struct proto *out, enum unit unit)
{
	proto_begin(out, 8);
	if (units_of[unit].name)
		proto_text(out, 6, units_of[unit].name);
	else
		proto_uint(out, 3, units_of[unit].unit);
	proto_end(out);
}

static void describe_counter(
	struct export *e, uint64_t uuid, enum track_kind kind, unsigned metric, uint64_t parent)
{
	char name[COLUMN_LEN];

	(void) snprintf(
		name, sizeof(name), "%s%s", metrics[metric].name, kind == TRACK_COUNTER_MAX ? " max" : "");
	if (!describe(e, uuid, parent, name, take_place(e)))
		return;
	put_unit(&((struct perfetto *) e->state)->proto, metrics[metric].unit);
	track_described(e);
}

/* Integers where Perfetto has the unit, else the base unit. */
static void put_count(struct export *e, uint64_t uuid, unsigned metric, uint64_t time_ns, int64_t value)
{
	struct proto *out = &((struct perfetto *) e->state)->proto;
	const enum unit unit = metrics[metric].unit;
	double number = (double) value;

	event_begin(e, TYPE_COUNTER, uuid, time_ns, NULL);
	for (unsigned i = 0; i < export_digits(unit); i++)
		number /= 10;
	if (units_of[unit].name)
		proto_double(out, 44, number);
	else
		proto_int(out, 30, value);
	event_end(e);
}

uint64_t track_series(struct export *e, uint32_t id, uint64_t parent, const char *name)
{
	struct proto *out = &((struct perfetto *) e->state)->proto;
	const uint64_t uuid = track_uuid(e->state, TRACK_SERIES, 0, id);

	if (!describe(e, uuid, parent, name, 0))
		return uuid;
	proto_begin(out, 8); /* a counter without a unit */
	proto_end(out);
	track_described(e);
	return uuid;
}

void track_count(struct export *e, enum track_kind kind, const struct reading *r, uint64_t parent,
	uint64_t time_ns, int64_t value)
{
	struct perfetto *p = e->state;
	const uint64_t uuid = track_uuid(p, kind, r->metric, r->id);
	uint32_t place;
	const bool is_new = !map_get(&p->tracks, uuid, &place);

	if (is_new)
		describe_counter(e, uuid, kind, r->metric, parent);
	if (e->error || !map_get(&p->tracks, uuid, &place) || (!is_new && p->counters[place].last == value))
		return;
	p->counters[place].last = value;
	put_count(e, uuid, r->metric, time_ns, value);
}

void track_end(struct export *e, unsigned metric, uint32_t id, uint64_t time_ns)
{
	struct perfetto *p = e->state;

	for (int kind = TRACK_COUNTER; kind <= TRACK_COUNTER_MAX; kind++) {
		const uint64_t uuid = track_uuid(p, (enum track_kind) kind, metric, id);
		uint32_t place;

		if (!map_get(&p->tracks, uuid, &place))
			continue;
		if (metrics[metric].kind == KIND_GAUGE && p->counters[place].last != 0)
			put_count(e, uuid, metric, time_ns, 0);
		map_remove(&p->tracks, uuid);
		p->counters[place].next_free = p->free_place;
		p->free_place = place + 1;
	}
}
