/* SPDX-License-Identifier: MIT
 *
 * The process source: creation, exclusion of processes, and calls for single members.
 */
#include "source/process/processes_internal.h"

#include <errno.h>
#include <stdio.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/smallfile.h"
#include "source/process/procfs_status.h"

/* How long a verified pid counts as ignored without another check. */
static const uint64_t verified_ns = 1000000000;

/* The proc of an ancestor namespace shows this process under all its pids from there down. The proc
 * of a sibling or descendant namespace does not show it at all. */
const struct proc_lack *processes_proc_lack(const struct root *root)
{
	static const struct proc_lack other = { "the file system at /proc belongs to another pid namespace",
		"remount it (unshare --mount-proc, mount -t proc proc /proc)" },
				      none = { "no proc file system is mounted at /proc",
					      "mount it (mount -t proc proc /proc)" };
	struct statfs fs;
	char text[16384];
	const char *at;
	uint64_t pid;

	if (!root->live || root->proc < 0)
		return NULL;
	if (smallfile_read(root->proc, "self/status", text, sizeof(text)) < 0)
		return fstatfs(root->proc, &fs) == 0 && fs.f_type != PROC_SUPER_MAGIC ? &none : &other;
	at = strstr(text, "\nNSpid:"); /* Linux 4.1 */
	if (!at)
		return NULL;
	at += strcspn(at, "0123456789");
	return parse_u64(&at, &pid) == 0 && *at == '\n' ? NULL : &other;
}

int processes_new(const struct source_env *env, bool ours, struct processes **ret, struct err *err)
{
	long tick = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);

	if (env->root->proc < 0)
		return err_set(err, -ENOENT, "processes cannot be measured: no proc file system is mounted");
	struct processes *p = calloc(1, sizeof(*p));

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	p->env = *env;
	p->ours = ours;
	p->foreign = processes_proc_lack(env->root) != NULL;
	p->tick_ns = UINT64_C(1000000000) / (uint64_t) (tick > 0 ? tick : 100);
	p->page_bytes = (uint64_t) (page > 0 ? page : 4096);
	gate_init(p);
	*ret = p;
	return 0;
}

void processes_free(struct processes *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++) {
		for (enum keep k = 0; k < KEEP_COUNT; k++)
			cleanup_close(&p->members[i].fd[k]);
	}
	cleanup_close(&p->gate.fd);
	map_done(&p->by_pid);
	map_done(&p->by_id);
	map_done(&p->ignored);
	map_done(&p->ignored_at);
	map_done(&p->ignored_until);
	map_done(&p->sessions);
	pid_list_done(&p->preexisting);
	map_done(&p->zombies);
	map_done(&p->ended_by_pid);
	map_done(&p->strangers);
	files_free(p->files);
	free(p->members);
	free(p);
}

void processes_add_all(struct processes *p)
{
	p->all = true;
	p->foreign = false; /* every visible process is meant */
}

void processes_forget_scans(struct processes *p)
{
	map_done(&p->strangers);
	p->gate.walked = false;
}

int32_t processes_of_thread(struct processes *p, pid_t pid)
{
	char path[PATH_LEN];
	uint64_t tgid;

	if (smallfile_read(p->env.root->proc, process_path(path, pid, pid, "status"), p->text,
		    sizeof(p->text)) <= 0 ||
		parse_key(p->text, "Tgid", &tgid) < 0 || tgid == (uint64_t) pid || tgid > INT32_MAX)
		return 0;
	return (int32_t) tgid;
}

/* Nothing can be read of it; the kernel's exit record may still report main. */
static int foreign_adopt(struct processes *p, pid_t pid, bool is_main)
{
	if (!p->ours)
		return -EXDEV;
	if (is_main)
		p->main_unread = pid;
	return 0;
}

int processes_adopt(struct processes *p, pid_t pid, bool is_main, struct framebuf *out)
{
	struct procfs_stat st;
	int r;

	if (p->foreign)
		return foreign_adopt(p, pid, is_main);
	if (member_of_pid(p, pid))
		return 0;
	r = process_stat(p, pid, &st);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	if (is_main)
		p->main_start_ticks = st.start_ticks;
	r = member_add(p, &st, is_main, out);
	if (r <= 0)
		return r < 0 ? r : -ESRCH;
	processes_forget_scans(p);
	/* One scan finds the descendants of all further ones. */
	r = is_main ? processes_scan(p, SCAN_FULL, out) : 0;
	return r < 0 ? r : 0;
}

void processes_ignore(struct processes *p, pid_t pid)
{
	struct procfs_stat st;

	/* Out of memory: the job gets one process too many. */
	if (p->foreign && pid > 0)
		(void) map_put(&p->ignored, (uint64_t) pid, 0);
	else if (pid > 0 && process_stat(p, pid, &st) == 0)
		(void) map_put(&p->ignored, (uint64_t) pid, (uint32_t) st.start_ticks);
}

bool processes_is_ignored(const struct processes *p, pid_t pid)
{
	struct procfs_stat st;
	uint32_t start;

	if (pid <= 0 || !map_get(&p->ignored, (uint64_t) pid, &start))
		return false;
	/* Its pid may have been reassigned. */
	return process_stat(p, pid, &st) < 0 || (uint32_t) st.start_ticks == start;
}

bool processes_was_ignored(struct processes *p, pid_t pid)
{
	const uint32_t now = (uint32_t) (clock_boot_ns() / verified_ns);
	uint32_t at;

	if (map_get(&p->ignored_at, (uint64_t) pid, &at) && at == now)
		return true;
	if (!processes_is_ignored(p, pid))
		return false;
	(void) map_put(&p->ignored_at, (uint64_t) pid, now);
	return true;
}

uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) < 0)
		return 0;
	return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}

static bool ignores_sigchld(struct processes *p, pid_t pid)
{
	struct procfs_status st;
	char path[PATH_LEN];

	return smallfile_read(p->env.root->proc, process_path(path, pid, pid, "status"), p->text,
		       sizeof(p->text)) > 0 &&
	       procfs_status_parse(p->text, &st) == 0 && st.ignores_sigchld;
}

int processes_zombie(struct processes *p, pid_t pid, struct end *ret, bool *ret_ignored_sigchld)
{
	const struct member *m = member_of_pid(p, pid);
	struct procfs_stat st;
	int r = process_stat(p, pid, &st);
	uint64_t start;

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	*ret = (struct end) {
		.entity = ENTITY_PROCESS,
		.id = m ? m->id : ended_find(p, pid, &start),
		.how = END_SEEN,
		.hwm_bytes = m ? m->hwm : UNKNOWN,
		.cpu_user_ns = ticks_ns(p, st.user_ticks),
		.cpu_system_ns = ticks_ns(p, st.system_ticks),
		.faults_minor = known_unsigned(st.faults_minor),
		.faults_major = known_unsigned(st.faults_major),
		.faults_waited = known_unsigned(st.faults_waited),
	};
	*ret_ignored_sigchld = ignores_sigchld(p, pid);
	p->unwaited += *ret_ignored_sigchld && !(m && m->ignores_sigchld);
	return 0;
}

void processes_zombie_io(struct processes *p, pid_t pid, struct io_facts *ret)
{
	struct member *m = member_of_pid(p, pid);
	char path[PATH_LEN];

	*ret = (struct io_facts) { 0 };
	if (m && member_io_last(m))
		*ret = m->io;
	else if (smallfile_read(
			 p->env.root->proc, process_path(path, pid, pid, "io"), p->text, sizeof(p->text)) > 0)
		(void) process_io(p->text, ret);
}

bool processes_orphan(struct processes *p, pid_t pid, struct framebuf *out)
{
	struct procfs_stat st;
	uint64_t start;
	uint32_t id;

	if (!p->ours || p->foreign || member_of_pid(p, pid) || process_stat(p, pid, &st) < 0 ||
		st.start_ticks < p->main_start_ticks)
		return false;
	if (ended_find(p, pid, &start) && start == st.start_ticks)
		return false;
	id = member_unsampled(p, pid, st.ppid, 0, process_uid(p, pid), st.name, out);
	if (id)
		ended_remember(p, &(struct member) { .id = id, .pid = pid, .start_ticks = st.start_ticks });
	return id != 0;
}

/* If no start time can be read, a pid belongs to its process until it is reaped. Its exit record
 * may still be unread. */
static void forget_unread(struct processes *p, pid_t pid)
{
	uint32_t start;

	if (!map_get(&p->ignored, (uint64_t) pid, &start))
		return;
	map_remove(&p->ignored, (uint64_t) pid);
	(void) map_put(&p->ignored_until, (uint64_t) pid, (uint32_t) (clock_boot_ns() / 1000000000));
}

bool processes_ignored_since(const struct processes *p, pid_t pid, int64_t start_boot_s)
{
	uint32_t until;

	return map_get(&p->ignored_until, (uint64_t) pid, &until) && start_boot_s <= (int64_t) until;
}

bool processes_reaped(struct processes *p, pid_t pid, const struct end *facts, struct framebuf *out)
{
	uint64_t start;
	uint32_t i, id;

	map_remove(&p->zombies, (uint64_t) pid);
	if (p->foreign)
		forget_unread(p, pid);
	if (map_get(&p->by_pid, (uint64_t) pid, &i)) {
		member_end(p, i, END_REAPED, facts, out);
		return true;
	}
	/* Its end was reported when it was seen as a zombie: these are additional facts. */
	id = ended_find(p, pid, &start);
	if (id == 0)
		return false;
	struct end end = *facts;

	end.entity = ENTITY_PROCESS;
	end.id = id;
	end.how = END_REAPED;
	framebuf_end(out, &end);
	return true;
}

int processes_reset_hwm(struct processes *p, uint32_t id)
{
	char path[PATH_LEN];
	uint32_t i;
	int r;

	if (!map_get(&p->by_id, id, &i))
		return -ESRCH;
	if (!p->env.root->live)
		return -EROFS;
	struct member *m = &p->members[i];

	/* Documentation/filesystems/proc.rst: 5 resets the peak resident set size to the current
	 * one. */
	r = smallfile_write(p->env.root->proc, process_path(path, m->pid, m->pid, "clear_refs"), "5");
	if (r == 0)
		m->program_hwm = known(0);
	return r == -ENOENT ? -ESRCH : r;
}

size_t processes_hidden(const struct processes *p)
{
	return p->n_hidden;
}

size_t processes_count(const struct processes *p)
{
	return p->n;
}

uint32_t processes_id(const struct processes *p, pid_t pid)
{
	const struct member *m = member_of_pid(p, pid);

	return m ? m->id : 0;
}

size_t processes_unwaited(const struct processes *p)
{
	return p->unwaited;
}
