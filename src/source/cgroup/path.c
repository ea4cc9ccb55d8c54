/* SPDX-License-Identifier: MIT */
#include "source/cgroup/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/longfile.h"
#include "base/parse.h"

/* The controllers by which each v1 hierarchy is recognized. */
static const char *const controllers[] = {
	[CGROUP_MEMORY] = "memory",
	[CGROUP_CPU] = "cpu",
	[CGROUP_CPUACCT] = "cpuacct",
	[CGROUP_PIDS] = "pids",
};

/* ---- mounts ------------------------------------------------------------------------------------------------------- */

static void parse_mount(struct cgroup_mount *to, const struct mount *mount)
{
	if (to->found || mount->point[0] != '/')
		return;
	to->found = true;
	memcpy(to->point, mount->point + 1, strlen(mount->point));
	memcpy(to->root, mount->root, sizeof(to->root));
}

void cgroup_mounts_parse(const char *mountinfo, struct cgroup_mounts *ret)
{
	struct mount mount;

	memset(ret, 0, sizeof(*ret));
	while (mountinfo_next(&mountinfo, &mount)) {
		if (strcmp(mount.type, "cgroup2") == 0)
			parse_mount(&ret->of[CGROUP_UNIFIED], &mount);
		if (strcmp(mount.type, "cgroup") != 0)
			continue;
		for (int i = 0; i < CGROUP_UNIFIED; i++) {
			if (mount_has_option(&mount, controllers[i]))
				parse_mount(&ret->of[i], &mount);
		}
	}
}

/* The mount points of systemd and cgroupfs-mount; the first that exists is used. */
static void usual_mounts(const struct root *root, struct cgroup_mounts *ret)
{
	static const struct {
		enum cgroup_hierarchy hierarchy;
		const char *point, *has;
	} places[] = {
		{ CGROUP_UNIFIED, "sys/fs/cgroup", "sys/fs/cgroup/cgroup.controllers" },
		{ CGROUP_UNIFIED, "sys/fs/cgroup/unified", "sys/fs/cgroup/unified" },
		{ CGROUP_MEMORY, "sys/fs/cgroup/memory", "sys/fs/cgroup/memory" },
		{ CGROUP_CPU, "sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu" },
		{ CGROUP_CPU, "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpu,cpuacct" },
		{ CGROUP_CPUACCT, "sys/fs/cgroup/cpuacct", "sys/fs/cgroup/cpuacct" },
		{ CGROUP_CPUACCT, "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpu,cpuacct" },
		{ CGROUP_PIDS, "sys/fs/cgroup/pids", "sys/fs/cgroup/pids" },
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct cgroup_mount *to = &ret->of[places[i].hierarchy];

		if (to->found || faccessat(root->top, places[i].has, F_OK, 0) < 0)
			continue;
		to->found = true;
		snprintf(to->point, sizeof(to->point), "%s", places[i].point);
		snprintf(to->root, sizeof(to->root), "/");
	}
}

enum cgroup_hierarchy cgroup_charging(const struct cgroup_mounts *mounts)
{
	if (mounts->of[CGROUP_MEMORY].found)
		return CGROUP_MEMORY;
	return mounts->of[CGROUP_UNIFIED].found ? CGROUP_UNIFIED : CGROUP_HIERARCHIES;
}

enum cgroup_hierarchy cgroup_with_quota(const struct cgroup_mounts *mounts)
{
	return mounts->of[CGROUP_CPU].found ? CGROUP_CPU : CGROUP_UNIFIED;
}

int cgroup_mounts_read(const struct root *root, struct cgroup_mounts *ret)
{
	const char *text = mountinfo_text(root);
	struct cgroup_mounts mounts = { 0 };

	if (text)
		cgroup_mounts_parse(text, &mounts);
	if (cgroup_charging(&mounts) == CGROUP_HIERARCHIES)
		usual_mounts(root, &mounts);
	if (cgroup_charging(&mounts) == CGROUP_HIERARCHIES)
		return -ENOENT;
	*ret = mounts;
	return 0;
}

/* ---- lines of procfs cgroup --------------------------------------------------------------------------------------- */

/* "4:cpu,cpuacct:/a:b": the path may contain colons, the controllers may not. */
static bool line_parse(const char *p, struct cgroup_line *ret)
{
	uint64_t number;

	if (parse_u64(&p, &number) < 0 || *p++ != ':')
		return false;
	ret->controllers = p;
	ret->controllers_len = strcspn(p, ":\n");
	p += ret->controllers_len;
	if (*p++ != ':' || *p != '/')
		return false;
	ret->path = p;
	ret->path_len = strcspn(p, "\n");
	return true;
}

bool cgroup_line_next(const char **p, struct cgroup_line *ret)
{
	for (const char *line; (line = parse_next_line(p));) {
		if (line_parse(line, ret))
			return true;
	}
	return false;
}

static bool names_controller(const struct cgroup_line *line, const char *word)
{
	const struct mount list = { .options = line->controllers, .options_len = line->controllers_len };

	return mount_has_option(&list, word);
}

bool cgroup_line_of(const char *text, enum cgroup_hierarchy hierarchy, struct cgroup_line *ret)
{
	struct cgroup_line line;

	while (cgroup_line_next(&text, &line)) {
		if (hierarchy == CGROUP_UNIFIED ? line.controllers_len == 0
						: names_controller(&line, controllers[hierarchy])) {
			*ret = line;
			return true;
		}
	}
	return false;
}

/* ---- paths -------------------------------------------------------------------------------------------------------- */

static bool has_dotdot(const char *path, size_t len)
{
	for (size_t i = 0; i + 3 <= len; i++) {
		if (memcmp(path + i, "/..", 3) == 0 && (i + 3 == len || path[i + 3] == '/'))
			return true;
	}
	return false;
}

int cgroup_below(const struct cgroup_mount *mount, const char *path, size_t len, char ret[CGROUP_PATH])
{
	static const char deleted[] = " (deleted)";
	size_t root_len = strcmp(mount->root, "/") == 0 ? 0 : strlen(mount->root);
	size_t gone = sizeof(deleted) - 1;

	if (len == 0 || has_dotdot(path, len) ||
		(len > gone && memcmp(path + len - gone, deleted, gone) == 0))
		return -ENOENT;
	if (len < root_len || memcmp(path, mount->root, root_len) != 0 ||
		(len > root_len && path[root_len] != '/'))
		return -ENOENT;
	path += root_len;
	len -= root_len;
	if (len >= CGROUP_PATH)
		return -ENAMETOOLONG;
	if (len == 0) {
		memcpy(ret, "/", 2);
		return 0;
	}
	memcpy(ret, path, len);
	ret[len] = '\0';
	return 0;
}

int cgroup_given(const struct cgroup_mount *mount, const char *path, char ret[CGROUP_PATH])
{
	const char *below = path + (*path == '/');
	size_t len = strlen(path);

	if (*path != '/')
		return -EINVAL;
	if (*mount->point && parse_word(&below, mount->point) && (*below == '/' || *below == '\0')) {
		path = *below ? below : "/";
		len = strlen(path);
	}
	while (len > 1 && path[len - 1] == '/')
		len--;
	if (len >= CGROUP_PATH)
		return -ENAMETOOLONG;
	memcpy(ret, path, len);
	ret[len] = '\0';
	return 0;
}

int cgroup_own_path(const struct root *root, const struct cgroup_mounts *mounts,
	enum cgroup_hierarchy hierarchy, char ret[CGROUP_PATH])
{
	struct longfile text = { 0 };
	struct cgroup_line line;
	ssize_t n = longfile_read(&text, root->proc, "self/cgroup");
	int r = n < 0 ? (int) n : -ENOENT;

	if (n > 0 && cgroup_line_of(text.data, hierarchy, &line))
		r = cgroup_below(&mounts->of[hierarchy], line.path, line.path_len, ret);
	longfile_done(&text);
	return r;
}

int cgroup_open_dir(const struct root *root, const struct cgroup_mount *mount, const char *path)
{
	if (path[0] != '/' || has_dotdot(path, strlen(path)))
		return -EINVAL;
	autoclose int top = openat(root->top, mount->point, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (top < 0)
		return -errno;
	while (*path == '/')
		path++;
	int fd = openat(top, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}
