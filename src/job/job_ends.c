/* SPDX-License-Identifier: MIT
 *
 * Ends: what an ended process used, and who tells of it from then on.
 *
 * The kernel adds what an ended child used to its parent's "waited" numbers when the parent waits for it. What the job
 * saw of ended children itself (dead) says the same, if less exactly, and also where nobody waits: the larger of the two
 * counts. What no living parent tells of goes to job->gone.
 */
#include <string.h>

#include "job/job_held.h"

/* Did it live on when its parent had ended? */
static bool is_orphan(const struct member *m, const struct member *parent)
{
	return m->last_seq > parent->ended_seq || m->p.how == END_REAPED;
}

/* What an ended process used is its parent's to tell; where that has ended itself, it may have told already, unless the
 * process outlived it. */
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
		job->gone[k] += amount;
		return;
	}
	parent->tree[k].dead += amount;
	if (k == TREE_FAULTS)
		live_count_faults(&job->live[parent->live]);
}

/* Where no total has told of it, none of those that stand is told beside it. */
static struct beside others_of(const struct job *job, enum set s, const struct live *l, int64_t seen)
{
	struct beside others = live_others(l, s);

	if (!l->was_told)
		others.likely = room_left(job, s, l->m) - seen;
	return others;
}

/* What no total has told of outlives it: a mark, or memory that was read and gone before the total of that look. */
static void untold_take(struct job *job, const struct member *m, const struct live *l)
{
	const int64_t value = untold_of(l);
	const int64_t seen = l->rss > l->told ? l->told : l->seen;
	const bool missed = !l->was_told && !l->is_main && m->tree[TREE_FAULTS].own.known;

	if (missed && value > 0) {
		missed_take(job, m, value, counter_value(&m->tree[TREE_FAULTS].own));
		return;
	}
	for (enum set s = ALL; s < SETS && value > 0; s++) {
		if (s == REST && l->is_main)
			break;
		burst_copy(&job->burst[s], others_of(job, s, l, seen), seen, l->given, m->copied, value);
	}
}

static void live_remove(struct job *job, struct member *m)
{
	struct live *l = &job->live[m->live];

	for (enum level k = 0; k < LEVELS; k++) {
		job->level_sum[k] -= m->level[k].known ? m->level[k].value : 0;
		job->level_known[k] -= m->level[k].known;
	}
	m->seen = l->seen;
	m->unmarked = l->unmarked;
	m->given = l->given;
	if (l->was_told)
		room_make(job, m, l->told);
	m->last_seq = l->rss_seq;
	m->ended_seq = job->seq;
	for (enum set s = ALL; s < SETS; s++)
		m->others[s] = others_of(job, s, l, l->seen);
	untold_take(job, m, l);
	lately_end(job, m, l);
	*l = job->live[--job->n_live];
	l->m->live = m->live;
	m->live = NOT_ALIVE;
	m->p.rss_bytes = m->p.rss_file_bytes = 0;
}

static void own_facts_take(struct member *m, const struct end *end)
{
	if (end->cpu_user_ns.known)
		(void) counter_take(&m->tree[TREE_USER].own, end->cpu_user_ns.value, m->young);
	if (end->cpu_system_ns.known)
		(void) counter_take(&m->tree[TREE_SYSTEM].own, end->cpu_system_ns.value, m->young);
	if (end->faults_minor.known)
		(void) counter_take(&m->tree[TREE_FAULTS].own, end->faults_minor.value, m->young);
}

/* Did it wait for children, as far as that is known? */
static bool is_childless(const struct job *job, const struct member *m)
{
	if (m->p.is_main && job->facts.main_zombie_cminflt.known)
		return job->facts.main_zombie_cminflt.value == 0;
	return counter_value(&m->tree[TREE_FAULTS].waited) == 0 && m->tree[TREE_FAULTS].dead == 0;
}

static void reaped_facts_take(const struct job *job, struct member *m, const struct end *end)
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
		own_facts_take(m, end);
}

/* An exit record has its own alone, since it began. */
static void io_facts_take(struct member *m, const struct end *end)
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
			plain_take(m, k, values[k].value);
		} else if (m->young) {
			m->io[k].own = larger(m->io[k].own, values[k].value);
			m->plain[k].known = m->p.io_known = true;
		}
	}
	io_describe(m);
}

static void facts_take(struct job *job, struct member *m, const struct end *end)
{
	if (end->faults_waited.known)
		(void) counter_take(&m->tree[TREE_FAULTS].waited, end->faults_waited.value, m->young);
	if (end->how == END_REAPED)
		reaped_facts_take(job, m, end);
	else
		own_facts_take(m, end);
	io_facts_take(m, end);
	m->p.cpu_known |= m->tree[TREE_USER].own.known;
	m->p.cpu_user_ns = counter_value(&m->tree[TREE_USER].own);
	m->p.cpu_system_ns = counter_value(&m->tree[TREE_SYSTEM].own);
	m->p.faults_minor = counter_value(&m->tree[TREE_FAULTS].own);
	m->p.faults_waited = counter_value(&m->tree[TREE_FAULTS].waited);
}

/* The largest rss of its last program. Later than any other look, so what it says is new is a burst. */
static void hwm_take(struct job *job, struct member *m, const struct end *end)
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

/* hiwater's child touches pages of its own between the fork and the exec. */
int64_t image_before_exec(const struct facts *f)
{
	enum {
		TOUCHED = 256 * 1024
	};

	return f->fork_rss_bytes.value + TOUCHED + f->rss_error_bytes.value;
}

/* What it grew by since its mark was read, its faults brought: a page each, a piece of a file (fault_around_bytes, 64 KiB) or a
 * huge page. */
static void main_most_take(struct job *job, const struct member *m)
{
	struct facts *f = &job->facts;
	const int64_t piece = fault_most(job);
	const int64_t faults = larger(f->main_faults.value - m->faults_at_mark, 0);

	if (f->main_faults.known && m->young && faults < INT64_MAX / 2 / piece)
		f->main_most_bytes = known(m->p.peak_bytes + f->rss_error_bytes.value + faults * piece);
}

/* Is it more than main can have been? Then some other was so large. */
static bool is_of_rest(const struct facts *f, int64_t value)
{
	return f->main_most_bytes.known && value > f->main_most_bytes.value;
}

/* Main's children may have been it, or main itself in an earlier program; of an orphan's tree one was it for sure. */
static void rest_may(struct job *job, const struct member *m, int64_t value)
{
	const int64_t seen = job->accs[M_JOB_RAM_REST_LOW].max;
	const int64_t others = job->accs[M_JOB_RAM_REST_HIGH].max - seen;

	if (m->p.is_main && !is_of_rest(&job->facts, value))
		burst_may(&job->burst[REST], others, seen, value);
	else
		burst_add(&job->burst[REST], (struct beside) { others, total_lately(job, REST) - seen }, seen, value);
}

/* It waited for nobody, and was not given all that by its parent. */
static bool is_maxrss_its_own(const struct job *job, const struct member *m, const struct end *end)
{
	if (m->p.is_main)
		return job->facts.main_zombie_cminflt.known && job->facts.main_zombie_cminflt.value == 0;
	return end->faults_waited.known && is_childless(job, m) && end->maxrss_bytes.value > parents_most(job, m);
}

/* ru_maxrss is the largest rss of the process, of its programs before the last, and of children that it waited for:
 * some process was that large, unless it was hiwater itself before main's exec. */
static void maxrss_take(struct job *job, struct member *m, const struct end *end)
{
	const struct facts *f = &job->facts;
	const int64_t value = end->maxrss_bytes.value;

	if (!end->maxrss_bytes.known || end->how != END_REAPED)
		return;
	if (m->p.is_main && !(f->fork_rss_bytes.known && value > image_before_exec(f)))
		return;
	if (m->p.is_main)
		main_most_take(job, m);
	if (is_maxrss_its_own(job, m, end)) {
		/* What no fault of its own brought it probably shared with its parent. */
		if (!m->p.is_main)
			m->copied = larger(m->copied, value - orphan_own(job, m, value, own_faults(m)));
		mark_proves(job, m, value);
		m->p.peak_exact = true;
	} else if (value > job->largest_peak) {
		/* The largest that was seen will have been it, later than its last look. */
		const int64_t seen = job->largest_peak;

		burst_add(&job->burst[ALL], (struct beside) { job->accs[M_JOB_RAM_HIGH].max - seen, total_lately(job, ALL) - seen }, seen,
			value);
		job->largest_peak = value;
		if (m->p.born_ns < job->burst_since_ns) /* at any time until now */
			job->burst_since_ns = m->p.born_ns;
		rest_may(job, m, value);
	}
}

/* Whom hiwater waits for nobody else did. */
static bool is_of_parent(const struct member *m, const struct member *parent)
{
	return m->p.how != END_REAPED && (parent->live != NOT_ALIVE || !is_orphan(m, parent));
}

/* To its parent, which may have it in its counter when it waits; where that has ended, to whom it was handed over itself.
 * The plain counters that are no I/O the kernel forgets: they are the job's at once. amount < 0: takes it back. */
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
	job->gone_plain[k] += amount;
}

/* Of whom was there before the run, its parent's counter may come to have more than the run's. */
static void hand_over_before(struct job *job, const struct member *m)
{
	struct member *parent = member_find(job, m->p.parent);

	if (!parent || parent->live == NOT_ALIVE || !is_of_parent(m, parent))
		return;
	for (enum plain k = PLAIN_READ_BYTES; k <= PLAIN_WRITE_CHARS; k++)
		parent->io[k].before += m->plain[k].base + m->io[k].before;
}

/* Do its counters have what it did itself until its end? Who was waited for is told of with its children. */
static bool has_own_faults(const struct job *job, const struct member *m, const struct end *end)
{
	return end->faults_minor.known && end->how != END_SEEN && (end->how != END_REAPED || is_childless(job, m));
}

/* Its faults go to its parent, or stay with its family as far as no parent in it tells of them. */
static void end_first(struct job *job, struct member *m, const struct end *end, uint64_t time_ns)
{
	const struct member *parent = member_find(job, m->p.parent);
	const bool in_family = parent && is_one_family(parent, m);
	const bool with_parent = in_family && parent->live != NOT_ALIVE;
	int64_t faults, had = 0, told = 0;

	m->p.ended = true;
	m->p.ended_ns = time_ns;
	job->n_ended += !m->p.is_main;
	live_count_faults(&job->live[m->live]);
	faults = job->live[m->live].faults;
	copies_end(job, &job->live[m->live], has_own_faults(job, m, end));
	family_drop(job, &job->live[m->live]);
	if (m->kin > 0 && end->how == END_SEEN)
		family_forget(job, m);
	m->copied = larger(m->copied, family_copied(job, &job->live[m->live]));
	kin_drop(job, m);
	live_remove(job, m);
	if (in_family)
		had = with_parent ? job->live[parent->live].faults : tree_value(&parent->tree[TREE_FAULTS]);
	for (enum tree k = 0; k < TREES; k++)
		hand_over(job, m, k, tree_value(&m->tree[k]));
	hand_over_before(job, m);
	for (enum plain k = 0; k < PLAINS; k++)
		hand_over_plain(job, m, k, plain_value(m, k));
	if (with_parent)
		told = job->live[parent->live].faults - had;
	else if (in_family && parent->p.how == END_REAPED && !is_orphan(m, parent)) /* went with what its parent had waited for */
		told = tree_value(&m->tree[TREE_FAULTS]) - (tree_value(&parent->tree[TREE_FAULTS]) - had);
	family_leave(job, m, faults - told);
}

/* What a second end says more than the first. */
static void end_again(struct job *job, struct member *m, const int64_t *tree, const int64_t *plain)
{
	for (enum tree k = 0; k < TREES; k++)
		hand_over(job, m, k, tree_value(&m->tree[k]) - tree[k]);
	for (enum plain k = 0; k < PLAINS; k++)
		hand_over_plain(job, m, k, plain_value(m, k) - plain[k]);
	family_add(job, m, tree_value(&m->tree[TREE_FAULTS]) - tree[TREE_FAULTS]);
}

/* What was handed over of it. It is no parent's any more once hiwater has waited for it. */
static void plain_before(struct job *job, const struct member *m, const struct end *end, int64_t *ret)
{
	for (enum plain k = 0; k < PLAINS; k++) {
		ret[k] = plain_value(m, k);
		if (m->live == NOT_ALIVE && end->how == END_REAPED && m->p.how != END_REAPED && plain_is_io(k)) {
			hand_over_plain(job, m, k, -ret[k]);
			ret[k] = 0;
		}
	}
}

/* Its own faults until its end, as far as that is told. */
static int64_t faults_at_end(const struct member *m, const struct end *end)
{
	const bool has_both = end->how == END_REAPED && end->faults_minor.known && end->faults_waited.known;

	return larger(has_both ? end->faults_minor.value - end->faults_waited.value : 0, counter_value(&m->tree[TREE_FAULTS].own));
}

/* What it was after the last look at its memory, none tells but a mark of its whole life; where it was seen at no time none was
 * seen. But what it grew by at looks since its faults were read, these brought: what a fork gave it is none of that. */
static void unread_take(struct job *job, struct member *m, const struct end *end)
{
	struct facts *f = &job->facts;
	const bool whole = m->p.peak_exact, was_read = m->p.peak_bytes > 0;
	const int64_t unread = whole ? 0 : larger(faults_at_end(m, end) - (was_read ? m->shown.faults : 0), 0);
	int64_t grown = was_read && !whole ? m->shown.grown / job->page_bytes : 0;

	if (m->p.is_main || end->how == END_LEFT)
		return;
	m->faults_told |= end->faults_minor.known;
	if (m->faults_told)
		grown = smaller(grown, unread);
	f->faults_unread = known(f->faults_unread.value + unread - m->unread_faults);
	f->faults_grown = known(f->faults_grown.value + grown - m->grown_faults);
	m->unread_faults = unread;
	m->grown_faults = grown;
}

/* Looks saw a copy of its parent, which has run a program since, maybe one of the same name. */
static bool has_run_since(const struct job *job, const struct member *m, const struct end *end)
{
	const struct member *parent = member_find(job, m->p.parent);

	return end->program == PROGRAM_OWN && m->p.peak_bytes > 0 && parent && is_one_family(parent, m);
}

/* An exit record has the mark of the last program alone, and its name. ru_maxrss has all of them, and who lives on was looked at. */
static enum marked marked_how(const struct job *job, const struct member *m, const struct end *end)
{
	const struct facts *f = &job->facts;
	const bool are_there = !f->taskstats.known || (f->taskstats.value == 1 && f->taskstats_lost.value != 1);

	if (end->how == END_TASKSTATS) {
		const bool is_renamed = *end->name && strncmp(m->p.name, end->name, sizeof(m->p.name)) != 0;

		return is_renamed || has_run_since(job, m, end) ? MARK_OF_ANOTHER : MARK_KEPT;
	}
	if (end->how == END_SEEN)
		return are_there ? MARK_AWAITED : MARK_LOST;
	return MARK_KEPT;
}

int end_take(struct job *job, const struct end *end, uint64_t time_ns)
{
	struct member *m = member_find(job, end->id);
	int64_t tree[TREES], plain[PLAINS], faults, size;
	enum marked marked;

	if (!m)
		return 0;
	marked = marked_how(job, m, end);
	m->program = end->program != PROGRAM_UNKNOWN ? end->program : m->program;
	faults = own_faults(m);
	size = m->seen;
	for (enum tree k = 0; k < TREES; k++)
		tree[k] = tree_value(&m->tree[k]);
	plain_before(job, m, end, plain);
	facts_take(job, m, end);
	for (enum plain k = 0; k < PLAINS; k++)
		job->plain_known[k] |= m->plain[k].known;
	hwm_take(job, m, end);
	maxrss_take(job, m, end);
	if (end->status_known) {
		m->p.status_known = true;
		m->p.status = end->status;
	}
	/* A look between its fork and its exec had its parent's name. */
	if (*end->name)
		memcpy(m->p.name, end->name, sizeof(m->p.name));
	if (!m->p.ended || end->how == END_REAPED || m->p.how == END_SEEN)
		m->p.how = end->how;
	if (m->live != NOT_ALIVE) {
		end_first(job, m, end, time_ns);
	} else {
		const int64_t all = tree_value(&m->tree[TREE_FAULTS]) - tree[TREE_FAULTS];

		end_again(job, m, tree, plain);
		copies_late(job, m, own_faults(m) - faults, all, size);
	}
	unread_take(job, m, end);
	unmarked_end(job, m, marked, end->maxrss_bytes);
	job->counters_read = true;
	return 0;
}
