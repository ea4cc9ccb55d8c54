/* SPDX-License-Identifier: MIT
 *
 * Reading GPUs. A driver's library may hang, crash, or keep its process from exiting; none of that
 * may reach hiwater or the job. So no source of GPUs is opened in hiwater itself: a helper
 * process, forked from it, opens and reads them, a thread each. There are three requests to a
 * helper:
 *
 *   GPU_SAMPLE  for `run`: one helper for all sources reads them at the rates of read_budget.h
 *               until the run ends
 *   GPU_READ    for `hiwater gpus`: a helper per source reads everything requested once, then once
 *               more per gpu_reader_read
 *   GPU_PROBE   for `doctor`: a helper per source probes everything once, and exits
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
	const char *label;       /* shown to users: "NVML" */
	const struct source_ops *fills; /* NULL, or the source whose devices it adds to and overrides */
	enum note_cause silent;  /* cause of the note if it does not answer */
};

/* Ends with a row without ops. */
extern const struct gpu_vendor gpu_vendors[];

/* Does this machine have a GPU (of NVIDIA's), with or without a driver? Reads files only, calls no
 * driver. */
bool gpu_is_present(const struct root *root);
bool gpu_is_of_nvidia(const struct root *root);

/* ---- a helper -------------------------------------------------------------------------------- */

enum gpu_task {
	GPU_SAMPLE,
	GPU_READ,
	GPU_PROBE
};

/* Scope of GPU_READ. */
struct gpu_wish {
	bool lists;              /* the processes on the devices */
	bool pairs;              /* values between two samples (SM activity): 100 ms longer at first */
	bool busy;               /* busy time, if it takes two samples */
	struct gpu_fact_set facts;
};

/* Everything it points to must stay valid and unchanged while the helper's handle exists. */
struct gpu_request {
	enum gpu_task task;
	const struct gpu_vendor *vendors; /* ends with a row without ops */
	unsigned n_vendors;          /* 0: all rows; else at most this many */
	const struct source_env *env; /* its root stays open in the helper */
	const struct gpu_wish *wish; /* GPU_READ */
	uint64_t interval_ns;        /* GPU_SAMPLE: the shortest interval between reads of a source */
	uint64_t restart_ns;         /* delay of the first restart; 0: 1 s */
};

struct gpu_helper;

/* Forks a helper. NULL with text: no source in the table, out of memory, or no process could be
 * started. */
struct gpu_helper *gpu_helper_start(const struct gpu_request *request, struct err *err);
/* Kills the helper if it still runs, without waiting for it. NULL is allowed. */
void gpu_helper_free(struct gpu_helper *g);

/* Readable when a frame is pending; -1: the helper has ended or was ended. */
int gpu_helper_fd(const struct gpu_helper *g);
pid_t gpu_helper_pid(const struct gpu_helper *g); /* 0: reaped */

struct gpu_status {
	unsigned starts;         /* a restarted helper has another pid and new device numbers */
	bool is_settled;         /* each source is open or has failed */
	unsigned n_open;
	bool saw_gpu;            /* gpu_is_present, in the helper */
	int code_not;            /* negative errno of the first source that could not be opened, or 0 */
	const char *why_not;     /* the same in words; "" */
	uint64_t cpu_ns;         /* of all helpers of this handle */
	uint64_t rss_bytes;      /* highest, beyond the memory shared with hiwater at the fork */
};
struct gpu_status gpu_helper_status(const struct gpu_helper *g);

/* The next pending frame, validated, with its source's own ids; valid until the next call. NULL:
 * none is pending. */
const struct frame *gpu_helper_frame(struct gpu_helper *g);

/* The last frame of a source that does not return: one that has been in one driver call for
 * silent_ns, or whose helper ended in the call (for a source being opened, only with silent_ns 0).
 * Each is returned once. */
const struct frame *gpu_helper_last_frame(struct gpu_helper *g, uint64_t silent_ns);

/* The caller reaped the helper. */
void gpu_helper_reaped(struct gpu_helper *g, int status);

/* Ends the helper: kills it and waits 20 ms at most. False: it could not be ended, being stuck in a
 * driver or frozen; one that is merely exiting slowly does not count. */
bool gpu_helper_end(struct gpu_helper *g);

/* Is a code_not a fault? A source without a device is none, nor is a library without its kernel
 * module. */
static inline bool gpu_is_fault(int code)
{
	return code < 0 && code != -ENOENT && code != -ENODEV && code != -ENXIO;
}

/* ---- GPU_SAMPLE: additional functions for a run ---------------------------------------------- */

/* Changes the interval from now on. */
void gpu_helper_set_interval(struct gpu_helper *g, uint64_t interval_ns);

/* Appends a note for each source that stopped answering or answers again, and for a helper that
 * ended; restarts one that ended after 1 s, a delay that doubles each time, five times in a row at
 * most. */
void gpu_helper_watch(struct gpu_helper *g, struct framebuf *out);

/* Is the source unable to do its last read: in a call that has not returned, or without a running
 * helper that has opened it? */
bool gpu_helper_is_cut_short(const struct gpu_helper *g, enum frame_source source);
/* Will the source not be read again in this run? */
bool gpu_helper_has_given_up(const struct gpu_helper *g, const struct source_ops *ops);

/* Requests a last read; waits for a pending frame, up to 40 ms after the request. False: no more
 * frames come. */
void gpu_helper_request_last(struct gpu_helper *g);
bool gpu_helper_await_last(struct gpu_helper *g);
/* The last gpu_helper_watch, with the number of silences per source; then gpu_helper_end, with a
 * note if the helper could not be ended. */
void gpu_helper_end_run(struct gpu_helper *g, struct framebuf *out);

/* ---- GPU_READ -------------------------------------------------------------------------------- */

struct gpu_reader;

/* Starts a helper per source; each begins its first read at once. env and wish must stay unchanged.
 * NULL with text: out of memory, or no process could be started. */
struct gpu_reader *gpu_reader_new(const struct gpu_vendor *vendors, const struct source_env *env,
	const struct gpu_wish *wish, struct err *err);
/* Ends the helpers, up to 20 ms each. NULL is allowed. */
void gpu_reader_free(struct gpu_reader *r);

/* Waits until all sources have answered, patience_ns at most, and applies their frames to now; from
 * the second call on it requests a read first. A source that does not answer is noted in now and
 * not read again; one whose helper crashed is retried later, a few times. Values from a helper's
 * first read stay until the next one. Returns 0; -ENODEV: the machine has no GPU; -ENXIO: it has
 * one, and none can be read; -ETIMEDOUT or -EIO: a source did not answer in time, or its helper
 * ended (now has the values of the others). All with text. */
int gpu_reader_read(struct gpu_reader *r, uint64_t patience_ns, struct gpus_now *now, struct err *err);

/* ---- GPU_PROBE ------------------------------------------------------------------------------- */

/* Reports every metric of GPUs and of processes on them, except derived ones; then, if
 * report_schedule is not NULL, how often a run with that interval would read each group. Blocks for
 * 30 s at most, and 10 s for one call that does not return. Returns 0 or -ENOMEM. */
int gpu_probe(const struct gpu_vendor *vendors, const struct source_env *env, uint64_t interval_ns,
	source_probe_fn *report, gpu_schedule_reporter *report_schedule, void *ctx);
