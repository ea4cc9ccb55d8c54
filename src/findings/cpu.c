/* SPDX-License-Identifier: MIT
 *
 * CPU rules: a quota that throttles, too many threads, a request that is too large.
 */
#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "findings/finding.h"

enum {
	THROTTLED_PERCENT = 5,
	BUSY_PERCENT = 80
};

static void put_cores(double cores, struct buf *out)
{
	const bool is_whole = cores < 1e6 && cores == (double) (int) cores;

	buf_printf(out, cores < 10 && !is_whole ? "%.1f" : "%.0f", cores);
	buf_str(out, is_whole && cores == 1 ? " core" : " cores");
}

/* ---- cpu-throttled ---------------------------------------------------------------------------------------------------- */

/* A quota throttles all members of its cgroup. A job that hardly ran was not slowed down by it. */
static bool hardly_ran(const struct summary *s)
{
	const struct maybe used = s->cores_mean_ppm, quota = s->facts->limit_cpu_ppm;

	return used.known && quota.known && used.value * 100 < quota.value * THROTTLED_PERCENT;
}

bool rule_cpu_throttled(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct summary *s = k->s;
	const struct maybe all = figures_rise(s, M_JOB_CGROUP_PERIODS),
			   throttled = figures_rise(s, M_JOB_CGROUP_THROTTLED_PERIODS);
	const struct maybe time = figures_rise(s, M_JOB_CGROUP_THROTTLED), quota = s->facts->limit_cpu_ppm;
	char share[UNITS_LEN], waited[UNITS_LEN];

	if (!all.known || !throttled.known || all.value == 0) {
		buf_str(text, all.known ? "no CPU quota was set" : "CPU throttling is unknown");
		return false;
	}
	(void) units_percent(throttled.value, all.value, share);
	if (throttled.value * 100 <= all.value * THROTTLED_PERCENT) {
		buf_printf(text, "the CPU quota throttled the job in %s of its periods; fires above %d %%",
			share, THROTTLED_PERCENT);
		return false;
	}
	if (hardly_ran(s)) {
		buf_printf(text,
			"the CPU quota throttled its cgroup in %s of its periods, but the job itself hardly ran",
			share);
		return false;
	}
	finding_evidence(f, "throttled_ratio", (double) throttled.value / (double) all.value);
	buf_printf(text, "The CPU quota throttled the job in %s of its periods", share);
	if (time.known) {
		finding_evidence(f, "throttled_s", (double) time.value / 1e9);
		buf_printf(text, ", for %s in all", units_duration(time.value, waited));
	}
	buf_str(text, ".");
	if (quota.known) {
		finding_evidence(f, "quota_cores", (double) quota.value / 1e6);
		buf_str(text, " Fit the threads to its ");
		put_cores((double) quota.value / 1e6, text);
		buf_str(text, " (OMP_NUM_THREADS, workers), or request more.");
	} else {
		buf_str(text, " Use fewer threads or workers, or request more CPUs.");
	}
	return true;
}

/* ---- cpu-oversubscribed ----------------------------------------------------------------------------------------------- */

/* Cores that the job may use: its CPUs, or a smaller quota. */
static double cores_allowed(const struct summary *s)
{
	const double cpus = s->facts->cpus.known ? (double) s->facts->cpus.value : 0;
	const struct maybe quota = s->facts->limit_cpu_ppm;

	return quota.known && (cpus <= 0 || (double) quota.value / 1e6 < cpus) ? (double) quota.value / 1e6
									       : cpus;
}

double other_cores(const struct summary *s)
{
	const struct maybe busy = maybe_sum(
		figures_rise(s, M_HOST_CPU_USER), figures_rise(s, M_HOST_CPU_SYSTEM));
	const struct maybe own = s->facts->own_cpu_ns;

	if (!busy.known || !s->cores_mean_ppm.known || !s->wall_ns.known || s->wall_ns.value <= 0)
		return 0;
	const double others = ((double) busy.value - (own.known ? (double) own.value : 0)) /
				      (double) s->wall_ns.value -
			      (double) s->cores_mean_ppm.value / 1e6;

	return others > 0 ? others : 0;
}

/* Mean number of runnable tasks of the job: the system-wide load less the others' CPU use.
 * Negative: unknown. */
static double runnable(const struct summary *s)
{
	const double load = figures_mean(s, M_HOST_LOAD1, 0);

	return load < 0 ? load : fmax(load / 1e6 - other_cores(s), 0);
}

bool rule_cpu_oversubscribed(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct summary *s = k->s;
	const double cores = cores_allowed(s), threads = figures_mean(s, M_JOB_THREADS, 0),
		     waiting = runnable(s);
	const double used = s->cores_mean_ppm.known ? (double) s->cores_mean_ppm.value / 1e6 : 0;

	if (cores <= 0 || threads < 0 || waiting < 0) {
		buf_str(text, "threads, load or CPUs are unknown");
		return false;
	}
	if (threads <= 2 * cores || waiting <= 2 * cores || used * 100 < cores * BUSY_PERCENT) {
		buf_printf(text, "%.0f threads, about %.0f of them runnable, kept %.1f of ", threads,
			fmin(waiting, threads), used);
		put_cores(cores, text);
		buf_printf(text,
			" busy; fires above two runnable threads per core, with the cores %d %% busy",
			BUSY_PERCENT);
		return false;
	}
	finding_evidence(f, "threads", threads);
	finding_evidence(f, "runnable", waiting);
	finding_evidence(f, "cores", cores);
	finding_evidence(f, "cores_used", used);
	buf_printf(text, "About %.0f threads were runnable on ", fmin(waiting, threads));
	put_cores(cores, text);
	buf_str(text,
		" at a time: they may slow each other down. Try fewer: OMP_NUM_THREADS x processes = cores, or fewer workers.");
	return true;
}

/* ---- cpu-request ------------------------------------------------------------------------------------------------------ */

struct cpu_use cpu_use_of(const struct job *job)
{
	const struct timeline *user = job_timeline(job, M_JOB_CPU_USER, 0),
			      *system = job_timeline(job, M_JOB_CPU_SYSTEM, 0);
	double time = 0, sum = 0, squares = 0;
	struct cpu_use u = { 0 };

	for (int i = 0; user && system && i < TIMELINE_BUCKETS; i++) {
		const double weight = (double) user->buckets[i].cover_ns / 1e9;
		const double cores = timeline_mean(&user->buckets[i]) + timeline_mean(&system->buckets[i]);

		if (weight <= 0)
			continue;
		time += weight;
		sum += cores * weight;
		squares += cores * cores * weight;
		if (cores > u.most || u.n == 0) {
			u.most = cores;
			u.most_at_ns = (int64_t) ((uint64_t) i * job_timeline_span(job));
		}
		u.n++;
	}
	if (u.n > 0) {
		u.mean = sum / time;
		u.sigma = sqrt(fmax(squares / time - u.mean * u.mean, 0));
	}
	return u;
}

/* "2.0", "0.25", "0.012": values far below one core keep two significant digits. */
static const char *cores_text(double cores, char buf[UNITS_LEN])
{
	const int decimals = cores == 0 || cores >= 0.95 ? 1 : cores >= 0.095 ? 2
									      : 3;

	(void) snprintf(buf, UNITS_LEN, "%.*f", decimals, cores);
	return cores > 0 && cores < 0.0005 ? "under 0.001" : buf;
}

bool rule_cpu_request(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct summary *s = k->s;
	const struct request_amount *cpus = &s->request.cpus;
	const struct cpu_use u = s->job ? cpu_use_of(s->job) : (struct cpu_use) { 0 };
	char at[UNITS_LEN], mean[UNITS_LEN], most[UNITS_LEN];

	if (!s->facts->request_cpus.known || u.n < CPU_USE_FEW || s->request.why_not[0]) {
		buf_str(text,
			!s->facts->request_cpus.known
				? "no CPUs were requested (--request cpus=.. or a scheduler)"
			: u.n < CPU_USE_FEW ? "CPU use over time is unknown"
					    : s->request.why_not);
		return false;
	}
	if (cpus->fit != REQUEST_TOO_MUCH) {
		buf_printf(text,
			"the job used %s cores on average, %s at its busiest, of %lld requested%s; fires where mean + 2 sigma is below "
			"half of the request and no stretch is above 80 %%",
			cores_text(u.mean, mean), cores_text(u.most, most), (long long) cpus->requested.value,
			(double) cpus->need.value > u.most * 1e6 + 1 ? ", and more in an earlier run" : "");
		return false;
	}
	finding_evidence(f, "cores_mean", u.mean);
	finding_evidence(f, "cores_sigma", u.sigma);
	finding_evidence(f, "cores_max", u.most);
	finding_evidence(f, "max_at_s", (double) u.most_at_ns / 1e9);
	finding_evidence(f, "cores_requested", (double) cpus->requested.value);
	finding_evidence(f, "advice_cores", (double) cpus->value.value);
	buf_printf(text,
		"Request %lld CPU%s, not %lld: the job used %s on average, %s at its busiest (from %s on).",
		(long long) cpus->value.value, cpus->value.value == 1 ? "" : "s",
		(long long) cpus->requested.value, cores_text(u.mean, mean), cores_text(u.most, most),
		units_instant(u.most_at_ns, at));
	return true;
}
