/* SPDX-License-Identifier: MIT
 *
 * The environment of a batch scheduler or launcher: this process's rank and the requested
 * resources; names of files that contain them.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/maybe.h"

struct scheduler {
	const char *name;          /* "slurm", "torchrun", "mpi", "flux", "pbs", "lsf", "sge", "kubernetes"; "":
	                            * none; static */
	char job[96];              /* "123.0": job and step; "": unknown */
	char id[96];               /* the job without its step, as the scheduler numbers it; "": unknown */
	char step_id[32];          /* of Slurm: a number, or "batch"; "": none */
	char node[128];            /* the scheduler's name of this node; "": unknown */
	char cluster[64];          /* the scheduler's name of the cluster; "": unknown */
	struct maybe rank, ranks, local_rank, nodes, node_rank;
	struct maybe array_task, restart; /* restart: how often the job began before */
	struct maybe request_bytes, request_cpus, request_time_ns, request_gpus;
	bool selects_gpus;         /* it says which GPUs it allocated, or that it allocated none */
	char gpu_selection[4096];  /* the variables that say so, "SLURM_STEP_GPUS=0;CUDA_VISIBLE_DEVICES=0"; "": none */
	bool step;                 /* inside a Slurm step; false in a batch script, whose steps are
	                            * not below it */
};

/* get returns the value of an environment variable, NULL if unset (like getenv; tests pass a
 * table). */
void scheduler_read(const char *(*get)(void *ctx, const char *name), void *ctx, struct scheduler *ret);

/* pattern with %r replaced by the rank, %t by the local rank, %N by the node (else the host), %j by the job, %s by the step, %a by the
 * array task, %R by the number of restarts, %% by %; "0" for what is unknown. *ret is the caller's. Returns 0, -ENOMEM, or -EINVAL with
 * text where another character follows a %. Without err, %r alone is replaced. */
int scheduler_expand(const char *pattern, const struct scheduler *s, char **ret, struct err *err);

/* The file of this rank in a folder (which ends with '/'): JOB.STEP/NODE-rRANK[-RESTART].hiw, without JOB.STEP/ where there is no job.
 * *ret is the caller's. Returns 0 or -ENOMEM. */
int scheduler_file(const char *folder, const struct scheduler *s, char **ret);

/* Rank 0 and the first rank of each node report for the others. */
bool scheduler_is_leader(const struct scheduler *s);
