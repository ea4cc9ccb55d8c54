/* SPDX-License-Identifier: MIT */
#include "rules/slope.h"

#include <math.h>
#include <string.h>

enum {
	PAIRS = SLOPE_PARTS * (SLOPE_PARTS - 1) / 2,
	PAIRS_LEAST = 28, /* eight parts with a value */
	PAIRS_LATE = 3
};

static void swap(double *a, double *b)
{
	const double was = *a;

	*a = *b;
	*b = was;
}

/* The k-th smallest, in place (Hoare). */
static double select_kth(double *v, size_t n, size_t k)
{
	size_t low = 0, high = n - 1;

	while (low < high) {
		const double pivot = v[low + (high - low) / 2];
		size_t i = low, j = high;

		while (i <= j) {
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i > j)
				break;
			swap(&v[i++], &v[j]);
			if (j == 0)
				break;
			j--;
		}
		if (k <= j)
			high = j;
		else if (k >= i)
			low = i;
		else
			break;
	}
	return v[k];
}

/* The median of the slopes between all pairs of full parts from first on, per part; *n: number of
 * pairs. The part that is being filled is left out, as its minimum may still change. */
static double median_slope(const struct slope *s, uint64_t first, size_t *n)
{
	double slopes[PAIRS];

	*n = 0;
	for (uint64_t a = first; a < s->last; a++) {
		for (uint64_t b = a + 1; b < s->last && s->has[a % SLOPE_PARTS]; b++) {
			if (s->has[b % SLOPE_PARTS])
				slopes[(*n)++] = (s->least[b % SLOPE_PARTS] - s->least[a % SLOPE_PARTS]) /
						 (double) (b - a);
		}
	}
	return *n ? select_kth(slopes, *n, *n / 2) : 0;
}

static void compute(struct slope *s)
{
	size_t n, n_late;
	const double all = median_slope(s, s->first, &n);
	const double late = median_slope(s, s->first + (s->last - s->first) / 2, &n_late);
	double slope = 0;

	if (all * late > 0)
		slope = fabs(all) < fabs(late) ? all : late;
	s->known = n >= PAIRS_LEAST && n_late >= PAIRS_LATE && s->last - s->first >= SLOPE_LEAST;
	s->per_s = slope / ((double) s->part_ns / 1e9);
}

/* Empties the parts up to number. The ring has the part that is being filled and SLOPE_PARTS - 1
 * full ones. */
static void advance(struct slope *s, uint64_t number)
{
	if (number - s->last >= SLOPE_PARTS) {
		memset(s->has, 0, sizeof(s->has));
		s->last = number - 1;
	}
	while (s->last < number)
		s->has[++s->last % SLOPE_PARTS] = false;
	if (number >= SLOPE_PARTS && s->first < number - SLOPE_PARTS + 1)
		s->first = number - SLOPE_PARTS + 1;
}

void slope_add(struct slope *s, uint64_t time_ns, double value)
{
	const uint64_t number = time_ns / s->part_ns;

	if (!s->begun) {
		s->begun = true;
		s->first = s->last = number;
	}
	if (number > s->last) {
		advance(s, number);
		compute(s);
	}
	const size_t i = s->last % SLOPE_PARTS;

	if (!s->has[i] || value < s->least[i])
		s->least[i] = value;
	s->has[i] = true;
}
