/* SPDX-License-Identifier: MIT
 *
 * OpenCL, as a layer of its loader (OPENCL_LAYERS): when a program first uses OpenCL, the loader opens this
 * library, asks clGetLayerInfo for the version of the interface and gives clInitLayer its table of
 * functions. What clInitLayer returns takes the table's place; layers before and after this one do the same,
 * each calls the next. Where nothing of OpenCL is followed, the loader gets its own table back, and the
 * layer is in no call.
 *
 * Followed are kernels, copies and fills, with the runtime's own times (opencl_commands.h), the calls that
 * enqueue them or wait for them, and memory (opencl_memory.h). Times need queues with profiling, which
 * is switched on in those that the program creates without; the program does not see it: the properties of
 * a queue are those that it asked for, and its events have times only if it asked for profiling.
 *
 * Not followed: commands of extensions (Intel's USM, command buffers), queues on a device, and objects that
 * are shared with a graphics interface.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "inject/opencl_abi.h"
#include "inject/opencl_commands.h"
#include "inject/opencl_memory.h"
#include "inject/opencl_objects.h"
#include "inject/probe.h"

struct opencl_next opencl_next;

/* ---- queues ------------------------------------------------------------------------------------------------------- */

static uint64_t *copy_of(const uint64_t *list, size_t *bytes)
{
	size_t n = 0;
	uint64_t *copy;

	*bytes = 0;
	if (!list)
		return NULL;
	while (list[n] != 0)
		n += 2;
	copy = malloc((n + 1) * sizeof *copy);
	if (copy) {
		*bytes = (n + 1) * sizeof *copy;
		memcpy(copy, list, *bytes);
	}
	return copy;
}

/* list: the properties as the program gave them; it becomes the queue's. */
static void *remember_queue(
	void *handle, void *context, void *device, bool asked, bool profiled, uint64_t *list, size_t bytes)
{
	struct opencl_queue *queue = handle ? opencl_queue_new(handle, context, device) : NULL;

	if (!queue) {
		free(list);
		return handle;
	}
	atomic_store(&queue->asked, asked);
	atomic_store(&queue->profiled, profiled);
	/* An earlier queue at this address is gone, and so is who could read its list. */
	free(atomic_exchange(&queue->properties, list));
	atomic_store(&queue->properties_bytes, bytes);
	return handle;
}

static void *create_queue(void *context, void *device, uint64_t properties, int32_t *error)
{
	bool asked = properties & OPENCL_PROFILING, ours = !asked && probe_wants(TRACE_KERNELS);
	void *queue =
		ours ? opencl_next.CreateCommandQueue(context, device, properties | OPENCL_PROFILING, error)
		     : NULL;

	if (queue)
		return remember_queue(queue, context, device, false, true, NULL, 0);
	queue = opencl_next.CreateCommandQueue(context, device, properties, error);
	return remember_queue(queue, context, device, asked, asked, NULL, 0);
}

typedef void *(*create_with_properties)(
	void *context, void *device, const uint64_t *properties, int32_t *error);

/* The list with profiling switched on; NULL: no memory. */
static uint64_t *with_profiling(const uint64_t *list, size_t bytes, uint64_t properties)
{
	size_t n = bytes ? bytes / sizeof *list - 1 : 0, i = 0;
	uint64_t *changed = malloc((n + 3) * sizeof *changed);

	if (!changed)
		return NULL;
	if (n != 0)
		memcpy(changed, list, n * sizeof *list);
	while (i < n && changed[i] != OPENCL_QUEUE_PROPERTIES)
		i += 2;
	if (i >= n) {
		changed[n] = OPENCL_QUEUE_PROPERTIES;
		n += 2;
	}
	changed[i + 1] = properties | OPENCL_PROFILING;
	changed[n] = 0;
	return changed;
}

static void *create_queue_by(
	create_with_properties create, void *context, void *device, const uint64_t *list, int32_t *error)
{
	uint64_t properties = 0, *changed, *copy;
	size_t bytes;
	void *queue = NULL;
	bool asked;

	for (size_t i = 0; list && list[i] != 0; i += 2)
		if (list[i] == OPENCL_QUEUE_PROPERTIES)
			properties = list[i + 1];
	asked = properties & OPENCL_PROFILING;
	copy = copy_of(list, &bytes);
	if (!asked && !(properties & OPENCL_ON_DEVICE) && (copy || !list) && probe_wants(TRACE_KERNELS)) {
		changed = with_profiling(list, bytes, properties);
		queue = changed ? create(context, device, changed, error) : NULL;
		free(changed);
	}
	if (queue)
		return remember_queue(queue, context, device, false, true, copy, bytes);
	queue = create(context, device, list, error);
	return remember_queue(queue, context, device, asked, asked, copy, bytes);
}

static void *create_queue_with_properties(void *context, void *device, const uint64_t *list, int32_t *error)
{
	return create_queue_by(opencl_next.CreateCommandQueueWithProperties, context, device, list, error);
}

static int32_t set_queue_property(void *handle, uint64_t properties, uint32_t enable, uint64_t *old)
{
	struct opencl_queue *queue = opencl_queue(handle);
	int32_t error = opencl_next.SetCommandQueueProperty(handle, properties, enable, old);

	if (error != OPENCL_SUCCESS || !queue)
		return error;
	if (old && !atomic_load(&queue->asked))
		*old &= ~(uint64_t) OPENCL_PROFILING;
	if (properties & OPENCL_PROFILING) {
		atomic_store(&queue->asked, enable != 0);
		atomic_store(&queue->profiled, enable != 0);
	}
	return error;
}

static int32_t queue_info(void *handle, uint32_t what, size_t size, void *value, size_t *size_ret)
{
	struct opencl_queue *queue = opencl_queue(handle);
	int32_t error = opencl_next.GetCommandQueueInfo(handle, what, size, value, size_ret);
	const uint64_t *list;
	size_t bytes;

	if (error != OPENCL_SUCCESS && what != OPENCL_QUEUE_PROPERTIES_ARRAY)
		return error;
	if (!queue || atomic_load(&queue->asked) || !atomic_load(&queue->profiled))
		return error;
	if (what == OPENCL_QUEUE_PROPERTIES && value)
		*(uint64_t *) value &= ~(uint64_t) OPENCL_PROFILING;
	if (what != OPENCL_QUEUE_PROPERTIES_ARRAY ||
		opencl_next.GetCommandQueueInfo(handle, what, 0, NULL, &bytes) != OPENCL_SUCCESS)
		return error; /* this runtime does not have that question */
	list = atomic_load(&queue->properties);
	bytes = atomic_load(&queue->properties_bytes);
	if (value && size < bytes)
		return OPENCL_INVALID_VALUE;
	if (value && bytes != 0)
		memcpy(value, list, bytes);
	if (size_ret)
		*size_ret = bytes;
	return OPENCL_SUCCESS;
}

static int32_t release_queue(void *handle)
{
	opencl_reap(opencl_queue(handle));
	return opencl_next.ReleaseCommandQueue(handle);
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

static int32_t event_times(void *event, uint32_t what, size_t size, void *value, size_t *size_ret)
{
	void *handle = NULL;
	const struct opencl_queue *queue;

	if (opencl_next.GetEventInfo(event, OPENCL_EVENT_QUEUE, sizeof handle, &handle, NULL) ==
			OPENCL_SUCCESS &&
		handle) {
		queue = opencl_queue(handle);
		if (queue && atomic_load(&queue->profiled) && !atomic_load(&queue->asked))
			return OPENCL_NO_PROFILING;
	}
	return opencl_next.GetEventProfilingInfo(event, what, size, value, size_ret);
}

static int32_t event_info(void *event, uint32_t what, size_t size, void *value, size_t *size_ret)
{
	uint32_t ours = what == OPENCL_EVENT_REFERENCES ? opencl_references(event) : 0;
	int32_t error = opencl_next.GetEventInfo(event, what, size, value, size_ret);

	if (error == OPENCL_SUCCESS && value && *(uint32_t *) value > ours && ours != 0)
		*(uint32_t *) value -= ours;
	return error;
}

/* ---- kernels ------------------------------------------------------------------------------------------------------ */

static void *create_kernel(void *program, const char *name, int32_t *error)
{
	void *kernel = opencl_next.CreateKernel(program, name, error);

	opencl_kernels_changed();
	return kernel;
}

static int32_t create_kernels(void *program, uint32_t room, void **kernels, uint32_t *count)
{
	int32_t status = opencl_next.CreateKernelsInProgram(program, room, kernels, count);

	opencl_kernels_changed();
	return status;
}

static void *clone_kernel(void *kernel, int32_t *error)
{
	void *clone = opencl_next.CloneKernel(kernel, error);

	opencl_kernels_changed();
	return clone;
}

static uint32_t in_32_bits(size_t n)
{
	return n > UINT32_MAX ? UINT32_MAX : (uint32_t) n;
}

/* Work-groups and their size; where the runtime chooses the size it is 0, and the grid counts work-items. */
static void shape(
	struct opencl_command *command, uint32_t dimensions, const size_t *global, const size_t *local)
{
	for (uint32_t i = 0; i < 3; i++) {
		size_t items = global && i < dimensions ? global[i] : 1;
		size_t group = local && i < dimensions ? local[i] : 1;

		command->block[i] = local ? in_32_bits(group) : 0;
		command->grid[i] = in_32_bits(group > 1 ? items / group + (items % group != 0) : items);
	}
}

static int32_t enqueue_kernel(void *queue, void *kernel, uint32_t dimensions, const size_t *offset,
	const size_t *global, const size_t *local, OPENCL_COMMAND)
{
	struct opencl_command c = {
		.call = "clEnqueueNDRangeKernel", .kind = TRACE_KERNEL, .kernel = kernel
	};

	event = opencl_begin(&c, queue, event);
	shape(&c, dimensions, global, local);
	return opencl_end(&c, opencl_next.EnqueueNDRangeKernel(queue, kernel, dimensions, offset, global,
				      local, waits, wait_list, event));
}

static int32_t enqueue_task(void *queue, void *kernel, OPENCL_COMMAND)
{
	struct opencl_command c = { .call = "clEnqueueTask",
		.kind = TRACE_KERNEL,
		.kernel = kernel,
		.grid = { 1, 1, 1 },
		.block = { 1, 1, 1 } };

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueTask(queue, kernel, waits, wait_list, event));
}

static int32_t enqueue_native(void *queue, void (*function)(void *), void *arguments, size_t size,
	uint32_t mems, void *const *mem_list, const void **places, OPENCL_COMMAND)
{
	struct opencl_command c = { .call = "clEnqueueNativeKernel", .kind = TRACE_KERNEL };

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueNativeKernel(queue, function, arguments, size, mems,
				      mem_list, places, waits, wait_list, event));
}

/* ---- copies of buffers -------------------------------------------------------------------------------------------- */

#define COPY(name, from, to, n) \
	{ .call = (name), .kind = TRACE_COPY, .source = (from), .target = (to), .bytes = (n) }

static uint64_t volume(const size_t *region)
{
	return region ? (uint64_t) region[0] * region[1] * region[2] : 0;
}

static int32_t read_buffer(void *queue, void *buffer, uint32_t blocking, size_t offset, size_t size,
	void *host, OPENCL_COMMAND)
{
	struct opencl_command c = COPY("clEnqueueReadBuffer", TRACE_DEVICE, TRACE_PAGEABLE, size);

	c.blocking = blocking;
	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueReadBuffer(queue, buffer, blocking, offset, size, host,
				      waits, wait_list, event));
}

static int32_t write_buffer(void *queue, void *buffer, uint32_t blocking, size_t offset, size_t size,
	const void *host, OPENCL_COMMAND)
{
	struct opencl_command c = COPY("clEnqueueWriteBuffer", TRACE_PAGEABLE, TRACE_DEVICE, size);

	c.blocking = blocking;
	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueWriteBuffer(queue, buffer, blocking, offset, size, host,
				      waits, wait_list, event));
}

static int32_t copy_buffer(void *queue, void *source, void *target, size_t source_offset,
	size_t target_offset, size_t size, OPENCL_COMMAND)
{
	struct opencl_command c = COPY("clEnqueueCopyBuffer", TRACE_DEVICE, TRACE_DEVICE, size);

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueCopyBuffer(queue, source, target, source_offset,
				      target_offset, size, waits, wait_list, event));
}

static int32_t read_rect(void *queue, void *buffer, uint32_t blocking, const size_t *origin,
	const size_t *host_origin, const size_t *region, size_t pitch, size_t slice, size_t host_pitch,
	size_t host_slice, void *host, OPENCL_COMMAND)
{
	struct opencl_command c =
		COPY("clEnqueueReadBufferRect", TRACE_DEVICE, TRACE_PAGEABLE, volume(region));

	c.blocking = blocking;
	event = opencl_begin(&c, queue, event);
	return opencl_end(
		&c, opencl_next.EnqueueReadBufferRect(queue, buffer, blocking, origin, host_origin, region,
			    pitch, slice, host_pitch, host_slice, host, waits, wait_list, event));
}

static int32_t write_rect(void *queue, void *buffer, uint32_t blocking, const size_t *origin,
	const size_t *host_origin, const size_t *region, size_t pitch, size_t slice, size_t host_pitch,
	size_t host_slice, const void *host, OPENCL_COMMAND)
{
	struct opencl_command c =
		COPY("clEnqueueWriteBufferRect", TRACE_PAGEABLE, TRACE_DEVICE, volume(region));

	c.blocking = blocking;
	event = opencl_begin(&c, queue, event);
	return opencl_end(
		&c, opencl_next.EnqueueWriteBufferRect(queue, buffer, blocking, origin, host_origin, region,
			    pitch, slice, host_pitch, host_slice, host, waits, wait_list, event));
}

static int32_t copy_rect(void *queue, void *source, void *target, const size_t *source_origin,
	const size_t *target_origin, const size_t *region, size_t source_pitch, size_t source_slice,
	size_t target_pitch, size_t target_slice, OPENCL_COMMAND)
{
	struct opencl_command c =
		COPY("clEnqueueCopyBufferRect", TRACE_DEVICE, TRACE_DEVICE, volume(region));

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueCopyBufferRect(queue, source, target, source_origin,
				      target_origin, region, source_pitch, source_slice, target_pitch,
				      target_slice, waits, wait_list, event));
}

/* ---- copies of images --------------------------------------------------------------------------------------------- */

static uint64_t image_bytes(void *image, const size_t *region)
{
	size_t element = 0;

	if (!probe_follows(TRACE_KERNELS) || opencl_next.GetImageInfo(image, OPENCL_IMAGE_ELEMENT_SIZE,
						     sizeof element, &element, NULL) != OPENCL_SUCCESS)
		return 0;
	return element * volume(region);
}

static int32_t read_image(void *queue, void *image, uint32_t blocking, const size_t *origin,
	const size_t *region, size_t pitch, size_t slice, void *host, OPENCL_COMMAND)
{
	struct opencl_command c =
		COPY("clEnqueueReadImage", TRACE_ARRAY, TRACE_PAGEABLE, image_bytes(image, region));

	c.blocking = blocking;
	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueReadImage(queue, image, blocking, origin, region, pitch,
				      slice, host, waits, wait_list, event));
}

static int32_t write_image(void *queue, void *image, uint32_t blocking, const size_t *origin,
	const size_t *region, size_t pitch, size_t slice, const void *host, OPENCL_COMMAND)
{
	struct opencl_command c =
		COPY("clEnqueueWriteImage", TRACE_PAGEABLE, TRACE_ARRAY, image_bytes(image, region));

	c.blocking = blocking;
	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueWriteImage(queue, image, blocking, origin, region, pitch,
				      slice, host, waits, wait_list, event));
}

static int32_t copy_image(void *queue, void *source, void *target, const size_t *source_origin,
	const size_t *target_origin, const size_t *region, OPENCL_COMMAND)
{
	struct opencl_command c =
		COPY("clEnqueueCopyImage", TRACE_ARRAY, TRACE_ARRAY, image_bytes(source, region));

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueCopyImage(queue, source, target, source_origin,
				      target_origin, region, waits, wait_list, event));
}

static int32_t copy_image_to_buffer(void *queue, void *image, void *buffer, const size_t *origin,
	const size_t *region, size_t offset, OPENCL_COMMAND)
{
	struct opencl_command c =
		COPY("clEnqueueCopyImageToBuffer", TRACE_ARRAY, TRACE_DEVICE, image_bytes(image, region));

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueCopyImageToBuffer(queue, image, buffer, origin, region,
				      offset, waits, wait_list, event));
}

static int32_t copy_buffer_to_image(void *queue, void *buffer, void *image, size_t offset,
	const size_t *origin, const size_t *region, OPENCL_COMMAND)
{
	struct opencl_command c =
		COPY("clEnqueueCopyBufferToImage", TRACE_DEVICE, TRACE_ARRAY, image_bytes(image, region));

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueCopyBufferToImage(queue, buffer, image, offset, origin,
				      region, waits, wait_list, event));
}

/* ---- mappings: copies that take time, of 0 bytes, since OpenCL does not say whether a mapping moved any ----------- */

static void *map_buffer(void *queue, void *buffer, uint32_t blocking, uint64_t flags, size_t offset,
	size_t size, OPENCL_COMMAND, int32_t *error)
{
	struct opencl_command c = COPY("clEnqueueMapBuffer", TRACE_DEVICE, TRACE_PAGEABLE, 0);
	int32_t status = OPENCL_SUCCESS;
	void *mapped;

	c.blocking = blocking;
	event = opencl_begin(&c, queue, event);
	mapped = opencl_next.EnqueueMapBuffer(
		queue, buffer, blocking, flags, offset, size, waits, wait_list, event, &status);
	if (error)
		*error = status;
	opencl_end(&c, status);
	return mapped;
}

static void *map_image(void *queue, void *image, uint32_t blocking, uint64_t flags, const size_t *origin,
	const size_t *region, size_t *pitch, size_t *slice, OPENCL_COMMAND, int32_t *error)
{
	struct opencl_command c = COPY("clEnqueueMapImage", TRACE_ARRAY, TRACE_PAGEABLE, 0);
	int32_t status = OPENCL_SUCCESS;
	void *mapped;

	c.blocking = blocking;
	event = opencl_begin(&c, queue, event);
	mapped = opencl_next.EnqueueMapImage(queue, image, blocking, flags, origin, region, pitch, slice,
		waits, wait_list, event, &status);
	if (error)
		*error = status;
	opencl_end(&c, status);
	return mapped;
}

static int32_t unmap(void *queue, void *mem, void *mapped, OPENCL_COMMAND)
{
	struct opencl_command c = COPY("clEnqueueUnmapMemObject", TRACE_PAGEABLE, TRACE_DEVICE, 0);

	event = opencl_begin(&c, queue, event);
	return opencl_end(
		&c, opencl_next.EnqueueUnmapMemObject(queue, mem, mapped, waits, wait_list, event));
}

static int32_t migrate(void *queue, uint32_t mems, void *const *mem_list, uint64_t flags, OPENCL_COMMAND)
{
	bool to_host = flags & OPENCL_MIGRATE_TO_HOST;
	struct opencl_command c = COPY("clEnqueueMigrateMemObjects",
		to_host ? TRACE_DEVICE : TRACE_PAGEABLE, to_host ? TRACE_PAGEABLE : TRACE_DEVICE, 0);

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueMigrateMemObjects(
				      queue, mems, mem_list, flags, waits, wait_list, event));
}

/* ---- fills -------------------------------------------------------------------------------------------------------- */

#define FILL(name, to, n) { .call = (name), .kind = TRACE_FILL, .target = (to), .bytes = (n) }

static int32_t fill_buffer(void *queue, void *buffer, const void *pattern, size_t pattern_size,
	size_t offset, size_t size, OPENCL_COMMAND)
{
	struct opencl_command c = FILL("clEnqueueFillBuffer", TRACE_DEVICE, size);

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueFillBuffer(queue, buffer, pattern, pattern_size, offset,
				      size, waits, wait_list, event));
}

static int32_t fill_image(void *queue, void *image, const void *color, const size_t *origin,
	const size_t *region, OPENCL_COMMAND)
{
	struct opencl_command c = FILL("clEnqueueFillImage", TRACE_ARRAY, image_bytes(image, region));

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c,
		opencl_next.EnqueueFillImage(queue, image, color, origin, region, waits, wait_list, event));
}

/* ---- shared virtual memory ---------------------------------------------------------------------------------------- */

static void *svm_alloc(void *context, uint64_t flags, size_t size, uint32_t alignment)
{
	void *pointer = opencl_next.SVMAlloc(context, flags, size, alignment);

	opencl_svm_created(context, size, pointer);
	return pointer;
}

static void svm_free(void *context, void *pointer)
{
	/* Before it is gone: another thread may get this address at once. */
	opencl_svm_freed(pointer, probe_now());
	opencl_next.SVMFree(context, pointer);
}

/* A function of the program's frees by clSVMFree; without one the command does. */
static int32_t enqueue_svm_free(
	void *queue, uint32_t count, void **pointers, opencl_svm_free function, void *data, OPENCL_COMMAND)
{
	struct opencl_command c = { .call = "clEnqueueSVMFree", .kind = OPENCL_NO_WORK };

	if (!function && pointers && count != 0 && count < 1 << 20 && probe_follows(TRACE_MEMORY))
		c.freed = malloc(count * sizeof *c.freed);
	if (c.freed) {
		memcpy(c.freed, pointers, count * sizeof *c.freed);
		c.freed_count = count;
	}
	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueSVMFree(
				      queue, count, pointers, function, data, waits, wait_list, event));
}

static int32_t svm_copy(
	void *queue, uint32_t blocking, void *target, const void *source, size_t size, OPENCL_COMMAND)
{
	struct opencl_command c = COPY("clEnqueueSVMMemcpy", TRACE_MANAGED, TRACE_MANAGED, size);

	c.blocking = blocking;
	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueSVMMemcpy(
				      queue, blocking, target, source, size, waits, wait_list, event));
}

static int32_t svm_fill(
	void *queue, void *pointer, const void *pattern, size_t pattern_size, size_t size, OPENCL_COMMAND)
{
	struct opencl_command c = FILL("clEnqueueSVMMemFill", TRACE_MANAGED, size);

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueSVMMemFill(queue, pointer, pattern, pattern_size, size,
				      waits, wait_list, event));
}

static int32_t svm_map(
	void *queue, uint32_t blocking, uint64_t flags, void *pointer, size_t size, OPENCL_COMMAND)
{
	struct opencl_command c = COPY("clEnqueueSVMMap", TRACE_MANAGED, TRACE_MANAGED, 0);

	c.blocking = blocking;
	event = opencl_begin(&c, queue, event);
	return opencl_end(&c,
		opencl_next.EnqueueSVMMap(queue, blocking, flags, pointer, size, waits, wait_list, event));
}

static int32_t svm_unmap(void *queue, void *pointer, OPENCL_COMMAND)
{
	struct opencl_command c = COPY("clEnqueueSVMUnmap", TRACE_MANAGED, TRACE_MANAGED, 0);

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueSVMUnmap(queue, pointer, waits, wait_list, event));
}

static int32_t svm_migrate(void *queue, uint32_t count, const void **pointers, const size_t *sizes,
	uint64_t flags, OPENCL_COMMAND)
{
	struct opencl_command c = COPY("clEnqueueSVMMigrateMem", TRACE_MANAGED, TRACE_MANAGED, 0);

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueSVMMigrateMem(
				      queue, count, pointers, sizes, flags, waits, wait_list, event));
}

/* ---- waits, markers, barriers ------------------------------------------------------------------------------------- */

#define CALL(name) { .call = (name), .kind = OPENCL_NO_WORK }

static int32_t wait_for_events(uint32_t count, void *const *list)
{
	struct opencl_command c = CALL("clWaitForEvents");

	opencl_begin(&c, NULL, NULL);
	return opencl_end(&c, opencl_next.WaitForEvents(count, list));
}

static int32_t flush(void *queue)
{
	struct opencl_command c = CALL("clFlush");

	opencl_begin(&c, NULL, NULL);
	return opencl_end(&c, opencl_next.Flush(queue));
}

static int32_t finish(void *queue)
{
	struct opencl_command c = CALL("clFinish");
	int32_t status;

	opencl_begin(&c, NULL, NULL);
	status = opencl_end(&c, opencl_next.Finish(queue));
	opencl_reap(opencl_queue(queue));
	return status;
}

static int32_t marker(void *queue, void **event)
{
	struct opencl_command c = CALL("clEnqueueMarker");

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueMarker(queue, event));
}

static int32_t queue_waits(void *queue, uint32_t count, void *const *list)
{
	struct opencl_command c = CALL("clEnqueueWaitForEvents");

	opencl_begin(&c, queue, NULL);
	return opencl_end(&c, opencl_next.EnqueueWaitForEvents(queue, count, list));
}

static int32_t barrier(void *queue)
{
	struct opencl_command c = CALL("clEnqueueBarrier");

	opencl_begin(&c, queue, NULL);
	return opencl_end(&c, opencl_next.EnqueueBarrier(queue));
}

static int32_t marker_with_list(void *queue, OPENCL_COMMAND)
{
	struct opencl_command c = CALL("clEnqueueMarkerWithWaitList");

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueMarkerWithWaitList(queue, waits, wait_list, event));
}

static int32_t barrier_with_list(void *queue, OPENCL_COMMAND)
{
	struct opencl_command c = CALL("clEnqueueBarrierWithWaitList");

	event = opencl_begin(&c, queue, event);
	return opencl_end(&c, opencl_next.EnqueueBarrierWithWaitList(queue, waits, wait_list, event));
}

/* ---- memory objects ----------------------------------------------------------------------------------------------- */

/* The program need not want the error; we do. */
#define CREATED(name, bytes, made) \
	do { \
		int32_t status = OPENCL_SUCCESS, *error_ret = error ? error : &status; \
		void *mem = (made); \
\
		return opencl_mem_created(name, context, flags, (bytes), mem, *error_ret); \
	} while (0)

static void *create_buffer(void *context, uint64_t flags, size_t size, void *host, int32_t *error)
{
	CREATED("clCreateBuffer", size, opencl_next.CreateBuffer(context, flags, size, host, error_ret));
}

static void *create_buffer_with_properties(
	void *context, const uint64_t *properties, uint64_t flags, size_t size, void *host, int32_t *error)
{
	CREATED("clCreateBufferWithProperties", size,
		opencl_next.CreateBufferWithProperties(context, properties, flags, size, host, error_ret));
}

static void *create_image_2d(void *context, uint64_t flags, const void *format, size_t width, size_t height,
	size_t pitch, void *host, int32_t *error)
{
	CREATED("clCreateImage2D", 0,
		opencl_next.CreateImage2D(context, flags, format, width, height, pitch, host, error_ret));
}

static void *create_image_3d(void *context, uint64_t flags, const void *format, size_t width, size_t height,
	size_t depth, size_t pitch, size_t slice, void *host, int32_t *error)
{
	CREATED("clCreateImage3D", 0,
		opencl_next.CreateImage3D(
			context, flags, format, width, height, depth, pitch, slice, host, error_ret));
}

static void *create_image(void *context, uint64_t flags, const void *format, const void *description,
	void *host, int32_t *error)
{
	CREATED("clCreateImage", 0,
		opencl_next.CreateImage(context, flags, format, description, host, error_ret));
}

static void *create_image_with_properties(void *context, const uint64_t *properties, uint64_t flags,
	const void *format, const void *description, void *host, int32_t *error)
{
	CREATED("clCreateImageWithProperties", 0,
		opencl_next.CreateImageWithProperties(
			context, properties, flags, format, description, host, error_ret));
}

static void *create_pipe(void *context, uint64_t flags, uint32_t packet, uint32_t packets,
	const void *properties, int32_t *error)
{
	CREATED("clCreatePipe", (size_t) packet * packets,
		opencl_next.CreatePipe(context, flags, packet, packets, properties, error_ret));
}

/* ---- functions of extensions -------------------------------------------------------------------------------------- */

static const char khr_create_queue[] = "clCreateCommandQueueWithPropertiesKHR";

/* The function is of the platform, which is that of the device. */
static void *create_queue_khr(void *context, void *device, const uint64_t *list, int32_t *error)
{
	void *platform = NULL;
	create_with_properties create = NULL;

	if (opencl_next.GetDeviceInfo(device, OPENCL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) ==
			OPENCL_SUCCESS &&
		opencl_next.GetExtensionFunctionAddressForPlatform)
		create = (create_with_properties) opencl_next.GetExtensionFunctionAddressForPlatform(
			platform, khr_create_queue);
	if (!create && opencl_next.GetExtensionFunctionAddress)
		create = (create_with_properties) opencl_next.GetExtensionFunctionAddress(khr_create_queue);
	if (create)
		return create_queue_by(create, context, device, list, error);
	if (error)
		*error = OPENCL_INVALID_VALUE;
	return NULL;
}

static void *extension(const char *name)
{
	void *function = opencl_next.GetExtensionFunctionAddress(name);

	return function && name && strcmp(name, khr_create_queue) == 0 ? (void *) create_queue_khr
								       : function;
}

static void *extension_of_platform(void *platform, const char *name)
{
	void *function = opencl_next.GetExtensionFunctionAddressForPlatform(platform, name);

	return function && name && strcmp(name, khr_create_queue) == 0 ? (void *) create_queue_khr
								       : function;
}

/* ---- the layer ---------------------------------------------------------------------------------------------------- */

#define OURS(name, function) { OPENCL_AT_##name, (void *) (function) }
static const struct {
	unsigned place;
	void *function;
} functions[] = {
	OURS(CreateCommandQueue, create_queue),
	OURS(CreateCommandQueueWithProperties, create_queue_with_properties),
	OURS(SetCommandQueueProperty, set_queue_property),
	OURS(GetCommandQueueInfo, queue_info),
	OURS(ReleaseCommandQueue, release_queue),
	OURS(GetEventProfilingInfo, event_times),
	OURS(GetEventInfo, event_info),
	OURS(CreateKernel, create_kernel),
	OURS(CreateKernelsInProgram, create_kernels),
	OURS(CloneKernel, clone_kernel),
	OURS(EnqueueNDRangeKernel, enqueue_kernel),
	OURS(EnqueueTask, enqueue_task),
	OURS(EnqueueNativeKernel, enqueue_native),
	OURS(EnqueueReadBuffer, read_buffer),
	OURS(EnqueueWriteBuffer, write_buffer),
	OURS(EnqueueCopyBuffer, copy_buffer),
	OURS(EnqueueReadBufferRect, read_rect),
	OURS(EnqueueWriteBufferRect, write_rect),
	OURS(EnqueueCopyBufferRect, copy_rect),
	OURS(EnqueueReadImage, read_image),
	OURS(EnqueueWriteImage, write_image),
	OURS(EnqueueCopyImage, copy_image),
	OURS(EnqueueCopyImageToBuffer, copy_image_to_buffer),
	OURS(EnqueueCopyBufferToImage, copy_buffer_to_image),
	OURS(EnqueueMapBuffer, map_buffer),
	OURS(EnqueueMapImage, map_image),
	OURS(EnqueueUnmapMemObject, unmap),
	OURS(EnqueueMigrateMemObjects, migrate),
	OURS(EnqueueFillBuffer, fill_buffer),
	OURS(EnqueueFillImage, fill_image),
	OURS(SVMAlloc, svm_alloc),
	OURS(SVMFree, svm_free),
	OURS(EnqueueSVMFree, enqueue_svm_free),
	OURS(EnqueueSVMMemcpy, svm_copy),
	OURS(EnqueueSVMMemFill, svm_fill),
	OURS(EnqueueSVMMap, svm_map),
	OURS(EnqueueSVMUnmap, svm_unmap),
	OURS(EnqueueSVMMigrateMem, svm_migrate),
	OURS(WaitForEvents, wait_for_events),
	OURS(Flush, flush),
	OURS(Finish, finish),
	OURS(EnqueueMarker, marker),
	OURS(EnqueueWaitForEvents, queue_waits),
	OURS(EnqueueBarrier, barrier),
	OURS(EnqueueMarkerWithWaitList, marker_with_list),
	OURS(EnqueueBarrierWithWaitList, barrier_with_list),
	OURS(CreateBuffer, create_buffer),
	OURS(CreateBufferWithProperties, create_buffer_with_properties),
	OURS(CreateImage2D, create_image_2d),
	OURS(CreateImage3D, create_image_3d),
	OURS(CreateImage, create_image),
	OURS(CreateImageWithProperties, create_image_with_properties),
	OURS(CreatePipe, create_pipe),
	OURS(GetExtensionFunctionAddress, extension),
	OURS(GetExtensionFunctionAddressForPlatform, extension_of_platform),
};

/* Declared here: OpenCL's headers, which declare them, are not used. */
PROBE_API int32_t clGetLayerInfo(uint32_t what, size_t size, void *value, size_t *size_ret);
PROBE_API int32_t clInitLayer(
	uint32_t places, void *const *target, uint32_t *places_ret, void *const **layer_ret);

PROBE_API int32_t clGetLayerInfo(uint32_t what, size_t size, void *value, size_t *size_ret)
{
	static const uint32_t version = OPENCL_LAYER_VERSION_100;
	static const char name[] = "hiwater";
	const void *answer = what == OPENCL_LAYER_NAME ? (const void *) name : &version;
	size_t bytes = what == OPENCL_LAYER_NAME ? sizeof name : sizeof version;

	if ((what != OPENCL_LAYER_NAME && what != OPENCL_LAYER_API_VERSION) || (value && size < bytes))
		return OPENCL_INVALID_VALUE;
	if (value)
		memcpy(value, answer, bytes);
	if (size_ret)
		*size_ret = bytes;
	return OPENCL_SUCCESS;
}

/* Functions without which nothing can be followed; every runtime since OpenCL 1.1 (2010) has them. */
static bool has_all_needed(void)
{
	return opencl_next.GetDeviceInfo && opencl_next.GetContextInfo && opencl_next.GetMemObjectInfo &&
	       opencl_next.GetImageInfo && opencl_next.GetKernelInfo && opencl_next.GetEventInfo &&
	       opencl_next.RetainEvent && opencl_next.ReleaseEvent && opencl_next.GetEventProfilingInfo &&
	       opencl_next.SetEventCallback;
}

PROBE_API int32_t clInitLayer(
	uint32_t places, void *const *target, uint32_t *places_ret, void *const **layer_ret)
{
	static void *table[OPENCL_TABLE];
	static bool is_done;

	if (!target || !places_ret || !layer_ret)
		return OPENCL_INVALID_VALUE;
	*places_ret = places;
	*layer_ret = target;
	/* Twice in the list: the second would get the first as what comes next, and call itself. */
	if (is_done ||
		!(probe_wants(TRACE_MEMORY) || probe_wants(TRACE_LAUNCHES) || probe_wants(TRACE_KERNELS)))
		return OPENCL_SUCCESS;
#define NEXT(place, returns, name, parameters) \
	opencl_next.name = places > (place) ? (returns(*) parameters) target[place] : NULL;
	OPENCL_CALLS(NEXT)
#undef NEXT
	if (!has_all_needed())
		return OPENCL_SUCCESS;
	is_done = true;
	*places_ret = places < OPENCL_TABLE ? places : OPENCL_TABLE;
	memcpy(table, target, *places_ret * sizeof *table);
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (functions[i].place < *places_ret && table[functions[i].place])
			table[functions[i].place] = functions[i].function;
	*layer_ret = table;
	return OPENCL_SUCCESS;
}
