/* SPDX-License-Identifier: MIT
 *
 * Tasks of one array job, "slurm-5000_1.0", "slurm-5000_2.0", ...: each is a run of its own, but they count as one among the runs that
 * are kept, and none removes another. A job's folder has its key in its name; of a file, a line of "arrays" in the history's folder has
 * it ("17 slurm-5000"), as opening all recordings would take longer than a short run. A line that is lost makes a task count for itself.
 */
#pragma once

#include "record/history/history_list.h"

/* Notes that the run at path, a file of the history, is of the job with that key; nothing if it is no task of an array. */
void history_array_note(const char *path, const char *key);

/* of[i]: the newest run of the array that list->runs[i] is a task of; else i. Returns 0 or -ENOMEM. */
int history_array_find(const struct listing *list, size_t *of);
