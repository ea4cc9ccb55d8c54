/* SPDX-License-Identifier: MIT
 *
 * Private to gpu/: what a helper and its client have in common, above all the page of memory that
 * they share. It is mapped before the fork, and says what a process that is stuck cannot say any
 * more.
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
	GPU_MESSAGE = 256 << 10, /* bytes of a message at most */
};

/* ---- the shared page: parts of it that are never written cost nothing ------------------------ */

enum gpu_state {
	GPU_OPENING,
	GPU_OPEN,
	GPU_FAILED,             /* code and why say it */
	GPU_DONE,               /* the last reading is sent, or the probe is over */
};

/* A frame as it was known when the driver was called: of use where that call does not return. */
struct gpu_last_frame {
	_Atomic uint32_t version;    /* odd: it is being written */
	_Atomic uint32_t size;       /* 0: there is none */
	_Alignas(16) unsigned char message[GPU_MESSAGE];
};

/* A source and its thread. */
struct gpu_slot {
	_Atomic int state;
	_Atomic uint64_t in_call_ns; /* since when it waits for its driver; 0: it is in no call */
	struct source_asked call;    /* the driver call in progress */
	_Atomic uint64_t due_ns;     /* when it will wake up; 0: it does not sleep */
	_Atomic uint64_t spent_ppb;  /* of a core, over the last seconds */
	int code;                    /* why it failed; written before state, as why is */
	char why[GPU_WHY];
	struct gpu_last_frame last;
};

/* GPU_READ: the facts of the read in progress. */
struct gpu_facts {
	_Atomic uint32_t n;
	struct gpu_fact_told list[GPU_FACTS];
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
	/* Of its only source, valid once that has settled: */
	struct gpu_answer answers[METRIC_COUNT];
	struct source_cost costs[GPU_GROUPS];
};

/* ---- helper.c -------------------------------------------------------------------------------- */

/* Becomes the helper, in the child of the fork. Ends when the client's end of channel is closed, or
 * the client is gone. */
_Noreturn void gpu_helper_main(const struct gpu_request *request, struct gpu_shared *shared, int channel,
	pid_t client);

/* ---- client.c: for read.c and probe.c, whose helpers have one source each -------------------- */

enum gpu_fate {
	GPU_RUNS,                /* nothing has ended it; where it must stop waiting, its driver is slow */
	GPU_STUCK,               /* it has been in one driver call for too long */
	GPU_FINISHED,            /* its sources have nothing (more) to read */
	GPU_REFUSED,             /* a restarted one could open no source */
	GPU_CRASHED,
	GPU_FATES
};

/* What became of a helper; too_long_ns: a driver call of that length is stuck. One whose channel
 * ended is waited for, 20 ms at most. */
enum gpu_fate gpu_helper_fate(struct gpu_helper *g, uint64_t too_long_ns);
/* That in words, for all requests: "NVML has not answered in 0.5 s: it is stuck in nvmlInit".
 * waited_ns: how long it was waited for. If it was killed and is still there, that is said, too.
 * GPU_FINISHED: "". */
const char *gpu_helper_explain(const struct gpu_helper *g, enum gpu_fate fate, uint64_t waited_ns,
	char text[GPU_ENDED]);

/* " in a call of NVML (nvmlDeviceGetUUID of GPU 1)": where a helper was when it ended. */
const char *gpu_calls_in_progress(const struct gpu_request *request, const struct gpu_shared *shared,
	char text[GPU_CALLS]);

/* Waits until one of the helpers has a frame or ends; until_ns and a tenth of a
 * second at most. */
void gpu_helper_poll(struct gpu_helper *const *list, unsigned n, uint64_t until_ns);
/* GPU_READ: requests another read. */
void gpu_helper_request_read(struct gpu_helper *g);
/* Plans the restart of a helper that ended by itself: after a delay, then each time after twice as
 * long, five times in a row at most; one that has lived for 10 minutes starts over with that.
 * False: it was restarted too often. */
bool gpu_helper_plan_restart(struct gpu_helper *g);
bool gpu_helper_will_restart(const struct gpu_helper *g);
/* Restarts it if that is due and the one before it is gone. Returns 1, 0 (not now), or -errno: it
 * is not planned any more. */
int gpu_helper_restart(struct gpu_helper *g);
struct gpu_shared *gpu_helper_shared(const struct gpu_helper *g);
/* How long its first source has been in one driver call; 0: in none. */
uint64_t gpu_helper_call_ns(const struct gpu_helper *g);

/* ---- transport.c: frames on the channel and on the shared page ------------------------------- */

struct gpu_sender {
	int channel;
	bool must_arrive;        /* every frame; else readings are dropped if the channel is full */
	void *message;
	size_t cap;
};

/* Sends a frame, also an empty one, in messages that fit. */
void gpu_send(struct gpu_sender *s, struct frame frame);
bool gpu_frame_is_empty(const struct frame *f);
/* The frame in a message of that many bytes, which it modifies; NULL: damaged, or not about GPUs
 * alone. The process that sent it may have been written to by a driver's library. */
const struct frame *gpu_frame_check(void *message, size_t size);

/* In the helper: what is known now, in place of what was before; and that nothing is needed any
 * more. */
void gpu_last_frame_put(struct gpu_last_frame *page, const struct frame *frame);
void gpu_last_frame_drop(struct gpu_last_frame *page);
/* In the client: copies a message to ret (GPU_MESSAGE bytes), whoever writes meanwhile; each
 * version once (taken is the last). Returns its size; 0: there is none. */
size_t gpu_last_frame_take(struct gpu_last_frame *page, uint32_t *taken, void *ret);
