/* SPDX-License-Identifier: MIT */
#include "findings/growth.h"

enum {
	GROWTH_PARTS = 20,  /* a growth below 5 % of the memory at its end is not reported */
	FLAT_PARTS = 50,    /* levels within 2 % of the rise are flat */
	REST_PARTS = 4,     /* flat for a quarter of the time of a growth: it paused, and began anew after it */
	FALL_PARTS = 10,    /* a fall by a tenth ends a growth */
	REACHED_PERCENT = 80, /* of the victim's peak: samples that reach it cover the growth */
	FEW_BUCKETS = 3     /* fewer cannot distinguish steady growth from a jump */
};

int64_t growth_least(struct maybe limit)
{
	enum {
		LIMIT_PARTS = 20,
		ENOUGH = 8 << 20 /* of any limit, a machine's memory too */
	};

	return limit.known && limit.value / LIMIT_PARTS < ENOUGH ? limit.value / LIMIT_PARTS : ENOUGH;
}

/* ---- by samples ------------------------------------------------------------------------------------------------------- */

/* The victim's memory at its last sample; 0: no sample found it. */
static int64_t last_sample_of(const struct incident_moment *moment, const struct process *victim)
{
	for (size_t i = 0; i < moment->n_uses; i++) {
		if (moment->uses[i].id == victim->id)
			return moment->uses[i].bytes;
	}
	return 0;
}

/* Did the level fall because the victim ended, and not because memory was freed before it grew?
 * True if the victim existed at the highest level and the fall is at most its memory, or if its end
 * was very near (the kernel reclaims memory of a victim before it ends). */
static bool is_left_behind(const struct incident_moment *moment, const struct process *victim, size_t highest)
{
	static const uint64_t very_near_ns = 300000000;
	const struct incident_level *top = &moment->levels[highest],
				    *last = &moment->levels[moment->n_levels - 1];
	const int64_t bytes = last_sample_of(moment, victim);

	if (victim->born_ns > top->time_ns)
		return false;
	return top->bytes - last->bytes <= bytes + bytes / FALL_PARTS ||
	       top->time_ns + very_near_ns >= moment->at_ns;
}

/* Number of levels without those at the end that were sampled after the victim's memory was
 * released. */
static size_t until_the_fall(const struct incident_moment *moment, const struct process *victim)
{
	static const uint64_t near_ns = 1500000000;
	const struct incident_level *levels = moment->levels;
	size_t n = moment->n_levels, highest = n;

	for (size_t i = n; i-- > 0 && levels[i].time_ns + near_ns >= moment->at_ns;) {
		if (highest == n || levels[i].bytes > levels[highest].bytes)
			highest = i;
	}
	return highest < n && is_left_behind(moment, victim, highest) ? highest + 1 : n;
}

/* The last level; the victim's peak at its end where it grew faster than the samples show. */
static struct incident_level end_of(
	const struct incident_moment *moment, const struct process *victim, size_t n)
{
	const struct incident_level last = moment->levels[n - 1];

	if (!victim || n < moment->n_levels || moment->at_ns <= last.time_ns ||
		last.bytes >= victim->peak_bytes / 100 * REACHED_PERCENT)
		return last;
	return (struct incident_level) { moment->at_ns, victim->peak_bytes };
}

/* Index of the last level of the last rest from first on after which memory grew again, which is first
 * if there is none. A rest at the top does not undo the growth before it. */
static size_t end_of_rest(const struct incident_level *levels, size_t first, size_t n,
	const struct incident_level *end, int64_t rise)
{
	const uint64_t least_ns = (end->time_ns - levels[first].time_ns) / REST_PARTS;

	for (size_t last = n; last-- > first + 1;) {
		int64_t low = levels[last].bytes, high = low;

		if (end->bytes - low <= end->bytes / GROWTH_PARTS)
			continue;
		for (size_t i = last; i-- > first;) {
			low = levels[i].bytes < low ? levels[i].bytes : low;
			high = levels[i].bytes > high ? levels[i].bytes : high;
			if (high - low > rise / FLAT_PARTS)
				break;
			if (levels[last].time_ns - levels[i].time_ns >= least_ns)
				return last;
		}
	}
	return first;
}

/* Index of the last valley. A fall of less than a twentieth of the rise is no valley, and flat
 * levels before the rise are no growth. */
static size_t foot_of_levels(const struct incident_level *levels, size_t n, const struct incident_level *end)
{
	int64_t top = end->bytes, low = end->bytes;
	size_t first = n;

	while (first > 0 &&
		levels[first - 1].bytes <= low + (top - low) / GROWTH_PARTS + top / GROWTH_PARTS) {
		first--;
		low = levels[first].bytes < low ? levels[first].bytes : low;
		top = levels[first].bytes > top ? levels[first].bytes : top;
	}
	for (size_t i = first; i < n; i++) {
		if (levels[i].bytes <= low + (top - low) / FLAT_PARTS)
			first = i;
	}
	return first < n && end->time_ns > levels[first].time_ns
		       ? end_of_rest(levels, first, n, end, top - low)
		       : first;
}

struct growth growth_of_levels(const struct incident_moment *moment, const struct process *victim)
{
	const struct incident_level *levels = moment->levels;
	const size_t n = victim && moment->n_levels > 0 ? until_the_fall(moment, victim) : moment->n_levels;

	if (n == 0)
		return (struct growth) { 0 };
	const struct incident_level end = end_of(moment, victim, n);
	const size_t first = foot_of_levels(levels, n, &end);

	if (first == n || end.bytes - levels[first].bytes <= end.bytes / GROWTH_PARTS ||
		end.time_ns <= levels[first].time_ns)
		return (struct growth) { 0 };
	return (struct growth) { true, (int64_t) levels[first].time_ns, levels[first].bytes,
		(double) (end.bytes - levels[first].bytes) /
			((double) (end.time_ns - levels[first].time_ns) / 1e9),
		(double) (end.bytes - levels[first].bytes) };
}

/* ---- by the timeline -------------------------------------------------------------------------------------------------- */

/* The mean of a bucket; the maximum of the last, which may include time after the victim's end. */
static double level_at(const struct timeline *c, int place, int top)
{
	return place == top ? (double) c->buckets[place].max : timeline_mean(&c->buckets[place]);
}

/* Bucket with the largest maximum, the latest of equals; -1: nothing is known. */
static int top_of(const struct timeline *c)
{
	int top = -1;

	for (int i = 0; c && i < TIMELINE_BUCKETS; i++) {
		if (c->buckets[i].cover_ns > 0 && (top < 0 || c->buckets[i].max >= c->buckets[top].max))
			top = i;
	}
	return top;
}

/* Did the level fall within a bucket below that of the bucket before? */
static bool fell_in(const struct timeline *c, int place, int top)
{
	const double before = level_at(c, place - 1, top);

	return place < top && (double) c->buckets[place].min < before - before / FALL_PARTS;
}

/* First bucket from which on the level only rose, without nearly flat buckets before it. *ret_flat:
 * tolerance in bytes. */
static int foot_of_timeline(const struct timeline *c, int top, double *ret_flat)
{
	int first = top;

	while (first > 0 && c->buckets[first - 1].cover_ns > 0 &&
		level_at(c, first - 1, top) < level_at(c, first, top) && !fell_in(c, first, top))
		first--;
	*ret_flat = (level_at(c, top, top) - level_at(c, first, top)) / FLAT_PARTS;
	const double flat = level_at(c, first, top) + *ret_flat;

	while (first + 1 < top && level_at(c, first + 1, top) <= flat)
		first++;
	return first;
}

static struct growth growth_of_timeline(const struct job *job)
{
	const struct timeline *c = job ? job_timeline(job, M_JOB_ANON, 0) : NULL;
	const double span_s = job ? (double) job_timeline_span(job) / 1e9 : 0;
	const int top = top_of(c);
	double flat = 0;
	const int first = top > 0 ? foot_of_timeline(c, top, &flat) : top;

	if (top - first < FEW_BUCKETS)
		return (struct growth) { 0 };
	/* If the first bucket itself is flat, growth began at its end. */
	const bool is_flat = (double) (c->buckets[first].max - c->buckets[first].min) <= flat;
	const double from = level_at(c, first, top);

	return (struct growth) { true, (int64_t) ((uint64_t) (first + is_flat) * job_timeline_span(job)),
		(int64_t) from, (level_at(c, top, top) - from) / (span_s * (top - first)),
		level_at(c, top, top) - from };
}

struct growth growth_of_run(const struct summary *s)
{
	const struct incident *incident = &s->incident;

	if (!incident->what || !incident->memory || incident->on_gpu || !incident->has_history)
		return growth_of_timeline(s->job);
	if (!incident->since_ns.known)
		return (struct growth) { 0 };
	return (struct growth) { true, incident->since_ns.value, incident->from_bytes.value,
		incident->growth_per_s, 0 };
}
