/* SPDX-License-Identifier: MIT
 *
 * The children of hiwater run: main and the orphans of the job that it adopted. Who ended, who stopped.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/run/live.h"
#include "cli/run/signals.h"

struct tree {
	pid_t main;
	struct hiw_recorder *recorder; /* NULL: nobody measures */
	struct live *live;             /* hears of its view's end; NULL: nobody does */
	bool main_ended;
	int status;                    /* main's, once it ended */
	int stop_signal;               /* what main was stopped by and did not go on from; 0: it was not */
	bool childless;                /* nobody of the job is left to wait for */
};

/* Takes note of everything that happened to children, and tells the recorder. */
void tree_reap(struct tree *t, struct signals *signals);

/* True if hiwater should stop now because the job did: it was asked to by Ctrl-Z or the like, or stopped itself while
 * the shell waits for it in the foreground. A main that somebody stops from outside with kill is no reason: nobody
 * would know that hiwater must be continued as well. */
bool tree_wants_stop(const struct tree *t, const struct signals *signals);
