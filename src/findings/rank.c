/* SPDX-License-Identifier: MIT
 *
 * rank-skew: one rank of a parallel job keeps the others waiting. Compares the time of a step on
 * each rank: of ranks that push into one recording (step_time/rank3), or of ranks with recordings
 * of their own.
 */
#include <stdlib.h>

#include "base/parse.h"
#include "base/units.h"
#include "findings/finding.h"

enum {
	SKEW_PERCENT = 10,
	FEW_RANKS = 2,
	FEW_STEPS = 10
};
static const double most_s = 1e9; /* longer times are not steps */

/* A value may cover several steps; the step numbers give their count. */
static double seconds_a_step(const struct series *s)
{
	const double steps = s->has_step && s->last_step > 0 ? (double) s->last_step : (double) s->n;

	return s->n >= FEW_STEPS && s->sum > 0 && s->sum / steps < most_s ? s->sum / steps : -1;
}

/* Is it a series of step times? *ret_rank: negative if its name has no rank. */
static bool is_step_time(const struct series *s, int64_t *ret_rank)
{
	const char *p = series_time(s->name, SERIES_STEP);
	uint64_t rank;

	*ret_rank = -1;
	if (!p || !*p)
		return p;
	if (!parse_word(&p, "/rank") || parse_u64(&p, &rank) != 0 || *p || rank >= INT32_MAX)
		return false;
	*ret_rank = (int64_t) rank;
	return true;
}

double findings_step_s(const struct job *job)
{
	for (size_t i = 0; i < job_series_count(job); i++) {
		int64_t rank;

		if (is_step_time(job_series(job, i), &rank) && rank < 0)
			return seconds_a_step(job_series(job, i));
	}
	return -1;
}

static int by_time(const void *a, const void *b)
{
	const struct other_rank *x = a, *y = b;

	return (x->step_s > y->step_s) - (x->step_s < y->step_s);
}

/* Step times of all known ranks, in any order. Returns their number. */
static size_t gather(const struct known_of_run *k, struct other_rank *ranks)
{
	const struct maybe own = k->s->facts->rank;
	const double own_s = findings_step_s(k->s->job);
	size_t n = 0;

	for (size_t i = 0; i < job_series_count(k->s->job) && n < RANKS_MOST; i++) {
		const struct series *series = job_series(k->s->job, i);
		int64_t rank;

		if (is_step_time(series, &rank) && rank >= 0 && seconds_a_step(series) >= 0)
			ranks[n++] = (struct other_rank) { rank, seconds_a_step(series) };
	}
	if (n > 0)
		return n;
	const struct parts *p = job_parts(k->s->job);

	for (size_t i = 0; p && i < p->n && n < RANKS_MOST; i++) {
		const struct part *part = &p->part[i];

		if (part_is_rank(part) && part->rank.known && part->step_ns.known)
			ranks[n++] = (struct other_rank) { .rank = part->rank.value,
				.step_s = (double) part->step_ns.value / 1e9 };
	}
	if (n > 0)
		return n;
	for (size_t i = 0; i < k->earlier->n_ranks && n + 1 < RANKS_MOST; i++)
		ranks[n++] = k->earlier->ranks[i];
	if (n > 0 && own.known && own_s >= 0)
		ranks[n++] = (struct other_rank) { own.value, own_s };
	return n;
}

static void put_skew(
	const struct other_rank *slowest, double median_s, size_t n, struct finding *f, struct buf *text)
{
	char slow[UNITS_LEN], median[UNITS_LEN];

	finding_evidence(f, "rank", (double) slowest->rank);
	finding_evidence(f, "step_s", slowest->step_s);
	finding_evidence(f, "median_step_s", median_s);
	finding_evidence(f, "ranks", (double) n);
	buf_printf(text,
		"A step took %s on rank %lld, the median of %zu ranks is %s: the others may wait for it. Check its data, "
		"its node and other processes there.",
		units_duration((int64_t) (slowest->step_s * 1e9), slow), (long long) slowest->rank, n,
		units_duration((int64_t) (median_s * 1e9), median));
}

bool rule_rank_skew(const struct known_of_run *k, struct finding *f, struct buf *text)
{
	struct other_rank *ranks = calloc(RANKS_MOST, sizeof(*ranks));
	const size_t n = ranks ? gather(k, ranks) : 0;
	bool fires = false;

	if (n < FEW_RANKS) {
		buf_str(text,
			"step times are known for fewer than two ranks (series step_time of each rank, or step_time/rank3)");
	} else {
		qsort(ranks, n, sizeof(ranks[0]), by_time);
		const double median_s = n % 2 ? ranks[n / 2].step_s
					      : (ranks[n / 2 - 1].step_s + ranks[n / 2].step_s) / 2;
		const struct other_rank *slowest = &ranks[n - 1];

		fires = slowest->step_s * 100 > median_s * (100 + SKEW_PERCENT);
		if (fires)
			put_skew(slowest, median_s, n, f, text);
		else
			buf_printf(text,
				"a step on the slowest of %zu ranks, %lld, took %.0f %% of the median time; fires above %d %%",
				n, (long long) slowest->rank,
				median_s > 0 ? slowest->step_s / median_s * 100 : 100, 100 + SKEW_PERCENT);
	}
	free(ranks);
	return fires;
}
