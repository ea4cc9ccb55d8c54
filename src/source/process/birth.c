/* SPDX-License-Identifier: MIT
 *
 * Adds members, and updates them after an exec.
 */
#include "source/process/processes_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/smallfile.h"
#include "base/mask.h"
#include "source/process/procfs_status.h"

static bool is_named(const struct member *m, const struct procfs_stat *st)
{
	return strncmp(m->name, st->name, sizeof(m->name) - 1) == 0;
}

/* Where the kernel hides the stack's address (another user's process, or setuid: only root may
 * know), a number of our own replaces it: its previous number if its name has not changed; that of
 * a hidden parent with the same name, of which it is a copy as far as can be seen; else a new one. */
static uint64_t program_of(struct processes *p, const struct member *m, const struct procfs_stat *st)
{
	const struct member *parent = member_of_pid(p, st->ppid);

	if (st->startcode != STARTCODE_HIDDEN)
		return st->startstack;
	if (m->program && is_named(m, st))
		return m->program;
	if (!m->program && parent && parent->hidden && is_named(parent, st))
		return parent->program;
	return STARTSTACK_HIDDEN | ++p->programs;
}

static void image_update(struct processes *p, struct member *m, const struct procfs_stat *st)
{
	const bool hidden = st->startcode == STARTCODE_HIDDEN;

	m->program = program_of(p, m, st);
	p->n_hidden += hidden && !m->hidden;
	m->hidden = hidden;
	m->startstack = st->startstack;
	m->startcode = st->startcode;
	m->endcode = st->endcode;
	(void) snprintf(m->name, sizeof(m->name), "%.15s", st->name);
}

static void birth_report(struct processes *p, struct member *m, const struct procfs_stat *st,
	uint32_t uid, struct framebuf *out)
{
	const struct member *parent = member_of_pid(p, st->ppid);
	struct maybe start = ticks_ns(p, m->start_ticks);
	char path[PATH_LEN];
	ssize_t n;

	n = smallfile_read(
		p->env.root->proc, process_path(path, m->pid, m->pid, "cmdline"), p->text, sizeof(p->text));
	(void) mask_command(p->text, n > 0 ? (size_t) n : 0, p->command, sizeof(p->command));
	rank_update(p, m, parent, p->command);
	framebuf_birth(out, &(struct birth) {
				    .entity = ENTITY_PROCESS,
				    .id = m->id,
				    .process = {
					    .pid = m->pid,
					    .ppid = st->ppid,
					    .parent = parent ? parent->id : 0,
					    .uid = uid,
					    .start_ns = start.known ? (uint64_t) start.value : 0,
					    .startstack = m->program,
					    .name = m->name,
					    .command = p->command,
					    .is_main = m->is_main,
					    .rank = m->rank,
					    .ranks = m->ranks,
				    },
			    });
}

/* Reads the fields of status that a birth needs. Returns 1, or 0 if pid is a thread or gone; a
 * missing or truncated file (captured machine) is not an error. */
static int birth_status_read(struct processes *p, int32_t pid, uint32_t *ret_uid, bool *ret_ignores)
{
	struct procfs_status st;
	char path[PATH_LEN];
	ssize_t n = smallfile_read(
		p->env.root->proc, process_path(path, pid, pid, "status"), p->text, sizeof(p->text));

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

/* The soft limit may be raised while hiwater runs. Inherited descriptors may have any number below
 * it: where they may use most of it, a test descriptor shows how much is left. */
static void fd_limit_update(struct processes *p)
{
	enum {
		LEFT = 32,
		TRIED_BELOW = 2048
	};
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	p->fd_limit = limit.rlim_cur > SPARE_FDS ? (size_t) limit.rlim_cur - SPARE_FDS : 0;
	if (p->fd_limit > 0 && limit.rlim_cur < TRIED_BELOW && !descriptors_are_left(LEFT))
		p->fd_limit = 0;
}

/* Opens its kept files and verifies that they are its own. */
static bool member_open(struct processes *p, struct member *m)
{
	struct procfs_stat st;

	fd_limit_update(p);
	member_keep(p, m, KEEP_STATM);
	member_keep(p, m, KEEP_STAT);
	if (p->n_wide < WIDE_MEMBERS && m->fd[KEEP_STAT] >= 0) {
		member_keep(p, m, KEEP_STATUS);
		member_keep(p, m, KEEP_IO);
		p->n_wide += m->fd[KEEP_STATUS] >= 0;
	}
	return process_stat(p, m->pid, &st) == 0 && st.start_ticks == m->start_ticks;
}

/* A child with its parent's stack address may run in its parent's memory until it execs (vfork); a
 * child without a stack is in that exec. */
static int32_t vm_owner_of(struct processes *p, const struct procfs_stat *st)
{
	const struct member *parent = member_of_pid(p, st->ppid);
	bool may = parent && parent->startstack != 0 &&
		   (st->startstack == 0 || st->startstack == parent->startstack);

	return may ? parent->pid : 0;
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

/* A zombie whose end was reported remains visible until it is reaped. */
static bool is_old_zombie(const struct processes *p, const struct procfs_stat *st)
{
	uint32_t start;

	return map_get(&p->zombies, (uint64_t) st->pid, &start) && start == (uint32_t) st->start_ticks;
}

int member_add(struct processes *p, const struct procfs_stat *st, bool is_main, struct framebuf *out)
{
	uint32_t uid;
	bool ignores;
	int r = vec_reserve(&p->members, &p->cap, p->n, sizeof(*p->members), MEMBERS_MAX);

	if (r < 0)
		return r;
	if (is_old_zombie(p, st) || birth_status_read(p, st->pid, &uid, &ignores) == 0)
		return 0;
	struct member *m = &p->members[p->n];
	struct maybe start = ticks_ns(p, st->start_ticks);

	*m = (struct member) {
		.id = p->last_id + 1,
		.pid = st->pid,
		.tid = st->pid,
		.start_ticks = st->start_ticks,
		.is_main = is_main,
		.vm_owner = vm_owner_of(p, st),
		.ignores_sigchld = ignores,
		.young = start.known && (uint64_t) start.value + p->tick_ns > p->env.start_boot_ns,
	};
	for (enum keep k = 0; k < KEEP_COUNT; k++)
		m->fd[k] = -1;
	if (!member_open(p, m) || (r = maps_add(p, m)) < 0) {
		member_close(p, m);
		return r;
	}
	p->n++;
	p->last_id++;
	p->unwaited += ignores;
	image_update(p, m, st);
	member_stat(p, m, st);
	birth_report(p, m, st, uid, out);
	return 1;
}

void member_rebirth(struct processes *p, struct member *m, const struct procfs_stat *st, struct framebuf *out)
{
	uint32_t uid;
	bool ignores;

	if (birth_status_read(p, m->pid, &uid, &ignores) == 0)
		return;
	image_update(p, m, st);
	birth_report(p, m, st, uid, out);
}

uint32_t process_uid(struct processes *p, int32_t pid)
{
	uint32_t uid;
	bool ignores;

	(void) birth_status_read(p, pid, &uid, &ignores);
	return uid;
}

/* The id of an ended member that was the parent: its pid has not been reassigned yet. 0: none. */
static uint32_t ended_parent(const struct processes *p, int32_t ppid)
{
	struct procfs_stat st;
	uint64_t start;
	uint32_t id = ended_find(p, ppid, &start);

	return id && (process_stat(p, ppid, &st) < 0 || st.start_ticks == start) ? id : 0;
}

uint32_t member_unsampled(struct processes *p, int32_t pid, int32_t ppid, uint32_t parent, uint32_t uid,
	const char *name, struct framebuf *out)
{
	const struct member *found = member_of_pid(p, ppid);
	const uint32_t parent_id = parent ? parent : found ? found->id
							   : ended_parent(p, ppid);
	const bool orphan = p->ours && ppid == p->env.recorder_pid;
	const bool is_main = orphan && pid == p->main_unread;

	/* A process that no scan found is known by its name alone: a recorder's first process, its
	 * reaper, a group probe, the GPU helper. */
	if (strcmp(name, HIWATER) == 0 || strcmp(name, REAPER) == 0)
		return 0;
	if (orphan && strncmp(name, HIWATER "-", sizeof(HIWATER)) == 0)
		return 0;
	if (pid == p->env.recorder_pid || processes_is_ignored(p, pid) || (!parent_id && !orphan))
		return 0;
	if (is_main)
		p->main_unread = 0;
	framebuf_birth(out, &(struct birth) {
				    .entity = ENTITY_PROCESS,
				    .id = ++p->last_id,
				    .process = {
					    .pid = pid,
					    .ppid = ppid,
					    .parent = parent_id,
					    .uid = uid,
					    .name = name,
					    .command = "",
					    .is_main = is_main,
					    .rank = found ? found->rank : UNKNOWN,
				    },
			    });
	return p->last_id;
}
