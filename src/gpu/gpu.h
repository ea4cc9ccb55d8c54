/* SPDX-License-Identifier: MIT
 *
 * Reading GPUs. A driver's library may hang, crash, or keep its process from exiting; none of that
 * may reach hiwater or the job. So no source of GPUs is opened in hiwater itself: a helper
 * process, forked from it, opens and reads them, a thread each. There are three requests to a
 * helper:
 *
 *   GPU_SAMPLE  for `run`: one helper for all sources reads them at the rates of read_budget.h
 *               until the run ends
 *   GPU_READ    for `hiwater gpus`: a helper per source reads everything wanted once, then once
 *               more per gpu_reader_read
 *   GPU_PROBE   for `doctor`: a helper per source tries everything once, and exits
 *
 * How it works: helper and client share a socket, for frames, and a page of memory
 * (gpu_internal.h), on which the helper writes its state, the driver call it is in, and the last
 * frame before that call: a helper that is stuck need not answer to be diagnosed. helper.c is the
 * process; client.c starts it, waits for it, ends it and words how it ended, whatever the request.
 * A helper that crashed is restarted with a growing delay; one that is stuck is killed, and left
 * behind where the kernel cannot end it.
 *
 * Times are nanoseconds; instants are CLOCK_BOOTTIME. Errors are negative errno values with a
 * text. Nothing blocks unless its comment says for how long. A handle belongs to one thread.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu/read_budget.h"
#include "model/frame.h"
#include "model/framebuf.h"
#include "source/source.h"

struct gpus_now;

/* ---- what reads GPUs ------------------------------------------------------------------------- */

struct gpu_vendor {
	const struct source_ops *ops;
	const char *label;       /* for people: "NVML" */
	const struct source_ops *fills; /* NULL, or the source whose devices it adds to, and overrides */
	enum note_cause silent;  /* what is missing where it does not answer */
};

/* Ends with a row without ops. */
extern const struct gpu_vendor gpu_vendors[];

/* Does this machine show a GPU (of NVIDIA's), with its driver or without? By files alone, no driver
 * is called. */
bool gpu_is_present(const struct root *root);
bool gpu_is_of_nvidia(const struct root *root);

/* ---- a helper -------------------------------------------------------------------------------- */

enum gpu_task {
	GPU_SAMPLE,
	GPU_READ,
	GPU_PROBE
};

/* What GPU_READ reads. */
struct gpu_wish {
	bool lists;              /* the processes on the devices */
	bool pairs;              /* what takes two readings (SM activity): 100 ms longer at first */
	bool busy;               /* how busy a device is, where that takes two readings */
	struct gpu_fact_set facts;
};

/* All that it points to stays as it is while the helper's handle lives. */
struct gpu_request {
	enum gpu_task task;
	const struct gpu_vendor *vendors; /* ends with a row without ops */
	unsigned n_vendors;          /* so many of them at most; 0: all */
	const struct source_env *env; /* its root stays open in the helper */
	const struct gpu_wish *wish; /* GPU_READ */
	uint64_t interval_ns;        /* GPU_SAMPLE: no source is read more often */
	uint64_t restart_ns;         /* delay of the first restart; 0: 1 s */
};

struct gpu_helper;

/* Forks a helper. NULL with text: no source in the table, out of memory, or no process could be
 * started. */
struct gpu_helper *gpu_helper_start(const struct gpu_request *request, struct err *err);
/* Kills the helper if it still runs, without waiting for it. NULL is fine. */
void gpu_helper_free(struct gpu_helper *g);

/* Readable when a frame waits; -1: the helper has ended or was ended. */
int gpu_helper_fd(const struct gpu_helper *g);
pid_t gpu_helper_pid(const struct gpu_helper *g); /* 0: it was waited for */

struct gpu_status {
	unsigned starts;         /* a restarted helper has another pid, and numbers devices anew */
	bool is_settled;         /* each source is open or has failed */
	unsigned n_open;
	bool saw_gpu;            /* gpu_is_present, as the helper saw it */
	int code_not;            /* why the first source could not be opened, a negative errno; 0 */
	const char *why_not;     /* the same in words; "" */
	uint64_t cpu_ns;         /* of all helpers of this handle */
	uint64_t rss_bytes;      /* beyond what was shared with hiwater at the fork, at its highest */
};
struct gpu_status gpu_helper_status(const struct gpu_helper *g);

/* The next frame that waits, checked, with its source's own ids; valid until the next call. NULL:
 * none waits. */
const struct frame *gpu_helper_frame(struct gpu_helper *g);

/* The last frame of a source that does not return: that has been in one driver call for silent_ns,
 * or whose helper ended in the call (while it is being opened: with silent_ns 0 alone). Each is
 * returned once. */
const struct frame *gpu_helper_last_frame(struct gpu_helper *g, uint64_t silent_ns);

/* The helper was waited for by somebody else. */
void gpu_helper_reaped(struct gpu_helper *g, int status);

/* Ends the helper: kills it and waits 20 ms at most. False: it stays behind, in a driver or frozen;
 * one that is merely busy giving back its memory does not count. */
bool gpu_helper_end(struct gpu_helper *g);

/* Is a code_not a fault? A source without a device here is none, nor is a library without its
 * kernel module. */
static inline bool gpu_is_fault(int code)
{
	return code < 0 && code != -ENOENT && code != -ENODEV && code != -ENXIO;
}

/* ---- GPU_SAMPLE: what a run needs beside that ------------------------------------------------ */

/* Another interval, from now on. */
void gpu_helper_set_interval(struct gpu_helper *g, uint64_t interval_ns);

/* Appends a note for each source that stopped answering or answers again, and for a helper that
 * ended; restarts one that ended after 1 s, then each time after twice as long, five times in a row
 * at most. */
void gpu_helper_watch(struct gpu_helper *g, struct framebuf *out);

/* Is the source kept from its last reading: in a call that has not returned, or without a helper
 * that runs and has opened it? */
bool gpu_helper_is_cut_short(const struct gpu_helper *g, enum frame_source source);
/* Will the source not be read any more in this run? */
bool gpu_helper_has_given_up(const struct gpu_helper *g, const struct source_ops *ops);

/* Requests a last reading; waits until there is something to take, up to 40 ms after the request.
 * False: nothing more comes. */
void gpu_helper_request_last(struct gpu_helper *g);
bool gpu_helper_await_last(struct gpu_helper *g);
/* The last gpu_helper_watch, with how often a source was silent; then gpu_helper_end, with a note
 * if the helper stays. */
void gpu_helper_end_run(struct gpu_helper *g, struct framebuf *out);

/* ---- GPU_READ -------------------------------------------------------------------------------- */

struct gpu_reader;

/* Starts a helper per source; they begin to read at once. env and wish stay as they are. NULL with
 * text: out of memory, or no process could be started. */
struct gpu_reader *gpu_reader_new(const struct gpu_vendor *vendors, const struct source_env *env,
	const struct gpu_wish *wish, struct err *err);
/* Ends the helpers, up to 20 ms each. NULL is fine. */
void gpu_reader_free(struct gpu_reader *r);

/* Waits until all sources have answered, patience_ns at most, and applies their frames to now; from
 * the second call on it requests a read first. A source that does not answer is noted in now and
 * not read any more; one whose helper crashed is read again later, a few times. What a source
 * reported in its helper's first read stays until the next one.
 * Returns 0; -ENODEV: the machine shows no GPU; -ENXIO: it shows one, and none can be read;
 * -ETIMEDOUT, or -EIO: a source did not answer in time, or its helper ended (now has what the
 * others reported). All with text. */
int gpu_reader_read(struct gpu_reader *r, uint64_t patience_ns, struct gpus_now *now, struct err *err);

/* ---- GPU_PROBE ------------------------------------------------------------------------------- */

/* Reports every metric of GPUs and of processes on them, except those made of others; then
 * (report_schedule not NULL) how often a run of that interval would read which group. Blocks for
 * 30 s at most, and 10 s for one call that does not return. Returns 0 or -ENOMEM. */
int gpu_probe(const struct gpu_vendor *vendors, const struct source_env *env, uint64_t interval_ns,
	source_prober *report, gpu_schedule_reporter *report_schedule, void *ctx);
