/* SPDX-License-Identifier: MIT
 *
 * The memory of Intel's discrete GPUs, which their drivers tell by an ioctl of the render node only
 * (include/uapi/drm/i915_drm.h, xe_drm.h). Size is told to everybody; how much is in use to CAP_PERFMON alone: others
 * are told that nothing is, which is no figure.
 */
#pragma once

#include <stddef.h>

#include "base/maybe.h"
#include "base/root.h"
#include "source/drm/card.h"

struct drm_memory {
	struct maybe total, used; /* bytes, of all regions of the device */
};

/* Asks the driver of card; unknown for others than i915 and xe, and on a captured machine. The device must be awake. */
void drm_query_memory(const struct root *root, const struct drm_card *card, struct drm_memory *ret);

/* Reads the driver's answer, size bytes. Unknown where it is cut short, or has no region of a device. */
void drm_memory_parse(const char *driver, const void *answer, size_t size, struct drm_memory *ret);
