/* SPDX-License-Identifier: MIT
 *
 * The children of hiwater run: the main process and the orphans of the job that hiwater adopted.
 * Reaps them and follows their stops.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "cli/run/endpoint.h"
#include "cli/run/live.h"
#include "cli/run/node.h"
#include "cli/run/sender.h"
#include "cli/run/where.h"
#include "cli/run/signals.h"

struct tree {
	pid_t main;
	struct hiw_recorder *recorder; /* NULL: the job is not measured */
	struct node *node;             /* has a helper among the children; NULL: none */
	struct where_job *where;       /* likewise */
	struct sender *sender;         /* notified when its child ends; NULL: there is none */
	struct live *live;             /* notified when its view ends; NULL: there is no view */
	struct endpoint *endpoint;     /* notified when it ends; NULL: there is none */
	bool main_ended;
	int status;                    /* main's wait status, once it has ended */
	struct rusage usage;           /* and what the kernel reports of it and the children that it
	                                * waited for */
	int stop_signal;               /* the signal that main is stopped by; 0: it is not stopped */
	bool childless;                /* no child that belongs to the job is left */
};

/* Checks that a child can be reaped: a sandbox may refuse the system calls. Returns 0 or -errno. */
int tree_can_reap(void);

/* Handles all state changes of children: reaps those that ended, and reports them to the
 * recorder. */
void tree_reap(struct tree *t, struct signals *signals);

/* True if hiwater should stop now because the job did: by Ctrl-Z or the like, or because it stopped
 * itself while the shell waits for it in the foreground. Not if main was stopped from outside with
 * kill: the user would not know that hiwater must be continued as well. */
bool tree_wants_stop(const struct tree *t, const struct signals *signals);
