/* SPDX-License-Identifier: MIT
 *
 * A logarithmic histogram of durations, 32 buckets an octave from 1 ns: bucket b begins at 2^(b/32) ns. Only
 * buckets with a count take room. One thread at a time.
 */
#pragma once

#include "base/buf.h"

struct trace_histogram_cell {
	uint32_t bucket;
	uint64_t count;
};

/* An all-zero struct is an empty one. */
struct trace_histogram {
	struct trace_histogram_cell *cells; /* sorted by bucket */
	size_t n, cap;
};

/* Returns 0 or -ENOMEM. */
int trace_histogram_add(struct trace_histogram *h, uint64_t duration_ns, uint64_t count);
void trace_histogram_done(struct trace_histogram *h);

/* Adds all counts of from to h. Returns 0 or -ENOMEM. */
int trace_histogram_merge(struct trace_histogram *h, const struct trace_histogram *from);

/* As in trace_stat.histogram: pairs of varints (docs/tracing.md). _read stops at the first malformed pair,
 * as the blob is of a file. Returns 0 or -ENOMEM. */
int trace_histogram_write(const struct trace_histogram *h, struct buf *out);
int trace_histogram_read(struct trace_histogram *h, const void *blob, size_t bytes);

/* A duration of the bucket in which the nearest-rank quantile q (0 to 1) lies; 0: it is empty. */
uint64_t trace_histogram_quantile(const struct trace_histogram *h, double q);
