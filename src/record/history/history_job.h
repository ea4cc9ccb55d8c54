/* SPDX-License-Identifier: MIT
 *
 * A job's folder as one run of the history: from a few of its recordings, since a job may have a thousand.
 */
#pragma once

#include "record/history/history.h"

/* The recordings that are read: those of nodes first, then those of the lowest ranks. */
enum {
	HISTORY_PARTS = 16
};

/* Sets all but number and file_bytes. Start, wall time and end are those of the recordings that were read. The status is
 * the first that is not 0; 0 only if that of each rank was read. The peak is known only of a job on one node that has one recording. Returns
 * 0, or -errno if nothing can be read in it. */
int history_job_entry(const char *folder, struct history_entry *ret);

/* Is a part of it still being recorded, on this machine or, by its files, on another one? Has it just begun? */
bool history_job_is_running(const char *folder);

/* What the history must know before it removes the folder. */
struct history_job_state {
	bool is_fresh;   /* written to in the last two minutes: more of its ranks may be about to end, or to start */
	bool is_running;
	bool is_pinned;  /* by hand, or a part of it by a trigger */
	bool by_trigger; /* the latter alone */
	bool is_unreadable; /* it has recordings, and none can be read */
};
/* Reads all of its recordings unless it is fresh or running. Returns 0 or -errno. */
int history_job_state(const char *folder, struct history_job_state *ret);
