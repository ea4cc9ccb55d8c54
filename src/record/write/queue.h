/* SPDX-License-Identifier: MIT
 *
 * A bounded queue of byte chunks from the recorder's thread (the producer) to the writer's (the
 * consumer). The lock only protects pointers, so neither thread waits for the other's work on a
 * chunk.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chunk {
	struct chunk *next;
	size_t len, cap;
	size_t done;         /* the consumer's: bytes processed */
	_Alignas(16) uint8_t data[];
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t work;    /* signals the consumer */
	/* protected by the lock */
	struct chunk *first, *last;
	struct chunk *spare;    /* empty chunks for reuse */
	unsigned n_spare;
	size_t used;            /* bytes of chunks that were not returned yet */
	bool wake;              /* there is work */
	bool hurry, finish;
	/* used by the producer only */
	struct chunk *filling;
	size_t limit;
};

int queue_init(struct queue *q, size_t limit); /* returns 0 or -errno */
void queue_done(struct queue *q);

/* Room for n bytes (rounded up to 16), to be filled in before the next call. NULL: the queue is
 * full (unless force) or out of memory. */
void *queue_room(struct queue *q, size_t n, bool force);

/* Passes on the filled-in bytes. wake: wake the consumer now; it is also woken if the queue is
 * more than half full. */
void queue_push(struct queue *q, bool wake);
void queue_set(struct queue *q, bool hurry, bool finish);

struct queue_state {
	bool hurry, finish;
};

/* Returns all that was pushed, waiting up to wait_ns for it; 0: without limit. NULL: nothing was
 * pushed. */
struct chunk *queue_pop(struct queue *q, uint64_t wait_ns, struct queue_state *ret_state);
/* Returns a list of processed chunks to the queue. */
void queue_return(struct queue *q, struct chunk *chunk);
/* True if the consumer has been woken and has not taken the chunks yet. */
bool queue_is_waiting(struct queue *q);
