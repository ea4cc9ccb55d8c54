/* SPDX-License-Identifier: MIT
 *
 * What was used while a phase was open: GPUs and energy. Counters and integrals of the whole run are looked at when it
 * begins, and what they rose by since is the phase's.
 */
#include "job/job_internal.h"

/* ---- of the whole run, so far ---------------------------------------------------------------------------------------- */

static struct maybe cpu_energy(const struct job *job)
{
	const struct acc *acc = job_acc(job, M_HOST_ENERGY, 0);

	return acc ? known(acc->last - acc->min) : UNKNOWN;
}

static struct maybe cpu_time(const struct job *job)
{
	const struct acc *user = job_acc(job, M_JOB_CPU_USER, 0), *system = job_acc(job, M_JOB_CPU_SYSTEM, 0);

	return user && system ? known(user->last + system->last) : UNKNOWN;
}

struct maybe job_gpu_energy(const struct job *job, uint32_t id, bool *ret_counted)
{
	const struct acc *counter = job_acc(job, M_GPU_ENERGY, id), *power = job_acc(job, M_GPU_POWER, id);

	*ret_counted = counter;
	if (counter)
		return known(counter->last > counter->min ? counter->last - counter->min : 0);
	return power ? known((int64_t) (power->sum / 1e9)) : UNKNOWN; /* uW x ns / 1e9 = uJ */
}

/* An instance has no power of its own. */
struct maybe job_gpus_energy(const struct job *job)
{
	struct maybe sum = job_gpu_count(job) > 0 ? known(0) : UNKNOWN;
	bool counted;

	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct birth *b = &job_gpu(job, i)->birth;

		if (!*b->gpu.parent)
			sum = maybe_sum(sum, job_gpu_energy(job, b->id, &counted));
	}
	return sum;
}

static bool is_the_jobs(const struct job *job, uint32_t gpu)
{
	const struct acc *held = job_acc(job, M_GPU_JOB_MEM, gpu);

	return !held || held->last > 0;
}

/* Which integral a metric adds to; GPU_WORK_COUNT: none. */
static enum gpu_work work_of(enum metric metric)
{
	return metric == M_GPU_BUSY ? GPU_WORK_BUSY : metric == M_GPU_SM_ACTIVE ? GPU_WORK_SM
										: GPU_WORK_COUNT;
}

void gpu_work_take(struct job *job, enum metric metric, uint32_t gpu, const struct acc *before, const struct acc *now)
{
	const enum gpu_work k = work_of(metric);

	if (k == GPU_WORK_COUNT || !is_the_jobs(job, gpu))
		return;
	job->work[k].sum += now->sum - before->sum;
	job->work[k].span_ns += now->span_ns - before->span_ns;
}

/* ---- of a phase ------------------------------------------------------------------------------------------------------ */

static struct maybe risen(struct maybe before, struct maybe now)
{
	if (!now.known)
		return UNKNOWN;
	return known(now.value - (before.known ? before.value : 0));
}

static struct maybe mean_since(const struct gpu_integral *before, const struct gpu_integral *now)
{
	const uint64_t span_ns = now->span_ns - before->span_ns;

	return span_ns > 0 ? known((int64_t) ((now->sum - before->sum) / (double) span_ns + 0.5)) : UNKNOWN;
}

void phase_use_begin(const struct job *job, struct phase *phase)
{
	const struct acc *held = job_acc(job, M_JOB_GPU_MEM, 0), *ram = job_acc(job, M_JOB_RAM, 0);

	phase->use = (struct phase_use) {
		.cpu_before_ns = cpu_time(job),
		.cpu_before_uj = cpu_energy(job),
		.gpu_before_uj = job_gpus_energy(job),
		.work_before = { job->work[GPU_WORK_BUSY], job->work[GPU_WORK_SM] },
	};
	if (ram)
		phase->use.job_peak = known(ram->last);
	if (held)
		phase->use.gpu_before = phase->use.gpu_peak = phase->use.gpu_after = known(held->last);
}

static void update(const struct job *job, struct phase_use *use)
{
	use->cpu_ns = risen(use->cpu_before_ns, cpu_time(job));
	/* A counter that nobody read meanwhile has not stood still. */
	if (use->cpu_energy_read)
		use->cpu_energy_uj = risen(use->cpu_before_uj, cpu_energy(job));
	if (use->gpu_energy_read)
		use->gpu_energy_uj = risen(use->gpu_before_uj, job_gpus_energy(job));
	for (int k = 0; k < GPU_WORK_COUNT; k++)
		use->work[k] = mean_since(&use->work_before[k], &job->work[k]);
}

static void see_memory(struct phase_use *use, const struct reading *r)
{
	if (r->metric == M_JOB_RAM) {
		use->job_peak = maybe_max(use->job_peak, known(r->max));
		return;
	}
	if (!use->gpu_before.known)
		use->gpu_before = use->gpu_peak = known(r->value);
	use->gpu_after = known(r->value);
	use->gpu_peak = maybe_max(use->gpu_peak, known(r->max));
}

static bool is_memory(enum metric m)
{
	return m == M_JOB_GPU_MEM || m == M_JOB_RAM;
}

static bool is_of_use(const struct reading *r)
{
	const enum metric m = r->metric;

	return r->known && (is_memory(m) || m == M_JOB_CPU_USER || m == M_HOST_ENERGY || m == M_GPU_ENERGY || m == M_GPU_POWER ||
				   work_of(m) != GPU_WORK_COUNT);
}

static bool has_any(const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_readings; i++) {
		if (is_of_use(&frame->readings[i]))
			return true;
	}
	return false;
}

/* Of a GPU: its counter, or its power where it has none. */
static bool tells_energy(const struct job *job, const struct reading *r)
{
	return r->metric == M_GPU_ENERGY || (r->metric == M_GPU_POWER && !job_acc(job, M_GPU_ENERGY, r->id));
}

static void see_frame(const struct job *job, struct phase_use *use, const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_readings; i++) {
		const struct reading *r = &frame->readings[i];

		if (r->known && is_memory(r->metric))
			see_memory(use, r);
		use->cpu_energy_read |= r->known && r->metric == M_HOST_ENERGY;
		use->gpu_energy_read |= r->known && tells_energy(job, r);
	}
}

void phases_see_use(struct job *job, const struct frame *frame)
{
	size_t open = job->n_open;

	if (open == 0 || !has_any(frame))
		return;
	for (size_t i = job->n_phases; i-- > 0 && open > 0;) {
		struct phase *phase = &job->phases[i];

		if (phase->end_ns != 0)
			continue;
		open--;
		see_frame(job, &phase->use, frame);
		update(job, &phase->use);
	}
}
