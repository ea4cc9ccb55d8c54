/* SPDX-License-Identifier: MIT
 *
 * The estimator of combined memory: how much RAM all processes of a job used at one instant, shared pages once.
 *
 * The truth it looks for is the number of distinct resident pages (anonymous, shared memory, mapped files) that at least one
 * member maps. The kernel does not report that number; it reports the resident size (RSS) of each process, its high-water
 * mark (hwm), its page faults, and, slowly, proportional set sizes (PSS). docs/memory.md explains the rules by which the
 * estimator bounds the truth from these:
 *
 *   low       the largest single process; a valid PSS pass; the anonymous memory of a cgroup that the job has to itself
 *   high      for each interval between two totals the smallest of what applies, for the job the largest of these:
 *             families (a), faults since the last total (b), high-water marks of the processes that lived in it (c), what
 *             the machine has mapped (d), and later totals where memory only grew (e)
 *   estimate  between both: families with the faults that probably brought memory, corrected by PSS passes
 *
 * Calls come in the order of events: births, execs, sizes, high-water marks, faults and ends as they are read, passes, then a total.
 * A total closes an interval. An interval is settled, and its high bound final, once the high-water marks of all processes
 * that lived in it are known; or, without them, when too many intervals wait.
 *
 * All sizes are bytes, all times nanoseconds since the run's start. Unknown processes are ignored. Not thread-safe; one
 * estimator belongs to one thread at a time. The estimator reads nothing itself and keeps no pointer to anything of its caller.
 */
#pragma once

#include <stddef.h>

#include "base/maybe.h"

/* Whose memory: all members, or all but the main process. */
enum memory_set {
	MEMORY_ALL,
	MEMORY_DESCENDANTS,
	MEMORY_SETS
};

/* Rules that can be switched off, to show what each is worth (tests/truth/scoreboard --ablation). */
enum memory_rule {
	MEMORY_RULE_FAMILIES = 1 << 0,  /* (a): fork families; without it each process counts whole */
	MEMORY_RULE_FAULTS = 1 << 1,    /* (b): faults since the last total */
	MEMORY_RULE_LIFETIMES = 1 << 2, /* (c): high-water marks of all processes that lived in an interval */
	MEMORY_RULE_MACHINE = 1 << 3,   /* (d): what the whole machine has mapped */
	MEMORY_RULE_PASS = 1 << 4,      /* PSS passes correct high and estimate, too */
	MEMORY_RULE_FILES = 1 << 5,     /* files and shared memory count once, at most as mapped */
	MEMORY_RULE_BURSTS = 1 << 7,    /* high-water marks above every sample raise high */
	MEMORY_RULE_GROWTH = 1 << 8,    /* (e): what only grew was never more than a later total allows */
};

struct memory_config {
	/* the most that one fault brings of anonymous memory, PMD huge pages apart */
	int64_t page_bytes;
	int64_t huge_bytes;      /* a PMD huge page; 0: none */
	int64_t machine_bytes;   /* memory of the machine; 0: unknown */
	int64_t rss_error_bytes; /* how far the RSS of one process may be off */
	bool is_off;             /* no totals are wanted: nothing is kept */
	/* hiwater started the job: no process outside it shares its anonymous pages */
	bool ours;
	unsigned without;        /* enum memory_rule: switched off */
};

struct memory *memory_new(const struct memory_config *config); /* NULL: out of memory */
void memory_free(struct memory *m);

/* ---- events ------------------------------------------------------------------------------------- */

struct memory_birth {
	uint32_t id, parent;     /* parent: 0 if it is not a member */
	/* equal for two processes that share pages since a fork (procfs startstack); 0: has no memory */
	uint64_t program;
	uint64_t forked_ns;      /* earliest time of its fork */
	bool is_main;
	/* all its memory is of the program that a scan found first, started by an exec in this run */
	bool is_new;
};
/* Returns 0 or -ENOMEM. */
int memory_birth(struct memory *m, const struct memory_birth *birth);
/* The process runs another program; its old memory is released. Returns 0 or -ENOMEM. */
int memory_exec(struct memory *m, uint32_t id, uint64_t program);

/* Sets the time of the events that follow. */
void memory_time(struct memory *m, uint64_t time_ns);
/* RSS, and the part of it that is mapped files and shared memory. */
void memory_size(struct memory *m, uint32_t id, int64_t rss, int64_t file);
/* High-water mark of the present program. is_own: it was reached in this run. */
void memory_hwm(struct memory *m, uint32_t id, int64_t hwm, bool is_own);
/* Page faults of the process itself since its birth, minor and major. */
void memory_faults(struct memory *m, uint32_t id, int64_t faults);
/* bytes of its files and shared memory may be pages that it maps more than once. */
void memory_mapped_twice(struct memory *m, uint32_t id, int64_t bytes);

struct memory_end {
	uint32_t id;
	struct maybe hwm;        /* of its last program, from the kernel's exit record, or more */
	uint64_t until_ns;       /* where hwm is known: it had ended by then */
	struct maybe faults;     /* own faults of its whole life */
	bool is_own;             /* hwm was reached in this run */
	bool is_renamed;         /* hwm is of another program than the last sample found */
	bool is_copy;            /* it never called exec after its fork, by its exit record */
	bool is_awaited;         /* its exit record has not arrived: a second call follows */
};
void memory_end(struct memory *m, const struct memory_end *end);
/* Exit records were lost or are not available: rule (c) no longer applies. */
void memory_records_lost(struct memory *m);

/* Some process of the job used bytes (ru_maxrss), it is not known which; no_main: a descendant. */
void memory_some_process(struct memory *m, int64_t bytes, bool no_main);

/* Huge pages that the machine has allocated so far. */
void memory_huge(struct memory *m, int64_t count);
/* Mapped memory of the whole machine (AnonPages + Mapped), read in the sample of the next total. */
void memory_machine(struct memory *m, int64_t bytes);
/* Anonymous memory of a cgroup that has only processes of the job and of hiwater, less hiwater's. */
void memory_cgroup(struct memory *m, int64_t anon);
/* Distinct files and shared memory that the members map, each range of a file once: upper bound and
 * estimate. */
void memory_files(struct memory *m, int64_t most, int64_t likely);

/* One process in a PSS pass; private: pages that only it maps. */
struct memory_pss {
	uint32_t id;
	/* anon: the anonymous part of pss; negative: the kernel does not report it */
	int64_t pss, anon, private;
};
void memory_pss(struct memory *m, const struct memory_pss *pss);
/* Ends a pass. moved: change of sizes during it; grown: growth of the members between the sample
 * before it and its reads. An invalid pass (members changed, or forked) is dropped. */
void memory_pass(struct memory *m, bool valid, int64_t moved, const int64_t grown[MEMORY_SETS]);

/* ---- results ------------------------------------------------------------------------------------ */

/* The sample so far, before its total, to decide what else to read (job_needs.c). All members; bytes. */
struct memory_state {
	size_t n;                /* living members */
	int64_t rss_sum, largest; /* largest: one process, without pages that it may map twice */
	int64_t files;           /* sum over members of files and shared memory */
	int64_t files_since, files_read; /* of these, mapped since memory_files; its result */
	int64_t high, estimate;  /* at this instant */
	int64_t peak;            /* upper bound so far, of the intervals that are settled */
	bool only_grew;          /* since memory was last released */
	uint64_t since_hwm;      /* totals since a high-water mark was read */
	bool lacks_faults;       /* faults of all members and the count of huge pages would lower a bound */
};
void memory_state(struct memory *m, struct memory_state *ret);
/* Upper bound so far of all intervals, settled or not; bytes. It goes over the open ones: at most 256. */
int64_t memory_high_so_far(const struct memory *m);

/* Use at the instant of a sample, and the largest since the last total. */
struct memory_total {
	int64_t rss_sum, anon_sum;
	int64_t low[MEMORY_SETS], estimate[MEMORY_SETS], high[MEMORY_SETS];
	int64_t low_max[MEMORY_SETS], estimate_max[MEMORY_SETS]; /* with high-water marks read since */
};
/* Closes the interval. faults: of all members and all ended processes since the start; unknown: not
 * read in this sample. */
void memory_total(struct memory *m, uint64_t time_ns, struct maybe faults, struct memory_total *ret);

/* Ends the run, after a last total. */
void memory_finish(struct memory *m);

/* The largest use so far. high is unknown where no upper bound can be proved. */
struct memory_peak {
	int64_t low, estimate;
	struct maybe high;
};
void memory_peak(const struct memory *m, enum memory_set set, struct memory_peak *ret);
/* True if a process maps, or mapped, pages more than once: its RSS does not measure its memory. */
bool memory_is_mapped_twice(const struct memory *m);
