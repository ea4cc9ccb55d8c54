/* SPDX-License-Identifier: MIT
 *
 * The values of p are those of SciPy 1.17.1: scipy.stats.mannwhitneyu(a, b, method="exact") without
 * ties; with ties scipy.stats.permutation_test over all partitions, for the sum of a's ranks; for
 * many values method="asymptotic". The first samples are from SciPy's documentation of
 * mannwhitneyu.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/stats.h"

static void expect_near(double value, double expected)
{
	if (!(fabs(value - expected) <= 1e-12 * fabs(expected)))
		fail_msg("%.17g is not %.17g", value, expected);
}

static const struct {
	double a[8], b[8];
	size_t n_a, n_b;
	double p;
} cases[] = {
	{ { 19, 22, 16, 29, 24 }, { 20, 11, 17, 12 }, 5, 4, 0.1111111111111111 },
	{ { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, 4, 4, 0.02857142857142857 },
	{ { 1.1, 2.2, 3.3, 4.4, 5.5 }, { 2, 3, 4, 5, 6, 7 }, 5, 6, 0.42857142857142855 },
	{ { 72.1, 71.3, 73, 72.6, 71.9 }, { 61.2, 60.8, 61.9, 61, 61.3 }, 5, 5, 0.007936507936507936 },
	{ { 1, 2, 3, 4, 5, 6, 7, 8 }, { 1.5, 2.5, 3.5, 9, 10, 11, 12, 13 }, 8, 8, 0.1605283605283605 },
	/* ties */
	{ { 1, 2, 2, 3 }, { 2, 3, 3, 4 }, 4, 4, 0.2857142857142857 },
	{ { 5, 5, 5, 5 }, { 5, 5, 5, 5 }, 4, 4, 1 },
	{ { 1, 1, 2, 2, 9 }, { 1, 2, 3, 3, 3 }, 5, 5, 0.47619047619047616 },
	{ { 3, 3, 3, 3 }, { 4, 4, 4, 4 }, 4, 4, 0.02857142857142857 },
};

static void test_small_samples(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		expect_near(
			stats_mann_whitney(cases[i].a, cases[i].n_a, cases[i].b, cases[i].n_b), cases[i].p);
		expect_near(
			stats_mann_whitney(cases[i].b, cases[i].n_b, cases[i].a, cases[i].n_a), cases[i].p);
	}
	assert_true(isnan(stats_mann_whitney(cases[0].a, 0, cases[0].b, 4)));
}

static void test_large_samples(void **state)
{
	double a[60], b[60];

	(void) state;
	for (int i = 0; i < 60; i++) {
		a[i] = i;
		b[i] = i + 10.5;
	}
	expect_near(stats_mann_whitney(a, 60, b, 60), 0.0025668879435241754);
}

/* Sum 20, mean 5, squared differences 9 + 1 + 1 + 9. */
static void test_mean_and_deviation(void **state)
{
	static const double values[] = { 2, 4, 6, 8 };

	(void) state;
	expect_near(stats_mean(values, 4), 5);
	expect_near(stats_deviation(values, 4), sqrt(20.0 / 3));
	assert_true(stats_deviation(values, 1) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_samples),
		cmocka_unit_test(test_large_samples),
		cmocka_unit_test(test_mean_and_deviation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
