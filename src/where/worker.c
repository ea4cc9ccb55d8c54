/* SPDX-License-Identifier: MIT */
#include "where/worker.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "where/tree.h"

enum {
	SHARE_PERCENT = 1,
	PAUSE_MS = 20,
};
static const uint64_t start_ns = 200000000; /* that it may use at once */

struct job {
	struct sample *sample;
	uint32_t stack;
};

struct worker {
	pthread_t thread;
	pthread_mutex_t lock;      /* of the queue */
	pthread_cond_t changed;
	pthread_mutex_t stacks;    /* of unwind */
	struct unwind *unwind;
	struct job *queue;         /* [0, done) are done, [done, n) are not */
	size_t n, cap, done;
	bool hurry, is_ending;
	uint64_t begun_ns;
};

static void until(struct timespec *ret, int ms)
{
	(void) clock_gettime(CLOCK_REALTIME, ret);
	ret->tv_sec += ms / 1000;
	ret->tv_nsec += (long) (ms % 1000) * 1000000;
	if (ret->tv_nsec >= 1000000000) {
		ret->tv_sec++;
		ret->tv_nsec -= 1000000000;
	}
}

/* Called with the lock. */
static bool may_work(const struct worker *w)
{
	return w->hurry ||
	       clock_thread_cpu_ns() < start_ns + (clock_awake_ns() - w->begun_ns) * SHARE_PERCENT / 100;
}

static void work(struct worker *w)
{
	while (!w->is_ending) {
		struct timespec pause;

		if (w->done == w->n) {
			(void) pthread_cond_wait(&w->changed, &w->lock);
		} else if (!may_work(w)) {
			until(&pause, PAUSE_MS);
			(void) pthread_cond_timedwait(&w->changed, &w->lock, &pause);
		} else {
			const struct sample *const s = w->queue[w->done].sample;
			uint32_t stack;

			(void) pthread_mutex_unlock(&w->lock);
			(void) pthread_mutex_lock(&w->stacks);
			stack = unwind_stack(w->unwind, s->image, s->record);
			(void) pthread_mutex_unlock(&w->stacks);
			(void) pthread_mutex_lock(&w->lock);
			w->queue[w->done++].stack = stack;
			if (w->done == w->n)
				(void) pthread_cond_broadcast(&w->changed);
		}
	}
}

static void *run(void *ctx)
{
	const struct sched_param none = { 0 };
	struct worker *w = ctx;

	(void) pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
	(void) pthread_mutex_lock(&w->lock);
	work(w);
	(void) pthread_mutex_unlock(&w->lock);
	return NULL;
}

struct worker *worker_new(void)
{
	struct worker *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->unwind = unwind_new();
	w->begun_ns = clock_awake_ns();
	(void) pthread_mutex_init(&w->lock, NULL);
	(void) pthread_mutex_init(&w->stacks, NULL);
	(void) pthread_cond_init(&w->changed, NULL);
	if (!w->unwind || pthread_create(&w->thread, NULL, run, w) != 0) {
		unwind_free(w->unwind);
		free(w);
		return NULL;
	}
	return w;
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	(void) pthread_mutex_lock(&w->lock);
	w->is_ending = true;
	(void) pthread_cond_broadcast(&w->changed);
	(void) pthread_mutex_unlock(&w->lock);
	(void) pthread_join(w->thread, NULL);
	for (size_t i = 0; i < w->n; i++)
		sample_unref(w->queue[i].sample);
	unwind_free(w->unwind);
	free(w->queue);
	free(w);
}

void worker_add(struct worker *w, struct sample *s)
{
	if (s->is_queued || !s->record)
		return;
	(void) pthread_mutex_lock(&w->lock);
	if (w->n == w->cap) {
		const size_t cap = w->cap ? 2 * w->cap : 1024;
		struct job *const queue = realloc(w->queue, cap * sizeof(*queue));

		if (queue) {
			w->queue = queue;
			w->cap = cap;
		}
	}
	if (w->n < w->cap) {
		s->is_queued = true;
		sample_ref(s);
		w->queue[w->n++] = (struct job) { .sample = s };
		(void) pthread_cond_broadcast(&w->changed);
	}
	(void) pthread_mutex_unlock(&w->lock);
}

void worker_hurry(struct worker *w, bool hurry)
{
	(void) pthread_mutex_lock(&w->lock);
	if (w->hurry != hurry)
		(void) pthread_cond_broadcast(&w->changed);
	w->hurry = hurry;
	(void) pthread_mutex_unlock(&w->lock);
}

size_t worker_collect(struct worker *w)
{
	size_t left;

	(void) pthread_mutex_lock(&w->lock);
	for (size_t i = 0; i < w->done; i++) {
		sample_unwound(w->queue[i].sample, w->queue[i].stack);
		sample_unref(w->queue[i].sample);
	}
	w->n -= w->done;
	if (w->done > 0)
		memmove(w->queue, w->queue + w->done, w->n * sizeof(*w->queue));
	w->done = 0;
	left = w->n;
	(void) pthread_mutex_unlock(&w->lock);
	return left;
}

void worker_wait(struct worker *w, int timeout_ms)
{
	struct timespec end;

	until(&end, timeout_ms);
	(void) pthread_mutex_lock(&w->lock);
	while (w->n > 0 && w->done == 0 && pthread_cond_timedwait(&w->changed, &w->lock, &end) != ETIMEDOUT)
		;
	(void) pthread_mutex_unlock(&w->lock);
}

const struct unwind *worker_lock(struct worker *w)
{
	(void) pthread_mutex_lock(&w->stacks);
	return w->unwind;
}

void worker_unlock(struct worker *w)
{
	(void) pthread_mutex_unlock(&w->stacks);
}
