/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "gpu/gpu_internal.h"
#include "model/wire.h"

enum {
	/* Limits per message, which stays below GPU_MESSAGE: births and events with texts,
	 * readings, ends. A list of processes should fit into one message. */
	PART_TEXTS = 32,
	PART_READINGS = 3000,
};

/* ---- sending --------------------------------------------------------------------------------- */

bool gpu_frame_is_empty(const struct frame *f)
{
	return f->n_births + f->n_readings + f->n_ends + f->n_events == 0;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Removes the first entries from rest: births before the readings of the newborn, ends and events
 * last. */
static struct frame first_part(struct frame *rest)
{
	struct frame part = *rest;

	part.n_births = least(rest->n_births, PART_TEXTS);
	part.n_readings = rest->n_births > PART_TEXTS ? 0 : least(rest->n_readings, PART_READINGS);
	part.n_ends = part.n_readings < rest->n_readings ? 0 : least(rest->n_ends, PART_READINGS / 10);
	part.n_events = part.n_ends < rest->n_ends || part.n_births ? 0 : least(rest->n_events, PART_TEXTS);
	part.n_series = 0;
	rest->births += part.n_births;
	rest->n_births -= part.n_births;
	rest->readings += part.n_readings;
	rest->n_readings -= part.n_readings;
	rest->ends += part.n_ends;
	rest->n_ends -= part.n_ends;
	rest->events += part.n_events;
	rest->n_events -= part.n_events;
	return part;
}

/* Births, ends and events must arrive; readings alone may be dropped. */
static void send_part(struct gpu_sender *s, const struct frame *part)
{
	const bool must = part->n_births + part->n_ends + part->n_events > 0 || s->must_arrive;
	const size_t size = wire_frame_size(part);

	if (size > s->cap) {
		void *more = realloc(s->message, size);

		if (!more)
			return;
		s->message = more;
		s->cap = size;
	}
	memset(s->message, 0, size);
	wire_frame_put(s->message, part);
	while (send(s->channel, s->message, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		struct pollfd room = { .fd = s->channel, .events = POLLOUT };

		if (errno != EINTR && (errno != EAGAIN || !must))
			return;
		(void) poll(&room, 1, -1);
	}
}

void gpu_send(struct gpu_sender *s, struct frame frame)
{
	do {
		const struct frame part = first_part(&frame);

		send_part(s, &part);
	} while (!gpu_frame_is_empty(&frame));
}

/* ---- receiving ------------------------------------------------------------------------------- */

static bool is_of_gpus(enum entity entity)
{
	return entity == ENTITY_GPU || entity == ENTITY_GPU_PROCESS;
}

static bool has_gpus_alone(const struct frame *f)
{
	for (size_t i = 0; i < f->n_births; i++) {
		if (!is_of_gpus(f->births[i].entity))
			return false;
	}
	for (size_t i = 0; i < f->n_readings; i++) {
		if (f->readings[i].metric >= METRIC_COUNT ||
			!is_of_gpus(metrics[f->readings[i].metric].entity))
			return false;
	}
	for (size_t i = 0; i < f->n_ends; i++) {
		if (!is_of_gpus(f->ends[i].entity))
			return false;
	}
	for (size_t i = 0; i < f->n_events; i++) {
		if (f->events[i].kind != EVENT_NOTE)
			return false;
	}
	return f->n_series == 0 && f->source < FRAME_SOURCE_COUNT;
}

const struct frame *gpu_frame_check(void *message, size_t size)
{
	const struct frame *frame = wire_frame_is_whole(message, size) ? wire_frame_get(message) : NULL;

	return frame && has_gpus_alone(frame) ? frame : NULL;
}

/* ---- the last frame before a driver call ----------------------------------------------------- */

void gpu_last_frame_put(struct gpu_last_frame *page, const struct frame *frame)
{
	const size_t size = wire_frame_size(frame);
	const bool fits = size <= sizeof(page->message);
	/* Already odd if an earlier helper was killed while it wrote. */
	const uint32_t version = atomic_load(&page->version) | 1;

	atomic_store(&page->version, version);
	/* Orders the writes below after the version, also on CPUs that reorder stores. */
	atomic_thread_fence(memory_order_seq_cst);
	atomic_store(&page->size, fits ? (uint32_t) size : 0);
	if (fits) {
		memset(page->message, 0, size);
		wire_frame_put(page->message, frame);
	}
	atomic_store(&page->version, version + 1);
}

void gpu_last_frame_drop(struct gpu_last_frame *page)
{
	if (atomic_load(&page->size) > 0)
		atomic_store(&page->size, 0);
}

size_t gpu_last_frame_take(struct gpu_last_frame *page, uint32_t *taken, void *ret)
{
	const uint32_t version = atomic_load(&page->version), size = atomic_load(&page->size);

	if (version % 2 || version == *taken || size == 0 || size > sizeof(page->message))
		return 0;
	memcpy(ret, page->message, size);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&page->version) != version)
		return 0;
	*taken = version;
	return size;
}
