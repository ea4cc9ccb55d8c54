/* SPDX-License-Identifier: MIT
 *
 * Samples of a process, and who still needs them: lists of a process and of highs share them. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "where/module.h"

struct record;

struct sample {
	uint64_t time_ns, address;
	uint64_t bytes;        /* that it stands for, by the last check; 0: none since */
	uint64_t number;       /* of all samples, in the order of time */
	uint32_t process;      /* that touched it: its number */
	uint32_t stack;        /* 0: not unwound yet */
	bool is_dead, has_failed; /* failed: it could not be unwound */
	bool is_checked, is_queued; /* queued: for the worker */
	bool is_judged, is_copy; /* of a page that its parent had (where/copies.h) */
	struct sample *twin;   /* an earlier one with an equal stack, which has it; NULL: none */
	unsigned users;        /* lists that have it; the last one frees it */
	struct record *record; /* until it was unwound */
	size_t *raw_bytes;     /* of all samples with a record: where those of this one are counted */
	struct image *image;   /* likewise */
};

struct samples {
	struct sample **list;  /* in the order of time */
	size_t n, cap;
};

void sample_ref(struct sample *s);
void sample_unref(struct sample *s);
/* The one that is unwound for it. */
struct sample *sample_first(struct sample *s);
/* stack: its number; 0: it has failed. The record is no longer needed. */
void sample_unwound(struct sample *s, uint32_t stack);
void sample_forget_record(struct sample *s);

/* Takes a user of the sample. False: out of memory. */
bool samples_append(struct samples *list, struct sample *s);
void samples_drop_dead(struct samples *list);
/* All are dead then. */
void samples_done(struct samples *list);
