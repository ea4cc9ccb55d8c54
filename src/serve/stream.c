/* SPDX-License-Identifier: MIT */
#include "serve/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"

#define SECOND UINT64_C(1000000000)

enum {
	MOST_GPUS = 1024,
	MOST_USERS = 1 << 16,
};

/* A source is down after this time without a frame, also if it promised one sooner: drivers are read
 * less often while nothing happens. */
static const uint64_t least_patience_ns = 5 * SECOND;

/* ---- metrics --------------------------------------------------------------------------------- */

unsigned metric_of(enum hiw_entity entity, const char *name)
{
	const int found = hiw_metric_find(entity, name);

	return found < 0 ? METRICS_MOST - 1 : (unsigned) found;
}

static const struct {
	enum hiw_entity entity;
	const char *metric;      /* NULL: computed from the CPU counters */
} kept_rows[KEPT_COUNT] = {
	[KEPT_HOST_RAM] = { HIW_HOST, "mem_used" },
	[KEPT_HOST_CPU] = { HIW_HOST, NULL },
	[KEPT_JOB_RAM] = { HIW_JOB, "ram" },
	[KEPT_JOB_CPU] = { HIW_JOB, NULL },
	[KEPT_JOB_GPU_MEM] = { HIW_JOB, "gpu_mem" },
	[KEPT_GPU_MEM] = { HIW_GPU, "mem" },
	[KEPT_GPU_SM] = { HIW_GPU, "sm_active" },
	[KEPT_GPU_OCCUPANCY] = { HIW_GPU, "sm_occupancy" },
	[KEPT_GPU_DRAM] = { HIW_GPU, "dram_active" },
	[KEPT_GPU_BUSY] = { HIW_GPU, "busy" },
	[KEPT_GPU_POWER] = { HIW_GPU, "power" },
};

/* The ring that keeps a metric; KEPT_COUNT: none. */
static enum kept kept_of[METRICS_MOST];
static unsigned user_memory; /* the metric of a process on a GPU */

void stream_prepare(void)
{
	for (unsigned m = 0; m < METRICS_MOST; m++)
		kept_of[m] = KEPT_COUNT;
	for (int k = 0; k < KEPT_COUNT; k++) {
		if (kept_rows[k].metric)
			kept_of[metric_of(kept_rows[k].entity, kept_rows[k].metric)] = (enum kept) k;
	}
	user_memory = metric_of(HIW_GPU_PROCESS, "mem");
}

/* ---- beginning and end ----------------------------------------------------------------------- */

void stream_init(struct stream *s, uint64_t start_ns, uint64_t window_ns)
{
	*s = (struct stream) {
		.start_ns = start_ns,
		.window_ns = window_ns,
		/* grows also over restarts of the server */
		.generation = clock_wall_ns() / 1000000,
		.host.entity = HIW_HOST,
		.job.entity = HIW_JOB,
	};
}

static void thing_done(struct thing *t)
{
	free(t->name);
	free(t->uuid);
	free(t->vendor);
	free(t->driver);
	free(t->instance_of);
	for (int k = 0; k < KEPT_COUNT; k++)
		ring_done(&t->rings[k]);
}

void stream_done(struct stream *s)
{
	thing_done(&s->host);
	thing_done(&s->job);
	for (size_t i = 0; i < s->n_gpus; i++) {
		thing_done(s->gpus[i]);
		free(s->gpus[i]);
	}
	free(s->gpus);
	free(s->users);
	*s = (struct stream) { 0 };
}

/* ---- births and ends ------------------------------------------------------------------------- */

static struct thing *gpu_of(const struct stream *s, uint32_t id)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i]->id == id)
			return s->gpus[i];
	}
	return NULL;
}

static struct gpu_user *user_of(const struct stream *s, uint32_t id)
{
	for (size_t i = s->n_users; i-- > 0;) {
		if (s->users[i].id == id)
			return &s->users[i];
	}
	return NULL;
}

static struct thing *find_uuid(const struct stream *s, const char *uuid)
{
	for (size_t i = 0; *uuid && i < s->n_gpus; i++) {
		if (strcmp(s->gpus[i]->uuid, uuid) == 0)
			return s->gpus[i];
	}
	return NULL;
}

/* A GPU that its driver reports anew (after a restart of the helper) continues the one before. */
static void apply_gpu(struct stream *s, const struct hiw_birth *b)
{
	struct thing *gpu = gpu_of(s, b->id);

	if (!gpu && (gpu = find_uuid(s, b->uuid)))
		gpu->id = b->id;
	if (gpu) {
		gpu->memory_bytes = b->memory_bytes;
		return;
	}
	if (vec_reserve(&s->gpus, &s->cap_gpus, s->n_gpus, sizeof(struct thing *), MOST_GPUS) < 0 ||
		!(gpu = calloc(1, sizeof(*gpu))))
		return;
	gpu->entity = HIW_GPU;
	gpu->id = b->id;
	gpu->name = strdup(b->name);
	gpu->uuid = strdup(b->uuid);
	gpu->vendor = strdup(b->vendor);
	gpu->driver = strdup(b->driver);
	gpu->instance_of = strdup(b->instance_of);
	gpu->index = b->index;
	gpu->memory_bytes = b->memory_bytes;
	if (!gpu->name || !gpu->uuid || !gpu->vendor || !gpu->driver || !gpu->instance_of) {
		thing_done(gpu);
		free(gpu);
		return;
	}
	s->gpus[s->n_gpus++] = gpu;
}

static void apply_births(struct stream *s, const struct hiw_frame *frame)
{
	for (size_t i = 0; i < frame->n_births; i++) {
		const struct hiw_birth *b = &frame->births[i];

		if (b->entity == HIW_GPU)
			apply_gpu(s, b);
		else if (b->entity == HIW_GPU_PROCESS && !user_of(s, b->id) &&
			 vec_reserve(&s->users, &s->cap_users, s->n_users, sizeof(*s->users), MOST_USERS) ==
				 0)
			s->users[s->n_users++] = (struct gpu_user) {
				.id = b->id, .gpu = b->gpu, .pid = b->pid, .uid = b->uid
			};
	}
}

static void apply_ends(struct stream *s, const struct hiw_frame *frame)
{
	for (size_t i = 0; i < frame->n_ends; i++) {
		struct gpu_user *u = frame->ends[i].entity == HIW_GPU_PROCESS ? user_of(s, frame->ends[i].id)
									      : NULL;

		if (u)
			*u = s->users[--s->n_users];
	}
}

/* ---- values ---------------------------------------------------------------------------------- */

static void keep(struct stream *s, struct thing *t, enum kept kept, const struct point *p)
{
	const uint64_t since = p->at_ns > s->window_ns ? p->at_ns - s->window_ns : 0;

	ring_add(&t->rings[kept], p, since);
}

static void apply_reading(struct stream *s, const struct hiw_frame *frame, const struct hiw_reading *r)
{
	const struct hiw_metric *metric = hiw_metric(r->metric);
	struct thing *t = metric->entity == HIW_HOST && r->id == 0 ? &s->host
			  : metric->entity == HIW_JOB              ? &s->job
			  : metric->entity == HIW_GPU              ? gpu_of(s, r->id)
								   : NULL;
	const uint64_t most = UINT64_MAX / 4, at = s->at_ns;
	const uint64_t hold = frame->hold_ns < most ? frame->hold_ns : most;

	if (metric->entity == HIW_GPU_PROCESS && r->metric == user_memory) {
		struct gpu_user *u = user_of(s, r->id);

		if (u) {
			u->memory = (struct hiw_maybe) { r->value, r->known };
			u->until_ns = at + hold;
		}
	}
	if (!t || r->metric >= METRICS_MOST)
		return;
	t->last[r->metric] = (struct hwi_last) { r->value, r->max, r->known, !frame->live };
	t->at_ns[r->metric] = at;
	t->until_ns[r->metric] = at + hold + s->slack_ns;
	if (kept_of[r->metric] != KEPT_COUNT && r->known)
		keep(s, t, kept_of[r->metric],
			&(const struct point) { at, at + hold, (double) r->value, (double) r->max });
}

/* Cores in use, from the increase of the CPU counters. */
static void apply_cpu(struct stream *s, struct thing *t, enum kept kept, uint64_t hold_ns)
{
	static const char *const parts[] = { "cpu_user", "cpu_system" };
	int64_t sum = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const unsigned m = metric_of(t->entity, parts[i]);

		if (!t->last[m].known || t->at_ns[m] != s->at_ns)
			return;
		sum += t->last[m].value;
	}
	if (t->cpu_at_ns && s->at_ns > t->cpu_at_ns && sum >= t->cpu_ns) {
		const double cores = (double) (sum - t->cpu_ns) / (double) (s->at_ns - t->cpu_at_ns);

		keep(s, t, kept, &(const struct point) { s->at_ns, s->at_ns + hold_ns, cores, cores });
	}
	t->cpu_ns = sum;
	t->cpu_at_ns = s->at_ns;
}

/* ---- sources --------------------------------------------------------------------------------- */

/* Which sources are watched: those of the machine. */
static bool is_watched(const char *source)
{
	static const char *const names[] = { "host", "nvml", "dcgm", "amdgpu", "drm" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], source) == 0)
			return true;
	}
	return false;
}

static void apply_origin(struct stream *s, const struct hiw_frame *frame)
{
	struct origin *o = NULL;

	if (!is_watched(frame->source) || frame->n_readings == 0)
		return;
	for (size_t i = 0; i < s->n_origins; i++) {
		if (strcmp(s->origins[i].name, frame->source) == 0)
			o = &s->origins[i];
	}
	if (!o && s->n_origins < sizeof(s->origins) / sizeof(s->origins[0])) {
		o = &s->origins[s->n_origins++];
		*o = (struct origin) { .name = frame->source, .hold_ns = UINT64_MAX };
	}
	if (!o)
		return;
	o->at_ns = s->at_ns;
	o->hold_ns = frame->hold_ns < o->hold_ns ? frame->hold_ns : o->hold_ns;
}

bool origin_is_up(const struct origin *o, uint64_t now_ns)
{
	const uint64_t patience = o->hold_ns > least_patience_ns ? o->hold_ns : least_patience_ns;

	return now_ns < o->at_ns || now_ns - o->at_ns <= patience;
}

static void apply_notes(struct stream *s, const struct hiw_frame *frame)
{
	for (size_t i = 0; i < frame->n_events; i++) {
		const struct hiw_event *e = &frame->events[i];

		if (strcmp(e->kind, "note") == 0 && strncmp(e->text, "gpu: ", 5) == 0)
			(void) snprintf(s->gpu_note, sizeof(s->gpu_note), "%s", e->text + 5);
	}
}

void stream_see(void *ctx, const struct hiw_frame *frame)
{
	struct stream *s = ctx;

	s->at_ns = s->start_ns + frame->time_ns;
	s->generation++;
	apply_births(s, frame);
	for (size_t i = 0; i < frame->n_readings; i++)
		apply_reading(s, frame, &frame->readings[i]);
	apply_cpu(s, &s->host, KEPT_HOST_CPU, frame->hold_ns);
	apply_cpu(s, &s->job, KEPT_JOB_CPU, frame->hold_ns);
	apply_origin(s, frame);
	apply_notes(s, frame);
	apply_ends(s, frame);
}

/* ---- answers --------------------------------------------------------------------------------- */

struct hiw_maybe thing_value(const struct thing *t, unsigned metric, uint64_t now_ns)
{
	if (metric >= METRICS_MOST || !t->last[metric].known || now_ns > t->until_ns[metric])
		return (struct hiw_maybe) { 0, false };
	return (struct hiw_maybe) { t->last[metric].value, true };
}

struct spread thing_spread(const struct thing *t, enum kept kept, uint64_t span_ns, uint64_t now_ns)
{
	return ring_spread(&t->rings[kept], now_ns > span_ns ? now_ns - span_ns : 0, now_ns);
}

void thing_last(const struct thing *t, uint64_t now_ns, struct hwi_last ret[METRICS_MOST])
{
	for (unsigned m = 0; m < METRICS_MOST; m++) {
		ret[m] = t->last[m];
		ret[m].known = thing_value(t, m, now_ns).known;
	}
}

void gpu_number(const struct stream *s, const struct thing *gpu, char *buf, size_t size)
{
	const long long number = gpu->index.known ? (long long) gpu->index.value : (long long) gpu->id;
	const struct thing *whole = find_uuid(s, gpu->instance_of);

	if (whole && whole->index.known)
		(void) snprintf(buf, size, "%lld.%lld", (long long) whole->index.value, number);
	else
		(void) snprintf(buf, size, "%lld", number);
}
