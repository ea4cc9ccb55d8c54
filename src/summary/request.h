/* SPDX-License-Identifier: MIT
 *
 * What to request for the next run of a job, from what its runs used. This is the one computation
 * behind the summary's line, the findings about requests, JSON, the report, Python and hiwater
 * request.
 *
 * A run that ended well used what the job needs. One that failed, was killed or lost used at least
 * that: a censored value. The need is the quantile of the Kaplan-Meier estimate over all runs: for
 * the quantile 1 the largest value, "at least" if that is censored, "more than" if a limit ended that
 * run. Memory gets a margin of 20 %, time of 50 %; both are rounded up, CPUs to whole ones.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/maybe.h"
#include "base/units.h"

enum request_format {
	REQUEST_AUTO,           /* of the scheduler of the newest run; Slurm without one */
	REQUEST_SLURM,
	REQUEST_PBS,
	REQUEST_LSF,
	REQUEST_SGE,
	REQUEST_K8S,
	REQUEST_SNAKEMAKE,
	REQUEST_NEXTFLOW,
};

/* What a run used of one resource. */
struct request_use {
	struct maybe value;
	struct maybe low; /* it used this at least; unknown: value */
	bool is_least; /* the run did not finish its work: the job needs at least this */
	bool at_limit; /* a limit ended it there: the job needs more */
};

enum {
	REQUEST_TEXT = 96
};

/* What one run says. findings/request.c makes it of a summary. */
struct request_run {
	char run[REQUEST_TEXT];             /* "17", "base.hiw"; "": not recorded */
	char name[REQUEST_TEXT], command[REQUEST_TEXT], scheduler[16]; /* cut, if they are longer */
	bool is_whole;                      /* ended with status 0 */
	bool is_watched;                    /* only a part of the job's time was watched (attach, a block) */
	/* of a job of several ranks; 0: it has one. On several nodes memory and requested_bytes are of the node that
	 * needed most */
	int64_t ranks, nodes;
	struct request_use memory, time;    /* bytes, swap and huge pages included; ns */
	bool is_block;                      /* ... which was a block of a program */
	bool is_bound, is_sampled;          /* memory is an upper bound; the largest sample */
	bool has_swap;                      /* memory includes swap or huge pages */
	int64_t tmpfs_bytes;                /* memory includes this rise of the machine's tmpfs and shared
	                                     * memory, which may be others' in part */
	struct maybe cores_mean_ppm;
	/* from the timeline, if it is long enough: mean + 2 standard deviations, the busiest stretch */
	struct maybe cores_typical_ppm, cores_most_ppm;
	struct maybe gpus, gpu_bytes;       /* GPUs that it used; the largest peak on one of them */
	bool has_mig;                       /* one of them is a MIG instance */
	char gpu_vendor[16];
	char gpu_unseen[2 * REQUEST_TEXT];  /* why that is not known; "" */
	struct maybe requested_bytes, requested_cpus, requested_ns, requested_gpus;
	bool is_whole_machine;              /* the requested memory is (nearly) all of the machine's */
	const char *unseen;                 /* why the figures are not those of the job; NULL; static */
};

enum request_fit {
	REQUEST_UNJUDGED,
	REQUEST_TOO_LITTLE,
	REQUEST_ABOUT_RIGHT,
	REQUEST_TOO_MUCH,
};

struct request_amount {
	struct maybe value;     /* to request */
	struct maybe need;      /* without margin and rounding; of CPUs in millionths */
	struct maybe low;       /* runs used this at least, where the need is an upper bound */
	bool is_least, at_limit; /* the need is at least, or more than, this */
	bool ended_well;        /* the run that needed it ended with status 0 */
	char run[REQUEST_TEXT]; /* the run that needed it */
	struct maybe requested; /* by the newest run that requested any */
	enum request_fit fit; /* about what was requested */
};

/* Runs of the same job that do not count, which the basis states. */
struct request_left_out {
	size_t unread;          /* there was no time to read them; the newest ones were read */
	bool is_uncounted;      /* ... and there may be more */
	size_t unreadable;      /* damaged recordings */
	size_t other_mode;      /* watched ones where the newest is a whole program, or the reverse */
};

struct request {
	bool made;
	char why_not[512];      /* why there is no request; "": there is one */
	struct request_amount memory, time, cpus, gpus; /* memory of each node, CPUs and GPUs of all */
	int64_t ranks, nodes;   /* of the newest run that counts; 0: one */
	bool is_bound, is_sampled, has_swap; /* of the memory's need, as in struct request_run */
	int64_t tmpfs_bytes;
	bool has_mig;           /* a GPU that was used is a MIG instance */
	bool is_block;          /* of the newest run */
	bool is_watched;        /* of all runs only a part was watched: time is unknown */
	bool is_whole_machine;
	struct maybe gpu_bytes;
	char gpu_vendor[16], gpu_why_not[2 * REQUEST_TEXT];
	size_t runs, whole;     /* runs that count; those that ended well */
	size_t unseen;          /* runs that do not count, and why: not all of the job was measured */
	const char *unseen_why; /* static */
	/* runs that would have failed with this request; those that ended early within it, so that
	 * they may have */
	size_t would_fail, may_fail;
	double margin, quantile;
	struct maybe cores_typical_ppm;
	char name[REQUEST_TEXT]; /* of the newest run; "" */
	bool is_mixed;          /* names or commands of the runs differ */
	struct request_left_out left_out;
	enum request_format format; /* not REQUEST_AUTO */
};

struct request_options {
	double margin;          /* of memory: 0.2 */
	double quantile;        /* above 0, at most 1 */
	enum request_format format; /* of the line where none is asked for */
	struct request_left_out left_out;
};

#define REQUEST_OPTIONS_INIT { .margin = 0.2, .quantile = 1 }

/* runs: the newest first, one at least. Returns 0 or -ENOMEM. */
int request_make(const struct request_run *runs, size_t n, const struct request_options *options,
	struct request *ret);

/* "#SBATCH --mem=640M --cpus-per-task=2 --time=0:10:00" in r->format, without a newline; nothing for
 * what is not known. Those of Snakemake and Nextflow have several lines. */
void request_line(const struct request *r, struct buf *out);
/* How a comment begins in a file with such lines: "# ". */
const char *request_comment(const struct request *r);
/* In words; names in them may have any bytes.
 * "from 3 runs of xgb: peak 509 MiB + 20 %, cores 1.80, 6 min 40 s + 50 %" */
void request_basis(const struct request *r, enum units units, struct buf *out);
/* "rounded up: memory to 64 MiB, CPUs to whole ones, time to 5 min"; nothing if nothing is known. */
void request_rounding(const struct request *r, struct buf *out);
/* "memory: 4.00 GiB requested, 509 MiB used: too much". False: nothing was requested, or it cannot be
 * judged. which: 0 memory, 1 CPUs, 2 time, 3 GPUs. */
bool request_judgement(const struct request *r, unsigned which, struct buf *out);
const char *request_fit_words(enum request_fit fit); /* "too much"; NULL: unjudged */

/* A size as it is requested: "27 GiB", "1280 MiB". */
void request_put_bytes(int64_t bytes, struct buf *out);
