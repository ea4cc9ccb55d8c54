/* SPDX-License-Identifier: MIT
 *
 * The traced work of a recording in a few figures (summary/work.h), from its sums.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/handles.h"
#include "base/map.h"
#include "base/textwidth.h"
#include "record/trace/trace_read.h"
#include "sink/trace/trace_names.h"

enum {
	GROUPS_MOST = 1 << 20,
	SHOWN_COLUMNS = 60, /* of a name */
};

/* Sums of one kind and name over phases, streams and, of kernels, processes. */
struct group {
	enum trace_kind kind;
	uint32_t process;  /* 0: of all */
	int64_t tid;       /* of ranges; else -1 */
	const char *name, *domain; /* the reader's; equal texts have one address */
	uint64_t count, total_ns;
};

struct groups {
	struct group *list;
	size_t n, cap;
	struct map places; /* from a hash of the key */
};

static uint64_t key_of(const struct group *g, uint64_t salt)
{
	const uint64_t parts[] = { (uint64_t) g->kind, g->process, (uint64_t) g->tid,
		(uint64_t) (uintptr_t) g->name, (uint64_t) (uintptr_t) g->domain, salt };
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		hash = ((hash ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15)) ^ hash >> 29;
	return hash;
}

static bool is_same_group(const struct group *a, const struct group *b)
{
	return a->kind == b->kind && a->process == b->process && a->tid == b->tid && a->name == b->name &&
	       a->domain == b->domain;
}

static int group_add(struct groups *g, const struct group *more)
{
	uint64_t salt = 0, key = key_of(more, salt);
	uint32_t place;

	while (map_get(&g->places, key, &place) && !is_same_group(&g->list[place], more))
		key = key_of(more, ++salt);
	if (!map_get(&g->places, key, &place)) {
		if (vec_reserve(&g->list, &g->cap, g->n, sizeof(*g->list), GROUPS_MOST) < 0)
			return -ENOMEM;
		place = (uint32_t) g->n;
		if (map_put(&g->places, key, place) < 0)
			return -ENOMEM;
		g->list[g->n++] = *more;
		g->list[place].count = g->list[place].total_ns = 0;
	}
	g->list[place].count += more->count;
	g->list[place].total_ns += more->total_ns;
	return 0;
}

/* ---- what a name stands for -------------------------------------------------------------------- */

static bool has_word(const char *name, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcasestr(name, words[i]))
			return true;
	}
	return false;
}

static bool is_loading(const char *name)
{
	static const char *const words[] = { "dataload", "data_load", "data load", "load_data", "load data",
		"load_batch", "load batch", "next_batch", "next batch", "get_batch", "get batch", "fetch", "collate" };

	return has_word(name, words, sizeof(words) / sizeof(words[0])) || strcasecmp(name, "data") == 0;
}

static bool is_launch(const char *name)
{
	static const char *const words[] = { "launch", "EnqueueNDRange", "EnqueueTask" };

	return has_word(name, words, sizeof(words) / sizeof(words[0]));
}

static bool is_sync(const char *name)
{
	static const char *const words[] = { "Synchronize", "clFinish", "clWaitForEvents" };

	return has_word(name, words, sizeof(words) / sizeof(words[0]));
}

/* "DOMAIN: NAME" of a range, a kernel demangled; shortened in the middle. */
static void name_shown(const char *domain, const char *name, char ret[static WORK_NAME_BYTES])
{
	struct buf whole = BUF_INIT(1 << 16), out = BUF_INIT(WORK_NAME_BYTES - 1);

	if (*domain)
		(void) buf_printf(&whole, "%s: ", domain);
	trace_demangle(name, &whole);
	if (whole.error || text_shorten(whole.data, SHOWN_COLUMNS, false, &out) < 0)
		(void) snprintf(ret, WORK_NAME_BYTES, "%.60s", name);
	else
		(void) snprintf(ret, WORK_NAME_BYTES, "%s", out.data);
	buf_done(&whole);
	buf_done(&out);
}

/* ---- devices ------------------------------------------------------------------------------------- */

static bool is_between_host_and_device(const struct trace_stat *s)
{
	const bool from_host = s->source == TRACE_PAGEABLE || s->source == TRACE_PINNED;
	const bool to_host = s->target == TRACE_PAGEABLE || s->target == TRACE_PINNED;

	return s->kind == TRACE_COPY && from_host != to_host;
}

static void add_stat(struct work_device *d, const struct trace_busy *busy, const struct trace_stat *s)
{
	if (s->process != busy->process)
		return;
	if (s->kind == TRACE_KERNEL && s->device == busy->device) {
		d->n_kernels += s->count;
		d->kernels_ns += s->total_ns;
	} else if (is_between_host_and_device(s) && s->device == busy->device) {
		const bool is_pageable = s->source == TRACE_PAGEABLE || s->target == TRACE_PAGEABLE;

		d->copied_bytes += s->bytes;
		d->pageable_bytes += is_pageable ? s->bytes : 0;
		d->pageable_ns += is_pageable ? s->total_ns : 0;
	} else if (s->kind == TRACE_LAUNCH && is_launch(s->name)) {
		d->n_launches += s->count;
		d->launches_ns += s->total_ns;
	} else if (s->kind == TRACE_LAUNCH && is_sync(s->name)) {
		d->n_syncs += s->count;
		d->syncs_ns += s->total_ns;
	}
}

static void add_device(struct work *w, const struct trace_read *t, const struct trace_busy *busy)
{
	struct work_device *d;

	if (w->n_devices == WORK_DEVICES) {
		w->more_devices++;
		return;
	}
	d = &w->devices[w->n_devices++];
	*d = (struct work_device) {
		.number = busy->device,
		.window_ns = busy->traced_ns,
		.busy_ns = busy->busy_ns,
		.kernel_ns = busy->kernels_ns,
		.copy_ns = busy->copies_ns,
		.n_gaps = busy->gaps,
		.longest_gap_ns = busy->longest_ns,
		.longest_gap_at_ns = busy->longest_at_ns,
	};
	name_shown("", busy->name, d->name);
	for (size_t i = 0; i < trace_read_stat_count(t); i++)
		add_stat(d, busy, trace_read_stat(t, i));
}

/* The longest range of a thread of the device's process that loads data: a sum over several names would
 * count nested ones twice. */
static void find_loading(struct work_device *d, uint32_t process, const struct groups *g)
{
	const struct group *longest = NULL;

	for (size_t i = 0; i < g->n; i++) {
		const struct group *one = &g->list[i];

		if (one->kind == TRACE_RANGE && one->process == process && is_loading(one->name) &&
			(!longest || one->total_ns > longest->total_ns))
			longest = one;
	}
	if (longest) {
		d->loading_ns = longest->total_ns;
		name_shown(longest->domain, longest->name, d->loading);
	}
}

/* ---- names ----------------------------------------------------------------------------------------- */

static void insert_name(struct work_name *list, size_t *n, const struct group *g)
{
	size_t at = *n;

	while (at > 0 && list[at - 1].total_ns < g->total_ns)
		at--;
	if (at >= WORK_NAMES)
		return;
	for (size_t i = *n < WORK_NAMES ? *n : WORK_NAMES - 1; i > at; i--)
		list[i] = list[i - 1];
	list[at] = (struct work_name) { .count = g->count, .total_ns = g->total_ns };
	name_shown(g->domain, g->name, list[at].name);
	*n += *n < WORK_NAMES;
}

/* Sums over all processes, of kernels and ranges. */
static int find_names(struct work *w, const struct trace_read *t)
{
	struct groups g = { 0 };
	int r = 0;

	for (size_t i = 0; i < trace_read_stat_count(t) && r == 0; i++) {
		const struct trace_stat *s = trace_read_stat(t, i);

		const struct group more = { s->kind, 0, -1, s->name, s->domain, s->count, s->total_ns };

		if (s->kind == TRACE_KERNEL || s->kind == TRACE_RANGE)
			r = group_add(&g, &more);
	}
	for (size_t i = 0; i < g.n && r == 0; i++) {
		const bool is_kernel = g.list[i].kind == TRACE_KERNEL;

		insert_name(is_kernel ? w->kernels : w->ranges, is_kernel ? &w->n_kernels : &w->n_ranges,
			&g.list[i]);
	}
	map_done(&g.places);
	free(g.list);
	return r;
}

static int find_devices(struct work *w, const struct trace_read *t)
{
	struct groups g = { 0 };
	int r = 0;

	for (size_t i = 0; i < trace_read_stat_count(t) && r == 0; i++) {
		const struct trace_stat *s = trace_read_stat(t, i);
		const struct group more = { s->kind, s->process, s->tid, s->name, s->domain, s->count,
			s->total_ns };

		if (s->kind == TRACE_RANGE)
			r = group_add(&g, &more);
	}
	for (size_t i = 0; i < trace_read_busy_count(t) && r == 0; i++) {
		const struct trace_busy *busy = trace_read_busy(t, i);
		const size_t before = w->n_devices;

		add_device(w, t, busy);
		if (w->n_devices > before)
			find_loading(&w->devices[before], busy->process, &g);
	}
	map_done(&g.places);
	free(g.list);
	return r;
}

/* Where a device is in the list, which is in the order of the sums as far as there is room; n of them: it ran
 * nothing. */
static size_t busy_of(const struct trace_read *t, uint32_t process, int64_t device)
{
	size_t at = 0;

	for (; at < trace_read_busy_count(t); at++) {
		const struct trace_busy *busy = trace_read_busy(t, at);

		if (busy->process == process && busy->device == device)
			break;
	}
	return at;
}

/* Of devices without kernels, too. */
static void find_memory(struct work *w, const struct trace_read *t)
{
	for (size_t i = 0; i < trace_read_peak_count(t); i++) {
		const struct trace_peak *peak = trace_read_peak(t, i);
		size_t at;

		if (peak->memory != TRACE_PEAK_GPU)
			continue;
		at = busy_of(t, peak->process, peak->device);
		if (at == trace_read_busy_count(t)) {
			at = w->n_devices;
			add_device(w, t,
				&(struct trace_busy) {
					.process = peak->process, .device = peak->device, .name = "" });
		}
		if (at >= w->n_devices)
			continue;
		w->devices[at].memory_peak_bytes = peak->peak_bytes;
		w->devices[at].memory_peak_at_ns = peak->peak_at_ns;
		w->devices[at].memory_is_exact = peak->is_exact;
	}
}

static int find_failures(struct work *w, struct trace_read *t)
{
	struct trace_failure list[TRACE_FAILURES];
	size_t n;
	int r = trace_read_failures(t, list, &n, NULL);

	for (size_t i = 0; r == 0 && i < n && i < WORK_NAMES; i++) {
		name_shown("", list[i].text, w->failures[w->n_failures].text);
		w->failures[w->n_failures].count = list[i].count;
		w->failures[w->n_failures++].at_ns = list[i].at_ns;
	}
	return r;
}

static void find_counts(struct work *w, const struct trace_read *t)
{
	w->n_processes = trace_read_process_count(t);
	w->probe_bytes = trace_read_probe_bytes(t);
	for (size_t i = 0; i < trace_read_stat_count(t); i++) {
		w->n_events += trace_read_stat(t, i)->count;
		w->n_invalid += trace_read_stat(t, i)->invalid;
	}
	for (size_t i = 0; i < trace_read_lost_count(t); i++) {
		const struct trace_lost *lost = trace_read_lost(t, i);

		if (lost->cause != TRACE_LOST_THINNED && lost->cause != TRACE_LOST_NAMES)
			w->n_lost += lost->n;
	}
}

int work_read(struct replay *replay, struct work **ret)
{
	struct trace_read *t = NULL;
	struct work *w;
	int r = trace_read_new(replay, &t, NULL);

	*ret = NULL;
	if (r == -ENOENT)
		return 0;
	w = r == 0 ? calloc(1, sizeof(*w)) : NULL;
	if (r == 0 && !w)
		r = -ENOMEM;
	if (r == 0) {
		w->is_traced = true;
		find_counts(w, t);
		r = find_names(w, t);
	}
	if (r == 0)
		r = find_devices(w, t);
	if (r == 0)
		r = find_failures(w, t);
	if (r == 0)
		find_memory(w, t);
	trace_read_free(t);
	if (r < 0)
		free(w);
	else
		*ret = w;
	return r;
}
