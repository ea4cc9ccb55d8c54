/* SPDX-License-Identifier: MIT
 *
 * The OpenCL layer above a runtime that is made here: commands end when the test says so, its clock is what the
 * test says, it may fail, call back late, on another thread, or never. The events that are written go to the
 * list below instead of the recorder's memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "inject/opencl_abi.h"
#include "inject/opencl_clock.h"
#include "inject/opencl_commands.h"
#include "inject/opencl_records.h"
#include "inject/probe.h"
#if __has_include(<CL/cl_layer.h>)
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#else
int32_t clInitLayer(uint32_t places, const void *target, uint32_t *places_ret, const void **layer_ret);
#define cl_icd_dispatch void
#endif

/* ---- a probe ------------------------------------------------------------------------------------------------------ */

enum {
	EVENTS = 40000,
};

struct written {
	enum trace_ring_kind kind;
	uint64_t time_ns;
	unsigned flags;
	const char *call;
	uint64_t correlation;
	struct trace_ring_work work;
	struct trace_ring_memory memory;
};

static struct written written[EVENTS];
static _Atomic unsigned written_n, lost[TRACE_LOSS_COUNT];
static _Atomic int64_t in_flight;
static unsigned layers = TRACE_ALL, generation = 1;
static const char *texts[256] = { "" };
static unsigned texts_n = 1;
static struct trace_ring_site sites[256];
static unsigned sites_n = 1;
static pthread_mutex_t arena = PTHREAD_MUTEX_INITIALIZER;

bool probe_follows(unsigned layer)
{
	return layers & layer;
}

bool probe_wants(unsigned layer)
{
	return layers & layer;
}

uint64_t probe_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

uint32_t probe_text0(const char *text)
{
	unsigned i = 0;

	pthread_mutex_lock(&arena);
	while (i < texts_n && strcmp(texts[i], text) != 0)
		i++;
	if (i == texts_n)
		texts[texts_n++] = strdup(text);
	pthread_mutex_unlock(&arena);
	return i;
}

uint32_t probe_site(const struct trace_ring_site *site)
{
	unsigned i = 1;

	pthread_mutex_lock(&arena);
	while (i < sites_n && memcmp(&sites[i], site, sizeof *site) != 0)
		i++;
	if (i == sites_n)
		sites[sites_n++] = *site;
	pthread_mutex_unlock(&arena);
	return i;
}

static struct written *add(enum trace_ring_kind kind, uint64_t time_ns, unsigned flags)
{
	unsigned i = atomic_fetch_add(&written_n, 1);

	assert_true(i < EVENTS);
	written[i] = (struct written) { .kind = kind, .time_ns = time_ns, .flags = flags };
	return &written[i];
}

void probe_call(enum trace_ring_kind kind, uint64_t time_ns, uint32_t name, uint64_t correlation, unsigned flags)
{
	struct written *w = add(kind, time_ns, flags);

	w->call = texts[name];
	w->correlation = correlation;
}

void probe_memory(uint64_t time_ns, unsigned flags, const struct trace_ring_memory *memory)
{
	add(TRACE_RING_MEMORY, time_ns, flags)->memory = *memory;
}

void probe_work(uint64_t start_ns, unsigned flags, const struct trace_ring_work *work)
{
	add(TRACE_RING_WORK, start_ns, flags)->work = *work;
}

void probe_lost(enum trace_loss cause, uint64_t n)
{
	atomic_fetch_add(&lost[cause], (unsigned) n);
}

void probe_in_flight(int64_t n)
{
	atomic_fetch_add(&in_flight, n);
}

unsigned probe_generation(void)
{
	return generation;
}

static const struct written *nth(enum trace_ring_kind kind, unsigned n)
{
	for (unsigned i = 0; i < written_n; i++)
		if (written[i].kind == kind && n-- == 0)
			return &written[i];
	fail_msg("no such event of kind %d", kind);
	return NULL;
}

static unsigned count(enum trace_ring_kind kind)
{
	unsigned n = 0;

	for (unsigned i = 0; i < written_n; i++)
		n += written[i].kind == kind;
	return n;
}

/* ---- a runtime ---------------------------------------------------------------------------------------------------- */

struct queue {
	uint64_t properties;
	int references;
};

struct event {
	struct queue *queue;
	int references;
	int32_t status;
	uint64_t times[OPENCL_TIMES];
	opencl_event_done function;
	void *data;
};

struct mem {
	size_t size;
	opencl_mem_done function;
	void *data;
	void *parent;
};

static int events_alive;
static int64_t clock_ahead;    /* the runtime's clock less CLOCK_MONOTONIC */
static int32_t enqueue_error, callback_error;
static uint64_t refused_properties;
static bool is_forgetful;      /* it calls back for no command that fails */
static struct event *last;     /* of the last command */
static int device_handle, context_handle, platform_handle;

static uint64_t runtime_now(void)
{
	return probe_now() + (uint64_t) clock_ahead;
}

static int32_t give(const void *from, size_t bytes, size_t size, void *value, size_t *size_ret)
{
	if (value && size < bytes)
		return OPENCL_INVALID_VALUE;
	if (value)
		memcpy(value, from, bytes);
	if (size_ret)
		*size_ret = bytes;
	return OPENCL_SUCCESS;
}

static int32_t fake_GetDeviceIDs(void *platform, uint64_t type, uint32_t room, void **devices, uint32_t *n)
{
	(void) platform;
	(void) type;
	if (room)
		devices[0] = &device_handle;
	if (n)
		*n = 1;
	return OPENCL_SUCCESS;
}

static int32_t fake_GetDeviceInfo(void *device, uint32_t what, size_t size, void *value, size_t *size_ret)
{
	void *platform = &platform_handle, *none = NULL;

	(void) device;
	if (what == OPENCL_DEVICE_NAME)
		return give("Fake 1", sizeof "Fake 1", size, value, size_ret);
	return give(what == OPENCL_DEVICE_PLATFORM ? &platform : &none, sizeof platform, size, value, size_ret);
}

static int32_t fake_GetContextInfo(void *context, uint32_t what, size_t size, void *value, size_t *size_ret)
{
	void *device = &device_handle;

	(void) context;
	(void) what;
	return give(&device, sizeof device, size, value, size_ret);
}

static void *fake_CreateCommandQueue(void *context, void *device, uint64_t properties, int32_t *error)
{
	struct queue *queue = calloc(1, sizeof *queue);

	(void) context;
	(void) device;
	if (properties & refused_properties) {
		free(queue);
		if (error)
			*error = -35;
		return NULL;
	}
	*queue = (struct queue) { .properties = properties, .references = 1 };
	if (error)
		*error = OPENCL_SUCCESS;
	return queue;
}

static int32_t fake_ReleaseCommandQueue(void *queue)
{
	struct queue *q = queue;

	if (--q->references == 0)
		free(q);
	return OPENCL_SUCCESS;
}

static int32_t fake_GetCommandQueueInfo(void *queue, uint32_t what, size_t size, void *value, size_t *size_ret)
{
	struct queue *q = queue;

	return what == OPENCL_QUEUE_PROPERTIES ? give(&q->properties, sizeof q->properties, size, value, size_ret)
					       : OPENCL_INVALID_VALUE;
}

static int32_t fake_RetainEvent(void *event)
{
	((struct event *) event)->references++;
	return OPENCL_SUCCESS;
}

static int32_t fake_ReleaseEvent(void *event)
{
	struct event *e = event;

	assert_true(e->references > 0);
	if (--e->references == 0) {
		fake_ReleaseCommandQueue(e->queue);
		events_alive--;
		free(e);
	}
	return OPENCL_SUCCESS;
}

static int32_t fake_GetEventInfo(void *event, uint32_t what, size_t size, void *value, size_t *size_ret)
{
	struct event *e = event;
	uint32_t references = (uint32_t) e->references;

	if (what == OPENCL_EVENT_QUEUE)
		return give(&e->queue, sizeof e->queue, size, value, size_ret);
	return what == OPENCL_EVENT_STATUS ? give(&e->status, sizeof e->status, size, value, size_ret)
					   : give(&references, sizeof references, size, value, size_ret);
}

static int32_t fake_GetEventProfilingInfo(void *event, uint32_t what, size_t size, void *value, size_t *size_ret)
{
	struct event *e = event;

	if (!(e->queue->properties & OPENCL_PROFILING) || e->status != OPENCL_COMPLETE)
		return OPENCL_NO_PROFILING;
	return give(&e->times[what - OPENCL_TIME_QUEUED], sizeof *e->times, size, value, size_ret);
}

static int32_t fake_SetEventCallback(void *event, int32_t status, opencl_event_done function, void *data)
{
	struct event *e = event;

	assert_int_equal(status, OPENCL_COMPLETE);
	if (callback_error)
		return callback_error;
	assert_null(e->function);
	e->function = function;
	e->data = data;
	return OPENCL_SUCCESS;
}

/* The queue's own reference is the runtime's, until the command ends. */
static int32_t enqueue(void *queue, void **event, bool is_done)
{
	struct event *e;

	if (enqueue_error)
		return enqueue_error;
	e = calloc(1, sizeof *e);
	*e = (struct event) { .queue = queue, .references = 1 + (event != NULL), .status = is_done ? OPENCL_COMPLETE : 3 };
	e->queue->references++;
	e->times[0] = e->times[1] = e->times[2] = e->times[3] = runtime_now();
	events_alive++;
	if (event)
		*event = e;
	last = e;
	if (is_done)
		fake_ReleaseEvent(e);
	return OPENCL_SUCCESS;
}

/* The command of an event ends. */
static void end(struct event *e, int32_t status)
{
	e->status = status;
	e->times[1] += 10;
	e->times[2] = e->times[1] + 20;
	e->times[3] = e->times[2] + 1000;
	while (runtime_now() < e->times[3])
		;
	if (e->function && !(is_forgetful && status < 0))
		e->function(e, status, e->data);
	fake_ReleaseEvent(e);
}

static int32_t fake_EnqueueNDRangeKernel(void *queue, void *kernel, uint32_t dimensions, const size_t *offset,
	const size_t *global, const size_t *local, OPENCL_COMMAND)
{
	(void) kernel;
	(void) dimensions;
	(void) offset;
	(void) global;
	(void) local;
	(void) waits;
	(void) wait_list;
	return enqueue(queue, event, false);
}

static int32_t fake_EnqueueReadBuffer(void *queue, void *buffer, uint32_t blocking, size_t offset, size_t size, void *host,
	OPENCL_COMMAND)
{
	(void) buffer;
	(void) offset;
	(void) size;
	(void) host;
	(void) waits;
	(void) wait_list;
	return enqueue(queue, event, blocking);
}

static int32_t fake_EnqueueSVMFree(void *queue, uint32_t n, void **pointers, opencl_svm_free function, void *data,
	OPENCL_COMMAND)
{
	(void) n;
	(void) pointers;
	(void) function;
	(void) data;
	(void) waits;
	(void) wait_list;
	return enqueue(queue, event, false);
}

static int32_t fake_Finish(void *queue)
{
	(void) queue;
	return OPENCL_SUCCESS;
}

static int32_t fake_GetKernelInfo(void *kernel, uint32_t what, size_t size, void *value, size_t *size_ret)
{
	(void) what;
	return give(kernel, strlen(kernel) + 1, size, value, size_ret);
}

static void *fake_CreateKernel(void *program, const char *name, int32_t *error)
{
	(void) name;
	(void) error;
	return program;
}

static void *fake_CreateBuffer(void *context, uint64_t flags, size_t size, void *host, int32_t *error)
{
	struct mem *mem;

	(void) context;
	(void) flags;
	(void) host;
	if (error)
		*error = size > 1000 ? -4 : OPENCL_SUCCESS;
	if (size > 1000)
		return NULL;
	mem = calloc(1, sizeof *mem);
	mem->size = size;
	return mem;
}

static int32_t fake_GetMemObjectInfo(void *mem, uint32_t what, size_t size, void *value, size_t *size_ret)
{
	struct mem *m = mem;

	return what == OPENCL_MEM_SIZE ? give(&m->size, sizeof m->size, size, value, size_ret)
				       : give(&m->parent, sizeof m->parent, size, value, size_ret);
}

static int32_t fake_GetImageInfo(void *mem, uint32_t what, size_t size, void *value, size_t *size_ret)
{
	(void) mem;
	(void) what;
	(void) size;
	(void) value;
	(void) size_ret;
	return OPENCL_INVALID_VALUE;
}

static int32_t fake_SetMemObjectDestructorCallback(void *mem, opencl_mem_done function, void *data)
{
	struct mem *m = mem;

	m->function = function;
	m->data = data;
	return OPENCL_SUCCESS;
}

static void *fake_SVMAlloc(void *context, uint64_t flags, size_t size, uint32_t alignment)
{
	(void) context;
	(void) flags;
	(void) alignment;
	return malloc(size);
}

#define FAKE(name) [OPENCL_AT_##name] = (void *) fake_##name
static void *const runtime[149] = {
	FAKE(GetDeviceIDs),
	FAKE(GetDeviceInfo),
	FAKE(GetContextInfo),
	FAKE(CreateCommandQueue),
	FAKE(ReleaseCommandQueue),
	FAKE(GetCommandQueueInfo),
	FAKE(RetainEvent),
	FAKE(ReleaseEvent),
	FAKE(GetEventInfo),
	FAKE(GetEventProfilingInfo),
	FAKE(SetEventCallback),
	FAKE(EnqueueNDRangeKernel),
	FAKE(EnqueueReadBuffer),
	FAKE(EnqueueSVMFree),
	FAKE(Finish),
	FAKE(GetKernelInfo),
	FAKE(CreateKernel),
	FAKE(CreateBuffer),
	FAKE(GetMemObjectInfo),
	FAKE(GetImageInfo),
	FAKE(SetMemObjectDestructorCallback),
	FAKE(SVMAlloc),
};

/* What a program calls: the layer's table, by name. */
static struct opencl_next program;

/* The header's types, or our own declaration's. */
#define TABLE(pointer) ((void *) (uintptr_t) (pointer))

static int setup(void **state)
{
	static bool is_loaded;
	uint32_t places;
	void *const *table = NULL;

	(void) state;
	if (!is_loaded) {
		layers = TRACE_RANGES; /* nothing of OpenCL: the table stays the loader's */
		assert_int_equal(clInitLayer(149, TABLE(runtime), &places, TABLE(&table)), OPENCL_SUCCESS);
		assert_ptr_equal(table, runtime);
		assert_int_equal(places, 149);
		layers = TRACE_ALL;
		assert_int_equal(clInitLayer(149, TABLE(runtime), &places, TABLE(&table)), OPENCL_SUCCESS);
		assert_ptr_not_equal(table, runtime);
#define TAKE(place, returns, name, parameters) program.name = (returns(*) parameters) table[place];
		OPENCL_CALLS(TAKE)
#undef TAKE
		is_loaded = true;
	}
	written_n = 0;
	for (int i = 0; i < TRACE_LOSS_COUNT; i++)
		lost[i] = 0;
	layers = TRACE_ALL;
	clock_ahead = 0;
	enqueue_error = callback_error = 0;
	is_forgetful = false;
	refused_properties = 0;
	assert_int_equal(events_alive, 0);
	assert_int_equal(in_flight, 0);
	return 0;
}

static void *new_queue(uint64_t properties)
{
	int32_t error = 77;
	void *queue = program.CreateCommandQueue(&context_handle, &device_handle, properties, &error);

	assert_non_null(queue);
	assert_int_equal(error, OPENCL_SUCCESS);
	return queue;
}

static char kernel_name[] = "a_kernel";
static const size_t items[] = { 100, 6 }, groups[] = { 10, 4 };

static struct event *launch(void *queue, void **event)
{
	assert_int_equal(program.EnqueueNDRangeKernel(queue, kernel_name, 2, NULL, items, groups, 0, NULL, event), enqueue_error);
	return last;
}

/* ---- tests -------------------------------------------------------------------------------------------------------- */

/* The places of our table are those of OpenCL's header, where there is one. */
static void test_places(void **state)
{
	(void) state;
#ifdef CL_LAYER_API_VERSION
#define SAME(place, returns, name, parameters) \
	assert_int_equal(OPENCL_AT_##name, offsetof(struct _cl_icd_dispatch, cl##name) / sizeof(void *));
	OPENCL_CALLS(SAME)
#undef SAME
	assert_int_equal(sizeof(struct _cl_icd_dispatch) / sizeof(void *), sizeof runtime / sizeof *runtime);
	assert_int_equal(OPENCL_NO_PROFILING, CL_PROFILING_INFO_NOT_AVAILABLE);
	assert_int_equal(OPENCL_QUEUE_PROPERTIES_ARRAY, CL_QUEUE_PROPERTIES_ARRAY);
	assert_int_equal(OPENCL_EVENT_REFERENCES, CL_EVENT_REFERENCE_COUNT);
	assert_int_equal(OPENCL_EVENT_STATUS, CL_EVENT_COMMAND_EXECUTION_STATUS);
	assert_int_equal(OPENCL_MEM_PARENT, CL_MEM_ASSOCIATED_MEMOBJECT);
	assert_int_equal(OPENCL_DEVICE_PARENT, CL_DEVICE_PARENT_DEVICE);
#else
	skip();
#endif
	/* What the runtime lacks stays away. */
	assert_null((void *) program.EnqueueTask);
}

static void test_a_kernel_without_event(void **state)
{
	void *queue = new_queue(0);
	struct event *e = launch(queue, NULL);
	const struct written *work;
	const struct trace_ring_site *site;

	(void) state;
	assert_int_equal(count(TRACE_RING_WORK), 0);
	assert_int_equal(in_flight, 1);
	end(e, OPENCL_COMPLETE);
	assert_int_equal(in_flight, 0);
	assert_int_equal(events_alive, 0);
	work = nth(TRACE_RING_WORK, 0);
	assert_int_equal(work->flags, 0);
	assert_int_equal(work->work.end_ns - work->time_ns, 1000);
	assert_int_equal(work->work.queued_before, 30);
	assert_int_equal(work->work.submitted_before, 20);
	assert_int_equal(work->work.correlation, nth(TRACE_RING_ENTER, 0)->correlation);
	assert_int_equal(work->work.correlation, nth(TRACE_RING_LEAVE, 0)->correlation);
	assert_string_equal(nth(TRACE_RING_ENTER, 0)->call, "clEnqueueNDRangeKernel");
	site = &sites[work->work.site];
	assert_int_equal(site->kind, TRACE_KERNEL);
	assert_string_equal(texts[site->name], "a_kernel");
	assert_string_equal(texts[site->device_name], "Fake 1");
	assert_int_equal(site->device, 0);
	assert_int_equal(site->grid[0], 10);
	assert_int_equal(site->grid[1], 2); /* 6 items in groups of 4 */
	assert_int_equal(site->grid[2], 1);
	assert_int_equal(site->block[0], 10);
	program.ReleaseCommandQueue(queue);
}

static void test_a_name_is_of_the_kernel_that_there_is(void **state)
{
	void *queue = new_queue(0);

	(void) state;
	end(launch(queue, NULL), OPENCL_COMPLETE);
	kernel_name[0] = 'b'; /* another kernel, at the same address */
	program.CreateKernel(kernel_name, "b_kernel", NULL);
	end(launch(queue, NULL), OPENCL_COMPLETE);
	assert_string_equal(texts[sites[nth(TRACE_RING_WORK, 0)->work.site].name], "a_kernel");
	assert_string_equal(texts[sites[nth(TRACE_RING_WORK, 1)->work.site].name], "b_kernel");
	kernel_name[0] = 'a';
	program.CreateKernel(kernel_name, "a_kernel", NULL);
	program.ReleaseCommandQueue(queue);
}

static void test_an_event_of_the_program(void **state)
{
	void *queue = new_queue(0), *mine = NULL;
	uint64_t t = 5;
	uint32_t references = 0;

	(void) state;
	launch(queue, &mine);
	assert_int_equal(((struct event *) mine)->references, 3); /* the program's, the runtime's, ours */
	program.GetEventInfo(mine, OPENCL_EVENT_REFERENCES, sizeof references, &references, NULL);
	assert_int_equal(references, 2);
	/* The program lets go of it before it ends: it stays until its times are read. */
	program.ReleaseEvent(mine);
	end(mine, OPENCL_COMPLETE);
	assert_int_equal(events_alive, 0);
	assert_int_equal(count(TRACE_RING_WORK), 1);
	launch(queue, &mine);
	end(mine, OPENCL_COMPLETE);
	assert_int_equal(program.GetEventProfilingInfo(mine, OPENCL_TIME_QUEUED, sizeof t, &t, NULL), OPENCL_NO_PROFILING);
	assert_int_equal(t, 5);
	program.GetEventInfo(mine, OPENCL_EVENT_REFERENCES, sizeof references, &references, NULL);
	assert_int_equal(references, 1);
	fake_ReleaseEvent(mine);
	program.ReleaseCommandQueue(queue);
	queue = new_queue(OPENCL_PROFILING);
	launch(queue, &mine);
	end(mine, OPENCL_COMPLETE);
	assert_int_equal(program.GetEventProfilingInfo(mine, OPENCL_TIME_QUEUED, sizeof t, &t, NULL), OPENCL_SUCCESS);
	fake_ReleaseEvent(mine);
	program.ReleaseCommandQueue(queue);
}

static void test_properties_of_a_queue(void **state)
{
	uint64_t properties = 0;
	struct queue *queue = new_queue(1);

	(void) state;
	assert_int_equal(queue->properties, 1 | OPENCL_PROFILING);
	program.GetCommandQueueInfo(queue, OPENCL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
	assert_int_equal(properties, 1);
	program.ReleaseCommandQueue(queue);
	/* A device that cannot: as without us, and its commands are counted. */
	refused_properties = OPENCL_PROFILING;
	queue = new_queue(1);
	assert_int_equal(queue->properties, 1);
	end(launch(queue, NULL), OPENCL_COMPLETE);
	assert_int_equal(count(TRACE_RING_WORK), 0);
	assert_int_equal(lost[TRACE_LOST_DROPPED], 1);
	program.ReleaseCommandQueue(queue);
}

static void test_a_call_that_fails(void **state)
{
	void *queue = new_queue(0);

	(void) state;
	enqueue_error = -52;
	launch(queue, NULL);
	assert_int_equal(count(TRACE_RING_WORK), 0);
	assert_int_equal(nth(TRACE_RING_LEAVE, 0)->flags, TRACE_FAILED);
	assert_int_equal(lost[TRACE_LOST_DROPPED], 0);
	program.ReleaseCommandQueue(queue);
}

static void test_a_command_that_fails(void **state)
{
	void *queue = new_queue(0);

	(void) state;
	end(launch(queue, NULL), -5);
	assert_int_equal(events_alive, 0);
	assert_int_equal(nth(TRACE_RING_WORK, 0)->flags, TRACE_INVALID | TRACE_FAILED);
	program.ReleaseCommandQueue(queue);
}

static void test_a_runtime_that_does_not_call_back(void **state)
{
	void *queue = new_queue(0);
	struct event *e;
	opencl_event_done function;
	void *data;

	(void) state;
	is_forgetful = true;
	e = launch(queue, NULL);
	function = e->function;
	data = e->data;
	end(e, -5);
	assert_int_equal(events_alive, 1); /* our reference */
	program.Finish(queue);
	assert_int_equal(events_alive, 0);
	assert_int_equal(nth(TRACE_RING_WORK, 0)->flags, TRACE_INVALID | TRACE_FAILED);
	/* It calls back after all, when another command has the record. */
	e = launch(queue, NULL);
	function(e, -5, data);
	assert_int_equal(count(TRACE_RING_WORK), 1);
	end(e, OPENCL_COMPLETE);
	assert_int_equal(count(TRACE_RING_WORK), 2);
	/* One that ended, and whose callback is on its way, is written when clFinish returns, and once. */
	e = launch(queue, NULL);
	fake_RetainEvent(e);
	e->status = OPENCL_COMPLETE;
	program.Finish(queue);
	assert_int_equal(count(TRACE_RING_WORK), 3);
	end(e, OPENCL_COMPLETE);
	assert_int_equal(count(TRACE_RING_WORK), 3);
	fake_ReleaseEvent(e);
	/* One that still runs is left alone. */
	e = launch(queue, NULL);
	program.Finish(queue);
	assert_int_equal(count(TRACE_RING_WORK), 3);
	end(e, OPENCL_COMPLETE);
	assert_int_equal(count(TRACE_RING_WORK), 4);
	program.ReleaseCommandQueue(queue);
}

static void test_no_callback_can_be_set(void **state)
{
	void *queue = new_queue(0);
	struct event *e;

	(void) state;
	callback_error = -6;
	e = launch(queue, NULL);
	assert_int_equal(e->references, 1); /* the runtime's */
	assert_int_equal(lost[TRACE_LOST_DROPPED], 1);
	assert_int_equal(count(TRACE_RING_WORK), 0);
	end(e, OPENCL_COMPLETE);
	program.ReleaseCommandQueue(queue);
}

static void test_a_blocking_copy(void **state)
{
	void *queue = new_queue(0);
	char host[64];

	(void) state;
	assert_int_equal(program.EnqueueReadBuffer(queue, NULL, 1, 0, sizeof host, host, 0, NULL, NULL), OPENCL_SUCCESS);
	assert_int_equal(events_alive, 0);
	assert_int_equal(nth(TRACE_RING_WORK, 0)->work.bytes, sizeof host);
	assert_int_equal(sites[nth(TRACE_RING_WORK, 0)->work.site].source, TRACE_DEVICE);
	assert_int_equal(sites[nth(TRACE_RING_WORK, 0)->work.site].target, TRACE_PAGEABLE);
	program.ReleaseCommandQueue(queue);
}

static void test_after_a_fork(void **state)
{
	void *queue = new_queue(0);
	struct event *e = launch(queue, NULL);

	(void) state;
	generation++; /* as in a child: what its parent enqueued is its parent's */
	end(e, OPENCL_COMPLETE);
	assert_int_equal(count(TRACE_RING_WORK), 0);
	assert_int_equal(events_alive, 0);
	end(launch(queue, NULL), OPENCL_COMPLETE);
	assert_int_equal(count(TRACE_RING_WORK), 1);
	program.ReleaseCommandQueue(queue);
	assert_int_equal(in_flight, 1); /* of the parent */
	in_flight = 0;
}

static void test_memory(void **state)
{
	int32_t error = 77;
	struct mem *mem = program.CreateBuffer(&context_handle, 0, 500, NULL, &error);
	void *svm, *list[1];
	void *queue = new_queue(0);
	struct event *e;

	(void) state;
	assert_int_equal(error, OPENCL_SUCCESS);
	assert_int_equal(nth(TRACE_RING_MEMORY, 0)->memory.bytes, 500);
	mem->function(mem, mem->data);
	assert_int_equal(nth(TRACE_RING_MEMORY, 1)->memory.is_free, 1);
	assert_int_equal(nth(TRACE_RING_MEMORY, 1)->memory.bytes, 500);
	assert_int_equal(nth(TRACE_RING_MEMORY, 1)->memory.address, (uintptr_t) mem);
	free(mem);
	assert_null(program.CreateBuffer(&context_handle, 0, 2000, NULL, NULL));
	assert_int_equal(nth(TRACE_RING_MEMORY, 2)->flags, TRACE_FAILED);
	assert_int_equal(nth(TRACE_RING_MEMORY, 2)->memory.bytes, 2000);
	/* Shared memory that a command frees is there until the command ends. */
	svm = list[0] = program.SVMAlloc(&context_handle, 0, 300, 0);
	assert_int_equal(program.EnqueueSVMFree(queue, 1, list, NULL, NULL, 0, NULL, NULL), OPENCL_SUCCESS);
	e = last;
	assert_int_equal(count(TRACE_RING_MEMORY), 4);
	end(e, OPENCL_COMPLETE);
	assert_int_equal(nth(TRACE_RING_MEMORY, 4)->memory.is_free, 1);
	assert_int_equal(nth(TRACE_RING_MEMORY, 4)->memory.bytes, 300);
	assert_int_equal(count(TRACE_RING_WORK), 0);
	assert_int_equal(events_alive, 0);
	free(svm);
	program.ReleaseCommandQueue(queue);
}

static void test_only_what_is_followed(void **state)
{
	void *queue = new_queue(0);

	(void) state;
	layers = TRACE_LAUNCHES;
	end(launch(queue, NULL), OPENCL_COMPLETE);
	assert_int_equal(count(TRACE_RING_ENTER), 1);
	assert_int_equal(count(TRACE_RING_WORK), 0);
	layers = TRACE_KERNELS;
	end(launch(queue, NULL), OPENCL_COMPLETE);
	assert_int_equal(count(TRACE_RING_ENTER), 1);
	assert_int_equal(count(TRACE_RING_WORK), 1);
	layers = 0;
	end(launch(queue, NULL), OPENCL_COMPLETE);
	assert_int_equal(written_n, 3);
	program.ReleaseCommandQueue(queue);
}

static void test_records_are_used_again(void **state)
{
	enum {
		AT_ONCE = 100
	};
	struct event *e[AT_ONCE];
	void *queue = new_queue(0);

	(void) state;
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < AT_ONCE; i++)
			e[i] = launch(queue, NULL);
		for (int i = 0; i < AT_ONCE; i++)
			end(e[i], OPENCL_COMPLETE);
	}
	assert_int_equal(count(TRACE_RING_WORK), 5 * AT_ONCE);
	assert_null(opencl_record_at(2 * AT_ONCE));
	program.ReleaseCommandQueue(queue);
}

/* Threads enqueue into one queue while another ends their commands. */
enum {
	THREADS = 4,
	EACH = 2000,
};
static pthread_mutex_t runtime_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct event *) pending[THREADS * EACH];

static void *enqueuer(void *data)
{
	static _Atomic unsigned place;

	for (int i = 0; i < EACH; i++) {
		struct opencl_command c = { .call = "call", .kind = TRACE_COPY };
		void **event = opencl_begin(&c, data, NULL), *made;

		pthread_mutex_lock(&runtime_lock);
		enqueue(data, event, false);
		pthread_mutex_unlock(&runtime_lock);
		made = *event;
		opencl_end(&c, OPENCL_SUCCESS);
		atomic_store(&pending[atomic_fetch_add(&place, 1)], made);
	}
	return NULL;
}

static void test_many_threads(void **state)
{
	void *queue = new_queue(0);
	pthread_t threads[THREADS];

	(void) state;
	layers = TRACE_KERNELS;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, enqueuer, queue), 0);
	for (int i = 0; i < THREADS * EACH; i++) {
		struct event *e;

		while (!(e = atomic_load(&pending[i])))
			;
		e->status = OPENCL_COMPLETE;
		e->function(e, OPENCL_COMPLETE, e->data);
		pthread_mutex_lock(&runtime_lock);
		fake_ReleaseEvent(e);
		pthread_mutex_unlock(&runtime_lock);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(count(TRACE_RING_WORK), THREADS * EACH);
	assert_int_equal(lost[TRACE_LOST_DROPPED], 0);
	program.ReleaseCommandQueue(queue);
}

/* ---- clocks ------------------------------------------------------------------------------------------------------- */

static int64_t clock_less_monotonic(clockid_t id)
{
	struct timespec t;
	uint64_t now = probe_now();

	clock_gettime(id, &t);
	return (int64_t) ((uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec - now);
}

/* A command of a runtime whose clock is `ahead` of ours; the distance that results. */
static int64_t saw(struct opencl_clock *clock, int64_t ahead, uint64_t took)
{
	uint64_t before = probe_now(), at = before + took / 2 + (uint64_t) ahead;

	while (probe_now() < before + took)
		;
	opencl_clock_saw(clock, &(struct opencl_clock_sight) { .before = before, .after = before + took, .queued = at, .end = at });
	return (int64_t) (opencl_clock_host(clock, at) - at);
}

static void test_clocks(void **state)
{
	struct opencl_clock monotonic = { 0 }, real = { 0 }, own = { 0 };
	int64_t ahead = clock_less_monotonic(CLOCK_REALTIME), distance;

	(void) state;
	assert_int_equal(saw(&monotonic, 0, 5000), 0); /* exactly */
	assert_int_equal(saw(&monotonic, 300, 5000), 0);
	distance = saw(&real, ahead, 5000);
	assert_in_range(distance + ahead + 100000, 0, 200000);
	/* A counter of the device: within the call, and better with a shorter one. */
	distance = saw(&own, 123456789012, 1000000);
	assert_in_range(distance + 123456789012 + 500000, 0, 1000000);
	distance = saw(&own, 123456789012, 3000);
	assert_in_range(distance + 123456789012 + 1500, 0, 3000);
	/* It drifts. */
	distance = saw(&own, 123456799012, 3000);
	assert_in_range(distance + 123456799012 + 1500, 0, 3000);
}

static void test_a_clock_that_turns_out_to_be_another(void **state)
{
	struct opencl_clock clock = { 0 };

	(void) state;
	assert_int_equal(saw(&clock, 0, 3000), 0);
	clock.checked_ns = 0; /* long ago */
	assert_in_range(saw(&clock, -77000000, 3000) - 77000000 + 1500, 0, 3000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_places, setup),
		cmocka_unit_test_setup(test_a_kernel_without_event, setup),
		cmocka_unit_test_setup(test_a_name_is_of_the_kernel_that_there_is, setup),
		cmocka_unit_test_setup(test_an_event_of_the_program, setup),
		cmocka_unit_test_setup(test_properties_of_a_queue, setup),
		cmocka_unit_test_setup(test_a_call_that_fails, setup),
		cmocka_unit_test_setup(test_a_command_that_fails, setup),
		cmocka_unit_test_setup(test_a_runtime_that_does_not_call_back, setup),
		cmocka_unit_test_setup(test_no_callback_can_be_set, setup),
		cmocka_unit_test_setup(test_a_blocking_copy, setup),
		cmocka_unit_test_setup(test_after_a_fork, setup),
		cmocka_unit_test_setup(test_memory, setup),
		cmocka_unit_test_setup(test_only_what_is_followed, setup),
		cmocka_unit_test_setup(test_records_are_used_again, setup),
		cmocka_unit_test_setup(test_many_threads, setup),
		cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_a_clock_that_turns_out_to_be_another),
	};

	return cmocka_run_group_tests_name("opencl", tests, NULL, NULL);
}
