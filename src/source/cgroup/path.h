/* SPDX-License-Identifier: MIT
 *
 * Where a process's cgroups are: procfs cgroup lines, the mounts of the hierarchies, paths below them. For the files
 * cgroup*.c alone. Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/cgroups.rst, cgroups(7).
 */
#pragma once

/* What gives a user's command a group below which it may make others. */
#define CGROUP_DELEGATED "systemd-run --user --scope -p Delegate=yes"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/root.h"
#include "source/host/mountinfo.h"
#include "source/source.h"

#define CGROUP_PATH MOUNTINFO_PATH

enum cgroup_hierarchy {
	CGROUP_MEMORY,  /* v1 */
	CGROUP_CPU,     /* v1 */
	CGROUP_CPUACCT, /* v1; often the same mount as cpu */
	CGROUP_UNIFIED, /* v2 */
	CGROUP_HIERARCHIES,
};

struct cgroup_mount {
	bool found;
	char point[CGROUP_PATH]; /* below root->top, without a leading '/' */
	char root[CGROUP_PATH];  /* which group is seen at point: "/" for the whole hierarchy, or namespace */
};

struct cgroup_mounts {
	struct cgroup_mount of[CGROUP_HIERARCHIES];
};

/* The hierarchies that the text of mountinfo names; the first mount of each. */
void cgroup_mounts_parse(const char *mountinfo, struct cgroup_mounts *ret);

/* Those of this process; the usual places where mountinfo says nothing. Returns 0 or -ENOENT without any. */
int cgroup_mounts_read(const struct root *root, struct cgroup_mounts *ret);

/* The hierarchy that charges memory: v1 where the memory controller is mounted there (hybrid machines too), else v2;
 * CGROUP_HIERARCHIES if there is neither. */
enum cgroup_hierarchy cgroup_charging(const struct cgroup_mounts *mounts);

/* Likewise the one whose CPU quotas hold processes back: v1 where its cpu controller is mounted, else v2. */
enum cgroup_hierarchy cgroup_holding_back(const struct cgroup_mounts *mounts);

/* One line of procfs cgroup: "4:memory:/a/b", "0::/a/b" for v2. */
struct cgroup_line {
	const char *controllers, *path; /* borrowed from the text */
	size_t controllers_len, path_len;
};

/* Reads the next line that is one. False at the end. */
bool cgroup_line_next(const char **p, struct cgroup_line *ret);

/* The line of that hierarchy in the text of procfs cgroup. */
bool cgroup_line_of(const char *text, enum cgroup_hierarchy hierarchy, struct cgroup_line *ret);

/* A group's path (len bytes, as procfs says it) as seen below the mount. Returns 0, -ENOENT where the group is not
 * below it, outside of the namespace ("/../x") or deleted, or -ENAMETOOLONG. */
int cgroup_below(const struct cgroup_mount *mount, const char *path, size_t len, char ret[CGROUP_PATH]);

/* "/a/b" from what a person gave: that, or a folder of the mounted tree; slashes at the end do not matter. Returns 0,
 * -EINVAL for no absolute path, or -ENAMETOOLONG. */
int cgroup_given(const struct cgroup_mount *mount, const char *path, char ret[CGROUP_PATH]);

/* This process's group in the hierarchy. Returns likewise, or -errno. */
int cgroup_own_path(const struct root *root, const struct cgroup_mounts *mounts, enum cgroup_hierarchy hierarchy,
	char ret[CGROUP_PATH]);

/* Opens the folder of the group at path ("/a/b") below the mount. Paths with ".." are refused. Returns a descriptor
 * or -errno. */
int cgroup_open_dir(const struct root *root, const struct cgroup_mount *mount, const char *path);

/* cgroup_pids in one hierarchy. */
ssize_t cgroup_pids_in(const struct root *root, const struct cgroup_mount *mount, const char *path, pid_t *pids,
	size_t n);

/* Tasks in the group of v1 that dir is opened on, of every pid namespace; perhaps a few less. Or -errno. */
ssize_t cgroup_count(int dir);

/* The group of a v1 hierarchy with exactly the same processes, below included, as the memory group at path. Returns 0,
 * -ENOENT if there is none, or -errno. */
int cgroup_twin(const struct root *root, const struct cgroup_mounts *mounts, const char *path,
	enum cgroup_hierarchy hierarchy, char ret[CGROUP_PATH]);

/* "slurm", "kubernetes", ... by the pattern of the path; "" if it has none. Static. */
const char *cgroup_scheduler(const char *path, size_t len);

/* "max" or a v1 limit that no machine reaches is none. */
struct maybe cgroup_limit_parse(const char *text, bool v2);

/* v2 cpu.max, "200000 100000": millionths of a core. */
struct maybe cgroup_cpu_max_parse(const char *text);
