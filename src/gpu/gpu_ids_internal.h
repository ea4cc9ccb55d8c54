/* SPDX-License-Identifier: MIT
 *
 * Private to gpu_ids.c and gpu_sums.c.
 */
#pragma once

#include "gpu/gpu_ids.h"

enum {
	GPU_TEXT = 96
};

/* What a process holds, on a device or in a sum; where some of it is unknown, at least that. */
struct amount {
	int64_t bytes;
	bool unknown;            /* some of it could not be read */
};

/* A counter over all helpers. One that begins below where it was has begun anew, and what it said first then is where it
 * goes on from, as after a sum of hiwater's own; one that does not has been counted on by the driver. */
struct going_on {
	int64_t last, plus;      /* as told; what is added */
	unsigned round;
};

struct gpu_device {
	char uuid[GPU_TEXT], pci[GPU_TEXT], parent[GPU_TEXT];
	struct maybe gpu_instance; /* of an instance: whose memory it shares */
	struct maybe index, memory_bytes;
	enum frame_source memory_source; /* whose word that is, as it was told last */
	bool unified;
	unsigned round;          /* the one in which a source told of it last */
	bool divided;            /* into MIG instances, which have the lists */
	bool parted;             /* an instance that is no more */
	bool was_listed;         /* at all */
	bool parts_listed;       /* one of its instances, in the frame at hand */
	struct amount ours, others; /* what the job and others held on it at the last list */
	struct maybe mem;
	bool listed;             /* in the frame at hand */
	struct amount visible;   /* at the last list, whoever holds it */
	struct maybe mem_then;   /* until unattributed is told: what mem was at the list */
	uint8_t giver[METRIC_COUNT]; /* source + 1 that gives it */
	bool known[METRIC_COUNT];
	struct going_on counters[METRIC_COUNT];
	unsigned summed[METRIC_COUNT]; /* the round, from 1, in which a note said that the counter is made of a gauge; 0: none did */
};

struct gpu_user {
	uint64_t key;
	uint32_t id, device, process;
	int32_t pid;             /* 0: unknown */
	bool visible;            /* somebody of that number is here */
	bool awaited;            /* all sources have begun anew: its key is nobody's until one of them tells of it again */
	struct gpu_process_birth birth;
	struct maybe mem;
};

/* ---- gpu_ids.c ------------------------------------------------------------------------------------------------------- */

/* u has left; the last one takes its place. */
void gpu_user_drop(struct gpu_ids *ids, struct gpu_user *u, struct framebuf *out);

/* ---- gpu_awaited.c ---------------------------------------------------------------------------------------------------- */

/* Whom a new list of the device does not tell of again has left it meanwhile. */
void gpu_awaited_drop(struct gpu_ids *ids, uint32_t device, struct framebuf *out);
/* source lists again: whoever was on a device that it does not know any more is on none. */
void gpu_awaited_look(struct gpu_ids *ids, enum frame_source source, struct framebuf *out);

/* ---- gpu_sums.c: what lists add up to ------------------------------------------------------------------------------- */

/* Was a process of the job still there when the frame at hand was read? It may be taken a while later. */
bool gpu_was_there(const struct gpu_ids *ids, const struct process *p);
void gpu_amount_add(struct amount *sum, struct maybe mem);
/* Where nothing is known of what there may be, that is no zero. */
void gpu_amount_put(struct framebuf *out, enum metric metric, uint32_t id, const struct amount *a);
/* Of a device whose processes were listed: the job's, that of others. */
void gpu_sum_device(const struct gpu_ids *ids, struct gpu_device *d, const struct job *job, struct framebuf *out);
/* Of a divided GPU one of whose instances was. */
void gpu_sum_parts(const struct gpu_ids *ids, struct gpu_device *d, struct framebuf *out);
void gpu_tell_unattributed(const struct gpu_ids *ids, struct gpu_device *d, struct framebuf *out);
