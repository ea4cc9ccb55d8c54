/* SPDX-License-Identifier: MIT
 *
 * The actions of --on-alert: shell commands, signals, and the trigger that keeps the full-rate
 * data. A command runs in a session of its own below a keeper, a process that adopts whatever the
 * command leaves running, kills all of it after ACTION_LIMIT_S, and reports the exit status through
 * a pipe. Keeper and command are not part of the job; hiwater does not wait for them, and they keep
 * running after hiwater ends, up to the same limit.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/err.h"

enum {
	ACTIONS_MOST = 8,    /* --on-alert options */
	ACTIONS_AT_ONCE = 4, /* running commands; while so many run, alerts start no further ones */
	ACTION_LIMIT_S = 60, /* longest run time of a command */
};

struct actions {
	struct {
		enum hiw_level least;    /* for alerts of this level and above */
		const char *action;      /* "trigger", "signal NAME", or a shell command; borrowed from
		                          * argv */
	} given[ACTIONS_MOST];
	size_t n;
	bool reaps;                      /* actions_check reaps keepers: nothing else waits for hiwater's
	                                  * children (attach) */
	struct rlimit files;             /* the inherited RLIMIT_NOFILE, which the commands get back */
	bool has_files;
	struct {
		int pipe;                /* read end of the keeper's pipe, plus 1; 0: this slot is free */
		pid_t keeper;
		const char *command;
	} running[ACTIONS_AT_ONCE];
	bool reported_failure, reported_busy;
};

/* Parses an option's value, "[LEVEL:] trigger | signal NAME | COMMAND", into dest, a struct
 * actions. Returns 0 or -EINVAL with text. */
int parse_action(const char *value, void *dest, struct err *err);

/* Remembers the inherited limits. Call it before hiwater raises RLIMIT_NOFILE. */
void actions_begin(struct actions *a);

/* Runs the actions for an alert that was raised. main: the job's main process; 0: it has ended. */
void actions_run(struct actions *a, const struct hiw_alert *alert, struct hiw_recorder *recorder, pid_t main,
	bool quiet);

/* Returns how many commands are running; warns once if one failed. */
size_t actions_check(struct actions *a, bool quiet);
