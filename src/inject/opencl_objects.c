/* SPDX-License-Identifier: MIT */
#include "inject/opencl_objects.h"

#include <stdlib.h>
#include <string.h>

#include "inject/opencl_abi.h"
#include "inject/probe.h"

/* ---- a table of entries by handle: lists that only grow ---------------------------------------------------------- */

enum {
	LISTS = 256
};

/* Each entry begins with its handle. */
struct link {
	struct link *next;
	void *entry;
};

struct table {
	_Atomic(struct link *) lists[LISTS];
};

static _Atomic(struct link *) *list_of(struct table *table, const void *handle)
{
	uint64_t mixed = (uint64_t) (uintptr_t) handle * UINT64_C(0x9E3779B97F4A7C15);

	return &table->lists[mixed >> 56];
}

static void *find_from(const struct link *link, const void *handle)
{
	for (; link; link = link->next)
		if (*(void **) link->entry == handle)
			return link->entry;
	return NULL;
}

static void *find(struct table *table, const void *handle)
{
	return find_from(atomic_load_explicit(list_of(table, handle), memory_order_acquire), handle);
}

/* Adds an entry, whose memory becomes the table's; if another thread was first, the entry of that one is
 * returned, and this one freed. */
static void *add(struct table *table, void *entry)
{
	void *handle = *(void **) entry, *there;
	_Atomic(struct link *) *list = list_of(table, handle);
	struct link *link = malloc(sizeof *link), *first;

	if (!link) {
		free(entry);
		return NULL;
	}
	*link = (struct link) { .entry = entry };
	first = atomic_load_explicit(list, memory_order_acquire);
	do {
		there = find_from(first, handle);
		if (there) {
			free(entry);
			free(link);
			return there;
		}
		link->next = first;
	} while (!atomic_compare_exchange_weak_explicit(
		list, &first, link, memory_order_release, memory_order_acquire));
	return entry;
}

/* ---- devices ------------------------------------------------------------------------------------------------------ */

/* The devices of a platform have numbers in a row. */
struct platform {
	void *handle;
	uint32_t first, count;
	void *devices[];
};

static struct table platforms, devices, queues, contexts, allocations;
static _Atomic uint32_t next_device;

static struct platform *platform_of(void *device)
{
	struct platform *platform;
	void *handle = NULL;
	uint32_t count = 0;

	if (opencl_next.GetDeviceInfo(device, OPENCL_DEVICE_PLATFORM, sizeof handle, &handle, NULL) !=
		OPENCL_SUCCESS)
		return NULL;
	platform = find(&platforms, handle);
	if (platform || !opencl_next.GetDeviceIDs)
		return platform;
	if (opencl_next.GetDeviceIDs(handle, OPENCL_ALL_DEVICES, 0, NULL, &count) != OPENCL_SUCCESS ||
		count > 4096)
		return NULL;
	platform = calloc(1, sizeof *platform + count * sizeof(void *));
	if (!platform)
		return NULL;
	platform->handle = handle;
	platform->count = count;
	if (opencl_next.GetDeviceIDs(handle, OPENCL_ALL_DEVICES, count, platform->devices, NULL) !=
		OPENCL_SUCCESS)
		platform->count = 0;
	platform->first = atomic_fetch_add(&next_device, platform->count);
	return add(&platforms, platform);
}

/* The device that a part of one was made of. */
static void *whole_device(void *device)
{
	void *parent;

	for (int depth = 0; depth < 16; depth++) {
		parent = NULL;
		if (opencl_next.GetDeviceInfo(device, OPENCL_DEVICE_PARENT, sizeof parent, &parent, NULL) !=
				OPENCL_SUCCESS ||
			!parent)
			break;
		device = parent;
	}
	return device;
}

struct opencl_device *opencl_device(void *handle)
{
	struct opencl_device *device = find(&devices, handle);
	struct platform *platform;
	void *whole;

	if (device || !handle)
		return device;
	device = calloc(1, sizeof *device);
	if (!device)
		return NULL;
	device->handle = handle;
	device->number = -1;
	if (opencl_next.GetDeviceInfo(handle, OPENCL_DEVICE_NAME, sizeof device->name - 1, device->name,
		    NULL) != OPENCL_SUCCESS)
		device->name[0] = '\0';
	whole = whole_device(handle);
	platform = platform_of(handle);
	for (uint32_t i = 0; platform && i < platform->count; i++)
		if (platform->devices[i] == whole)
			device->number = (int32_t) (platform->first + i);
	return add(&devices, device);
}

/* ---- contexts and queues ------------------------------------------------------------------------------------------ */

struct context {
	void *handle;
	uint32_t number;
};

uint32_t opencl_context(void *handle)
{
	static _Atomic uint32_t last;
	struct context *context = find(&contexts, handle);

	if (!context) {
		context = calloc(1, sizeof *context);
		if (!context)
			return 0;
		*context = (struct context) { .handle = handle, .number = atomic_fetch_add(&last, 1) + 1 };
		context = add(&contexts, context);
	}
	return context ? context->number : 0;
}

struct opencl_device *opencl_context_device(void *context)
{
	void *list[2] = { NULL, NULL };
	size_t bytes = 0;

	if (opencl_next.GetContextInfo(context, OPENCL_CONTEXT_DEVICES, sizeof list, list, &bytes) !=
			OPENCL_SUCCESS ||
		bytes != sizeof *list)
		return NULL;
	return opencl_device(list[0]);
}

struct opencl_queue *opencl_queue_new(void *handle, void *context, void *device)
{
	static _Atomic uint32_t last;
	struct opencl_queue *queue = find(&queues, handle);

	if (!queue) {
		queue = aligned_alloc(_Alignof(struct opencl_queue), sizeof *queue);
		if (!queue)
			return NULL;
		memset((void *) queue, 0, sizeof *queue);
		queue->handle = handle;
		queue->number = atomic_fetch_add(&last, 1) + 1;
		queue = add(&queues, queue);
	}
	if (queue) {
		queue->context = opencl_context(context);
		queue->device = opencl_device(device);
	}
	return queue;
}

struct opencl_queue *opencl_queue(void *handle)
{
	return find(&queues, handle);
}

/* ---- shared virtual memory ---------------------------------------------------------------------------------------- */

struct allocation {
	void *pointer;
	_Atomic uint64_t bytes; /* 0: freed */
	_Atomic uint32_t site;
	_Atomic unsigned generation; /* of the process that it was written in */
};

void opencl_svm_new(void *pointer, uint64_t bytes, uint32_t site)
{
	struct allocation *allocation = find(&allocations, pointer);

	if (!allocation) {
		allocation = calloc(1, sizeof *allocation);
		if (!allocation)
			return;
		allocation->pointer = pointer;
		allocation = add(&allocations, allocation);
	}
	if (!allocation)
		return;
	atomic_store(&allocation->site, site);
	atomic_store(&allocation->generation, probe_generation());
	atomic_store(&allocation->bytes, bytes);
}

uint64_t opencl_svm_end(void *pointer, uint32_t *site)
{
	struct allocation *allocation = find(&allocations, pointer);

	if (!allocation || atomic_load(&allocation->generation) != probe_generation())
		return 0;
	*site = atomic_load(&allocation->site);
	return atomic_exchange(&allocation->bytes, 0);
}
