/* SPDX-License-Identifier: MIT
 *
 * What the job or its user tells the recorder: marks, phases, values of series. A datagram to the recorder's abstract
 * socket, whose name is in HIWATER_SOCKET ("@hiwater-PID-RANDOM-UID"), is one message:
 *
 *     mark TEXT
 *     oom TEXT                   a device ran out of memory: a trigger of the black box; "oom host: TEXT": not a device, the host
 *     phase+ NAME                begins a phase, inside the open one; on further lines what is known of it, KEY=VALUE
 *     phase- NAME                ends the innermost open phase of that name
 *     log NAME=VALUE ... [step=N]
 *
 * VALUE is a number, nan, inf or -inf; N a whole number of 64 bits. Only processes of the recorder's user, and root, are listened to.
 */
#pragma once

#include "base/err.h"
#include "model/framebuf.h"

#define PUSHED_MESSAGE 8192  /* bytes of one message at most */
#define PUSHED_MARK    4096  /* of a mark's text, which is what a recording keeps of one */
#define PUSHED_DEPTH   32    /* phases open at once */

struct pushed {
	int fd;                  /* -1: none; readable when a message waits */
	char name[80];           /* "@hiwater-..." */
	uint32_t last_phase;
	unsigned depth;
	struct {
		uint32_t number;
		char name[120];
	} open[PUSHED_DEPTH];
};

/* Opens the socket. Returns 0 or -errno; then there is none (fd -1) and everything else still works. */
int pushed_open(struct pushed *p);
void pushed_done(struct pushed *p);

/* Takes one message that waits into out. Returns 1 if there was one, 0 if not; a bad one is told as an EVENT_NOTE. */
int pushed_receive(struct pushed *p, uint64_t time_ns, struct framebuf *out);

/* Reads a message. Returns 0, or -EBADMSG with a text and out as it was. */
int pushed_parse(struct pushed *p, const char *message, uint64_t time_ns, struct framebuf *out, struct err *err);

/* Returns 0, or -EMSGSIZE with a text. */
int pushed_check_mark(const char *text, struct err *err);

/* From inside a job: sends message to the socket called name. Returns 0, -ENOENT with text if nobody listens, -EAGAIN
 * if nobody reads what waits there (it is not waited for longer than a tenth of a second), -EMSGSIZE. */
int pushed_send(const char *name, const char *message, struct err *err);
