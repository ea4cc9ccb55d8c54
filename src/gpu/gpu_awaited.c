/* SPDX-License-Identifier: MIT
 *
 * One helper comes after another: who was on the devices is awaited in the lists of the next one, and goes on there or has left
 * meanwhile. Where no list will come any more nobody is awaited.
 */
#include <string.h>

#include "gpu/gpu_ids_internal.h"

static enum frame_source source_of(const struct gpu_user *u)
{
	return (enum frame_source)(u->key >> 32);
}

void gpu_awaited_drop(struct gpu_ids *ids, uint32_t device, struct framebuf *out)
{
	for (size_t i = ids->n_users; i-- > 0;) {
		if (ids->users[i].awaited && ids->users[i].device == device)
			gpu_user_drop(ids, &ids->users[i], out);
	}
}

/* A source tells of its devices before it lists any. */
void gpu_awaited_look(struct gpu_ids *ids, enum frame_source source, struct framebuf *out)
{
	for (size_t i = ids->n_users; i-- > 0;) {
		struct gpu_user *u = &ids->users[i];

		if (u->awaited && source_of(u) == source && ids->devices[u->device - 1].round != ids->round)
			gpu_user_drop(ids, u, out);
	}
}

void gpu_ids_give_up(struct gpu_ids *ids, enum frame_source source, struct framebuf *out)
{
	for (size_t i = ids->n_users; i-- > 0;) {
		if (ids->users[i].awaited && (source == FRAME_SOURCE_COUNT || source_of(&ids->users[i]) == source))
			gpu_user_drop(ids, &ids->users[i], out);
	}
}

static void forget_device(struct gpu_device *d, uint32_t id, struct framebuf *out)
{
	for (int m = 0; m < METRIC_COUNT; m++) {
		if (d->known[m])
			framebuf_unknown(out, (enum metric) m, id);
	}
	memset(d->known, 0, sizeof(d->known));
	memset(d->giver, 0, sizeof(d->giver));
	d->mem = d->mem_then = UNKNOWN;
	d->visible = (struct amount) { .unknown = true };
	d->ours.unknown = d->others.unknown = true;
	d->listed = false;
}

/* Whoever has no pid cannot be known again. */
static void await_user(struct gpu_ids *ids, struct gpu_user *u, struct framebuf *out)
{
	if (!u->pid) {
		gpu_user_drop(ids, u, out);
		return;
	}
	u->awaited = true;
	u->mem = UNKNOWN;
	framebuf_unknown(out, M_GPROC_MEM, u->id);
}

void gpu_ids_begin_again(struct gpu_ids *ids, struct framebuf *out)
{
	for (size_t i = ids->n_users; i-- > 0;)
		await_user(ids, &ids->users[i], out);
	map_done(&ids->user_places);
	map_done(&ids->device_places);
	for (size_t i = 0; i < ids->n_devices; i++)
		forget_device(&ids->devices[i], (uint32_t) i + 1, out);
	ids->round++;
}
