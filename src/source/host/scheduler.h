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
	char launch[96];           /* the innermost launcher's own id of this start of ranks, where job does not distinguish
	                            * it (mpirun in a batch script); "": none */
	struct maybe rank, ranks, local_rank, nodes, node_rank;
	struct maybe local_ranks;  /* ranks on this node */
	struct maybe array_task, restart; /* restart: how often the job began before */
	struct maybe request_bytes, request_cpus, request_time_ns, request_gpus;
	struct maybe node_cpus;    /* CPUs of this node that the job, or its step, was given */
	bool selects_gpus;         /* it says which GPUs it allocated, or that it allocated none */
	char gpu_selection[4096];  /* the variables that say so, "SLURM_STEP_GPUS=0;CUDA_VISIBLE_DEVICES=0"; "": none */
	bool step;                 /* inside a Slurm step; false in a batch script, whose steps are
	                            * not below it */
	bool all_tasks;            /* of a recording of all tasks on this node: rank is unknown */
};

/* get returns the value of an environment variable, NULL if unset (like getenv; tests pass a
 * table). */
void scheduler_read(const char *(*get)(void *ctx, const char *name), void *ctx, struct scheduler *ret);

/* pattern with %r replaced by the rank, %t by the local rank, %N by the node (else the host), %j by the job, %s by the step, %a by the
 * array task, %R by the number of restarts, %% by %; "0" for what is unknown. *ret is the caller's. Returns 0, -ENOMEM, or -EINVAL with
 * text where another character follows a %. Without err, %r alone is replaced. */
int scheduler_expand(const char *pattern, const struct scheduler *s, char **ret, struct err *err);

/* Does this command start ranks of its own (torchrun, mpirun)? Its number in a scheduler's environment is then that of the launcher,
 * and no rank's. False also where that cannot be known, as of a script. */
bool scheduler_is_launcher(const char *const *argv);

/* What distinguishes this start of ranks from all others, the same for all of them: "slurm-4711.0", the name of a file. Where the
 * launcher has no id of it, with the node and the parent process. *ret is the caller's. Returns 0 or -ENOMEM. */
int scheduler_key(const struct scheduler *s, char **ret);

/* This node's name as part of a file's name. *ret is the caller's. Returns 0 or -ENOMEM. */
int scheduler_node(const struct scheduler *s, char **ret);

/* The file of this node in a folder (which ends with '/'): JOB.STEP/NODE[-RESTART] and ending, without JOB.STEP/ where there is no job.
 * *ret is the caller's. Returns 0 or -ENOMEM. */
int scheduler_node_file(const char *folder, const struct scheduler *s, const char *ending, char **ret);

/* The file of this rank in a folder (which ends with '/'): JOB.STEP/NODE-rRANK[-RESTART].hiw, without JOB.STEP/ where there is no job.
 * Of all tasks on a node: NODE[-RESTART].hiw. *ret is the caller's. Returns 0 or -ENOMEM. */
int scheduler_file(const char *folder, const struct scheduler *s, char **ret);

/* Rank 0 and the first rank of each node report for the others. */
bool scheduler_is_leader(const struct scheduler *s);
