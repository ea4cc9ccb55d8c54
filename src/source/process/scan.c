/* SPDX-License-Identifier: MIT
 *
 * Finds new members: by walking the tree (children files), by the pids assigned since the last
 * scan, or by scanning all of the proc directory.
 */
#include "source/process/processes_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/smallfile.h"

/* Measured costs, in nanoseconds: a pid that is gone costs 2400, an existing one 8000. */
enum {
	COST_PID = 4000,
	COST_THREAD = 6000,   /* its children file, its part of the task directory */
	COST_BLIND = 500000,  /* most that a sample may cost with the gate off */
	FORGET_MAX = 4096,    /* more pids than this at once: forget all strangers */
	RECHECK_EVERY = 32,   /* full scans after which even unnecessary steps are done */
	WALK_SHARE = 500,     /* of a core: walks through the tree may use one part in this many if
	                       * the gate is proven */
	GATE_PIDS_MAX = 512,  /* most pids that a PSS pass examines */
};

/* ---- membership in the job ---------------------------------------------------------------------------------------- */

/* A session is inherited only from its leader, so a process in a member's session descends from
 * that member. While the session has a process, the kernel assigns its number to no other; a
 * stranger with that pid shows that the session is empty. */
static bool is_in_session(struct processes *p, int32_t session)
{
	const struct member *m = member_of_pid(p, session);
	struct procfs_stat st;
	uint32_t start;

	if (session <= 0 || !map_get(&p->sessions, (uint64_t) session, &start))
		return false;
	if (m)
		return (uint32_t) m->start_ticks == start;
	if (process_stat(p, session, &st) < 0 || (uint32_t) st.start_ticks == start)
		return true;
	map_remove(&p->sessions, (uint64_t) session);
	return false;
}

static bool is_fork_of(
	const struct procfs_stat *st, uint64_t startstack, uint64_t startcode, uint64_t endcode)
{
	return st->startstack == startstack && st->startcode == startcode && st->endcode == endcode;
}

static const struct member *member_of_family(const struct processes *p, const struct procfs_stat *st)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct member *m = &p->members[i];

		if (is_fork_of(st, m->startstack, m->startcode, m->endcode))
			return m;
	}
	return NULL;
}

/* A daemon of an attached program whose parent was born and reaped between two scans. Its session is
 * not main's and has no leader any more; its stack and code are at the addresses of a member's,
 * which only forks share; and it was adopted: a parent of the same family that is not a member has
 * forked it for another program. */
static bool is_lost_fork(struct processes *p, const struct procfs_stat *st)
{
	const struct maybe born = ticks_ns(p, st->start_ticks + 1);
	struct procfs_stat leader, parent, relative;
	const struct member *m;

	if (p->ours || st->startstack == 0 || st->session <= 0 || !born.known ||
		(uint64_t) born.value < p->env.start_boot_ns)
		return false;
	m = member_of_family(p, st);
	if (!m || process_stat(p, st->session, &leader) == 0)
		return false;
	if (process_stat(p, m->pid, &relative) < 0 || relative.session == st->session)
		return false;
	return process_stat(p, st->ppid, &parent) < 0 ||
	       !is_fork_of(&parent, st->startstack, st->startcode, st->endcode);
}

static bool belongs(struct processes *p, const struct procfs_stat *st)
{
	const struct member *parent = member_of_pid(p, st->ppid);

	if (p->all) /* kernel threads and zombies have no memory */
		return st->vsize_bytes > 0;
	if (parent && member_is_same(p, parent))
		return true;
	if (st->ppid > 0 && st->ppid == p->env.recorder_pid)
		return p->ours;
	return (!processes_is_ignored(p, st->ppid) && is_in_session(p, st->session)) || is_lost_fork(p, st);
}

/* A child that the recorder had before it started the job, if the preexisting children were not
 * listed (preexisting.c). */
static bool is_older(const struct processes *p, const struct procfs_stat *st)
{
	return p->ours && st->ppid == p->env.recorder_pid && st->start_ticks < p->main_start_ticks;
}

/* Left behind by an ignored child of the recorder that has ended; its session remains that child's. */
static bool is_left_by_ignored(const struct processes *p, const struct procfs_stat *st)
{
	return p->ours && st->ppid == p->env.recorder_pid && processes_is_ignored(p, st->session);
}

enum recorder process_recorder(struct processes *p, const struct procfs_stat *st)
{
	static const char how[] = "attach\0--control";
	char path[PATH_LEN], *text = p->command;
	ssize_t n;
	size_t at;

	if (!p->all && strcmp(st->name, REAPER) == 0)
		return RECORDER_IS;
	if (p->all || strcmp(st->name, HIWATER) != 0)
		return RECORDER_NOT;
	n = smallfile_read(
		p->env.root->proc, process_path(path, st->pid, st->pid, "cmdline"), text, sizeof(p->command));
	if (n <= 0)
		return RECORDER_MAY_BE;
	at = strnlen(text, (size_t) n) + 1;
	return at + sizeof(how) <= (size_t) n && memcmp(text + at, how, sizeof(how)) == 0 ? RECORDER_IS
											  : RECORDER_NOT;
}

/* Reads a process that is not a member yet and may become one. */
static bool candidate_read(struct processes *p, int32_t pid, struct procfs_stat *ret)
{
	if (pid == p->env.recorder_pid || member_of_pid(p, pid) || processes_was_ignored(p, pid))
		return false;
	return process_stat(p, pid, ret) == 0 && ret->pid == pid;
}

/* Makes a candidate a member if it qualifies. sure: it comes from a member's children file. Returns
 * 1, 0 or -errno. */
static int admit(struct processes *p, const struct procfs_stat *st, bool sure, struct framebuf *out)
{
	if (is_older(p, st) || is_left_by_ignored(p, st)) {
		processes_ignore(p, st->pid);
		return 0;
	}
	if (!sure && !belongs(p, st))
		return 0;
	if (process_recorder(p, st) != RECORDER_NOT)
		return 0; /* the next scan knows more about a process that may qualify */
	return member_add(p, st, false, out);
}

static int consider(struct processes *p, int32_t pid, bool sure, struct framebuf *out)
{
	struct procfs_stat st;

	return candidate_read(p, pid, &st) ? admit(p, &st, sure, out) : 0;
}

/* For example a command started by --on-alert. */
static bool descends_from_recorder(const struct processes *p, const struct procfs_stat *st)
{
	enum {
		MOST = 16 /* generations */
	};
	struct procfs_stat parent = *st;

	for (int i = 0; i < MOST && parent.ppid > 1; i++) {
		if (parent.ppid == p->env.recorder_pid || processes_is_ignored(p, parent.ppid))
			return true;
		if (process_stat(p, parent.ppid, &parent) < 0)
			break;
	}
	return false;
}

/* Slurm's daemon of a step is in the cgroup of its tasks. */
static bool is_task_starter(const struct procfs_stat *st)
{
	return strcmp(st->name, "slurmstepd") == 0;
}

bool processes_is_task_starter(struct processes *p, pid_t pid)
{
	struct procfs_stat st;

	return process_stat(p, pid, &st) == 0 && is_task_starter(&st);
}

int processes_join(struct processes *p, pid_t pid, struct framebuf *out)
{
	struct procfs_stat st;
	int r = 0;

	if (!p->foreign && candidate_read(p, pid, &st) && !is_task_starter(&st) &&
		!descends_from_recorder(p, &st))
		r = admit(p, &st, true, out);
	if (r > 0)
		processes_forget_scans(p);
	return r;
}

/* ---- the tree ----------------------------------------------------------------------------------------------------- */

struct visit {
	struct processes *p;
	struct framebuf *out;
	int32_t pid;     /* tree: process whose threads are visited */
	bool is_member;
	bool cached;     /* scan: known strangers are skipped */
	bool first;      /* scan: the tree was just walked, and no process can have been lost since
	                  * the start of the run */
	int found;
};

static int child_visit(void *ctx, int32_t pid)
{
	struct visit *v = ctx;
	int r = consider(v->p, pid, v->is_member, v->out);

	v->found += r > 0;
	return r < 0 ? r : 0;
}

/* Kernels without CONFIG_PROC_CHILDREN lack this file; so does a thread that just ended. */
static void children_missing(struct processes *p, int32_t pid)
{
	struct procfs_stat st;

	if (p->children == 0 && process_stat(p, pid, &st) == 0)
		p->children = -1;
}

static int thread_visit(void *ctx, int32_t tid)
{
	struct visit *v = ctx;
	char path[PATH_LEN];
	int fd;

	(void) snprintf(path, sizeof(path), "%d/task/%d/children", v->pid, tid);
	fd = smallfile_open(v->p->env.root->proc, path);
	if (fd == -ENOENT)
		children_missing(v->p, v->pid);
	if (fd < 0)
		return 0;
	v->p->children = 1;
	return numbers_children(fd, child_visit, v);
}

/* one: it has a single known thread; children of newer threads are found by their pids. */
static int process_visit(struct visit *v, int32_t pid, bool one)
{
	char path[PATH_LEN];
	int r;

	v->pid = pid;
	if (one)
		return thread_visit(v, pid);
	r = numbers_list(v->p->env.root->proc, process_path(path, pid, pid, "task"), thread_visit, v);
	return r == -ENOMEM ? r : 0; /* gone, or no permission */
}

/* The list of members grows during the loop, so members found here are visited too. */
static int scan_tree(struct processes *p, struct framebuf *out)
{
	struct visit v = { .p = p, .out = out };
	int r = 0;

	if (p->ours && p->env.recorder_pid > 0)
		r = process_visit(&v, p->env.recorder_pid, false);
	v.is_member = true;
	for (size_t i = 0; i < p->n && r >= 0; i++) {
		const struct member *m = &p->members[i];

		r = process_visit(&v, m->pid,
			p->gate.proven && !p->gate.off && m->threads.known && m->threads.value == 1);
	}
	return r;
}

static uint64_t tree_cost_ns(const struct processes *p)
{
	uint64_t threads = 1;

	for (size_t i = 0; i < p->n; i++)
		threads += p->members[i].threads.known ? (uint64_t) p->members[i].threads.value : 1;
	return threads * COST_THREAD;
}

/* ---- all of the proc directory ------------------------------------------------------------------------------------ */

/* A process that the walk missed can only be in a member's session. getsid is one call; stat is
 * three, for which the kernel adds up the times of all threads, and a machine may have thousands of
 * processes. */
static bool is_in_no_session(const struct processes *p, int32_t pid)
{
	uint32_t start;
	const pid_t session = getsid(pid);

	return session < 0 ? errno == ESRCH : !map_get(&p->sessions, (uint64_t) session, &start);
}

static int scan_visit(void *ctx, int32_t pid)
{
	struct visit *v = ctx;
	uint32_t value;
	int r;

	if (v->cached && map_get(&v->p->strangers, (uint64_t) pid, &value))
		return 0;
	r = v->first && is_in_no_session(v->p, pid) ? 0 : consider(v->p, pid, false, v->out);
	if (r < 0)
		return r;
	v->found += r;
	if (r == 0 && v->cached)
		(void) map_put(&v->p->strangers, (uint64_t) pid, 1);
	return 0;
}

/* A parent may come behind its children, so the scan repeats until it finds nothing. */
static int scan_proc(struct processes *p, struct framebuf *out)
{
	const bool live = p->env.root->live;
	struct visit v = { .p = p, .out = out, .cached = live && !p->gate.off };
	int r;

	v.first = live && p->proc_scans == 0 && p->children > 0 && !p->all;
	if (p->proc_scans++ % RECHECK_EVERY == 0)
		map_done(&p->strangers);
	do {
		v.found = 0;
		r = numbers_list(p->env.root->proc, ".", scan_visit, &v);
		v.first = false;
		if (v.found > 0)
			map_done(&p->strangers);
	} while (r >= 0 && v.found > 0);
	return r;
}

/* ---- the gate ----------------------------------------------------------------------------------------------------- */

/* A reassigned pid is not a known stranger any more. */
static void strangers_forget(struct processes *p, uint32_t from, uint32_t to)
{
	uint32_t n = gate_pids_between(&p->gate, from, to);

	if (p->strangers.used == 0)
		return;
	if (n > FORGET_MAX) {
		map_done(&p->strangers);
		return;
	}
	for (uint32_t pid = from; n > 0; n--) {
		pid = gate_pid_after(&p->gate, pid, to);
		map_remove(&p->strangers, pid);
	}
}

static int scan_pids(struct processes *p, uint32_t from, uint32_t to, struct framebuf *out)
{
	uint32_t n = gate_pids_between(&p->gate, from, to);
	int r = 0;

	for (uint32_t pid = from; n > 0 && r >= 0; n--) {
		pid = gate_pid_after(&p->gate, pid, to);
		r = consider(p, (int32_t) pid, false, out);
	}
	return r;
}

/* Checks the pids assigned since the scan before the last: a process is in the table before its
 * parent is set, so each pid is checked twice. */
static int scan_new(struct processes *p, uint32_t now, struct framebuf *out)
{
	struct gate *g = &p->gate;

	if (now == g->last && now == g->before)
		return 0;
	if (!p->all && p->children > 0 &&
		(uint64_t) gate_pids_between(g, g->before, now) * COST_PID > tree_cost_ns(p))
		return scan_tree(p, out);
	return scan_pids(p, g->before, now, out);
}

/* A working gate finds every process that a walk would find; a walk through a large tree waits
 * until its cost is within the share. */
static bool walk_waits(const struct processes *p, uint64_t now_ns)
{
	const struct gate *g = &p->gate;

	return g->proven && g->walked && p->children > 0 &&
	       now_ns - g->walked_ns < tree_cost_ns(p) * WALK_SHARE;
}

/* now: the last pid, if gated. If it has not changed since the last walk, there is nothing to find;
 * but a gate that worked once is not trusted forever. */
static int scan_full(struct processes *p, bool gated, uint32_t now, uint64_t began_ns, struct framebuf *out)
{
	struct gate *g = &p->gate;
	int r;

	if (gated && g->proven && g->walked && now == g->last_full && g->before == now &&
		p->full_scans++ % RECHECK_EVERY != 0)
		return 0;
	if (gated && walk_waits(p, began_ns))
		return scan_new(p, now, out);
	g->last_full = now;
	g->walked = gated;
	g->walked_ns = began_ns;
	r = p->children >= 0 && !p->all ? scan_tree(p, out) : 0;
	if (r >= 0 && (!p->ours || p->children < 0))
		r = scan_proc(p, out);
	return r;
}

int processes_scan(struct processes *p, enum processes_scan how, struct framebuf *out)
{
	struct gate *g = &p->gate;
	uint64_t began = clock_boot_ns();
	uint32_t before_id = p->last_id, now = 0;
	bool gated = !g->off && gate_read(p, &now);
	int r = 0;

	if (p->foreign)
		return 0;
	/* A process gets its pid before its parent is set, so one more scan after a pid was
	 * assigned. */
	if (!gated || now != g->last || g->before != g->last || how == SCAN_FULL)
		preexisting_scan(p);
	if (gated)
		strangers_forget(p, g->last, now);
	if (how == SCAN_FULL)
		r = scan_full(p, gated, now, began, out);
	else if (gated)
		r = scan_new(p, now, out);
	else if (p->children > 0 && tree_cost_ns(p) < COST_BLIND)
		r = scan_tree(p, out);
	if (how == SCAN_FULL)
		gate_verify(p, before_id);
	if (gated) {
		g->before = g->last;
		g->last = now;
	}
	g->scanned_ns = began;
	return r < 0 ? r : (int) (p->last_id - before_id);
}

/* ---- for the PSS pass --------------------------------------------------------------------------------------------- */

bool gate_no_births(struct processes *p, bool *ret_vanished)
{
	struct gate *g = &p->gate;
	struct procfs_stat st;
	bool vanished = false;
	uint32_t now, n;

	if (g->off || !gate_read(p, &now))
		return false;
	n = gate_pids_between(g, g->last, now);
	if (n > GATE_PIDS_MAX)
		return false;
	for (uint32_t pid = g->last; n > 0; n--) {
		pid = gate_pid_after(g, pid, now);
		if (member_of_pid(p, (int32_t) pid))
			continue;
		if (process_stat(p, (int32_t) pid, &st) < 0)
			vanished = true;
		else if (belongs(p, &st) && !processes_is_ignored(p, (int32_t) pid) &&
			 processes_of_thread(p, (int32_t) pid) == 0)
			return false;
	}
	*ret_vanished = vanished;
	return true;
}
