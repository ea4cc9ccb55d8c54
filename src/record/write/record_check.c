/* SPDX-License-Identifier: MIT */
#include "record/write/record_check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "record/history/history.h"
#include "record/read/replay.h"

static bool may_write_in(const char *folder)
{
	return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0;
}

/* Checks that path's folder is writable; with may_be_made, its nearest existing parent. */
static int check_folder(const char *path, bool may_be_made, struct err *err)
{
	char folder[PATH_MAX];
	struct stat st;
	char *slash;

	(void) snprintf(folder, sizeof(folder), "%s", path);
	do {
		slash = strrchr(folder, '/');
		if (!slash)
			return -EINVAL;
		slash[slash == folder] = '\0';
	} while (may_be_made && stat(folder, &st) < 0 && errno == ENOENT && folder[1]);
	if (stat(folder, &st) < 0)
		return err_set(
			err, -errno, "cannot write %s: the folder %s: %s", path, folder, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR, "cannot write %s: %s is not a folder", path, folder);
	if (!may_write_in(folder))
		return err_set(
			err, -errno, "cannot write %s: the folder %s: %s", path, folder, strerror(errno));
	return 0;
}

static int check_existing(const char *path, bool overwrite, struct err *err)
{
	struct replay *replay;
	struct stat st;
	bool growing;

	if (lstat(path, &st) < 0)
		return 0;
	if (!overwrite)
		return err_set(err, -EEXIST, "%s already exists; choose another name or remove it", path);
	if (S_ISDIR(st.st_mode))
		return err_set(err, -EISDIR, "%s is a folder; choose another name", path);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return err_set(err, -ENOTSUP, "%s is not a regular file; choose another name", path);
	if (replay_open(path, &replay, NULL) < 0)
		return 0;
	growing = replay_growing(replay);
	replay_close(replay);
	return growing ? err_set(err, -EBUSY, "another run is writing %s; choose another name", path) : 0;
}

int record_name(const char *path, unsigned number, char *ret, size_t size)
{
	enum {
		MOST = 10000
	};
	static const char suffix[] = ".hiw";
	const size_t len = strlen(path), n = strlen(suffix);
	const bool has_suffix = len > n && strcmp(path + len - n, suffix) == 0;
	int written;

	if (number > MOST)
		return -EEXIST;
	if (number < 2)
		written = snprintf(ret, size, "%s", path);
	else
		written = snprintf(ret, size, "%.*s-%u%s", (int) (has_suffix ? len - n : len), path, number,
			has_suffix ? suffix : "");
	return written < 0 || (size_t) written >= size ? -ENAMETOOLONG : 0;
}

/* The first free name; only in place of a file or a folder, which the user has forgotten in most cases.
 * A device or a pipe is meant. */
static int find_free(const char *path, unsigned *ret_number, char *where, size_t size, struct err *err)
{
	struct stat st;
	int r;

	for (unsigned n = 1; (r = record_name(path, n, where, size)) == 0; n++) {
		*ret_number = n;
		if (lstat(where, &st) < 0)
			return 0;
		if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode) && !S_ISDIR(st.st_mode))
			return err_set(err, -ENOTSUP, "%s is not a regular file; choose another name", where);
	}
	return err_set(err, r, "cannot write %s: %s", path, strerror(-r));
}

static int absolute(const char *path, char **ret)
{
	autofree char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);

	if (path[0] != '/' && !here)
		return -errno;
	return asprintf(ret, "%s%s%s", here ? here : "", here ? "/" : "", path) < 0 ? -ENOMEM : 0;
}

static int check_history(char *where, size_t size, struct err *err)
{
	char folder[PATH_MAX - 16];
	int r = history_dir(folder, sizeof(folder), err);

	if (r < 0)
		return r;
	(void) snprintf(where, size, "%s/0.hiw", folder);
	return check_folder(where, true, err);
}

/* False: "there/", "." and ".." are folders. */
static bool is_file_name(const char *whole)
{
	const char *name = strrchr(whole, '/') + 1;

	return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

int record_check(const char *path, bool overwrite, unsigned *ret_number, char **ret_path, char *where,
	size_t size, struct err *err)
{
	autofree char *whole = NULL;
	int r;

	if (!path)
		return check_history(where, size, err);
	r = absolute(path, &whole);
	if (r < 0)
		return err_set(err, r, "%s: %s", path, strerror(-r));
	if (strlen(whole) >= size || !is_file_name(whole))
		return err_set(err, -EINVAL, "\"%s\" is not a file name", path);
	(void) snprintf(where, size, "%s", whole);
	if (ret_number && !overwrite)
		r = find_free(whole, ret_number, where, size, err);
	else
		r = check_existing(whole, overwrite, err);
	if (r == 0)
		r = check_folder(whole, false, err);
	if (r == 0)
		*ret_path = take_ptr(whole);
	return r;
}
