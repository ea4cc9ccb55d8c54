/* SPDX-License-Identifier: MIT
 *
 * host-leak and gpu-leak: memory that only ever grows. The valleys of its timeline distinguish a
 * leak from a warm-up, a cache that fills, a sawtooth, a step and bumps: memory that is released
 * again is no leak.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "findings/finding.h"

struct leak {
	double per_s;            /* slope of the valleys, in units a second */
	double grown;            /* growth from from_ns to to_ns at that slope */
	int64_t from_ns, to_ns;
};

enum {
	WARM_UP_PERCENT = 20,  /* of the run: left out */
	ENDING_BUCKETS = 2,    /* left out at the end, where all memory was released: exit leaves no valley */
	MOST_WINDOWS = 12,
	/* minimum; of FEW_BUCKETS or more the lowest is left out: a single dip is no valley */
	BUCKETS_A_WINDOW = 3,
	FEW_BUCKETS = 4,
	RISING_PERCENT = 85,   /* of all pairs of windows */
};
/* A leak is steady: it does not slow down and does not begin late. */
static const double least_second_half = 0.7, least_first_half = 0.5, least_r_squared = 0.9;

/* One valley per window; t in seconds. */
struct valleys {
	int n;
	double t[MOST_WINDOWS], v[MOST_WINDOWS];
};

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

/* Is the last one below all before it? */
static bool is_lowest(const struct timeline *c, const int *places, int n)
{
	for (int i = 0; i < n - 1; i++) {
		if (c->buckets[places[i]].min <= c->buckets[places[n - 1]].min)
			return false;
	}
	return true;
}

/* Known buckets from the end of the warm-up to the end of the run, without those of its exit.
 * Returns their number. */
static int after_warm_up(const struct timeline *c, int places[TIMELINE_BUCKETS])
{
	int first = -1, last = -1, n = 0;

	for (int i = 0; i < TIMELINE_BUCKETS; i++) {
		if (c->buckets[i].cover_ns == 0)
			continue;
		first = first < 0 ? i : first;
		last = i;
	}
	for (int i = first + (last - first + 1) * WARM_UP_PERCENT / 100; first >= 0 && i <= last; i++) {
		if (c->buckets[i].cover_ns > 0)
			places[n++] = i;
	}
	for (int dropped = 0; dropped < ENDING_BUCKETS && n > 1 && is_lowest(c, places, n); dropped++)
		n--;
	return n;
}

/* Divides places into windows of equally many buckets. */
static struct valleys valleys_of(
	const struct timeline *c, uint64_t span_ns, const int *places, int n, int windows)
{
	struct valleys v = { .n = windows };

	for (int w = 0; w < windows; w++) {
		const int from = n * w / windows, to = n * (w + 1) / windows;
		double minima[TIMELINE_BUCKETS], t = 0;

		for (int i = from; i < to; i++) {
			minima[i - from] = (double) c->buckets[places[i]].min;
			t += ((double) places[i] + 0.5) * (double) span_ns / 1e9;
		}
		qsort(minima, (size_t) (to - from), sizeof(minima[0]), by_value);
		v.v[w] = minima[to - from >= FEW_BUCKETS ? 1 : 0];
		v.t[w] = t / (to - from);
	}
	return v;
}

/* Theil-Sen estimator: the median of the slopes of all pairs. *ret_rising: percentage of pairs that
 * rise. */
static double slope(const double *t, const double *v, int n, double *ret_rising)
{
	double slopes[MOST_WINDOWS * (MOST_WINDOWS - 1) / 2];
	int k = 0, rising = 0;

	for (int i = 0; i < n; i++) {
		for (int j = i + 1; j < n; j++) {
			slopes[k] = (v[j] - v[i]) / (t[j] - t[i]);
			rising += slopes[k++] > 0;
		}
	}
	qsort(slopes, (size_t) k, sizeof(slopes[0]), by_value);
	if (ret_rising)
		*ret_rising = 100.0 * rising / k;
	return k % 2 ? slopes[k / 2] : (slopes[k / 2 - 1] + slopes[k / 2]) / 2;
}

/* Share of the valleys' variance that a straight line explains. */
static double r_squared(const struct valleys *v)
{
	double t = 0, y = 0, tt = 0, ty = 0, yy = 0;

	for (int i = 0; i < v->n; i++) {
		t += v->t[i] / v->n;
		y += v->v[i] / v->n;
	}
	for (int i = 0; i < v->n; i++) {
		tt += (v->t[i] - t) * (v->t[i] - t);
		ty += (v->t[i] - t) * (v->v[i] - y);
		yy += (v->v[i] - y) * (v->v[i] - y);
	}
	return tt > 0 && yy > 0 ? ty * ty / (tt * yy) : 0;
}

/* NULL if the valleys are those of a leak, else the reason why not. */
static const char *objection(const struct valleys *v, double *ret_slope)
{
	const int half = v->n / 2;
	double rising;
	const double all = slope(v->t, v->v, v->n, &rising);
	const double first = slope(v->t, v->v, half, NULL),
		     second = slope(v->t + half, v->v + half, v->n - half, NULL);

	*ret_slope = all;
	if (all <= 0 || rising < RISING_PERCENT)
		return "its minima did not rise throughout";
	if (second < least_second_half * first)
		return "its growth slowed down";
	if (first < least_first_half * all)
		return "it grew late or in steps";
	if (r_squared(v) <= least_r_squared)
		return "it did not grow steadily";
	return NULL;
}

/* True if the timeline of a gauge, whose buckets are span_ns wide, shows a leak; else writes the
 * reason to why_not. */
static bool leak_find(
	const struct timeline *timeline, uint64_t span_ns, struct leak *ret, struct buf *why_not)
{
	static const int windows[] = { 6, 8, MOST_WINDOWS };
	int places[TIMELINE_BUCKETS];
	const int n = after_warm_up(timeline, places);
	const char *no = "too few samples";

	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]) && n >= windows[i] * BUCKETS_A_WINDOW;
		i++) {
		const struct valleys v = valleys_of(timeline, span_ns, places, n, windows[i]);

		no = objection(&v, &ret->per_s);
		if (no)
			continue;
		ret->from_ns = (int64_t) ((uint64_t) places[0] * span_ns);
		ret->to_ns = (int64_t) ((uint64_t) (places[n - 1] + 1) * span_ns);
		ret->grown = ret->per_s * (double) (ret->to_ns - ret->from_ns) / 1e9;
		return true;
	}
	buf_str(why_not, no);
	return false;
}

/* ---- findings ------------------------------------------------------------------------------------------------------ */

static const double least_per_s = 2.0 * 1048576 / 60; /* 2 MiB a minute */
static const double least_of_peak_per_s = 0.01 / 3600; /* 1 % an hour */

/* The process that grew most, if by more than a quarter of the leak; NULL if the growth is
 * spread. */
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
		buf_printf(text, " pid %d (%.15s) grew by %s from %s on.", p->pid, p->name,
			units_bytes(p->grown_bytes, UNITS_IEC, by),
			units_instant((int64_t) p->grown_since_ns, since));
}

/* " At that rate the limit of 64.0 GiB is reached in 59 h." */
static void time_left(
	double left_bytes, double per_s, struct maybe limit, struct finding *f, struct buf *text)
{
	const double most_s = 365 * 86400.0, left_s = left_bytes / per_s;
	char of[UNITS_LEN], left[UNITS_LEN];

	if (!limit.known || left_bytes <= 0 || left_s > most_s)
		return;
	finding_evidence(f, "time_left_s", left_s);
	buf_printf(text, " At that rate the limit of %s is reached in %s.",
		units_bytes(limit.value, UNITS_IEC, of), units_duration((int64_t) (left_s * 1e9), left));
}

/* Values from a recording are untrusted: out of range becomes INT64_MAX. */
static int64_t to_int64(double value)
{
	return value < 9e18 ? (int64_t) value : INT64_MAX;
}

static void write_growth(const char *subject, const struct leak *leak, struct finding *f, struct buf *text)
{
	char rate[UNITS_LEN], time[UNITS_LEN], by[UNITS_LEN];

	finding_interval(f, leak->from_ns, leak->to_ns);
	finding_evidence(f, "growth_bytes_per_s", leak->per_s);
	finding_evidence(f, "growth_bytes", leak->grown);
	buf_printf(text, "%s grew %s/min, steadily for %s (+%s): a leak is suspected.", subject,
		units_bytes(to_int64(leak->per_s * 60), UNITS_IEC, rate),
		units_duration(leak->to_ns - leak->from_ns, time),
		units_bytes(to_int64(leak->grown), UNITS_IEC, by));
}

/* Is it a leak that matters? Else writes the reason to text. most: the largest value of the
 * gauge. */
static bool leaks(
	const struct timeline *timeline, uint64_t span_ns, double most, struct leak *leak, struct buf *text)
{
	char rate[UNITS_LEN];

	if (!leak_find(timeline, span_ns, leak, text))
		return false;
	if (leak->per_s > least_per_s && leak->per_s > least_of_peak_per_s * most)
		return true;
	buf_printf(text, "it grew %s/min; fires above 2 MiB/min and 1 %% of the peak an hour",
		units_bytes(to_int64(leak->per_s * 60), UNITS_IEC, rate));
	return false;
}

static bool metric_leaks(const struct job *job, enum metric metric, struct leak *leak, struct buf *text)
{
	const struct timeline *timeline = job_timeline(job, metric, 0);
	const struct acc *acc = job_acc(job, metric, 0);

	if (!timeline || !acc) {
		buf_str(text, "memory use over time is unknown");
		return false;
	}
	return leaks(timeline, job_timeline_span(job), (double) acc->max, leak, text);
}

/* An allocator's allocated memory is lowest between two steps: judges the minima of its series as a
 * timeline. */
static bool allocator_leaks(
	const struct summary *s, const struct series *series, struct leak *leak, struct buf *text)
{
	const struct minima *minima = &series->minima;
	const double span_ns = (double) s->wall_ns.value * (double) minima->each / (double) series->n;
	struct timeline timeline = { 0 };

	for (unsigned i = 0; i < minima->n && i < TIMELINE_BUCKETS; i++) {
		if (isfinite(minima->low[i]) && fabs(minima->low[i]) < 9e18)
			timeline.buckets[i] = (struct timeline_bucket) {
				.known = true, .cover_ns = 1, .min = (int64_t) minima->low[i]
			};
	}
	return span_ns >= 1e6 && span_ns < 1e16 &&
	       leaks(&timeline, (uint64_t) span_ns, series->max, leak, text);
}

/* "torch/gpu0/allocated_bytes": "Memory allocated by torch on gpu0". */
static void write_series_growth(
	const struct series *series, const struct leak *leak, struct finding *f, struct buf *text)
{
	const char *slash = strchr(series->name, '/'), *last = strrchr(series->name, '/');
	char subject[160];

	finding_text(f, "series", series->name);
	if (slash && last > slash)
		(void) snprintf(subject, sizeof(subject), "Memory allocated by %.*s on %.*s",
			(int) (slash - series->name), series->name, (int) (last - slash - 1), slash + 1);
	else
		(void) snprintf(subject, sizeof(subject), "'%.100s'", series->name);
	write_growth(subject, leak, f, text);
}

static const char keeps_tensors[] =
	" Look for tensors that stay referenced (losses summed up with their graphs, lists of outputs).";

/* The driver's figure grows only once the allocator's cache is used up; the allocator's own figure
 * shows a leak earlier. */
bool rule_gpu_leak(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	const struct job *job = k->s->job;
	struct buf why_not = BUF_INIT(4096);
	struct leak leak;
	bool fires = false;

	if (!job_acc(job, M_JOB_GPU_MEM, 0)) {
		buf_str(&why_not, "no GPU was used, or the driver does not report memory per process");
	} else if (metric_leaks(job, M_JOB_GPU_MEM, &leak, &why_not)) {
		write_growth("The job's GPU memory", &leak, f, text);
		fires = true;
	}
	for (size_t i = 0; !fires && i < job_series_count(job); i++) {
		const struct series *series = job_series(job, i);

		if (series->minima.n == 0)
			continue;
		buf_clear(&why_not);
		fires = allocator_leaks(k->s, series, &leak, &why_not);
		if (fires)
			write_series_growth(series, &leak, f, text);
	}
	buf_str(text, fires ? keeps_tensors : why_not.len > 0 ? why_not.data
							      : "too few samples");
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
	write_growth("Anonymous RAM", &leak, f, text);
	name_grower(s, &leak, f, text);
	if (limit.known && s->combined.peak.known)
		time_left((double) limit.value - (double) s->combined.peak.value, leak.per_s, limit, f, text);
	return true;
}
