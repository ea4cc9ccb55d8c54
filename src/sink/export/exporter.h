/* SPDX-License-Identifier: MIT
 *
 * Exports a recording in the formats of other programs. The caller replays the recording
 * (record/read/replay.h) and passes each frame to export_see(); bytes are written as they come, so
 * that memory does not grow with the run. A format is a file export_NAME.c and a row in
 * exporter.c's table; docs/export.md describes the formats. One thread at a time.
 */
#pragma once

#include "base/err.h"
#include "summary/summary.h"

/* Tables: the entities, then these. */
enum export_table {
	EXPORT_SERIES = ENTITY_COUNT,
	EXPORT_EVENTS,
	EXPORT_TABLES,
	EXPORT_ALL = -1, /* all tables of the format */
};

struct trace_read;

struct export_options {
	const char *to;     /* "csv", "json", "openmetrics", "otlp", "perfetto", "chrome", "nsys-sqlite", "svg", "js1",
			     * "sacct" */
	const struct summary *summary; /* borrowed until export_end(); js1 and sacct are written from it alone */
	const char *table;  /* "job", "process", "events", ...; NULL: the format's default */
	bool recent;        /* the last minutes at full rate, where the recording has them */
	bool redact;        /* leaves out user, host, commands and names of processes */
	const char *const *series; /* of svg: the series to draw; n_series 0: the first few */
	size_t n_series;
	unsigned width, height; /* of svg, in pixels: of the picture, of each chart; 0: default */
	const char *const *attributes; /* of otlp: n_attributes keys and values of the resource, in turn */
	size_t n_attributes;
	struct trace_read *trace; /* traced work, borrowed until export_end(); NULL: none (export_trace_use) */
	bool gzip;          /* compress what is written */
	bool aggregate;     /* otlp: one value per metric for all windows between two export_pause() */
	/* Writes the bytes. Returns 0 or -errno, after which it is not called again. */
	int (*write)(void *ctx, const void *data, size_t len);
	void *ctx;
};

struct export;

/* What a format does with traced work. */
enum export_trace {
	EXPORT_TRACE_NONE,
	EXPORT_TRACE_MAY,  /* writes it too, if there is any */
	EXPORT_TRACE_MUST, /* writes nothing else */
};

enum export_trace export_trace_use(const char *to);

/* Begins an export. job has the facts of the whole run, borrowed until export_end(). Returns 0;
 * -EINVAL with text if the format lacks the table or a series; or -errno with text. */
int export_new(
	const struct job *job, const struct export_options *options, struct export **ret, struct err *err);

/* The metrics that the export uses, METRIC_COUNT flags; NULL: all. */
const bool *export_wanted(const struct export *e);
/* True if the caller should replay the last minutes at full rate instead of their windows. */
bool export_wants_recent(const struct export *e);

/* Adds a frame, in the order of time. False: an error occurred, which export_end() returns. */
bool export_see(struct export *e, const struct frame *frame);

/* Writes what was not written yet, as far as the format can (otlp) before the end. Returns 0 or
 * -errno, which export_end() returns again. */
int export_pause(struct export *e);

/* Writes the rest and frees e. whole: all frames were passed. Returns 0 or -errno with text. */
int export_end(struct export *e, bool whole, struct err *err);
