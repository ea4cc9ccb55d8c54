/* SPDX-License-Identifier: MIT
 *
 * The three lists of a device, each read with the newest call that the driver supports.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "source/nvidia/nvml/abi.h"
#include "source/nvidia/nvml/internal.h"
#include "source/nvidia/nvml/processes.h"

enum {
	VERSIONS = 3,
	FIRST_ROOM = 64,
	MOST = 1 << 16, /* processes: a larger count is an error of the driver */
	TRIES = 5       /* the list may grow between two calls */
};

/* A list of graphics or MPS clients that was empty is skipped for this long: each costs as much as
 * the compute list. Without credit for lists (hundredths of the maximum) it is also skipped this
 * often. */
#define EMPTY_NS 10000000000ULL
enum {
	EMPTY_SKIPS = 3,
	PLENTY = 90,
	ENOUGH = 45,
};

struct list_call {
	int (*read)(void *device, unsigned *n, void *list); /* NULL: the library lacks it */
	enum nvml_call call;
};

/* The call of a list: version 0 is the newest; only the oldest has entries without instances. */
static struct list_call call_of(const struct nvml *nvml, enum nvml_list which, unsigned version)
{
#define CALL(member) ((struct list_call) { nvml->member, NVML_CALL_##member })
	const struct list_call calls[NVML_LISTS][VERSIONS] = {
		[NVML_LIST_COMPUTE] = { CALL(compute_v3), CALL(compute_v2), CALL(compute_v1) },
		[NVML_LIST_GRAPHICS] = { CALL(graphics_v3), CALL(graphics_v2), CALL(graphics_v1) },
		[NVML_LIST_MPS] = { CALL(mps_v3), CALL(mps_v2), CALL(mps_v1) },
	};
#undef CALL

	return calls[which][version];
}

/* Drivers that may write long entries: they have _v3 and confidential computing, but no detail list
 * yet. */
static bool maybe_long(const struct nvml *nvml)
{
	return nvml->compute_v3 && nvml->conf_compute && !nvml->process_details;
}

static int make_room(struct nvml_room *room, size_t n)
{
	if (n <= room->cap)
		return 0;
	uint8_t *bytes = realloc(room->bytes, n * NVML_ENTRY_LONG);

	if (!bytes)
		return -ENOMEM;
	room->bytes = bytes;
	struct nvml_listed *listed = reallocarray(room->listed, n * NVML_LISTS, sizeof(*listed));

	if (!listed)
		return -ENOMEM;
	room->listed = listed;
	room->cap = n;
	return 0;
}

/* One call, with a buffer that grows as needed. *ret_n: entries written. */
static int call(struct source *s, struct nvml_gpu *d, const struct list_call *list, unsigned *ret_n)
{
	struct nvml_room *room = &s->room;

	for (int i = 0; i < TRIES; i++) {
		unsigned n = (unsigned) room->cap;

		memset(room->bytes, NVML_PATTERN, room->cap * NVML_ENTRY_LONG);
		driver_call_begin(s->env, list->call);
		int code = driver_call_end(s->env, list->read(d->handle, &n, room->bytes));

		if (code == NVML_SUCCESS && n > room->cap)
			return NVML_UNKNOWN;
		if (code != NVML_INSUFFICIENT_SIZE) {
			*ret_n = n;
			return code;
		}
		if (n > MOST || make_room(room, (n > room->cap ? n : room->cap) * 3 / 2) < 0)
			return NVML_INSUFFICIENT_SIZE;
	}
	return NVML_INSUFFICIENT_SIZE;
}

static bool is_of(const struct nvml_gpu *d, const struct nvml_listed *l)
{
	if (!d->parent || l->gpu_instance == NVML_NONE_U32)
		return true;
	return l->gpu_instance == d->gpu_instance &&
	       (l->compute_instance == NVML_NONE_U32 || l->compute_instance == d->compute_instance);
}

static void keep(struct source *s, struct nvml_gpu *d, enum nvml_list which, unsigned n)
{
	struct nvml_room *room = &s->room;
	size_t stride = d->processes.version[which] == VERSIONS - 1
				? NVML_ENTRY_V1
				: nvml_list_stride(
					  room->bytes, room->cap * NVML_ENTRY_LONG, n, maybe_long(&s->nvml));
	struct nvml_listed *list = room->listed + room->n;
	size_t found = nvml_list_decode(room->bytes, n, stride, list), kept = 0;

	for (size_t i = 0; i < found; i++) {
		if (!is_of(d, &list[i]))
			continue;
		list[kept] = list[i];
		list[kept].graphics = which == NVML_LIST_GRAPHICS;
		list[kept++].compute = which != NVML_LIST_GRAPHICS;
	}
	room->n += kept;
	d->processes.empty[which] = kept == 0;
}

/* Falls back to older calls if the newest is not supported. */
static void read_list(struct source *s, struct nvml_gpu *d, enum nvml_list which)
{
	struct nvml_processes *p = &d->processes;
	unsigned n = 0;
	int code = NVML_FUNCTION_NOT_FOUND;

	for (;; p->version[which]++) {
		const struct list_call list = call_of(&s->nvml, which, p->version[which]);

		code = list.read ? call(s, d, &list, &n) : NVML_FUNCTION_NOT_FOUND;
		if (nvml_code(code)->meaning != NVML_ABSENT || p->version[which] + 1 == VERSIONS)
			break;
	}
	if (code == NVML_SUCCESS)
		keep(s, d, which, n);
	p->code[which] = code;
	p->read_ns[which] = s->now_ns;
	p->skipped[which] = 0;
	enum nvml_meaning meaning = nvml_code(code)->meaning;

	p->absent[which] = meaning == NVML_ABSENT || meaning == NVML_FORBIDDEN;
}

/* Old drivers have no list of MPS clients, some devices none of graphics: no process is missing
 * there. */
bool nvml_list_lacks(const struct nvml_processes *p, enum nvml_list which)
{
	return p->code[which] != NVML_SUCCESS &&
	       (which == NVML_LIST_COMPUTE || nvml_code(p->code[which])->meaning != NVML_ABSENT);
}

/* Without the compute list the processes are unknown; without another one, the remaining lists are
 * still valid. */
static bool is_fatal(const struct nvml_processes *p, enum nvml_list which)
{
	const enum nvml_meaning meaning = nvml_code(p->code[which])->meaning;

	return p->code[which] != NVML_SUCCESS &&
	       (which == NVML_LIST_COMPUTE || meaning == NVML_LOST || meaning == NVML_STALE);
}

static bool is_due(const struct source *s, struct nvml_processes *p, enum nvml_list which)
{
	if (p->absent[which])
		return false;
	if (which == NVML_LIST_COMPUTE || p->code[which] != NVML_SUCCESS)
		return true;
	if (p->read_ns[which] == 0)
		return nvml_has_credit(s, ENOUGH);
	if (!p->empty[which])
		return true;
	if (counter_delta(p->read_ns[which], s->now_ns) < EMPTY_NS)
		return false;
	return nvml_has_credit(s, PLENTY) || p->skipped[which]++ >= EMPTY_SKIPS;
}

int nvml_lists_read(struct source *s, struct nvml_gpu *d)
{
	struct nvml_processes *p = &d->processes;

	if (make_room(&s->room, FIRST_ROOM) < 0)
		return NVML_INSUFFICIENT_SIZE;
	s->room.n = 0;
	for (int which = 0; which < NVML_LISTS; which++) {
		if (is_due(s, p, (enum nvml_list) which))
			read_list(s, d, (enum nvml_list) which);
		if (is_fatal(p, (enum nvml_list) which))
			return p->code[which];
	}
	s->room.n = nvml_list_merge(s->room.listed, s->room.n);
	return NVML_SUCCESS;
}

/* ---- decoding entries ------------------------------------------------------------------------ */

size_t nvml_list_stride(const uint8_t *bytes, size_t size, size_t n, bool maybe_long)
{
	size_t written = size;

	while (written > 0 && bytes[written - 1] == NVML_PATTERN)
		written--;
	if (written > n * NVML_ENTRY_LONG)
		return maybe_long ? NVML_ENTRY_LONG : NVML_ENTRY;
	return written > n * NVML_ENTRY ? NVML_ENTRY_LONG : NVML_ENTRY;
}

static uint32_t u32_at(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

size_t nvml_list_decode(const uint8_t *bytes, size_t n, size_t stride, struct nvml_listed *ret)
{
	size_t found = 0;

	for (const uint8_t *p = bytes, *end = bytes + n * stride; p < end; p += stride) {
		struct nvml_listed entry = {
			.pid = u32_at(p),
			.gpu_instance = NVML_NONE_U32,
			.compute_instance = NVML_NONE_U32,
		};

		memcpy(&entry.bytes, p + 8, sizeof(entry.bytes));
		if (stride >= NVML_ENTRY) {
			entry.gpu_instance = u32_at(p + 16);
			entry.compute_instance = u32_at(p + 20);
		}
		if (entry.pid != 0)
			ret[found++] = entry;
	}
	return found;
}

static int by_pid(const void *a, const void *b)
{
	uint32_t x = ((const struct nvml_listed *) a)->pid, y = ((const struct nvml_listed *) b)->pid;

	return (x > y) - (x < y);
}

/* A process without memory is not listed: some drivers write 0 for "unknown". */
static bool is_known(uint64_t bytes)
{
	return bytes != NVML_NONE_U64 && bytes != 0;
}

size_t nvml_list_merge(struct nvml_listed *list, size_t n)
{
	size_t kept = 0;

	if (n > 0)
		qsort(list, n, sizeof(*list), by_pid);
	for (size_t i = 0; i < n; i++) {
		struct nvml_listed now = list[i];

		now.bytes = is_known(now.bytes) ? now.bytes : NVML_NONE_U64;
		if (kept == 0 || list[kept - 1].pid != now.pid) {
			list[kept++] = now;
			continue;
		}
		struct nvml_listed *same = &list[kept - 1];

		if (same->bytes == NVML_NONE_U64 || (now.bytes != NVML_NONE_U64 && now.bytes > same->bytes))
			same->bytes = now.bytes;
		same->compute |= now.compute;
		same->graphics |= now.graphics;
	}
	return kept;
}
