/* SPDX-License-Identifier: MIT
 *
 * GPU performance monitoring (GPM), Hopper and later: activity of the SMs between two samples. A
 * value is the mean over the time between them, so no activity between two reads is missed.
 */
#pragma once

#include "model/framebuf.h"
#include "source/nvidia/nvml/abi.h"

struct source;
struct nvml_gpu;

#define NVML_GPM_METRICS 12

/* State of one device. */
struct nvml_gpm {
	/* The first two are filled in turn; the third begins the longer time over which expensive metrics are
	 * compared. */
	void *samples[3];
	uint64_t taken_ns[3];  /* 0: not filled */
	unsigned next;         /* of the two */
	bool is_probed, supported;
	bool noted;            /* the note that GPM is not available was sent */
	int code;              /* why it is not supported */
	int codes[NVML_GPM_METRICS];          /* of each metric */
	uint64_t total_bytes[NVML_GPM_METRICS]; /* of rates, accumulated */
};

/* Takes a sample of each device that supports GPM, and appends the means between the last two. */
void nvml_gpm_read(struct source *s, struct framebuf *out);

/* Does GPM report metric for d? The first call probes the device. */
bool nvml_gpm_reports(struct source *s, struct nvml_gpu *d, enum metric metric);

/* Is metric one that GPM can report? */
bool nvml_gpm_has_metric(enum metric metric);

/* Frees the samples. */
void nvml_gpm_drop(struct source *s, struct nvml_gpu *d);

/* A percentage as millionths; unknown if it is invalid. */
struct maybe nvml_gpm_ppm(double pct);
