/* SPDX-License-Identifier: MIT
 *
 * For tests of the probe: the memory file that a recorder would make, processes that attach to it, and a
 * reader of events that is independent of the recorder's. A test runs what it tests in a child, since a
 * process attaches once; there CHECK takes the place of assert_true.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/trace.h"
#include "model/trace_ring.h"

#define RIG_BYTES ((off_t) TRACE_FILE_BYTES)
#define RIG_UNITS (TRACE_CHUNK_BYTES / TRACE_UNIT_BYTES)

/* In a child: ends it with a line that says where. */
#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			(void) fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1); \
		} \
	} while (0)

struct ring_rig {
	int fd;
	char *map;
	struct trace_ring *ring;
};

static inline void rig_environment(const struct ring_rig *rig, int fd, int pid, const char *socket)
{
	char text[200];
	struct stat st;

	assert_int_equal(fstat(rig->fd, &st), 0);
	(void) snprintf(text, sizeof(text), "%d:%d:%llu:%llu:@%s", fd, pid, (unsigned long long) st.st_dev,
		(unsigned long long) st.st_ino, socket);
	assert_int_equal(setenv(TRACE_ENVIRONMENT, text, 1), 0);
}

static inline void rig_open(struct ring_rig *rig)
{
	rig->fd = memfd_create("hiwater-trace", MFD_ALLOW_SEALING);
	assert_true(rig->fd >= 0);
	assert_int_equal(ftruncate(rig->fd, RIG_BYTES), 0);
	assert_int_equal(fcntl(rig->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	rig->map = mmap(NULL, RIG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, rig->fd, 0);
	assert_ptr_not_equal(rig->map, MAP_FAILED);
	rig->ring = (struct trace_ring *) (void *) rig->map;
	rig->ring->magic = TRACE_RING_MAGIC;
	rig->ring->version = TRACE_RING_VERSION;
	rig->ring->bytes_of_slot = TRACE_SLOT_BYTES;
	rig->ring->recorder_pid = getpid();
	rig->ring->layers = TRACE_ALL;
	rig->ring->layers_wanted = TRACE_ALL;
	rig_environment(rig, rig->fd, getpid(), "");
}

static inline void rig_close(struct ring_rig *rig)
{
	assert_int_equal(munmap(rig->map, RIG_BYTES), 0);
	assert_int_equal(close(rig->fd), 0);
	assert_int_equal(unsetenv(TRACE_ENVIRONMENT), 0);
}

static inline struct trace_slot *rig_slot(const struct ring_rig *rig, unsigned n)
{
	return (struct trace_slot *) (void *) (rig->map + trace_slot_at(n));
}

static inline unsigned rig_slots_taken(const struct ring_rig *rig)
{
	unsigned n = 0;

	for (unsigned i = 0; i < TRACE_SLOTS; i++)
		n += rig->ring->slots[i] == TRACE_SLOT_TAKEN;
	return n;
}

/* The slot of the only process. Not always the first: threads that attach at once take one each, and give back
 * all but one. */
static inline struct trace_slot *rig_only_slot(const struct ring_rig *rig)
{
	for (unsigned i = 0; i < TRACE_SLOTS; i++) {
		if (rig->ring->slots[i] == TRACE_SLOT_TAKEN && rig_slot(rig, i)->version)
			return rig_slot(rig, i);
	}
	return NULL;
}

/* Starts run(rig) in a child, which exits with 0 when it returns. */
static inline pid_t rig_start(struct ring_rig *rig, void (*run)(struct ring_rig *rig))
{
	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(rig);
		_exit(0);
	}
	return pid;
}

static inline void rig_wait(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static inline void rig_run(struct ring_rig *rig, void (*run)(struct ring_rig *rig))
{
	rig_wait(rig_start(rig, run));
}

/* ---- the reader --------------------------------------------------------------------------------------------------- */

struct rig_event {
	int32_t tid;
	unsigned kind, flags;
	uint64_t time_ns;
	union {
		struct trace_ring_range range;
		struct trace_ring_call call;
		struct trace_ring_memory memory;
		struct trace_ring_work work;
	};
};

struct rig_events {
	struct rig_event *all;
	size_t n, room;
};

/* A text of the slot's arena, with a NUL, valid until the next four; "" for offset 0. */
static inline const char *rig_text(struct trace_slot *slot, uint32_t offset)
{
	static char texts[4][4100];
	static unsigned next;
	char *const text = texts[next++ % 4];
	struct trace_text head = { 0 };

	if (offset) {
		const char *const at = (const char *) slot + TRACE_ARENA_AT + (size_t) offset * 8;

		assert_true(offset < TRACE_ARENA_BYTES / 8);
		memcpy(&head, at, sizeof(head));
		assert_int_equal(head.type, 0);
		assert_true(head.len <= 4000);
		memcpy(text, at + sizeof(head), head.len);
	}
	text[head.len] = '\0';
	return text;
}

static inline void rig_add(struct rig_events *to, const struct rig_event *e)
{
	if (to->n == to->room) {
		to->room = to->room ? 2 * to->room : 1024;
		to->all = realloc(to->all, to->room * sizeof(*to->all));
		assert_non_null(to->all);
	}
	to->all[to->n++] = *e;
}

/* The events of a chunk from a unit on, as long as they are published. Returns the unit after them. */
static inline unsigned rig_read_chunk(
	struct trace_slot *slot, unsigned chunk, uint32_t generation, unsigned unit, struct rig_events *to)
{
	char *const base = (char *) slot + TRACE_CHUNKS_AT + (size_t) chunk * TRACE_CHUNK_BYTES;

	while (unit < RIG_UNITS) {
		struct trace_ring_head *const head =
			(struct trace_ring_head *) (void *) (base + (size_t) unit * TRACE_UNIT_BYTES);
		struct rig_event e = { 0 };
		size_t bytes;

		if (atomic_load_explicit(&head->seq, memory_order_acquire) != TRACE_SEQ(generation, unit))
			break;
		bytes = trace_ring_bytes(head->kind);
		if (bytes == 0 || unit + bytes / TRACE_UNIT_BYTES > RIG_UNITS)
			break;
		e.tid = atomic_load(&slot->chunks[chunk].tid);
		e.kind = head->kind;
		e.flags = head->flags;
		e.time_ns = head->time_ns;
		memcpy(&e.range, head + 1, bytes - sizeof(*head));
		rig_add(to, &e);
		unit += (unsigned) (bytes / TRACE_UNIT_BYTES);
	}
	return unit;
}

/* All events of a slot that are there now, chunk after chunk in the order of their claims. */
static inline void rig_read(struct trace_slot *slot, struct rig_events *to)
{
	uint64_t done = 0;

	to->n = 0;
	for (;;) {
		uint64_t next = UINT64_MAX;
		unsigned chunk = 0;

		for (unsigned i = 0; i < TRACE_CHUNKS; i++) {
			const uint64_t order = slot->chunks[i].order;

			if (order > done && order < next) {
				next = order;
				chunk = i;
			}
		}
		if (next == UINT64_MAX)
			break;
		(void) rig_read_chunk(slot, chunk, slot->chunks[chunk].generation, 0, to);
		done = next;
	}
}

static inline uint64_t rig_lost(const struct trace_slot *slot)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < sizeof(slot->lost) / sizeof(slot->lost[0]); i++)
		sum += slot->lost[i];
	return sum;
}
