/* SPDX-License-Identifier: MIT
 *
 * Processes on GPUs as entities: assigns ids and reports births, values and ends from the uses that
 * a scan found.
 */
#pragma once

#include "model/framebuf.h"
#include "source/drm/clients.h"

struct drm_users {
	struct drm_user *list;
	size_t n, cap;
	uint32_t last_id;
	uint64_t scan;
};

/* Reports the n uses that a scan found. Memory is one value per process and device: the device's,
 * plus the host's on cards for which adds_host (one entry per card) is set. Ids of GPUs are index +
 * 1. Returns 0 or -errno. */
int drm_users_report(struct drm_users *u, const struct drm_use *uses, size_t n, const bool *adds_host,
	struct framebuf *out);

/* Processes cannot be listed any more: reports their values as unknown, once; no process ends. */
void drm_users_unknown(struct drm_users *u, struct framebuf *out);

void drm_users_done(struct drm_users *u);

/* The memory of a use as its one value. */
struct maybe drm_use_bytes(const struct drm_use *use, bool adds_host);
