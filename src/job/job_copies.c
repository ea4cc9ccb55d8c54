/* SPDX-License-Identifier: MIT
 *
 * Copies that nobody has any more.
 *
 * Who copies what it shares with its relatives by fork grows by nothing: neither its size nor its mark tells of it, only
 * its faults. While it holds the copy, these are in what its family holds at most (job_family.c). Where it gave the copy back,
 * or ended, before the next look, that look's figure has nothing of it; so it is added to what there was at most, and
 * probably, between the two looks.
 */
#include "job/job_held.h"

int64_t own_faults(const struct member *m)
{
	return counter_value(&m->tree[TREE_FAULTS].own) + counter_value(&m->plain[PLAIN_FAULTS_MAJOR]);
}

static bool has_relatives(const struct member *m)
{
	return m->is_kin || m->forked;
}

/* Did it hold what it brought until now, rather than take and give back again and again? */
static bool is_calm(const struct job *job, const struct live *l)
{
	enum {
		LITTLE = 8
	};
	return l->own.lost - l->own.went <= job->page_bytes * l->own.now / LITTLE;
}

/* Alone at the last look, it shares with nobody that is known: its mark has what it brought. */
static bool was_alone(const struct job *job, const struct live *l)
{
	return job->families[l->family].n <= 1;
}

/* Of what it alone brought, all but what had gone before the last total; what it can hold of it now is in the others' sum. */
static int64_t brought_lately(const struct job *job, const struct live *l)
{
	const int64_t brought = job->page_bytes * (l->own.now - l->own.mark);

	if (l->own.mark_seq > job->settled_seq || !own_is_marked(&job->families[l->family], l))
		return job->page_bytes * (l->own.now - l->own.before);
	return brought - (l->own.gone - l->own.went) - larger(smaller(brought - l->own.gone, anon_of(l)), 0);
}

/* The largest it can have been since the last total; since its fork, when it was what its parent was, where that was later.
 * A mark that rose above is a burst of its own, but one of what its parent gave it proves none. */
static int64_t most_lately(const struct job *job, const struct live *l)
{
	const int64_t peak = l->m->program_peak, at_fork = l->rss + larger(l->given_anon - anon_of(l), 0);

	if (!l->was_told) /* a fork hands on anonymous memory; what is mapped each maps in for itself */
		return l->m->mark.known ? smaller(at_fork, peak) : at_fork;
	return smaller(l->told + job->page_bytes * (l->own.now - l->own.before), larger(l->burst > 0 ? l->seen : peak, l->given));
}

/* A copy of what it shares makes a member no larger. What it brought, and has not any more, it may have held between the last
 * look and this one beside all that the others hold, as far as it is smaller now than it can have been. */
void copies_look(const struct job *job, struct look *look, const struct live *l)
{
	const int64_t most = most_lately(job, l), had = l->was_told ? l->told : most;
	const int64_t less = larger(most - l->rss, 0), brought = brought_lately(job, l);
	const int64_t back = larger(smaller(brought + job->page_bytes * l->own.unmarked, less), 0);
	const int64_t likely = is_calm(job, l) ? smaller(brought, less) : 0;

	if (!has_relatives(l->m) || !l->rss_known)
		return;
	look->shrunk += larger(had - l->rss, 0);
	for (enum set s = ALL; s < SETS; s++) {
		if (s == REST && l->is_main)
			break;
		look->back[s] += back;
		look->back_new[s] += l->was_told ? 0 : back;
		look->back_likely[s] = larger(look->back_likely[s], likely);
	}
}

/* The copies of an ended member are not in its size, nor in a total any more. */
static void late_take(struct job *job, const struct member *m, int64_t late, bool calm)
{
	for (enum set s = ALL; s < SETS && late > 0; s++) {
		struct burst *burst = &job->burst[s];

		if (s == REST && m->p.is_main)
			break;
		burst->late += late;
		if (calm)
			burst->late_likely = larger(burst->late_likely, late);
	}
}

/* Nobody told of its last faults alone: it may have been so much of what all brought. */
static void late_may(struct job *job, bool is_main, int64_t most)
{
	for (enum set s = ALL; s < SETS; s++)
		job->burst[s].late_most += s == REST && is_main ? 0 : most;
}

/* A look found it, and no total told of it: what it is known to have been will be told as missed (job_ends.c). */
static void untold_end(struct job *job, const struct live *l, bool counted)
{
	const int64_t more = larger(most_lately(job, l) - larger(l->burst, l->rss), 0);

	if (!l->rss_known)
		return;
	if (counted)
		late_take(job, l->m, smaller(job->page_bytes * l->own.now, more), is_calm(job, l));
	else
		late_may(job, l->is_main, more);
}

/* A mark above what it was and was given is a burst of its own. Its faults may have been read long before the memory that the
 * last total told of: by its mark it held as much meanwhile. */
void copies_end(struct job *job, struct live *l, bool counted)
{
	const int64_t size = larger(l->seen, l->burst), most = larger(size, l->m->program_peak);
	int64_t late;

	l->own.now = own_faults(l->m);
	l->m->related = has_relatives(l->m);
	if (!l->m->related)
		return;
	if (!l->was_told) {
		untold_end(job, l, counted);
		return;
	}
	late = smaller(job->page_bytes * (l->own.now - l->own.before), most) - larger(size - larger(l->told, l->given), 0);
	if (counted)
		late_take(job, l->m, late, is_calm(job, l) && !was_alone(job, l));
	else
		late_may(job, l->is_main, most);
}

void copies_exec(struct live *l)
{
	l->before_exec = has_relatives(l->m) && l->was_told ? l->told : 0;
}

void copies_own(struct job *job, struct live *l)
{
	if (l->before_exec > 0)
		late_take(job, l->m, smaller(job->page_bytes * (l->own.now - l->own.before), l->before_exec), false);
	l->before_exec = 0;
}

void copies_late(struct job *job, const struct member *m, int64_t own, int64_t all, int64_t size)
{
	const int64_t most = larger(m->seen, m->program_peak);

	if (!m->related)
		return;
	late_take(job, m, smaller(job->page_bytes * own, most) - larger(m->seen - larger(size, m->given), 0), false);
	/* What hiwater waited for tells of it and its children in one. */
	if (all > own)
		late_may(job, m->p.is_main, smaller(job->page_bytes * all, most));
}

struct maybe faults_lately(const struct job *job, bool earlier)
{
	int64_t faults = 0;

	for (size_t i = 0; i < job->n_families; i++) {
		const struct family *f = &job->families[i];

		if (f->used && f->stale)
			return UNKNOWN;
		/* Whose last member has ended is told by what its members left. */
		faults += larger((f->used ? f->faults : f->ended) - (earlier ? f->faults_earlier : f->faults_before), 0);
	}
	return known(faults);
}

int64_t copies_most(const struct job *job)
{
	const struct maybe faults = faults_lately(job, false);

	return faults.known ? job->page_bytes * faults.value : INT64_MAX;
}
