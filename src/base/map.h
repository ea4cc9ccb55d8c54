/* SPDX-License-Identifier: MIT
 *
 * A hash table from uint64_t to uint32_t (pid to id, id to index). Open addressing; grows, never
 * shrinks; alternating put and remove allocate nothing; an all-zero struct is an empty table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map {
	struct map_cell *cells;
	size_t cap, used;
};

/* A key of several values: each is mixed in, in order. */
static inline uint64_t map_mixed(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* Sets key to value. Returns 0 or -ENOMEM. */
int map_put(struct map *m, uint64_t key, uint32_t value);
/* Returns false without changing *ret if there is no such key. */
bool map_get(const struct map *m, uint64_t key, uint32_t *ret);
void map_remove(struct map *m, uint64_t key);
void map_done(struct map *m);
