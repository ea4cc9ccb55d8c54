/* SPDX-License-Identifier: MIT
 *
 * The socket on which the kernel sends the machine's exit records.
 */
#pragma once

#include "source/process/taskstats_record.h"

struct taskstats_socket {
	int fd;
	uint16_t family;
	uint32_t seq;
	struct taskstats_layout layout; /* of this kernel's records */
	_Alignas(8) char buf[16384];
};

/* Returns 0 or -errno; close it in either case. */
int taskstats_socket_open(struct taskstats_socket *s);
void taskstats_socket_close(struct taskstats_socket *s);
/* For users: why it could not be opened. */
const char *taskstats_socket_why(int error);

/* Receives one message. Returns 1: a record, 0: something else, -EAGAIN: none waits, -ENOBUFS: some
 * were lost, or -errno. */
int taskstats_socket_next(struct taskstats_socket *s, struct taskstats_record *ret);
