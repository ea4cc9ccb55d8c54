/* SPDX-License-Identifier: MIT
 *
 * What drm_clients.c (processes and their descriptors) and drm_client.c (one client between two looks) share.
 */
#pragma once

#include "source/drm_clients.h"

/* What an engine's counters were at most: they may go back, and catch up (drm-usage-stats.rst). */
struct drm_meter {
	char name[DRM_NAME];
	int64_t busy_ns, cycles, total_cycles;
};

/* One opened file, as its fdinfo was at the last look. */
struct drm_client {
	int card;
	int64_t id;
	uint64_t look;              /* number of the look that saw it last */
	uint64_t time_ns;           /* when */
	int32_t pid;                /* of its holders, the one that began first */
	uint64_t start_ticks;
	struct maybe device_bytes, host_bytes;
	bool compute, graphics;
	unsigned n_meters, n_rates; /* n_rates 0: seen once */
	struct drm_meter meters[DRM_ENGINES];
	struct drm_rate rates[DRM_ENGINES];
};

/* Takes what fdinfo says at time now. is_first: the client was not known before. */
void drm_client_take(struct drm_client *client, const struct drm_fdinfo *f, bool is_first, uint64_t now_ns);
