/* SPDX-License-Identifier: MIT
 *
 * The memory and CPU time that the kernel charges to the job's cgroup.
 * Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst, cgroup-v1/cpuacct.rst. The tables
 * below say which metric is in which file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/cgroup/path.h"
#include "source/source.h"
#include "source/report_once.h"

enum {
	MEMORY = 1 << 0,
	DETAIL = 1 << 1,
	EVENTS = 1 << 2,
	QUOTA = 1 << 3,
	LIMIT = 1 << 4
};

static const struct source_group groups[] = {
	{ .name = "memory" },
	{ .name = "detail", .period_ns = 1000000000 },
	{ .name = "events", .period_ns = 1000000000, .for_all = true },
	/* all processes in the group are throttled together */
	{ .name = "quota", .period_ns = 1000000000, .for_all = true },
	/* all processes in the group with the limit fill it together */
	{ .name = "limit", .period_ns = 1000000000, .for_all = true },
};

/* One metric of a group. Rows of the same file are adjacent: the file is read once for all of them. */
struct row {
	enum metric metric;
	enum cgroup_hierarchy hierarchy;
	unsigned group;
	const char *file, *other_file; /* other_file: used if file does not exist; NULL: none */
	/* a sum of keys, "anon -shmem"; after a "|" the one of kernels that lack a key; NULL: the file is a
	 * single number */
	const char *key;
	uint64_t scale;
	const char *how, *missing, *remedy;
};

#define NO_TWIN "no cpuacct group has exactly these processes"

static const struct row rows_v2[] = {
	{ M_JOB_CGROUP_MEM, CGROUP_UNIFIED, MEMORY, "memory.current", NULL, NULL, 1,
		"cgroup v2 memory.current", "the memory controller is not enabled for this group",
		"enable it in the parent group" },
	{ M_JOB_CGROUP_PEAK, CGROUP_UNIFIED, MEMORY, "memory.peak", NULL, NULL, 1,
		"cgroup v2 memory.peak, once it belongs to this run", "no memory.peak",
		"Linux 5.19 or newer" },
	{ M_JOB_CGROUP_ANON, CGROUP_UNIFIED, DETAIL, "memory.stat", NULL, "anon", 1,
		"cgroup v2 memory.stat anon", "the memory controller is not enabled for this group", "" },
	{ M_JOB_CGROUP_FILE, CGROUP_UNIFIED, DETAIL, "memory.stat", NULL, "file -shmem", 1,
		"cgroup v2 memory.stat file - shmem", "the memory controller is not enabled for this group", "" },
	{ M_JOB_CGROUP_SHMEM, CGROUP_UNIFIED, DETAIL, "memory.stat", NULL, "shmem", 1,
		"cgroup v2 memory.stat shmem", "the memory controller is not enabled for this group", "" },
	{ M_JOB_CGROUP_KERNEL, CGROUP_UNIFIED, DETAIL, "memory.stat", NULL, "kernel", 1,
		"cgroup v2 memory.stat kernel", "memory.stat has no such line", "Linux 5.18 or newer" },
	{ M_JOB_OOM_KILLS, CGROUP_UNIFIED, EVENTS, "memory.events", "memory.events.local", "oom_kill", 1,
		"cgroup v2 memory.events oom_kill", "the memory controller is not enabled for this group",
		"" },
	{ M_JOB_CGROUP_CPU, CGROUP_UNIFIED, DETAIL, "cpu.stat", NULL, "usage_usec", 1000,
		"cgroup v2 cpu.stat usage_usec", "no cpu.stat", "Linux 4.15 or newer" },
};

/* total_* include the groups below. memory.oom_control counts the kills in this group alone. */
static const struct row rows_v1[] = {
	{ M_JOB_CGROUP_MEM, CGROUP_MEMORY, MEMORY, "memory.usage_in_bytes", NULL, NULL, 1,
		"cgroup v1 memory.usage_in_bytes", "no memory.usage_in_bytes", "" },
	{ M_JOB_CGROUP_PEAK, CGROUP_MEMORY, MEMORY, "memory.max_usage_in_bytes", NULL, NULL, 1,
		"cgroup v1 memory.max_usage_in_bytes, once it belongs to this run",
		"no memory.max_usage_in_bytes", "" },
	{ M_JOB_CGROUP_ANON, CGROUP_MEMORY, DETAIL, "memory.stat", NULL, "total_rss", 1,
		"cgroup v1 memory.stat total_rss", "no memory.stat", "" },
	{ M_JOB_CGROUP_FILE, CGROUP_MEMORY, DETAIL, "memory.stat", NULL, "total_cache -total_shmem", 1,
		"cgroup v1 memory.stat total_cache - total_shmem", "memory.stat has no such lines",
		"Linux 4.12 or newer" },
	{ M_JOB_CGROUP_SHMEM, CGROUP_MEMORY, DETAIL, "memory.stat", NULL, "total_shmem", 1,
		"cgroup v1 memory.stat total_shmem", "memory.stat has no such line", "Linux 4.12 or newer" },
	{ M_JOB_CGROUP_KERNEL, CGROUP_MEMORY, DETAIL, "memory.kmem.usage_in_bytes", NULL, NULL, 1,
		"cgroup v1 memory.kmem.usage_in_bytes", "this kernel does not account for kernel memory",
		"" },
	{ M_JOB_OOM_KILLS, CGROUP_MEMORY, EVENTS, "memory.oom_control", NULL, "oom_kill", 1,
		"cgroup v1 memory.oom_control oom_kill, this group alone",
		"memory.oom_control does not count kills", "Linux 4.13 or newer" },
	{ M_JOB_CGROUP_CPU, CGROUP_CPUACCT, DETAIL, "cpuacct.usage", NULL, NULL, 1, "cgroup v1 cpuacct.usage",
		NO_TWIN, "" },
};

#define NO_CPU_V2 "the cpu controller is not enabled for this group"
#define NO_CPU_V1 "no cpu group has exactly these processes, and the group's own is not known"

static const struct row quota_v2[] = {
	{ M_JOB_CGROUP_THROTTLED, CGROUP_UNIFIED, QUOTA, "cpu.stat", NULL, "throttled_usec", 1000,
		"cgroup v2 cpu.stat throttled_usec", NO_CPU_V2, "enable it in the parent group" },
	{ M_JOB_CGROUP_PERIODS, CGROUP_UNIFIED, QUOTA, "cpu.stat", NULL, "nr_periods", 1,
		"cgroup v2 cpu.stat nr_periods", NO_CPU_V2, "enable it in the parent group" },
	{ M_JOB_CGROUP_THROTTLED_PERIODS, CGROUP_UNIFIED, QUOTA, "cpu.stat", NULL, "nr_throttled", 1,
		"cgroup v2 cpu.stat nr_throttled", NO_CPU_V2, "enable it in the parent group" },
};

static const struct row quota_v1[] = {
	{ M_JOB_CGROUP_THROTTLED, CGROUP_CPU, QUOTA, "cpu.stat", NULL, "throttled_time", 1,
		"cgroup v1 cpu.stat throttled_time", NO_CPU_V1, "" },
	{ M_JOB_CGROUP_PERIODS, CGROUP_CPU, QUOTA, "cpu.stat", NULL, "nr_periods", 1,
		"cgroup v1 cpu.stat nr_periods", NO_CPU_V1, "" },
	{ M_JOB_CGROUP_THROTTLED_PERIODS, CGROUP_CPU, QUOTA, "cpu.stat", NULL, "nr_throttled", 1,
		"cgroup v1 cpu.stat nr_throttled", NO_CPU_V1, "" },
};

#define NO_LIMIT_GROUP "no memory limit applies to the job, or its group cannot be read"
/* without a key that only newer kernels have */
#define OLDER_UNRECLAIMABLE "|anon shmem slab_unreclaimable kernel_stack"

static const struct row limit_v2[] = {
	{ M_JOB_LIMIT_UNRECLAIMABLE, CGROUP_UNIFIED, LIMIT, "memory.stat", NULL,
		"anon shmem kernel -slab_reclaimable" OLDER_UNRECLAIMABLE, 1,
		"cgroup v2 memory.stat of the group with the limit", NO_LIMIT_GROUP, "" },
	{ M_JOB_LIMIT_SHMEM, CGROUP_UNIFIED, LIMIT, "memory.stat", NULL, "shmem", 1,
		"cgroup v2 memory.stat of the group with the limit", NO_LIMIT_GROUP, "" },
};

/* v1 does not separate the kernel's reclaimable memory, so the sum has none of it. */
static const struct row limit_v1[] = {
	{ M_JOB_LIMIT_UNRECLAIMABLE, CGROUP_MEMORY, LIMIT, "memory.stat", NULL, "total_rss total_shmem", 1,
		"cgroup v1 memory.stat of the group with the limit", NO_LIMIT_GROUP, "" },
	{ M_JOB_LIMIT_SHMEM, CGROUP_MEMORY, LIMIT, "memory.stat", NULL, "total_shmem", 1,
		"cgroup v1 memory.stat of the group with the limit", NO_LIMIT_GROUP, "" },
};

#define LENGTH(rows) (sizeof(rows) / sizeof((rows)[0]))

enum {
	CHARGED = LENGTH(rows_v1),
	QUOTAS = LENGTH(quota_v1),
	ROWS = CHARGED + QUOTAS + LENGTH(limit_v1)
};
_Static_assert(LENGTH(rows_v1) == LENGTH(rows_v2), "the same metrics in both");
_Static_assert(LENGTH(quota_v1) == LENGTH(quota_v2), "likewise");
_Static_assert(LENGTH(limit_v1) == LENGTH(limit_v2), "likewise");

struct source {
	const struct row *rows[ROWS]; /* rows of the charged group, then the quota's, which may be
	                               * in another hierarchy */
	int fds[ROWS];         /* -1: could not be opened; of rows with the same file, the first one
	                        * has the descriptor */
	int errors[ROWS];      /* 0, or why the file cannot be read */
	bool peak_is_ours;     /* the peak contains nothing from before this run */
	int64_t peak_before;   /* the peak at its first read */
	struct maybe limit;    /* of the group with the limit, in bytes */
	int64_t charged_at_detail; /* the charge when that group was last read */
	struct report_once once;
};

/* ---- opening ------------------------------------------------------------------------------------------------------ */

/* The group with the quota may differ from the charged one: each has a cpu.stat of its own. */
static bool shares_file(const struct source *s, size_t i)
{
	const struct row *row = s->rows[i], *before = i > 0 ? s->rows[i - 1] : NULL;

	return before && row->hierarchy == before->hierarchy && row->group == before->group &&
	       strcmp(row->file, before->file) == 0;
}

/* The folders of the rows' files; -errno: not available. */
struct dirs {
	int fd[CGROUP_HIERARCHIES];
	int quota, limit;
};

static void dirs_done(const struct dirs *dirs)
{
	for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
		if (dirs->fd[i] >= 0)
			(void) close(dirs->fd[i]);
	}
	if (dirs->quota >= 0)
		(void) close(dirs->quota);
	if (dirs->limit >= 0)
		(void) close(dirs->limit);
}

static int open_twin(
	const struct source_env *env, const struct cgroup_mounts *mounts, enum cgroup_hierarchy hierarchy)
{
	char twin[CGROUP_PATH];
	int r = env->cgroup_shared ? -ENOENT : cgroup_twin(env->root, mounts, env->cgroup, hierarchy, twin);

	return r < 0 ? r : cgroup_open_dir(env->root, &mounts->of[hierarchy], twin);
}

/* If the group whose quota throttles the job is unknown, the charged group is used. */
static int open_quota(
	const struct source_env *env, const struct cgroup_mounts *mounts, enum cgroup_hierarchy charging)
{
	const enum cgroup_hierarchy hierarchy = cgroup_with_quota(mounts);
	const char *path = env->cgroup_cpu && env->cgroup_cpu[0] ? env->cgroup_cpu
			   : charging == hierarchy               ? env->cgroup
								 : NULL;

	return path ? cgroup_open_dir(env->root, &mounts->of[hierarchy], path)
		    : open_twin(env, mounts, hierarchy);
}

static const struct row *row_at(
	size_t i, const struct row *charged, const struct row *quota, const struct row *limit)
{
	if (i < CHARGED)
		return &charged[i];
	return i < CHARGED + QUOTAS ? &quota[i - CHARGED] : &limit[i - CHARGED - QUOTAS];
}

/* Returns 0 if the group that charges memory was found, or -errno; *ret then says which rows exist. */
static int open_dirs(const struct source_env *env, struct dirs *dirs, struct source *ret)
{
	struct cgroup_mounts mounts;

	for (int i = 0; i < CGROUP_HIERARCHIES; i++)
		dirs->fd[i] = -ENOENT;
	dirs->quota = dirs->limit = -ENOENT;
	int r = env->cgroup && env->cgroup[0] ? cgroup_mounts_read(env->root, &mounts) : -ENOENT;

	if (r < 0)
		return r;
	const enum cgroup_hierarchy charging = cgroup_charging(&mounts);
	const struct row *charged = charging == CGROUP_UNIFIED ? rows_v2 : rows_v1;
	const struct row *quota = cgroup_with_quota(&mounts) == CGROUP_UNIFIED ? quota_v2 : quota_v1;
	const struct row *limit = charging == CGROUP_UNIFIED ? limit_v2 : limit_v1;

	for (size_t i = 0; i < ROWS; i++)
		ret->rows[i] = row_at(i, charged, quota, limit);
	dirs->fd[charging] = cgroup_open_dir(env->root, &mounts.of[charging], env->cgroup);
	if (dirs->fd[charging] < 0)
		return dirs->fd[charging];
	if (charging == CGROUP_MEMORY)
		dirs->fd[CGROUP_CPUACCT] = open_twin(env, &mounts, CGROUP_CPUACCT);
	dirs->quota = open_quota(env, &mounts, charging);
	if (env->cgroup_limit)
		dirs->limit = cgroup_open_dir(env->root, &mounts.of[charging], env->cgroup_limit);
	return 0;
}

/* Since Linux 6.12 a write to memory.peak resets the peak for this descriptor alone. Returns the
 * descriptor, or -errno if the kernel is older or the file is not writable. */
static int open_own_peak(int dir, const char *file)
{
	autoclose int fd = openat(dir, file, O_RDWR | O_CLOEXEC);

	if (fd < 0 || write(fd, "reset\n", 6) < 0)
		return -errno;
	return take_fd(fd);
}

static void open_row(struct source *s, size_t i, const struct source_env *env, const struct dirs *dirs)
{
	const struct row *row = s->rows[i];
	int dir = row->group == QUOTA   ? dirs->quota
		  : row->group == LIMIT ? dirs->limit
					: dirs->fd[row->hierarchy];

	if (shares_file(s, i)) {
		s->fds[i] = -1;
		return;
	}
	int fd = -1;

	if (dir >= 0 && row->metric == M_JOB_CGROUP_PEAK && row->hierarchy == CGROUP_UNIFIED &&
		env->root->live) {
		fd = open_own_peak(dir, row->file);
		s->peak_is_ours = fd >= 0;
	}
	if (fd < 0)
		fd = dir < 0 ? dir : smallfile_open(dir, row->file);
	if (fd == -ENOENT && dir >= 0 && row->other_file)
		fd = smallfile_open(dir, row->other_file);
	s->fds[i] = fd;
	s->errors[i] = fd < 0 ? fd : 0;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static int whole_number(const char *text, uint64_t *ret)
{
	uint64_t value;
	int r = parse_u64(&text, &value);

	if (r < 0 || *text != '\n')
		return r < 0 ? r : -EBADMSG;
	*ret = value;
	return 0;
}

/* The sum of keys, "anon shmem -slab"; -ENOENT if the text lacks one of them. Parts that are read one
 * after the other by the kernel may not fit together: the sum is not below 0. */
static int sum_up(const char *text, const char *keys, uint64_t *ret)
{
	uint64_t sum = 0, less = 0;

	while (*keys && *keys != '|') {
		const bool is_less = *keys == '-';
		const size_t len = strcspn(keys += is_less, " |");
		char key[32];
		uint64_t value = 0;

		if (len >= sizeof(key))
			return -EINVAL;
		memcpy(key, keys, len);
		key[len] = '\0';
		int r = parse_flat(text, key, &value);

		if (r < 0)
			return r;
		if (__builtin_add_overflow(is_less ? less : sum, value, is_less ? &less : &sum))
			return -ERANGE;
		keys += len + (keys[len] == ' ');
	}
	*ret = sum > less ? sum - less : 0;
	return 0;
}

static int sum_of_keys(const char *text, const char *keys, uint64_t *ret)
{
	const char *older = strchr(keys, '|');
	const int r = sum_up(text, keys, ret);

	return r < 0 && older ? sum_up(text, older + 1, ret) : r;
}

static struct maybe row_value(const struct row *row, const char *text)
{
	uint64_t value = 0;
	int r = row->key ? sum_of_keys(text, row->key, &value) : whole_number(text, &value);

	return maybe_count(r, value, row->scale);
}

/* A peak from before this run is not the run's until it rises. */
static struct maybe own_peak(const struct source *s, struct maybe mark)
{
	return mark.known && (s->peak_is_ours || mark.value > s->peak_before) ? mark : UNKNOWN;
}

static void tell_row(struct source *s, size_t i, const char *text, struct framebuf *out)
{
	struct maybe value = row_value(s->rows[i], text);

	if (s->rows[i]->metric == M_JOB_CGROUP_PEAK)
		value = own_peak(s, value);
	report_once(&s->once, out, s->rows[i]->metric, value);
}

static void read_groups(struct source *s, unsigned group_mask, struct framebuf *out)
{
	char text[8192]; /* memory.stat is about 2 KiB today */

	for (size_t i = 0; i < ROWS; i++) {
		if (!(s->rows[i]->group & group_mask))
			continue;
		if (!shares_file(s, i)) {
			ssize_t n = s->fds[i] < 0 ? s->fds[i]
						  : smallfile_pread(s->fds[i], text, sizeof(text));

			s->errors[i] = n < 0 ? (int) n : 0;
			text[n < 0 ? 0 : n] = '\0';
		} else {
			s->errors[i] = s->errors[i - 1];
		}
		tell_row(s, i, text, out);
	}
}

/* The charge that was just read, if this read has it. */
static struct maybe charge_in(const struct framebuf *out, size_t first)
{
	for (size_t i = first; i < out->n_readings; i++) {
		if (out->readings[i].metric == M_JOB_CGROUP_MEM && out->readings[i].known)
			return known(out->readings[i].value);
	}
	return UNKNOWN;
}

/* True if a group that is a quarter full moved by a sixteenth of it since what fills it was last read: the
 * kernel may end the job, and hiwater, before the next second. */
static bool is_near_limit(const struct source *s, struct maybe charge)
{
	const int64_t moved = charge.value - s->charged_at_detail;

	return s->limit.known && charge.known && charge.value >= s->limit.value / 4 &&
	       (moved >= s->limit.value / 16 || -moved >= s->limit.value / 16);
}

static int cgroup_read(struct source *s, unsigned group_mask, struct framebuf *out)
{
	const size_t first = out->n_readings;

	read_groups(s, group_mask, out);
	const struct maybe charge = charge_in(out, first);

	if (!(group_mask & LIMIT) && is_near_limit(s, charge)) {
		group_mask |= LIMIT | DETAIL;
		read_groups(s, LIMIT | DETAIL, out);
	}
	if (charge.known && (group_mask & LIMIT))
		s->charged_at_detail = charge.value;
	return 0;
}

/* The current value of a metric, outside the samples. */
static struct maybe peek(const struct source *s, enum metric metric)
{
	char text[64];

	for (size_t i = 0; i < ROWS; i++) {
		if (s->rows[i]->metric == metric && s->fds[i] >= 0 &&
			smallfile_pread(s->fds[i], text, sizeof(text)) > 0)
			return row_value(s->rows[i], text);
	}
	return UNKNOWN;
}

/* The peak belongs to this run from its start if it was reset, or if current use equals it, for
 * example in a new group. The peak is read first, so that a rise in between is not missed. */
static void check_peak(struct source *s)
{
	struct maybe mark = peek(s, M_JOB_CGROUP_PEAK), now = peek(s, M_JOB_CGROUP_MEM);

	s->peak_before = mark.known ? mark.value : 0;
	if (mark.known && now.known && now.value >= mark.value)
		s->peak_is_ours = true;
}

/* ---- the source --------------------------------------------------------------------------------------------------- */

static void cgroup_close(struct source *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < ROWS; i++) {
		if (s->fds[i] >= 0)
			(void) close(s->fds[i]);
	}
	free(s);
}

static int cgroup_open(const struct source_env *env, struct source **ret, struct err *err)
{
	struct source *s = calloc(1, sizeof(*s));
	struct dirs dirs;
	bool any = false;

	if (!s)
		return err_set(
			err, -ENOMEM, "cgroup %s: out of memory", env->cgroup ? env->cgroup : "(none)");
	int r = open_dirs(env, &dirs, s);

	if (r < 0) {
		free(s);
		return err_set(err, r, "cgroup %s: %s", env->cgroup ? env->cgroup : "(none)", strerror(-r));
	}
	for (size_t i = 0; i < ROWS; i++) {
		open_row(s, i, env, &dirs);
		any |= s->fds[i] >= 0;
	}
	dirs_done(&dirs);
	if (!any) {
		cgroup_close(s);
		return err_set(err, -ENOENT, "cgroup %s: no file of it can be read", env->cgroup);
	}
	check_peak(s);
	s->limit = env->cgroup_limit_bytes;
	*ret = s;
	return 0;
}

/* ---- availability ------------------------------------------------------------------------------------------------- */

static bool was_known(const struct framebuf *out, enum metric metric)
{
	for (size_t i = 0; i < out->n_readings; i++) {
		if (out->readings[i].metric == metric)
			return out->readings[i].known;
	}
	return false;
}

static void explain(int error, const struct row *row, struct source_probe *ret)
{
	ret->why_not = row->missing;
	ret->remedy = row->remedy;
	if (error == -EACCES || error == -EPERM) {
		ret->why_not = "no permission to read it";
		ret->remedy = "a container may mask it: run hiwater outside the container";
	} else if (error && error != -ENOENT && error != -EBADF && error != -EOPNOTSUPP) {
		ret->why_not = "the file cannot be read";
		ret->remedy = "";
	}
}

#define FIRST_PROCESS "hiwater as the first process of a container or of a Slurm step"

/* How to give the job a cgroup of its own. On a captured machine the caller's permissions are
 * unknown. */
static const char *own_group(const struct root *root)
{
	if (!root->live || cgroup_may_make(root))
		return "--cgroup=new, or " FIRST_PROCESS;
	return CGROUP_DELEGATED
		" hiwater run --cgroup=new (--cgroup=new alone has no permission here), or " FIRST_PROCESS;
}

static void report_row_probe(const struct source *s, size_t i, const struct source_env *env,
	const struct framebuf *out, source_probe_fn *report, void *ctx)
{
	const struct row *row = s->rows[i];
	struct source_probe probe = {
		.metric = row->metric,
		.available = was_known(out, row->metric),
		.how = row->how,
		.why_not = "",
		.remedy = "",
	};

	if (row->metric == M_JOB_CGROUP_PEAK) /* unknown only means that it has not risen yet */
		probe.available = s->errors[i] == 0;
	if (row->group == LIMIT && !env->cgroup_limit) {
		probe.why_not = row->missing;
	} else if (env->cgroup_shared && !(row->group & (EVENTS | QUOTA | LIMIT))) {
		probe.available = false;
		probe.why_not = "other processes are in this cgroup and would be included";
		probe.remedy = own_group(env->root);
	} else if (!probe.available)
		explain(s->errors[i], row, &probe);
	report(ctx, &probe);
}

static void cgroup_probe(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	struct framebuf out = { 0 };
	struct source *s = NULL;

	if (cgroup_open(env, &s, NULL) == 0) {
		(void) cgroup_read(s, MEMORY | DETAIL | EVENTS | QUOTA | LIMIT, &out);
		for (size_t i = 0; i < ROWS; i++)
			report_row_probe(s, i, env, &out, report, ctx);
	} else {
		for (size_t i = 0; i < ROWS; i++) {
			const struct row *row = row_at(i, rows_v2, quota_v2, limit_v2);
			struct source_probe probe = {
				.metric = row->metric,
				.how = row->how,
				.why_not = "no cgroup with memory accounting, or no file of it can be read",
				.remedy = own_group(env->root),
			};

			report(ctx, &probe);
		}
	}
	framebuf_done(&out);
	cgroup_close(s);
}

const struct source_ops source_cgroup = {
	.name = "cgroup",
	.frame = FRAME_CGROUP,
	.groups = groups,
	.n_groups = sizeof(groups) / sizeof(groups[0]),
	.open = cgroup_open,
	.read = cgroup_read,
	.probe = cgroup_probe,
	.close = cgroup_close,
};
