/* SPDX-License-Identifier: MIT
 *
 * Load of other processes on the CPUs and GPUs that the job used.
 */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "findings/finding.h"
#include "findings/gpus.h"

enum {
	FOREIGN_PERCENT = 10,
	/* of the driver's samples: below this the job's own processes were idle there */
	IDLE_PERCENT = 5,
};

/* Number of CPUs of the machine, from the sum of its CPU times; 0 if unknown. */
static double cores_of_machine(const struct summary *s)
{
	static const enum metric parts[] = {
		M_HOST_CPU_USER,
		M_HOST_CPU_SYSTEM,
		M_HOST_CPU_IDLE,
		M_HOST_CPU_IOWAIT,
		M_HOST_CPU_STEAL,
	};
	const struct acc *acc = job_acc(s->job, parts[0], 0);
	double sum = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		sum += (double) figures_rise(s, parts[i]).value;
	return acc && acc->last_at_ns > 0 ? sum / (double) acc->last_at_ns : 0;
}

static bool foreign_on_cores(const struct summary *s, struct finding *f, struct buf *text)
{
	const double all = cores_of_machine(s), others = other_cores(s);
	const double ours = s->facts->cpus.known ? (double) s->facts->cpus.value : 0;

	if (all <= 0 || ours <= 0 || !s->cores_mean_ppm.known) {
		buf_str(text, "the CPU use of other processes is unknown");
		return false;
	}
	/* Load on CPUs that the job may not use does not slow it down. */
	if (ours < all * 0.9) {
		buf_printf(text, "the job may use %.0f of %.0f cores; load on the others does not matter",
			ours, all);
		return false;
	}
	if (others * 100 <= all * FOREIGN_PERCENT) {
		buf_printf(text,
			"other processes kept %.1f of %.0f cores busy; fires above %d %% of the cores",
			others, all, FOREIGN_PERCENT);
		return false;
	}
	finding_evidence(f, "other_cores", others);
	finding_evidence(f, "cores", all);
	buf_printf(text,
		"Other processes kept %.1f of the job's %.0f cores busy: it may have run slower than it would alone.",
		others, all);
	return true;
}

/* ---- on GPUs ---------------------------------------------------------------------------------------------------------- */

/* Use of a GPU by other processes; shares from 0 to 1, negative: unknown. */
struct others {
	double bytes, memory;  /* their peak memory; the same as a share of the GPU's */
	double active;         /* share of time in which they used the engine, by the driver's samples */
	double busy, own;      /* of the device; of the job's processes on it */
};

/* Time for which the GPU was read: drivers stop answering at times. */
static double time_read_ns(const struct summary *s, uint32_t id)
{
	const struct acc *busy = job_acc(s->job, M_GPU_BUSY, id),
			 *acc = busy ? busy : job_acc(s->job, M_GPU_MEM, id);

	return acc ? (double) acc->span_ns : 0;
}

/* Time in which processes on a GPU, the job's or others', used its engine, as a share of the time
 * for which it was read. Negative: unknown for all of them; with complete also if unknown for one of
 * them or for more than half of the time. */
static double active(const struct summary *s, uint32_t id, bool ours, bool complete)
{
	const double read_ns = time_read_ns(s, id);
	double sum = 0, longest_ns = 0;

	for (size_t i = 0; i < job_gpu_process_count(s->job); i++) {
		const struct birth *b = &job_gpu_process(s->job, i)->birth;
		const struct acc *acc = job_acc(s->job, M_GPROC_SM_BUSY, b->id);

		if (b->gpu_process.gpu != id || (b->gpu_process.process != 0) != ours)
			continue;
		if (!acc && complete)
			return -1;
		sum += acc ? acc->sum / 1e6 : 0;
		longest_ns = acc ? fmax(longest_ns, (double) acc->span_ns) : longest_ns;
	}
	if (longest_ns <= 0 || read_ns <= 0 || (complete && longest_ns * 2 < read_ns))
		return -1;
	return fmin(sum / read_ns, 1);
}

/* If no process of the job is listed, the pids may be of another namespace, and so of any
 * process. */
static bool has_own(const struct job *job, uint32_t id)
{
	for (size_t i = 0; i < job_gpu_process_count(job); i++) {
		const struct gpu_process_birth *b = &job_gpu_process(job, i)->birth.gpu_process;

		if (b->gpu == id && b->process != 0)
			return true;
	}
	return false;
}

/* True if the driver reports all work of a process. Drivers for AMD do not count work by ROCm for
 * any process. */
static bool reports_all_work(const struct job *job, uint32_t id)
{
	for (size_t i = 0; i < job_gpu_count(job); i++) {
		const struct birth *b = &job_gpu(job, i)->birth;

		if (b->id == id)
			return strcmp(b->gpu.vendor, "nvidia") == 0;
	}
	return false;
}

static struct others others_on(const struct summary *s, uint32_t id)
{
	const double all = gpu_memory(s->job, id), bytes = gpu_most(s->job, M_GPU_OTHER_MEM, id);

	return (struct others) {
		.bytes = bytes,
		.memory = all > 0 && bytes >= 0 ? bytes / all : -1,
		.active = has_own(s->job, id) ? active(s, id, false, false) : -1,
		.busy = gpu_share(s->job, M_GPU_BUSY, id),
		.own = reports_all_work(s->job, id) ? active(s, id, true, true) : -1,
	};
}

/* Busy although the job was idle there and no other process is known to work or to use much memory
 * there. */
static bool is_busy_unattributed(const struct others *o)
{
	return o->busy * 100 > FOREIGN_PERCENT && o->own >= 0 && o->own * 100 < IDLE_PERCENT &&
	       o->active * 100 <= FOREIGN_PERCENT && o->memory * 100 <= FOREIGN_PERCENT;
}

/* Share of the GPU that others used, by the strongest sign; negative: no sign. */
static double foreign_share(const struct others *o)
{
	const double most = fmax(o->memory, o->active);

	if (is_busy_unattributed(o))
		return o->busy;
	return most * 100 > FOREIGN_PERCENT ? most : -1;
}

static void foreign_evidence(const struct summary *s, uint32_t id, struct finding *f)
{
	const struct others o = others_on(s, id);

	gpu_evidence(s->job, id, f);
	if (o.bytes > 0) /* 0 where other processes cannot be seen */
		finding_evidence(f, "other_gpu_bytes", o.bytes);
	if (o.active >= 0)
		finding_evidence(f, "other_active_ratio", o.active);
	if (is_busy_unattributed(&o)) {
		finding_evidence(f, "gpu_busy_ratio", o.busy);
		finding_evidence(f, "own_active_ratio", o.own);
	}
}

static void put_foreign(const struct summary *s, uint32_t id, struct buf *text)
{
	const struct others o = others_on(s, id);
	const bool used = o.memory * 100 > FOREIGN_PERCENT, active_there = o.active * 100 > FOREIGN_PERCENT;
	char bytes[UNITS_LEN], name[UNITS_LEN];

	(void) gpu_name(s->job, id, name);
	(void) units_bytes((int64_t) o.bytes, UNITS_IEC, bytes);
	if (is_busy_unattributed(&o))
		buf_printf(text,
			"%s was busy %.0f %% of the time, the job's processes on it %.0f %% (the driver's samples): other processes may have used it.",
			name, o.busy * 100, o.own * 100);
	else if (used && active_there)
		buf_printf(text,
			"Other processes used %s of memory on %s, which the job used, and were active there %.0f %% of the time (the driver's samples)",
			bytes, name, o.active * 100);
	else if (used)
		buf_printf(text, "Other processes used %s of memory on %s, which the job used", bytes, name);
	else
		buf_printf(text,
			"Other processes were active %.0f %% of the time (the driver's samples) on %s, which the job used",
			o.active * 100, name);
	if (!is_busy_unattributed(&o))
		buf_str(text, ": they may have slowed it down.");
}

static bool foreign_on_gpus(const struct summary *s, struct finding *f, struct buf *text)
{
	const struct gpus used = gpus_used(s->job);
	struct gpus_ranked shared = { 0 };

	for (size_t i = 0; i < used.n; i++) {
		const struct others o = others_on(s, used.ids[i]);

		if (foreign_share(&o) >= 0)
			gpus_rank(&shared, used.ids[i], foreign_share(&o));
	}
	if (shared.n == 0)
		return false;
	gpus_evidence(s, &shared, used.n, foreign_evidence, f);
	put_foreign(s, shared.list[0].id, text);
	gpus_put_others(s->job, &shared, used.n, text);
	return true;
}

bool rule_cpu_contention(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	struct buf gpus = BUF_INIT(4096);
	const bool on_cores = foreign_on_cores(k->s, f, text), on_gpus = foreign_on_gpus(k->s, f, &gpus);

	if (on_gpus && !on_cores)
		buf_clear(text);
	if (on_gpus)
		buf_printf(text, "%s%s", on_cores ? " " : "", gpus.data);
	if (on_cores || on_gpus)
		buf_str(text, " Measure again without other load.");
	buf_done(&gpus);
	return on_cores || on_gpus;
}
