/* SPDX-License-Identifier: MIT
 *
 * Where the writer's file lies: made, copied, given its name. What writer.c and writer_file.c share.
 */
#pragma once

#include "record/write/writer.h"

/* Makes the file. whole: it is filled in one go and gets its name at the end. Returns 0 or -errno with trouble. */
int writer_open(struct writer *w, bool whole);

/* Gives target a copy of what was committed, if it is time. */
void writer_snapshot(struct writer *w, bool now);

/* After the store is closed: the file gets its place. */
int writer_place(struct writer *w);

/* Removes file and folder elsewhere; keep false: also what was made at target. */
void writer_remove(struct writer *w, bool keep);

/* Keeps the first failure's text and stops writing. Returns r. */
int writer_fail(struct writer *w, int r, const char *why);

/* Gives back the room that was kept for the last words. */
void spare_free(struct writer *w);

/* After a failure: what cannot be of use to anybody is removed. */
void writer_abandon(struct writer *w, bool keep);
