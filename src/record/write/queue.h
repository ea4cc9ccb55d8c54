/* SPDX-License-Identifier: MIT
 *
 * The way from the recorder's thread to the writer's: chunks of bytes, bounded. One thread puts in, one takes out. The
 * lock is held only to move pointers, so neither waits for what the other does with a chunk.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chunk {
	struct chunk *next;
	size_t len, cap;
	size_t done;         /* of the taker: bytes of it that were looked at */
	_Alignas(16) uint8_t data[];
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t work;    /* for the taker */
	/* under the lock */
	struct chunk *first, *last;
	struct chunk *spare;    /* emptied ones, to be filled again */
	unsigned n_spare;
	size_t held;            /* bytes of chunks that are not emptied yet */
	bool wake;              /* there is something to do */
	bool hurry, finish;
	/* of the putting thread */
	struct chunk *filling;
	size_t limit;
};

int queue_init(struct queue *q, size_t limit); /* 0 or -errno */
void queue_done(struct queue *q);

/* Room for n bytes (n is rounded up to 16), filled in by the caller before the next call. NULL: full, unless force, or
 * out of memory. */
void *queue_room(struct queue *q, size_t n, bool force);

/* Hands over what was filled in; wake: the taker is to look at it now. More than half full wakes it anyway. */
void queue_push(struct queue *q, bool wake);
void queue_set(struct queue *q, bool hurry, bool finish);

struct queue_state {
	bool hurry, finish;
};

/* Takes all that was handed over, waiting for it; at most wait_ns, 0: for ever. NULL: nothing came. */
struct chunk *queue_take(struct queue *q, uint64_t wait_ns, struct queue_state *ret_state);
/* Gives emptied chunks back, one after the other. */
void queue_emptied(struct queue *q, struct chunk *chunk);
/* True if somebody waits for the taker. */
bool queue_is_waiting(struct queue *q);
