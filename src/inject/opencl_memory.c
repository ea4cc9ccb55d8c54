/* SPDX-License-Identifier: MIT */
#include "inject/opencl_memory.h"

#include <stdlib.h>
#include <string.h>

#include "inject/opencl_abi.h"
#include "inject/opencl_objects.h"
#include "inject/probe.h"

static uint32_t site_of(const char *call, void *context, const struct opencl_device *device, uint8_t target)
{
	struct trace_ring_site site;

	memset(&site, 0, sizeof site);
	site.kind = TRACE_ALLOC;
	site.name = probe_text0(call);
	site.device = device ? device->number : -1;
	site.device_name = device ? probe_text0(device->name) : 0;
	site.context = context ? opencl_context(context) : 0;
	site.target = target;
	return probe_site(&site);
}

static void write_failure(uint32_t site, uint64_t bytes)
{
	probe_memory(probe_now(), TRACE_FAILED, &(struct trace_ring_memory) { .bytes = bytes, .site = site });
}

/* ---- memory objects ----------------------------------------------------------------------------------------------- */

/* What is needed when an object is gone. */
struct object {
	uint64_t bytes;
	uint32_t site;
	unsigned generation;
};

static void gone(void *mem, void *data)
{
	struct object *object = data;

	if (object->generation == probe_generation())
		probe_memory(probe_now(), 0,
			&(struct trace_ring_memory) { .address = (uintptr_t) mem,
				.bytes = object->bytes,
				.site = object->site,
				.is_free = 1 });
	free(object);
}

/* CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY, CL_INVALID_BUFFER_SIZE (more
 * than the device allows): not a mistake in the other arguments. */
static bool is_want_of_memory(int32_t error)
{
	return error == -4 || error == -5 || error == OPENCL_NO_MEMORY || error == -61;
}

/* The host's memory is the program's own; what the runtime allocates there is pinned where that helps. */
static uint8_t memory_kind(uint64_t flags)
{
	return flags & OPENCL_USE_HOST_PTR     ? TRACE_PAGEABLE
	       : flags & OPENCL_ALLOC_HOST_PTR ? TRACE_PINNED
					       : TRACE_DEVICE;
}

void *opencl_mem_created(
	const char *call, void *context, uint64_t flags, size_t bytes, void *mem, int32_t error)
{
	struct object *object;
	void *parent = NULL;
	size_t size = 0;
	uint32_t site;

	if (!probe_follows(TRACE_MEMORY) || (!mem && !is_want_of_memory(error)))
		return mem;
	if (mem &&
		opencl_next.GetMemObjectInfo(mem, OPENCL_MEM_PARENT, sizeof parent, &parent, NULL) ==
			OPENCL_SUCCESS &&
		parent)
		return mem;
	site = site_of(call, context, opencl_context_device(context), memory_kind(flags));
	if (!mem) {
		write_failure(site, bytes);
		return mem;
	}
	if (opencl_next.GetMemObjectInfo(mem, OPENCL_MEM_SIZE, sizeof size, &size, NULL) !=
			OPENCL_SUCCESS ||
		size == 0)
		size = bytes;
	object = malloc(sizeof *object);
	if (!object) {
		probe_lost(TRACE_LOST_DROPPED, 1);
		return mem;
	}
	*object = (struct object) { .bytes = size, .site = site, .generation = probe_generation() };
	if (!opencl_next.SetMemObjectDestructorCallback ||
		opencl_next.SetMemObjectDestructorCallback(mem, gone, object) != OPENCL_SUCCESS) {
		free(object); /* an allocation whose end is never seen would make every later peak wrong */
		probe_lost(TRACE_LOST_DROPPED, 1);
		return mem;
	}
	probe_memory(probe_now(), 0,
		&(struct trace_ring_memory) { .address = (uintptr_t) mem, .bytes = size, .site = site });
	return mem;
}

/* ---- shared virtual memory ---------------------------------------------------------------------------------------- */

void opencl_svm_created(void *context, size_t bytes, void *pointer)
{
	struct opencl_device *device;
	uint32_t site;

	if (!probe_follows(TRACE_MEMORY))
		return;
	device = opencl_context_device(context);
	site = site_of("clSVMAlloc", context, device, TRACE_MANAGED);
	if (!pointer) {
		write_failure(site, bytes);
		return;
	}
	opencl_svm_new(pointer, bytes, site);
	probe_memory(probe_now(), 0,
		&(struct trace_ring_memory) {
			.address = (uintptr_t) pointer, .bytes = bytes, .site = site });
}

void opencl_svm_freed(void *pointer, uint64_t time_ns)
{
	uint32_t site = 0;
	uint64_t bytes = pointer ? opencl_svm_end(pointer, &site) : 0;

	if (bytes != 0)
		probe_memory(time_ns, 0,
			&(struct trace_ring_memory) { .address = (uintptr_t) pointer,
				.bytes = bytes,
				.site = site,
				.is_free = 1 });
}
