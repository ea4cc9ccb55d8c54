/* SPDX-License-Identifier: MIT
 *
 * Private to record/merge/. In the order of work: merge_inputs.c lists files, part_read.c and merge_inputs.c make candidates of
 * them and merge_rows.c copies their windows, merge_align.c chooses the parts and aligns their clocks, merge_ram.c adds the windows up,
 * merge_gpus.c copies GPUs, merge_trace.c adds the traced work, merge_where.c where memory came from, merge_write.c writes the totals.
 */
#pragma once

#include "base/map.h"
#include "job/parts.h"
#include "record/merge/merge.h"
#include "record/read/reader.h"
#include "record/store.h"
#include "summary/summary.h"

enum {
	MERGE_ROWS_GPU = 256,
	MERGE_MARKS = 256,      /* of a part */
	MERGE_INPUTS = 1 << 20,
};

/* A file to read: a recording, an earlier merge, or a list of ranks. */
struct merge_input {
	char *path, *name; /* name: as it is reported */
	bool is_given;     /* named by the user, not found in a folder */
	bool has_where;    /* its memory was sampled */
	const char *of;    /* the file or folder that the user named; borrowed */
	size_t of_number;
};

/* A mark or the start of a phase, since the start of its part. */
struct merge_mark {
	uint64_t hash, t_ns;
	char *text;
};

/* A GPU of a part, by its id there. */
struct merge_gpu {
	uint32_t id;
	int64_t used; /* the most memory that the part's processes used on it; bytes */
	char uuid[96];
};

/* A part that was found, and where. */
struct candidate {
	struct part part;
	int64_t was_start_ns; /* of a part of an earlier merge: its start there */
	size_t input;
	uint32_t number; /* of the part in an earlier merge; 0: the input is a recording of it */
	bool has_workers; /* a launcher started ranks in it, which are candidates, too */
	struct merge_mark *marks;
	size_t n_marks, cap_marks;
	struct merge_gpu *gpus;
	size_t n_gpus, cap_gpus;
};

/* Sums over parts, a value for each of n spans of width_ns from the job's start. */
struct merge_cells {
	uint64_t width_ns;
	size_t n;
	int64_t *estimate, *low, *high; /* RAM: the largest value, what holds throughout the span, the largest bound */
	double *mean;                   /* over the span; of a part that ran in some of it, less accordingly */
	bool *is_unbounded;             /* no upper bound is known */
	bool *is_gap;                   /* something that ran was not measured */
	int64_t *user, *system, *read, *written; /* increases */
	int64_t *processes;
};

/* A file that could not be used in an earlier merge, which is an input. */
struct earlier_problem {
	struct part of; /* its scheduler, cluster and job alone */
	char *file, *why;
};

struct merge {
	struct err *err;
	struct merge_input *inputs;
	size_t n_given; /* files and folders that the user named */
	size_t n_inputs, cap_inputs;
	struct candidate *candidates;   /* once chosen: in the order of parts->part */
	size_t n, cap;
	struct parts *parts;
	uint32_t last_rows;             /* number of the windows that were copied last */
	bool is_below;  /* the inputs are those of a folder in the one that was given */
	struct earlier_problem *earlier;
	size_t n_earlier, cap_earlier;
	size_t *node_of; /* of each part: the index of its node; n_nodes: it has none that counts */
	bool lacks_ranks;
	char *other_jobs; /* "12.0, 13.0": also in the folder */
	struct store *store;
	struct job *job;
	struct merge_cells cells; /* of the job */
	struct maybe low, estimate, high, at_ns; /* its peak RAM */
};

/* merge_inputs.c. Return 0 or -errno with text. */
int merge_add_path(struct merge *m, const char *path);
int merge_read_inputs(struct merge *m);
struct candidate *merge_add_candidate(struct merge *m); /* NULL: out of memory */
void candidate_done(struct candidate *c);
void earlier_problem_done(struct earlier_problem *p);
int candidate_mark(struct candidate *c, uint64_t t_ns, const char *text);
int candidate_gpu(struct candidate *c, uint32_t id, const char *uuid, int64_t used);

/* part_read.c: the part that a recording is; adds candidates for the ranks that a launcher started in it. Returns 0 or -errno with text. */
int part_read(struct merge *m, struct replay *r, const char *name, struct candidate *ret, struct err *err);

/* merge_align.c: chooses the parts of one job, and when each began; moves them to m->parts. Returns 0 or -errno with text. */
int merge_align(struct merge *m);

/* merge_rows.c: copies the windows of a part into table part_row under a number of their own, and removes them again; the marks of all parts
 * into table part_mark. Return 0 or -errno. */
int merge_read_rows(struct merge *m, struct candidate *c, struct replay *r);
int merge_drop_rows(struct merge *m, const struct part *p);
int merge_put_marks(struct merge *m);

/* merge_ram.c: sums over parts and nodes; sets the figures of nodes and of the job. Returns 0 or -errno. */
int merge_add_up(struct merge *m);
void merge_cells_done(struct merge_cells *cells);

/* merge_gpus.c: copies the GPUs and their windows. Returns 0 or -errno. */
int merge_copy_gpus(struct merge *m);

/* merge_trace.c: adds the sums of the parts' traced work. Returns 0 or -errno. */
int merge_copy_trace(struct merge *m);

/* merge_where.c: adds where the memory of the sampled parts came from. Returns 0 or -errno. */
int merge_copy_where(struct merge *m);

/* merge_write.c: the job's facts, windows and totals. Returns 0 or -errno. */
int merge_write(struct merge *m);
