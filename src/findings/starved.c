/* SPDX-License-Identifier: MIT
 *
 * Does training wait for its data? By what the program itself says of its steps, else by a GPU that waits or a main
 * process that does, while its loaders work all the time or the disk does.
 */
#include "base/units.h"
#include "findings/finding.h"
#include "findings/gpus.h"

enum {
	WAIT_PERCENT = 30,      /* of a step */
	IDLE_PERCENT = 60,      /* a GPU, or main on a core, that is busy for less waits for something */
	LOADER_PERCENT = 90,    /* of a core */
	IOWAIT_PERCENT = 20,
	LIFE_PERCENT = 50,      /* of the run: who lived for less is no loader */
	FEW_STEPS = 10
};

static const struct series *series_of(const struct job *job, enum series_time time)
{
	for (size_t i = 0; i < job_series_count(job); i++) {
		const struct series *s = job_series(job, i);
		const char *behind = series_time(s->name, time);

		if (behind && !*behind && s->n >= FEW_STEPS)
			return s;
	}
	return NULL;
}

/* Everything that is known of it. */
struct evidence_of {
	double waits;          /* share of a step; negative: unknown */
	struct gpus_ranked idle; /* those of its GPUs that are not busy enough, the least busy first */
	size_t gpus;           /* that it used */
	double gpu_busy;       /* of the least busy one, 0 to 1; negative: unknown */
	double main_cores;     /* negative: unknown */
	double iowait;         /* of the machine; negative: unknown */
	int loaders, full;     /* children of main that lived long; those that were at work all the time */
	bool steps;            /* it tells of steps: it is a training */
};

/* Cores that it kept busy while it lived; negative if that is unknown. */
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

static void look_at_processes(const struct summary *s, struct evidence_of *e)
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

/* Each by itself: a mean would hide the one that waits beside seven that do not. */
static void look_at_gpus(const struct summary *s, struct evidence_of *e)
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

static struct evidence_of gather(const struct summary *s)
{
	const struct series *wait = series_of(s->job, SERIES_WAIT), *step = series_of(s->job, SERIES_STEP);
	struct evidence_of e = {
		.waits = -1,
		.iowait = s->iowait_ppm.known ? (double) s->iowait_ppm.value / 1e6 : -1,
		.steps = has_steps(s->job),
	};

	if (wait && step && step->sum > 0 && wait->sum >= 0)
		e.waits = wait->sum / (double) wait->n / (step->sum / (double) step->n);
	look_at_processes(s, &e);
	look_at_gpus(s, &e);
	return e;
}

/* What it may be that keeps the data from coming. Returns false if nothing points to one. */
static bool put_cause(const struct summary *s, const struct evidence_of *e, struct buf *text)
{
	const double cores = s->facts->cpus.known ? (double) s->facts->cpus.value : 0;
	const double used = s->cores_mean_ppm.known ? (double) s->cores_mean_ppm.value / 1e6 : cores;

	if (e->full > 0 && e->full * 2 > e->loaders) {
		buf_printf(text, "%d of %d child processes are at work all the time (%d %% of a core or more)", e->full, e->loaders,
			LOADER_PERCENT);
		if (cores - used >= 1)
			buf_printf(text, ", and %.0f cores are free: try more workers", cores - used);
		else
			buf_str(text, " and no core is free: prepare the data beforehand, or do less of it");
		return true;
	}
	if (e->iowait * 100 > IOWAIT_PERCENT) {
		buf_str(text, "processors wait for the disk: try a local copy of the data, or larger files");
		return true;
	}
	if (e->loaders == 0 && e->main_cores >= 0.9 && e->main_cores <= 1.1) {
		buf_str(text, "the main process loads the data itself, on one core: try worker processes");
		return true;
	}
	return false;
}

static void put_quiet(const struct evidence_of *e, struct buf *text)
{
	if (e->waits >= 0)
		buf_printf(text, "it waits for data %.0f %% of a step; it takes more than %d %%", e->waits * 100, WAIT_PERCENT);
	else if (e->gpu_busy >= 0)
		buf_printf(text, "GPUs were busy %.0f %% of the time or more, %d of %d child processes at work all of it; it takes GPUs under "
				 "%d %%, and loaders, a disk or a main process that keep them waiting",
			e->gpu_busy * 100, e->full, e->loaders, IDLE_PERCENT);
	else
		buf_str(text, "nothing says that it is a training that waits: no GPU, no series data_wait and step_time");
}

/* The signs, from the strongest: what the program says, a GPU that waits, a main process that does. */
static bool is_starved(const struct evidence_of *e, bool has_cause)
{
	if (e->waits >= 0)
		return e->waits * 100 > WAIT_PERCENT;
	if (e->gpu_busy >= 0)
		return e->idle.n > 0 && has_cause;
	return e->steps && e->full > 0 && has_cause && e->main_cores >= 0 && e->main_cores * 100 < IDLE_PERCENT;
}

static void put_busy(const struct summary *s, uint32_t id, struct finding *f)
{
	gpu_evidence(s->job, id, f);
	finding_evidence(f, "gpu_busy_ratio", gpu_busy(s->job, id));
}

static void put_sign(const struct summary *s, const struct evidence_of *e, struct finding *f, struct buf *text)
{
	char name[UNITS_LEN];

	if (e->waits >= 0) {
		finding_evidence(f, "data_wait_ratio", e->waits);
		buf_printf(text, "Each step waits for data %.0f %% of its time", e->waits * 100);
	} else if (e->gpu_busy >= 0) {
		buf_printf(text, "%s was busy %.0f %% of the time: it may be waiting for data",
			gpu_called(s->job, e->idle.list[0].id, e->gpus, name), e->gpu_busy * 100);
	} else {
		buf_printf(text, "The main process used %.2f cores: it may be waiting for data", e->main_cores);
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
	const struct evidence_of e = gather(k->s);
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
