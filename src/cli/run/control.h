/* SPDX-License-Identifier: MIT
 *
 * attach --control FD: a program that measures itself starts the recorder and talks to it through a socket of its own.
 * docs/python.md has the protocol. Whoever made the socket is the owner: when it is gone, measuring ends.
 */
#pragma once

#include <hiwater.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/measure.h"

struct control {
	int fd;              /* -1: nobody controls this */
	int owner;           /* pidfd; -1: only the socket tells when it is gone */
	uint64_t begin, end; /* requests that wait for their answer; 0: none */
	bool told_file;
	bool over, spared;   /* the run has ended; its last request was taken */
};

#define CONTROL_INIT { .fd = -1, .owner = -1 }

/* Takes the number of a descriptor; from here on complaints go through it, until something is measured. */
int take_control(const char *value, void *dest, struct err *err);

/* Goes on as a process that no wait() of the owner sees, with nothing of the owner's open but stderr. Returns 0 or -errno. */
int control_leave(struct control *c);

/* Waits until the owner has said that measuring may begin. Returns 0, or -errno: there is no owner any more. */
int control_wait(struct control *c);

/* Measuring has begun: who said that it may is told. */
void control_began(struct control *c, struct hiw_recorder *recorder);

enum control_next {
	CONTROL_ON,
	CONTROL_END,  /* asked for, or the owner is gone */
};

/* Does what waits in the socket. */
enum control_next control_step(struct control *c, const struct measure *measure, struct hiw_recorder *recorder);

/* The run is over: says so and answers what is asked of it until the owner has enough. */
void control_finish(struct control *c, const struct measure *measure, struct hiw_recorder *recorder);
