/* SPDX-License-Identifier: MIT
 *
 * The estimator of combined memory, against a model of a machine that has pages: whatever processes do and however they are
 * sampled, low <= truth <= high, where the truth is the largest number of distinct pages that members mapped at one instant.
 *
 * A run is a list of operations with operands that mean something in any state, so that a list that fails can be shortened.
 * HIWATER_MEMORY_PROFILE=NAME runs one profile, HIWATER_MEMORY_SEED=N its run N alone, HIWATER_MEMORY_RUNS=N so many; a run that
 * fails is shortened and printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/memory/memory.h"

#define MIB INT64_C(1048576)
#define MS  UINT64_C(1000000)

enum {
	PROCS = 40,              /* that live, or whose record is awaited */
	FILES = 4,
	FILE_PAGES = 256,        /* of each; those of all files come first */
	ANON = 2048,             /* of one process */
	MAPS = 6,
	PAGES = FILES * FILE_PAGES + PROCS * ANON,
	AROUND = 16,             /* pages of a file that one fault maps */
	HUGE = 32,               /* pages of a huge page */
	OPS = 220,
	FINDS_ALL = 4,           /* operand of a sample */
};

/* ---- the machine ------------------------------------------------------------------------------------------------------ */

struct mapping {
	uint32_t file, from, n;
	uint8_t is_there[FILE_PAGES];
};

struct process {
	uint32_t id, parent;     /* id 0: free */
	uint64_t program;
	bool is_main, is_alive;
	bool has_execed;         /* since its fork */
	int64_t rss, file, hwm, faults; /* in pages; hwm: of the present program */
	int64_t hwm_before;      /* it had that before the run */
	uint32_t n_anon, n_maps;
	uint64_t born_ns, ended_ns;
	/* The sampler: */
	unsigned find_at, record_at; /* samples; a record may come late */
	bool is_found, was_read, end_is_told;
	uint64_t program_told;
	int64_t faults_told, anon_told;
	uint32_t anon[ANON];
	struct mapping maps[MAPS];
};

enum op_kind { FORK, WRITE, FILL, BIG, MAP, TOUCH, COPY, UNMAP, FREE, EXEC, EXIT, HAND_OVER, WAIT, SAMPLE, OP_KINDS };

struct op {
	uint8_t kind;
	uint32_t a, b, c;
};

struct profile {
	const char *name;
	uint8_t weight[OP_KINDS];
	uint32_t pages;          /* that one operation brings, at most */
	uint32_t living;         /* at most */
	bool main_forks;         /* and nobody else */
	bool one_file;
	bool twice;              /* a mapping is of what the process has mapped already */
	bool is_torn;            /* operations happen between the reads of two processes */
	bool late_faults;        /* faults are read after all sizes */
	bool no_records;         /* as for an ordinary user */
	bool attaches;           /* to a process that was larger before the run, and maps files */
	bool leaves_files;       /* exec while files are mapped: no mark tells of these */
};

struct run {
	uint64_t seed;
	const struct profile *profile;
	const struct op *ops;
	size_t n, at;
	bool is_printed;
	/* Of the seed: */
	int64_t page;
	bool has_records, has_huge, is_attached, obeys, finds_late;
	/* The machine: */
	uint64_t now_ns;
	struct process *procs;
	uint32_t last_id;
	uint64_t last_program;
	uint32_t *free, n_free;
	uint16_t (*refs)[PAGES];  /* of each set: how often it is mapped */
	int64_t distinct[MEMORY_SETS], distinct_files, truth[MEMORY_SETS];
	int64_t huge, outside, faults_of_dead;
	/* The sampler: */
	struct memory *memory;
	unsigned samples, torn;
	bool is_asked;           /* a sample is */
	bool is_unsampled;       /* one was found by no sample */
	char wrong[256];
};

static uint64_t next(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

#define SAY(r, ...) ((r)->is_printed ? (void) fprintf(stderr, __VA_ARGS__) : (void) 0)

static void ref(struct run *r, const struct process *p, uint32_t page)
{
	for (int s = 0; s < MEMORY_SETS - p->is_main; s++)
		r->distinct[s] += r->refs[s][page]++ == 0;
	r->distinct_files += page < FILES * FILE_PAGES && r->refs[0][page] == 1;
}

static void unref(struct run *r, const struct process *p, uint32_t page)
{
	for (int s = 0; s < MEMORY_SETS - p->is_main; s++)
		r->distinct[s] -= --r->refs[s][page] == 0;
	r->distinct_files -= page < FILES * FILE_PAGES && r->refs[0][page] == 0;
	if (page >= FILES * FILE_PAGES && r->refs[0][page] == 0)
		r->free[r->n_free++] = page;
}

static void grown(struct process *p, int64_t rss)
{
	p->rss += rss;
	p->hwm = p->rss > p->hwm ? p->rss : p->hwm;
}

static void anon_add(struct run *r, struct process *p, uint32_t page)
{
	p->anon[p->n_anon++] = page;
	ref(r, p, page);
	grown(p, 1);
}

static void fill(struct run *r, struct process *p, uint32_t n)
{
	for (; n > 0 && p->n_anon < ANON; n--, p->faults++)
		anon_add(r, p, r->free[--r->n_free]);
}

static void fill_huge(struct run *r, struct process *p)
{
	if (p->n_anon + HUGE > ANON)
		return;
	for (uint32_t k = 0; k < HUGE; k++)
		anon_add(r, p, r->free[--r->n_free]);
	p->faults++;
	r->huge++;
}

static void give_back(struct run *r, struct process *p, uint32_t from, uint32_t n)
{
	for (; n > 0 && from < p->n_anon; n--, p->rss--) {
		unref(r, p, p->anon[from]);
		p->anon[from] = p->anon[--p->n_anon];
	}
}

static uint32_t rewrite(struct run *r, struct process *p, uint32_t from, uint32_t n)
{
	uint32_t copied = 0;

	for (uint32_t k = from; k < p->n_anon && k < from + n; k++) {
		if (r->refs[0][p->anon[k]] == 1)
			continue;
		ref(r, p, r->free[r->n_free - 1]);
		unref(r, p, p->anon[k]);
		p->anon[k] = r->free[--r->n_free];
		p->faults++;
		copied++;
	}
	return copied;
}

static struct mapping *map(struct process *p, uint32_t file, uint32_t from, uint32_t n)
{
	if (p->n_maps == MAPS)
		return NULL;
	p->maps[p->n_maps] = (struct mapping) { .file = file, .from = from, .n = n };
	return &p->maps[p->n_maps++];
}

static void touch(struct run *r, struct process *p, struct mapping *m, uint32_t from, uint32_t n, uint32_t around)
{
	for (uint32_t k = from; k < m->n && k < from + n; k++) {
		if (m->is_there[k])
			continue;
		for (uint32_t i = k; i < m->n && i < k + around; i++) {
			if (m->is_there[i])
				continue;
			m->is_there[i] = 1;
			ref(r, p, m->file * FILE_PAGES + m->from + i);
			p->file++;
			grown(p, 1);
		}
		p->faults++;
	}
}

static void map_drop(struct run *r, struct process *p, struct mapping *m, uint32_t i)
{
	if (!m->is_there[i])
		return;
	m->is_there[i] = 0;
	unref(r, p, m->file * FILE_PAGES + m->from + i);
	p->file--;
	p->rss--;
}

/* A private mapping: what is written to becomes anonymous. */
static void copy_file(struct run *r, struct process *p, struct mapping *m, uint32_t from, uint32_t n)
{
	for (uint32_t k = from; k < m->n && k < from + n && p->n_anon < ANON; k++) {
		if (!m->is_there[k])
			continue;
		map_drop(r, p, m, k);
		fill(r, p, 1);
	}
}

static void unmap(struct run *r, struct process *p, struct mapping *m)
{
	for (uint32_t k = 0; k < m->n; k++)
		map_drop(r, p, m, k);
	*m = p->maps[--p->n_maps];
}

static void drop_all(struct run *r, struct process *p)
{
	give_back(r, p, 0, p->n_anon);
	while (p->n_maps > 0)
		unmap(r, p, &p->maps[0]);
}

static void exec(struct run *r, struct process *p, uint32_t n)
{
	drop_all(r, p);
	p->program = ++r->last_program;
	p->has_execed = true;
	p->hwm = 0;
	touch(r, p, map(p, 0, 0, FILE_PAGES), 0, n, AROUND);
	fill(r, p, n / 4 + 1);
}

static void leave(struct run *r, struct process *p)
{
	r->faults_of_dead += p->faults;
	p->is_alive = false;
	p->ended_ns = r->now_ns;
	drop_all(r, p);
}

static struct process *process_new(struct run *r)
{
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (p->id == 0) {
			p->id = ++r->last_id;
			p->is_alive = true;
			return p;
		}
	}
	return NULL;
}

static struct process *process_fork(struct run *r, const struct process *parent)
{
	struct process *p = process_new(r);
	const uint32_t id = p ? p->id : 0;

	if (!p)
		return NULL;
	*p = *parent;
	p->id = id;
	p->parent = parent->id;
	p->is_main = p->has_execed = p->is_found = p->was_read = p->end_is_told = false;
	p->rss = p->hwm = p->n_anon;
	p->file = p->faults = p->hwm_before = p->faults_told = p->anon_told = 0;
	p->born_ns = r->now_ns;
	for (uint32_t k = 0; k < p->n_anon; k++)
		ref(r, p, p->anon[k]);
	for (uint32_t k = 0; k < p->n_maps; k++)
		memset(p->maps[k].is_there, 0, FILE_PAGES);
	return p;
}

/* ---- operations ------------------------------------------------------------------------------------------------------- */

static uint32_t living(const struct run *r)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < PROCS; k++)
		n += r->procs[k].id != 0 && r->procs[k].is_alive;
	return n;
}

static struct process *pick(struct run *r, uint32_t a)
{
	uint32_t n = living(r);

	if (n == 0)
		return NULL;
	n = a % n;
	for (struct process *p = r->procs;; p++) {
		if (p->id != 0 && p->is_alive && n-- == 0)
			return p;
	}
}

static void truth_take(struct run *r)
{
	for (int s = 0; s < MEMORY_SETS; s++)
		r->truth[s] = r->distinct[s] > r->truth[s] ? r->distinct[s] : r->truth[s];
}

static void op_fork(struct run *r, struct process *parent, const struct op *op)
{
	struct process *p = living(r) < r->profile->living ? process_fork(r, parent) : NULL;

	if (!p)
		return;
	p->find_at = r->samples + 1 + (r->finds_late && op->b % 4 == 0) + (r->finds_late && op->b % 16 == 0);
	p->record_at = op->b / 16 % 3;
	SAY(r, "%u forks %u, to be found at sample %u, record %u samples late", parent->id, p->id, p->find_at, p->record_at);
}

static void op_map(struct run *r, struct process *p, const struct op *op)
{
	const uint32_t file = r->profile->one_file ? 1 : op->b % FILES, n = r->profile->one_file ? FILE_PAGES : 1 + op->c % FILE_PAGES;
	const struct mapping *had = NULL;
	struct mapping *m;

	for (uint32_t k = 0; k < p->n_maps; k++)
		had = p->maps[k].file == file ? &p->maps[k] : had;
	if (had && !r->profile->twice)
		return;
	m = had ? map(p, file, had->from, had->n) : map(p, file, (FILE_PAGES - n) / 2, n);
	r->is_asked |= had && m; /* no mark tells which pages are the same: its maps are read before it touches them */
	if (m)
		SAY(r, "%u maps file %u, pages %u to %u%s", p->id, file, m->from, m->from + m->n, had ? ", again" : "");
}

static void op_on_map(struct run *r, struct process *p, const struct op *op, uint32_t n)
{
	struct mapping *m = p->n_maps > 0 ? &p->maps[op->b % p->n_maps] : NULL;
	const uint32_t from = m ? op->c % m->n : 0;

	if (!m || (r->profile->twice && op->kind == UNMAP))
		return;
	SAY(r, "%u %s file %u, page %u, %u pages", p->id, op->kind == TOUCH ? "touches" : op->kind == COPY ? "writes to its private" : "unmaps", m->file,
		m->from + from, n);
	if (op->kind == TOUCH)
		touch(r, p, m, r->profile->one_file ? 0 : from, n, 1 + op->c / FILE_PAGES % AROUND);
	else if (op->kind == COPY)
		copy_file(r, p, m, from, n);
	else
		unmap(r, p, m);
}

static void hand_over(struct run *r, struct process *p, struct process *q, uint32_t n, bool first)
{
	SAY(r, "%u gives back %u as %u grows", p->id, n, q->id);
	n = n < p->n_anon ? n : p->n_anon;
	if (first)
		fill(r, q, n);
	truth_take(r);
	give_back(r, p, 0, n);
	if (!first)
		fill(r, q, n);
}

static void operate(struct run *r, const struct op *op)
{
	const bool by_main = r->profile->main_forks && (op->kind == FORK || op->kind == MAP);
	struct process *p = pick(r, by_main ? 0 : op->a);
	const uint32_t n = 1 + op->c / 1024 % r->profile->pages, from = p && p->n_anon > 0 ? op->b % p->n_anon : 0;

	r->now_ns += 20000 + op->a / 64 % 2000000;
	if (op->kind == WAIT)
		r->now_ns += op->c % 128 * MS;
	if (!p || op->kind == WAIT)
		return;
	SAY(r, "%8.2f ms  ", (double) r->now_ns / (double) MS);
	switch ((enum op_kind) op->kind) {
	case FORK: op_fork(r, p, op); break;
	case WRITE:
		SAY(r, "%u writes to %u of its pages: ", p->id, n);
		SAY(r, "%u copied", rewrite(r, p, from, n));
		if (!r->is_printed)
			(void) rewrite(r, p, from, n);
		break;
	case FILL: SAY(r, "%u fills %u", p->id, n); fill(r, p, n); break;
	case BIG:
		if (r->has_huge) {
			SAY(r, "%u fills a huge page", p->id);
			fill_huge(r, p);
		}
		break;
	case MAP: op_map(r, p, op); break;
	case TOUCH:
	case COPY:
	case UNMAP: op_on_map(r, p, op, n); break;
	case FREE: SAY(r, "%u gives back %u", p->id, n); give_back(r, p, from, n); break;
	case EXEC:
		if (!p->is_main && (p->file == 0 || r->profile->leaves_files)) {
			SAY(r, "%u runs another program", p->id);
			exec(r, p, n);
		}
		break;
	case EXIT:
		if (!p->is_main) {
			SAY(r, "%u ends", p->id);
			leave(r, p);
		}
		break;
	case HAND_OVER: hand_over(r, p, pick(r, op->b), n, op->c % 2); break;
	case WAIT:
	case SAMPLE:
	case OP_KINDS: break;
	}
	truth_take(r);
	SAY(r, "  (%lld, %lld)\n", (long long) r->distinct[0], (long long) r->distinct[1]);
}

/* ---- the sampler ------------------------------------------------------------------------------------------------------ */

/* Within a sample, between the reads of two processes. */
static void meanwhile(struct run *r)
{
	r->now_ns += 20000;
	memory_time(r->memory, r->now_ns);
	if (r->torn == 0 || r->at >= r->n || r->ops[r->at].kind == SAMPLE || r->ops[r->at].kind == WAIT)
		return;
	r->torn--;
	operate(r, &r->ops[r->at++]);
}

static struct process *by_id(struct run *r, uint32_t id)
{
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (id != 0 && p->id == id)
			return p;
	}
	return NULL;
}

static void find(struct run *r, struct process *p)
{
	struct process *parent = by_id(r, p->parent);

	if (parent && !parent->is_found)
		find(r, parent);
	p->is_found = true;
	p->program_told = p->program;
	SAY(r, "  finds %u", p->id);
	assert_int_equal(memory_birth(r->memory, &(struct memory_birth) {
				 .id = p->id,
				 .parent = p->parent,
				 .program = p->is_alive ? p->program : 0,
				 .forked_ns = p->born_ns / (10 * MS) * (10 * MS),
				 .is_main = p->is_main,
				 .is_new = p->is_alive && (p->is_main ? !r->is_attached : p->has_execed),
			 }),
		0);
}

static void record(struct run *r, struct process *p)
{
	const bool is_known = r->has_records || p->is_main;

	SAY(r, "  record of %u: hwm %lld", p->id, (long long) (is_known ? p->hwm : -1));
	memory_end(r->memory, &(struct memory_end) {
		.id = p->id,
		.hwm = is_known ? known(p->hwm * r->page) : UNKNOWN,
		.from_ns = p->born_ns - (p->born_ns < 5 * MS ? p->born_ns : 5 * MS),
		.until_ns = r->now_ns,
		.faults = known(p->faults),
		.is_own = p->hwm > p->hwm_before,
		.is_renamed = p->program != p->program_told,
		.is_copy = !p->has_execed,
	});
	r->is_unsampled |= !p->was_read;
	p->id = 0;
}

static void ends_tell(struct run *r)
{
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (p->id == 0 || p->is_alive)
			continue;
		if (p->record_at > 0 && r->has_records) {
			p->record_at--;
			if (p->is_found && !p->end_is_told)
				memory_end(r->memory, &(struct memory_end) { .id = p->id, .until_ns = r->now_ns, .is_awaited = true });
			p->end_is_told = p->is_found;
		} else if (p->is_found || r->has_records) {
			if (!p->is_found)
				find(r, p);
			record(r, p);
		} else {
			r->is_unsampled = true;
			p->id = 0;
		}
	}
}

static bool is_member(const struct process *p)
{
	return p->id != 0 && p->is_alive && p->is_found;
}

static void exec_notice(struct run *r, struct process *p)
{
	if (p->program == p->program_told)
		return;
	p->program_told = p->program;
	SAY(r, "  %u ran another program", p->id);
	assert_int_equal(memory_exec(r->memory, p->id, p->program), 0);
}

static void faults_read(struct run *r, struct process *p)
{
	p->faults_told = p->faults;
	memory_faults(r->memory, p->id, p->faults);
}

/* Ranges that it has mapped before, as its list of maps has them. */
static int64_t mapped_twice(const struct process *p)
{
	int64_t n = 0;

	for (uint32_t k = 0; k < p->n_maps; k++) {
		bool again = false;

		for (uint32_t i = 0; i < k; i++)
			again |= p->maps[i].file == p->maps[k].file;
		n += again ? p->maps[k].n : 0;
	}
	return n;
}

static void sizes_read(struct run *r, bool has_faults)
{
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (!is_member(p))
			continue;
		exec_notice(r, p);
		SAY(r, "  %u: %lld of them files", p->id, (long long) p->rss);
		SAY(r, " %lld", (long long) p->file);
		memory_size(r->memory, p->id, p->rss * r->page, p->file * r->page);
		p->was_read = true;
		p->anon_told = p->rss - p->file;
		if (has_faults)
			faults_read(r, p);
		if (r->profile->twice)
			memory_mapped_twice(r->memory, p->id, mapped_twice(p) * r->page);
		meanwhile(r);
	}
}

static void pass(struct run *r, bool is_valid)
{
	int64_t grown[MEMORY_SETS] = { 0 };

	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		double anon = 0, pss = 0;
		int64_t private = 0;

		if (p->id != 0 && p->is_alive && (!p->is_found || p->program != p->program_told))
			is_valid = false;
		if (!is_member(p))
			continue;
		for (uint32_t k = 0; k < p->n_anon; k++) {
			anon += 1.0 / r->refs[0][p->anon[k]];
			private += r->refs[0][p->anon[k]] == 1;
		}
		pss = anon;
		for (uint32_t k = 0; k < p->n_maps; k++) {
			for (uint32_t i = 0; i < p->maps[k].n; i++) {
				const uint16_t n = r->refs[0][p->maps[k].file * FILE_PAGES + p->maps[k].from + i];

				pss += p->maps[k].is_there[i] ? 1.0 / n : 0;
				private += p->maps[k].is_there[i] && n == 1;
			}
		}
		for (int s = 0; s < MEMORY_SETS - p->is_main; s++)
			grown[s] += (p->rss - p->file - p->anon_told) * r->page;
		memory_pss(r->memory, &(struct memory_pss) { p->id, (int64_t) (pss * (double) r->page), (int64_t) (anon * (double) r->page), private * r->page });
	}
	SAY(r, "  %s pass", is_valid ? "valid" : "invalid");
	memory_pass(r->memory, is_valid, 0, grown);
}

static void total(struct run *r, bool has_faults)
{
	int64_t faults = r->faults_of_dead;
	struct memory_total t;

	for (struct process *p = r->procs; p < r->procs + PROCS; p++)
		faults += is_member(p) ? p->faults_told : 0;
	memory_total(r->memory, r->now_ns, has_faults ? known(faults) : UNKNOWN, &t);
	SAY(r, "\n%8.2f ms    total: %lld, %lld, %lld; others %lld, %lld, %lld\n", (double) r->now_ns / (double) MS, (long long) (t.low[0] / r->page),
		(long long) (t.estimate[0] / r->page), (long long) (t.high[0] / r->page), (long long) (t.low[1] / r->page),
		(long long) (t.estimate[1] / r->page), (long long) (t.high[1] / r->page));
}

static int64_t machine(const struct run *r)
{
	return (r->distinct[0] + r->outside) * r->page;
}

static void sample(struct run *r, const struct op *op)
{
	bool has_faults = op->a % 8 < 5, late = r->profile->late_faults, is_read = op->a / 8 % 8 < 3;
	const int64_t before = machine(r);
	unsigned needs;

	r->samples++;
	r->torn = r->profile->is_torn ? op->c % 4 : 0;
	r->now_ns += 50000;
	memory_time(r->memory, r->now_ns);
	SAY(r, "%8.2f ms  sample %u%s:", (double) r->now_ns / (double) MS, r->samples, has_faults ? " with faults" : "");
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (p->id != 0 && p->is_alive && !p->is_found && (p->find_at <= r->samples || op->c == FINDS_ALL))
			find(r, p);
	}
	ends_tell(r);
	if (r->has_huge && (has_faults || op->b % 8 == 0))
		memory_huge(r->memory, r->huge);
	sizes_read(r, has_faults && !late);
	needs = memory_needs(r->memory);
	if (op->a / 64 % 8 == 0 || (r->obeys && (needs & MEMORY_NEEDS_FILES)) || (r->profile->one_file && !r->profile->twice)) {
		memory_files(r->memory, r->distinct_files * r->page);
		SAY(r, "  files %lld", (long long) r->distinct_files);
	}
	if (op->a / 512 % 8 == 0 || (r->obeys && (needs & MEMORY_NEEDS_PASS)))
		pass(r, op->b / 8 % 4 > 0);
	if (is_read)
		memory_machine(r->memory, before > machine(r) ? before : machine(r));
	if (op->a / 4096 % 8 == 0)
		memory_cgroup(r->memory, (r->distinct[0] - r->distinct_files) * r->page);
	if (r->obeys && (needs & MEMORY_NEEDS_FAULTS) && !has_faults && late)
		has_faults = true;
	for (struct process *p = r->procs; p < r->procs + PROCS && has_faults && late; p++) {
		if (!is_member(p))
			continue;
		exec_notice(r, p);
		faults_read(r, p);
		meanwhile(r);
	}
	for (struct process *p = r->procs; p < r->procs + PROCS && op->b / 64 % 8 == 0; p++) {
		if (!is_member(p) || !p->was_read || p->program != p->program_told)
			continue;
		SAY(r, "  %u: mark %lld", p->id, (long long) p->hwm);
		memory_hwm(r->memory, p->id, p->hwm * r->page, p->hwm > p->hwm_before);
	}
	r->torn = 0;
	total(r, has_faults);
}

/* The end: all that lives ends, and all records come; or what lives is followed no further. */
static void finish(struct run *r)
{
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		if (p->id == 0)
			continue;
		r->now_ns += 20000;
		if (p->is_alive && r->seed % 8 != 0)
			leave(r, p);
		p->record_at = 0;
	}
	memory_time(r->memory, r->now_ns);
	ends_tell(r);
	for (struct process *p = r->procs; p < r->procs + PROCS; p++) {
		r->is_unsampled |= p->id != 0 && !p->was_read;
		if (is_member(p))
			memory_end(r->memory, &(struct memory_end) { .id = p->id, .until_ns = r->now_ns });
		if (p->id != 0 && p->is_alive)
			r->faults_of_dead += p->faults;
		p->is_found = false;
	}
	if (r->has_huge)
		memory_huge(r->memory, r->huge);
	total(r, true);
	memory_finish(r->memory);
}

/* ---- the property ------------------------------------------------------------------------------------------------------- */

enum wrong { RIGHT, LOW, HIGH, ORDER, MACHINE };

static enum wrong peak_check(struct run *r, enum memory_set s)
{
	static const char *const sets[] = { "all", "descendants" };
	struct memory_peak peak;
	enum wrong wrong = RIGHT;

	memory_peak(r->memory, s, &peak);
	if (peak.low > r->truth[s] * r->page)
		wrong = LOW;
	else if (peak.high.known && peak.high.value < (r->truth[s] - 1) * r->page && (r->has_records || !r->is_unsampled))
		wrong = HIGH;
	else if (peak.estimate < peak.low || (peak.high.known && peak.estimate > peak.high.value))
		wrong = ORDER;
	else if (peak.high.known && peak.high.value > PAGES * r->page)
		wrong = MACHINE;
	if (wrong != RIGHT && r->wrong[0] == '\0')
		(void) snprintf(r->wrong, sizeof(r->wrong), "%s: truth %lld pages; low %.1f, estimate %.1f, high %.1f", sets[s], (long long) r->truth[s],
			(double) peak.low / (double) r->page, (double) peak.estimate / (double) r->page,
			peak.high.known ? (double) peak.high.value / (double) r->page : -1);
	return wrong;
}

static void run_begin(struct run *r)
{
	static struct process procs[PROCS];
	static uint32_t free_pages[PAGES];
	static uint16_t refs[MEMORY_SETS][PAGES];
	uint64_t state = r->seed * 77 + 1, bits = next(&state);
	struct process *main;

	r->page = (int64_t[]) { 4096, 65536, MIB, MIB }[bits % 4];
	r->has_records = !r->profile->no_records;
	r->has_huge = bits / 16 % 4 == 0;
	r->is_attached = bits / 64 % 8 == 0 && (r->profile->attaches || r->profile->weight[TOUCH] == 0);
	r->obeys = bits / 512 % 2;
	r->finds_late = bits / 1024 % 4 == 0;
	r->outside = (int64_t) (bits / 4096 % 3000);
	r->procs = procs;
	r->free = free_pages;
	r->refs = refs;
	for (struct process *p = procs; p < procs + PROCS; p++)
		p->id = 0;
	memset(refs, 0, sizeof(refs));
	for (uint32_t k = PAGES; k-- > FILES * FILE_PAGES;)
		free_pages[r->n_free++] = k;
	r->now_ns = r->is_attached ? 0 : MS;
	main = process_new(r);
	*main = (struct process) { .id = main->id, .is_alive = true, .is_main = true, .has_execed = !r->is_attached, .program = ++r->last_program };
	if (r->is_attached) {
		fill(r, main, 300);
		give_back(r, main, 0, 250);
		main->hwm_before = main->hwm;
	}
	main->faults = 0;
	truth_take(r);
	r->memory = memory_new(&(struct memory_config) {
		.page_bytes = r->page,
		.huge_bytes = r->has_huge ? HUGE * r->page : 0,
		.file_bytes = AROUND * r->page,
		.machine_bytes = PAGES * r->page,
		.ours = !r->is_attached,
	});
	assert_non_null(r->memory);
	if (r->has_huge)
		memory_huge(r->memory, 0);
	if (!r->has_records)
		memory_records_lost(r->memory);
	SAY(r, "\nprofile %s, seed %llu: pages of %lld%s%s%s\n", r->profile->name, (unsigned long long) r->seed, (long long) r->page,
		r->has_records ? "" : ", no exit records", r->has_huge ? ", huge pages" : "", r->is_attached ? ", attached" : "");
}

static enum wrong run_ops(const struct profile *profile, uint64_t seed, const struct op *ops, size_t n, bool is_printed)
{
	struct run r = { .profile = profile, .seed = seed, .ops = ops, .n = n, .is_printed = is_printed };
	enum wrong wrong;

	static const struct op whole = { .kind = SAMPLE, .b = 512, .c = FINDS_ALL };

	run_begin(&r);
	sample(&r, &whole);
	while (r.at < n) {
		const struct op *op = &ops[r.at++];

		if (op->kind == SAMPLE)
			sample(&r, op);
		else
			operate(&r, op);
		if (r.is_asked)
			sample(&r, &whole);
		r.is_asked = false;
	}
	if (seed % 8 == 0) /* what lives then is followed no further */
		sample(&r, &whole);
	finish(&r);
	wrong = peak_check(&r, MEMORY_ALL);
	if (wrong == RIGHT)
		wrong = peak_check(&r, MEMORY_DESCENDANTS);
	SAY(&r, "%s\n", r.wrong);
	memory_free(r.memory);
	return wrong;
}

/* ---- profiles ----------------------------------------------------------------------------------------------------------- */

static const struct profile profiles[] = {
	{ "uniform", { 4, 4, 4, 2, 3, 4, 2, 2, 4, 2, 3, 1, 3, 12 }, .pages = 60, .living = 10 },
	{ "lone", { [FILL] = 6, [BIG] = 1, [MAP] = 1, [TOUCH] = 2, [FREE] = 2, [WAIT] = 2, [SAMPLE] = 6 }, .pages = 90, .living = 1 },
	{ "server", { [FORK] = 6, [WRITE] = 5, [FILL] = 2, [EXIT] = 5, [FREE] = 1, [WAIT] = 1, [SAMPLE] = 6 }, .pages = 50, .living = 12, .main_forks = true },
	{ "build", { [FORK] = 4, [EXEC] = 5, [FILL] = 6, [TOUCH] = 4, [EXIT] = 4, [WAIT] = 2, [SAMPLE] = 5 }, .pages = 80, .living = 3, .main_forks = true },
	{ "shared", { [FORK] = 2, [MAP] = 3, [TOUCH] = 8, [FILL] = 1, [EXIT] = 1, [WAIT] = 1, [SAMPLE] = 5 }, .pages = 256, .living = 8, .one_file = true },
	{ "waves", { [FORK] = 2, [FILL] = 6, [FREE] = 6, [WRITE] = 2, [EXIT] = 2, [WAIT] = 1, [SAMPLE] = 5 }, .pages = 200, .living = 5 },
	{ "copies", { [FORK] = 4, [WRITE] = 8, [FILL] = 2, [EXIT] = 4, [WAIT] = 1, [SAMPLE] = 5 }, .pages = 200, .living = 8 },
	{ "hand-over", { [FORK] = 1, [FILL] = 3, [HAND_OVER] = 6, [FREE] = 1, [WAIT] = 1, [SAMPLE] = 6 }, .pages = 200, .living = 4 },
	{ "twice", { [FILL] = 2, [MAP] = 2, [TOUCH] = 6, [FREE] = 1, [WAIT] = 1, [SAMPLE] = 5 }, .pages = 200, .living = 1, .twice = true },
	{ "torn", { 4, 4, 4, 0, 0, 0, 0, 0, 4, 2, 3, 3, 1, 10 }, .pages = 60, .living = 6, .is_torn = true },
	{ "user", { 4, 4, 4, 2, 2, 3, 1, 1, 4, 2, 3, 1, 3, 12 }, .pages = 60, .living = 6, .no_records = true },
	{ "execs", { [FORK] = 4, [EXEC] = 5, [FILL] = 4, [TOUCH] = 4, [EXIT] = 3, [WAIT] = 2, [SAMPLE] = 5 }, .pages = 80, .living = 4, .leaves_files = true },
	{ "attached", { [FILL] = 6, [MAP] = 1, [TOUCH] = 3, [FREE] = 2, [WAIT] = 2, [SAMPLE] = 6 }, .pages = 90, .living = 1, .attaches = true },
	{ "late-faults", { 4, 4, 4, 0, 0, 0, 0, 0, 4, 2, 3, 3, 1, 10 }, .pages = 60, .living = 6, .is_torn = true, .late_faults = true },
};

static void ops_make(const struct profile *profile, uint64_t seed, struct op *ops, size_t n)
{
	uint64_t state = seed ^ UINT64_C(0x5bd1e995) * (uint64_t) (profile - profiles + 1);
	unsigned sum = 0;

	for (int k = 0; k < OP_KINDS; k++)
		sum += profile->weight[k];
	for (size_t i = 0; i < n; i++) {
		unsigned at = (unsigned) (next(&state) % sum);
		uint8_t kind = 0;

		while (at >= profile->weight[kind])
			at -= profile->weight[kind++];
		ops[i] = (struct op) { kind, (uint32_t) next(&state), (uint32_t) next(&state), (uint32_t) next(&state) };
	}
}

/* Leaves out whatever it fails without. */
static size_t shorten(const struct profile *profile, uint64_t seed, struct op *ops, size_t n, enum wrong wrong)
{
	static struct op less[OPS];

	for (size_t chunk = n / 2; chunk > 0; chunk /= 2) {
		for (size_t from = 0; from + chunk <= n;) {
			memcpy(less, ops, from * sizeof(*ops));
			memcpy(less + from, ops + from + chunk, (n - from - chunk) * sizeof(*ops));
			if (run_ops(profile, seed, less, n - chunk, false) == wrong) {
				n -= chunk;
				memcpy(ops, less, n * sizeof(*ops));
			} else {
				from += chunk;
			}
		}
	}
	return n;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static bool holds(const struct profile *profile, uint64_t seed)
{
	static struct op ops[OPS];
	size_t n = 20 + seed % (OPS - 20);
	enum wrong wrong;

	ops_make(profile, seed, ops, n);
	wrong = run_ops(profile, seed, ops, n, false);
	if (wrong == RIGHT)
		return true;
	n = shorten(profile, seed, ops, n, wrong);
	(void) run_ops(profile, seed, ops, n, true);
	return false;
}

static void check(const char *name, uint64_t runs)
{
	const uint64_t most = number("HIWATER_MEMORY_RUNS", runs), from = number("HIWATER_MEMORY_SEED", 0);
	const char *only = getenv("HIWATER_MEMORY_PROFILE");
	unsigned failed = 0;

	for (const struct profile *p = profiles; p < profiles + sizeof(profiles) / sizeof(profiles[0]); p++) {
		if (strcmp(p->name, name) != 0 || (only && strcmp(only, name) != 0))
			continue;
		for (uint64_t seed = from; seed < (from > 0 ? from + 1 : most) && failed < 3; seed++)
			failed += !holds(p, seed);
	}
	assert_int_equal(failed, 0);
}

#define PROFILE(name, runs)                         \
	static void test_##name(void **state)       \
	{                                           \
		(void) state;                       \
		check(strcmp(#name, "hand_over") == 0 ? "hand-over" : strcmp(#name, "late_faults") == 0 ? "late-faults" : #name, runs); \
	}
PROFILE(uniform, 400)
PROFILE(lone, 400)
PROFILE(server, 400)
PROFILE(build, 400)
PROFILE(shared, 400)
PROFILE(waves, 400)
PROFILE(copies, 400)
PROFILE(hand_over, 400)
PROFILE(twice, 400)
PROFILE(torn, 400)
PROFILE(user, 400)
PROFILE(execs, 400)
PROFILE(attached, 400)
PROFILE(late_faults, 400)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uniform),
		cmocka_unit_test(test_lone),
		cmocka_unit_test(test_server),
		cmocka_unit_test(test_build),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_waves),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_hand_over),
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_torn),
		cmocka_unit_test(test_user),
		cmocka_unit_test(test_execs),
		cmocka_unit_test(test_attached),
		cmocka_unit_test(test_late_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
