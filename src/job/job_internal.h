/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of src/job/. Included by no other file.
 *
 *   job.c         creating and freeing, applying frames, reading the job
 *   job_acc.c     accumulators
 *   timeline.c      timelines of some metrics
 *   job_tree.c    births, programs, which processes are kept
 *   job_ends.c    ends, and the use of ended processes
 *   job_read.c    values of processes
 *   memory/       the estimator of combined memory, used only through memory.h
 *   job_needs.c   what should be read next to narrow the bounds of memory
 *   job_total.c   totals, the split into private and shared, the end of the run
 *   job_events.c  events, marks, phases, series
 *   job_store.c   storing and restoring
 */
#pragma once

#include "base/map.h"
#include "job/job.h"
#include "job/memory/memory.h"

/* Counters that the kernel adds to those of a parent that waits for the process. */
enum tree {
	TREE_USER,
	TREE_SYSTEM,
	TREE_FAULTS,
	TREES
};

/* Counters that it does not. */
enum plain {
	PLAIN_FAULTS_MAJOR,
	PLAIN_READ_BYTES,
	PLAIN_WRITE_BYTES,
	PLAIN_WRITE_CANCELLED,
	PLAIN_READ_CHARS,
	PLAIN_WRITE_CHARS,
	PLAIN_SWITCHES,
	PLAIN_PREEMPTIONS,
	PLAINS,
};

/* Limits of the process itself, in facts.def: vm_*, data_*. */
enum rlimit_kind {
	RLIMIT_OF_VM,
	RLIMIT_OF_DATA,
	RLIMITS
};

/* Gauges that are summed. */
enum level {
	LEVEL_THREADS,
	LEVEL_SWAP,
	LEVEL_HUGETLB,
	LEVELS
};

enum {
	NOT_ALIVE = UINT32_MAX,
	MAX_MEMBERS = 1 << 24,
	MAX_EVENTS = 1000,
};

/* A counter of a process: its rise since the process's birth or first sample. */
struct counter {
	int64_t base, last;
	bool known;
};

/* I/O. The kernel's counters of a process include all of its threads, and all children that it
 * waited for and their children (fs/proc/base.c, do_io_accounting; kernel/exit.c,
 * wait_task_zombie). All of these are lower bounds, and so is the larger one of (counter -
 * before) and (own + dead). */
struct io_counter {
	/* its own: from its exit record, or the part that ended children do not explain */
	int64_t own;
	int64_t dead;          /* of its ended children, waited for or not */
	int64_t before;        /* upper bound of the counter's part that these children used before the run */
};

struct tree_counter {
	struct counter own;    /* its own */
	struct counter waited; /* of children that ended and were waited for, and of their children */
	/* last known use of its ended children; a parent that waits for none never has it in its
	 * counters */
	int64_t dead;
	int64_t reaped;        /* rusage when hiwater reaped it: includes all of the above, exactly */
};

/* A process, living or ended. */
struct member {
	struct process p;
	uint32_t live;         /* index in job->live, or NOT_ALIVE */
	bool ran_another;      /* it has executed another program since its birth */
	bool young;            /* its high-water mark and counters started within this run */
	struct tree_counter tree[TREES];
	int64_t faults_at_mark;/* own faults when the mark of its first program was last read */
	struct counter plain[PLAINS];
	struct io_counter io[PLAINS]; /* zero for those that are not I/O */
	struct maybe level[LEVELS];
	int64_t private_bytes; /* at the last PSS pass */
	struct maybe mark;     /* VmHWM of this program, as last read */
	uint64_t mark_ns;      /* its time; 0: never read */
	struct level_at {
		uint64_t time_ns;
		int64_t anon;
		/* anonymous memory at about half and a quarter of the run, or at the first
		 * sample */
	} mid, old;
	/* RLIMIT_AS and RLIMIT_DATA, and what they limit, of this program; unknown: no limit */
	struct maybe rlimit[RLIMITS], under_rlimit[RLIMITS];
	int64_t program_peak;  /* largest of rss and valid marks of this program */
	uint64_t last_seq, ended_seq; /* frames of its last memory reading and of its end */
};

/* The data of a living member that every sample needs. */
struct live {
	struct member *m;
	uint32_t id;
	int64_t rss, file;
	uint64_t rss_seq;      /* frame of rss and file */
	bool is_main, rss_known;
};

static inline int64_t anon_of(const struct live *l)
{
	return l->rss - (l->file < l->rss ? l->file : l->rss);
}

/* GPUs, or processes on them, in the order of birth. */
struct gpu_entities {
	struct gpu_entity *list;
	size_t n, cap;
	struct map places;
};

struct gpu_acc {
	enum metric metric;
	uint32_t id;
	struct acc acc;
};

/* The last valid PSS pass: private_part of whole is private. */
struct split_pass {
	bool valid;
	int64_t private_part[MEMORY_SETS], whole[MEMORY_SETS];
	bool lone[MEMORY_SETS]; /* it had one process only */
	uint64_t at_ns;
	/* Sums of the running pass. */
	int64_t adding[MEMORY_SETS], adding_private, main_private;
};

/* The split of the memory used at a sample: part of whole was private, as of at_ns. */
struct split {
	int64_t used, part, whole; /* whole 0: unknown */
	bool alone;            /* one process used it */
	bool lone;             /* the split is of one process */
	uint64_t at_ns;
	int64_t seen;          /* number of processes of the job until then */
};

/* How far the sum of RSS has risen, and had when a PSS pass ended (job_needs.c). */
struct growth {
	int64_t top, passed;
	unsigned still;          /* totals since top rose */
	unsigned tries, waited;  /* invalid passes at this level; totals since the last pass */
	bool asked_hwm;          /* for every hwm, in this sample */
	int64_t hwm_sum;         /* sum of RSS when that was so last */
};

struct job {
	struct job_config config;
	struct facts facts;
	struct parts *parts;   /* NULL: recorded as a whole */
	uint64_t now_ns, seq, memory_seq, memory_ns;
	/* bursts happened later: in the next total, in the last; UINT64_MAX: none */
	uint64_t burst_since_ns, proven_since_ns;
	int64_t page_bytes;    /* largest memory that a fault maps, huge pages excepted */
	struct memory *memory;
	struct growth growth;

	struct member **members; /* in the order of birth */
	size_t n_members, cap_members, n_ended;
	struct map by_id;      /* from id to the index in members */
	struct live *live;
	size_t n_live, cap_live, hint;
	struct member *main;
	int64_t seen, largest_peak;

	int64_t ended_total[TREES], ended_plain[PLAINS], reported[TREES], reported_plain[PLAINS];
	int64_t level_sum[LEVELS];
	size_t level_known[LEVELS];
	bool counters_read;    /* since the last total */
	bool memory_known;     /* at any time */
	bool tree_known, plain_known[PLAINS]; /* at any time */
	uint32_t rlimit_of[RLIMITS]; /* id of the process in the facts of that limit; 0: none yet */

	size_t n_faults_read;  /* members whose faults were read since the last total */
	int64_t main_burst;
	struct split_pass pass;
	struct split split[MEMORY_SETS]; /* of the last sample with a process */
	bool peak_lone[MEMORY_SETS]; /* the peak was of one process */
	uint64_t split_ns[MEMORY_SETS]; /* time of the pass used for the peak's split */
	bool ended;

	struct acc accs[METRIC_COUNT]; /* of host and job */
	struct gpu_entities gpus, gpu_users;
	struct gpu_acc *gpu_accs; /* of both */
	size_t n_gpu_accs, cap_gpu_accs;
	struct map gpu_places;
	struct timeline **timelines;
	size_t n_timelines, cap_timelines, timeline_restored;
	uint64_t timeline_span_ns; /* of a bucket; 0: there are none */

	struct event *events;  /* a ring of the last MAX_EVENTS */
	size_t n_events, cap_events, first_event;
	int64_t oom_events;
	struct mark marks[MARKS_KEPT]; /* a ring */
	size_t n_marks;        /* total number */
	struct phase *phases;
	size_t n_phases, cap_phases, n_open;
	struct map phase_places; /* from number to index */
	size_t *unsettled;     /* indices of open phases and of those that wait for values, in order */
	size_t n_unsettled, cap_unsettled;
	bool ranks_differ;     /* launchers below hiwater stated different numbers of ranks */
	bool parts_changed;    /* their energy or work, or a GPU ended; reset by phases_update_parts */
	struct series *series;
	size_t n_series, cap_series;
};

/* job_acc.c */

void acc_apply(const struct job *job, struct acc *acc, const struct reading *r, const struct frame *frame);
/* Adds the time up to time_ns to the integral of a gauge. */
void acc_advance(struct acc *acc, uint64_t time_ns);
/* The accumulator, created if it does not exist; NULL: out of memory, or the entity has none. */
struct acc *acc_make(struct job *job, enum metric metric, uint32_t id);

/* timeline.c */

/* Call before acc applies the value. */
void timeline_apply(
	struct job *job, const struct acc *acc, const struct reading *r, const struct frame *frame);
void timelines_end(struct job *job, uint64_t time_ns);
void timelines_done(struct job *job);

/* Updates the time in which a GPU's memory was known but the job's part of it was not. Call
 * before either acc is updated. */
void gpu_unlisted_advance(struct job *job, uint32_t id, uint64_t time_ns);
/* The gauges of a GPU or a process on one become invalid. */
void gpu_accs_end(struct job *job, enum entity entity, uint32_t id, uint64_t time_ns);

/* job_gpus.c */

int gpu_birth_apply(struct job *job, const struct birth *birth, uint64_t time_ns);
/* Sets the fact allocated_gpus by gpu_selection and the GPUs known so far (gpu_allocated.c). */
void gpus_allocate(struct job *job);
bool gpu_is_listed(const char *list, const char *uuid);
void gpu_end_apply(struct job *job, const struct end *end, uint64_t time_ns);
/* Applies a note about a device. */
void gpu_note_apply(struct job *job, const struct event *event);
/* The id of the entity in the job: a process that returns to a GPU has a new id but keeps its
 * entity. */
uint32_t gpu_first_id(struct job *job, enum entity entity, uint32_t id);
bool gpu_is_known(const struct job *job, enum entity entity, uint32_t id);
void gpu_entities_done(struct gpu_entities *all);

/* job_tree.c */

struct member *member_find(const struct job *job, uint32_t id);
/* The living member with that id; fast if called in the same order each time. */
struct live *live_find(struct job *job, uint32_t id);
struct member *member_make(struct job *job, uint32_t id, bool alive); /* NULL: out of memory */
void member_free(struct member *m);
int birth_apply(struct job *job, const struct birth *birth, uint64_t time_ns);
/* Drops the smallest ended members if there are too many. */
int members_limit(struct job *job);

int64_t counter_value(const struct counter *c);
/* Returns the increase of its value. */
int64_t counter_apply(struct counter *c, int64_t value, bool young);
/* The same for a counter k of m; plain_value includes its ended children. */
void plain_apply(struct member *m, enum plain k, int64_t value);
int64_t plain_value(const struct member *m, enum plain k);
bool plain_is_io(enum plain k);
/* Call when all children that ended before the counters were read are known. */
void io_settle(struct member *m);
/* Updates its own use in p, as far as known. */
void io_describe(struct member *m);
/* Use of the process and its ended descendants. */
int64_t tree_value(const struct tree_counter *t);
int64_t own_faults(const struct member *m); /* minor and major */

/* job_ends.c */

int end_apply(struct job *job, const struct end *end, uint64_t time_ns);

/* job_read.c */

int process_apply(struct job *job, const struct reading *r);
/* Its memory reached value at some time since its mark was last read. */
void mark_proves(struct job *job, struct member *m, int64_t value);

/* limits of processes, in job_read.c */

/* A limit or what it limits of m has changed. */
void rlimits_update(struct job *job, struct member *m);

/* job_events.c */

int event_apply(struct job *job, const struct event *event);

int mark_apply(struct job *job, const struct event *event);
void marks_done(struct job *job);

int series_apply(struct job *job, const struct series_value *value);
struct phase *phase_find(const struct job *job, uint32_t number);
/* Adds an open phase with a new number and takes ownership of its texts. Returns 0, -ENOMEM or
 * -EFBIG. */
int phase_add(struct job *job, const struct phase *phase);
void phase_done(struct phase *phase);
void phases_update_main(struct job *job, int64_t value, int64_t max);
void phases_close(struct job *job, uint64_t time_ns);

/* job_needs.c: a total and a PSS pass have ended. */
void needs_total(struct job *job, int64_t rss_sum);
void needs_pass_ended(struct job *job, bool is_valid);

/* phase_use.c */
void phase_use_begin(const struct job *job, struct phase *phase);
void phases_update_use(struct job *job, const struct frame *frame);
/* A value changed an accumulator. */
void phases_add_rise(struct job *job, const struct reading *r, const struct acc *before,
	const struct acc *now, const struct frame *frame);
void phases_update_parts(struct job *job);
/* Adds a phase that is open or waits for values. Returns 0 or -ENOMEM. */
int phase_unsettle(struct job *job, size_t place);
void phase_settle(struct job *job, struct phase *p);
/* The phase was closed; its energy may still become known. */
void phase_use_end(struct job *job, struct phase *phase);

/* job_events.c */

void events_done(struct job *job);
