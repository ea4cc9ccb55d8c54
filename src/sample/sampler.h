/* SPDX-License-Identifier: MIT
 *
 * The clock: which source is read when. It owns the sources and the job, shows every frame to the seers, counts late
 * ticks and measures what hiwater itself costs. It never blocks and has no thread: its descriptor becomes readable
 * when there is something to do, then the owner calls sampler_step.
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
	uint64_t interval_ns;       /* 1 ms or more; 100 ms */
	uint64_t window_ns;         /* 1 s: how often what is slow is read */
	bool ours;                  /* hiwater started the job and is its subreaper */
	bool everyone;              /* all processes of the machine: of each what it holds, no totals over them */
	bool big_pss;               /* --pss: also processes that take over 20 ms */
	bool reset_mark;            /* attached: reset main's VmHWM at the start */
	enum sampler_cgroup cgroup;
	const char *cgroup_made;    /* --cgroup=new: the group made for this run; NULL */
	const char *cgroup_path;    /* attached to a group: which; NULL: main's */
	enum sampler_gpu gpu;
	const struct gpu_vendor *vendors; /* what may read GPUs; NULL: all that there are */
	uint64_t gpu_restart_ns;    /* 0: a second; tests do not wait for it */
	const char *workdir;
	frame_seer *see;            /* shown every frame, after the job has applied it */
	void *see_ctx;
};

struct sampler;

int sampler_new(const struct sampler_options *options, struct sampler **ret, struct err *err);
void sampler_free(struct sampler *s);

/* The job is about to be forked: whom the kernel has killed for lack of memory until now is none of its; who ends from
 * now on may be. */
void sampler_forking(struct sampler *s);

/* Begins with pid as main (with attach: again for every further pid). Reads everything once. */
int sampler_start(struct sampler *s, pid_t pid, struct err *err);

int sampler_fd(const struct sampler *s);     /* poll for POLLIN; the same one for life */
bool sampler_step(struct sampler *s);        /* what is due now: a tick, exit records. False: nothing was */
/* The kernel's exit records wait there (-1: none are to be had, or none matter now); sampler_receive takes them, so that it is known
 * when they came, and the next tick goes on with them. */
int sampler_records_fd(const struct sampler *s);
void sampler_receive(struct sampler *s);
/* An instant whose last minutes are worth keeping: an event, and the run stays. why: "out of memory: ..." is told as
 * that. */
void sampler_trigger(struct sampler *s, const char *why);
void sampler_now(struct sampler *s);         /* a frame at once (a mark, a phase's edge) */

/* Ticks come at another interval from now on (1 ms or more). Of a run that is recorded the interval is one: do not. */
int sampler_pace(struct sampler *s, uint64_t interval_ns);

/* Reads main's memory and its mark at this instant. False: the mark cannot be read. */
bool sampler_read_main(struct sampler *s);
/* Sets main's mark back to what is resident. Returns 0 or -errno. What it says must be read before: sampler_read_main. */
int sampler_reset_mark(struct sampler *s);

struct job *sampler_job(struct sampler *s);
uint64_t sampler_time(const struct sampler *s); /* ns since the run's start, now */

/* A frame made elsewhere (marks, series, alerts): applied and shown like any other. */
void sampler_push(struct sampler *s, const struct frame *frame);

/* A child of the recorder's own that is no part of the job. */
void sampler_ignore(struct sampler *s, pid_t pid);

/* A child of the recorder's own that it made itself and ends itself (it reads GPUs); 0: none. */
pid_t sampler_helper(const struct sampler *s);
/* Has the recorder children that it had before it started the job? */
bool sampler_has_elders(const struct sampler *s);

/* Main or an orphan became a zombie that is not yet reaped: reads the last of it. */
void sampler_zombie(struct sampler *s, pid_t pid);

/* hiwater reaped pid (main or an orphan): its end, with rusage in facts. */
void sampler_reaped(struct sampler *s, pid_t pid, const struct end *facts);

/* Looks for members that are new, now, and for those that are gone. */
void sampler_find(struct sampler *s);

/* True when a window has just closed: time to hand totals to the recording. Resets itself. */
bool sampler_window_closed(struct sampler *s);

/* Writes ticks, gaps and hiwater's own processor time and memory so far into the facts. */
void sampler_cost(struct sampler *s);

/* The run is over: last looks, what still lives is counted and named, own cost is written into the facts. */
void sampler_end(struct sampler *s);
