/* SPDX-License-Identifier: MIT
 *
 * Statistics for comparing runs and the ranks of a job.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The mean, and the sample's standard deviation (0 of fewer than two). n is 1 or more. */
double stats_mean(const double *values, size_t n);
double stats_deviation(const double *values, size_t n);

/* Puts the values in order, the least first; n may be 0. */
void stats_sort(int64_t *values, size_t n);

/* The median, of an even number the lower of the two in the middle. Puts the values in order; n is 1 or more. */
int64_t stats_median(int64_t *values, size_t n);

/* Mann-Whitney U test: the two-sided p of "both samples have the same distribution". Exact,
 * including ties (the distribution of the rank sum over all divisions of the values into two
 * such groups), for up to STATS_EXACT values in total; beyond that the normal approximation,
 * corrected for ties and continuity. NaN if out of memory or if a sample is empty. */
double stats_mann_whitney(const double *a, size_t n_a, const double *b, size_t n_b);

enum {
	STATS_EXACT = 100
};
