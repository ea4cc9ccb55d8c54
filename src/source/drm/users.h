/* SPDX-License-Identifier: MIT
 *
 * Processes on GPUs as entities: gives ids, tells births, readings and ends from what a look at them found.
 */
#pragma once

#include "model/framebuf.h"
#include "source/drm/clients.h"

struct drm_users {
	struct drm_user *list;
	size_t n, cap;
	uint32_t last_id;
	uint64_t look;
};

/* Tells what a look found (uses, n of them), memory in one figure a process and device: that of the device, and on a card
 * for which adds_host (as many as there are cards) is set, of the host too. Ids of GPUs are index + 1. Returns 0 or
 * -errno. */
int drm_users_tell(struct drm_users *u, const struct drm_use *uses, size_t n, const bool *adds_host, struct framebuf *out);

/* The processes cannot be told any more: their readings are unknown, once; nobody ends. */
void drm_users_unknown(struct drm_users *u, struct framebuf *out);

void drm_users_done(struct drm_users *u);

/* The memory of a use as its one figure. */
struct maybe drm_use_bytes(const struct drm_use *use, bool adds_host);
