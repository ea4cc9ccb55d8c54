/* SPDX-License-Identifier: MIT */
#include "summary/summary.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "summary/summary_internal.h"

const char *method_name(enum method method)
{
	static const char *const names[] = {
		[METHOD_UNKNOWN] = "unknown",
		[METHOD_EXACT] = "exact",
		[METHOD_BOUNDED] = "bounded",
		[METHOD_SAMPLED] = "sampled",
	};

	return names[method];
}

static const struct {
	const char *name, *words;
} fills[FILLS] = {
	[FILL_PROCESSES] = { "processes", "processes of the job" },
	[FILL_SHMEM] = { "shmem", "tmpfs and shared memory" },
	[FILL_CACHE] = { "page_cache", "page cache" },
	[FILL_KERNEL] = { "kernel", "the kernel" },
	[FILL_OTHERS] = { "others", "others" },
};

const char *fill_name(enum fill fill)
{
	return fills[fill].name;
}

const char *fill_words(enum fill fill)
{
	return fills[fill].words;
}

/* ---- notes ---------------------------------------------------------------------------------------------------------- */

int summary_note(struct summary *summary, const char *about, const char *format, ...)
{
	enum {
		NOTE_MAX = 4096
	};
	struct buf text = BUF_INIT(NOTE_MAX);
	struct note *notes;
	va_list ap;
	int r;

	va_start(ap, format);
	r = buf_vprintf(&text, format, ap);
	va_end(ap);
	notes = r == 0 ? reallocarray(summary->notes, summary->n_notes + 1, sizeof(*notes)) : NULL;
	if (notes) {
		summary->notes = notes;
		notes[summary->n_notes] = (struct note) { .about = about, .why = strdup(text.data) };
	}
	if (!notes || !notes[summary->n_notes].why)
		r = r < 0 ? r : -ENOMEM;
	else
		summary->n_notes++;
	buf_done(&text);
	return r;
}

static int note_cpu(struct summary *s)
{
	const struct facts *f = s->facts;

	if (s->cpu_exact || !s->user_ns.known || !s->complete)
		return 0;
	if (!f->reaped_user_ns.known)
		return summary_note(s, "time", "CPU time is sampled: hiwater did not start the job");
	return summary_note(s, "time", "CPU time is a lower bound: some processes were not waited for");
}

static int note_descendants(struct summary *s)
{
	if (s->descendants.peak.known || !s->descendants.low.known)
		return 0;
	if (s->facts->main_ignored_sigchld.value == 1)
		return summary_note(s, "ram.descendants",
			"if there were any, each ended before it could be sampled; the main process ignored SIGCHLD, "
			"so the kernel reported none of them");
	return summary_note(
		s, "ram.descendants", "there were some, but each ended before it could be sampled");
}

static int note_processes(struct summary *s)
{
	if (!s->facts->processes_why || !*s->facts->processes_why)
		return 0;
	return summary_note(s, "processes",
		"none could be read, so for the whole job only wall time, exit status%s the use of reaped processes%s are known: %s",
		s->facts->taskstats.value ? "," : " and",
		s->facts->taskstats.value ? " and the kernel's exit records" : "", s->facts->processes_why);
}

static int note_files(struct summary *s)
{
	if (!s->facts->few_files.known)
		return 0;
	return summary_note(s, "sampling",
		"hiwater may open at most %lld files (ulimit -n): sources that need more were not read",
		(long long) s->facts->few_files.value);
}

static int note_limit(struct summary *s)
{
	if (!s->facts->stopped_by.known || !s->facts->stopped_why)
		return 0;
	return summary_note(s, "exit", "%s", s->facts->stopped_why);
}

/* ---- the figures ---------------------------------------------------------------------------------------------------- */

static struct maybe last_of(const struct job *job, enum metric metric)
{
	const struct acc *acc = job_acc(job, metric, 0);

	return acc ? known(acc->last) : UNKNOWN;
}

/* Data deleted before it reached storage was never written there. */
static struct maybe written(const struct job *job)
{
	struct maybe all = last_of(job, M_JOB_WRITE_BYTES);
	const struct maybe cancelled = last_of(job, M_JOB_WRITE_CANCELLED);

	if (all.known && cancelled.known)
		all.value = all.value > cancelled.value ? all.value - cancelled.value : 0;
	return all;
}

static struct maybe most_of(const struct job *job, enum metric metric)
{
	const struct acc *acc = job_acc(job, metric, 0);

	return acc ? known(acc->max) : UNKNOWN;
}

static struct maybe risen(const struct job *job, enum metric metric)
{
	const struct acc *acc = job_acc(job, metric, 0);

	return acc ? known(acc->last > acc->min ? acc->last - acc->min : 0) : UNKNOWN;
}

/* Clock ticks round up, by less than this. More was used where the scheduler gave fewer cores than the job could run on. */
static int64_t cores_within(int64_t ppm, int64_t all_ppm, int64_t span_ns)
{
	static const double ticks_ns = 1e8;
	const double more_ns = (double) (ppm - all_ppm) * (double) span_ns / 1e6;

	return ppm > all_ppm && (more_ns < ticks_ns || ppm < all_ppm + all_ppm / 20) ? all_ppm : ppm;
}

static void time_figures(const struct job *job, struct summary *s)
{
	const struct facts *f = s->facts;

	s->cpu_exact = f->cpu_is_exact.value == 1 && f->reaped_user_ns.known && f->reaped_system_ns.known;
	s->user_ns = maybe_max(last_of(job, M_JOB_CPU_USER), f->reaped_user_ns);
	s->system_ns = maybe_max(last_of(job, M_JOB_CPU_SYSTEM), f->reaped_system_ns);
	/* /proc counts in clock ticks, which may round above the exact times of the reaped
	 * processes. */
	if (s->cpu_exact) {
		s->user_ns = f->reaped_user_ns;
		s->system_ns = f->reaped_system_ns;
	}
	s->wall_ns = f->ended_ns;
	s->main_wall_ns = f->main_ended_ns;
	if (!s->wall_ns.known && job_now(job) > 0)
		s->wall_ns = known((int64_t) job_now(job));
	if (s->user_ns.known && s->system_ns.known && s->wall_ns.known && s->wall_ns.value > 0) {
		const double cpu = (double) s->user_ns.value + (double) s->system_ns.value;
		/* Where main's own end is unknown, the wall time may be main's alone, though others
		 * were followed beyond it. */
		const struct maybe span = s->main_wall_ns.known
						  ? s->wall_ns
						  : maybe_max(s->wall_ns, known((int64_t) job_now(job)));

		s->cores_mean_ppm = known((int64_t) (cpu / (double) span.value * 1e6));
		if (f->cpus.known && f->cpus.value > 0)
			s->cores_mean_ppm.value =
				cores_within(s->cores_mean_ppm.value, f->cpus.value * 1000000, span.value);
	}
}

/* Page cache in the cgroup's largest charge: as read at that time, else a lower bound, the charge
 * less the most that the job, hiwater, tmpfs and the kernel can have used. */
static struct maybe file_at_peak(const struct job *job, const struct summary *s)
{
	const struct acc *mem = job_acc(job, M_JOB_CGROUP_MEM, 0), *file = job_acc(job, M_JOB_CGROUP_FILE, 0);
	const struct acc *kernel = job_acc(job, M_JOB_CGROUP_KERNEL, 0),
			 *shmem = job_acc(job, M_JOB_CGROUP_SHMEM, 0);
	int64_t rest;

	if (!mem || !file)
		return UNKNOWN;
	if (mem->max == s->cgroup_peak.value && mem->max_at_ns == file->max_at_ns)
		return known(file->max < mem->max ? file->max : mem->max);
	if (!s->combined.high.known || !s->facts->own_rss_bytes.known)
		return UNKNOWN;
	rest = s->cgroup_peak.value - s->combined.high.value - s->facts->own_rss_bytes.value -
	       (kernel ? kernel->max : 0) - (shmem ? shmem->max : 0);
	return known(rest > 0 ? rest : 0);
}

/* In a shared cgroup, kills may have hit other processes, even where SIGKILL ended main: only the
 * processes that the kernel named count. */
static void oom_figures(const struct job *job, struct summary *s)
{
	const bool counts = s->facts->cgroup_exclusive.value == 1;
	const int64_t events = job_oom_events(job);

	s->host_oom_kills = risen(job, M_HOST_OOM_KILLS);
	s->oom_kills = risen(job, M_JOB_OOM_KILLS);
	if (events > 0)
		s->oom_kills = maybe_max(s->oom_kills, known(events));
	s->oom_killed = events > 0 || (counts && s->oom_kills.known && s->oom_kills.value > 0);
}

/* The source reports a high-water mark only if it is of this run; without one the largest sample is
 * no peak of the kernel's. */
static void cgroup_figures(const struct job *job, struct summary *s)
{
	const struct facts *f = s->facts;

	if (f->cgroup_exclusive.value != 1)
		return;
	s->cgroup_limit = f->limit_bytes;
	s->cgroup_oom_kills = s->oom_kills;
	s->cgroup_peak = maybe_max(most_of(job, M_JOB_CGROUP_MEM), most_of(job, M_JOB_CGROUP_PEAK));
	if (s->cgroup_peak.known)
		s->cgroup_method = most_of(job, M_JOB_CGROUP_PEAK).known ? METHOD_EXACT : METHOD_SAMPLED;
	s->cgroup_file_at_peak = file_at_peak(job, s);
}

/* A rise above an earlier value: what was there before the run is not the job's. */
static void shmem_figures(const struct job *job, struct summary *s)
{
	const struct acc *machine = job_acc(job, M_HOST_SHMEM, 0),
			 *limit = job_acc(job, M_JOB_LIMIT_UNRECLAIMABLE, 0);

	if (s->facts->cgroup_exclusive.value == 1)
		s->shmem_peak = most_of(job, M_JOB_CGROUP_SHMEM);
	s->shmem_at_most = !s->shmem_peak.known;
	if (s->shmem_at_most && machine) {
		const struct maybe start = s->facts->shmem_at_start_bytes;
		const int64_t since = start.known ? machine->max - start.value : 0;

		s->shmem_peak = known(machine->rise > since ? machine->rise : since);
	}
	if (limit) {
		s->unreclaimable_peak = known(limit->max);
		s->unreclaimable_at_ns = known((int64_t) limit->max_at_ns);
	}
}

/* The machine's rise is that of all its users, so a small one is not shown. */
bool summary_shows_shmem(const struct summary *s)
{
	static const int64_t least = 1 << 20, least_of_machine = 16 << 20, part_of_peak = 10;
	const int64_t bytes = s->shmem_peak.value;

	return s->shmem_peak.known && bytes >= least &&
	       (!s->shmem_at_most ||
		       (bytes >= least_of_machine && bytes >= s->combined.peak.value / part_of_peak));
}

static struct maybe iowait(const struct job *job)
{
	static const enum metric parts[] = {
		M_HOST_CPU_IOWAIT,
		M_HOST_CPU_USER,
		M_HOST_CPU_SYSTEM,
		M_HOST_CPU_IDLE,
		M_HOST_CPU_STEAL,
	};
	const struct maybe part = risen(job, parts[0]);
	int64_t whole = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		whole += risen(job, parts[i]).value;
	return part.known && whole > 0 ? known((int64_t) ((double) part.value / (double) whole * 1e6))
				       : UNKNOWN;
}

bool summary_is_batch_only(const struct facts *f)
{
	const bool is_step = f->scheduler_job && strchr(f->scheduler_job, '.');

	return f->srun_seen.value == 1 && f->scheduler && strcmp(f->scheduler, "slurm") == 0 && !is_step &&
	       !mode_is_attach(f->mode);
}

bool summary_limit_is_own(const struct summary *s)
{
	const struct maybe is_own = s->facts->limit_is_own; /* older recordings lack it */

	return s->facts->cgroup_exclusive.value == 1 && (!is_own.known || is_own.value == 1);
}

int summary_make(struct job *job, struct summary *ret)
{
	struct summary s = { .job = job, .facts = job_facts_const(job) };
	int r;

	s.complete = s.facts->ended_ns.known;
	time_figures(job, &s);
	oom_figures(job, &s);
	summary_ram(job, &s);
	cgroup_figures(job, &s);
	shmem_figures(job, &s);
	s.system_peak = most_of(job, M_HOST_MEM_USED);
	s.swap_peak = most_of(job, M_JOB_SWAP);
	s.hugetlb_peak = most_of(job, M_JOB_HUGETLB);
	s.hugetlb_at_most = s.hugetlb_peak.value > 0 && job_process_count(job) > 1;
	s.read_bytes = last_of(job, M_JOB_READ_BYTES);
	s.write_bytes = written(job);
	s.cpu_energy_uj = risen(job, M_HOST_ENERGY);
	s.fabric_rx_bytes = risen(job, M_HOST_FABRIC_RX);
	s.fabric_tx_bytes = risen(job, M_HOST_FABRIC_TX);
	s.fabric_errors = risen(job, M_HOST_FABRIC_ERRORS);
	s.iowait_ppm = iowait(job);
	s.peak_alive = most_of(job, M_JOB_PROCESSES);
	if (job_main(job)) /* even if no sample found it alive */
		s.peak_alive = maybe_max(s.peak_alive, known(1));
	if (s.facts->processes_why && *s.facts->processes_why)
		s.peak_alive = UNKNOWN;
	r = note_cpu(&s);
	if (r == 0)
		r = note_descendants(&s);
	if (r == 0)
		r = note_processes(&s);
	if (r == 0)
		r = note_files(&s);
	if (r == 0)
		r = note_limit(&s);
	if (r == 0)
		r = summary_gpu(&s);
	if (r < 0) {
		summary_done(&s);
		return r;
	}
	*ret = s;
	return 0;
}

void summary_done(struct summary *summary)
{
	for (size_t i = 0; i < summary->n_notes; i++)
		free(summary->notes[i].why);
	for (size_t i = 0; i < summary->n_findings; i++) {
		free(summary->findings[i].message);
		free(summary->findings[i].why_not);
	}
	free(summary->notes);
	free(summary->findings);
	free(summary->incident.what);
	free(summary->incident.advice);
	*summary = (struct summary) { 0 };
}
