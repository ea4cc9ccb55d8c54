/* SPDX-License-Identifier: MIT */
#include "handle.h"

#include <stdatomic.h>
#include <string.h>

#include "probe.h"

enum {
	POOL_BYTES = 1 << 20, /* of the address space: what is not used is not there */
	CELLS = 8192,
	TRIES = 256, /* cells that are tried: a full table must not cost the job much */
	NAME_BYTES = PROBE_TEXT_BYTES,
	UNIT = 8,
};

static _Alignas(8) char pool[POOL_BYTES];
static _Atomic uint32_t pool_used = UNIT; /* offset 0 is none */
static _Atomic uint32_t cells[CELLS];     /* by hash: offsets in the pool, in units */

static struct {
	_Atomic uintptr_t theirs;
	_Atomic uint32_t handle; /* offset in units */
} aliases[CELLS];

static struct handle *handle_at(uint32_t offset)
{
	return (struct handle *) (void *) (pool + (size_t) offset * UNIT);
}

static uint32_t offset_of(const struct handle *h)
{
	return (uint32_t) (((const char *) h - pool) / UNIT);
}

static uint32_t hash_of(enum handle_kind kind, const char *name, size_t len)
{
	uint32_t hash = 2166136261u ^ kind; /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char) name[i]) * 16777619u;
	return hash;
}

/* One that is in no cell yet; 0: no room. */
static uint32_t add(
	enum handle_kind kind, const char *name, uint16_t len, uint32_t hash, void (*fill)(struct handle *h))
{
	const uint32_t size = (uint32_t) (sizeof(struct handle) + len + 1u + UNIT - 1) / UNIT * UNIT;
	uint32_t at = atomic_load(&pool_used);
	struct handle *h;

	do {
		if (at + size > POOL_BYTES)
			return 0;
	} while (!atomic_compare_exchange_weak(&pool_used, &at, at + size));
	h = handle_at(at / UNIT);
	h->hash = hash;
	h->kind = (uint16_t) kind;
	h->len = len;
	memcpy(h->name, name, len);
	h->name[len] = '\0';
	if (fill)
		fill(h);
	return at / UNIT;
}

struct handle *handle_of(enum handle_kind kind, const char *name, void (*fill)(struct handle *h))
{
	uint32_t mine = 0, hash;
	uint16_t len;

	if (!name)
		return NULL;
	len = (uint16_t) strnlen(name, NAME_BYTES);
	hash = hash_of(kind, name, len);
	for (uint32_t i = hash, n = 0; n < TRIES; i++, n++) {
		uint32_t offset = atomic_load_explicit(&cells[i % CELLS], memory_order_acquire);
		struct handle *h;

		if (offset == 0) {
			if (!mine)
				mine = add(kind, name, len, hash, fill);
			if (!mine)
				return NULL;
			if (atomic_compare_exchange_strong(&cells[i % CELLS], &offset, mine))
				return handle_at(mine);
			/* Another thread took the cell, perhaps for the same name. */
		}
		h = handle_at(offset);
		if (h->hash == hash && h->kind == kind && h->len == len && memcmp(h->name, name, len) == 0)
			return h;
	}
	return NULL;
}

struct handle *handle_ours(const void *given)
{
	const uintptr_t at = (uintptr_t) given - (uintptr_t) pool;
	struct handle *h;

	if (at < UNIT || at > POOL_BYTES - sizeof(*h) || at % UNIT)
		return NULL;
	h = handle_at((uint32_t) (at / UNIT));
	return h->len < POOL_BYTES - sizeof(*h) - at ? h : NULL;
}

static uint32_t cell_of_alias(const void *theirs)
{
	return (uint32_t) (((uint64_t) (uintptr_t) theirs * 0x9E3779B97F4A7C15u) >> 40);
}

void handle_alias(const void *theirs, struct handle *h)
{
	for (uint32_t i = cell_of_alias(theirs), n = 0; n < TRIES; i++, n++) {
		uintptr_t found = 0;

		if (atomic_compare_exchange_strong(&aliases[i % CELLS].theirs, &found, (uintptr_t) theirs))
			found = (uintptr_t) theirs;
		if (found == (uintptr_t) theirs) {
			/* Theirs may be memory that had another name before. */
			atomic_store_explicit(&aliases[i % CELLS].handle, offset_of(h), memory_order_release);
			return;
		}
	}
}

struct handle *handle_by_alias(const void *theirs)
{
	for (uint32_t i = cell_of_alias(theirs), n = 0; theirs && n < TRIES; i++, n++) {
		const uintptr_t found = atomic_load(&aliases[i % CELLS].theirs);
		const uint32_t offset = atomic_load(&aliases[i % CELLS].handle);

		if (found == 0)
			break;
		if (found == (uintptr_t) theirs)
			return offset ? handle_at(offset) : NULL;
	}
	return NULL;
}

uint32_t handle_offset(struct handle *h)
{
	const uint64_t generation = probe_generation();
	uint64_t offset;

	if (!h)
		return 0;
	offset = atomic_load_explicit(&h->offset, memory_order_relaxed);
	if (__builtin_expect(offset >> 32 != generation, 0)) {
		const uint32_t found = probe_text(h->name, h->len);

		offset = generation << 32 | found;
		if (found)
			atomic_store_explicit(&h->offset, offset, memory_order_relaxed);
	}
	return (uint32_t) offset;
}

uint32_t handle_number(const struct handle *h)
{
	return h ? offset_of(h) : 0;
}
