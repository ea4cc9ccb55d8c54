/* SPDX-License-Identifier: MIT
 *
 * Writing a recording: one SQLite file, NAME.hiw (docs/recording.md has the tables). A thread of its own folds frames
 * into windows and commits once a second; the caller only copies frames into a bounded queue and never waits.
 *
 * Threads: all functions belong to the recorder's one thread; the writer thread is the struct's own.
 */
#pragma once

#include "base/err.h"
#include "job/job.h"
#include "model/frame.h"

struct record_options {
	const char *path;         /* NULL: a new file in the history (record/history/history.h), made when the first window closes */
	bool overwrite;           /* path may exist */
	uint64_t window_ns;       /* 1 s */
	uint64_t recent_ns;       /* 5 min: how far back *_recent keeps every reading */
	uint64_t max_bytes;       /* 64 MB: past it the oldest windows are merged */
	size_t queue_bytes;       /* 8 MiB: frames that wait; more are dropped and counted */
	unsigned others_after;    /* 200: beyond so many living processes the smallest are one row */
	uint64_t start_boot_ns;
	bool force_snapshot;      /* as on a network file system: write elsewhere, copy here */
};

struct record;

/* Nothing is created before the first window closes or record_finish. The path is checked at once: a folder that is
 * not there or not writable is an error now, before any work. Returns 0 or -errno with text. */
int record_new(const struct record_options *options, struct record **ret, struct err *err);

/* Hands over a frame (copied). Never waits. Full: it is dropped and counted. */
void record_frame(struct record *r, const struct frame *frame);

/* Hands over the job's accumulators, facts and processes as of now: written with the window's transaction. Called
 * once a window, after the window's frames. */
void record_totals(struct record *r, const struct job *job);

/* From now on commit at each tick (a rule about memory is raised), or once a second again. */
void record_hurry(struct record *r, bool hurry);

/* The first thing that went wrong (disk full, ...): true once, with its text; recording has stopped, the run goes on. */
bool record_trouble(struct record *r, struct err *ret);

/* What a person should know of where the recording lies (a network file system: snapshots); NULL: nothing. */
const char *record_note(const struct record *r);

uint64_t record_dropped(const struct record *r);
const char *record_path(const struct record *r); /* NULL: no file (yet) */

/* Is there something on its way to the disk? Else nothing of it is anywhere before record_finish. */
bool record_has_begun(const struct record *r);

/* What was to go into the history goes into path, a name that is free; nothing where writing has begun. Returns 0 or -ENOMEM. */
int record_divert(struct record *r, const char *path);

/* Writes what waits (at most wait_ns long), closes the file. keep false: a run in the history that was too short to
 * keep is not made, or removed. Frees r. *ret_path (may be NULL) is the file that is kept, the caller's to free, NULL if
 * none is. Returns 0 or -errno with text. */
int record_finish(struct record *r, const struct job *job, bool keep, uint64_t wait_ns, char **ret_path, struct err *err);

/* Forgets r without writing what waits: a run that never began, or a forked child that must not touch it. */
void record_forget(struct record *r);
