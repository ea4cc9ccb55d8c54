/* SPDX-License-Identifier: MIT */
#include "record/write/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum {
	CHUNK_BYTES = 64 << 10,
	MOST_SPARE = 4,
};

int queue_init(struct queue *q, size_t limit)
{
	pthread_condattr_t attr;
	int r;

	*q = (struct queue) { .limit = limit };
	r = pthread_mutex_init(&q->lock, NULL);
	if (r != 0)
		return -r;
	(void) pthread_condattr_init(&attr);
	(void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	r = pthread_cond_init(&q->work, &attr);
	(void) pthread_condattr_destroy(&attr);
	if (r != 0)
		(void) pthread_mutex_destroy(&q->lock);
	return -r;
}

static void free_list(struct chunk *chunk)
{
	while (chunk) {
		struct chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
}

void queue_done(struct queue *q)
{
	free_list(q->first);
	free_list(q->spare);
	free(q->filling);
	(void) pthread_cond_destroy(&q->work);
	(void) pthread_mutex_destroy(&q->lock);
}

static struct chunk *pop_spare(struct queue *q, size_t cap, bool force, bool *ret_full)
{
	struct chunk *spare = NULL;

	(void) pthread_mutex_lock(&q->lock);
	*ret_full = !force && (cap > q->limit || q->used > q->limit - cap);
	if (!*ret_full && q->spare && cap == CHUNK_BYTES) {
		spare = q->spare;
		q->spare = spare->next;
		q->n_spare--;
	}
	if (!*ret_full)
		q->used += cap;
	(void) pthread_mutex_unlock(&q->lock);
	return spare;
}

static void forget_bytes(struct queue *q, size_t cap)
{
	(void) pthread_mutex_lock(&q->lock);
	q->used -= cap;
	(void) pthread_mutex_unlock(&q->lock);
}

static struct chunk *new_chunk(struct queue *q, size_t n, bool force)
{
	size_t cap = n > CHUNK_BYTES ? n : CHUNK_BYTES;
	bool full;
	struct chunk *chunk = pop_spare(q, cap, force, &full);

	if (full)
		return NULL;
	if (!chunk)
		chunk = malloc(sizeof(*chunk) + cap);
	if (!chunk) {
		forget_bytes(q, cap);
		return NULL;
	}
	chunk->next = NULL;
	chunk->len = chunk->done = 0;
	chunk->cap = cap;
	return chunk;
}

void *queue_room(struct queue *q, size_t n, bool force)
{
	struct chunk *chunk;

	if (n > SIZE_MAX / 2)
		return NULL;
	n = (n + 15) & ~(size_t) 15;
	if (q->filling && q->filling->cap - q->filling->len < n)
		queue_push(q, false);
	if (!q->filling)
		q->filling = new_chunk(q, n, force);
	chunk = q->filling;
	if (!chunk)
		return NULL;
	chunk->len += n;
	return chunk->data + chunk->len - n;
}

void queue_push(struct queue *q, bool wake)
{
	struct chunk *chunk = q->filling;

	q->filling = NULL;
	(void) pthread_mutex_lock(&q->lock);
	if (chunk) {
		if (q->last)
			q->last->next = chunk;
		else
			q->first = chunk;
		q->last = chunk;
	}
	if (wake || q->used > q->limit / 2) {
		q->wake = true;
		(void) pthread_cond_signal(&q->work);
	}
	(void) pthread_mutex_unlock(&q->lock);
}

void queue_set(struct queue *q, bool hurry, bool finish)
{
	(void) pthread_mutex_lock(&q->lock);
	q->hurry = hurry;
	q->finish = q->finish || finish;
	if (finish) {
		q->wake = true;
		(void) pthread_cond_signal(&q->work);
	}
	(void) pthread_mutex_unlock(&q->lock);
}

static struct timespec in_ns(uint64_t ns)
{
	struct timespec t;

	(void) clock_gettime(CLOCK_MONOTONIC, &t);
	ns += (uint64_t) t.tv_nsec;
	t.tv_sec += (time_t) (ns / 1000000000);
	t.tv_nsec = (long) (ns % 1000000000);
	return t;
}

struct chunk *queue_pop(struct queue *q, uint64_t wait_ns, struct queue_state *ret_state)
{
	struct timespec until = in_ns(wait_ns);
	struct chunk *chunks;
	int r = 0;

	(void) pthread_mutex_lock(&q->lock);
	while (!q->wake && !q->finish && r == 0) {
		if (wait_ns == 0)
			r = pthread_cond_wait(&q->work, &q->lock);
		else
			r = pthread_cond_timedwait(&q->work, &q->lock, &until);
	}
	chunks = q->first;
	q->first = q->last = NULL;
	q->wake = false;
	ret_state->hurry = q->hurry;
	ret_state->finish = q->finish;
	(void) pthread_mutex_unlock(&q->lock);
	return chunks;
}

void queue_return(struct queue *q, struct chunk *chunk)
{
	const size_t cap = chunk->cap;
	bool keep;

	(void) pthread_mutex_lock(&q->lock);
	q->used -= cap;
	keep = cap == CHUNK_BYTES && q->n_spare < MOST_SPARE;
	if (keep) {
		chunk->next = q->spare;
		q->spare = chunk;
		q->n_spare++;
	}
	(void) pthread_mutex_unlock(&q->lock);
	if (!keep)
		free(chunk);
}

bool queue_is_waiting(struct queue *q)
{
	bool waiting;

	(void) pthread_mutex_lock(&q->lock);
	waiting = q->wake || q->finish;
	(void) pthread_mutex_unlock(&q->lock);
	return waiting;
}
