/* SPDX-License-Identifier: MIT
 *
 * Who uses which GPU, by the fdinfo of DRM clients (fdinfo.h). A client is one opened file: forks, dup and programs
 * started from its holder share it, so it counts once, for the process that began first of those that hold it.
 *
 * All processes that may be looked at are. A known process costs 2 us a look; where it is listed 10 us, 1 us more a
 * descriptor, 6 us more one that may be a device; a client 6 us. Measured: 600 processes of 30 descriptors, 60 ms for the
 * first look, then 3 ms each. Processes are listed when they are new, when their number of descriptors has changed
 * (st_size of fd/, Linux 6.2), else every 32 looks; where that number is not told, within 8 looks.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/maybe.h"
#include "base/root.h"
#include "source/drm/card.h"
#include "source/drm/fdinfo.h"

/* What an engine works at, as far as its name tells. */
enum drm_class {
	DRM_COMPUTE, /* shaders, whatever for: any engine that is none of the others */
	DRM_ENCODE,
	DRM_DECODE,
	DRM_COPY,
	DRM_CLASSES,
};

/* An engine by name, and the share of time in which it worked, in millionths; more than 1000000 where clocks differ. */
struct drm_rate {
	char name[DRM_NAME];
	int64_t ppm;
};

/* One process on one GPU, all its clients together. */
struct drm_use {
	int32_t pid;
	uint64_t start_ticks;        /* since boot; with pid, who it is */
	int card;                    /* index in drm_cards */
	struct maybe device_bytes;   /* in regions of the device (vram, local); unknown: it names none */
	struct maybe host_bytes;     /* in the others */
	unsigned n_rates;            /* since the look before; 0: not known */
	struct drm_rate rates[DRM_ENGINES];
	bool compute, graphics;      /* it has used, or may use */
};

struct drm_clients;

/* cards: those that clients are looked for on; borrowed, may grow. NULL without memory. */
struct drm_clients *drm_clients_new(const struct root *root, const struct drm_cards *cards);
/* They are a captured machine's: nobody knows what they do between two looks. */
void drm_clients_stand_still(struct drm_clients *c);
void drm_clients_free(struct drm_clients *c);

/* Looks at all processes. Returns 0 or -errno; then the uses are those of the look before. */
int drm_clients_look(struct drm_clients *c, uint64_t now_ns);

/* What the last look found, by pid; borrowed until the next. */
const struct drm_use *drm_clients_uses(const struct drm_clients *c, size_t *ret_n);

/* Were there processes whose descriptors may not be seen? Then what is found is not all. */
bool drm_clients_was_refused(const struct drm_clients *c);

/* Does somebody who can be seen have the card open? */
bool drm_clients_has(const struct drm_clients *c, int card);

/* When a process began; 0: it is gone. */
uint64_t drm_start_ticks(const struct root *root, int32_t pid);

enum drm_class drm_class_of(const char *engine);

/* The busiest engine of a class; unknown without rates. At most 1000000. */
struct maybe drm_rates_busiest(const struct drm_rate *rates, unsigned n, enum drm_class of);

/* Adds rates by name. */
void drm_rates_add(struct drm_rate *sum, unsigned *n_sum, const struct drm_rate *rates, unsigned n);
