/* SPDX-License-Identifier: MIT
 *
 * A high of the job's memory: the samples that count at it, with their bytes, the mapped files and the
 * Python stacks. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "where/check.h"
#include "where/pythons.h"
#include "where/sample.h"

/* A part of a high. */
struct tree_share {
	struct sample *sample; /* holds one of its users */
	uint64_t bytes;
};

struct tree_high {
	uint32_t number;       /* from 1, in the order of time */
	uint64_t time_boot_ns, total_bytes;
	uint64_t checked_boot_ns, checked_bytes;
	uint64_t huge_bytes, lost;
	struct tree_share *shares;
	size_t n_shares;
	struct check_file *files; /* the names are its own */
	size_t n_files;
	struct pythons pythons; /* times: CLOCK_BOOTTIME */
	bool is_new;           /* or has changed since it was sent */
	bool was_sent;
};

/* Of three or more in the order of time: the one whose neighbours are the closest; never the first and the last. */
size_t high_least_needed(const struct tree_high *highs, size_t n);

/* It has nothing then. */
void high_done(struct tree_high *h);
/* A file that it has keeps the larger size. Without memory the file is left out. */
void high_add_file(struct tree_high *h, const struct check_file *file);
/* *cap: room for shares; 0 at the beginning. Without memory the sample is left out. */
void high_add_share(struct tree_high *h, size_t *cap, struct sample *s, uint64_t bytes);
