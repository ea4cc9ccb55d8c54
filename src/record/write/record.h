/* SPDX-License-Identifier: MIT
 *
 * Writes a recording: one SQLite file, NAME.hiw (docs/recording.md describes the tables). A thread
 * aggregates frames into windows and commits once a second; the caller only copies frames into a
 * bounded queue and never waits.
 *
 * All functions must be called from the recorder's thread.
 */
#pragma once

#include "base/err.h"
#include "job/job.h"
#include "model/frame.h"
#include "model/trace.h"
#include "model/where.h"

struct record_options {
	const char *path;         /* NULL: a new file in the history, created when the first window closes */
	bool overwrite;           /* replace an existing file */
	const char *job_key;      /* of a scheduler's job, "slurm-4711.0": the history notes where path is (history_point); NULL: none */
	bool job_has_folder;      /* then it notes path's folder, which is the job's */
	bool renames;             /* if path exists: NAME-2.hiw, and so on, instead of an error */
	uint64_t window_ns;       /* default 1 s */
	uint64_t recent_ns;       /* default 5 min: *_recent keeps every sample for this long */
	uint64_t max_bytes;       /* default 64 MB: beyond it the oldest windows are merged */
	size_t queue_bytes;       /* default 8 MiB: queued frames; more are dropped and counted */
	unsigned others_after;    /* default 200: beyond it the smallest living processes share one row */
	uint64_t start_boot_ns;
	bool force_snapshot;      /* as on a network file system: write elsewhere, copy here */
	/* Traced work, which the writer's thread drains each TRACE_DRAIN_MS and at the end; drain NULL: none. */
	struct trace_feed trace;
	const char *trace_step;   /* expression of the names of steps, for viewers; NULL: none */
	struct where_source where; /* where memory came from, likewise */
	uint64_t trace_bytes;     /* of rows of traced work, in addition to max_bytes; 0: 256 MB */
};

struct record;

/* Creates no file before the first window closes, record_begin or record_finish. The path is checked at once:
 * a missing or unwritable folder is an error before any work. Returns 0 or -errno with text. */
int record_new(const struct record_options *options, struct record **ret, struct err *err);

/* Queues a copy of the frame. Never waits: if the queue is full, the frame is dropped and
 * counted. */
void record_frame(struct record *r, const struct frame *frame);

/* Queues the job's accumulators, facts and processes, which are written in the window's
 * transaction. Call once per window, after the window's frames. */
void record_totals(struct record *r, const struct job *job);

/* hurry: commit at each sample (while a rule about memory is raised); else once a second. */
void record_hurry(struct record *r, bool hurry);

/* Begins to write to disk before the first window closes, since something was traced. */
void record_begin(struct record *r);

/* Has all that was traced until now drained at once; waits at most wait_ns for it. */
void record_drain(struct record *r, uint64_t wait_ns);

/* Another name than the wanted one; the first error (a full disk, a file damaged by another program),
 * then what became of it: true once each, with its text. The run continues, and so does the recording
 * where it can. */
bool record_trouble(struct record *r, struct err *ret);

/* A note on the recording's location for the user (a network file system: copies), or NULL. */
const char *record_note(const struct record *r);

uint64_t record_dropped(const struct record *r);
const char *record_path(const struct record *r); /* NULL: no file (yet) */
const char *record_renamed(const struct record *r); /* instead of options.path, which exists; or NULL */

/* True if writing to disk has begun. Before that, nothing is stored until record_finish. */
bool record_has_begun(const struct record *r);

/* Changes the destination from the history to path, which must not exist. No effect once writing
 * has begun. Returns 0 or -ENOMEM. */
int record_divert(struct record *r, const char *path);

/* Writes the queued data (for at most wait_ns) and closes the file. keep false: a run that is
 * too short for the history is not created, or removed. Frees r. Returns 0 or -errno with text; 0 with
 * text: what record_trouble has not reported yet. -ETIMEDOUT: as in record_forget. ret may be NULL. */
struct record_end {
	char *path;               /* the resulting file, freed by the caller; NULL: there is none */
	uint64_t gap_ns;          /* time without rows, because the file could not be written */
};
int record_finish(struct record *r, const struct job *job, bool keep, uint64_t wait_ns,
	struct record_end *ret, struct err *err);

/* Frees r without writing queued data: for a run that never began, or in a forked child, which
 * must not touch the file. False: the disk did not respond, and the thread, which may still drain
 * options.trace, continues. */
bool record_forget(struct record *r);
