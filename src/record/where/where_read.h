/* SPDX-License-Identifier: MIT
 *
 * Reads where the memory of a recording came from, all of it (at most 8 MiB in the file); nothing in the file is
 * trusted: rows with numbers that do not exist, and stacks whose parent does not come before them, are left out.
 */
#pragma once

#include "base/err.h"
#include "model/where.h"
#include "record/read/replay.h"

struct where_data {
	struct where_frame *frames;     /* number n at n - 1; of numbers that are not there module and function are "" */
	size_t n_frames;
	struct where_stack *stacks;     /* frame 0: not there */
	size_t n_stacks;
	struct where_process *processes;
	size_t n_processes;
	struct where_high *highs;       /* in the order of time; at most WHERE_HIGHS */
	size_t n_highs;
	bool is_merged;                 /* a high has a total of all ranks, each at its own peak */
};

/* *ret is the caller's. Returns 0; -ENOENT with text if the run was not sampled ("... was not sampled; use: hiwater run
 * --where -- ..."); or -errno with text. */
int where_read(struct replay *r, struct where_data **ret, struct err *err);
void where_data_free(struct where_data *data);

/* The parts of a high, as they are and scaled to a peak: rows first, then files and what was there before. The rest of
 * the peak is unsampled. */
struct where_divided {
	uint64_t rows, files, before;
	uint64_t rows_room, files_room, before_room, unsampled;
};
struct where_divided where_divide(const struct where_high *high, uint64_t peak);

/* whole x part / of, which is at most whole; of no parts 0. */
uint64_t where_share(uint64_t whole, uint64_t part, uint64_t of);
/* Divides room among parts in proportion to their sizes, of which the sum is of: the next one's. *done: of those before
 * it. */
uint64_t where_scaled(uint64_t room, uint64_t bytes, uint64_t of, uint64_t *done);
