/* SPDX-License-Identifier: MIT
 *
 * What --on-alert asks for: commands, signals, the black box's trigger. A command runs in a session of its own below a
 * keeper, a process that adopts whatever the command leaves behind, ends all of it when its time is up, and tells how it
 * went. It is none of the job's, nobody waits for it, and it lives on when hiwater ends, to the end of its time at most.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/err.h"

enum {
	ACTIONS_MOST = 8,    /* options */
	ACTIONS_AT_ONCE = 4, /* commands that run; more alerts than that start none */
	ACTION_LIMIT_S = 60, /* a command may take so long */
};

struct actions {
	struct {
		enum hiw_level least;    /* it is for alerts of this level and above */
		const char *what;        /* "trigger", "signal NAME", or a command for the shell */
	} given[ACTIONS_MOST];
	size_t n;
	bool reaps;                      /* nobody else waits for hiwater's children (attach) */
	struct rlimit files;             /* RLIMIT_NOFILE, for the commands as hiwater found it */
	bool has_files;
	struct {
		int tells;               /* what its keeper tells through, plus 1; 0: none runs here */
		pid_t keeper;
		const char *command;
	} running[ACTIONS_AT_ONCE];
	bool told_failure, told_busy;
};

/* Takes an option's value, "[LEVEL:] trigger | signal NAME | COMMAND". Returns 0 or -EINVAL with text. */
int take_action(const char *value, void *dest, struct err *err);

/* To be called before hiwater raises its own limit of files. */
void actions_begin(struct actions *a);

/* Does what is asked for because of an alert that was raised. main: the job's; 0: it has ended. */
void actions_run(struct actions *a, const struct hiw_alert *alert, struct hiw_recorder *recorder, pid_t main, bool quiet);

/* How many commands run; says once if one failed. */
size_t actions_check(struct actions *a, bool quiet);
