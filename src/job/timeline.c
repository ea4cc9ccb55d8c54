/* SPDX-License-Identifier: MIT */
#include "job/timeline.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "job/job_internal.h"

enum {
	MAX_TIMELINES = 256
};
static const uint64_t first_span_ns = 1000000000;

/* The metrics with timelines. */
static const bool has_timeline[METRIC_COUNT] = {
	[M_JOB_ANON] = true,
	[M_JOB_CPU_USER] = true,
	[M_JOB_CPU_SYSTEM] = true,
	[M_JOB_GPU_MEM] = true,
	[M_HOST_FABRIC_BUSIEST] = true,
	[M_GPU_BUSY] = true,
	[M_GPU_GRAPHICS_ACTIVE] = true, /* the only one of MIG instances */
	[M_GPU_JOB_MEM] = true,
};

double timeline_mean(const struct timeline_bucket *bucket)
{
	return bucket->cover_ns > 0 ? bucket->sum / (double) bucket->cover_ns : 0;
}

/* ---- buckets --------------------------------------------------------------------------------- */

static void extremes(struct timeline_bucket *b, int64_t min, int64_t max)
{
	b->min = b->known && b->min < min ? b->min : min;
	b->max = b->known && b->max > max ? b->max : max;
	b->known = true;
}

struct timeline_bucket timeline_merged(const struct timeline_bucket *b, const struct timeline_bucket *next)
{
	struct timeline_bucket both = *b;

	if (next->known)
		extremes(&both, next->min, next->max);
	both.cover_ns += next->cover_ns;
	both.sum += next->sum;
	both.seq = next->seq > b->seq ? next->seq : b->seq;
	return both;
}

static void halve(struct timeline *c, uint64_t seq)
{
	for (int i = 0; i < TIMELINE_BUCKETS; i++) {
		const bool is_left = i < TIMELINE_BUCKETS / 2;

		c->buckets[i] = is_left ? timeline_merged(&c->buckets[2 * i], &c->buckets[2 * i + 1])
					: (struct timeline_bucket) { 0 };
		c->buckets[i].seq = seq;
	}
}

/* Doubles the width of the buckets until time_ns fits. */
static void widen(struct job *job, uint64_t time_ns)
{
	while (time_ns / job->timeline_span_ns >= TIMELINE_BUCKETS) {
		for (size_t i = 0; i < job->n_timelines; i++)
			halve(job->timelines[i], job->seq);
		job->timeline_span_ns *= 2;
	}
}

/* Adds the time from from_ns to to_ns, with this rate of the sum and these extremes. */
static void cover(struct job *job, struct timeline *c, uint64_t from_ns, uint64_t to_ns, double sum_per_ns,
	int64_t min, int64_t max)
{
	if (to_ns <= from_ns || to_ns > INT64_MAX)
		return;
	widen(job, to_ns - 1);
	while (from_ns < to_ns) {
		const uint64_t place = from_ns / job->timeline_span_ns,
			       end = (place + 1) * job->timeline_span_ns;
		const uint64_t part = (end < to_ns ? end : to_ns) - from_ns;
		struct timeline_bucket *b = &c->buckets[place];

		extremes(b, min, max);
		b->cover_ns += part;
		b->sum += sum_per_ns * (double) part;
		b->seq = job->seq;
		from_ns += part;
	}
}

static void touch(struct job *job, struct timeline *c, uint64_t time_ns, const struct reading *r)
{
	if (time_ns > INT64_MAX)
		return;
	widen(job, time_ns);
	struct timeline_bucket *b = &c->buckets[time_ns / job->timeline_span_ns];

	extremes(b, r->min, r->max);
	b->seq = job->seq;
}

/* ---- values ---------------------------------------------------------------------------------- */

static struct timeline *find(const struct job *job, enum metric metric, uint32_t id)
{
	for (size_t i = 0; i < job->n_timelines; i++) {
		if (job->timelines[i]->metric == metric && job->timelines[i]->id == id)
			return job->timelines[i];
	}
	return NULL;
}

/* NULL: the metric has no timeline, or out of memory. */
static struct timeline *make(struct job *job, enum metric metric, uint32_t id)
{
	struct timeline *c = has_timeline[metric] ? find(job, metric, id) : NULL;

	if (c || !has_timeline[metric] || (metrics[metric].entity != ENTITY_GPU && id != 0) ||
		vec_reserve(&job->timelines, &job->cap_timelines, job->n_timelines, sizeof(struct timeline *),
			MAX_TIMELINES) < 0)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->metric = metric;
	c->id = id;
	if (job->timeline_span_ns == 0)
		job->timeline_span_ns = first_span_ns;
	job->timelines[job->n_timelines++] = c;
	return c;
}

/* Adds the last value up to until_ns, as far as it is valid. */
static void cover_until(struct job *job, struct timeline *c, const struct acc *acc, uint64_t until_ns)
{
	const uint64_t from = acc->last_at_ns;

	if (acc->n == 0 || until_ns <= from)
		return;
	if (until_ns - from > acc->hold_ns)
		until_ns = from + acc->hold_ns;
	cover(job, c, from, until_ns, (double) acc->last, acc->last, acc->last);
}

/* Adds the rate since the last value. The value of a window is that of its end. */
static void rate_apply(
	struct job *job, struct timeline *c, const struct acc *acc, const struct reading *r, uint64_t time_ns)
{
	const uint64_t from = acc->last_at_ns + r->span_ns, to = time_ns + r->span_ns;

	if (acc->n == 0 || to <= from || r->value < acc->last)
		return;
	const double rate = (double) (r->value - acc->last) / (double) (to - from);
	const int64_t a_second = rate < 9e9 ? (int64_t) (rate * 1e9) : INT64_MAX;

	cover(job, c, from, to, rate, a_second, a_second);
}

void timeline_apply(
	struct job *job, const struct acc *acc, const struct reading *r, const struct frame *frame)
{
	struct timeline *c = make(job, r->metric, r->id);

	if (!c)
		return;
	if (metrics[r->metric].kind != KIND_GAUGE) {
		if (r->known)
			rate_apply(job, c, acc, r, frame->time_ns);
		return;
	}
	cover_until(job, c, acc, frame->time_ns);
	if (r->known && r->span_ns > 0 && frame->live) {
		const uint64_t since = frame->time_ns > r->span_ns ? frame->time_ns - r->span_ns : 0,
			       last = acc->n > 0 ? acc->last_at_ns : 0;

		/* the times of samples and of frames differ a little: no time counts twice */
		cover(job, c, since > last ? since : last, frame->time_ns, (double) r->value, r->min, r->max);
	} else if (r->known && r->span_ns > 0) {
		cover(job, c, frame->time_ns, frame->time_ns + r->span_ns, (double) r->value, r->min, r->max);
	}
	if (r->known && r->span_ns == 0)
		touch(job, c, frame->time_ns, r);
}

void timelines_end(struct job *job, uint64_t time_ns)
{
	for (size_t i = 0; i < job->n_timelines; i++) {
		struct timeline *c = job->timelines[i];
		const struct acc *acc = metrics[c->metric].kind == KIND_GAUGE ? job_acc(job, c->metric, c->id)
									      : NULL;

		if (acc)
			cover_until(job, c, acc, time_ns);
	}
}

void timelines_done(struct job *job)
{
	for (size_t i = 0; i < job->n_timelines; i++)
		free(job->timelines[i]);
	free(job->timelines);
}

/* ---- reading it, storing it ------------------------------------------------------------------ */

const struct timeline *job_timeline(const struct job *job, enum metric metric, uint32_t id)
{
	return has_timeline[metric] ? find(job, metric, id) : NULL;
}

uint64_t job_timeline_span(const struct job *job)
{
	return job->timeline_span_ns;
}

uint64_t job_seq(const struct job *job)
{
	return job->seq;
}

void job_each_bucket(const struct job *job, uint64_t since_seq,
	void (*see)(void *ctx, const struct timeline *timeline, unsigned place), void *ctx)
{
	for (size_t i = 0; i < job->n_timelines; i++) {
		for (unsigned place = 0; place < TIMELINE_BUCKETS; place++) {
			const struct timeline_bucket *b = &job->timelines[i]->buckets[place];

			if (b->known && b->seq >= since_seq)
				see(ctx, job->timelines[i], place);
		}
	}
}

int job_restore_bucket(struct job *job, enum metric metric, uint32_t id, uint64_t time_ns, uint64_t span_ns,
	const struct timeline_bucket *bucket)
{
	struct timeline *c = make(job, metric, id);

	if (!c)
		return has_timeline[metric] && id == 0 ? -ENOMEM : 0;
	/* All have the same width; others are damaged. */
	if (job->timeline_span_ns < span_ns && span_ns % first_span_ns == 0 && job->timeline_restored == 0)
		job->timeline_span_ns = span_ns;
	if (span_ns != job->timeline_span_ns || time_ns / span_ns >= TIMELINE_BUCKETS)
		return 0;
	job->timeline_restored++;
	c->buckets[time_ns / span_ns] = *bucket;
	c->buckets[time_ns / span_ns].known = true;
	return 0;
}
