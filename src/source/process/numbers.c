/* SPDX-License-Identifier: MIT */
#include "source/process/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "source/process/procfs_files.h"

/* Entry of getdents64(2). */
struct linux_dirent64 {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

static bool number_of(const char *name, int32_t *ret)
{
	uint64_t n;

	if (parse_u64(&name, &n) < 0 || *name != '\0' || n > INT32_MAX)
		return false;
	*ret = (int32_t) n;
	return true;
}

int numbers_list(int folder, const char *path, int (*seen)(void *ctx, int32_t number), void *ctx)
{
	autoclose int fd = openat(folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(struct linux_dirent64) char buf[8192];
	long n;

	if (fd < 0)
		return -errno;
	while ((n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n;) {
			const struct linux_dirent64 *d = (const void *) (buf + at);
			int32_t number;
			int r = number_of(d->name, &number) ? seen(ctx, number) : 0;

			if (r < 0)
				return r;
			at += d->reclen;
		}
	}
	return n < 0 ? -errno : 0;
}

/* "4712 4713 ": a number cut by the end of the buffer is completed by the next read. */
int numbers_children(int file, int (*seen)(void *ctx, int32_t pid), void *ctx)
{
	autoclose int fd = file;
	char buf[4096];
	size_t kept = 0;
	ssize_t n;

	while ((n = read(fd, buf + kept, sizeof(buf) - 1 - kept)) > 0) {
		const char *at = buf;
		int32_t child;

		buf[kept + (size_t) n] = '\0';
		while (procfs_child_next(&at, &child)) {
			int r = seen(ctx, child);

			if (r < 0)
				return r;
		}
		kept = strnlen(at, sizeof(buf));
		if (kept >= 32) /* no number is that long */
			return 0;
		memmove(buf, at, kept);
	}
	return 0;
}
