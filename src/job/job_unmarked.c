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

/* What its own faults brought since the last total that had them anew. */
static int64_t brought(const struct job *job, const struct unmarked *u, int64_t faults)
{
	const int64_t huge = (int64_t) job->config.huge_page_bytes, more = larger(faults - u->faults, 0);
	const int64_t given = job->huge.known ? job->huge.value - u->huge : more;

	return job->page_bytes * more + (huge > 0 ? huge * smaller(given, more) : 0);
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
	all->n = n;
}

/* How large its mark would have told that it was is settled at the end of the run, when it is known how large any can have been. */
static void span_take(struct job *job, const struct member *m, const struct unmarked *u, int64_t seen)
{
	const struct unmarked_span span = {
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
	if (all->n == MAX_SPANS)
		spans_halve(all);
	/* Without memory for it, it is not told. */
	if (vec_room(&all->list, &all->cap, all->n, sizeof(*all->list), MAX_SPANS) == 0)
		all->list[all->n++] = span;
}

static void begin(const struct job *job, struct live *l, int64_t ahead)
{
	l->unmarked.faults = l->own.now;
	l->unmarked.huge = job->huge.value;
	l->unmarked.anon = anon_of(l);
	l->unmarked.ahead = ahead;
	l->unmarked.top = l->rss;
}

void unmarked_exec(const struct job *job, struct live *l)
{
	l->unmarked.exec_seq = job->seq;
}

static void exec_look(struct job *job, struct live *l)
{
	most_take(job, &l->unmarked, l->own.now, brought_after(job, l));
	span_take(job, l->m, &l->unmarked, l->seen);
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
		if (fresh && l->faults_seq > l->rss_seq) {
			if (l->unmarked.exec_seq > 0)
				exec_look(job, l);
			else
				one_look(job, l);
		}
		l->unmarked.top = larger(l->unmarked.top, l->rss);
		if (l->marked)
			marked_look(l);
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
		span_take(job, m, u, m->seen);
	*u = (struct unmarked) { 0 };
	if (maxrss.known && !m->p.is_main)
		maxrss_bounds(job, m->p.id, maxrss.value);
}

/* ---- what all of them were at most beside what was seen ------------------------------------------------------------ */

struct edge {
	uint64_t time_ns;
	int64_t rise;
};

/* Who begins when another ends may have been there with it. */
static int earlier_first(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->rise > y->rise ? -1 : x->rise < y->rise;
}

static int64_t most_together(struct edge *edges, size_t n)
{
	int64_t sum = 0, most = 0;

	qsort(edges, n, sizeof(*edges), earlier_first);
	for (size_t i = 0; i < n; i++) {
		sum += edges[i].rise;
		most = larger(most, sum);
	}
	return most;
}

static bool is_maxrss_of_all(const struct job *job)
{
	for (size_t i = 0; i < job->n_members; i++) {
		const struct process *p = &job->members[i]->p;

		if (!p->is_main && !process_is_in_another(p))
			return false;
	}
	return job->facts.main_maxrss_bytes.known;
}

static size_t edges_of(const struct job *job, enum set s, struct edge *ret)
{
	const int64_t cap = is_maxrss_of_all(job) ? job->facts.main_maxrss_bytes.value + job->facts.rss_error_bytes.value : INT64_MAX;
	size_t n = 0;

	for (size_t i = 0; i < job->unmarked.n; i++) {
		const struct unmarked_span *span = &job->unmarked.list[i];
		const int64_t more = span->together * (smaller(span->most, cap) - span->seen);

		if (more <= 0 || (s == REST && span->is_main))
			continue;
		ret[n++] = (struct edge) { span->since_ns, more };
		ret[n++] = (struct edge) { span->until_ns, -more };
	}
	return n;
}

void unmarked_tell(struct job *job)
{
	struct edge *edges;

	if (job->unmarked.n == 0)
		return;
	edges = calloc(2 * job->unmarked.n, sizeof(*edges));
	job->facts.unmarked_bytes = edges ? known(most_together(edges, edges_of(job, ALL, edges))) : UNKNOWN;
	job->facts.unmarked_rest_bytes = edges ? known(most_together(edges, edges_of(job, REST, edges))) : UNKNOWN;
	free(edges);
}
