/* SPDX-License-Identifier: MIT
 *
 * Steps of a trace: ranges that the run's expression of steps (run --step) matches; of a recording without
 * one, such as an import, ranges with a usual name and a number. A step's number is the last one in its name;
 * where no name has one, steps are counted, in each process, from 1.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "record/trace/trace_read.h"

/* From the beginning of the first step to the end of the last one. Returns 0, -ENOENT with text: there is no such
 * step, or -errno with text; -ENOMEM may have none. */
int trace_find_steps(struct trace_read *t, uint64_t first, uint64_t last, uint64_t *ret_from,
	uint64_t *ret_to, struct err *err);

/* Appends a step's name with "*" for its number, "ProfilerStep#*", and returns true; false: it is no usual one, and
 * nothing is appended. */
bool trace_step_fold(const char *name, struct buf *out);
