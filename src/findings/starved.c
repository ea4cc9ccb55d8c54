/* SPDX-License-Identifier: MIT
 *
 * data-starved: training waits for its data. Judged by the step times that the program reports,
 * else by a GPU or a main process that is idle while data loaders are busy or the disk is slow.
 */
#include "base/units.h"
#include "findings/finding.h"
#include "findings/gpus.h"

enum {
	WAIT_PERCENT = 30,      /* of a step */
	IDLE_PERCENT = 60,      /* of a GPU, or of a core by main: below it, the GPU or main waits */
	LOADER_PERCENT = 90,    /* of a core */
	IOWAIT_PERCENT = 20,
	LIFE_PERCENT = 50,      /* of the run: children with a shorter life are no loaders */
	FEW_STEPS = 10
};

static const struct series *series_of(const struct job *job, enum series_time time)
{
	for (size_t i = 0; i < job_series_count(job); i++) {
		const struct series *s = job_series(job, i);
		const char *rest = series_time(s->name, time);

		if (rest && !*rest && s->n >= FEW_STEPS)
			return s;
	}
	return NULL;
}

/* Signs that training waits, and their possible causes. */
struct signs {
	double waits;          /* share of a step; negative: unknown */
	struct gpus_ranked idle; /* used GPUs below IDLE_PERCENT, the least busy first */
	size_t gpus;           /* number of used GPUs */
	double gpu_busy;       /* of the least busy GPU, 0 to 1; negative: unknown */
	double main_cores;     /* negative: unknown */
	double iowait;         /* of the machine; negative: unknown */
	int loaders, full;     /* long-lived children of main; those of them that were busy throughout */
	bool steps;            /* the job logs steps: it is training */
};

/* Cores that the process kept busy during its life; negative: unknown. */
static double cores_of(const struct process *p, int64_t wall_ns)
{
	const uint64_t end = p->ended ? p->ended_ns : (uint64_t) wall_ns;

	if (!p->cpu_known || end <= p->born_ns)
		return -1;
	return ((double) p->cpu_user_ns + (double) p->cpu_system_ns) / (double) (end - p->born_ns);
}

static bool lived_long(const struct process *p, int64_t wall_ns)
{
	const uint64_t end = p->ended ? p->ended_ns : (uint64_t) wall_ns;

	return (double) (end - p->born_ns) * 100 >= (double) wall_ns * LIFE_PERCENT;
}

static void judge_processes(const struct summary *s, struct signs *e)
{
	const struct process *main = job_main(s->job);

	e->main_cores = main ? cores_of(main, s->wall_ns.value) : -1;
	for (size_t i = 0; main && i < job_process_count(s->job); i++) {
		const struct process *p = job_process(s->job, i);

		if (p->is_main || p->parent != main->id || !lived_long(p, s->wall_ns.value))
			continue;
		e->loaders++;
		e->full += cores_of(p, s->wall_ns.value) * 100 >= LOADER_PERCENT;
	}
}

static bool has_steps(const struct job *job)
{
	for (size_t i = 0; i < job_series_count(job); i++) {
		const struct series *s = job_series(job, i);

		if (s->has_step && s->n >= FEW_STEPS)
			return true;
	}
	return false;
}

/* Each GPU by itself: a mean would hide one waiting GPU among eight. */
static void judge_gpus(const struct summary *s, struct signs *e)
{
	const struct gpus used = gpus_used(s->job);

	e->gpus = used.n;
	e->gpu_busy = -1;
	for (size_t i = 0; i < used.n; i++) {
		const double busy = gpu_busy(s->job, used.ids[i]);

		if (busy >= 0 && (e->gpu_busy < 0 || busy < e->gpu_busy))
			e->gpu_busy = busy;
		if (busy >= 0 && busy * 100 < IDLE_PERCENT)
			gpus_rank(&e->idle, used.ids[i], -busy);
	}
}

static struct signs gather(const struct summary *s)
{
	const struct series *wait = series_of(s->job, SERIES_WAIT), *step = series_of(s->job, SERIES_STEP);
	struct signs e = {
		.waits = -1,
		.iowait = s->iowait_ppm.known ? (double) s->iowait_ppm.value / 1e6 : -1,
		.steps = has_steps(s->job),
	};

	if (wait && step && step->sum > 0 && wait->sum >= 0)
		e.waits = wait->sum / (double) wait->n / (step->sum / (double) step->n);
	judge_processes(s, &e);
	judge_gpus(s, &e);
	return e;
}

/* Appends the probable cause of the delay. Returns false if none is found. */
static bool put_cause(const struct summary *s, const struct signs *e, struct buf *text)
{
	const double cores = s->facts->cpus.known ? (double) s->facts->cpus.value : 0;
	const double used = s->cores_mean_ppm.known ? (double) s->cores_mean_ppm.value / 1e6 : cores;

	if (e->full > 0 && e->full * 2 > e->loaders) {
		buf_printf(text, "%d of %d child processes are busy all the time (%d %% of a core or more)",
			e->full, e->loaders, LOADER_PERCENT);
		if (cores - used >= 1)
			buf_printf(text, ", and %.0f cores are free: try more workers", cores - used);
		else
			buf_str(text,
				", and no core is free: preprocess the data in advance, or do less preprocessing");
		return true;
	}
	if (e->iowait * 100 > IOWAIT_PERCENT) {
		buf_str(text, "CPUs wait for the disk: try a local copy of the data, or larger files");
		return true;
	}
	if (e->loaders == 0 && e->main_cores >= 0.9 && e->main_cores <= 1.1) {
		buf_str(text, "the main process loads the data itself, on one core: try worker processes");
		return true;
	}
	return false;
}

static void put_quiet(const struct signs *e, struct buf *text)
{
	if (e->waits >= 0)
		buf_printf(text, "it waits for data %.0f %% of a step; fires above %d %%", e->waits * 100,
			WAIT_PERCENT);
	else if (e->gpu_busy >= 0)
		buf_printf(text,
			"GPUs were busy %.0f %% of the time or more, %d of %d child processes all the time; fires below %d %% of the "
			"time, with busy loaders, a slow disk or a main process that loads alone",
			e->gpu_busy * 100, e->full, e->loaders, IDLE_PERCENT);
	else
		buf_str(text, "no sign of training that waits: no GPU, no series data_wait and step_time");
}

/* By the strongest sign: the program's own report, a GPU that waits, a main process that waits. */
static bool is_starved(const struct signs *e, bool has_cause)
{
	if (e->waits >= 0)
		return e->waits * 100 > WAIT_PERCENT;
	if (e->gpu_busy >= 0)
		return e->idle.n > 0 && has_cause;
	return e->steps && e->full > 0 && has_cause && e->main_cores >= 0 &&
	       e->main_cores * 100 < IDLE_PERCENT;
}

static void put_busy(const struct summary *s, uint32_t id, struct finding *f)
{
	gpu_evidence(s->job, id, f);
	finding_evidence(f, "gpu_busy_ratio", gpu_busy(s->job, id));
}

static void put_sign(const struct summary *s, const struct signs *e, struct finding *f, struct buf *text)
{
	char name[UNITS_LEN];

	if (e->waits >= 0) {
		finding_evidence(f, "data_wait_ratio", e->waits);
		buf_printf(text, "Each step waits for data %.0f %% of its time", e->waits * 100);
	} else if (e->gpu_busy >= 0) {
		buf_printf(text, "%s was busy %.0f %% of the time: it may be waiting for data",
			gpu_called(s->job, e->idle.list[0].id, e->gpus, name), e->gpu_busy * 100);
	} else {
		buf_printf(
			text, "The main process used %.2f cores: it may be waiting for data", e->main_cores);
	}
	if (e->main_cores >= 0)
		finding_evidence(f, "main_cores", e->main_cores);
	finding_evidence(f, "loaders", e->loaders);
	finding_evidence(f, "busy_loaders", e->full);
	if (e->iowait >= 0)
		finding_evidence(f, "iowait_ratio", e->iowait);
	if (e->waits < 0 && e->idle.n > 0)
		gpus_evidence(s, &e->idle, e->gpus, put_busy, f);
}

bool rule_data_starved(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct signs e = gather(k->s);
	struct buf cause = BUF_INIT(4096);
	const bool has_cause = put_cause(k->s, &e, &cause), fires = is_starved(&e, has_cause);

	if (fires) {
		put_sign(k->s, &e, f, text);
		buf_printf(text, "; %s.", has_cause ? cause.data : "try more workers, or a faster disk");
		if (e.waits < 0)
			gpus_put_others(k->s->job, &e.idle, e.gpus, text);
	} else {
		put_quiet(&e, text);
	}
	buf_done(&cause);
	return fires;
}
