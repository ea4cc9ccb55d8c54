/* SPDX-License-Identifier: MIT
 *
 * Where the memory of a sampled run came from (docs/where.md) in a few figures, for the summary. It comes from the
 * last high of the recording, or from one before an incident; api/ fills it in.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TOUCHERS = 5,
	TOUCHER_NAME_BYTES = 128, /* longer names are shortened in the middle */
};

/* A function, and the memory that it touched first. */
struct toucher {
	char name[TOUCHER_NAME_BYTES], library[TOUCHER_NAME_BYTES]; /* ASCII, without control characters */
	char caller[TOUCHER_NAME_BYTES]; /* in its largest stack; "": not known */
	uint64_t bytes, sigma_bytes, samples; /* sigma_bytes: one sigma; of no samples: not known */
	bool is_function;         /* has a name of its own, and is neither an allocator's nor the program's main function */
};

struct touched {
	struct toucher list[TOUCHERS]; /* those with the most memory */
	size_t n;
	uint64_t at_ns;           /* the high's time since the run's start */
	uint64_t peak_bytes;      /* = those of all functions and the next three */
	uint64_t unsampled_bytes, files_bytes, before_bytes;
	uint64_t n_functions, n_samples, n_lost;
	/* Copies of pages that forked processes shared with their parents (copy-on-write). */
	struct copied {
		char name[TOUCHER_NAME_BYTES]; /* the function that made most of them; "": there are none */
		uint64_t bytes, name_bytes;    /* of all; of the function */
		uint64_t n_processes;
	} copied;
};
