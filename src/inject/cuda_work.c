/* SPDX-License-Identifier: MIT
 *
 * Kernels, copies, fills and launches of graphs, from the records of CUPTI's Activity API.
 *
 * CUPTI asks for a buffer on a thread of the program's when the first activity needs one, and gives it
 * back, mostly on a thread of its own, when its records are complete. Buffers come from a fixed pool. A
 * buffer is given back when it is full, at the next period of CUPTI's own thread, or when it is asked to
 * flush: once a second at the exit of a driver function, before a context ends, and at exit. Never inside
 * the two functions for buffers, where CUPTI forbids it.
 *
 * Kinds are enabled while kernels are followed (a window), and disabled after. The time from a record is
 * the wall clock; it is converted with the difference of the clocks at the delivery of its buffer.
 *
 * Launches whose record has not come are in a table by their number, so that the recorder knows how many
 * records a process that is killed owes: a launch may have several records (a graph's nodes), or none (what
 * a stream captures), so they cannot be subtracted. A launch that finds its cell taken is not counted.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject/cuda.h"

enum {
	BUFFERS = 64,
	BUFFER_BYTES = 128 << 10,
	NAMES = 4096, /* a power of two */
	OWED = 1 << 16, /* likewise: launches of some seconds */
	SMALLEST_KERNEL = 200, /* bytes of a record, in CUDA 11.8 */
};
#define FLUSH_NS UINT64_C(1000000000)

/* One more than are handed out one by one: where CUPTI cannot do without a buffer and all are in use, it gets
 * the last one, which is never read. */
static _Alignas(4096) uint8_t pool[BUFFERS + 1][BUFFER_BYTES];
static _Atomic uint64_t in_use; /* a bit for each buffer */

static struct {
	_Atomic uint32_t enabled;    /* kinds are */
	_Atomic uint64_t next_flush; /* probe_now() */
	atomic_flag is_busy;         /* a thread enables, disables or flushes */
	_Atomic uint64_t delivered;  /* records */
	_Atomic uint32_t was_enabled;
	_Atomic bool has_launches;   /* while kinds were enabled */
	bool is_registered;
	_Atomic bool is_ending;      /* records without times are of what has not ended */
} work = { .is_busy = ATOMIC_FLAG_INIT };

/* Numbers of launches whose record has not come, by their lower bits; 0: none. */
static _Atomic uint32_t owed[OWED];
static _Atomic int captures; /* of streams, in progress */

/* Names of kernels that were interned: the pointer in the upper 48 bits, the offset in the lower 16. CUPTI has
 * one pointer a name, which stays valid. */
static _Atomic uint64_t names[NAMES];

/* ---- launches in flight ---------------------------------------------------------------------- */

void cuda_work_launches(uint32_t correlation)
{
	if (correlation == 0 || !atomic_load_explicit(&work.enabled, memory_order_relaxed) ||
		atomic_load_explicit(&captures, memory_order_relaxed) > 0)
		return;
	if (atomic_exchange_explicit(&owed[correlation % OWED], correlation, memory_order_relaxed) == 0)
		probe_in_flight(1);
}

void cuda_work_not_launched(uint32_t correlation)
{
	_Atomic uint32_t *const cell = &owed[correlation % OWED];
	uint32_t expected = correlation;

	if (correlation != 0 && atomic_compare_exchange_strong(cell, &expected, 0))
		probe_in_flight(-1);
}

void cuda_work_captures(bool begins)
{
	if (begins)
		atomic_fetch_add(&captures, 1);
	else if (atomic_fetch_sub(&captures, 1) <= 0) /* begun before this was loaded */
		atomic_fetch_add(&captures, 1);
}

/* ---- records --------------------------------------------------------------------------------- */

static uint32_t kernel_name(const char *name)
{
	const uint64_t at = (uint64_t) (uintptr_t) name;
	_Atomic uint64_t *const cell = &names[(at * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (NAMES - 1)];
	const uint64_t have = atomic_load_explicit(cell, memory_order_relaxed);
	uint32_t text;

	if (at == 0)
		return 0;
	if (have >> 16 == at)
		return (uint32_t) have & 0xffff;
	text = probe_text0(name);
	if (text > 0 && text <= 0xffff && at >> 48 == 0)
		atomic_store_explicit(cell, at << 16 | text, memory_order_relaxed);
	return text;
}

static uint8_t memory_of(unsigned cupti)
{
	static const uint8_t kinds[] = { TRACE_MEMORY_UNKNOWN, TRACE_PAGEABLE, TRACE_PINNED, TRACE_DEVICE,
		TRACE_ARRAY, TRACE_MANAGED, TRACE_DEVICE, TRACE_MANAGED };

	return cupti < sizeof(kinds) ? kinds[cupti] : TRACE_MEMORY_UNKNOWN;
}

static const char *copy_name(unsigned direction)
{
	static const char *const names_of[] = { "memcpy", "memcpy HtoD", "memcpy DtoH", "memcpy HtoA", "memcpy AtoH",
		"memcpy AtoA", "memcpy AtoD", "memcpy DtoA", "memcpy DtoD", "memcpy HtoH", "memcpy PtoP" };

	return direction < sizeof(names_of) / sizeof(names_of[0]) ? names_of[direction] : names_of[0];
}

static uint32_t before(uint64_t start, uint64_t earlier)
{
	return earlier != 0 && earlier <= start && start - earlier < UINT32_MAX ? (uint32_t) (start - earlier)
										: UINT32_MAX;
}

/* The times of a record, and what is written with them. */
struct span {
	uint64_t start, end, queued, submitted; /* of CUPTI's clock; 0: unknown */
	uint64_t node, bytes;
	uint32_t correlation;
};

static void write_work(const struct trace_ring_site *site, const struct span *span, int64_t offset)
{
	const bool is_timed = span->start != 0 && span->end >= span->start;
	const struct trace_ring_work event = {
		.end_ns = is_timed ? span->end + (uint64_t) offset : 0,
		.site = probe_site(site),
		.correlation = span->correlation,
		.bytes = span->bytes,
		.queued_before = before(span->start, span->queued),
		.submitted_before = before(span->start, span->submitted),
	};
	const unsigned flags = (is_timed ? 0 : TRACE_INVALID) | (span->node != 0 ? TRACE_NODE : 0);

	if (!is_timed && span->end == 0 && atomic_load_explicit(&work.is_ending, memory_order_relaxed)) {
		probe_lost(TRACE_LOST_INCOMPLETE, 1);
	} else {
		probe_work(is_timed ? span->start + (uint64_t) offset : 0, flags, &event);
	}
	cuda_work_not_launched(span->correlation);
}

static void write_kernel(const struct cupti_kernel *kernel, int64_t offset)
{
	const struct trace_ring_site site = {
		.kind = TRACE_KERNEL,
		.name = kernel_name(kernel->name),
		.device = (int32_t) kernel->device,
		.context = kernel->context,
		.stream = kernel->stream,
		.grid = { kernel->grid[0], kernel->grid[1], kernel->grid[2] },
		.block = { kernel->block[0], kernel->block[1], kernel->block[2] },
		.registers = kernel->registers,
		.shared_static = kernel->shared_static,
		.shared_dynamic = kernel->shared_dynamic,
	};

	write_work(&site,
		&(struct span) { .start = kernel->start,
			.end = kernel->end,
			.queued = kernel->queued,
			.submitted = kernel->submitted,
			.node = kernel->node,
			.correlation = kernel->correlation },
		offset);
}

/* The record of a copy between devices has its fields up to the stream where that of another copy has them. */
static void write_copy(const struct cupti_memcpy *copy, uint32_t correlation, uint64_t node, int64_t offset)
{
	const struct trace_ring_site site = {
		.kind = TRACE_COPY,
		.name = probe_text0(copy_name(copy->direction)),
		.device = (int32_t) copy->device,
		.context = copy->context,
		.stream = copy->stream,
		.source = memory_of(copy->source),
		.target = memory_of(copy->target),
	};

	write_work(&site,
		&(struct span) { .start = copy->start,
			.end = copy->end,
			.node = node,
			.bytes = copy->bytes,
			.correlation = correlation },
		offset);
}

static void write_fill(const struct cupti_memset *fill, int64_t offset)
{
	const struct trace_ring_site site = {
		.kind = TRACE_FILL,
		.name = probe_text0("memset"),
		.device = (int32_t) fill->device,
		.context = fill->context,
		.stream = fill->stream,
		.target = memory_of(fill->memory),
	};

	write_work(&site,
		&(struct span) { .start = fill->start,
			.end = fill->end,
			.node = fill->node,
			.bytes = fill->bytes,
			.correlation = fill->correlation },
		offset);
}

static void write_graph(const struct cupti_graph *graph, int64_t offset)
{
	char name[32];
	const int len = snprintf(name, sizeof(name), "graph %u", graph->graph);
	const struct trace_ring_site site = {
		.kind = TRACE_KERNEL,
		.name = probe_text(name, (size_t) len),
		.device = (int32_t) graph->device,
		.context = graph->context,
		.stream = graph->stream,
	};

	write_work(&site,
		&(struct span) { .start = graph->start,
			.end = graph->end,
			.correlation = graph->correlation },
		offset);
}

static void write_record(const struct cupti_record *record, int64_t offset)
{
	const struct cupti_memcpy *copy = (const struct cupti_memcpy *) record;
	const struct cupti_memcpy2 *peer = (const struct cupti_memcpy2 *) record;

	switch (record->kind) {
	case CUPTI_KERNEL:
	case CUPTI_KERNEL_SERIAL:
		write_kernel((const struct cupti_kernel *) record, offset);
		break;
	case CUPTI_MEMCPY:
		write_copy(copy, copy->correlation, copy->node, offset);
		break;
	case CUPTI_MEMCPY2:
		write_copy(copy, peer->correlation, peer->node, offset);
		break;
	case CUPTI_MEMSET:
		write_fill((const struct cupti_memset *) record, offset);
		break;
	case CUPTI_GRAPH:
		write_graph((const struct cupti_graph *) record, offset);
		break;
	default:
		break; /* a kind that another user of CUPTI enabled */
	}
}

/* Of records that were dropped nothing is known: as many launches are not in flight any more. */
static void lose(uint64_t n)
{
	probe_lost(TRACE_LOST_DROPPED, n);
	probe_in_flight(-(int64_t) n);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static int next_record(uint8_t *buffer, size_t valid, struct cupti_record **record)
{
	return cuda_cupti.is_shared ? cuda_cupti.next_v2(cuda_cupti.subscriber, buffer, valid, record)
				    : cuda_cupti.next(buffer, valid, record);
}

static void request(uint8_t **buffer, size_t *size, size_t *records)
{
	uint64_t have = atomic_load(&in_use);

	*records = 0;
	*size = BUFFER_BYTES;
	while (~have != 0) {
		const int i = __builtin_ctzll(~have);

		if (atomic_compare_exchange_weak(&in_use, &have, have | UINT64_C(1) << i)) {
			*buffer = pool[i];
			return;
		}
	}
	/* The library counts what it drops for want of a buffer; older ones need one. */
	*buffer = cuda_cupti.version >= CUPTI_NO_BUFFER_ALLOWED ? NULL : pool[BUFFERS];
	if (!*buffer)
		*size = 0;
}

static void complete(uint8_t *buffer, size_t valid)
{
	const size_t i = (size_t) (buffer - pool[0]) / BUFFER_BYTES;
	struct cupti_record *record = NULL;
	uint64_t n = 0;

	/* A buffer of another tool's, which registered before. */
	if (buffer < pool[0] || i > BUFFERS)
		return;
	if (i == BUFFERS) {
		lose(valid / SMALLEST_KERNEL);
		return;
	}
	if (cuda_is_ours() && valid <= BUFFER_BYTES) {
		const int64_t offset = probe_mono_minus_real();

		while (valid > 0 && next_record(buffer, valid, &record) == CUPTI_OK && record) {
			write_record(record, offset);
			n++;
		}
		atomic_fetch_add_explicit(&work.delivered, n, memory_order_relaxed);
	}
	atomic_fetch_and(&in_use, ~(UINT64_C(1) << i));
}

static void complete_v1(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void) context;
	(void) stream;
	(void) size;
	complete(buffer, valid);
}

static void request_v2(uint8_t **buffer, size_t *size, size_t *records, void *info)
{
	(void) info;
	request(buffer, size, records);
}

static void complete_v2(uint8_t *buffer, size_t size, size_t valid, void *info)
{
	(void) size;
	(void) info;
	complete(buffer, valid);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static int set_kind(uint32_t kind, bool on)
{
	if (cuda_cupti.is_shared)
		return on ? cuda_cupti.enable_v2(cuda_cupti.subscriber, kind, NULL)
			  : cuda_cupti.disable_v2(cuda_cupti.subscriber, kind, NULL);
	return on ? cuda_cupti.enable(kind) : cuda_cupti.disable(kind);
}

/* Launches of graphs as a whole and the nodes of graphs exclude each other. As a whole is cheaper by far; where
 * CUPTI is shared it would be a setting for all its users, so the nodes come there. */
static bool are_nodes_wanted(void)
{
	const char *const text = getenv("HIWATER_TRACE_GRAPH_NODES");

	return cuda_cupti.is_shared || (text && strcmp(text, "1") == 0);
}

static void set_kinds(bool on)
{
	static const uint32_t others[] = { CUPTI_MEMCPY, CUPTI_MEMCPY2, CUPTI_MEMSET };
	int result;

	/* 13.0.0 can hang when kernels are disabled (13.0.1 does not): there they stay enabled. */
	if (!on && cuda_cupti.version == CUPTI_13_0)
		return;
	result = set_kind(CUPTI_KERNEL, on);
	if (on && result != CUPTI_OK) {
		cuda_refused(TRACE_KERNELS, result, NULL);
		return;
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		set_kind(others[i], on);
	if (!are_nodes_wanted())
		set_kind(CUPTI_GRAPH, on);
	atomic_store(&work.was_enabled, 1);
}

static void count_dropped(void)
{
	size_t n = 0;
	int result = CUPTI_NOT_SUPPORTED;

	if (cuda_cupti.is_shared)
		result = cuda_cupti.dropped_v2(cuda_cupti.subscriber, NULL, 0, &n);
	else if (cuda_cupti.dropped)
		result = cuda_cupti.dropped(NULL, 0, &n);
	if (result == CUPTI_OK && n > 0)
		lose(n);
}

/* ---- outside --------------------------------------------------------------------------------- */

bool cuda_work_begin(void)
{
	int result = CUPTI_NOT_SUPPORTED;

	if (cuda_cupti.is_shared)
		result = cuda_cupti.register_buffers_v2(cuda_cupti.subscriber, request_v2, complete_v2);
	else if (cuda_cupti.register_buffers && cuda_cupti.enable && cuda_cupti.disable && cuda_cupti.next &&
		 cuda_cupti.flush)
		result = cuda_cupti.register_buffers(request, complete_v1);
	if (result != CUPTI_OK) {
		cuda_refused(TRACE_KERNELS, result, NULL);
		return false;
	}
	work.is_registered = true;
	/* Of all users of CUPTI, if it is shared. */
	if (!cuda_cupti.is_shared && cuda_cupti.flush_period)
		cuda_cupti.flush_period(1000);
	cuda_work_poll();
	return true;
}

void cuda_work_launched(void)
{
	if (atomic_load_explicit(&work.enabled, memory_order_relaxed) &&
		!atomic_load_explicit(&work.has_launches, memory_order_relaxed))
		atomic_store_explicit(&work.has_launches, true, memory_order_relaxed);
}

void cuda_work_flush(void)
{
	if (!work.is_registered || !atomic_load(&work.was_enabled))
		return;
	if (cuda_cupti.flush)
		cuda_cupti.flush(0);
	count_dropped();
}

void cuda_work_poll(void)
{
	uint32_t enabled = atomic_load_explicit(&work.enabled, memory_order_relaxed);
	bool follow;
	uint64_t now_ns;

	if (!work.is_registered)
		return;
	follow = probe_follows(TRACE_KERNELS);
	if (!follow && !enabled)
		return;
	now_ns = probe_now();
	if (follow == enabled && now_ns < atomic_load_explicit(&work.next_flush, memory_order_relaxed))
		return;
	/* CUPTI's own callbacks may come back here while it flushes. */
	if (atomic_flag_test_and_set(&work.is_busy))
		return;
	atomic_store(&work.next_flush, now_ns + FLUSH_NS);
	enabled = atomic_load(&work.enabled);
	if (follow != enabled) {
		set_kinds(follow);
		atomic_store(&work.enabled, follow);
	}
	if (enabled)
		cuda_work_flush();
	atomic_flag_clear(&work.is_busy);
}

void cuda_work_end(void)
{
	if (!work.is_registered || !atomic_load(&work.was_enabled))
		return;
	cuda_work_flush();
	atomic_store(&work.is_ending, true);
	if (cuda_cupti.flush)
		cuda_cupti.flush(1);
	count_dropped();
	for (size_t i = 0; i < OWED; i++) /* everything was delivered */
		cuda_work_not_launched(atomic_load_explicit(&owed[i], memory_order_relaxed));
	if (atomic_load(&work.has_launches) && atomic_load(&work.delivered) == 0)
		probe_not_followed(TRACE_KERNELS, TRACE_WHY_UNSUPPORTED, "libcupti delivered no records");
}
