/* SPDX-License-Identifier: MIT
 *
 * Programs whose work is done by a daemon or on another machine: their processes are in the job, the
 * work is not.
 */
#pragma once

#include "summary/summary.h"

struct client_seen {
	const char *name;   /* "docker"; static; NULL: none */
	const char *where;  /* where the work was done: "a container that its daemon starts"; static */
	const char *remedy; /* how to measure it; static */
	double share;       /* part of the run during which at least one process of that name lived */
};

/* The client that lived longest, if it lived for more than half of the run. A client that only
 * moves data for a program of the job (git over ssh, a tunnel) does not count. */
struct client_seen client_find(const struct summary *s);
