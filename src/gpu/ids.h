/* SPDX-License-Identifier: MIT
 *
 * Identity of devices and processes on GPUs, and attribution of memory. Each source numbers devices
 * and processes by itself, from 1, and so does each restarted helper; a run has one id for each.
 * Frames of sources come in with their ids, and go out with the run's:
 *
 *   devices    are matched by UUID, else PCI address, else the driver's index. Where several
 *              sources know one device, the first to report a metric of it stays its provider.
 *   processes  are matched with members of the job by pid. When a helper ended, they are detached:
 *              each is reattached by the next helper's lists, or has ended if they do not contain
 *              it.
 *   counters   continue when a restarted helper that accumulates them itself starts at 0 again.
 *   memory     each list of processes adds up to the job's, others', and what no visible process
 *              accounts for.
 *
 * Bytes, and ns since the run's start. All output goes to a framebuf, which keeps its own error. A
 * table that cannot grow ignores new entries. One thread.
 */
#pragma once

#include "base/map.h"
#include "job/job.h"
#include "model/framebuf.h"
#include "source/source.h"

struct gpu_device;
struct gpu_user;

struct gpu_ids {
	const struct root *root;     /* set by its owner; the rest starts as 0 */
	struct gpu_device *devices;  /* index is id - 1 */
	struct gpu_user *users;      /* processes on devices */
	size_t n_devices, cap_devices, n_users, cap_users;
	uint32_t last_user;
	unsigned round;              /* number of helper restarts */
	struct map device_places, user_places; /* source << 32 | its id, to indices */
	bool listed;                 /* processes were listed since gpu_ids_total */
	uint64_t time_ns;            /* of the current frame */
};

void gpu_ids_done(struct gpu_ids *ids);

/* Appends frame to out with the run's ids: births of what is new; job_mem and the like where
 * processes were listed. members and job are NULL where there is no job. */
void gpu_ids_apply(struct gpu_ids *ids, const struct frame *frame, const struct processes *members,
	const struct job *job, struct framebuf *out);

/* No frame follows for now: pending figures of unattributed memory use the last value. */
void gpu_ids_flush(struct gpu_ids *ids, struct framebuf *out);

/* What the job uses over all devices, if that may have changed. */
void gpu_ids_total(struct gpu_ids *ids, const struct job *job, struct framebuf *out);

/* The helper was restarted: detaches processes, and sets devices' values to unknown. */
void gpu_ids_detach(struct gpu_ids *ids, struct framebuf *out);
/* No list of source (FRAME_SOURCE_COUNT: of any) will come: the processes that are still detached
 * have ended. */
void gpu_ids_drop_detached(struct gpu_ids *ids, enum frame_source source, struct framebuf *out);
/* The source is no longer read: ends its processes, and sets its values to unknown. */
void gpu_ids_forget(struct gpu_ids *ids, enum frame_source source, struct framebuf *out);

/* The run's id of a device that source calls id; 0: there is none. */
uint32_t gpu_ids_device(const struct gpu_ids *ids, enum frame_source source, uint32_t id);
