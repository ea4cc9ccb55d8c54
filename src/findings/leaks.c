/* SPDX-License-Identifier: MIT
 *
 * Memory that only ever grows: of the host (anonymous memory alone: the page cache grows by design), and of GPUs.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "findings/finding.h"
#include "findings/leak.h"

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

/* What stands in a recording may be any number. */
static int64_t whole(double value)
{
	return value < 9e18 ? (int64_t) value : INT64_MAX;
}

static void grew(const char *what, const struct leak *leak, struct finding *f, struct buf *text)
{
	char rate[UNITS_LEN], time[UNITS_LEN], by[UNITS_LEN];

	finding_interval(f, leak->from_ns, leak->to_ns);
	finding_evidence(f, "growth_bytes_per_s", leak->per_s);
	finding_evidence(f, "growth_bytes", leak->grown);
	buf_printf(text, "%s grew %s/min, steadily for %s (+%s): a leak is suspected.", what,
		units_bytes(whole(leak->per_s * 60), UNITS_IEC, rate), units_duration(leak->to_ns - leak->from_ns, time),
		units_bytes(whole(leak->grown), UNITS_IEC, by));
}

/* Is it a leak, and one that matters? Else text says why not. most: the most that it ever was. */
static bool leaks(const struct course *course, uint64_t span_ns, double most, struct leak *leak, struct buf *text)
{
	char rate[UNITS_LEN];

	if (!leak_find(course, span_ns, leak, text))
		return false;
	if (leak->per_s > least_per_s && leak->per_s > least_of_peak_per_s * most)
		return true;
	buf_printf(text, "it grew %s/min; it takes more than 2 MiB/min and 1 %% of the peak an hour",
		units_bytes(whole(leak->per_s * 60), UNITS_IEC, rate));
	return false;
}

static bool metric_leaks(const struct job *job, enum metric metric, struct leak *leak, struct buf *text)
{
	const struct course *course = job_course(job, metric, 0);
	const struct acc *acc = job_acc(job, metric, 0);

	if (!course || !acc) {
		buf_str(text, "how it went over time is unknown");
		return false;
	}
	return leaks(course, job_course_span(job), (double) acc->max, leak, text);
}

/* What an allocator has given out is lowest between two steps: its lows as a course. */
static bool allocator_leaks(const struct summary *s, const struct series *series, struct leak *leak, struct buf *text)
{
	const struct lows *lows = &series->lows;
	const double span_ns = (double) s->wall_ns.value * (double) lows->each / (double) series->n;
	struct course course = { 0 };

	for (unsigned i = 0; i < lows->n && i < COURSE_BUCKETS; i++) {
		if (isfinite(lows->low[i]) && fabs(lows->low[i]) < 9e18)
			course.buckets[i] = (struct course_bucket) { .known = true, .cover_ns = 1, .min = (int64_t) lows->low[i] };
	}
	return span_ns >= 1e6 && span_ns < 1e16 && leaks(&course, (uint64_t) span_ns, series->max, leak, text);
}

/* "torch/gpu0/allocated_bytes": "What torch has given out on gpu0 ". */
static void grew_on(const struct series *series, const struct leak *leak, struct finding *f, struct buf *text)
{
	const char *slash = strchr(series->name, '/'), *last = strrchr(series->name, '/');
	char what[160];

	finding_text(f, "series", series->name);
	if (slash && last > slash)
		(void) snprintf(what, sizeof(what), "What %.*s has given out on %.*s", (int) (slash - series->name), series->name,
			(int) (last - slash - 1), slash + 1);
	else
		(void) snprintf(what, sizeof(what), "'%.100s'", series->name);
	grew(what, leak, f, text);
}

static const char keeps_tensors[] = " Look for tensors that are kept (losses summed up with their graphs, lists of outputs).";

/* The driver's figure grows only where the allocator's cache is used up; its own tells earlier. */
bool rule_gpu_leak(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct job *job = k->s->job;
	struct buf why_not = BUF_INIT(4096);
	struct leak leak;
	bool fires = false;

	if (!job_acc(job, M_JOB_GPU_MEM, 0)) {
		buf_str(&why_not, "no GPU was used, or the driver does not tell whose memory is whose");
	} else if (metric_leaks(job, M_JOB_GPU_MEM, &leak, &why_not)) {
		grew("The job's GPU memory", &leak, f, text);
		fires = true;
	}
	for (size_t i = 0; !fires && i < job_series_count(job); i++) {
		const struct series *series = job_series(job, i);

		if (series->lows.n == 0)
			continue;
		buf_clear(&why_not);
		fires = allocator_leaks(k->s, series, &leak, &why_not);
		if (fires)
			grew_on(series, &leak, f, text);
	}
	buf_str(text, fires ? keeps_tensors : why_not.len > 0 ? why_not.data
							      : "it was looked at too seldom");
	buf_done(&why_not);
	return fires;
}

bool rule_host_leak(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct summary *s = k->s;
	const struct maybe limit = memory_limit(s);
	struct leak leak;

	if (!metric_leaks(s->job, M_JOB_ANON, &leak, text))
		return false;
	grew("Anonymous RAM", &leak, f, text);
	name_grower(s, &leak, f, text);
	if (limit.known && s->combined.peak.known)
		time_left((double) limit.value - (double) s->combined.peak.value, leak.per_s, limit, f, text);
	return true;
}
