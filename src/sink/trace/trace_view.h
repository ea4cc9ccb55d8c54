/* SPDX-License-Identifier: MIT
 *
 * What hiwater trace shows: the sums of traced work of one recording, or of those of all ranks of a job, by
 * name or by another key. Built from trace_stat and trace_busy, so it takes as long for ten million events as
 * for a thousand; only a span (--from, --to, --steps) is read from the rows.
 */
#pragma once

#include "base/map.h"
#include "job/job.h"
#include "record/trace/trace_histogram.h"
#include "record/trace/trace_read.h"

enum trace_by {
	TRACE_BY_DEFAULT, /* kernels, if there are any, else ranges */
	TRACE_BY_KERNEL,
	TRACE_BY_RANGE,
	TRACE_BY_PHASE,
	TRACE_BY_PROCESS,
	TRACE_BY_STREAM,
	TRACE_BY_COPY,
	TRACE_BY_API,
	TRACE_BY_COUNT,
};
/* "kernel", "range". */
const char *trace_by_name(enum trace_by by);

struct trace_view_options {
	enum trace_by by;
	bool no_medians;                 /* without exact ones, for which rows are read */
	bool folds_steps;                /* ranges of all steps are one line, "step *" */
	bool has_span, has_steps;
	uint64_t from_ns, to_ns;         /* has_span: what began in it */
	uint64_t first_step, last_step;  /* has_steps */
};

/* The launches of a kernel in one process, for --ncu. */
struct trace_place {
	size_t recording;
	uint32_t process;
	uint64_t count;
	uint64_t before;                 /* of a span: how many began before it */
};

/* A line of the table. */
struct trace_line {
	char *key;                       /* equal events have an equal one */
	char *name, *domain;             /* as shown, but any bytes; the name demangled */
	char *raw;                       /* as recorded */
	bool is_instant;                 /* marks: no times */
	uint64_t count, invalid, total_ns, min_ns, max_ns, bytes, rows;
	uint64_t pageable;               /* of bytes */
	double sum_squares;
	struct trace_histogram histogram;
	uint64_t *durations;             /* of its rows, while they are read for the median */
	size_t n_durations, cap_durations;
	uint64_t median_ns;
	bool is_median_exact;
	struct trace_place *places;
	size_t n_places, cap_places;
	int64_t *tids;                   /* distinct, with their process */
	size_t n_tids, cap_tids;
};

struct trace_table {
	struct trace_line *lines;        /* the largest total first */
	size_t n, cap;
	struct map places;               /* of keys */
	uint64_t total_ns, count;        /* of all lines */
};

/* A device of a process. */
struct trace_view_device {
	struct trace_busy busy;          /* name is the view's */
	size_t recording;
	char *phase;                     /* in which the longest gap began; NULL: none */
};

/* What calls of a process had allocated on a device. */
struct trace_view_memory {
	size_t recording;
	uint32_t process;
	int64_t device;                  /* -1: unknown */
	struct trace_peak peaks[TRACE_PEAK_GPU + 1]; /* by kind; peak_bytes 0: none */
	bool is_exact;
};

/* A recording that was added. */
struct trace_view_recording {
	char *argv_json, *command;       /* NULL: unknown */
	struct maybe rank;
	uint64_t wall_ns;
	struct trace_process *processes; /* by number - 1; their texts are the view's */
	size_t n_processes;
	uint64_t windows_ns;             /* together */
	struct trace_window *windows;
	size_t n_windows;
	bool is_growing;
	bool is_cut;                     /* its recorder was lost before the end: what came later is missing */
	struct trace_failure failures[TRACE_FAILURES];
	size_t n_failures;
	char **notes;                    /* what was not followed, and why, as the recorder reported it */
	size_t n_notes, cap_notes;
};

/* Fills it, which trace_recording_done frees, also after an error. Returns 0 or -ENOMEM. */
int trace_recording_fill(
	struct trace_view_recording *to, struct trace_read *t, const struct job *job, bool is_growing);
void trace_recording_done(struct trace_view_recording *r);

struct trace_view {
	struct trace_view_options options;
	enum trace_by by;                /* after trace_view_end never TRACE_BY_DEFAULT */
	size_t n_recordings, cap_recordings, n_given; /* given: also those without traced work */
	struct trace_view_recording *recordings;
	struct trace_view_device *devices;
	size_t n_devices, cap_devices;
	struct trace_view_memory *memory;
	size_t n_memory, cap_memory;
	struct trace_table table, copies; /* copies: by direction */
	struct trace_table ranges;       /* until trace_view_end: becomes the table if there are no kernels */
	bool is_of_ranges;               /* it did */
	uint64_t exact_rows_left;        /* that may be read for medians */
	uint64_t events, invalid, rows, lost[TRACE_LOSS_COUNT];
	uint64_t incomplete_ns;          /* the last record of a process that owes some; UINT64_MAX: unknown */
	uint64_t kernels, kernels_ns;
	bool is_opencl;                  /* its kernels were launched by OpenCL, of which ncu knows nothing */
	bool is_span_partial;            /* a span, and rows are missing: sums are of those that are there */
	uint64_t from_ns, to_ns;         /* of the span, steps resolved */
	bool has_span;
};

/* *ret is the caller's. Returns 0 or -ENOMEM. */
int trace_view_new(const struct trace_view_options *options, struct trace_view **ret);
void trace_view_free(struct trace_view *view);

/* Adds a recording: its traced work and its job. Call it for all of them, and then trace_view_end. Returns 0,
 * -ENOENT with text if there is no step of the options, or -errno with text. */
int trace_view_add(struct trace_view *view, struct trace_read *t, const struct job *job, bool is_growing,
	struct err *err);
void trace_view_end(struct trace_view *view);

double trace_line_mean(const struct trace_line *line);
/* Of the sample (n - 1); 0 for one event. */
double trace_line_deviation(const struct trace_line *line);
