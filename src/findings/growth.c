/* SPDX-License-Identifier: MIT */
#include "findings/growth.h"

enum {
	GROWTH_PARTS = 20,  /* growth that is told of is 5 % of what was held at the end of it, at least */
	FLAT_PARTS = 50,    /* what is within 2 % of the rise has not begun to rise */
	FALL_PARTS = 10,    /* who falls back by a tenth of what it held has ended a growth */
	REACHED_PERCENT = 80, /* of what the victim held: looks that found so much saw how it grew */
	FEW_BUCKETS = 3     /* fewer do not tell a steady growth from a jump */
};

/* ---- by looks --------------------------------------------------------------------------------------------------------- */

/* What the victim held at its last look; 0: no look found it. */
static int64_t last_look_at(const struct story_moment *moment, const struct process *victim)
{
	for (size_t i = 0; i < moment->n_held; i++) {
		if (moment->held[i].id == victim->id)
			return moment->held[i].bytes;
	}
	return 0;
}

/* Did the level fall because the victim was gone, and not because somebody freed memory before it grew? It had been there, and
 * what is missing is no more than it held; or its end was that near (the kernel takes from a victim before it ends). */
static bool is_left_behind(const struct story_moment *moment, const struct process *victim, size_t highest)
{
	static const uint64_t very_near_ns = 300000000;
	const struct story_level *top = &moment->levels[highest], *last = &moment->levels[moment->n_levels - 1];
	const int64_t held = last_look_at(moment, victim);

	if (victim->born_ns > top->time_ns)
		return false;
	return top->bytes - last->bytes <= held + held / FALL_PARTS || top->time_ns + very_near_ns >= moment->at_ns;
}

/* The last looks may be at what a victim left behind. */
static size_t until_the_fall(const struct story_moment *moment, const struct process *victim)
{
	static const uint64_t near_ns = 1500000000;
	const struct story_level *levels = moment->levels;
	size_t n = moment->n_levels, highest = n;

	for (size_t i = n; i-- > 0 && levels[i].time_ns + near_ns >= moment->at_ns;) {
		if (highest == n || levels[i].bytes > levels[highest].bytes)
			highest = i;
	}
	return highest < n && is_left_behind(moment, victim, highest) ? highest + 1 : n;
}

/* The last level: what the victim held at its end, where it grew faster than looks saw. */
static struct story_level end_of(const struct story_moment *moment, const struct process *victim, size_t n)
{
	const struct story_level last = moment->levels[n - 1];

	if (!victim || n < moment->n_levels || moment->at_ns <= last.time_ns ||
		last.bytes >= victim->peak_bytes / 100 * REACHED_PERCENT)
		return last;
	return (struct story_level) { moment->at_ns, victim->peak_bytes };
}

/* From the last valley on; a fall of less than a twentieth of what it rises by is no valley, and what was flat before is no
 * growth. */
static size_t foot_of_levels(const struct story_level *levels, size_t n, const struct story_level *end)
{
	int64_t top = end->bytes, low = end->bytes;
	size_t first = n;

	while (first > 0 && levels[first - 1].bytes <= low + (top - low) / GROWTH_PARTS + top / GROWTH_PARTS) {
		first--;
		low = levels[first].bytes < low ? levels[first].bytes : low;
		top = levels[first].bytes > top ? levels[first].bytes : top;
	}
	for (size_t i = first; i < n; i++) {
		if (levels[i].bytes <= low + (top - low) / FLAT_PARTS)
			first = i;
	}
	return first;
}

struct growth growth_of_levels(const struct story_moment *moment, const struct process *victim)
{
	const struct story_level *levels = moment->levels;
	const size_t n = victim && moment->n_levels > 0 ? until_the_fall(moment, victim) : moment->n_levels;

	if (n == 0)
		return (struct growth) { 0 };
	const struct story_level end = end_of(moment, victim, n);
	const size_t first = foot_of_levels(levels, n, &end);

	if (first == n || end.bytes - levels[first].bytes <= end.bytes / GROWTH_PARTS || end.time_ns <= levels[first].time_ns)
		return (struct growth) { 0 };
	return (struct growth) { true, (int64_t) levels[first].time_ns, levels[first].bytes,
		(double) (end.bytes - levels[first].bytes) / ((double) (end.time_ns - levels[first].time_ns) / 1e9) };
}

/* ---- by the course ---------------------------------------------------------------------------------------------------- */

/* Of the last bucket its highest: the rest of it may be what a victim left behind. */
static double level_at(const struct course *c, int place, int top)
{
	return place == top ? (double) c->buckets[place].max : course_mean(&c->buckets[place]);
}

/* Where it held the most, the latest of them; -1: nothing is known. */
static int top_of(const struct course *c)
{
	int top = -1;

	for (int i = 0; c && i < COURSE_BUCKETS; i++) {
		if (c->buckets[i].cover_ns > 0 && (top < 0 || c->buckets[i].max >= c->buckets[top].max))
			top = i;
	}
	return top;
}

/* Within a bucket, below what the one before it held. */
static bool fell_in(const struct course *c, int place, int top)
{
	const double before = level_at(c, place - 1, top);

	return place < top && (double) c->buckets[place].min < before - before / FALL_PARTS;
}

/* From where on it only grew. What was nearly flat before is no growth. */
static int foot_of_course(const struct course *c, int top, double *ret_flat)
{
	int first = top;

	while (first > 0 && c->buckets[first - 1].cover_ns > 0 && level_at(c, first - 1, top) < level_at(c, first, top) &&
		!fell_in(c, first, top))
		first--;
	*ret_flat = (level_at(c, top, top) - level_at(c, first, top)) / FLAT_PARTS;
	const double flat = level_at(c, first, top) + *ret_flat;

	while (first + 1 < top && level_at(c, first + 1, top) <= flat)
		first++;
	return first;
}

static struct growth growth_of_course(const struct job *job)
{
	const struct course *c = job ? job_course(job, M_JOB_ANON, 0) : NULL;
	const double span_s = job ? (double) job_course_span(job) / 1e9 : 0;
	const int top = top_of(c);
	double flat = 0;
	const int first = top > 0 ? foot_of_course(c, top, &flat) : top;

	if (top - first < FEW_BUCKETS)
		return (struct growth) { 0 };
	/* A bucket that was flat itself: it began to grow behind it. */
	const bool is_flat = (double) (c->buckets[first].max - c->buckets[first].min) <= flat;
	const double from = level_at(c, first, top);

	return (struct growth) { true, (int64_t) ((uint64_t) (first + is_flat) * job_course_span(job)), (int64_t) from,
		(level_at(c, top, top) - from) / (span_s * (top - first)) };
}

struct growth growth_of_run(const struct summary *s)
{
	const struct story *story = &s->story;

	if (!story->what || !story->memory || story->on_gpu || !story->looked)
		return growth_of_course(s->job);
	if (!story->since_ns.known)
		return (struct growth) { 0 };
	return (struct growth) { true, story->since_ns.value, story->from_bytes.value, story->growth_per_s };
}
