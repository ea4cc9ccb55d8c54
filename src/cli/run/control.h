/* SPDX-License-Identifier: MIT
 *
 * attach --control FD: a program that measures itself starts the recorder and controls it through a
 * socket that it made. docs/python.md has the protocol. The process that made the socket is the
 * owner: when it ends, the measurement ends.
 */
#pragma once

#include <hiwater.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/measure.h"

struct control {
	int fd;              /* the socket; -1: no --control */
	int owner;           /* pidfd of the owner; -1: only the end of the socket shows the owner's end */
	uint64_t begin, end; /* numbers of requests that wait for their answer; 0: none */
	bool sent_file;      /* the path of the recording was sent */
	bool over, spared;   /* the run has ended; a "spare" request was handled after that */
};

#define CONTROL_INIT { .fd = -1, .owner = -1 }

/* Parses the number of a descriptor. From here on complaints are sent through it, until the
 * measurement begins. */
int parse_control(const char *value, void *dest, struct err *err);

/* Continues in a process that is not a child of the owner, so that the owner's wait() does not see
 * it, and closes all inherited descriptors but stderr. Returns 0 or -errno. */
int control_leave(struct control *c);

/* Waits for the owner's request to begin. Returns 0, or -errno if the owner has ended. */
int control_wait(struct control *c);

/* Answers the request to begin: the measurement has begun. environment: n further texts NAME=VALUE that the owner sets. */
void control_began(
	struct control *c, struct hiw_recorder *recorder, const char *const *environment, unsigned n);

enum control_next {
	CONTROL_ON,
	CONTROL_END,  /* the owner asked for the end, or has ended */
};

/* Handles the requests that wait in the socket; never blocks. */
enum control_next control_step(
	struct control *c, const struct measure *measure, struct hiw_recorder *recorder);

/* Reports the end of the run, and answers requests about it until the owner ends or closes the
 * socket. */
void control_finish(struct control *c, const struct measure *measure, struct hiw_recorder *recorder);
