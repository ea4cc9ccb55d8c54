/* SPDX-License-Identifier: MIT
 *
 * What went between two looks.
 *
 * What a process held at the last total and does not hold now, because it gave it back, ran another program or ended, it may have
 * held beside all that was born or grew until this look. So what was held at most between the two is what this look finds,
 * and all that went since the last one; copies that came and went meanwhile (job_copies.c) and bursts apart.
 *
 * Of a fork family no more can have gone than it held then, and what its faults brought since, less what it holds now.
 */
#include "job/job_held.h"

static struct held lost_by(const struct live *l, struct held now)
{
	return (struct held) { larger(l->at_total.anon - now.anon, 0), larger(l->at_total.files - now.files, 0) };
}

static void lost_take(struct job *job, struct live *l, struct held now)
{
	const struct held lost = lost_by(l, now);

	for (enum set s = ALL; s < SETS && !(s == REST && l->is_main); s++) {
		job->families[l->family].lately.lost[s] += lost.anon;
		job->lately.files[s] += lost.files;
	}
}

/* Where this look has read its memory already, before it found out, the total to come tells of that, whichever program it was of. */
void lately_exec(struct job *job, struct live *l)
{
	const bool is_read = l->rss_known && l->rss_seq > job->settled_seq;

	lost_take(job, l, is_read ? held_of(l) : (struct held) { 0 });
	l->at_total = (struct held) { 0 };
}

void lately_end(struct job *job, struct member *m, struct live *l)
{
	struct lately *lately = &job->lately;

	m->untold = l->was_told ? 0 : untold_of(l);
	lost_take(job, l, (struct held) { 0 });
	/* What this look has read of the others is older than its end. */
	for (enum set s = ALL; s < SETS && job->memory_seq == job->seq && !(s == REST && l->is_main); s++)
		job->families[l->family].lately.late[s] += l->at_total.anon;
	for (enum set s = ALL; s < SETS && !(s == REST && l->is_main); s++)
		lately->untold[s] += m->untold;
	/* Without room its later proofs stand beside the last total alone. */
	if (vec_room(&lately->ids, &lately->cap, lately->n, sizeof(*lately->ids), MAX_MEMBERS) == 0)
		lately->ids[lately->n++] = m->p.id;
}

/* What its faults brought since there were so many, and so many huge pages were given out: each may have brought one of these. */
static struct maybe brought(const struct job *job, const struct family *f, int64_t faults, struct maybe given)
{
	const int64_t huge = (int64_t) job->config.huge_page_bytes, more = f->faults - faults;

	if (f->stale || !is_huge_fresh(job) || (huge > 0 && !given.known))
		return UNKNOWN;
	return known(job->page_bytes * more + (huge > 0 ? huge * smaller(job->huge.value - given.value, more) : 0));
}

/* The most that it held since the memory that the last total told of was read. What came between that and the reading of its faults
 * is among these alone: so it is that memory and what faults brought since those before it were read, or what it held at most
 * until they were read, and what they brought since. */
static struct maybe family_held(const struct job *job, const struct family *f, enum set s)
{
	const struct maybe told = f->lately.lacks ? UNKNOWN : brought(job, f, f->faults_earlier, job->huge_totals[1]);
	const struct maybe read = f->lately.read.known ? brought(job, f, f->faults_before, job->huge_totals[0]) : UNKNOWN;

	return maybe_min(told.known ? known(f->lately.told[s] + told.value) : UNKNOWN,
		read.known ? known(f->lately.read.value + read.value) : UNKNOWN);
}

/* Whatever it brought since. own: of one that is left out. */
static int64_t lost_most(const struct family *f, enum set s, int64_t own)
{
	return smaller(f->lately.lost[s] - own, f->lately.told[s]);
}

static int64_t family_lost(const struct job *job, const struct family *f, enum set s, int64_t own)
{
	const int64_t lost = lost_most(f, s, own);
	const struct maybe held = family_held(job, f, s);

	return held.known ? smaller(lost, larger(held.value - f->most[s], 0)) : lost;
}

static void went_take(struct job *job, const struct family *f, enum set s, int64_t lost)
{
	job->lately.anon[s] += lost;
	job->lately.late[s] += smaller(lost, f->lately.late[s]);
}

void lately_family_end(struct job *job, const struct family *f)
{
	for (enum set s = ALL; s < SETS; s++)
		went_take(job, f, s, lost_most(f, s, 0));
}

int64_t lately_unsure(const struct job *job)
{
	const bool fresh = is_huge_fresh(job);
	int64_t sum = 0;

	for (size_t i = 0; i < job->n_families; i++) {
		const struct family *f = &job->families[i];

		if (f->used && (f->stale || !fresh))
			sum += lost_most(f, ALL, 0);
	}
	return sum + (faults_lately(job, true).known ? 0 : smaller(job->lately.files[ALL], job->lately.files_most[ALL]));
}

void lately_look(struct job *job)
{
	job->lately.faults = faults_lately(job, true);
	for (size_t i = 0; i < job->n_live; i++)
		lost_take(job, &job->live[i], held_of(&job->live[i]));
	for (size_t i = 0; i < job->n_families; i++) {
		for (enum set s = ALL; job->families[i].used && s < SETS; s++)
			went_take(job, &job->families[i], s, family_lost(job, &job->families[i], s, 0));
	}
}

/* Files that several map went once. And there were never more of them than at the last total, and what was mapped since: by a fault each,
 * a page, a piece of a file or a huge page of it. */
static int64_t files_went(const struct job *job, enum set s, int64_t files)
{
	const int64_t piece = fault_most(job);
	const int64_t then = job->lately.files_most[s], lost = smaller(files, then);
	const struct maybe faults = job->lately.faults;

	if (!faults.known || faults.value > INT64_MAX / 2 / piece)
		return lost;
	return smaller(lost, larger(then + faults.value * piece - files_most(job, s), 0));
}

/* What the last total did not tell of is apart from what it did: what was born since, and who ended during its look. */
static int64_t went(const struct job *job, enum set s, int64_t anon, int64_t files)
{
	return smaller(anon + files_went(job, s, files), job->high[s].last) + job->look.back_new[s] + job->lately.before[s];
}

int64_t lately_went(const struct job *job, enum set s)
{
	return went(job, s, job->lately.anon[s], job->lately.files[s]);
}

int64_t lately_went_beside(const struct job *job, enum set s, const struct live *l)
{
	const struct family *f = &job->families[l->family];
	const struct held own = lost_by(l, held_of(l));

	if (own.anon == 0 && own.files == 0)
		return lately_went(job, s);
	return went(job, s, job->lately.anon[s] - family_lost(job, f, s, 0) + family_lost(job, f, s, own.anon), job->lately.files[s] - own.files);
}

void lately_settle(struct job *job, const struct bounds *b)
{
	struct lately *lately = &job->lately;

	for (size_t i = 0; i < lately->n; i++) {
		struct member *m = member_find(job, lately->ids[i]);

		for (enum set s = ALL; m && s < SETS; s++) {
			const int64_t own = m->untold > 0 ? m->untold : m->seen;

			m->others[s].most = larger(m->others[s].most, b->between[s] + lately->untold[s] - own);
		}
	}
	*lately = (struct lately) { .ids = lately->ids, .cap = lately->cap, .before = { lately->late[ALL], lately->late[REST] } };
	for (size_t i = 0; i < job->n_families; i++) {
		struct family *f = &job->families[i];

		for (enum set s = ALL; s < SETS; s++) {
			f->lately.lost[s] = f->lately.late[s] = 0;
			f->lately.told[s] = f->most[s];
		}
		f->lately.read = f->anchored;
		f->lately.lacks = false;
	}
	for (enum set s = ALL; s < SETS; s++)
		lately->files_most[s] = files_most(job, s);
	for (size_t i = 0; i < job->n_live; i++)
		job->live[i].at_total = held_of(&job->live[i]);
}
