/* SPDX-License-Identifier: MIT
 *
 * One member: its birth, its files, its end.
 */
#include "source/processes_internal.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mask.h"
#include "base/smallfile.h"
#include "source/procfs_status.h"

static const char *const keep_names[KEEP_COUNT] = { "statm", "stat", "status", "io" };

char *process_path(char buf[PATH_LEN], int32_t pid, int32_t tid, const char *name)
{
	if (tid != pid)
		(void) snprintf(buf, PATH_LEN, "%d/task/%d/%s", pid, tid, name);
	else
		(void) snprintf(buf, PATH_LEN, "%d/%s", pid, name);
	return buf;
}

struct member *member_of_pid(const struct processes *p, int32_t pid)
{
	uint32_t i;

	return pid > 0 && map_get(&p->by_pid, (uint64_t) pid, &i) ? &p->members[i] : NULL;
}

int process_stat(const struct processes *p, int32_t pid, struct procfs_stat *ret)
{
	char path[PATH_LEN], text[2048];
	ssize_t n = smallfile_read(p->env.root->proc, process_path(path, pid, pid, "stat"), text, sizeof(text));

	return n < 0 ? (int) n : procfs_stat_parse(text, ret);
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

/* Which of its files speak of the thread that it is seen through; the others add up all threads. */
static bool is_of_thread(enum keep which)
{
	return which == KEEP_STATM || which == KEEP_STATUS;
}

/* Whether pid still is this process. A kept descriptor knows without parsing. */
bool member_is_same(struct processes *p, const struct member *m)
{
	int fd = m->fd[KEEP_STAT] >= 0 ? m->fd[KEEP_STAT] : m->tid == m->pid ? m->fd[KEEP_STATM] : -1;
	struct procfs_stat st;
	char text[2048];

	if (fd >= 0)
		return smallfile_pread(fd, text, sizeof(text)) >= 0;
	return process_stat(p, m->pid, &st) == 0 && st.start_ticks == m->start_ticks;
}

ssize_t member_read_path(struct processes *p, struct member *m, const char *path, char *buf, size_t size)
{
	ssize_t n = smallfile_read(p->env.root->proc, path, buf, size);

	if (n >= 0 && !member_is_same(p, m))
		return -ESRCH;
	return n;
}

ssize_t member_read(struct processes *p, struct member *m, enum keep which)
{
	char path[PATH_LEN];

	if (m->fd[which] >= 0)
		return smallfile_pread(m->fd[which], p->text, sizeof(p->text));
	process_path(path, m->pid, is_of_thread(which) ? m->tid : m->pid, keep_names[which]);
	return member_read_path(p, m, path, p->text, sizeof(p->text));
}

static void member_drop(struct processes *p, struct member *m, enum keep which)
{
	if (m->fd[which] < 0)
		return;
	(void) close(m->fd[which]);
	m->fd[which] = -1;
	p->n_kept--;
}

static void member_keep(struct processes *p, struct member *m, enum keep which)
{
	char path[PATH_LEN];
	int32_t tid = is_of_thread(which) ? m->tid : m->pid;
	int fd;

	if (p->n_kept >= p->fd_limit)
		return;
	fd = smallfile_open(p->env.root->proc, process_path(path, m->pid, tid, keep_names[which]));
	if (fd < 0)
		return;
	m->fd[which] = fd;
	p->n_kept++;
}

/* The soft limit may be raised while hiwater runs. */
static void fd_limit_update(struct processes *p)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	p->fd_limit = limit.rlim_cur > SPARE_FDS ? (size_t) limit.rlim_cur - SPARE_FDS : 0;
}

/* ---- a process whose first thread ended before others ----------------------------------------------------------- */

struct follow {
	struct processes *p;
	struct member *m;
	int32_t found;
};

static int follow_seen(void *ctx, int32_t tid)
{
	struct follow *f = ctx;
	char path[PATH_LEN], text[256];
	struct procfs_statm st;

	if (f->found || tid == f->m->tid)
		return 0;
	process_path(path, f->m->pid, tid, "statm");
	if (smallfile_read(f->p->env.root->proc, path, text, sizeof(text)) < 0)
		return 0;
	if (procfs_statm_parse(text, &st) == 0 && st.size > 0)
		f->found = tid;
	return 0;
}

/* The memory of such a process is only to be seen through a thread that lives. */
static void member_follow(struct processes *p, struct member *m)
{
	struct follow f = { .p = p, .m = m };
	char path[PATH_LEN];

	(void) numbers_list(p->env.root->proc, process_path(path, m->pid, m->pid, "task"), follow_seen, &f);
	if (!f.found)
		return;
	m->tid = f.found;
	for (enum keep k = 0; k < KEEP_COUNT; k++) {
		bool kept = m->fd[k] >= 0;

		if (!is_of_thread(k))
			continue;
		member_drop(p, m, k);
		if (kept)
			member_keep(p, m, k);
	}
}

bool member_check(struct processes *p, struct member *m)
{
	struct procfs_stat st;
	char path[PATH_LEN], text[2048];
	ssize_t n;

	if (m->fd[KEEP_STAT] >= 0)
		n = smallfile_pread(m->fd[KEEP_STAT], text, sizeof(text));
	else
		n = smallfile_read(p->env.root->proc, process_path(path, m->pid, m->pid, "stat"), text, sizeof(text));
	if (n == -ENOENT || n == -ESRCH) {
		m->gone = true;
		return false;
	}
	if (n < 0 || procfs_stat_parse(text, &st) < 0)
		return true;
	if (st.start_ticks != m->start_ticks) {
		m->gone = true;
		return false;
	}
	if (st.state != 'Z' && st.state != 'X')
		return true;
	member_stat(p, m, &st);
	if (st.threads > 1)
		member_follow(p, m);
	else
		m->gone = true;
	return !m->gone;
}

bool member_borrows(struct processes *p, struct member *m)
{
	if (m->lender == 0)
		return false;
	if (p->env.root->live && syscall(SYS_kcmp, m->pid, m->lender, KCMP_VM, 0UL, 0UL) == 0)
		return true;
	m->lender = 0;
	return false;
}

static int statm_take(struct processes *p, struct member *m)
{
	ssize_t n = member_read(p, m, KEEP_STATM);
	struct procfs_statm st;

	if (n < 0)
		return (int) n;
	if (procfs_statm_parse(p->text, &st) < 0)
		return -EBADMSG;
	if (st.size == 0)
		return -EAGAIN;
	if (__builtin_mul_overflow(st.resident, p->page_bytes, &m->rss) || m->rss > INT64_MAX ||
	    __builtin_mul_overflow(st.shared, p->page_bytes, &m->rss_file) || m->rss_file > INT64_MAX)
		return -EBADMSG;
	return 0;
}

int member_memory(struct processes *p, struct member *m)
{
	int r = statm_take(p, m);

	if (r != -EAGAIN && r != -ESRCH && r != -ENOENT)
		return r;
	int32_t tid = m->tid;

	/* Zeros: a zombie, or one that is about to be, or whose first thread ended. */
	if (!member_check(p, m))
		return -ESRCH;
	if (m->tid != tid)
		r = statm_take(p, m);
	return r == -ESRCH ? -EAGAIN : r;
}

/* ---- what a stat line says ---------------------------------------------------------------------------------------- */

static struct maybe ticks_ns(const struct processes *p, uint64_t ticks)
{
	uint64_t ns;

	if (__builtin_mul_overflow(ticks, p->tick_ns, &ns) || ns > INT64_MAX)
		return UNKNOWN;
	return known((int64_t) ns);
}

static struct maybe count_of(uint64_t n)
{
	return n <= INT64_MAX ? known((int64_t) n) : UNKNOWN;
}

void member_stat(struct processes *p, struct member *m, const struct procfs_stat *st)
{
	m->cpu_user_ns = ticks_ns(p, st->user_ticks);
	m->cpu_system_ns = ticks_ns(p, st->system_ticks);
	m->cpu_waited_user_ns = ticks_ns(p, st->user_waited_ticks);
	m->cpu_waited_system_ns = ticks_ns(p, st->system_waited_ticks);
	m->faults_minor = count_of(st->faults_minor);
	m->faults_major = count_of(st->faults_major);
	m->faults_waited = count_of(st->faults_waited);
	m->threads = count_of(st->threads);
	if (!m->leader && st->session == st->pid) {
		/* Without memory for it a daemon's children may be missed. */
		(void) map_put(&p->sessions, (uint64_t) st->pid, (uint32_t) st->start_ticks);
		m->leader = true;
	}
}

void member_tell(struct member *m, enum metric metric, struct maybe value, struct framebuf *out)
{
	uint32_t bit = UINT32_C(1) << (metric - M_PROC_RSS);

	if (value.known) {
		m->silent &= ~bit;
		framebuf_value(out, metric, m->id, value.value);
	} else if (!(m->silent & bit)) {
		m->silent |= bit;
		framebuf_unknown(out, metric, m->id);
	}
}

/* ---- birth -------------------------------------------------------------------------------------------------------- */

static void image_take(struct member *m, const struct procfs_stat *st)
{
	m->startstack = st->startstack;
	m->startcode = st->startcode;
	m->endcode = st->endcode;
	(void) snprintf(m->name, sizeof(m->name), "%.15s", st->name);
}

static void birth_tell(struct processes *p, const struct member *m, const struct procfs_stat *st, uint32_t uid,
                       struct framebuf *out)
{
	const struct member *parent = member_of_pid(p, st->ppid);
	struct maybe start = ticks_ns(p, m->start_ticks);
	char path[PATH_LEN];
	ssize_t n;

	n = smallfile_read(p->env.root->proc, process_path(path, m->pid, m->pid, "cmdline"), p->text, sizeof(p->text));
	(void) mask_command(p->text, n > 0 ? (size_t) n : 0, p->command, sizeof(p->command));
	framebuf_birth(out, &(struct birth) {
		.entity = ENTITY_PROCESS,
		.id = m->id,
		.process = {
			.pid = m->pid,
			.ppid = st->ppid,
			.parent = parent ? parent->id : 0,
			.uid = uid,
			.start_ns = start.known ? (uint64_t) start.value : 0,
			.startstack = m->startstack,
			.name = m->name,
			.command = p->command,
			.is_main = m->is_main,
		},
	});
}

/* Reads status for what a birth needs. Returns 1, 0 if pid is a thread's or gone; a file that is missing or cut (a
 * captured machine) is no obstacle. */
static int status_take(struct processes *p, int32_t pid, uint32_t *ret_uid, bool *ret_ignores)
{
	struct procfs_status st;
	char path[PATH_LEN];
	ssize_t n = smallfile_read(p->env.root->proc, process_path(path, pid, pid, "status"), p->text, sizeof(p->text));

	*ret_uid = 0;
	*ret_ignores = false;
	if (n == -ESRCH)
		return 0;
	if (n < 0 || procfs_status_parse(p->text, &st) < 0)
		return 1;
	if (st.tgid.value != pid)
		return 0;
	if (st.uid.known)
		*ret_uid = (uint32_t) st.uid.value;
	*ret_ignores = st.ignores_sigchld;
	return 1;
}

/* Opens what is kept of it, and makes sure that it was it. */
static bool member_open(struct processes *p, struct member *m)
{
	struct procfs_stat st;

	fd_limit_update(p);
	member_keep(p, m, KEEP_STATM);
	if (p->n_wide < WIDE_MEMBERS && m->fd[KEEP_STATM] >= 0 && p->n_kept + KEEP_COUNT <= p->fd_limit) {
		for (enum keep k = KEEP_STAT; k < KEEP_COUNT; k++)
			member_keep(p, m, k);
		p->n_wide += m->fd[KEEP_STAT] >= 0;
	}
	return process_stat(p, m->pid, &st) == 0 && st.start_ticks == m->start_ticks;
}

static void member_close(struct processes *p, struct member *m)
{
	p->n_wide -= m->fd[KEEP_STAT] >= 0;
	for (enum keep k = 0; k < KEEP_COUNT; k++)
		member_drop(p, m, k);
}

/* A child with its parent's stack may run in its parent's memory until it execs (vfork). */
static int32_t lender_of(struct processes *p, const struct procfs_stat *st)
{
	const struct member *parent = member_of_pid(p, st->ppid);

	return parent && parent->startstack == st->startstack && st->startstack != 0 ? parent->pid : 0;
}

static int maps_add(struct processes *p, const struct member *m)
{
	uint32_t i = (uint32_t) p->n;
	int r = map_put(&p->by_id, m->id, i);

	if (r == 0)
		r = map_put(&p->by_pid, (uint64_t) m->pid, i);
	if (r < 0)
		map_remove(&p->by_id, m->id);
	return r;
}

int member_add(struct processes *p, const struct procfs_stat *st, bool is_main, struct framebuf *out)
{
	uint32_t uid;
	bool ignores;
	int r = vec_room(&p->members, &p->cap, p->n, sizeof(*p->members), MEMBERS_MAX);

	if (r < 0)
		return r;
	if (status_take(p, st->pid, &uid, &ignores) == 0)
		return 0;
	struct member *m = &p->members[p->n];
	struct maybe start = ticks_ns(p, st->start_ticks);

	*m = (struct member) {
		.id = p->last_id + 1, .pid = st->pid, .tid = st->pid, .start_ticks = st->start_ticks, .is_main = is_main,
		.lender = lender_of(p, st), .fd = { -1, -1, -1, -1 }, .ignores_sigchld = ignores,
		.young = start.known && (uint64_t) start.value + p->tick_ns > p->env.start_boot_ns,
	};
	if (!member_open(p, m) || (r = maps_add(p, m)) < 0) {
		member_close(p, m);
		return r;
	}
	p->n++;
	p->last_id++;
	p->unwaited += ignores;
	image_take(m, st);
	member_stat(p, m, st);
	birth_tell(p, m, st, uid, out);
	return 1;
}

void member_rebirth(struct processes *p, struct member *m, const struct procfs_stat *st, struct framebuf *out)
{
	uint32_t uid;
	bool ignores;

	if (status_take(p, m->pid, &uid, &ignores) == 0)
		return;
	image_take(m, st);
	birth_tell(p, m, st, uid, out);
}

/* ---- end ---------------------------------------------------------------------------------------------------------- */

static struct maybe or_else(struct maybe a, struct maybe b)
{
	return a.known ? a : b;
}

/* facts, and what they lack from the last look. */
static struct end end_facts(const struct member *m, enum end_how how, const struct end *facts)
{
	struct end end = facts ? *facts : (struct end) { 0 };

	end.entity = ENTITY_PROCESS;
	end.id = m->id;
	end.how = how;
	end.hwm_bytes = or_else(end.hwm_bytes, m->hwm);
	end.cpu_user_ns = or_else(end.cpu_user_ns, m->cpu_user_ns);
	end.cpu_system_ns = or_else(end.cpu_system_ns, m->cpu_system_ns);
	end.faults_minor = or_else(end.faults_minor, m->faults_minor);
	end.faults_waited = or_else(end.faults_waited, m->faults_waited);
	end.read_bytes = or_else(end.read_bytes, m->read_bytes);
	end.write_bytes = or_else(end.write_bytes, m->write_bytes);
	return end;
}

void member_end(struct processes *p, size_t i, enum end_how how, const struct end *facts, struct framebuf *out)
{
	struct member *m = &p->members[i];
	struct end end = end_facts(m, how, facts);

	framebuf_end(out, &end);
	p->ended[p->n_ended++ % ENDED_KEPT] = (struct ended) { m->id, m->pid, m->start_ticks };
	member_close(p, m);
	map_remove(&p->by_id, m->id);
	map_remove(&p->by_pid, (uint64_t) m->pid);
	p->n--;
	if (i == p->n)
		return;
	/* Both keys are there, so that nothing is allocated and nothing can fail. */
	*m = p->members[p->n];
	(void) map_put(&p->by_id, m->id, (uint32_t) i);
	(void) map_put(&p->by_pid, (uint64_t) m->pid, (uint32_t) i);
}

void members_sweep(struct processes *p, struct framebuf *out)
{
	for (size_t i = p->n; i-- > 0;) {
		if (p->members[i].gone)
			member_end(p, i, END_SEEN, NULL, out);
	}
}

uint32_t ended_find(const struct processes *p, int32_t pid, uint64_t *ret_start_ticks)
{
	size_t n = p->n_ended < ENDED_KEPT ? p->n_ended : ENDED_KEPT;

	for (size_t i = 1; i <= n; i++) {
		const struct ended *e = &p->ended[(p->n_ended - i) % ENDED_KEPT];

		if (e->pid == pid) {
			*ret_start_ticks = e->start_ticks;
			return e->id;
		}
	}
	return 0;
}
