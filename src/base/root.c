/* SPDX-License-Identifier: MIT */
#include "base/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The locations of the machine's files below a root; the only place that knows them. */
static const char proc_dir[] = "proc";
static const char sys_dir[] = "sys";

/* Opens a folder as a descriptor above 2, so that 0 can mean "not open" in an all-zero struct. */
static int open_dir(int at, const char *path)
{
	int fd = openat(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fd > STDERR_FILENO)
		return fd;
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int code = moved < 0 ? -errno : moved;

	(void) close(fd);
	return code;
}

/* A descriptor below which no file can be opened. */
static int open_nothing(void)
{
	const int fd = eventfd(0, EFD_CLOEXEC);
	const int above = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	const int code = above < 0 ? -errno : above;

	if (fd >= 0)
		(void) close(fd);
	return code;
}

static void close_dir(int *fd)
{
	if (*fd > STDERR_FILENO)
		(void) close(*fd);
	*fd = -1;
}

int root_open(const char *path, struct root *ret, struct err *err)
{
	struct root root = { .proc = -1, .sys = -1, .top = -1 };

	if (!path)
		path = "/";
	root.live = strcmp(path, "/") == 0;
	root.top = open_dir(AT_FDCWD, path);
	if (root.top < 0)
		return err_set(err, root.top, "cannot open the machine's root %s: %s", path,
			strerror(-root.top));
	root.mounts = calloc(1, sizeof(*root.mounts));
	if (!root.mounts) {
		root_done(&root);
		return err_set(err, -ENOMEM, "out of memory");
	}
	root.mounts->fd = -1;
	root.proc = open_dir(root.top, proc_dir);
	root.sys = open_dir(root.top, sys_dir);
	if (root.live && root.proc < 0) /* as an empty folder, where no proc file system is mounted */
		root.proc = open_nothing();
	if (root.live && root.proc < 0) {
		int code = root.proc;

		root_done(&root);
		return err_set(err, code, "cannot open /%s: %s", proc_dir, strerror(-code));
	}
	/* A captured machine may lack either one, a container its sysfs. */
	if (root.proc < 0)
		root.proc = -1;
	if (root.sys < 0)
		root.sys = -1;
	*ret = root;
	return 0;
}

void root_done(struct root *root)
{
	if (root->mounts) {
		cleanup_close(&root->mounts->fd);
		longfile_done(&root->mounts->text);
		free(root->mounts);
		root->mounts = NULL;
	}
	close_dir(&root->proc);
	close_dir(&root->sys);
	close_dir(&root->top);
	root->live = false;
}
