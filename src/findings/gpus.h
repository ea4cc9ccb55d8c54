/* SPDX-License-Identifier: MIT
 *
 * The GPUs of a job, as rules look at them.
 */
#pragma once

#include "base/buf.h"
#include "base/units.h"
#include "summary/summary.h"

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
/* Are there none? Then text is why a rule says nothing. */
bool gpus_none(const struct gpus *gpus, struct buf *text);

/* Those that the job used, and of instances the GPUs that they are part of: clocks and power are theirs. */
struct gpus gpus_boards(const struct job *job);

/* Mean of a ratio over time, 0 to 1; negative: unknown. */
double gpu_share(const struct job *job, enum metric metric, uint32_t id);
/* That some kernel ran; of MIG instances, of which no driver tells it so, that their engine was active. */
double gpu_busy(const struct job *job, uint32_t id);

/* What a gauge of one of them was on average, at most; what a counter rose by. Negative: unknown. */
double gpu_mean(const struct job *job, enum metric metric, uint32_t id);
double gpu_most(const struct job *job, enum metric metric, uint32_t id);
double gpu_rise(const struct job *job, enum metric metric, uint32_t id);
/* What the job may have held of it at most, with what came while nobody was listed; negative: unknown. */
double gpu_job_most(const struct summary *s, uint32_t id);
/* What was in use on it at most, whoever held it, or -1. */
double gpu_device_most(const struct summary *s, uint32_t id);
/* "GPU 0", "MIG 0.1": by the driver's numbers; by its place among those that are watched where that is unknown. */
char *gpu_name(const struct job *job, uint32_t id, char buf[UNITS_LEN]);
/* Which it is, as evidence: "gpu", its number; of an instance "gpu_uuid". */
void gpu_evidence(const struct job *job, uint32_t id, struct finding *f);
/* "The GPU" where the job used one, its name where it used several or an instance. */
const char *gpu_called(const struct job *job, uint32_t id, size_t used, char buf[UNITS_LEN]);
/* The same within a sentence: "the GPU". */
const char *gpu_called_within(const struct job *job, uint32_t id, size_t used, char buf[UNITS_LEN]);

/* Those that a rule is about, the worst first. A mean over GPUs would hide the one that is unlike the others. */
struct gpus_ranked {
	size_t n;
	struct {
		uint32_t id;
		double bad;
	} list[GPUS_MOST];
};

void gpus_rank(struct gpus_ranked *ranked, uint32_t id, double bad);
/* The worst's figures and, where there are several, how many there are and the figures of each. put adds those of one. */
typedef void gpu_put(const struct summary *s, uint32_t id, struct finding *f);
void gpus_evidence(const struct summary *s, const struct gpus_ranked *ranked, size_t used, gpu_put *put, struct finding *f);
/* " So it is of GPU 5 and GPU 6 (3 of 8)." where there are others than the worst. */
void gpus_put_others(const struct job *job, const struct gpus_ranked *ranked, size_t used, struct buf *text);

/* Memory of its own; negative: unknown, or it shares the host's. */
double gpu_memory(const struct job *job, uint32_t id);
