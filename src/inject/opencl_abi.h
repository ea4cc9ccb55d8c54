/* SPDX-License-Identifier: MIT
 *
 * What the layer (opencl.c) needs of OpenCL's binary interface, in declarations of its own, so that no
 * OpenCL header is needed to build it: a handle is a void *, a cl_int an int32_t, a cl_bool and a cl_uint
 * a uint32_t, bits and properties are uint64_t.
 *
 * A loader keeps the functions of OpenCL in one table, in the fixed order of cl_khr_icd, which a layer gets
 * and may replace parts of. OPENCL_CALLS has a row for each function that we replace or call: its place
 * in the table, what it returns, its name without "cl", its parameters.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	OPENCL_TABLE = 192, /* places that we know of or may come; those beyond stay the loader's */

	OPENCL_SUCCESS = 0,
	OPENCL_NO_PROFILING = -7, /* CL_PROFILING_INFO_NOT_AVAILABLE */
	OPENCL_NO_MEMORY = -6,    /* CL_OUT_OF_HOST_MEMORY */
	OPENCL_INVALID_VALUE = -30,
	OPENCL_COMPLETE = 0,

	OPENCL_LAYER_API_VERSION = 0x4240,
	OPENCL_LAYER_NAME = 0x4241,
	OPENCL_LAYER_VERSION_100 = 100,

	OPENCL_DEVICE_NAME = 0x102B,
	OPENCL_DEVICE_PLATFORM = 0x1031,
	OPENCL_DEVICE_PARENT = 0x1042,
	OPENCL_CONTEXT_DEVICES = 0x1081,
	OPENCL_QUEUE_CONTEXT = 0x1090,
	OPENCL_QUEUE_PROPERTIES = 0x1093, /* also a key of the properties that a queue is created with */
	OPENCL_QUEUE_PROPERTIES_ARRAY = 0x1098,
	OPENCL_MEM_FLAGS = 0x1101,
	OPENCL_MEM_SIZE = 0x1102,
	OPENCL_MEM_CONTEXT = 0x1106,
	OPENCL_MEM_PARENT = 0x1107, /* CL_MEM_ASSOCIATED_MEMOBJECT */
	OPENCL_IMAGE_ELEMENT_SIZE = 0x1111,
	OPENCL_KERNEL_NAME = 0x1190, /* CL_KERNEL_FUNCTION_NAME */
	OPENCL_EVENT_QUEUE = 0x11D0,
	OPENCL_EVENT_REFERENCES = 0x11D2,
	OPENCL_EVENT_STATUS = 0x11D3,
	OPENCL_TIME_QUEUED = 0x1280, /* then submitted, start, end */
	OPENCL_TIMES = 4,

	OPENCL_PROFILING = 1 << 1, /* bits of a queue's properties */
	OPENCL_ON_DEVICE = 1 << 2,
	OPENCL_USE_HOST_PTR = 1 << 3, /* bits of a memory object's flags */
	OPENCL_ALLOC_HOST_PTR = 1 << 4,
	OPENCL_MIGRATE_TO_HOST = 1 << 0,
};

#define OPENCL_ALL_DEVICES UINT64_C(0xFFFFFFFF)

typedef void (*opencl_event_done)(void *event, int32_t status, void *data);
typedef void (*opencl_mem_done)(void *mem, void *data);
typedef void (*opencl_svm_free)(void *queue, uint32_t count, void **pointers, void *data);

/* Ends of the parameters of commands: what to wait for, and the event of the command. */
#define OPENCL_WAITS   uint32_t waits, void *const *wait_list
#define OPENCL_COMMAND OPENCL_WAITS, void **event

/* A row each. */
/* clang-format off */
#define OPENCL_CALLS(X) \
	X(2, int32_t, GetDeviceIDs, (void *platform, uint64_t type, uint32_t room, void **devices, \
		uint32_t *count)) \
	X(3, int32_t, GetDeviceInfo, (void *device, uint32_t what, size_t size, void *value, \
		size_t *size_ret)) \
	X(8, int32_t, GetContextInfo, (void *context, uint32_t what, size_t size, void *value, \
		size_t *size_ret)) \
	X(9, void *, CreateCommandQueue, (void *context, void *device, uint64_t properties, \
		int32_t *error)) \
	X(11, int32_t, ReleaseCommandQueue, (void *queue)) \
	X(12, int32_t, GetCommandQueueInfo, (void *queue, uint32_t what, size_t size, void *value, \
		size_t *size_ret)) \
	X(13, int32_t, SetCommandQueueProperty, (void *queue, uint64_t properties, uint32_t enable, \
		uint64_t *old)) \
	X(14, void *, CreateBuffer, (void *context, uint64_t flags, size_t size, void *host, \
		int32_t *error)) \
	X(15, void *, CreateImage2D, (void *context, uint64_t flags, const void *format, size_t width, \
		size_t height, size_t pitch, void *host, int32_t *error)) \
	X(16, void *, CreateImage3D, (void *context, uint64_t flags, const void *format, size_t width, \
		size_t height, size_t depth, size_t pitch, size_t slice, void *host, int32_t *error)) \
	X(20, int32_t, GetMemObjectInfo, (void *mem, uint32_t what, size_t size, void *value, \
		size_t *size_ret)) \
	X(21, int32_t, GetImageInfo, (void *image, uint32_t what, size_t size, void *value, \
		size_t *size_ret)) \
	X(34, void *, CreateKernel, (void *program, const char *name, int32_t *error)) \
	X(35, int32_t, CreateKernelsInProgram, (void *program, uint32_t room, void **kernels, \
		uint32_t *count)) \
	X(39, int32_t, GetKernelInfo, (void *kernel, uint32_t what, size_t size, void *value, \
		size_t *size_ret)) \
	X(41, int32_t, WaitForEvents, (uint32_t count, void *const *list)) \
	X(42, int32_t, GetEventInfo, (void *event, uint32_t what, size_t size, void *value, \
		size_t *size_ret)) \
	X(43, int32_t, RetainEvent, (void *event)) \
	X(44, int32_t, ReleaseEvent, (void *event)) \
	X(45, int32_t, GetEventProfilingInfo, (void *event, uint32_t what, size_t size, void *value, \
		size_t *size_ret)) \
	X(46, int32_t, Flush, (void *queue)) \
	X(47, int32_t, Finish, (void *queue)) \
	X(48, int32_t, EnqueueReadBuffer, (void *queue, void *buffer, uint32_t blocking, size_t offset, \
		size_t size, void *host, OPENCL_COMMAND)) \
	X(49, int32_t, EnqueueWriteBuffer, (void *queue, void *buffer, uint32_t blocking, size_t offset, \
		size_t size, const void *host, OPENCL_COMMAND)) \
	X(50, int32_t, EnqueueCopyBuffer, (void *queue, void *source, void *target, size_t source_offset, \
		size_t target_offset, size_t size, OPENCL_COMMAND)) \
	X(51, int32_t, EnqueueReadImage, (void *queue, void *image, uint32_t blocking, \
		const size_t *origin, const size_t *region, size_t pitch, size_t slice, void *host, \
		OPENCL_COMMAND)) \
	X(52, int32_t, EnqueueWriteImage, (void *queue, void *image, uint32_t blocking, \
		const size_t *origin, const size_t *region, size_t pitch, size_t slice, const void *host, \
		OPENCL_COMMAND)) \
	X(53, int32_t, EnqueueCopyImage, (void *queue, void *source, void *target, \
		const size_t *source_origin, const size_t *target_origin, const size_t *region, \
		OPENCL_COMMAND)) \
	X(54, int32_t, EnqueueCopyImageToBuffer, (void *queue, void *image, void *buffer, \
		const size_t *origin, const size_t *region, size_t offset, OPENCL_COMMAND)) \
	X(55, int32_t, EnqueueCopyBufferToImage, (void *queue, void *buffer, void *image, size_t offset, \
		const size_t *origin, const size_t *region, OPENCL_COMMAND)) \
	X(56, void *, EnqueueMapBuffer, (void *queue, void *buffer, uint32_t blocking, uint64_t flags, \
		size_t offset, size_t size, OPENCL_COMMAND, int32_t *error)) \
	X(57, void *, EnqueueMapImage, (void *queue, void *image, uint32_t blocking, uint64_t flags, \
		const size_t *origin, const size_t *region, size_t *pitch, size_t *slice, OPENCL_COMMAND, \
		int32_t *error)) \
	X(58, int32_t, EnqueueUnmapMemObject, (void *queue, void *mem, void *mapped, OPENCL_COMMAND)) \
	X(59, int32_t, EnqueueNDRangeKernel, (void *queue, void *kernel, uint32_t dimensions, \
		const size_t *offset, const size_t *global, const size_t *local, OPENCL_COMMAND)) \
	X(60, int32_t, EnqueueTask, (void *queue, void *kernel, OPENCL_COMMAND)) \
	X(61, int32_t, EnqueueNativeKernel, (void *queue, void (*function)(void *), void *arguments, \
		size_t size, uint32_t mems, void *const *mem_list, const void **places, OPENCL_COMMAND)) \
	X(62, int32_t, EnqueueMarker, (void *queue, void **event)) \
	X(63, int32_t, EnqueueWaitForEvents, (void *queue, uint32_t count, void *const *list)) \
	X(64, int32_t, EnqueueBarrier, (void *queue)) \
	X(65, void *, GetExtensionFunctionAddress, (const char *name)) \
	X(81, int32_t, SetEventCallback, (void *event, int32_t status, opencl_event_done function, \
		void *data)) \
	X(83, int32_t, SetMemObjectDestructorCallback, (void *mem, opencl_mem_done function, void *data)) \
	X(86, int32_t, EnqueueReadBufferRect, (void *queue, void *buffer, uint32_t blocking, \
		const size_t *origin, const size_t *host_origin, const size_t *region, size_t pitch, \
		size_t slice, size_t host_pitch, size_t host_slice, void *host, OPENCL_COMMAND)) \
	X(87, int32_t, EnqueueWriteBufferRect, (void *queue, void *buffer, uint32_t blocking, \
		const size_t *origin, const size_t *host_origin, const size_t *region, size_t pitch, \
		size_t slice, size_t host_pitch, size_t host_slice, const void *host, OPENCL_COMMAND)) \
	X(88, int32_t, EnqueueCopyBufferRect, (void *queue, void *source, void *target, \
		const size_t *source_origin, const size_t *target_origin, const size_t *region, \
		size_t source_pitch, size_t source_slice, size_t target_pitch, size_t target_slice, \
		OPENCL_COMMAND)) \
	X(96, void *, CreateImage, (void *context, uint64_t flags, const void *format, \
		const void *description, void *host, int32_t *error)) \
	X(102, int32_t, EnqueueFillBuffer, (void *queue, void *buffer, const void *pattern, \
		size_t pattern_size, size_t offset, size_t size, OPENCL_COMMAND)) \
	X(103, int32_t, EnqueueFillImage, (void *queue, void *image, const void *color, \
		const size_t *origin, const size_t *region, OPENCL_COMMAND)) \
	X(104, int32_t, EnqueueMigrateMemObjects, (void *queue, uint32_t mems, void *const *mem_list, \
		uint64_t flags, OPENCL_COMMAND)) \
	X(105, int32_t, EnqueueMarkerWithWaitList, (void *queue, OPENCL_COMMAND)) \
	X(106, int32_t, EnqueueBarrierWithWaitList, (void *queue, OPENCL_COMMAND)) \
	X(107, void *, GetExtensionFunctionAddressForPlatform, (void *platform, const char *name)) \
	X(123, void *, CreateCommandQueueWithProperties, (void *context, void *device, \
		const uint64_t *properties, int32_t *error)) \
	X(124, void *, CreatePipe, (void *context, uint64_t flags, uint32_t packet, uint32_t packets, \
		const void *properties, int32_t *error)) \
	X(126, void *, SVMAlloc, (void *context, uint64_t flags, size_t size, uint32_t alignment)) \
	X(127, void, SVMFree, (void *context, void *pointer)) \
	X(128, int32_t, EnqueueSVMFree, (void *queue, uint32_t count, void **pointers, \
		opencl_svm_free function, void *data, OPENCL_COMMAND)) \
	X(129, int32_t, EnqueueSVMMemcpy, (void *queue, uint32_t blocking, void *target, \
		const void *source, size_t size, OPENCL_COMMAND)) \
	X(130, int32_t, EnqueueSVMMemFill, (void *queue, void *pointer, const void *pattern, \
		size_t pattern_size, size_t size, OPENCL_COMMAND)) \
	X(131, int32_t, EnqueueSVMMap, (void *queue, uint32_t blocking, uint64_t flags, void *pointer, \
		size_t size, OPENCL_COMMAND)) \
	X(132, int32_t, EnqueueSVMUnmap, (void *queue, void *pointer, OPENCL_COMMAND)) \
	X(137, void *, CloneKernel, (void *kernel, int32_t *error)) \
	X(139, int32_t, EnqueueSVMMigrateMem, (void *queue, uint32_t count, const void **pointers, \
		const size_t *sizes, uint64_t flags, OPENCL_COMMAND)) \
	X(146, void *, CreateBufferWithProperties, (void *context, const uint64_t *properties, \
		uint64_t flags, size_t size, void *host, int32_t *error)) \
	X(147, void *, CreateImageWithProperties, (void *context, const uint64_t *properties, \
		uint64_t flags, const void *format, const void *description, void *host, int32_t *error))
/* clang-format on */

/* Places in the table, and the functions of the next layer, or of the loader; NULL: its table is shorter. */
#define OPENCL_PLACE(place, returns, name, parameters) OPENCL_AT_##name = (place),
enum {
	OPENCL_CALLS(OPENCL_PLACE)
};
#undef OPENCL_PLACE

#define OPENCL_MEMBER(place, returns, name, parameters) returns(*name) parameters;
struct opencl_next {
	OPENCL_CALLS(OPENCL_MEMBER)
};
#undef OPENCL_MEMBER

extern struct opencl_next opencl_next;
