/* SPDX-License-Identifier: MIT
 *
 * How long a device was busy: the union of its kernels and copies over all streams, never their sum, and the
 * gaps between them, while events arrive that are out of order by some seconds.
 *
 * Three sorted lists of disjoint spans: of all work, of kernels, of copies and fills. What both did at once is
 * kernels + copies - all. When the list of all work is long, its older half is added up, at the end of a span,
 * and forgotten; what arrives later and began before that end counts from it on only, and as late.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_span {
	uint64_t begin, end; /* ns; end is not in it */
};

struct trace_spans {
	struct trace_span *spans; /* sorted, disjoint, not touching */
	size_t n, cap;
	struct trace_span *batch; /* to be merged into spans */
	size_t n_batch;
};

/* Within windows. */
struct trace_union_sums {
	uint64_t traced_ns;              /* the windows themselves */
	uint64_t busy_ns, kernels_ns, copies_ns, both_ns;
	uint64_t gaps, longest_ns, longest_at_ns; /* a gap ends with its window */
	uint64_t first_ns, last_ns;      /* of the work, in windows or not */
	uint64_t late;                   /* events that are counted in part, or not at all */
};

/* An all-zero struct is an empty one. */
struct trace_union {
	struct trace_spans all, kernels, copies;
	struct trace_union_sums done; /* before frontier_ns */
	uint64_t frontier_ns;
};

/* What trace_union_trim keeps. */
struct trace_union_limits {
	size_t spans;        /* it adds up half of them when there are more, */
	uint64_t horizon_ns; /* but none that ended less than this before the last one, */
	size_t most;         /* unless there are more than this */
};

/* The work of an event. Returns 0 or -ENOMEM. */
int trace_union_add(struct trace_union *u, bool is_kernel, uint64_t begin_ns, uint64_t end_ns);

/* Adds up the older spans, if there are more than limits allow. windows: sorted and disjoint; none: all time. */
int trace_union_trim(struct trace_union *u, const struct trace_union_limits *limits,
	const struct trace_span *windows, size_t n_windows);

/* The sums as of now_ns, at which windows without an end are cut. */
int trace_union_sums(struct trace_union *u, const struct trace_span *windows, size_t n_windows,
	uint64_t now_ns, struct trace_union_sums *ret);

/* Continues from sums of an earlier writer: all before their last_ns is added up. */
void trace_union_continue(struct trace_union *u, const struct trace_union_sums *sums);
void trace_union_done(struct trace_union *u);
