/* SPDX-License-Identifier: MIT
 *
 * Starts the job with the same environment as without hiwater: signal mask, SIGCHLD disposition and
 * limits.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

/* The state that hiwater changes in itself and restores for the job. */
struct inherited {
	sigset_t mask;
	struct sigaction child;  /* of SIGCHLD */
	struct rlimit files;     /* RLIMIT_NOFILE */
	struct rlimit processes; /* RLIMIT_NPROC */
	bool limits_processes;   /* processes was read */
};

/* Reads the state. Call it before any of it is changed. */
void child_save_inherited(struct inherited *ret);

/* Restores the state in this process, right before an exec. */
void child_restore_inherited(const struct inherited *before);

struct launch {
	char *const *argv;
	const struct inherited *inherited;
	char *const *environment;         /* NULL: this process's */
	int kept;                         /* a descriptor that the job inherits though it is close-on-exec; -1: none */
	const int *streams;               /* three descriptors to replace 0, 1, 2; an entry of -1, or NULL:
	                                   * unchanged */
	int cgroup_procs, cgroup_dir;     /* the cgroup to start in (hwi_cgroup_make); -1: none */
	/* Called with the job's process before it executes the program; negative: the job is not started, and that is the
	 * result. *ret_reader: a process that may read the memory of the program, also where Yama restricts that; 0, as it
	 * is before: none. NULL: nothing is to be done then. */
	int (*hold)(void *ctx, pid_t pid, pid_t *ret_reader);
	void *hold_ctx;
	unsigned spare_processes;         /* start the job only if, by RLIMIT_NPROC, so many more processes
	                                   * can be started after it; else the result is -EAGAIN */
};

/* Memory for child_exec to run argv as a script; the caller's to free. NULL: out of memory, then no
 * script without "#!" is run. */
char **child_script(char *const *argv);

/* Executes a command in place of this process, as execvpe(3), but gives only text to sh. Makes system
 * calls only. Returns -errno. */
int child_exec(char *const *argv, char **script, char *const *environment);

/* Starts the job and waits until its exec has succeeded. The caller has blocked all signals.
 * Returns 0 with *ret_pid, or -errno; then *ret_forked is true if the exec failed, false if the
 * process could not be made. */
int child_start(const struct launch *launch, pid_t *ret_pid, bool *ret_forked);

enum {
	CHILD_HINT = 160
};

/* A hint, to be appended to the error's text, why file cannot be executed (error is a positive
 * errno); "" if there is none. Static, or in room. */
const char *child_hint(const char *file, int error, char room[static CHILD_HINT]);
