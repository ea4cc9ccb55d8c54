/* SPDX-License-Identifier: MIT
 *
 * How much memory the job holds: fork families, copies between two looks, bounds.
 */
#pragma once

#include "job/job_internal.h"

/* Bytes that one fault brings at most: a page, a piece of a file, or a huge page. */
static inline int64_t fault_most(const struct job *job)
{
	return larger(larger(job->page_bytes, FAULT_AROUND), (int64_t) job->config.huge_page_bytes);
}

/* job_family.c */

/* Only its name tells whether it shares memory with others, and bounds must not rely on that. */
static inline bool is_hidden(const struct member *m)
{
	return m->p.startstack >= STARTSTACK_HIDDEN;
}
uint32_t family_new(struct job *job); /* NOT_ALIVE: out of memory */
void family_join(struct job *job, struct live *parent, struct member *m, uint64_t fork_ns);
/* faults: of m, as far as no living member tells of them. */
void family_leave(struct job *job, struct member *m, int64_t faults);
/* It ends or runs another program: what it alone held is gone. */
void family_drop(struct job *job, struct live *l);
/* What a copy of a living or just ended parent was given at its fork, where no look that was added up has it; else 0. */
int64_t family_copied(const struct job *job, const struct live *l);
/* Faults of l were read. */
void family_own(const struct job *job, struct live *l);
/* Further faults of one that left. */
void family_add(struct job *job, const struct member *m, int64_t faults);
/* m, main, is watched from its exec on: nothing was there before. */
void family_found(struct job *job, struct member *m);
/* Its members are not known to be within its anchors any more. */
void family_forget(struct job *job, struct member *m);
/* Adds up the living, once a frame. */
const struct look *job_look(struct job *job);
void families_anchor(struct job *job, uint64_t time_ns);
/* Faults read now are those from before whatever memory is read from here on. */
void families_settle(struct job *job);
/* Anonymous memory of a set by what is known of the faults: at most, and probably; once a total. */
void families_anon(struct job *job, enum set set, int64_t *ret_most, int64_t *ret_likely);
/* Might that be less if the faults were read now? */
bool families_are_stale(const struct job *job);

/* job_mapped.c */

/* At a look at its memory and its faults: which of these mapped files. */
void mapped_look(const struct job *job, struct live *l);
/* Bytes that its faults mapped, beside what of what they brought it is known not to hold. */
int64_t mapped_beside(const struct live *l, int64_t unheld);
/* What they mapped until now is gone for its family; from here on it is counted anew. */
void mapped_settle(struct family *f, struct live *l);
/* It ends or runs another program. */
void mapped_drop(struct live *l);

/* job_copies.c */

int64_t own_faults(const struct member *m); /* minor and major */
/* Adds to the look what l probably had between this one and the last total and has not any more. */
void copies_look(const struct job *job, struct look *look, const struct live *l);
/* It has ended, and its counters say all if counted. */
void copies_end(struct job *job, struct live *l, bool counted);
/* It runs another program: what it copied since the last total is gone, and the next reading of its faults says how much that
 * may have been. */
void copies_exec(struct live *l);
void copies_own(struct job *job, struct live *l);
/* The counters of m, which has ended, say so many faults more than before, its own and with those of its children, when it
 * was known to have had so many bytes. */
void copies_late(struct job *job, const struct member *m, int64_t own, int64_t all, int64_t size);
/* Faults of all since the last total, or since before the memory was read that it told of; unknown where some were not read. */
struct maybe faults_lately(const struct job *job, bool earlier);
/* What all faults since the last total may have brought; INT64_MAX where that is not known. */
int64_t copies_most(const struct job *job);

/* job_bounds.c */

struct bounds {
	int64_t value[SETS], low[SETS], high[SETS];
	int64_t max[SETS], low_max[SETS], high_max[SETS]; /* bursts between two looks included */
	int64_t bursts[SETS];                             /* their sum */
	int64_t between[SETS];                            /* what this total tells of, beside what went since the last one */
};
void bounds_make(struct job *job, uint64_t time_ns, struct bounds *ret);
/* How many huge pages the machine had given out before the job began. */
struct maybe huge_at_start(const struct job *job);
/* Were huge pages counted after memory was read? */
bool is_huge_fresh(const struct job *job);
/* What the others held at most, and probably, since its mark was read last. */
struct beside live_others(const struct live *l, enum set set);
/* Its faults were read. */
void bursts_beside(struct live *l);
void burst_add(struct burst *burst, struct beside others, int64_t seen, int64_t value);
/* The same of a child that shares what it was given; copied: what it probably shared besides, which bounds must not rely on. */
void burst_copy(struct burst *burst, struct beside others, int64_t seen, int64_t given, int64_t copied, int64_t value);
/* The largest total of the last two spans between marks. */
int64_t total_lately(const struct job *job, enum set set);
/* One that the last total told of has ended. */
void room_make(struct job *job, const struct member *m, int64_t told);
/* What is left of the last total for one that it did not tell of. */
int64_t room_left(const struct job *job, enum set set, const struct member *m);
/* The same where it is not sure that it was one of the set: only what is held at most rises. */
void burst_may(struct burst *burst, int64_t others, int64_t seen, int64_t value);
/* What a process of value bytes probably has alone. A copy of its parent was given what that held. */
int64_t own_of(const struct job *job, const struct member *m, int64_t value, int64_t faults);
/* What a process held without a fault, its parent gave it: as much as that held at its largest. A vfork gives its ru_maxrss
 * that, too, though it holds none of it. Nobody knows the parent of an orphan that no look found: any may be. */
int64_t parents_most(const struct job *job, const struct member *m);
/* What of its ru_maxrss, value, an orphan probably brought with so many faults: a page each, or huge ones where its parent
 * cannot have given it all that. */
int64_t orphan_own(const struct job *job, const struct member *m, int64_t value, int64_t faults);
/* Mapped files and shared memory at this look, at most. */
int64_t files_most(const struct job *job, enum set set);
/* What bursts add to what was accumulated so far, without a look. */
bool bounds_raise(struct job *job, struct bounds *ret);
/* As high as it can be if nothing is known of the faults. */
int64_t bounds_worst(const struct job *job, enum set set);

/* job_missed.c */

/* A process that no look at memory found was value bytes large and had so many faults. */
void missed_take(struct job *job, const struct member *m, int64_t value, int64_t faults);
/* Must huge pages be counted to tell what those since the last total brought? */
bool missed_are_open(const struct job *job);
/* What they added at most, all together. */
int64_t missed_most(const struct job *job, enum set set);
/* The total is told. */
void missed_settle(struct job *job);

/* job_unmarked.c */

/* It runs another program: the next reading of its faults says what it can have been before. */
void unmarked_exec(const struct job *job, struct live *l);
enum marked {
	MARK_AWAITED,          /* its exit record will tell */
	MARK_KEPT,             /* it is told */
	MARK_LOST,             /* it is not */
	MARK_OF_ANOTHER        /* it is another program's than looks saw */
};
/* It has ended. maxrss: its ru_maxrss. */
void unmarked_end(struct job *job, struct member *m, enum marked how, struct maybe maxrss);
/* Once a total, before what was seen since the last marks begins anew. */
void unmarked_look(struct job *job);
struct bounds;
/* The total b is told: who was there until then was so beside all that. */
void unmarked_settle(struct job *job, const struct bounds *b);
/* At the end of the run: the facts of it. */
void unmarked_tell(struct job *job);

/* job_lately.c */

/* It runs another program. */
void lately_exec(struct job *job, struct live *l);
/* m is not among the living any more; l: what it was at the last look. */
void lately_end(struct job *job, struct member *m, struct live *l);
/* The last member of f has left it. */
void lately_family_end(struct job *job, const struct family *f);
/* Bytes that members of families took along when they ended: the family may have them still, as faults that were read now would tell. */
int64_t lately_unsure(const struct job *job);
/* What the living do not hold any more; once a total, before it is asked what went, and what families hold now. */
void lately_look(struct job *job);
/* Bytes that the last total told of and that this look does not find: of all, and of all but l. */
int64_t lately_went(const struct job *job, enum set s);
int64_t lately_went_beside(const struct job *job, enum set s, const struct live *l);
/* The total b is told: from here on what goes is counted anew. */
void lately_settle(struct job *job, const struct bounds *b);
