/* SPDX-License-Identifier: MIT
 *
 * The history: runs kept in $HIWATER_DIR, else $XDG_STATE_HOME/hiwater, else ~/.local/state/hiwater, as NUMBER.hiw.
 * 200 runs and 1 GiB at most: the oldest finished go first, those that a trigger pinned only when nothing else is left
 * to go, a running one or one that was pinned by hand never.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/maybe.h"

struct history_entry {
	uint64_t number;         /* 0: a file outside the history */
	char *path;
	char *name, *command;    /* of the run; "" if unknown */
	uint64_t started_wall_ns;
	int64_t wall_ns;         /* so far, if it runs */
	struct maybe status;     /* of main */
	bool complete, running, pinned;
	bool by_trigger;         /* so that it may go where there is no room for it */
	struct maybe peak_bytes; /* combined RAM */
	struct maybe cores_ppm;  /* mean use of processors, in millionths of a core */
	uint64_t file_bytes;     /* journal included */
};

struct history {
	struct history_entry *entries; /* oldest first */
	size_t n;
};

/* The folder; it may not exist. Returns 0 or -errno with text (no HOME). */
int history_dir(char *ret, size_t size, struct err *err);

/* Reads the folder; files that are not ours are left out. A folder that does not exist is an empty history. */
int history_read(struct history *ret, struct err *err);
void history_done(struct history *h);

/* Reads one after the other, the newest first, as long as see says true; an entry is borrowed until see returns. */
int history_newest(bool (*see)(void *ctx, const struct history_entry *entry), void *ctx, struct err *err);

/* Finds a RUN: a number, "last", "last-1", a name (its latest run), "name:3" (one that would be read as
 * something else), a path, "slurm:JOB". ret_path is the caller's to free. Returns 0, -ENOENT with a text that says what was looked for and where, or -errno. */
int history_find(const char *run, char **ret_path, struct err *err);

/* Reserves the next number: creates the folder (0700) and an empty NUMBER.hiw (0600, O_EXCL). */
int history_reserve(char **ret_path, uint64_t *ret_number, struct err *err);

/* Removes one run; refuses a running one. */
int history_remove(const char *run, struct err *err);

/* Keeps to the limits; never removes running or unreadable files, or those that were pinned by hand. */
int history_trim(unsigned max_runs, uint64_t max_bytes, struct err *err);
