/* SPDX-License-Identifier: MIT
 *
 * How often each group of a source is read: at its planned period, unless the reads would use more
 * than 0.5 % of a core, or 0.25 % for each GPU. Then lists of processes are read less often first:
 * they are expensive, and have a budget saved up from what other groups leave. Next are groups of a
 * high rank, which are means or counters and only lose resolution; last are device memory, whose
 * peaks between reads are lost, and momentary figures. Lists may hold the driver's locks, and so delay
 * the job, for a fiftieth of the time at most.
 *
 * A cost is CPU time of the thread that reads, also between reads: system calls, sending and waking up
 * included. Times are ns since any fixed instant, passed in. No I/O, no allocation. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "source/source.h"

enum {
	GPU_GROUPS = 16, /* per source */
	GPU_SCHEDULE_WHY = 160,
};

struct read_budget_group {
	unsigned rank;
	bool pairs;
	uint64_t period_ns, moving_ns; /* planned */
	uint64_t cpu_ns;               /* of one read, smoothed */
	uint64_t wall_ns;              /* the same; for lists, of the last read */
	unsigned n;                    /* reads so far */
	uint64_t last_ns;
};

struct read_budget {
	struct read_budget_group groups[GPU_GROUPS];
	unsigned n_groups;
	double share;                  /* of a core, limit for all groups together */
	double spent;                  /* of a core, actual use over the last seconds */
	uint64_t spent_ns, since_ns;   /* ns used since then */
	struct source_budget lists;    /* the budget of lists, visible to the source */
	uint64_t earned_ns;            /* earned until this time */
	uint64_t others_ns;            /* until then, only lists that justify a debt are read */
};

/* No group is read more often than interval_ns, nor than drivers update values. */
void read_budget_init(struct read_budget *b, const struct source_ops *ops, uint64_t interval_ns);
/* Changes the interval from now on; learned costs stay. */
void read_budget_set_interval(struct read_budget *b, const struct source_ops *ops, uint64_t interval_ns);
/* Divides the limit between sources: each gets what the others leave, and at least an equal
 * part. */
void read_budget_share(struct read_budget *b, unsigned sources, double others_spent);
/* The current period of a group. */
uint64_t read_budget_period(const struct read_budget *b, unsigned group);
/* Is the group due at now_ns? When is the first group due? */
bool read_budget_is_due(const struct read_budget *b, unsigned group, uint64_t now_ns);
uint64_t read_budget_next(const struct read_budget *b);
/* A read begins at now_ns; the read that began then has cost this much. */
void read_budget_begin(struct read_budget *b, unsigned group, uint64_t now_ns);
void read_budget_spend(struct read_budget *b, unsigned group, uint64_t now_ns, uint64_t cpu_ns,
	uint64_t wall_ns);
/* How long the last value of a metric stays valid. */
uint64_t read_budget_hold(const struct read_budget *b, unsigned group);

/* ---- the schedule, for doctor ---------------------------------------------------------------- */

/* A group of calls to a driver that works on this machine. */
struct gpu_schedule {
	const char *source, *group, *contents; /* "NVML", "memory", "device memory in use" */
	uint64_t planned_ns;     /* the planned period */
	uint64_t moving_ns;      /* while device memory moves; 0: the same */
	uint64_t idle_period_ns; /* for lists of that cost while no memory moves; 0: lasting_ns */
	uint64_t lasting_ns;     /* the sustained period at that cost: planned_ns or longer */
	struct source_cost cost; /* n 0: not tried */
	double share_max;        /* of a core, limit for the reads of all sources */
	char why[GPU_SCHEDULE_WHY]; /* why lasting_ns is longer than planned_ns; "" */
};
typedef void gpu_schedule_reporter(void *ctx, const struct gpu_schedule *schedule);

/* A probed source, and the costs of its groups. */
struct gpu_tried {
	const char *label;
	const struct source_ops *ops;
	const struct source_cost *costs;
};

/* Reports every group of the probed sources, in order. */
void gpu_schedule(const struct gpu_tried *tried, unsigned n, uint64_t interval_ns,
	gpu_schedule_reporter *report, void *ctx);
