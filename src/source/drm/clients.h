/* SPDX-License-Identifier: MIT
 *
 * The processes on each GPU, from the fdinfo of DRM clients (fdinfo.h). A client is one opened
 * file. Forks, dup and started programs share it, so it counts once, for the process that started
 * first of those that have it open.
 *
 * All readable processes are scanned. Per scan, a known process costs 2 us; listing its descriptors
 * costs 10 us, plus 1 us per descriptor and 6 us for one that may be a device; a client costs 6 us.
 * Measured: 600 processes of 30 descriptors, 60 ms for the first scan, then 3 ms each. A process's
 * descriptors are listed when it is new, when their number has changed (st_size of fd/, Linux 6.2),
 * else every 32 scans; if the kernel does not give the number, at least every 8 scans.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/maybe.h"
#include "base/root.h"
#include "source/drm/card.h"
#include "source/drm/fdinfo.h"

/* The kind of work of an engine, as far as its name shows. */
enum drm_class {
	DRM_COMPUTE, /* shaders, for any purpose: engines of no other class */
	DRM_ENCODE,
	DRM_DECODE,
	DRM_COPY,
	DRM_CLASSES,
};

/* An engine by name, and the share of time in which it worked, in millionths; above 1000000 if
 * clocks differ. */
struct drm_rate {
	char name[DRM_NAME];
	int64_t ppm;
};

/* One process on one GPU, all its clients together. */
struct drm_use {
	int32_t pid;
	uint64_t start_ticks;        /* since boot; with pid, the identity */
	int card;                    /* index in drm_cards */
	struct maybe device_bytes;   /* in regions of the device (vram, local); unknown: it names
	                              * none */
	struct maybe host_bytes;     /* in the other regions */
	unsigned n_rates;            /* since the previous scan; 0: unknown */
	struct drm_rate rates[DRM_ENGINES];
	bool compute, graphics;      /* it has used, or may use */
};

struct drm_clients;

/* cards: the devices of interest; borrowed, may grow. NULL: out of memory. */
struct drm_clients *drm_clients_new(const struct root *root, const struct drm_cards *cards);
/* For a captured machine: rates between two scans are unknown. */
void drm_clients_set_still(struct drm_clients *c);
void drm_clients_free(struct drm_clients *c);

/* Scans all processes. Returns 0 or -errno; on error the uses remain those of the previous scan. */
int drm_clients_scan(struct drm_clients *c, uint64_t now_ns);

/* The uses found by the last scan, sorted by pid; borrowed until the next. */
const struct drm_use *drm_clients_uses(const struct drm_clients *c, size_t *ret_n);

/* Whether the descriptors of some processes could not be read, so that the result is incomplete. */
bool drm_clients_was_refused(const struct drm_clients *c);

/* Whether a visible process has the card open. */
bool drm_clients_has(const struct drm_clients *c, int card);

/* Start of a process; 0: it has ended. */
uint64_t drm_start_ticks(const struct root *root, int32_t pid);

enum drm_class drm_class_of(const char *engine);

/* The busiest engine of a class; unknown without rates. At most 1000000. */
struct maybe drm_rates_busiest(const struct drm_rate *rates, unsigned n, enum drm_class of);

/* Adds rates by name. */
void drm_rates_add(struct drm_rate *sum, unsigned *n_sum, const struct drm_rate *rates, unsigned n);
