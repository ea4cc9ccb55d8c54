/* SPDX-License-Identifier: MIT
 *
 * Messages from the job or its user to the recorder: marks, phases, values of series. Each message
 * is a datagram to the recorder's abstract socket, whose name is in HIWATER_SOCKET
 * ("@hiwater-PID-RANDOM-UID"):
 *
 *     mark TEXT             secrets in it are masked
 *     oom TEXT              a device ran out of memory, which triggers the black box;
 *                           "oom host: TEXT": the host did
 *     phase+ NAME           begins a phase, inside the open one; further lines are
 *                           its attributes, KEY=VALUE
 *     phase- NAME           ends the innermost open phase of that name
 *     log NAME=VALUE ... [step=N]
 *     at NS MESSAGE         one of these, sent at NS of CLOCK_BOOTTIME
 *
 * Secrets in the text of oom and in names and attributes of phases are masked, too; a phase is ended by the
 * name that began it. NAME may be in double quotes, with \\ before " and \\; it may then contain blanks and =. VALUE is a
 * number, nan, inf or -inf; N a 64-bit integer. Only messages of the recorder's user and
 * of root are accepted.
 */
#pragma once

#include "base/err.h"
#include "model/framebuf.h"

#define USER_MESSAGE_BYTES 8192 /* largest message, bytes */
#define USER_MARK_BYTES    4096 /* longest text of a mark that a recording keeps, bytes */
#define USER_PHASES_OPEN   4096 /* at once; a program that leaves its phases open has a limit, too */

/* Kinds of messages, for the count of invalid ones: the verbs, then everything else. */
enum {
	USER_KINDS = 6
};

struct user_events {
	int fd;                  /* -1: none; readable when a message waits */
	char name[80];           /* "@hiwater-..." */
	uint32_t last_phase;
	unsigned depth, room;
	uint64_t invalid[USER_KINDS]; /* messages that were not valid, by kind */
	struct open_phase {
		uint32_t number;
		char name[120];
	} *open; /* depth of them */
};

/* Opens the socket. Returns 0 or -errno; without a socket (fd -1) everything else still works. */
int user_events_open(struct user_events *p);
void user_events_done(struct user_events *p);

/* Appends one waiting message to out. Returns 1, or 0 if there was none; the first invalid message of
 * a kind becomes an EVENT_NOTE, further ones are counted. */
int user_events_receive(struct user_events *p, uint64_t time_ns, struct framebuf *out);

/* At the end: appends an EVENT_NOTE with the number of invalid messages that no note reported, if there
 * were any. */
void user_events_report(const struct user_events *p, uint64_t time_ns, struct framebuf *out);

/* Parses a message. Returns 0, or -EBADMSG with text, leaving out as it was. */
int user_events_parse(
	struct user_events *p, const char *message, uint64_t time_ns, struct framebuf *out, struct err *err);

/* Returns 0, or -EMSGSIZE with text. */
int user_events_check_mark(const char *text, struct err *err);

/* From inside a job: sends message to the socket called name. Returns 0, or with text -ENOENT if no
 * recorder listens, -EAGAIN if the queue stays full for 100 ms, -EMSGSIZE, or another -errno. */
int user_events_send(const char *name, const char *message, struct err *err);
