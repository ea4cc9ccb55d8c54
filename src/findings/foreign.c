/* SPDX-License-Identifier: MIT
 *
 * Somebody else's work on the processors and the GPUs that the job used.
 */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "findings/finding.h"
#include "findings/gpus.h"

enum {
	FOREIGN_PERCENT = 10,
	IDLE_PERCENT = 5,      /* of the driver's samples: the job's own processes did nothing there */
};

/* Processors of the machine, as its times add up; 0 if that is unknown. */
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
	const double all = cores_of_machine(s), others = foreign_cores(s);
	const double ours = s->facts->cpus.known ? (double) s->facts->cpus.value : 0;

	if (all <= 0 || ours <= 0 || !s->cores_mean_ppm.known) {
		buf_str(text, "what others used of the processors is unknown");
		return false;
	}
	/* Others on other processors are in nobody's way. */
	if (ours < all * 0.9) {
		buf_printf(text, "the job may use %.0f of %.0f cores: others may use the rest", ours, all);
		return false;
	}
	if (others * 100 <= all * FOREIGN_PERCENT) {
		buf_printf(text, "others kept %.1f of %.0f cores busy; it takes more than %d %%", others, all, FOREIGN_PERCENT);
		return false;
	}
	finding_evidence(f, "foreign_cores", others);
	finding_evidence(f, "cores", all);
	buf_printf(text, "Other processes kept %.1f of the job's %.0f cores busy: its time may be longer than it would be alone.",
		others, all);
	return true;
}

/* ---- on GPUs ---------------------------------------------------------------------------------------------------------- */

/* What others did on a GPU; shares from 0 to 1, negative: unknown. */
struct others {
	double bytes, memory;  /* the most that they held */
	double active;         /* of the driver's samples of them, over the run */
	double busy, own;      /* of the device, of the job's processes there */
};

/* For how long it was looked at: drivers fall silent. */
static double looked_at_ns(const struct summary *s, uint32_t id)
{
	const struct acc *busy = job_acc(s->job, M_GPU_BUSY, id), *acc = busy ? busy : job_acc(s->job, M_GPU_MEM, id);

	return acc ? (double) acc->span_ns : 0;
}

/* Time in which processes on a GPU, the job's or others', had its engine, as a share of that in which it was looked at;
 * negative: of none it is known, or, where whole is set, not of all or for less than half of the time. */
static double active(const struct summary *s, uint32_t id, bool ours, bool whole)
{
	const double looked_ns = looked_at_ns(s, id);
	double sum = 0, longest_ns = 0;

	for (size_t i = 0; i < job_gpu_process_count(s->job); i++) {
		const struct birth *b = &job_gpu_process(s->job, i)->birth;
		const struct acc *acc = job_acc(s->job, M_GPROC_SM_BUSY, b->id);

		if (b->gpu_process.gpu != id || (b->gpu_process.process != 0) != ours)
			continue;
		if (!acc && whole)
			return -1;
		sum += acc ? acc->sum / 1e6 : 0;
		longest_ns = acc ? fmax(longest_ns, (double) acc->span_ns) : longest_ns;
	}
	if (longest_ns <= 0 || looked_ns <= 0 || (whole && longest_ns * 2 < looked_ns))
		return -1;
	return fmin(sum / looked_ns, 1);
}

/* Where no process of the job's is listed, pids may be those of another namespace: anybody's. */
static bool has_own(const struct job *job, uint32_t id)
{
	for (size_t i = 0; i < job_gpu_process_count(job); i++) {
		const struct gpu_process_birth *b = &job_gpu_process(job, i)->birth.gpu_process;

		if (b->gpu == id && b->process != 0)
			return true;
	}
	return false;
}

/* Does its driver say of each process what it did there, whatever it did it with? ROCm's work is in no process's figure. */
static bool tells_all_work(const struct job *job, uint32_t id)
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
	const double all = gpu_memory(s->job, id), bytes = gpu_most(s->job, M_GPU_FOREIGN_MEM, id);

	return (struct others) {
		.bytes = bytes,
		.memory = all > 0 && bytes >= 0 ? bytes / all : -1,
		.active = has_own(s->job, id) ? active(s, id, false, false) : -1,
		.busy = gpu_share(s->job, M_GPU_BUSY, id),
		.own = tells_all_work(s->job, id) ? active(s, id, true, true) : -1,
	};
}

/* Busy while the job did nothing there, and nobody is known who did or holds much of it. */
static bool is_busy_by_nobody(const struct others *o)
{
	return o->busy * 100 > FOREIGN_PERCENT && o->own >= 0 && o->own * 100 < IDLE_PERCENT && o->active * 100 <= FOREIGN_PERCENT &&
	       o->memory * 100 <= FOREIGN_PERCENT;
}

/* How much of the GPU was others', by what shows it best; negative: nothing does. */
static double foreign_share(const struct others *o)
{
	const double most = fmax(o->memory, o->active);

	if (is_busy_by_nobody(o))
		return o->busy;
	return most * 100 > FOREIGN_PERCENT ? most : -1;
}

static void foreign_evidence(const struct summary *s, uint32_t id, struct finding *f)
{
	const struct others o = others_on(s, id);

	gpu_evidence(s->job, id, f);
	if (o.bytes > 0) /* that of who cannot be seen is nobody's */
		finding_evidence(f, "foreign_gpu_bytes", o.bytes);
	if (o.active >= 0)
		finding_evidence(f, "foreign_active_ratio", o.active);
	if (is_busy_by_nobody(&o)) {
		finding_evidence(f, "gpu_busy_ratio", o.busy);
		finding_evidence(f, "own_active_ratio", o.own);
	}
}

static void put_foreign(const struct summary *s, uint32_t id, struct buf *text)
{
	const struct others o = others_on(s, id);
	const bool held = o.memory * 100 > FOREIGN_PERCENT, worked = o.active * 100 > FOREIGN_PERCENT;
	char bytes[UNITS_LEN], name[UNITS_LEN];

	(void) gpu_name(s->job, id, name);
	(void) units_bytes((int64_t) o.bytes, UNITS_IEC, bytes);
	if (is_busy_by_nobody(&o))
		buf_printf(text, "%s was busy %.0f %% of the time, the job's processes there %.0f %% (the driver's samples): others may have used it.",
			name, o.busy * 100, o.own * 100);
	else if (held && worked)
		buf_printf(text, "Other processes held %s of %s, which the job used, and worked on it %.0f %% of the time (the driver's samples)",
			bytes, name, o.active * 100);
	else if (held)
		buf_printf(text, "Other processes held %s of %s, which the job used", bytes, name);
	else
		buf_printf(text, "Other processes worked %.0f %% of the time (the driver's samples) on %s, which the job used",
			o.active * 100, name);
	if (!is_busy_by_nobody(&o))
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

bool rule_foreign_load(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	struct buf gpus = BUF_INIT(4096);
	const bool on_cores = foreign_on_cores(k->s, f, text), on_gpus = foreign_on_gpus(k->s, f, &gpus);

	if (on_gpus && !on_cores)
		buf_clear(text);
	if (on_gpus)
		buf_printf(text, "%s%s", on_cores ? " " : "", gpus.data);
	if (on_cores || on_gpus)
		buf_str(text, " Measure again where nobody else works.");
	buf_done(&gpus);
	return on_cores || on_gpus;
}
