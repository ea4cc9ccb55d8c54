/* SPDX-License-Identifier: MIT
 *
 * Which faults mapped files and shared memory, and so brought no anonymous memory.
 *
 * For what a family probably holds (job_family.c): no bound relies on this. What a member's files grew by since the last look, so
 * many pages its faults mapped, one each, as if it had been written: a fault that reads may map more. Only a program that
 * starts maps its code and its libraries in pieces by few faults.
 */
#include "job/job_held.h"

void mapped_look(const struct job *job, struct live *l)
{
	enum {
		START = 4 << 20, /* bytes of faults that a forked program takes to go on, at most */
		PIECE = 16,      /* pages of files that one of these maps at most: fault_around_bytes, 64 KiB */
		SOME = 64        /* part of the faults, from which on their member is mapping */
	};
	const int64_t lately = job->page_bytes * (l->own.now - l->mapped.faults);
	const int64_t growth = larger(l->file - l->mapped.file, 0);
	const int64_t risen = larger(anon_of(l) - (l->mapped.rss_seq > 0 ? l->mapped.anon : l->given_anon), 0);
	const bool starts = l->mapped.file == 0 && lately <= START && growth > 2 * lately;
	const int64_t mapped = smaller(starts ? growth / PIECE : growth, lately);
	const int64_t shown = smaller(growth - mapped, l->mapped.ahead);
	const bool maps = growth > lately / SOME && !starts;

	if (l->faults_seq <= l->rss_seq || l->mapped.rss_seq == l->rss_seq)
		return;
	l->mapped.here += mapped + shown;
	/* Faults are read behind the memory: what these brought the next looks show. */
	l->mapped.ahead = larger(lately - mapped - risen, 0) + smaller(l->mapped.ahead - shown, growth);
	l->mapped.open = maps ? l->mapped.ahead : 0;
	l->mapped.file = l->file;
	l->mapped.anon = anon_of(l);
	l->mapped.faults = l->own.now;
	l->mapped.rss_seq = l->rss_seq;
}

int64_t mapped_beside(const struct live *l, int64_t unheld)
{
	return larger(l->mapped.here + l->mapped.open - unheld, 0);
}

void mapped_settle(struct family *f, struct live *l)
{
	const int64_t beside = larger(l->mapped.here - l->own.gone, 0);

	f->gone += beside;
	l->mapped.before += beside;
	l->mapped.here = 0;
}

void mapped_drop(struct live *l)
{
	l->mapped.file = l->mapped.anon = l->mapped.ahead = l->mapped.open = l->mapped.before = 0;
}
