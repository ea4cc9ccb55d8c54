/* SPDX-License-Identifier: MIT */
#include "gpu/gpu_ids_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
	MOST_DEVICES = 1 << 12,
	MOST_USERS = 1 << 16,
	NAME = 16,
};

void gpu_ids_done(struct gpu_ids *ids)
{
	free(ids->devices);
	free(ids->users);
	map_done(&ids->device_places);
	map_done(&ids->user_places);
	*ids = (struct gpu_ids) { 0 };
}

size_t gpu_ids_count(const struct gpu_ids *ids)
{
	return ids->n_devices;
}

static uint64_t key_of(enum frame_source source, uint32_t id)
{
	return (uint64_t) source << 32 | id;
}

static struct gpu_device *device_of(const struct gpu_ids *ids, enum frame_source source, uint32_t id, uint32_t *ret_id)
{
	uint32_t place;

	if (!map_get(&ids->device_places, key_of(source, id), &place))
		return NULL;
	*ret_id = place + 1;
	return &ids->devices[place];
}

uint32_t gpu_ids_device(const struct gpu_ids *ids, enum frame_source source, uint32_t id)
{
	uint32_t mine;

	return device_of(ids, source, id, &mine) ? mine : 0;
}

static struct gpu_user *user_of(const struct gpu_ids *ids, enum frame_source source, uint32_t id)
{
	uint32_t place;

	return map_get(&ids->user_places, key_of(source, id), &place) ? &ids->users[place] : NULL;
}

/* The first that had it gives it from then on. */
static bool gives(uint8_t *giver, const struct reading *r, enum frame_source source)
{
	if (giver[r->metric] == 0 && r->known)
		giver[r->metric] = (uint8_t) (source + 1);
	return giver[r->metric] == 0 || giver[r->metric] == source + 1;
}

/* ---- devices -------------------------------------------------------------------------------------------------------- */

static bool has_no_name(const char *uuid, const char *pci)
{
	return !*uuid && !*pci;
}

/* One that does not answer has its number alone: it is who had it before the helper was started again. */
static bool is_same(const struct gpu_ids *ids, const struct gpu_device *d, const struct gpu_birth *b)
{
	const bool was_before = d->round != ids->round && !*d->parent;

	if (*b->uuid && strcmp(d->uuid, b->uuid) == 0)
		return true;
	if (has_no_name(b->uuid, b->pci))
		return d->index.known && b->index.known && d->index.value == b->index.value &&
		       (was_before || has_no_name(d->uuid, d->pci));
	return *b->pci && !*b->parent && strcmp(d->pci, b->pci) == 0;
}

static void mark_divided(struct gpu_ids *ids, const char *parent)
{
	for (size_t i = 0; *parent && i < ids->n_devices; i++)
		ids->devices[i].divided = ids->devices[i].divided || strcmp(ids->devices[i].uuid, parent) == 0;
}

static struct gpu_device *add_device(struct gpu_ids *ids, const struct gpu_birth *b)
{
	if (vec_room(&ids->devices, &ids->cap_devices, ids->n_devices, sizeof(*ids->devices), MOST_DEVICES) < 0)
		return NULL;
	struct gpu_device *d = &ids->devices[ids->n_devices++];

	*d = (struct gpu_device) { .index = b->index, .gpu_instance = b->gpu_instance };
	(void) snprintf(d->parent, sizeof(d->parent), "%s", b->parent);
	(void) snprintf(d->uuid, sizeof(d->uuid), "%s", b->uuid);
	(void) snprintf(d->pci, sizeof(d->pci), "%s", *b->parent ? "" : b->pci);
	mark_divided(ids, b->parent);
	return d;
}

/* Its memory could not be told at first, or is another since it was lost. What one source rounds is no change. */
static bool has_another_total(const struct gpu_device *d, const struct gpu_birth *b, enum frame_source source)
{
	const bool is_known = d->memory_bytes.known, is_same_source = d->memory_source == source;

	return b->memory_bytes.known && (!is_known || (is_same_source && d->memory_bytes.value != b->memory_bytes.value));
}

static void bear_device(struct gpu_ids *ids, const struct frame *f, const struct birth *b, struct framebuf *out)
{
	struct birth birth = *b;
	size_t place = 0;

	while (place < ids->n_devices && !is_same(ids, &ids->devices[place], &b->gpu))
		place++;
	const bool is_new = place == ids->n_devices;
	struct gpu_device *d = is_new ? add_device(ids, &b->gpu) : &ids->devices[place];

	if (!d)
		return;
	if (is_new || has_another_total(d, &b->gpu, f->source)) {
		d->memory_bytes = b->gpu.memory_bytes;
		d->memory_source = f->source;
		d->unified = b->gpu.unified;
		birth.id = (uint32_t) place + 1;
		framebuf_birth(out, &birth);
	}
	d->parted = false;
	d->round = ids->round;
	(void) map_put(&ids->device_places, key_of(f->source, b->id), (uint32_t) place);
}

/* Has a note of an earlier helper said that the counter is a sum? */
static bool was_summed(const struct gpu_ids *ids, struct gpu_device *d, unsigned metric)
{
	const bool is_earlier = d->summed[metric] && d->summed[metric] != ids->round + 1;

	if (is_earlier)
		d->summed[metric] = 0;
	return is_earlier;
}

static void go_on(const struct gpu_ids *ids, struct gpu_device *d, struct reading *r)
{
	struct going_on *c = &d->counters[r->metric];

	if (c->round != ids->round) {
		c->round = ids->round;
		if (was_summed(ids, d, r->metric) || r->value + c->plus < c->last)
			c->plus = c->last - r->value;
	}
	r->value += c->plus;
	r->min = r->max = r->value;
	c->last = r->value;
}

static void end_user(struct gpu_user *u, struct framebuf *out)
{
	framebuf_end(out, &(struct end) { .entity = ENTITY_GPU_PROCESS, .id = u->id, .how = END_SEEN });
}

/* The last takes its place. */
void gpu_user_drop(struct gpu_ids *ids, struct gpu_user *u, struct framebuf *out)
{
	const struct gpu_user *last = &ids->users[ids->n_users - 1];

	if (!u->awaited)
		map_remove(&ids->user_places, u->key);
	end_user(u, out);
	*u = *last;
	ids->n_users--;
	if (u != last && !u->awaited)
		(void) map_put(&ids->user_places, u->key, (uint32_t) (u - ids->users));
}

/* How many are on it; unknown where a list failed. Then what somebody held before stands no longer, and who is known to
 * hold something now is told of after this. */
static void take_count(struct gpu_ids *ids, struct gpu_device *d, bool known, struct framebuf *out)
{
	const uint32_t id = (uint32_t) (d - ids->devices) + 1;

	d->listed = ids->listed = true;
	d->visible = (struct amount) { .unknown = !known };
	d->ours = d->others = d->visible;
	if (known)
		gpu_awaited_drop(ids, id, out);
	for (size_t i = 0; !known && i < ids->n_users; i++) {
		struct gpu_user *u = &ids->users[i];

		if (u->device != id || !u->mem.known)
			continue;
		u->mem = UNKNOWN;
		framebuf_unknown(out, M_GPROC_MEM, u->id);
	}
}

static void take_device(struct gpu_ids *ids, const struct frame *f, const struct reading *r, struct framebuf *out)
{
	struct reading mine = *r;
	struct gpu_device *d = device_of(ids, f->source, r->id, &mine.id);

	if (!d || !gives(d->giver, r, f->source))
		return;
	if (r->known && metrics[r->metric].kind == KIND_COUNTER)
		go_on(ids, d, &mine);
	d->known[r->metric] = r->known;
	framebuf_reading(out, mine);
	if (r->metric == M_GPU_PROCESSES) {
		take_count(ids, d, r->known, out);
	} else if (r->metric == M_GPU_MEM) {
		d->mem = r->known ? known(r->value) : UNKNOWN;
	}
}

/* ---- processes ------------------------------------------------------------------------------------------------------ */

/* Its birth, the first or a later one: a stranger may turn out to be the job's. */
static void tell_user(struct gpu_ids *ids, struct gpu_user *u, struct framebuf *out)
{
	char name[NAME] = "";
	uint32_t uid;
	struct birth birth = { .entity = ENTITY_GPU_PROCESS, .gpu_process = u->birth };

	u->id = birth.id = ++ids->last_user;
	birth.gpu_process.gpu = u->device;
	birth.gpu_process.process = u->process;
	u->visible = u->process != 0;
	if (u->pid > 0 && process_owner(ids->root, u->pid, name, &uid) == 0) {
		u->visible = true;
		birth.gpu_process.uid = known(uid);
	}
	birth.gpu_process.name = name;
	framebuf_birth(out, &birth);
}

/* One that was there before all sources began anew is under another number there. */
static bool goes_on(struct gpu_ids *ids, struct gpu_user *before, const struct gpu_user *now)
{
	if (before->process != now->process || map_put(&ids->user_places, now->key, (uint32_t) (before - ids->users)) < 0)
		return false;
	before->key = now->key;
	before->awaited = false;
	return true;
}

/* The job's process of that number, also one that ended after the list was read; 0: there is none. */
static uint32_t member_of(const struct gpu_ids *ids, const struct processes *members, const struct job *job, int32_t pid)
{
	const uint32_t living = members ? processes_id(members, pid) : 0;

	for (size_t i = living || !job ? 0 : job_process_count(job); i-- > 0;) {
		const struct process *p = job_process(job, i);

		if (p->pid == pid && gpu_was_there(ids, p))
			return p->id;
	}
	return living;
}

static void bear_user(struct gpu_ids *ids, const struct frame *f, const struct birth *b, const struct processes *members,
	const struct job *job, struct framebuf *out)
{
	const struct maybe pid = b->gpu_process.pid;
	struct gpu_user u = { .key = key_of(f->source, b->id), .birth = b->gpu_process, .pid = (int32_t) pid.value };

	/* A list that was taken before its read came to an end is told again with that. */
	if (user_of(ids, f->source, b->id) || !device_of(ids, f->source, b->gpu_process.gpu, &u.device) ||
		vec_room(&ids->users, &ids->cap_users, ids->n_users, sizeof(u), MOST_USERS) < 0)
		return;
	u.process = pid.known ? member_of(ids, members, job, u.pid) : 0;
	for (size_t i = 0; i < ids->n_users && pid.known; i++) {
		if (ids->users[i].pid != u.pid || ids->users[i].device != u.device)
			continue;
		if (!ids->users[i].awaited)
			return; /* another source tells of it */
		if (goes_on(ids, &ids->users[i], &u))
			return;
		break;
	}
	tell_user(ids, &u, out);
	if (map_put(&ids->user_places, u.key, (uint32_t) ids->n_users) == 0)
		ids->users[ids->n_users++] = u;
}

static void forget_user(struct gpu_ids *ids, enum frame_source source, uint32_t id, struct framebuf *out)
{
	struct gpu_user *u = user_of(ids, source, id);

	if (u)
		gpu_user_drop(ids, u, out);
}

static void take_user(struct gpu_ids *ids, const struct frame *f, const struct reading *r, const struct processes *members,
	struct framebuf *out)
{
	struct gpu_user *u = user_of(ids, f->source, r->id);
	struct reading mine = *r;

	if (!u)
		return;
	if (r->metric == M_GPROC_MEM) {
		const uint32_t process = !u->pid || !members ? 0 : processes_id(members, u->pid);

		if (process && process != u->process) { /* the list came before it was known, or its pid is used again */
			end_user(u, out);
			u->process = process;
			tell_user(ids, u, out);
		}
		u->mem = r->known ? known(r->value) : UNKNOWN;
	}
	mine.id = u->id;
	framebuf_reading(out, mine);
}

/* ---- frames --------------------------------------------------------------------------------------------------------- */

/* An instance that is no more shares nothing with the one that comes in its place. */
static void part_with(const struct gpu_ids *ids, enum frame_source source, uint32_t id)
{
	uint32_t mine;
	struct gpu_device *d = device_of(ids, source, id, &mine);

	if (!d)
		return;
	d->gpu_instance = UNKNOWN;
	d->parted = true;
}

static void tell_event(const struct gpu_ids *ids, const struct frame *f, const struct event *e, struct framebuf *out)
{
	struct event mine = *e;

	struct gpu_device *d = e->entity == ENTITY_GPU && e->id ? device_of(ids, f->source, e->id, &mine.id) : NULL;

	if (e->entity == ENTITY_GPU && !d)
		mine.id = 0;
	if (d && e->kind == EVENT_NOTE && note_is_about(e, "gpu.energy"))
		d->summed[M_GPU_ENERGY] = ids->round + 1;
	framebuf_event(out, &mine);
}

void gpu_ids_take(struct gpu_ids *ids, const struct frame *frame, const struct processes *members, const struct job *job,
	struct framebuf *out)
{
	ids->time_ns = frame->time_ns;
	/* First: who comes back in a frame is born in it under another number. */
	for (size_t i = 0; i < frame->n_ends; i++) {
		if (frame->ends[i].entity == ENTITY_GPU)
			part_with(ids, frame->source, frame->ends[i].id);
	}
	for (size_t i = 0; i < frame->n_births; i++) {
		if (frame->births[i].entity == ENTITY_GPU)
			bear_device(ids, frame, &frame->births[i], out);
		else
			bear_user(ids, frame, &frame->births[i], members, job, out);
	}
	for (size_t i = 0; i < frame->n_readings; i++) {
		const struct reading *r = &frame->readings[i];
		uint32_t id;

		if (metrics[r->metric].entity == ENTITY_GPU)
			take_device(ids, frame, r, out);
		else
			take_user(ids, frame, r, members, out);
		struct gpu_device *d = r->metric == M_GPU_MEM ? device_of(ids, frame->source, r->id, &id) : NULL;

		if (d && d->mem_then.known)
			gpu_tell_unattributed(ids, d, out);
	}
	for (size_t i = 0; i < frame->n_ends; i++) {
		if (frame->ends[i].entity == ENTITY_GPU_PROCESS)
			forget_user(ids, frame->source, frame->ends[i].id, out);
	}
	if (ids->listed)
		gpu_awaited_look(ids, frame->source, out);
	for (size_t i = 0; i < ids->n_devices; i++) {
		if (ids->devices[i].listed)
			gpu_sum_device(ids, &ids->devices[i], job, out);
	}
	for (size_t i = 0; i < ids->n_devices; i++) {
		if (ids->devices[i].parts_listed)
			gpu_sum_parts(ids, &ids->devices[i], out);
	}
	for (size_t i = 0; i < frame->n_events; i++)
		tell_event(ids, frame, &frame->events[i], out);
}

void gpu_ids_settle(struct gpu_ids *ids, struct framebuf *out)
{
	for (size_t i = 0; i < ids->n_devices; i++) {
		if (ids->devices[i].mem_then.known)
			gpu_tell_unattributed(ids, &ids->devices[i], out);
	}
}

/* What source gave of a device; with its list goes what was added up of it. */
static void forget_given(struct gpu_device *d, uint32_t id, enum frame_source source, struct framebuf *out)
{
	static const enum metric sums[] = { M_GPU_JOB_MEM, M_GPU_FOREIGN_MEM, M_GPU_UNATTRIBUTED_MEM };
	const int giver = (int) source + 1;
	const bool lists = d->giver[M_GPU_PROCESSES] == giver || (d->divided && d->giver[M_GPU_MEM] == giver);

	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]) && lists; i++)
		framebuf_unknown(out, sums[i], id);
	if (lists) {
		d->visible = (struct amount) { .unknown = true };
		d->ours.unknown = d->others.unknown = true;
	}
	if (d->giver[M_GPU_MEM] == giver)
		d->mem = d->mem_then = UNKNOWN;
	for (int m = 0; m < METRIC_COUNT; m++) {
		if (d->giver[m] != giver)
			continue;
		if (d->known[m])
			framebuf_unknown(out, (enum metric) m, id);
		d->known[m] = false;
		d->giver[m] = 0;
	}
}

void gpu_ids_forget(struct gpu_ids *ids, enum frame_source source, struct framebuf *out)
{
	for (size_t i = ids->n_users; i-- > 0;) {
		if (ids->users[i].key >> 32 == (uint64_t) source)
			gpu_user_drop(ids, &ids->users[i], out);
	}
	for (size_t i = 0; i < ids->n_devices; i++)
		forget_given(&ids->devices[i], (uint32_t) i + 1, source, out);
}

void gpu_ids_total(struct gpu_ids *ids, const struct job *job, struct framebuf *out)
{
	struct amount all = { 0 }, main = { 0 }, rest = { 0 };

	if (!ids->listed)
		return;
	ids->listed = false;
	for (size_t i = 0; i < ids->n_devices; i++)
		all.unknown = all.unknown || (ids->devices[i].ours.unknown && !ids->devices[i].divided && !ids->devices[i].parted);
	main.unknown = rest.unknown = all.unknown;
	for (size_t i = 0; i < ids->n_users; i++) {
		const struct gpu_user *u = &ids->users[i];
		const struct process *p = u->process ? job_process_by_id(job, u->process) : NULL;

		if (!gpu_was_there(ids, p))
			continue;
		gpu_amount_add(&all, u->mem);
		gpu_amount_add(p->is_main ? &main : &rest, u->mem);
	}
	gpu_amount_put(out, M_JOB_GPU_MEM, 0, &all);
	gpu_amount_put(out, M_JOB_GPU_MEM_MAIN, 0, &main);
	gpu_amount_put(out, M_JOB_GPU_MEM_REST, 0, &rest);
}
