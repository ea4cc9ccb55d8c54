/* SPDX-License-Identifier: MIT */
#include "base/smallfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The kernel's seq_file returns long lists a page at a time and stops before a record that does
 * not fit (fs/seq_file.c, seq_read_iter). A result shorter than half a page is the whole file. */
enum {
	WHOLE = 2048
};

static ssize_t pread_once(int fd, char *buf, size_t size, size_t offset)
{
	ssize_t n;

	do
		n = pread(fd, buf, size, (off_t) offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* True if the file continues beyond offset. */
static bool has_more(int fd, size_t offset)
{
	char byte;

	return pread_once(fd, &byte, 1, offset) > 0;
}

ssize_t smallfile_pread(int fd, char *buf, size_t size)
{
	size_t len = 0;
	ssize_t n;

	if (size == 0)
		return -EINVAL;
	do {
		n = pread_once(fd, buf + len, size - 1 - len, len);
		if (n < 0) {
			buf[0] = '\0';
			return n;
		}
		len += (size_t) n;
	} while (n >= WHOLE && len < size - 1);
	buf[len] = '\0';
	if (len == size - 1 && has_more(fd, len)) {
		const char *newline = memrchr(buf, '\n', len);

		if (newline)
			len = (size_t) (newline + 1 - buf);
		buf[len] = '\0';
	}
	return (ssize_t) len;
}

ssize_t smallfile_read(int dirfd, const char *path, char *buf, size_t size)
{
	autoclose int fd = smallfile_open(dirfd, path);

	return fd < 0 ? fd : smallfile_pread(fd, buf, size);
}

int smallfile_open(int dirfd, const char *path)
{
	int fd;

	do
		fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

int smallfile_write(int dirfd, const char *path, const char *text)
{
	autoclose int fd = openat(dirfd, path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	size_t len = strlen(text);

	if (fd < 0)
		return -errno;
	/* A knob accepts its value in one write or not at all. */
	ssize_t n = write(fd, text, len);

	if (n < 0)
		return -errno;
	return (size_t) n == len ? 0 : -EIO;
}

/* ---- limit of open files --------------------------------------------------------------------- */

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
