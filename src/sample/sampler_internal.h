/* SPDX-License-Identifier: MIT
 *
 * Private to sample/: what the clock, the passes and the end share.
 */
#pragma once

#include "gpu/gpu.h"
#include "gpu/ids.h"
#include "sample/sampler.h"

#define SAMPLER_SOURCES 3
#define SAMPLER_GROUPS  8
#define SAMPLER_IGNORED 8

/* A source in use and when each of its groups is due. */
struct plan {
	const struct source_ops *ops;
	struct source *source;           /* NULL: cannot be had, or not asked for */
	uint64_t next_ns[SAMPLER_GROUPS];
	uint64_t period_ns[SAMPLER_GROUPS];
};

/* How much PSS passes may cost (docs/memory.md): a credit at the start, then a share of one core. */
struct pss_budget {
	int64_t credit_ns;
	uint64_t paid_until_ns;          /* the credit grew up to here */
	uint64_t next_files_ns;          /* maps are read from then on */
};

/* Whom the kernel killed for lack of memory. */
struct oom {
	int log;                         /* descriptor; negative: none */
	int64_t told;                    /* kills in the job's cgroup that a trigger told of */
};

/* Members that a fault of their own ended; not the main process of a job that is ours, whose end is the job's. */
struct faults {
	uint32_t id;                     /* the first that nobody was told of yet; 0: none */
	int signal;
	uint64_t quiet_until_ns;
	unsigned told;
};

/* The helper that reads GPUs. */
struct sampler_gpus {
	struct gpu_helper *helper;              /* NULL: none */
	struct gpu_ids ids;
	bool begun;
	unsigned starts;                 /* helpers that were heard of */
	uint64_t roused_ns;              /* when the helper was told to go on, should it be stopped */
	uint64_t read_ns[FRAME_SOURCE_COUNT], hold_ns[FRAME_SOURCE_COUNT]; /* when memory of GPUs was, and how long that stands */
	bool xid_told;                   /* an error of a device was a trigger */
};

struct sampler {
	struct sampler_options options;
	struct source_env env;
	struct machine machine;
	struct job *job;
	struct processes *processes;
	struct taskstats *taskstats;     /* NULL: not permitted */
	struct plan plans[SAMPLER_SOURCES];
	struct cgroup_facts cgroup;
	struct early_counts early;       /* before the job, if it is ours; the cgroup's kills are told when that is known */
	bool counted_early;
	struct oom oom;
	struct faults faults;
	struct pss_budget pss;
	struct sampler_gpus gpus;
	struct framebuf buf, totals;
	struct end zombie;               /* what the zombie said before it was reaped */
	struct io_facts zombie_io;       /* what the last zombie said, main or an orphan */
	pid_t zombie_pid;
	pid_t ignored[SAMPLER_IGNORED];  /* told of before there was anything to leave them out of */
	size_t n_ignored;
	struct pid_list elders;          /* who was there before the job */
	const struct proc_lack *foreign;             /* why no process can be read; NULL: they can */
	int timer;
	uint64_t forking_boot_ns; /* just before the fork of the job that is ours; 0: not told of it */
	uint64_t start_boot_ns;
	uint64_t due_ns;                 /* the tick that the timer was set for, since the start */
	uint64_t last_tick_ns, last_frame_ns;
	uint64_t next_window_ns, next_full_look_ns, next_cgroup_check_ns;
	bool is_moving;                  /* a member's memory changed in the last sample */
	int64_t rss_sum_at_host;         /* of the members, when the machine's memory was read for it */
	uint64_t next_moved_ns, next_records_ns;
	uint64_t next_now_ns;            /* a look that somebody asks for is made from here on */
	uint64_t ticks, late, longest_gap_ns;
	uint64_t own_cpu_at_start_ns;
	bool window_closed, started, ended;
	unsigned showing; /* frames that see is being shown now */
	bool went_on;                    /* beyond main's end */
	unsigned triggers;
	unsigned n_attached;             /* those that were attached to, or joined later */
};

/* Shows what buf holds as a frame of source at time_ns, after the job has applied it; clears buf. */
void sampler_show(struct sampler *s, struct framebuf *buf, enum frame_source source, uint64_t time_ns, uint64_t hold_ns);

/* sampler.c: finds members, reads their memory and what of them, makes the totals. */
void sampler_look(struct sampler *s, uint64_t now_ns, enum processes_look how, unsigned what);
/* What the kernel told of ends since the last look; to be called behind a look. */
void sampler_records(struct sampler *s, uint64_t now_ns);
/* Reads and shows; with I/O, the ends that it may contain, too. */
void sampler_read(struct sampler *s, uint64_t now_ns, unsigned what);
/* Both 0: off. Times since the start; return 0 or -errno. */
int sampler_set_timer(struct sampler *s, uint64_t at_ns, uint64_t period_ns);
int sampler_start_clock(struct sampler *s);

/* sampler_oom.c: listens to the kernel's log; tells as a first reading how many kills the job's cgroup had before the job; at
 * the end, an event for each member that the log names. */
void sampler_oom_log(struct sampler *s);
void sampler_oom_cgroup(struct sampler *s);
void sampler_oom_end(struct sampler *s, uint64_t now_ns);

/* sampler_trigger, of an instant that is over. */
void sampler_trigger_at(struct sampler *s, uint64_t time_ns, const char *why);
/* sampler_trigger.c: of each frame, before the job has applied it; behind a look; at the end, behind sampler_oom_end. */
void sampler_trigger_note(struct sampler *s, const struct frame *frame);
void sampler_trigger_watch(struct sampler *s);
void sampler_trigger_end(struct sampler *s);

/* sampler_end.c: of each frame, before the job has applied it. */
void sampler_end_note(struct sampler *s, const struct frame *frame);

/* sampler_pss.c: makes a pass if the job needs one and the budget allows it. */
void sampler_pss(struct sampler *s, uint64_t now_ns);

/* sampler_plan.c: opens the sources, the machine's before main is looked at, the others after; reads what is due of
 * them (all: everything). */
void sampler_plan_open_host(struct sampler *s);
void sampler_plan_open(struct sampler *s);
void sampler_plan_pace(struct sampler *s);
void sampler_plan_read(struct sampler *s, uint64_t now_ns, bool all);
void sampler_plan_close(struct sampler *s);
/* Reads the machine's memory where the job's has moved since: the peaks of both belong together. */
void sampler_plan_moved(struct sampler *s, uint64_t now_ns);
/* Reads how many huge pages were given out until now: what fork families hold at most depends on it. */
void sampler_plan_pages(struct sampler *s, uint64_t now_ns);
/* Does the job still have its cgroup to itself? */
void sampler_check_cgroup(struct sampler *s);
/* Who came into the group that was attached to belongs to it, whoever started it (docker exec, a scheduler's next task). */
void sampler_join(struct sampler *s, uint64_t now_ns);

/* sampler_gpu.c: starts the helper when the first tick comes: a job that is shorter is not measured on GPUs, and pays
 * nothing for it. Then what the helper has told since the last tick. */
void sampler_gpu_step(struct sampler *s, uint64_t now_ns);
/* The run is over: the last reading is under way; then it is taken, and the helper ended. */
void sampler_gpu_ask_last(struct sampler *s);
void sampler_gpu_end(struct sampler *s, uint64_t now_ns);
void sampler_gpu_reaped(struct sampler *s, pid_t pid, int status);
void sampler_gpu_free(struct sampler *s);
