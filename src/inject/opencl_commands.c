/* SPDX-License-Identifier: MIT */
#include "inject/opencl_commands.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "inject/opencl_memory.h"
#include "inject/probe.h"

enum {
	YIELDS = 1000, /* a thread that has a record may not be in this process */
};

/* ---- the end of a command ----------------------------------------------------------------------------------------- */

static uint32_t ns_before(uint64_t start, uint64_t earlier)
{
	uint64_t ns = start - earlier;

	return earlier == 0 || earlier > start ? UINT32_MAX
	       : ns >= UINT32_MAX              ? UINT32_MAX - 1
					       : (uint32_t) ns;
}

static void write_unknown(const struct opencl_record *record, int32_t status, struct trace_ring_work *work)
{
	work->end_ns = record->before + record->took;
	work->queued_before = work->submitted_before = UINT32_MAX;
	probe_work(work->end_ns, TRACE_INVALID | (status < 0 ? TRACE_FAILED : 0), work);
}

static void write_work(
	const struct opencl_record *record, struct opencl_queue *queue, void *event, int32_t status)
{
	struct trace_ring_work work = {
		.site = record->site, .correlation = record->correlation, .bytes = record->bytes
	};
	struct opencl_clock unknown = { 0 }, *clock = queue->device ? &queue->device->clock : &unknown;
	uint64_t times[OPENCL_TIMES] = { 0 }, start;

	for (uint32_t i = 0; status == OPENCL_COMPLETE && i < OPENCL_TIMES; i++)
		if (opencl_next.GetEventProfilingInfo(event, OPENCL_TIME_QUEUED + i, sizeof *times,
			    &times[i], NULL) != OPENCL_SUCCESS)
			times[i] = 0;
	if (times[2] == 0 || times[3] == 0) {
		write_unknown(record, status, &work);
		return;
	}
	opencl_clock_saw(clock, &(struct opencl_clock_sight) { .before = record->before,
					.after = record->before + record->took,
					.queued = times[0],
					.end = times[3] });
	start = opencl_clock_host(clock, times[2]);
	work.end_ns = start + (times[3] - times[2]);
	work.queued_before = ns_before(times[2], times[0]);
	work.submitted_before = ns_before(times[2], times[1]);
	probe_work(start, times[3] < times[2] ? TRACE_INVALID : 0, &work);
}

/* The record is the caller's; it is given back. writes: what it is of is written. */
static void finish(struct opencl_record *record, int32_t status, bool writes)
{
	void *event = atomic_load_explicit(&record->event, memory_order_relaxed);
	struct opencl_queue *queue = atomic_load_explicit(&record->queue, memory_order_relaxed);
	bool releases = record->releases;

	writes = writes && record->generation == (uint16_t) probe_generation();
	if (record->is_work && record->generation == (uint16_t) probe_generation()) {
		if (writes)
			write_work(record, queue, event, status);
		probe_in_flight(-1);
	}
	if (!record->is_work) {
		for (uint32_t i = 0; writes && i < record->site; i++)
			opencl_svm_freed(record->freed[i], probe_now());
		free(record->freed);
	}
	opencl_record_return(&queue->records, record);
	if (releases)
		opencl_next.ReleaseEvent(event);
}

static void completed(void *event, int32_t status, void *data)
{
	struct opencl_record *record;

	(void) event;
	if (opencl_record_take(data, &record))
		finish(record, status, true);
}

static int32_t status_of(void *event)
{
	int32_t status = 1; /* CL_RUNNING, where the runtime does not say */

	(void) opencl_next.GetEventInfo(event, OPENCL_EVENT_STATUS, sizeof status, &status, NULL);
	return status;
}

void opencl_reap(struct opencl_queue *queue)
{
	struct opencl_record *record;

	if (!queue || atomic_load(&queue->records.begun) == atomic_load(&queue->records.ended))
		return;
	for (uint32_t i = 0; (record = opencl_record_at(i)) != NULL; i++) {
		int32_t status;

		if (atomic_load(&record->queue) != queue ||
			record->generation != (uint16_t) probe_generation())
			continue;
		/* The callback may be about to write it: what clFinish waited for is written when it returns. */
		for (int n = 0; n < YIELDS && opencl_record_is_held(record); n++)
			sched_yield();
		if (!opencl_record_examine(record))
			continue;
		status = status_of(atomic_load(&record->event));
		if (status <= OPENCL_COMPLETE || opencl_record_leave(record))
			finish(record, status, true);
	}
}

uint32_t opencl_references(const void *event)
{
	struct opencl_record *record;
	uint32_t n = 0;

	for (uint32_t i = 0; event && (record = opencl_record_at(i)) != NULL; i++)
		n += atomic_load(&record->event) == event && record->releases;
	return n;
}

/* Commands that did not end before their process did. Their records stay as they are: a callback that still
 * comes writes nothing. */
__attribute__((destructor)) static void count_unfinished(void)
{
	struct opencl_record *record;
	uint64_t n = 0;

	for (uint32_t i = 0; (record = opencl_record_at(i)) != NULL; i++)
		n += record->generation == (uint16_t) probe_generation() && opencl_record_examine(record) &&
		     record->is_work;
	if (n != 0) {
		probe_lost(TRACE_LOST_INCOMPLETE, n);
		probe_in_flight(-(int64_t) n);
	}
}

/* ---- the call that enqueues it ------------------------------------------------------------------------------------ */

enum {
	KNOWN = 32, /* a power of two */
};

/* What a thread found last, so that a command is not named and described anew each time. Entries are of a
 * process, and of kernels that existed then: the address of a kernel may become that of another. */
struct known {
	struct {
		const char *call;
		unsigned generation;
		uint32_t text;
	} names[KNOWN];
	struct {
		struct site_key {
			const void *kernel, *call;
			const struct opencl_queue *queue;
			uint32_t grid[3], block[3];
			unsigned generation, kernels, source;
		} key;
		uint32_t site;
	} sites[KNOWN];
};

/* Small: a library that is loaded late gets little room for variables of threads. */
static _Thread_local struct known *known;
/* Calls of a runtime that itself calls OpenCL, or of a program's callback in a call, are not written. */
static _Thread_local unsigned depth;

static pthread_key_t known_key;
static pthread_once_t known_once = PTHREAD_ONCE_INIT;
static bool has_known_key;

static void forget(void *unused)
{
	(void) unused;
	free(known);
	known = NULL;
}

static void make_key(void)
{
	has_known_key = pthread_key_create(&known_key, forget) == 0;
}

/* NULL: no memory. */
static struct known *of_thread(void)
{
	if (known)
		return known;
	pthread_once(&known_once, make_key);
	if (!has_known_key)
		return NULL;
	known = calloc(1, sizeof *known);
	if (known && pthread_setspecific(known_key, known) != 0)
		forget(NULL);
	return known;
}

static _Atomic unsigned kernels; /* how often some were created */

void opencl_kernels_changed(void)
{
	atomic_fetch_add(&kernels, 1);
}

static uint32_t call_name(const char *call)
{
	struct known *mine = of_thread();
	unsigned i = (unsigned) ((uintptr_t) call >> 3) % KNOWN, generation = probe_generation();

	if (!mine)
		return probe_text0(call);
	if (mine->names[i].call != call || mine->names[i].generation != generation) {
		mine->names[i].text = probe_text0(call);
		mine->names[i].call = call;
		mine->names[i].generation = generation;
	}
	return mine->names[i].text;
}

static uint32_t new_correlation(void)
{
	static _Atomic uint32_t last;
	uint32_t number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;

	return number != 0 ? number : atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

void **opencl_begin(struct opencl_command *command, void *queue, void **event)
{
	bool measured = command->kind != OPENCL_NO_WORK && probe_follows(TRACE_KERNELS);

	command->outermost = depth++ == 0;
	command->called = command->outermost && probe_follows(TRACE_LAUNCHES);
	if (measured || command->freed)
		command->queue = opencl_queue(queue);
	command->work = measured && command->queue &&
			atomic_load_explicit(&command->queue->profiled, memory_order_relaxed);
	command->unseen = measured && !command->work;
	if (command->work || command->called) {
		command->correlation = new_correlation();
		command->before = probe_now();
	}
	if (command->called)
		probe_call(TRACE_RING_ENTER, command->before, call_name(command->call),
			command->correlation, 0);
	command->own_event = NULL;
	command->event =
		!event && command->queue && (command->work || command->freed) ? &command->own_event : event;
	return command->event;
}

static uint32_t kernel_name(void *kernel)
{
	char text[512], *longer = NULL;
	size_t bytes = 0;
	uint32_t name = 0;

	if (opencl_next.GetKernelInfo(kernel, OPENCL_KERNEL_NAME, sizeof text, text, NULL) ==
		OPENCL_SUCCESS) {
		text[sizeof text - 1] = '\0';
		return probe_text0(text);
	}
	if (opencl_next.GetKernelInfo(kernel, OPENCL_KERNEL_NAME, 0, NULL, &bytes) == OPENCL_SUCCESS &&
		bytes > 0 && bytes < 1 << 20)
		longer = calloc(1, bytes + 1);
	if (longer && opencl_next.GetKernelInfo(kernel, OPENCL_KERNEL_NAME, bytes, longer, NULL) ==
			      OPENCL_SUCCESS)
		name = probe_text0(longer);
	free(longer);
	return name;
}

static uint32_t new_site(const struct opencl_command *command)
{
	const struct opencl_queue *queue = command->queue;
	struct trace_ring_site site;

	memset(&site, 0, sizeof site);
	site.kind = command->kind;
	site.name = command->kernel ? kernel_name(command->kernel) : call_name(command->call);
	site.device = queue->device ? queue->device->number : -1;
	site.device_name = queue->device ? probe_text0(queue->device->name) : 0;
	site.context = queue->context;
	site.stream = queue->number;
	memcpy(site.grid, command->grid, sizeof site.grid);
	memcpy(site.block, command->block, sizeof site.block);
	site.source = command->source;
	site.target = command->target;
	return probe_site(&site);
}

static uint32_t site_of(const struct opencl_command *command)
{
	struct known *mine = of_thread();
	struct site_key key;
	uint64_t hash;
	unsigned i;

	memset(&key, 0, sizeof key); /* compared as bytes */
	key.kernel = command->kernel;
	key.call = command->call;
	key.queue = command->queue;
	memcpy(key.grid, command->grid, sizeof key.grid);
	memcpy(key.block, command->block, sizeof key.block);
	key.generation = probe_generation();
	key.kernels = atomic_load_explicit(&kernels, memory_order_relaxed);
	key.source = command->source;
	hash = ((uintptr_t) key.kernel ^ (uintptr_t) key.call << 7 ^ (uintptr_t) key.queue << 17 ^
		       key.grid[0]) *
	       UINT64_C(0x9E3779B97F4A7C15);
	i = (unsigned) (hash >> 32) % KNOWN;
	if (!mine)
		return new_site(command);
	if (memcmp(&mine->sites[i].key, &key, sizeof key) != 0) {
		mine->sites[i].site = new_site(command);
		mine->sites[i].key = key;
	}
	return mine->sites[i].site;
}

static uint32_t saturated(uint64_t ns)
{
	return ns > UINT32_MAX ? UINT32_MAX : (uint32_t) ns;
}

/* Follows a command that was enqueued, until it ends. */
static void follow(struct opencl_command *command)
{
	struct opencl_records *list = &command->queue->records;
	struct opencl_record *record = opencl_record_claim(list);
	void *event = *command->event, *data;
	bool is_own = event == command->own_event;

	if (!record ||
		(!is_own && !command->blocking && opencl_next.RetainEvent(event) != OPENCL_SUCCESS)) {
		if (record) {
			atomic_fetch_add(&list->begun, 1);
			opencl_record_return(list, record);
		}
		probe_lost(TRACE_LOST_DROPPED, 1);
		if (is_own)
			opencl_next.ReleaseEvent(event);
		return;
	}
	record->is_work = command->work;
	record->before = command->before;
	record->took = saturated(command->after - command->before);
	record->correlation = command->correlation;
	record->generation = (uint16_t) probe_generation();
	record->releases = is_own || !command->blocking;
	if (command->work) {
		record->bytes = command->bytes;
		record->site = site_of(command);
		probe_in_flight(1);
	} else {
		record->freed = command->freed;
		record->site = command->freed_count;
		command->freed = NULL;
	}
	atomic_store_explicit(&record->queue, command->queue, memory_order_relaxed);
	atomic_store_explicit(&record->event, event, memory_order_relaxed);
	data = opencl_record_publish(list, record);
	if (command->blocking) {
		completed(event, OPENCL_COMPLETE, data);
	} else if (opencl_next.SetEventCallback(event, OPENCL_COMPLETE, completed, data) !=
		   OPENCL_SUCCESS) {
		probe_lost(TRACE_LOST_DROPPED, 1);
		if (opencl_record_take(data, &record))
			finish(record, OPENCL_COMPLETE, false);
	}
}

int32_t opencl_end(struct opencl_command *command, int32_t status)
{
	if (command->called || command->work)
		command->after = probe_now();
	if (command->called)
		probe_call(TRACE_RING_LEAVE, command->after, call_name(command->call), command->correlation,
			status != OPENCL_SUCCESS ? TRACE_FAILED : 0);
	depth--;
	if (status == OPENCL_SUCCESS && command->unseen)
		probe_lost(TRACE_LOST_DROPPED, 1);
	if (status == OPENCL_SUCCESS && (command->work || command->freed) && command->queue &&
		command->event && *command->event)
		follow(command);
	free(command->freed);
	return status;
}
