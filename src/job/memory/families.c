/* SPDX-License-Identifier: MIT
 *
 * Rule (a): what fork families use at most.
 *
 * A fork copies nothing; a write to a shared page copies that page, by one fault. So after an anchor (a time at which it is known
 * what a family used at most) it uses at most that and what its faults have brought since. Of what a member's own faults brought
 * since the anchor, it has at most its anonymous memory, and no other process has any of it, unless it has forked since.
 *
 * A member alone uses its anonymous memory: each sample of it is an anchor. A valid PSS pass is one, too.
 */
#include "base/buf.h"
#include "job/memory/internal.h"

static const uint64_t sample_ns = 20000000;  /* the longest that reading a sample takes */
static const uint64_t before_ns = 100000000; /* least age of the anchor before the last one */

uint32_t family_new(struct memory *m)
{
	uint32_t i = m->free_family;

	while (i < m->n_families && m->families[i].members > 0)
		i++;
	if (i == m->n_families) {
		if (vec_reserve(&m->families, &m->cap_families, m->n_families, sizeof(*m->families),
			    PROCS_MAX) < 0)
			return NO_FAMILY;
		m->n_families++;
	}
	m->families[i] = (struct family) { .members = 1 };
	m->free_family = i + 1;
	return i;
}

static struct family *family_of(const struct memory *m, const struct proc *p)
{
	return p->family != NO_FAMILY ? &m->families[p->family] : NULL;
}

/* Others may use what it brought before it forked, and its faults are no longer counted. */
void family_leave(struct memory *m, struct proc *p)
{
	struct family *f = family_of(m, p);

	if (!f)
		return;
	if (p->has_forked)
		f->anchor.is_set = f->before.is_set = false;
	if (--f->members == 0 && p->family < m->free_family)
		m->free_family = p->family;
	p->family = NO_FAMILY;
}

static int64_t huge_since(const struct memory *m, int64_t count)
{
	return m->config.huge_bytes * larger(m->huge - count, 0);
}

/* A child that lived when the anchor was set, and was not found yet, may use what its parent had released by then: the anchor before
 * allows for that. */
void family_join(struct memory *m, struct proc *parent, struct proc *child, uint64_t forked_ns)
{
	struct family *f = family_of(m, parent);

	if (!f)
		return;
	family_leave(m, child);
	child->family = parent->family;
	f->members++;
	f->is_shared = true;
	parent->has_forked = true;
	if (!f->anchor.is_set || f->anchor.time_ns == 0 || f->anchor.time_ns + sample_ns <= forked_ns)
		return;
	if (f->before.is_set && (f->before_ns == 0 || f->before_ns + sample_ns <= forked_ns))
		f->anchor.bytes = larger(f->anchor.bytes, f->before.bytes);
	else
		f->anchor.is_set = false;
}

void family_begin(struct memory *m, struct proc *p)
{
	struct family *f = family_of(m, p);

	if (!f)
		return;
	f->anchor = (struct anchor) { .is_set = true };
	f->huge_at_anchor = m->huge_then; /* it began since the last total, maybe before huge pages were counted */
	p->faults_at_anchor = p->faults_behind_anchor = p->faults;
	p->file_at_anchor = p->anon_at_anchor = 0;
}

void family_faults(const struct memory *m, const struct proc *p, int64_t faults)
{
	struct family *f = family_of(m, p);

	if (f)
		f->brought += larger(faults - p->faults, 0);
}

/* ---- adding up ------------------------------------------------------------------------------------------------------ */

/* What its own faults brought since the anchor: at most (high: as far as it can be there), and probably. */
static void own_add(const struct memory *m, struct family *f, const struct proc *p)
{
	const int64_t brought = fault_bytes(m, p->faults - p->faults_at_anchor),
		      high = brought + huge_since(m, f->huge_at_anchor);
	const int64_t copied = p->faults_behind_anchor < 0
				       ? 0
				       : fault_bytes(m, p->faults - p->faults_behind_anchor);
	const int64_t mapped = larger(p->file - p->file_at_anchor, 0), grown = anon_of(p) - p->anon_at_anchor;
	/* others may use what it brought before it forked */
	const enum memory_set sets = p->has_forked ? MEMORY_SETS : sets_of(p);

	for (enum memory_set s = MEMORY_ALL; s < sets; s++) {
		f->sum.own_high[s] += p->has_forked ? high : smaller(high, anon_of(p));
		f->sum.own_brought[s] += brought;
		f->sum.own_copied[s] += smaller(larger(larger(copied - mapped, grown), 0), anon_of(p));
	}
}

static void proc_add(struct memory *m, const struct proc *p)
{
	struct family *f = family_of(m, p);
	const int64_t anon = anon_of(p);

	if (!f)
		return;
	f->sum.n++;
	f->sum.is_stale |= p->faults_seq < m->sample;
	f->sum.is_incomplete |= !p->is_read || p->read_seq < m->sample;
	f->sum.has_forks |= p->has_forked;
	f->sum.largest = larger(f->sum.largest, anon);
	for (enum memory_set s = MEMORY_ALL; s < sets_of(p); s++) {
		f->sum.anon[s] += anon;
		f->sum.n_in[s]++;
	}
	own_add(m, f, p);
}

void families_add(struct memory *m)
{
	for (size_t i = 0; i < m->n_families; i++)
		m->families[i].sum = (struct family_sum) { 0 };
	for (size_t i = 0; i < m->n_procs; i++) {
		if (!m->procs[i].has_ended)
			proc_add(m, &m->procs[i]);
	}
}

static bool is_huge_fresh(const struct memory *m)
{
	return m->config.huge_bytes == 0 || m->huge_seq == m->sample || !m->has_moved;
}

/* Would the faults, if they were read now, lower what it uses at most? */
static bool is_open(const struct memory *m, const struct family *f)
{
	return f->sum.n > 1 && f->anchor.is_set && (f->sum.is_stale || !is_huge_fresh(m));
}

static int64_t family_high(const struct memory *m, const struct family *f, enum memory_set s)
{
	const int64_t own = smaller(
		f->sum.own_high[s], f->sum.own_brought[s] + huge_since(m, f->huge_at_anchor));

	if (f->sum.n_in[s] <= 1 || !f->anchor.is_set || is_open(m, f) || !is_on(m, MEMORY_RULE_FAMILIES))
		return f->sum.anon[s];
	return smaller(f->sum.anon[s], f->anchor.bytes + own);
}

/* Of several that were there at the first sample, all that they can share they probably share: a pass corrects that. */
static int64_t family_estimate(const struct memory *m, const struct family *f, enum memory_set s)
{
	if (f->sum.n_in[s] <= 1 || !is_on(m, MEMORY_RULE_FAMILIES))
		return f->sum.anon[s];
	return smaller(f->anchor.is_set ? f->estimate_at_anchor + f->sum.own_copied[s] : f->sum.largest,
		f->sum.anon[s]);
}

bool families_anon(const struct memory *m, enum memory_set s, int64_t *ret_high, int64_t *ret_estimate)
{
	bool open = false;

	*ret_high = *ret_estimate = 0;
	for (size_t i = 0; i < m->n_families; i++) {
		const struct family *f = &m->families[i];
		const int64_t high = f->sum.n > 0 ? family_high(m, f, s) : 0;

		if (f->sum.n == 0)
			continue;
		*ret_high += high;
		*ret_estimate += smaller(family_estimate(m, f, s), high);
		open |= is_open(m, f);
	}
	return open;
}

/* ---- anchors -------------------------------------------------------------------------------------------------------- */

static void anchor_set(struct memory *m, struct family *f, int64_t bytes, int64_t estimate)
{
	if (!f->before.is_set || (f->anchor.is_set && f->anchor.time_ns + before_ns <= m->now_ns)) {
		f->before = f->anchor;
		f->before_ns = f->anchor.time_ns;
	}
	if (f->before.is_set)
		f->before.bytes += fault_bytes(m, f->brought) + huge_since(m, f->huge_at_anchor);
	f->brought = 0;
	f->anchor =
		(struct anchor) { .is_set = true, .bytes = bytes, .time_ns = larger((int64_t) m->now_ns, 1) };
	f->estimate_at_anchor = estimate;
	f->huge_at_anchor = m->huge_before;
}

/* faults: as known before the memory was read that the anchor stands for. */
static void member_anchor(struct memory *m, struct proc *p, int64_t faults)
{
	m->families[p->family].brought += larger(p->faults - faults, 0);
	p->has_forked = false;
	p->faults_at_anchor = faults;
	p->faults_behind_anchor = p->faults_seq == m->sample ? p->faults : -1;
	p->file_at_anchor = p->file;
	p->anon_at_anchor = anon_of(p);
}

/* A family uses no more than its members' sum: where the anchor allows as much, the sum is a better one. Where a member has forked, what
 * it brings from here on is its own again. */
void families_anchor(struct memory *m)
{
	for (size_t i = 0; i < m->n_families; i++) {
		struct family *f = &m->families[i];
		const int64_t high = family_high(m, f, MEMORY_ALL);

		f->is_anchored = f->sum.n > 0 && !f->sum.is_incomplete && !is_open(m, f) &&
				 (!f->anchor.is_set || f->sum.has_forks || high >= f->sum.anon[MEMORY_ALL]);
		if (f->is_anchored)
			anchor_set(m, f, high, family_estimate(m, f, MEMORY_ALL));
	}
	for (size_t i = 0; i < m->n_procs; i++) {
		struct proc *p = &m->procs[i];

		if (!p->has_ended && p->family != NO_FAMILY && m->families[p->family].is_anchored)
			member_anchor(m, p, p->faults_before);
	}
}

void families_pass(struct memory *m)
{
	for (size_t i = 0; i < m->n_families; i++)
		m->families[i].pss_anon = 0;
	for (size_t i = 0; i < m->n_procs; i++) {
		struct proc *p = &m->procs[i];

		if (p->has_ended || p->family == NO_FAMILY)
			continue;
		m->families[p->family].pss_anon += p->pss_anon;
		member_anchor(m, p, p->faults);
	}
	for (size_t i = 0; i < m->n_families; i++) {
		if (m->families[i].members > 0)
			anchor_set(m, &m->families[i], m->families[i].pss_anon + m->pass.moved,
				m->families[i].pss_anon);
	}
}
