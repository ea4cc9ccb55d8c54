/* SPDX-License-Identifier: MIT
 *
 * Creates and removes a cgroup for one job (--cgroup=new).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/cgroup/path.h"

/* Only groups whose name begins like this are ever removed. */
#define NAME_PREFIX "hiwater-"

static const char remedy[] = "start it in a delegated group, for example with " CGROUP_DELEGATED;

/* Whether a cgroup file contains word. */
static bool lists_word(int dir, const char *file, const char *word)
{
	char text[512];
	size_t want = strlen(word);

	if (smallfile_read(dir, file, text, sizeof(text)) < 0)
		return false;
	for (const char *p = text; *p;) {
		size_t len = strcspn(p, " \n");

		if (len == want && memcmp(p, word, len) == 0)
			return true;
		p += len + strspn(p + len, " \n");
	}
	return false;
}

/* Strips the last component: "/a/b" becomes "/a", "/a" becomes "/". False at the top. */
static bool path_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || strcmp(path, "/") == 0)
		return false;
	slash[slash == path] = '\0';
	return true;
}

/* Whether a sibling of this group escapes no limit. */
static bool is_unlimited(int dir)
{
	char text[64];

	if (smallfile_read(dir, "memory.max", text, sizeof(text)) > 0 && strcmp(text, "max\n") != 0)
		return false;
	return smallfile_read(dir, "cpu.max", text, sizeof(text)) <= 0 || strncmp(text, "max ", 4) == 0;
}

/* Finds the folder for a new v2 group: below this process's group if that delegates the memory
 * controller. A group that contains processes cannot delegate (the "no internal process" rule);
 * then next to it, provided that this escapes no limit (else -EDQUOT). Updates path. Returns the
 * parent's folder or -errno. */
static int find_v2_parent(const struct root *root, const struct cgroup_mount *mount, char *path)
{
	autoclose int own = cgroup_open_dir(root, mount, path);

	if (own < 0)
		return own;
	if (lists_word(own, "cgroup.subtree_control", "memory"))
		return take_fd(own);
	if (!is_unlimited(own))
		return -EDQUOT;
	if (!path_up(path))
		return -EOPNOTSUPP;
	autoclose int above = cgroup_open_dir(root, mount, path);

	if (above < 0)
		return above;
	return lists_word(above, "cgroup.subtree_control", "memory") ? take_fd(above) : -EOPNOTSUPP;
}

/* "hiwater-4711-0" */
static bool is_made_name(const char *name)
{
	uint64_t number;

	return parse_word(&name, NAME_PREFIX) && parse_u64(&name, &number) == 0 && parse_word(&name, "-") &&
	       parse_u64(&name, &number) == 0 && *name == '\0';
}

/* Removes groups left by killed recorders. A live recorder has its group's folder locked, in
 * whatever pid namespace, so a group whose lock is free is abandoned; the kernel keeps groups that
 * still contain processes. */
static void remove_abandoned(int parent)
{
	const int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclosedir DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;

	if (!folder && fd >= 0)
		(void) close(fd);
	while (folder && (entry = readdir(folder))) {
		autoclose int dir = -1;

		if (is_made_name(entry->d_name))
			dir = openat(parent, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
			(void) unlinkat(parent, entry->d_name, AT_REMOVEDIR);
	}
}

/* Returns a descriptor that keeps the group locked while it is open, or -errno; -ENOENT: another
 * run considered the group abandoned before it was locked, and removed it. */
static int open_locked(int parent, const char *name)
{
	autoclose int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (dir < 0)
		return -errno;
	(void) flock(dir, LOCK_SH);
	return fstatat(parent, name, &st, 0) < 0 ? -errno : take_fd(dir);
}

/* Creates a folder with an unused name and appends the name to path. Returns its descriptor or
 * -errno. */
static int make_child(int parent, char *path, size_t size)
{
	char name[64];
	size_t len = strcmp(path, "/") == 0 ? 0 : strlen(path);

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), NAME_PREFIX "%d-%d", (int) getpid(), i);
		if (len + 1 + strlen(name) >= size)
			return -ENAMETOOLONG;
		if (mkdirat(parent, name, 0755) < 0) {
			if (errno == EEXIST)
				continue;
			return -errno;
		}
		int dir = open_locked(parent, name);

		if (dir == -ENOENT)
			continue;
		if (dir < 0) {
			(void) unlinkat(parent, name, AT_REMOVEDIR);
			return dir;
		}
		snprintf(path + len, size - len, "/%s", name);
		return dir;
	}
	return -EEXIST;
}

/* Returns the folder for a new group, with its path in path, or -errno. */
static int find_parent(const struct root *root, char path[CGROUP_PATH])
{
	struct cgroup_mounts mounts;
	int r = cgroup_mounts_read(root, &mounts);

	if (r < 0)
		return r;
	enum cgroup_hierarchy hierarchy = cgroup_charging(&mounts);
	const struct cgroup_mount *mount = &mounts.of[hierarchy];
	bool v2 = hierarchy == CGROUP_UNIFIED;

	r = cgroup_own_path(root, &mounts, hierarchy, path);
	if (r < 0)
		return r;
	return v2 ? find_v2_parent(root, mount, path) : cgroup_open_dir(root, mount, path);
}

/* Returns the new group's folder, with its path in path, or -errno. */
static int make_group(const struct root *root, char path[CGROUP_PATH])
{
	autoclose int parent = find_parent(root, path);

	if (parent < 0)
		return parent;
	remove_abandoned(parent);
	return make_child(parent, path, CGROUP_PATH);
}

bool cgroup_may_make(const struct root *root)
{
	char path[CGROUP_PATH];
	autoclose int parent = find_parent(root, path);

	return parent >= 0 && faccessat(parent, ".", W_OK | X_OK, AT_EACCESS) == 0;
}

/* Translates an error of make_group. */
static int explain(int error, struct err *err)
{
	if (error == -ENOENT)
		return err_set(err, error, "--cgroup=new: no cgroup hierarchy is mounted on this machine");
	if (error == -EOPNOTSUPP)
		return err_set(err, error,
			"--cgroup=new: this group does not delegate the memory controller: %s", remedy);
	if (error == -EDQUOT)
		return err_set(err, error,
			"--cgroup=new: this group has a limit that a new sibling group would escape: "
			"set the limit on the parent group");
	if (error == -EACCES || error == -EPERM || error == -EROFS)
		return err_set(err, error, "--cgroup=new: no permission to create a group: %s", remedy);
	return err_set(err, error, "--cgroup=new: cannot create a group: %s", strerror(-error));
}

int cgroup_make(
	const struct root *root, char *ret_path, size_t size, int *ret_procs, int *ret_dir, struct err *err)
{
	char path[CGROUP_PATH];

	if (!root->live)
		return err_set(err, -EROFS, "--cgroup=new: jobs cannot be started on a captured machine");
	autoclose int dir = make_group(root, path);

	if (dir < 0)
		return explain(dir, err);
	autoclose int procs = openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	int r = procs < 0 ? -errno : 0;

	if (r == 0 && strlen(path) >= size)
		r = -ENAMETOOLONG;
	if (r < 0) {
		(void) cgroup_remove(root, path);
		return explain(r, err);
	}
	memcpy(ret_path, path, strlen(path) + 1);
	*ret_procs = take_fd(procs);
	*ret_dir = take_fd(dir);
	return 0;
}

int cgroup_remove(const struct root *root, const char *path)
{
	struct cgroup_mounts mounts;
	const char *name = strrchr(path, '/');
	char above[CGROUP_PATH];

	if (!root->live || !name || strncmp(name + 1, NAME_PREFIX, strlen(NAME_PREFIX)) != 0)
		return -EINVAL;
	if (strlen(path) >= sizeof(above) || cgroup_mounts_read(root, &mounts) < 0)
		return -ENOENT;
	memcpy(above, path, strlen(path) + 1);
	(void) path_up(above);
	autoclose int parent = cgroup_open_dir(root, &mounts.of[cgroup_charging(&mounts)], above);

	if (parent < 0)
		return parent;
	return unlinkat(parent, name + 1, AT_REMOVEDIR) < 0 ? -errno : 0;
}
