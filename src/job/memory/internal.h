/* SPDX-License-Identifier: MIT
 *
 * Private to src/job/memory/: the state of the estimator.
 *
 *   memory.c    events: births, execs, sizes, high-water marks (hwm), ends, PSS passes
 *   families.c  rule (a), and the estimate of what a fork family uses
 *   total.c     the instant of a sample; intervals and rules (b), (c), (e); the peaks; what should be read next
 */
#pragma once

#include <stdint.h>

#include "base/map.h"
#include "job/memory/memory.h"

enum {
	NO_FAMILY = UINT32_MAX,
	INTERVALS = 256,  /* that wait to be settled, at most: older ones do without rule (c) */
	SETTLE_AFTER = 3, /* intervals: exit records of processes that no sample found come so late */
	PROCS_MAX = 1 << 22
};

#define MIB INT64_C(1048576)

/* A living process, or one that has ended and whose exit record is awaited. */
struct proc {
	uint32_t id, parent, family;
	uint64_t program;
	bool is_main, is_read, has_faults, has_ended;
	bool is_ending;          /* its exit record is here */
	bool is_unsampled;       /* its exit record waits for the next total */
	bool is_early;           /* its memory was released before the present sample began */
	/* no event follows; the next total drops it, its size serves its children until then */
	bool is_over;
	bool has_execed;         /* and its faults have not been read since */
	/* since its family's anchor: others may use pages that it brought since then */
	bool has_forked;
	int64_t rss, file;       /* of the last sample */
	/* bytes of its files that may be, or become, pages that it maps more than once */
	int64_t twice;
	int64_t faults, faults_before; /* as read last; as known when its size was read last */
	int64_t pss_anon;        /* in the present pass */
	int64_t hwm;             /* as read last; 0: never */
	int64_t rss_then, file_then, faults_then; /* at the last total */
	int64_t left;            /* its part of memory.left, since it ended */
	int64_t file_at_files;   /* when the files of all were counted last */
	int64_t rss_most;        /* largest RSS, hwm included, since the job last released memory */
	/* At its family's anchor; faults_behind: as read first after its size, negative before that. */
	int64_t faults_at_anchor, faults_behind_anchor, file_at_anchor, anon_at_anchor;
	/* Since its hwm was read last. */
	int64_t top;             /* largest RSS of a sample */
	int64_t faults_at_hwm;
	int64_t lost_hwm;        /* upper bound of the programs that it ran before the present one; 0: none */
	uint64_t first;          /* number of the first interval that waits for its hwm */
	uint64_t read_seq, faults_seq, hwm_seq; /* numbers of the sample that brought them */
};

/* Upper bound of the anonymous memory of a family at an instant. */
struct anchor {
	bool is_set;
	int64_t bytes;
	uint64_t time_ns;        /* 0: the family began, with nothing */
};

/* The members of a family in a sample; own: what their own faults brought since the anchor. */
struct family_sum {
	uint32_t n, n_in[MEMORY_SETS];
	int64_t anon[MEMORY_SETS], largest;
	int64_t own_high[MEMORY_SETS], own_brought[MEMORY_SETS];
	int64_t own_copied[MEMORY_SETS]; /* probably, since faults that mapped files copied nothing */
	bool is_stale;           /* faults of a member are older than its size */
	bool is_incomplete;      /* the size of a member is not known */
	bool has_forks;          /* a member has forked since the anchor */
};

/* Processes that share pages since a fork: a founder and those descendants that still run its program. */
struct family {
	uint32_t members;        /* 0: free */
	bool is_shared;          /* it had several members at some time */
	struct anchor anchor;
	/* The one before it, carried forward to the same time by all faults: for a fork that is found late. */
	struct anchor before;
	uint64_t before_ns;      /* when that one was set */
	int64_t brought;         /* by faults of all members since the anchor */
	int64_t estimate_at_anchor, huge_at_anchor;
	struct family_sum sum;
	bool is_anchored;        /* by this sample */
	int64_t pss_anon;        /* in a pass */
};

/* The time between two totals. All values are upper bounds, but for has_*, falls and the counts. */
struct interval {
	uint64_t until_ns;
	int64_t before[MEMORY_SETS], at_end[MEMORY_SETS]; /* use at the totals around it */
	int64_t files[MEMORY_SETS]; /* files mapped since the total before */
	int64_t burst[MEMORY_SETS]; /* hwm above all samples and above what faults allow */
	int64_t hwms[MEMORY_SETS];  /* sum of the hwm of all that lived in it */
	int64_t main_anon;       /* of main at the total before */
	bool main_has_forked;    /* in it */
	int64_t allowed[MEMORY_SETS], huge; /* what its faults, and huge pages, brought */
	uint64_t falls;          /* how often memory was released before it began */
	int64_t later[MEMORY_SETS]; /* the smallest later total, nothing having been released since */
	uint32_t n_awaited;      /* processes that lived in it and whose hwm is not known yet */
	bool has_faults, has_huge; /* allowed, huge is known */
};

/* The largest value before memory was last released, and since: later totals lower what came since. */
struct recent_peak {
	int64_t committed, recent;
};

struct pass {
	int64_t sum[MEMORY_SETS], main_private; /* being added up */
	bool lacks_anon;         /* the anonymous part of one is not known */
	bool is_fresh, is_valid; /* since the last total, ever */
	int64_t low[MEMORY_SETS], used[MEMORY_SETS]; /* of the last valid one: lower bound, value */
	int64_t moved;           /* its error */
	int64_t offset[MEMORY_SETS]; /* of the estimate without it from its value */
};

static inline int64_t peak_of(const struct recent_peak *peak)
{
	return larger(peak->committed, peak->recent);
}

/* The sample that is being added up. */
struct sum {
	size_t n, n_in[MEMORY_SETS];
	int64_t fallen[MEMORY_SETS]; /* by which sizes fell since the last total */
	bool is_below;           /* a process is smaller than it was since memory was released, or may be */
	bool lacks_hwm;          /* the hwm of one was not read in this sample */
	int64_t rss_sum, anon_sum;
	int64_t largest[MEMORY_SETS]; /* one process, without pages that it may map twice */
	int64_t files[MEMORY_SETS], largest_file[MEMORY_SETS];
	/* growth since memory_files, since the last total */
	int64_t files_since[MEMORY_SETS], files_grown[MEMORY_SETS];
};

struct memory {
	struct memory_config config;
	struct proc *procs;
	size_t n_procs, cap_procs;
	struct map by_id;
	struct family *families;
	size_t n_families, cap_families;
	uint32_t free_family, main; /* main: its id; 0: none yet */

	uint64_t now_ns;
	uint64_t sample;         /* number of the sample, and of the interval, that the next total closes */
	bool has_moved;          /* a size or faults changed since the last total, or a member came or left */
	bool is_sampling;        /* a size was read since the last total */
	bool is_added;           /* sum and families are up to date */
	bool has_over;           /* some process is over */
	bool has_fallen;         /* memory was released since the last total */
	bool is_mapped_twice;
	bool is_sampled;         /* faults could not be read, or exits went unseen: no upper bound */
	bool records_lost;       /* the hwm of an ended process is not known: no rule (c) */
	/* sizes of processes that ended, or ran another program, since the last total */
	int64_t left[MEMORY_SETS];
	int64_t linger[MEMORY_SETS]; /* hwm of those whose memory the next interval may still see */
	struct memory_end *unsampled; /* ends of processes that no sample found, until the next total */
	size_t n_unsampled, cap_unsampled;
	struct interval open;
	struct interval intervals[INTERVALS]; /* closed and not settled: first .. sample - 1 */
	uint64_t first;
	uint64_t faults_known, huge_known; /* the first interval of which they are not known */

	struct maybe faults;     /* of the job, as read last */
	int64_t main_faults;     /* of main, then */
	/* as read last; before sizes were read; when huge_known was set */
	int64_t huge, huge_before, huge_then;
	uint64_t huge_seq;
	struct maybe files;      /* memory_files: upper bound */
	int64_t files_likely;
	struct maybe machine, cgroup; /* of the sample */
	uint64_t falls;          /* totals that found memory released */
	uint64_t hwm_read;       /* number of the sample in which a hwm was read last */

	struct sum sum;
	/* Since the last total: the largest hwm read; the most that one exceeded all samples by, probably; how many did. */
	int64_t low[MEMORY_SETS], excess[MEMORY_SETS];
	unsigned n_bursts;
	int64_t some_more;       /* memory_some_process: beyond the largest known process */
	struct pass pass;
	int64_t low_peak[MEMORY_SETS];
	struct recent_peak high_peak[MEMORY_SETS], estimate_peak[MEMORY_SETS];
};

/* Ends a loop over the sets that a process belongs to: main is not among the descendants. */
static inline enum memory_set sets_of(const struct proc *p)
{
	return p->is_main ? MEMORY_DESCENDANTS : MEMORY_SETS;
}

static inline int64_t anon_of(const struct proc *p)
{
	return larger(p->rss - p->file, 0);
}

/* Is it smaller than it was since memory was last released? RSS is that exact. */
static inline bool is_below(const struct proc *p)
{
	return p->rss < p->rss_most - p->rss_most / 256 - MIB / 16;
}

static inline bool is_on(const struct memory *m, enum memory_rule rule)
{
	return !(m->config.without & rule);
}

static inline int64_t fault_bytes(const struct memory *m, int64_t faults)
{
	return m->config.page_bytes * larger(faults, 0);
}

/* memory.c */
struct proc *proc_find(const struct memory *m, uint32_t id); /* NULL: unknown, or dropped */
void unsampled_settle(struct memory *m); /* ends of processes that no sample found */

/* families.c */
uint32_t family_new(struct memory *m); /* NO_FAMILY: out of memory */
void family_leave(struct memory *m, struct proc *p);
void family_join(struct memory *m, struct proc *parent, struct proc *child, uint64_t forked_ns);
void family_begin(struct memory *m, struct proc *p); /* p is its only member, and had no memory */
void family_faults(const struct memory *m, const struct proc *p, int64_t faults); /* p's faults are read */
void families_add(struct memory *m);                 /* adds up the sample */
/* Anonymous memory of a set at the sample. Returns whether reading faults now would lower the upper bound. */
bool families_anon(const struct memory *m, enum memory_set set, int64_t *ret_high, int64_t *ret_estimate);
void families_anchor(struct memory *m);
void families_pass(struct memory *m); /* after a valid pass: each family uses what the pass found */

/* total.c */
bool has_relatives(const struct memory *m, const struct proc *p);
void interval_born(struct memory *m, struct proc *p, bool is_of_main, uint64_t from_ns);
/* p was hwm large at some time of the intervals that wait for its hwm, by excess more than in any sample. faults: those of the present
 * interval that brought pages of its own; they allow for a part of that. */
void interval_burst(struct memory *m, const struct proc *p, int64_t hwm, int64_t excess, int64_t faults);
/* p was hwm large at most until now; is_reached: and was since its hwm was read last. faults: all of its own until now. */
void interval_hwm(struct memory *m, struct proc *p, int64_t hwm, bool is_reached, int64_t faults);
