/* SPDX-License-Identifier: MIT
 *
 * Numbers that a GPU's driver keeps in files of one number each (sysfs, hwmon), by table: which file is which metric.
 * Each file is opened once and read with pread. Also how a source of GPUs tells a figure: unknown once, then nothing
 * until it can be had again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/maybe.h"
#include "model/framebuf.h"
#include "source/drm/card.h"

enum drm_place {
	AT_DEVICE, /* below the device's folder */
	AT_CLASS,  /* below cardN */
	AT_HWMON   /* below its hwmon folder */
};

/* A file of one number. Rows of the same metric are ways to the same figure: the first one that can be read is taken.
 * value = number * mul / div, and is unknown outside of min and max. */
struct drm_figure {
	enum metric metric;
	unsigned group; /* bit of the source's group that reads it */
	enum drm_place place;
	const char *file;
	int64_t mul, div;
	int64_t min, max;
	const char *how;
};

enum {
	DRM_FIGURES = 40 /* most rows of a table */
};

/* What is kept of one card. */
struct drm_files {
	int fds[DRM_FIGURES]; /* -1: it is not there */
	bool known[METRIC_COUNT];   /* was last told with a value */
	bool unknown[METRIC_COUNT]; /* was last told to be unknown */
	bool odd[METRIC_COUNT];     /* the driver said what cannot be so */
	bool odd_noted[METRIC_COUNT];
	bool by_users[METRIC_COUNT]; /* is told from a list of the processes, which no device need be awake for */
};

void drm_files_open(struct drm_files *f, const struct drm_card *card, const struct drm_figure *rows, size_t n);
void drm_files_close(struct drm_files *f, size_t n);

/* The figure of a metric; unknown where no row of it could be read. *ret_error (may be NULL) is 0, or the last row's
 * error: -ENOENT without any, -ENODEV where the device is gone, -ENODATA: the driver does not know it,
 * -ERANGE: it says what cannot be so. */
struct maybe drm_files_read(const struct drm_files *f, const struct drm_figure *rows, size_t n, enum metric metric,
	int *ret_error);

/* One number and nothing else in a file below dir, or by an open one. Returns 0 or -errno. */
int drm_number_read(int dir, const char *file, int64_t *ret);
int drm_number_pread(int fd, int64_t *ret);

/* Tells a figure of the GPU called id. */
void drm_tell(struct drm_files *f, struct framebuf *out, enum metric metric, uint32_t id, struct maybe value);

/* A counter of a driver that may start again: what it rose by, added up from its first value on. */
struct drm_counter {
	bool seen;
	int64_t last, total;
	int64_t range; /* where it starts again at 0; 0: it does not, a fall is a reset */
};
struct maybe drm_counter_take(struct drm_counter *c, struct maybe now);
