/* SPDX-License-Identifier: MIT
 *
 * For LD_PRELOAD: of two polls of two descriptors the second is interrupted, and a read of a pipe that would
 * then wait ends the program.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int watched[2] = { -1, -1 };

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	static int calls;
	int (*next)(struct pollfd *, nfds_t, int);

	*(void **) &next = dlsym(RTLD_NEXT, "poll");
	if (n != 2 || (fds[0].events | fds[1].events) != POLLIN)
		return next(fds, n, timeout);
	if (++calls == 2) {
		errno = EINTR;
		return -1;
	}
	watched[0] = fds[0].fd;
	watched[1] = fds[1].fd;
	return next(fds, n, timeout);
}

ssize_t read(int fd, void *buf, size_t n)
{
	ssize_t (*next)(int, void *, size_t);
	struct pollfd one = { .fd = fd, .events = POLLIN };
	int (*ready)(struct pollfd *, nfds_t, int);

	*(void **) &next = dlsym(RTLD_NEXT, "read");
	*(void **) &ready = dlsym(RTLD_NEXT, "poll");
	if (fd >= 0 && (fd == watched[0] || fd == watched[1]) && ready(&one, 1, 0) == 0)
		_exit(77);
	return next(fd, buf, n);
}
