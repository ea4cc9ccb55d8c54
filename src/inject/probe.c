/* SPDX-License-Identifier: MIT */
#include "probe.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arena.h"
#include "attach.h"

enum {
	UNITS = TRACE_CHUNK_BYTES / TRACE_UNIT_BYTES,
	TIMED = 64, /* one event of so many is timed */
	TIMED_NS = 20000, /* more is not the probe's: the thread was interrupted */
	NO_CHUNK = 0xffff,
	CLAIM_TRIES = 1000, /* other processes may write states at random */
};

/* What a process has attached. It lies in memory that the kernel zeroes in a child, however that was forked,
 * so that a child can never take its parent's slot for its own. */
struct process {
	_Atomic uint32_t generation;                   /* 0: a new process */
	_Atomic int is_refused;                        /* no slot was free, or could be mapped: asked once */
	const _Atomic uint32_t *_Atomic layers;        /* NULL: not attached; in the ring, or nothing */
	const _Atomic uint32_t *_Atomic layers_off;    /* in the slot, or nothing */
	struct trace_ring *_Atomic ring;               /* NULL: none */
	struct trace_slot *_Atomic slot;               /* NULL: none yet */
};

/* The chunk of a thread, and the next place in it, are one word: a signal handler that writes events too
 * takes the next place, and may even move the thread to another chunk. */
struct thread {
	uint32_t generation; /* the process's; else the rest is that of a parent, or unused */
	uint32_t at;         /* chunk << 16 | unit of the next event; may be past the end */
	int32_t tid;
	uint16_t leaving; /* a chunk, plus 1: full, but an event below in the stack is not yet written into it */
	uint8_t writing;  /* events begun: 2 in a signal handler that interrupted one */
	uint8_t is_registered;
	uint8_t has_lost; /* an event since the last one that was written */
	uint8_t events[4]; /* of each layer, modulo TIMED */
};

static const _Atomic uint32_t nothing;
static struct process at_first;                     /* where there is no such memory */
static struct process *_Atomic process_memory;
static _Atomic uint32_t generations;                /* of this process and its ancestors */
static _Atomic unsigned thread_end_key;             /* plus 1; 0: none yet */
static _Thread_local struct thread this_thread __attribute__((tls_model("initial-exec"))) = {
	.at = (uint32_t) NO_CHUNK << 16 | UNITS
};

/* ---- the process -------------------------------------------------------------------------------------------------- */

static void in_child(void)
{
	struct process *const p = atomic_load(&process_memory);

	if (p)
		memset((void *) p, 0, sizeof(*p));
}

static struct process *process_begin(void)
{
	struct process *none = NULL, *p;
	const int error = errno;
	void *page = mmap(NULL, TRACE_HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page != MAP_FAILED)
		(void) madvise(page, TRACE_HEAD_BYTES, MADV_WIPEONFORK); /* Linux 4.14; else in_child alone */
	p = page == MAP_FAILED ? &at_first : page;
	if (atomic_compare_exchange_strong(&process_memory, &none, p)) {
		(void) pthread_atfork(NULL, NULL, in_child);
	} else {
		if (page != MAP_FAILED)
			(void) munmap(page, TRACE_HEAD_BYTES);
		p = none;
	}
	errno = error;
	return p;
}

static inline struct process *process(void)
{
	struct process *const p = atomic_load_explicit(&process_memory, memory_order_acquire);

	return __builtin_expect(p != NULL, 1) ? p : process_begin();
}

unsigned probe_generation(void)
{
	struct process *const p = process();
	uint32_t generation = atomic_load_explicit(&p->generation, memory_order_acquire);

	if (__builtin_expect(generation == 0, 0)) {
		const uint32_t next = atomic_load(&generations) + 1;

		if (atomic_compare_exchange_strong(&p->generation, &generation, next)) {
			atomic_store(&generations, next);
			generation = next;
		}
	}
	return generation;
}

/* Several threads may attach at once: the first to finish counts. */
static const _Atomic uint32_t *attach(struct process *p)
{
	struct trace_ring *ring = attach_ring(), *first = NULL;
	const _Atomic uint32_t *layers;

	(void) probe_generation();
	if (ring && !atomic_compare_exchange_strong(&p->ring, &first, ring)) {
		attach_unmap_ring(ring);
		ring = first;
	}
	layers = NULL;
	(void) atomic_compare_exchange_strong(&p->layers_off, &layers, &nothing);
	layers = NULL;
	(void) atomic_compare_exchange_strong(&p->layers, &layers, ring ? &ring->layers : &nothing);
	return atomic_load(&p->layers);
}

/* 0 also in a child that a signal handler forked a moment ago, where the address is NULL. */
static inline uint32_t word_at(const _Atomic uint32_t *_Atomic *where)
{
	const _Atomic uint32_t *const word = atomic_load_explicit(where, memory_order_acquire);

	return __builtin_expect(word != NULL, 1) ? atomic_load_explicit(word, memory_order_relaxed) : 0;
}

bool probe_follows(unsigned layer)
{
	struct process *const p = process();

	if (__builtin_expect(!atomic_load_explicit(&p->layers, memory_order_relaxed), 0))
		(void) attach(p);
	return word_at(&p->layers) & ~word_at(&p->layers_off) & layer;
}

bool probe_wants(unsigned layer)
{
	struct process *const p = process();
	const struct trace_ring *ring;
	uint32_t wanted;

	(void) probe_follows(layer);
	ring = atomic_load(&p->ring);
	if (!ring || atomic_load(&p->is_refused))
		return false;
	wanted = atomic_load_explicit(&ring->layers_wanted, memory_order_relaxed);
	return wanted & ~word_at(&p->layers_off) & layer;
}

/* ---- the slot ----------------------------------------------------------------------------------------------------- */

static void refuse(struct process *p, _Atomic uint32_t *count)
{
	if (atomic_exchange(&p->is_refused, 1) == 0)
		(void) atomic_fetch_add(count, 1);
	atomic_store(&p->layers, &nothing);
}

/* Takes a free slot in the ring; NULL: there is none, or it cannot be mapped. */
static struct trace_slot *take_slot(struct trace_ring *ring, unsigned *n)
{
	for (*n = 0; *n < TRACE_SLOTS; ++*n) {
		uint32_t state = TRACE_SLOT_FREE;
		struct trace_slot *slot;

		if (atomic_load_explicit(&ring->slots[*n], memory_order_relaxed) != state)
			continue;
		if (!atomic_compare_exchange_strong(&ring->slots[*n], &state, TRACE_SLOT_TAKEN))
			continue;
		slot = attach_slot(*n);
		if (!slot)
			atomic_store(&ring->slots[*n], TRACE_SLOT_FREE);
		return slot;
	}
	return NULL;
}

static struct trace_slot *claim_slot(struct process *p)
{
	struct trace_ring *const ring = atomic_load(&p->ring);
	struct trace_slot *slot, *first = NULL;
	unsigned n;

	if (!ring || atomic_load(&p->is_refused))
		return NULL;
	slot = take_slot(ring, &n);
	if (!slot) {
		refuse(p, n < TRACE_SLOTS ? &ring->unmapped : &ring->refused);
		return atomic_load(&p->slot);
	}
	arena_begin(slot);
	attach_identify(slot);
	if (!atomic_compare_exchange_strong(&p->slot, &first, slot)) {
		/* Another thread was faster: as it was, all zero. */
		memset((void *) slot, 0, sizeof(*slot));
		attach_unmap_slot(slot);
		atomic_store(&ring->slots[n], TRACE_SLOT_FREE);
		return first;
	}
	atomic_store(&p->layers_off, &slot->layers_off);
	atomic_store_explicit(&slot->version, TRACE_RING_VERSION, memory_order_release);
	return slot;
}

static inline struct trace_slot *slot_of(struct process *p)
{
	struct trace_slot *const slot = atomic_load_explicit(&p->slot, memory_order_acquire);

	if (__builtin_expect(slot != NULL, 1))
		return slot;
	if (!atomic_load(&p->layers))
		(void) attach(p);
	return claim_slot(p);
}

/* ---- chunks ------------------------------------------------------------------------------------------------------- */

static struct trace_ring_head *event_at(struct trace_slot *slot, unsigned chunk, unsigned unit)
{
	return (struct trace_ring_head *) (void *) ((char *) slot + TRACE_CHUNKS_AT +
						    (size_t) chunk * TRACE_CHUNK_BYTES +
						    (size_t) unit * TRACE_UNIT_BYTES);
}

/* Events of a chunk that the recorder has not read. */
static unsigned unread(struct trace_slot *slot, unsigned chunk, uint32_t generation, uint32_t read)
{
	unsigned unit = read >> 11 == TRACE_READ(generation, 0) >> 11 ? read & (2 * UNITS - 1) : 0, n = 0;

	while (unit < UNITS) {
		const struct trace_ring_head *const head = event_at(slot, chunk, unit);
		unsigned units = 1;

		if (atomic_load_explicit(&head->seq, memory_order_acquire) == TRACE_SEQ(generation, unit)) {
			units = (unsigned) trace_ring_bytes(head->kind) / TRACE_UNIT_BYTES;
			units += units == 0;
			n++;
		}
		unit += units;
	}
	return n;
}

/* The chunk to take: a free one, else the oldest of the full ones; NO_CHUNK: all belong to threads. */
static unsigned chunk_to_take(struct trace_slot *slot, uint32_t *state, uint64_t *order)
{
	unsigned oldest = NO_CHUNK;

	*order = UINT64_MAX;
	*state = TRACE_CHUNK_FULL;
	for (unsigned i = 0; i < TRACE_CHUNKS; i++) {
		struct trace_chunk *const c = &slot->chunks[i];
		const uint32_t found = atomic_load_explicit(&c->state, memory_order_relaxed);
		const uint64_t its_order = atomic_load_explicit(&c->order, memory_order_relaxed);

		if (found == TRACE_CHUNK_FREE) {
			*state = found;
			return i;
		}
		if (found == TRACE_CHUNK_FULL && its_order < *order) {
			*order = its_order;
			oldest = i;
		}
	}
	return oldest;
}

static void release_chunk(struct trace_slot *slot, unsigned chunk)
{
	uint32_t owned = TRACE_CHUNK_OWNED;

	if (chunk < TRACE_CHUNKS)
		(void) atomic_compare_exchange_strong_explicit(&slot->chunks[chunk].state, &owned,
			TRACE_CHUNK_FULL, memory_order_release, memory_order_relaxed);
}

static unsigned claim_chunk(struct trace_slot *slot, int32_t tid)
{
	for (unsigned tries = 0; tries < CLAIM_TRIES; tries++) {
		uint32_t state, generation, read;
		uint64_t order, lost;
		const unsigned chunk = chunk_to_take(slot, &state, &order);
		struct trace_chunk *const c = &slot->chunks[chunk == NO_CHUNK ? 0 : chunk];

		if (chunk == NO_CHUNK)
			break;
		if (!atomic_compare_exchange_strong(&c->state, &state, TRACE_CHUNK_OWNED))
			continue;
		if (state == TRACE_CHUNK_FULL && atomic_load(&c->order) != order) {
			release_chunk(slot, chunk); /* taken and filled meanwhile: the oldest no more */
			continue;
		}
		/* All stores after the exchange are releases: a recorder that saw one of them sees the exchange. */
		generation = atomic_load_explicit(&c->generation, memory_order_relaxed);
		read = atomic_exchange(&c->read, TRACE_READ(generation + 1, 0));
		/* Of a free one, too: it may have been filled anew between the recorder's read and its release. */
		lost = generation > 0 ? unread(slot, chunk, generation, read) : 0;
		if (lost)
			(void) atomic_fetch_add(&slot->lost[TRACE_LOST_OVERWRITTEN], lost);
		atomic_store_explicit(&c->tid, tid, memory_order_release);
		atomic_store_explicit(
			&c->order, atomic_fetch_add(&slot->claims, 1) + 1, memory_order_release);
		atomic_store_explicit(&c->generation, generation + 1, memory_order_release);
		return chunk;
	}
	return NO_CHUNK;
}

/* ---- a thread's place --------------------------------------------------------------------------------------------- */

/* Adds and returns what was there, undivided as a signal handler of this thread sees it. A locked one costs
 * as much as the rest of an event. */
static inline uint32_t take_units(uint32_t *at, uint32_t units)
{
#if defined(__x86_64__)
	__asm__ volatile("xaddl %0, %1" : "+r"(units), "+m"(*at) : : "memory", "cc");
	return units;
#else
	return __atomic_fetch_add(at, units, __ATOMIC_RELAXED);
#endif
}

static inline bool place_replace(struct thread *t, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&t->at, &from, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* The thread leaves its chunk. In a signal handler that interrupted an event, the first one that it leaves may
 * hold the place of that event: it is released when the event is written. */
static void leave_chunk(struct thread *t, struct trace_slot *slot)
{
	const uint32_t at = __atomic_load_n(&t->at, __ATOMIC_RELAXED);
	const unsigned chunk = at >> 16;

	if (chunk == NO_CHUNK || !place_replace(t, at, (uint32_t) NO_CHUNK << 16 | UNITS))
		return; /* or a signal handler has left it */
	if (t->writing > 1 && !t->leaving)
		t->leaving = (uint16_t) (chunk + 1);
	else
		release_chunk(slot, chunk);
}

/* Another chunk for this thread. False: all belong to other threads. */
static bool next_chunk(struct thread *t, struct trace_slot *slot)
{
	uint32_t at;
	unsigned chunk;

	at = __atomic_load_n(&t->at, __ATOMIC_RELAXED);
	if ((at & 0xffff) + 3 <= UNITS)
		return true; /* a signal handler has found one meanwhile */
	leave_chunk(t, slot);
	chunk = claim_chunk(slot, t->tid);
	at = __atomic_load_n(&t->at, __ATOMIC_RELAXED);
	if (chunk == NO_CHUNK) {
		if (at >> 16 == NO_CHUNK) /* what was taken in vain must not add up */
			(void) place_replace(t, at, (uint32_t) NO_CHUNK << 16 | UNITS);
		return at >> 16 != NO_CHUNK;
	}
	if (at >> 16 == NO_CHUNK && place_replace(t, at, chunk << 16))
		return true;
	release_chunk(slot, chunk);
	return true;
}

static void thread_ends(void *unused)
{
	struct thread *const t = &this_thread;
	struct process *const p = process();
	struct trace_slot *const slot = atomic_load(&p->slot);

	(void) unused;
	t->is_registered = 0;
	if (slot && t->generation == atomic_load(&p->generation)) {
		leave_chunk(t, slot);
		if (t->leaving)
			release_chunk(slot, t->leaving - 1u);
		t->leaving = 0;
	}
}

/* The first event of a thread; in a child, of the thread that called fork. */
static void thread_begins(struct thread *t)
{
	const int error = errno;

	if (t->generation > 0) { /* of the parent */
		t->at = (uint32_t) NO_CHUNK << 16 | UNITS;
		t->leaving = 0;
	}
	t->has_lost = 0;
	memset(t->events, 0, sizeof(t->events));
	t->tid = (int32_t) syscall(SYS_gettid);
	__atomic_store_n(&t->generation, probe_generation(), __ATOMIC_RELAXED);
	errno = error;
}

/* thread_ends is called when it ends, also if it writes again while it ends. */
static void register_thread(struct thread *t)
{
	const int error = errno;
	unsigned key = atomic_load(&thread_end_key);
	pthread_key_t made;

	if (key == 0 && pthread_key_create(&made, thread_ends) == 0) {
		if (atomic_compare_exchange_strong(&thread_end_key, &key, made + 1))
			key = made + 1;
		else
			(void) pthread_key_delete(made);
	}
	if (key > 0) {
		t->is_registered = 1;
		(void) pthread_setspecific(key - 1, t);
	}
	errno = error;
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

/* An event after its header has 2 words (BRIEF), or 4. */
enum {
	BRIEF = 2,
	FULL = 4,
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define COLD          static __attribute__((noinline, cold))

/* The words first, the header's with the seq last; each a release, since the recorder may still be reading
 * what the place held before (struct trace_chunk.read). */
ALWAYS_INLINE void publish(struct trace_slot *slot, uint32_t at, uint32_t kind_and_flags, uint64_t time_ns,
	const uint64_t *body, unsigned n)
{
	const unsigned chunk = at >> 16, unit = at & 0xffff;
	uint64_t *const words = (uint64_t *) (void *) event_at(slot, chunk, unit);
	const uint32_t generation =
		atomic_load_explicit(&slot->chunks[chunk].generation, memory_order_relaxed);
	const union {
		uint32_t part[2];
		uint64_t word;
	} head = { .part = { TRACE_SEQ(generation, unit), kind_and_flags } };

	__atomic_store_n(&words[1], time_ns, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < n; i++)
		__atomic_store_n(&words[2 + i], body[i], __ATOMIC_RELEASE);
	__atomic_store_n(&words[0], head.word, __ATOMIC_RELEASE);
}

/* A place in the thread's next chunk, after units were taken of one that has not so many; false: none. */
COLD bool place_in_next(
	struct thread *t, struct trace_slot *slot, unsigned units, uint32_t *at)
{
	do {
		if (!t->is_registered)
			register_thread(t);
		if (!next_chunk(t, slot)) {
			(void) atomic_fetch_add(&slot->lost[TRACE_LOST_THREADS], 1);
			t->has_lost = 1;
			return false;
		}
		*at = take_units(&t->at, units);
	} while ((*at & 0xffff) + units > UNITS);
	return true;
}

/* The slot, and the thread's own state, at the first event of a process or a thread. */
COLD struct trace_slot *first_event(struct thread *t)
{
	struct trace_slot *const slot = slot_of(process());

	if (slot && t->generation != probe_generation())
		thread_begins(t);
	return slot;
}

COLD void release_left(struct thread *t, struct trace_slot *slot)
{
	release_chunk(slot, t->leaving - 1u);
	t->leaving = 0;
}

/* Every TIMED events of a thread and layer: after the first one, the layer is known to be used; the last one is
 * timed. began: when the work for it began. An event takes less than a microsecond; where other programs
 * want the CPU, some measurements have a time slice of theirs in them. */
COLD void count_event(
	struct trace_slot *slot, unsigned layer, unsigned number, uint64_t began)
{
	const uint64_t now = number % TIMED ? probe_now() : 0, ns = now > began ? now - began : 0;

	if (number % TIMED == 0) {
		(void) atomic_fetch_or_explicit(&slot->layers_used, 1u << layer, memory_order_relaxed);
		return;
	}
	(void) atomic_fetch_add_explicit(
		&slot->timed_ns[layer], ns < TIMED_NS ? ns : TIMED_NS, memory_order_relaxed);
	(void) atomic_fetch_add_explicit(&slot->timed[layer], 1, memory_order_relaxed);
}

/* layer: bit number; body: n words, BRIEF or FULL. */
ALWAYS_INLINE void write_event(unsigned layer, unsigned kind, unsigned flags, uint64_t time_ns,
	const uint64_t *body, unsigned n, uint64_t began)
{
	const unsigned units = 1 + n / 2;
	struct thread *const t = &this_thread;
	struct process *const p = atomic_load_explicit(&process_memory, memory_order_acquire);
	struct trace_slot *slot = p ? atomic_load_explicit(&p->slot, memory_order_acquire) : NULL;
	const uint32_t generation = p ? atomic_load_explicit(&p->generation, memory_order_relaxed) : 0;
	unsigned number;
	uint32_t at;

	if (__builtin_expect(!slot || t->generation != generation, 0)) {
		slot = first_event(t);
		if (!slot)
			return;
	}
	t->writing++;
	atomic_signal_fence(memory_order_seq_cst);
	at = take_units(&t->at, units);
	if (__builtin_expect((at & 0xffff) + units <= UNITS, 1) || place_in_next(t, slot, units, &at)) {
		if (__builtin_expect(t->has_lost, 0)) {
			flags |= TRACE_RING_AFTER_LOSS;
			t->has_lost = 0;
		}
		/* As struct trace_ring_head has them. */
		const union {
			uint16_t part[2];
			uint32_t word;
		} kind_and_flags = { .part = { (uint16_t) kind, (uint16_t) flags } };

		publish(slot, at, kind_and_flags.word, time_ns, body, n);
	}
	atomic_signal_fence(memory_order_seq_cst);
	t->writing--;
	if (__builtin_expect(t->leaving, 0) && t->writing == 0)
		release_left(t, slot);
	number = t->events[layer]++;
	if (__builtin_expect((number + 1) % TIMED < 2, 0))
		count_event(slot, layer, number, began);
}

enum {
	RANGES,
	MEMORY,
	LAUNCHES,
	KERNELS
}; /* bit numbers of enum trace_layer */

void probe_range(enum trace_ring_kind kind, uint64_t time_ns, uint32_t name, uint32_t domain, uint64_t id)
{
	const struct trace_ring_range range = { name, domain, id };
	uint64_t body[BRIEF];

	memcpy(body, &range, sizeof(body));
	write_event(RANGES, kind, 0, time_ns, body, BRIEF, time_ns);
}

void probe_call(
	enum trace_ring_kind kind, uint64_t time_ns, uint32_t name, uint64_t correlation, unsigned flags)
{
	const struct trace_ring_call call = { .name = name, .correlation = correlation };
	uint64_t body[BRIEF];

	memcpy(body, &call, sizeof(body));
	write_event(LAUNCHES, kind, flags, time_ns, body, BRIEF, time_ns);
}

void probe_memory(uint64_t time_ns, unsigned flags, const struct trace_ring_memory *memory)
{
	uint64_t body[FULL];

	memcpy(body, memory, sizeof(body));
	write_event(MEMORY, TRACE_RING_MEMORY, flags, time_ns, body, FULL, time_ns);
}

void probe_work(uint64_t start_ns, unsigned flags, const struct trace_ring_work *work)
{
	/* Its time is the device's: the writing alone can be timed. */
	const uint64_t began = (this_thread.events[KERNELS] + 1) % TIMED == 0 ? probe_now() : 0;
	uint64_t body[FULL];

	memcpy(body, work, sizeof(body));
	write_event(KERNELS, TRACE_RING_WORK, flags, start_ns, body, FULL, began);
}

void probe_lost(enum trace_loss cause, uint64_t n)
{
	struct trace_slot *const slot = slot_of(process());

	if (slot)
		(void) atomic_fetch_add(&slot->lost[cause], n);
}

void probe_in_flight(int64_t n)
{
	struct trace_slot *const slot = slot_of(process());

	if (slot)
		(void) atomic_fetch_add_explicit(&slot->in_flight, n, memory_order_relaxed);
}

void probe_not_followed(unsigned layers, enum trace_why why, const char *detail)
{
	struct trace_slot *const slot = slot_of(process());

	if (!slot)
		return;
	if (detail)
		atomic_store(&slot->detail, probe_text0(detail));
	for (unsigned i = 0; i < sizeof(slot->why) / sizeof(slot->why[0]); i++) {
		if (layers & 1u << i)
			atomic_store(&slot->why[i], (uint32_t) why);
	}
}

/* ---- texts -------------------------------------------------------------------------------------------------------- */

static uint32_t put(const void *bytes, size_t len)
{
	struct trace_slot *const slot = slot_of(process());
	const uint32_t offset = slot ? arena_put(slot, ARENA_TEXT, bytes, len, ARENA_KEEP_OF_TEXTS) : 0;

	if (__builtin_expect(slot && !offset, 0))
		(void) atomic_fetch_add(&slot->lost[TRACE_LOST_NAMES], 1);
	return offset;
}

uint32_t probe_text(const char *text, size_t len)
{
	return put(text, len < PROBE_TEXT_BYTES ? len : PROBE_TEXT_BYTES);
}

uint32_t probe_text0(const char *text)
{
	return text ? put(text, strnlen(text, PROBE_TEXT_BYTES)) : 0;
}

/* Appends a character as UTF-8 (U+FFFD for what is none) and returns the bytes. */
static size_t utf8(uint32_t c, char *at)
{
	if (c >= 0xd800 && (c < 0xe000 || c > 0x10ffff))
		c = 0xfffd;
	if (c < 0x80) {
		at[0] = (char) c;
		return 1;
	}
	if (c < 0x800) {
		at[0] = (char) (0xc0 | c >> 6);
		at[1] = (char) (0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		at[0] = (char) (0xe0 | c >> 12);
		at[1] = (char) (0x80 | (c >> 6 & 0x3f));
		at[2] = (char) (0x80 | (c & 0x3f));
		return 3;
	}
	at[0] = (char) (0xf0 | c >> 18);
	at[1] = (char) (0x80 | (c >> 12 & 0x3f));
	at[2] = (char) (0x80 | (c >> 6 & 0x3f));
	at[3] = (char) (0x80 | (c & 0x3f));
	return 4;
}

size_t probe_utf8(const wchar_t *text, char *ret, size_t bytes)
{
	size_t len = 0;

	for (; *text && len + 4 <= bytes; text++)
		len += utf8((uint32_t) *text, ret + len);
	return len;
}

uint32_t probe_wide(const wchar_t *text)
{
	char bytes[PROBE_TEXT_BYTES];

	return text ? put(bytes, probe_utf8(text, bytes, sizeof(bytes))) : 0;
}

/* Without its shape where there is no room for that, then without anything but its kind and device. */
uint32_t probe_site(const struct trace_ring_site *site)
{
	struct trace_slot *const slot = slot_of(process());
	const bool has_shape = site->grid[0] || site->block[0] || site->registers || site->shared_static ||
			       site->shared_dynamic;
	struct trace_ring_site plain = *site;
	uint32_t offset;

	if (!slot)
		return 0;
	offset = arena_put(
		slot, ARENA_SITE, site, sizeof(*site), has_shape ? ARENA_KEEP_OF_SHAPES : ARENA_KEEP_NONE);
	if (__builtin_expect(offset != 0, 1))
		return offset;
	/* Without a name it was counted when that found no room. */
	if (site->name)
		(void) atomic_fetch_add(&slot->lost[TRACE_LOST_NAMES], 1);
	if (has_shape) {
		memset(plain.grid, 0, sizeof(plain.grid));
		memset(plain.block, 0, sizeof(plain.block));
		plain.registers = plain.shared_static = plain.shared_dynamic = 0;
		offset = arena_put(slot, ARENA_SITE, &plain, sizeof(plain), ARENA_KEEP_NONE);
	}
	return offset ? offset : trace_site_unnamed(site->kind, site->device);
}

/* ---- time --------------------------------------------------------------------------------------------------------- */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	(void) clock_gettime(clock, &t);
	return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

uint64_t probe_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Of several attempts, the one with the least time between its two reads of one clock. */
int64_t probe_mono_minus_real(void)
{
	uint64_t least = UINT64_MAX;
	int64_t found = 0;

	for (int i = 0; i < 5; i++) {
		const uint64_t before = probe_now(), real = clock_ns(CLOCK_REALTIME), after = probe_now();

		if (after - before < least) {
			least = after - before;
			found = (int64_t) (before + (after - before) / 2) - (int64_t) real;
		}
	}
	return found;
}
