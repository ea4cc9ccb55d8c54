/* SPDX-License-Identifier: MIT
 *
 * GPU performance monitoring, Hopper and later: what the SMs did between two samples. The value is the mean over the
 * time between them, so nothing between two looks is lost.
 */
#pragma once

#include "model/framebuf.h"
#include "source/nvidia/nvml/abi.h"

struct source;
struct nvml_gpu;

#define NVML_GPM_METRICS 12

/* Of one device. */
struct nvml_gpm {
	void *samples[2];      /* filled in turn */
	uint64_t taken_ns[2];  /* 0: not filled */
	unsigned next;
	bool asked, supported;
	bool noted;            /* that it tells nothing was told */
	int code;              /* why not */
	int codes[NVML_GPM_METRICS];          /* of each metric */
	uint64_t total_bytes[NVML_GPM_METRICS]; /* of those that are rates */
};

/* Takes a sample of each device that has GPM and tells what the last two say. */
void nvml_gpm_read(struct source *s, struct framebuf *out);

/* Whether metric of d is told by GPM: asks the device once whether it has it. */
bool nvml_gpm_gives(struct source *s, struct nvml_gpu *d, enum metric metric);

/* Whether GPM could tell of it at all. */
bool nvml_gpm_knows(enum metric metric);

/* Frees the samples. */
void nvml_gpm_drop(struct source *s, struct nvml_gpu *d);

/* A percentage as millionths; unknown for what is none. */
struct maybe nvml_gpm_ppm(double pct);
