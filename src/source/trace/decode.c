/* SPDX-License-Identifier: MIT */
#include "source/trace/decode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

enum {
	TEXT_MOST = 4096,
	NAMES_FULL = 0xffff,       /* in place of an offset: the name of events that could not be stored */
	OFFSET_END = TRACE_ARENA_BYTES / 8,
	KEY_GPU = 3,               /* above those of enum trace_kind that have threads */
	KIND_OF_SITE = 0xf,        /* in place of a kind in a key: its value is the kind of a site */
	NO_THREAD = 0x3fffffff,
};

/* How far before the run or ahead of now a time may be. */
static const uint64_t slack_ns = 1000000000;

/* A range that has no end yet. */
struct open_range {
	uint64_t start_ns, id;
	uint32_t site, domain;
	uint32_t flags;
	uint32_t depth;
	uint32_t selected, number, name; /* for the selector: what it is, and the offset of its name */
	bool has_id;               /* TRACE_RING_START */
};

struct thread {
	int32_t tid;
	struct open_range *open;
	size_t n, cap;
	uint64_t left_out;         /* pushes beyond TRACE_OPEN_MOST: so many pops are theirs */
	uint64_t last_ns;          /* its last event */
	bool in_call;
	uint64_t call_ns, call_correlation;
	uint32_t call_site;
};

struct trace_decoder {
	uint32_t process;
	trace_text_fn *text;
	void *text_ctx;
	struct map sites;          /* what a site is made of, to its number */
	size_t n_sites;
	struct map by_tid;         /* to the index in threads */
	struct thread *threads;
	size_t n_threads, cap_threads, next_reused;
	struct map started;        /* the id of a TRACE_RING_START to the index of its thread */
	bool names_full;
	const struct trace_selector *selector; /* NULL: none */
	struct map selected;       /* the number of a site to what it is to the selector */
	uint32_t device_named[4];  /* devices whose name was sent: bits */
};

struct trace_decoder *trace_decoder_new(uint32_t process, trace_text_fn *text, void *text_ctx)
{
	struct trace_decoder *d = calloc(1, sizeof(*d));

	if (d) {
		d->process = process;
		d->text = text;
		d->text_ctx = text_ctx;
	}
	return d;
}

void trace_decoder_free(struct trace_decoder *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n_threads; i++)
		free(d->threads[i].open);
	free(d->threads);
	map_done(&d->sites);
	map_done(&d->by_tid);
	map_done(&d->started);
	map_done(&d->selected);
	free(d);
}

void trace_decoder_select(struct trace_decoder *d, const struct trace_selector *selector)
{
	d->selector = selector;
}

void trace_decode_names_full(struct trace_decoder *d)
{
	d->names_full = true;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* In place of a thread that has nothing open: there may have been any number of threads. */
static struct thread *reuse_thread(struct trace_decoder *d, int32_t tid)
{
	for (size_t n = 0; n < d->n_threads; n++) {
		const size_t i = d->next_reused++ % d->n_threads;
		struct thread *t = &d->threads[i];

		if (t->n > 0 || t->in_call)
			continue;
		if (map_put(&d->by_tid, (uint32_t) tid, (uint32_t) i) < 0)
			return NULL;
		map_remove(&d->by_tid, (uint32_t) t->tid);
		t->tid = tid;
		t->left_out = 0;
		return t;
	}
	return NULL;
}

/* NULL: there are too many, or no memory. */
static struct thread *thread_of(struct trace_decoder *d, int32_t tid)
{
	uint32_t i;

	if (map_get(&d->by_tid, (uint32_t) tid, &i))
		return &d->threads[i];
	if (d->n_threads >= TRACE_THREADS_MOST)
		return reuse_thread(d, tid);
	if (d->n_threads == d->cap_threads) {
		const size_t cap = d->cap_threads ? 2 * d->cap_threads : 8;
		struct thread *grown = realloc(d->threads, cap * sizeof(*grown));

		if (!grown)
			return NULL;
		d->threads = grown;
		d->cap_threads = cap;
	}
	if (map_put(&d->by_tid, (uint32_t) tid, (uint32_t) d->n_threads) < 0)
		return NULL;
	d->threads[d->n_threads] = (struct thread) { .tid = tid };
	return &d->threads[d->n_threads++];
}

/* Time of the run; *flags gets TRACE_INVALID for times that cannot be. A device's clock may be a little ahead of the
 * host's, and a step of a clock moves a few events. */
static uint64_t run_time(const struct trace_clock *clock, uint64_t mono_ns, uint32_t *flags)
{
	const int64_t t = (int64_t) (mono_ns + (uint64_t) clock->offset_ns);

	if (mono_ns > INT64_MAX || t > (int64_t) (clock->now_ns + slack_ns)) {
		*flags |= TRACE_INVALID;
		return clock->now_ns;
	}
	if (t < -(int64_t) slack_ns)
		*flags |= TRACE_INVALID;
	return t > 0 ? (uint64_t) t : 0;
}

/* ---- names and sites ------------------------------------------------------------------------- */

static void text_at(const struct trace_decoder *d, uint32_t offset, char ret[static TEXT_MOST])
{
	ptrdiff_t n = 0;

	if (offset == NAMES_FULL)
		n = snprintf(ret, TEXT_MOST, "(names full)");
	else if (offset != 0)
		n = d->text(d->text_ctx, offset, 0, ret, TEXT_MOST - 1);
	ret[n > 0 ? n : 0] = '\0';
}

static uint32_t offset_of(const struct trace_decoder *d, uint32_t offset, bool is_name)
{
	if (offset == 0 || offset >= OFFSET_END)
		return is_name && d->names_full ? NAMES_FULL : 0;
	return offset;
}

static int select_site(struct trace_decoder *d, const struct trace_site *site, uint32_t number)
{
	const unsigned what = d->selector->select(d->selector->ctx, site->kind, site->name);

	return what ? map_put(&d->selected, number, what) : 0;
}

/* A range of a selected name, or a call, begins or ends. */
static void notify_selector(const struct trace_decoder *d, uint32_t selected, uint32_t name, uint64_t time_ns,
	bool begins, uint32_t *number)
{
	char text[TEXT_MOST];

	text_at(d, name, text);
	d->selector->edge(d->selector->ctx, selected, text, time_ns, begins, number);
}

/* The number of the site with this key, which add fills in if it is new. */
static int find_site(struct trace_decoder *d, uint64_t key, const struct trace_sink *sink, uint32_t *ret,
	bool (*add)(struct trace_decoder *d, uint64_t key, struct trace_site *site, char texts[2][TEXT_MOST]))
{
	struct trace_site site = {
		.process = d->process,
		.name = "",
		.domain = "",
		.device_name = "",
		.tid = -1,
		.device = -1,
	};
	char texts[2][TEXT_MOST];
	int r;

	if (map_get(&d->sites, key, ret))
		return *ret ? 0 : -EBADMSG;
	texts[0][0] = texts[1][0] = '\0';
	if (d->n_sites >= TRACE_SITES_MOST)
		return -EBADMSG;
	*ret = 0;
	if (add(d, key, &site, texts)) {
		r = sink->site(sink->ctx, &site, ret);
		if (r == 0 && d->selector)
			r = select_site(d, &site, *ret);
		if (r < 0)
			return r;
	}
	d->n_sites++;
	r = map_put(&d->sites, key, *ret); /* 0: it is not valid */
	if (r < 0)
		return r;
	return *ret ? 0 : -EBADMSG;
}

/* Bits: kind 2, thread 30, domain 16, name 16. */
static bool add_of_thread(
	struct trace_decoder *d, uint64_t key, struct trace_site *site, char texts[2][TEXT_MOST])
{
	static const enum trace_kind kinds[] = { TRACE_RANGE, TRACE_MARK, TRACE_LAUNCH };
	const uint32_t tid = key >> 32 & NO_THREAD;

	text_at(d, key & 0xffff, texts[0]);
	text_at(d, key >> 16 & 0xffff, texts[1]);
	site->kind = kinds[key >> 62];
	site->name = texts[0];
	site->domain = texts[1];
	site->tid = tid == NO_THREAD ? -1 : (int64_t) tid;
	return true;
}

static int site_of_thread(struct trace_decoder *d, enum trace_kind kind, int32_t tid, uint32_t name,
	uint32_t domain, const struct trace_sink *sink, uint32_t *ret)
{
	/* A program may start a thread for each request: then their sites have no thread. */
	const uint64_t thread = tid < 0 || d->n_sites > TRACE_SITES_MOST / 4 || tid >= NO_THREAD
					? NO_THREAD
					: (uint32_t) tid;
	const uint64_t key = (uint64_t) kind << 62 | thread << 32 | offset_of(d, domain, false) << 16 |
			     offset_of(d, name, true);

	return find_site(d, key, sink, ret, add_of_thread);
}

_Static_assert(TRACE_RANGE == 0 && TRACE_MARK == 1 && TRACE_LAUNCH == 2, "they are bits of a key");

static enum trace_memory memory_of(uint8_t kind)
{
	return kind < TRACE_MEMORY_COUNT ? (enum trace_memory) kind : TRACE_MEMORY_UNKNOWN;
}

/* Bits: KEY_GPU 2, kind 4 (that of an allocation is its event's), the offset. */
static uint64_t gpu_key(unsigned kind, uint32_t offset)
{
	return (uint64_t) KEY_GPU << 62 | (uint64_t) kind << 32 | offset;
}

static bool add_of_gpu(
	struct trace_decoder *d, uint64_t key, struct trace_site *site, char texts[2][TEXT_MOST])
{
	const unsigned kind = key >> 32 & 0xf;
	struct trace_ring_site given;

	if (d->text(d->text_ctx, (uint32_t) key, 1, &given, sizeof(given)) != sizeof(given))
		return false;
	site->kind = kind ? (enum trace_kind) kind : (enum trace_kind) given.kind;
	if (!kind && given.kind != TRACE_KERNEL && given.kind != TRACE_COPY && given.kind != TRACE_FILL)
		return false;
	if (!kind && map_put(&d->sites, gpu_key(KIND_OF_SITE, (uint32_t) key), given.kind) < 0)
		return false;
	text_at(d, offset_of(d, given.name, true), texts[0]);
	site->name = texts[0];
	site->device = given.device < 0 ? -1 : given.device;
	site->context = given.context;
	site->stream = given.stream;
	memcpy(site->grid, given.grid, sizeof(site->grid));
	memcpy(site->block, given.block, sizeof(site->block));
	site->registers = given.registers;
	site->shared_static = given.shared_static;
	site->shared_dynamic = given.shared_dynamic;
	site->source = memory_of(given.source);
	site->target = memory_of(given.target);
	if (given.device >= 0 && given.device < 128 &&
		!(d->device_named[given.device / 32] >> given.device % 32 & 1)) {
		text_at(d, offset_of(d, given.device_name, false), texts[1]);
		site->device_name = texts[1];
		if (texts[1][0])
			d->device_named[given.device / 32] |= UINT32_C(1) << given.device % 32;
	}
	return true;
}

/* One for which the process had no room: of its device all of a kind together. */
static bool add_unnamed(
	struct trace_decoder *d, uint64_t key, struct trace_site *site, char texts[2][TEXT_MOST])
{
	const unsigned kind = key >> 32 & 0xf, own = key >> 16 & 0xf;

	site->kind = (enum trace_kind)(kind ? kind : own);
	if (!kind && own != TRACE_KERNEL && own != TRACE_COPY && own != TRACE_FILL)
		return false;
	if (!kind && map_put(&d->sites, gpu_key(KIND_OF_SITE, (uint32_t) key), own) < 0)
		return false;
	text_at(d, NAMES_FULL, texts[0]);
	site->name = texts[0];
	site->device = (int64_t) (key & 0xffff) - 1;
	return true;
}

/* kind 0: the site's own. */
static int site_of_gpu(struct trace_decoder *d, enum trace_kind kind, uint32_t offset,
	const struct trace_sink *sink, uint32_t *ret)
{
	if (offset & TRACE_SITE_UNNAMED)
		return find_site(d, gpu_key(kind, offset), sink, ret, add_unnamed);
	if (offset == 0 || offset >= OFFSET_END)
		return -EBADMSG;
	return find_site(d, gpu_key(kind, offset), sink, ret, add_of_gpu);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static int emit_range(
	const struct open_range *o, uint64_t end_ns, uint32_t flags, const struct trace_sink *sink)
{
	const struct trace_event event = {
		.kind = TRACE_RANGE,
		.site = o->site,
		.flags = o->flags | flags | (end_ns < o->start_ns ? TRACE_INVALID : 0),
		.depth = o->depth,
		.start_ns = o->start_ns,
		.end_ns = end_ns,
	};

	return sink->event(sink->ctx, &event);
}

static int begin_range(struct trace_decoder *d, struct thread *t, const struct open_range *range,
	const struct trace_sink *sink)
{
	if (t->n >= TRACE_OPEN_MOST) {
		t->left_out += !range->has_id;
		return sink->lost(sink->ctx, d->process, TRACE_LOST_INCOMPLETE, 1);
	}
	if (t->n == t->cap) {
		const size_t cap = t->cap ? 2 * t->cap : 16;
		struct open_range *grown = realloc(t->open, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		t->open = grown;
		t->cap = cap;
	}
	t->open[t->n] = *range;
	t->open[t->n].depth = (uint32_t) t->n;
	t->n++;
	return 0;
}

/* Ends the range i of a thread. */
static int end_range(struct trace_decoder *d, struct thread *t, size_t i, uint64_t end_ns, uint32_t flags,
	const struct trace_sink *sink)
{
	struct open_range range = t->open[i];

	if (range.selected)
		notify_selector(d, range.selected, range.name, end_ns, false, &range.number);
	if (i + 1 < t->n)
		flags |= TRACE_CROSSING;
	for (size_t k = i + 1; k < t->n; k++) {
		t->open[k].flags |= TRACE_CROSSING;
		t->open[k - 1] = t->open[k];
	}
	t->n--;
	if (range.has_id)
		map_remove(&d->started, range.id);
	return emit_range(&range, end_ns, flags, sink);
}

static int pop(struct trace_decoder *d, struct thread *t, uint32_t domain, uint64_t time_ns, uint32_t flags,
	const struct trace_sink *sink)
{
	if (t->left_out > 0) {
		t->left_out--;
		return 0;
	}
	for (size_t i = t->n; i-- > 0;) {
		if (!t->open[i].has_id && t->open[i].domain == domain)
			return end_range(d, t, i, time_ns, flags, sink);
	}
	return 0;
}

static int end_by_id(struct trace_decoder *d, const struct thread *ender, uint64_t id, uint64_t time_ns,
	uint32_t flags, const struct trace_sink *sink)
{
	uint32_t of;

	if (!map_get(&d->started, id, &of))
		return 0;
	struct thread *t = &d->threads[of];

	if (t != ender)
		flags |= TRACE_CROSSING;
	for (size_t i = t->n; i-- > 0;) {
		if (t->open[i].has_id && t->open[i].id == id)
			return end_range(d, t, i, time_ns, flags, sink);
	}
	map_remove(&d->started, id);
	return 0;
}

static int decode_range(struct trace_decoder *d, struct thread *t, const struct trace_ring_head *event,
	uint64_t time_ns, uint32_t flags, const struct trace_sink *sink)
{
	const bool has_id = event->kind == TRACE_RING_START || event->kind == TRACE_RING_END;
	struct trace_ring_range body;
	int r;

	memcpy(&body, event + 1, sizeof(body));
	if (event->kind == TRACE_RING_POP)
		return pop(d, t, offset_of(d, body.domain, false), time_ns, flags, sink);
	if (event->kind == TRACE_RING_END)
		return end_by_id(d, t, body.id, time_ns, flags, sink);

	struct open_range range = {
		.start_ns = time_ns,
		.id = body.id,
		.flags = flags,
		.has_id = has_id,
		.domain = offset_of(d, body.domain, false),
	};

	r = site_of_thread(d, event->kind == TRACE_RING_MARK ? TRACE_MARK : TRACE_RANGE, t->tid,
		body.name, body.domain, sink, &range.site);
	if (r < 0)
		return r;
	if (event->kind == TRACE_RING_MARK) {
		const struct trace_event mark = {
			.kind = TRACE_MARK,
			.site = range.site,
			.flags = flags,
			.depth = (uint32_t) t->n,
			.start_ns = time_ns,
			.end_ns = time_ns,
		};

		return sink->event(sink->ctx, &mark);
	}
	if (d->selector && t->n < TRACE_OPEN_MOST && map_get(&d->selected, range.site, &range.selected)) {
		range.name = offset_of(d, body.name, true);
		notify_selector(d, range.selected, range.name, time_ns, true, &range.number);
	}
	if (has_id && t->n < TRACE_OPEN_MOST)
		r = map_put(&d->started, body.id, (uint32_t) (t - d->threads));
	return r < 0 ? r : begin_range(d, t, &range, sink);
}

static int decode_thread_name(struct trace_decoder *d, int32_t tid, const struct trace_ring_head *event,
	const struct trace_sink *sink)
{
	struct trace_ring_range body;
	char name[TEXT_MOST];

	memcpy(&body, event + 1, sizeof(body));
	text_at(d, offset_of(d, body.name, false), name);
	if (!name[0] || body.id > INT32_MAX)
		return 0;
	return sink->thread(sink->ctx, d->process, body.id ? (int64_t) body.id : tid, name);
}

/* ---- calls and work -------------------------------------------------------------------------- */

static int end_call(struct thread *t, uint64_t end_ns, uint32_t flags, const struct trace_sink *sink)
{
	const struct trace_event event = {
		.kind = TRACE_LAUNCH,
		.site = t->call_site,
		.flags = flags | (end_ns < t->call_ns ? TRACE_INVALID : 0),
		.start_ns = t->call_ns,
		.end_ns = end_ns,
		.correlation = t->call_correlation,
	};

	if (!t->in_call)
		return 0;
	t->in_call = false;
	return sink->event(sink->ctx, &event);
}

static int decode_call(struct trace_decoder *d, struct thread *t, const struct trace_ring_head *event,
	uint64_t time_ns, uint32_t flags, const struct trace_sink *sink)
{
	struct trace_ring_call body;
	uint32_t selected, number = 0;
	int r;

	memcpy(&body, event + 1, sizeof(body));
	if (event->kind == TRACE_RING_LEAVE) {
		if (body.correlation)
			t->call_correlation = body.correlation;
		return end_call(t, time_ns, flags, sink);
	}
	/* They do not nest: its end is missing, and so is its time. */
	r = end_call(t, time_ns, TRACE_UNCLOSED | TRACE_INVALID, sink);
	if (r == 0)
		r = site_of_thread(d, TRACE_LAUNCH, t->tid, body.name, 0, sink, &t->call_site);
	if (r < 0)
		return r;
	if (d->selector && map_get(&d->selected, t->call_site, &selected))
		notify_selector(d, selected, offset_of(d, body.name, true), time_ns, true, &number);
	t->in_call = true;
	t->call_ns = time_ns;
	t->call_correlation = body.correlation;
	return 0;
}

static int decode_memory(struct trace_decoder *d, const struct trace_ring_head *event, uint64_t time_ns,
	uint32_t flags, const struct trace_sink *sink)
{
	struct trace_ring_memory body;
	struct trace_event e = { .flags = flags, .start_ns = time_ns, .end_ns = time_ns };
	int r;

	memcpy(&body, event + 1, sizeof(body));
	e.kind = body.is_free ? TRACE_FREE : TRACE_ALLOC;
	e.bytes = body.bytes;
	e.address = body.address;
	e.correlation = body.correlation;
	if (body.site == 0)
		body.site = trace_site_unnamed(e.kind, -1);
	r = site_of_gpu(d, e.kind, body.site, sink, &e.site);
	return r < 0 ? r : sink->event(sink->ctx, &e);
}

static uint64_t before(uint64_t time_ns, uint32_t ns)
{
	return ns == UINT32_MAX || ns > time_ns ? 0 : time_ns - ns;
}

static int decode_work(struct trace_decoder *d, const struct trace_clock *clock,
	const struct trace_ring_head *event, uint64_t time_ns, uint32_t flags,
	const struct trace_sink *sink)
{
	struct trace_ring_work body;
	struct trace_event e = { .start_ns = time_ns };
	uint32_t kind;
	int r;

	memcpy(&body, event + 1, sizeof(body));
	e.end_ns = run_time(clock, body.end_ns, &flags);
	if (event->time_ns == 0 || body.end_ns < event->time_ns)
		flags |= TRACE_INVALID;
	e.flags = flags;
	e.queued_ns = before(time_ns, body.queued_before);
	e.submitted_ns = before(time_ns, body.submitted_before);
	e.correlation = body.correlation;
	e.bytes = body.bytes;
	if (body.site == 0)
		body.site = trace_site_unnamed(TRACE_KERNEL, -1);
	r = site_of_gpu(d, (enum trace_kind) 0, body.site, sink, &e.site);
	if (r < 0)
		return r;
	e.kind = map_get(&d->sites, gpu_key(KIND_OF_SITE, body.site), &kind) ? (enum trace_kind) kind
									     : TRACE_KERNEL;
	return sink->event(sink->ctx, &e);
}

/* ---- ends that are missing ------------------------------------------------------------------- */

static int close_thread(struct trace_decoder *d, struct thread *t, unsigned layers, uint64_t end_ns,
	uint32_t flags, const struct trace_sink *sink)
{
	int r = 0;

	if (layers & TRACE_LAUNCHES)
		r = end_call(t, end_ns > t->call_ns ? end_ns : t->call_ns, flags, sink);
	if (!(layers & TRACE_RANGES))
		return r;
	while (t->n > 0 && r == 0) {
		const uint64_t start_ns = t->open[t->n - 1].start_ns;

		r = end_range(d, t, t->n - 1, end_ns > start_ns ? end_ns : start_ns, flags, sink);
	}
	t->left_out = 0;
	return r;
}

/* Where events are missing. */
static int cut_thread(
	struct trace_decoder *d, struct thread *t, unsigned layers, const struct trace_sink *sink)
{
	return close_thread(d, t, layers, t->last_ns, TRACE_UNCLOSED | TRACE_INVALID, sink);
}

/* ---- events ---------------------------------------------------------------------------------- */

int trace_decode(struct trace_decoder *d, const struct trace_clock *clock, int32_t tid,
	const struct trace_ring_head *event, const struct trace_sink *sink)
{
	struct thread *t = thread_of(d, tid);
	uint32_t flags = event->flags & (TRACE_FAILED | TRACE_NODE | TRACE_INVALID);
	const uint64_t time_ns = run_time(clock, event->time_ns, &flags);
	int r = 0;

	if (!t)
		return sink->lost(sink->ctx, d->process, TRACE_LOST_THREADS, 1);
	if (event->flags & TRACE_RING_AFTER_LOSS)
		r = cut_thread(d, t, TRACE_ALL, sink);
	if (r < 0)
		return r;
	t->last_ns = time_ns;
	switch (event->kind) {
	case TRACE_RING_THREAD:
		r = decode_thread_name(d, tid, event, sink);
		break;
	case TRACE_RING_ENTER:
	case TRACE_RING_LEAVE:
		r = decode_call(d, t, event, time_ns, flags, sink);
		break;
	case TRACE_RING_MEMORY:
		r = decode_memory(d, event, time_ns, flags, sink);
		break;
	case TRACE_RING_WORK:
		r = decode_work(d, clock, event, time_ns, flags, sink);
		break;
	default:
		r = decode_range(d, t, event, time_ns, flags, sink);
	}
	return r == -EBADMSG ? sink->lost(sink->ctx, d->process, TRACE_LOST_DAMAGED, 1) : r;
}

int trace_decode_gap(struct trace_decoder *d, int32_t tid, const struct trace_sink *sink)
{
	int r = 0;

	for (size_t i = 0; i < d->n_threads && r == 0; i++) {
		if (tid < 0 || d->threads[i].tid == tid)
			r = cut_thread(d, &d->threads[i], TRACE_ALL, sink);
	}
	return r;
}

static bool is_among(int32_t tid, const int32_t *tids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (tids[i] == tid)
			return true;
	}
	return false;
}

int trace_decode_gap_of_others(
	struct trace_decoder *d, const int32_t *tids, size_t n, const struct trace_sink *sink)
{
	int r = 0;

	for (size_t i = 0; i < d->n_threads && r == 0; i++) {
		struct thread *t = &d->threads[i];

		if ((t->n > 0 || t->in_call) && !is_among(t->tid, tids, n))
			r = cut_thread(d, t, TRACE_ALL, sink);
	}
	return r;
}

int trace_decode_off(struct trace_decoder *d, unsigned layers, const struct trace_sink *sink)
{
	int r = 0;

	for (size_t i = 0; i < d->n_threads && r == 0; i++)
		r = cut_thread(d, &d->threads[i], layers, sink);
	return r;
}

int trace_decode_end(struct trace_decoder *d, uint64_t end_ns, const struct trace_sink *sink)
{
	int r = 0;

	for (size_t i = 0; i < d->n_threads && r == 0; i++)
		r = close_thread(d, &d->threads[i], TRACE_ALL, end_ns, TRACE_UNCLOSED, sink);
	return r;
}
