/* SPDX-License-Identifier: MIT
 *
 * What a process of a traced job may write into the memory that it shares with the recorder: the head of its slot,
 * then texts, then chunks of events, each cut to what one input can fill.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/root.h"
#include "model/trace_ring.h"
#include "source/trace/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	TEXTS = 1024, /* bytes of an input that become the begin of the arena */
	EVENTS = 1024, /* and of each chunk */
};

struct seen {
	uint32_t processes, sites;
	enum trace_kind kinds[1 << 16];
};

static int on_process(void *ctx, const struct trace_process *process, uint32_t *ret)
{
	struct seen *s = ctx;

	if (!process->name || strlen(process->name) > 15 || process->pid < -1)
		abort();
	*ret = ++s->processes;
	return 0;
}

static int on_site(void *ctx, const struct trace_site *site, uint32_t *ret)
{
	struct seen *s = ctx;

	if (site->kind >= TRACE_KIND_COUNT || site->process == 0 || site->process > s->processes || site->tid < -1 ||
		site->device < -1 || site->source >= TRACE_MEMORY_COUNT || site->target >= TRACE_MEMORY_COUNT ||
		strlen(site->name) > TRACE_ARENA_BYTES || strlen(site->domain) > TRACE_ARENA_BYTES ||
		strlen(site->device_name) > TRACE_ARENA_BYTES || s->sites + 1 >= 1 << 16)
		abort();
	*ret = ++s->sites;
	s->kinds[*ret] = site->kind;
	return 0;
}

static int on_event(void *ctx, const struct trace_event *event)
{
	const struct seen *s = ctx;

	if (event->site == 0 || event->site > s->sites || event->kind != s->kinds[event->site] ||
		(event->end_ns < event->start_ns && !(event->flags & TRACE_INVALID)))
		abort();
	return 0;
}

static int on_thread(void *ctx, uint32_t process, int64_t tid, const char *name)
{
	const struct seen *s = ctx;

	(void) tid;
	if (process == 0 || process > s->processes || !*name)
		abort();
	return 0;
}

static int on_lost(void *ctx, uint32_t process, enum trace_loss cause, uint64_t n)
{
	const struct seen *s = ctx;

	if (process > s->processes || cause >= TRACE_LOSS_COUNT || n == 0)
		abort();
	return 0;
}

static int on_window(void *ctx, uint64_t begin_ns, uint64_t end_ns, const char *why)
{
	(void) ctx;
	if (begin_ns > end_ns || !*why)
		abort();
	return 0;
}

/* Takes up to n bytes of the input to an address. */
static void move_to(void *to, size_t n, const uint8_t **data, size_t *size)
{
	const size_t some = *size < n ? *size : n;

	if (some > 0)
		memcpy(to, *data, some);
	*data += some;
	*size -= some;
}

static void fill(char *slot, const uint8_t *data, size_t size)
{
	struct trace_slot *head = (struct trace_slot *) (void *) slot;

	move_to(slot, TRACE_HEAD_BYTES, &data, &size);
	move_to(slot + TRACE_ARENA_AT, TEXTS, &data, &size);
	for (unsigned i = 0; i < TRACE_CHUNKS && size > 0; i++) {
		move_to(slot + TRACE_CHUNKS_AT + (size_t) i * TRACE_CHUNK_BYTES, EVENTS, &data, &size);
		if (head->chunks[i].generation == 0)
			head->chunks[i].generation = 1;
		if (head->chunks[i].state == TRACE_CHUNK_FREE)
			head->chunks[i].state = TRACE_CHUNK_FULL;
		if (head->chunks[i].read == 0)
			head->chunks[i].read = TRACE_READ(head->chunks[i].generation, 0);
	}
	head->version = TRACE_RING_VERSION;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct root root;
	static bool is_open;
	const struct trace_reader_options options = { .root = &root, .layers = TRACE_ALL };
	static struct seen seen;
	const struct trace_sink sink = { on_process, on_site, on_event, on_thread, on_lost, on_window, NULL, &seen, NULL, NULL };
	struct trace_reader *reader;
	char note[TRACE_NOTE_BYTES], *map;

	if (!is_open && root_open("/", &root, NULL) < 0)
		abort();
	is_open = true;
	seen.processes = seen.sites = 0;
	if (trace_reader_new(&options, &reader, NULL) < 0)
		return 0;
	trace_reader_begin(reader, clock_boot_ns(), 1);
	map = mmap(NULL, TRACE_HEAD_BYTES + TRACE_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, trace_reader_fd(reader), 0);
	if (map == MAP_FAILED)
		abort();
	((struct trace_ring *) (void *) map)->slots[0] = TRACE_SLOT_TAKEN;
	fill(map + TRACE_HEAD_BYTES, data, size);
	for (int i = 0; i < 3; i++) {
		if (trace_drain(reader, i == 2 ? TRACE_DRAIN_LAST : TRACE_DRAIN_USUAL, &sink) < 0)
			abort();
		while (trace_reader_note(reader, note)) {
			for (const char *p = note; *p; p++) {
				if ((unsigned char) *p < ' ')
					abort();
			}
		}
		fill(map + TRACE_HEAD_BYTES, data, size);
	}
	(void) munmap(map, TRACE_HEAD_BYTES + TRACE_SLOT_BYTES);
	trace_reader_free(reader);
	return 0;
}
