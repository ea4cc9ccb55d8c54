/* SPDX-License-Identifier: MIT
 *
 * A job of several ranks (docs/jobs.md) as its parts: one recording each of a rank, or of a node. Only a merged recording has
 * them; record/merge/ makes them, replay restores them, summary and sinks read them. Plain data; a struct owns its strings.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/maybe.h"

enum {
	PARTS_MOST = 1 << 20, /* ranks, nodes or parts of a job */
};

struct part {
#define P_INT(name)             struct maybe name;
#define P_TEXT(name)            char *name;
#define P(kind, name, sentence) P_##kind(name)
#include "job/part.def"
#undef P
#undef P_INT
#undef P_TEXT
};

struct part_node {
#define N_INT(name)             struct maybe name;
#define N_TEXT(name)            char *name;
#define N(kind, name, sentence) N_##kind(name)
#include "job/part_node.def"
#undef N
#undef N_INT
#undef N_TEXT
};

/* A recording that could not be used. */
struct part_problem {
	char *file, *why;
};

struct parts {
	struct part *part; /* by node, nodes' unions first, then by rank and restart */
	size_t n, cap;
	struct part_node *node; /* by node rank, then by name */
	size_t n_nodes, cap_nodes;
	struct part_problem *problem;
	size_t n_problems, cap_problems;
	struct part_gpu { /* the GPU with this id of the job is on this node */
		uint32_t gpu, node;
	} *gpu;
	size_t n_gpus, cap_gpus;
	/* memory of each part in rank_spans equal spans of the job, rank_ram[part * rank_spans + span]: the largest value in it; -1: none.
	 * NULL: not read (replay_rank_ram) */
	int64_t *rank_ram;
	size_t rank_spans;
	bool clocks_compared;      /* by marks that ranks of all nodes have */
	struct maybe
		clock_rest_ns; /* the largest difference of these marks between nodes, once corrected */
};

/* A field of struct part or struct part_node: a struct maybe, or a string. */
struct part_field {
	const char *name;
	bool is_text;
	size_t offset;
};
extern const struct part_field part_fields[], part_node_fields[];
extern const size_t part_field_count, part_node_field_count;

struct parts *parts_new(void); /* NULL: out of memory */
void parts_free(struct parts *p);
void part_done(struct part *p);
void part_node_done(struct part_node *n);

/* Each appends; the strings of *part and *node are taken over, also on failure. Return 0 or -ENOMEM. */
int parts_add(struct parts *p, struct part *part);
int parts_add_node(struct parts *p, struct part_node *node);
int parts_add_problem(struct parts *p, const char *file, const char *why);
void parts_sort_problems(struct parts *p); /* by file */
int parts_add_gpu(struct parts *p, uint32_t gpu, uint32_t node);

/* Replaces a string by a copy. Returns 0 or -ENOMEM. */
int part_set_text(char **field, const char *text);

/* Removes names of nodes (by numbers), files, users and commands. */
void parts_redact(struct parts *p);

/* Forgets numbers that no job of today has, so that sums of them stay within 64 bits. */
void part_limit(struct part *p);
void part_node_limit(struct part_node *n);

bool part_is(const struct part *part, const char *kind);
/* It counts, and is of one rank. */
bool part_is_rank(const struct part *part);
/* It counts, and its figures are in no other part but the union of its node: those of a rank or a tree. */
bool part_is_own(const struct part *part);
/* The index of the node in p->node; p->n_nodes: it is not there. */
size_t parts_node_of(const struct parts *p, const char *name);

/* How many ranks the job has: what its parts say, or at least as many as were found. */
int64_t parts_ranks(const struct parts *p);
/* How many ranks have no part; the first of them, at most most, go to ret. */
size_t parts_missing(const struct parts *p, int64_t *ret, size_t most);
/* How many nodes have no part. */
size_t parts_missing_nodes(const struct parts *p);
/* The end of the part since the job's start. */
int64_t part_end_ns(const struct part *part);
/* The recording ended before the part did, as far as is known: its recorder was killed. */
bool part_is_cut_off(const struct part *part);
/* One of the parts was still recorded when they were merged. */
bool parts_are_running(const struct parts *p);
/* A rank or a node has no part, or a rank's has no end. */
bool parts_lack(const struct parts *p);
/* None of them lacks, none runs, and every file could be used. */
bool parts_are_complete(const struct parts *p);
/* The latest start less the earliest, of ranks. */
int64_t parts_stagger_ns(const struct parts *p);
