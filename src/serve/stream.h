/* SPDX-License-Identifier: MIT
 *
 * The last values, and the last minutes of some, of what one recorder measures: the machine and its
 * GPUs (serve's own recorder), or one job (a recording that grows). It is built from frames alone. A
 * value is valid as long as its frame says; what is older is left out of every answer, never
 * repeated. All times are CLOCK_BOOTTIME in nanoseconds. The caller locks.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/internal.h"
#include "serve/ring.h"

/* The values whose last minutes are kept. CPU is made of counters, in cores. */
enum kept {
	KEPT_HOST_RAM,
	KEPT_HOST_CPU,
	KEPT_JOB_RAM,
	KEPT_JOB_CPU,
	KEPT_JOB_GPU_MEM,
	KEPT_GPU_MEM,
	KEPT_GPU_SM,
	KEPT_GPU_OCCUPANCY,
	KEPT_GPU_DRAM,
	KEPT_GPU_BUSY,
	KEPT_GPU_POWER,
	KEPT_COUNT
};

enum {
	METRICS_MOST = 256
};

/* The machine, the job, or a GPU. */
struct thing {
	enum hiw_entity entity;
	uint32_t id;
	char *name, *uuid, *vendor, *driver, *instance_of; /* of a GPU; else NULL */
	struct hiw_maybe index, memory_bytes;
	struct hwi_last last[METRICS_MOST];   /* by number of the metric */
	uint64_t at_ns[METRICS_MOST], until_ns[METRICS_MOST];
	struct ring rings[KEPT_COUNT];        /* of its entity's */
	int64_t cpu_ns;                       /* user and system time so far */
	uint64_t cpu_at_ns;                   /* 0: not read yet */
};

/* A process on a GPU. */
struct gpu_user {
	uint32_t id, gpu;
	struct hiw_maybe pid, uid, memory;
	uint64_t until_ns;       /* memory is valid until then */
};

/* What frames came from: "host", "nvml". */
struct origin {
	const char *name;        /* static */
	uint64_t at_ns;          /* of its last frame */
	uint64_t hold_ns;        /* the shortest validity that it gave */
};

struct stream {
	uint64_t start_ns;       /* of the recorder */
	uint64_t window_ns;      /* how much of the past is kept */
	uint64_t slack_ns;       /* of a recording: how long after its end a window may be read */
	uint64_t generation;     /* grows with each frame */
	uint64_t at_ns;          /* time of the last frame; 0: none */
	struct thing host, job;
	struct thing **gpus;
	size_t n_gpus, cap_gpus;
	struct gpu_user *users;
	size_t n_users, cap_users;
	struct origin origins[8];
	size_t n_origins;
	char gpu_note[256];      /* the last note on GPUs as a whole: why they cannot be read */
};

/* Call it once, before any thread. */
void stream_prepare(void);

void stream_init(struct stream *s, uint64_t start_ns, uint64_t window_ns);
void stream_done(struct stream *s);

/* A hiw_frame_fn; ctx is the stream. */
void stream_see(void *ctx, const struct hiw_frame *frame);

/* The number of a metric, which must exist. */
unsigned metric_of(enum hiw_entity entity, const char *name);

/* The value of a metric now; unknown if it is too old. */
struct hiw_maybe thing_value(const struct thing *t, unsigned metric, uint64_t now_ns);
struct spread thing_spread(const struct thing *t, enum kept kept, uint64_t span_ns, uint64_t now_ns);
/* The values that are valid now, by number of the metric. */
void thing_last(const struct thing *t, uint64_t now_ns, struct hwi_last ret[METRICS_MOST]);

/* Does the source still send frames? */
bool origin_is_up(const struct origin *o, uint64_t now_ns);
/* "0", or of a MIG instance "0.2", as in hiwater gpus. */
void gpu_number(const struct stream *s, const struct thing *gpu, char *buf, size_t size);
