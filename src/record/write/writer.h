/* SPDX-License-Identifier: MIT
 *
 * The work of the writer thread: from messages (model/wire.h) to a file. Has no locks and no
 * threads; all calls must come from one thread.
 *
 * After an error that may pass (a full disk, a journal that another program truncated) the open
 * transaction is lost and the writer pauses: windows are dropped, births, ends, events and series
 * values are kept in memory. With the next whole totals (needs_totals) it tries again; what is
 * missing is then the gap. After any other error, and if the end cannot be written, nothing more is
 * written. Committed data stays readable.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "record/store.h"
#include "record/thin/thin.h"
#include "record/trace/trace_write.h"
#include "record/where/where_write.h"
#include "record/write/aggregate.h"
#include "record/write/queue.h"

struct writer_options {
	const char *path;        /* absolute, borrowed; NULL: the history */
	bool overwrite;
	unsigned number;             /* of the first name to try (record_name); 0: path alone */
	bool write_locally;          /* write on a local file system and copy to path */
	uint64_t window_ns, recent_ns, max_bytes;
	unsigned others_after;
	const char *job_key;         /* borrowed; as in record_options */
	bool job_has_folder;
	struct trace_feed trace;     /* as in record_options */
	struct where_source where;   /* likewise */
	uint64_t trace_bytes;
	const char *trace_step;      /* borrowed; NULL: none */
};

enum {
	WRITER_PHASES = 64,          /* open at once, of which the innermost is known */
};

struct writer {
	struct writer_options options;
	struct row_layout layout;
	struct aggregate *aggregate;
	struct thin *thin;
	struct store *store;     /* NULL: no open file */
	struct trace_write *trace; /* NULL: nothing was drained yet */
	struct where_write *where; /* likewise */
	bool has_lost_where;     /* what was passed to it, with a transaction */
	uint64_t next_again_ns, again_wait_ns; /* clock_boot_ns: all of it is asked for again, ever less often */
	uint32_t phases[WRITER_PHASES]; /* open, the innermost last */
	unsigned n_phases;
	uint64_t drained_ns;     /* the time of the last drain */
	uint64_t traced_commit_ns; /* the time of the last commit after a drain */
	bool has_trace_gap;      /* a pause since then */
	char *target;            /* path of the recording; NULL: not chosen yet */
	char *file;              /* path that is written: target, a file next to it, or a local one */
	char *folder;            /* temporary folder of that local file */
	int spare;               /* an unnamed file that reserves disk space; -1: none */
	bool reserved;           /* target is an empty file that this writer made */
	bool is_temporary;       /* file has to be renamed to target */
	bool copied;             /* target was written before */
	bool finishing, failed;
	bool row_written;        /* in the open window */
	uint64_t last_ns;        /* time of the last frame */
	struct maybe ended_ns;   /* the run's end */
	struct maybe started_boot_ns;
	uint64_t committed_ns;   /* time of the last committed frame */
	uint64_t committed_windows;
	uint64_t copied_ns, copy_every_ns;
	uint64_t next_clock_ns;  /* when the clocks are next compared */
	int64_t clock_ahead_ns, clock_behind_ns; /* the most, since the start */
	bool paused;
	bool needs_totals;       /* the next totals must be whole (wire_totals.h) */
	enum store_harm harm;    /* why the store must be opened again before it is used */
	bool was_replaced, was_removed; /* the file has no name any more; another file has its name */
	bool moved;              /* after was_replaced: target is a new name */
	bool lost;               /* the file is of no use: another program damaged it */
	uint64_t gap_ns;         /* time without windows, because of pauses */
	struct buf uncommitted;  /* frames: births, ends, events and series values since the last commit */
	struct buf uncommitted_totals; /* messages: since the last whole totals or the last commit */
	struct buf gpu_births;   /* frames: all births of GPUs, which totals do not contain */
	char why[256];           /* of the pause */
	int result;
	struct err note;         /* no error: another name than the wanted one */
	struct err trouble;      /* the first error */
	struct err news;         /* what became of it, or a later error: the latest of n_news */
	unsigned n_news;
	bool said_stopped;       /* the last text says that the recording has stopped */
	bool has_resumed;        /* the end of a pause was committed and not reported */
	bool has_continued;      /* reported, once */
	uint64_t commits, maintained;
	bool (*busy)(void *ctx); /* true if there is more urgent work than thinning; may be NULL */
	void *busy_ctx;
};

/* Returns 0 or -ENOMEM; call writer_done in either case. */
int writer_init(struct writer *w, const struct writer_options *options);
void writer_done(struct writer *w);

/* Writes the messages of a chunk, creating the file first if there is none, and after each
 * commit thins and copies the file. hurry: commit after the chunk. Returns false if it could not
 * finish, because a reader keeps the journal from shrinking and the limit is reached: call again
 * later with the same chunk. */
bool writer_apply(struct writer *w, struct chunk *chunk, bool hurry);

/* Writes the traced work that there is, and where memory came from. */
void writer_drain(struct writer *w, enum trace_drain how);

/* Closes the file, if one is open. finished: as store_close. */
void writer_close(struct writer *w, bool finished);

/* Call before the last chunks: they are written in one transaction, to a file created now if
 * there is none. keep false: no file is created any more. */
void writer_finishing(struct writer *w, bool keep);
/* Closes the last window and the file. keep false: removes a file in the history. */
void writer_finish(struct writer *w, bool keep);
