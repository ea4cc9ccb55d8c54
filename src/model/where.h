/* SPDX-License-Identifier: MIT
 *
 * Where resident memory came from (run --where, docs/where.md): the stacks that first touched the pages that were
 * resident at a high of the job's memory. The kernel samples page faults; a sample stands for the bytes of its
 * stratum that are resident, divided by the stratum's samples.
 *
 * Origins (the sampler, a recording that is merged) pass it to a where_sink; the recording is one
 * (record/where/where_write.h). Texts are borrowed until the call returns; any bytes. Numbers of frames, stacks,
 * processes and highs begin at 1 and count up.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum {
	WHERE_FRAMES = 200000,     /* most of each, in a recording */
	WHERE_STACKS = 500000,
	WHERE_PROCESSES = 200000,
	WHERE_HIGHS = 16,
	WHERE_PYTHONS = 4,         /* of a high */
	WHERE_PYTHON_DEPTH = 100,
};

/* A place in a program. */
struct where_frame {
	const char *module;   /* the file it is in; "[jit]", "[unknown]"; "": function is no place in a program ("…") */
	const char *build_id; /* of the module, hexadecimal; "": it has none */
	uint64_t offset;      /* in the module, as its symbol table has addresses */
	const char *function; /* as the symbol table has it (C++ mangled); "": not known, or not yet */
	const char *file;     /* of the source; "": unknown */
	uint32_t line;        /* 0: unknown */
};

/* A frame and what called it: a node, so that stacks share their outer frames. */
struct where_stack {
	uint32_t parent;      /* the caller's node, an earlier one; 0: none */
	uint32_t frame;
};

struct where_process {
	int64_t pid;          /* -1: unknown */
	int64_t rank;         /* -1: unknown */
	const char *name;
};

/* Bytes that were resident at a high, touched first by a stack of a process. */
struct where_row {
	uint32_t stack;       /* its innermost frame */
	uint32_t process;
	uint64_t bytes;
	uint64_t n;           /* samples */
	uint64_t copied_bytes; /* of bytes, of copies of pages that the parent had touched before a fork */
};

/* Bytes of a mapped file. */
struct where_file {
	const char *name;
	uint64_t bytes;
};

struct where_python_frame {
	const char *function;
	const char *file;     /* "": function is no place in a program ("…") */
	uint32_t line;        /* 0: unknown */
};

/* What a thread of a Python process was doing when the memory rose to a high: no share of it. */
struct where_python {
	uint32_t process;
	int64_t thread;       /* its number; that of the process: the main thread */
	uint64_t time_ns;     /* since the run's start */
	const struct where_python_frame *frames; /* the outermost first */
	size_t n_frames;
};

/* Frees the frames, and their texts, of one that owns them. */
static inline void where_python_done(struct where_python *p)
{
	for (size_t i = 0; i < p->n_frames; i++) {
		free((void *) (uintptr_t) p->frames[i].function);
		free((void *) (uintptr_t) p->frames[i].file);
	}
	free((void *) (uintptr_t) p->frames);
	*p = (struct where_python) { .frames = NULL };
}

/* A moment at which the job's memory was higher than before. */
struct where_high {
	uint64_t time_ns;     /* since the run's start */
	uint64_t total_bytes; /* resident then, over the tree; the rest of it is unsampled */
	uint64_t looked_ns;   /* when it was last looked which samples' pages are resident */
	uint64_t looked_bytes;
	uint64_t before_bytes; /* resident when an attached sampler came; 0 of a job that was started with it */
	uint64_t sample_bytes; /* that a sample stands for, of small pages */
	uint64_t huge_bytes;  /* of huge pages; 0: there were none */
	uint64_t lost;        /* records that the kernel dropped, until then */
	const struct where_row *rows;
	size_t n_rows;
	const struct where_file *files;
	size_t n_files;
	const struct where_python *pythons; /* of the processes that grew most */
	size_t n_pythons;
};

struct where_sink;

/* Where it comes from, for the recording's thread. drain passes what there is; last: the run is over, and what is missing
 * is waited for. drain NULL: the job is not sampled. again: what was passed is lost, and has to be passed again. */
struct where_source {
	int (*drain)(void *ctx, bool last, const struct where_sink *sink);
	void (*again)(void *ctx);
	void *ctx;
};

/* Where it goes. Every function returns 0 or -errno, after which the caller stops. All calls come from one thread. */
struct where_sink {
	/* A frame: number is new, or known, and what was unknown of it is set. */
	int (*frame)(void *ctx, uint32_t number, const struct where_frame *frame);
	int (*stack)(void *ctx, uint32_t number, const struct where_stack *stack);
	int (*process)(void *ctx, uint32_t number, const struct where_process *process);
	/* A high of a new number, or again of the last one, which it replaces. Its numbers were passed before. */
	int (*high)(void *ctx, uint32_t number, const struct where_high *high);
	/* A high is no longer kept. */
	int (*drop)(void *ctx, uint32_t number);
	/* What the sampler used; at most once, at its end. NULL: not wanted. */
	int (*cost)(void *ctx, uint64_t cpu_ns, uint64_t rss_bytes);
	void *ctx;
};
