/* SPDX-License-Identifier: MIT */
#include "record/history/history_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

/* A relative folder would differ for each working directory; the XDG specification requires to
 * ignore it. */
static const char *absolute(const char *name)
{
	const char *value = getenv(name);

	return value && *value == '/' ? value : NULL;
}

static bool is_below(const char *path, const char *folder)
{
	const size_t n = strlen(folder);

	return strncmp(path, folder, n) == 0 && (path[n] == '/' || (n > 0 && folder[n - 1] == '/'));
}

/* A home that does not exist is not made (a service user's, one that is not mounted). */
int history_dir(char *ret, size_t size, struct err *err)
{
	const char *own = getenv("HIWATER_DIR"), *state = absolute("XDG_STATE_HOME"),
		   *home = absolute("HOME");
	autofree char *here = NULL;
	char folder[PATH_MAX];
	struct stat st;
	int n;

	if (!(own && *own) && home && (!state || is_below(state, home)) && stat(home, &st) < 0)
		return err_set(err, -errno, "no folder for the history: HOME is %.200s: %s; set HIWATER_DIR or use -o FILE",
			home, strerror(errno));
	if (own && *own)
		n = snprintf(folder, sizeof(folder), "%s", own);
	else if (state)
		n = snprintf(folder, sizeof(folder), "%s/hiwater", state);
	else if (home)
		n = snprintf(folder, sizeof(folder), "%s/.local/state/hiwater", home);
	else
		return err_set(err, -ENOENT,
			"no folder for the history: HOME is %s; set HIWATER_DIR or use -o FILE",
			getenv("HOME") ? "not an absolute path" : "not set");
	if (n < 0 || (size_t) n >= sizeof(folder))
		return err_set(err, -ENAMETOOLONG, "the path of the history's folder is too long");
	if (folder[0] != '/')
		here = getcwd(NULL, 0);
	n = snprintf(ret, size, "%s%s%s", here ? here : "", here ? "/" : "", folder);
	if (n < 0 || (size_t) n >= size)
		return err_set(err, -ENAMETOOLONG, "the path of the history's folder is too long");
	return 0;
}
