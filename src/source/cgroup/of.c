/* SPDX-License-Identifier: MIT
 *
 * The cgroup of a process and the limits that apply to it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/longfile.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/cgroup/path.h"
#include "source/report_once.h"

/* v1 writes "no limit" as the largest multiple of the page size (PAGE_COUNTER_MAX). */
#define NO_MACHINE_HAS ((uint64_t) 1 << 60)

/* Parses a line that is one number and nothing else. */
static int line_number(const char *text, uint64_t *ret)
{
	uint64_t value;
	int r = parse_u64(&text, &value);

	if (r < 0 || (*text != '\n' && *text != '\0'))
		return r < 0 ? r : -EBADMSG;
	*ret = value;
	return 0;
}

struct maybe cgroup_limit_parse(const char *text, bool v2)
{
	uint64_t value = 0;
	int r = line_number(text, &value);

	if (r == 0 && !v2 && value > NO_MACHINE_HAS)
		return UNKNOWN;
	return maybe_count(r, value, 1);
}

static struct maybe cpu_ppm(uint64_t quota_us, uint64_t period_us)
{
	uint64_t scaled;

	if (period_us == 0 || __builtin_mul_overflow(quota_us, (uint64_t) 1000000, &scaled))
		return UNKNOWN;
	return maybe_count(0, scaled / period_us, 1);
}

struct maybe cgroup_cpu_max_parse(const char *text)
{
	uint64_t quota, period;

	if (parse_u64(&text, &quota) < 0 || *text != ' ') /* "max 100000": no quota */
		return UNKNOWN;
	parse_blanks(&text);
	return line_number(text, &period) < 0 ? UNKNOWN : cpu_ppm(quota, period);
}

/* ---- limits of one group ------------------------------------------------------------------------------------------ */

static struct maybe memory_v1(int dir)
{
	char text[64];

	if (smallfile_read(dir, "memory.limit_in_bytes", text, sizeof(text)) < 0)
		return UNKNOWN;
	return cgroup_limit_parse(text, false);
}

static struct maybe memory_v2(int dir)
{
	char text[64];

	if (smallfile_read(dir, "memory.max", text, sizeof(text)) < 0)
		return UNKNOWN;
	return cgroup_limit_parse(text, true);
}

static struct maybe cpu_v1(int dir)
{
	char quota_text[64], period_text[64];
	uint64_t quota, period;

	if (smallfile_read(dir, "cpu.cfs_quota_us", quota_text, sizeof(quota_text)) < 0 ||
		smallfile_read(dir, "cpu.cfs_period_us", period_text, sizeof(period_text)) < 0)
		return UNKNOWN;
	/* quota -1: none */
	if (line_number(quota_text, &quota) < 0 || line_number(period_text, &period) < 0)
		return UNKNOWN;
	return cpu_ppm(quota, period);
}

static struct maybe cpu_v2(int dir)
{
	char text[64];

	if (smallfile_read(dir, "cpu.max", text, sizeof(text)) < 0)
		return UNKNOWN;
	return cgroup_cpu_max_parse(text);
}

/* The smallest limit from the group up to the top of the mount, and the nearest group that has it:
 * path itself if none has a limit. ret_at may be NULL. */
static struct maybe smallest(const struct root *root, const struct cgroup_mount *mount, const char *path,
	struct maybe (*read_limit)(int dir), char *ret_at)
{
	struct maybe least = UNKNOWN;
	char at[CGROUP_PATH];

	snprintf(at, sizeof(at), "%s", path);
	if (ret_at)
		memcpy(ret_at, at, sizeof(at));
	for (;;) {
		autoclose int dir = cgroup_open_dir(root, mount, at);
		const struct maybe limit = dir < 0 ? UNKNOWN : read_limit(dir);
		char *slash = strrchr(at, '/');

		if (ret_at && limit.known && (!least.known || limit.value < least.value))
			memcpy(ret_at, at, sizeof(at));
		least = maybe_min(least, limit);
		if (!slash || strcmp(at, "/") == 0)
			return least;
		slash[slash == at] = '\0'; /* "/a" becomes "/" */
	}
}

/* The kernel's own view of the smallest limit on v1, which includes groups above a container's
 * mount. */
static struct maybe hierarchical_limit(
	const struct root *root, const struct cgroup_mount *mount, const char *path)
{
	autoclose int dir = cgroup_open_dir(root, mount, path);
	char text[8192];
	uint64_t value = 0;

	if (dir < 0 || smallfile_read(dir, "memory.stat", text, sizeof(text)) < 0)
		return UNKNOWN;
	int r = parse_flat(text, "hierarchical_memory_limit", &value);

	return value > NO_MACHINE_HAS ? UNKNOWN : maybe_count(r, value, 1);
}

/* v1 accepts a limit of any size; one above the machine's memory has no effect. */
static struct maybe below_memory(const struct root *root, struct maybe limit)
{
	char text[4096];
	uint64_t total = 0;

	if (limit.known && smallfile_read(root->proc, "meminfo", text, sizeof(text)) > 0 &&
		parse_key(text, "MemTotal", &total) == 0 && (uint64_t) limit.value >= total)
		return UNKNOWN;
	return limit;
}

static struct maybe memory_limit(const struct root *root, const struct cgroup_mount *mount, const char *path,
	bool v2, char ret_at[CGROUP_PATH])
{
	const struct maybe in_sight = smallest(root, mount, path, v2 ? memory_v2 : memory_v1, ret_at);
	const struct maybe all = v2 ? UNKNOWN : hierarchical_limit(root, mount, path);

	if (v2)
		return in_sight;
	if (all.known && (!in_sight.known || all.value < in_sight.value))
		memcpy(ret_at, path, strlen(path) + 1); /* of a group above the mount */
	return below_memory(root, maybe_min(in_sight, all));
}

static struct maybe cpu_limit(const struct root *root, const struct cgroup_mounts *mounts, const char *text,
	char ret_at[CGROUP_PATH])
{
	const enum cgroup_hierarchy hierarchy = cgroup_with_quota(mounts);
	const struct cgroup_mount *mount = &mounts->of[hierarchy];
	struct cgroup_line line;
	char path[CGROUP_PATH];

	if (!mount->found || !cgroup_line_of(text, hierarchy, &line) ||
		cgroup_below(mount, line.path, line.path_len, path) < 0)
		return UNKNOWN;
	return smallest(root, mount, path, hierarchy == CGROUP_UNIFIED ? cpu_v2 : cpu_v1, ret_at);
}

/* ---- the group of a process --------------------------------------------------------------------------------------- */

/* The path in the hierarchy that charges memory decides first. A batch system's or engine's name
 * may appear only in another hierarchy (Slurm without memory limits creates groups only for devices
 * or cpusets), and for a container that sees itself as "/" only in the mounted folder. systemd also
 * has a named hierarchy of its own: there its name proves nothing. */
static const char *find_scheduler(const char *text, const struct cgroup_line *charging,
	const struct cgroup_mount *mount)
{
	const char *own = cgroup_scheduler(charging->path, charging->path_len);
	const char *found = cgroup_scheduler(mount->root, strlen(mount->root));
	struct cgroup_line line;

	if (*own == '\0' || strcmp(own, "systemd") == 0) {
		own = *found ? found : own;
		while (cgroup_line_next(&text, &line)) {
			found = cgroup_scheduler(line.path, line.path_len);
			if (*found && strcmp(found, "systemd") != 0)
				return found;
		}
	}
	return own;
}

static int facts_read(const struct root *root, const char *text, struct cgroup_facts *ret)
{
	struct cgroup_mounts mounts;
	struct cgroup_line line;
	char path[CGROUP_PATH];
	int r = cgroup_mounts_read(root, &mounts);

	if (r < 0)
		return r;
	enum cgroup_hierarchy hierarchy = cgroup_charging(&mounts);
	const struct cgroup_mount *mount = &mounts.of[hierarchy];

	if (!cgroup_line_of(text, hierarchy, &line))
		return -ENOENT;
	r = cgroup_below(mount, line.path, line.path_len, path);
	if (r < 0)
		return r;
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->path, path, sizeof(ret->path));
	ret->v2 = hierarchy == CGROUP_UNIFIED;
	ret->limit_bytes = memory_limit(root, mount, path, ret->v2, ret->limit_path);
	ret->cpu_limit_ppm = cpu_limit(root, &mounts, text, ret->cpu_path);
	ret->scheduler = find_scheduler(text, &line, mount);
	return 0;
}

_Static_assert(sizeof(((struct cgroup_facts *) 0)->path) == CGROUP_PATH, "both hold any path that is taken");
_Static_assert(sizeof(((struct cgroup_facts *) 0)->limit_path) == CGROUP_PATH, "likewise");
_Static_assert(sizeof(((struct cgroup_facts *) 0)->cpu_path) == CGROUP_PATH, "likewise");

int cgroup_of(const struct root *root, pid_t pid, struct cgroup_facts *ret)
{
	struct longfile text = { 0 };
	char file[32];

	snprintf(file, sizeof(file), "%d/cgroup", (int) pid);
	ssize_t n = longfile_read(&text, root->proc, pid > 0 ? file : "self/cgroup");
	int r = n < 0 ? (int) n : facts_read(root, text.data, ret);

	longfile_done(&text);
	return r;
}

/* On v1 the cpu hierarchy is separate and this group's place in it is unknown, so no quota is
 * reported. */
int cgroup_at(const struct root *root, const char *path, struct cgroup_facts *ret)
{
	struct cgroup_mounts mounts;
	char plain[CGROUP_PATH];
	int r = cgroup_mounts_read(root, &mounts);

	if (r < 0)
		return r;
	const enum cgroup_hierarchy hierarchy = cgroup_charging(&mounts);
	const struct cgroup_mount *mount = &mounts.of[hierarchy];

	r = cgroup_given(mount, path, plain);
	autoclose int dir = r < 0 ? r : cgroup_open_dir(root, mount, plain);

	if (dir < 0)
		return dir;
	*ret = (struct cgroup_facts) { .v2 = hierarchy == CGROUP_UNIFIED };
	memcpy(ret->path, plain, strlen(plain) + 1);
	ret->limit_bytes = memory_limit(root, mount, plain, ret->v2, ret->limit_path);
	if (ret->v2)
		ret->cpu_limit_ppm = smallest(root, mount, plain, cpu_v2, ret->cpu_path);
	ret->scheduler = cgroup_scheduler(plain, strlen(plain));
	return 0;
}

bool cgroup_is_common(const struct root *root, pid_t a, pid_t b)
{
	enum {
		GROUPS_SIZE = 4096
	};
	char text[2][GROUPS_SIZE], path[32];
	const pid_t pids[2] = { a, b };

	for (int i = 0; i < 2; i++) {
		(void) snprintf(path, sizeof(path), "%d/cgroup", (int) pids[i]);
		if (smallfile_read(root->proc, path, text[i], sizeof(text[i])) <= 0)
			return false;
	}
	return strcmp(text[0], text[1]) == 0;
}
