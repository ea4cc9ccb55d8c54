/* SPDX-License-Identifier: MIT
 *
 * Shared by clients.c (clients, and each process's total), holders.c (processes and their
 * descriptors) and client.c (one client in one interval).
 */
#pragma once

#include "base/map.h"
#include "source/drm/clients.h"

/* The maximum of an engine's counters so far: they may go back and catch up (drm-usage-stats.rst). */
struct drm_meter {
	char name[DRM_NAME];
	int64_t busy_ns, cycles, total_cycles;
};

/* One opened file, with its fdinfo of the last scan. */
struct drm_client {
	int card;
	int64_t id;
	uint64_t scan;              /* number of the last scan that saw it */
	uint64_t time_ns;           /* time of that scan */
	int32_t pid;                /* the process that started first of those that have it open */
	uint64_t start_ticks;
	struct maybe device_bytes, host_bytes;
	bool compute, graphics;
	unsigned n_meters, n_rates; /* n_rates 0: seen once */
	struct drm_meter meters[DRM_ENGINES];
	struct drm_rate rates[DRM_ENGINES];
};

/* Stores the values of fdinfo at time now. is_first: the client was not known before. */
void drm_client_update(struct drm_client *client, const struct drm_fdinfo *f, bool is_first, uint64_t now_ns);

/* A descriptor that is a client. */
struct client_fd {
	int32_t fd;
	int card;
	int64_t id; /* of the client */
};

/* A process and those of its descriptors that are clients. */
struct drm_process {
	int32_t pid;
	bool refused;
	uint64_t scan;        /* number of the last scan that saw it */
	uint64_t start_ticks; /* known if it has clients */
	int64_t n_open;       /* descriptors at the last listing; 0: the kernel does not give the
	                       * number */
	unsigned every, wait; /* scans between listings, and until the next */
	struct client_fd *fds;
	size_t n_fds, cap_fds;
};

struct drm_clients {
	const struct root *root;
	const struct drm_cards *cards;
	uint64_t scan, now_ns;
	unsigned listed_left, candidates_left;
	bool refused;
	bool is_still; /* captured machine: rates between two scans are unknown */
	bool asleep[DRM_CARDS]; /* reading a client's fdinfo could wake the device (xe before Linux
	                         * 6.13) */
	struct drm_process *processes;
	struct drm_client *clients;
	struct drm_use *uses;
	size_t n_processes, cap_processes, n_clients, cap_clients, n_uses, cap_uses;
	struct map by_pid;      /* to holders */
	struct map by_client;   /* to clients */
};

/* Called for each descriptor of a client; f: its fdinfo, NULL if it was not read. */
void drm_client_seen(struct drm_clients *c, const struct client_fd *client_fd, const struct drm_fdinfo *f,
	const struct drm_process *h);

/* Scans all processes; calls drm_client_seen for each of their clients. Returns 0 or -errno. */
int drm_processes_scan(struct drm_clients *c);
void drm_processes_free(struct drm_clients *c);
