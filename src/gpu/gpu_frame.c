/* SPDX-License-Identifier: MIT
 *
 * What a helper said is looked at before it is believed: a driver's library may have written anywhere in its process.
 */
#include "record/wire.h"
#include "gpu/gpu_shared.h"

static bool is_of_gpus(const struct frame *f)
{
	for (size_t i = 0; i < f->n_births; i++) {
		if (f->births[i].entity != ENTITY_GPU && f->births[i].entity != ENTITY_GPU_PROCESS)
			return false;
	}
	for (size_t i = 0; i < f->n_readings; i++) {
		const unsigned m = f->readings[i].metric;

		if (m >= METRIC_COUNT || (metrics[m].entity != ENTITY_GPU && metrics[m].entity != ENTITY_GPU_PROCESS))
			return false;
	}
	for (size_t i = 0; i < f->n_ends; i++) {
		if (f->ends[i].entity != ENTITY_GPU && f->ends[i].entity != ENTITY_GPU_PROCESS)
			return false;
	}
	for (size_t i = 0; i < f->n_events; i++) {
		if (f->events[i].kind != EVENT_NOTE)
			return false;
	}
	return f->n_series == 0 && f->source < FRAME_SOURCE_COUNT;
}

const struct frame *gpu_frame(void *message, size_t size)
{
	const struct frame *frame = wire_frame_is_whole(message, size) ? wire_frame_get(message) : NULL;

	return frame && is_of_gpus(frame) ? frame : NULL;
}
