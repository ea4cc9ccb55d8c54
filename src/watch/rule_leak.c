/* SPDX-License-Identifier: MIT
 *
 * Memory that only ever grows: of the host (anonymous memory alone: the page cache grows by design), and of GPUs.
 */
#include "base/units.h"
#include "watch/leak.h"
#include "watch/rules.h"

static const double least_per_s = 2.0 * 1048576 / 60; /* 2 MiB a minute */
static const double least_of_peak_per_s = 0.01 / 3600; /* 1 % an hour */

/* What has grown the most of all members, if it has more than half of it; NULL if it is spread. */
static const struct process *grower(const struct job *job, double grown)
{
	const struct process *most = NULL;

	for (size_t i = 0; i < job_process_count(job); i++) {
		const struct process *p = job_process(job, i);

		if (!most || p->grown_bytes > most->grown_bytes)
			most = p;
	}
	return most && (double) most->grown_bytes > grown / 4 ? most : NULL;
}

static void name_grower(const struct summary *s, const struct leak *leak, struct finding *f, struct buf *text)
{
	const struct process *p = grower(s->job, leak->grown);
	char by[UNITS_LEN], since[UNITS_LEN];

	if (!p)
		return;
	finding_evidence(f, "process_pid", p->pid);
	finding_text(f, "process", p->name);
	finding_evidence(f, "process_growth_bytes", (double) p->grown_bytes);
	if (job_process_count(s->job) > 1)
		buf_printf(text, " pid %d (%.15s) grew by %s since %s.", p->pid, p->name,
			units_bytes(p->grown_bytes, UNITS_IEC, by), units_duration((int64_t) p->grown_since_ns, since));
}

/* "64.0 GiB would last 59 h more." */
static void time_left(double room, double per_s, struct maybe limit, struct finding *f, struct buf *text)
{
	const double most_s = 365 * 86400.0, left_s = room / per_s;
	char of[UNITS_LEN], left[UNITS_LEN];

	if (!limit.known || room <= 0 || left_s > most_s)
		return;
	finding_evidence(f, "time_left_s", left_s);
	buf_printf(text, " At that rate %s are full in %s more.", units_bytes(limit.value, UNITS_IEC, of),
		units_duration((int64_t) (left_s * 1e9), left));
}

static void grew(const char *what, const struct leak *leak, struct finding *f, struct buf *text)
{
	char rate[UNITS_LEN], time[UNITS_LEN], by[UNITS_LEN];

	finding_interval(f, leak->from_ns, leak->to_ns);
	finding_evidence(f, "growth_bytes_per_s", leak->per_s);
	finding_evidence(f, "growth_bytes", leak->grown);
	buf_printf(text, "%s grew %s/min, steadily for %s (+%s): a leak is suspected.", what,
		units_bytes((int64_t) (leak->per_s * 60), UNITS_IEC, rate), units_duration(leak->to_ns - leak->from_ns, time),
		units_bytes((int64_t) leak->grown, UNITS_IEC, by));
}

/* Is it a leak, and one that matters? Else text says why not. */
static bool leaks(const struct job *job, enum metric metric, uint32_t id, struct leak *leak, struct buf *text)
{
	const struct course *course = job_course(job, metric, id);
	const struct acc *acc = job_acc(job, metric, id);
	char rate[UNITS_LEN];

	if (!course || !acc) {
		buf_str(text, "how it went over time is unknown");
		return false;
	}
	if (!leak_find(course, job_course_span(job), leak, text))
		return false;
	if (leak->per_s > least_per_s && leak->per_s > least_of_peak_per_s * (double) acc->max)
		return true;
	buf_printf(text, "it grew %s/min; it takes more than 2 MiB/min and 1 %% of the peak an hour",
		units_bytes((int64_t) (leak->per_s * 60), UNITS_IEC, rate));
	return false;
}

bool rule_gpu_leak(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	struct leak leak;

	if (!job_acc(k->s->job, M_JOB_GPU_MEM, 0)) {
		buf_str(text, "no GPU was used, or the driver does not tell whose memory is whose");
		return false;
	}
	if (!leaks(k->s->job, M_JOB_GPU_MEM, 0, &leak, text))
		return false;
	grew("The job's GPU memory", &leak, f, text);
	buf_str(text, " Look for tensors that are kept (losses summed up with their graphs, lists of outputs).");
	return true;
}

bool rule_host_leak(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct summary *s = k->s;
	const struct maybe limit = memory_limit(s);
	struct leak leak;

	if (!leaks(s->job, M_JOB_ANON, 0, &leak, text))
		return false;
	grew("Anonymous RAM", &leak, f, text);
	name_grower(s, &leak, f, text);
	if (limit.known && s->combined.peak.known)
		time_left((double) limit.value - (double) s->combined.peak.value, leak.per_s, limit, f, text);
	return true;
}
