/* SPDX-License-Identifier: MIT
 *
 * Private to gpu/: shared by a helper and its client, above all the memory page mapped before the
 * fork. The client can read on it what a stuck helper can no longer send.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/gpu.h"
#include "gpu/watchdog.h"

enum {
	GPU_SOURCES = 8,
	GPU_WHY = 320,
	GPU_ENDED = 320,
	GPU_CALLS = 160,
	GPU_FACTS = 1 << 15,
	GPU_MESSAGE = 256 << 10, /* maximum size of a message in bytes */
};

/* ---- the shared page: parts that are never written cost no memory ---------------------------- */

enum gpu_state {
	GPU_OPENING,
	GPU_OPEN,
	GPU_FAILED,             /* code and why have the reason */
	GPU_DONE,               /* the last read was sent, or the probe is complete */
};

/* The values known when a driver was called: used if that call does not return. */
struct gpu_last_frame {
	_Atomic uint32_t version;    /* odd: being written */
	_Atomic uint32_t size;       /* 0: no frame */
	_Alignas(16) unsigned char message[GPU_MESSAGE];
};

/* A source and its thread. */
struct gpu_slot {
	_Atomic int state;
	_Atomic uint64_t in_call_ns; /* since when it waits for its driver; 0: in no call */
	struct driver_call_trace call; /* the driver call in progress */
	_Atomic uint64_t due_ns;     /* when it will wake up; 0: not sleeping */
	_Atomic uint64_t spent_ppb;  /* share of a core, over the last seconds */
	int code;                    /* why it failed; written before state, like why */
	char why[GPU_WHY];
	struct gpu_last_frame last;
};

/* GPU_READ: the facts of the read in progress. */
struct gpu_facts {
	_Atomic uint32_t n;
	struct gpu_fact_value list[GPU_FACTS];
};

/* GPU_PROBE: what a source can read of a metric. */
struct gpu_answer {
	bool given, available;
	char how[GPU_WHY], why_not[GPU_WHY], remedy[GPU_WHY];
};

struct gpu_shared {
	struct gpu_slot slots[GPU_SOURCES];
	_Atomic uint64_t cpu_ns, rss_bytes;
	_Atomic int any_seen;
	_Atomic uint64_t interval_ns; /* GPU_SAMPLE; may change at any time */
	struct gpu_facts facts;
	/* Of the only source of this helper, valid once it has settled: */
	struct gpu_answer answers[METRIC_COUNT];
	struct source_cost costs[GPU_GROUPS];
};

/* ---- helper.c -------------------------------------------------------------------------------- */

/* Runs the helper, in the child of the fork. Ends when the client closes its end of the channel or
 * exits. */
_Noreturn void gpu_helper_main(const struct gpu_request *request, struct gpu_shared *shared, int channel,
	pid_t client);

/* ---- client.c: for read.c and probe.c, whose helpers have one source each -------------------- */

enum gpu_fate {
	GPU_RUNS,                /* it still runs; if the wait is over, its driver is slow */
	GPU_STUCK,               /* it has been in one driver call for too long */
	GPU_FINISHED,            /* its sources have nothing (more) to read */
	GPU_REFUSED,             /* a restarted helper could open no source */
	GPU_CRASHED,
	GPU_FATES
};

/* State of a helper; too_long_ns: a driver call of that length counts as stuck. A helper whose
 * channel ended is waited for, 20 ms at most. */
enum gpu_fate gpu_helper_fate(struct gpu_helper *g, uint64_t too_long_ns);
/* The state in words, for all requests: "NVML has not answered in 0.5 s: it is stuck in nvmlInit".
 * waited_ns: how long it was waited for. Adds a note if it was killed but has not exited.
 * GPU_FINISHED: "". */
const char *gpu_helper_explain(const struct gpu_helper *g, enum gpu_fate fate, uint64_t waited_ns,
	char text[GPU_ENDED]);

/* " in a call of NVML (nvmlDeviceGetUUID of GPU 1)": the calls in progress when a helper ended. */
const char *gpu_calls_in_progress(const struct gpu_request *request, const struct gpu_shared *shared,
	char text[GPU_CALLS]);

/* Waits until one of the helpers has a frame or ends, until until_ns or for 0.1 s at most. */
void gpu_helper_poll(struct gpu_helper *const *list, unsigned n, uint64_t until_ns);
/* GPU_READ: requests another read. */
void gpu_helper_request_read(struct gpu_helper *g);
/* Plans the restart of a helper that ended unrequested: after a delay that doubles each time, five
 * times in a row at most; 10 minutes of operation reset the count. False: it was restarted too
 * often. */
bool gpu_helper_plan_restart(struct gpu_helper *g);
bool gpu_helper_will_restart(const struct gpu_helper *g);
/* Restarts it if that is due and the previous helper is gone. Returns 1, 0 (not now), or -errno: no
 * restart is planned any more. */
int gpu_helper_restart(struct gpu_helper *g);
struct gpu_shared *gpu_helper_shared(const struct gpu_helper *g);
/* How long its first source has been in one driver call; 0: in none. */
uint64_t gpu_helper_call_ns(const struct gpu_helper *g);

/* ---- transport.c: frames on the channel and on the shared page ------------------------------- */

struct gpu_sender {
	int channel;
	bool must_arrive;        /* every frame; otherwise readings are dropped if the channel is full */
	void *message;
	size_t cap;
};

/* Sends a frame, also an empty one, in messages of limited size. */
void gpu_send(struct gpu_sender *s, struct frame frame);
bool gpu_frame_is_empty(const struct frame *f);
/* Validates the message of that many bytes, which it modifies, and returns its frame; NULL:
 * damaged, or with entities other than GPUs. A driver's library may have overwritten memory of the
 * process that sent it. */
const struct frame *gpu_frame_check(void *message, size_t size);

/* In the helper: replaces the stored frame; or clears it when it is no longer needed. */
void gpu_last_frame_put(struct gpu_last_frame *page, const struct frame *frame);
void gpu_last_frame_drop(struct gpu_last_frame *page);
/* In the client: copies the message to ret (GPU_MESSAGE bytes), safe against a concurrent write;
 * each version once (*taken is the last one). Returns its size; 0: none. */
size_t gpu_last_frame_take(struct gpu_last_frame *page, uint32_t *taken, void *ret);
