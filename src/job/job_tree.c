/* SPDX-License-Identifier: MIT
 *
 * The members of the job: births, programs, which of them are kept.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "job/job_internal.h"

#define CLOCK_TICK_NS 10000000 /* coarsest resolution of a start time (USER_HZ) */

/* ---- finding --------------------------------------------------------------------------------- */

struct member *member_find(const struct job *job, uint32_t id)
{
	uint32_t place;

	return id != 0 && map_get(&job->by_id, id, &place) ? job->members[place] : NULL;
}

struct live *live_find(struct job *job, uint32_t id)
{
	const struct member *m;

	for (size_t step = 0; step < 2 && job->hint + step < job->n_live; step++) {
		if (job->live[job->hint + step].id == id) {
			job->hint += step;
			return &job->live[job->hint];
		}
	}
	m = member_find(job, id);
	if (!m || m->live == NOT_ALIVE)
		return NULL;
	job->hint = m->live;
	return &job->live[m->live];
}

/* ---- counters -------------------------------------------------------------------------------- */

int64_t counter_value(const struct counter *c)
{
	return c->last - c->base;
}

int64_t counter_apply(struct counter *c, int64_t value, bool young)
{
	int64_t before = c->last;

	if (!c->known) {
		c->known = true;
		c->base = before = young ? 0 : value;
		c->last = value;
	} else if (value > c->last) {
		c->last = value;
	}
	return c->last - before;
}

bool plain_is_io(enum plain k)
{
	return k >= PLAIN_READ_BYTES && k <= PLAIN_WRITE_CHARS;
}

/* Its counter, without the use of its children before the run. */
static int64_t io_counted(const struct member *m, enum plain k)
{
	return counter_value(&m->plain[k]) - m->io[k].before;
}

static int64_t io_own(const struct member *m, enum plain k)
{
	return larger(m->io[k].own, io_counted(m, k) - m->io[k].dead);
}

void io_settle(struct member *m)
{
	for (enum plain k = PLAIN_READ_BYTES; k <= PLAIN_WRITE_CHARS; k++)
		m->io[k].own = io_own(m, k);
}

void io_describe(struct member *m)
{
	m->p.read_bytes = io_own(m, PLAIN_READ_BYTES);
	m->p.write_bytes = larger(io_own(m, PLAIN_WRITE_BYTES) - io_own(m, PLAIN_WRITE_CANCELLED), 0);
}

void plain_apply(struct member *m, enum plain k, int64_t value)
{
	(void) counter_apply(&m->plain[k], value, m->young);
	if (!plain_is_io(k))
		return;
	m->p.io_known = true;
	io_describe(m);
}

int64_t plain_value(const struct member *m, enum plain k)
{
	return larger(io_counted(m, k), m->io[k].own + m->io[k].dead);
}

int64_t tree_value(const struct tree_counter *t)
{
	int64_t waited = counter_value(&t->waited);
	int64_t sum = counter_value(&t->own) + (waited > t->dead ? waited : t->dead);

	return sum > t->reaped ? sum : t->reaped;
}

int64_t own_faults(const struct member *m)
{
	return counter_value(&m->tree[TREE_FAULTS].own) + counter_value(&m->plain[PLAIN_FAULTS_MAJOR]);
}

/* ---- which are kept -------------------------------------------------------------------------- */

void member_free(struct member *m)
{
	if (!m)
		return;
	free(m->p.command);
	free(m);
}

static int live_make(struct job *job, struct member *m)
{
	if (vec_reserve(&job->live, &job->cap_live, job->n_live, sizeof(*job->live), MAX_MEMBERS) < 0)
		return -ENOMEM;
	m->live = (uint32_t) job->n_live++;
	job->live[m->live] = (struct live) { .m = m, .id = m->p.id };
	return 0;
}

struct member *member_make(struct job *job, uint32_t id, bool alive)
{
	struct member *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->p.id = id;
	m->live = NOT_ALIVE;
	if (vec_reserve(&job->members, &job->cap_members, job->n_members, sizeof(*job->members),
		    MAX_MEMBERS) < 0 ||
		map_put(&job->by_id, id, (uint32_t) job->n_members) < 0) {
		member_free(m);
		return NULL;
	}
	if (alive && live_make(job, m) < 0) {
		map_remove(&job->by_id, id);
		member_free(m);
		return NULL;
	}
	job->members[job->n_members++] = m;
	return m;
}

static int smaller_first(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Values of all ended processes that the summary needs are kept as totals. */
static void dropped_count(struct job *job, const struct process *p)
{
	struct facts *f = &job->facts;

	f->dropped_sampled = known(f->dropped_sampled.value + (p->peak_bytes > 0));
	f->dropped_faults = known(f->dropped_faults.value + (process_is_in_another(p) ? p->faults_minor : 0));
}

/* Its exit record is still to come: dropped now, it would count as lost. */
static bool awaits_record(const struct job *job, const struct member *m)
{
	return m->p.how == END_SEEN && job->facts.taskstats.value == 1 &&
	       job->facts.taskstats_lost.value != 1;
}

/* Drops the ended members below peak, and ties of exactly that size. */
static void drop_below(struct job *job, int64_t peak, size_t ties)
{
	size_t n = 0;

	for (size_t i = 0; i < job->n_members; i++) {
		struct member *m = job->members[i];
		bool may = m->p.ended && !m->p.is_main && !awaits_record(job, m);

		if (may && (m->p.peak_bytes < peak || (m->p.peak_bytes == peak && ties > 0))) {
			ties -= m->p.peak_bytes == peak;
			dropped_count(job, &m->p);
			/* its exit record is not needed any more */
			memory_end(job->memory, &(struct memory_end) { .id = m->p.id });
			job->n_ended--;
			map_remove(&job->by_id, m->p.id);
			member_free(m);
			continue;
		}
		/* The key exists: nothing is allocated, so it cannot fail. */
		(void) map_put(&job->by_id, m->p.id, (uint32_t) n);
		job->members[n++] = m;
	}
	job->n_members = n;
}

/* Drops an eighth at once, so that the cost per ended process is small. */
int members_limit(struct job *job)
{
	const size_t most = job->config.max_processes;
	size_t n = 0, drop, ties = 0;
	int64_t *peaks;

	if (job->n_ended <= most)
		return 0;
	peaks = calloc(job->n_ended, sizeof(*peaks));
	if (!peaks)
		return -ENOMEM;
	for (size_t i = 0; i < job->n_members && n < job->n_ended; i++) {
		if (job->members[i]->p.ended && !job->members[i]->p.is_main)
			peaks[n++] = job->members[i]->p.peak_bytes;
	}
	drop = job->n_ended - (most - most / 8);
	if (drop > n)
		drop = n;
	qsort(peaks, n, sizeof(*peaks), smaller_first);
	for (size_t i = drop; drop > 0 && i-- > 0 && peaks[i] == peaks[drop - 1];)
		ties++;
	if (drop > 0)
		drop_below(job, peaks[drop - 1], ties);
	free(peaks);
	return 0;
}

/* ---- birth ----------------------------------------------------------------------------------- */

static bool is_young(const struct job *job, uint64_t start_ns)
{
	const struct maybe run = job->facts.started_boot_ns;

	/* 0: known only from its exit record, which starts with the run */
	return job->config.ours || !run.known || start_ns == 0 ||
	       (int64_t) start_ns + CLOCK_TICK_NS > run.value;
}

/* The time of its fork, since the run's start; now if unknown. */
static uint64_t forked_at(const struct job *job, const struct process *p, uint64_t now)
{
	const struct maybe run = job->facts.started_boot_ns;
	int64_t at = (int64_t) p->start_ns - run.value;

	if (!run.known || p->start_ns == 0 || at > (int64_t) now)
		return now;
	return at > 0 ? (uint64_t) at : 0;
}

static int describe(struct member *m, const struct process_birth *b)
{
	char *command = strdup(b->command ? b->command : "");

	if (!command)
		return -ENOMEM;
	free(m->p.command);
	m->p.command = command;
	memset(m->p.name, 0, sizeof(m->p.name));
	memcpy(m->p.name, b->name ? b->name : "", b->name ? strnlen(b->name, sizeof(m->p.name) - 1) : 0);
	m->p.uid = b->uid;
	return 0;
}

/* A new program: new memory, a new mark, no shared pages. */
static int exec_apply(struct job *job, struct member *m)
{
	m->young = m->ran_another = true;
	m->mark = UNKNOWN;
	m->program_peak = 0;
	for (enum rlimit_kind k = 0; k < RLIMITS; k++)
		m->under_rlimit[k] = UNKNOWN;
	m->p.split_known = false;
	if (m->p.is_main && job->facts.main_hwm_at_start_bytes.known)
		job->facts.main_hwm_at_start_bytes = known(0);
	return memory_exec(job->memory, m->p.id, m->p.startstack);
}

/* The number of ranks that a launcher below hiwater started, if its workers agree; that of the job, if hiwater itself is no rank. */
static void ranks_apply(struct job *job, struct member *m, const struct process_birth *b)
{
	struct facts *f = &job->facts;
	const bool is_ours = !f->ranks.known ||
			     (f->worker_ranks.known && f->ranks.value == f->worker_ranks.value);

	m->p.rank = b->rank.known ? b->rank : m->p.rank;
	if (!b->ranks.known || job->ranks_differ)
		return;
	job->ranks_differ = f->worker_ranks.known && f->worker_ranks.value != b->ranks.value;
	f->worker_ranks = job->ranks_differ ? UNKNOWN : b->ranks;
	if (!f->rank.known && is_ours)
		f->ranks = f->worker_ranks;
}

static int rebirth_apply(struct job *job, struct member *m, const struct process_birth *b)
{
	bool other = b->startstack != 0 && b->startstack != m->p.startstack;

	ranks_apply(job, m, b);
	if (other) {
		m->p.startstack = b->startstack;
		if (m->live != NOT_ALIVE)
			/* out of memory: its old program counts on, which overestimates */
			(void) exec_apply(job, m);
	}
	return describe(m, b);
}

/* True if it had only its own program's memory since its fork, judging by its parent's program.
 * With a hidden start address, only the name shows a new program. */
static bool is_program_new(const struct job *job, const struct member *m)
{
	const struct member *parent = member_find(job, m->p.parent);

	if (m->p.is_main)
		return job->config.ours;
	return m->young && m->p.startstack != 0 && m->p.startstack < STARTSTACK_HIDDEN && parent &&
	       parent->p.startstack != 0 && !parent->ran_another && parent->p.startstack != m->p.startstack;
}

static int memory_born(struct job *job, const struct member *m)
{
	const struct memory_birth birth = {
		.id = m->p.id,
		.parent = m->p.parent,
		.program = m->p.startstack,
		.forked_ns = forked_at(job, &m->p, m->p.born_ns),
		.is_main = m->p.is_main,
		.is_new = is_program_new(job, m),
	};

	return memory_birth(job->memory, &birth);
}

static void set_main(struct job *job, struct member *m)
{
	job->main = m;
	job->live[m->live].is_main = true;
	if (job->config.ours && !job->facts.main_hwm_at_start_bytes.known)
		job->facts.main_hwm_at_start_bytes = known(0);
}

int birth_apply(struct job *job, const struct birth *birth, uint64_t time_ns)
{
	const struct process_birth *b = &birth->process;
	struct member *m = member_find(job, birth->id);
	int r;

	if (m)
		return rebirth_apply(job, m, b);
	m = member_make(job, birth->id, true);
	if (!m)
		return -ENOMEM;
	m->p.parent = b->parent;
	m->p.pid = b->pid;
	m->p.ppid = b->ppid;
	m->p.start_ns = b->start_ns;
	m->p.startstack = b->startstack;
	m->p.born_ns = time_ns;
	m->p.is_main = b->is_main;
	m->young = is_young(job, b->start_ns);
	ranks_apply(job, m, b);
	r = describe(m, b);
	if (b->is_main)
		set_main(job, m);
	if (memory_born(job, m) < 0)
		r = -ENOMEM;
	if (++job->seen > job->facts.processes_seen.value)
		job->facts.processes_seen = known(job->seen);
	return r;
}
