/* SPDX-License-Identifier: MIT */
#include "sink/export/export_nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "summary/facts.h"

/* ---- GPUs of a node -------------------------------------------------------------------------- */

/* The job's by the scheduler's list, where it is known, else the GPUs that the job used. */
static bool is_given(const struct summary *s, const struct birth *gpu)
{
	return s->facts->allocated_gpus ? job_gpu_counts(s->job, gpu) : !figure_gpu_unused(s, gpu->id);
}

static void name_gpu(const struct job *job, const struct birth *gpu, struct export_gpu *ret)
{
	const long long number = gpu->gpu.index.known ? (long long) gpu->gpu.index.value
						      : (long long) gpu->id;

	(void) snprintf(ret->index, sizeof(ret->index), "%lld", number);
	for (size_t i = 0; *gpu->gpu.parent && i < job_gpu_count(job); i++) {
		const struct birth *other = &job_gpu(job, i)->birth;

		if (strcmp(other->gpu.uuid, gpu->gpu.parent) == 0 && other->gpu.index.known)
			(void) snprintf(ret->index, sizeof(ret->index), "%u.%u",
				(unsigned) other->gpu.index.value, (unsigned) number);
	}
}

/* Of a merged job: on which of its nodes. */
static bool is_on(const struct parts *parts, uint32_t gpu, size_t node)
{
	for (size_t i = 0; parts && i < parts->n_gpus; i++) {
		if (parts->gpu[i].gpu == gpu && parts->gpu[i].node == node)
			return true;
	}
	return !parts;
}

static int read_gpus(const struct summary *s, size_t number, struct export_node *node)
{
	const size_t n = s->job ? job_gpu_count(s->job) : 0;

	node->gpus = calloc(n + 1, sizeof(*node->gpus));
	if (!node->gpus)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct birth *gpu = &job_gpu(s->job, i)->birth;
		struct export_gpu *to = &node->gpus[node->n_gpus];
		enum method method;

		if (!is_on(s->job ? job_parts(s->job) : NULL, gpu->id, number) || !is_given(s, gpu))
			continue;
		name_gpu(s->job, gpu, to);
		to->util_ppm = summary_mean(s, M_GPU_BUSY, gpu->id);
		to->used_bytes = summary_gpu_job_peak(s, gpu->id, &method);
		if (!to->used_bytes.known)
			to->used_bytes = summary_gpu_device_peak(s, gpu->id);
		to->total_bytes = gpu->gpu.memory_bytes;
		node->n_gpus++;
	}
	return 0;
}

/* ---- the job --------------------------------------------------------------------------------- */

static void read_node(const struct summary *s, struct export_node *node)
{
	const struct facts *f = s->facts;
	const char *name = f->node && *f->node ? f->node : f->host;

	(void) snprintf(node->name, sizeof(node->name), "%s", name && *name ? name : "unknown");
	node->cpus = f->request_cpus.known ? f->request_cpus : f->cpus;
	node->cpu_ns = maybe_sum(s->user_ns, s->system_ns);
	node->used_bytes = s->combined.peak;
	node->total_bytes = ceiling_of(s).bytes;
}

static void read_task(const struct summary *s, struct export_task *task)
{
	const struct acc *read = s->job ? job_acc(s->job, M_JOB_READ_CHARS, 0) : NULL;
	const struct acc *written = s->job ? job_acc(s->job, M_JOB_WRITE_CHARS, 0) : NULL;

	task->rank = s->facts->rank;
	task->peak_bytes = s->combined.peak;
	task->mean_bytes = s->combined.mean;
	task->read_bytes = read ? known(read->last) : UNKNOWN;
	task->write_bytes = written ? known(written->last) : UNKNOWN;
}

/* Of a node: the CPUs', and that of its GPUs if it has any; unknown unless all are known. */
static struct maybe node_energy(const struct summary *s)
{
	if (s->job && job_gpus_counted(s->job) > 0)
		return maybe_sum(s->cpu_energy_uj, s->gpu_energy_uj);
	return s->cpu_energy_uj;
}

static bool is_of_node(const struct facts *f)
{
	return f->part && strcmp(f->part, "node") == 0;
}

/* ---- of a merged job -------------------------------------------------------------------------- */

static void read_part_node(const struct parts *parts, size_t i, struct export_node *node)
{
	const struct part_node *from = &parts->node[i];

	(void) snprintf(node->name, sizeof(node->name), "%s", from->name ? from->name : "unknown");
	node->cpus = from->cpus;
	node->cpu_ns = from->cpu_ns;
	node->used_bytes = from->ram_peak_bytes;
	node->total_bytes = from->limit_bytes.known ? from->limit_bytes : from->capacity_bytes;
}

static void read_part(const struct parts *parts, const struct part *part, struct export_job *ret)
{
	const size_t node = parts_node_of(parts, part->node);

	if (part_is_rank(part) && node < ret->n)
		ret->tasks[ret->n_measured++] = (struct export_task) {
			.rank = part->rank,
			.node = node,
			.peak_bytes = part->ram_peak_bytes,
		};
}

static int read_parts(const struct summary *s, struct export_job *ret)
{
	const struct parts *parts = job_parts(s->job);
	int r = 0;

	ret->n = parts->n_nodes;
	ret->n_measured = 0;
	for (size_t i = 0; i < parts->n_nodes; i++)
		read_part_node(parts, i, &ret->nodes[i]);
	for (size_t i = 0; i < parts->n; i++)
		read_part(parts, &parts->part[i], ret);
	for (size_t i = 0; r == 0 && i < parts->n_nodes; i++)
		r = read_gpus(s, i, &ret->nodes[i]);
	return r;
}

/* Of all nodes, what one of them was given each. */
static struct maybe of_all(struct maybe of_one, struct maybe nodes)
{
	const int64_t n = nodes.known ? nodes.value : 1;
	int64_t all;

	if (!of_one.known || __builtin_mul_overflow(of_one.value, n, &all))
		return UNKNOWN;
	return known(all);
}

int export_job_read(const struct summary *s, struct export_job *ret)
{
	const struct facts *f = s->facts;
	const struct parts *parts = s->job ? job_parts(s->job) : NULL;

	*ret = (struct export_job) {
		.wall_ns = s->wall_ns,
		.cpu_ns = maybe_sum(s->user_ns, s->system_ns),
		.energy_uj = node_energy(s),
		.request_bytes = f->request_bytes,
		.request_cpus = f->request_cpus,
		.request_gpus = f->request_gpus,
		.n_nodes = f->nodes,
		.n_tasks = f->ranks,
		.nodes = calloc(parts ? parts->n_nodes + 1 : 1, sizeof(*ret->nodes)),
		.tasks = calloc(parts ? parts->n + 1 : 1, sizeof(*ret->tasks)),
		.n = 1,
		.n_measured = is_of_node(f) ? 0 : 1,
	};
	if (!ret->nodes || !ret->tasks)
		return -ENOMEM;
	if (parts)
		return read_parts(s, ret);
	ret->request_bytes = of_all(f->request_bytes, f->nodes);
	ret->request_cpus = of_all(f->request_cpus, f->nodes);
	ret->request_gpus = of_all(f->request_gpus, f->nodes);
	read_node(s, &ret->nodes[0]);
	read_task(s, &ret->tasks[0]);
	return read_gpus(s, 0, &ret->nodes[0]);
}

void export_job_done(struct export_job *job)
{
	for (size_t i = 0; job->nodes && i < job->n; i++)
		free(job->nodes[i].gpus);
	free(job->nodes);
	free(job->tasks);
	*job = (struct export_job) { .n = 0 };
}
