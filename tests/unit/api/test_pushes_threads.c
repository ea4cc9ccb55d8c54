/* SPDX-License-Identifier: MIT
 *
 * A list that several threads push to, note in, read and give other rules, for the thread sanitizer
 * to watch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"

enum {
	TURNS = 3000
};

static void *push(void *arg)
{
	for (int i = 0; i < TURNS; i++) {
		const double values[] = { i % 100, 100 };
		struct hwi_push_result made;

		hwi_pushes_push(arg, values, (double) NAN, &made);
		assert_true(made.end >= made.first);
	}
	return NULL;
}

static void *note(void *arg)
{
	for (int i = 0; i < TURNS; i++)
		assert_int_equal(hwi_pushes_note(arg, HWI_PUSH_OWN, (uint32_t) i, "a phase", NULL), 0);
	return NULL;
}

static void *change_rules(void *arg)
{
	static const char *const rules[] = { "a > 50", "share > 0.9" };

	for (int i = 0; i < TURNS / 30; i++)
		assert_int_equal(hwi_pushes_rules(arg, rules, (size_t) i % 3, NULL), 0);
	return NULL;
}

static void *look(void *arg)
{
	for (int i = 0; i < TURNS / 30; i++) {
		struct hwi_push_stats stats = { .size = sizeof(stats) };
		struct hwi_push_event *events;
		size_t n;

		assert_int_equal(hwi_pushes_read(arg, NULL, &events, &n), 0);
		for (size_t j = 0; j < n; j++)
			assert_true(events[j].kind != HWI_PUSH_OWN || strcmp(events[j].text, "a phase") == 0);
		free(events);
		assert_int_equal(hwi_pushes_timeline(arg, 1000000, &events, &n), 0);
		free(events);
		hwi_pushes_stats(arg, &stats);
		assert_true(stats.kept <= 500 && stats.events >= stats.kept);
		hwi_pushes_begin(arg, NULL, (double) NAN);
		hwi_pushes_end(arg);
	}
	return NULL;
}

static void everything_at_once(void **state)
{
	static const char *const series[] = { "a", "b" };
	static void *(*const work[])(void *) = { push, push, note, change_rules, look };
	const struct hwi_push_ratio share = { "share", 0, 1 };
	const struct hwi_pushes_options options = {
		.size = sizeof(options),
		.max_events = 500,
		.series = series,
		.n_series = 2,
		.ratios = &share,
		.n_ratios = 1,
		.changes = true,
		.samples = true,
	};
	struct hwi_push_stats stats = { .size = sizeof(stats) };
	struct hwi_pushes *p;
	pthread_t threads[5];

	(void) state;
	assert_int_equal(hwi_pushes_new(&options, &p, NULL), 0);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work[i], p), 0);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	hwi_pushes_stats(p, &stats);
	assert_int_equal(stats.counts[HWI_PUSH_SAMPLE], 2 * TURNS);
	assert_int_equal(stats.counts[HWI_PUSH_OWN], TURNS);
	assert_int_equal(stats.kept, 500);
	hwi_pushes_begin(p, (const double[]) { 1, 2 }, (double) NAN);
	hwi_pushes_push(p, (const double[]) { 5, 5 }, (double) NAN, NULL);
	hwi_pushes_stats(p, &stats);
	assert_true(
		stats.rises_per_s > 0 && stats.risen_per_s == stats.risen / ((double) stats.active_ns / 1e9));
	hwi_pushes_clear(p);
	hwi_pushes_stats(p, &stats);
	assert_true(stats.events == 0 && isnan(stats.peaks[0]) && stats.rises_per_s == 0);
	hwi_pushes_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
