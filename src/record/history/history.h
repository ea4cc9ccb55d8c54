/* SPDX-License-Identifier: MIT
 *
 * The history: runs kept in $HIWATER_DIR, else $XDG_STATE_HOME/hiwater, else
 * ~/.local/state/hiwater, as NUMBER.hiw, or as the folder NUMBER-SCHEDULER-JOB with the recordings of a job's ranks and nodes
 * (docs/jobs.md), which is one run. At most 200 runs and 1 GiB: the oldest finished runs are
 * removed first, those that a trigger pinned only after all others. Running ones and those pinned
 * by hand are never removed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/maybe.h"
#include "record/history/history_dir.h"

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
	uint64_t file_bytes;     /* journal included; of a job's folder, all of its files */
	struct maybe ranks, nodes; /* of the job that it is, or is a part of */
	bool is_folder;          /* a job's: path is that of the folder */
	bool is_node;            /* it is the recording of a node */
	bool is_elsewhere;       /* its end is not recorded, and its recorder is, or was, on another machine */
};

struct history {
	struct history_entry *entries; /* oldest first */
	size_t n;
};

/* Lists the folder; other files are ignored. A missing folder is an empty history. */
int history_read(struct history *ret, struct err *err);
void history_done(struct history *h);

struct replay;

/* Reads the runs that are one recording from the newest to the oldest while see returns true. An entry, and its recording,
 * which is open, are valid until see returns. */
int history_newest(bool (*see)(void *ctx, const struct history_entry *entry, struct replay *replay),
	void *ctx, struct err *err);

/* Finds a RUN: a number, "last", "last-1", a name (its latest run), "name:NAME" (a name that
 * would be read as something else), a path, or the job of a scheduler or launcher: "slurm:JOB" (also JOB.STEP, JOB_TASK),
 * "torchrun:ID", "mpi:ID". Of a job, its newest step; what its batch script recorded only if there is no step; recordings
 * elsewhere (-o) are found through history_point. *ret_path, which the caller frees, is a recording, the folder of a job's
 * recordings, or a list of them (job_pointer.h). Returns 0, -ENOENT with a text that names the RUN and the folder, or
 * -errno. */
int history_find(const char *run, char **ret_path, struct err *err);

/* The name by which a RUN finds runs, where it may stand for all of that name; borrowed from run. NULL:
 * it stands for one run (a number, "last", "slurm:JOB", the path of a file). */
const char *history_name_of(const char *run);

/* Does the word, as a RUN, stand for a job of a scheduler or launcher? */
bool history_is_job(const char *run);

/* The same as history_find. *ret_skipped: the newest run whose recording cannot be read, or has nothing in it, and that
 * could have been the one; 0: none. */
int history_find_latest(const char *run, char **ret_path, uint64_t *ret_skipped, struct err *err);

/* Reserves the next number: creates the folder (mode 0700) and an empty NUMBER.hiw (mode 0600,
 * O_EXCL). */
int history_reserve(char **ret_path, uint64_t *ret_number, struct err *err);

/* Finds the folder of that job, or makes it (mode 0700) with the next number: all ranks, on all nodes that share the history, get the
 * same one. key: scheduler, job and step, "slurm-4711.0". One that nothing was written to for ten minutes is that of an
 * earlier job of the same number. The path is absolute; the caller frees *ret_folder. May take a second where ranks start at once
 * on a slow file system. Returns 0, -EINVAL (no such key), or -errno, with text. */
int history_job_folder(const char *key, char **ret_folder, struct err *err);

/* Notes that the job with that key has a recording, or a folder of them, at path (absolute), so that history_find finds it; nothing
 * for a path in the history itself. Of use to people only: a failure does not matter to the recording. Returns 0 or -errno. */
int history_point(const char *key, const char *path);

/* Can history_remove() remove the run at path? Returns 0, or -errno with text. */
int history_may_remove(const char *path, struct err *err);

/* Removes one run; refuses a running one and a file that is not a recording. Of a folder it removes the files of hiwater; -ENOTEMPTY
 * with text: others stay. */
int history_remove(const char *run, struct err *err);

/* Removes runs until the limits are met; never running, unreadable or hand-pinned ones, nor files that
 * are no recordings. These do not count, nor do unreadable ones that are older than all that remain,
 * or large. Returns 0 or -errno with text; 0 with a text that names the removed runs; "" if there are
 * none. */
int history_trim(unsigned max_runs, uint64_t max_bytes, struct err *err);
