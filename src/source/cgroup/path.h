/* SPDX-License-Identifier: MIT
 *
 * Locates a process's cgroups: lines of procfs cgroup, the mounts of the hierarchies, paths below
 * them. For the files of this folder only. Documentation/admin-guide/cgroup-v2.rst,
 * cgroup-v1/cgroups.rst, cgroups(7).
 */
#pragma once

/* Runs a user's command in a group below which it may create others. */
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
	CGROUP_PIDS,    /* v1 */
	CGROUP_UNIFIED, /* v2 */
	CGROUP_HIERARCHIES,
};

struct cgroup_mount {
	bool found;
	char point[CGROUP_PATH]; /* below root->top, without a leading '/' */
	char root[CGROUP_PATH];  /* the group visible at point: "/" for the whole hierarchy, else
	                          * the namespace's */
};

struct cgroup_mounts {
	struct cgroup_mount of[CGROUP_HIERARCHIES];
};

/* Parses the text of mountinfo for hierarchies; the first mount of each. */
void cgroup_mounts_parse(const char *mountinfo, struct cgroup_mounts *ret);

/* The mounts of this process; the usual places if mountinfo names none. Returns 0, or -ENOENT: no
 * hierarchy. */
int cgroup_mounts_read(const struct root *root, struct cgroup_mounts *ret);

/* The hierarchy that charges memory: v1 if it has the memory controller (hybrid machines too), else
 * v2; CGROUP_HIERARCHIES: neither. */
enum cgroup_hierarchy cgroup_charging(const struct cgroup_mounts *mounts);

/* Likewise the hierarchy whose CPU quotas apply: v1 if it has the cpu controller, else v2. */
enum cgroup_hierarchy cgroup_with_quota(const struct cgroup_mounts *mounts);

/* One line of procfs cgroup: "4:memory:/a/b", "0::/a/b" for v2. */
struct cgroup_line {
	const char *controllers, *path; /* borrowed from the text */
	size_t controllers_len, path_len;
};

/* Parses the next valid line. False at the end. */
bool cgroup_line_next(const char **p, struct cgroup_line *ret);

/* The line of this hierarchy in the text of procfs cgroup. */
bool cgroup_line_of(const char *text, enum cgroup_hierarchy hierarchy, struct cgroup_line *ret);

/* The path below the mount of a group's path (len bytes, from procfs). Returns 0, -ENOENT if the
 * group is not below the mount, outside the namespace ("/../x") or deleted, or -ENAMETOOLONG. */
int cgroup_below(const struct cgroup_mount *mount, const char *path, size_t len, char ret[CGROUP_PATH]);

/* Normalizes a path given by the user, "/a/b" or a folder of the mounted tree; trailing slashes are
 * ignored. Returns 0, -EINVAL if the path is not absolute, or -ENAMETOOLONG. */
int cgroup_given(const struct cgroup_mount *mount, const char *path, char ret[CGROUP_PATH]);

/* This process's group in the hierarchy. Returns likewise, or -errno. */
int cgroup_own_path(const struct root *root, const struct cgroup_mounts *mounts,
	enum cgroup_hierarchy hierarchy, char ret[CGROUP_PATH]);

/* Opens the folder of the group at path ("/a/b") below the mount. Rejects paths with "..". Returns
 * a descriptor or -errno. */
int cgroup_open_dir(const struct root *root, const struct cgroup_mount *mount, const char *path);

/* cgroup_pids in one hierarchy. */
ssize_t cgroup_pids_in(
	const struct root *root, const struct cgroup_mount *mount, const char *path, pid_t *pids, size_t n);

/* Calls see for each process of the machine until it returns less than 0. Returns what see returned last, 0 if there is no process, or
 * -errno if the list cannot be opened. */
int cgroup_each_pid(const struct root *root, int (*see)(pid_t pid, void *ctx), void *ctx);

/* The number of tasks in the v1 group open at dir, of every pid namespace; may be slightly low. Or
 * -errno. */
ssize_t cgroup_count(int dir);

/* The group of a v1 hierarchy with exactly the same processes, including groups below, as the
 * memory group at path. Returns 0, -ENOENT if there is none, or -errno. */
int cgroup_twin(const struct root *root, const struct cgroup_mounts *mounts, const char *path,
	enum cgroup_hierarchy hierarchy, char ret[CGROUP_PATH]);

/* "slurm", "kubernetes", ... by the pattern of the path; "" if none matches. Static. */
const char *cgroup_scheduler(const char *path, size_t len);

/* Unknown for "max" and for a v1 limit that no machine reaches. */
struct maybe cgroup_limit_parse(const char *text, bool v2);

/* v2 cpu.max, "200000 100000": in millionths of a core. */
struct maybe cgroup_cpu_max_parse(const char *text);
