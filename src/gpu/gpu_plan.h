/* SPDX-License-Identifier: MIT
 *
 * The plan by which GPUs are read, for people: what gpu_pace.c makes of the groups of each source and of what their readings
 * took when they were tried.
 */
#pragma once

#include "source/source.h"

enum {
	GPU_PLAN_GROUPS = 16, /* of a source */
	GPU_PLAN_WHY = 160,
};

/* A group of calls to a driver that answers here. */
struct gpu_plan {
	const char *source, *group, *holds; /* "NVML", "memory", "device memory in use" */
	uint64_t planned_ns;     /* the period that is wished */
	uint64_t moving_ns;      /* while device memory moves; 0: the same */
	uint64_t resting_ns;     /* while nothing moves, lists that cost that; 0: lasting_ns */
	uint64_t lasting_ns;     /* what it comes to with those costs, if they stay: planned_ns or longer */
	struct source_cost cost; /* n 0: not tried */
	double share_most;       /* of a core, that the readings of all sources may take */
	char why[GPU_PLAN_WHY];  /* it is slower than planned; "" */
};
typedef void gpu_planner(void *ctx, const struct gpu_plan *plan);

struct gpu_vendor;

/* A source and what its groups took, by group. */
struct gpu_tried {
	const struct gpu_vendor *vendor;
	const struct source_cost *costs;
};

/* Tells of every group of the sources that were tried, in order. */
void gpu_plan(const struct gpu_tried *tried, unsigned n, uint64_t interval_ns, gpu_planner *tell, void *ctx);
