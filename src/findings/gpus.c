/* SPDX-License-Identifier: MIT */
#include "findings/gpus.h"

#include <stdio.h>

#include "findings/finding.h"

static void add_gpu_of(void *ctx, enum metric metric, uint32_t id, const struct acc *acc)
{
	struct gpus *gpus = ctx;

	(void) acc;
	if (metrics[metric].entity != ENTITY_GPU)
		return;
	for (size_t i = 0; i < gpus->n; i++) {
		if (gpus->ids[i] == id)
			return;
	}
	if (gpus->n < GPUS_MOST)
		gpus->ids[gpus->n++] = id;
}

static const struct birth *find(const struct job *job, uint32_t id)
{
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		if (job_gpu(job, i)->birth.id == id)
			return &job_gpu(job, i)->birth;
	}
	return NULL;
}

static const struct gpu_birth *birth_of(const struct job *job, uint32_t id)
{
	const struct birth *birth = find(job, id);

	return birth ? &birth->gpu : NULL;
}

/* Advice about GPUs does not apply to NPUs; of a divided GPU it applies to the instances. */
struct gpus gpus_all(const struct job *job)
{
	struct gpus all = { 0 }, gpus = { 0 };

	job_each_acc(job, add_gpu_of, &all);
	for (size_t i = 0; i < all.n; i++) {
		const struct gpu_birth *birth = birth_of(job, all.ids[i]);

		if (!birth || (!gpu_is_npu(birth) && !job_gpu_is_divided(job, all.ids[i]) &&
				      job_gpu_counts(job, find(job, all.ids[i]))))
			gpus.ids[gpus.n++] = all.ids[i];
	}
	return gpus;
}

struct gpus gpus_used(const struct job *job)
{
	const struct gpus all = gpus_all(job);
	struct gpus used = { 0 };
	bool attributed = false;

	for (size_t i = 0; i < all.n; i++) {
		const double most = gpu_most(job, M_GPU_JOB_MEM, all.ids[i]);
		const bool is_used = most > 0 || job_gpu_unreported(job, all.ids[i], true, true);

		attributed = attributed || most >= 0;
		if (is_used)
			used.ids[used.n++] = all.ids[i];
	}
	return attributed ? used : all;
}

bool gpus_none(const struct gpus *gpus, struct buf *text)
{
	if (gpus->n == 0)
		buf_str(text, "no GPU was used, or none could be read");
	return gpus->n == 0;
}

double gpu_mean(const struct job *job, enum metric metric, uint32_t id)
{
	const struct acc *acc = job_acc(job, metric, id);

	return acc && acc->span_ns > 0 ? acc->sum / (double) acc->span_ns : -1;
}

double gpu_most(const struct job *job, enum metric metric, uint32_t id)
{
	const struct acc *acc = job_acc(job, metric, id);

	return acc ? (double) acc->max : -1;
}

double gpu_job_most(const struct summary *s, uint32_t id)
{
	const struct birth *birth = find(s->job, id);
	enum method method;
	const struct maybe most = summary_gpu_job_peak(s, id, &method);
	uint64_t ns;

	if (!most.known || job_gpu_unreported(s->job, id, true, true))
		return -1;
	return (double) most.value + (birth ? (double) job_gpu_unlisted(s->job, birth, most.value, &ns) : 0);
}

double gpu_device_most(const struct summary *s, uint32_t id)
{
	const struct maybe most = summary_gpu_device_peak(s, id);

	return most.known ? (double) most.value : -1;
}

double gpu_rise(const struct job *job, enum metric metric, uint32_t id)
{
	const struct acc *acc = job_acc(job, metric, id);

	return acc ? (double) acc->last - (double) acc->min : -1;
}

/* The driver's number; its place in gpus_all() where that is unknown. */
static unsigned number_of(const struct job *job, uint32_t id, const struct gpu_birth *birth)
{
	const struct gpus all = gpus_all(job);

	if (birth && birth->index.known)
		return (unsigned) birth->index.value;
	for (unsigned i = 0; i < all.n; i++) {
		if (all.ids[i] == id)
			return i;
	}
	return 0;
}

char *gpu_name(const struct job *job, uint32_t id, char buf[UNITS_LEN])
{
	const struct gpu_birth *birth = birth_of(job, id);

	if (birth && (birth->index.known || *birth->parent))
		return job_gpu_name(job, birth, buf);
	(void) snprintf(buf, UNITS_LEN, "GPU %u", number_of(job, id, birth));
	return buf;
}

void gpu_evidence(const struct job *job, uint32_t id, struct finding *f)
{
	const struct gpu_birth *birth = birth_of(job, id);

	if (birth && *birth->parent) /* the number of an instance is unique on its GPU only */
		finding_text(f, "gpu_uuid", birth->uuid);
	else
		finding_evidence(f, "gpu", number_of(job, id, birth));
}

struct gpus gpus_boards(const struct job *job)
{
	struct gpus boards = gpus_used(job);
	const struct gpus used = boards;

	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const uint32_t id = job_gpu(job, i)->birth.id;

		for (size_t k = 0; k < used.n; k++) {
			if (id != used.ids[k] && job_gpu_is_on(job, used.ids[k], id) &&
				boards.n < GPUS_MOST) {
				boards.ids[boards.n++] = id;
				break;
			}
		}
	}
	return boards;
}

double gpu_memory(const struct job *job, uint32_t id)
{
	const struct gpu_birth *birth = birth_of(job, id);

	if (birth && birth->unified)
		return -1;
	if (birth && birth->memory_bytes.known)
		return (double) birth->memory_bytes.value;
	const struct acc *used = job_acc(job, M_GPU_MEM, id), *left = job_acc(job, M_GPU_MEM_FREE, id);

	return used && left ? (double) used->last + (double) left->last : -1;
}

double gpu_share(const struct job *job, enum metric metric, uint32_t id)
{
	const double mean = gpu_mean(job, metric, id);

	return mean >= 0 ? mean / 1e6 : -1;
}

double gpu_busy(const struct job *job, uint32_t id)
{
	const double busy = gpu_share(job, M_GPU_BUSY, id);

	return busy >= 0 ? busy : gpu_share(job, M_GPU_GRAPHICS_ACTIVE, id);
}

static const char *call(
	const struct job *job, uint32_t id, size_t used, const char *the_one, char buf[UNITS_LEN])
{
	const struct gpu_birth *birth = birth_of(job, id);

	return used > 1 || (birth && *birth->parent) ? gpu_name(job, id, buf) : the_one;
}

const char *gpu_called(const struct job *job, uint32_t id, size_t used, char buf[UNITS_LEN])
{
	return call(job, id, used, "The GPU", buf);
}

const char *gpu_called_within(const struct job *job, uint32_t id, size_t used, char buf[UNITS_LEN])
{
	return call(job, id, used, "the GPU", buf);
}

void gpus_rank(struct gpus_ranked *ranked, uint32_t id, double bad)
{
	size_t at = ranked->n;

	if (ranked->n == GPUS_MOST)
		return;
	for (; at > 0 && ranked->list[at - 1].bad < bad; at--)
		ranked->list[at] = ranked->list[at - 1];
	ranked->list[at].id = id;
	ranked->list[at].bad = bad;
	ranked->n++;
}

void gpus_evidence(const struct summary *s, const struct gpus_ranked *ranked, size_t used, gpu_put *put,
	struct finding *f)
{
	put(s, ranked->list[0].id, f);
	if (used > 1) {
		finding_evidence(f, "gpus_affected", (double) ranked->n);
		finding_evidence(f, "gpus", (double) used);
	}
	for (size_t i = 0; ranked->n > 1 && i < ranked->n && i < EVIDENCE_DEVICES; i++) {
		finding_device(f);
		put(s, ranked->list[i].id, f);
	}
}

void gpus_put_others(const struct job *job, const struct gpus_ranked *ranked, size_t used, struct buf *text)
{
	enum {
		NAMED = 4
	};
	const size_t last = ranked->n < NAMED + 1 ? ranked->n : NAMED + 1;
	char name[UNITS_LEN];

	if (ranked->n < 2)
		return;
	for (size_t i = 1; i < last; i++)
		buf_printf(text, "%s%s", i == 1 ? " The same applies to " : i + 1 == ranked->n ? " and "
											       : ", ",
			gpu_name(job, ranked->list[i].id, name));
	if (ranked->n > last)
		buf_printf(text, " and %zu more", ranked->n - last);
	buf_printf(text, " (%zu of %zu).", ranked->n, used);
}
