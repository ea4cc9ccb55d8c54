/* SPDX-License-Identifier: MIT
 *
 * How often each group of a source of GPUs is read: at the period it asks for, unless all readings
 * of all sources together would take more than 0.2 % of a core. Then lists of processes are read
 * more rarely first: they are dear, and live on a budget that is saved up from what the others
 * leave. Groups of a high rank follow, which are means or counters and lose only resolution;
 * device memory is last, whose peaks are lost between readings. A list may also hold the driver's
 * locks, and with them the job, for a fiftieth of the time at most.
 *
 * Costs are CPU time of the thread that reads, between readings too: system calls, sending and
 * waking up included. Times are ns since any fixed instant, passed in. No I/O, no allocation. One
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "source/source.h"

enum {
	GPU_GROUPS = 16, /* of a source */
	GPU_SCHEDULE_WHY = 160,
};

struct read_budget_group {
	unsigned rank;
	uint64_t period_ns, moving_ns; /* as asked for */
	uint64_t cpu_ns;               /* of one reading, smoothed */
	uint64_t wall_ns;              /* likewise; of lists, of the last reading */
	unsigned n;                    /* readings so far */
	uint64_t last_ns;
};

struct read_budget {
	struct read_budget_group groups[GPU_GROUPS];
	unsigned n_groups;
	double share;                  /* of a core, that all groups together may take */
	double spent;                  /* what they do take, over the last seconds */
	uint64_t spent_ns, since_ns;   /* since then so much */
	struct source_credit lists;    /* the budget of lists; the source sees it */
	uint64_t earned_ns;            /* until when it was earned */
	uint64_t others_ns;            /* until then, no list is read that is not worth a debt */
};

/* Nothing is read more often than interval_ns, nor than drivers make new values. */
void read_budget_init(struct read_budget *b, const struct source_ops *ops, uint64_t interval_ns);
/* Another interval from now on; what is known of costs stays. */
void read_budget_set_interval(struct read_budget *b, const struct source_ops *ops, uint64_t interval_ns);
/* Sources share what all may cost: each gets what the others leave, at least an equal part. */
void read_budget_share(struct read_budget *b, unsigned sources, double others_spent);
/* The period of a group as it is now. */
uint64_t read_budget_period(const struct read_budget *b, unsigned group);
/* Is it due at now_ns? When is the first one due? */
bool read_budget_is_due(const struct read_budget *b, unsigned group, uint64_t now_ns);
uint64_t read_budget_next(const struct read_budget *b);
/* A reading begins at now_ns; the reading that began then has cost that much. */
void read_budget_begin(struct read_budget *b, unsigned group, uint64_t now_ns);
void read_budget_spend(struct read_budget *b, unsigned group, uint64_t now_ns, uint64_t cpu_ns,
	uint64_t wall_ns);
/* How long a value that was read last stands for its metric. */
uint64_t read_budget_hold(const struct read_budget *b, unsigned group);

/* ---- the schedule, for doctor ---------------------------------------------------------------- */

/* A group of calls to a driver that answers here. */
struct gpu_schedule {
	const char *source, *group, *holds; /* "NVML", "memory", "device memory in use" */
	uint64_t planned_ns;     /* the period that is asked for */
	uint64_t moving_ns;      /* while device memory moves; 0: the same */
	uint64_t resting_ns;     /* while nothing moves, lists that cost that; 0: lasting_ns */
	uint64_t lasting_ns;     /* what it comes to if those costs last: planned_ns or longer */
	struct source_cost cost; /* n 0: not tried */
	double share_most;       /* of a core, that the readings of all sources may take */
	char why[GPU_SCHEDULE_WHY]; /* why it is slower than planned; "" */
};
typedef void gpu_schedule_reporter(void *ctx, const struct gpu_schedule *schedule);

/* A source that was tried, and what its groups cost, by group. */
struct gpu_tried {
	const char *label;
	const struct source_ops *ops;
	const struct source_cost *costs;
};

/* Reports every group of the sources that were tried, in order. */
void gpu_schedule(const struct gpu_tried *tried, unsigned n, uint64_t interval_ns,
	gpu_schedule_reporter *report, void *ctx);
