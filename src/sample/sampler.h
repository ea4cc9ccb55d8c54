/* SPDX-License-Identifier: MIT
 *
 * The sampling loop: decides which source is read when. It owns the sources and the job, passes
 * every frame to the job and to the callback, counts late samples and measures hiwater's own cost.
 * It never blocks and has no thread: its descriptor becomes readable when something is due, and the
 * owner then calls sampler_step.
 */
#pragma once

#include "base/err.h"
#include "base/root.h"
#include "job/job.h"
#include "model/frame.h"
#include "source/source.h"

enum sampler_cgroup {
	CGROUP_AUTO,
	CGROUP_NONE
};

enum sampler_gpu {
	GPU_AUTO,
	GPU_NONE
};

struct gpu_vendor; /* gpu.h */

struct sampler_options {
	const struct root *root;
	uint64_t interval_ns;       /* at least 1 ms; default 100 ms */
	uint64_t window_ns;         /* default 1 s: period of the slow groups */
	bool ours;                  /* hiwater started the job and is its subreaper */
	bool everyone;              /* all processes of the machine, each for itself, without totals */
	bool may_lack_clock;        /* without a timer, no samples are taken between start and end, instead of an
	                             * error */
	bool big_pss;               /* --pss: PSS passes also over processes that take more than 20 ms */
	bool reset_hwm;             /* attached: reset the VmHWM of the main process at the start */
	enum sampler_cgroup cgroup;
	const char *cgroup_made;    /* --cgroup=new: the cgroup created for this run; or NULL */
	bool whole_job;             /* attached to all processes of a scheduler's job on this node: tasks that
	                             * it starts through a daemon here are among them */
	const char *cgroup_path;    /* attached to this cgroup; NULL: that of the main process */
	enum sampler_gpu gpu;
	const struct gpu_vendor *vendors; /* the GPU backends; NULL: all */
	uint64_t gpu_restart_ns;    /* 0: 1 s; tests use less */
	const char *workdir;
	/* Bytes of hiwater's in the memory of a process (source.h); NULL: none. */
	uint64_t (*touched)(void *ctx, pid_t pid, uint64_t start_ticks);
	void *touched_ctx;
	frame_fn *see;              /* called with every frame after the job has applied it */
	void *see_ctx;
};

struct sampler;

int sampler_new(const struct sampler_options *options, struct sampler **ret, struct err *err);
void sampler_free(struct sampler *s);

/* Call just before the job is forked. OOM kills until now are not the job's; processes that end
 * from now on may be. */
void sampler_forking(struct sampler *s);

/* Starts with pid as the main process (with attach: again for each further pid) and takes the
 * first sample. Returns 0 or -errno with text. */
int sampler_start(struct sampler *s, pid_t pid, struct err *err);

int sampler_fd(const struct sampler *s);     /* poll for POLLIN; does not change; -1: no clock */
const char *sampler_clock_why(const struct sampler *s); /* why there is no clock; "": there is one */
bool sampler_step(struct sampler *s);        /* takes the sample that is due; false: nothing was due */
/* Readable when the kernel's exit records are pending; -1: not available, or not needed now.
 * sampler_receive receives them, so that their time is known, and the next sample applies them. */
int sampler_records_fd(const struct sampler *s);
void sampler_receive(struct sampler *s);
/* Records a trigger: an event whose surroundings stay in the recording at full rate and which
 * pins the run. A why that begins with "out of memory: " is reported as such. */
void sampler_trigger(struct sampler *s, const char *why);
/* Takes a sample at once (a mark, the start or end of a phase). */
void sampler_now(struct sampler *s);

/* This process was stopped and got SIGCONT: a gap that ends with the next sample has this cause. */
void sampler_continued(struct sampler *s);

/* Changes the interval (at least 1 ms). Must not be called for a run that is recorded, which has
 * one interval. */
int sampler_set_interval(struct sampler *s, uint64_t interval_ns);

/* Reads the main process's memory and its high-water mark now. False: the mark cannot be read. */
bool sampler_read_main(struct sampler *s);
/* Resets the main process's high-water mark to its resident size. Returns 0 or -errno. Call
 * sampler_read_main before, or the old mark is lost. */
int sampler_reset_hwm(struct sampler *s);

struct job *sampler_job(struct sampler *s);
uint64_t sampler_time(const struct sampler *s); /* now, in ns since the run's start */

/* Applies and shows a frame made by the caller (marks, series, alerts). */
void sampler_push(struct sampler *s, const struct frame *frame);

/* Excludes a child of the recorder from the job. */
void sampler_ignore(struct sampler *s, pid_t pid);

/* The child that reads GPUs, which the sampler starts and ends itself; 0: none. */
pid_t sampler_helper(const struct sampler *s);
/* True if the recorder had children before it started the job. */
bool sampler_has_preexisting(const struct sampler *s);

/* The main process or an orphan became a zombie: reads its last values before it is reaped. */
void sampler_zombie(struct sampler *s, pid_t pid);

/* hiwater reaped pid (the main process or an orphan): records its end, with its rusage in facts. */
void sampler_reaped(struct sampler *s, pid_t pid, const struct end *facts);

/* Searches for new and ended members now. */
void sampler_find(struct sampler *s);

/* True once after a window has closed: time to pass totals to the recording. */
bool sampler_window_closed(struct sampler *s);

/* Writes sample counts, gaps and hiwater's own CPU time and memory so far to the facts. */
void sampler_cost(struct sampler *s);

/* Ends the run: takes the last sample, counts and lists the processes still running, writes
 * hiwater's own cost to the facts. */
void sampler_end(struct sampler *s);
