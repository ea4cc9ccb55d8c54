/* SPDX-License-Identifier: MIT
 *
 * Fork families: how much anonymous memory processes hold that share pages since a fork.
 *
 * A page is anonymous memory of a family because a fault of one of its members, living or ended, brought it. So what a
 * family held at most at one time, plus all that its faults may have brought since then, is what it holds at most now:
 *
 *   union(t) <= sum of anon(t0) + page size x faults(t0..t) + huge page size x huge pages given out(t0..t)
 *
 * for any t0. An anchor is the right side's part that does not change; at each look a new one is tried and the smallest
 * wins (a founder's last reading before its first fork, or nothing at all for a main that was watched from its exec).
 * To err on the safe side, faults that are subtracted were read before the memory, those that are added after it. An
 * anchor from a look that may have missed a child, which took pages along at its fork, is dropped when the child shows.
 *
 * What a member's own faults brought since a child of its joined the family, or since it did so itself, no other member holds. So what
 * of it exceeds the member's size is gone again, and so is all of it when the member ends; and main's is none of what the others hold.
 * A parent that takes and gives back memory beside sleeping children, or writes anew what they share with it, is told
 * from one whose children do; and so is a pool whose workers come and go. The marks from which a member's own faults are counted are
 * set anew with each anchor, since what was held then is in the anchor.
 *
 * The huge pages are those of the whole machine, so where others take many, that bound is far too high. What a family
 * probably holds needs no such count: of what its faults brought, small pages are counted by the faults, and huge ones
 * show in its members' sizes, so the larger of the two is what was added since a look (but for a member that copies
 * shared small pages and takes huge ones at the same time: a PSS pass then puts the figure right). There, a member that
 * never forked takes with it when it ends whatever it brought, and what children did that no look found counts for nothing.
 * And there, faults that mapped files and shared memory brought none of it (job_mapped.c).
 */
#include "base/buf.h"
#include "job/job_held.h"

#define LOOK_NS UINT64_C(20000000) /* longest that a look may take after its frame's time */
#define GONE_NS UINT64_C(200000000) /* how often it is noted what was gone, for a child that shows late */

static struct family *family_of(const struct job *job, const struct member *m)
{
	struct family *f = m->family != NOT_ALIVE ? &job->families[m->family] : NULL;

	return f && f->used && f->generation == m->generation ? f : NULL;
}

uint32_t family_new(struct job *job)
{
	uint32_t i = job->free_family;
	uint32_t generation;

	while (i < job->n_families && job->families[i].used)
		i++;
	if (i == job->n_families) {
		if (vec_room(&job->families, &job->cap_families, job->n_families, sizeof(*job->families), MAX_MEMBERS) < 0)
			return NOT_ALIVE;
		job->families[job->n_families++].generation = 0;
	}
	generation = job->families[i].generation + 1;
	job->families[i] = (struct family) { .used = true, .living = 1, .generation = generation, .base_seq = job->seq };
	job->free_family = i + 1;
	return i;
}

void family_leave(struct job *job, struct member *m, int64_t faults)
{
	struct family *f = family_of(job, m);

	if (!f)
		return;
	f->ended += faults;
	if (--f->living > 0)
		return;
	lately_family_end(job, f);
	f->used = false;
	if (m->family < job->free_family)
		job->free_family = m->family;
}

/* Also when its last member has left: until another family has its place, what was told of late may still be asked for. */
void family_add(struct job *job, const struct member *m, int64_t faults)
{
	struct family *f = m->family != NOT_ALIVE ? &job->families[m->family] : NULL;

	if (f && f->generation == m->generation)
		f->ended += faults;
}

void family_forget(struct job *job, struct member *m)
{
	struct family *f = family_of(job, m);

	if (f) {
		f->n_anchors = 0;
		f->lately.lacks = true;
		f->lately.read = UNKNOWN;
	}
}

/* What the faults of a family brought and may still be held, but for huge pages. */
static int64_t brought_by(const struct job *job, int64_t faults, int64_t gone)
{
	return job->page_bytes * faults - gone;
}

/* By its last anchor, the most that it held since then and until it had so many faults, and so many huge pages were given out. */
static struct maybe anchored(const struct job *job, const struct family *f, int64_t faults, struct maybe given)
{
	const int64_t huge = (int64_t) job->config.huge_page_bytes;

	if (f->n_anchors == 0 || (huge > 0 && !given.known))
		return UNKNOWN;
	return known(f->anchors[f->n_anchors - 1].value + brought_by(job, faults, f->gone_surely) + (huge > 0 ? huge * given.value : 0));
}

/* What its parent gave back while a child was there that no look had found, the child may hold. */
static void gone_doubt(struct family *f, struct live *parent, uint64_t fork_ns)
{
	const int64_t before = parent->own.then[1].time_ns <= fork_ns   ? parent->own.then[1].gone
			       : parent->own.then[0].time_ns <= fork_ns ? parent->own.then[0].gone
									: 0;
	const int64_t surely = smaller(parent->own.surely, before);

	f->gone_surely -= parent->own.surely - surely;
	parent->own.surely = surely;
	for (int i = 0; i < 2; i++)
		parent->own.then[i].gone = smaller(parent->own.then[i].gone, surely);
}

/* The last total may lack a member: what was held until then is bounded by what is left of the anchors. */
static void told_doubt(const struct job *job, struct family *f)
{
	f->lately.lacks = true;
	f->lately.read = anchored(job, f, f->faults_before, job->huge_totals[0]);
}

void family_join(struct job *job, struct live *parent, struct member *m, uint64_t fork_ns)
{
	struct family *f = &job->families[parent->family];
	struct live *l = &job->live[m->live];

	family_leave(job, m, 0);
	m->family = l->family = parent->family;
	m->generation = f->generation;
	f->living++;
	parent->own.forked_seq = job->seq;
	/* All that its own faults bring from now on is its alone. */
	l->own.mark_seq = job->seq;
	gone_doubt(f, parent, fork_ns);
	while (f->n_anchors > 0) {
		const struct anchor *last = &f->anchors[f->n_anchors - 1];

		if (last->time_ns == 0 || last->time_ns + LOOK_NS <= fork_ns)
			break;
		f->n_anchors--;
	}
	if (fork_ns < job->memory_ns + LOOK_NS)
		told_doubt(job, f);
}

void family_found(struct job *job, struct member *m)
{
	struct family *f = family_of(job, m);
	const struct acc *huge = job_acc(job, M_HOST_THP_FAULTS, 0);

	if (!f || (job->config.huge_page_bytes > 0 && !huge))
		return;
	/* The least of a counter is its first value. */
	f->anchors[0] = (struct anchor) {
		.value = huge ? -(int64_t) job->config.huge_page_bytes * huge->min : 0,
		.time_ns = 0,
	};
	f->n_anchors = 1;
	f->since.set = true;
	if (m->live != NOT_ALIVE) {
		job->live[m->live].anon_then = job->live[m->live].given = 0;
		job->live[m->live].looked = true;
	}
}

/* ---- what a member alone brought --------------------------------------------------------------------------------- */

/* What it brought until the look from which its family is counted is in that. */
static void base_take(const struct family *f, struct live *l)
{
	if (l->own.base_seq >= f->since.seq)
		return;
	l->own.base_seq = f->since.seq;
	l->own.base = l->own.now;
	l->own.lost = l->swelled = l->grown = 0;
	l->mapped.here = l->mapped.before = 0;
}

static void gone_take(struct family *f, struct live *l, int64_t gone)
{
	const int64_t more = gone - l->own.gone;

	if (more <= 0)
		return;
	f->gone += more;
	f->gone_surely += more;
	l->own.surely += more;
	l->own.gone += more;
	l->own.lost += more;
	l->own.went += more;
}

void family_own(const struct job *job, struct live *l)
{
	struct family *f = &job->families[l->family];
	const struct member *m = l->m;

	base_take(f, l);
	l->own.now = own_faults(m);
	if (own_is_marked(f, l) || job->seq <= f->base_seq || job->seq <= l->own.forked_seq)
		return;
	l->own.mark_seq = job->seq;
	l->own.mark = l->own.now;
	l->own.unmarked += l->own.now - l->own.before;
	mapped_settle(f, l);
	l->own.gone = 0;
}

void family_drop(struct job *job, struct live *l)
{
	struct family *f = &job->families[l->family];

	base_take(f, l);
	if (own_is_marked(f, l))
		gone_take(f, l, job->page_bytes * (l->own.now - l->own.mark));
	mapped_settle(f, l);
	if (l->m->forked) {
		f->kept += l->own.now;
	} else {
		f->kept += l->own.base;
		f->gone -= l->own.lost + l->mapped.before;
		f->swelled -= l->swelled;
		f->grown -= l->grown;
	}
	l->own.lost = l->swelled = l->grown = 0;
	l->own.surely = l->own.then[0].gone = l->own.then[1].gone = 0;
	mapped_drop(l);
}

static void own_look(const struct job *job, struct family *f, struct live *l, int64_t anon)
{
	const int64_t brought = job->page_bytes * (l->own.now - l->own.mark);
	const bool fresh = l->rss_known && l->rss_seq == job->memory_seq;
	int64_t unheld = 0, apart;

	if (fresh)
		mapped_look(job, l);
	if (!own_is_marked(f, l) || l->own.mark_seq == job->seq) {
		mapped_settle(f, l);
		for (enum set set = ALL; set < SETS; set++)
			f->apart[set] += l->mapped.open;
		return;
	}
	if (fresh) {
		/* By faults that were read before its memory: what later ones brought it may come to hold. */
		gone_take(f, l, job->page_bytes * (l->own.before - l->own.mark) - anon);
		unheld = larger(brought - anon - l->own.gone, 0);
	}
	apart = unheld + mapped_beside(l, l->own.gone + unheld);
	f->unheld[ALL] += unheld;
	f->apart[ALL] += apart;
	f->unheld[REST] += l->is_main ? larger(brought - l->own.gone, 0) : unheld;
	f->apart[REST] += l->is_main ? larger(brought - l->own.gone, 0) : apart;
}

/* ---- adding up ------------------------------------------------------------------------------------------------------ */

int64_t family_copied(const struct job *job, const struct live *l)
{
	const struct member *parent = l->m->is_kin && !l->looked ? member_find(job, l->m->p.parent) : NULL;

	if (!parent)
		return 0;
	return parent->live == NOT_ALIVE ? parent->seen : larger(job->live[parent->live].rss, job->live[parent->live].seen);
}

/* What a child shows first, memory or mark, it was given by its parent; probably so where only its name says that it is a fork. */
static void given_take(const struct job *job, struct live *l)
{
	const struct member *parent = l->m->is_kin ? member_find(job, l->m->p.parent) : NULL;
	int64_t *given = is_hidden(l->m) ? &l->m->copied : &l->given;

	l->anon_then = anon_of(l);
	if (!parent || parent->live == NOT_ALIVE)
		return;
	l->anon_then = l->given_anon = anon_of(&job->live[parent->live]);
	*given = larger(*given, job->live[parent->live].rss);
}

/* By what it grew since the last look. */
static int64_t growth_of(const struct job *job, struct live *l)
{
	const int64_t anon = anon_of(l);
	int64_t growth;

	if (!l->looked)
		given_take(job, l);
	if (!l->rss_known)
		return 0;
	l->looked = true;
	growth = anon - l->anon_then;
	l->anon_then = anon;
	return growth > 0 ? growth : 0;
}

static void look_at(struct job *job, struct look *look, struct live *l)
{
	struct family *f = &job->families[l->family];
	const int64_t anon = anon_of(l), file = l->rss - anon;
	const int64_t growth = l->file > l->file_then ? l->file - l->file_then : 0;
	const int64_t step = (int64_t) job->config.huge_page_bytes, swelled = growth_of(job, l);
	const int64_t grown = step > 0 && swelled >= step ? swelled : 0;

	base_take(f, l);
	own_look(job, f, l, anon);
	copies_look(job, look, l);
	look->rss_sum += l->rss;
	look->anon_sum += anon;
	f->swelled += swelled;
	f->grown += grown;
	l->swelled += swelled;
	l->grown += grown;
	f->largest = larger(f->largest, anon);
	f->n++;
	f->faults += l->faults;
	f->own += l->own.now;
	f->stale |= l->faults_seq < job->memory_seq;
	f->uncounted |= !l->rss_known || l->rss_seq != job->memory_seq || !l->counted;
	for (enum set s = ALL; s < SETS; s++) {
		if (s == REST && l->is_main)
			break;
		f->anon[s] += anon;
		look->files_sum[s] += file;
		look->files_growth[s] += growth;
		if (l->rss > look->largest[s])
			look->largest[s] = l->rss;
	}
}

const struct look *job_look(struct job *job)
{
	struct look *look = &job->look;

	if (look->seq == job->seq && job->seq > 0)
		return look;
	*look = (struct look) { .n = job->n_live, .seq = job->seq };
	for (size_t i = 0; i < job->n_families; i++) {
		struct family *f = &job->families[i];

		f->anon[ALL] = f->anon[REST] = 0;
		f->faults = f->ended;
		f->own = f->kept;
		f->largest = f->unheld[ALL] = f->unheld[REST] = f->apart[ALL] = f->apart[REST] = 0;
		f->n = 0;
		f->stale = f->uncounted = false;
	}
	for (size_t i = 0; i < job->n_live; i++)
		look_at(job, look, &job->live[i]);
	if (job->main && job->main->live != NOT_ALIVE) {
		const struct live *main = &job->live[job->main->live];

		look->main_alive = true;
		look->main_known = main->rss_known;
		look->main_rss = main->rss;
		look->main_anon = anon_of(main);
	}
	return look;
}

/* ---- anchors -------------------------------------------------------------------------------------------------------- */

static void anchor_take(struct family *f, int64_t value, uint64_t time_ns, uint64_t seq)
{
	if (f->n_anchors > 0 && value >= f->anchors[f->n_anchors - 1].value)
		return;
	if (f->n_anchors == ANCHORS) {
		/* The oldest stays: it is what is fallen back on. */
		for (unsigned i = 1; i + 1 < ANCHORS; i++)
			f->anchors[i] = f->anchors[i + 1];
		f->n_anchors--;
	}
	f->anchors[f->n_anchors++] = (struct anchor) { value, time_ns > 0 ? time_ns : 1 };
	f->base_seq = seq;
}

/* What a set of a family probably holds; it may be more than the sum of its members. */
static int64_t family_likely(const struct job *job, const struct family *f, enum set set)
{
	const int64_t brought = brought_by(job, f->own, f->gone) - f->apart[ALL] - f->since.brought;
	const int64_t grown = f->grown - f->since.grown, swelled = f->swelled - f->since.swelled;

	/* stale: one of them ended before its faults were read. */
	return f->since.anon + larger(brought, f->stale ? swelled : grown) - (f->apart[set] - f->apart[ALL]);
}

/* Where several are there at the first look, all that they could be sharing they probably share: a pass puts it right. */
static void likely_from_here(const struct job *job, struct family *f)
{
	if (f->since.set && f->anon[ALL] >= family_likely(job, f, ALL))
		return;
	f->since.anon = f->since.set ? f->anon[ALL] : f->largest;
	f->since.set = true;
	f->since.seq = job->seq;
	f->since.brought = brought_by(job, f->own, f->gone);
	f->base_seq = job->seq;
	f->since.grown = f->grown;
	f->since.swelled = f->swelled;
}

static void gone_note(struct live *l, uint64_t time_ns)
{
	if (time_ns < l->own.then[1].time_ns + GONE_NS)
		return;
	l->own.then[0] = l->own.then[1];
	l->own.then[1].gone = l->own.surely;
	l->own.then[1].time_ns = time_ns + LOOK_NS;
}

void families_anchor(struct job *job, uint64_t time_ns)
{
	const int64_t huge = (int64_t) job->config.huge_page_bytes;

	if (job->memory_seq <= job->anchored_seq)
		return;
	job->anchored_seq = job->memory_seq;
	for (size_t i = 0; i < job->n_families; i++) {
		struct family *f = &job->families[i];

		if (!f->used || f->n == 0 || f->uncounted)
			continue;
		likely_from_here(job, f);
		if (huge == 0 || job->huge_before.known) {
			anchor_take(f, f->anon[ALL] - brought_by(job, f->faults_before, f->gone_surely) - huge * job->huge_before.value,
				time_ns, job->seq);
		}
	}
	for (size_t i = 0; i < job->n_live; i++)
		gone_note(&job->live[i], time_ns);
}

void families_settle(struct job *job)
{
	job->settled_seq = job->seq;
	for (size_t i = 0; i < job->n_families; i++) {
		struct family *f = &job->families[i];

		f->faults_earlier = f->faults_before;
		f->faults_before = f->faults;
	}
	for (size_t i = 0; i < job->n_live; i++) {
		struct live *l = &job->live[i];

		l->counted = l->counted || l->faults_seq > 0;
		l->own.before = l->own.now;
		l->own.went = 0;
		l->told = l->rss;
		l->was_told = true;
	}
}

/* ---- what they hold at most ------------------------------------------------------------------------------------------ */

void families_anon(struct job *job, enum set set, int64_t *ret_most, int64_t *ret_likely)
{
	const bool fresh = is_huge_fresh(job);

	*ret_most = *ret_likely = 0;
	for (size_t i = 0; i < job->n_families; i++) {
		struct family *f = &job->families[i];
		int64_t most = f->anon[set], likely = most;

		f->anchored = !f->stale && fresh ? anchored(job, f, f->faults, job->huge) : UNKNOWN;
		if (f->n > 1 && f->anchored.known)
			most = smaller(most, f->anchored.value - f->unheld[set]);
		if (f->n > 1)
			likely = f->since.set ? family_likely(job, f, set) : f->largest;
		likely = smaller(likely, most);
		f->most[set] = larger(most, 0);
		*ret_most += f->most[set];
		*ret_likely += likely > 0 ? likely : 0;
	}
}

bool families_are_stale(const struct job *job)
{
	const bool fresh = is_huge_fresh(job);

	for (size_t i = 0; i < job->n_families; i++) {
		const struct family *f = &job->families[i];

		if (f->n > 1 && f->n_anchors > 0 && (f->stale || !fresh))
			return true;
	}
	return false;
}
