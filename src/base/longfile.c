/* SPDX-License-Identifier: MIT */
#include "base/longfile.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/smallfile.h"

enum {
	FIRST_SIZE = 16 << 10,
	MAX_SIZE = 16 << 20
};

static int grow(struct longfile *f)
{
	size_t size = f->size ? 2 * f->size : FIRST_SIZE;

	if (size > MAX_SIZE)
		return -EFBIG;
	char *data = realloc(f->data, size);

	if (!data)
		return -ENOMEM;
	f->data = data;
	f->size = size;
	return 0;
}

/* A short read is not the end: the kernel's seq_file returns at most a page at a time. */
ssize_t longfile_pread(struct longfile *f, int fd)
{
	size_t len = 0;

	for (;;) {
		int r = len + 1 < f->size ? 0 : grow(f);

		if (r < 0)
			return r;
		ssize_t n = pread(fd, f->data + len, f->size - len - 1, (off_t) len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t) n;
	}
	f->data[len] = '\0';
	return (ssize_t) len;
}

ssize_t longfile_read(struct longfile *f, int dirfd, const char *path)
{
	autoclose int fd = smallfile_open(dirfd, path);

	return fd < 0 ? fd : longfile_pread(f, fd);
}

void longfile_done(struct longfile *f)
{
	free(f->data);
	*f = (struct longfile) { 0 };
}
