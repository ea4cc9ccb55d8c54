/* SPDX-License-Identifier: MIT
 *
 * Where the recordings are that a job made outside the history (-o): a text HISTORY/jobs/SCHEDULER-JOB for each job and step, with
 * an absolute path a line, of a recording or of a folder of them. Each rank appends its own line; where ranks of several nodes append
 * at once on NFS, a line may be lost. The newest 1,000 jobs are kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct job_paths {
	char **paths;
	size_t n, cap;
};

/* The recordings and folders of a list that exist, in the order of its lines; a file that is by now that of another job is left out.
 * Returns 0, -EBADMSG if the path is not that of a list in the history, or -errno. */
int job_pointer_read(const char *list, struct job_paths *ret);
void job_paths_done(struct job_paths *paths);

#define autopaths __attribute__((cleanup(job_paths_done)))

/* Of such paths the folder that was noted last; NULL: all are files. */
const char *job_paths_folder(const struct job_paths *paths);

/* Calls see for each list of the history, with its path and its key, while it returns true. */
void job_pointer_each(bool (*see)(void *ctx, const char *path, const char *key), void *ctx);
