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
};

/* *ret is the caller's. Returns 0; -ENOENT with text if the run was not sampled ("... was not sampled; use: hiwater run
 * --where -- ..."); or -errno with text. */
int where_read(struct replay *r, struct where_data **ret, struct err *err);
void where_data_free(struct where_data *data);
