/* SPDX-License-Identifier: MIT
 *
 * The instant of a sample; the intervals between totals, with the rules that bound them; the peaks; what should be read next.
 *
 * (b) An interval uses at most what the total before allowed, the files mapped since, what all faults since may have brought, and what
 *     high-water marks (hwm) show beyond that.
 * (c) It uses at most the sum of the hwm of all processes that lived in it.
 * (e) Memory that only grew was never more than a later total allows.
 *
 * The smallest holds. (c) is known once each hwm is: those of the living are read once a window, those of the ended come with the
 * kernel's exit records. An interval is settled then, or when too many wait.
 */
#include <string.h>

#include "job/memory/internal.h"

/* ---- adding up ------------------------------------------------------------------------------------------------------ */

static void proc_add(struct memory *m, const struct proc *p)
{
	struct sum *sum = &m->sum;

	sum->n++;
	sum->is_below |= is_below(p) || p->hwm > p->rss + p->rss / 256 + MIB / 16;
	sum->lacks_hwm |= p->hwm_seq < m->sample;
	sum->rss_sum += p->rss;
	sum->anon_sum += anon_of(p);
	for (enum memory_set s = MEMORY_ALL; s < sets_of(p); s++) {
		sum->n_in[s]++;
		sum->files[s] += p->file;
		sum->largest_file[s] = larger(sum->largest_file[s], p->file);
		sum->files_since[s] += larger(p->file - p->file_at_files, 0);
		sum->fallen[s] += larger(p->rss_then - p->rss, 0);
		sum->files_grown[s] += larger(p->file - p->file_then, 0);
		sum->largest[s] = larger(sum->largest[s], p->rss - smaller(p->twice, p->file));
	}
}

static void add_up(struct memory *m)
{
	if (m->is_added)
		return;
	m->sum = (struct sum) { 0 };
	for (size_t k = 0; k < m->n_procs; k++) {
		if (!m->procs[k].has_ended)
			proc_add(m, &m->procs[k]);
	}
	families_add(m);
	m->is_added = true;
}

/* Files and shared memory, once: by what maps say, and what was mapped since they were read. */
static int64_t files_high(const struct memory *m, enum memory_set s)
{
	const int64_t sum = m->sum.files[s];

	if (!m->files.known || !is_on(m, MEMORY_RULE_FILES))
		return sum;
	return smaller(sum, m->files.value + m->sum.files_since[s]);
}

/* A process that maps more probably maps what others have mapped already, up to as much as one process has. */
static int64_t files_estimate(const struct memory *m, enum memory_set s)
{
	const int64_t high = files_high(m, s);

	return m->files.known ? smaller(high, larger(m->files_likely, m->sum.largest_file[s])) : high;
}

/* ---- the bounds of the instant -------------------------------------------------------------------------------------- */

static int64_t low_of(const struct memory *m, enum memory_set s)
{
	const int64_t cgroup = s == MEMORY_ALL ? m->cgroup.value : 0;
	const int64_t pass = m->pass.is_fresh && m->sum.n_in[s] > 0 ? m->pass.low[s] : 0;

	return larger(m->sum.largest[s], smaller(larger(cgroup, pass), m->sum.rss_sum));
}

static int64_t high_of(const struct memory *m, enum memory_set s, int64_t anon)
{
	int64_t high = anon + files_high(m, s);

	if (m->machine.known && is_on(m, MEMORY_RULE_MACHINE))
		high = smaller(high, m->machine.value + (int64_t) m->sum.n * m->config.rss_error_bytes);
	return m->config.machine_bytes > 0 ? smaller(high, m->config.machine_bytes) : high;
}

/* Corrected by what the last pass found. Files that processes outside the job map, too, count there in part, so no less than one process
 * maps of them. */
static int64_t estimate_of(struct memory *m, enum memory_set s, int64_t anon)
{
	struct pass *pass = &m->pass;
	const int64_t estimate = anon + files_estimate(m, s);

	if (pass->is_fresh && is_on(m, MEMORY_RULE_PASS))
		pass->offset[s] = pass->used[s] - estimate;
	return estimate + (pass->is_valid && m->sum.n_in[s] > 0 ? pass->offset[s] : 0);
}

static void instant_apply(struct memory *m, enum memory_set s, struct memory_total *t)
{
	int64_t anon_high, anon_estimate;

	(void) families_anon(m, s, &anon_high, &anon_estimate);
	t->low[s] = low_of(m, s);
	t->high[s] = high_of(m, s, anon_high);
	t->estimate[s] = estimate_of(m, s, anon_estimate);
	if (s == MEMORY_DESCENDANTS) {
		t->high[s] = smaller(t->high[s], t->high[MEMORY_ALL]);
		t->estimate[s] = smaller(t->estimate[s], t->estimate[MEMORY_ALL]);
	}
	t->high[s] = larger(t->high[s], t->low[s]);
	t->estimate[s] = larger(smaller(t->estimate[s], t->high[s]), t->low[s]);
	t->low_max[s] = larger(t->low[s], m->low[s]);
	/* Of several bursts most came one after the other, and samples find what is used at one time. */
	t->estimate_max[s] = larger(t->estimate[s] + (m->n_bursts < 2 ? m->excess[s] : 0), t->low_max[s]);
	if (s == MEMORY_DESCENDANTS)
		t->estimate_max[s] = smaller(t->estimate_max[s], t->estimate_max[MEMORY_ALL]);
}

/* ---- intervals ------------------------------------------------------------------------------------------------------ */

static struct interval *interval_at(struct memory *m, uint64_t number)
{
	return number == m->sample ? &m->open : &m->intervals[number % INTERVALS];
}

void interval_born(struct memory *m, struct proc *p, bool is_of_main, uint64_t from_ns)
{
	p->first = m->sample;
	m->open.n_awaited++;
	while (p->first > m->first && interval_at(m, p->first - 1)->until_ns > from_ns)
		interval_at(m, --p->first)->n_awaited++;
	for (uint64_t q = p->first; q <= m->sample && is_of_main; q++)
		interval_at(m, q)->main_has_forked = true;
}

void interval_burst(struct memory *m, const struct proc *p, int64_t hwm, int64_t excess, int64_t faults)
{
	const int64_t files = larger(excess - fault_bytes(m, faults), 0);

	for (enum memory_set s = MEMORY_ALL; s < sets_of(p); s++) {
		/* It probably mapped files that another process maps, too. */
		const int64_t probable = excess - smaller(files, m->sum.largest_file[s]);

		m->low[s] = larger(m->low[s], hwm - smaller(p->twice, hwm));
		if (excess <= 0 || !is_on(m, MEMORY_RULE_BURSTS))
			continue;
		m->excess[s] = larger(m->excess[s], probable);
		m->n_bursts += s == MEMORY_ALL && probable > hwm / 8;
		for (uint64_t q = p->first > m->first ? p->first : m->first; q <= m->sample; q++) {
			struct interval *i = interval_at(m, q);

			i->later[MEMORY_ALL] = i->later[MEMORY_DESCENDANTS] = INT64_MAX;
			i->burst[s] += q < m->sample ? excess : files;
		}
	}
}

/* Processes that share pages since a fork may have copied them by the same faults. */
bool has_relatives(const struct memory *m, const struct proc *p)
{
	return p->has_forked || (p->family != NO_FAMILY && m->families[p->family].is_shared);
}

void interval_hwm(struct memory *m, struct proc *p, int64_t hwm, bool is_reached, int64_t faults)
{
	const int64_t bytes = larger(larger(hwm, p->lost_hwm), p->top) + m->config.rss_error_bytes;
	const bool is_allowed = p->has_faults && !has_relatives(m, p) && is_on(m, MEMORY_RULE_FAULTS);

	if (is_reached)
		interval_burst(m, p, hwm, hwm - p->top, is_allowed ? faults - p->faults_then : 0);
	for (enum memory_set s = MEMORY_ALL; p->is_ending && !p->is_early && s < sets_of(p); s++)
		m->linger[s] += bytes;
	/* Read before the sample that ends the interval, the hwm of a living process is final for the intervals before alone. */
	const bool is_final = p->is_ending || m->is_sampling;
	const uint64_t end = m->sample + (is_final ? 1 : 0);

	for (uint64_t q = p->first > m->first ? p->first : m->first; q < end; q++) {
		struct interval *i = interval_at(m, q);

		i->n_awaited--;
		for (enum memory_set s = MEMORY_ALL; s < sets_of(p); s++)
			i->hwms[s] += bytes;
	}
	p->first = end;
	p->rss_most = larger(p->rss_most, is_reached ? hwm : 0);
	p->top = p->rss;
	p->faults_at_hwm = faults;
	p->lost_hwm = is_final ? 0 : bytes - m->config.rss_error_bytes; /* it may be reset until then */
}

/* What main gave to the children that it forked: no more than it had when the interval began, and what its faults brought since. */
static int64_t given(const struct interval *i, enum memory_set s)
{
	if (s == MEMORY_ALL || !i->main_has_forked)
		return 0;
	return i->main_anon + i->allowed[MEMORY_ALL] - i->allowed[MEMORY_DESCENDANTS];
}

/* Rule (b). */
static int64_t by_faults(const struct memory *m, const struct interval *i, enum memory_set s)
{
	int64_t high;

	if (!is_on(m, MEMORY_RULE_FAULTS))
		return larger(i->at_end[s], i->before[s]) + i->burst[s] + given(i, s);
	if (__builtin_add_overflow(
		    i->before[s] + i->files[s] + i->burst[s] + i->huge + given(i, s), i->allowed[s], &high))
		high = INT64_MAX;
	return larger(high, i->at_end[s]);
}

/* Nothing that is still awaited raises it. */
static bool is_complete(const struct memory *m, const struct interval *i)
{
	return i->n_awaited == 0 || m->records_lost;
}

static int64_t interval_high(const struct memory *m, const struct interval *i, enum memory_set s)
{
	int64_t high = by_faults(m, i, s);

	if (m->config.machine_bytes > 0)
		high = smaller(high, m->config.machine_bytes);
	if (i->n_awaited == 0 && !m->records_lost && is_on(m, MEMORY_RULE_LIFETIMES))
		high = smaller(high, i->hwms[s] + given(i, s));
	return is_on(m, MEMORY_RULE_GROWTH) ? smaller(high, i->later[s]) : high;
}

static int64_t intervals_high(const struct memory *m, enum memory_set s)
{
	int64_t high = peak_of(&m->high_peak[s]);

	for (uint64_t q = m->first; q < m->sample; q++)
		high = larger(high, interval_high(m, &m->intervals[q % INTERVALS], s));
	return high;
}

static void settle_first(struct memory *m)
{
	const struct interval *i = &m->intervals[m->first++ % INTERVALS];

	m->is_sampled |= !i->has_faults || !i->has_huge;
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		struct recent_peak *peak = &m->high_peak[s];
		int64_t *value = i->falls == m->falls && is_complete(m, i) ? &peak->recent : &peak->committed;

		*value = larger(*value, interval_high(m, i, s));
	}
}

/* Huge pages that were counted now were allocated at any time since they were counted last. */
static void huge_apply(struct memory *m)
{
	const int64_t huge = m->config.huge_bytes * larger(m->huge - m->huge_then, 0);

	for (uint64_t q = larger((int64_t) m->huge_known, (int64_t) m->first); q < m->sample; q++) {
		interval_at(m, q)->has_huge = true;
		interval_at(m, q)->huge = huge;
	}
	m->huge_then = m->huge;
	m->huge_known = m->sample;
}

static void intervals_settle(struct memory *m)
{
	while (m->first < m->sample) {
		const struct interval *i = &m->intervals[m->first % INTERVALS];
		const bool is_ready = i->has_faults && i->has_huge && is_complete(m, i) &&
				      m->sample - m->first > SETTLE_AFTER;

		if (!is_ready && m->sample - m->first < INTERVALS)
			break;
		settle_first(m);
	}
}

/* Faults that were read now came at any time since they were read last. */
static void faults_apply(struct memory *m, const struct proc *main, int64_t faults)
{
	const int64_t all = larger(faults - m->faults.value, 0);
	int64_t of_main = 0;

	if (main && main->has_faults) {
		of_main = smaller(larger(main->faults - m->main_faults, 0), all);
		m->main_faults = main->faults;
	}
	for (uint64_t q = larger((int64_t) m->faults_known, (int64_t) m->first); q < m->sample; q++) {
		struct interval *i = interval_at(m, q);

		i->has_faults = true;
		i->allowed[MEMORY_ALL] = fault_bytes(m, all);
		i->allowed[MEMORY_DESCENDANTS] = fault_bytes(m, all - of_main);
	}
	m->faults = known(larger(faults, m->faults.value));
	m->faults_known = m->sample;
}

static void interval_close(
	struct memory *m, uint64_t time_ns, struct maybe faults, const struct memory_total *total)
{
	const struct proc *main = proc_find(m, m->main);
	struct interval *i = &m->intervals[m->sample++ % INTERVALS];

	*i = m->open;
	i->until_ns = time_ns;
	memcpy(i->at_end, total->high, sizeof(i->at_end));
	memcpy(i->files, m->sum.files_grown, sizeof(i->files));
	/* Memory that this sample found released may still have been used when the next interval began: falls counts it later. */
	m->open = (struct interval) {
		.falls = m->falls, .n_awaited = (uint32_t) m->n_procs, .later = { INT64_MAX, INT64_MAX }
	};
	if (faults.known)
		faults_apply(m, main, faults.value);
	if (m->config.huge_bytes == 0 || m->huge_seq == m->sample - 1)
		huge_apply(m);
	/* While the sample was read, what one process released may have been used together with what the others use now. */
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		const int64_t with = total->high[s] + m->sum.fallen[s] + m->left[s];

		m->open.before[s] = i->has_faults && i->has_huge
					    ? larger(total->high[s], smaller(with, by_faults(m, i, s)))
					    : with;
		m->open.hwms[s] = m->linger[s];
		m->left[s] = m->linger[s] = 0;
	}
	m->open.main_anon = main && !main->has_ended ? anon_of(main) : 0;
	intervals_settle(m);
}

/* ---- peaks ------------------------------------------------------------------------------------------------------------ */

/* Rule (e). Where no process was ever larger than it is now, by hwm read in this sample, memory has only grown since it was last released.
 * An exception is not seen: a process that maps what others map already in place of anonymous memory that no sample found. */
static void later_limits(struct memory *m, const struct memory_total *t)
{
	const int64_t slack = m->sum.rss_sum / 256 +
			      (int64_t) m->sum.n * (MIB / 16 + m->config.rss_error_bytes);

	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		m->estimate_peak[s].recent = smaller(m->estimate_peak[s].recent, t->estimate[s]);
		m->high_peak[s].recent = smaller(m->high_peak[s].recent, t->high[s] + slack);
		for (uint64_t q = m->first; q < m->sample; q++) {
			struct interval *i = &m->intervals[q % INTERVALS];

			if (i->falls == m->falls)
				i->later[s] = smaller(i->later[s], t->high[s] + slack);
		}
	}
}

static void peaks_apply(struct memory *m, const struct memory_total *t)
{
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		struct recent_peak *estimate = &m->estimate_peak[s], *high = &m->high_peak[s];

		m->low_peak[s] = larger(m->low_peak[s], t->low_max[s]);
		m->low[s] = m->excess[s] = 0;
		estimate->recent = larger(estimate->recent, t->estimate[s]);
		if (t->estimate_max[s] > t->estimate[s])
			estimate->committed = larger(estimate->committed, t->estimate_max[s]);
		if (m->has_fallen) {
			*estimate = (struct recent_peak) { .committed = peak_of(estimate) };
			*high = (struct recent_peak) { .committed = peak_of(high) };
		}
	}
	for (size_t k = 0; m->has_fallen && k < m->n_procs; k++)
		m->procs[k].rss_most = m->procs[k].rss;
	m->falls += m->has_fallen;
	m->n_bursts = 0;
	m->has_fallen = false;
}

static void sizes_settle(struct memory *m)
{
	for (size_t k = 0; k < m->n_procs; k++) {
		struct proc *p = &m->procs[k];

		p->left = 0; /* of m->left, which begins anew */
		if (p->has_ended)
			continue;
		p->rss_then = p->rss;
		p->file_then = p->file;
		p->faults_then = p->faults_seq == m->sample ? p->faults : p->faults_then;
	}
}

void memory_total(struct memory *m, uint64_t time_ns, struct maybe faults, struct memory_total *ret)
{
	memset(ret, 0, sizeof(*ret));
	m->now_ns = time_ns;
	unsampled_settle(m);
	m->is_added = false; /* hwm have been read since */
	add_up(m);
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++)
		instant_apply(m, s, ret);
	ret->rss_sum = m->sum.rss_sum;
	ret->anon_sum = m->sum.anon_sum;
	sizes_settle(m);
	if (m->is_sampling)
		families_anchor(m);
	interval_close(m, time_ns, faults, ret);
	if (m->is_sampling && faults.known && !m->has_fallen && !m->sum.is_below && !m->sum.lacks_hwm &&
		is_on(m, MEMORY_RULE_GROWTH))
		later_limits(m, ret);
	peaks_apply(m, ret);
	m->pass.is_fresh = m->is_sampling = m->is_added = m->has_moved = false;
	m->machine = m->cgroup = UNKNOWN;
}

void memory_finish(struct memory *m)
{
	huge_apply(m);
	while (m->first < m->sample)
		settle_first(m);
}

void memory_peak(const struct memory *m, enum memory_set s, struct memory_peak *ret)
{
	const int64_t all = intervals_high(m, MEMORY_ALL),
		      high = s == MEMORY_ALL ? all : smaller(intervals_high(m, s), all);

	ret->low = m->low_peak[s];
	ret->estimate = larger(peak_of(&m->estimate_peak[s]), ret->low);
	ret->high = m->is_sampled ? UNKNOWN : known(larger(high + m->some_more, ret->low));
	if (ret->high.known)
		ret->estimate = smaller(ret->estimate, ret->high.value);
}

int64_t memory_high_so_far(const struct memory *m)
{
	return intervals_high(m, MEMORY_ALL);
}

bool memory_is_mapped_twice(const struct memory *m)
{
	return m->is_mapped_twice;
}

/* ---- what is not known ------------------------------------------------------------------------------------------------ */

void memory_state(struct memory *m, struct memory_state *ret)
{
	const uint64_t unknown = m->faults_known < m->huge_known ? m->faults_known : m->huge_known;
	int64_t high, estimate, fallen;
	bool open;

	add_up(m);
	open = families_anon(m, MEMORY_ALL, &high, &estimate);
	fallen = m->sum.fallen[MEMORY_ALL] + m->left[MEMORY_ALL];
	*ret = (struct memory_state) {
		.n = m->sum.n,
		.rss_sum = m->sum.rss_sum,
		.largest = m->sum.largest[MEMORY_ALL],
		.files = m->sum.files[MEMORY_ALL],
		.files_since = m->sum.files_since[MEMORY_ALL],
		.files_read = m->files.value,
		.high = high + files_high(m, MEMORY_ALL),
		.estimate = estimate + files_estimate(m, MEMORY_ALL),
		.peak = peak_of(&m->high_peak[MEMORY_ALL]),
		.only_grew = !m->has_fallen && !m->sum.is_below,
		.since_hwm = m->sample - m->hwm_read,
	};
	/* Without faults no interval can be settled, and only so many can wait. */
	ret->lacks_faults = (open && m->sum.n > 1 && ret->high > ret->peak) ||
			    (fallen > MIB && ret->high + fallen > ret->peak) ||
			    m->sample > INTERVALS / 2 + unknown;
}
