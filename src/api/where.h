/* SPDX-License-Identifier: MIT
 *
 * Private to api/: where the memory of a RUN came from, for where.c and compare.c.
 */
#pragma once

#include "base/err.h"
#include "sink/where/where_view.h"
#include "summary/summary.h"

/* The view by function of an open recording whose RAM is ram. *ret is the caller's; NULL: it was not sampled.
 * Returns 0 or -errno. */
int where_open(struct replay *replay, const struct ram_figure *ram, struct where_view **ret);

/* The view of a recording, or of all recordings of a folder or a list. program: hiwater-where, or
 * NULL. *ret is the caller's. Returns 0, or -errno with text: -ENOENT if none of them was sampled. */
int where_collect(const char *path, const struct where_view_options *options, const char *program,
	struct where_view **ret, struct err *err);
