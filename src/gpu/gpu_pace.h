/* SPDX-License-Identifier: MIT
 *
 * How often a group of calls to a driver is made: as often as it wishes, unless all of them together cost too much. Then
 * process lists give way first, which are dear and made of credit; then what is a mean or a counter by itself, and loses
 * nothing but its course; device memory last, whose peak is lost where nobody looks.
 *
 * Costs are processor time of the thread that reads, between readings too: what the driver takes in system calls, what is
 * sent, and waking up.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "source/source.h"

enum {
	PACE_GROUPS = 16
};

struct pace_group {
	unsigned rank;
	uint64_t period_ns, moving_ns; /* as wished */
	uint64_t cpu_ns;               /* of one reading, smoothed */
	uint64_t wall_ns;              /* likewise; of lists, of the last look */
	unsigned n;                    /* readings so far */
	uint64_t last_ns;
};

struct pace {
	struct pace_group groups[PACE_GROUPS];
	unsigned n_groups;
	double share;                  /* of a core, that all groups together may take */
	double spent;                  /* what they do take, over the last seconds */
	uint64_t spent_ns, since_ns;   /* since then so much */
	struct source_credit credit;   /* for lists: the source may look into it */
	uint64_t earned_ns;            /* until when it was earned */
	uint64_t others_ns;            /* until then, what is worth no debt is not listed */
};

/* Nothing is read more often than interval_ns, nor than drivers make new values. */
void pace_init(struct pace *p, const struct source_ops *ops, uint64_t interval_ns);
/* The same from now on, at another interval; what was learned of costs stays. */
void pace_change(struct pace *p, const struct source_ops *ops, uint64_t interval_ns);
/* Sources share what all of them may cost: what the others leave, or each its part. */
void pace_allow(struct pace *p, unsigned sources, double others_spent);
/* The period of a group as it is now. */
uint64_t pace_period(const struct pace *p, unsigned group);
/* Whether it is to be read at now_ns, and when the first one will be. */
bool pace_is_due(const struct pace *p, unsigned group, uint64_t now_ns);
uint64_t pace_next(const struct pace *p);
/* A reading begins at now_ns; it has cost that much. */
void pace_begin(struct pace *p, unsigned group, uint64_t now_ns);
void pace_done(struct pace *p, unsigned group, uint64_t now_ns, uint64_t cpu_ns, uint64_t wall_ns);
/* How long lists that cost that stand while nothing moves. */
uint64_t pace_rest(const struct pace *p, const struct source_group *group, const struct source_cost *cost);
/* How long what was read last stands for itself. */
uint64_t pace_hold(const struct pace *p, unsigned group);
