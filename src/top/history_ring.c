/* SPDX-License-Identifier: MIT */
#include "top/history_ring.h"

#include <string.h>

#define SECOND UINT64_C(1000000000)

static void bucket_add(struct bucket *b, double mean, double max)
{
	const float n = (float) b->n;

	b->max = b->n && (double) b->max > max ? b->max : (float) max;
	b->mean = (b->mean * n + (float) mean) / (n + 1);
	if (b->n < 1000)
		b->n++;
}

static void bucket_merge(struct bucket *into, const struct bucket *b)
{
	const float all = (float) into->n + (float) b->n;

	if (b->n == 0)
		return;
	into->max = into->n && into->max > b->max ? into->max : b->max;
	into->mean = (into->mean * (float) into->n + b->mean * (float) b->n) / all;
	into->n += b->n;
}

/* ---- adding -------------------------------------------------------------------------------------------------------- */

/* Advances the ring to second, which overwrites the oldest. */
static void fine_to(struct history_ring *h, uint64_t second)
{
	const uint64_t gap = second - h->fine_last_s;

	for (uint64_t i = 1; i <= gap && i <= HISTORY_FINE; i++)
		h->fine[(h->fine_last_s + i) % HISTORY_FINE] = (struct bucket) { .n = 0 };
	h->fine_last_s = second;
}

static void widen(struct history_ring *h)
{
	for (size_t i = 0; i < HISTORY_COARSE / 2; i++) {
		struct bucket pair = h->coarse[2 * i];

		bucket_merge(&pair, &h->coarse[2 * i + 1]);
		h->coarse[i] = pair;
	}
	memset(h->coarse + HISTORY_COARSE / 2, 0, sizeof(h->coarse) / 2);
	h->coarse_ns *= 2;
}

static void put(struct history_ring *h, uint64_t time_ns, double mean, double max)
{
	const uint64_t second = time_ns / SECOND;

	if (second > h->fine_last_s)
		fine_to(h, second);
	bucket_add(&h->fine[second % HISTORY_FINE], mean, max);
	while (time_ns / h->coarse_ns >= HISTORY_COARSE)
		widen(h);
	bucket_add(&h->coarse[time_ns / h->coarse_ns], mean, max);
}

void history_add(struct history_ring *h, uint64_t time_ns, uint64_t hold_ns, double mean, double max)
{
	if (!h->began)
		*h = (struct history_ring) {
			.began = true,
			.coarse_ns = SECOND,
			.fine_last_s = time_ns / SECOND,
		};
	/* the last value was valid until now */
	else if (time_ns > h->last_ns && time_ns - h->last_ns <= h->hold_ns)
		for (uint64_t t = h->last_ns / SECOND + 1; t < time_ns / SECOND; t++)
			put(h, t * SECOND, (double) h->last_mean, (double) h->last_mean);
	put(h, time_ns, mean, max);
	h->last_ns = time_ns;
	h->hold_ns = hold_ns < 3600 * SECOND ? hold_ns : 3600 * SECOND;
	h->last_mean = (float) mean;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

struct bucket history_span(const struct history_ring *h, uint64_t from_ns, uint64_t to_ns)
{
	const uint64_t first_s = from_ns / SECOND, last_s = (to_ns > from_ns ? to_ns - 1 : from_ns) / SECOND;
	struct bucket sum = { .n = 0 };

	if (!h->began)
		return sum;
	if (first_s + HISTORY_FINE > h->fine_last_s) {
		for (uint64_t s = first_s; s <= last_s && s <= h->fine_last_s; s++)
			bucket_merge(&sum, &h->fine[s % HISTORY_FINE]);
		return sum;
	}
	for (uint64_t i = from_ns / h->coarse_ns; i <= (to_ns - 1) / h->coarse_ns && i < HISTORY_COARSE; i++)
		bucket_merge(&sum, &h->coarse[i]);
	return sum;
}
