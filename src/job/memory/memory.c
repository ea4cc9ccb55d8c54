/* SPDX-License-Identifier: MIT
 *
 * The events of a job that the estimator of combined memory draws conclusions from.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "job/memory/internal.h"

struct memory *memory_new(const struct memory_config *config)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->config = *config;
	m->open.later[MEMORY_ALL] = m->open.later[MEMORY_DESCENDANTS] = INT64_MAX;
	m->sample = m->first = m->faults_known = m->huge_known = 1;
	return m;
}

void memory_free(struct memory *m)
{
	if (!m)
		return;
	map_done(&m->by_id);
	free(m->procs);
	free(m->families);
	free(m->unsampled);
	free(m);
}

/* ---- processes ---------------------------------------------------------------------------------------------------------- */

struct proc *proc_find(const struct memory *m, uint32_t id)
{
	uint32_t place;

	return id != 0 && map_get(&m->by_id, id, &place) ? &m->procs[place] : NULL;
}

static struct proc *living(struct memory *m, uint32_t id)
{
	struct proc *p = proc_find(m, id);

	return p && !p->has_ended ? p : NULL;
}

static void proc_remove(struct memory *m, struct proc *p)
{
	map_remove(&m->by_id, p->id);
	*p = m->procs[--m->n_procs];
	if (p < &m->procs[m->n_procs]) /* the key is there: nothing is allocated */
		(void) map_put(&m->by_id, p->id, (uint32_t) (p - m->procs));
}

static struct proc *proc_make(struct memory *m, uint32_t id)
{
	if (vec_reserve(&m->procs, &m->cap_procs, m->n_procs, sizeof(*m->procs), PROCS_MAX) < 0 ||
		map_put(&m->by_id, id, (uint32_t) m->n_procs) < 0)
		return NULL;
	m->procs[m->n_procs] = (struct proc) { .id = id, .family = NO_FAMILY };
	return &m->procs[m->n_procs++];
}

int memory_birth(struct memory *m, const struct memory_birth *birth)
{
	struct proc *p = proc_find(m, birth->id), *parent;

	if (p || m->config.is_off)
		return 0;
	p = proc_make(m, birth->id);
	if (!p) {
		m->is_sampled = true;
		return -ENOMEM;
	}
	p->parent = birth->parent;
	p->program = birth->program;
	p->is_main = birth->is_main;
	m->main = birth->is_main ? birth->id : m->main;
	p->has_execed = birth->is_new;
	p->family = family_new(m);
	m->has_moved = true;
	m->is_added = false;
	parent = proc_find(m, birth->parent);
	interval_born(m, p, parent && parent->is_main, birth->forked_ns);
	if (parent && parent->has_ended)
		parent = NULL;
	m->has_fallen |= birth->is_new && !birth->is_main; /* it was a copy before */
	if (birth->is_new)
		family_begin(m, p);
	else if (parent && parent->program != 0 && parent->program == p->program)
		family_join(m, parent, p, birth->forked_ns);
	return p->family == NO_FAMILY ? -ENOMEM : 0;
}

/* It uses none of its memory any more, however little that was in its last sample. */
static void memory_leaves(struct memory *m, struct proc *p)
{
	for (enum memory_set s = MEMORY_ALL; s < sets_of(p); s++)
		m->left[s] += p->is_early ? 0 : p->rss_then;
	p->left = p->rss_then;
	p->rss_then = p->file_then = 0;
	m->has_moved = m->has_fallen = true;
	m->is_added = false;
	family_leave(m, p);
	p->has_forked = false;
}

/* Its hwm is lost: it was as large as known at most, and what its faults have brought since its hwm was read. */
static void program_leaves(const struct memory *m, struct proc *p, int64_t faults)
{
	p->lost_hwm = larger(p->lost_hwm, larger(p->top, p->hwm) + fault_bytes(m, faults - p->faults_at_hwm));
}

int memory_exec(struct memory *m, uint32_t id, uint64_t program)
{
	struct proc *p = living(m, id);

	if (!p)
		return 0;
	program_leaves(m, p, p->faults);
	p->has_execed = true;
	p->program = program;
	p->hwm = p->top = p->twice = 0;
	memory_leaves(m, p);
	p->family = family_new(m);
	if (p->family == NO_FAMILY)
		return -ENOMEM;
	family_begin(m, p);
	return 0;
}

/* Before its exec a program was a copy of its parent. A fork starts with what its parent has. */
static void first_size(struct memory *m, struct proc *p, int64_t anon)
{
	const struct proc *parent = proc_find(m, p->parent);

	if (p->has_execed && !p->is_main && parent)
		p->lost_hwm = larger(p->lost_hwm, larger(parent->top, parent->hwm));
	if (parent && p->family != NO_FAMILY && parent->family == p->family)
		p->anon_at_anchor = parent->is_read ? smaller(anon, anon_of(parent)) : anon;
}

void memory_size(struct memory *m, uint32_t id, int64_t rss, int64_t file)
{
	struct proc *p = living(m, id);

	if (!p)
		return;
	if (!m->is_sampling)
		m->huge_before = m->huge;
	m->is_sampling = true;
	m->is_added = false;
	m->has_moved |= !p->is_read || rss != p->rss || file != p->file;
	if (!p->is_read)
		first_size(m, p, larger(rss - file, 0));
	/* Files that only the first of two reads in a sample found. */
	for (enum memory_set s = MEMORY_ALL; p->is_read && p->read_seq == m->sample && s < sets_of(p); s++)
		m->open.burst[s] += larger(p->file - smaller(file, rss), 0);
	p->rss = rss;
	p->file = smaller(file, rss);
	/* Not at a second read in the same sample: the hwm may have been read in between. */
	m->has_fallen |= is_below(p) && p->read_seq < m->sample;
	p->is_read = true;
	p->read_seq = m->sample;
	p->faults_before = p->faults;
	p->top = larger(p->top, rss);
	p->rss_most = larger(p->rss_most, rss);
}

void memory_time(struct memory *m, uint64_t time_ns)
{
	m->now_ns = time_ns;
}

void memory_hwm(struct memory *m, uint32_t id, int64_t hwm, bool is_own)
{
	struct proc *p = living(m, id);

	/* Its program before the present one is bounded by faults, which come first. */
	if (!p || !p->is_read || (p->has_execed && !p->is_main))
		return;
	interval_hwm(m, p, hwm, is_own && hwm > p->hwm, p->faults);
	m->hwm_read = m->sample;
	p->hwm = hwm;
	p->hwm_seq = m->sample;
}

void memory_faults(struct memory *m, uint32_t id, int64_t faults)
{
	struct proc *p = living(m, id);

	if (!p)
		return;
	m->has_moved |= faults != p->faults;
	family_faults(m, p, faults);
	if (p->faults_behind_anchor < 0)
		p->faults_behind_anchor = faults;
	/* No hwm shows what it was before an exec: at most what was known of it, and what its faults brought until the exec. */
	if (p->has_execed && (p->lost_hwm > 0 || !p->is_main))
		p->lost_hwm += fault_bytes(m, faults - p->faults);
	p->has_execed = false;
	p->faults = larger(p->faults, faults);
	p->has_faults = true;
	p->faults_seq = m->sample;
	m->is_added = false;
}

void memory_mapped_twice(struct memory *m, uint32_t id, int64_t bytes)
{
	struct proc *p = living(m, id);

	if (!p)
		return;
	p->twice = bytes; /* it may touch them later */
	m->is_mapped_twice |= smaller(bytes, p->file) > MIB;
	m->is_added = false;
}

/* ---- ends ----------------------------------------------------------------------------------------------------------------- */

/* No sample found it. A copy of its parent uses its parent's pages, those its faults brought, and whatever exceeds its parent's size. A program
 * was its parent's copy before its exec. */
static void unsampled_end(struct memory *m, struct proc *p, const struct memory_end *end)
{
	const struct proc *parent = proc_find(m, p->parent);
	const int64_t hwm = end->hwm.value, parent_hwm = parent ? larger(parent->top, parent->hwm) : 0;
	const int64_t faults = end->faults.known ? end->faults.value : hwm / m->config.page_bytes;
	const int64_t own = fault_bytes(m, faults) + larger(hwm - parent_hwm, 0);

	if (!end->is_copy && !p->is_main)
		p->lost_hwm = larger(p->lost_hwm, parent_hwm + fault_bytes(m, faults));
	m->records_lost |= !end->is_copy && !end->faults.known; /* its size before the exec is not known */
	interval_burst(m, p, hwm, end->is_copy ? smaller(hwm, own) : hwm, faults);
	p->top = hwm; /* all of it is counted */
}

/* Memory is released a while after the exit record: at 8 GB/s, once the process runs again. A copy of its parent has few pages of its own. */
static uint64_t release_ns(const struct memory *m, const struct memory_end *end)
{
	const int64_t hwm = larger(end->hwm.value, 0);
	const int64_t own = end->is_copy && end->faults.known
				    ? smaller(hwm, fault_bytes(m, end->faults.value))
				    : hwm;

	return 4000000 + (uint64_t) larger(own, hwm / 16) / 8;
}

static void record_apply(struct memory *m, struct proc *p, const struct memory_end *end)
{
	bool is_reached;

	if (end->is_renamed) {
		program_leaves(m, p, end->faults.value);
		p->hwm = p->top = 0;
	} else if (p->is_read && p->has_execed && !p->is_main) {
		p->lost_hwm += fault_bytes(m, end->faults.value - p->faults);
	}
	is_reached = end->is_own && end->hwm.value > p->hwm;
	if (!p->is_read && end->is_own)
		unsampled_end(m, p, end);
	p->is_ending = true;
	p->is_early = end->until_ns + release_ns(m, end) <= m->now_ns;
	interval_hwm(m, p, end->hwm.value, is_reached, end->faults.known ? end->faults.value : p->faults);
	p->hwm = larger(p->hwm, end->hwm.value);
	for (enum memory_set s = MEMORY_ALL; p->is_early && s < sets_of(p); s++)
		m->left[s] = larger(m->left[s] - p->left, 0);
	p->left = 0;
}

static void leave(struct memory *m, struct proc *p)
{
	const bool had_relatives = has_relatives(m, p);

	p->has_ended = true;
	memory_leaves(m, p);
	p->has_forked = had_relatives; /* for its exit record */
}

static void end_apply(struct memory *m, struct proc *p, const struct memory_end *end)
{
	if (end->hwm.known)
		record_apply(m, p, end);
	if (end->faults.known)
		memory_faults(m, end->id, end->faults.value);
	if (!p->has_ended)
		leave(m, p);
	if (end->is_awaited && !end->hwm.known && !m->records_lost)
		return;
	m->records_lost |= !end->hwm.known;
	p->is_over = m->has_over = true;
}

void memory_end(struct memory *m, const struct memory_end *end)
{
	struct proc *p = proc_find(m, end->id);

	if (!p || p->is_over || (p->is_unsampled && !end->hwm.known))
		return;
	/* The sample that follows finds how large its parent was. Without memory to wait, now. */
	if (!end->hwm.known || p->is_read ||
		vec_reserve(&m->unsampled, &m->cap_unsampled, m->n_unsampled, sizeof(*m->unsampled),
			PROCS_MAX) < 0) {
		end_apply(m, p, end);
		return;
	}
	m->unsampled[m->n_unsampled++] = *end;
	p->is_unsampled = true;
	if (!p->has_ended)
		leave(m, p);
}

void unsampled_settle(struct memory *m)
{
	for (size_t k = 0; k < m->n_unsampled; k++) {
		struct proc *p = proc_find(m, m->unsampled[k].id);

		if (!p->is_over)
			end_apply(m, p, &m->unsampled[k]);
	}
	m->n_unsampled = 0;
	for (size_t k = m->has_over ? m->n_procs : 0; k-- > 0;) {
		if (m->procs[k].is_over)
			proc_remove(m, &m->procs[k]);
	}
	m->has_over = false;
}

void memory_records_lost(struct memory *m)
{
	if (m->records_lost)
		return;
	unsampled_settle(m);
	m->records_lost = m->has_over = true;
	for (size_t k = 0; k < m->n_procs; k++)
		m->procs[k].is_over = m->procs[k].has_ended;
}

/* What exceeds the largest known process may have been used together with all that is known. So may one that no sample found. */
void memory_some_process(struct memory *m, int64_t bytes, bool no_main)
{
	const int64_t known = larger(m->low_peak[MEMORY_ALL], m->low[MEMORY_ALL]);

	m->some_more = larger(m->some_more, bytes - known);
	m->low[MEMORY_ALL] = larger(m->low[MEMORY_ALL], bytes);
	if (!no_main)
		return;
	m->low[MEMORY_DESCENDANTS] = larger(m->low[MEMORY_DESCENDANTS], bytes);
	m->is_sampled |= m->records_lost;
}

/* ---- the machine -------------------------------------------------------------------------------------------------------- */

void memory_huge(struct memory *m, int64_t count)
{
	if (m->huge_seq == 0) /* those allocated before the run are not the job's */
		m->huge = m->huge_before = m->huge_then = count;
	m->huge = larger(m->huge, count);
	m->huge_seq = m->sample;
	m->is_added = false;
}

void memory_machine(struct memory *m, int64_t bytes)
{
	m->machine = maybe_max(m->machine, known(bytes));
}

void memory_cgroup(struct memory *m, int64_t anon)
{
	m->cgroup = known(anon);
}

void memory_files(struct memory *m, int64_t most, int64_t likely)
{
	m->files = known(most);
	m->files_likely = likely;
	for (size_t k = 0; k < m->n_procs; k++)
		m->procs[k].file_at_files = m->procs[k].file;
	m->is_added = false;
}

/* ---- PSS passes ----------------------------------------------------------------------------------------------------------- */

void memory_pss(struct memory *m, const struct memory_pss *pss)
{
	struct proc *p = living(m, pss->id);

	if (!p)
		return;
	m->pass.sum[MEMORY_ALL] += pss->pss;
	m->pass.sum[MEMORY_DESCENDANTS] += p->is_main ? 0 : pss->pss;
	m->pass.main_private += p->is_main ? pss->private : 0;
	m->pass.lacks_anon |= pss->anon < 0;
	p->pss_anon = larger(pss->anon, 0);
}

void memory_pass(struct memory *m, bool valid, int64_t moved, const int64_t grown[MEMORY_SETS])
{
	struct pass *pass = &m->pass;

	if (valid) {
		pass->is_fresh = pass->is_valid = true;
		pass->moved = moved + larger(grown[MEMORY_ALL], 0);
		/* What main shares with the others counts for them whole. */
		pass->used[MEMORY_ALL] = larger(pass->sum[MEMORY_ALL] - grown[MEMORY_ALL], 0);
		pass->used[MEMORY_DESCENDANTS] = larger(larger(pass->sum[MEMORY_DESCENDANTS],
								pass->sum[MEMORY_ALL] - pass->main_private) -
								grown[MEMORY_DESCENDANTS],
			0);
		for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++)
			pass->low[s] = larger(pass->sum[s] - moved - larger(grown[s], 0), 0);
	}
	if (valid && !pass->lacks_anon && m->config.ours && is_on(m, MEMORY_RULE_PASS))
		families_pass(m);
	m->is_added = false;
	pass->sum[MEMORY_ALL] = pass->sum[MEMORY_DESCENDANTS] = pass->main_private = 0;
	pass->lacks_anon = false;
}
