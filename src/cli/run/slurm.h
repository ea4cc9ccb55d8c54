/* SPDX-License-Identifier: MIT
 *
 * attach slurm:JOB[.STEP], and --cgroup with the group of a Slurm job: finds the job's processes on
 * this node, and those that it starts later.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hiwater.h"

struct slurm_attach {
	char job[64], step[32]; /* step "": all */
	bool is_slurm, is_step;
	bool is_group;          /* cgroup is that of the job, or of the step */
	char cgroup[512];
	int64_t next_search_ns; /* without a group: CLOCK_MONOTONIC */
};

/* Parses "slurm:JOB", "slurm:JOB.STEP", JOB being a number or ARRAY_TASK. False: something else. */
bool slurm_parse(const char *what, struct slurm_attach *ret);

/* Finds the processes; the one that stands for the job is the first. Returns 0, -ENOENT with text if
 * there are none, or another -errno with text. */
int slurm_find(struct slurm_attach *slurm, pid_t *pids, size_t n, size_t *ret_n, struct hiw_err *err);
/* Those of a cgroup, which need not be Slurm's. */
int slurm_find_group(struct slurm_attach *slurm, const char *path, pid_t *pids, size_t n, size_t *ret_n,
	struct hiw_err *err);

/* Without a group, each few seconds: measures processes that the job has started meanwhile, which are
 * not below one that is measured. */
void slurm_join(struct slurm_attach *slurm, struct hiw_recorder *recorder);

/* True if no process is left, but the job's group is still there: it may start more. */
bool slurm_may_go_on(const struct slurm_attach *slurm);
