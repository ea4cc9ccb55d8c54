/* SPDX-License-Identifier: MIT
 *
 * Parses one /proc/PID/fdinfo/N of a DRM client; Documentation/gpu/drm-usage-stats.rst. The keys
 * are the same for all drivers: each driver chooses the names of its engines and memory regions.
 * Also parses amdgpu's format before Linux 5.19 ("vram mem:"). Total on any bytes that end in a
 * NUL; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/maybe.h"

#define DRM_NAME 24

enum {
	DRM_ENGINES = 16, /* most engines of a client; i915 has 5, amdgpu 8 */
	DRM_REGIONS = 16, /* likewise; amdgpu has 8 */
};

/* An engine, or a group of capacity equal ones. Counters may go back now and then. */
struct drm_engine {
	char name[DRM_NAME];
	struct maybe busy_ns;      /* busy for this client since it was opened */
	struct maybe cycles;       /* likewise, in cycles of the engine */
	struct maybe total_cycles; /* elapsed cycles, busy or not */
	struct maybe max_hz;
	int64_t capacity;          /* at least 1 */
};

/* A memory region, in bytes. total and resident include memory shared with other clients. */
struct drm_region {
	char name[DRM_NAME];
	struct maybe total, shared, resident;
	struct maybe memory;       /* deprecated; same as resident, used if that is absent */
};

struct drm_fdinfo {
	char driver[DRM_NAME];     /* "" in amdgpu's old format */
	char pdev[DRM_NAME];       /* PCI address "0000:03:00.0"; "" for a platform device */
	struct maybe client;       /* with pdev, the identity of the client */
	bool cut;                  /* it has more engines or regions than fit: sums over them are
	                            * invalid */
	unsigned n_engines, n_regions;
	struct drm_engine engines[DRM_ENGINES];
	struct drm_region regions[DRM_REGIONS];
};

/* Parses text. Returns 0, or -EBADMSG, leaving *ret alone, if it is not of a DRM client. Invalid
 * lines are skipped; a number that does not fit is unknown. */
int drm_fdinfo_parse(const char *text, struct drm_fdinfo *ret);

/* The bytes of a region that are in it now: resident, else memory. */
struct maybe drm_region_bytes(const struct drm_region *region);
