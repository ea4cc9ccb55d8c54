/* SPDX-License-Identifier: MIT
 *
 * Jobs of Slurm on this node: which job, step and task a cgroup belongs to, which processes a job has
 * here, and what their environment says about it.
 *
 * A process is found by its cgroup where Slurm makes cgroups (proctrack/cgroup, any other plugin of
 * cgroups), else by SLURM_JOB_ID in its environment. slurmstepd, which starts the tasks and is in their
 * cgroup, is not a process of the job.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/longfile.h"
#include "base/maybe.h"
#include "base/root.h"

#define SLURM_STEPD "slurmstepd"

/* What the path of a cgroup says. */
struct slurm_place {
	char node[128];        /* of a machine with several nodes; "": not in the path */
	char job[24];          /* the job's number; "": its SLUID is in the path instead */
	char sluid[16];        /* the job's SLUID (Slurm 26.05 and newer); "": none */
	char step[32];         /* "0", "batch", "extern", "interactive"; "": the whole job */
	struct maybe uid;      /* cgroup v1 */
	struct maybe task;     /* of the step */
	bool is_daemons;       /* v2: the group of slurmstepd, next to that of the tasks */
	size_t job_len, step_len; /* bytes of the path up to the end of the job's folder, of the step's
	                           * (0: none) */
};

/* Parses a path of any hierarchy, as in /proc/PID/cgroup or a folder below /sys/fs/cgroup, of len
 * bytes:
 *
 *     slurm[_NODE]/uid_U/job_J[/step_S[/task_T]]                               v1
 *     [NODE_]slurmstepd.scope/job_J[/step_S[/user[/task_T]]]                   v2
 *     [NODE_]slurmstepd.scope/sXXXXXXXXXXXXX[/step_S[/user[/task_T]]]          v2, Slurm 26.05 and newer
 *
 * False: not a job's. */
bool slurm_place_parse(const char *path, size_t len, struct slurm_place *ret);

/* The environment of a process, of which slurm_environment_get returns variables. */
struct slurm_environment {
	struct longfile text;
	size_t len;
};

/* Returns 0 or -errno: -EACCES for a process of another user. */
int slurm_environment_read(const struct root *root, pid_t pid, struct slurm_environment *ret);
/* The value of a variable, borrowed; NULL: not set. ctx is a struct slurm_environment. */
const char *slurm_environment_get(void *ctx, const char *name);
void slurm_environment_done(struct slurm_environment *environment);

struct slurm_job {
	const char *job;       /* a number, or ARRAY_TASK */
	const char *step;      /* NULL: all steps */
	const char *node;      /* SLURMD_NODENAME; NULL: this machine is one node */
	const char *own_step;  /* of hiwater itself in that job, not measured; NULL: none */
};

/* The processes of the job here; those of the batch script and of tasks come before clients of srun
 * and before what keeps a job's extern step alive, the oldest first, so that the first can stand for the
 * job. Stores at most n. ret_cgroup: the job's or step's group in the hierarchy that charges memory;
 * "": none, then new processes of the job can be found only by asking again. Returns how many there
 * are, -ENOTUNIQ with text if this machine has processes of the job for several nodes, or -errno. */
ssize_t slurm_pids(const struct root *root, const struct slurm_job *job, pid_t *pids, size_t n,
	char *ret_cgroup, size_t size, struct err *err);

/* Sorts the processes of a cgroup in that way, and drops slurmstepd. Returns how many are left. */
size_t slurm_sort(const struct root *root, pid_t *pids, size_t n);

/* What the cgroups of pid say. False: it is not in a job of Slurm. */
bool slurm_place_of(const struct root *root, pid_t pid, struct slurm_place *ret);
