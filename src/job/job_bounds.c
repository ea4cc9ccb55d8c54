/* SPDX-License-Identifier: MIT
 *
 * How much the job holds at this instant: at least, at most, probably. DESIGN 4 has the rules.
 */
#include <string.h>

#include "job/job_held.h"

/* ---- files and shared memory ---------------------------------------------------------------------------------------- */

void job_files_done(struct job *job, uint64_t bytes)
{
	job->files = known_unsigned(bytes);
	for (size_t i = 0; i < job->n_live; i++)
		job->live[i].file_then = job->live[i].file;
	job->look.seq = 0;
}

uint64_t job_files_most(struct job *job, uint64_t bytes)
{
	const int64_t growth = job_look(job)->files_growth[ALL];

	return job->files.known && (uint64_t) (job->files.value + growth) < bytes ? (uint64_t) (job->files.value + growth) : bytes;
}

int64_t files_most(const struct job *job, enum set set)
{
	const int64_t sum = job->look.files_sum[set];
	const int64_t once = job->files.value + job->look.files_growth[set];

	return job->files.known && once < sum ? once : sum;
}

int64_t bounds_worst(const struct job *job, enum set set)
{
	return job->look.anon_sum - (set == REST ? job->look.main_anon : 0) +
	       files_most(job, set);
}

int64_t total_lately(const struct job *job, enum set set)
{
	return larger(job->ram[set].now, job->ram[set].before);
}

/* ---- bursts between two looks --------------------------------------------------------------------------------------- */

void burst_may(struct burst *burst, int64_t others, int64_t seen, int64_t value)
{
	if (value <= seen)
		return;
	if (!burst->any || others + seen > burst->base)
		burst->base = others + seen;
	burst->sum += value - seen;
	burst->any = true;
}

void burst_copy(struct burst *burst, struct beside others, int64_t seen, int64_t given, int64_t copied, int64_t value)
{
	const int64_t had = larger(given, seen);

	if (value <= seen)
		return;
	burst->low = larger(burst->low, value);
	burst->likely = larger(burst->likely, others.likely + seen + larger(value - larger(had, copied), 0));
	burst_may(burst, others.most, had, value);
	burst->any = true;
}

void burst_add(struct burst *burst, struct beside others, int64_t seen, int64_t value)
{
	burst_copy(burst, others, seen, seen, 0, value);
}

int64_t parents_most(const struct job *job, const struct member *m)
{
	const struct member *parent = member_find(job, m->p.parent);
	const bool is_known = parent && parent->p.peak_bytes > 0;
	const int64_t seen = is_known ? parent->p.peak_bytes : job->accs[M_JOB_RAM_LOW].max;

	/* A look may have missed what main was; main's ru_maxrss has not. */
	return is_known && !parent->p.is_main ? seen : larger(seen, job->facts.main_maxrss_bytes.value);
}

int64_t orphan_own(const struct job *job, const struct member *m, int64_t value, int64_t faults)
{
	const int64_t huge = (int64_t) job->config.huge_page_bytes;
	const int64_t more = larger(value - parents_most(job, m), 0);
	const bool are_huge = huge > 0 && more / huge <= faults;

	return smaller(value, larger(are_huge ? more : 0, job->page_bytes * faults));
}

/* A program that it ran has a size of its own, and mostly a name. */
static bool is_copy(const struct member *parent, const struct member *m)
{
	return m->program == PROGRAM_UNKNOWN ? strcmp(parent->p.name, m->p.name) == 0 : m->program == PROGRAM_OF_PARENT;
}

int64_t own_of(const struct job *job, const struct member *m, int64_t value, int64_t faults)
{
	const struct member *parent = member_find(job, m->p.parent);
	const struct live *l = parent && parent->live != NOT_ALIVE ? &job->live[parent->live] : NULL;
	const int64_t given = l ? larger(l->rss, l->seen) : 0;

	if (m->p.how == END_REAPED && !m->p.is_main) /* an orphan: its ru_maxrss has what it was given */
		return orphan_own(job, m, value, faults);
	if (!l || !is_copy(parent, m) || value < given - given / 8)
		return value;
	return smaller(value, larger(value - given, job->page_bytes * faults));
}

struct maybe huge_at_start(const struct job *job)
{
	const struct acc *count = job->config.ours ? job_acc(job, M_HOST_THP_FAULTS, 0) : NULL;

	return count ? known(count->min) : UNKNOWN;
}

bool is_huge_fresh(const struct job *job)
{
	return job->config.huge_page_bytes == 0 || (job->huge.known && job->huge_seq > job->memory_seq);
}

static struct member *parent_of(const struct job *job, const struct member *m)
{
	return m->p.is_main ? NULL : member_find(job, m->p.parent);
}

/* Children of one parent that come and go mostly do so one after the other. */
void room_make(struct job *job, const struct member *m, int64_t told)
{
	struct member *parent = parent_of(job, m);

	if (!parent)
		return;
	if (parent->room_seq <= job->settled_seq)
		parent->room = 0;
	parent->room += own_of(job, m, told, counter_value(&m->tree[TREE_FAULTS].own));
	parent->room_seq = job->seq;
}

int64_t room_left(const struct job *job, enum set set, const struct member *m)
{
	const struct member *parent = parent_of(job, m);
	const int64_t room = parent && parent->room_seq > job->settled_seq ? parent->room : 0;

	return larger(job->ram[set].last - room, 0);
}

struct beside live_others(const struct live *l, enum set set)
{
	return (struct beside) { l->others[set].most + l->bursts[set], l->others[set].likely };
}

static void live_bursts(struct job *job, struct live *l, const struct bounds *b)
{
	for (enum set s = ALL; s < SETS; s++) {
		const struct beside now = { b->high[s] - l->rss, b->value[s] - l->rss };

		if (s == REST && l->is_main)
			break;
		l->others[s].most = larger(l->others[s].most, now.most + lately_went_beside(job, s, l));
		l->others[s].likely = larger(l->others[s].likely, now.likely);
		if (l->burst > 0)
			burst_copy(&job->burst[s], live_others(l, s), l->seen, l->given, l->m->copied, l->burst);
		if (l->marked) {
			l->others[s] = now;
			l->bursts[s] = 0;
		}
	}
	if (l->burst > l->seen)
		l->seen = l->burst;
	if (l->marked)
		l->seen = l->rss;
	l->burst = 0;
}

/* Who had no fault since its mark was read has not grown: no burst of its own will be proven beside those of others. */
void bursts_beside(struct live *l)
{
	if (l->own.now == l->own.at_vm_mark)
		l->bursts[ALL] = l->bursts[REST] = 0;
}

/* Whose own mark was not read yet may come to prove a burst of the same time. */
static void live_beside(struct live *l, const struct bounds *b)
{
	for (enum set s = ALL; s < SETS && !l->marked; s++) {
		if (s == REST && l->is_main)
			break;
		l->bursts[s] += b->bursts[s];
	}
	if (l->marked)
		l->own.at_vm_mark = l->own.now;
	l->marked = false;
}

/* ---- what was held between two looks -------------------------------------------------------------------------------- */

static void recent_take(struct recent *recent, int64_t value, bool turn)
{
	recent->last = value;
	if (value > recent->now)
		recent->now = value;
	if (turn) {
		recent->before = recent->now;
		recent->now = value;
	}
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
	return value < low ? low : value > high ? high
						: value;
}

/* Copies that relatives by fork made between two looks, and have not any more, are in no mark: they were held beside what one
 * of the looks found, all at once in the worst case, and probably one by one. look: NULL if there was none. */
static void copies_raise(const struct job *job, const struct look *look, struct bounds *b, enum set s)
{
	const struct burst *burst = &job->burst[s];
	const int64_t back = look ? look->back[s] : 0, back_likely = look ? look->back_likely[s] : 0;

	/* Whose own faults are known brought those; the others' are among the rest. */
	const int64_t rest = burst->late_most > 0 ? larger(copies_most(job) - burst->late, 0) : 0;
	const int64_t late = burst->late + smaller(burst->late_most, rest);

	if (back == 0 && late == 0)
		return;
	/* A record may come looks after the end. */
	b->high_max[s] = larger(b->high_max[s], larger(late > 0 ? job->high[s].now : 0, b->high[s] + back) + late + burst->sum);
	b->max[s] = larger(b->max[s], larger(job->ram[s].last + burst->late_likely, b->value[s] + back_likely));
	b->max[s] = smaller(b->max[s], b->high_max[s]);
}

/* All bursts may have coincided with each other and with the most that the others held; low knows of one. */
static void raise(struct job *job, const struct look *look, struct bounds *b, enum set s)
{
	const struct burst *burst = &job->burst[s];
	const int64_t missed = missed_most(job, s);
	const int64_t with_missed = smaller(job->ram[s].last + missed, burst->missed_likely);

	copies_raise(job, look, b, s);
	if (look && b->between[s] > job->high[s].last) /* that much has been told */
		b->high_max[s] = larger(b->high_max[s], b->between[s]);
	b->bursts[s] = burst->sum;
	if (burst->any) {
		b->low_max[s] = larger(b->low_max[s], burst->low);
		/* Whoever lived between two looks lived beside what either found. */
		const int64_t base = look || missed > 0 ? larger(burst->base, b->between[s]) : burst->base;

		b->high_max[s] = larger(larger(b->high_max[s], base + burst->sum + missed), b->low_max[s]);
		b->max[s] = larger(b->max[s], larger(burst->likely, with_missed));
	}
	if (s == REST) {
		b->max[s] = smaller(b->max[s], b->max[ALL]);
		b->high_max[s] = larger(smaller(b->high_max[s], b->high_max[ALL]), b->low_max[s]);
	}
	b->max[s] = clamp(b->max[s], b->low_max[s], b->high_max[s]);
	job->burst[s] = (struct burst) { 0 };
}

static void proofs_take(struct job *job)
{
	job->proven_since_ns = job->burst_since_ns;
	job->burst_since_ns = UINT64_MAX;
}

bool bounds_raise(struct job *job, struct bounds *ret)
{
	static const enum metric of[SETS][3] = {
		[ALL] = { M_JOB_RAM_LOW, M_JOB_RAM, M_JOB_RAM_HIGH },
		[REST] = { M_JOB_RAM_REST_LOW, M_JOB_RAM_REST, M_JOB_RAM_REST_HIGH },
	};
	const bool any = job->burst[ALL].any || job->burst[REST].any || job->burst[ALL].late > 0 || job->burst[ALL].late_most > 0;

	proofs_take(job);
	for (enum set s = ALL; s < SETS; s++) {
		ret->low[s] = job->accs[of[s][0]].last;
		ret->value[s] = job->accs[of[s][1]].last;
		ret->high[s] = job->accs[of[s][2]].last;
		ret->low_max[s] = job->accs[of[s][0]].max;
		ret->max[s] = job->accs[of[s][1]].max;
		ret->high_max[s] = job->accs[of[s][2]].max;
		ret->between[s] = ret->high[s];
		raise(job, NULL, ret, s);
	}
	missed_settle(job);
	return any;
}

/* ---- the instant ---------------------------------------------------------------------------------------------------- */

/* What the job's cgroup holds, less all that hiwater itself may hold in it. */
static int64_t cgroup_least(const struct job *job)
{
	const struct facts *f = &job->facts;

	if (!job->cgroup_anon.known || f->cgroup_exclusive.value != 1 || !f->own_rss_bytes.known)
		return 0;
	return job->cgroup_anon.value - f->own_rss_bytes.value;
}

static void one_set(struct job *job, struct bounds *b, enum set s)
{
	const struct look *look = &job->look;
	const size_t n = look->n - (s == REST && look->main_alive);
	struct pass *pass = &job->pass;

	int64_t likely;

	b->low[s] = look->largest[s];
	families_anon(job, s, &b->high[s], &likely);
	b->high[s] = n <= 1 ? look->largest[s] : larger(b->high[s] + files_most(job, s), b->low[s]);
	if (s == ALL)
		b->low[s] = clamp(cgroup_least(job), b->low[s], b->high[s]);
	if (pass->fresh && n > 1) {
		b->low[s] = larger(b->low[s], pass->pss[s]);
		b->high[s] = larger(b->high[s], b->low[s]);
	}
	likely += files_most(job, s);
	if (pass->fresh)
		pass->likely[s] = likely;
	if (pass->valid)
		likely += pass->held[s] - pass->likely[s];
	if (s == REST) { /* some of all */
		likely = smaller(likely, b->value[ALL]);
		b->high[s] = larger(smaller(b->high[s], b->high[ALL]), b->low[s]);
	}
	b->value[s] = clamp(likely, b->low[s], b->high[s]);
	b->low_max[s] = b->low[s];
	b->high_max[s] = b->high[s];
	b->max[s] = b->value[s];
}

void bounds_make(struct job *job, uint64_t time_ns, struct bounds *ret)
{
	proofs_take(job);
	(void) job_look(job);
	families_anchor(job, time_ns);
	for (enum set s = ALL; s < SETS; s++)
		one_set(job, ret, s);
	lately_look(job);
	for (enum set s = ALL; s < SETS; s++)
		ret->between[s] = ret->high[s] + lately_went(job, s);
	unmarked_look(job);
	for (size_t i = 0; i < job->n_live; i++)
		live_bursts(job, &job->live[i], ret);
	for (enum set s = ALL; s < SETS; s++) {
		raise(job, &job->look, ret, s);
		recent_take(&job->high[s], ret->high[s], job->marks_read);
		recent_take(&job->ram[s], ret->value[s], job->marks_read);
	}
	for (size_t i = 0; i < job->n_live; i++)
		live_beside(&job->live[i], ret);
	families_settle(job);
	missed_settle(job);
	lately_settle(job, ret);
	unmarked_settle(job, ret);
	job->huge_totals[1] = job->huge_totals[0];
	job->huge_totals[0] = job->huge;
	job->marks_read = false;
	job->pass.fresh = false;
	job->cgroup_anon = UNKNOWN;
}

/* ---- the PSS pass --------------------------------------------------------------------------------------------------- */

/* What the look did not see is no part of what it saw, or a burst would count it as held by others and once more. */
static int64_t at_look(int64_t held, int64_t grown)
{
	return larger(held - grown, 0);
}

void job_pss_done(struct job *job, struct pss_drift drift, bool valid)
{
	const int64_t grown[SETS] = { drift.grown, drift.grown - drift.grown_main };
	struct pass *pass = &job->pass;
	struct growth *growth = &job->growth;
	const struct look *look = job_look(job);

	if (valid) {
		pass->valid = pass->fresh = true;
		for (enum set s = ALL; s < SETS; s++) {
			pass->held[s] = pass->adding[s];
			pass->pss[s] = larger(pass->adding[s] - drift.moved - larger(grown[s], 0), 0);
		}
		/* What main shares with the others counts for them whole. */
		pass->held[REST] = larger(pass->held[REST], pass->held[ALL] - pass->main_private);
		pass->lone[ALL] = look->n == 1;
		pass->lone[REST] = look->n == 1 + (size_t) look->main_alive;
		pass->whole[ALL] = pass->adding[ALL];
		pass->whole[REST] = pass->held[REST];
		for (enum set s = ALL; s < SETS; s++)
			pass->held[s] = at_look(pass->held[s], grown[s]);
		pass->private_part[ALL] = pass->adding_private;
		pass->private_part[REST] = larger(pass->adding_private - (pass->main_private == INT64_MAX ? 0 : pass->main_private), 0);
		pass->at_ns = job->now_ns;
	}
	/* What was spoilt several times at one size is left alone until it grows. */
	if (valid || ++growth->tries >= 3) {
		growth->passed = larger(growth->passed, look->rss_sum);
		if (growth->still > 0)
			growth->passed = larger(growth->passed, growth->top);
		growth->tries = 0;
	}
	pass->adding[ALL] = pass->adding[REST] = pass->adding_private = 0;
	pass->main_private = INT64_MAX;
}
