/* SPDX-License-Identifier: MIT
 *
 * A view of traced work as text, JSON (docs/trace.schema.json) and CSV, and the command lines of the tools that
 * look deeper.
 */
#pragma once

#include "sink/sink.h"
#include "sink/trace/trace_view.h"

/* The table, with the devices above it. top: lines of the table; 0: all. options->width 0: names are whole.
 * Return 0 or -errno. */
int trace_text(
	const struct trace_view *view, size_t top, const struct sink_options *options, struct buf *out);
int trace_json(const struct trace_view *view, size_t top, struct buf *out);
int trace_csv(const struct trace_view *view, size_t top, struct buf *out);

/* One line for a shell: ncu on a few launches of the kernel of that line of the table (from 1), in the middle
 * of the run. Returns 0, or -EINVAL with text if there is no such kernel. */
int trace_ncu(const struct trace_view *view, size_t number, struct buf *out, struct err *err);
/* The same: nsys on the windows of the trace. */
int trace_nsys(const struct trace_view *view, struct buf *out, struct err *err);

/* "complete, 0 of 61,204 records lost"; or what is missing, and why. */
void trace_lost_text(const struct trace_view *view, struct buf *out);
/* Lost records of all causes but that of rows left out, which are in all sums. */
uint64_t trace_lost_all(const struct trace_view *view);
/* False too where something was not followed, or the recorder was lost. */
bool trace_is_complete(const struct trace_view *view);
/* "rank 3 python (4711)" of a process of a recording; "" if its view has one process only. */
void trace_process_text(const struct trace_view *view, size_t recording, uint32_t process, struct buf *out);
