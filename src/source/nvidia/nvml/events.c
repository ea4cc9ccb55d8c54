/* SPDX-License-Identifier: MIT
 *
 * Xids: errors that the driver reports for a GPU. The driver collects them in an event set, which
 * is read without waiting.
 */
#include <stdio.h>

#include "source/nvidia/nvml/internal.h"
#include "source/nvidia/nvml/tables.h"

enum {
	MOST = 64 /* events per read: an error storm must not delay other reads */
};

static void watch(struct source *s, struct nvml_gpu *d)
{
	uint64_t types = 0;

	nvml_turn_to(s, d);
	int code = NVML_CALL(&s->nvml, event_types, d->handle, &types);

	types &= NVML_EVENT_XID | NVML_EVENT_UNAVAILABLE;
	if (code == NVML_SUCCESS && !(types & NVML_EVENT_XID))
		code = NVML_NOT_SUPPORTED;
	if (code == NVML_SUCCESS)
		code = NVML_CALL(&s->nvml, event_register, d->handle, types, s->event_set);
	d->has_events = code == NVML_SUCCESS;
	d->event_code = code;
}

/* Registers devices found, or found again, since the last time; an instance has no events. */
static void watch_all(struct source *s)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct nvml_gpu *d = s->gpus[i];

		if (d->state == NVML_AWAKE && !d->parent && !d->has_events)
			watch(s, d);
	}
	nvml_turn_to(s, NULL);
	s->events_stale = false;
}

void nvml_events_open(struct source *s)
{
	s->event_code = s->is_wsl ? NVML_NOT_SUPPORTED : NVML_CALL(&s->nvml, event_set, &s->event_set);
	if (s->event_code != NVML_SUCCESS)
		s->event_set = NULL;
	else
		watch_all(s);
}

void nvml_events_close(struct source *s)
{
	if (s->event_set)
		(void) NVML_CALL(&s->nvml, event_set_free, s->event_set);
	s->event_set = NULL;
}

static struct nvml_gpu *device_of(struct source *s, const void *handle)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (s->gpus[i]->handle == handle && s->gpus[i]->state != NVML_ENDED && s->gpus[i]->id)
			return s->gpus[i];
	}
	return NULL;
}

static void apply_event(struct source *s, const struct nvml_event *e, struct framebuf *out)
{
	struct nvml_gpu *d = device_of(s, e->device);
	char text[192];

	if (!d)
		return;
	if (e->type == NVML_EVENT_XID) {
		d->xids++;
		xid_text(e->data, text, sizeof(text));
		nvml_note(s, d, out, "gpu.xid", CAUSE_NONE, text);
	} else if (e->type == NVML_EVENT_UNAVAILABLE) {
		nvml_note(s, d, out, "gpu", CAUSE_NONE, "the driver reports that it is unavailable");
	}
}

void nvml_events_read(struct source *s, struct framebuf *out)
{
	struct nvml_event event = { 0 };
	int code = NVML_SUCCESS;

	if (s->events_stale && s->event_set)
		watch_all(s);
	for (int i = 0; s->event_set && i < MOST && code == NVML_SUCCESS; i++) {
		code = NVML_CALL(&s->nvml, event_wait, s->event_set, &event, 0);
		if (code == NVML_SUCCESS)
			apply_event(s, &event, out);
	}
	/* TIMEOUT means "no event". After any other error the count is unknown. */
	bool known_count = s->event_set && (code == NVML_TIMEOUT || code == NVML_SUCCESS);

	for (size_t i = 0; i < s->n_gpus; i++) {
		struct nvml_gpu *d = s->gpus[i];

		if (d->id && !d->parent && (d->state == NVML_AWAKE || d->state == NVML_AWAY))
			nvml_append_value(d, out, M_GPU_XID,
				known_count && d->has_events ? known((int64_t) d->xids) : UNKNOWN);
	}
}
