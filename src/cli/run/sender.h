/* SPDX-License-Identifier: MIT
 *
 * run --otlp: sends the run to a receiver of OTLP while it happens. hiwater-otlp (src/otlp/) is a child
 * that reads the recording, as the live view does, so that neither the job nor a sample waits for
 * a network. A pipe shows it the end of the run.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/run/child.h"

/* The options. */
struct sender_options {
	bool enabled, insecure;
	const char *url;         /* NULL: from the environment */
};

struct sender {
	bool enabled, started, quiet;
	const struct sender_options *options;
	pid_t pid;               /* 0: not running */
	int end;                 /* the pipe; closing it shows the end; -1: none */
};

#define SENDER_NONE { .end = -1 }

/* Call it before the job is started. Returns 0, also where nothing can be sent (after a warning, unless quiet); -EINVAL
 * after a complaint if the given address is wrong; with strict that is -errno in every case. */
int sender_prepare(struct sender *s, const struct sender_options *options, bool strict, bool quiet);

/* Call it after each step of the recorder: starts the child once there is a recording. */
void sender_step(struct sender *s, struct hiw_recorder *recorder, const struct inherited *inherited);

/* The child with that pid was reaped. */
void sender_left(struct sender *s);

/* The recording is complete: the child has a second to send the rest. */
void sender_finish(struct sender *s, struct hiw_recorder *recorder, const struct inherited *inherited);

/* Waits for the child's end; one that does not end in time is killed. */
void sender_end(struct sender *s);
