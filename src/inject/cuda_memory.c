/* SPDX-License-Identifier: MIT
 *
 * Memory that the program allocates through CUDA's driver, exactly: every successful call is an event, and
 * a release has the bytes, the kind and the device of its allocation. Requested bytes are counted; the
 * driver rounds them up.
 *
 * A fixed table in this library's own memory has what is allocated now: linear memory, arrays and pinned
 * host memory by address, physical memory (cuMemCreate) by handle, and the mappings of such memory by
 * address. Physical memory counts from its creation until no handle and no mapping is left, in whichever
 * order the program releases and unmaps.
 *
 * Another thread can get an address again before the release of it has returned here. So a release notes at
 * its entry which allocation it ends, and at its exit ends that one alone.
 */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "inject/cuda.h"

enum {
	CELLS = 1 << 16, /* a power of two */
	FULL_AT = CELLS / 8 * 7,
	CONTEXTS = 64,
	SPINS = 1 << 16,
	LOCATION_DEVICE = 1, /* of cuMemCreate; all others are of the host */
};

/* What an entry of the table is; part of its key, since a handle may equal an address. */
enum block_type {
	EMPTY,
	LINEAR,
	HOST,
	ARRAY,
	PHYSICAL,
	MAPPING,
};

struct block {
	uint64_t key;     /* address or handle */
	uint64_t bytes;
	uint64_t serial;  /* of its allocation, from 1; of a MAPPING: the handle that is mapped */
	uint32_t site;
	uint32_t context; /* that it ends with; 0: with none */
	uint32_t handles; /* PHYSICAL: references that the program has */
	uint16_t mappings;
	uint8_t type;     /* enum block_type */
	uint8_t foreign;  /* memory of another process, or an object without any: in no sum */
};

static struct block table[CELLS];
static uint32_t used;
static uint64_t serials;
static atomic_flag locked = ATOMIC_FLAG_INIT;

/* Devices of contexts: id + 1 in the upper half, device in the lower; 0: free. */
static _Atomic uint64_t contexts[CONTEXTS];

/* False if the holder makes no progress, such as a thread that was stopped there: then the call is not counted. */
static bool lock(void)
{
	for (unsigned i = 0; atomic_flag_test_and_set_explicit(&locked, memory_order_acquire); i++) {
		if (i == SPINS) {
			probe_lost(TRACE_LOST_DROPPED, 1);
			return false;
		}
		if (i > 64)
			sched_yield();
	}
	return true;
}

static void unlock(void)
{
	atomic_flag_clear_explicit(&locked, memory_order_release);
}

/* ---- the table, under the lock --------------------------------------------------------------- */

static uint32_t home(uint64_t key, unsigned type)
{
	const uint64_t hash = (key ^ (uint64_t) type << 60) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t) (hash >> 48) & (CELLS - 1);
}

static struct block *find(uint64_t key, unsigned type)
{
	for (uint32_t i = home(key, type); table[i].type != EMPTY; i = (i + 1) & (CELLS - 1)) {
		if (table[i].key == key && table[i].type == type)
			return &table[i];
	}
	return NULL;
}

/* NULL: the table is full; the allocation is in no sum, and counted as lost. */
static struct block *add(uint64_t key, unsigned type)
{
	uint32_t i = home(key, type);

	if (used >= FULL_AT) {
		probe_lost(TRACE_LOST_DROPPED, 1);
		return NULL;
	}
	while (table[i].type != EMPTY)
		i = (i + 1) & (CELLS - 1);
	used++;
	table[i] = (struct block) { .key = key, .type = (uint8_t) type, .serial = ++serials };
	return &table[i];
}

/* Later entries move into the gap, so that each is reached from its home without one. */
static void take_out(struct block *block)
{
	uint32_t gap = (uint32_t) (block - table);

	used--;
	for (uint32_t i = (gap + 1) & (CELLS - 1); table[i].type != EMPTY; i = (i + 1) & (CELLS - 1)) {
		const uint32_t from_home = (i - home(table[i].key, table[i].type)) & (CELLS - 1);

		if (from_home >= ((i - gap) & (CELLS - 1))) {
			table[gap] = table[i];
			gap = i;
		}
	}
	table[gap] = (struct block) { 0 };
}

/* ---- events ---------------------------------------------------------------------------------- */

int32_t cuda_device_of(void *context, uint32_t context_id)
{
	uint32_t device;

	if (!context)
		return -1;
	for (unsigned i = 0; i < CONTEXTS; i++) {
		const uint64_t cell = atomic_load_explicit(&contexts[i], memory_order_relaxed);

		if (cell >> 32 == (uint64_t) context_id + 1)
			return (int32_t) (uint32_t) cell;
	}
	if (!cuda_cupti.get_device || cuda_cupti.get_device(context, &device) != CUPTI_OK)
		return -1;
	for (unsigned i = 0; i < CONTEXTS; i++) {
		uint64_t free_cell = 0;

		if (atomic_compare_exchange_strong(
			    &contexts[i], &free_cell, ((uint64_t) context_id + 1) << 32 | device))
			break;
	}
	return (int32_t) device;
}

static uint32_t site_of(const struct cupti_call *call, int32_t device, enum trace_memory memory)
{
	const struct trace_ring_site site = {
		.kind = TRACE_ALLOC,
		.name = probe_text0(call->function),
		.device = device,
		.context = call->context_id,
		.target = (uint8_t) memory,
	};

	return probe_site(&site);
}

static void write_event(const struct cupti_call *call, uint64_t key, uint64_t bytes, uint32_t site,
	bool is_free, unsigned flags)
{
	const struct trace_ring_memory memory = {
		.address = key,
		.bytes = bytes,
		.site = site,
		.is_free = is_free,
		.correlation = call ? call->correlation : 0,
	};

	probe_memory(probe_now(), flags, &memory);
}

static void ends(const struct cupti_call *call, struct block *block)
{
	if (!block->foreign && block->type != MAPPING)
		write_event(call, block->key, block->bytes, block->site, true, 0);
	take_out(block);
}

/* An allocation that exists already was released, by a call that has not returned here yet or is not followed. */
static void begins(const struct cupti_call *call, unsigned type, uint64_t key, uint64_t bytes,
	enum trace_memory memory, int32_t device)
{
	struct block *block = key ? find(key, type) : NULL;

	if (key == 0)
		return;
	if (block)
		ends(call, block);
	block = add(key, type);
	if (!block)
		return;
	block->bytes = bytes;
	block->site = site_of(call, device, memory);
	block->context = type == PHYSICAL ? 0 : call->context_id;
	block->handles = 1;
	write_event(call, key, bytes, block->site, false, 0);
}

/* ---- physical memory ------------------------------------------------------------------------- */

static void end_if_unused(const struct cupti_call *call, struct block *block)
{
	if (block->handles == 0 && block->mappings == 0)
		ends(call, block);
}

static void begin_foreign(uint64_t handle)
{
	struct block *block = find(handle, PHYSICAL);

	if (block) {
		block->handles++;
		return;
	}
	block = add(handle, PHYSICAL);
	if (block) {
		block->foreign = true;
		block->handles = 1;
	}
}

static void map(uint64_t address, uint64_t bytes, uint64_t handle)
{
	struct block *const physical = find(handle, PHYSICAL);
	struct block *mapping = find(address, MAPPING);

	if (!physical || mapping)
		return;
	/* add() moves no entry, so that physical stays where it is. */
	mapping = add(address, MAPPING);
	if (!mapping)
		return;
	mapping->bytes = bytes;
	mapping->serial = handle;
	physical->mappings++;
}

/* One call may end several mappings that follow each other. */
static void unmap(const struct cupti_call *call, uint64_t address, uint64_t bytes)
{
	const uint64_t end = address + bytes;

	while (address < end) {
		struct block *const mapping = find(address, MAPPING);

		if (!mapping || mapping->bytes == 0)
			return;
		const uint64_t handle = mapping->serial;

		address += mapping->bytes;
		take_out(mapping);
		struct block *const physical = find(handle, PHYSICAL);

		if (physical && physical->mappings > 0) {
			physical->mappings--;
			end_if_unused(call, physical);
		}
	}
}

/* ---- sizes ----------------------------------------------------------------------------------- */

struct array_descriptor {
	size_t width, height;
	uint32_t format, channels;
};

struct array_descriptor_3d {
	size_t width, height, depth;
	uint32_t format, channels, flags;
};

/* Bytes of a channel. Formats of blocks and of video are at most one byte a channel, and count as one. */
static uint64_t format_bytes(uint32_t format)
{
	switch (format) {
	case 0x03:
	case 0x0a:
	case 0x20: /* 32-bit integers, float */
		return 4;
	case 0x02:
	case 0x09:
	case 0x10: /* 16-bit integers, half */
	case 0xc3:
	case 0xc4:
	case 0xc5:
	case 0xc9:
	case 0xca:
	case 0xcb:
		return 2;
	default:
		return 1;
	}
}

static uint64_t at_least_1(uint64_t n)
{
	return n > 0 ? n : 1;
}

static uint64_t array_bytes(const struct array_descriptor_3d *array, unsigned levels)
{
	const uint64_t channel = format_bytes(array->format) * at_least_1(array->channels);
	uint64_t sum = 0;

	for (unsigned level = 0; level < levels && level < 32; level++)
		sum += at_least_1(array->width >> level) * at_least_1(array->height >> level) *
		       at_least_1(array->depth >> level) * channel;
	return sum;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Arguments, in the order in which the driver has them. */
union arguments {
	struct {
		uint64_t *ret;
		size_t bytes;
	} allocate;
	struct {
		uint64_t *ret;
		size_t *pitch;
		size_t width, height;
	} pitch;
	struct {
		uint64_t address;
		size_t bytes;
	} range;
	struct {
		uint64_t *ret;
		const void *descriptor;
		unsigned levels;
	} array;
	struct {
		uint64_t *ret;
		size_t bytes;
		const struct {
			uint32_t type, handles, location, device;
		} *properties;
	} create;
	struct {
		uint64_t address;
		size_t bytes, offset;
		uint64_t handle;
	} map;
};

/* Bytes and kind of what was asked for; false: the call allocates nothing of its own. */
static bool request(const struct cupti_call *call, unsigned act, uint64_t *ret_bytes,
	enum trace_memory *ret_memory, int32_t *ret_device)
{
	const union arguments *const a = call->params;
	const struct array_descriptor *plain;
	unsigned levels;

	*ret_memory = TRACE_DEVICE;
	*ret_device = cuda_device_of(call->context, call->context_id);
	switch ((enum cuda_act) act) {
	case CUDA_LINEAR:
		*ret_bytes = a->allocate.bytes;
		return true;
	case CUDA_MANAGED:
		*ret_memory = TRACE_MANAGED;
		*ret_bytes = a->allocate.bytes;
		return true;
	case CUDA_PITCH:
		/* The pitch is known once it has succeeded. */
		*ret_bytes = a->pitch.height *
			     (*call->result == 0 && a->pitch.pitch ? *a->pitch.pitch : a->pitch.width);
		return true;
	case CUDA_PINNED:
	case CUDA_REGISTER:
		*ret_memory = TRACE_PINNED;
		*ret_device = -1;
		*ret_bytes = a->allocate.bytes;
		return true;
	case CUDA_ARRAY:
		plain = a->array.descriptor;
		*ret_memory = TRACE_ARRAY;
		*ret_bytes = plain ? array_bytes(&(struct array_descriptor_3d) { .width = plain->width,
							 .height = plain->height,
							 .format = plain->format,
							 .channels = plain->channels },
					     1)
				   : 0;
		return true;
	case CUDA_ARRAY_3D:
	case CUDA_MIPMAPPED:
		*ret_memory = TRACE_ARRAY;
		levels = act == CUDA_MIPMAPPED ? a->array.levels : 1;
		*ret_bytes = a->array.descriptor ? array_bytes(a->array.descriptor, levels) : 0;
		return true;
	case CUDA_CREATE:
		if (a->create.properties && a->create.properties->location == LOCATION_DEVICE) {
			*ret_device = (int32_t) a->create.properties->device;
		} else {
			*ret_memory = TRACE_PINNED;
			*ret_device = -1;
		}
		*ret_bytes = a->create.bytes;
		return true;
	case CUDA_NO_ACT:
	case CUDA_FREE:
	case CUDA_PINNED_FREE:
	case CUDA_ARRAY_FREE:
	case CUDA_RETAIN:
	case CUDA_IMPORT:
	case CUDA_RELEASE:
	case CUDA_MAP:
	case CUDA_UNMAP:
		break;
	}
	return false;
}

static unsigned type_of(unsigned act)
{
	switch ((enum cuda_act) act) {
	case CUDA_PINNED:
	case CUDA_REGISTER:
	case CUDA_PINNED_FREE:
		return HOST;
	case CUDA_ARRAY:
	case CUDA_ARRAY_3D:
	case CUDA_MIPMAPPED:
	case CUDA_ARRAY_FREE:
		return ARRAY;
	case CUDA_CREATE:
		return PHYSICAL;
	case CUDA_LINEAR:
	case CUDA_PITCH:
	case CUDA_MANAGED:
	case CUDA_FREE:
	case CUDA_NO_ACT:
	case CUDA_RETAIN:
	case CUDA_IMPORT:
	case CUDA_RELEASE:
	case CUDA_MAP:
	case CUDA_UNMAP:
		break;
	}
	return LINEAR;
}

static bool is_release(unsigned act)
{
	return act == CUDA_FREE || act == CUDA_PINNED_FREE || act == CUDA_ARRAY_FREE;
}

void cuda_memory_enter(unsigned act, const struct cupti_call *call)
{
	const union arguments *const a = call->params;

	if (!is_release(act) || !call->data || !lock())
		return;
	const struct block *const block = find(a->range.address, type_of(act));

	*call->data = block ? block->serial : 0;
	unlock();
}

/* Of memory that was allocated before the probe was there, by another process, or in a way that is not followed:
 * an event without bytes. */
static void release(unsigned act, const struct cupti_call *call)
{
	const union arguments *const a = call->params;
	struct block *const block = find(a->range.address, type_of(act));
	const uint64_t noted = call->data ? *call->data : 0;

	if (a->range.address == 0)
		return;
	if (!block && noted == 0)
		write_event(call, a->range.address, 0, site_of(call, -1, TRACE_MEMORY_UNKNOWN), true, 0);
	else if (block && (noted == 0 || noted == block->serial))
		ends(call, block);
}

static void succeeded(unsigned act, const struct cupti_call *call)
{
	const union arguments *const a = call->params;
	enum trace_memory memory;
	uint64_t bytes;
	int32_t device;
	struct block *block;

	if (request(call, act, &bytes, &memory, &device)) {
		/* Registered memory is where the program says; all other calls return where. */
		const uint64_t key = act == CUDA_REGISTER      ? a->range.address
				     : a->allocate.ret != NULL ? *a->allocate.ret
							       : 0;

		begins(call, type_of(act), key, bytes, memory, device);
	} else if (is_release(act)) {
		release(act, call);
	} else if (act == CUDA_RETAIN && a->allocate.ret) {
		block = find(*a->allocate.ret, PHYSICAL);
		if (block)
			block->handles++;
	} else if (act == CUDA_IMPORT && a->allocate.ret) {
		begin_foreign(*a->allocate.ret);
	} else if (act == CUDA_RELEASE) {
		block = find(a->range.address, PHYSICAL);
		if (block && block->handles > 0) {
			block->handles--;
			end_if_unused(call, block);
		}
	} else if (act == CUDA_MAP) {
		map(a->map.address, a->map.bytes, a->map.handle);
	} else if (act == CUDA_UNMAP) {
		unmap(call, a->range.address, a->range.bytes);
	}
}

uint64_t cuda_memory_requested(unsigned act, const struct cupti_call *call)
{
	enum trace_memory memory;
	uint64_t bytes;
	int32_t device;

	return request(call, act, &bytes, &memory, &device) ? bytes : 0;
}

/* A failed allocation is an event without bytes, so that it is in no sum of them; cuda.c marks what was asked. */
void cuda_memory_exit(unsigned act, const struct cupti_call *call)
{
	enum trace_memory memory;
	uint64_t bytes;
	int32_t device;

	if (*call->result != 0) {
		if (request(call, act, &bytes, &memory, &device))
			write_event(call, 0, 0, site_of(call, device, memory), false, TRACE_FAILED);
		return;
	}
	if (!lock())
		return;
	succeeded(act, call);
	unlock();
}

void cuda_memory_context_ends(uint32_t context)
{
	if (!lock())
		return;
	for (uint32_t i = 0; i < CELLS;) {
		/* Another entry may have moved to i. */
		if (table[i].type != EMPTY && table[i].context == context && context != 0)
			ends(NULL, &table[i]);
		else
			i++;
	}
	unlock();
	for (unsigned i = 0; i < CONTEXTS; i++) {
		uint64_t cell = atomic_load_explicit(&contexts[i], memory_order_relaxed);

		if (cell >> 32 == (uint64_t) context + 1)
			atomic_store_explicit(&contexts[i], 0, memory_order_relaxed);
	}
}
