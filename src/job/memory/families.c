/* SPDX-License-Identifier: MIT
 *
 * Rule (a): what fork families use at most.
 *
 * A fork copies nothing; a write to a shared page copies that page, by one fault. So after an anchor (a time at which it is known
 * what a family used at most) it uses at most that and what its faults have brought since. Of what a member's own faults brought
 * since the anchor, it holds at most its anonymous memory, and nobody else holds any of it, unless it has forked since.
 *
 * A member alone uses its anonymous memory: each sample of it is an anchor. A valid PSS pass is one, too.
 */
#include "base/buf.h"
#include "job/memory/internal.h"

static const uint64_t sample_ns = 20000000;  /* the longest that reading a sample takes */
static const uint64_t before_ns = 100000000; /* so old is the anchor before the last one, at least */

uint32_t family_new(struct memory *m)
{
	uint32_t i = m->free_family;

	while (i < m->n_families && m->families[i].members > 0)
		i++;
	if (i == m->n_families) {
		if (vec_room(&m->families, &m->cap_families, m->n_families, sizeof(*m->families), PROCS_MAX) < 0)
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

/* What it brought before it forked others may hold: how much that was is not known before its exit record has come. */
void family_leave(struct memory *m, struct proc *p, bool is_counted)
{
	struct family *f = family_of(m, p);

	if (!f)
		return;
	if (p->has_forked)
		f->kept += larger(p->faults - p->faults_at_anchor, 0);
	if (p->has_forked && !is_counted)
		f->anchor.is_set = f->before.is_set = false;
	if (--f->members == 0 && p->family < m->free_family)
		m->free_family = p->family;
	p->family = NO_FAMILY;
}

static int64_t pages(const struct memory *m, int64_t faults)
{
	return m->config.page_bytes * larger(faults, 0);
}

static int64_t huge_since(const struct memory *m, int64_t count)
{
	return m->config.huge_bytes * larger(m->huge - count, 0);
}

/* A child that was there when the anchor was taken, and had not been found, may hold what its parent had given back by then: the
 * anchor before tells, carried forward by all faults since. */
void family_join(struct memory *m, struct proc *parent, struct proc *child, uint64_t forked_ns)
{
	struct family *f = family_of(m, parent);

	if (!f)
		return;
	family_leave(m, child, true);
	child->family = parent->family;
	f->members++;
	f->is_shared = true;
	parent->has_forked = true;
	child->is_given = true;
	if (!f->anchor.is_set || f->anchor.time_ns == 0 || f->anchor.time_ns + sample_ns <= forked_ns)
		return;
	if (f->before.is_set && (f->before_ns == 0 || f->before_ns + sample_ns <= forked_ns))
		f->anchor.bytes = larger(f->anchor.bytes, f->before.bytes);
	else
		f->anchor.is_set = false;
}

void family_found(struct memory *m, struct proc *p)
{
	struct family *f = family_of(m, p);

	if (!f)
		return;
	f->anchor = (struct anchor) { .is_set = true };
	f->huge_at_anchor = m->huge;
	p->faults_at_anchor = p->faults_behind_anchor = p->faults;
	p->file_at_anchor = p->anon_at_anchor = p->swelled = 0;
	p->is_given = false;
}

void family_faults(const struct memory *m, struct proc *p, int64_t faults)
{
	struct family *f = family_of(m, p);

	if (p->faults_behind_anchor < 0)
		p->faults_behind_anchor = faults;
	if (f)
		f->brought += larger(faults - p->faults, 0);
}

/* ---- adding up ------------------------------------------------------------------------------------------------------ */

/* What its own faults brought since the anchor, at most and probably, as far as it can be there. */
static void own_add(const struct memory *m, struct family *f, const struct proc *p)
{
	const int64_t anon = anon_of(p), brought = pages(m, p->faults - p->faults_at_anchor), huge = huge_since(m, f->huge_at_anchor);
	const int64_t mapped = is_on(m, MEMORY_RULE_MAPPING) ? larger(p->file - p->file_at_anchor, 0) : 0;
	const int64_t behind = p->faults_behind_anchor < 0 ? p->faults : p->faults_behind_anchor;
	const int64_t copied = p->gives_back ? 0 : larger(pages(m, p->faults - behind) - mapped - p->swelled, 0);
	const int64_t high = p->has_forked ? brought + huge : smaller(brought + huge, anon);
	const int64_t estimate = smaller(copied + anon - p->anon_at_anchor, anon);

	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		const bool is_out = s == MEMORY_DESCENDANTS && p->is_main;

		if (is_out && !p->has_forked)
			continue;
		f->own_high[s] += high;
		f->own_brought[s] += brought;
		f->own_estimate[s] += is_out ? 0 : larger(estimate, 0);
	}
}

static void proc_add(struct memory *m, const struct proc *p)
{
	struct family *f = family_of(m, p);
	const int64_t anon = anon_of(p);

	if (!f)
		return;
	f->n++;
	f->is_stale |= p->faults_seq < m->sample;
	f->is_incomplete |= !p->is_read || p->read_seq < m->sample;
	f->has_forks |= p->has_forked;
	f->largest = larger(f->largest, anon);
	for (enum memory_set s = MEMORY_ALL; s < sets_of(p); s++) {
		f->anon[s] += anon;
		f->n_in[s]++;
	}
	own_add(m, f, p);
}

void families_add(struct memory *m)
{
	for (size_t i = 0; i < m->n_families; i++) {
		struct family *f = &m->families[i];

		f->n = 0;
		f->largest = 0;
		f->is_stale = f->is_incomplete = f->has_forks = false;
		for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
			f->anon[s] = f->own_high[s] = f->own_brought[s] = f->own_estimate[s] = 0;
			f->n_in[s] = 0;
		}
	}
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
	return f->n > 1 && f->anchor.is_set && (f->is_stale || !is_huge_fresh(m));
}

static int64_t family_high(const struct memory *m, const struct family *f, enum memory_set s)
{
	const int64_t kept = pages(m, f->kept), huge = huge_since(m, f->huge_at_anchor);
	const int64_t own = smaller(f->own_high[s], f->own_brought[s] + huge);

	if (f->n_in[s] <= 1 || !f->anchor.is_set || is_open(m, f) || !is_on(m, MEMORY_RULE_FAMILIES))
		return f->anon[s];
	return smaller(f->anon[s], f->anchor.bytes + own + kept);
}

/* Of several that were there at the first sample, all that they can share they probably share: a pass corrects that. */
static int64_t family_estimate(const struct memory *m, const struct family *f, enum memory_set s)
{
	int64_t estimate = f->anchor.is_set ? f->base_estimate + f->own_estimate[s] : f->largest;

	if (f->n_in[s] <= 1 || !is_on(m, MEMORY_RULE_FAMILIES))
		return f->anon[s];
	estimate = larger(estimate, 0);
	return smaller(estimate, f->anon[s]);
}

bool families_anon(const struct memory *m, enum memory_set s, int64_t *ret_high, int64_t *ret_estimate)
{
	bool open = false;

	*ret_high = *ret_estimate = 0;
	for (size_t i = 0; i < m->n_families; i++) {
		const struct family *f = &m->families[i];
		const int64_t high = f->n > 0 ? family_high(m, f, s) : 0;

		if (f->n == 0)
			continue;
		*ret_high += high;
		*ret_estimate += smaller(family_estimate(m, f, s), high);
		open |= is_open(m, f);
	}
	return open;
}

/* ---- anchors -------------------------------------------------------------------------------------------------------- */

/* The anchor before moves on to the same time, or the last one takes its place once that is old enough. */
static void before_take(const struct memory *m, struct family *f, uint64_t time_ns)
{
	const bool is_old = f->anchor.is_set && f->anchor.time_ns + before_ns <= time_ns;

	if (is_old || !f->before.is_set) {
		f->before = f->anchor;
		f->before_ns = f->anchor.time_ns;
	}
	if (f->before.is_set)
		f->before.bytes += pages(m, f->brought) + huge_since(m, f->huge_at_anchor);
}

static void anchor_take(struct memory *m, uint32_t family, int64_t bytes, int64_t estimate, uint64_t time_ns)
{
	struct family *f = &m->families[family];

	before_take(m, f, time_ns);
	f->anchor = (struct anchor) { .is_set = true, .bytes = bytes, .time_ns = time_ns > 0 ? time_ns : 1 };
	f->base_estimate = estimate;
	f->brought = f->kept = 0;
	f->huge_at_anchor = m->huge_before;
}

/* faults: that had been read before what the anchor says. */
static void member_anchor(struct memory *m, struct proc *p, int64_t faults)
{
	m->families[p->family].brought += larger(p->faults - faults, 0);
	p->has_forked = false;
	p->faults_at_anchor = faults;
	p->faults_behind_anchor = p->faults_seq == m->sample ? p->faults : -1;
	p->file_at_anchor = p->file;
	p->anon_at_anchor = anon_of(p);
	p->swelled = 0;
}

/* A family uses no more than its members' sum: where the anchor says no less, the sum is a better one. Where a member has forked, what
 * it brings from here on is its own again. */
void families_anchor(struct memory *m, uint64_t time_ns)
{
	for (size_t i = 0; i < m->n_families; i++) {
		struct family *f = &m->families[i];
		const int64_t high = family_high(m, f, MEMORY_ALL);

		f->is_anchored = f->n > 0 && !f->is_incomplete && !is_open(m, f) &&
				 (!f->anchor.is_set || f->has_forks || high >= f->anon[MEMORY_ALL]);
		if (f->is_anchored)
			anchor_take(m, (uint32_t) i, high, family_estimate(m, f, MEMORY_ALL), time_ns);
	}
	for (size_t i = 0; i < m->n_procs; i++) {
		struct proc *p = &m->procs[i];

		if (!p->has_ended && p->family != NO_FAMILY && m->families[p->family].is_anchored)
			member_anchor(m, p, p->faults_before);
	}
}

void families_pass(struct memory *m, uint64_t time_ns)
{
	for (size_t i = 0; i < m->n_families; i++)
		m->families[i].pss_anon = 0;
	for (size_t i = 0; i < m->n_procs; i++) {
		if (!m->procs[i].has_ended && m->procs[i].family != NO_FAMILY)
			m->families[m->procs[i].family].pss_anon += m->procs[i].pss_anon;
	}
	for (size_t i = 0; i < m->n_families; i++) {
		struct family *f = &m->families[i];

		if (f->members > 0)
			anchor_take(m, (uint32_t) i, f->pss_anon + m->pass.moved, f->pss_anon, time_ns);
	}
	for (size_t i = 0; i < m->n_procs; i++) {
		if (!m->procs[i].has_ended && m->procs[i].family != NO_FAMILY)
			member_anchor(m, &m->procs[i], m->procs[i].faults);
	}
}
