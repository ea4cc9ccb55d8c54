/* SPDX-License-Identifier: MIT */
#include "serve/ring.h"

#include <stdlib.h>

enum {
	CAP_FIRST = 64,
	CAP_MOST = 8192, /* an hour at two points a second */
};

static struct point *point_of(const struct ring *r, size_t i)
{
	return &r->points[(r->first + i) % r->cap];
}

/* The end of point i: the next one's time, or its own. */
static uint64_t end_of(const struct ring *r, size_t i)
{
	const uint64_t own = point_of(r, i)->until_ns;

	if (i + 1 < r->n && point_of(r, i + 1)->at_ns < own)
		return point_of(r, i + 1)->at_ns;
	return own;
}

static void drop_first(struct ring *r)
{
	r->first = (r->first + 1) % r->cap;
	r->n--;
}

static bool grow(struct ring *r)
{
	const size_t cap = r->cap ? 2 * r->cap : CAP_FIRST;
	struct point *more = cap <= CAP_MOST ? reallocarray(NULL, cap, sizeof(*more)) : NULL;

	if (!more)
		return false;
	for (size_t i = 0; i < r->n; i++)
		more[i] = *point_of(r, i);
	free(r->points);
	*r = (struct ring) { .points = more, .n = r->n, .cap = cap };
	return true;
}

void ring_add(struct ring *r, const struct point *p, uint64_t since_ns)
{
	if (r->n > 0 && p->at_ns <= point_of(r, r->n - 1)->at_ns)
		return;
	while (r->n > 0 && end_of(r, 0) < since_ns)
		drop_first(r);
	if (r->n == r->cap && !grow(r)) {
		if (r->n == 0)
			return;
		drop_first(r);
	}
	r->n++;
	*point_of(r, r->n - 1) = *p;
}

void ring_done(struct ring *r)
{
	free(r->points);
	*r = (struct ring) { 0 };
}

/* ---- statistics ------------------------------------------------------------------------------ */

struct weighted {
	double value, span_ns;
};

static int by_value(const void *a, const void *b)
{
	const struct weighted *x = a, *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

static double quantile(struct weighted *list, size_t n, double total, double q)
{
	double sum = 0;

	qsort(list, n, sizeof(*list), by_value);
	for (size_t i = 0; i < n; i++) {
		sum += list[i].span_ns;
		if (sum >= q * total)
			return list[i].value;
	}
	return list[n - 1].value;
}

struct spread ring_spread(const struct ring *r, uint64_t from_ns, uint64_t now_ns)
{
	struct spread s = { .known = false };
	struct weighted *list = r->n ? reallocarray(NULL, r->n, sizeof(*list)) : NULL;
	double total = 0, sum = 0;
	size_t n = 0;

	for (size_t i = 0; list && i < r->n; i++) {
		const struct point *p = point_of(r, i);
		const uint64_t begin = p->at_ns > from_ns ? p->at_ns : from_ns;
		const uint64_t end = end_of(r, i) < now_ns ? end_of(r, i) : now_ns;

		if (end <= begin)
			continue;
		const double span = (double) (end - begin);

		s.min = n == 0 || p->value < s.min ? p->value : s.min;
		s.max = n == 0 || p->max > s.max ? p->max : s.max;
		s.newest_ns = p->at_ns;
		list[n++] = (struct weighted) { p->value, span };
		total += span;
		sum += span * p->value;
	}
	if (n > 0) {
		s.known = true;
		s.mean = sum / total;
		s.p95 = quantile(list, n, total, 0.95);
		s.covered_s = total / 1e9;
	}
	free(list);
	return s;
}
