/* SPDX-License-Identifier: MIT
 *
 * The GPUs of a job and their figures, as rules need them. Functions that return a double return a
 * negative number for an unknown value.
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

/* The job's GPUs (job_gpu_counts) of which any metric was read: of a divided GPU its instances; no NPUs. */
struct gpus gpus_all(const struct job *job);
/* GPUs on which the job used memory; all of them where memory cannot be attributed to processes. */
struct gpus gpus_used(const struct job *job);
/* Returns true if the list is empty, and appends that reason to text. */
bool gpus_none(const struct gpus *gpus, struct buf *text);

/* GPUs that the job used, and the GPUs to which used instances belong: clocks and power are figures
 * of the whole GPU. */
struct gpus gpus_boards(const struct job *job);

/* Mean of a ratio over time, 0 to 1. */
double gpu_share(const struct job *job, enum metric metric, uint32_t id);
/* Share of time in which some kernel ran; of MIG instances, for which no driver reports it, in
 * which their engine was active. */
double gpu_busy(const struct job *job, uint32_t id);

/* Mean and largest value of a gauge; increase of a counter. */
double gpu_mean(const struct job *job, enum metric metric, uint32_t id);
double gpu_most(const struct job *job, enum metric metric, uint32_t id);
double gpu_rise(const struct job *job, enum metric metric, uint32_t id);
/* Upper bound of the job's memory on it, growth while no process was listed included. */
double gpu_job_most(const struct summary *s, uint32_t id);
/* Peak memory in use on it, of all processes. */
double gpu_device_most(const struct summary *s, uint32_t id);
/* "GPU 0", "MIG 0.1": the driver's numbers; its place in gpus_all() where they are unknown. Returns
 * buf. */
char *gpu_name(const struct job *job, uint32_t id, char buf[UNITS_LEN]);
/* Adds its identity as evidence: "gpu", its number; of an instance "gpu_uuid". */
void gpu_evidence(const struct job *job, uint32_t id, struct finding *f);
/* "The GPU" where the job used one, its name where the job used several or an instance. */
const char *gpu_called(const struct job *job, uint32_t id, size_t used, char buf[UNITS_LEN]);
/* The same within a sentence: "the GPU". */
const char *gpu_called_within(const struct job *job, uint32_t id, size_t used, char buf[UNITS_LEN]);

/* GPUs for which a rule fires, the worst first. Rules judge each GPU: a mean would hide the one
 * that differs. */
struct gpus_ranked {
	size_t n;
	struct {
		uint32_t id;
		double bad;
	} list[GPUS_MOST];
};

void gpus_rank(struct gpus_ranked *ranked, uint32_t id, double bad);
/* Adds the figures of one GPU as evidence. */
typedef void gpu_put(const struct summary *s, uint32_t id, struct finding *f);
/* Adds the figures of the worst GPU and, if there are several, their number and the figures of
 * each. */
void gpus_evidence(const struct summary *s, const struct gpus_ranked *ranked, size_t used, gpu_put *put,
	struct finding *f);
/* Appends " The same applies to GPU 5 and GPU 6 (3 of 8)." if the list has more than the worst. */
void gpus_put_others(const struct job *job, const struct gpus_ranked *ranked, size_t used, struct buf *text);

/* Size of its own memory; negative also if it shares the host's. */
double gpu_memory(const struct job *job, uint32_t id);
