/* SPDX-License-Identifier: MIT
 *
 * One recording as the history lists it: a few facts of its meta table and two of its accumulators.
 */
#pragma once

#include "record/history/history.h"

/* By what a run is looked for. NULL: unknown. */
struct history_run {
	char *name, *scheduler, *scheduler_job;
};

int history_run_read(const char *path, struct history_run *ret); /* 0 or -errno */
void history_run_done(struct history_run *run);

/* All but number and file_bytes. Returns 0, or -errno for what is no recording. */
int history_entry_read(const char *path, struct history_entry *ret);
void history_entry_done(struct history_entry *entry);
