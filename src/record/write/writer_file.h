/* SPDX-License-Identifier: MIT
 *
 * The location of the writer's file: creating, copying, renaming. Shared by writer.c and
 * writer_file.c.
 */
#pragma once

#include "record/write/writer.h"

/* Creates the file. whole: it is written at once and gets its name at the end. Returns 0 or
 * -errno with trouble set. */
int writer_open(struct writer *w, bool whole);

/* Writes the identity of this process, in the open transaction. */
int writer_sign(struct writer *w);

/* For a file whose name another one has: copies it to a new name, which becomes target. */
int writer_move(struct writer *w);

/* Copies the committed data to target if a copy is due, or now. */
void writer_snapshot(struct writer *w, bool now);

/* After the store is closed: moves or copies the file to target. */
int writer_place(struct writer *w);

/* Removes the local file and folder; keep false: also what was created at target. */
void writer_remove(struct writer *w, bool keep);

/* Where the next text for the user goes: trouble, or news after trouble. */
struct err *writer_text(struct writer *w);

/* At the end: a gap whose end was not reported. */
void writer_report_gap(struct writer *w);

/* Stores the error's text and stops writing. Returns r. */
int writer_fail(struct writer *w, int r, const char *why);
/* The same for a file that another program has damaged: what is left of it is of no use. Returns
 * -EBADMSG. */
int writer_lose(struct writer *w, const char *what);

/* Releases the disk space that was reserved for the final message. */
void spare_free(struct writer *w);
/* Frees what the end of the run may need; what its reason needs stays. */
void spare_use(struct writer *w);

/* After an error: removes files that are of no use. */
void writer_abandon(struct writer *w, bool keep);
