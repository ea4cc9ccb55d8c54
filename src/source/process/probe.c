/* SPDX-License-Identifier: MIT
 *
 * Which process metrics are available here, tested on one process: the recorder itself, or on a
 * captured machine the captured one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/smallfile.h"
#include "source/process/procfs_status.h"
#include "source/process/processes_internal.h"

struct probe {
	const struct source_env *env;
	char text[TEXT_MAX];
	struct procfs_status status;
};

enum probe_file {
	FILE_STATM,
	FILE_STAT,
	FILE_STATUS,
	FILE_IO,
	FILE_ROLLUP,
	FILE_LIMITS,
	FILE_COUNT
};

static int statm_try(struct probe *p)
{
	struct procfs_statm st;

	return procfs_statm_parse(p->text, &st);
}

static int stat_try(struct probe *p)
{
	struct procfs_stat st;

	return procfs_stat_parse(p->text, &st);
}

static int status_try(struct probe *p)
{
	return procfs_status_parse(p->text, &p->status);
}

static int io_try(struct probe *p)
{
	struct procfs_io io;

	return procfs_io_parse(p->text, &io);
}

static int rollup_try(struct probe *p)
{
	struct procfs_rollup rollup;

	return procfs_rollup_parse(p->text, &rollup);
}

static int limits_try(struct probe *p)
{
	return strstr(p->text, "Max address space") ? 0 : -EBADMSG;
}

/* limits is the last file read. */
static bool has_limit(const struct probe *p, enum metric metric)
{
	const bool is_vm = metric == M_PROC_VM || metric == M_PROC_VM_LIMIT;
	const char *const key = is_vm ? "Max address space" : "Max data size";
	const char *at = strstr(p->text, key);

	if (!at)
		return false;
	at += strlen(key);
	at += strspn(at, " ");
	return *at >= '0' && *at <= '9';
}

static const struct {
	const char *name;
	int (*take)(struct probe *p);
	const char *how;
	const char *missing, *remedy; /* if the file does not exist */
} files[FILE_COUNT] = {
	[FILE_STATM] = { "statm", statm_try, "procfs statm, kept descriptor", "no statm file",
		"mount a complete proc file system" },
	[FILE_STAT] = { "stat", stat_try, "procfs stat, kept descriptor", "no stat file",
		"mount a complete proc file system" },
	[FILE_STATUS] = { "status", status_try, "procfs status, kept descriptor", "no status file",
		"mount a complete proc file system" },
	[FILE_IO] = { "io", io_try, "procfs io, kept descriptor",
		"this kernel does not count the I/O of processes",
		"use a kernel with CONFIG_TASK_IO_ACCOUNTING" },
	[FILE_ROLLUP] = { "smaps_rollup", rollup_try, "procfs smaps_rollup, in passes",
		"this kernel has no smaps_rollup", "Linux 4.14 or later" },
	[FILE_LIMITS] = { "limits", limits_try, "prlimit, of processes that have a limit",
		"the limits of its processes are not known", "" },
};

static const struct {
	enum metric metric;
	enum probe_file file;
	size_t line;             /* of struct procfs_status; 0: the whole file */
} rows[] = {
	{ M_PROC_RSS, FILE_STATM, 0 },
	{ M_PROC_RSS_FILE, FILE_STATM, 0 },
	{ M_PROC_HWM, FILE_STATUS, offsetof(struct procfs_status, hwm_bytes) },
	{ M_PROC_PSS, FILE_ROLLUP, 0 },
	{ M_PROC_PRIVATE, FILE_ROLLUP, 0 },
	{ M_PROC_SHARED, FILE_ROLLUP, 0 },
	{ M_PROC_SWAP, FILE_STATUS, offsetof(struct procfs_status, swap_bytes) },
	{ M_PROC_HUGETLB, FILE_STATUS, offsetof(struct procfs_status, hugetlb_bytes) },
	{ M_PROC_THREADS, FILE_STAT, 0 },
	{ M_PROC_CPU_USER, FILE_STAT, 0 },
	{ M_PROC_CPU_SYSTEM, FILE_STAT, 0 },
	{ M_PROC_CPU_WAITED_USER, FILE_STAT, 0 },
	{ M_PROC_CPU_WAITED_SYSTEM, FILE_STAT, 0 },
	{ M_PROC_FAULTS_MINOR, FILE_STAT, 0 },
	{ M_PROC_FAULTS_MAJOR, FILE_STAT, 0 },
	{ M_PROC_FAULTS_WAITED, FILE_STAT, 0 },
	{ M_PROC_READ_BYTES, FILE_IO, 0 },
	{ M_PROC_WRITE_BYTES, FILE_IO, 0 },
	{ M_PROC_WRITE_CANCELLED, FILE_IO, 0 },
	{ M_PROC_READ_CHARS, FILE_IO, 0 },
	{ M_PROC_WRITE_CHARS, FILE_IO, 0 },
	{ M_PROC_SWITCHES, FILE_STATUS, offsetof(struct procfs_status, switches) },
	{ M_PROC_PREEMPTIONS, FILE_STATUS, offsetof(struct procfs_status, preemptions) },
	{ M_PROC_VM, FILE_LIMITS, 0 },
	{ M_PROC_VM_LIMIT, FILE_LIMITS, 0 },
	{ M_PROC_DATA, FILE_LIMITS, 0 },
	{ M_PROC_DATA_LIMIT, FILE_LIMITS, 0 },
};

struct example {
	const struct root *root;
	pid_t with_memory, with_cgroup; /* 0: none yet */
};

static int example_seen(void *ctx, int32_t pid)
{
	struct example *e = ctx;
	char path[PATH_LEN], text[TEXT_MAX];
	struct procfs_statm st;

	/* A kernel thread has no memory, so it is not used. */
	if (smallfile_read(e->root->proc, process_path(path, pid, pid, "statm"), text, sizeof(text)) > 0 &&
		procfs_statm_parse(text, &st) == 0 && st.size > 0) {
		e->with_memory = pid;
		return -ECANCELED;
	}
	if (pid != 1 &&
		smallfile_read(e->root->proc, process_path(path, pid, pid, "cgroup"), text, sizeof(text)) > 0)
		e->with_cgroup = pid;
	return 0;
}

pid_t processes_example(const struct root *root)
{
	struct example e = { .root = root };

	if (root->live)
		return getpid();
	(void) numbers_list(root->proc, ".", example_seen, &e);
	return e.with_memory ? e.with_memory : e.with_cgroup;
}

static int file_try(struct probe *p, enum probe_file file)
{
	char path[PATH_LEN];
	ssize_t n;

	const int32_t pid = p->env->recorder_pid;

	if (pid <= 0)
		return -ESRCH;
	(void) process_path(path, pid, pid, files[file].name);
	n = smallfile_read(p->env->root->proc, path, p->text, sizeof(p->text));
	return n < 0 ? (int) n : files[file].take(p);
}

static struct source_probe row_probe(const struct probe *p, size_t i, const int *result)
{
	enum probe_file file = rows[i].file;
	int r = result[file];
	struct source_probe probe = {
		.metric = rows[i].metric, .how = files[file].how, .why_not = "", .remedy = ""
	};

	if (r == 0 && rows[i].line > 0 &&
		!((const struct maybe *) (const void *) ((const char *) &p->status + rows[i].line))->known)
		probe.why_not = "this kernel's status file has no such line";
	else if (r == 0 && file == FILE_LIMITS && !has_limit(p, rows[i].metric))
		probe.why_not = "the process has no such limit";
	else if (r == -ENOENT) {
		probe.why_not = files[file].missing;
		probe.remedy = files[file].remedy;
	} else if (r == -ESRCH)
		probe.why_not = "no process is visible";
	else if (r == -EACCES || r == -EPERM) {
		probe.why_not = "no permission to read it";
		probe.remedy = "run hiwater as the job's user";
	} else if (r < 0)
		probe.why_not = "the file could not be read or parsed";
	probe.available = probe.why_not[0] == '\0';
	return probe;
}

void processes_probe(const struct source_env *env, source_probe_fn *report, void *ctx)
{
	struct probe p = { .env = env };
	const struct proc_lack *const foreign = processes_proc_lack(env->root);
	int result[FILE_COUNT];

	for (enum probe_file file = 0; file < FILE_COUNT; file++)
		result[file] = file_try(&p, file);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct source_probe probe = row_probe(&p, i, result);

		if (foreign) {
			probe.available = false;
			probe.why_not = foreign->why;
			probe.remedy = foreign->remedy;
		}
		report(ctx, &probe);
	}
}
