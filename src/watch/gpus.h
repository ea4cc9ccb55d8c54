/* SPDX-License-Identifier: MIT
 *
 * The GPUs of a job, as rules look at them.
 */
#pragma once

#include "job/job.h"

enum {
	GPUS_MOST = 64
};

struct gpus {
	size_t n;
	uint32_t ids[GPUS_MOST];
};

/* Those of which anything was read. */
struct gpus gpus_all(const struct job *job);
/* Those on which the job held memory; all where nothing tells whose memory is whose. */
struct gpus gpus_used(const struct job *job);

/* Mean of a ratio over time and over the GPUs that the job used, 0 to 1; negative: unknown. */
double gpus_mean(const struct job *job, enum metric metric);
double gpus_busy(const struct job *job);

/* What a gauge of one of them was on average, at most; what a counter rose by. Negative: unknown. */
double gpu_mean(const struct job *job, enum metric metric, uint32_t id);
double gpu_most(const struct job *job, enum metric metric, uint32_t id);
double gpu_rise(const struct job *job, enum metric metric, uint32_t id);
/* The driver's number of it; its place among those that are watched where that is unknown. */
unsigned gpu_number(const struct job *job, uint32_t id);
/* Memory of its own; negative: unknown, or it shares the host's. */
double gpu_memory(const struct job *job, uint32_t id);
