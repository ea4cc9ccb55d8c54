/* SPDX-License-Identifier: MIT */
#include "inject/opencl_commands.h"

#include <stdlib.h>
#include <string.h>

#include "inject/opencl_memory.h"
#include "inject/probe.h"

/* ---- the pool of records ------------------------------------------------------------------------------------------ */

/* States of a record. The callback of the runtime and a reap may both want it; who moves it out of
 * IN_FLIGHT has it. */
enum {
	FREE,
	IN_FLIGHT,
	EXAMINED, /* a reap asks for its status */
	ARRIVED,  /* the callback came meanwhile, and left it to the reap */
	STATE_BITS = 2,
};

enum {
	BLOCK_RECORDS = 256,
	BLOCKS = 4096,
	INDEX_BITS = 20, /* of BLOCKS * BLOCK_RECORDS */
};
_Static_assert(
	BLOCKS *BLOCK_RECORDS == 1 << INDEX_BITS, "what a callback is given is index and use in one word");
#define USE_MASK (UINTPTR_MAX >> INDEX_BITS)

struct record {
	/* How often it was used, and the state in the low bits: a late callback finds another use. */
	_Atomic uint64_t state;
	_Atomic uint32_t next_free;
	unsigned generation; /* of the process: a child of fork inherits records, not the runtime's threads */
	uint32_t site, correlation, freed_count;
	bool release, is_work;
	_Atomic(void *) event;
	_Atomic(struct opencl_queue *) queue;
	void **freed;
	uint64_t before, after, bytes;
};

static _Atomic(struct record *) blocks[BLOCKS];
static _Atomic uint32_t records_used;
/* Index + 1 of the first; the high half counts, so that an old value is not taken for a new one. */
static _Atomic uint64_t free_list;
static _Atomic bool is_ending; /* the process is: what was in flight is counted */

static struct record *record_at(uint32_t index)
{
	struct record *block = atomic_load_explicit(&blocks[index / BLOCK_RECORDS], memory_order_acquire);

	return block ? &block[index % BLOCK_RECORDS] : NULL;
}

static struct record *new_record(uint32_t *ret)
{
	uint32_t index = atomic_load(&records_used);
	struct record *block, *none = NULL;

	do
		if (index >= BLOCKS * BLOCK_RECORDS)
			return NULL;
	while (!atomic_compare_exchange_weak(&records_used, &index, index + 1));
	if (!record_at(index)) {
		block = calloc(BLOCK_RECORDS, sizeof *block);
		if (!block)
			return NULL;
		if (!atomic_compare_exchange_strong(&blocks[index / BLOCK_RECORDS], &none, block))
			free(block);
	}
	*ret = index;
	return record_at(index);
}

static struct record *claim(uint32_t *ret)
{
	uint64_t head = atomic_load(&free_list), next;
	struct record *record;

	while ((uint32_t) head != 0) {
		*ret = (uint32_t) head - 1;
		record = record_at(*ret);
		next = ((head >> 32) + 1) << 32 | atomic_load(&record->next_free);
		if (atomic_compare_exchange_weak(&free_list, &head, next))
			return record;
	}
	return new_record(ret);
}

/* The record is the caller's, in any state. */
static void give_back(struct record *record, uint32_t index)
{
	uint64_t use = atomic_load(&record->state) >> STATE_BITS, head = atomic_load(&free_list);

	atomic_store(&record->state, ((use + 1) & USE_MASK) << STATE_BITS | FREE);
	do
		atomic_store(&record->next_free, (uint32_t) head);
	while (!atomic_compare_exchange_weak(&free_list, &head, ((head >> 32) + 1) << 32 | (index + 1)));
}

static bool move(struct record *record, uint64_t use, unsigned from, unsigned to)
{
	uint64_t expected = use << STATE_BITS | from;

	return atomic_compare_exchange_strong(&record->state, &expected, use << STATE_BITS | to);
}

/* ---- the end of a command ----------------------------------------------------------------------------------------- */

static uint32_t ns_before(uint64_t start, uint64_t earlier)
{
	uint64_t ns = start - earlier;

	return earlier == 0 || earlier > start ? UINT32_MAX
	       : ns >= UINT32_MAX              ? UINT32_MAX - 1
					       : (uint32_t) ns;
}

static void write_work(const struct record *record, void *event, int32_t status)
{
	struct opencl_queue *queue = atomic_load(&record->queue);
	struct opencl_clock unknown = { 0 }, *clock = queue->device ? &queue->device->clock : &unknown;
	struct trace_ring_work work = {
		.site = record->site, .correlation = record->correlation, .bytes = record->bytes
	};
	uint64_t times[OPENCL_TIMES] = { 0 }, start;
	bool known = status == OPENCL_COMPLETE;

	for (uint32_t i = 0; known && i < OPENCL_TIMES; i++) {
		int32_t error = opencl_next.GetEventProfilingInfo(
			event, OPENCL_TIME_QUEUED + i, sizeof *times, &times[i], NULL);

		if (error != OPENCL_SUCCESS) {
			times[i] = 0;
			known = i < 2; /* start and end are needed */
		}
	}
	if (!known || times[2] == 0 || times[3] == 0) {
		work.end_ns = record->after;
		work.queued_before = work.submitted_before = UINT32_MAX;
		probe_work(record->after, TRACE_INVALID | (status < 0 ? TRACE_FAILED : 0), &work);
		return;
	}
	opencl_clock_saw(clock, &(struct opencl_clock_sight) { .before = record->before,
					.after = record->after,
					.queued = times[0],
					.end = times[3],
					.now = probe_now() });
	start = opencl_clock_host(clock, times[2]);
	work.end_ns = start + (times[3] - times[2]);
	work.queued_before = ns_before(times[2], times[0]);
	work.submitted_before = ns_before(times[2], times[1]);
	probe_work(start, times[3] < times[2] ? TRACE_INVALID : 0, &work);
}

/* The record is the caller's; it is given back. */
static void finish(struct record *record, uint32_t index, int32_t status)
{
	void *event = atomic_load(&record->event);
	struct opencl_queue *queue = atomic_load(&record->queue);
	bool release = record->release;

	if (record->generation == probe_generation() && !atomic_load(&is_ending)) {
		if (record->is_work)
			write_work(record, event, status);
		for (uint32_t i = 0; i < record->freed_count; i++)
			opencl_svm_freed(record->freed[i], probe_now());
	}
	free(record->freed);
	record->freed = NULL;
	atomic_store(&record->event, NULL);
	atomic_fetch_sub(&queue->in_flight, 1);
	give_back(record, index);
	if (release)
		opencl_next.ReleaseEvent(event);
}

static void completed(void *event, int32_t status, void *data)
{
	uint32_t index = (uint32_t) ((uintptr_t) data & ((1u << INDEX_BITS) - 1));
	uint64_t use = (uintptr_t) data >> INDEX_BITS;
	struct record *record = record_at(index);

	(void) event;
	if (!record)
		return;
	if (move(record, use, IN_FLIGHT, FREE))
		finish(record, index, status);
	else
		move(record, use, EXAMINED, ARRIVED);
}

static int32_t status_of(void *event)
{
	int32_t status = OPENCL_COMPLETE;

	return opencl_next.GetEventInfo(event, OPENCL_EVENT_STATUS, sizeof status, &status, NULL) ==
			       OPENCL_SUCCESS
		       ? status
		       : OPENCL_COMPLETE;
}

void opencl_reap(struct opencl_queue *queue)
{
	uint32_t used = atomic_load(&records_used);

	if (!queue || atomic_load(&queue->in_flight) == 0)
		return;
	for (uint32_t index = 0; index < used; index++) {
		struct record *record = record_at(index);
		uint64_t use = record ? atomic_load(&record->state) >> STATE_BITS : 0;
		int32_t status;

		if (!record || atomic_load(&record->queue) != queue ||
			record->generation != probe_generation() || !move(record, use, IN_FLIGHT, EXAMINED))
			continue;
		status = status_of(atomic_load(&record->event));
		if (status < 0 || !move(record, use, EXAMINED, IN_FLIGHT))
			finish(record, index, status);
	}
}

uint32_t opencl_references(const void *event)
{
	uint32_t used = atomic_load(&records_used), n = 0;

	for (uint32_t index = 0; event && index < used; index++) {
		struct record *record = record_at(index);

		n += record && atomic_load(&record->event) == event && record->release;
	}
	return n;
}

/* Commands that did not end before their process did. */
__attribute__((destructor)) static void count_unfinished(void)
{
	uint32_t used = atomic_load(&records_used);
	uint64_t n = 0;

	if (used == 0)
		return;
	atomic_store(&is_ending, true);
	for (uint32_t index = 0; index < used; index++) {
		struct record *record = record_at(index);

		n += record && atomic_load(&record->event) && record->is_work &&
		     record->generation == probe_generation();
	}
	if (n != 0)
		probe_lost(TRACE_LOST_INCOMPLETE, n);
}

/* ---- the call that enqueues it ------------------------------------------------------------------------------------ */

/* Calls of a runtime that itself calls OpenCL, or of a program's callback inside a call, are not written. */
static _Thread_local unsigned depth;

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
		probe_call(TRACE_RING_ENTER, command->before, probe_text0(command->call),
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

static uint32_t site_of(const struct opencl_command *command)
{
	const struct opencl_queue *queue = command->queue;
	struct trace_ring_site site;

	memset(&site, 0, sizeof site);
	site.kind = command->kind;
	site.name = command->kernel ? kernel_name(command->kernel) : probe_text0(command->call);
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

/* Follows a command that was enqueued, until it ends. */
static void follow(struct opencl_command *command)
{
	void *event = *command->event;
	uint32_t index = 0;
	struct record *record = claim(&index);
	uint64_t use;
	bool ours = event == command->own_event;

	if (!record || (!ours && !command->blocking && opencl_next.RetainEvent(event) != OPENCL_SUCCESS)) {
		if (record)
			give_back(record, index);
		probe_lost(TRACE_LOST_DROPPED, 1);
		if (ours)
			opencl_next.ReleaseEvent(event);
		return;
	}
	record->generation = probe_generation();
	record->site = command->work ? site_of(command) : 0;
	record->correlation = command->correlation;
	record->before = command->before;
	record->after = command->after;
	record->bytes = command->bytes;
	record->freed = command->freed;
	record->freed_count = command->freed_count;
	command->freed = NULL;
	record->is_work = command->work;
	record->release = ours || !command->blocking;
	atomic_store(&record->queue, command->queue);
	atomic_store(&record->event, event);
	atomic_fetch_add(&command->queue->in_flight, 1);
	if (command->blocking) {
		finish(record, index, status_of(event));
		return;
	}
	use = atomic_load(&record->state) >> STATE_BITS;
	atomic_store(&record->state, use << STATE_BITS | IN_FLIGHT);
	if (opencl_next.SetEventCallback(event, OPENCL_COMPLETE, completed,
		    (void *) (uintptr_t) (use << INDEX_BITS | index)) != OPENCL_SUCCESS &&
		move(record, use, IN_FLIGHT, FREE)) {
		record->is_work = false;
		probe_lost(TRACE_LOST_DROPPED, 1);
		finish(record, index, OPENCL_COMPLETE);
	}
}

int32_t opencl_end(struct opencl_command *command, int32_t status)
{
	if (command->called || command->work)
		command->after = probe_now();
	if (command->called)
		probe_call(TRACE_RING_LEAVE, command->after, probe_text0(command->call),
			command->correlation, status != OPENCL_SUCCESS ? TRACE_FAILED : 0);
	depth--;
	if (status == OPENCL_SUCCESS && command->unseen)
		probe_lost(TRACE_LOST_DROPPED, 1);
	if (status == OPENCL_SUCCESS && (command->work || command->freed) && command->queue &&
		command->event && *command->event)
		follow(command);
	free(command->freed);
	return status;
}
