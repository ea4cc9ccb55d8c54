/* SPDX-License-Identifier: MIT
 *
 * GPUs are read by a process of the recorder's own, the helper: a library of a driver may hang, crash or keep its
 * process from ending, and none of that may reach the recorder or the job. This is the recorder's side of it: start it,
 * take its frames, see that it is silent, start it again where it was ended, end it or leave it behind.
 *
 * Nothing here blocks, but for gpu_await_last and gpu_end, each as long as it says. One thread.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "frame.h"
#include "framebuf.h"
#include "gpu/gpu_plan.h"
#include "source/source.h"

/* What the helper loads. Each has a thread of its own there. */
struct gpu_vendor {
	const struct source_ops *ops;
	const char *label;       /* for people: "NVML" */
	const struct source_ops *fills; /* NULL, or whose devices it tells more of: what it knows of a metric comes before theirs */
	enum note_cause silent;  /* what is missing by it where it does not answer */
};

/* Ends with a row without ops. */
extern const struct gpu_vendor gpu_vendors[];

/* What is to be read in a look that is asked for. */
struct gpu_wish {
	bool lists;              /* the processes on the devices */
	bool pairs;              /* what only two readings tell, such as SM activity: the first look takes 100 ms more */
	bool busy;               /* how busy a device is, where two readings are needed for that */
	struct gpu_fact_set facts;
};

struct gpu;

/* Forks the helper; env->root stays open in it. restart_ns: after how long one that was ended is started again (0: a
 * second). NULL: there is nothing to load, or no process for it (with text). */
struct gpu *gpu_start(const struct gpu_vendor *vendors, const struct source_env *env, uint64_t interval_ns,
	uint64_t restart_ns, struct err *err);
/* Another interval, from now on. */
void gpu_pace(struct gpu *g, uint64_t interval_ns);
/* Frees what the recorder holds; the helper is told to end, and killed where it was not. NULL is fine. */
void gpu_free(struct gpu *g);

int gpu_fd(const struct gpu *g); /* readable when a frame waits; -1: nothing comes any more */
pid_t gpu_pid(const struct gpu *g);

/* A frame that waits, made with ids of its source; valid until the next call. NULL: none waits. */
const struct frame *gpu_take(struct gpu *g);

/* The same of what a source had told when its driver was called: of one that has been silent_ns in that call, or whose helper
 * has ended in it; while it is being opened, for silent_ns 0 alone. Nothing else says it, unless the driver answers after all. */
const struct frame *gpu_take_so_far(struct gpu *g, uint64_t silent_ns);

/* Is it kept from its last reading: by a call that has not returned, since its helper is gone or does not run, or as the next one has
 * not opened it? */
bool gpu_is_cut_short(const struct gpu *g, enum frame_source source);

/* Puts a note into out for each source that does not answer any more, or does again, or has ended the helper. One that was
 * ended is started again, after a second, then each time after twice as long, five times in a row at most. */
void gpu_watch(struct gpu *g, struct framebuf *out);
/* The same for the last time: of a source that was silent again and again, how often. */
void gpu_watch_last(struct gpu *g, struct framebuf *out);

/* How many helpers there were; a new one has a pid of its own and numbers devices and processes from 1. */
unsigned gpu_starts(const struct gpu *g);

/* The helper was waited for by somebody else. */
void gpu_reaped(struct gpu *g, int status);
/* Waits for the helper, if it has ended. True once it is gone. */
bool gpu_reap(struct gpu *g);

/* Asks for a last reading. Then: waits until there is something to take, 40 ms after the question at most; false: nothing
 * more comes in time. */
void gpu_ask_last(struct gpu *g);
bool gpu_await_last(struct gpu *g);

/* Ends the helper and waits for that, 40 ms at most. False: it stays. */
bool gpu_end(struct gpu *g);

/* Did everything that could be asked answer yes or no? Then what came of it: */
bool gpu_is_settled(const struct gpu *g);
size_t gpu_n_open(const struct gpu *g);
bool gpu_is_given_up(const struct gpu *g, const struct source_ops *ops); /* this source is not asked in this run any more */
bool gpu_any_seen(const struct gpu *g);     /* the machine shows a GPU, whether or not a source can read it */
const char *gpu_why_not(const struct gpu *g); /* why the first one cannot; "" */
int gpu_code_not(const struct gpu *g);        /* the same as a negative errno; 0 */
/* A source that has nothing here is none that failed; nor is a library without its kernel module. */
static inline bool gpu_is_fault(int code)
{
	return code < 0 && code != -ENOENT && code != -ENODEV && code != -ENXIO;
}

/* gpu_probe.c: tells of every metric of GPUs and of processes on them, but those that are made of others, by asking each
 * source in a process of its own, all for 30 s at most, and one that does not answer a call for 10 s; then (plan NULL: not) how often a run of that interval would read what.
 * Returns 0 or -ENOMEM. */
int gpu_probe(const struct gpu_vendor *vendors, const struct source_env *env, uint64_t interval_ns, source_prober *tell,
	gpu_planner *plan, void *ctx);

/* What the helper has cost so far. */
uint64_t gpu_cpu_ns(const struct gpu *g);
uint64_t gpu_rss_bytes(const struct gpu *g);  /* beyond what it shares with the recorder since the fork */
