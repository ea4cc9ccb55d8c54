/* SPDX-License-Identifier: MIT
 *
 * The memory that the probe (inject/, in the job) shares with the recorder (source/trace/): a memory
 * file of the recorder's, sealed against shrinking and growing.
 *
 *     page 0             struct trace_ring: who it belongs to, what to follow, which slots are taken
 *     at TRACE_SLOTS_AT  TRACE_SLOTS slots of TRACE_SLOT_BYTES, one a process: struct trace_slot, its texts, its chunks
 *
 * Slots begin at multiples of 64 KiB, the largest page of the machines that hiwater runs on.
 * A process maps page 0 and its own slot. A thread writes into a chunk of its own, event after event,
 * each published by storing its seq last (release), so that there is no lock and what was completed
 * before SIGKILL is there. Equal texts and sites are stored once in the slot's arena; an event has
 * their offset. The recorder reads while the job runs, gives read chunks back, and never trusts what
 * it reads: any process of the job can write anything here, at any time.
 *
 * Times are CLOCK_MONOTONIC, nanoseconds. Numbers are of the machine's byte order. All words that two
 * sides use are read and written atomically; names of memory orders are those of C11.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_RING_MAGIC   UINT64_C(0x6869776174726163) /* only compared */
#define TRACE_RING_VERSION 3

enum {
	TRACE_SLOTS = 512,
	TRACE_SLOTS_AT = 64 << 10,
	TRACE_SLOT_BYTES = 4 << 20,
	TRACE_HEAD_BYTES = 8 << 10,    /* of the file, and of a slot */
	TRACE_INDEX_BYTES = 64 << 10,  /* of the texts: offsets by hash */
	TRACE_ARENA_BYTES = 696 << 10, /* the texts */
	TRACE_CHUNK_BYTES = 16 << 10,
	TRACE_UNIT_BYTES = 16,         /* events begin at multiples of it */
	TRACE_CHUNKS_AT = TRACE_HEAD_BYTES + TRACE_INDEX_BYTES + TRACE_ARENA_BYTES, /* in a slot */
	TRACE_CHUNKS = (TRACE_SLOT_BYTES - TRACE_CHUNKS_AT) / TRACE_CHUNK_BYTES,
	TRACE_INDEX_CELLS = TRACE_INDEX_BYTES / 4,
};

/* State of a slot in page 0. */
enum {
	TRACE_SLOT_FREE,  /* by the recorder, after it has read the slot of an ended process and zeroed it */
	TRACE_SLOT_TAKEN, /* by a process, compare-and-swap */
};

static inline uint64_t trace_slot_at(unsigned slot)
{
	return TRACE_SLOTS_AT + (uint64_t) slot * TRACE_SLOT_BYTES;
}
#define TRACE_FILE_BYTES trace_slot_at(TRACE_SLOTS)

_Static_assert(TRACE_SLOTS_AT % (64 << 10) == 0 && TRACE_SLOT_BYTES % (64 << 10) == 0, "slots can be mapped");

struct trace_ring {
	uint64_t magic;
	uint32_t version, bytes_of_slot;
	int32_t recorder_pid;
	/* enum trace_layer, by the recorder: what is to be followed now. Kernels are only in it while a
	 * window is open. The probe reads it at each event (relaxed). */
	_Atomic uint32_t layers;
	/* Of the whole run: what to prepare for; 0: the run has ended, and processes that start now do not attach. */
	_Atomic uint32_t layers_wanted;
	_Atomic uint32_t refused;  /* processes that found no free slot */
	_Atomic uint32_t unmapped; /* processes that could not map theirs */
	_Atomic uint32_t slots[TRACE_SLOTS];
};

/* State of a chunk. */
enum {
	TRACE_CHUNK_FREE,  /* never used, or read completely: by the recorder, from FULL */
	TRACE_CHUNK_OWNED, /* a thread writes into it */
	TRACE_CHUNK_FULL,  /* its thread has left it: full, or the thread has ended */
	/* A claim is a compare-and-swap from FREE, else from FULL of the oldest, which is lost as far as it
	 * was not read. */
};

struct trace_chunk {
	_Atomic uint32_t state;
	_Atomic uint32_t generation; /* 1 at the first claim; increased at each, before the first event */
	_Atomic int32_t tid;
	/* TRACE_READ(generation, units): what was read of it. A claim exchanges it for TRACE_READ of its own
	 * generation and 0 before anything else in the chunk changes, and counts the rest as overwritten. The
	 * recorder copies events, then moves it on by compare-and-swap (acq_rel): if that succeeds, the copies
	 * are whole, belong to that generation and tid, and are counted nowhere; if not, it drops them. It reads
	 * chunks of any state: one that it sets free may have been claimed and filled since it looked. */
	_Atomic uint32_t read;
	/* Of claims in the slot, from 1: chunks of a thread are read in this order. */
	_Atomic uint64_t order;
};

struct trace_slot {
	_Atomic uint32_t version;    /* TRACE_RING_VERSION, stored last (release): the rest is filled in */
	_Atomic int32_t pid;         /* as the process sees it */
	_Atomic uint64_t pid_namespace; /* inode of /proc/self/ns/pid; 0: unknown */
	_Atomic uint64_t start_ticks;   /* field 22 of /proc/self/stat; 0: unknown */
	/* enum trace_layer, by the recorder: not followed in this process any more, since it cost too much */
	_Atomic uint32_t layers_off;
	_Atomic uint32_t arena_used; /* bytes reserved; may exceed TRACE_ARENA_BYTES when it is full */
	_Atomic uint64_t claims;
	/* events lost, by enum trace_loss; of those overwritten: what the recorder had not read */
	_Atomic uint64_t lost[8];
	/* The probe times 1 event of 64 of each layer (index: bit number); sums of those, and their number. */
	_Atomic uint64_t timed_ns[4], timed[4];
	_Atomic uint32_t layers_used; /* enum trace_layer: those with an event */
	/* enum trace_why, by layer: why the probe does not follow it here; 0: it does, or it was not asked */
	_Atomic uint32_t why[4];
	_Atomic uint32_t detail;     /* offset of a text in the arena that explains why: a version, a name; 0: none */
	struct trace_chunk chunks[TRACE_CHUNKS];
	/* Kernels, copies and fills that were launched while a window was open, and not written yet; below 0: none.
	 * What it is when the process has ended is lost. */
	_Atomic int64_t in_flight;
};

_Static_assert(sizeof(struct trace_ring) <= TRACE_HEAD_BYTES, "page 0");
_Static_assert(sizeof(struct trace_slot) <= TRACE_HEAD_BYTES, "the head of a slot");

/* Offsets in a slot. */
enum {
	TRACE_INDEX_AT = TRACE_HEAD_BYTES,
	TRACE_ARENA_AT = TRACE_INDEX_AT + TRACE_INDEX_BYTES,
};

/* Why a layer is not followed in a process. */
enum trace_why {
	TRACE_WHY_NONE,
	TRACE_WHY_SUBSCRIBER,   /* another tool has the GPU's tracing interface */
	TRACE_WHY_NO_LIBRARY,   /* libcupti was not found */
	TRACE_WHY_UNSUPPORTED,  /* the library or the driver does not have it */
	TRACE_WHY_FORKED,       /* a child of fork without exec cannot use CUDA's tracing */
	TRACE_WHY_INNER,        /* the probe found its own state inconsistent */
};

/* A text or a site in the arena, at offset * 8 from its begin, found through the index; offset 0 is not
 * used (none, or no room). */
struct trace_text {
	uint32_t hash;
	uint16_t len;  /* bytes that follow, without a NUL; longer texts are cut */
	uint16_t type; /* 0: a text; 1: struct trace_ring_site */
};

/* Kernels, copies, fills and allocations of a site; the meanings are those of struct trace_site. */
struct trace_ring_site {
	uint32_t kind;   /* enum trace_kind */
	uint32_t name, device_name; /* offsets in the arena */
	int32_t device;
	uint64_t context, stream;
	uint32_t grid[3], block[3];
	uint32_t registers, shared_static, shared_dynamic;
	uint8_t source, target; /* enum trace_memory */
	uint8_t unused[2];
};

/* In place of a site's offset: there was no room for it, and no more is known than its kind and its device (below
 * 0: unknown). Events are written all the same. */
#define TRACE_SITE_UNNAMED 0x80000000u
static inline uint32_t trace_site_unnamed(unsigned kind, int32_t device)
{
	const uint32_t of_device = device >= 0 && device < 0xffff ? (uint32_t) device + 1 : 0;

	return TRACE_SITE_UNNAMED | (kind & 0xf) << 16 | of_device;
}

/* Kinds of events. The first byte of the body follows the header. */
enum trace_ring_kind {
	TRACE_RING_NONE,
	TRACE_RING_PUSH,    /* 32 bytes: struct trace_ring_range */
	TRACE_RING_POP,     /* the last push of this thread and domain */
	TRACE_RING_START,   /* id is its number; may end on another thread */
	TRACE_RING_END,     /* id */
	TRACE_RING_MARK,
	TRACE_RING_THREAD,  /* name is the name of thread id; 0: of this one */
	TRACE_RING_ENTER,   /* 32 bytes, struct trace_ring_call: a call of a GPU's interface begins; not nested in a thread */
	TRACE_RING_LEAVE,   /* it returns; flags has TRACE_FAILED */
	TRACE_RING_MEMORY,  /* 48 bytes: struct trace_ring_memory */
	TRACE_RING_WORK,    /* 48 bytes: struct trace_ring_work; time is its start */
	TRACE_RING_KIND_COUNT,
};

struct trace_ring_head {
	/* TRACE_SEQ of its chunk's generation and its unit, stored last (release). */
	_Atomic uint32_t seq;
	uint16_t kind;       /* enum trace_ring_kind */
	uint16_t flags;      /* enum trace_flag, TRACE_RING_AFTER_LOSS */
	uint64_t time_ns;
};
#define TRACE_RING_AFTER_LOSS         0x8000 /* between this event and the one before, the thread lost some: it had no chunk */
#define TRACE_SEQ(generation, unit)   ((uint32_t) (generation) << 11 | ((uint32_t) (unit) + 1))
#define TRACE_READ(generation, units) ((uint32_t) (generation) << 11 | (uint32_t) (units))

struct trace_ring_range {
	uint32_t name, domain; /* offsets in the arena; 0: none */
	uint64_t id;
};

struct trace_ring_call {
	uint32_t name, unused;
	uint64_t correlation;
};

struct trace_ring_memory {
	uint64_t address, bytes;
	uint32_t site, is_free;
	uint64_t correlation;
};

/* A kernel, a copy, a fill; of which kind, and what: its site. */
struct trace_ring_work {
	uint64_t end_ns;
	uint32_t site;
	uint32_t correlation;
	uint64_t bytes;
	uint32_t queued_before, submitted_before; /* ns before its start, at most UINT32_MAX - 1; UINT32_MAX: unknown */
};

/* Bytes of an event with its header; 0: no such kind. */
static inline size_t trace_ring_bytes(unsigned kind)
{
	return kind == TRACE_RING_NONE || kind >= TRACE_RING_KIND_COUNT ? 0
	       : kind >= TRACE_RING_MEMORY                              ? 48
									: 32;
}

/* Finds the memory: HIWATER_TRACE in the job's environment is "FD:PID:DEVICE:INODE:@SOCKET", decimal
 * numbers: the descriptor that the job inherits, the recorder, the file's st_dev and st_ino, and an abstract
 * socket (SOCK_SEQPACKET). A process uses FD only if fstat says that it is that file; else it opens
 * /proc/PID/fd/N, where N is FD too; else it connects to the socket, and receives the descriptor with one
 * byte (SCM_RIGHTS). "off" follows nothing. */
#define TRACE_ENVIRONMENT "HIWATER_TRACE"
