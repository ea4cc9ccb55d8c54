/* SPDX-License-Identifier: MIT
 *
 * Measures the cost of a push: seven series, each push different from the previous one, through the
 * rules of the replacement of MemoryTracker. Prints lines "PUSH_NS EVENT_BYTES", several rounds:
 * CPU time per push (which makes about three events), and growth of the resident size of this
 * process per event.
 */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "api/internal.h"

enum {
	ROUNDS = 15,
	PUSHES = 100000,
	EVENTS = 200000,
};

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static double round_of(struct hwi_pushes *p)
{
	const double before = cpu_ns();

	for (int i = 0; i < PUSHES; i++) {
		const double allocated = (double) ((i * 7919) % 1000) * (1 << 20), total = 2000.0 * (1 << 20);
		const double values[] = { allocated, allocated + (1 << 24), allocated, 1 << 20, allocated,
			total - allocated, total };

		hwi_pushes_push(p, values, (double) NAN, NULL);
	}
	return (cpu_ns() - before) / PUSHES;
}

int main(void)
{
	static const char *const series[] = { "allocated", "reserved", "active", "inactive", "used", "free",
		"total" };
	static const char *const rules[] = { "error: usage >= 0.95", "warn: usage >= 0.8 and usage < 0.95",
		"warn: change > 1e9", "warn: fragmentation > 0.3" };
	static const struct hwi_push_ratio ratios[] = { { "usage", 0, 6 }, { "fragmentation", 3, 1 } };
	const struct hwi_pushes_options options = {
		.size = sizeof(options),
		.max_events = EVENTS,
		.series = series,
		.n_series = 7,
		.ratios = ratios,
		.n_ratios = 2,
		.changes = true,
		.samples = true,
		.every = true,
	};
	struct hwi_pushes *p;
	const int64_t rss = hwi_own_rss();

	if (hwi_pushes_new(&options, &p, NULL) < 0 || hwi_pushes_rules(p, rules, 4, NULL) < 0)
		return 1;
	hwi_pushes_begin(p, NULL, (double) NAN);
	for (int r = 0; r < ROUNDS; r++) {
		const double push = round_of(p);

		printf("%.1f %.1f\n", push, (double) (hwi_own_rss() - rss) / EVENTS);
	}
	hwi_pushes_free(p);
	return 0;
}
