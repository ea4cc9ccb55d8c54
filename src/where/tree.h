/* SPDX-License-Identifier: MIT
 *
 * The processes of the job with their samples, and its highs: moments at which its memory was
 * higher than before, with what was resident then.
 *
 * Processes come from the records of the kernel. Those that a fork joins share pages: the eldest
 * living one of a family counts all that it has, the others what they have alone; when it ends, its
 * samples pass to the next one, and count as far as their pages are there. An exec ends the samples
 * of a process.
 *
 * A check (where/check.h) is due when the memory has grown by 5 % since the last one, and when that
 * of a process fell by 4 MiB: what was freed is dropped before it is touched again. A high has the
 * samples of the last check before it, and those between it and the check.
 *
 * One thread, except that samples are unwound by another (where/worker.h).
 */
#pragma once

#include "where/events.h"
#include "where/high.h"

struct tree_options {
	int proc;              /* descriptor of the folder of processes */
	unsigned period;
	struct modules *modules;
};

struct tree;

struct tree *tree_new(const struct tree_options *options); /* NULL: out of memory */
void tree_free(struct tree *t);

/* The first process. from_exec: it is not the job's program yet. */
void tree_begin(struct tree *t, pid_t pid, bool from_exec);
/* A process that runs already (attach), with its mappings of code: its samples alone count from now on, and what it has
 * now is what was there before. */
void tree_add(struct tree *t, pid_t pid);
/* Takes the record, which is freed. Records come in the order of time. */
void tree_record(struct tree *t, struct record *r);
/* Reads the sizes of the processes; checks, if that is due and credit_ns of CPU time are left for
 * it. Returns the CPU time that checks took. */
uint64_t tree_tick(struct tree *t, uint64_t now_boot_ns, uint64_t credit_ns);
/* Makes the last high what it is now; at the end, and from time to time. */
void tree_settle(struct tree *t);

/* The run is over. A job without any sample has a high, too, of which nothing is known. */
void tree_end(struct tree *t, uint64_t now_boot_ns);

/* Resident when the sampling began. */
uint64_t tree_before(const struct tree *t);
uint64_t tree_lost(const struct tree *t);
/* The kernel counts that many. */
void tree_set_lost(struct tree *t, uint64_t lost);
size_t tree_alive(const struct tree *t);
/* The kernel does not allow to read Python's stacks. */
bool tree_lacks_pythons(const struct tree *t);

/* Highs that are kept, in the order of time; at most WHERE_HIGHS. One that was dropped has its
 * number in *ret_dropped once. */
size_t tree_high_count(const struct tree *t);
struct tree_high *tree_high(struct tree *t, size_t i);
bool tree_dropped(struct tree *t, uint32_t *ret_number);
/* Numbers of all highs that there were: up to this one. */
uint32_t tree_last_number(const struct tree *t);

/* A process that samples refer to. Numbers from 1. */
struct tree_process {
	pid_t pid;
	char name[16];
};
size_t tree_process_count(const struct tree *t);
const struct tree_process *tree_process(const struct tree *t, size_t i);

/* Every process that there was, once; at most 10,000. */
size_t tree_pid_count(const struct tree *t);
pid_t tree_pid(const struct tree *t, size_t i);

/* Stacks that were not unwound, by the first sample of each; bytes of their records. */
size_t tree_raw_bytes(const struct tree *t);
void tree_each_raw(struct tree *t, void (*see)(void *ctx, struct sample *s), void *ctx);
