/* SPDX-License-Identifier: MIT
 *
 * The most memory that calls of a process had allocated at once, by device and kind: from all allocations and
 * releases, also those that have no row.
 *
 * Events of several threads arrive out of order by a moment: they wait, are sorted by time, and count for good
 * when they are older than what may still come. What waits is in the figures of a flush all the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/trace/trace_internal.h"

enum {
	MOST_WAITING = 1 << 16,
};
static const uint64_t out_of_order_ns = 1000000000;

static bool is_of_gpu(uint32_t memory)
{
	return memory == TRACE_DEVICE || memory == TRACE_ARRAY || memory == TRACE_MANAGED;
}

static uint64_t key_of(uint32_t process, int64_t device, uint32_t memory, uint64_t salt)
{
	const uint64_t parts[] = { process, (uint64_t) device, memory, salt };

	return trace_hash(parts, sizeof(parts));
}

int trace_put_peak(
	struct trace_write *w, uint32_t process, int64_t device, uint32_t memory, uint32_t *ret)
{
	uint64_t salt = 0;

	while (map_get(&w->peak_places, key_of(process, device, memory, salt), ret)) {
		const struct peak_entry *p = &w->peaks[*ret];

		if (p->process == process && p->device == device && p->memory == memory)
			return 0;
		salt++;
	}
	if (vec_reserve(&w->peaks, &w->cap_peaks, w->n_peaks, sizeof(*w->peaks), TRACE_MOST_PROCESSES) < 0 ||
		map_put(&w->peak_places, key_of(process, device, memory, salt), (uint32_t) w->n_peaks) < 0)
		return -ENOMEM;
	*ret = (uint32_t) w->n_peaks;
	w->peaks[w->n_peaks++] =
		(struct peak_entry) { .process = process, .device = device, .memory = memory };
	return 0;
}

static void apply(struct peak_sums *sums, const struct memory_change *c)
{
	if (c->is_release) {
		sums->live -= c->bytes < sums->live ? c->bytes : sums->live;
		return;
	}
	sums->live = sums->live + c->bytes < sums->live ? UINT64_MAX : sums->live + c->bytes;
	if (sums->live > sums->peak) {
		sums->peak = sums->live;
		sums->at_ns = c->time_ns;
	}
}

/* Of equal times in the order of arrival. */
static int by_time(const void *a, const void *b)
{
	const struct memory_change *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Counts the changes for good that are old enough, or the older half if there are many. */
static void settle(struct trace_write *w)
{
	size_t n = 0;

	if (w->n_changes == 0)
		return;
	qsort(w->changes, w->n_changes, sizeof(*w->changes), by_time);
	while (n < w->n_changes &&
		(w->changes[n].time_ns + out_of_order_ns < w->changes[w->n_changes - 1].time_ns ||
			w->n_changes - n > MOST_WAITING / 2)) {
		apply(&w->peaks[w->changes[n].peak].sums, &w->changes[n]);
		n++;
	}
	memmove(w->changes, w->changes + n, (w->n_changes - n) * sizeof(*w->changes));
	w->n_changes -= n;
}

static int add_change(struct trace_write *w, const struct site_key *site, uint32_t memory,
	const struct trace_event *e, bool is_release)
{
	uint32_t at;
	int r = trace_put_peak(w, site->process, site->device, memory, &at);

	if (r == 0 && w->n_changes >= MOST_WAITING)
		settle(w);
	if (r < 0 ||
		vec_reserve(&w->changes, &w->cap_changes, w->n_changes, sizeof(*w->changes), 2 * MOST_WAITING) <
			0)
		return -ENOMEM;
	w->changes[w->n_changes++] = (struct memory_change) {
		.time_ns = e->start_ns,
		.bytes = e->bytes,
		.number = w->changes_seen++,
		.peak = at,
		.is_release = is_release,
	};
	return 0;
}

int trace_peak_add(struct trace_write *w, const struct site_key *site, const struct trace_event *e, bool is_release)
{
	int r = 0;

	if (e->bytes == 0 || e->bytes > INT64_MAX || site->target == TRACE_MEMORY_UNKNOWN)
		return 0;
	r = add_change(w, site, site->target, e, is_release);
	if (r == 0 && is_of_gpu(site->target))
		r = add_change(w, site, TRACE_PEAK_GPU, e, is_release);
	return r;
}

static int put_peak(struct trace_write *w, const struct peak_entry *p)
{
	sqlite3_stmt *st = store_cached(w->s, "INSERT OR REPLACE INTO trace_peak VALUES(?,?,?,?,?,?)");

	if (!st)
		return store_step(w->s, NULL);
	(void) sqlite3_bind_int64(st, 1, p->process);
	(void) sqlite3_bind_int64(st, 2, p->device);
	store_bind_text(st, 3, trace_peak_name(p->memory));
	store_bind_time(st, 4, p->shown.live);
	store_bind_time(st, 5, p->shown.peak);
	store_bind_time(st, 6, p->shown.at_ns);
	return store_step(w->s, st);
}

int trace_flush_peaks(struct trace_write *w)
{
	int r = 0;

	settle(w);
	for (size_t i = 0; i < w->n_peaks; i++)
		w->peaks[i].shown = w->peaks[i].sums;
	for (size_t i = 0; i < w->n_changes; i++)
		apply(&w->peaks[w->changes[i].peak].shown, &w->changes[i]);
	for (size_t i = 0; i < w->n_peaks && r == 0; i++) {
		struct peak_entry *p = &w->peaks[i];

		if (p->is_written && memcmp(&p->shown, &p->written, sizeof(p->shown)) == 0)
			continue;
		r = put_peak(w, p);
		p->written = p->shown;
		p->is_written = r == 0;
	}
	return r;
}
