// SPDX-License-Identifier: MIT
/*
 * A fake of CUDA's driver library that is traced: cuInit runs the injection protocol, every call is
 * told to the fake CUPTI (cupti.c) that the process has loaded, and launched work has a place on the
 * time axis of its stream. It computes nothing: a kernel is a name and a duration.
 *
 *     HIWATER_FAKE_GPU_BYTES   memory of a device (8 GiB): more is error 2
 *     HIWATER_FAKE_GPU_LOG     a file: each work appends "KIND NAME STREAM START END", wall clock in ns
 *     HIWATER_FAKE_GPU_FAIL    "FUNCTION=CODE": that function fails with it
 *
 * Two devices; the functions that cuda_script.c calls.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cupti_fake.h"
#include "cuda_traced.h"
#include "fake.h"

enum {
	OK = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	STREAMS = 16,
	ALLOCATIONS = 4096,
};

/* Memory, physical memory and arrays alike. */
struct allocation {
	uint64_t at, bytes;
	unsigned references; /* handles and mappings; 1: other memory */
};

static struct {
	pthread_mutex_t mutex;
	pid_t pid;
	struct allocation memory[ALLOCATIONS];
	struct {
		uint64_t at, bytes, handle;
	} mappings[ALLOCATIONS];
	uint64_t used, next_address;
	unsigned correlation, contexts;
	struct fake_context *last_context;
	uint64_t stream_free[STREAMS];
	bool is_capturing;
	fakecupti_call_fn *call;
	fakecupti_work_fn *work;
	fakecupti_context_ends_fn *context_ends;
	fakecupti_enabled_fn *enabled;
} the = { .mutex = PTHREAD_MUTEX_INITIALIZER, .next_address = UINT64_C(0x7f0000000000) };

static _Thread_local struct fake_context *current;

/* ---- injection ------------------------------------------------------------------------------- */

static void find_cupti(void)
{
	static const char *const names[] = { "libcupti.so.13", "libcupti.so.12" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *handle = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);

		if (!handle)
			continue;
		the.call = (fakecupti_call_fn *) dlsym(handle, "fakecupti_call");
		the.work = (fakecupti_work_fn *) dlsym(handle, "fakecupti_work");
		the.context_ends = (fakecupti_context_ends_fn *) dlsym(handle, "fakecupti_context_ends");
		the.enabled = (fakecupti_enabled_fn *) dlsym(handle, "fakecupti_enabled");
		return;
	}
}

static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	int (*initialize)(void);
	void *handle;

	if (!path || strcmp(path, "none") == 0)
		return;
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fake_die("%s", dlerror());
	initialize = (int (*)(void)) dlsym(handle, "InitializeInjection");
	if (!initialize || initialize() != 1)
		fake_die("%s: InitializeInjection failed", path);
	find_cupti();
}

int cuInit(unsigned flags)
{
	if (flags)
		return INVALID_VALUE;
	if (the.pid && the.pid != getpid())
		return NOT_INITIALIZED;
	if (!the.pid) {
		the.pid = getpid();
		inject();
	}
	return OK;
}

/* ---- a call ---------------------------------------------------------------------------------- */

static int scripted_failure(const char *name)
{
	const char *const fail = getenv("HIWATER_FAKE_GPU_FAIL");
	const size_t len = strlen(name);

	return fail && strncmp(fail, name, len) == 0 && fail[len] == '=' ? (int) strtol(fail + len + 1, NULL, 10) : 0;
}

static struct fake_call begin(unsigned cbid, const char *name, const void *params, const char *kernel)
{
	struct fake_call call = {
		.cbid = cbid,
		.name = name,
		.params = params,
		.kernel = kernel,
		.context = current,
		.context_id = current ? current->id : 0,
		.correlation = __atomic_add_fetch(&the.correlation, 1, __ATOMIC_RELAXED),
	};

	call.result = the.pid != getpid() ? NOT_INITIALIZED : scripted_failure(name);
	if (the.call)
		the.call(&call, false);
	pthread_mutex_lock(&the.mutex);
	return call;
}

static int end(struct fake_call *call, int result)
{
	pthread_mutex_unlock(&the.mutex);
	if (call->result == OK)
		call->result = result;
	if (the.call)
		the.call(call, true);
	return call->result;
}

/* The body is skipped where the call fails by script. */
#define CALL(cbid, kernel, params, ...) \
	{ \
		struct fake_call call = begin(cbid, __func__, params, kernel); \
		int result = OK; \
\
		if (call.result == OK) \
			__VA_ARGS__; \
		return end(&call, result); \
	}

/* ---- contexts -------------------------------------------------------------------------------- */

int cuCtxCreate_v2(void **ret, unsigned flags, int device)
{
	struct {
		void **ret;
		unsigned flags;
		int device;
	} params = { ret, flags, device };

	CALL(235, NULL, &params, {
		struct fake_context *context = calloc(1, sizeof(*context));

		if (!context)
			fake_die("no memory");
		*context = (struct fake_context) { ++the.contexts, (unsigned) device, the.last_context };
		current = the.last_context = *ret = context;
	})
}

int cuCtxSetCurrent(void *context)
{
	current = context;
	return OK;
}

int cuCtxDestroy_v2(void *context)
{
	struct fake_call call = begin(322, __func__, &context, NULL);

	pthread_mutex_unlock(&the.mutex);
	if (the.context_ends)
		the.context_ends(context);
	pthread_mutex_lock(&the.mutex);
	return end(&call, OK);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t capacity(void)
{
	const char *const text = getenv("HIWATER_FAKE_GPU_BYTES");

	return text ? strtoull(text, NULL, 10) : UINT64_C(8) << 30;
}

static struct allocation *find(uint64_t at)
{
	for (size_t i = 0; i < ALLOCATIONS && at; i++) {
		if (the.memory[i].at == at)
			return &the.memory[i];
	}
	return NULL;
}

/* Without a regular distance, which a hash would spread too well. */
static uint64_t address_of(uint64_t place)
{
	return the.next_address + (place << 32) + place * place % 1009 * 4096;
}

/* Addresses are used again at once, as a driver does. */
static int allocate(uint64_t bytes, void *ret)
{
	struct allocation *place = NULL;

	if (bytes == 0)
		return INVALID_VALUE;
	if (the.used + bytes > capacity())
		return OUT_OF_MEMORY;
	for (size_t i = 0; !place && i < ALLOCATIONS; i++) {
		if (!the.memory[i].at)
			place = &the.memory[i];
	}
	if (!place)
		fake_die("too many allocations");
	*place = (struct allocation) { address_of((uint64_t) (place - the.memory)), bytes, 1 };
	the.used += bytes;
	*(uint64_t *) ret = place->at;
	return OK;
}

static int release(uint64_t at)
{
	struct allocation *found = find(at);

	if (!found)
		return at == 0 ? OK : INVALID_VALUE;
	if (--found->references == 0) {
		the.used -= found->bytes;
		found->at = 0;
	}
	return OK;
}

int cuMemAlloc_v2(uint64_t *ret, size_t bytes)
{
	struct {
		uint64_t *ret;
		size_t bytes;
	} params = { ret, bytes };

	CALL(243, NULL, &params, result = allocate(bytes, ret))
}

/* A way to allocate that CUPTI does not know. */
int cuMemAllocUnseen(uint64_t *ret, size_t bytes)
{
	pthread_mutex_lock(&the.mutex);
	const int result = allocate(bytes, ret);

	pthread_mutex_unlock(&the.mutex);
	return result;
}

int cuMemAllocPitch_v2(uint64_t *ret, size_t *pitch, size_t width, size_t height, unsigned element)
{
	struct {
		uint64_t *ret;
		size_t *pitch, width, height;
		unsigned element;
	} params = { ret, pitch, width, height, element };

	CALL(244, NULL, &params, {
		*pitch = (width + 511) / 512 * 512;
		result = allocate(*pitch * height, ret);
	})
}

int cuMemAllocManaged(uint64_t *ret, size_t bytes, unsigned flags)
{
	struct {
		uint64_t *ret;
		size_t bytes;
		unsigned flags;
	} params = { ret, bytes, flags };

	CALL(371, NULL, &params, result = allocate(bytes, ret))
}

int cuMemAllocAsync(uint64_t *ret, size_t bytes, void *stream)
{
	struct {
		uint64_t *ret;
		size_t bytes;
		void *stream;
	} params = { ret, bytes, stream };

	CALL(598, NULL, &params, result = allocate(bytes, ret))
}

/* Called once between a release and its return, without a lock: what another thread may do then. */
__attribute__((visibility("default"))) void (*traced_between)(void);

int cuMemFree_v2(uint64_t at)
{
	CALL(245, NULL, &at, {
		void (*const between)(void) = traced_between;

		result = release(at);
		traced_between = NULL;
		if (between) {
			pthread_mutex_unlock(&the.mutex);
			between();
			pthread_mutex_lock(&the.mutex);
		}
	})
}

int cuMemFreeAsync(uint64_t at, void *stream)
{
	struct {
		uint64_t at;
		void *stream;
	} params = { at, stream };

	CALL(600, NULL, &params, result = release(at))
}

int cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
	struct {
		void **ret;
		size_t bytes;
		unsigned flags;
	} params = { ret, bytes, flags };

	CALL(39, NULL, &params, {
		*ret = malloc(bytes);
	})
}

int cuMemFreeHost(void *at)
{
	CALL(38, NULL, &at, free(at))
}

int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
	struct {
		void *at;
		size_t bytes;
		unsigned flags;
	} params = { at, bytes, flags };

	CALL(379, NULL, &params, {})
}

int cuMemHostUnregister(void *at)
{
	CALL(302, NULL, &at, {})
}

int cuArray3DCreate_v2(uint64_t *ret, const struct array_descriptor *array)
{
	struct {
		uint64_t *ret;
		const struct array_descriptor *array;
	} params = { ret, array };

	CALL(274, NULL, &params, result = allocate(array->width * (array->height ? array->height : 1) * 4, ret))
}

int cuArrayDestroy(uint64_t array)
{
	CALL(89, NULL, &array, result = release(array))
}

/* ---- virtual memory -------------------------------------------------------------------------- */

int cuMemCreate(uint64_t *ret, size_t bytes, const struct memory_properties *properties, unsigned long long flags)
{
	struct {
		uint64_t *ret;
		size_t bytes;
		const struct memory_properties *properties;
		unsigned long long flags;
	} params = { ret, bytes, properties, flags };

	CALL(549, NULL, &params, result = allocate(bytes, ret))
}

int cuMemRelease(uint64_t handle)
{
	CALL(550, NULL, &handle, result = release(handle))
}

int cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
	struct {
		uint64_t at;
		size_t bytes, offset;
		uint64_t handle;
		unsigned long long flags;
	} params = { at, bytes, offset, handle, flags };

	CALL(551, NULL, &params, {
		struct allocation *memory = find(handle);
		size_t i = 0;

		while (i < ALLOCATIONS && the.mappings[i].at)
			i++;
		if (!memory || i == ALLOCATIONS) {
			result = INVALID_VALUE;
		} else {
			memory->references++;
			the.mappings[i].at = at;
			the.mappings[i].bytes = bytes;
			the.mappings[i].handle = handle;
		}
	})
}

int cuMemUnmap(uint64_t at, size_t bytes)
{
	struct {
		uint64_t at;
		size_t bytes;
	} params = { at, bytes };

	CALL(552, NULL, &params, {
		for (size_t i = 0; i < ALLOCATIONS; i++) {
			if (the.mappings[i].at < at || the.mappings[i].at >= at + bytes)
				continue;
			release(the.mappings[i].handle);
			the.mappings[i].at = 0;
		}
	})
}

int cuMemRetainAllocationHandle(uint64_t *ret, void *at)
{
	struct {
		uint64_t *ret;
		void *at;
	} params = { ret, at };

	CALL(565, NULL, &params, {
		result = INVALID_VALUE;
		for (size_t i = 0; i < ALLOCATIONS; i++) {
			if (the.mappings[i].at != (uint64_t) (uintptr_t) at)
				continue;
			*ret = the.mappings[i].handle;
			find(*ret)->references++;
			result = OK;
		}
	})
}

int cuMemImportFromShareableHandle(uint64_t *ret, void *handle, int type)
{
	struct {
		uint64_t *ret;
		void *handle;
		int type;
	} params = { ret, handle, type };

	CALL(555, NULL, &params, {
		result = allocate(1, ret);
		find(*ret)->bytes = 0;
		the.used--;
	})
}

/* ---- work ------------------------------------------------------------------------------------ */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static void log_work(const struct fake_work *work)
{
	static FILE *file;

	if (!file && getenv("HIWATER_FAKE_GPU_LOG"))
		file = fopen(getenv("HIWATER_FAKE_GPU_LOG"), "ae");
	if (file)
		fprintf(file, "%u %s %u %llu %llu\n", work->kind, work->name ? work->name : "-", work->stream,
			(unsigned long long) work->start, (unsigned long long) work->end);
}

/* Takes its place at the end of its stream. */
static void run(struct fake_call *call, struct fake_work work, void *stream, uint64_t ns)
{
	if (the.is_capturing)
		return;
	const uint64_t now = now_ns();
	uint64_t *const free_at = &the.stream_free[(uintptr_t) stream % STREAMS];

	work.start = *free_at > now ? *free_at : now;
	work.end = *free_at = work.start + ns;
	work.stream = (unsigned) (uintptr_t) stream;
	work.context_id = call->context_id;
	work.correlation = call->correlation;
	log_work(&work);
	if (the.work)
		the.work(&work);
}

int cuLaunchKernel(const struct traced_kernel *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	unsigned bz, unsigned shared, void *stream, void **parameters, void **extra)
{
	struct {
		const void *function;
		unsigned grid[3], block[3], shared;
		void *stream;
		void **parameters, **extra;
	} params = { function, { gx, gy, gz }, { bx, by, bz }, shared, stream, parameters, extra };
	struct fake_work work = { .kind = 10, .name = function->name, .grid = { gx, gy, gz }, .block = { bx, by, bz } };

	CALL(307, function->name, &params, run(&call, work, stream, function->ns))
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
	struct {
		void *stream;
		int mode;
	} params = { stream, mode };

	CALL(FAKE_CBID_CAPTURES, NULL, &params, the.is_capturing = true;)
}

int cuStreamEndCapture(void *stream, void **graph)
{
	struct {
		void *stream;
		void **graph;
	} params = { stream, graph };

	CALL(FAKE_CBID_CAPTURED, NULL, &params, the.is_capturing = false;)
}

int cuGraphLaunch(const struct traced_graph *graph, void *stream)
{
	struct {
		const void *graph;
		void *stream;
	} params = { graph, stream };

	CALL(514, NULL, &params, {
		struct fake_work work = { .kind = 51, .graph = graph->id };

		if (the.enabled && the.enabled(51))
			run(&call, work, stream, graph->nodes * graph->kernel.ns);
		else
			for (unsigned i = 0; i < graph->nodes; i++)
				run(&call,
					(struct fake_work) { .kind = 10,
						.name = graph->kernel.name,
						.node = (uint64_t) graph->id << 32 | (i + 1),
						.graph = graph->id,
						.grid = { 1, 1, 1 },
						.block = { 32, 1, 1 } },
					stream, graph->kernel.ns);
	})
}

int cuMemcpyHtoD_v2(uint64_t at, const void *from, size_t bytes)
{
	struct {
		uint64_t at;
		const void *from;
		size_t bytes;
	} params = { at, from, bytes };
	struct fake_work work = { .kind = 1, .bytes = bytes, .direction = 1, .source = 1, .target = 3 };

	CALL(276, NULL, &params, run(&call, work, NULL, bytes / 10))
}

int cuMemcpyPeer(uint64_t at, void *to, uint64_t from_at, void *from, size_t bytes)
{
	struct {
		uint64_t at;
		void *to;
		uint64_t from_at;
		void *from;
		size_t bytes;
	} params = { at, to, from_at, from, bytes };
	struct fake_work work = { .kind = 22, .bytes = bytes, .direction = 10, .source = 3, .target = 3 };

	CALL(318, NULL, &params, run(&call, work, NULL, bytes / 10))
}

int cuMemsetD8_v2(uint64_t at, unsigned char value, size_t bytes)
{
	struct {
		uint64_t at;
		unsigned char value;
		size_t bytes;
	} params = { at, value, bytes };
	struct fake_work work = { .kind = 2, .bytes = bytes, .target = 3 };

	CALL(249, NULL, &params, run(&call, work, NULL, bytes / 100))
}

/* Until all streams are free. */
int cuCtxSynchronize(void)
{
	CALL(17, NULL, NULL, {
		uint64_t until = 0, now;

		for (size_t i = 0; i < STREAMS; i++)
			until = the.stream_free[i] > until ? the.stream_free[i] : until;
		while ((now = now_ns()) < until)
			usleep((useconds_t) ((until - now) / 1000 + 1));
	})
}

int cuModuleLoadData(void **ret, const void *image)
{
	struct {
		void **ret;
		const void *image;
	} params = { ret, image };

	CALL(19, NULL, &params, {
		*ret = (void *) (uintptr_t) image;
	})
}
