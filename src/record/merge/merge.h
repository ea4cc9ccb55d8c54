/* SPDX-License-Identifier: MIT
 *
 * Merges the recordings of a job of several ranks into one small recording that every command reads as any other (docs/jobs.md).
 *
 * The result depends on the set of parts alone: not on their order, nor on whether some come from an earlier merge, of which the parts are
 * kept. Each input is read once, its figures and its windows, of which at most 1,000 of a node and 128 of a rank are kept; then it is
 * decided what belongs to the job and when each part began. Only the windows of GPUs are read afterwards. Memory use grows with the number of parts by about a kilobyte each.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "record/read/replay.h"

/* Merges the recordings at paths, each a file, a list of ranks (NODE.ranks) or a folder of those, into the new file output, which must not
 * exist. A file that cannot be used is listed in the result. Returns 0 or -errno with text: no part of a job was found, parts of different
 * jobs (from a folder: those of the newest job are merged), or output cannot be written. */
int merge_recordings(const char *const *paths, size_t n, const char *output, struct err *err);

/* Opens a recording as replay_open does; a folder, or a list of the history (job_pointer.h), is merged into a temporary file first. */
int merge_open(const char *path, struct replay **ret, struct err *err);
