/* SPDX-License-Identifier: MIT
 *
 * Private to src/sample: shared by the sampling loop, the PSS passes and the end of a run.
 */
#pragma once

#include "gpu/gpu.h"
#include "gpu/ids.h"
#include "sample/sampler.h"

#define SAMPLER_SOURCES 4
#define SAMPLER_GROUPS  8
#define SAMPLER_IGNORED 8

/* A source in use, and when each of its groups is due. */
struct plan {
	const struct source_ops *ops;
	struct source *source;           /* NULL: not available or not requested */
	uint64_t next_ns[SAMPLER_GROUPS];
	uint64_t period_ns[SAMPLER_GROUPS];
};

/* Budget of PSS passes (docs/memory.md): a credit at the start, then a share of one core. */
struct pss_budget {
	int64_t budget_ns;
	uint64_t paid_until_ns;          /* the credit includes the time up to here */
	uint64_t next_files_ns;          /* next time to read the maps */
};

/* OOM kills. */
struct oom {
	int log;                         /* descriptor; negative: none */
	int64_t reported;                    /* kills in the job's cgroup already reported by a trigger */
};

/* Members ended by a fault of their own, except the main process of a job that hiwater started:
 * its end is the job's. */
struct faults {
	uint32_t id;                     /* the first one not reported yet; 0: none */
	int signal;
	uint64_t quiet_until_ns;
	unsigned reported;
};

/* The helper that reads GPUs. */
struct sampler_gpus {
	struct gpu_helper *helper;              /* NULL: none */
	struct gpu_ids ids;
	bool begun;
	unsigned starts;                 /* number of helpers started so far */
	uint64_t resumed_ns;              /* time of the last SIGCONT to the helper */
	/* time of the last GPU memory, and its validity */
	uint64_t read_ns[FRAME_SOURCE_COUNT], hold_ns[FRAME_SOURCE_COUNT];
	bool xid_reported;                   /* an error of a device was a trigger */
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
	struct counters_before_fork early; /* before the job, if hiwater started it */
	bool counted_early;
	struct oom oom;
	struct faults faults;
	struct pss_budget pss;
	struct sampler_gpus gpus;
	struct framebuf buf, totals;
	struct end zombie;               /* the zombie's values, before it was reaped */
	struct io_facts zombie_io;       /* I/O of the last zombie, main process or orphan */
	pid_t zombie_pid;
	pid_t ignored[SAMPLER_IGNORED];  /* ignored before processes was created */
	size_t n_ignored;
	struct pid_list preexisting;     /* the recorder's children before the job */
	const struct proc_lack *foreign;             /* why no process can be read; NULL: they can */
	int timer;               /* -1: none (may_lack_clock) */
	char clock_why[160];     /* why there is none */
	uint64_t forking_boot_ns;        /* just before the job's fork; 0: not called */
	uint64_t start_boot_ns;
	uint64_t due_ns;                 /* time of the next sample, since the start */
	uint64_t last_sample_ns, last_frame_ns;
	uint64_t next_window_ns, next_full_search_ns, next_cgroup_check_ns;
	int64_t rss_sum_at_host;         /* the members' total when the machine's memory was read */
	uint64_t next_moved_ns, next_records_ns;
	uint64_t next_now_ns;            /* earliest time of the next sample on request */
	uint64_t n_samples, n_late, n_skipped, longest_gap_ns;
	uint64_t last_awake_ns;          /* clock_awake_ns at the last sample */
	const char *longest_gap_cause;
	bool was_continued;              /* hiwater got a SIGCONT since the last sample */
	uint64_t own_cpu_at_start_ns;
	bool window_closed, started, ended;
	unsigned showing; /* frames being shown now */
	bool outlived_main;              /* beyond the end of the main process */
	unsigned triggers;
	unsigned n_attached;             /* processes attached to, or joined later */
};

/* Makes a frame of source at time_ns from buf, applies it to the job, passes it to the callback,
 * and clears buf. */
void sampler_show(struct sampler *s, struct framebuf *buf, enum frame_source source, uint64_t time_ns,
	uint64_t hold_ns);

/* sampler.c: why no sample was taken for gap_ns, of which the machine ran for awake_ns: "suspended",
 * "stopped" or "busy". */
const char *sampler_gap_cause(uint64_t gap_ns, uint64_t awake_ns, bool was_continued);
/* sampler.c: finds members, reads their memory and the extra groups, computes the totals. */
void sampler_read_processes(struct sampler *s, uint64_t now_ns, enum processes_scan how, unsigned extra);
/* Applies the kernel's exit records; call after a search for members. */
void sampler_records(struct sampler *s, uint64_t now_ns);
/* Reads the groups what and shows the frame; with I/O, also the exit records of children that it
 * may include. */
void sampler_read(struct sampler *s, uint64_t now_ns, unsigned what);
/* Times since the start; both 0: off. Returns 0 or -errno. */
int sampler_set_timer(struct sampler *s, uint64_t at_ns, uint64_t period_ns);
int sampler_start_clock(struct sampler *s);

/* sampler_oom.c: opens the kernel's log; emits the OOM kills of the job's cgroup before the job
 * as its first value; at the end, emits an event for each member that the log names. */
void sampler_oom_log(struct sampler *s);
void sampler_oom_cgroup(struct sampler *s);
void sampler_oom_end(struct sampler *s, uint64_t now_ns);

/* sampler_trigger with an earlier time. */
void sampler_trigger_at(struct sampler *s, uint64_t time_ns, const char *why);
/* sampler_trigger.c: _note is called for each frame before the job applies it, _watch after each
 * sample, _end at the end after sampler_oom_end. */
void sampler_trigger_note(struct sampler *s, const struct frame *frame);
void sampler_trigger_watch(struct sampler *s);
void sampler_trigger_end(struct sampler *s);

/* sampler_end.c: called for each frame before the job applies it. */
void sampler_end_note(struct sampler *s, const struct frame *frame);

/* sampler_pss.c: makes a pass if the job needs one and the budget allows it. */
void sampler_pss(struct sampler *s, uint64_t now_ns);

/* sampler_plan.c: opens the host source before the main process is read, the others after it;
 * reads the groups that are due (all: every group). */
void sampler_plan_open_host(struct sampler *s);
void sampler_plan_open(struct sampler *s);
void sampler_plan_pace(struct sampler *s);
void sampler_plan_read(struct sampler *s, uint64_t now_ns, bool all);
void sampler_plan_close(struct sampler *s);
/* Reads the machine's memory if the job's has changed: their peaks are compared. */
void sampler_plan_moved(struct sampler *s, uint64_t now_ns);
/* Reads the number of huge pages allocated so far, on which the upper bound of fork families
 * depends. */
void sampler_plan_pages(struct sampler *s, uint64_t now_ns);
/* Updates whether the job has its cgroup to itself. */
void sampler_check_cgroup(struct sampler *s);
/* Adds new processes in the attached cgroup to the job, whichever process started them (docker
 * exec, a scheduler's next task). */
void sampler_join(struct sampler *s, uint64_t now_ns);

/* sampler_gpu.c: starts the helper at the first sample: shorter jobs are not measured on GPUs
 * and do not pay for it. Then applies the frames since the last sample. */
void sampler_gpu_step(struct sampler *s, uint64_t now_ns);
/* At the end of the run: requests the last values; then applies them and ends the helper. */
void sampler_gpu_request_last(struct sampler *s);
void sampler_gpu_end(struct sampler *s, uint64_t now_ns);
void sampler_gpu_reaped(struct sampler *s, pid_t pid, int status);
void sampler_gpu_free(struct sampler *s);
