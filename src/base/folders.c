/* SPDX-License-Identifier: MIT */
#include "base/folders.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int folders_make(const char *path)
{
	char part[PATH_MAX];

	if (mkdir(path, 0700) == 0 || errno == EEXIST)
		return 0;
	if (errno != ENOENT)
		return -errno;
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		(void) snprintf(part, sizeof(part), "%.*s", (int) (slash - path), path);
		if (mkdir(part, 0700) < 0 && errno != EEXIST)
			return -errno;
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}
