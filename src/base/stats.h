/* SPDX-License-Identifier: MIT
 *
 * The little statistics that comparing runs needs.
 */
#pragma once

#include <stddef.h>

/* The mean, and the sample's standard deviation (0 of fewer than two). n is 1 or more. */
double stats_mean(const double *values, size_t n);
double stats_deviation(const double *values, size_t n);

/* Mann-Whitney U: the two-sided p of "both samples come from one distribution". Exact, ties included (the distribution
 * of the rank sum over all ways to part the values into two such groups), for up to STATS_EXACT values in all; beyond
 * that by the normal approximation, corrected for ties and continuity. NaN without memory, or with an empty sample. */
double stats_mann_whitney(const double *a, size_t n_a, const double *b, size_t n_b);

enum {
	STATS_EXACT = 100
};
