/* SPDX-License-Identifier: MIT */
#include "record/trace/trace_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/trace/trace_internal.h"

enum {
	MOST_TRACE_ROWS_MB = 256
};

/* Spans of a device that are kept one by one: enough for a live run, whose events are out of order by a
 * second, and, of an import, for files that are in no order at all. */
static const struct trace_union_limits live = { 1 << 14, UINT64_C(2000000000), 1 << 18 };
static const struct trace_union_limits imported = { 1 << 18, 0, 1 << 18 };

/* ---- numbers --------------------------------------------------------------------------------- */

uint64_t trace_hash(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint64_t hash = 0x9e3779b97f4a7c15U ^ n, word;

	for (; n >= sizeof(word); n -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash = (hash ^ word) * 0xff51afd7ed558ccdU;
		hash ^= hash >> 32;
	}
	for (; n > 0; n--, p++)
		hash = (hash ^ *p) * 0x100000001b3U;
	hash = (hash ^ hash >> 29) * 0xc4ceb9fe1a85ec53U;
	return hash ^ hash >> 32;
}

/* Looks for an entry with this hash for which is_equal holds. Entries with one hash follow each other under
 * hash, hash + 1, ...; *ret_free is the key for the next one. */
static bool find(const struct map *places, uint64_t hash,
	bool (*is_equal)(const struct trace_write *w, uint32_t at, const void *key),
	const struct trace_write *w, const void *key, uint32_t *ret, uint64_t *ret_free)
{
	while (map_get(places, hash, ret)) {
		if (is_equal(w, *ret, key))
			return true;
		hash++;
	}
	*ret_free = hash;
	return false;
}

static bool name_equal(const struct trace_write *w, uint32_t at, const void *key)
{
	return strcmp(w->names[at], key) == 0;
}

int trace_put_name(struct trace_write *w, const char *text)
{
	const uint64_t hash = trace_hash(text, strlen(text));
	uint64_t place;
	uint32_t at;
	char *copy;

	if (find(&w->name_places, hash, name_equal, w, text, &at, &place))
		place = 0; /* a second one of a damaged file is a number all the same */
	if (vec_reserve(&w->names, &w->cap_names, w->n_names, sizeof(*w->names), TRACE_MOST_NAMES + 2) < 0)
		return -ENOMEM;
	copy = strdup(text);
	if (!copy || (place && map_put(&w->name_places, place, (uint32_t) w->n_names) < 0)) {
		free(copy);
		return -ENOMEM;
	}
	w->names[w->n_names++] = copy;
	w->name_bytes += strlen(text) + TRACE_NAME_COST;
	return 0;
}

static bool has_room(const struct trace_write *w, size_t len)
{
	const uint64_t half = w->options.limit_bytes / 2,
		       most = half < TRACE_MOST_NAME_BYTES ? half : TRACE_MOST_NAME_BYTES;

	return w->n_names < TRACE_MOST_NAMES && w->name_bytes + len + TRACE_NAME_COST <= most;
}

/* A copy of at most that many bytes, of whole characters. */
static char *copy_short(const char *text, size_t most)
{
	size_t n = strnlen(text, most + 1);

	if (n > most) {
		for (n = most; n > 0 && ((unsigned char) text[n] & 0xc0) == 0x80; n--)
			;
	}
	return strndup(text, n);
}

/* *ret is the number of the text, 0 for "". */
int trace_number_name(struct trace_write *w, const char *text, uint32_t process, uint32_t *ret)
{
	uint64_t place;
	uint32_t at;
	int r;

	*ret = 0;
	if (!text || !*text)
		return 0;
	if (find(&w->name_places, trace_hash(text, strlen(text)), name_equal, w, text, &at, &place)) {
		*ret = at + 1;
		return 0;
	}
	if (!has_room(w, strlen(text))) {
		trace_count_lost(w, process, TRACE_LOST_NAMES, 1);
		if (!w->names_full) {
			r = trace_put_name(w, "(names full)");
			if (r < 0)
				return r;
			w->names_full = (uint32_t) w->n_names;
		}
		*ret = w->names_full;
		return 0;
	}
	r = trace_put_name(w, text);
	*ret = (uint32_t) w->n_names;
	return r;
}

static bool site_equal(const struct trace_write *w, uint32_t at, const void *key)
{
	return memcmp(&w->sites[at].key, key, sizeof(struct site_key)) == 0;
}

int trace_put_site(struct trace_write *w, const struct site_key *key)
{
	uint64_t place;
	uint32_t at;

	if (find(&w->site_places, trace_hash(key, sizeof(*key)), site_equal, w, key, &at, &place))
		place = 0;
	if (vec_reserve(&w->sites, &w->cap_sites, w->n_sites, sizeof(*w->sites), 2 * TRACE_MOST_SITES) < 0 ||
		(place && map_put(&w->site_places, place, (uint32_t) w->n_sites) < 0))
		return -ENOMEM;
	w->sites[w->n_sites++] = (struct site_entry) { .key = *key };
	return 0;
}

static int number_site(struct trace_write *w, const struct site_key *key, uint32_t *ret)
{
	uint64_t place;
	uint32_t at;
	int r;

	if (find(&w->site_places, trace_hash(key, sizeof(*key)), site_equal, w, key, &at, &place)) {
		*ret = at + 1;
		return 0;
	}
	r = trace_put_site(w, key);
	*ret = (uint32_t) w->n_sites;
	return r;
}

int trace_site_twin(struct trace_write *w, uint32_t site, uint32_t *ret)
{
	enum {
		MOST_TWINS = 64
	};
	struct site_entry *entry = &w->sites[site - 1];
	struct site_key key = entry->key;
	int r;

	if (!entry->twin) {
		key.copy++;
		if (key.copy > MOST_TWINS || w->n_sites >= TRACE_MOST_SITES)
			return -EFBIG;
		r = number_site(w, &key, ret);
		if (r < 0)
			return r;
		w->sites[site - 1].twin = *ret;
	}
	*ret = w->sites[site - 1].twin;
	return 0;
}

/* ---- processes, threads, devices ------------------------------------------------------------- */

static bool process_equal(const struct trace_write *w, uint32_t at, const void *key)
{
	const struct trace_process *a = &w->processes[at].process, *b = key;

	return a->pid == b->pid && a->start_ns == b->start_ns && a->rank == b->rank &&
	       strcmp(a->origin, b->origin) == 0;
}

static uint64_t process_hash(const struct trace_process *p)
{
	const uint64_t parts[] = { (uint64_t) p->pid, p->start_ns, (uint64_t) p->rank };

	return trace_hash(parts, sizeof(parts)) ^ trace_hash(p->origin, strlen(p->origin));
}

int trace_put_process(struct trace_write *w, const struct trace_process *process)
{
	struct process_entry entry = { .process = *process };
	char *name = copy_short(process->name ? process->name : "", TRACE_SHORT_NAME);
	char *origin = copy_short(process->origin, TRACE_SHORT_NAME);
	uint64_t place;
	uint32_t at;

	entry.process.name = name;
	entry.process.origin = origin;
	if (find(&w->process_places, process_hash(process), process_equal, w, process, &at, &place))
		place = 0;
	if (!name || !origin ||
		vec_reserve(&w->processes, &w->cap_processes, w->n_processes, sizeof(entry),
			TRACE_MOST_PROCESSES) < 0 ||
		(place && map_put(&w->process_places, place, (uint32_t) w->n_processes) < 0)) {
		free(name);
		free(origin);
		return -ENOMEM;
	}
	w->processes[w->n_processes++] = entry;
	return 0;
}

static int sink_process(void *ctx, const struct trace_process *process, uint32_t *ret)
{
	struct trace_write *w = ctx;
	struct trace_process p = *process;
	uint64_t place;
	uint32_t at;

	p.name = p.name ? p.name : "";
	p.origin = p.origin ? p.origin : "";
	if (find(&w->process_places, process_hash(&p), process_equal, w, &p, &at, &place)) {
		struct trace_process *known = &w->processes[at].process;
		char *name = *p.name ? copy_short(p.name, TRACE_SHORT_NAME) : NULL;

		if (name && strcmp(name, known->name) != 0) { /* an exec, or a name that came later */
			free((void *) (uintptr_t) known->name);
			known->name = name;
			w->processes[at].is_written = false;
			name = NULL;
		}
		free(name);
		*ret = at + 1;
		return 0;
	}
	*ret = trace_put_process(w, &p) == 0 ? (uint32_t) w->n_processes : 0;
	return 0;
}

struct pair {
	uint32_t process;
	int64_t number;
};

static uint64_t pair_hash(const struct pair *pair)
{
	const uint64_t parts[] = { pair->process, (uint64_t) pair->number };

	return trace_hash(parts, sizeof(parts));
}

static bool thread_equal(const struct trace_write *w, uint32_t at, const void *key)
{
	const struct pair *pair = key;

	return w->threads[at].process == pair->process && w->threads[at].tid == pair->number;
}

static int add_thread(struct trace_write *w, const struct pair *pair, uint64_t place)
{
	struct process_entry *process = &w->processes[pair->process - 1];

	if (process->n_threads >= TRACE_MOST_THREADS || !has_room(w, TRACE_THREAD_NAME))
		return -EFBIG;
	if (vec_reserve(&w->threads, &w->cap_threads, w->n_threads, sizeof(*w->threads),
		    TRACE_MOST_NAMES) < 0 ||
		map_put(&w->thread_places, place, (uint32_t) w->n_threads) < 0)
		return -ENOMEM;
	w->threads[w->n_threads++] = (struct thread_entry) { .process = pair->process, .tid = pair->number };
	w->name_bytes += TRACE_THREAD_NAME + TRACE_NAME_COST; /* whatever it is called later */
	process->n_threads++;
	return 0;
}

int trace_put_thread(struct trace_write *w, uint32_t process, int64_t tid, const char *name)
{
	const struct pair pair = { process, tid };
	char *copy = copy_short(name, TRACE_THREAD_NAME);
	uint64_t place;
	uint32_t at;
	int r = copy ? 0 : -ENOMEM;

	if (r == 0 && !find(&w->thread_places, pair_hash(&pair), thread_equal, w, &pair, &at, &place)) {
		at = (uint32_t) w->n_threads;
		r = add_thread(w, &pair, place);
	}
	if (r < 0 || (w->threads[at].name && strcmp(w->threads[at].name, copy) == 0)) {
		free(copy);
		return r;
	}
	free(w->threads[at].name);
	w->threads[at].name = copy;
	w->threads[at].is_written = false;
	w->has_new_threads = true;
	return 0;
}

static int sink_thread(void *ctx, uint32_t process, int64_t tid, const char *name)
{
	struct trace_write *w = ctx;

	if (process > w->n_processes)
		return -EINVAL;
	if (process > 0 && trace_put_thread(w, process, tid, name ? name : "") < 0)
		trace_count_lost(w, process, TRACE_LOST_NAMES, 1);
	return 0;
}

static bool device_equal(const struct trace_write *w, uint32_t at, const void *key)
{
	const struct pair *pair = key;

	return w->devices[at].process == pair->process && w->devices[at].device == pair->number;
}

int trace_put_device(struct trace_write *w, uint32_t process, int64_t device, uint32_t *ret)
{
	const struct pair pair = { process, device };
	uint64_t place;

	if (find(&w->device_places, pair_hash(&pair), device_equal, w, &pair, ret, &place))
		return 0;
	if (vec_reserve(&w->devices, &w->cap_devices, w->n_devices, sizeof(*w->devices),
		    TRACE_MOST_DEVICES) < 0 ||
		map_put(&w->device_places, place, (uint32_t) w->n_devices) < 0)
		return -ENOMEM;
	*ret = (uint32_t) w->n_devices;
	w->devices[w->n_devices++] = (struct device_entry) { .process = process, .device = device };
	return 0;
}

static void name_device(struct trace_write *w, const struct trace_site *site)
{
	struct device_entry *device;
	uint32_t at;
	char *name;

	if (!site->device_name || !*site->device_name ||
		trace_put_device(w, site->process, site->device, &at) < 0)
		return;
	device = &w->devices[at];
	name = copy_short(site->device_name, TRACE_SHORT_NAME);
	if (!name || (device->name && strcmp(device->name, name) == 0)) {
		free(name);
		return;
	}
	free(device->name);
	device->name = name;
	device->is_written = false;
}

/* Without what makes for many sites: the shape, and then the thread or the stream. */
static void collapse(struct site_key *key, bool all)
{
	memset(key->grid, 0, sizeof(key->grid));
	memset(key->block, 0, sizeof(key->block));
	key->registers = key->shared_static = key->shared_dynamic = 0;
	key->context = 0;
	if (all) {
		key->stream = 0;
		key->tid = -1;
		key->device = -1;
	}
}

static bool is_work(enum trace_kind kind)
{
	return kind == TRACE_KERNEL || kind == TRACE_COPY || kind == TRACE_FILL;
}

static bool is_of_device(enum trace_kind kind)
{
	return is_work(kind) || kind == TRACE_ALLOC || kind == TRACE_FREE;
}

static int sink_site(void *ctx, const struct trace_site *site, uint32_t *ret)
{
	struct trace_write *w = ctx;
	const bool of_device = is_of_device(site->kind);
	struct site_key key;
	int r;

	*ret = 0;
	if (site->kind >= TRACE_KIND_COUNT || site->process > w->n_processes ||
		site->source >= TRACE_MEMORY_COUNT || site->target >= TRACE_MEMORY_COUNT)
		return -EINVAL;
	if (site->process == 0)
		return 0;
	memset(&key, 0, sizeof(key));
	key.kind = site->kind;
	key.process = site->process;
	key.tid = of_device ? -1 : site->tid;
	key.device = of_device ? site->device : -1;
	key.context = site->context;
	key.stream = of_device ? site->stream : 0;
	memcpy(key.grid, site->grid, sizeof(key.grid));
	memcpy(key.block, site->block, sizeof(key.block));
	key.registers = site->registers;
	key.shared_static = site->shared_static;
	key.shared_dynamic = site->shared_dynamic;
	key.source = site->source;
	key.target = site->target;
	r = trace_number_name(w, site->name, site->process, &key.name);
	if (r == 0)
		r = trace_number_name(w, site->domain, site->process, &key.domain);
	if (of_device)
		name_device(w, site);
	if (w->n_sites >= TRACE_MOST_SITES / 2)
		collapse(&key, w->n_sites >= TRACE_MOST_SITES);
	if (r == 0)
		r = number_site(w, &key, ret);
	if (r < 0)
		*ret = 0;
	return 0;
}

/* ---- phases ---------------------------------------------------------------------------------- */

void trace_write_phase(struct trace_write *w, uint64_t time_ns, uint32_t phase)
{
	enum {
		MOST_CHANGES = 1 << 22
	};

	if (w->n_phases > 0 && w->phases[w->n_phases - 1].time_ns >= time_ns)
		time_ns = w->phases[w->n_phases - 1].time_ns;
	if (w->n_phases > 0 && w->phases[w->n_phases - 1].time_ns == time_ns)
		w->phases[w->n_phases - 1].phase = phase;
	else if (vec_reserve(&w->phases, &w->cap_phases, w->n_phases, sizeof(*w->phases), MOST_CHANGES) == 0)
		w->phases[w->n_phases++] = (struct phase_change) { .time_ns = time_ns, .phase = phase };
}

uint32_t trace_phase_at(struct trace_write *w, uint64_t time_ns)
{
	uint32_t phase = 0;
	size_t low = 0, high;

	high = w->n_phases;
	if (high > 0 && w->phases[high - 1].time_ns <= time_ns)
		low = high;
	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (w->phases[middle].time_ns <= time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low > 0)
		phase = w->phases[low - 1].phase;
	return phase;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static bool stat_equal(const struct trace_write *w, uint32_t at, const void *key)
{
	return memcmp(&w->stats[at].key, key, sizeof(struct stat_key)) == 0;
}

int trace_put_stat(struct trace_write *w, const struct stat_key *key, struct stat_entry **ret)
{
	uint64_t place;
	uint32_t at;

	if (!find(&w->stat_places, trace_hash(key, sizeof(*key)), stat_equal, w, key, &at, &place)) {
		at = (uint32_t) w->n_stats;
		if (vec_reserve(&w->stats, &w->cap_stats, w->n_stats, sizeof(*w->stats),
			    TRACE_MOST_SITES) < 0 ||
			map_put(&w->stat_places, place, at) < 0)
			return -ENOMEM;
		w->stats[w->n_stats++] = (struct stat_entry) { .key = *key, .min_ns = UINT64_MAX };
	}
	*ret = &w->stats[at];
	return 0;
}

int trace_stat_of(struct trace_write *w, uint32_t site, uint32_t phase, uint32_t *ret)
{
	struct site_entry *entry = &w->sites[site - 1];
	struct stat_entry *stat;
	struct stat_key key;
	uint64_t place;
	int r;

	if (entry->stat && entry->stat_phase == phase) {
		*ret = entry->stat - 1;
		return 0;
	}
	memset(&key, 0, sizeof(key));
	key.stream = entry->key.stream;
	key.tid = entry->key.tid;
	key.device = entry->key.device;
	key.kind = entry->key.kind;
	key.process = entry->key.process;
	key.name = entry->key.name;
	key.domain = entry->key.domain;
	key.source = entry->key.source;
	key.target = entry->key.target;
	key.phase = phase;
	if (!find(&w->stat_places, trace_hash(&key, sizeof(key)), stat_equal, w, &key, ret, &place)) {
		if (w->n_stats >= TRACE_MOST_STATS)
			key.phase = TRACE_PHASE_MIXED;
		if (w->n_stats >= TRACE_MOST_DIVIDED) {
			key.tid = -1;
			key.stream = 0;
		}
		r = trace_put_stat(w, &key, &stat);
		if (r < 0)
			return r;
		*ret = (uint32_t) (stat - w->stats);
	}
	entry->stat = *ret + 1;
	entry->stat_phase = phase;
	return 0;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b < a || a + b > INT64_MAX ? INT64_MAX : a + b;
}

/* Have a duration, so that min, max and the histogram mean something. */
static bool is_stretch(enum trace_kind kind)
{
	return kind != TRACE_MARK && kind != TRACE_ALLOC && kind != TRACE_FREE;
}

static int count_event(struct stat_entry *stat, const struct trace_event *e, enum trace_kind kind)
{
	const uint64_t ns = is_stretch(kind) ? e->end_ns - e->start_ns : 0;

	stat->is_changed = true;
	stat->count++;
	stat->bytes = sum(stat->bytes, e->bytes);
	stat->total_ns = sum(stat->total_ns, ns);
	stat->sum_squares += (double) ns * (double) ns;
	if (ns < stat->min_ns)
		stat->min_ns = ns;
	if (ns > stat->max_ns)
		stat->max_ns = ns;
	return is_stretch(kind) ? trace_histogram_add(&stat->histogram, ns, 1) : 0;
}

static bool is_invalid(const struct trace_event *e, enum trace_kind kind)
{
	if ((e->flags & TRACE_INVALID) || e->start_ns > INT64_MAX)
		return true;
	if (!is_stretch(kind))
		return false;
	return e->end_ns < e->start_ns || e->end_ns > INT64_MAX || (is_work(kind) && e->end_ns == 0);
}

static int count_busy(
	struct trace_write *w, struct device_entry *device, enum trace_kind kind, const struct trace_event *e)
{
	int r = trace_union_add(&device->busy, kind == TRACE_KERNEL, e->start_ns, e->end_ns);

	device->has_work = true;
	if (r < 0)
		return r;
	return trace_union_trim(
		&device->busy, w->options.rows_a_second ? &live : &imported, w->spans, w->n_spans);
}

/* Adds it to the sums. Returns 0, or -ENOMEM: it is not in all of them. */
static int count(struct trace_write *w, const struct site_key *site, const struct trace_event *e,
	uint32_t stat, uint32_t device)
{
	const enum trace_kind kind = (enum trace_kind) site->kind;
	int r = count_event(&w->stats[stat], e, kind);

	if (e->start_ns > w->last_ns)
		w->last_ns = e->start_ns;
	if (is_stretch(kind) && e->end_ns > w->last_ns)
		w->last_ns = e->end_ns;
	if (r == 0 && (kind == TRACE_ALLOC || kind == TRACE_FREE))
		r = trace_peak_add(w, site, e, kind == TRACE_FREE);
	if (r == 0 && is_work(kind))
		r = count_busy(w, &w->devices[device], kind, e);
	return r;
}

/* Without a process or a site, because there are too many of them (see sink_process), it is lost. */
static int sink_event(void *ctx, const struct trace_event *event)
{
	static const struct site_key nothing = { .kind = TRACE_RANGE };
	struct trace_write *w = ctx;
	uint32_t at, device = 0;
	int r = event->site > 0 ? 0 : -EFBIG;

	if (event->site > w->n_sites)
		return -EINVAL;
	const struct site_key site = event->site > 0 ? w->sites[event->site - 1].key : nothing;
	const enum trace_kind kind = (enum trace_kind) site.kind;
	const bool invalid = is_invalid(event, kind);

	if (r == 0)
		r = trace_stat_of(w, event->site, invalid ? 0 : trace_phase_at(w, event->start_ns), &at);
	if (r == 0 && is_work(kind) && !invalid)
		r = trace_put_device(w, site.process, site.device, &device);
	if (r == 0 && invalid) {
		w->stats[at].invalid++;
		w->stats[at].is_changed = true;
		return 0;
	}
	if (r == 0)
		r = count(w, &site, event, at, device);
	if (r == 0)
		return trace_rows_put(w, event, at);
	trace_count_lost(w, site.process, TRACE_LOST_DAMAGED, 1);
	return 0;
}

/* ---- losses, windows ------------------------------------------------------------------------- */

void trace_count_lost(struct trace_write *w, uint32_t process, enum trace_loss cause, uint64_t n)
{
	uint64_t *lost = process ? w->processes[process - 1].lost : w->lost;

	lost[cause] = sum(lost[cause], n);
	if (process)
		w->processes[process - 1].is_lost_written = false;
	else
		w->is_lost_written = false;
}

void trace_uncount_lost(struct trace_write *w, uint32_t process, enum trace_loss cause, uint64_t n)
{
	uint64_t *lost = &w->processes[process - 1].lost[cause];

	*lost -= n < *lost ? n : *lost;
	w->processes[process - 1].is_lost_written = false;
}

uint64_t trace_lost_work(const struct trace_write *w, uint32_t process)
{
	const uint64_t *lost = w->processes[process - 1].lost;

	return sum(lost[TRACE_LOST_OVERWRITTEN], lost[TRACE_LOST_DROPPED]);
}

static int sink_lost(void *ctx, uint32_t process, enum trace_loss cause, uint64_t n)
{
	struct trace_write *w = ctx;

	if (process > w->n_processes || cause >= TRACE_LOSS_COUNT)
		return -EINVAL;
	trace_count_lost(w, process, cause, n);
	return 0;
}

static int by_begin(const void *a, const void *b)
{
	const struct trace_span *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* The windows as disjoint spans. */
static int join_windows(struct trace_write *w)
{
	size_t n = 0;

	while (w->cap_spans < w->n_windows) {
		if (vec_reserve(&w->spans, &w->cap_spans, w->cap_spans, sizeof(*w->spans),
			    TRACE_MOST_WINDOWS) < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < w->n_windows; i++) {
		if (w->windows[i].end_ns != UINT64_MAX && w->windows[i].end_ns > w->windows_end_ns)
			w->windows_end_ns = w->windows[i].end_ns;
		w->spans[i] = (struct trace_span) { w->windows[i].begin_ns, w->windows[i].end_ns };
	}
	if (w->n_windows > 1)
		qsort(w->spans, w->n_windows, sizeof(*w->spans), by_begin);
	for (size_t i = 0; i < w->n_windows; i++) {
		if (n > 0 && w->spans[i].begin <= w->spans[n - 1].end) {
			if (w->spans[i].end > w->spans[n - 1].end)
				w->spans[n - 1].end = w->spans[i].end;
		} else {
			w->spans[n++] = w->spans[i];
		}
	}
	w->n_spans = n;
	return 0;
}

int trace_put_window(struct trace_write *w, uint64_t begin_ns, uint64_t end_ns, const char *why)
{
	char *copy = strdup(why);

	if (!copy || vec_reserve(&w->windows, &w->cap_windows, w->n_windows, sizeof(*w->windows),
			     TRACE_MOST_WINDOWS) < 0) {
		free(copy);
		return -ENOMEM;
	}
	w->windows[w->n_windows++] =
		(struct window_entry) { begin_ns, end_ns, .sent_ns = begin_ns, .why = copy };
	return join_windows(w);
}

/* Takes the gap out of a window: what is behind it is one more. Without a place for that, the window ends. */
static void cut_window(struct trace_write *w, size_t i)
{
	const struct trace_span *gap = &w->gap;
	struct window_entry *window = &w->windows[i];
	const uint64_t begin = window->begin_ns, end_ns = window->end_ns;

	if (end_ns <= gap->begin || begin >= gap->end)
		return;
	window->is_written = false;
	if (begin >= gap->begin) {
		window->begin_ns = end_ns < gap->end ? end_ns : gap->end;
		return;
	}
	window->end_ns = gap->begin;
	if (end_ns > gap->end && trace_put_window(w, gap->end, end_ns, window->why) == 0)
		w->windows[w->n_windows - 1].sent_ns = w->windows[i].sent_ns;
}

int trace_write_gap(struct trace_write *w, uint64_t begin_ns, uint64_t end_ns)
{
	const size_t n = w->n_windows;

	if (begin_ns >= end_ns)
		return 0;
	w->gap = (struct trace_span) { begin_ns, end_ns };
	for (size_t i = 0; i < n; i++)
		cut_window(w, i);
	return join_windows(w);
}

/* Another end of a window that was sent before, of all its parts. Returns false if it was not. */
static bool end_window(struct trace_write *w, uint64_t begin_ns, uint64_t end_ns, const char *why)
{
	bool is_last = true;

	for (size_t i = w->n_windows; i-- > 0;) {
		struct window_entry *window = &w->windows[i];
		uint64_t end = end_ns;

		if (window->sent_ns != begin_ns || strcmp(window->why, why) != 0)
			continue;
		if (!is_last && end > window->end_ns)
			end = window->end_ns;
		if (end < window->begin_ns)
			end = window->begin_ns;
		window->is_written = window->is_written && window->end_ns == end;
		window->end_ns = end;
		is_last = false;
	}
	return !is_last;
}

static int sink_window(void *ctx, uint64_t begin_ns, uint64_t end_ns, const char *why)
{
	struct trace_write *w = ctx;
	int r = 0;

	why = why ? why : "";
	if (end_window(w, begin_ns, end_ns, why))
		return join_windows(w);
	if (w->n_windows >= TRACE_MOST_WINDOWS) { /* one that lasts is more than none */
		w->windows[w->n_windows - 1].end_ns = end_ns;
		w->windows[w->n_windows - 1].is_written = false;
		return join_windows(w);
	}
	r = trace_put_window(w, begin_ns, end_ns, why);
	if (r == 0)
		cut_window(w, w->n_windows - 1);
	return r == 0 ? join_windows(w) : r;
}

static int sink_probe(void *ctx, uint64_t bytes)
{
	struct trace_write *w = ctx;

	return w->has_tables ? store_meta_int(w->s, "trace_probe_bytes", (int64_t) bytes) : 0;
}

int trace_write_end(struct trace_write *w, uint64_t end_ns)
{
	w->windows_end_ns = 0;
	for (size_t i = 0; i < w->n_windows; i++) {
		struct window_entry *window = &w->windows[i];

		if (window->end_ns <= end_ns)
			continue;
		window->end_ns = end_ns;
		if (window->begin_ns > end_ns)
			window->begin_ns = end_ns;
		window->is_written = false;
	}
	return join_windows(w);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct trace_write *trace_write_new(struct store *s, const struct trace_write_options *options)
{
	struct trace_write *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->s = s;
	w->options = *options;
	if (w->options.limit_bytes == 0)
		w->options.limit_bytes = (uint64_t) MOST_TRACE_ROWS_MB << 20;
	w->is_lost_written = true;
	w->sink = (struct trace_sink) {
		.process = sink_process,
		.site = sink_site,
		.event = sink_event,
		.thread = sink_thread,
		.lost = sink_lost,
		.window = sink_window,
		.probe = sink_probe,
		.ctx = w,
	};
	if (trace_load(w) < 0) {
		trace_write_free(w);
		return NULL;
	}
	return w;
}

void trace_write_free(struct trace_write *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->n_processes; i++) {
		free((void *) (uintptr_t) w->processes[i].process.name);
		free((void *) (uintptr_t) w->processes[i].process.origin);
	}
	for (size_t i = 0; i < w->n_names; i++)
		free(w->names[i]);
	for (size_t i = 0; i < w->n_stats; i++)
		trace_histogram_done(&w->stats[i].histogram);
	for (size_t i = 0; i < w->n_threads; i++)
		free(w->threads[i].name);
	for (size_t i = 0; i < w->n_devices; i++) {
		free(w->devices[i].name);
		trace_union_done(&w->devices[i].busy);
	}
	for (size_t i = 0; i < w->n_windows; i++)
		free(w->windows[i].why);
	free(w->processes);
	free(w->names);
	free(w->sites);
	free(w->stats);
	free(w->threads);
	free(w->devices);
	free(w->peaks);
	free(w->changes);
	free(w->windows);
	free(w->spans);
	free(w->phases);
	free(w->pending);
	free(w->twin_hints);
	map_done(&w->process_places);
	map_done(&w->name_places);
	map_done(&w->site_places);
	map_done(&w->stat_places);
	map_done(&w->thinned);
	map_done(&w->thread_places);
	map_done(&w->device_places);
	map_done(&w->peak_places);
	free(w);
}

bool trace_write_has_failed(const struct trace_write *w)
{
	return w->has_failed;
}

bool trace_write_has_events(const struct trace_write *w)
{
	return w->n_stats > 0;
}

const struct trace_sink *trace_write_sink(struct trace_write *w)
{
	return &w->sink;
}

static int64_t pages_used(struct store *s)
{
	uint64_t used = 0, all = 0;

	(void) store_pages(s, &used, &all);
	return (int64_t) used;
}

void trace_write_begins(struct trace_write *w)
{
	if (!w->is_flushed)
		return;
	w->is_flushed = false;
	w->flushed_pages = w->pages;
	for (size_t i = 0; i < w->n_stats; i++)
		w->stats[i].added = w->stats[i].removed = 0;
}

int trace_write_flush(struct trace_write *w)
{
	int64_t before;
	int r;

	trace_write_begins(w);
	if (!w->has_tables && w->n_processes == 0 && w->n_windows == 0 && w->is_lost_written)
		return 0;
	r = trace_rows_spill(w);
	before = pages_used(w->s);
	if (r == 0)
		r = trace_flush_keys(w);
	if (r == 0)
		r = trace_rows_thin(w);
	if (r == 0)
		r = trace_flush_sums(w);
	w->pages += pages_used(w->s) - before;
	w->s->trace_pages = w->pages > 0 ? (uint64_t) w->pages : 0;
	w->is_flushed = true;
	return r;
}

void trace_write_rolled_back(struct trace_write *w)
{
	w->has_tables = w->has_failed = false;
	w->written_names = w->written_sites = 0;
	w->has_new_threads = true;
	w->is_lost_written = false;
	w->pages = w->flushed_pages;
	w->s->trace_pages = w->pages > 0 ? (uint64_t) w->pages : 0;
	for (size_t i = 0; i < w->n_processes; i++)
		w->processes[i].is_lost_written = w->processes[i].is_written = false;
	for (size_t i = 0; i < w->n_threads; i++)
		w->threads[i].is_written = false;
	for (size_t i = 0; i < w->n_windows; i++)
		w->windows[i].is_written = false;
	for (size_t i = 0; i < w->n_devices; i++)
		w->devices[i].is_written = false;
	for (size_t i = 0; i < w->n_peaks; i++)
		w->peaks[i].is_written = false;
	for (size_t i = 0; i < w->n_stats; i++) {
		struct stat_entry *stat = &w->stats[i];
		const enum trace_table table = trace_table_of((enum trace_kind) stat->key.kind);

		stat->rows = stat->rows + stat->removed - stat->added;
		w->rows[table] = w->rows[table] + stat->removed - stat->added;
		trace_count_lost(w, stat->key.process, TRACE_LOST_THINNED, stat->added);
		trace_uncount_lost(w, stat->key.process, TRACE_LOST_THINNED, stat->removed);
		stat->added = stat->removed = 0;
		stat->is_changed = true;
	}
}
