/* SPDX-License-Identifier: MIT
 *
 * Shared by the sources of sysfs and DRM: their GPUs with files, births, sleep and loss, and the
 * processes on them. The GPU at index i has the id i + 1.
 */
#pragma once

#include "source/drm/card.h"
#include "source/drm/clients.h"
#include "source/drm/sysfs_values.h"
#include "source/drm/users.h"
#include "source/source.h"

struct drm_gpu {
	struct drm_files files;
	bool open, born, lost;
	bool unified;             /* no memory of its own, and its driver does not report how much
	                           * of the host's it uses */
	bool adds_host;           /* a process's host memory on it counts as its memory */
	bool no_users_noted;      /* a note that its processes cannot be listed was sent and not
	                           * revoked */
	bool asleep;              /* could not be read at the last read */
	char uuid[96], name[96];
	struct maybe memory_bytes;
};

struct drm_gpus {
	const struct source_env *env;
	const struct drm_figure *rows;
	size_t n_rows;
	bool (*is_ours)(const struct drm_card *card);
	/* Fills uuid, name, unified, adds_host, memory_bytes of a GPU that was found (again). */
	void (*describe)(const struct source_env *env, const struct drm_card *card, struct drm_gpu *gpu);
	struct drm_cards cards;
	struct drm_gpu *list;     /* DRM_CARDS of them */
	struct drm_clients *clients;
	struct drm_users users;
	uint64_t scanned_ns;
	uint64_t now_ns;          /* of this read */
};

/* env, rows, n_rows, is_ours and describe are set. Returns 0, -ENOENT without a GPU, or -errno. */
int drm_gpus_open(struct drm_gpus *g);
void drm_gpus_close(struct drm_gpus *g);

/* Scans rarely for new or returned GPUs; reports births that are not reported yet. */
void drm_gpus_refresh(struct drm_gpus *g, uint64_t now_ns, struct framebuf *out);

/* Whether GPU i may be read. If not (it sleeps, or is gone), reports its values as unknown. A GPU
 * that is gone is reported as lost and not read again until a scan finds it. */
bool drm_gpus_may_query(struct drm_gpus *g, size_t i, uint64_t now_ns, struct framebuf *out);

/* A note on GPU i, "gpu.memory: <its name> <message>". */
void drm_gpu_note(struct drm_gpus *g, size_t i, const char *about, enum note_cause cause, const char *message,
	uint64_t now_ns, struct framebuf *out);

/* Reports the values of the rows of group, each metric once. */
void drm_gpus_report_rows(struct drm_gpus *g, size_t i, unsigned group, struct framebuf *out);

/* Reports a list of the processes on all GPUs, or that there is none available. */
void drm_gpus_report_users(struct drm_gpus *g, const struct drm_use *uses, size_t n, struct framebuf *out);
void drm_gpus_report_no_users(struct drm_gpus *g, struct framebuf *out);

/* Reports a value. One that is unknown because the driver reports an impossible value gets a note,
 * once: found by drm_gpu_figure or by the caller (odd). */
void drm_gpu_report(
	struct drm_gpus *g, size_t i, struct framebuf *out, enum metric metric, struct maybe value);
void drm_gpu_set_impossible(struct drm_gpus *g, size_t i, enum metric metric);
/* Likewise for a value from the list of processes, which remains valid while the GPU sleeps. */
void drm_gpu_report_by_users(
	struct drm_gpus *g, size_t i, struct framebuf *out, enum metric metric, struct maybe value);
struct maybe drm_gpu_figure(const struct drm_gpus *g, size_t i, enum metric metric);

/* The share of time in which GPU i's busiest engine of a class worked, from its clients. Unknown if
 * some process cannot be read, as its clients would be missing. */
struct maybe drm_gpus_busy(const struct drm_gpus *g, size_t i, enum drm_class of);

/* Reports the facts of all (source.h). */
void drm_gpus_facts(
	const struct drm_gpus *g, const struct gpu_fact_set *wanted, source_fact_fn *report, void *ctx);

/* For probes: whether a metric was reported with a value; and the reason why not: sleep if all GPUs
 * sleep, else otherwise. */
bool drm_was_reported(const struct framebuf *out, enum metric metric);
const char *drm_gpus_sleep(const struct drm_gpus *g, const char *otherwise);
