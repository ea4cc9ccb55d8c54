/* SPDX-License-Identifier: MIT
 *
 * Unwinds samples on a thread that runs only where nothing else wants the CPU (SCHED_IDLE), and
 * within 1 % of the time while the job runs and there is room for stacks: an unwinding takes some
 * 70 us. The rest is unwound after the job.
 */
#pragma once

#include "where/check.h"
#include "where/unwind.h"

struct worker;

/* NULL: out of memory, or there is no thread. */
struct worker *worker_new(void);
void worker_free(struct worker *w);

/* The sample is to be unwound; it is kept until it is collected. */
void worker_add(struct worker *w, struct sample *s);
/* Without the limit: the job has ended, or there is no more room for stacks. */
void worker_hurry(struct worker *w, bool hurry);
/* Takes note of those that are done. Returns how many are still to be done. */
size_t worker_collect(struct worker *w);
/* Waits until some are done, at most that long. */
void worker_wait(struct worker *w, int timeout_ms);

/* The stacks so far, which are the caller's to read until worker_unlock. */
const struct unwind *worker_lock(struct worker *w);
void worker_unlock(struct worker *w);
