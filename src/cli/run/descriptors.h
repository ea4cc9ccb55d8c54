/* SPDX-License-Identifier: MIT
 *
 * Descriptors: those that hiwater run inherited, and waiting for hiwater's own.
 */
#pragma once

#include <poll.h>
#include <time.h>

/* Closes every inherited descriptor except stderr; stdin and stdout become /dev/null. Once the job has
 * them, hiwater gives them up, so that a reader sees its end, and a lock is gone, when the job closes
 * them. hiwater's own descriptors are close-on-exec, by which they differ from inherited ones. */
void descriptors_release(void);

/* As ppoll(2), also in a sandbox that refuses ppoll and poll: each descriptor is then taken for ready
 * every 10 ms, so none may block, and a read decides. timeout NULL: without limit. Returns the number
 * of descriptors with revents, or -1 with EINTR. */
int await(struct pollfd *fds, nfds_t n, const struct timespec *timeout);
