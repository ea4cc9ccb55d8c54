/* SPDX-License-Identifier: MIT
 *
 * Marks that nobody reads.
 *
 * What a member was at its largest since its mark was read last is told when that is read again, or by its exit record. Where it
 * runs another program first, or ends and nobody records that, its mark is gone. Then its faults say what it can have been at most:
 * between two looks what the first of them found, and all that they brought until the second. Main's ru_maxrss bounds that where
 * main, or who it waited for, waited for each of them.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "job/job_held.h"

enum {
	MAX_SPANS = 2048
};

/* Huge pages that were given out to whomever since the last total that had its faults anew. Before the first one they count from
 * the start of the run, or, where it may have been there before that, each of its faults may have been one. */
static int64_t huge_given(const struct job *job, const struct unmarked *u, int64_t faults)
{
	return job->huge.known ? smaller(job->huge.value - larger(u->huge, huge_at_start(job).value), faults) : faults;
}

/* What its own faults brought since then. */
static int64_t brought(const struct job *job, const struct unmarked *u, int64_t faults)
{
	const int64_t more = larger(faults - u->faults, 0);

	return job->page_bytes * more + (int64_t) job->config.huge_page_bytes * huge_given(job, u, more);
}

/* What of them must have been the new program's, where a look has found that. */
static int64_t brought_after(const struct job *job, const struct live *l)
{
	const int64_t huge = (int64_t) job->config.huge_page_bytes;

	if (!l->rss_known || l->rss_seq <= l->unmarked.exec_seq)
		return 0;
	return huge > 0 ? anon_of(l) / huge * job->page_bytes : anon_of(l);
}

static void most_take(const struct job *job, struct unmarked *u, int64_t faults, int64_t less)
{
	u->most = larger(u->most, u->top + u->ahead + brought(job, u, faults) - less);
}

static int began_earlier(const void *a, const void *b)
{
	const struct unmarked_span *x = a, *y = b;

	return x->since_ns < y->since_ns ? -1 : x->since_ns > y->since_ns;
}

/* a began earlier. */
static struct unmarked_span both(const struct unmarked_span *a, const struct unmarked_span *b)
{
	const bool met = b->since_ns <= a->until_ns;

	return (struct unmarked_span) {
		.since_ns = a->since_ns,
		.base = { larger(a->base[ALL], b->base[ALL]), larger(a->base[REST], b->base[REST]) },
		.until_ns = a->until_ns > b->until_ns ? a->until_ns : b->until_ns,
		.most = larger(a->most, b->most),
		.seen = smaller(a->seen, b->seen),
		.together = met ? a->together + b->together : (uint32_t) larger(a->together, b->together),
		.is_main = a->is_main && b->is_main,
	};
}

/* In a run of a million children those that are neighbours in time are told as one: half as many are left. */
static void spans_halve(struct unmarked_spans *all)
{
	size_t n = 0;

	qsort(all->list, all->n, sizeof(*all->list), began_earlier);
	for (size_t i = 0; i < all->n; i += 2)
		all->list[n++] = i + 1 < all->n ? both(&all->list[i], &all->list[i + 1]) : all->list[i];
	all->n = all->settled = n;
}

/* How large its mark would have told that it was is settled at the end of the run, when it is known how large any can have been. */
static void span_take(struct job *job, const struct member *m, const struct unmarked *u, const struct beside *others, int64_t seen)
{
	const struct unmarked_span span = {
		.base = { others[ALL].most + seen, others[REST].most + seen },
		.since_ns = m->mark_ns > m->p.born_ns ? m->mark_ns : m->p.born_ns,
		.until_ns = m->p.ended ? m->p.ended_ns : job->now_ns,
		.most = u->most,
		.seen = seen,
		.id = m->p.id,
		.together = 1,
		.is_main = m->p.is_main,
	};
	struct unmarked_spans *all = &job->unmarked;

	if (span.most <= span.seen)
		return;
	if (all->n >= MAX_SPANS && all->settled == all->n)
		spans_halve(all);
	/* Without memory for it, it is not told. */
	if (vec_room(&all->list, &all->cap, all->n, sizeof(*all->list), MAX_MEMBERS) == 0)
		all->list[all->n++] = span;
}

static void begin(const struct job *job, struct live *l, int64_t ahead)
{
	l->unmarked.faults = l->own.now;
	l->unmarked.huge = job->huge.value;
	l->unmarked.anon = anon_of(l);
	l->unmarked.ahead = ahead;
	l->unmarked.top = l->rss;
	l->unmarked.rss_seq = l->rss_seq;
}

void unmarked_exec(const struct job *job, struct live *l)
{
	l->unmarked.exec_seq = job->seq;
}

static void exec_look(struct job *job, struct live *l)
{
	const struct beside others[SETS] = { live_others(l, ALL), live_others(l, REST) };

	most_take(job, &l->unmarked, l->own.now, brought_after(job, l));
	span_take(job, l->m, &l->unmarked, others, l->seen);
	begin(job, l, 0);
	l->unmarked.exec_seq = 0;
	l->unmarked.most = 0;
}

/* Faults are read behind the memory: what the last of these brought the next look may find, or not. So what it has risen by since the
 * last one was brought before, or by these. */
static void one_look(const struct job *job, struct live *l)
{
	const int64_t risen = larger(anon_of(l) - l->unmarked.anon, 0), lately = brought(job, &l->unmarked, l->own.now);

	most_take(job, &l->unmarked, l->own.now, 0);
	begin(job, l, larger(smaller(l->unmarked.ahead + lately - risen, lately), 0));
}

/* Faults that are still to be read brought what anonymous memory it has risen by. */
static void between_looks(struct live *l)
{
	l->unmarked.top = larger(l->unmarked.top, l->rss - larger(anon_of(l) - l->unmarked.anon, 0));
}

/* Its mark was read behind the memory, too: it was no more than that until then. */
static void marked_look(struct live *l)
{
	l->unmarked.most = 0;
	l->unmarked.ahead = smaller(l->unmarked.ahead, larger(l->m->mark.value - l->rss, 0));
}

void unmarked_look(struct job *job)
{
	const bool fresh = is_huge_fresh(job);

	for (size_t i = 0; i < job->n_live; i++) {
		struct live *l = &job->live[i];

		if (!l->rss_known)
			continue;
		if (!fresh || l->faults_seq < l->rss_seq || l->unmarked.rss_seq == l->rss_seq)
			between_looks(l);
		else if (l->unmarked.exec_seq > 0)
			exec_look(job, l);
		else
			one_look(job, l);
		if (l->marked)
			marked_look(l);
	}
}

void unmarked_settle(struct job *job, const struct bounds *b)
{
	struct unmarked_spans *all = &job->unmarked;

	for (; all->settled < all->n; all->settled++) {
		for (enum set s = ALL; s < SETS; s++)
			all->list[all->settled].base[s] = larger(all->list[all->settled].base[s], b->between[s]);
	}
}

/* It was no larger than that in any of its programs. */
static void maxrss_bounds(struct job *job, uint32_t id, int64_t maxrss)
{
	for (size_t i = 0; i < job->unmarked.n; i++) {
		struct unmarked_span *span = &job->unmarked.list[i];

		if (span->id == id)
			span->most = smaller(span->most, maxrss);
	}
}

void unmarked_end(struct job *job, struct member *m, enum marked how, struct maybe maxrss)
{
	struct unmarked *u = &m->unmarked;

	if (how == MARK_AWAITED)
		return;
	if (how == MARK_OF_ANOTHER || u->exec_seq > 0)
		most_take(job, u, own_faults(m), 0);
	if (how != MARK_KEPT || u->exec_seq > 0)
		span_take(job, m, u, m->others, m->seen);
	*u = (struct unmarked) { 0 };
	if (maxrss.known && !m->p.is_main)
		maxrss_bounds(job, m->p.id, maxrss.value);
}

/* ---- what all of them were at most beside what was seen ------------------------------------------------------------ */

static bool is_maxrss_of_all(const struct job *job)
{
	for (size_t i = 0; i < job->n_members; i++) {
		const struct process *p = &job->members[i]->p;

		if (!p->is_main && !process_is_in_another(p))
			return false;
	}
	return job->facts.main_maxrss_bytes.known;
}

/* What it may have been above what was seen of it, where none was larger than cap. */
static int64_t span_more(const struct unmarked_span *span, enum set s, int64_t cap)
{
	return s == REST && span->is_main ? 0 : span->together * larger(smaller(span->most, cap) - span->seen, 0);
}

/* All that were there when this one began, at that time. */
static int64_t most_at(const struct unmarked_spans *all, const struct unmarked_span *first, enum set s, int64_t cap)
{
	int64_t base = 0, sum = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct unmarked_span *span = &all->list[i];
		const int64_t more = span_more(span, s, cap);

		if (more == 0 || span->since_ns > first->since_ns || span->until_ns < first->since_ns)
			continue;
		sum += more;
		base = larger(base, span->base[s]);
	}
	return base + sum;
}

void unmarked_tell(struct job *job)
{
	const int64_t cap = is_maxrss_of_all(job) ? job->facts.main_maxrss_bytes.value + job->facts.rss_error_bytes.value : INT64_MAX;
	const struct unmarked_spans *all = &job->unmarked;
	int64_t most[SETS] = { 0 };

	for (size_t i = 0; i < all->n; i++) {
		for (enum set s = ALL; s < SETS; s++)
			most[s] = larger(most[s], most_at(all, &all->list[i], s, cap));
	}
	if (all->n == 0)
		return;
	job->facts.unmarked_bytes = known(most[ALL]);
	job->facts.unmarked_rest_bytes = known(most[REST]);
}
