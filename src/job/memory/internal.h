/* SPDX-License-Identifier: MIT
 *
 * Private to src/job/memory/: the state of the estimator.
 *
 *   memory.c     what happens: births, execs, sizes, marks, ends, passes
 *   families.c   rule (a), and the estimate of what a fork family uses
 *   intervals.c  rules (b) and (c), and when an interval is settled
 *   total.c      the instant of a sample, the peak, what is needed
 */
#pragma once

#include <stdint.h>

#include "base/map.h"
#include "job/memory/memory.h"

enum {
	NO_FAMILY = UINT32_MAX,
	INTERVALS = 256,         /* that wait to be settled, at most: older ones do without rule (c) */
	FAULTS_KEPT = 16,        /* intervals of which a process keeps its faults */
	SETTLE_AFTER = 3,        /* intervals: exit records of processes that no sample found come so late */
	LIVES_MAX = 1 << 14,
	LIVES_FIRST = 128,
	PROCS_MAX = 1 << 22,
	STILL_TOTALS = 5,        /* without a new high: the job has stopped growing */
};

#define MIB INT64_C(1048576)

/* A living process, or one that has ended and whose exit record is awaited. */
struct proc {
	uint32_t id, parent, family;
	uint64_t program;
	bool is_main, is_read, has_faults, has_ended;
	bool is_early;           /* its memory was gone before the present sample */
	bool is_over;            /* nothing more comes of it; the next total forgets it: its size tells of children until then */
	bool has_execed;         /* and its faults have not been read since */
	bool has_forked;         /* since its family's anchor: others may hold what it brought since then */
	int64_t rss, file;       /* of the last sample */
	int64_t twice;           /* of its files, so much may be, or become, pages that it maps more than once */
	int64_t faults, faults_before; /* as read last; as they were before its size was read last */
	int64_t pss_anon;        /* of the pass that goes on */
	int64_t hwm;             /* as read last; 0: never */
	/* At the last total. */
	int64_t rss_then, file_then;
	int64_t left;            /* of m->left, since it ended */
	int64_t file_at_files;   /* when files of all were counted last */
	int64_t rss_most;        /* its largest RSS since memory was last given back, marks included */
	int64_t swelled;         /* by what its anonymous memory has risen from sample to sample since the anchor */
	bool gives_back;         /* its anonymous memory fell: its faults take what it gave back, and copy little */
	bool is_given;           /* what it has at its first sample its parent gave it */
	/* At its family's anchor: faults before its size was read, and after (negative: not read since). */
	int64_t faults_at_anchor, faults_behind_anchor, file_at_anchor, anon_at_anchor;
	int64_t faults_then;     /* as read last until then */
	uint64_t faults_until;   /* the last interval whose faults they are */
	uint32_t faults_in[FAULTS_KEPT]; /* of each interval, by its number, at least */
	/* Since its high-water mark was read last. */
	int64_t top;             /* largest RSS of a sample */
	int64_t faults_at_hwm;
	int64_t lost_hwm;        /* what programs that it ran before the present one used at most; 0: none */
	uint64_t first_ns;       /* its first sample, of a program of its own; 0: none such */
	int64_t first_bytes;     /* what it was at most until then */
	uint64_t unmarked_ns;    /* from here on no mark tells of it */
	uint64_t unmarked, last; /* first interval that waits for its mark; the last one that does, once it has ended */
	uint64_t read_seq, faults_seq, hwm_seq; /* numbers of the sample that brought them */
};

/* What a family used at most at an instant; its anonymous memory later is at most that and what its faults brought since. */
struct anchor {
	bool is_set;
	int64_t bytes;
	uint64_t time_ns;
};

/* Processes that share pages since a fork: a founder and those descendants that run its program still. */
struct family {
	uint32_t members;        /* 0: free */
	bool is_shared;          /* it had several at some time */
	struct anchor anchor;
	struct anchor before;    /* the anchor before it, carried forward to the same time: for a fork that was found late */
	uint64_t before_ns;      /* when that one was taken */
	int64_t kept;            /* faults since the anchor of members that left after they had forked */
	int64_t brought;         /* faults of all members since the anchor */
	int64_t huge_at_anchor;
	/* Of the sample that is being added up. */
	uint32_t n;
	uint32_t n_in[MEMORY_SETS];
	int64_t anon[MEMORY_SETS], largest; /* sums; the largest member */
	int64_t own_high[MEMORY_SETS], own_brought[MEMORY_SETS], own_estimate[MEMORY_SETS];
	bool is_stale;           /* faults of a member are older than its size */
	bool is_incomplete;      /* the size of a member is not known */
	bool has_forks;          /* a member has forked since the anchor */
	bool is_anchored;        /* by this sample */
	int64_t base_estimate;   /* the estimate at the anchor */
	int64_t pss_anon;        /* of a pass */
};

/* The time between two totals. */
struct interval {
	uint64_t from_ns, until_ns;
	int64_t before[MEMORY_SETS], at_end[MEMORY_SETS]; /* high at the totals around it */
	int64_t files[MEMORY_SETS]; /* files beyond those of the total before: what was mapped in it, at most */
	int64_t burst[MEMORY_SETS]; /* by which marks of it exceed all samples, where faults do not explain that */
	int64_t main_anon;       /* anonymous memory of main at the total before */
	bool has_given;          /* main forked in it */
	int64_t allowed[MEMORY_SETS], huge; /* what its faults may have brought, and huge pages */
	int64_t estimate[MEMORY_SETS]; /* at the total that ends it */
	uint64_t falls;          /* how often memory had been given back until it began */
	int64_t later[MEMORY_SETS]; /* the least that a total after it allowed, nothing having been given back since */
	uint32_t unmarked;       /* processes that lived in it and whose marks are awaited */
	bool is_lost;            /* the mark of one is lost */
	bool has_faults, has_huge; /* allowed, huge is known */
};

/* A process used at most so much at any time from .. until. */
struct life {
	uint64_t from_ns, until_ns;
	int64_t bytes;
	bool is_main;
};

/* A life begins or ends. */
struct edge {
	uint64_t time_ns;
	int64_t bytes;           /* negative: a life ends */
};

/* The largest before memory was last given back, and since then: of these, what is known now limits what was there earlier. */
struct recent_peak {
	int64_t committed, recent;
};

/* How far the sum of RSS has risen, and since a pass looked at it. */
struct growth {
	int64_t top, passed;
	unsigned still;          /* totals since top rose */
	unsigned tries, waited;  /* spoilt passes at this level; totals since the last pass */
};

struct pass {
	int64_t sum[MEMORY_SETS], main_private; /* being added up */
	bool lacks_anon;         /* the anonymous part of one is not known */
	bool is_fresh, is_valid; /* since the last total, ever */
	int64_t low[MEMORY_SETS], held[MEMORY_SETS]; /* of the last valid one: at least, and in all */
	int64_t moved;           /* by so much it may be off */
	int64_t offset[MEMORY_SETS]; /* by which the estimate without it was off */
};

/* The sample that is being added up. */
struct sum {
	size_t n, n_in[MEMORY_SETS];
	int64_t fallen[MEMORY_SETS]; /* by which sizes fell since the last total that were not read first */
	bool is_below;           /* a process is smaller than it is known, or not known not, to have been */
	bool is_unmarked;        /* the mark of one was not read in this sample */
	int64_t rss_sum, anon_sum;
	int64_t largest[MEMORY_SETS];      /* one process, without pages that it may map twice */
	int64_t files[MEMORY_SETS], largest_file[MEMORY_SETS];
	int64_t files_since[MEMORY_SETS];  /* by which files grew since memory_files */
	int64_t files_grown[MEMORY_SETS];  /* and since the last total, */
	int64_t files_fallen[MEMORY_SETS]; /* or fell */
};

struct memory {
	struct memory_config config;
	struct proc *procs;
	size_t n_procs, cap_procs, hint;
	size_t n_living;
	struct map by_id;
	struct family *families;
	size_t n_families, cap_families;
	uint32_t free_family;

	uint64_t now_ns;
	uint64_t sample;         /* number of the sample: of the total to come */
	bool is_closing;         /* a total is being made */
	bool has_moved;          /* a size or the faults of a member changed since the last total, or a member came or left */
	bool is_sampling;        /* a size was read since the last total */
	uint32_t first_read;     /* whose was read first */
	int64_t left[MEMORY_SETS]; /* sizes of processes that ended, or ran another program, since the last total */
	bool has_over;           /* some process is over */
	struct memory_end *unsampled; /* ends of processes that no sample found, until the next total */
	size_t n_unsampled, cap_unsampled;
	struct interval open;    /* the one that the next total closes: its number is sample */
	struct interval intervals[INTERVALS]; /* closed and not settled: first .. sample - 1 */
	uint64_t first;          /* number of the first one */
	uint64_t faults_known, huge_known; /* of the first one of which they are not known */
	struct life *lives;
	size_t n_lives, cap_lives;
	bool lives_lost;
	struct edge *edges;      /* of rule (c), kept from one interval to the next */
	size_t cap_edges;

	struct maybe faults;     /* of the job, as read last */
	int64_t main_faults;     /* of main, then */
	int64_t huge, huge_before, huge_then; /* as read last; before sizes were read last; when faults of the job were known last */
	uint64_t huge_seq;
	struct maybe files;      /* memory_files: at most */
	int64_t files_likely;
	struct maybe machine, cgroup; /* of the sample */
	int64_t files_left[MEMORY_SETS]; /* of processes that ended since the last total, or run another program */
	int64_t files_then[MEMORY_SETS]; /* files_high of the last total */
	bool has_fallen;         /* something was given back since the last total */
	uint64_t falls;          /* totals that found that */
	bool is_mapped_twice;
	bool is_sampled;         /* faults could not be read, or exits went unseen */
	bool records_lost;
	uint64_t marks_read;     /* number of the sample in which a mark was read last */

	struct sum sum;
	bool is_added;           /* sum and families are of what is known now */
	/* Marks since the last total: the largest; the most that one exceeds all samples by; the estimate beside which one was. */
	int64_t low[MEMORY_SETS], excess[MEMORY_SETS], estimate[MEMORY_SETS];
	unsigned n_bursts;
	int64_t some_more;       /* memory_some_process: beyond what is known of one */
	struct pass pass;
	struct growth growth;
	int64_t low_peak[MEMORY_SETS];
	struct recent_peak high_peak[MEMORY_SETS], estimate_peak[MEMORY_SETS];
};

/* Where its memory counts: main's is not among the descendants'. For use as the end of a loop over sets. */
static inline enum memory_set sets_of(const struct proc *p)
{
	return p->is_main ? MEMORY_DESCENDANTS : MEMORY_SETS;
}

static inline int64_t anon_of(const struct proc *p)
{
	return larger(p->rss - p->file, 0);
}

/* Is it smaller than it was since memory was last given back? RSS is that exact. */
static inline bool is_below(const struct proc *p)
{
	return p->rss < p->rss_most - p->rss_most / 256 - MIB / 16;
}

static inline bool is_on(const struct memory *m, enum memory_rule rule)
{
	return !(m->config.without & rule);
}

/* memory.c */
void unsampled_settle(struct memory *m); /* ends of processes that no sample found */

/* families.c */
uint32_t family_new(struct memory *m); /* NO_FAMILY: out of memory */
void family_leave(struct memory *m, struct proc *p, bool is_counted); /* is_counted: its faults are known until now */
void family_join(struct memory *m, struct proc *parent, struct proc *child, uint64_t forked_ns);
void family_found(struct memory *m, struct proc *p); /* p is new and alone: it had nothing */
void family_faults(const struct memory *m, struct proc *p, int64_t faults); /* its faults are read */
void families_add(struct memory *m);                                   /* adds up the sample */
/* Anonymous memory of a set at the sample: at most, and probably. Returns whether faults that were not read would lower that. */
bool families_anon(const struct memory *m, enum memory_set set, int64_t *ret_high, int64_t *ret_estimate);
void families_anchor(struct memory *m, uint64_t time_ns);
void families_pass(struct memory *m, uint64_t time_ns); /* after a valid pass: each has what the pass found */

/* intervals.c */
void interval_born(struct memory *m, struct proc *p, bool is_of_main, uint64_t from_ns);
/* A process was hwm at its largest, by excess more than in any sample. Faults of its own explain a part of that, as far as they came in
 * the same interval: a page each. */
struct burst {
	int64_t excess;
	int64_t probable;        /* of excess: beyond what others have */
	int64_t faults;          /* of its life until then */
	bool is_explained;       /* they brought what is in no other process */
};
void interval_burst(struct memory *m, const struct proc *p, int64_t hwm, const struct burst *burst);
/* It was hwm at most, until then. */
struct mark {
	int64_t hwm, faults;     /* own faults until then */
	uint64_t until_ns;
	bool is_burst;           /* and was that large since its last mark */
};
void interval_mark(struct memory *m, struct proc *p, const struct mark *mark);
void interval_lost(struct memory *m, struct proc *p);
/* The sample is over. faults of the job: unknown where they were not read. */
void interval_close(struct memory *m, uint64_t time_ns, struct maybe faults, const struct memory_total *total);
void intervals_settle(struct memory *m, bool all);
/* The largest so far, settled or not. */
int64_t intervals_high(const struct memory *m, enum memory_set set);
