/* SPDX-License-Identifier: MIT
 *
 * How often a group of calls to a driver is made: as often as it wishes, unless that costs too much.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "source/source.h"

enum {
	PACE_GROUPS = 16
};

struct pace_group {
	uint64_t period_ns, moving_ns; /* as wished */
	uint64_t cpu_ns, wall_ns;      /* of one reading, smoothed */
	unsigned n;                    /* readings so far */
	uint64_t next_ns;
};

struct pace {
	struct pace_group groups[PACE_GROUPS];
	unsigned n_groups;
	bool moving;                   /* device memory is */
};

/* Nothing is read more often than interval_ns, nor than drivers make new values. */
void pace_init(struct pace *p, const struct source_ops *ops, uint64_t interval_ns);
/* The period of a group as it is now; sources share what all of them may cost. */
uint64_t pace_period(const struct pace *p, unsigned group, unsigned sources);
/* A reading that began at now_ns has cost that much. */
void pace_done(struct pace *p, unsigned group, unsigned sources, uint64_t now_ns, uint64_t cpu_ns, uint64_t wall_ns);
/* When the first one is due. */
uint64_t pace_next(const struct pace *p);
