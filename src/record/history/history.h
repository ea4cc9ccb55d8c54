/* SPDX-License-Identifier: MIT
 *
 * The history: runs kept in $HIWATER_DIR, else $XDG_STATE_HOME/hiwater, else
 * ~/.local/state/hiwater, as NUMBER.hiw. At most 200 runs and 1 GiB: the oldest finished runs are
 * removed first, those that a trigger pinned only after all others. Running ones and those pinned
 * by hand are never removed.
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
	char *name, *command, *note; /* of the run; "" if unknown */
	char *raised;            /* type of the exception that left the block; "": none */
	uint64_t started_wall_ns;
	int64_t wall_ns;         /* so far, if it is running */
	struct maybe status;     /* of the main process */
	bool complete, running, pinned;
	bool is_watched;         /* only a part of the job's time was measured: attach, a block */
	bool by_trigger;         /* pinned by a trigger: removed if there is no other room */
	struct maybe peak_bytes; /* combined RAM */
	struct maybe cores_ppm;  /* mean CPU use, in millionths of a core */
	uint64_t file_bytes;     /* journal included */
};

struct history {
	struct history_entry *entries; /* oldest first */
	size_t n;
};

/* The path of the history's folder, which may not exist. Returns 0 or -errno with text (HOME is
 * not set). */
int history_dir(char *ret, size_t size, struct err *err);

/* Lists the folder; other files are ignored. A missing folder is an empty history. */
int history_read(struct history *ret, struct err *err);
void history_done(struct history *h);

struct replay;

/* Reads the runs from the newest to the oldest while see returns true. An entry, and its recording,
 * which is open, are valid until see returns. */
int history_newest(bool (*see)(void *ctx, const struct history_entry *entry, struct replay *replay),
	void *ctx, struct err *err);

/* Finds a RUN: a number, "last", "last-1", a name (its latest run), "name:NAME" (a name that
 * would be read as something else), a path, "slurm:JOB". The caller frees *ret_path. Returns 0,
 * -ENOENT with a text that names the RUN and the folder, or -errno. */
int history_find(const char *run, char **ret_path, struct err *err);

/* The name by which a RUN finds runs, where it may stand for all of that name; borrowed from run. NULL:
 * it stands for one run (a number, "last", "slurm:JOB", the path of a file). */
const char *history_name_of(const char *run);

/* The same as history_find. *ret_skipped: the newest run whose recording cannot be read, or has nothing in it, and that
 * could have been the one; 0: none. */
int history_find_latest(const char *run, char **ret_path, uint64_t *ret_skipped, struct err *err);

/* Reserves the next number: creates the folder (mode 0700) and an empty NUMBER.hiw (mode 0600,
 * O_EXCL). */
int history_reserve(char **ret_path, uint64_t *ret_number, struct err *err);

/* The folder of the recordings of a job of several ranks, "NUMBER-KEY" in the history (key: "slurm-4711.0"): the same for all ranks,
 * of which the first makes it. The caller frees *ret_folder. Returns 0 or -errno with text. */
int history_job_folder(const char *key, char **ret_folder, struct err *err);

/* Can history_remove() remove the run at path? Returns 0, or -errno with text. */
int history_may_remove(const char *path, struct err *err);

/* Removes one run; refuses a running one and a file that is not a recording. */
int history_remove(const char *run, struct err *err);

/* Removes runs until the limits are met; never running, unreadable or hand-pinned ones, nor files that
 * are no recordings. These do not count, nor do unreadable ones that are older than all that remain,
 * or large. Returns 0 or -errno with text; 0 with a text that names the removed runs; "" if there are
 * none. */
int history_trim(unsigned max_runs, uint64_t max_bytes, struct err *err);
