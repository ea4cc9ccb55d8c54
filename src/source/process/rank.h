/* SPDX-License-Identifier: MIT
 *
 * Launchers of parallel jobs among the processes of a job, and the rank in the environment of what they start. Pure functions.
 */
#pragma once

#include <stddef.h>

#include "base/maybe.h"

/* By which variables a launcher numbers what it starts. */
enum launches {
	LAUNCHES_NONE,  /* it is no launcher */
	LAUNCHES_TORCH, /* torchrun, accelerate, deepspeed */
	LAUNCHES_MPI,   /* Open MPI, MPICH and what speaks PMI or PMIx */
	LAUNCHES_FLUX,
	LAUNCHES_SLURM, /* slurmstepd, where hiwater attaches to a job */
};

/* name: as in procfs comm; command: the arguments joined by blanks. */
enum launches launches_of(const char *name, const char *command);

/* The rank and the number of ranks in an environment as in procfs: NAME=VALUE, each with a NUL, len bytes, the byte behind them
 * a NUL. launches: not LAUNCHES_NONE. Unknown: it has none, or none that this kind of launcher sets. */
void rank_in(enum launches launches, const char *environment, size_t len, struct maybe *ret_rank,
	struct maybe *ret_ranks);
