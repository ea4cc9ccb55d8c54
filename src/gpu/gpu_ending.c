/* SPDX-License-Identifier: MIT
 *
 * Whether a helper that was killed is on its way out: to give back what a driver mapped takes a while, and is nothing
 * that anybody is stuck in.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "gpu/gpu_shared.h"

enum {
	FLAGS_BEHIND_STATE = 6, /* fields of proc(5)'s stat */
	PF_EXITING = 4,
};

/* One that has begun to exit and does not wait in a driver for that. A thread that is gone meanwhile is as good. */
static bool is_leaving(int tasks, const char *tid)
{
	char path[64], text[512];
	const char *p;
	uint64_t flags;

	(void) snprintf(path, sizeof(path), "%.20s/stat", tid);
	if (smallfile_read(tasks, path, text, sizeof(text)) <= 0)
		return true;
	p = strrchr(text, ')');
	if (!p || strlen(p) < 3 || p[2] == 'D')
		return false;
	p += 2;
	for (int i = 0; i < FLAGS_BEHIND_STATE; i++) {
		(void) parse_field(&p);
		parse_blanks(&p);
	}
	return parse_u64(&p, &flags) == 0 && flags & PF_EXITING;
}

bool gpu_is_ending(const struct root *root, pid_t pid)
{
	char path[64];

	(void) snprintf(path, sizeof(path), "%d/task", (int) pid);

	const int fd = openat(root->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclosedir DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *d;

	if (!dir && fd >= 0)
		(void) close(fd);
	while (dir && (d = readdir(dir))) {
		if (d->d_name[0] != '.' && !is_leaving(fd, d->d_name))
			return false;
	}
	return true;
}
