/* SPDX-License-Identifier: MIT
 *
 * The processes in a cgroup.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/longfile.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/cgroup/path.h"
#include "source/host/container.h"

enum {
	MAX_DEPTH = 32
};

/* The pids found so far; total includes those that did not fit. */
struct pids {
	pid_t *list;
	size_t size, total;
	bool may_hide; /* v1 lists omit processes of foreign pid namespaces */
	struct longfile text;
};

/* SIZE_MAX: no list exists (v2). */
static size_t tasks_listed(int dir, struct pids *pids)
{
	size_t n = 0;

	if (longfile_read(&pids->text, dir, "tasks") < 0)
		return SIZE_MAX;
	for (const char *p = strchr(pids->text.data, '\n'); p; p = strchr(p + 1, '\n'))
		n++;
	return n;
}

/* Whether the group has processes that the lists omit. Tasks come and go between the reads, so a
 * task is hidden only if the count exceeds both the list before and the list after, each time. If
 * no count is available, the lists are trusted. */
static bool hides(int dir, struct pids *pids)
{
	enum {
		TIMES = 3
	};

	for (int i = 0; i < TIMES; i++) {
		const size_t before = tasks_listed(dir, pids);
		const ssize_t n = cgroup_count(dir);

		if (n < 0 || (size_t) n <= before || (size_t) n <= tasks_listed(dir, pids))
			return false;
	}
	return true;
}

static void add_pid(struct pids *pids, pid_t pid)
{
	if (pids->total < pids->size)
		pids->list[pids->total] = pid;
	pids->total++;
}

/* One pid per line. 0 is a process of a foreign pid namespace: counted, as it is not the job's. v1
 * never writes 0. */
static int read_procs(int dir, struct pids *pids)
{
	ssize_t n = longfile_read(&pids->text, dir, "cgroup.procs");
	uint64_t pid;

	if (n == -EOPNOTSUPP) /* a threaded group: its processes are in the list of its domain */
		return 0;
	if (n < 0)
		return (int) n;
	for (const char *p = pids->text.data; parse_u64(&p, &pid) == 0; (void) parse_line(&p))
		add_pid(pids, (pid_t) pid);
	if (pids->may_hide && hides(dir, pids))
		add_pid(pids, 0);
	return 0;
}

/* Closes fd. A group removed meanwhile had no processes. */
static int walk(int fd, unsigned depth, struct pids *pids)
{
	int r = read_procs(fd, pids);
	autoclosedir DIR *dir = fdopendir(fd);

	if (!dir) {
		(void) close(fd);
		return -ENOMEM;
	}
	if (r < 0)
		return depth && (r == -ENOENT || r == -ENODEV) ? 0 : r;
	for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		if (entry->d_name[0] == '.' || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
			continue;
		int child = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (child < 0)
			continue;
		if (depth >= MAX_DEPTH) {
			(void) close(child);
			return -ELOOP;
		}
		r = walk(child, depth + 1, pids);
		if (r < 0)
			return r;
	}
	return 0;
}

int cgroup_each_pid(const struct root *root, int (*see)(pid_t pid, void *ctx), void *ctx)
{
	autoclose int fd = openat(root->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclosedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir)
		return -errno;
	(void) take_fd(fd); /* dir owns it now */
	while (r >= 0 && (entry = readdir(dir))) {
		const char *p = entry->d_name;
		uint64_t pid;

		if (parse_u64(&p, &pid) == 0 && *p == '\0' && pid <= INT32_MAX)
			r = see((pid_t) pid, ctx);
	}
	return r;
}

ssize_t cgroup_pids_in(
	const struct root *root, const struct cgroup_mount *mount, const char *path, pid_t *list, size_t n)
{
	struct pids pids = {
		.list = list,
		.size = n,
		.may_hide = root->live && !machine_first_pids(root),
	};
	int fd = cgroup_open_dir(root, mount, path);

	if (fd < 0)
		return fd;
	int r = walk(fd, 0, &pids);

	longfile_done(&pids.text);
	return r < 0 ? r : (ssize_t) pids.total;
}

ssize_t cgroup_pids(const struct root *root, const char *path, pid_t *pids, size_t n)
{
	struct cgroup_mounts mounts;
	char plain[CGROUP_PATH];
	int r = cgroup_mounts_read(root, &mounts);

	if (r < 0)
		return r;
	const struct cgroup_mount *mount = &mounts.of[cgroup_charging(&mounts)];

	r = cgroup_given(mount, path, plain);
	return r < 0 ? r : cgroup_pids_in(root, mount, plain, pids, n);
}

/* ---- the same processes in another hierarchy ---------------------------------------------------------------------- */

enum {
	TWIN_PIDS = 8192,
	TWIN_TRIES = 3
};

static int by_pid(const void *a, const void *b)
{
	pid_t x = *(const pid_t *) a, y = *(const pid_t *) b;

	return (x > y) - (x < y);
}

/* The processes of a group, sorted. -EFBIG: too many to compare. */
static ssize_t sorted_pids(
	const struct root *root, const struct cgroup_mount *mount, const char *path, pid_t *pids)
{
	ssize_t n = cgroup_pids_in(root, mount, path, pids, TWIN_PIDS);

	if (n > TWIN_PIDS)
		return -EFBIG;
	if (n > 0)
		qsort(pids, (size_t) n, sizeof(*pids), by_pid);
	return n;
}

/* The path in that hierarchy of one of the processes; the memory group's path if none is left. */
static int twin_path(const struct root *root, const struct cgroup_mount *mount,
	enum cgroup_hierarchy hierarchy, pid_t pid, const char *path, char ret[CGROUP_PATH])
{
	struct longfile text = { 0 };
	struct cgroup_line line;
	char file[32];
	int r = -ENOENT;

	if (pid <= 0) {
		snprintf(ret, CGROUP_PATH, "%s", path);
		return 0;
	}
	snprintf(file, sizeof(file), "%d/cgroup", (int) pid);
	if (longfile_read(&text, root->proc, file) > 0 && cgroup_line_of(text.data, hierarchy, &line))
		r = cgroup_below(mount, line.path, line.path_len, ret);
	longfile_done(&text);
	return r;
}

static bool is_below(const char *path, const char *group)
{
	const size_t len = strcmp(group, "/") == 0 ? 0 : strlen(group);

	return strncmp(path, group, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Whether one of the m processes is in another memory group than the one at path, which has n. A
 * process that just started or ended is not: it is in none or in this one. */
static bool has_stranger(const struct root *root, const struct cgroup_mounts *mounts, const char *path,
	const pid_t *pids, size_t n, const pid_t *others, size_t m)
{
	enum {
		SAMPLED_PIDS = 8
	};
	const struct cgroup_mount *mount = &mounts->of[CGROUP_MEMORY];
	char its[CGROUP_PATH];
	int asked = 0;

	for (size_t i = 0; i < m && asked < SAMPLED_PIDS; i++) {
		if (bsearch(&others[i], pids, n, sizeof(*pids), by_pid))
			continue;
		asked++;
		if (twin_path(root, mount, CGROUP_MEMORY, others[i], path, its) == 0 && !is_below(its, path))
			return true;
	}
	return false;
}

/* pids has room for two lists of TWIN_PIDS. Returns 1 if the group has a twin, 0 if that is
 * undecided, or -errno; -EXDEV: it has none. */
static int find_twin(const struct root *root, const struct cgroup_mounts *mounts, const char *path,
	enum cgroup_hierarchy hierarchy, pid_t *pids, char ret[CGROUP_PATH])
{
	const struct cgroup_mount *mount = &mounts->of[hierarchy];
	ssize_t n = sorted_pids(root, &mounts->of[CGROUP_MEMORY], path, pids);

	if (n < 0)
		return (int) n;
	int r = twin_path(root, mount, hierarchy, n > 0 ? pids[0] : 0, path, ret);

	if (r < 0)
		return r;
	ssize_t m = sorted_pids(root, mount, ret, pids + TWIN_PIDS);

	if (m < 0)
		return (int) m;
	if (m == n && memcmp(pids, pids + TWIN_PIDS, (size_t) n * sizeof(*pids)) == 0)
		return 1;
	return has_stranger(root, mounts, path, pids, (size_t) n, pids + TWIN_PIDS, (size_t) m) ? -EXDEV : 0;
}

/* Processes come and go between the reads, so a difference is checked again. */
int cgroup_twin(const struct root *root, const struct cgroup_mounts *mounts, const char *path,
	enum cgroup_hierarchy hierarchy, char ret[CGROUP_PATH])
{
	char twin[CGROUP_PATH];

	if (!mounts->of[hierarchy].found)
		return -ENOENT;
	autofree pid_t *pids = calloc(2 * TWIN_PIDS, sizeof(*pids));

	if (!pids)
		return -ENOMEM;
	for (int i = 0; i < TWIN_TRIES; i++) {
		int r = find_twin(root, mounts, path, hierarchy, pids, twin);

		if (r == 1) {
			memcpy(ret, twin, sizeof(twin));
			return 0;
		}
		if (r == -EXDEV)
			break;
		if (r < 0 && r != -ENOENT && r != -ESRCH)
			return r;
	}
	return -ENOENT;
}

/* ---- how many more may be started ---------------------------------------------------------------------------------- */

/* Of one group. */
static int64_t left_in(int dir)
{
	char most[32], now[32];
	const char *p = most, *q = now;
	uint64_t limit, used;

	if (smallfile_read(dir, "pids.max", most, sizeof(most)) <= 0 || parse_u64(&p, &limit) < 0 ||
		limit > INT64_MAX) /* "max" */
		return INT64_MAX;
	if (smallfile_read(dir, "pids.current", now, sizeof(now)) <= 0 || parse_u64(&q, &used) < 0)
		return INT64_MAX;
	return used < limit ? (int64_t) (limit - used) : 0;
}

int64_t cgroup_processes_left(const struct root *root)
{
	struct cgroup_mounts mounts;
	int64_t left = INT64_MAX;
	char path[CGROUP_PATH];

	if (cgroup_mounts_read(root, &mounts) < 0)
		return INT64_MAX;
	const enum cgroup_hierarchy hierarchy =
		mounts.of[CGROUP_PIDS].found ? CGROUP_PIDS : CGROUP_UNIFIED;

	if (!mounts.of[hierarchy].found || cgroup_own_path(root, &mounts, hierarchy, path) < 0)
		return INT64_MAX;
	for (char *slash = path;; *slash = '\0') {
		autoclose int dir = cgroup_open_dir(root, &mounts.of[hierarchy], *path ? path : "/");
		const int64_t here = dir < 0 ? INT64_MAX : left_in(dir);

		left = here < left ? here : left;
		slash = strrchr(path, '/');
		if (!slash || !slash[1])
			return left;
	}
}
