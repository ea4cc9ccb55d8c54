/* SPDX-License-Identifier: MIT */
#include "gpu/ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
	MOST_DEVICES = 1 << 12,
	MOST_USERS = 1 << 16,
	NAME = 16,
	TEXT = 96,
};

/* Bytes that processes use, on a device or in a sum; a lower bound if some are unknown. */
struct amount {
	int64_t bytes;
	bool unknown;            /* some of it could not be read */
};

/* A counter over all helpers. After a restart, a counter below its last value was reset and
 * continues from that value, as does one that the earlier helper accumulated itself; any other one
 * was continued by the driver. */
struct counter {
	int64_t last, plus;      /* last reported; offset added */
	unsigned round;
};

struct gpu_device {
	uint32_t id;             /* its index plus 1 */
	char uuid[TEXT], pci[TEXT], parent[TEXT];
	struct maybe gpu_instance; /* of an instance: those with the same value share memory */
	struct maybe index, memory_bytes;
	enum frame_source memory_source; /* the source that last reported it */
	bool unified;
	unsigned round;          /* the last one in which a source reported it */
	bool divided;            /* into MIG instances, which have the lists */
	bool is_ended;             /* an instance that no longer exists */
	bool was_listed;         /* at least once */
	bool parts_listed;       /* an instance of it was listed in this frame */
	struct amount ours, others; /* used by the job and others at the last list */
	struct maybe mem;
	bool listed;             /* in this frame */
	struct amount visible;   /* at the last list, by all visible processes */
	struct maybe mem_then;   /* mem at the last list, until unattributed is reported */
	uint8_t provider[METRIC_COUNT]; /* source + 1 that provides the metric */
	bool known[METRIC_COUNT];
	struct counter counters[METRIC_COUNT];
	unsigned summed[METRIC_COUNT]; /* the round, from 1, whose helper accumulated it; 0: none */
};

struct gpu_user {
	uint64_t key;
	uint32_t id, device, process;
	int32_t pid;             /* 0: unknown */
	bool visible;            /* /proc shows a process with that pid */
	bool detached;           /* by a restart: its key is invalid until a list reattaches it */
	struct gpu_process_birth birth;
	struct maybe mem;
};

void gpu_ids_done(struct gpu_ids *ids)
{
	free(ids->devices);
	free(ids->users);
	map_done(&ids->device_places);
	map_done(&ids->user_places);
	*ids = (struct gpu_ids) { 0 };
}

static uint64_t key_of(enum frame_source source, uint32_t id)
{
	return (uint64_t) source << 32 | id;
}

static enum frame_source source_of(const struct gpu_user *u)
{
	return (enum frame_source)(u->key >> 32);
}

/* NULL: the source has not reported it. */
static struct gpu_device *device_of(const struct gpu_ids *ids, enum frame_source source, uint32_t id)
{
	uint32_t place;

	return map_get(&ids->device_places, key_of(source, id), &place) ? &ids->devices[place] : NULL;
}

uint32_t gpu_ids_device(const struct gpu_ids *ids, enum frame_source source, uint32_t id)
{
	const struct gpu_device *d = device_of(ids, source, id);

	return d ? d->id : 0;
}

static struct gpu_user *user_of(const struct gpu_ids *ids, enum frame_source source, uint32_t id)
{
	uint32_t place;

	return map_get(&ids->user_places, key_of(source, id), &place) ? &ids->users[place] : NULL;
}

/* The first source that reports a metric of a device stays its provider. */
static bool is_provider(uint8_t *provider, const struct reading *r, enum frame_source source)
{
	if (provider[r->metric] == 0 && r->known)
		provider[r->metric] = (uint8_t) (source + 1);
	return provider[r->metric] == 0 || provider[r->metric] == source + 1;
}

/* ---- processes that leave a device ----------------------------------------------------------- */

static void end_user(struct gpu_user *u, struct framebuf *out)
{
	framebuf_end(out, &(struct end) { .entity = ENTITY_GPU_PROCESS, .id = u->id, .how = END_SEEN });
}

/* The process has left its device; the last entry moves into its place. NULL is allowed. */
static void drop_user(struct gpu_ids *ids, struct gpu_user *u, struct framebuf *out)
{
	if (!u)
		return;
	const struct gpu_user *last = &ids->users[ids->n_users - 1];

	if (!u->detached)
		map_remove(&ids->user_places, u->key);
	end_user(u, out);
	*u = *last;
	ids->n_users--;
	if (u != last && !u->detached)
		(void) map_put(&ids->user_places, u->key, (uint32_t) (u - ids->users));
}

/* Ends the detached processes of source (FRAME_SOURCE_COUNT: any) on the device (0: any); gone:
 * only those on devices that no source has reported since the restart. */
static void drop_detached(struct gpu_ids *ids, enum frame_source source, uint32_t device, bool gone,
	struct framebuf *out)
{
	for (size_t i = ids->n_users; i-- > 0;) {
		struct gpu_user *u = &ids->users[i];

		if (u->detached && (source == FRAME_SOURCE_COUNT || source_of(u) == source) &&
			(!device || u->device == device) &&
			(!gone || ids->devices[u->device - 1].round != ids->round))
			drop_user(ids, u, out);
	}
}

void gpu_ids_drop_detached(struct gpu_ids *ids, enum frame_source source, struct framebuf *out)
{
	drop_detached(ids, source, 0, false, out);
}

/* ---- devices --------------------------------------------------------------------------------- */

static bool has_no_name(const char *uuid, const char *pci)
{
	return !*uuid && !*pci;
}

/* A device that does not answer is known only by its index: it is the one that had that index
 * before. */
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
		ids->devices[i].divided |= strcmp(ids->devices[i].uuid, parent) == 0;
}

static struct gpu_device *add_device(struct gpu_ids *ids, const struct gpu_birth *b)
{
	if (vec_reserve(&ids->devices, &ids->cap_devices, ids->n_devices, sizeof(*ids->devices),
		    MOST_DEVICES) < 0)
		return NULL;
	struct gpu_device *d = &ids->devices[ids->n_devices++];

	*d = (struct gpu_device) { .index = b->index, .gpu_instance = b->gpu_instance };
	d->id = (uint32_t) ids->n_devices;
	(void) snprintf(d->parent, sizeof(d->parent), "%s", b->parent);
	(void) snprintf(d->uuid, sizeof(d->uuid), "%s", b->uuid);
	(void) snprintf(d->pci, sizeof(d->pci), "%s", *b->parent ? "" : b->pci);
	mark_divided(ids, b->parent);
	return d;
}

/* Its total was unknown at first, or changed while it was lost. A rounded value of another source
 * is no change. */
static bool has_another_total(const struct gpu_device *d, const struct gpu_birth *b, enum frame_source source)
{
	const bool is_known = d->memory_bytes.known, is_same_source = d->memory_source == source;

	return b->memory_bytes.known &&
	       (!is_known || (is_same_source && d->memory_bytes.value != b->memory_bytes.value));
}

static void apply_device_birth(struct gpu_ids *ids, const struct frame *f, const struct birth *b,
	struct framebuf *out)
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
	d->is_ended = false;
	d->round = ids->round;
	(void) map_put(&ids->device_places, key_of(f->source, b->id), (uint32_t) place);
}

/* Did a note of an earlier helper mark the counter as accumulated? */
static bool was_summed(const struct gpu_ids *ids, struct gpu_device *d, unsigned metric)
{
	const bool is_earlier = d->summed[metric] && d->summed[metric] != ids->round + 1;

	if (is_earlier)
		d->summed[metric] = 0;
	return is_earlier;
}

static void continue_counter(const struct gpu_ids *ids, struct gpu_device *d, struct reading *r)
{
	struct counter *c = &d->counters[r->metric];

	if (c->round != ids->round) {
		c->round = ids->round;
		if (was_summed(ids, d, r->metric) || r->value + c->plus < c->last)
			c->plus = c->last - r->value;
	}
	r->value += c->plus;
	r->min = r->max = r->value;
	c->last = r->value;
}

/* Applies the number of processes on the device. Unknown if a list failed: then their memory is
 * unknown, too, unless the same frame reports it. */
static void apply_count(struct gpu_ids *ids, struct gpu_device *d, bool known, struct framebuf *out)
{
	d->listed = ids->listed = true;
	d->visible = (struct amount) { .unknown = !known };
	d->ours = d->others = d->visible;
	if (known)
		drop_detached(ids, FRAME_SOURCE_COUNT, d->id, false, out);
	for (size_t i = 0; !known && i < ids->n_users; i++) {
		struct gpu_user *u = &ids->users[i];

		if (u->device != d->id || !u->mem.known)
			continue;
		u->mem = UNKNOWN;
		framebuf_unknown(out, M_GPROC_MEM, u->id);
	}
}

static void apply_device(struct gpu_ids *ids, const struct frame *f, const struct reading *r,
	struct framebuf *out)
{
	struct reading mine = *r;
	struct gpu_device *d = device_of(ids, f->source, r->id);

	if (!d || !is_provider(d->provider, r, f->source))
		return;
	mine.id = d->id;
	if (r->known && metrics[r->metric].kind == KIND_COUNTER)
		continue_counter(ids, d, &mine);
	d->known[r->metric] = r->known;
	framebuf_reading(out, mine);
	if (r->metric == M_GPU_PROCESSES) {
		apply_count(ids, d, r->known, out);
	} else if (r->metric == M_GPU_MEM) {
		d->mem = r->known ? known(r->value) : UNKNOWN;
	}
}

/* ---- processes ------------------------------------------------------------------------------- */

static bool was_alive(const struct gpu_ids *ids, const struct process *p)
{
	return p && (!p->ended || p->ended_ns > ids->time_ns);
}

/* Appends a birth, the first or a later one: a process may turn out to be the job's. */
static void append_birth(struct gpu_ids *ids, struct gpu_user *u, struct framebuf *out)
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

/* A process from before the restart gets its new key. */
static bool reattach(struct gpu_ids *ids, struct gpu_user *before, const struct gpu_user *now)
{
	if (before->process != now->process ||
		map_put(&ids->user_places, now->key, (uint32_t) (before - ids->users)) < 0)
		return false;
	before->key = now->key;
	before->detached = false;
	return true;
}

/* The job's process with that pid, also one that ended after the list was read; 0: none. */
static uint32_t member_of(const struct gpu_ids *ids, const struct processes *members, const struct job *job,
	int32_t pid)
{
	const uint32_t living = members ? processes_id(members, pid) : 0;

	for (size_t i = living || !job ? 0 : job_process_count(job); i-- > 0;) {
		const struct process *p = job_process(job, i);

		if (p->pid == pid && was_alive(ids, p))
			return p->id;
	}
	return living;
}

static void apply_user_birth(struct gpu_ids *ids, const struct frame *f, const struct birth *b,
	const struct processes *members, const struct job *job, struct framebuf *out)
{
	const struct maybe pid = b->gpu_process.pid;
	const struct gpu_device *d = device_of(ids, f->source, b->gpu_process.gpu);
	struct gpu_user u = {
		.key = key_of(f->source, b->id), .birth = b->gpu_process, .pid = (int32_t) pid.value
	};

	/* A list sent before its read was complete is repeated by the complete frame. */
	if (user_of(ids, f->source, b->id) || !d ||
		vec_reserve(&ids->users, &ids->cap_users, ids->n_users, sizeof(u), MOST_USERS) < 0)
		return;
	u.device = d->id;
	u.process = pid.known ? member_of(ids, members, job, u.pid) : 0;
	for (size_t i = 0; i < ids->n_users && pid.known; i++) {
		if (ids->users[i].pid != u.pid || ids->users[i].device != u.device)
			continue;
		if (!ids->users[i].detached)
			return; /* another source lists it */
		if (reattach(ids, &ids->users[i], &u))
			return;
		break;
	}
	append_birth(ids, &u, out);
	if (map_put(&ids->user_places, u.key, (uint32_t) ids->n_users) == 0)
		ids->users[ids->n_users++] = u;
}

static void apply_user(struct gpu_ids *ids, const struct frame *f, const struct reading *r,
	const struct processes *members, struct framebuf *out)
{
	struct gpu_user *u = user_of(ids, f->source, r->id);
	struct reading mine = *r;

	if (!u)
		return;
	if (r->metric == M_GPROC_MEM) {
		const uint32_t process = !u->pid || !members ? 0 : processes_id(members, u->pid);

		/* The list was read before the member was known, or its pid was reused. */
		if (process && process != u->process) {
			end_user(u, out);
			u->process = process;
			append_birth(ids, u, out);
		}
		u->mem = r->known ? known(r->value) : UNKNOWN;
	}
	mine.id = u->id;
	framebuf_reading(out, mine);
}

/* ---- attribution of memory, by the lists of processes ---------------------------------------- */

static void amount_add(struct amount *sum, struct maybe mem)
{
	sum->bytes += mem.known ? mem.value : 0;
	sum->unknown = sum->unknown || !mem.known;
}

/* An ended process has released its memory, even if the driver still lists it. */
static bool is_using(const struct gpu_ids *ids, const struct job *job, const struct gpu_user *u)
{
	return !u->process || was_alive(ids, job_process_by_id(job, u->process));
}

static void append_amount(struct framebuf *out, enum metric metric, uint32_t id, const struct amount *a)
{
	if (a->unknown && a->bytes == 0)
		framebuf_unknown(out, metric, id);
	else
		framebuf_value(out, metric, id, a->bytes);
}

static bool is_part(const struct gpu_device *part, const struct gpu_device *d)
{
	return !part->is_ended && strcmp(part->parent, d->uuid) == 0;
}

/* Instances have the lists, and their sum is the GPU's. */
static bool has_parts(const struct gpu_ids *ids, const struct gpu_device *d)
{
	for (size_t i = 0; d->divided && i < ids->n_devices; i++) {
		if (is_part(&ids->devices[i], d))
			return true;
	}
	return false;
}

static void sum_device(const struct gpu_ids *ids, struct gpu_device *d, const struct job *job,
	struct framebuf *out)
{
	struct amount ours = d->visible, others = d->visible;

	for (size_t i = 0; i < ids->n_users; i++) {
		const struct gpu_user *u = &ids->users[i];

		if (u->device != d->id || !is_using(ids, job, u))
			continue;
		/* Without a pid it may be the job's or another's. */
		ours.unknown = ours.unknown || !u->pid;
		others.unknown = others.unknown || !u->pid;
		if (!u->visible)
			continue;
		amount_add(u->process ? &ours : &others, u->mem);
		amount_add(&d->visible, u->mem);
	}
	if (!has_parts(ids, d)) {
		append_amount(out, M_GPU_JOB_MEM, d->id, &ours);
		append_amount(out, M_GPU_OTHER_MEM, d->id, &others);
	}
	d->ours = ours;
	d->others = others;
	d->was_listed = true;
	for (size_t i = 0; *d->parent && i < ids->n_devices; i++)
		ids->devices[i].parts_listed |= strcmp(ids->devices[i].uuid, d->parent) == 0;
	d->listed = false;
	d->mem_then = d->mem;
	if (d->visible.unknown && !d->unified)
		framebuf_unknown(out, M_GPU_UNATTRIBUTED_MEM, d->id);
}

static void add_part(struct amount *sum, const struct amount *part, bool was_listed)
{
	sum->bytes += part->bytes;
	sum->unknown = sum->unknown || part->unknown || !was_listed;
}

/* A divided GPU has no list of its own (the driver's needs a privilege): its processes are on its
 * instances. */
static void sum_parts(const struct gpu_ids *ids, struct gpu_device *d, struct framebuf *out)
{
	struct amount ours = { 0 }, others = { 0 };

	for (size_t i = 0; i < ids->n_devices; i++) {
		const struct gpu_device *part = &ids->devices[i];

		if (!is_part(part, d))
			continue;
		add_part(&ours, &part->ours, part->was_listed);
		add_part(&others, &part->others, part->was_listed);
	}
	append_amount(out, M_GPU_JOB_MEM, d->id, &ours);
	append_amount(out, M_GPU_OTHER_MEM, d->id, &others);
	d->parts_listed = false;
}

static bool share_memory(const struct gpu_device *a, const struct gpu_device *b)
{
	return a == b || (a->gpu_instance.known && b->gpu_instance.known &&
				 a->gpu_instance.value == b->gpu_instance.value &&
				 strcmp(a->parent, b->parent) == 0);
}

/* The attributed part of a device's memory: compute instances of one GPU instance share memory, and
 * have separate lists. */
static struct amount attributed(const struct gpu_ids *ids, const struct gpu_device *d)
{
	struct amount sum = { 0 };

	for (size_t i = 0; i < ids->n_devices; i++) {
		const struct gpu_device *other = &ids->devices[i];

		if (!share_memory(d, other))
			continue;
		sum.bytes += other->visible.bytes;
		sum.unknown = sum.unknown || other->visible.unknown;
	}
	return sum;
}

/* Memory may change between the device's read and the list: of the reads before and after the list,
 * the smaller one counts. */
static void append_unattributed(const struct gpu_ids *ids, struct gpu_device *d, struct framebuf *out)
{
	const int64_t mem = d->mem.value < d->mem_then.value ? d->mem.value : d->mem_then.value;
	const struct amount whose = attributed(ids, d);

	if (d->mem.known && d->mem_then.known && !whose.unknown && !d->unified)
		framebuf_value(out, M_GPU_UNATTRIBUTED_MEM, d->id,
			mem > whose.bytes ? mem - whose.bytes : 0);
	d->mem_then = UNKNOWN;
}

void gpu_ids_total(struct gpu_ids *ids, const struct job *job, struct framebuf *out)
{
	struct amount all = { 0 }, main = { 0 }, rest = { 0 };

	if (!ids->listed)
		return;
	ids->listed = false;
	for (size_t i = 0; i < ids->n_devices; i++) {
		const struct gpu_device *d = &ids->devices[i];

		all.unknown |= d->ours.unknown && !d->divided && !d->is_ended;
	}
	main.unknown = rest.unknown = all.unknown;
	for (size_t i = 0; i < ids->n_users; i++) {
		const struct gpu_user *u = &ids->users[i];
		const struct process *p = u->process ? job_process_by_id(job, u->process) : NULL;

		if (!was_alive(ids, p))
			continue;
		amount_add(&all, u->mem);
		amount_add(p->is_main ? &main : &rest, u->mem);
	}
	append_amount(out, M_JOB_GPU_MEM, 0, &all);
	append_amount(out, M_JOB_GPU_MEM_MAIN, 0, &main);
	append_amount(out, M_JOB_GPU_MEM_DESCENDANTS, 0, &rest);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* An instance that ended shares no memory with its successor. */
static void end_part(const struct gpu_ids *ids, enum frame_source source, uint32_t id)
{
	struct gpu_device *d = device_of(ids, source, id);

	if (!d)
		return;
	d->gpu_instance = UNKNOWN;
	d->is_ended = true;
}

static void append_event(const struct gpu_ids *ids, const struct frame *f, const struct event *e,
	struct framebuf *out)
{
	struct gpu_device *d = e->entity == ENTITY_GPU ? device_of(ids, f->source, e->id) : NULL;
	struct event mine = *e;

	if (e->entity == ENTITY_GPU)
		mine.id = d ? d->id : 0;
	if (d && e->kind == EVENT_NOTE && note_is_about(e, "gpu.energy"))
		d->summed[M_GPU_ENERGY] = ids->round + 1;
	framebuf_event(out, &mine);
}

void gpu_ids_apply(struct gpu_ids *ids, const struct frame *frame, const struct processes *members,
	const struct job *job, struct framebuf *out)
{
	ids->time_ns = frame->time_ns;
	/* Ends first: an instance that returns in this frame is born under another id. */
	for (size_t i = 0; i < frame->n_ends; i++) {
		if (frame->ends[i].entity == ENTITY_GPU)
			end_part(ids, frame->source, frame->ends[i].id);
	}
	for (size_t i = 0; i < frame->n_births; i++) {
		if (frame->births[i].entity == ENTITY_GPU)
			apply_device_birth(ids, frame, &frame->births[i], out);
		else
			apply_user_birth(ids, frame, &frame->births[i], members, job, out);
	}
	for (size_t i = 0; i < frame->n_readings; i++) {
		const struct reading *r = &frame->readings[i];
		const bool is_mem = r->metric == M_GPU_MEM;
		struct gpu_device *d = is_mem ? device_of(ids, frame->source, r->id) : NULL;

		if (metrics[r->metric].entity == ENTITY_GPU)
			apply_device(ids, frame, r, out);
		else
			apply_user(ids, frame, r, members, out);
		if (d && d->mem_then.known)
			append_unattributed(ids, d, out);
	}
	for (size_t i = 0; i < frame->n_ends; i++) {
		if (frame->ends[i].entity == ENTITY_GPU_PROCESS)
			drop_user(ids, user_of(ids, frame->source, frame->ends[i].id), out);
	}
	if (ids->listed)
		drop_detached(ids, frame->source, 0, true, out);
	for (size_t i = 0; i < ids->n_devices; i++) {
		if (ids->devices[i].listed)
			sum_device(ids, &ids->devices[i], job, out);
	}
	for (size_t i = 0; i < ids->n_devices; i++) {
		if (ids->devices[i].parts_listed)
			sum_parts(ids, &ids->devices[i], out);
	}
	for (size_t i = 0; i < frame->n_events; i++)
		append_event(ids, frame, &frame->events[i], out);
}

void gpu_ids_flush(struct gpu_ids *ids, struct framebuf *out)
{
	for (size_t i = 0; i < ids->n_devices; i++) {
		if (ids->devices[i].mem_then.known)
			append_unattributed(ids, &ids->devices[i], out);
	}
}

/* ---- restarted helpers, sources that are no longer read -------------------------------------- */

/* Sets what source (FRAME_SOURCE_COUNT: any) provided of a device to unknown; for a single source
 * also the sums over its list. */
static void forget_device(struct gpu_device *d, enum frame_source source, struct framebuf *out)
{
	static const enum metric sums[] = { M_GPU_JOB_MEM, M_GPU_OTHER_MEM, M_GPU_UNATTRIBUTED_MEM };
	const int provider = (int) source + 1;
	const bool any = source == FRAME_SOURCE_COUNT, mem = any || d->provider[M_GPU_MEM] == provider;
	const bool lists = any || d->provider[M_GPU_PROCESSES] == provider || (d->divided && mem);

	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]) && lists && !any; i++)
		framebuf_unknown(out, sums[i], d->id);
	if (lists) {
		d->visible = (struct amount) { .unknown = true };
		d->ours.unknown = d->others.unknown = true;
	}
	if (mem)
		d->mem = d->mem_then = UNKNOWN;
	for (int m = 0; m < METRIC_COUNT; m++) {
		if (!any && d->provider[m] != provider)
			continue;
		if (d->known[m])
			framebuf_unknown(out, (enum metric) m, d->id);
		d->known[m] = false;
		d->provider[m] = 0;
	}
}

void gpu_ids_forget(struct gpu_ids *ids, enum frame_source source, struct framebuf *out)
{
	for (size_t i = ids->n_users; i-- > 0;) {
		if (source_of(&ids->users[i]) == source)
			drop_user(ids, &ids->users[i], out);
	}
	for (size_t i = 0; i < ids->n_devices; i++)
		forget_device(&ids->devices[i], source, out);
}

/* A process without a pid cannot be recognised later. */
static void detach(struct gpu_ids *ids, struct gpu_user *u, struct framebuf *out)
{
	if (!u->pid) {
		drop_user(ids, u, out);
		return;
	}
	u->detached = true;
	u->mem = UNKNOWN;
	framebuf_unknown(out, M_GPROC_MEM, u->id);
}

void gpu_ids_detach(struct gpu_ids *ids, struct framebuf *out)
{
	for (size_t i = ids->n_users; i-- > 0;)
		detach(ids, &ids->users[i], out);
	map_done(&ids->user_places);
	map_done(&ids->device_places);
	for (size_t i = 0; i < ids->n_devices; i++)
		forget_device(&ids->devices[i], FRAME_SOURCE_COUNT, out);
	ids->round++;
}
