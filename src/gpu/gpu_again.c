/* SPDX-License-Identifier: MIT */
#include "gpu/gpu_again.h"

#include "base/clock.h"

enum {
	RESTARTS = 5,
};
static const uint64_t sound_ns = UINT64_C(600000000000); /* to have lived for long */

void gpu_again_plan(struct gpu_again *a, uint64_t started_ns)
{
	const uint64_t now = clock_boot_ns();

	if (now - started_ns > sound_ns)
		a->ends = 0;
	a->at_ns = a->ends < RESTARTS ? now + (a->first_ns << a->ends) : 0;
	a->ends++;
}

bool gpu_again_is_due(const struct gpu_again *a)
{
	return a->at_ns && clock_boot_ns() >= a->at_ns;
}
