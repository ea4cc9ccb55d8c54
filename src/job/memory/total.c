/* SPDX-License-Identifier: MIT
 *
 * The instant of a sample: what the job uses at least, probably, at most; the peaks; what is needed to know more.
 */
#include <string.h>

#include "job/memory/internal.h"

/* ---- adding up ------------------------------------------------------------------------------------------------------ */

static void proc_add(struct memory *m, const struct proc *p)
{
	struct sum *sum = &m->sum;

	sum->n++;
	sum->is_below |= is_below(p) || p->hwm > p->rss + p->rss / 256 + MIB / 16;
	sum->is_unmarked |= p->hwm_seq < m->sample;
	sum->rss_sum += p->rss;
	sum->anon_sum += anon_of(p);
	for (enum memory_set s = MEMORY_ALL; s < sets_of(p); s++) {
		sum->n_in[s]++;
		sum->files[s] += p->file;
		sum->largest_file[s] = larger(sum->largest_file[s], p->file);
		sum->files_since[s] += larger(p->file - p->file_at_files, 0);
		sum->fallen[s] += p->id == m->first_read ? 0 : larger(p->rss_then - p->rss, 0);
		sum->files_grown[s] += larger(p->file - p->file_then, 0);
		sum->files_fallen[s] += larger(p->file_then - p->file, 0);
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

/* Who maps more probably maps what others have mapped already, up to as much as one process has. */
static int64_t files_estimate(const struct memory *m, enum memory_set s)
{
	const int64_t high = files_high(m, s);

	return m->files.known ? smaller(high, larger(m->files_likely, m->sum.largest_file[s])) : high;
}

/* ---- the bounds of the instant -------------------------------------------------------------------------------------- */

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
	return value < low ? low : value > high ? high
						: value;
}

static void low_make(const struct memory *m, enum memory_set s, struct memory_total *t)
{
	const struct pass *pass = &m->pass;

	t->low[s] = m->sum.largest[s];
	if (s == MEMORY_ALL && m->cgroup.known)
		t->low[s] = larger(t->low[s], smaller(m->cgroup.value, m->sum.rss_sum));
	if (pass->is_fresh && m->sum.n_in[s] > 0)
		t->low[s] = larger(t->low[s], smaller(pass->low[s], m->sum.rss_sum));
}

static int64_t high_make(const struct memory *m, enum memory_set s, int64_t anon)
{
	int64_t high = anon + files_high(m, s);

	if (m->machine.known && is_on(m, MEMORY_RULE_MACHINE))
		high = smaller(high, m->machine.value + (int64_t) m->sum.n * m->config.rss_error_bytes);
	if (m->config.machine_bytes > 0)
		high = smaller(high, m->config.machine_bytes);
	return high;
}

/* Corrected by what the last pass found. Files that processes outside the job map, too, count there in part, so no less than one process
 * maps of them. */
static void estimate_make(struct memory *m, enum memory_set s, int64_t anon, struct memory_total *t)
{
	struct pass *pass = &m->pass;
	int64_t estimate = anon + files_estimate(m, s);

	if (pass->is_fresh && is_on(m, MEMORY_RULE_PASS))
		pass->offset[s] = pass->held[s] - estimate;
	if (pass->is_valid && m->sum.n_in[s] > 0)
		estimate += pass->offset[s];
	if (s == MEMORY_DESCENDANTS)
		estimate = smaller(estimate, t->estimate[MEMORY_ALL]);
	t->estimate[s] = clamp(estimate, t->low[s], t->high[s]);
}

static void set_make(struct memory *m, enum memory_set s, struct memory_total *t)
{
	int64_t anon_high, anon_estimate;

	(void) families_anon(m, s, &anon_high, &anon_estimate);
	low_make(m, s, t);
	t->high[s] = larger(high_make(m, s, anon_high), t->low[s]);
	if (s == MEMORY_DESCENDANTS)
		t->high[s] = larger(smaller(t->high[s], t->high[MEMORY_ALL]), t->low[s]);
	estimate_make(m, s, anon_estimate, t);
}

/* ---- peaks ------------------------------------------------------------------------------------------------------------ */

static void recent_take(struct recent_peak *peak, int64_t value)
{
	peak->recent = larger(peak->recent, value);
}

static void recent_commit(struct recent_peak *peak)
{
	peak->committed = larger(peak->committed, peak->recent);
	peak->recent = 0;
}

/* Where no process was ever larger than it is now, by marks read in this sample, memory has only grown since it was last given back:
 * what is there now, by a pass perhaps, is the most of all that time. Not so where one mapped what is mapped already in place of
 * anonymous memory that no sample saw: its size does not tell. */
static void growth_limits(struct memory *m, const struct memory_total *t)
{
	const int64_t slack = m->sum.rss_sum / 256 + (int64_t) m->sum.n * (MIB / 16 + m->config.rss_error_bytes);

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

static void peaks_take(struct memory *m, const struct memory_total *t)
{
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		m->low_peak[s] = larger(m->low_peak[s], t->low_max[s]);
		recent_take(&m->estimate_peak[s], t->estimate[s]);
		if (t->estimate_max[s] > t->estimate[s])
			m->estimate_peak[s].committed = larger(m->estimate_peak[s].committed, t->estimate_max[s]);
		if (!m->has_fallen)
			continue;
		recent_commit(&m->estimate_peak[s]);
		recent_commit(&m->high_peak[s]);
	}
	if (m->has_fallen) {
		m->falls++;
		for (size_t k = 0; k < m->n_procs; k++)
			m->procs[k].rss_most = m->procs[k].rss;
	}
	m->has_fallen = false;
}

/* Marks that came to be known since the last total: a burst was there beside what this one finds, or beside what earlier ones found. But where
 * many come and go, most came one after the other, and samples find what is there at one time. */
static void marks_take(struct memory *m, struct memory_total *t)
{
	enum {
		MANY_BURSTS = 2
	};

	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		t->low_max[s] = larger(t->low[s], m->low[s]);
		t->estimate_max[s] = t->estimate[s];
		if (m->n_bursts < MANY_BURSTS)
			t->estimate_max[s] = larger(t->estimate[s], m->estimate[s]);
		if (m->excess[s] > 0 && m->n_bursts < MANY_BURSTS)
			t->estimate_max[s] = larger(t->estimate_max[s], t->estimate[s] + m->excess[s]);
		t->estimate_max[s] = larger(t->estimate_max[s], t->low_max[s]);
		m->low[s] = m->estimate[s] = m->excess[s] = 0;
	}
	m->n_bursts = 0;
	t->estimate_max[MEMORY_DESCENDANTS] = smaller(t->estimate_max[MEMORY_DESCENDANTS], t->estimate_max[MEMORY_ALL]);
}

static void growth_take(struct memory *m)
{
	const int64_t sum = m->sum.rss_sum;

	m->growth.waited++;
	if (sum > m->growth.top + m->growth.top / 200) {
		m->growth.top = sum;
		m->growth.still = 0;
	} else {
		m->growth.still += m->growth.still < STILL_TOTALS;
		m->growth.top = larger(m->growth.top, sum);
	}
}

/* What files were mapped at one time between two totals: those of the first, and what was mapped since; or those of the second, and what was
 * unmapped until then. */
static void files_between(struct memory *m)
{
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++) {
		const int64_t now = files_high(m, s), grown = m->sum.files_grown[s], fallen = m->sum.files_fallen[s] + m->files_left[s];

		m->open.files[s] = larger(smaller(grown, now + fallen - m->files_then[s]), 0);
		m->files_then[s] = now;
		m->files_left[s] = 0;
	}
}

/* Faults that were read now came at any time since they were read last, and are allowed for in each of these intervals. */
static void faults_settle(const struct memory *m, struct proc *p)
{
	const uint64_t from = p->faults_until + FAULTS_KEPT > m->sample ? p->faults_until + 1 : m->sample - FAULTS_KEPT + 1;

	if (p->faults_seq < m->sample)
		return;
	for (uint64_t q = from; q <= m->sample; q++)
		p->faults_in[q % FAULTS_KEPT] = (uint32_t) smaller(p->faults - p->faults_then, UINT32_MAX);
	p->faults_then = p->faults;
	p->faults_until = m->sample;
}

static void sizes_settle(struct memory *m)
{
	for (size_t k = 0; k < m->n_procs; k++) {
		struct proc *p = &m->procs[k];

		p->left = 0; /* of m->left, which begins anew */
		if (p->has_ended)
			continue;
		faults_settle(m, p);
		p->rss_then = p->rss;
		p->file_then = p->file;
	}
}

void memory_total(struct memory *m, uint64_t time_ns, struct maybe faults, struct memory_total *ret)
{
	memset(ret, 0, sizeof(*ret));
	m->now_ns = time_ns;
	unsampled_settle(m);
	m->is_added = false; /* marks have been read since */
	add_up(m);
	growth_take(m);
	for (enum memory_set s = MEMORY_ALL; s < MEMORY_SETS; s++)
		set_make(m, s, ret);
	ret->rss_sum = m->sum.rss_sum;
	ret->anon_sum = m->sum.anon_sum;
	files_between(m);
	sizes_settle(m);
	marks_take(m, ret);
	if (m->is_sampling)
		families_anchor(m, time_ns);
	interval_close(m, time_ns, faults, ret);
	if (m->is_sampling && faults.known && !m->has_fallen && !m->sum.is_below && !m->sum.is_unmarked && is_on(m, MEMORY_RULE_GROWTH))
		growth_limits(m, ret);
	peaks_take(m, ret);
	m->pass.is_fresh = m->is_sampling = m->is_added = m->has_moved = false;
	m->machine = m->cgroup = UNKNOWN;
}

void memory_finish(struct memory *m)
{
	intervals_settle(m, true);
}

void memory_peak(const struct memory *m, enum memory_set s, struct memory_peak *ret)
{
	const int64_t all = intervals_high(m, MEMORY_ALL), high = s == MEMORY_ALL ? all : smaller(intervals_high(m, s), all);
	const struct recent_peak *estimate = &m->estimate_peak[s];

	ret->low = m->low_peak[s];
	ret->estimate = larger(larger(estimate->committed, estimate->recent), ret->low);
	ret->high = m->is_sampled ? UNKNOWN : known(larger(high + m->some_more, ret->low));
	if (ret->high.known)
		ret->estimate = smaller(ret->estimate, ret->high.value);
}

bool memory_is_mapped_twice(const struct memory *m)
{
	return m->is_mapped_twice;
}

/* ---- what is needed ------------------------------------------------------------------------------------------------- */

/* By quarters, and once growth has stopped: reading the maps of thousands of processes that come one by one must not cost more than they
 * do. */
static bool needs_files(const struct memory *m)
{
	const int64_t since = m->sum.files_since[MEMORY_ALL];
	const bool is_still = m->growth.still >= STILL_TOTALS;

	return since > 4 * MIB && since > m->files.value / (is_still ? 64 : 4);
}

/* The RSS of one process that maps nothing twice is its memory; only a pass finds which of its files others map. A pass over processes
 * that grow is mostly invalid, so it waits for a second of growth; where both bounds are close already, until the job rests. */
static bool needs_pass(const struct memory *m, int64_t high)
{
	enum {
		WAITS = 10,
		CLOSE = 64
	};
	const struct growth *growth = &m->growth;
	const int64_t sum = m->sum.rss_sum, passed = growth->passed;
	const bool is_lone = m->sum.n == 1, is_still = growth->still >= STILL_TOTALS;
	const bool has_files = m->sum.files[MEMORY_ALL] > larger(16 * MIB, sum / 4);
	const bool is_close = high - m->sum.largest[MEMORY_ALL] < high / CLOSE;

	if (m->sum.n == 0 || (is_lone && !has_files && !m->is_mapped_twice) || sum < growth->top / 50 * 49)
		return false;
	if (!is_still && (is_close || (sum > growth->top + growth->top / 200 && growth->waited < WAITS)))
		return false;
	if (sum > passed + passed / (is_lone ? 4 : 50) && sum > passed + MIB)
		return true;
	return !is_lone && is_still && growth->top > passed + MIB / 16;
}

/* Memory that only grew was never more than there is now, if marks say so. */
static bool needs_marks(const struct memory *m, int64_t estimate)
{
	enum {
		MANY = 64, /* members */
		WAITS = 3  /* totals */
	};
	if (m->sum.n < 2 || m->sum.n > MANY || m->growth.still == 0 || m->sample < m->marks_read + WAITS || m->has_fallen || m->sum.is_below)
		return false;
	return intervals_high(m, MEMORY_ALL) > estimate + estimate / 16;
}

unsigned memory_needs(struct memory *m)
{
	const int64_t peak = larger(m->high_peak[MEMORY_ALL].recent, m->high_peak[MEMORY_ALL].committed);
	int64_t high, estimate, fallen;
	unsigned needs = 0;
	bool open;

	add_up(m);
	fallen = m->sum.fallen[MEMORY_ALL] + m->left[MEMORY_ALL];
	open = families_anon(m, MEMORY_ALL, &high, &estimate);
	high += files_high(m, MEMORY_ALL);
	if (needs_files(m))
		needs |= MEMORY_NEEDS_FILES;
	if (needs_pass(m, high))
		needs |= MEMORY_NEEDS_PASS;
	estimate += files_estimate(m, MEMORY_ALL);
	if (needs_marks(m, estimate))
		needs |= MEMORY_NEEDS_MARKS;
	if (m->sum.n > 1 && high > peak)
		needs |= open ? MEMORY_NEEDS_FAULTS : high > estimate + estimate / 4 ? MEMORY_NEEDS_MACHINE
										     : 0u;
	if (fallen > MIB && high + fallen > peak)
		needs |= MEMORY_NEEDS_FAULTS;
	/* Without them no interval can be settled, and only so many can wait. */
	if (m->sample > INTERVALS / 2 + (m->faults_known < m->huge_known ? m->faults_known : m->huge_known))
		needs |= MEMORY_NEEDS_FAULTS;
	return needs;
}
