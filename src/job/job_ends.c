/* SPDX-License-Identifier: MIT
 *
 * Ends: the use of an ended process, and where it is counted afterwards.
 *
 * When a parent waits for an ended child, the kernel adds the child's use to the parent's "waited"
 * counters. The job's own record of ended children (dead) has the same use, less exactly, but also
 * if no process waits: the larger of the two counts. Use that no living parent's counters include
 * goes to job->ended_total.
 */
#include <string.h>

#include "job/job_internal.h"

/* True if it was still running when its parent had ended. */
static bool is_orphan(const struct member *m, const struct member *parent)
{
	return m->last_seq > parent->ended_seq || m->p.how == END_REAPED;
}

/* Passes the use of an ended process to its parent. If that has ended too, its own parent may
 * already have counted it, unless the process outlived its parent. */
static void hand_over(struct job *job, const struct member *m, enum tree k, int64_t amount)
{
	struct member *parent = member_find(job, m->p.parent);

	while (parent && parent->live == NOT_ALIVE && !is_orphan(m, parent) && amount > 0) {
		const int64_t before = tree_value(&parent->tree[k]);

		parent->tree[k].dead += amount;
		amount = tree_value(&parent->tree[k]) - before;
		m = parent;
		parent = member_find(job, m->p.parent);
	}
	if (!parent || parent->live == NOT_ALIVE) {
		job->ended_total[k] += amount;
		return;
	}
	parent->tree[k].dead += amount;
}

static void live_remove(struct job *job, struct member *m)
{
	struct live *l = &job->live[m->live];

	for (enum level k = 0; k < LEVELS; k++) {
		job->level_sum[k] -= m->level[k].known ? m->level[k].value : 0;
		job->level_known[k] -= m->level[k].known;
	}
	m->last_seq = l->rss_seq;
	m->ended_seq = job->seq;
	*l = job->live[--job->n_live];
	l->m->live = m->live;
	m->live = NOT_ALIVE;
	m->p.rss_bytes = m->p.rss_file_bytes = 0;
}

static void own_facts_apply(struct member *m, const struct end *end)
{
	if (end->cpu_user_ns.known)
		(void) counter_apply(&m->tree[TREE_USER].own, end->cpu_user_ns.value, m->young);
	if (end->cpu_system_ns.known)
		(void) counter_apply(&m->tree[TREE_SYSTEM].own, end->cpu_system_ns.value, m->young);
	if (end->faults_minor.known)
		(void) counter_apply(&m->tree[TREE_FAULTS].own, end->faults_minor.value, m->young);
}

/* True if it waited for no children, as far as known. */
static bool is_childless(const struct job *job, const struct member *m)
{
	if (m->p.is_main && job->facts.main_zombie_cminflt.known)
		return job->facts.main_zombie_cminflt.value == 0;
	return counter_value(&m->tree[TREE_FAULTS].waited) == 0 && m->tree[TREE_FAULTS].dead == 0;
}

static void reaped_facts_apply(const struct job *job, struct member *m, const struct end *end)
{
	const struct maybe values[TREES] = {
		[TREE_USER] = end->cpu_user_ns,
		[TREE_SYSTEM] = end->cpu_system_ns,
		[TREE_FAULTS] = end->faults_minor,
	};

	for (enum tree k = 0; k < TREES; k++) {
		if (values[k].known && values[k].value > m->tree[k].reaped)
			m->tree[k].reaped = values[k].value;
	}
	if (is_childless(job, m))
		own_facts_apply(m, end);
}

/* An exit record has only the process's own I/O, since its start. */
static void io_facts_apply(struct member *m, const struct end *end)
{
	const struct maybe values[PLAINS] = {
		[PLAIN_READ_BYTES] = end->io.read_bytes,
		[PLAIN_WRITE_BYTES] = end->io.write_bytes,
		[PLAIN_WRITE_CANCELLED] = end->io.write_cancelled,
		[PLAIN_READ_CHARS] = end->io.read_chars,
		[PLAIN_WRITE_CHARS] = end->io.write_chars,
	};

	for (enum plain k = PLAIN_READ_BYTES; k <= PLAIN_WRITE_CHARS; k++) {
		if (!values[k].known)
			continue;
		if (end->how != END_TASKSTATS) {
			plain_apply(m, k, values[k].value);
		} else if (m->young) {
			m->io[k].own = larger(m->io[k].own, values[k].value);
			m->plain[k].known = m->p.io_known = true;
		}
	}
	io_describe(m);
}

static void facts_apply(struct job *job, struct member *m, const struct end *end)
{
	if (end->faults_waited.known)
		(void) counter_apply(&m->tree[TREE_FAULTS].waited, end->faults_waited.value, m->young);
	if (end->how == END_REAPED)
		reaped_facts_apply(job, m, end);
	else
		own_facts_apply(m, end);
	io_facts_apply(m, end);
	m->p.cpu_known |= m->tree[TREE_USER].own.known;
	m->p.cpu_user_ns = counter_value(&m->tree[TREE_USER].own);
	m->p.cpu_system_ns = counter_value(&m->tree[TREE_SYSTEM].own);
	m->p.faults_minor = counter_value(&m->tree[TREE_FAULTS].own);
	m->p.faults_waited = counter_value(&m->tree[TREE_FAULTS].waited);
}

/* The high-water mark of its last program. It is later than any sample, so an increase is a
 * burst. */
static void hwm_apply(struct job *job, struct member *m, const struct end *end)
{
	const int64_t before = m->mark.known ? m->mark.value : 0;

	if (!end->hwm_bytes.known || end->how == END_LEFT)
		return;
	if (end->how == END_TASKSTATS && m->p.is_main)
		job->facts.main_exit_hwm_bytes = end->hwm_bytes;
	if (!m->young && (!m->mark.known || end->hwm_bytes.value <= before))
		return;
	mark_proves(job, m, end->hwm_bytes.value);
	if (end->how == END_TASKSTATS)
		m->p.peak_exact = true;
}

/* hiwater's child touches some pages between fork and exec. */
int64_t image_before_exec(const struct facts *f)
{
	enum {
		TOUCHED = 256 * 1024
	};

	return f->fork_rss_bytes.value + TOUCHED + f->rss_error_bytes.value;
}

/* The main process's growth since its mark was read is bounded by its faults: each maps a page,
 * a piece of a file (fault_around_bytes, 64 KiB) or a huge page. */
static void set_main_most(struct job *job, const struct member *m)
{
	struct facts *f = &job->facts;
	const int64_t piece = larger(
		larger(job->page_bytes, FAULT_AROUND), (int64_t) job->config.huge_page_bytes);
	const int64_t faults = larger(f->main_faults.value - m->faults_at_mark, 0);

	if (f->main_faults.known && m->young && faults < INT64_MAX / 2 / piece)
		f->main_high_bytes = known(m->p.peak_bytes + f->rss_error_bytes.value + faults * piece);
}

/* True if value exceeds the main process's upper bound: then another process was that large. */
static bool is_another_process(const struct facts *f, int64_t value)
{
	return f->main_high_bytes.known && value > f->main_high_bytes.value;
}

/* ru_maxrss of a fork includes the memory inherited from its parent: for an orphan that is not
 * larger, the value may be the parent's. */
static bool is_copy_of_parent(const struct job *job, const struct member *m, const struct end *end)
{
	const struct member *parent = member_find(job, m->p.parent);
	const int64_t had = parent ? parent->p.peak_bytes : job->largest_peak;

	return end->maxrss_bytes.value <= larger(had, job->facts.main_maxrss_bytes.value);
}

/* True if it waited for no process, so that ru_maxrss is its own. */
static bool is_maxrss_its_own(const struct job *job, const struct member *m, const struct end *end)
{
	if (m->p.is_main)
		return job->facts.main_zombie_cminflt.known && job->facts.main_zombie_cminflt.value == 0;
	return end->faults_waited.known && is_childless(job, m) && !is_copy_of_parent(job, m, end);
}

/* ru_maxrss is the largest RSS of the process, of its earlier programs, and of children that it
 * waited for: some process was that large, unless it was hiwater itself before the main
 * process's exec. */
static void maxrss_apply(struct job *job, struct member *m, const struct end *end)
{
	const struct facts *f = &job->facts;
	const int64_t value = end->maxrss_bytes.value;

	if (!end->maxrss_bytes.known || end->how != END_REAPED)
		return;
	if (m->p.is_main && !(f->fork_rss_bytes.known && value > image_before_exec(f)))
		return;
	if (m->p.is_main)
		set_main_most(job, m);
	if (is_maxrss_its_own(job, m, end)) {
		mark_proves(job, m, value);
		m->p.peak_exact = true;
	} else if (value > job->largest_peak) {
		/* marks are not exact */
		const bool is_other = value > job->largest_peak + job->largest_peak / 64 + (1 << 20);

		job->largest_peak = value;
		if (m->p.born_ns < job->burst_since_ns) /* at any time until now */
			job->burst_since_ns = m->p.born_ns;
		memory_some_process(
			job->memory, value, is_other && (!m->p.is_main || is_another_process(f, value)));
	}
}

/* hiwater reaped this process, so its parent's counters do not include it. */
static bool is_of_parent(const struct member *m, const struct member *parent)
{
	return m->p.how != END_REAPED && (parent->live != NOT_ALIVE || !is_orphan(m, parent));
}

/* Passes I/O to the parent, whose counters may include it once it waits; if that has ended, to
 * its parent. The other plain counters are lost in the kernel, so they are added to the job's at
 * once. amount < 0 takes it back. */
static void hand_over_plain(struct job *job, const struct member *m, enum plain k, int64_t amount)
{
	struct member *parent = plain_is_io(k) ? member_find(job, m->p.parent) : NULL;

	while (parent && amount != 0 && is_of_parent(m, parent)) {
		const int64_t had = plain_value(parent, k);

		parent->io[k].dead += amount;
		io_describe(parent);
		if (parent->live != NOT_ALIVE)
			return;
		amount = plain_value(parent, k) - had;
		m = parent;
		parent = member_find(job, m->p.parent);
	}
	job->ended_plain[k] += amount;
}

/* A parent's counters may come to include a child's use from before the run. */
static void hand_over_before(struct job *job, const struct member *m)
{
	struct member *parent = member_find(job, m->p.parent);

	if (!parent || parent->live == NOT_ALIVE || !is_of_parent(m, parent))
		return;
	for (enum plain k = PLAIN_READ_BYTES; k <= PLAIN_WRITE_CHARS; k++)
		parent->io[k].before += m->plain[k].base + m->io[k].before;
}

/* Passes its counters to its parent, as far as the parent's own counters will not include them. */
static void end_first(struct job *job, struct member *m, uint64_t time_ns)
{
	m->p.ended = true;
	m->p.ended_ns = time_ns;
	job->n_ended += !m->p.is_main;
	live_remove(job, m);
	for (enum tree k = 0; k < TREES; k++)
		hand_over(job, m, k, tree_value(&m->tree[k]));
	hand_over_before(job, m);
	for (enum plain k = 0; k < PLAINS; k++)
		hand_over_plain(job, m, k, plain_value(m, k));
}

/* Passes on the difference that a second end makes. */
static void end_again(struct job *job, struct member *m, const int64_t *tree, const int64_t *plain)
{
	for (enum tree k = 0; k < TREES; k++)
		hand_over(job, m, k, tree_value(&m->tree[k]) - tree[k]);
	for (enum plain k = 0; k < PLAINS; k++)
		hand_over_plain(job, m, k, plain_value(m, k) - plain[k]);
}

/* The use that was passed on before. Once hiwater has reaped the process, none of it belongs to
 * the parent. */
static void plain_before(struct job *job, const struct member *m, const struct end *end, int64_t *ret)
{
	for (enum plain k = 0; k < PLAINS; k++) {
		ret[k] = plain_value(m, k);
		if (m->live == NOT_ALIVE && end->how == END_REAPED && m->p.how != END_REAPED &&
			plain_is_io(k)) {
			hand_over_plain(job, m, k, -ret[k]);
			ret[k] = 0;
		}
	}
}

/* A process still running is not followed further. If only its end was observed, its exit record
 * is still to come, if there are exit records. */
static void memory_ended(struct job *job, const struct member *m, const struct end *end)
{
	const struct facts *f = &job->facts;
	const bool has_records = !f->taskstats.known || f->taskstats.value == 1;
	const bool is_record = end->how == END_TASKSTATS, is_reaped = end->how == END_REAPED;
	const struct memory_end e = {
		.id = m->p.id,
		.hwm = is_record   ? end->hwm_bytes
		       : is_reaped ? end->maxrss_bytes
				   : UNKNOWN, /* ru_maxrss is no smaller */
		.is_own = is_record ? m->young || (m->mark.known && end->hwm_bytes.value > m->mark.value)
				    : m->p.peak_exact,
		.until_ns = is_record && end->until_ns > 0 ? end->until_ns : job->now_ns,
		.faults = (is_record ? end->faults_minor.known : m->live == NOT_ALIVE) ? known(own_faults(m))
										       : UNKNOWN,
		.is_copy = end->program == PROGRAM_OF_PARENT,
		.is_renamed = is_record && *end->name && end->program != PROGRAM_OF_PARENT &&
			      strncmp(m->p.name, end->name, sizeof(m->p.name)) != 0,
		.is_awaited = has_records && end->how == END_SEEN,
	};

	if (f->taskstats_lost.value == 1 || (f->taskstats.known && f->taskstats.value == 0))
		memory_records_lost(job->memory);
	memory_end(job->memory, &e);
}

int end_apply(struct job *job, const struct end *end, uint64_t time_ns)
{
	struct member *m = member_find(job, end->id);
	int64_t tree[TREES], plain[PLAINS];

	if (!m)
		return 0;
	for (enum tree k = 0; k < TREES; k++)
		tree[k] = tree_value(&m->tree[k]);
	plain_before(job, m, end, plain);
	facts_apply(job, m, end);
	for (enum plain k = 0; k < PLAINS; k++)
		job->plain_known[k] |= m->plain[k].known;
	hwm_apply(job, m, end);
	maxrss_apply(job, m, end);
	memory_ended(job, m, end);
	if (end->status_known) {
		m->p.status_known = true;
		m->p.status = end->status;
	}
	/* The kernel's mark is since the program began. */
	if (end->vm_bytes.known && m->young && m->rlimit[RLIMIT_OF_VM].known)
		m->under_rlimit[RLIMIT_OF_VM] = maybe_max(m->under_rlimit[RLIMIT_OF_VM], end->vm_bytes);
	rlimits_update(job, m);
	/* If sampled between its fork and its exec, it had its parent's name. */
	if (*end->name)
		memcpy(m->p.name, end->name, sizeof(m->p.name));
	if (!m->p.ended || end->how == END_REAPED || m->p.how == END_SEEN)
		m->p.how = end->how;
	if (m->live != NOT_ALIVE)
		end_first(job, m, time_ns);
	else
		end_again(job, m, tree, plain);
	job->counters_read = true;
	return 0;
}
