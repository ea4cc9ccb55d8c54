/* SPDX-License-Identifier: MIT
 *
 * The state of the live view: all entities with their figures, events and series. It is built from
 * frames only, so that a machine, a job and a replay are shown by the same code. All texts are
 * cleaned for the terminal.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "top/history_ring.h"

/* The metrics that are shown; FIGURES in model.c has their names. */
enum fig {
	HOST_MEM_USED,
	HOST_SWAP_USED,
	HOST_CPU_USER,
	HOST_CPU_SYSTEM,
	HOST_CPU_STEAL,
	HOST_CPU_IDLE,
	HOST_CPU_IOWAIT,
	HOST_DISK_READ,
	HOST_DISK_WRITE,
	HOST_NET_RX,
	HOST_NET_TX,
	HOST_ENERGY,
	JOB_RAM,
	JOB_SWAP,
	JOB_CPU_USER,
	JOB_CPU_SYSTEM,
	JOB_READ,
	JOB_WRITE,
	JOB_CANCELLED,
	PROC_RSS,
	PROC_HWM,
	PROC_SWAP,
	PROC_THREADS,
	PROC_CPU_USER,
	PROC_CPU_SYSTEM,
	PROC_READ,
	PROC_WRITE,
	PROC_CANCELLED,
	GPU_MEM,
	GPU_JOB_MEM,
	GPU_BUSY,
	GPU_SM,
	GPU_POWER,
	GPU_POWER_LIMIT,
	GPU_TEMP,
	GPU_ENERGY,
	ON_GPU_MEM,
	ON_GPU_BUSY,
	FIG_COUNT
};

/* One metric of an entity. */
struct figure {
	bool known, has_rate;
	int64_t value, peak;     /* peak: the largest since the view started */
	double rate;             /* increase of a counter per second */
	uint64_t at_ns, until_ns;/* time of the value; end of its validity */
};

enum {
	FIGURES_MOST = 64,
	CORES_MOST = 1024,
	GPUS_MOST = 64,
	EVENTS_KEPT = 200,
	SERIES_KEPT = 16,
	PHASES_KEPT = 8,
	PHASE_LEN = 64,
	GPU_NAME = 24
};

/* An entity with figures. */
struct thing {
	enum hiw_entity entity;
	uint32_t id, parent, gpu, process;
	char *name, *command, *uuid, *instance_of;
	struct hiw_maybe pid, uid, index, memory_bytes;
	bool is_main, unified;
	bool has_sm;                /* busy is SM activity; else the time in which some kernel ran */
	uint64_t born_ns;
	struct history_ring *mem, *busy;   /* GPUs */
	struct hiw_maybe gpu_mem, gpu_busy_ppm; /* processes: sums over all GPUs, set by model_settle() */
	int64_t to_storage;         /* written bytes without cancelled ones, as far as known */
	struct figure figures[FIGURES_MOST];
};

struct series_line {
	char name[40];
	double value;
	bool has_step, is_bytes, is_allocator; /* is_allocator: of a framework, FRAMEWORK/gpu0/... */
	int64_t step;
	struct history_ring history;
};

struct event_line {
	uint64_t time_ns;
	char kind[16];
	char text[160];
};

struct model {
	bool utf8;
	bool machine;            /* no job: system-wide */
	uint64_t now_ns;         /* time of the last frame */
	uint64_t frames;
	int metric[FIG_COUNT];   /* metric numbers; -1: unknown to this library */
	unsigned first[5];       /* number of the first metric of each entity */
	struct thing host, job;
	struct thing *cores;     /* cores[0]: the first core; live views only */
	size_t n_cores;
	struct thing **things;   /* existing processes, GPUs and processes on GPUs */
	size_t n, cap;
	struct map by_id;
	struct thing *gpus[GPUS_MOST]; /* the GPUs among them, in order of appearance */
	size_t n_gpus;
	struct series_line *series[SERIES_KEPT];
	size_t n_series;
	/* a ring; the newest is events[(n_events - 1) % EVENTS_KEPT] */
	struct event_line events[EVENTS_KEPT];
	uint64_t n_events;
	char phases[PHASES_KEPT][PHASE_LEN]; /* open ones, outermost first */
	size_t n_phases;
	struct history_ring ram, cpu; /* bytes; cores */
	struct buf scratch;
};

/* Returns 0 or -ENOMEM. */
int model_init(struct model *m, bool machine, bool utf8);
void model_done(struct model *m);

/* Removes everything, before a move in time. */
void model_clear(struct model *m);

/* Applies a frame. A hiw_frame_fn; ctx is the model. */
void model_see(void *ctx, const struct hiw_frame *frame);

/* Private to model.c: applies a value of a series; cleans a text for the terminal and cuts it to
 * size. */
void model_apply_value(struct model *m, const struct hiw_value *v, uint64_t time_ns);
void model_clean(struct model *m, const char *text, char *buf, size_t size);

/* The figure; NULL if it is unknown now. */
const struct figure *model_figure(const struct model *m, const struct thing *thing, enum fig fig);
/* The same by a metric's number. */
const struct figure *model_metric(const struct model *m, const struct thing *thing, int metric);
/* Sum of the rates of two counters; false unless both are known. */
bool model_rate(const struct model *m, const struct thing *thing, enum fig a, enum fig b, double *ret);

struct thing *model_find(const struct model *m, enum hiw_entity entity, uint32_t id);
/* Raises the peak of the job's RAM to at least bytes, known from before the applied frames. */
void model_raise_ram(struct model *m, int64_t bytes);
/* Sums the memory and activity of each process over all GPUs. */
void model_settle(struct model *m);
/* Number of processes. */
size_t model_processes(const struct model *m);
/* Does the job use this GPU? A machine uses all of its GPUs. */
bool model_uses(const struct model *m, const struct thing *gpu);
/* Name of gpus[place] by its number in hiwater gpus: whole and "0"; of an instance, instance and
 * "0.1". */
void model_gpu_name(
	const struct model *m, size_t place, const char *whole, const char *instance, char buf[GPU_NAME]);
