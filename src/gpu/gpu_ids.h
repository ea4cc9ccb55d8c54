/* SPDX-License-Identifier: MIT
 *
 * Who is who on the GPUs: sources number devices and processes each for itself, a run has one number for each. Several
 * sources may speak of one device; the first to give a metric of it goes on giving it. And what the lists of processes
 * add up to: the job's, that of others, what belongs to nobody who can be seen.
 */
#pragma once

#include "base/map.h"
#include "framebuf.h"
#include "job/job.h"
#include "source/source.h"

struct gpu_device;
struct gpu_user;

struct gpu_ids {
	const struct root *root;
	struct gpu_device *devices;  /* id - 1 is the place */
	struct gpu_user *users;      /* those that live */
	size_t n_devices, cap_devices, n_users, cap_users;
	uint32_t last_user;
	unsigned round;              /* so often all sources have begun anew */
	struct map device_places, user_places; /* source << 32 | its id, to places */
	bool listed;                 /* processes were, in the frame that was taken last */
	uint64_t time_ns;            /* of that frame, since the run's start */
};

void gpu_ids_done(struct gpu_ids *ids);

/* members and job are NULL where there is no job: nobody belongs to it. Puts frame into out with the run's ids; births of what is new, job_mem and the like where processes were listed. */
void gpu_ids_take(struct gpu_ids *ids, const struct frame *frame, const struct processes *members, const struct job *job,
	struct framebuf *out);

/* The looks are over for now: what waited for the next one to tell what is unattributed is told by the last. */
void gpu_ids_settle(struct gpu_ids *ids, struct framebuf *out);

/* All sources begin anew, with numbers of their own from 1: who was on the devices goes on where the next list says so, what was
 * known of devices is not any more, and their counters go on from where they were. */
void gpu_ids_begin_again(struct gpu_ids *ids, struct framebuf *out);

/* No list of source (FRAME_SOURCE_COUNT: of any) will come: whoever is awaited there since all began anew is not told of as still there. */
void gpu_ids_give_up(struct gpu_ids *ids, enum frame_source source, struct framebuf *out);

/* Nobody asks source any more: whoever it knew on the devices is not told of, and what it gave is unknown. */
void gpu_ids_forget(struct gpu_ids *ids, enum frame_source source, struct framebuf *out);

/* What the job holds over all devices, if that may have changed. */
void gpu_ids_total(struct gpu_ids *ids, const struct job *job, struct framebuf *out);

/* The run's id of a device that source calls id; 0: it has told of none. */
uint32_t gpu_ids_device(const struct gpu_ids *ids, enum frame_source source, uint32_t id);

size_t gpu_ids_count(const struct gpu_ids *ids); /* devices */
