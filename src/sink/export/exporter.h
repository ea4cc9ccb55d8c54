/* SPDX-License-Identifier: MIT
 *
 * A recording for other programs, in their formats: from its job and its frames (record/read/replay.h) to bytes, which go out
 * as they come. A format is a file export_NAME.c and a row in exporter.c's table; docs/export.md says what each holds.
 * Threads: one at a time.
 */
#pragma once

#include "base/err.h"
#include "job/job.h"

/* What can be had as a table: the entities, then these. */
enum export_table {
	EXPORT_SERIES = ENTITY_COUNT,
	EXPORT_EVENTS,
	EXPORT_TABLES,
	EXPORT_ALL = -1, /* what the format has unless one is asked for */
};

struct export_options {
	const char *to;     /* "csv", "json", "openmetrics", "perfetto", "svg" */
	const char *table;  /* "job", "process", "events", ...; NULL: as the format has it */
	bool recent;        /* the last minutes at full rate; of svg also where they are all of a short run */
	bool redact;        /* without user, host, commands and names of processes */
	const char *const *series; /* of svg: which are drawn; n_series 0: the first few */
	size_t n_series;
	unsigned width, height; /* of svg, in pixels: of the picture, of each chart; 0: as usual */
	/* Takes the bytes; returns 0 or -errno, then it is not called again. */
	int (*write)(void *ctx, const void *data, size_t len);
	void *ctx;
};

struct export;

/* job: what the recording says of the whole run; borrowed until the end. Returns 0; -EINVAL with text for what the format
 * does not have; or -errno with text. */
int export_new(const struct job *job, const struct export_options *options, struct export **ret, struct err *err);

/* The readings that it looks at, of METRIC_COUNT; NULL: all. */
const bool *export_wanted(const struct export *e);
/* Are the last minutes to come at full rate, in place of their windows? */
bool export_wants_recent(const struct export *e);

/* Each frame, in the order of time. False: nothing more is wanted, export_end says why. */
bool export_see(struct export *e, const struct frame *frame);

/* The rest goes out. whole: all frames were seen. Returns 0 or -errno with text; frees e. */
int export_end(struct export *e, bool whole, struct err *err);
