/* SPDX-License-Identifier: MIT */
#include "where/copies.h"

#include <stdlib.h>

static int by_address(const void *a, const void *b)
{
	const struct sample *x = *(struct sample *const *) a, *y = *(struct sample *const *) b;

	return x->address < y->address ? -1 : x->address > y->address;
}

struct copies copies_of(const struct samples *own, uint64_t fork_ns)
{
	struct copies c = { .n = 0 };
	size_t first = own->n;

	/* In the order of time: those to be judged are the last ones. */
	while (first > 0 && !own->list[first - 1]->is_judged && own->list[first - 1]->time_ns > fork_ns)
		first--;
	if (first == own->n)
		return c;
	c.list = malloc((own->n - first) * sizeof(struct sample *));
	if (!c.list)
		return c;
	for (size_t i = first; i < own->n; i++) {
		own->list[i]->is_judged = true;
		c.list[c.n++] = own->list[i];
	}
	qsort(c.list, c.n, sizeof(struct sample *), by_address);
	return c;
}

/* The first one at an address or above it. */
static size_t find(const struct copies *c, uint64_t address)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (c->list[middle]->address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void copies_mark(
	const struct copies *c, const struct samples *ancestor, uint64_t fork_ns, uint64_t near_bytes)
{
	for (size_t i = 0; i < ancestor->n && ancestor->list[i]->time_ns < fork_ns; i++) {
		const uint64_t at = ancestor->list[i]->address;

		for (size_t k = find(c, at > near_bytes ? at - near_bytes : 0);
			k < c->n && c->list[k]->address <= at + near_bytes; k++)
			c->list[k]->is_copy = true;
	}
}

void copies_done(struct copies *c)
{
	free(c->list);
	*c = (struct copies) { .n = 0 };
}
