/* SPDX-License-Identifier: MIT
 *
 * Copy-on-write: which samples of a forked process are of pages that its parent had touched before the
 * fork, so that the write made a copy. The parent's samples are one of many pages, so a page counts as one of
 * theirs if a sample from before the fork lies near it. One thread.
 */
#pragma once

#include <stdint.h>

#include "where/sample.h"

/* Samples to be judged, by their address. */
struct copies {
	struct sample **list;
	size_t n;
};

/* Of a forked process: those after the fork, each once. Empty also where there is no memory. */
struct copies copies_of(const struct samples *own, uint64_t fork_ns);
/* Sets is_copy of those that lie within near_bytes of a sample of an ancestor's, from before its fork of the process, or
 * of the process's own ancestor. */
void copies_mark(
	const struct copies *c, const struct samples *ancestor, uint64_t fork_ns, uint64_t near_bytes);
void copies_done(struct copies *c);
