/* SPDX-License-Identifier: MIT
 *
 * What the files of job/ share; nobody else includes this.
 *
 *   job.c         life, applying frames, looking at it
 *   job_acc.c     accumulators
 *   course.c      how some metrics went over time
 *   job_tree.c    births, programs, who is kept
 *   job_ends.c    ends, and what an ended process used
 *   job_read.c    readings of processes
 *   memory/       the estimator of combined memory, used through memory.h alone
 *   job_total.c   totals as readings, the split into private and shared, the end of the run
 *   job_events.c  events, phases, series
 *   job_store.c   storing and restoring
 */
#pragma once

#include "base/map.h"
#include "job/job.h"
#include "job/memory/memory.h"

/* Counters that a parent takes over from children that it waited for. */
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

/* Gauges that are added up and have no rule of their own. */
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

/* A counter of a process: what it rose by since it was born or first seen. */
struct counter {
	int64_t base, last;
	bool known;
};

/* I/O: what the kernel says of a process is its own, of all its threads, and all of the children that it waited for and
 * of theirs (fs/proc/base.c, do_io_accounting; kernel/exit.c, wait_task_zombie). All of these are least figures, and so is
 * the larger of the counter less before, and own + dead. */
struct io_counter {
	int64_t own;           /* its own: of its exit record, or what no child that had ended can explain */
	int64_t dead;          /* of its children that ended, waited for or not */
	int64_t before;        /* of the counter at most: what those of them did before the run */
};

struct tree_counter {
	struct counter own;    /* its own */
	struct counter waited; /* what it says of children that ended and were waited for, and of theirs */
	int64_t dead;          /* what its children had used when they were last seen; a parent that waits for nobody
	                        * never tells of them */
	int64_t reaped;        /* what hiwater was told when it waited for it: all of the above, exactly */
};

/* A process that is kept, living or ended. */
struct member {
	struct process p;
	uint32_t live;         /* place in job->live, or NOT_ALIVE */
	bool ran_another;      /* a program after its first one */
	bool young;            /* all that its mark and counters say happened in this run */
	struct tree_counter tree[TREES];
	int64_t faults_at_mark;/* when its mark was read last, of its first program */
	struct counter plain[PLAINS];
	struct io_counter io[PLAINS]; /* zeros for those that are no I/O */
	struct maybe level[LEVELS];
	int64_t private_bytes; /* of the last PSS pass */
	struct maybe mark;     /* VmHWM of this program, as last read */
	uint64_t mark_ns;      /* when; 0: never */
	struct level_at {
		uint64_t time_ns;
		int64_t anon;
	} mid, old;            /* its anonymous memory at about half and a quarter of the run, or at its first look */
	int64_t program_peak;  /* largest of rss and counted marks of this program */
	uint64_t last_seq, ended_seq; /* frame in which its memory was read last; that told of its end */
};

/* What a living member needs at every sample. */
struct live {
	struct member *m;
	uint32_t id;
	int64_t rss, file;
	uint64_t rss_seq;      /* frame that brought them */
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

/* Of the last valid PSS pass: part of whole is private. */
struct split_pass {
	bool valid;
	int64_t private_part[MEMORY_SETS], whole[MEMORY_SETS];
	bool lone[MEMORY_SETS]; /* it was of one process */
	uint64_t at_ns;
	/* Of the pass that goes on. */
	int64_t adding[MEMORY_SETS], adding_private, main_private;
};

/* How what was used at a sample is split: part of whole was private, as of at_ns. */
struct split {
	int64_t used, part, whole; /* whole 0: unknown */
	bool alone;            /* one process used it */
	bool lone;             /* the split is of one process */
	uint64_t at_ns;
	int64_t seen;          /* processes of the job until then */
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
	uint64_t now_ns, seq, memory_seq, memory_ns;
	uint64_t burst_since_ns, proven_since_ns; /* bursts happened later: those of the next total, of the last; UINT64_MAX: none */
	int64_t page_bytes;    /* what a fault may bring, huge pages apart */
	struct memory *memory;
	struct growth growth;

	struct member **members; /* in the order of birth */
	size_t n_members, cap_members, n_ended;
	struct map by_id;      /* to places in members */
	struct live *live;
	size_t n_live, cap_live, hint;
	struct member *main;
	int64_t seen, largest_peak;

	int64_t gone[TREES], gone_plain[PLAINS], told[TREES], told_plain[PLAINS];
	int64_t level_sum[LEVELS];
	size_t level_known[LEVELS];
	bool counters_read;    /* since the last total */
	bool memory_known;     /* ever */
	bool tree_known, plain_known[PLAINS]; /* ever */

	size_t n_faults_read;  /* members whose faults were read since the last total */
	int64_t main_burst;
	struct split_pass pass;
	struct split split[MEMORY_SETS]; /* of the last sample that had a process */
	bool peak_lone[MEMORY_SETS]; /* the peak was of one process */
	uint64_t split_ns[MEMORY_SETS]; /* when the pass was made by which the peak is split */
	bool ended;

	struct acc accs[METRIC_COUNT]; /* of host and job */
	struct gpu_entities gpus, gpu_users;
	struct gpu_acc *gpu_accs; /* of both */
	size_t n_gpu_accs, cap_gpu_accs;
	struct map gpu_places;
	struct course **courses;
	size_t n_courses, cap_courses, course_restored;
	uint64_t course_span_ns; /* of a bucket; 0: there are none */

	struct event *events;  /* a ring of the last MAX_EVENTS */
	size_t n_events, cap_events, first_event;
	int64_t oom_events;
	struct mark marks[MARKS_KEPT]; /* a ring */
	size_t n_marks;        /* all that were taken */
	struct phase *phases;
	size_t n_phases, cap_phases, n_open;
	struct map phase_places; /* by number */
	size_t *unsettled;     /* places of phases, those that are open among them, in order: all that a reading concerns */
	size_t n_unsettled, cap_unsettled;
	bool part_rose;        /* energy or work of phases, or a GPU ended; until phases_update_parts */
	struct series *series;
	size_t n_series, cap_series;
};

/* job_acc.c */

void acc_take(const struct job *job, struct acc *acc, const struct reading *r, const struct frame *frame);
/* Brings the integral of a gauge up to time_ns. */
void acc_advance(struct acc *acc, uint64_t time_ns);
/* The accumulator, made if it is not there; NULL without memory, or for what accumulates nothing. */
struct acc *acc_make(struct job *job, enum metric metric, uint32_t id);

/* course.c */

/* Before acc takes the reading. */
void course_take(struct job *job, const struct acc *acc, const struct reading *r, const struct frame *frame);
void courses_end(struct job *job, uint64_t time_ns);
void courses_done(struct job *job);

/* Brings the time in which a GPU's memory was known and the job's part of it was not up to time_ns, before either acc is. */
void gpu_unlisted_advance(struct job *job, uint32_t id, uint64_t time_ns);
/* The gauges of a GPU or a process on one stand no longer. */
void gpu_accs_end(struct job *job, enum entity entity, uint32_t id, uint64_t time_ns);

/* job_gpus.c */

int gpu_birth_take(struct job *job, const struct birth *birth, uint64_t time_ns);
void gpu_end_take(struct job *job, const struct end *end, uint64_t time_ns);
/* What a note says of a device. */
void gpu_note_take(struct job *job, const struct event *event);
/* The number under which the job knows it: a process that comes back has another one than before. */
uint32_t gpu_first_id(struct job *job, enum entity entity, uint32_t id);
bool gpu_is_known(const struct job *job, enum entity entity, uint32_t id);
void gpu_entities_done(struct gpu_entities *all);

/* job_tree.c */

struct member *member_find(const struct job *job, uint32_t id);
/* The living one of that id; cheap when asked in the order of the last time. */
struct live *live_find(struct job *job, uint32_t id);
struct member *member_make(struct job *job, uint32_t id, bool alive); /* NULL: -ENOMEM */
void member_free(struct member *m);
int birth_take(struct job *job, const struct birth *birth, uint64_t time_ns);
/* Drops the smallest of the ended where there are too many. */
int members_limit(struct job *job);

int64_t counter_value(const struct counter *c);
/* Returns what its value rose by. */
int64_t counter_take(struct counter *c, int64_t value, bool young);
/* The same for a counter of m that its parent may be told of; the second one with what its ended children did. */
void plain_take(struct member *m, enum plain k, int64_t value);
int64_t plain_value(const struct member *m, enum plain k);
bool plain_is_io(enum plain k);
/* Every child that ended before the counters were read has been told of. */
void io_settle(struct member *m);
/* What is its own, as far as that is known. */
void io_describe(struct member *m);
/* All that it and its ended descendants used. */
int64_t tree_value(const struct tree_counter *t);
int64_t own_faults(const struct member *m); /* minor and major */

/* job_ends.c */

int end_take(struct job *job, const struct end *end, uint64_t time_ns);

/* job_read.c */

int process_take(struct job *job, const struct reading *r);
/* It was value bytes large at some time since its mark was read last. */
void mark_proves(struct job *job, struct member *m, int64_t value);

/* job_events.c */

int event_take(struct job *job, const struct event *event);

/* job_marks.c */

int mark_take(struct job *job, const struct event *event);
void marks_done(struct job *job);

int series_take(struct job *job, const struct series_value *value);
struct phase *phase_find(const struct job *job, uint32_t number);
/* Adds one that is open, of a number that none has yet, and takes its texts. Returns 0, -ENOMEM or -EFBIG. */
int phase_add(struct job *job, const struct phase *phase);
void phase_done(struct phase *phase);
void phases_see_main(struct job *job, int64_t value, int64_t max);
void phases_close(struct job *job, uint64_t time_ns);

/* job_needs.c: a total and a PSS pass have ended. */
void needs_total(struct job *job, int64_t rss_sum);
void needs_pass_ended(struct job *job, bool is_valid);

/* phase_use.c */
void phase_use_begin(const struct job *job, struct phase *phase);
void phases_see_use(struct job *job, const struct frame *frame);
/* A reading changed an accumulator. */
void phases_see_rise(struct job *job, const struct reading *r, const struct acc *before, const struct acc *now, uint64_t hold_ns);
void phases_update_parts(struct job *job);
/* It is open, or waits for readings. Returns 0 or -ENOMEM. */
int phase_unsettle(struct job *job, size_t place);
void phase_settle(struct job *job, struct phase *p);
/* Nothing of it is open any more; its energy may still become known. */
void phase_use_end(struct job *job, struct phase *phase);

/* job_events.c */

void events_done(struct job *job);
