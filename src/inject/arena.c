/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include <stdbool.h>
#include <string.h>

enum {
	UNIT = 8, /* of offsets */
	/* Cells that are tried: an index that is nearly full must not cost the job much. */
	TRIES = 64,
};

#define MIX 0x9E3779B97F4A7C15u /* 2^64 over the golden ratio: an odd number without pattern */

static inline uint64_t mixed(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * MIX;
	return hash ^ hash >> 32;
}

static inline uint64_t eight(const char *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

static inline uint64_t four(const char *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* Eight bytes at a time; the last ones overlap those before. */
static inline uint32_t hash_of(const char *bytes, size_t len, unsigned type)
{
	uint64_t hash = (uint64_t) len << 8 | type, word = 0;

	if (len >= 8) {
		for (size_t i = 0; i + 8 < len; i += 8)
			hash = mixed(hash, eight(bytes + i));
		word = eight(bytes + len - 8);
	} else if (len >= 4) {
		word = four(bytes) << 32 | four(bytes + len - 4);
	} else if (len > 0) {
		word = (unsigned char) bytes[0];
		word = word << 8 | (unsigned char) bytes[len / 2];
		word = word << 8 | (unsigned char) bytes[len - 1];
	}
	/* Twice, since a multiplication carries nothing down. */
	return (uint32_t) mixed(mixed(hash, word), 0);
}

static inline char *entry_at(struct trace_slot *slot, uint32_t offset)
{
	return (char *) slot + TRACE_ARENA_AT + (size_t) offset * UNIT;
}

static inline bool equals(
	struct trace_slot *slot, uint32_t offset, const struct trace_text *head, const void *bytes)
{
	const char *const entry = entry_at(slot, offset);

	return offset <= (TRACE_ARENA_BYTES - sizeof(*head) - head->len) / UNIT &&
	       eight(entry) == eight((const char *) head) &&
	       memcmp(entry + sizeof(*head), bytes, head->len) == 0;
}

/* The offset of a copy that is in no cell yet; 0: no room. */
static uint32_t store(
	struct trace_slot *slot, const struct trace_text *head, const void *bytes, uint32_t keep)
{
	const uint32_t size = (uint32_t) (sizeof(*head) + head->len + UNIT - 1) / UNIT * UNIT;
	uint32_t at = atomic_load_explicit(&slot->arena_used, memory_order_relaxed);

	do {
		if (at > TRACE_ARENA_BYTES - size - keep || at < UNIT || at % UNIT)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(&slot->arena_used, &at, at + size,
		memory_order_relaxed, memory_order_relaxed));
	memcpy(entry_at(slot, at / UNIT), head, sizeof(*head));
	memcpy(entry_at(slot, at / UNIT) + sizeof(*head), bytes, head->len);
	return at / UNIT;
}

_Static_assert(sizeof(struct trace_text) == 8, "compared at once");

uint32_t arena_put(struct trace_slot *slot, unsigned type, const void *bytes, size_t len, uint32_t keep)
{
	_Atomic uint32_t *const cells = (_Atomic uint32_t *) ((char *) slot + TRACE_INDEX_AT);
	const struct trace_text head = { hash_of(bytes, len, type), (uint16_t) len, (uint16_t) type };
	uint32_t mine = 0;

	for (uint32_t i = head.hash, n = 0; n < TRIES; i++, n++) {
		_Atomic uint32_t *const cell = &cells[i % TRACE_INDEX_CELLS];
		uint32_t offset = atomic_load_explicit(cell, memory_order_acquire);

		if (offset == 0) {
			if (!mine)
				mine = store(slot, &head, bytes, keep);
			if (!mine)
				return 0;
			if (atomic_compare_exchange_strong_explicit(cell, &offset, mine, memory_order_acq_rel,
				    memory_order_acquire))
				return mine;
			/* Another thread took the cell, perhaps for the same text. */
		}
		if (equals(slot, offset, &head, bytes))
			return offset;
	}
	return 0;
}

void arena_begin(struct trace_slot *slot)
{
	atomic_store_explicit(&slot->arena_used, UNIT, memory_order_relaxed); /* offset 0 is none */
}
