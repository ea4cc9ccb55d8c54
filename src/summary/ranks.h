/* SPDX-License-Identifier: MIT
 *
 * The ranks of a parallel job whose launcher hiwater started (mpirun, torchrun), from the ranks of its processes.
 */
#pragma once

#include "job/job.h"

/* The use of one rank: a worker that the launcher started, and its descendants, as far as they are kept by name. */
struct rank_use {
	int64_t rank;
	size_t processes;
	const struct process *largest;  /* with the largest peak; borrowed from the job */
	struct maybe
		peak_bytes; /* of that process; a peak of the sum over a rank's processes is not measured */
	struct maybe cpu_ns; /* user and system, of its processes */
	int64_t user_ns;     /* of it */
	bool is_cpu_partial; /* of some of them it is unknown: they ended unsampled */
};

/* In the order of rank. The caller frees *ret with free(); NULL if no process has a rank. Returns 0 or -ENOMEM. */
int ranks_of(const struct job *job, struct rank_use **ret, size_t *ret_n);

enum {
	RANKS_SHOWN = 8 /* at most: each with its figures; else the span over all of them */
};

/* Appends "rank 3: 1.20 GiB, CPU 3.4 s"; of several the least and the most of each, and whose they are. */
void ranks_words(const struct rank_use *ranks, size_t n, struct buf *out);

/* Appends "0-3", "0, 2, 5-7". */
void ranks_list(const struct rank_use *ranks, size_t n, struct buf *out);
