/* SPDX-License-Identifier: MIT
 *
 * Starting the job, and what it finds there: everything as if hiwater were not in between.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

/* What hiwater changes in itself and the job gets back. */
struct inherited {
	sigset_t mask;
	struct sigaction child;  /* of SIGCHLD */
	struct rlimit files;     /* RLIMIT_NOFILE */
};

/* To be called before any of it is changed. */
void child_remember(struct inherited *ret);

/* Gives this process back what was changed: it is about to become a command. */
void child_give_back(const struct inherited *before);

struct launch {
	char *const *argv;
	const struct inherited *inherited;
	const int *streams;               /* three descriptors that it gets instead of 0, 1, 2; -1 and NULL: as they are */
	int cgroup_procs, cgroup_dir;     /* a group to be born into (hwi_cgroup_make); -1: none */
};

/* Starts the job and waits until it is the command that was asked for; all signals are blocked. Returns 0 with
 * *ret_pid, or what went wrong as a negative errno: *ret_forked tells whether that was the exec. */
int child_start(const struct launch *launch, pid_t *ret_pid, bool *ret_forked);

/* What more there is to say where file could not be run because of error, to be written behind the error's text: "" if
 * nothing. */
const char *child_why_not(const char *file, int error);
