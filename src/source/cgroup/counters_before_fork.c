/* SPDX-License-Identifier: MIT
 *
 * Kernel counters read before the job starts, when no source is open yet.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/longfile.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/cgroup/path.h"
#include "source/host/parse.h"
#include "source/report_once.h"

static struct vmstat of_machine(const struct root *root)
{
	struct longfile text = { 0 };
	struct vmstat v = { .oom_kills = UNKNOWN, .thp_faults = UNKNOWN };

	if (longfile_read(&text, root->proc, "vmstat") > 0)
		vmstat_parse(text.data, &v);
	longfile_done(&text);
	return v;
}

/* The same files and keys as in the tables of cgroup.c. */
static struct maybe of_group(
	const struct root *root, const struct cgroup_mount *mount, bool v2, const char *path)
{
	autoclose int dir = cgroup_open_dir(root, mount, path);
	char text[512];
	uint64_t kills = 0;
	ssize_t n = dir;

	if (dir >= 0)
		n = smallfile_read(dir, v2 ? "memory.events" : "memory.oom_control", text, sizeof(text));
	if (n == -ENOENT && dir >= 0 && v2)
		n = smallfile_read(dir, "memory.events.local", text, sizeof(text));
	const int r = n > 0 ? parse_flat(text, "oom_kill", &kills) : -ENODATA;

	return maybe_count(r, kills, 1);
}

_Static_assert(
	sizeof(((struct counters_before_fork *) 0)->path) == CGROUP_PATH, "it holds any path that is taken");

void counters_before_fork_read(const struct root *root, bool no_cgroup, struct counters_before_fork *ret)
{
	const struct vmstat v = of_machine(root);
	struct cgroup_mounts mounts;

	*ret = (struct counters_before_fork) { .oom_kills = v.oom_kills, .thp_faults = v.thp_faults };
	if (no_cgroup || cgroup_mounts_read(root, &mounts) < 0)
		return;
	const enum cgroup_hierarchy hierarchy = cgroup_charging(&mounts);

	if (cgroup_own_path(root, &mounts, hierarchy, ret->path) == 0)
		ret->cgroup_oom_kills = of_group(
			root, &mounts.of[hierarchy], hierarchy == CGROUP_UNIFIED, ret->path);
	else
		ret->path[0] = '\0';
}
