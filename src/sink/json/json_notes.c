/* SPDX-License-Identifier: MIT
 *
 * Each null is explained: by a note of the summary, else by a general reason.
 */
#include <stdio.h>
#include <string.h>

#include "sink/figures.h"
#include "sink/json/json_summary.h"

static bool lacks_detail(const struct ram_figure *r)
{
	return !r->low.known || !r->high.known || !r->at_ns.known || !r->source ||
	       r->method == METHOD_UNKNOWN;
}

static bool lacks_phase(const struct summary *s)
{
	for (size_t i = 0; s->job && i < job_phase_count(s->job); i++) {
		const struct phase *p = job_phase(s->job, i);

		if (!p->ram_known || !p->end_ns)
			return true;
	}
	return false;
}

static bool lacks_process(const struct summary *s)
{
	for (size_t i = 0; s->job && i < job_process_count(s->job); i++) {
		const struct process *p = job_process(s->job, i);

		if (p->peak_bytes <= 0 || !p->cpu_known)
			return true;
	}
	return !s->facts->processes_seen.known || !s->peak_alive.known || !s->facts->processes_left.known;
}

static bool lacks_sampling(const struct facts *f)
{
	return !f->interval_ns.known || !f->samples.known || !f->late_samples.known ||
	       !f->longest_gap_ns.known || !f->own_cpu_ns.known || !f->own_rss_bytes.known;
}

/* A note about "ram" explains "ram.main" too. */
static bool is_explained(const struct summary *s, const char *about)
{
	for (size_t i = 0; i < s->n_notes; i++) {
		size_t n = strlen(s->notes[i].about);

		if (n > 0 && strncmp(s->notes[i].about, about, n) == 0 &&
			(about[n] == '\0' || about[n] == '.'))
			return true;
	}
	return false;
}

static void note(struct json *j, const char *about, const char *why)
{
	json_object(j);
	json_key(j, "about");
	json_str(j, about);
	json_key(j, "why");
	json_str(j, why);
	json_end(j);
}

struct explainer {
	struct json *j;
	const struct summary *s;
};

/* What the recordings of a job's ranks and nodes have, and a sum over them does not. */
static const char *why_of_parts(const struct summary *s, const char *about)
{
	static const char of_ranks[] = "a job of several ranks has none of its own: the recordings of its ranks have it",
			  of_nodes[] = "not added up over the job: the recordings of its ranks and nodes have it";
	static const char *const whys[][2] = {
		{ "processes", of_nodes },
		{ "sampling", of_nodes },
		{ "ram.system", of_nodes },
		{ "ram.main", of_ranks },
		{ "ram.descendants", of_ranks },
		{ "ram.cgroup", of_nodes },
		{ "ram.shmem", of_nodes },
		{ "ram.unreclaimable_peak_bytes", of_nodes },
		{ "ram.rlimits", of_ranks },
		{ "ram.hugetlb", of_nodes },
		{ "swap", of_nodes },
	};

	for (size_t i = 0; s->job && job_parts(s->job) && i < sizeof(whys) / sizeof(whys[0]); i++) {
		if (strcmp(whys[i][0], about) == 0)
			return whys[i][1];
	}
	return NULL;
}

static void explain(const struct explainer *e, bool is_null, const char *about, const char *why)
{
	const char *of_parts = why_of_parts(e->s, about);

	if (is_null && !is_explained(e->s, about))
		note(e->j, about, of_parts ? of_parts : why);
}

static void explain_figure(
	const struct explainer *e, const struct ram_figure *r, const char *about, const char *why)
{
	char mean[64];

	(void) snprintf(mean, sizeof(mean), "%s.mean_bytes", about);
	explain(e, r->peak.known && !r->mean.known, mean, "fewer than three samples of its memory");
	if (!r->peak.known)
		explain(e, true, about, why);
	else if (lacks_detail(r))
		explain(e, true, about, "only its peak is known");
	else
		explain(e, !r->private_bytes.known || !r->shared_bytes.known, about,
			"private and shared: no valid PSS pass near the peak");
}

/* Why there is no end, and no figure that is read at the end. */
static const char *no_end(const struct summary *s)
{
	if (s->elsewhere)
		return "the job is still running on the host that records it, or the recorder was lost before the end of the job";
	return s->lost ? "the recorder was lost before the end of the job" : "the job is still running";
}

static void explain_run(const struct explainer *e)
{
	const struct summary *s = e->s;
	const struct facts *f = s->facts;
	const bool unseen = !ending_of(s).code_known;
	char stopped[256], cut[128];

	if (f->argv_cut.known)
		(void) snprintf(cut, sizeof(cut), "too long to record: %lld arguments are missing or cut",
			(long long) f->argv_cut.value);
	explain(e, f->argv_cut.known, "command", cut);
	explain(e, !f->id, "run", "not recorded");
	explain(e, !f->host, "host", "not recorded");
	explain(e, !f->started_wall_ns.known, "started", "not recorded");
	if (f->recording_stopped)
		(void) snprintf(stopped, sizeof(stopped),
			"the recording stopped before the end of the job: %s", f->recording_stopped);
	explain(e, unseen && !s->complete, "exit", f->recording_stopped ? stopped : no_end(s));
	explain(e, unseen && s->complete, "exit",
		s->job && job_parts(s->job)
			? "no rank is known to have failed, and the exit status of one is unknown"
			: "hiwater did not start the job; only its parent receives its exit status");
	explain(e, !unseen && f->exit_status.known && mode_is_attach(f->mode), "exit",
		"hiwater did not start the job; the kernel's exit record (taskstats) has its status");
	explain(e, !s->wall_ns.known || !s->user_ns.known || !s->system_ns.known, "time", "not read");
	explain(e, lacks_process(s), "processes", "some ended before the first sample");
	explain(e, lacks_phase(s), "phases", "a phase was still open, or too short for a sample");
	explain(e, lacks_sampling(f), "sampling", f->recording_stopped ? stopped : no_end(s));
}

static void explain_cgroup(const struct explainer *e)
{
	const struct summary *s = e->s;
	const bool counts = s->cgroup_peak.known && s->cgroup_oom_kills.known;

	if (counts && s->cgroup_limit.known)
		return;
	if (!s->facts->cgroup)
		explain(e, true, "ram.cgroup", "no cgroup was read");
	else if (s->facts->cgroup_exclusive.value != 1)
		explain(e, true, "ram.cgroup", "the job shared its cgroup with other processes");
	else if (!counts)
		explain(e, true, "ram.cgroup", "this kernel does not report it");
	else
		explain(e, true, "ram.cgroup.limit_bytes",
			"neither the job's cgroup nor those above it have a limit");
}

static void explain_memory(const struct explainer *e)
{
	const struct summary *s = e->s;

	explain(e, !s->facts->capacity_bytes.known, "ram.capacity_bytes", "not read");
	explain(e, s->seen_at_least, "processes.seen",
		s->facts->taskstats_lost.value == 1
			? "a lower bound: exit records of the kernel were lost"
			: "a lower bound: the kernel reports processes that start and end between two samples only to root");
	explain(e, !s->facts->limit_bytes.known, "ram.limit_bytes",
		"no limit below the machine's capacity was found");
	explain(e, !s->system_peak.known, "ram.system", "not read");
	explain_figure(e, &s->main, "ram.main",
		"the main process ended before the first sample, or was not readable");
	explain_figure(
		e, &s->descendants, "ram.descendants", "no descendant was found, or none was readable");
	explain_figure(e, &s->combined, "ram.combined",
		"the job ended before the first sample, or was not readable");
	explain_cgroup(e);
	explain(e, !s->shmem_peak.known, "ram.shmem", "not read");
	explain(e, s->shmem_peak.known && s->shmem_at_most, "ram.shmem",
		"an upper bound: the rise on the whole machine, because the job has no cgroup to itself");
	explain(e, !s->unreclaimable_peak.known, "ram.unreclaimable_peak_bytes",
		s->facts->limit_bytes.known ? "the cgroup with the limit could not be read"
					    : "no memory limit applies to the job");
	explain(e,
		!s->facts->vm_limit_bytes.known || !s->facts->data_limit_bytes.known ||
			!s->facts->rss_limit_bytes.known,
		"ram.rlimits", "no process with such a limit was found, or its limits could not be read");
	explain(e, !s->hugetlb_peak.known, "ram.hugetlb", "not read");
	explain(e, s->hugetlb_at_most, "ram.hugetlb",
		"an upper bound: a sum over processes, in which shared pages count in each");
	explain(e, !s->swap_peak.known, "swap", "not read");
}

static const char *no_gpu_energy(const struct summary *s)
{
	const size_t n = s->job ? job_gpu_count(s->job) : 0;

	if (n > 0 && job_gpus_counted(s->job) == 0)
		return "no GPU was allocated to the job, and none of its processes was seen on one";
	for (size_t i = 0; i < n; i++) {
		if (job_acc(s->job, M_GPU_ENERGY, job_gpu(s->job, i)->birth.id))
			return "an energy counter was read only once, so its increase is unknown";
	}
	return n ? "neither an energy counter nor power was read" : "no GPU was measured";
}

static void explain_allocated(const struct explainer *e)
{
	const char *selection = e->s->facts->gpu_selection;
	char why[512];

	if (!selection || !e->s->job || job_gpu_count(e->s->job) == 0)
		return;
	(void) snprintf(why, sizeof(why), "%s",
		"the scheduler set neither SLURM_STEP_GPUS nor a variable of a vendor: none was allocated");
	if (*selection)
		(void) snprintf(why, sizeof(why),
			"by %.300s%s%s", selection,
			strncmp(selection, "SLURM_", 6) == 0 ? "; Slurm's numbers are taken for the driver's indexes" : "",
			e->s->facts->allocated_gpus ? "" : ", which name no GPU that the driver shows: all of them count");
	explain(e, true, "gpu.devices", why);
}

static void explain_rest(const struct explainer *e)
{
	const bool any = e->s->job && job_gpu_count(e->s->job) > 0;

	explain(e, !any, "gpu", "not measured");
	explain(e, any, "gpu",
		"null: not provided by this device or its driver, or not readable with this user's rights");
	explain_allocated(e);
	explain(e, !e->s->gpu_energy_uj.known, "energy.gpu_j", no_gpu_energy(e->s));
	explain(e, !e->s->read_bytes.known || !e->s->write_bytes.known, "io", "not readable");
	explain(e, !e->s->cpu_energy_uj.known, "energy.cpu_j", "no readable energy counter");
}

static void explain_request(const struct explainer *e)
{
	const struct request *r = &e->s->request;

	if (!r->made || r->why_not[0]) {
		explain(e, true, "request", r->made ? r->why_not : "not made for this output");
		return;
	}
	explain(e, !r->time.value.known, "request.time_s",
		r->is_watched ? "only a part of the job's time was watched" : "no run ended with status 0");
	explain(e, !r->memory.value.known, "request.memory_bytes", "memory was not measured");
	explain(e, !r->cpus.value.known, "request.cpus", "CPU time was not measured");
	explain(e, !r->gpus.value.known, "request.gpus",
		r->gpu_why_not[0] ? r->gpu_why_not : "no GPU was read");
	explain(e, !r->gpu_bytes.known, "request.gpu_memory_bytes",
		r->gpus.value.known && r->gpus.value.value == 0 ? "the job used no GPU" : "not known");
	explain(e,
		r->memory.fit == REQUEST_UNJUDGED || r->cpus.fit == REQUEST_UNJUDGED ||
			r->time.fit == REQUEST_UNJUDGED || r->gpus.fit == REQUEST_UNJUDGED,
		"request", "a fit is null: nothing was requested, or it cannot be judged");
}

void json_notes(struct json *j, const struct summary *s)
{
	const struct explainer e = { j, s };
	size_t n = s->job ? job_process_count(s->job) : 0;
	char others[128];

	json_array(j);
	for (size_t i = 0; i < s->n_notes; i++)
		note(j, s->notes[i].about, s->notes[i].why);
	explain_run(&e);
	explain_memory(&e);
	explain_rest(&e);
	explain_request(&e);
	if (n > JSON_PROCESSES) {
		(void) snprintf(others, sizeof(others), "the %d largest are listed; %zu more were found",
			JSON_PROCESSES, n - JSON_PROCESSES);
		note(j, "processes.list", others);
	}
	json_end(j);
}
