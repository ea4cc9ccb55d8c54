/* SPDX-License-Identifier: MIT
 *
 * One recording as the history lists it: a few facts of its table meta and two of its accumulators.
 */
#pragma once

#include "record/history/history.h"

/* The properties by which a run is searched. NULL: unknown. */
struct history_run {
	char *name, *scheduler, *scheduler_job;
	bool is_blank; /* it has no command: its recorder was killed before the first commit */
};

int history_run_read(const char *path, struct history_run *ret); /* Returns 0 or -errno. */
void history_run_done(struct history_run *run);

/* Sets all but number and file_bytes. Returns 0, or -errno if it is not a recording. */
int history_entry_read(const char *path, struct history_entry *ret);
/* The same; the caller closes *ret_replay. ret_replay may be NULL. */
int history_entry_open(const char *path, struct history_entry *ret, struct replay **ret_replay);
void history_entry_done(struct history_entry *entry);
