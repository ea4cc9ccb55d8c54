/* SPDX-License-Identifier: MIT
 *
 * The traced work of a run (docs/tracing.md) in a few figures, for the summary and for findings. It
 * comes from the sums of the recording, which are complete where rows were left out; api/ fills it in.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WORK_DEVICES = 16,
	WORK_NAMES = 3,
	WORK_NAME_BYTES = 128, /* longer names are shortened in the middle */
};

/* A device, as one process saw it. */
struct work_device {
	int64_t number;
	char name[WORK_NAME_BYTES];   /* "": unknown */
	uint64_t window_ns;           /* time in which kernels and copies were kept */
	uint64_t busy_ns;             /* of it, some kernel or copy ran: their union */
	uint64_t kernel_ns, copy_ns;  /* of it, some kernel ran, some copy or fill; both may at once */
	uint64_t n_gaps, longest_gap_ns, longest_gap_at_ns;
	uint64_t n_kernels, kernels_ns; /* summed */
	uint64_t n_launches, launches_ns; /* calls of its process that launched kernels; 0: not followed */
	uint64_t n_syncs, syncs_ns;   /* calls of its process that waited for a device */
	uint64_t copied_bytes, pageable_bytes; /* between host and device; of them, of pageable memory */
	uint64_t pageable_ns;         /* summed, of those copies */
	uint64_t memory_peak_bytes;   /* that calls of its process had allocated at once; 0: none, or not followed */
	uint64_t memory_peak_at_ns;
	bool memory_is_exact;         /* no event of its process was lost */
	uint64_t loading_ns;          /* ranges of its process that load data, by their names; 0: none */
	char loading[WORK_NAME_BYTES]; /* the name of the longest of them */
};

/* A kernel or a range. */
struct work_name {
	char name[WORK_NAME_BYTES];
	uint64_t count, total_ns;
};

/* A call of a GPU's driver that found no memory, or the first one after which nothing else worked. */
struct work_failure {
	char text[WORK_NAME_BYTES];
	uint64_t at_ns, count; /* of equal ones: the first; how many were marked */
};

struct work {
	bool is_traced;
	uint64_t n_processes, n_events, n_invalid, n_lost; /* lost: that are in no sum */
	struct maybe probe_bytes;     /* memory of the recorder's that the job's processes touched, summed */
	struct work_device devices[WORK_DEVICES];
	size_t n_devices, more_devices; /* more: that did not fit */
	struct work_name kernels[WORK_NAMES], ranges[WORK_NAMES]; /* those with the most time */
	size_t n_kernels, n_ranges;
	struct work_failure failures[WORK_NAMES]; /* the first of them */
	size_t n_failures;
};
