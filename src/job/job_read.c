/* SPDX-License-Identifier: MIT
 *
 * Values of processes.
 */
#include <string.h>

#include "job/job_internal.h"

/* The target of a metric. */
enum target {
	TO_NOTHING,
	TO_RSS,
	TO_FILE,
	TO_HWM,
	TO_PSS,
	TO_PRIVATE,
	TO_SHARED,
	TO_LEVEL,
	TO_OWN,
	TO_WAITED,
	TO_PLAIN,
	TO_RLIMIT,
	TO_UNDER_RLIMIT
};

static const struct {
	unsigned char target, which;
} rows[METRIC_COUNT] = {
	[M_PROC_RSS] = { TO_RSS, 0 },
	[M_PROC_RSS_FILE] = { TO_FILE, 0 },
	[M_PROC_HWM] = { TO_HWM, 0 },
	[M_PROC_PSS] = { TO_PSS, 0 },
	[M_PROC_PRIVATE] = { TO_PRIVATE, 0 },
	[M_PROC_SHARED] = { TO_SHARED, 0 },
	[M_PROC_SWAP] = { TO_LEVEL, LEVEL_SWAP },
	[M_PROC_HUGETLB] = { TO_LEVEL, LEVEL_HUGETLB },
	[M_PROC_THREADS] = { TO_LEVEL, LEVEL_THREADS },
	[M_PROC_CPU_USER] = { TO_OWN, TREE_USER },
	[M_PROC_CPU_SYSTEM] = { TO_OWN, TREE_SYSTEM },
	[M_PROC_CPU_WAITED_USER] = { TO_WAITED, TREE_USER },
	[M_PROC_CPU_WAITED_SYSTEM] = { TO_WAITED, TREE_SYSTEM },
	[M_PROC_FAULTS_MINOR] = { TO_OWN, TREE_FAULTS },
	[M_PROC_FAULTS_MAJOR] = { TO_PLAIN, PLAIN_FAULTS_MAJOR },
	[M_PROC_FAULTS_WAITED] = { TO_WAITED, TREE_FAULTS },
	[M_PROC_READ_BYTES] = { TO_PLAIN, PLAIN_READ_BYTES },
	[M_PROC_WRITE_BYTES] = { TO_PLAIN, PLAIN_WRITE_BYTES },
	[M_PROC_WRITE_CANCELLED] = { TO_PLAIN, PLAIN_WRITE_CANCELLED },
	[M_PROC_READ_CHARS] = { TO_PLAIN, PLAIN_READ_CHARS },
	[M_PROC_WRITE_CHARS] = { TO_PLAIN, PLAIN_WRITE_CHARS },
	[M_PROC_SWITCHES] = { TO_PLAIN, PLAIN_SWITCHES },
	[M_PROC_PREEMPTIONS] = { TO_PLAIN, PLAIN_PREEMPTIONS },
	[M_PROC_VM_LIMIT] = { TO_RLIMIT, RLIMIT_OF_VM },
	[M_PROC_VM] = { TO_UNDER_RLIMIT, RLIMIT_OF_VM },
	[M_PROC_DATA_LIMIT] = { TO_RLIMIT, RLIMIT_OF_DATA },
	[M_PROC_DATA] = { TO_UNDER_RLIMIT, RLIMIT_OF_DATA },
};

/* ---- memory ---------------------------------------------------------------------------------- */

static void peak_apply(struct job *job, struct member *m, int64_t value)
{
	if (value > m->program_peak)
		m->program_peak = value;
	if (value > m->p.peak_bytes)
		m->p.peak_bytes = value;
	if (value > job->largest_peak)
		job->largest_peak = value;
}

static uint64_t larger_time(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void mark_proves(struct job *job, struct member *m, int64_t value)
{
	if (value <= m->program_peak)
		return;
	peak_apply(job, m, value);
	if (larger_time(m->mark_ns, m->p.born_ns) < job->burst_since_ns)
		job->burst_since_ns = larger_time(m->mark_ns, m->p.born_ns);
	if (m->p.is_main) {
		if (value > job->main_burst)
			job->main_burst = value;
		if (m->live != NOT_ALIVE)
			phases_update_main(job, m->p.rss_bytes, value);
	}
}

/* A sample reports a process's memory again if its mark, which is read later, proves a burst. A
 * PSS pass in between may have found another size: this is not a new sample, since the faults,
 * which were read after it, would be too old for it. */
static bool is_repeated(const struct job *job, const struct live *l, const struct reading *r)
{
	return r->known && job->memory_seq != job->seq && job->memory_ns == job->now_ns &&
	       l->rss_seq == job->memory_seq && l->rss_known && (l->rss == r->value || r->max > r->value);
}

static void rss_apply(struct job *job, struct live *l, const struct reading *r)
{
	if (is_repeated(job, l, r)) {
		mark_proves(job, l->m, r->max);
		if (l->is_main) /* above the maximum of the phase, though not of the run */
			phases_update_main(job, r->value, r->max);
		return;
	}
	if (job->memory_seq != job->seq) {
		job->memory_seq = job->seq;
		job->memory_ns = job->now_ns;
	}
	l->rss_known = r->known;
	l->rss = l->m->p.rss_bytes = r->value;
	l->rss_seq = job->seq;
	if (!r->known)
		return;
	job->memory_known = true;
	peak_apply(job, l->m, r->value);
	if (r->max > r->value)
		mark_proves(job, l->m, r->max);
	if (l->is_main)
		phases_update_main(job, r->value, r->max);
}

/* Its memory at some time in the first half of the run is kept for comparison. */
static void growth_apply(const struct job *job, struct member *m, int64_t anon)
{
	const struct level_at now = { job->now_ns, anon };

	if (m->mid.time_ns == 0)
		m->mid = m->old = now;
	if (now.time_ns >= 2 * m->mid.time_ns) {
		m->old = m->mid;
		m->mid = now;
	}
	m->p.grown_bytes = anon - m->old.anon;
	m->p.grown_since_ns = m->old.time_ns;
}

static void file_apply(struct job *job, struct live *l, const struct reading *r)
{
	l->file = l->m->p.rss_file_bytes = r->value;
	if (!r->known || !l->rss_known)
		return;
	growth_apply(job, l->m, l->rss - l->file);
	if (l->rss_seq == job->seq)
		memory_size(job->memory, l->id, l->rss, l->file);
}

/* A mark from before the run counts only once it rises. */
static void hwm_apply(struct job *job, struct live *l, int64_t value)
{
	struct member *m = l->m;
	struct facts *f = &job->facts;

	if (l->is_main) {
		f->main_hwm_bytes = known(value);
		if (!f->main_hwm_at_start_bytes.known)
			f->main_hwm_at_start_bytes = known(m->young || f->main_hwm_reset.value ? 0 : value);
	}
	const bool counts = m->young || (l->is_main && f->main_hwm_reset.value) ||
			    (m->mark.known && value > m->mark.value);

	if (counts)
		mark_proves(job, m, value);
	memory_hwm(job->memory, l->id, value, counts);
	/* If the faults were read earlier, there may have been more since. */
	if (!m->ran_another)
		m->faults_at_mark = own_faults(m);
	m->mark = known(value);
	m->mark_ns = job->now_ns;
}

static void pss_apply(struct job *job, const struct live *l, int64_t value)
{
	job->pass.adding[MEMORY_ALL] += value;
	if (!l->is_main)
		job->pass.adding[MEMORY_DESCENDANTS] += value;
}

static void private_apply(struct job *job, struct member *m, int64_t value)
{
	job->pass.adding_private += value;
	if (m->p.is_main)
		job->pass.main_private = value;
	m->private_bytes = value;
}

/* The split at its largest is reported with its peak. */
static void shared_apply(struct member *m, int64_t value)
{
	struct process *p = &m->p;
	const int64_t whole = m->private_bytes + value;

	if (p->split_known && whole < (p->private_bytes + p->shared_bytes) / 10 * 9)
		return;
	p->split_known = true;
	p->private_bytes = m->private_bytes;
	p->shared_bytes = value;
}

/* ---- other metrics --------------------------------------------------------------------------- */

static void level_apply(struct job *job, struct member *m, enum level k, const struct reading *r)
{
	struct maybe *level = &m->level[k];

	job->level_sum[k] -= level->known ? level->value : 0;
	job->level_known[k] -= level->known;
	*level = r->known ? known(r->value) : UNKNOWN;
	job->level_sum[k] += level->known ? level->value : 0;
	job->level_known[k] += level->known;
}

static void own_apply(struct live *l, enum tree k, int64_t value)
{
	struct member *m = l->m;

	(void) counter_apply(&m->tree[k].own, value, m->young);
	if (k == TREE_FAULTS) {
		m->p.faults_minor = counter_value(&m->tree[k].own);
	} else {
		m->p.cpu_known = true;
		*(k == TREE_USER ? &m->p.cpu_user_ns : &m->p.cpu_system_ns) = counter_value(&m->tree[k].own);
	}
}

static void waited_apply(struct member *m, enum tree k, int64_t value)
{
	(void) counter_apply(&m->tree[k].waited, value, m->young);
	if (k == TREE_FAULTS)
		m->p.faults_waited = counter_value(&m->tree[k].waited);
}

static void rlimit_apply(struct job *job, struct member *m, enum rlimit_kind k, const struct reading *r)
{
	m->rlimit[k] = r->known ? known(r->value) : UNKNOWN;
	rlimits_update(job, m);
}

static void under_rlimit_apply(struct job *job, struct member *m, enum rlimit_kind k, const struct reading *r)
{
	if (r->known)
		m->under_rlimit[k] = known(larger(r->value, r->max));
	rlimits_update(job, m);
}

static void counter_reading_apply(struct job *job, struct live *l, const struct reading *r)
{
	const unsigned target = rows[r->metric].target, which = rows[r->metric].which;

	if (!r->known)
		return;
	job->counters_read = true;
	if (target == TO_OWN)
		own_apply(l, which, r->value);
	else if (target == TO_WAITED)
		waited_apply(l->m, which, r->value);
	else
		plain_apply(l->m, which, r->value);
	if (r->metric == M_PROC_FAULTS_MAJOR) {
		memory_faults(job->memory, l->id, own_faults(l->m));
		job->n_faults_read++;
	}
}

int process_apply(struct job *job, const struct reading *r)
{
	struct live *l = live_find(job, r->id);
	const enum target target = rows[r->metric].target;

	if (!l)
		return 0;
	switch (target) {
	case TO_RSS:
		rss_apply(job, l, r);
		break;
	case TO_FILE:
		file_apply(job, l, r);
		break;
	case TO_LEVEL:
		level_apply(job, l->m, rows[r->metric].which, r);
		break;
	case TO_OWN:
	case TO_WAITED:
	case TO_PLAIN:
		counter_reading_apply(job, l, r);
		break;
	case TO_HWM:
		if (r->known)
			hwm_apply(job, l, r->value);
		break;
	case TO_PSS:
		pss_apply(job, l, r->value);
		break;
	case TO_PRIVATE:
		private_apply(job, l->m, r->value);
		break;
	case TO_SHARED:
		if (r->known)
			shared_apply(l->m, r->value);
		break;
	case TO_RLIMIT:
		rlimit_apply(job, l->m, rows[r->metric].which, r);
		break;
	case TO_UNDER_RLIMIT:
		under_rlimit_apply(job, l->m, rows[r->metric].which, r);
		break;
	case TO_NOTHING:
		break;
	}
	return 0;
}

/* ---- limits of processes (setrlimit) ----------------------------------------------------------
 *
 * Each process has its own and is compared with it alone. The facts of the run name the process that
 * came nearest to its limit. */

/* The facts of one kind of limit. */
static struct rlimit_facts {
	struct maybe *limit, *peak, *pid;
	char **name;
} facts_of(struct job *job, enum rlimit_kind k)
{
	struct facts *f = &job->facts;

	if (k == RLIMIT_OF_VM)
		return (struct rlimit_facts) { &f->vm_limit_bytes, &f->vm_peak_bytes, &f->vm_pid,
			&f->vm_name };
	return (struct rlimit_facts) { &f->data_limit_bytes, &f->data_peak_bytes, &f->data_pid,
		&f->data_name };
}

/* What the limit counts, at least. Resident pages are part of the address space. */
static struct maybe use_of(const struct member *m, enum rlimit_kind k)
{
	if (k == RLIMIT_OF_VM && m->program_peak > 0)
		return maybe_max(m->under_rlimit[k], known(m->program_peak));
	return m->under_rlimit[k];
}

static double share_of(struct maybe use, struct maybe limit)
{
	return use.known && limit.known ? (double) use.value / (double) (limit.value + 1) : -1;
}

void rlimits_update(struct job *job, struct member *m)
{
	for (enum rlimit_kind k = 0; k < RLIMITS; k++) {
		const struct rlimit_facts f = facts_of(job, k);
		const struct maybe use = use_of(m, k), limit = m->rlimit[k];

		if (job->rlimit_of[k] == m->p.id && *f.name &&
			strncmp(*f.name, m->p.name, sizeof(m->p.name)) != 0)
			(void) job_set_text(f.name, m->p.name);
		if (!limit.known || (f.limit->known && share_of(use, limit) <= share_of(*f.peak, *f.limit)))
			continue;
		*f.limit = limit;
		*f.peak = use;
		*f.pid = known(m->p.pid);
		if (job->rlimit_of[k] != m->p.id || !*f.name)
			(void) job_set_text(f.name, m->p.name);
		job->rlimit_of[k] = m->p.id;
	}
}
