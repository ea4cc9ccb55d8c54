/* SPDX-License-Identifier: MIT
 *
 * One member: its files and its end.
 */
#include "source/process/processes_internal.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/smallfile.h"

static const char *const keep_names[KEEP_COUNT] = { "statm", "stat", "status", "io", "schedstat" };

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
	ssize_t n = p->foreign
			    ? -ESRCH
			    : smallfile_read(p->env.root->proc, process_path(path, pid, pid, "stat"),
				      text, sizeof(text));

	return n < 0 ? (int) n : procfs_stat_parse(text, ret);
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

/* Whether the file shows the thread tid; the other files add up all threads. */
static bool is_of_thread(enum keep which)
{
	return which == KEEP_STATM || which == KEEP_STATUS;
}

/* Whether pid is still this process. A kept descriptor shows it without parsing. */
bool member_is_same(struct processes *p, const struct member *m)
{
	int fd = m->fd[KEEP_STAT] >= 0 ? m->fd[KEEP_STAT] : m->tid == m->pid ? m->fd[KEEP_STATM]
									     : -1;
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

bool member_faults_waited(struct processes *p, struct member *m, uint64_t *ret)
{
	struct procfs_stat st;

	if (member_read(p, m, KEEP_STAT) < 0 || procfs_stat_parse(p->text, &st) < 0)
		return false;
	*ret = st.faults_waited;
	return true;
}

static void member_drop(struct processes *p, struct member *m, enum keep which)
{
	if (m->fd[which] < 0)
		return;
	(void) close(m->fd[which]);
	m->fd[which] = -1;
	p->n_kept--;
}

void member_keep(struct processes *p, struct member *m, enum keep which)
{
	char path[PATH_LEN];
	int32_t tid = is_of_thread(which) ? m->tid : m->pid;
	int fd;

	if (p->n_kept >= p->fd_limit)
		return;
	fd = smallfile_open(p->env.root->proc, process_path(path, m->pid, tid, keep_names[which]));
	if (fd < 0)
		return;
	/* open returns the lowest free number: inherited descriptors use the others */
	if ((size_t) fd >= p->fd_limit) {
		(void) close(fd);
		return;
	}
	m->fd[which] = fd;
	p->n_kept++;
}

void member_close(struct processes *p, struct member *m)
{
	p->n_wide -= m->fd[KEEP_STATUS] >= 0;
	for (enum keep k = 0; k < KEEP_COUNT; k++)
		member_drop(p, m, k);
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

/* The memory of such a process is visible only through a living thread. */
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

int process_io(const char *text, struct io_facts *ret)
{
	struct procfs_io io;
	int r = procfs_io_parse(text, &io);

	if (r < 0)
		return r;
	*ret = (struct io_facts) {
		.read_bytes = known_unsigned(io.read_bytes),
		.write_bytes = known_unsigned(io.write_bytes),
		.write_cancelled = known_unsigned(io.write_cancelled),
		.read_chars = known_unsigned(io.read_chars),
		.write_chars = known_unsigned(io.write_chars),
	};
	return 0;
}

bool member_io_last(struct member *m)
{
	char text[512];

	return m->fd[KEEP_IO] >= 0 && smallfile_pread(m->fd[KEEP_IO], text, sizeof(text)) > 0 &&
	       process_io(text, &m->io) == 0;
}

void member_died(struct processes *p, struct member *m, const char *stat)
{
	int32_t status;

	m->gone = true;
	if (procfs_stat_exit(stat, &status) && status != 0)
		m->status = known(status);
	p->io_moved |= member_io_last(m);
}

/* Works where no file can be opened. */
static bool is_there(const struct processes *p, int32_t pid)
{
	return !p->env.root->live || kill(pid, 0) == 0 || errno != ESRCH;
}

bool member_check(struct processes *p, struct member *m)
{
	struct procfs_stat st;
	char path[PATH_LEN], text[2048];
	ssize_t n;

	if (m->fd[KEEP_STAT] >= 0)
		n = smallfile_pread(m->fd[KEEP_STAT], text, sizeof(text));
	else
		n = smallfile_read(
			p->env.root->proc, process_path(path, m->pid, m->pid, "stat"), text, sizeof(text));
	if (n == -ENOENT || n == -ESRCH || (descriptors_were_lacking((int) n) && !is_there(p, m->pid))) {
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
		member_died(p, m, text);
	return !m->gone;
}

void member_disown(struct processes *p, struct member *m)
{
	processes_ignore(p, m->pid);
	m->gone = true;
}

/* In the middle of its exec: it has a memory of its own, without a program in it yet. */
static bool is_in_exec(struct processes *p, const struct procfs_stat *st)
{
	return st->startstack == 0 || process_recorder(p, st) == RECORDER_MAY_BE;
}

bool member_shares_vm(struct processes *p, struct member *m)
{
	struct procfs_stat st;
	long order;

	if (m->vm_owner == 0)
		return false;
	order = p->env.root->live ? syscall(SYS_kcmp, m->pid, m->vm_owner, KCMP_VM, 0UL, 0UL) : -1;
	if (order == 0)
		return true;
	if (process_stat(p, m->pid, &st) < 0)
		return false;
	if (st.state == 'Z') { /* its memory is released; do not check again */
		m->vm_owner = 0;
		return false;
	}
	if (order > 0 && is_in_exec(p, &st))
		return true; /* after the exec it is known whether it is part of the job */
	m->vm_owner = 0;
	if (process_recorder(p, &st) == RECORDER_IS)
		member_disown(p, m); /* it was found before its exec */
	return m->gone;
}

uint64_t less_touched(const struct processes *p, pid_t pid, uint64_t start_ticks, uint64_t bytes)
{
	const uint64_t touched = p->env.touched ? p->env.touched(p->env.touched_ctx, pid, start_ticks) : 0;

	return bytes > touched ? bytes - touched : 0;
}

static int statm_read(struct processes *p, struct member *m)
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
	m->rss = less_touched(p, m->pid, m->start_ticks, m->rss);
	m->rss_file = less_touched(p, m->pid, m->start_ticks, m->rss_file);
	m->size = st.size < UINT64_MAX / p->page_bytes ? st.size * p->page_bytes : 0;
	return 0;
}

int member_memory(struct processes *p, struct member *m)
{
	int r = statm_read(p, m);

	if (r != -EAGAIN && r != -ESRCH && r != -ENOENT && !descriptors_were_lacking(r))
		return r;
	int32_t tid = m->tid;

	/* Zeros: a zombie, a process about to become one, or one whose first thread ended. */
	if (!member_check(p, m))
		return -ESRCH;
	if (m->tid != tid)
		r = statm_read(p, m);
	return r == -ESRCH ? -EAGAIN : r;
}

/* ---- values of a stat line ---------------------------------------------------------------------------------------- */

struct maybe ticks_ns(const struct processes *p, uint64_t ticks)
{
	uint64_t ns;

	if (__builtin_mul_overflow(ticks, p->tick_ns, &ns) || ns > INT64_MAX)
		return UNKNOWN;
	return known((int64_t) ns);
}

void member_stat(struct processes *p, struct member *m, const struct procfs_stat *st)
{
	m->cpu_user_ns = ticks_ns(p, st->user_ticks);
	m->cpu_system_ns = ticks_ns(p, st->system_ticks);
	m->cpu_waited_user_ns = ticks_ns(p, st->user_waited_ticks);
	m->cpu_waited_system_ns = ticks_ns(p, st->system_waited_ticks);
	m->faults_minor = known_unsigned(st->faults_minor);
	m->faults_major = known_unsigned(st->faults_major);
	m->faults_waited = known_unsigned(st->faults_waited);
	m->threads = known_unsigned(st->threads);
	if (!m->leader && st->session == st->pid) {
		/* Out of memory: a daemon's children may not be found. */
		(void) map_put(&p->sessions, (uint64_t) st->pid, (uint32_t) st->start_ticks);
		m->leader = true;
	}
}

void member_report(struct member *m, enum metric metric, struct maybe value, struct framebuf *out)
{
	uint32_t bit = UINT32_C(1) << (metric - M_PROC_RSS);

	if (value.known) {
		m->reported_unknown &= ~bit;
		framebuf_value(out, metric, m->id, value.value);
	} else if (!(m->reported_unknown & bit)) {
		m->reported_unknown |= bit;
		framebuf_unknown(out, metric, m->id);
	}
}

/* ---- end ---------------------------------------------------------------------------------------------------------- */

static struct maybe or_else(struct maybe a, struct maybe b)
{
	return a.known ? a : b;
}

/* facts, completed by values of the last sample. Counters of waited-for children from then are not
 * those at the end, so they are not used for a process that hiwater reaped itself. */
static struct end end_facts(const struct member *m, enum end_how how, const struct end *facts)
{
	struct end end = facts ? *facts : (struct end) { 0 };

	end.entity = ENTITY_PROCESS;
	end.id = m->id;
	end.how = how;
	if (!end.status_known && m->status.known) {
		end.status_known = true;
		end.status = (int32_t) m->status.value;
	}
	end.hwm_bytes = or_else(end.hwm_bytes, m->hwm);
	end.cpu_user_ns = or_else(end.cpu_user_ns, m->cpu_user_ns);
	end.cpu_system_ns = or_else(end.cpu_system_ns, m->cpu_system_ns);
	end.faults_minor = or_else(end.faults_minor, m->faults_minor);
	if (how != END_REAPED)
		end.faults_waited = or_else(end.faults_waited, m->faults_waited);
	end.io.read_bytes = or_else(end.io.read_bytes, m->io.read_bytes);
	end.io.write_bytes = or_else(end.io.write_bytes, m->io.write_bytes);
	end.io.write_cancelled = or_else(end.io.write_cancelled, m->io.write_cancelled);
	end.io.read_chars = or_else(end.io.read_chars, m->io.read_chars);
	end.io.write_chars = or_else(end.io.write_chars, m->io.write_chars);
	return end;
}

/* Until it is reaped a scan still finds it: it must not be born again. */
static void zombie_remember(struct processes *p, const struct member *m)
{
	if (p->zombies.used >= ZOMBIES_KEPT)
		map_done(&p->zombies);
	(void) map_put(&p->zombies, (uint64_t) m->pid, (uint32_t) m->start_ticks);
}

/* Replaces the oldest one. */
void ended_remember(struct processes *p, const struct member *m)
{
	uint32_t at = (uint32_t) (p->n_ended++ % ENDED_KEPT), newest;
	struct ended *e = &p->ended[at];

	if (e->id && map_get(&p->ended_by_pid, (uint64_t) e->pid, &newest) && newest == at)
		map_remove(&p->ended_by_pid, (uint64_t) e->pid);
	*e = (struct ended) { m->id, m->pid, m->start_ticks, clock_boot_ns(), strcmp(m->name, HIWATER) == 0 };
	/* Out of memory: late facts are lost. */
	map_remove(&p->ended_by_pid, (uint64_t) m->pid);
	(void) map_put(&p->ended_by_pid, (uint64_t) m->pid, at);
}

void member_end(
	struct processes *p, size_t i, enum end_how how, const struct end *facts, struct framebuf *out)
{
	struct member *m = &p->members[i];
	struct end end = end_facts(m, how, facts);

	framebuf_end(out, &end);
	if (how == END_SEEN)
		zombie_remember(p, m);
	ended_remember(p, m);
	member_close(p, m);
	map_remove(&p->by_id, m->id);
	map_remove(&p->by_pid, (uint64_t) m->pid);
	p->n--;
	if (i == p->n)
		return;
	/* Both keys exist, so nothing is allocated and nothing can fail. */
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

static const struct ended *ended_of_pid(const struct processes *p, int32_t pid)
{
	uint32_t at;

	return pid > 0 && map_get(&p->ended_by_pid, (uint64_t) pid, &at) ? &p->ended[at] : NULL;
}

uint64_t ended_when(const struct processes *p, int32_t pid)
{
	const struct ended *e = ended_of_pid(p, pid);

	return e ? e->seen_ns : 0;
}

bool ended_is_hiwater(const struct processes *p, int32_t pid)
{
	const struct ended *e = ended_of_pid(p, pid);

	return e && e->is_hiwater;
}

uint32_t ended_find(const struct processes *p, int32_t pid, uint64_t *ret_start_ticks)
{
	const struct ended *e = ended_of_pid(p, pid);

	if (!e)
		return 0;
	*ret_start_ticks = e->start_ticks;
	return e->id;
}
