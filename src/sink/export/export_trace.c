/* SPDX-License-Identifier: MIT */
#include "sink/export/export_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "sink/trace/trace_names.h"

enum {
	TRACKS_MOST = 1 << 20,
	SITES_MOST = 1 << 24,
	TOGETHER_MOST = 4096,  /* rows of one start that are sorted */
	PIDS_END = 1 << 22,    /* Linux has smaller ones */
};

/* ---- tracks ------------------------------------------------------------------------------------ */

void trace_tracks_done(struct trace_tracks *t)
{
	for (size_t i = 0; i < t->n; i++) {
		for (unsigned l = 0; l < t->tracks[i].n_lanes; l++)
			free(t->tracks[i].lanes[l].ends);
		free(t->tracks[i].lanes);
	}
	for (size_t i = 0; i < t->n_places; i++)
		free(t->places[i].demangled);
	free(t->tracks);
	free(t->places);
	map_done(&t->by_hash);
	map_done(&t->by_site);
	*t = (struct trace_tracks) { .n = 0 };
}

static uint64_t hash_of(const struct trace_track *k)
{
	uint64_t hash = map_mixed(k->class, k->process);

	hash = map_mixed(hash, (uint64_t) k->tid);
	hash = map_mixed(hash, (uint64_t) k->device);
	hash = map_mixed(hash, k->context);
	return map_mixed(map_mixed(hash, k->stream), k->memory);
}

static bool same(const struct trace_track *a, const struct trace_track *b)
{
	return a->class == b->class && a->process == b->process && a->tid == b->tid &&
	       a->device == b->device && a->context == b->context && a->stream == b->stream &&
	       a->memory == b->memory;
}

size_t trace_track_find(struct trace_tracks *t, const struct trace_track *like)
{
	const uint64_t hash = hash_of(like);
	uint32_t first = 0;

	(void) map_get(&t->by_hash, hash, &first);
	for (uint32_t i = first; i > 0; i = t->tracks[i - 1].next) {
		if (same(&t->tracks[i - 1], like))
			return i - 1;
	}
	if (vec_reserve(&t->tracks, &t->cap, t->n, sizeof(*t->tracks), TRACKS_MOST) < 0 ||
		map_put(&t->by_hash, hash, (uint32_t) t->n + 1) < 0)
		return SIZE_MAX;
	t->tracks[t->n] = *like;
	t->tracks[t->n].next = first;
	return t->n++;
}

static struct trace_track key_of(const struct trace_site *s)
{
	const unsigned kind = 1U << s->kind;

	if (kind & TRACE_HOST_KINDS)
		return (struct trace_track) {
			.class = CLASS_THREAD, .process = s->process, .tid = s->tid, .device = -1
		};
	if (kind & TRACE_WORK_KINDS)
		return (struct trace_track) {
			.class = CLASS_STREAM,
			.process = s->process,
			.tid = -1,
			.device = s->device,
			.context = s->context,
			.stream = s->stream,
		};
	return (struct trace_track) {
		.class = CLASS_MEMORY,
		.process = s->process,
		.tid = -1,
		.device = s->device,
		.memory = s->target,
	};
}

struct trace_place *trace_place_of(struct trace_tracks *t, uint32_t number, const struct trace_site *site)
{
	struct trace_track key;
	size_t track;
	uint32_t i;

	if (map_get(&t->by_site, number, &i))
		return &t->places[i];
	key = key_of(site);
	track = trace_track_find(t, &key);
	if (track == SIZE_MAX ||
		vec_reserve(&t->places, &t->cap_places, t->n_places, sizeof(*t->places), SITES_MOST) < 0 ||
		map_put(&t->by_site, number, (uint32_t) t->n_places) < 0)
		return NULL;
	t->places[t->n_places] = (struct trace_place) { .track = (uint32_t) track };
	return &t->places[t->n_places++];
}

/* ---- lanes --------------------------------------------------------------------------------------- */

/* The end of the innermost open slice; UINT64_MAX, which is no slice's end: none is open. */
static uint64_t innermost(const struct lane *lane)
{
	return lane->depth > 0 ? lane->ends[lane->depth - 1] : UINT64_MAX;
}

void trace_lanes_close(struct trace_track *track, uint64_t until_ns,
	void (*ended)(void *ctx, struct trace_track *track, unsigned lane, uint64_t end_ns), void *ctx)
{
	for (;;) {
		unsigned first = 0;
		uint64_t end = UINT64_MAX;

		for (unsigned i = 0; i < track->n_lanes; i++) {
			if (innermost(&track->lanes[i]) < end) {
				first = i;
				end = innermost(&track->lanes[i]);
			}
		}
		if (end == UINT64_MAX || end > until_ns)
			return;
		track->lanes[first].depth--;
		if (ended)
			ended(ctx, track, first, end);
	}
}

static struct lane *lane_for(struct trace_track *track, uint64_t end_ns)
{
	struct lane *lanes;

	for (unsigned i = 0; i < track->n_lanes; i++) {
		if (track->lanes[i].depth < LANE_DEPTH_MOST && end_ns <= innermost(&track->lanes[i]))
			return &track->lanes[i];
	}
	if (track->n_lanes == LANES_MOST)
		return NULL;
	lanes = realloc(track->lanes, (track->n_lanes + 1) * sizeof(*lanes));
	if (!lanes)
		return NULL;
	track->lanes = lanes;
	lanes[track->n_lanes] = (struct lane) { .depth = 0 };
	return &lanes[track->n_lanes++];
}

int trace_lanes_open(struct trace_track *track, uint64_t end_ns)
{
	struct lane *lane = lane_for(track, end_ns);

	if (!lane ||
		vec_reserve(&lane->ends, &lane->cap, lane->depth, sizeof(*lane->ends), LANE_DEPTH_MOST) < 0)
		return -1;
	lane->ends[lane->depth++] = end_ns;
	return (int) (lane - track->lanes);
}

/* ---- rows ------------------------------------------------------------------------------------------ */

/* Rows that begin together. */
struct together {
	struct export *e;
	void (*see)(struct export *e, const struct trace_event *event, const struct trace_site *site);
	struct trace_event *rows;
	size_t n;
	uint64_t invalid;
};

/* The longest first; of equal ones as they are nested, a range around the call in it. */
static int by_end(const void *a, const void *b)
{
	const struct trace_event *one = a, *two = b;

	if (one->end_ns != two->end_ns)
		return one->end_ns > two->end_ns ? -1 : 1;
	if (one->kind != two->kind)
		return one->kind < two->kind ? -1 : 1;
	return (one->depth > two->depth) - (one->depth < two->depth);
}

static void pass_on(struct together *t)
{
	if (t->n > 1)
		qsort(t->rows, t->n, sizeof(*t->rows), by_end);
	for (size_t i = 0; i < t->n && t->e->error == 0; i++) {
		const struct trace_site *site = trace_read_site(t->e->o.trace, t->rows[i].site);

		if (site)
			t->see(t->e, &t->rows[i], site);
		else
			t->invalid++;
	}
	t->n = 0;
	export_flush(t->e);
}

/* Times from 2^62 on are no times. */
static bool has_times(const struct trace_event *event)
{
	return !(event->flags & TRACE_INVALID) && event->start_ns <= event->end_ns &&
	       event->end_ns < UINT64_C(1) << 62;
}

static bool see_row(void *ctx, const struct trace_event *event)
{
	struct together *t = ctx;
	struct trace_event row = *event;

	if (1U << row.kind & (TRACE_MEMORY_KINDS | 1 << TRACE_MARK))
		row.end_ns = row.start_ns;
	if (!has_times(&row)) {
		t->invalid++;
		return true;
	}
	if (t->n > 0 && (t->rows[0].start_ns != row.start_ns || t->n == TOGETHER_MOST))
		pass_on(t);
	t->rows[t->n++] = row;
	return t->e->error == 0;
}

uint64_t export_trace_rows(struct export *e, unsigned kinds,
	void (*see)(struct export *e, const struct trace_event *event, const struct trace_site *site))
{
	struct together t = { .e = e, .see = see, .rows = malloc(TOGETHER_MOST * sizeof(*t.rows)) };
	int r = -ENOMEM;

	if (t.rows)
		r = trace_read_rows(e->o.trace, kinds, 0, UINT64_MAX, see_row, &t, &e->why);
	if (r == 0 && e->error == 0)
		pass_on(&t);
	if (e->error == 0)
		e->error = r;
	free(t.rows);
	return t.invalid;
}

/* ---- texts ------------------------------------------------------------------------------------------ */

static const char *const memory_titles[] = {
	[TRACE_MEMORY_UNKNOWN] = "Unknown",
	[TRACE_PAGEABLE] = "Pageable",
	[TRACE_PINNED] = "Pinned",
	[TRACE_DEVICE] = "Device",
	[TRACE_ARRAY] = "Array",
	[TRACE_MANAGED] = "Managed",
};

static bool is_of_host(enum trace_memory memory)
{
	return memory == TRACE_PAGEABLE || memory == TRACE_PINNED;
}

const char *export_trace_direction(enum trace_memory source, enum trace_memory target)
{
	if (source == TRACE_MEMORY_UNKNOWN || target == TRACE_MEMORY_UNKNOWN)
		return "";
	if (is_of_host(source))
		return is_of_host(target) ? "HtoH" : "HtoD";
	return is_of_host(target) ? "DtoH" : "DtoD";
}

static const char *copy_name(const struct trace_site *site, struct buf *text)
{
	const char *direction = export_trace_direction(site->source, site->target);

	if (site->kind == TRACE_FILL)
		(void) buf_printf(text, "Memset (%s)", memory_titles[site->target]);
	else if (*direction)
		(void) buf_printf(text, "Memcpy %s (%s -> %s)", direction, memory_titles[site->source],
			memory_titles[site->target]);
	else
		(void) buf_printf(text, "Memcpy%s%s", *site->name ? " " : "", site->name);
	return text->data;
}

/* Demangling takes longer than writing a row, so it is done once for a site. */
static const char *kernel_name(struct trace_place *place, const struct trace_site *site, struct buf *text)
{
	if (place->demangled)
		return place->demangled;
	if (strncmp(site->name, "_Z", 2) != 0)
		return site->name;
	trace_demangle(site->name, text);
	place->demangled = strdup(text->data);
	return text->data;
}

const char *export_trace_name(struct trace_place *place, const struct trace_site *site, struct buf *text)
{
	buf_clear(text);
	if (site->kind == TRACE_KERNEL)
		return kernel_name(place, site, text);
	if (site->kind == TRACE_COPY || site->kind == TRACE_FILL)
		return strncmp(site->name, "Mem", 3) == 0 ? site->name : copy_name(site, text);
	return site->name;
}

void export_trace_flags(struct buf *out, unsigned flags)
{
	static const struct {
		unsigned flag;
		const char *name;
	} names[] = {
		{ TRACE_UNCLOSED, "unclosed" },
		{ TRACE_CROSSING, "crossing" },
		{ TRACE_FAILED, "failed" },
		{ TRACE_NODE, "graph node" },
	};
	const char *between = "";

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!(flags & names[i].flag))
			continue;
		(void) buf_printf(out, "%s%s", between, names[i].name);
		between = ", ";
	}
}

bool export_trace_is_driver(const char *name)
{
	return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

uint64_t export_trace_flow(const struct export *e, const struct trace_event *event, uint32_t process)
{
	return event->correlation * trace_read_process_count(e->o.trace) + process - 1;
}

const char *export_trace_thread(const struct export *e, uint32_t process, int64_t tid)
{
	return tid < 0 ? "" : export_private(e, trace_read_thread(e->o.trace, process, tid));
}

const char *export_trace_process(const struct export *e, uint32_t process)
{
	const struct trace_process *p = trace_read_process(e->o.trace, process);

	return p ? export_private(e, p->name) : "";
}

int64_t export_trace_pid(const struct export *e, uint32_t process)
{
	const struct trace_process *p = trace_read_process(e->o.trace, process);

	return p && p->pid >= 0 ? p->pid : (int64_t) PIDS_END + process;
}
