/* SPDX-License-Identifier: MIT */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double stats_mean(const double *values, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	return sum / (double) n;
}

double stats_deviation(const double *values, size_t n)
{
	const double mean = stats_mean(values, n);
	double squares = 0;

	for (size_t i = 0; i < n; i++)
		squares += (values[i] - mean) * (values[i] - mean);
	return n > 1 ? sqrt(squares / (double) (n - 1)) : 0;
}

static int by_number(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

	return (x > y) - (x < y);
}

void stats_sort(int64_t *values, size_t n)
{
	if (n > 0)
		qsort(values, n, sizeof(*values), by_number);
}

int64_t stats_median(int64_t *values, size_t n)
{
	stats_sort(values, n);
	return values[(n - 1) / 2];
}

/* ---- ranks ----------------------------------------------------------------------------------- */

struct ranked {
	double value;
	int in_a;
	unsigned rank2;  /* twice its rank; ties have their mean rank */
};

static int by_value(const void *a, const void *b)
{
	const double x = ((const struct ranked *) a)->value, y = ((const struct ranked *) b)->value;

	return (x > y) - (x < y);
}

/* Assigns ranks; returns the sum of t^3 - t over the ties. */
static double rank_all(struct ranked *all, size_t n)
{
	double ties = 0;

	qsort(all, n, sizeof(*all), by_value);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && !(all[end].value > all[i].value);)
			end++;
		for (size_t k = i; k < end; k++)
			all[k].rank2 = (unsigned) (i + end + 1);
		const double t = (double) (end - i);

		ties += t * t * t - t;
	}
	return ties;
}

/* ---- p --------------------------------------------------------------------------------------- */

/* ways[k * sums + s]: number of choices of k values with twice the rank sum s. */
static double exact_p(const struct ranked *all, size_t n, size_t n_a, size_t seen)
{
	const size_t sums = n * (n + 1) + 1;
	double *ways = calloc((n_a + 1) * sums, sizeof(*ways));
	double low = 0, high = 0, total = 0;

	if (!ways)
		return (double) NAN;
	ways[0] = 1;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = i + 1 < n_a ? i + 1 : n_a; k >= 1; k--) {
			for (size_t s = sums; s-- > all[i].rank2;)
				ways[k * sums + s] += ways[(k - 1) * sums + s - all[i].rank2];
		}
	}
	for (size_t s = 0; s < sums; s++) {
		const double w = ways[n_a * sums + s];

		total += w;
		low += s <= seen ? w : 0;
		high += s >= seen ? w : 0;
	}
	free(ways);
	return fmin(1, 2 * fmin(low, high) / total);
}

static double normal_p(size_t n_a, size_t n_b, double seen, double ties)
{
	const double a = (double) n_a, b = (double) n_b, n = a + b;
	const double u = seen / 2 - a * (a + 1) / 2;
	const double variance = a * b / 12 * (n + 1 - ties / (n * (n - 1)));
	const double off = fabs(u - a * b / 2) - 0.5;

	return variance > 0 ? fmin(1, erfc(off / sqrt(2 * variance))) : 1;
}

double stats_mann_whitney(const double *a, size_t n_a, const double *b, size_t n_b)
{
	const size_t n = n_a + n_b;
	struct ranked *all = calloc(n + 1, sizeof(*all));
	size_t seen = 0;
	double ties, p;

	if (!all || n_a == 0 || n_b == 0) {
		free(all);
		return (double) NAN;
	}
	for (size_t i = 0; i < n; i++)
		all[i] = (struct ranked) { .value = i < n_a ? a[i] : b[i - n_a], .in_a = i < n_a };
	ties = rank_all(all, n);
	for (size_t i = 0; i < n; i++)
		seen += all[i].in_a ? all[i].rank2 : 0;
	p = n <= STATS_EXACT ? exact_p(all, n, n_a, seen) : normal_p(n_a, n_b, (double) seen, ties);
	free(all);
	return p;
}
