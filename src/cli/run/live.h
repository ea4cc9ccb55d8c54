/* SPDX-License-Identifier: MIT
 *
 * run --live: the live view of the job in the terminal that the job was started in. The view reads the recording, as it
 * would from anywhere else; it is a child that neither the job nor the measuring depends on. What the job and hiwater would
 * write into the terminal goes into a file meanwhile, and into the terminal when the view is over: were hiwater killed, the
 * job would go on writing into that file. Streams that lead elsewhere stay as they are.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

#include "cli/run/child.h"

struct live {
	int terminal;            /* -1: there is no view */
	int spool;               /* the file; -1: everything leads elsewhere */
	int streams[3];          /* what the job gets instead of its own; -1: nothing */
	int own_err;             /* hiwater's stderr, while the file has its place; -1 */
	off_t passed_on;         /* of the file */
	char name[4096];
	struct termios before;
	pid_t view;              /* 0: it does not run (yet, any more) */
	bool started;
};

#define LIVE_NONE { .terminal = -1, .spool = -1, .streams = { -1, -1, -1 }, .own_err = -1 }

/* Before the job. Returns 0, also where there is no terminal (a warning says so), or -errno after a complaint. */
int live_prepare(struct live *l, const struct hiw_options *recorder);

/* The job runs: from here on hiwater's own messages go where its do. */
void live_begin(struct live *l);

/* After each step of the recorder: starts the view once there is something in the recording and hiwater is in the
 * terminal's foreground; once it was left, passes on what was written. */
void live_step(struct live *l, struct hiw_recorder *recorder, const struct inherited *inherited);

/* hiwater is about to be stopped, and a shell to have the terminal: waits until the view has given it back, for three
 * seconds at most. */
void live_step_back(struct live *l);
/* It goes on. */
void live_come_back(struct live *l);

/* The view was reaped: somebody left it, or it was killed, and the terminal is put right where it did not come to that. */
void live_left(struct live *l, int status);

/* The job is over: so is the view. The terminal is as it was, and has everything that was meant for it; what it does not take
 * stays in the file, and a warning says where that is. */
void live_end(struct live *l);
