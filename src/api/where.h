/* SPDX-License-Identifier: MIT
 *
 * Private to api/: where the memory of a RUN came from, for where.c and compare.c.
 */
#pragma once

#include "base/err.h"
#include "sink/where/where_view.h"

/* The view of a recording, or of all recordings of a folder or a list. *ret is the caller's. Returns 0, or
 * -errno with text: -ENOENT if none of them was sampled. */
int where_collect(const char *path, const struct where_view_options *options, struct where_view **ret,
	struct err *err);
