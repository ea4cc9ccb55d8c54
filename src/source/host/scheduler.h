/* SPDX-License-Identifier: MIT
 *
 * The environment of a batch scheduler or launcher: this process's rank and the requested
 * resources.
 */
#pragma once

#include <stdbool.h>

#include "base/maybe.h"

struct scheduler {
	const char *name;          /* "slurm", "torchrun", "mpi", "flux", "pbs", "lsf", "sge"; "":
	                            * none; static */
	char job[96];              /* "123.0": job and step; "": unknown */
	char node[128];            /* the scheduler's name of this node; "": unknown */
	struct maybe rank, ranks, local_rank, nodes;
	struct maybe request_bytes, request_cpus, request_time_ns, request_gpus;
	bool step;                 /* inside a Slurm step; false in a batch script, whose steps are
	                            * not below it */
};

/* get returns the value of an environment variable, NULL if unset (like getenv; tests pass a
 * table). */
void scheduler_read(const char *(*get)(void *ctx, const char *name), void *ctx, struct scheduler *ret);

/* Rank 0 and the first rank of each node report for the others. */
bool scheduler_is_leader(const struct scheduler *s);
