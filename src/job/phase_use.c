/* SPDX-License-Identifier: MIT
 *
 * Use during a phase: GPUs, energy, CPUs. A phase gets the part of the energy and work between two
 * values that corresponds to the time in which it was open; it waits for the first value after
 * its end.
 */
#include <string.h>

#include "base/buf.h"
#include "job/job_internal.h"

enum {
	MAX_UNSETTLED = 1 << 20,
	MAX_WAITING = 1000 /* ended phases that wait for values */
};

/* ---- the whole run so far -------------------------------------------------------------------- */

static struct maybe cpu_time(const struct job *job)
{
	const struct acc *user = job_acc(job, M_JOB_CPU_USER, 0), *system = job_acc(job, M_JOB_CPU_SYSTEM, 0);

	return user && system ? known(user->last + system->last) : UNKNOWN;
}

static bool is_summed(const struct job *job, uint32_t id)
{
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		if (job_gpu(job, i)->birth.id == id)
			return job_gpu(job, i)->energy_is_summed;
	}
	return false;
}

struct maybe job_gpu_energy(const struct job *job, uint32_t id, bool *ret_counted)
{
	const struct acc *counter = job_acc(job, M_GPU_ENERGY, id), *power = job_acc(job, M_GPU_POWER, id);

	*ret_counted = counter && !is_summed(job, id);
	if (counter && counter->n < 2) /* one reading has no rise */
		return UNKNOWN;
	if (counter)
		return known(counter->last > counter->min ? counter->last - counter->min : 0);
	return power ? known((int64_t) (power->sum / 1e9)) : UNKNOWN; /* uW x ns / 1e9 = uJ */
}

/* An instance has no power of its own. GPUs without a value are left out of the sum. */
struct maybe job_gpus_energy(const struct job *job)
{
	struct maybe sum = UNKNOWN;
	bool counted;

	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct birth *b = &job_gpu(job, i)->birth;

		if (*b->gpu.parent || !job_gpu_counts(job, b))
			continue;
		const struct maybe one = job_gpu_energy(job, b->id, &counted);

		sum = sum.known && one.known ? maybe_sum(sum, one) : maybe_max(sum, one);
	}
	return sum;
}

static bool is_the_jobs(const struct job *job, uint32_t gpu)
{
	const struct acc *used = job_acc(job, M_GPU_JOB_MEM, gpu);

	return !used || used->last > 0;
}

/* ---- between two values ---------------------------------------------------------------------- */

/* A rise between two values, assumed to be even. */
struct rise {
	enum phase_part part;
	uint64_t from_ns, to_ns;
	double amount;
	bool gap; /* too far apart: the time between is unknown */
};

/* The part of a phase's use that a metric adds to; PART_COUNT: none. The energy of a GPU is its
 * counter, or its power if it has none. */
static enum phase_part part_of(const struct job *job, enum metric metric, uint32_t id)
{
	if (metric == M_HOST_ENERGY)
		return PART_CPU_ENERGY;
	if (metric == M_GPU_ENERGY || (metric == M_GPU_POWER && !job_acc(job, M_GPU_ENERGY, id)))
		return job_gpu_id_counts(job, id) ? PART_GPU_ENERGY : PART_COUNT;
	if (metric == M_GPU_BUSY && is_the_jobs(job, id))
		return PART_BUSY;
	return metric == M_GPU_SM_ACTIVE && is_the_jobs(job, id) ? PART_SM : PART_COUNT;
}

static struct rise counter_rise(const struct acc *before, const struct acc *now, uint64_t hold_ns)
{
	return (struct rise) {
		.from_ns = before->last_at_ns,
		.to_ns = before->n > 0 ? now->last_at_ns : 0,
		.amount = now->last > before->last ? (double) (now->last - before->last) : 0,
		.gap = hold_ns > 0 && now->last_at_ns - before->last_at_ns > hold_ns,
	};
}

/* A window's value covers the time after its start, a live mean the time before it; a sample's value is
 * valid until the next one. */
static struct rise integral_rise(const struct acc *before, const struct acc *now, bool is_live_mean)
{
	const uint64_t span_ns = now->span_ns - before->span_ns;
	const uint64_t from_ns = before->n > 0 && !is_live_mean ? before->last_at_ns
				 : now->last_at_ns > span_ns    ? now->last_at_ns - span_ns
								: 0;

	return (struct rise) {
		.from_ns = from_ns, .to_ns = from_ns + span_ns, .amount = now->sum - before->sum
	};
}

static void phase_add_rise(struct phase *p, const struct rise *rise)
{
	const uint64_t from = p->begin_ns > rise->from_ns ? p->begin_ns : rise->from_ns;
	const uint64_t to = p->end_ns != 0 && p->end_ns < rise->to_ns ? p->end_ns : rise->to_ns;
	const uint64_t whole = rise->to_ns - rise->from_ns;

	if (to <= from || (rise->gap && to - from < whole))
		return;
	p->use.parts[rise->part].sum += rise->amount * ((double) (to - from) / (double) whole);
	p->use.parts[rise->part].span_ns += to - from;
}

void phases_add_rise(struct job *job, const struct reading *r, const struct acc *before,
	const struct acc *now, const struct frame *frame)
{
	const enum phase_part part = job->n_unsettled > 0 ? part_of(job, r->metric, r->id) : PART_COUNT;
	struct rise rise;

	if (part == PART_COUNT)
		return;
	if (metrics[r->metric].kind == KIND_GAUGE)
		rise = integral_rise(before, now, frame->live && r->span_ns > 0);
	else
		rise = counter_rise(before, now, frame->hold_ns);
	rise.part = part;
	if (r->metric == M_GPU_POWER)
		rise.amount /= 1e9; /* uW x ns */
	job->parts_changed = true;
	for (size_t i = 0; rise.to_ns > rise.from_ns && i < job->n_unsettled; i++)
		phase_add_rise(&job->phases[job->unsettled[i]], &rise);
}

/* ---- a phase --------------------------------------------------------------------------------- */

/* Time up to which all energy values are complete, and the number of GPUs with energy. */
struct energy_readings {
	uint64_t until_ns[PART_COUNT]; /* of energies */
	unsigned gpus;
	bool all_gpus;
};

static void keep_earlier(uint64_t *until_ns, const struct acc *acc)
{
	if (acc && acc->last_at_ns < *until_ns)
		*until_ns = acc->last_at_ns;
}

static bool is_complete(const struct energy_readings *t, const struct phase *p)
{
	return p->end_ns <= t->until_ns[PART_CPU_ENERGY] && p->end_ns <= t->until_ns[PART_GPU_ENERGY];
}

static struct energy_readings energy_readings_of(const struct job *job)
{
	struct energy_readings t = {
		.until_ns = { [PART_CPU_ENERGY] = UINT64_MAX, [PART_GPU_ENERGY] = UINT64_MAX },
		.all_gpus = true,
	};

	keep_earlier(&t.until_ns[PART_CPU_ENERGY], job_acc(job, M_HOST_ENERGY, 0));
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct gpu_entity *gpu = job_gpu(job, i);
		const struct acc *counter = job_acc(job, M_GPU_ENERGY, gpu->birth.id);
		const struct acc *acc = counter ? counter : job_acc(job, M_GPU_POWER, gpu->birth.id);

		if (*gpu->birth.gpu.parent || !job_gpu_counts(job, &gpu->birth))
			continue; /* an instance has no power of its own */
		t.gpus += acc != NULL;
		t.all_gpus = t.all_gpus && acc;
		if (!gpu->ended)
			keep_earlier(&t.until_ns[PART_GPU_ENERGY], acc);
	}
	return t;
}

/* Until the value after its end comes, the time after the last one is extrapolated. */
static struct maybe energy_of(
	const struct job *job, const struct phase *p, enum phase_part part, const struct energy_readings *t)
{
	const uint64_t length = (p->end_ns ? p->end_ns : job->now_ns) - p->begin_ns;
	const uint64_t covered_ns = p->use.parts[part].span_ns / (part == PART_GPU_ENERGY ? t->gpus : 1);
	double sum = p->use.parts[part].sum;

	if (covered_ns == 0 || covered_ns < length / 2)
		return UNKNOWN;
	if (!p->settled && p->end_ns > t->until_ns[part])
		sum *= 1 + (double) (p->end_ns - t->until_ns[part]) / (double) covered_ns;
	return known((int64_t) (sum + 0.5));
}

static void update_parts(const struct job *job, struct phase *p, const struct energy_readings *t)
{
	p->use.cpu_energy_uj = energy_of(job, p, PART_CPU_ENERGY, t);
	if (t->all_gpus && t->gpus > 0)
		p->use.gpu_energy_uj = energy_of(job, p, PART_GPU_ENERGY, t);
	for (int k = 0; k < GPU_WORK_COUNT; k++) {
		const uint64_t span_ns = p->use.parts[k].span_ns;

		if (span_ns > 0)
			p->use.work[k] = known((int64_t) (p->use.parts[k].sum / (double) span_ns + 0.5));
	}
}

int phase_unsettle(struct job *job, size_t place)
{
	const int r = vec_reserve(&job->unsettled, &job->cap_unsettled, job->n_unsettled,
		sizeof(*job->unsettled), MAX_UNSETTLED);

	if (r < 0)
		return r;
	job->unsettled[job->n_unsettled++] = place;
	return 0;
}

void phase_settle(struct job *job, struct phase *p)
{
	const size_t place = (size_t) (p - job->phases);
	size_t i = job->n_unsettled;

	p->settled = true;
	while (i > 0 && job->unsettled[i - 1] != place)
		i--;
	if (i == 0)
		return;
	memmove(&job->unsettled[i - 1], &job->unsettled[i], (job->n_unsettled - i) * sizeof(*job->unsettled));
	job->n_unsettled--;
}

/* Limits the number of ended phases that wait for values; at the end of the run none waits. */
void phases_update_parts(struct job *job)
{
	const struct energy_readings t = energy_readings_of(job);
	const unsigned most = job->ended ? 0 : MAX_WAITING;
	unsigned waiting = 0;

	for (size_t i = job->n_unsettled; i-- > 0;) {
		struct phase *p = &job->phases[job->unsettled[i]];

		if (p->end_ns != 0 && (is_complete(&t, p) || ++waiting > most))
			phase_settle(job, p);
		update_parts(job, p, &t);
	}
	job->parts_changed = false;
}

void phase_use_end(struct job *job, struct phase *p)
{
	const struct energy_readings t = energy_readings_of(job);

	if (is_complete(&t, p))
		phase_settle(job, p);
	update_parts(job, p, &t);
}

void phase_use_begin(const struct job *job, struct phase *phase)
{
	const struct acc *used = job_acc(job, M_JOB_GPU_MEM, 0), *ram = job_acc(job, M_JOB_RAM, 0);

	phase->use = (struct phase_use) { .cpu_before_ns = cpu_time(job) };
	if (ram)
		phase->use.job_peak = known(ram->last);
	if (used)
		phase->use.gpu_before = phase->use.gpu_peak = phase->use.gpu_after = known(used->last);
}

static void update_cpu(const struct job *job, struct phase_use *use)
{
	const struct maybe now = cpu_time(job);

	if (now.known)
		use->cpu_ns = known(now.value - (use->cpu_before_ns.known ? use->cpu_before_ns.value : 0));
}

static void update_memory(struct phase_use *use, const struct reading *r)
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

static bool is_memory(const struct reading *r)
{
	return r->known && (r->metric == M_JOB_GPU_MEM || r->metric == M_JOB_RAM);
}

static bool has_any(const struct frame *frame)
{
	for (size_t i = 0; i < frame->n_readings; i++) {
		if (is_memory(&frame->readings[i]) ||
			(frame->readings[i].known && frame->readings[i].metric == M_JOB_CPU_USER))
			return true;
	}
	return false;
}

void phases_update_use(struct job *job, const struct frame *frame)
{
	size_t open = job->n_open;

	if (open == 0 || !has_any(frame))
		return;
	for (size_t i = job->n_unsettled; i-- > 0 && open > 0;) {
		struct phase *phase = &job->phases[job->unsettled[i]];

		if (phase->end_ns != 0)
			continue;
		open--;
		for (size_t k = 0; k < frame->n_readings; k++) {
			if (is_memory(&frame->readings[k]))
				update_memory(&phase->use, &frame->readings[k]);
		}
		update_cpu(job, &phase->use);
	}
}
