/* SPDX-License-Identifier: MIT
 *
 * run --live: the live view of the job in the terminal that the job was started in. The view is a
 * child that reads the recording; neither the job nor the measurement depends on it. Output of the
 * job and of hiwater to the terminal goes to a spool file meanwhile, and is copied to the terminal
 * when the view ends. If hiwater is killed, the job keeps writing to the file. Redirected streams
 * are not changed.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

#include "cli/run/child.h"

struct live {
	int terminal;            /* -1: no view */
	int spool;               /* the spool file; -1: all streams are redirected */
	int streams[3];          /* replacements for the job's 0, 1, 2; -1: unchanged */
	int own_err;             /* hiwater's stderr, while the spool file replaces it; else -1 */
	off_t copied;            /* bytes of the spool file that were copied to the terminal */
	char name[4096];         /* of the spool file */
	struct termios before;
	pid_t view;              /* 0: not running */
	bool started;
};

#define LIVE_NONE { .terminal = -1, .spool = -1, .streams = { -1, -1, -1 }, .own_err = -1 }

/* Call it before the job is started. Returns 0, also where no view can be shown (after a warning,
 * unless quiet); with strict, that is -errno after a complaint. */
int live_prepare(struct live *l, bool strict, bool quiet);

/* The job was started: from here on hiwater's own messages go to the spool file too. */
void live_begin(struct live *l);

/* Call it after each step of the recorder: starts the view once the recording has data and hiwater
 * is in the terminal's foreground; after the view was left, copies new output to the terminal. */
void live_step(struct live *l, struct hiw_recorder *recorder, const struct inherited *inherited);

/* Call it before hiwater stops itself: stops the view and waits until it has restored the terminal,
 * for three seconds at most. */
void live_stop(struct live *l);
/* hiwater was continued: continues the view. */
void live_continue(struct live *l);

/* The view was reaped with this wait status. Restores the terminal if the view was killed, and
 * copies the spooled output. */
void live_left(struct live *l, int status);

/* The job has ended: ends the view, restores the terminal and copies the spooled output. If the
 * terminal does not accept all of it, the spool file is kept, and a warning names it. */
void live_end(struct live *l);
