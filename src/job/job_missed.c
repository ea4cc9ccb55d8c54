/* SPDX-License-Identifier: MIT
 *
 * Processes that lived and died between two looks, as exit records tell of them.
 *
 * Each may have been a fork that held what its parent did: that is in the others' figures. What it added is judged when the next
 * total is made, since how large its parent was by then only that look tells.
 */
#include "base/buf.h"
#include "job/job_held.h"

void missed_take(struct job *job, const struct member *m, int64_t value, int64_t faults)
{
	struct missed_ones *all = &job->missed;
	const bool has_room = vec_room(&all->list, &all->cap, all->n, sizeof(*all->list), MAX_MEMBERS) == 0;

	if (has_room)
		all->list[all->n++] = (struct missed) { m->p.parent, m->program, value, faults };
	all->bytes += value;
	all->seq = job->seq;
	for (enum set s = ALL; s < SETS; s++) {
		struct burst *burst = &job->burst[s];

		burst->low = larger(burst->low, value);
		burst->base = burst->any ? larger(burst->base, job->high[s].last) : job->high[s].last;
		burst->any = true;
		burst->missed_likely = larger(burst->missed_likely, room_left(job, s, m) + own_of(job, m, value, faults));
	}
}

bool missed_are_open(const struct job *job)
{
	return job->config.huge_page_bytes > 0 && job->huge_seq <= job->missed.seq;
}

/* Its faults brought a page each, or a piece of a file (fault_around_bytes, 64 KiB), huge pages apart; and what it was larger by
 * than its parent, since of a file that is cached in large folios one fault may map 2 MiB. Too small a parent is on the safe side: main's
 * ru_maxrss, which has its children, too, is none. A program of its own was given nothing. */
static int64_t added_by(const struct job *job, const struct missed *missed)
{
	const struct member *parent = member_find(job, missed->parent);
	const int64_t piece = larger(job->page_bytes, FAULT_AROUND), given = parent ? parent->program_peak : 0;

	if (missed->program == PROGRAM_OWN || missed->faults >= missed->bytes / piece)
		return missed->bytes;
	return smaller(missed->bytes, missed->faults * piece + larger(missed->bytes - given, 0));
}

/* Less than their sizes if it is known how many huge pages were given out since the look before the last one (records come a
 * look late), or since the start of the run. What main gave its forks is in nobody's figures but theirs where main is left out. */
int64_t missed_most(const struct job *job, enum set set)
{
	const struct missed_ones *all = &job->missed;
	const struct maybe first = job->huge_totals[1].known ? job->huge_totals[1] : huge_at_start(job);
	const int64_t huge = (int64_t) job->config.huge_page_bytes;
	int64_t added = all->bytes, given = 0;

	if (huge > 0 && (!job->huge.known || !first.known || missed_are_open(job)))
		return added;
	for (size_t i = 0; i < all->n; i++) {
		const int64_t had = all->list[i].bytes - added_by(job, &all->list[i]);

		added -= had;
		if (set == REST && job->main && all->list[i].parent == job->main->p.id)
			given = larger(given, had);
	}
	return smaller(added + given + (huge > 0 ? huge * larger(job->huge.value - first.value, 0) : 0), all->bytes);
}

void missed_settle(struct job *job)
{
	job->missed.n = 0;
	job->missed.bytes = 0;
}
