/* SPDX-License-Identifier: MIT */
#include "cli/programs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/root.h"

/* The folder of this program; "" if it is not known. */
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

static const char *const places[] = { "", "../libexec/hiwater/" };

int program_find(const char *name, char *path, size_t size)
{
	char folder[PATH_MAX];

	own_folder(folder);
	for (size_t i = 0; *folder && i < sizeof(places) / sizeof(places[0]); i++) {
		const int len = snprintf(path, size, "%s/%s%s", folder, places[i], name);

		if (len > 0 && (size_t) len < size && access(path, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}

void program_why_not(const char *name, char *text, size_t size)
{
	char folder[PATH_MAX];

	own_folder(folder);
	if (*folder)
		(void) snprintf(text, size, "there is no %s in %s or %s/../libexec/hiwater",
			name, folder, folder);
	else
		(void) snprintf(text, size, "%s cannot be found without /proc", name);
}
