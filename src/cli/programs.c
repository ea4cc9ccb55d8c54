/* SPDX-License-Identifier: MIT */
#include "cli/programs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/root.h"

/* The folder of this program; "" if it cannot be told. */
static void own_folder(char folder[PATH_MAX])
{
	struct root root = { 0 };
	ssize_t len = -1;

	if (root_open("/", &root, NULL) == 0)
		len = readlinkat(root.proc, "self/exe", folder, PATH_MAX - 1);
	root_done(&root);
	folder[len > 0 ? len : 0] = '\0';
	if (strrchr(folder, '/'))
		*strrchr(folder, '/') = '\0';
}

int program_find(const char *name, char *path, size_t size)
{
	static const char *const places[] = { "", "../libexec/hiwater/" };
	char folder[PATH_MAX];

	own_folder(folder);
	for (size_t i = 0; *folder && i < sizeof(places) / sizeof(places[0]); i++) {
		const int len = snprintf(path, size, "%s/%s%s", folder, places[i], name);

		if (len > 0 && (size_t) len < size && access(path, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}
