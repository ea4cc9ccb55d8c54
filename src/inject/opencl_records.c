/* SPDX-License-Identifier: MIT */
#include "inject/opencl_records.h"

#include <stdlib.h>
#include <string.h>

enum {
	STATE_BITS = 2,
	INDEX_BITS = 20,
	BLOCK = 256, /* records that are allocated at once */
	BLOCKS = (1 << INDEX_BITS) / BLOCK,
	SPINS = 200, /* the thread that has the list may be off its CPU, or not in this process */
};
#define USE_MASK (UINTPTR_MAX >> INDEX_BITS) /* a callback is given index and use in one word */

static _Atomic(struct opencl_record *) blocks[BLOCKS];
static _Atomic uint32_t records_used;

struct opencl_record *opencl_record_at(uint32_t i)
{
	struct opencl_record *block;

	if (i >= atomic_load_explicit(&records_used, memory_order_acquire))
		return NULL;
	block = atomic_load_explicit(&blocks[i / BLOCK], memory_order_acquire);
	return block ? &block[i % BLOCK] : NULL;
}

static struct opencl_record *block_at(uint32_t i)
{
	struct opencl_record *block = atomic_load_explicit(&blocks[i], memory_order_acquire), *none = NULL;

	if (block)
		return block;
	block = aligned_alloc(sizeof *block, BLOCK * sizeof *block);
	if (!block)
		return NULL;
	memset((void *) block, 0, BLOCK * sizeof *block);
	if (atomic_compare_exchange_strong(&blocks[i], &none, block))
		return block;
	free(block);
	return none;
}

static struct opencl_record *new_record(void)
{
	uint32_t index = atomic_load(&records_used);
	struct opencl_record *block;

	do {
		if (index >= BLOCKS * BLOCK)
			return NULL;
		block = block_at(index / BLOCK);
		if (!block)
			return NULL;
	} while (!atomic_compare_exchange_weak(&records_used, &index, index + 1));
	block[index % BLOCK].index = index;
	return &block[index % BLOCK];
}

struct opencl_record *opencl_record_claim(struct opencl_records *list)
{
	struct opencl_record *record = NULL;

	for (int i = 0; i < SPINS; i++) {
		if (atomic_flag_test_and_set_explicit(&list->is_locked, memory_order_acquire))
			continue;
		if (list->kept == 0)
			list->kept = atomic_exchange(&list->returned, 0);
		if (list->kept != 0) {
			record = opencl_record_at(list->kept - 1);
			list->kept = record->next;
		}
		atomic_flag_clear_explicit(&list->is_locked, memory_order_release);
		break;
	}
	return record ? record : new_record();
}

void opencl_record_return(struct opencl_records *list, struct opencl_record *record)
{
	uint64_t use = atomic_load_explicit(&record->state, memory_order_relaxed) >> STATE_BITS;
	uint32_t first = atomic_load_explicit(&list->returned, memory_order_relaxed);

	atomic_store_explicit(&record->event, NULL, memory_order_release);
	atomic_store_explicit(
		&record->state, ((use + 1) & USE_MASK) << STATE_BITS | OPENCL_FREE, memory_order_release);
	do
		record->next = first;
	while (!atomic_compare_exchange_weak_explicit(
		&list->returned, &first, record->index + 1, memory_order_release, memory_order_relaxed));
	atomic_fetch_add_explicit(&list->ended, 1, memory_order_release);
}

void *opencl_record_publish(struct opencl_records *list, struct opencl_record *record)
{
	uint64_t use = atomic_load_explicit(&record->state, memory_order_relaxed) >> STATE_BITS;

	atomic_fetch_add_explicit(&list->begun, 1, memory_order_relaxed);
	atomic_store_explicit(&record->state, use << STATE_BITS | OPENCL_IN_FLIGHT, memory_order_release);
	return (void *) (uintptr_t) (use << INDEX_BITS | record->index);
}

static bool move(struct opencl_record *record, uint64_t use, enum opencl_record_state from,
	enum opencl_record_state to)
{
	uint64_t expected = use << STATE_BITS | from;

	return atomic_compare_exchange_strong(&record->state, &expected, use << STATE_BITS | to);
}

bool opencl_record_take(void *data, struct opencl_record **ret)
{
	uint64_t use = (uintptr_t) data >> INDEX_BITS;

	*ret = opencl_record_at((uint32_t) ((uintptr_t) data & ((1u << INDEX_BITS) - 1)));
	if (!*ret)
		return false;
	if (move(*ret, use, OPENCL_IN_FLIGHT, OPENCL_FREE))
		return true;
	/* If the search is over meanwhile, the record is back in flight. */
	return !move(*ret, use, OPENCL_EXAMINED, OPENCL_ARRIVED) &&
	       move(*ret, use, OPENCL_IN_FLIGHT, OPENCL_FREE);
}

bool opencl_record_examine(struct opencl_record *record)
{
	uint64_t use = atomic_load(&record->state) >> STATE_BITS;

	return move(record, use, OPENCL_IN_FLIGHT, OPENCL_EXAMINED);
}

bool opencl_record_is_held(struct opencl_record *record)
{
	uint64_t state = atomic_load(&record->state) & ((1u << STATE_BITS) - 1);

	return state == OPENCL_FREE && atomic_load(&record->event);
}

bool opencl_record_leave(struct opencl_record *record)
{
	uint64_t use = atomic_load(&record->state) >> STATE_BITS;

	return !move(record, use, OPENCL_EXAMINED, OPENCL_IN_FLIGHT);
}
