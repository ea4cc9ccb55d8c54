/* SPDX-License-Identifier: MIT
 *
 * The limits of a GPU's process lists: memory that was allocated while no list was read, and
 * whether a zero can be trusted.
 */
#include <string.h>

#include "base/clock.h"
#include "job/job.h"

/* Unlisted part of a GPU's peak from which it is reported, and from which a zero of the job is
 * uncertain. */
static const int64_t unlisted_bytes = INT64_C(1) << 26, uncertain_bytes = INT64_C(1) << 28;

/* Longer than the time between two lists if they are cheap. */
static const uint64_t long_ns = UINT64_C(2000000000);

bool job_gpu_is_of(const struct job *job, const struct birth *b, bool main, bool descendants)
{
	const struct process *p = job_process_by_id(job, b->gpu_process.process);

	return p && p->is_main ? main : descendants;
}

int64_t job_gpu_unlisted(const struct job *job, const struct birth *gpu, int64_t held_bytes, uint64_t *ret_ns)
{
	const struct acc *device = job_acc(job, M_GPU_MEM, gpu->id),
			 *ours = job_acc(job, M_GPU_JOB_MEM, gpu->id);
	const struct acc *foreign = job_acc(job, M_GPU_OTHER_MEM, gpu->id),
			 *unattributed = job_acc(job, M_GPU_UNATTRIBUTED_MEM, gpu->id);

	if (!device || !ours || !foreign || !unattributed || gpu->gpu.unified)
		return 0;
	const int64_t more = device->max - held_bytes - foreign->max - unattributed->max;

	/* all that older recordings have */
	const uint64_t least_ns = device->span_ns > ours->span_ns ? device->span_ns - ours->span_ns : 0;

	*ret_ns = device->unlisted_ns > least_ns ? device->unlisted_ns : least_ns;
	return more < unlisted_bytes || more < device->max / 50 ? 0 : more;
}

/* When the GPU became available: at the run's start if it is among the first that its driver
 * reported, which may have been slow to start; later ones were added later. */
static uint64_t present_since(const struct job *job, const struct gpu_entity *gpu)
{
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct gpu_entity *other = job_gpu(job, i);

		if (strcmp(other->birth.gpu.vendor, gpu->birth.gpu.vendor) == 0 &&
			other->born_ns < gpu->born_ns)
			return gpu->born_ns;
	}
	return 0;
}

uint64_t job_gpu_unqueried(const struct job *job, const struct gpu_entity *gpu, uint64_t *ret_ns)
{
	const struct acc *ours = job_acc(job, M_GPU_JOB_MEM, gpu->birth.id);
	const struct maybe end = job_facts_const(job)->ended_ns;
	const uint64_t until_ns = gpu->ended ? gpu->ended_ns : end.known ? (uint64_t) end.value
									 : job_now(job);

	*ret_ns = counter_delta(present_since(job, gpu), until_ns);
	if (!ours)
		return 0;
	const uint64_t quiet_ns = until_ns > ours->last_at_ns ? until_ns - ours->last_at_ns : 0;
	const uint64_t gaps_ns = *ret_ns > ours->span_ns ? *ret_ns - ours->span_ns : 0;
	const bool was_due = quiet_ns > ours->hold_ns / 2;
	const uint64_t ns = quiet_ns > gaps_ns && was_due ? quiet_ns : gaps_ns;
	const bool is_most = was_due && ns > *ret_ns / 2; /* of a short run */

	return is_most || (ns > long_ns && ns > *ret_ns / 50) ? ns : 0;
}

bool job_gpu_had_hidden_pids(const struct job *job, uint32_t gpu)
{
	for (size_t i = 0; i < job_gpu_process_count(job); i++) {
		const struct gpu_process_birth *p = &job_gpu_process(job, i)->birth.gpu_process;

		if (!p->pid.known && job_gpu_is_on(job, p->gpu, gpu))
			return true;
	}
	return false;
}

/* A driver that lists one process of the job does so for all of them. */
static bool lists_the_job(const struct job *job)
{
	for (size_t i = 0; i < job_gpu_process_count(job); i++) {
		const struct birth *b = &job_gpu_process(job, i)->birth;

		if (b->gpu_process.process && job_acc(job, M_GPROC_MEM, b->id))
			return true;
	}
	return false;
}

int64_t job_gpu_hidden(const struct job *job, uint32_t gpu)
{
	const struct acc *nobodys = job_acc(job, M_GPU_UNATTRIBUTED_MEM, gpu);

	if (job_facts_const(job)->pid_namespace.value != 1 || !nobodys || nobodys->rise < unlisted_bytes ||
		lists_the_job(job))
		return 0;
	return nobodys->rise;
}

bool job_gpu_is_unsure(const struct job *job, const struct gpu_entity *gpu)
{
	const struct acc *ours = job_acc(job, M_GPU_JOB_MEM, gpu->birth.id);
	uint64_t ns = 0, of_ns;

	if (!ours || ours->max != 0)
		return false;
	if (job_gpu_had_hidden_pids(job, gpu->birth.id) || job_gpu_hidden(job, gpu->birth.id) > 0)
		return true;
	const int64_t more = job_gpu_unlisted(job, &gpu->birth, 0, &ns);

	return more >= uncertain_bytes || (more > 0 && ns >= long_ns) ||
	       job_gpu_unqueried(job, gpu, &of_ns) > 0;
}

/* True if device is gpu, or an instance of it while gpu's own figure, the sum over its instances,
 * is zero. */
static bool is_zero_on(const struct job *job, uint32_t device, uint32_t gpu)
{
	const struct acc *ours = job_acc(job, M_GPU_JOB_MEM, gpu);

	return device == gpu || (ours && ours->max == 0 && job_gpu_is_on(job, device, gpu));
}

bool job_gpu_unreported(const struct job *job, uint32_t gpu, bool main, bool descendants)
{
	const struct acc *all = job ? job_acc(job, M_JOB_GPU_MEM, 0) : NULL;

	for (size_t i = 0; job && i < job_gpu_count(job); i++) {
		const struct gpu_entity *g = job_gpu(job, i);

		if ((gpu ? is_zero_on(job, g->birth.id, gpu) : all && all->max == 0) &&
			job_gpu_counts(job, &g->birth) && job_gpu_is_unsure(job, g))
			return true;
	}
	for (size_t i = 0; job && i < job_gpu_process_count(job); i++) {
		const struct birth *b = &job_gpu_process(job, i)->birth;
		bool is_of_run;

		if (!b->gpu_process.process || (gpu && !job_gpu_is_on(job, b->gpu_process.gpu, gpu)) ||
			!job_gpu_is_of(job, b, main, descendants))
			continue;
		(void) job_gpu_hwm(job, b, &is_of_run);
		if (!job_acc(job, M_GPROC_MEM, b->id) && !is_of_run)
			return true;
	}
	return false;
}

struct maybe job_phase_gpu_peak(const struct job *job, const struct phase *phase)
{
	const struct maybe peak = phase->use.gpu_peak;

	return peak.known && peak.value == 0 && job_gpu_unreported(job, 0, true, true) ? UNKNOWN : peak;
}
