/* SPDX-License-Identifier: MIT
 *
 * Private to api/: the traced work of a RUN, for trace.c and compare.c.
 */
#pragma once

#include "base/err.h"
#include "sink/trace/trace_view.h"

/* The view of a recording, or of all recordings of a folder or a list. *ret is the caller's. Returns 0, or
 * -errno with text: -ENOENT if none of them was traced. */
int trace_collect(
	const char *path, const struct trace_view_options *options, struct trace_view **ret, struct err *err);
