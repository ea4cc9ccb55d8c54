/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the amdgpu source.
 */
#pragma once

#include "source/drm/amdgpu/kfd.h"
#include "source/drm/amdgpu/metrics.h"
#include "source/drm/gpus.h"

/* Bits of the source's groups. */
enum {
	AMDGPU_MEMORY = 1 << 0,
	AMDGPU_SENSORS = 1 << 1,
	AMDGPU_PROCESSES = 1 << 2,
};

enum amdgpu_reason {
	REASON_POWER,
	REASON_THERMAL,
	REASON_HW,
	REASON_OTHER,
	REASONS
};

/* State of a GPU besides its files. */
struct amdgpu_state {
	bool seen;                   /* a firmware table was read before */
	uint64_t time_ns;            /* when */
	struct amdgpu_metrics last;
	struct drm_counter energy, corrected, uncorrected;
	int64_t throttled_ns[REASONS];
};

struct source {
	struct drm_gpus gpus;
	struct amdgpu_state more[DRM_CARDS];
	struct kfd kfd;
	int kfd_error;               /* 0, or why KFD cannot be used; -EXDEV: another pid namespace */
	bool kfd_noted;
	struct drm_use *uses;        /* from fdinfo and KFD together */
	size_t n_uses, cap_uses;
};

/* sensors.c: files of one number each. */
extern const struct drm_figure amdgpu_rows[];
extern const size_t amdgpu_n_rows;

/* Fills a GPU's identity: a stable id, a name, its memory. */
void amdgpu_describe(const struct source_env *env, const struct drm_card *card, struct drm_gpu *gpu);

/* Report the values of GPU i. */
void amdgpu_memory_report(struct source *s, size_t i, struct framebuf *out);
void amdgpu_sensors_report(struct source *s, size_t i, uint64_t now_ns, struct framebuf *out);

/* The method used for a metric of GPU i; static. */
const char *amdgpu_how(const struct source *s, size_t i, enum metric metric);

/* ---- facts.c ------------------------------------------------------------------------------------------------ */

void amdgpu_facts(struct source *s, const struct gpu_fact_set *wanted, source_fact_fn *report, void *ctx);
