/* SPDX-License-Identifier: MIT
 *
 * The PSS pass: smaps_rollup of every member. It costs 10 ms per GiB, during which it takes the
 * process's address-space lock, so the sampler gives it a budget.
 */
#include "source/process/processes_internal.h"

#include <errno.h>

#include "base/smallfile.h"

static void rollup_report(
	const struct processes *p, struct member *m, const struct procfs_rollup *r, struct framebuf *out)
{
	member_report(m, M_PROC_PSS, known_unsigned(less_touched(p, m->pid, m->start_ticks, r->pss)), out);
	member_report(m, M_PROC_PRIVATE,
		known_unsigned(less_touched(p, m->pid, m->start_ticks, r->private)), out);
	member_report(m, M_PROC_SHARED, known_unsigned(r->shared), out);
	m->pss_anon = r->pss_anon;
}

/* Returns whether the value was obtained: false makes the pass invalid. */
static bool member_pss(struct processes *p, struct member *m, uint64_t max_bytes, struct framebuf *out)
{
	struct procfs_rollup rollup;
	char path[PATH_LEN];
	ssize_t n;

	/* A process in another's memory is counted there. */
	if (m->vm_owner && member_shares_vm(p, m))
		return true;
	if (max_bytes > 0 && m->rss > max_bytes)
		return false;
	n = member_read_path(
		p, m, process_path(path, m->pid, m->tid, "smaps_rollup"), p->text, sizeof(p->text));
	if (n >= 0 && procfs_rollup_parse(p->text, &rollup) == 0) {
		rollup_report(p, m, &rollup, out);
		return true;
	}
	/* ESRCH: its memory was released meanwhile. */
	if (n == -ESRCH || !member_check(p, m))
		return false;
	member_report(m, M_PROC_PSS, UNKNOWN, out);
	member_report(m, M_PROC_PRIVATE, UNKNOWN, out);
	member_report(m, M_PROC_SHARED, UNKNOWN, out);
	return false;
}

/* ---- processes born and ended meanwhile ----------------------------------------------------------------------------- */

/* A pid that was reused meanwhile may have been a member's child. Then a member waited for it and got its
 * faults, of which every process with memory of its own has some; a member that ignores SIGCHLD
 * does not get them. */
static bool is_nobodys_child(struct processes *p)
{
	uint64_t now;

	for (size_t i = 0; i < p->n; i++) {
		struct member *m = &p->members[i];

		if (m->ignores_sigchld || !member_faults_waited(p, m, &now) || now != m->faults_at_start)
			return false;
	}
	return true;
}

static bool no_births(struct processes *p)
{
	bool vanished;

	return gate_no_births(p, &vanished) && (!vanished || is_nobodys_child(p));
}

/* ---- the pass ------------------------------------------------------------------------------------------------------- */

static int64_t anon_of(const struct member *m)
{
	return (int64_t) m->rss - (int64_t) m->rss_file;
}

/* A new process has not been reported yet: its memory may be a copy of its parent's. */
static int size_read(struct processes *p, struct member *m, struct pss_pass *pass)
{
	const int64_t before = anon_of(m);
	const bool is_known = m->rss > 0;
	const int r = member_memory(p, m);
	const int64_t grown = r == 0 && is_known ? anon_of(m) - before : 0;

	pass->grown_bytes += grown;
	pass->grown_main_bytes += m->is_main ? grown : 0;
	return r;
}

static bool sizes_read(struct processes *p, struct pss_pass *pass)
{
	bool all = true;

	pass->grown_bytes = pass->grown_main_bytes = 0;
	for (size_t i = 0; i < p->n; i++) {
		struct member *m = &p->members[i];

		if (!m->vm_owner || !member_shares_vm(p, m))
			all &= size_read(p, m, pass) == 0;
		all &= member_faults_waited(p, m, &m->faults_at_start);
	}
	return all;
}

/* When a process maps or unmaps a page during the pass, the shares of that page do not add up to
 * one page: the error is up to half a page per change. A process that ended early in the pass was
 * read as alive; one that ended late may have been read for nothing. */
static uint64_t sizes_moved(struct processes *p)
{
	uint64_t moved = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct member *m = &p->members[i];
		uint64_t before = m->rss;

		if (m->gone || !member_check(p, m) || member_memory(p, m) < 0)
			continue;
		moved += m->rss > before ? m->rss - before : before - m->rss;
	}
	return moved;
}

struct maybe processes_pss_anon(const struct processes *p, uint32_t id)
{
	uint32_t i;

	return map_get(&p->by_id, id, &i) ? p->members[i].pss_anon : UNKNOWN;
}

int processes_pss(struct processes *p, uint64_t max_bytes, struct pss_pass *ret, struct framebuf *out)
{
	uint64_t began = thread_cpu_ns();
	int r = processes_scan(p, SCAN_FULL, out);
	size_t ended;

	if (r < 0)
		return r;
	ended = p->n_ended;
	ret->valid = sizes_read(p, ret);
	for (size_t i = 0; i < p->n; i++)
		ret->valid &= member_pss(p, &p->members[i], max_bytes, out);
	ret->moved_bytes = sizes_moved(p);
	members_sweep(p, out);
	ret->valid = ret->valid && p->n_ended == ended && no_births(p);
	ret->cost_ns = thread_cpu_ns() - began;
	return out->error;
}
