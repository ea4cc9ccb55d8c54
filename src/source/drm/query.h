/* SPDX-License-Identifier: MIT
 *
 * The memory of Intel's discrete GPUs, which their drivers report only through an ioctl of the
 * render node (include/uapi/drm/i915_drm.h, xe_drm.h). Any user gets the size; used memory requires
 * CAP_PERFMON: without it the drivers report 0, which is treated as unknown.
 */
#pragma once

#include <stddef.h>

#include "base/maybe.h"
#include "base/root.h"
#include "source/drm/card.h"

struct drm_memory {
	struct maybe total, used; /* bytes, of all regions of the device */
};

/* Queries the driver of card; unknown for drivers other than i915 and xe, and on a captured
 * machine. The device must be awake. */
void drm_query_memory(const struct root *root, const struct drm_card *card, struct drm_memory *ret);

/* Parses the driver's answer, size bytes. Unknown if it is truncated, or has no region of a device. */
void drm_memory_parse(const char *driver, const void *answer, size_t size, struct drm_memory *ret);
