/* SPDX-License-Identifier: MIT */
#include "cli/run/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/root.h"

static void release(int fd)
{
	const int flags = fd > STDERR_FILENO ? fcntl(fd, F_GETFD) : -1;

	if (flags >= 0 && !(flags & FD_CLOEXEC))
		(void) close(fd);
}

/* Where /proc does not list them. */
static void release_all(void)
{
	enum {
		LAST = 1023
	};

	for (int fd = STDERR_FILENO + 1; fd <= LAST; fd++)
		release(fd);
}

void descriptors_release(void)
{
	struct root root;
	const int r = root_open("/", &root, NULL);
	const int folder = r < 0 ? -1 : openat(root.proc, "self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclosedir DIR *list = folder < 0 ? NULL : fdopendir(folder);
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct dirent *entry;

	while (list && (entry = readdir(list))) {
		const char *p = entry->d_name;
		uint64_t fd;

		if (parse_u64(&p, &fd) == 0 && fd <= INT32_MAX)
			release((int) fd);
	}
	if (!list)
		release_all();
	for (int fd = STDIN_FILENO; null > STDERR_FILENO && fd <= STDOUT_FILENO; fd++)
		(void) dup2(null, fd);
	if (!list && folder >= 0)
		(void) close(folder);
	root_done(&root);
}

int await(struct pollfd *fds, nfds_t n, const struct timespec *timeout)
{
	static const struct timespec moment = { .tv_nsec = 10000000 };
	const int ms = timeout ? (int) (timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000 + 1) : -1;
	int got = ppoll(fds, n, timeout, NULL);

	if (got < 0 && errno != EINTR)
		got = poll(fds, n, ms);
	if (got >= 0 || errno == EINTR)
		return got;
	(void) nanosleep(&moment, NULL);
	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = fds[i].fd >= 0 ? POLLIN : 0;
	return (int) n;
}
