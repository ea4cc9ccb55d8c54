/* SPDX-License-Identifier: MIT
 *
 * Accumulators: a metric's values aggregated over the whole run.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "job/job_internal.h"

enum {
	MAX_GPU_ACCS = 1 << 16
};

void acc_advance(struct acc *acc, uint64_t time_ns)
{
	uint64_t span;

	if (acc->n == 0 || time_ns <= acc->last_at_ns)
		return;
	span = time_ns - acc->last_at_ns;
	if (span > acc->hold_ns)
		span = acc->hold_ns;
	acc->sum += (double) acc->last * (double) span;
	acc->span_ns += span;
	acc->hold_ns -= span;
	acc->last_at_ns = time_ns;
}

/* The time of a high-water mark is unknown. If it is hardly above the current value, it was
 * reached about now. */
static bool is_about(const struct acc *acc, const struct reading *r)
{
	return r->max > r->value && r->max - acc->max < acc->max / 64;
}

/* A maximum that no sample observed was reached since the last sample; for a high-water mark,
 * since that was last read. The middle of the interval minimizes the largest error. */
static uint64_t time_of_max(
	const struct job *job, const struct acc *acc, const struct reading *r, const struct frame *frame)
{
	uint64_t since = job->proven_since_ns < acc->last_at_ns ? job->proven_since_ns : acc->last_at_ns;

	if (!frame->live || r->max <= r->value || acc->n == 0 || since > frame->time_ns)
		return frame->time_ns;
	return since + (frame->time_ns - since) / 2;
}

static void extremes_apply(
	const struct job *job, struct acc *acc, const struct reading *r, const struct frame *frame)
{
	const uint64_t time_ns = time_of_max(job, acc, r, frame);

	if (acc->n == 0) {
		acc->min = r->min;
		acc->max = r->max;
		acc->max_at_ns = time_ns;
	}
	if (r->min < acc->min && metrics[r->metric].kind == KIND_GAUGE)
		acc->min = r->min;
	if (r->max > acc->max) {
		if (!is_about(acc, r))
			acc->max_at_ns = time_ns;
		acc->max = r->max;
	}
}

static void gauge_apply(struct acc *acc, const struct reading *r, const struct frame *frame)
{
	acc_advance(acc, frame->time_ns);
	if (r->span_ns > 0) {
		/* Its value is already the mean over its span. */
		acc->sum += (double) r->value * (double) r->span_ns;
		acc->span_ns += r->span_ns;
		acc->hold_ns = 0;
	} else {
		acc->hold_ns = frame->hold_ns;
	}
}

void acc_apply(const struct job *job, struct acc *acc, const struct reading *r, const struct frame *frame)
{
	const bool is_gauge = metrics[r->metric].kind == KIND_GAUGE;

	if (!r->known) {
		/* The last value is not valid any more. */
		if (is_gauge) {
			acc_advance(acc, frame->time_ns);
			acc->hold_ns = 0;
		}
		return;
	}
	if (acc_has_rise((enum metric) r->metric) && acc->n > 0 && r->max - acc->min > acc->rise)
		acc->rise = r->max - acc->min;
	if (is_gauge)
		gauge_apply(acc, r, frame);
	else if (acc->n > 0 && frame->time_ns > acc->last_at_ns)
		acc->span_ns += frame->time_ns - acc->last_at_ns;
	extremes_apply(job, acc, r, frame);
	acc->last = r->value;
	acc->last_at_ns = frame->time_ns;
	acc->n += r->n > 0 ? r->n : 1;
}

static uint64_t gpu_key(enum metric metric, uint32_t id)
{
	return (uint64_t) metric << 32 | id;
}

static struct acc *gpu_acc_make(struct job *job, enum metric metric, uint32_t id)
{
	uint32_t place;

	if (map_get(&job->gpu_places, gpu_key(metric, id), &place))
		return &job->gpu_accs[place].acc;
	if (vec_reserve(&job->gpu_accs, &job->cap_gpu_accs, job->n_gpu_accs, sizeof(*job->gpu_accs),
		    MAX_GPU_ACCS) < 0 ||
		map_put(&job->gpu_places, gpu_key(metric, id), (uint32_t) job->n_gpu_accs) < 0)
		return NULL;
	job->gpu_accs[job->n_gpu_accs] = (struct gpu_acc) { .metric = metric, .id = id };
	return &job->gpu_accs[job->n_gpu_accs++].acc;
}

static struct acc *gpu_acc_find(struct job *job, enum metric metric, uint32_t id)
{
	uint32_t place;

	return map_get(&job->gpu_places, gpu_key(metric, id), &place) ? &job->gpu_accs[place].acc : NULL;
}

/* The end of the last value's validity, at most time_ns. */
static uint64_t valid_until(const struct acc *acc, uint64_t time_ns)
{
	const uint64_t end_ns = acc && acc->n > 0 ? acc->last_at_ns + acc->hold_ns : 0;

	return end_ns < time_ns ? end_ns : time_ns;
}

void gpu_unlisted_advance(struct job *job, uint32_t id, uint64_t time_ns)
{
	const struct acc *ours = gpu_acc_find(job, M_GPU_JOB_MEM, id);
	struct acc *mem = gpu_acc_find(job, M_GPU_MEM, id);

	if (!mem)
		return;
	const uint64_t since_ns = ours && ours->last_at_ns > mem->last_at_ns ? ours->last_at_ns
									     : mem->last_at_ns;
	const uint64_t listed_ns = valid_until(ours, time_ns),
		       from_ns = listed_ns > since_ns ? listed_ns : since_ns;
	const uint64_t until_ns = valid_until(mem, time_ns);

	mem->unlisted_ns += until_ns > from_ns ? until_ns - from_ns : 0;
}

void gpu_accs_end(struct job *job, enum entity entity, uint32_t id, uint64_t time_ns)
{
	if (entity == ENTITY_GPU)
		gpu_unlisted_advance(job, id, time_ns);
	for (int m = 0; m < METRIC_COUNT; m++) {
		uint32_t place;

		if (metrics[m].entity != entity || metrics[m].kind != KIND_GAUGE ||
			!map_get(&job->gpu_places, gpu_key((enum metric) m, id), &place))
			continue;
		acc_advance(&job->gpu_accs[place].acc, time_ns);
		job->gpu_accs[place].acc.hold_ns = 0;
	}
}

struct acc *acc_make(struct job *job, enum metric metric, uint32_t id)
{
	enum entity entity = metrics[metric].entity;

	if (entity == ENTITY_GPU || (entity == ENTITY_GPU_PROCESS && gpu_is_known(job, entity, id)))
		return gpu_acc_make(job, metric, gpu_first_id(job, entity, id));
	return (entity == ENTITY_HOST || entity == ENTITY_JOB) && id == 0 ? &job->accs[metric] : NULL;
}

const struct acc *job_acc(const struct job *job, enum metric metric, uint32_t id)
{
	enum entity entity = metrics[metric].entity;
	const struct acc *acc = NULL;
	uint32_t place;

	if ((entity == ENTITY_HOST || entity == ENTITY_JOB) && id == 0)
		acc = &job->accs[metric];
	else if ((entity == ENTITY_GPU || entity == ENTITY_GPU_PROCESS) &&
		 map_get(&job->gpu_places, gpu_key(metric, id), &place))
		acc = &job->gpu_accs[place].acc;
	return acc && acc->n > 0 ? acc : NULL;
}
