/* SPDX-License-Identifier: MIT */
#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum {
	MOST = 64
};

bool descriptors_are_left(size_t n)
{
	int fds[MOST];
	size_t got = 0;

	for (; got < n && got < MOST; got++) {
		fds[got] = got ? fcntl(fds[0], F_DUPFD_CLOEXEC, 0) : open("/", O_PATH | O_CLOEXEC);
		if (fds[got] < 0)
			break;
	}
	for (size_t i = 0; i < got; i++)
		(void) close(fds[i]);
	return got == n;
}

bool descriptors_were_lacking(int error)
{
	return error == -EMFILE || error == -ENFILE;
}
