/* SPDX-License-Identifier: MIT
 *
 * Rules (b) and (c): what was used at most between two totals.
 *
 * (b) At most what the total before allowed, the files that were mapped since, what all faults since may have brought, and what
 *     high-water marks show beyond that.
 * (c) At most the largest sum, over time, of the high-water marks of the processes alive at that time.
 *
 * The smaller of both holds. It is known once the marks of all that lived in the interval are: those of the living are read once a
 * window, those of the ended come with the kernel's exit records. Until then, and where a mark is lost, (b) holds.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "job/memory/internal.h"

static struct interval *interval_at(struct memory *m, uint64_t number)
{
	return number == m->sample ? &m->open : &m->intervals[number % INTERVALS];
}

void interval_born(struct memory *m, struct proc *p, bool is_of_main, uint64_t from_ns)
{
	p->unmarked_ns = from_ns;
	p->unmarked = m->sample;
	m->open.unmarked++;
	while (p->unmarked > m->first && interval_at(m, p->unmarked - 1)->until_ns > from_ns)
		interval_at(m, --p->unmarked)->unmarked++;
	for (uint64_t q = p->unmarked; q <= m->sample && is_of_main; q++)
		interval_at(m, q)->has_given = true;
}

/* ---- marks ------------------------------------------------------------------------------------------------------------ */

static void life_add(struct memory *m, const struct proc *p, int64_t bytes, uint64_t from_ns, uint64_t until_ns)
{
	if (vec_room(&m->lives, &m->cap_lives, m->n_lives, sizeof(*m->lives), LIVES_MAX) < 0) {
		m->lives_lost = true;
		return;
	}
	m->lives[m->n_lives++] = (struct life) { from_ns, until_ns, bytes, p->is_main };
}

/* Its own faults in an interval, as far as they are known. */
static int64_t faults_in(const struct memory *m, const struct proc *p, uint64_t number, int64_t faults)
{
	if (number > p->faults_until)
		return number < m->sample && !p->is_read ? 0 : larger(faults - p->faults_then, 0);
	return number + FAULTS_KEPT > p->faults_until ? p->faults_in[number % FAULTS_KEPT] : 0;
}

/* Who shares pages since a fork may have copied them by the same faults. */
static bool has_relatives(const struct memory *m, const struct proc *p)
{
	const struct family *f = p->family != NO_FAMILY ? &m->families[p->family] : NULL;

	return f && (f->is_shared || p->has_forked);
}

/* Of a burst, what the faults of the interval do not allow: files. */
static int64_t unexplained(const struct memory *m, const struct proc *p, const struct burst *burst, uint64_t number)
{
	const int64_t faults = faults_in(m, p, number, burst->faults);

	return burst->is_explained ? larger(burst->excess - m->config.page_bytes * faults, 0) : burst->excess;
}

/* Of several processes, one that maps much of files or shared memory has probably mapped more of the same. */
static int64_t probable(const struct memory *m, const struct proc *p, int64_t excess)
{
	if (m->n_living <= 1 || p->file <= 16 * MIB)
		return excess;
	return (int64_t) ((double) excess * (double) anon_of(p) / (double) p->rss);
}

void interval_burst(struct memory *m, const struct proc *p, int64_t hwm, const struct burst *burst)
{
	for (enum memory_set s = MEMORY_ALL; s < sets_of(p); s++) {
		m->low[s] = larger(m->low[s], hwm - smaller(p->twice, hwm));
		if (burst->excess <= 0 || !is_on(m, MEMORY_RULE_BURSTS))
			continue;
		m->excess[s] = larger(m->excess[s], burst->probable);
		m->n_bursts += s == MEMORY_ALL && burst->probable > hwm / 8;
		for (uint64_t q = p->unmarked > m->first ? p->unmarked : m->first; q <= m->sample; q++) {
			struct interval *i = interval_at(m, q);

			i->later[MEMORY_ALL] = i->later[MEMORY_DESCENDANTS] = INT64_MAX;
			i->burst[s] += unexplained(m, p, burst, q);
			if (q < m->sample)
				m->estimate[s] = larger(m->estimate[s], i->estimate[s] + burst->probable);
		}
	}
}

static void settled(struct memory *m, const struct proc *p, bool is_lost)
{
	const uint64_t last = p->has_ended ? p->last : m->sample; /* of those that counted it */

	for (uint64_t q = p->unmarked > m->first ? p->unmarked : m->first; q <= last; q++) {
		interval_at(m, q)->unmarked--;
		interval_at(m, q)->is_lost |= is_lost;
	}
}

void interval_mark(struct memory *m, struct proc *p, const struct mark *mark)
{
	const int64_t hwm = mark->hwm, bytes = larger(larger(hwm, p->lost_hwm), p->top) + m->config.rss_error_bytes, excess = larger(hwm - p->top, 0);
	const struct burst burst = {
		.excess = excess,
		.probable = probable(m, p, excess),
		.faults = mark->faults,
		.is_explained = p->has_faults && !has_relatives(m, p) && is_on(m, MEMORY_RULE_FAULTS),
	};
	const uint64_t until_ns = mark->until_ns;

	if (mark->is_burst)
		interval_burst(m, p, hwm, &burst);
	if (p->first_ns > p->unmarked_ns && p->first_ns < until_ns) {
		life_add(m, p, smaller(bytes, p->first_bytes), p->unmarked_ns, p->first_ns);
		p->unmarked_ns = p->first_ns;
	}
	life_add(m, p, bytes, p->unmarked_ns, until_ns);
	settled(m, p, false);
	p->unmarked = m->sample + 1;
	p->unmarked_ns = until_ns;
	p->rss_most = larger(p->rss_most, mark->is_burst ? hwm : 0);
	p->top = p->rss;
	p->faults_at_hwm = mark->faults;
	p->lost_hwm = 0;
}

void interval_lost(struct memory *m, struct proc *p)
{
	settled(m, p, true);
	p->unmarked = m->sample + 1;
}

/* ---- settling ----------------------------------------------------------------------------------------------------------- */

/* What main gave to the children that it forked: no more than it had when the interval began, and what its faults brought since. */
static int64_t given(const struct interval *i, enum memory_set s)
{
	if (s == MEMORY_ALL || !i->has_given)
		return 0;
	return i->main_anon + i->allowed[MEMORY_ALL] - i->allowed[MEMORY_DESCENDANTS];
}

static int64_t by_faults(const struct memory *m, const struct interval *i, enum memory_set s)
{
	int64_t high;

	if (!is_on(m, MEMORY_RULE_FAULTS))
		return larger(i->at_end[s], i->before[s]) + i->burst[s] + given(i, s);
	if (__builtin_add_overflow(i->before[s] + i->files[s] + i->burst[s] + i->huge + given(i, s), i->allowed[s], &high))
		high = INT64_MAX;
	return larger(high, i->at_end[s]);
}

static int edge_order(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes; /* begins come first: both were there */
}

/* Rule (c); INT64_MAX without memory for it. */
static int64_t by_lives(struct memory *m, const struct interval *i, enum memory_set s)
{
	struct edge *edges;
	int64_t sum = 0, high = 0;
	size_t n = 0;

	if (vec_room(&m->edges, &m->cap_edges, 2 * m->n_lives, sizeof(*m->edges), 2 * LIVES_MAX + 1) < 0)
		return INT64_MAX;
	edges = m->edges;
	for (size_t k = 0; k < m->n_lives; k++) {
		const struct life *l = &m->lives[k];

		if ((s == MEMORY_DESCENDANTS && l->is_main) || l->from_ns > i->until_ns || l->until_ns < i->from_ns)
			continue;
		edges[n++] = (struct edge) { l->from_ns > i->from_ns ? l->from_ns : i->from_ns, l->bytes };
		edges[n++] = (struct edge) { l->until_ns, -l->bytes };
	}
	qsort(edges, n, sizeof(*edges), edge_order);
	for (size_t k = 0; k < n; k++) {
		sum += edges[k].bytes;
		high = larger(high, sum);
	}
	return high + given(i, s);
}

static int64_t unsettled_high(const struct memory *m, const struct interval *i, enum memory_set s)
{
	int64_t high = by_faults(m, i, s);

	if (m->config.machine_bytes > 0)
		high = smaller(high, m->config.machine_bytes);
	/* Memory that only grew was never more than a later total allows. */
	return i->is_lost || !is_on(m, MEMORY_RULE_GROWTH) ? high : smaller(high, i->later[s]);
}

/* Rule (c) costs some time: it is asked where it can lower the peak. */
static int64_t settled_high(struct memory *m, const struct interval *i, enum memory_set s)
{
	const int64_t high = unsettled_high(m, i, s), known = larger(m->high_peak[s].recent, m->high_peak[s].committed);

	if (high <= known || i->is_lost || i->unmarked > 0 || m->records_lost || m->lives_lost || !is_on(m, MEMORY_RULE_LIFETIMES))
		return high;
	return smaller(high, by_lives(m, i, s));
}

int64_t intervals_high(const struct memory *m, enum memory_set s)
{
	int64_t high = larger(m->high_peak[s].recent, m->high_peak[s].committed);

	for (uint64_t q = m->first; q < m->sample; q++)
		high = larger(high, unsettled_high(m, &m->intervals[q % INTERVALS], s));
	return high;
}

static void lives_prune(struct memory *m, uint64_t before_ns)
{
	size_t n = 0;

	for (size_t k = 0; k < m->n_lives; k++) {
		if (m->lives[k].until_ns >= before_ns)
			m->lives[n++] = m->lives[k];
	}
	m->n_lives = n;
	m->lives_lost &= n > 0;
}

static void settle_first(struct memory *m)
{
	const struct interval *i = &m->intervals[m->first % INTERVALS];

	m->is_sampled |= !i->has_faults || !i->has_huge;
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		struct recent_peak *peak = &m->high_peak[s];
		const int64_t high = settled_high(m, i, s);

		if (i->falls == m->falls && !i->is_lost && i->unmarked == 0)
			peak->recent = larger(peak->recent, high);
		else
			peak->committed = larger(peak->committed, high);
	}
	m->first++;
}

/* Huge pages that were counted now were given out at any time since they were counted last. */
static void huge_take(struct memory *m)
{
	const int64_t huge = m->config.huge_bytes * larger(m->huge - m->huge_then, 0);

	for (uint64_t q = m->huge_known > m->first ? m->huge_known : m->first; q < m->sample; q++) {
		interval_at(m, q)->has_huge = true;
		interval_at(m, q)->huge = huge;
	}
	m->huge_then = m->huge;
	m->huge_known = m->sample;
}

void intervals_settle(struct memory *m, bool all)
{
	const uint64_t before = m->first;

	if (all)
		huge_take(m);
	while (m->first < m->sample) {
		const struct interval *i = &m->intervals[m->first % INTERVALS];
		const bool is_ready = i->has_faults && i->has_huge && i->unmarked == 0 && m->sample - m->first > SETTLE_AFTER;

		if (!all && !is_ready && m->sample - m->first < INTERVALS)
			break;
		settle_first(m);
	}
	if (m->first != before && m->n_lives > 0)
		lives_prune(m, m->first < m->sample ? m->intervals[m->first % INTERVALS].from_ns : m->open.from_ns);
}

/* NULL: nothing is known of it any more. */
static const struct proc *main_of(const struct memory *m)
{
	for (size_t k = 0; k < m->n_procs; k++) {
		if (m->procs[k].is_main)
			return &m->procs[k];
	}
	return NULL;
}

/* Faults that were read now came at any time since they were read last. */
static void faults_take(struct memory *m, int64_t faults)
{
	const int64_t all = larger(faults - m->faults.value, 0);
	const struct proc *main = main_of(m);
	int64_t of_main = 0;

	if (main && main->has_faults) {
		of_main = smaller(larger(main->faults - m->main_faults, 0), all);
		m->main_faults = main->faults;
	}
	for (uint64_t q = m->faults_known > m->first ? m->faults_known : m->first; q < m->sample; q++) {
		struct interval *i = interval_at(m, q);

		i->has_faults = true;
		i->allowed[MEMORY_ALL] = m->config.page_bytes * all;
		i->allowed[MEMORY_DESCENDANTS] = m->config.page_bytes * (all - of_main);
	}
	m->faults = known(larger(faults, m->faults.value));
	m->faults_known = m->sample;
}

void interval_close(struct memory *m, uint64_t time_ns, struct maybe faults, const struct memory_total *total)
{
	const struct proc *main;
	struct interval *i;

	m->open.until_ns = time_ns;
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		m->open.at_end[s] = total->high[s];
		m->open.estimate[s] = total->estimate[s];
	}
	i = &m->intervals[m->sample % INTERVALS];
	*i = m->open;
	m->sample++;
	/* What the sample found to be given back may have been there when the next interval began: falls counts it later. */
	m->open = (struct interval) { .from_ns = time_ns, .falls = m->falls, .unmarked = (uint32_t) m->n_living, .later = { INT64_MAX, INT64_MAX } };
	if (faults.known)
		faults_take(m, faults.value);
	if (m->config.huge_bytes == 0 || m->huge_seq == m->sample - 1)
		huge_take(m);
	/* While the sample was read, what one process gave back may have been there beside what the others have now. */
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		const int64_t with = total->high[s] + m->sum.fallen[s] + m->left[s];

		m->open.before[s] = i->has_faults && i->has_huge ? larger(total->high[s], smaller(with, by_faults(m, i, s))) : with;
		m->left[s] = 0;
	}
	main = main_of(m);
	m->open.main_anon = main && !main->has_ended ? anon_of(main) : 0;
	intervals_settle(m, false);
}
