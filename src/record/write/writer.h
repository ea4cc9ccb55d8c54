/* SPDX-License-Identifier: MIT
 *
 * What the writer thread does: from messages (model/wire.h) to a file. No locks, no threads here: everything belongs
 * to whoever calls. After the first failure nothing more is written; what was committed stays readable.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "record/store.h"
#include "record/thin/thin.h"
#include "record/write/fold.h"
#include "record/write/queue.h"

struct writer_options {
	const char *path;        /* absolute; NULL: the history. Borrowed */
	bool overwrite;
	bool elsewhere;          /* write it on this machine, give path copies */
	uint64_t window_ns, recent_ns, max_bytes;
	unsigned others_after;
};

struct writer {
	struct writer_options options;
	struct row_layout layout;
	struct fold *fold;
	struct thin *thin;
	struct store *store;     /* NULL: no file yet, or none any more */
	char *target;            /* the recording's name; NULL: none yet */
	char *file;              /* where it is written: target, a file beside it, or one elsewhere */
	char *folder;            /* made for it elsewhere */
	int spare;               /* a nameless file that keeps some room on the disk; -1: none */
	bool reserved;           /* target is an empty file of ours in the history */
	bool beside;             /* file has to be renamed to target */
	bool copied;             /* target was written before */
	bool finishing, failed;
	bool row_written;        /* in the window that is open */
	uint64_t last_ns;        /* time of the last frame */
	uint64_t committed_ns;   /* that of the last one in the file */
	uint64_t committed_windows;
	uint64_t copied_ns, copy_every_ns;
	int result;
	struct err trouble;
	uint64_t commits, cared;
	bool (*busy)(void *ctx);  /* true if there is something better to do than to thin; may be NULL */
	void *busy_ctx;
};

/* Returns 0 or -ENOMEM; writer_done copes with either. */
int writer_init(struct writer *w, const struct writer_options *options);
void writer_done(struct writer *w);

/* Takes the messages of a chunk, opening the file first where there is none, and cares for the file behind each commit:
 * thins it, copies it. hurry: commit behind the chunk. Returns false if it could not go on to the end: a reader keeps the
 * journal from shrinking and the limit is reached. Then try again later. */
bool writer_take(struct writer *w, struct chunk *chunk, bool hurry);

/* Before the last chunks: what comes is one transaction, in a file made at once where there is none. keep false: no
 * file is made any more. */
void writer_finishing(struct writer *w, bool keep);
/* Closes the last window and the file. keep false: a file in the history is removed. */
void writer_finish(struct writer *w, bool keep);
