/* SPDX-License-Identifier: MIT
 *
 * The monitored GPUs and the processes on them, from their births and ends. Their values are in
 * accumulators.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "job/job_internal.h"

enum {
	MOST_GPUS = 1 << 12,
	MOST_USERS = 1 << 13,    /* further ones have no values of their own */
};

/* Copies the texts of birth. Returns 0, or -ENOMEM without any of them. */
static int own_texts(struct birth *birth)
{
	const char **texts[BIRTH_TEXTS];
	const unsigned n = birth_texts(birth, texts);

	for (unsigned i = 0; i < n; i++) {
		char *copy = strdup(*texts[i] ? *texts[i] : "");

		if (!copy) {
			while (i-- > 0)
				free((char *) (uintptr_t) *texts[i]);
			return -ENOMEM;
		}
		*texts[i] = copy;
	}
	return 0;
}

static void free_texts(struct birth *birth)
{
	const char **texts[BIRTH_TEXTS];
	const unsigned n = birth_texts(birth, texts);

	for (unsigned i = 0; i < n; i++)
		free((char *) (uintptr_t) *texts[i]);
}

static struct gpu_entity *find(const struct gpu_entities *all, uint32_t id)
{
	uint32_t place;

	return map_get(&all->places, id, &place) ? &all->list[place] : NULL;
}

static struct gpu_entities *entities_of(struct job *job, enum entity entity)
{
	return entity == ENTITY_GPU ? &job->gpus : &job->gpu_users;
}

/* A process that was on that GPU before and has returned. */
static struct gpu_entity *returned(const struct gpu_entities *all, const struct birth *birth)
{
	const struct gpu_process_birth *b = &birth->gpu_process;

	for (size_t i = 0; birth->entity == ENTITY_GPU_PROCESS && b->pid.known && i < all->n; i++) {
		const struct gpu_process_birth *a = &all->list[i].birth.gpu_process;

		if (a->pid.value == b->pid.value && a->pid.known && a->gpu == b->gpu &&
			a->process == b->process && a->uid.known == b->uid.known &&
			a->uid.value == b->uid.value && strcmp(a->name, b->name ? b->name : "") == 0)
			return &all->list[i];
	}
	return NULL;
}

int gpu_birth_apply(struct job *job, const struct birth *birth, uint64_t time_ns)
{
	struct gpu_entities *all = entities_of(job, birth->entity);
	struct gpu_entity new = { .birth = *birth, .born_ns = time_ns }, *before = find(all, birth->id);
	const size_t most = birth->entity == ENTITY_GPU ? MOST_GPUS : MOST_USERS;
	int r;

	if (before && birth->entity == ENTITY_GPU) {
		before->birth.gpu.memory_bytes = birth->gpu.memory_bytes;
		before->birth.gpu.unified = birth->gpu.unified;
		before->birth.gpu.is_numa = birth->gpu.is_numa;
		before->birth.gpu.power_span_ns = birth->gpu.power_span_ns;
	}
	if (before)
		return 0;
	struct gpu_entity *same = returned(all, birth);

	if (same) { /* its accumulators continue */
		same->ended = false;
		same->birth.gpu_process.compute |= birth->gpu_process.compute;
		same->birth.gpu_process.graphics |= birth->gpu_process.graphics;
		return map_put(&all->places, birth->id, (uint32_t) (same - all->list));
	}
	if (all->n >= most)
		return 0;
	r = own_texts(&new.birth);
	if (r == 0)
		r = vec_reserve(&all->list, &all->cap, all->n, sizeof(new), most);
	if (r == 0)
		r = map_put(&all->places, birth->id, (uint32_t) all->n);
	if (r == 0)
		all->list[all->n++] = new;
	return r;
}

void gpu_end_apply(struct job *job, const struct end *end, uint64_t time_ns)
{
	struct gpu_entity *e = find(entities_of(job, end->entity), end->id);

	if (!e || e->ended)
		return;
	e->ended = true;
	e->ended_ns = time_ns;
	gpu_accs_end(job, end->entity, e->birth.id, time_ns);
	job->parts_changed = true; /* do not wait for further values */
}

void gpu_note_apply(struct job *job, const struct event *event)
{
	struct gpu_entity *e = event->entity == ENTITY_GPU ? find(&job->gpus, event->id) : NULL;

	if (e && note_is_about(event, "gpu.energy"))
		e->energy_is_summed = true;
}

uint32_t gpu_first_id(struct job *job, enum entity entity, uint32_t id)
{
	const struct gpu_entity *e = find(entities_of(job, entity), id);

	return e ? e->birth.id : id;
}

bool gpu_is_known(const struct job *job, enum entity entity, uint32_t id)
{
	return find(entity == ENTITY_GPU ? &job->gpus : &job->gpu_users, id);
}

void gpu_entities_done(struct gpu_entities *all)
{
	for (size_t i = 0; i < all->n; i++)
		free_texts(&all->list[i].birth);
	free(all->list);
	map_done(&all->places);
}

size_t job_gpu_count(const struct job *job)
{
	return job->gpus.n;
}

const struct gpu_entity *job_gpu(const struct job *job, size_t i)
{
	return i < job->gpus.n ? &job->gpus.list[i] : NULL;
}

size_t job_gpu_process_count(const struct job *job)
{
	return job->gpu_users.n;
}

const struct gpu_entity *job_gpu_process(const struct job *job, size_t i)
{
	return i < job->gpu_users.n ? &job->gpu_users.list[i] : NULL;
}

/* All processes of a job that hiwater started began in the run. */
static bool is_of_run(const struct job *job, const struct process *p)
{
	const struct facts *f = &job->facts;

	return job->config.ours || (f->mode && strcmp(f->mode, "run") == 0) || p->start_ns == 0 ||
	       (f->started_boot_ns.known && (int64_t) p->start_ns >= f->started_boot_ns.value);
}

/* Of a mark's accumulator, min is its first value. */
struct maybe job_gpu_hwm(const struct job *job, const struct birth *b, bool *ret_of_run)
{
	const struct acc *acc = job_acc(job, M_GPROC_MEM_PEAK, b->id);
	const struct process *p = b->gpu_process.process ? job_process_by_id(job, b->gpu_process.process)
							 : NULL;

	*ret_of_run = acc && (acc->max > acc->min || (p && is_of_run(job, p)));
	return acc ? known(acc->max) : UNKNOWN;
}

bool job_gpu_is_on(const struct job *job, uint32_t device, uint32_t gpu)
{
	const struct gpu_entity *part = find(&job->gpus, device), *whole = find(&job->gpus, gpu);

	return device == gpu ||
	       (part && whole && *part->birth.gpu.parent &&
		       strcmp(part->birth.gpu.parent, whole->birth.gpu.uuid) == 0);
}

bool job_gpu_is_divided(const struct job *job, uint32_t gpu)
{
	for (size_t i = 0; i < job->gpus.n; i++) {
		if (job->gpus.list[i].birth.id != gpu && job_gpu_is_on(job, job->gpus.list[i].birth.id, gpu))
			return true;
	}
	return false;
}

static struct maybe number_by_uuid(const struct job *job, const char *uuid)
{
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		if (strcmp(job_gpu(job, i)->birth.gpu.uuid, uuid) == 0)
			return job_gpu(job, i)->birth.gpu.index;
	}
	return UNKNOWN;
}

char *job_gpu_name(const struct job *job, const struct gpu_birth *gpu, char buf[UNITS_LEN])
{
	const struct maybe parent = *gpu->parent && job ? number_by_uuid(job, gpu->parent) : UNKNOWN;

	if (parent.known && gpu->index.known)
		(void) snprintf(buf, UNITS_LEN, "MIG %lld.%lld", (long long) parent.value,
			(long long) gpu->index.value);
	else if (*gpu->parent)
		(void) snprintf(buf, UNITS_LEN, "MIG");
	else if (gpu->index.known)
		(void) snprintf(buf, UNITS_LEN, "%s %lld", gpu_is_npu(gpu) ? "NPU" : "GPU",
			(long long) gpu->index.value);
	else
		(void) snprintf(buf, UNITS_LEN, "%s", gpu_is_npu(gpu) ? "NPU" : "GPU");
	return buf;
}
