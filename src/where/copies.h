/* SPDX-License-Identifier: MIT
 *
 * Copy-on-write: which samples of a forked process are of pages that its parent had touched before the
 * fork, so that the write made a copy. The parent's samples are one of many pages, so a page counts as one of
 * theirs if a sample from before the fork lies near it. One thread.
 */
#pragma once

#include <stdint.h>

#include "where/sample.h"

/* Samples of the parent by their address. */
struct copies_index {
	struct sample **list;
	size_t n, cap;
	bool is_made;
};
/* Empties it, so that the next search makes it anew. */
void copies_index_done(struct copies_index *index);

/* Sets is_copy of the samples that came after the fork, each once. A sample of the parent lies near within so many
 * bytes. */
void copies_mark(struct samples *own, uint64_t fork_ns, const struct samples *parent,
	struct copies_index *index, uint64_t near_bytes);
