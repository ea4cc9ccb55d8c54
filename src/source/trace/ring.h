/* SPDX-License-Identifier: MIT
 *
 * The recorder's side of the memory that it shares with a traced job (model/trace_ring.h): makes the memory
 * file, prepares its pages before the job writes into them, so that the job does not pay for them, and passes
 * the file to processes that inherited no descriptor of it.
 *
 * Nothing here reads events; source/trace/read.h does. Both may be used at once by two threads: the one that
 * reads, and the recorder's, which accepts connections and asks for the bytes that a process has touched.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/map.h"
#include "base/root.h"
#include "model/trace_ring.h"

struct trace_shared {
	int fd;                      /* close-on-exec: only the job gets it */
	int socket;                  /* listens; -1: none */
	char environment[160];       /* the value of TRACE_ENVIRONMENT */
	struct trace_ring *ring;
	/* Heads of slots, mapped when they are first needed and until the end. */
	struct trace_slot *_Atomic heads[TRACE_SLOTS];
	pthread_mutex_t lock;        /* of mapping one, and of released */
	struct map released;         /* under the lock: pages that an ended process had touched, by released_key */
	uint64_t released_bytes;     /* of all ended processes; the reading thread's */
	uint64_t page_bytes;         /* of this machine */
	/* Of each chunk, in units of 4096: what was touched at least, as far as it was read. */
	_Atomic uint8_t chunk_pages[TRACE_SLOTS][TRACE_CHUNKS];
	unsigned chunks_ready[TRACE_SLOTS]; /* chunks that have pages; the reading thread's */
	bool is_ready[TRACE_SLOTS];  /* the head, the index and the begin of the texts have pages */
};

/* Makes the memory file and the socket. ret: zeros, of which most pages are never touched. layers: enum trace_layer, to be followed from the start; wanted: at some
 * time of the run. Returns 0 or -errno with text. Without a socket it works too, for less processes. */
int trace_shared_open(unsigned layers, unsigned wanted, struct trace_shared *ret, struct err *err);
void trace_shared_close(struct trace_shared *m);

/* The head of a slot; NULL: it cannot be mapped. Any thread. */
struct trace_slot *trace_shared_head(struct trace_shared *m, unsigned slot);

/* Prepares what is likely to be used next: chunks of this slot ahead of those that were claimed, and the next
 * free slots. Cheap if there is nothing to do. The reading thread. */
void trace_shared_prepare(struct trace_shared *m, unsigned slot, uint64_t claims);
void trace_shared_prepare_free(struct trace_shared *m);

/* So many bytes of a chunk were written by now. The reading thread. */
void trace_shared_note_chunk(struct trace_shared *m, unsigned slot, unsigned chunk, unsigned bytes);

/* Empties the slot of a process that has ended, and gives its pages back; another process may take it then.
 * pid: in this pid namespace; -1: unknown. The reading thread. */
void trace_shared_release(struct trace_shared *m, unsigned slot, pid_t pid, uint64_t start_ticks);

/* Answers the processes that wait at the socket, at most a few, and never blocks. They get the descriptor if they
 * belong to this user or root, or descend from this process. The recorder's thread. */
void trace_shared_answer(struct trace_shared *m, const struct root *root);

/* The bytes of the memory file that a process has touched, which are in its resident size and its high-water
 * mark: heads, texts and claimed chunks, in whole pages; also after its end, since it may not have been reaped.
 * 0: it has no slot. pid: in this pid namespace, whose inode is pid_namespace; start_ticks: field 22 of its stat;
 * 0: the latest process of this pid. Any thread. */
uint64_t trace_shared_bytes_of(
	struct trace_shared *m, pid_t pid, uint64_t start_ticks, uint64_t pid_namespace);
/* The same of all processes so far. The reading thread. */
uint64_t trace_shared_bytes(struct trace_shared *m);
