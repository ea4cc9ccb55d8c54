/* SPDX-License-Identifier: MIT
 *
 * Values that a GPU's driver has in files of one number each (sysfs, hwmon): a table maps files to
 * metrics. Each file is opened once and read with pread. Also reports the values of a GPU source:
 * "unknown" once, then nothing until the value is available again.
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

/* A file of one number. Rows of the same metric are alternatives: the first readable one is used.
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

/* The open files and reporting state of one card. */
struct drm_files {
	int fds[DRM_FIGURES]; /* -1: no such file */
	bool known[METRIC_COUNT];   /* last reported with a value */
	bool unknown[METRIC_COUNT]; /* last reported as unknown */
	bool impossible[METRIC_COUNT];     /* the driver reported an impossible value */
	bool impossible_noted[METRIC_COUNT];
	bool by_users[METRIC_COUNT]; /* obtained from a list of processes, for which the device need
	                              * not be awake */
};

void drm_files_open(
	struct drm_files *f, const struct drm_card *card, const struct drm_figure *rows, size_t n);
void drm_files_close(struct drm_files *f, size_t n);

/* The value of a metric; unknown if no row of it could be read. *ret_error (may be NULL) is 0, or
 * the last row's error: -ENOENT: no row, -ENODEV: the device is gone, -ENODATA: unknown to the
 * driver, -ERANGE: impossible value. */
struct maybe drm_files_read(const struct drm_files *f, const struct drm_figure *rows, size_t n,
	enum metric metric, int *ret_error);

/* Reads a file below dir, or an open one, that is a single number. Returns 0 or -errno. */
int drm_number_read(int dir, const char *file, int64_t *ret);
int drm_number_pread(int fd, int64_t *ret);

/* Reports a value of the GPU with this id. */
void drm_report(
	struct drm_files *f, struct framebuf *out, enum metric metric, uint32_t id, struct maybe value);

/* A driver's counter that may restart, summed up from its first value on. */
struct drm_counter {
	bool seen;
	int64_t last, total;
	int64_t range; /* where it wraps to 0; 0: it does not wrap, a fall is a reset */
};
struct maybe drm_counter_apply(struct drm_counter *c, struct maybe now);
