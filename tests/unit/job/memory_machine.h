/* SPDX-License-Identifier: MIT
 *
 * A model of a machine that has pages: processes map anonymous pages and pages of files, fork, write, exec and end as on Linux. It
 * counts the distinct pages that they map, and what the kernel reports of each process: RSS, high-water mark, faults.
 *
 * An operation has operands that mean something in any state, so that a list of operations of which some are left out is one, too.
 */
#pragma once

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

enum op_kind {
	FORK,
	WRITE,
	FILL,
	BIG,
	MAP,
	TOUCH,
	COPY,
	UNMAP,
	FREE,
	EXEC,
	EXIT,
	HAND_OVER,
	WAIT,
	EDGE,
	SAMPLE,
	OP_KINDS
};

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
	bool is_open;            /* counter-examples are known: only run where it is asked for */
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
	/* since the sample began: hiwater reads no files of a process that ends meanwhile */
	int64_t files_most;
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

static void touch(
	struct run *r, struct process *p, struct mapping *m, uint32_t from, uint32_t n, uint32_t around)
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
	SAY(r, "%u forks %u, to be found at sample %u, record %u samples late", parent->id, p->id, p->find_at,
		p->record_at);
}

static void op_map(struct run *r, struct process *p, const struct op *op)
{
	const uint32_t file = r->profile->one_file ? 1 : op->b % FILES,
		       n = r->profile->one_file ? FILE_PAGES : 1 + op->c % FILE_PAGES;
	const struct mapping *had = NULL;
	struct mapping *m;

	for (uint32_t k = 0; k < p->n_maps; k++)
		had = p->maps[k].file == file ? &p->maps[k] : had;
	if (had && !r->profile->twice)
		return;
	m = had ? map(p, file, had->from, had->n) : map(p, file, (FILE_PAGES - n) / 2, n);
	/* no mark tells which pages are the same: its maps are read before it touches them */
	r->is_asked |= had && m;
	if (m)
		SAY(r, "%u maps file %u, pages %u to %u%s", p->id, file, m->from, m->from + m->n,
			had ? ", again" : "");
}

static void op_on_map(struct run *r, struct process *p, const struct op *op, uint32_t n)
{
	struct mapping *m = p->n_maps > 0 ? &p->maps[op->b % p->n_maps] : NULL;
	const uint32_t from = m ? op->c % m->n : 0;

	if (!m || (r->profile->twice && op->kind == UNMAP))
		return;
	SAY(r, "%u %s file %u, page %u, %u pages", p->id,
		op->kind == TOUCH  ? "touches"
		: op->kind == COPY ? "writes to its private"
				   : "unmaps",
		m->file, m->from + from, n);
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
	const uint32_t n = 1 + op->c / 1024 % r->profile->pages,
		       from = p && p->n_anon > 0 ? op->b % p->n_anon : 0;

	r->now_ns += 20000 + op->a / 64 % 2000000;
	if (op->kind == WAIT)
		r->now_ns += op->c % 128 * MS;
	if (!p || op->kind == WAIT)
		return;
	SAY(r, "%8.2f ms  ", (double) r->now_ns / (double) MS);
	switch ((enum op_kind) op->kind) {
	case FORK:
		op_fork(r, p, op);
		break;
	case WRITE:
		SAY(r, "%u writes to %u of its pages: ", p->id, n);
		SAY(r, "%u copied", rewrite(r, p, from, n));
		if (!r->is_printed)
			(void) rewrite(r, p, from, n);
		break;
	case FILL:
		SAY(r, "%u fills %u", p->id, n);
		fill(r, p, n);
		break;
	case BIG:
		if (r->has_huge) {
			SAY(r, "%u fills a huge page", p->id);
			fill_huge(r, p);
		}
		break;
	case MAP:
		op_map(r, p, op);
		break;
	case TOUCH:
	case COPY:
	case UNMAP:
		op_on_map(r, p, op, n);
		break;
	case FREE:
		SAY(r, "%u gives back %u", p->id, n);
		give_back(r, p, from, n);
		break;
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
	case HAND_OVER:
		hand_over(r, p, pick(r, op->b), n, op->c % 2);
		break;
	case WAIT:
	case EDGE:
	case SAMPLE:
	case OP_KINDS:
		break;
	}
	truth_take(r);
	SAY(r, "  (%lld, %lld)\n", (long long) r->distinct[0], (long long) r->distinct[1]);
}
