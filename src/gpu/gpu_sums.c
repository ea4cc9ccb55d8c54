/* SPDX-License-Identifier: MIT
 *
 * Whose the memory of a device is, by the lists of processes.
 */
#include <string.h>

#include "gpu/gpu_ids_internal.h"

void gpu_amount_add(struct amount *sum, struct maybe mem)
{
	sum->bytes += mem.known ? mem.value : 0;
	sum->unknown = sum->unknown || !mem.known;
}

bool gpu_was_there(const struct gpu_ids *ids, const struct process *p)
{
	return p && (!p->ended || p->ended_ns > ids->time_ns);
}

/* The memory of a process that ended is gone, whenever the driver's list says so. */
static bool holds(const struct gpu_ids *ids, const struct job *job, const struct gpu_user *u)
{
	return !u->process || gpu_was_there(ids, job_process_by_id(job, u->process));
}

void gpu_amount_put(struct framebuf *out, enum metric metric, uint32_t id, const struct amount *a)
{
	if (a->unknown && a->bytes == 0)
		framebuf_unknown(out, metric, id);
	else
		framebuf_value(out, metric, id, a->bytes);
}

static bool is_part(const struct gpu_device *part, const struct gpu_device *d)
{
	return !part->parted && strcmp(part->parent, d->uuid) == 0;
}

/* Then they have the lists, and what is added up of them is the GPU's. */
static bool has_parts(const struct gpu_ids *ids, const struct gpu_device *d)
{
	for (size_t i = 0; d->divided && i < ids->n_devices; i++) {
		if (is_part(&ids->devices[i], d))
			return true;
	}
	return false;
}

void gpu_sum_device(const struct gpu_ids *ids, struct gpu_device *d, const struct job *job, struct framebuf *out)
{
	const uint32_t id = (uint32_t) (d - ids->devices) + 1;
	struct amount ours = d->visible, others = d->visible;

	for (size_t i = 0; i < ids->n_users; i++) {
		const struct gpu_user *u = &ids->users[i];

		if (u->device != id || !holds(ids, job, u))
			continue;
		/* Whose it is nobody can say: it may be the job's. */
		ours.unknown = ours.unknown || !u->pid;
		others.unknown = others.unknown || !u->pid;
		if (!u->visible)
			continue;
		gpu_amount_add(u->process ? &ours : &others, u->mem);
		gpu_amount_add(&d->visible, u->mem);
	}
	if (!has_parts(ids, d)) {
		gpu_amount_put(out, M_GPU_JOB_MEM, id, &ours);
		gpu_amount_put(out, M_GPU_FOREIGN_MEM, id, &others);
	}
	d->ours = ours;
	d->others = others;
	d->was_listed = true;
	for (size_t i = 0; *d->parent && i < ids->n_devices; i++)
		ids->devices[i].parts_listed = ids->devices[i].parts_listed || strcmp(ids->devices[i].uuid, d->parent) == 0;
	d->listed = false;
	d->mem_then = d->mem;
	if (d->visible.unknown && !d->unified)
		framebuf_unknown(out, M_GPU_UNATTRIBUTED_MEM, id);
}

static void add_part(struct amount *sum, const struct amount *part, bool was_listed)
{
	sum->bytes += part->bytes;
	sum->unknown = sum->unknown || part->unknown || !was_listed;
}

/* A divided GPU has no list of its own (its driver's takes a right): who is on it is on its instances. */
void gpu_sum_parts(const struct gpu_ids *ids, struct gpu_device *d, struct framebuf *out)
{
	const uint32_t id = (uint32_t) (d - ids->devices) + 1;
	struct amount ours = { 0 }, others = { 0 };

	for (size_t i = 0; i < ids->n_devices; i++) {
		const struct gpu_device *part = &ids->devices[i];

		if (!is_part(part, d))
			continue;
		add_part(&ours, &part->ours, part->was_listed);
		add_part(&others, &part->others, part->was_listed);
	}
	gpu_amount_put(out, M_GPU_JOB_MEM, id, &ours);
	gpu_amount_put(out, M_GPU_FOREIGN_MEM, id, &others);
	d->parts_listed = false;
}

static bool share_memory(const struct gpu_device *a, const struct gpu_device *b)
{
	return a == b || (a->gpu_instance.known && b->gpu_instance.known && a->gpu_instance.value == b->gpu_instance.value &&
				 strcmp(a->parent, b->parent) == 0);
}

/* What is attributed of the memory that the device tells of: compute instances of one GPU instance have one memory, and
 * lists of their own. */
static struct amount attributed(const struct gpu_ids *ids, const struct gpu_device *d)
{
	struct amount sum = { 0 };

	for (size_t i = 0; i < ids->n_devices; i++) {
		const struct gpu_device *other = &ids->devices[i];

		if (!share_memory(d, other))
			continue;
		sum.bytes += other->visible.bytes;
		sum.unknown = sum.unknown || other->visible.unknown;
	}
	return sum;
}

/* Memory may have come or gone between the look at the device and the list: of the looks before and after it, the one
 * that leaves less over counts. */
void gpu_tell_unattributed(const struct gpu_ids *ids, struct gpu_device *d, struct framebuf *out)
{
	const int64_t mem = d->mem.value < d->mem_then.value ? d->mem.value : d->mem_then.value;
	const struct amount whose = attributed(ids, d);

	if (d->mem.known && d->mem_then.known && !whose.unknown && !d->unified)
		framebuf_value(out, M_GPU_UNATTRIBUTED_MEM, (uint32_t) (d - ids->devices) + 1,
			mem > whose.bytes ? mem - whose.bytes : 0);
	d->mem_then = UNKNOWN;
}
