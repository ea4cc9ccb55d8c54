/* SPDX-License-Identifier: MIT
 *
 * Where the memory of a sampled run came from (docs/where.md) in a few figures, for the summary. It comes from the
 * last high of the recording; api/ fills it in.
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
	uint64_t bytes, sigma_bytes, samples; /* sigma_bytes: one sigma; of no samples: not known */
};

struct touched {
	struct toucher list[TOUCHERS]; /* those with the most memory */
	size_t n;
	uint64_t peak_bytes;      /* = those of all functions and the next three */
	uint64_t unsampled_bytes, files_bytes, before_bytes;
	uint64_t n_functions, n_samples, n_lost;
};
