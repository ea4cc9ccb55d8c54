/* SPDX-License-Identifier: MIT
 *
 * What hiwater where shows: which functions first touched the memory that was resident at a high of a job, or
 * of all ranks of a job.
 *
 * Its parts (stacks, mapped files, what was there before the sampler, and the rest, which is unsampled) add up
 * to the peak, to the byte: what is more than the peak is scaled down, the stacks first. Each recording has a
 * peak of its own; that of the view is their sum.
 */
#pragma once

#include "base/map.h"
#include "base/maybe.h"
#include "record/where/where_read.h"

enum where_by {
	WHERE_BY_FUNCTION,
	WHERE_BY_LINE,
	WHERE_BY_STACK,
	WHERE_BY_LIBRARY,
	WHERE_BY_PROCESS,
	WHERE_BY_COUNT,
};
/* "function", "line". */
const char *where_by_name(enum where_by by);

struct where_view_options {
	enum where_by by;
	bool is_self;            /* the innermost function, plumbing too */
	bool is_by_total;        /* the largest total first, also of functions that only called others */
	uint32_t high;           /* from 1, in the order of time; 0: the last */
	const char *under;       /* POSIX ERE: only stacks with such a function; NULL: all; borrowed */
};

/* A number of a text in where_view.texts; 0 is "". */
typedef uint32_t where_text_id;

/* A function of a library: what rows, stacks and graphs are made of. */
struct where_function {
	where_text_id name;      /* as shown, but any bytes: demangled, "libfoo.so+0x12ab" without a name */
	where_text_id library;   /* the last part of its module */
	uint32_t first_place;    /* one of its places */
	bool is_named, is_plumbing;
	bool is_cut;             /* no function: the stack was cut here */
	bool is_script;          /* of a source file that an interpreter runs: what is inside it is its machinery */
	bool is_under;           /* matches options.under */
};

struct where_place {
	uint32_t function;       /* in where_view.functions */
	where_text_id file;
	uint32_t line;           /* 0: unknown */
	where_text_id module, build_id;
};

/* A place and what called it; parents come before. */
struct where_node {
	uint32_t parent;         /* + 1; 0: none */
	uint32_t place;          /* in where_view.places */
	uint32_t depth;          /* from 1 */
	uint32_t function_node;  /* in where_view.tree */
};

/* The same by functions: equal stacks of functions are one node. */
struct where_tree_node {
	uint32_t parent;         /* + 1; 0: none */
	uint32_t function;
	uint32_t depth;          /* from 1 */
	uint64_t bytes, total, n; /* of stacks that end here; and of those through it */
};

struct where_view_process {
	int64_t pid, rank;       /* -1: unknown */
	where_text_id name;
	size_t recording;
};

/* Bytes of a stack in a process, scaled. */
struct where_leaf {
	uint32_t node;           /* in where_view.nodes: the innermost frame */
	uint32_t process;        /* in where_view.processes */
	uint64_t bytes, n, copied; /* as in struct where_row */
	bool is_out;             /* not under options.under */
};

/* A line of the table. */
struct where_line {
	uint32_t key;            /* by options.by: a function, place, node of tree, text of a library, process */
	uint64_t bytes, n, total, copied;
	double variance;         /* of bytes; its root is one sigma */
	uint32_t leaf;           /* the largest stack of it */
	uint32_t node;           /* its frame in that stack */
	bool has_own;            /* that stack is counted in bytes, not in total alone */
	uint64_t leaf_bytes;
	uint64_t stamp;          /* the stack that was added last */
};

struct where_view_file {
	where_text_id name;
	uint64_t bytes;
};

/* A frame of Python. */
struct where_view_frame {
	where_text_id function, file; /* file 0: function is no place in a program */
	uint32_t line;           /* 0: unknown */
};

/* What Python was doing while the memory rose most towards a high. */
struct where_view_python {
	uint32_t high;           /* from 1, in where_view.highs */
	uint32_t process;        /* in where_view.processes */
	int64_t thread;          /* its number, that of the process for the main thread */
	uint64_t time_ns;
	struct where_view_frame frames[WHERE_PYTHON_DEPTH]; /* the outermost first */
	size_t n_frames;
};

struct where_view_high {
	uint64_t time_ns, total_bytes;
};

/* A distinct stack of functions in a process. */
struct where_sum {
	uint32_t process;
	uint32_t tree_node;
	uint64_t bytes, n;
};

struct where_texts {
	char **list;
	size_t n, cap;
	struct map places;
};

struct where_view {
	struct where_view_options options; /* under is not kept */
	void *under;             /* regex_t; NULL: none */
	size_t n_recordings, n_given; /* given: also those that were not sampled */
	bool is_growing;
	struct where_texts texts;
	struct where_function *functions;
	size_t n_functions, cap_functions;
	struct where_place *places;
	size_t n_places, cap_places;
	struct where_node *nodes;
	size_t n_nodes, cap_nodes;
	struct where_tree_node *tree;
	size_t n_tree, cap_tree;
	struct where_view_process *processes;
	size_t n_processes, cap_processes;
	struct where_leaf *leaves;
	size_t n_leaves, cap_leaves;
	struct where_view_file *files; /* the largest first */
	size_t n_files, cap_files;
	struct where_line *lines; /* the largest first */
	size_t n_lines, cap_lines;
	struct where_sum *sums;   /* in the order of processes, the largest first; without those that are out */
	size_t n_sums, cap_sums;
	struct map function_ids, file_ids, place_ids, tree_ids, file_places, line_ids;

	uint64_t peak_bytes;     /* = rows_bytes + out_bytes + files_bytes + before_bytes + unsampled_bytes */
	uint64_t rows_bytes, out_bytes, files_bytes, before_bytes, unsampled_bytes;
	uint64_t n_out;          /* lines whose stacks are all out */
	uint64_t samples, lost, sample_bytes, huge_bytes;
	/* of the recording with the largest peak: */
	struct maybe at_ns;
	uint64_t largest_bytes, high_ns, looked_ns, looked_bytes;
	uint32_t high;           /* number */
	struct where_view_high highs[WHERE_HIGHS];
	struct where_view_python *pythons; /* of the highs until the one that is shown; NULL: none */
	size_t n_pythons;
	size_t n_highs;
};

/* *ret is the caller's. Returns 0, -ENOMEM, or -EINVAL with text if under is no expression. */
int where_view_new(const struct where_view_options *options, struct where_view **ret, struct err *err);
void where_view_free(struct where_view *view);

/* Adds a recording. peak, at_ns: the job's peak of combined RAM, for its last high; unknown: the high's own
 * figure. Call it for all of them, and then where_view_end, which returns 0 or -errno. Returns 0, -EINVAL with text if
 * there is no high of options.high, or -errno with text. */
int where_view_add(struct where_view *view, const struct where_data *data, struct maybe peak,
	struct maybe at_ns, bool is_growing, struct err *err);
int where_view_end(struct where_view *view);

/* ---- texts, any bytes; the view's ------------------------------------------------------------ */

const char *where_text_of(const struct where_view *view, where_text_id id);
/* "ones"; of --by library or process that. ret is used where the text is made. */
#define WHERE_NAME_LEN 512
const char *where_line_name(
	const struct where_view *view, const struct where_line *line, char ret[WHERE_NAME_LEN]);
const char *where_line_library(const struct where_view *view, const struct where_line *line);
/* "" and 0: unknown. */
const char *where_line_file(
	const struct where_view *view, const struct where_line *line, uint32_t *ret_line);
/* "rank 3 python (4711)". */
void where_process_name(const struct where_view *view, uint32_t process, char ret[WHERE_NAME_LEN]);
const char *where_function_name(const struct where_view *view, uint32_t function);
/* The last part of a path. */
const char *where_basename(const char *path);

/* One sigma of a line's bytes; false: it has no samples. */
bool where_line_sigma(const struct where_line *line, uint64_t *ret);

/* ---- where_plumbing.c ------------------------------------------------------------------------ */

/* Is a function (as the symbol table has it) of a library (its file's name) one that touches memory for others: an
 * allocator, memset, the dynamic loader? */
bool where_is_plumbing(const char *library, const char *function);
