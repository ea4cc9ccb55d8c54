/* SPDX-License-Identifier: MIT
 *
 * run --listen: an HTTP endpoint of the job, for as long as it runs. It is a child (hiwater-serve) in a
 * session of its own that reads the recording, as the live view does; neither the job nor the
 * measurement depends on it.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/run/child.h"

struct endpoint {
	const char *listen;      /* unix:PATH, 127.0.0.1:PORT; NULL: none */
	const char *token_file;  /* NULL: none */
	bool quiet;
	bool started;
	pid_t pid;               /* 0: not running */
};

/* Is the address a unix socket or a loopback address? */
bool endpoint_may_listen(const char *address);

/* Call it before the job is started. Returns 0, also where hiwater-serve is missing (after a warning,
 * unless quiet); with strict, that is -errno after a complaint. */
int endpoint_prepare(struct endpoint *e, bool strict);

/* Call it after each step of the recorder: starts it once the recording has data. */
void endpoint_step(struct endpoint *e, struct hiw_recorder *recorder, const struct inherited *inherited);

/* The child was reaped. */
void endpoint_left(struct endpoint *e);

/* Ends it. */
void endpoint_end(struct endpoint *e);
