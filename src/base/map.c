/* SPDX-License-Identifier: MIT */
#include "base/map.h"

#include <errno.h>
#include <stdlib.h>

struct map_cell {
	uint64_t key;
	uint32_t value;
	bool full;
};

enum {
	MAP_FIRST = 16
};

/* The finalizer of splitmix64: pids and ids are dense, so the low bits alone would be a poor
 * hash. */
static size_t home(const struct map *m, uint64_t key)
{
	key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9U;
	key = (key ^ (key >> 27)) * 0x94d049bb133111ebU;
	return (size_t) (key ^ (key >> 31)) & (m->cap - 1);
}

/* The cell of key, or the empty one for it. At least one cell is always empty. */
static size_t find(const struct map *m, uint64_t key)
{
	size_t i = home(m, key);

	while (m->cells[i].full && m->cells[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return i;
}

static int grow(struct map *m)
{
	struct map bigger = { .cap = m->cap ? m->cap * 2 : MAP_FIRST, .used = m->used };

	bigger.cells = calloc(bigger.cap, sizeof(*bigger.cells));
	if (!bigger.cells)
		return -ENOMEM;
	for (size_t i = 0; i < m->cap; i++) {
		if (m->cells[i].full)
			bigger.cells[find(&bigger, m->cells[i].key)] = m->cells[i];
	}
	free(m->cells);
	*m = bigger;
	return 0;
}

int map_put(struct map *m, uint64_t key, uint32_t value)
{
	if (m->cap > 0) {
		struct map_cell *cell = &m->cells[find(m, key)];

		if (cell->full) {
			cell->value = value;
			return 0;
		}
	}
	if (m->used >= m->cap / 4 * 3 && grow(m) < 0)
		return -ENOMEM;
	m->cells[find(m, key)] = (struct map_cell) { .key = key, .value = value, .full = true };
	m->used++;
	return 0;
}

bool map_get(const struct map *m, uint64_t key, uint32_t *ret)
{
	if (m->cap == 0)
		return false;
	const struct map_cell *cell = &m->cells[find(m, key)];

	if (!cell->full)
		return false;
	*ret = cell->value;
	return true;
}

/* Closes the hole at i: moves a later cell into it unless that would put it before its home.
 * Without tombstones, a table with as many insertions as removals is never rebuilt. */
static void close_hole(struct map *m, size_t i)
{
	size_t mask = m->cap - 1;

	for (size_t j = (i + 1) & mask; m->cells[j].full; j = (j + 1) & mask) {
		if (((j - home(m, m->cells[j].key)) & mask) >= ((j - i) & mask)) {
			m->cells[i] = m->cells[j];
			i = j;
		}
	}
	m->cells[i].full = false;
}

void map_remove(struct map *m, uint64_t key)
{
	if (m->cap == 0)
		return;
	size_t i = find(m, key);

	if (!m->cells[i].full)
		return;
	close_hole(m, i);
	m->used--;
}

void map_done(struct map *m)
{
	free(m->cells);
	*m = (struct map) { 0 };
}
