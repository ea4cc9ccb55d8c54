/* SPDX-License-Identifier: MIT */
#include "where/copies.h"

#include <stdlib.h>
#include <string.h>

void copies_index_done(struct copies_index *index)
{
	free(index->list);
	*index = (struct copies_index) { .list = NULL };
}

static int by_address(const void *a, const void *b)
{
	const struct sample *x = *(struct sample *const *) a, *y = *(struct sample *const *) b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static void make_index(struct copies_index *index, const struct samples *samples)
{
	index->is_made = true;
	index->list = samples->n > 0 ? malloc(samples->n * sizeof(struct sample *)) : NULL;
	if (!index->list)
		return;
	memcpy(index->list, samples->list, samples->n * sizeof(struct sample *));
	index->n = samples->n;
	qsort(index->list, index->n, sizeof(struct sample *), by_address);
}

/* The first one at an address or above it. */
static size_t find(const struct copies_index *index, uint64_t address)
{
	size_t low = 0, high = index->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (index->list[middle]->address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_near_one(
	const struct copies_index *index, uint64_t address, uint64_t fork_ns, uint64_t near_bytes)
{
	for (size_t i = find(index, address > near_bytes ? address - near_bytes : 0);
		i < index->n && index->list[i]->address <= address + near_bytes; i++) {
		if (index->list[i]->time_ns < fork_ns && !index->list[i]->is_dead)
			return true;
	}
	return false;
}

void copies_mark(struct samples *own, uint64_t fork_ns, const struct samples *parent,
	struct copies_index *index, uint64_t near_bytes)
{
	for (size_t i = 0; i < own->n; i++) {
		struct sample *const s = own->list[i];

		if (s->time_ns <= fork_ns || s->is_judged)
			continue;
		s->is_judged = true;
		if (!index->is_made)
			make_index(index, parent);
		s->is_copy = is_near_one(index, s->address, fork_ns, near_bytes);
	}
}
