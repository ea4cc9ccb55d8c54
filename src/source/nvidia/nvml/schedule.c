/* SPDX-License-Identifier: MIT
 *
 * Which device's processes are listed next, by the movement of its memory since the last list, and
 * when a list is out of date.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "source/nvidia/nvml/internal.h"

/* Memory that does not change for this long has settled. */
#define SETTLED_NS 1000000000ULL
/* A list stays valid for this long after memory moved: normally the next one is read sooner, but
 * not without credit. */
#define STALE_NS 1000000000ULL
/* A move of at least this, and of one part in FAR, justifies a debt. */
#define FAR_BYTES (INT64_C(1) << 30)

enum {
	RISEN = 50,   /* a new high is higher by more than one part in this many */
	MOVING = 128, /* memory that differs by more than one part in this many is moving; less is noise */
	FAR = 16,
	EARLY = 8,    /* a list may be read early by one part in this many of the rest time */
};

bool nvml_memory_has_moved(const struct nvml_processes *p)
{
	return !p->used.known || !p->listed_used.known || p->used.value != p->listed_used.value;
}

/* The change in bytes since the lists were read. */
static int64_t moved_by(const struct nvml_processes *p)
{
	return p->used.known && p->listed_used.known ? llabs(p->used.value - p->listed_used.value) : 0;
}

static bool has_moved_by_part(const struct nvml_processes *p, int part)
{
	return moved_by(p) > p->listed_used.value / part;
}

/* ---- turns ----------------------------------------------------------------------------------- */

bool nvml_has_credit(const struct source *s, int hundredths)
{
	const struct source_budget *c = s->env->budget;

	return !c || (c->ns > c->most_ns / 100 * hundredths && (hundredths < 0 || !c->debts_only));
}

/* How urgent it is to list a device's processes; hundredths[] has the credit needed for each. */
enum urgency {
	NOT_DUE,
	RESTING, /* no sign of a change, but the list is old */
	MOVED,
	SETTLED,
	MOVED_FAR,
	AT_NEW_HIGH,
	FAR_AT_NEW_HIGH,
	NEVER_LISTED,
};

static const int hundredths[] = {
	[RESTING] = NVML_CREDIT_SPARE,
	[MOVED] = NVML_CREDIT_SPARE,
	[SETTLED] = 25,
	[MOVED_FAR] = -25,
	[AT_NEW_HIGH] = 0,
	[FAR_AT_NEW_HIGH] = -50,
	[NEVER_LISTED] = -100,
};

/* Memory that did not change means that no process came, ended or allocated. The lists are read
 * even so: at the planned period if they are cheap, and after idle_ns at most. Waiting in the
 * driver costs no credit, but holds its locks. */
uint64_t nvml_idle_ns(const struct source *s)
{
	const struct source_budget *c = s->env->budget;
	struct source_cost all = { 0 };

	for (size_t i = 0; i < s->n_gpus; i++) {
		if (!nvml_can_list(s, s->gpus[i]))
			continue;
		all.cpu_ns += s->gpus[i]->processes.list_cpu_ns;
		all.wall_ns += s->gpus[i]->processes.list_wall_ns;
	}
	return source_idle_ns(&source_nvml.groups[NVML_GROUP_PROCESSES], &all, c ? c->share : 0);
}

static enum urgency urgency_of(const struct source *s, const struct nvml_processes *p)
{
	if (p->listed_ns == 0)
		return NEVER_LISTED;
	if (p->listed_ns == s->now_ns)
		return NOT_DUE;
	if (p->list_code != NVML_SUCCESS)
		return AT_NEW_HIGH;
	const bool far = moved_by(p) >= FAR_BYTES && has_moved_by_part(p, FAR);

	if (p->used.known && p->used.value > p->most_used + p->most_used / RISEN)
		return far ? FAR_AT_NEW_HIGH : AT_NEW_HIGH;
	if (far)
		return MOVED_FAR;
	if (nvml_memory_has_moved(p))
		return p->used.known && counter_delta(p->moved_ns, s->now_ns) >= SETTLED_NS ? SETTLED : MOVED;
	return counter_delta(p->listed_ns, s->now_ns) >= s->idle_ns - s->idle_ns / EARLY ? RESTING : NOT_DUE;
}

bool nvml_can_list(const struct source *s, const struct nvml_gpu *d)
{
	return d->state == NVML_AWAKE && !s->is_wsl && !d->mig;
}

/* NOT_DUE also if there is not enough credit. */
static enum urgency due(const struct source *s, const struct nvml_gpu *d)
{
	const enum urgency now = nvml_can_list(s, d) ? urgency_of(s, &d->processes) : NOT_DUE;

	return now != NOT_DUE && nvml_has_credit(s, hundredths[now]) ? now : NOT_DUE;
}

bool nvml_list_is_due(const struct source *s, const struct nvml_gpu *d)
{
	return due(s, d) != NOT_DUE;
}

/* Orders devices of equal urgency: by the size of the move if that made them urgent; else by the
 * age of the list. */
static bool is_before(const struct nvml_processes *a, const struct nvml_processes *b, enum urgency urgency)
{
	if (urgency == MOVED_FAR || urgency == FAR_AT_NEW_HIGH)
		return moved_by(a) > moved_by(b);
	return a->listed_ns < b->listed_ns;
}

/* The device whose turn it is. NULL: the remaining ones can wait. */
struct nvml_gpu *nvml_next_to_list(const struct source *s)
{
	struct nvml_gpu *best = NULL;
	enum urgency best_urgency = NOT_DUE;

	for (size_t i = 0; i < s->n_gpus; i++) {
		struct nvml_gpu *d = s->gpus[i];
		const enum urgency now = due(s, d);

		if (now == NOT_DUE)
			continue;
		if (now > best_urgency ||
			(now == best_urgency && is_before(&d->processes, &best->processes, now))) {
			best = d;
			best_urgency = now;
		}
	}
	return best;
}

void nvml_memory_update(const struct source *s, struct nvml_processes *p, struct maybe used)
{
	if (used.known != p->used.known || used.value != p->used.value)
		p->moved_ns = s->now_ns;
	p->used = used;
}

/* ---- after memory was read ------------------------------------------------------------------- */

/* The processes' memory is unknown from now on. */
static void forget_list(struct nvml_gpu *d, struct framebuf *out)
{
	struct nvml_processes *p = &d->processes;

	if (p->forgotten)
		return;
	p->forgotten = true;
	d->reported[M_GPU_PROCESSES] = REPORTED_NEVER; /* also if a list failed and it was unknown before */
	nvml_append_value(d, out, M_GPU_PROCESSES, UNKNOWN);
}

static void watch(struct source *s, struct nvml_gpu *d, struct framebuf *out)
{
	struct source_budget *budget = s->env->budget;
	struct nvml_processes *p = &d->processes;

	if (d->mem_ns == s->now_ns)
		nvml_memory_update(s, p, d->mem);
	const int64_t floor_ns = budget->most_ns / 100 * hundredths[urgency_of(s, p)];
	const bool moved = has_moved_by_part(p, MOVING);

	budget->moving = budget->moving || moved;
	budget->urgent += floor_ns < 0;
	budget->floor_ns = floor_ns < budget->floor_ns ? floor_ns : budget->floor_ns;
	p->forgotten = p->forgotten && moved;
	p->stale_ns = !moved ? 0 : p->stale_ns ? p->stale_ns
					       : s->now_ns;
	if (moved && counter_delta(p->stale_ns, s->now_ns) >= STALE_NS)
		forget_list(d, out);
}

void nvml_processes_watch(struct source *s, struct framebuf *out)
{
	if (!s->env->budget)
		return;
	s->env->budget->moving = false;
	s->env->budget->floor_ns = 0;
	s->env->budget->urgent = 0;
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (nvml_can_list(s, s->gpus[i]) && s->gpus[i]->processes.listed_ns)
			watch(s, s->gpus[i], out);
	}
}
