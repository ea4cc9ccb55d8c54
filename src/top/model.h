/* SPDX-License-Identifier: MIT
 *
 * What the live view knows: everything that has figures, made by taking frames in and in no other way, so that a machine,
 * a job and a replay are shown by the same code. Texts in it are harmless to a terminal.
 */
#pragma once

#include <hiwater.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "top/trail.h"

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

/* One metric of somebody. */
struct figure {
	bool known, has_rate;
	int64_t value, peak;     /* peak: the largest since it is looked at */
	double rate;             /* a counter's rise a second */
	uint64_t at_ns, until_ns;/* when it was read; how long it may stand */
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

/* Somebody or something that has figures. */
struct thing {
	enum hiw_entity entity;
	uint32_t id, parent, gpu, process;
	char *name, *command, *uuid, *instance_of;
	struct hiw_maybe pid, uid, index, memory_bytes;
	bool is_main, unified;
	bool has_sm;                /* busy is a GPU's SM activity; before, that some kernel ran */
	uint64_t born_ns;
	struct trail *mem, *busy;   /* GPUs */
	struct hiw_maybe gpu_mem, gpu_busy_ppm; /* processes, over all GPUs; as of model_settle */
	int64_t to_storage;         /* of what it wrote, as far as it is known */
	struct figure figures[FIGURES_MOST];
};

struct series_line {
	char name[40];
	double value;
	bool has_step, is_bytes, is_allocator; /* the last: of a framework, as FRAMEWORK/gpu0/... */
	int64_t step;
	struct trail trail;
};

struct event_line {
	uint64_t time_ns;
	char kind[16];
	char text[160];
};

struct model {
	bool utf8;
	bool machine;            /* no job: everybody */
	uint64_t now_ns;         /* time of the last frame */
	uint64_t frames;
	int metric[FIG_COUNT];   /* numbers; -1: this library has none of that name */
	unsigned first[5];       /* of each entity, its first metric's number */
	struct thing host, job;
	struct thing *cores;     /* 0: the first core; only live */
	size_t n_cores;
	struct thing **things;   /* processes, GPUs, processes on GPUs that live */
	size_t n, cap;
	struct map by_id;
	struct thing *gpus[GPUS_MOST]; /* those of them that are GPUs, in the order of their appearance */
	size_t n_gpus;
	struct series_line *series[SERIES_KEPT];
	size_t n_series;
	struct event_line events[EVENTS_KEPT]; /* a ring; the newest is events[(n_events - 1) % EVENTS_KEPT] */
	uint64_t n_events;
	char phases[PHASES_KEPT][PHASE_LEN]; /* open ones, outermost first */
	size_t n_phases;
	struct trail ram, cpu; /* bytes; cores */
	struct buf scratch;
};

/* Returns 0 or -ENOMEM. */
int model_init(struct model *m, bool machine, bool utf8);
void model_done(struct model *m);

/* Forgets everything: another time is gone to. */
void model_clear(struct model *m);

/* A hiw_seer; ctx is the model. */
void model_see(void *ctx, const struct hiw_frame *frame);

/* Private to model*.c: a series' newest value; text as a terminal may get it, cut to size. */
void model_take_value(struct model *m, const struct hiw_value *v, uint64_t time_ns);
void model_clean(struct model *m, const char *text, char *buf, size_t size);

/* A figure that is known now, NULL if it is not. */
const struct figure *model_figure(const struct model *m, const struct thing *thing, enum fig fig);
/* The same by a metric's number. */
const struct figure *model_metric(const struct model *m, const struct thing *thing, int metric);
/* Sum of the rises a second of two counters; false unless both are known. */
bool model_rate(const struct model *m, const struct thing *thing, enum fig a, enum fig b, double *ret);

struct thing *model_find(const struct model *m, enum hiw_entity entity, uint32_t id);
/* The job's RAM is known to have been so much, before what was taken in. */
void model_raise_ram(struct model *m, int64_t bytes);
/* Adds up over the GPUs what each process holds and does on them. */
void model_settle(struct model *m);
size_t model_processes(const struct model *m);
/* Does what is looked at use this GPU? A machine uses all of its own. */
bool model_uses(const struct model *m, const struct thing *gpu);
/* The GPU at a place in gpus, by the number that hiwater gpus has for it: whole and "0", of an instance instance and "0.1". */
void model_gpu_name(const struct model *m, size_t place, const char *whole, const char *instance, char buf[GPU_NAME]);
