/* SPDX-License-Identifier: MIT */
#include "findings/leak.h"

#include <math.h>
#include <stdlib.h>

enum {
	WARM_UP_PERCENT = 20,  /* of the run: not looked at */
	ENDING_BUCKETS = 2,    /* nor these, where all was given back: who ends leaves no valley */
	MOST_WINDOWS = 12,
	BUCKETS_A_WINDOW = 3,  /* at least; the lowest of four or more is left out: a single dip is no valley */
	FEW_BUCKETS = 4,
	RISING_PERCENT = 85,   /* of all pairs of windows */
};
/* A leak goes on as it was: it does not slow down, and it did not begin late. */
static const double least_second_half = 0.7, least_first_half = 0.5, least_r_squared = 0.9;

/* One for each window; t in s. */
struct valleys {
	int n;
	double t[MOST_WINDOWS], v[MOST_WINDOWS];
};

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

/* Is the last one below all before it? */
static bool is_lowest(const struct course *c, const int *places, int n)
{
	for (int i = 0; i < n - 1; i++) {
		if (c->buckets[places[i]].min <= c->buckets[places[n - 1]].min)
			return false;
	}
	return true;
}

/* The run's known buckets from the warm-up's end to where it ends. Returns how many. */
static int after_warm_up(const struct course *c, int places[COURSE_BUCKETS])
{
	int first = -1, last = -1, n = 0;

	for (int i = 0; i < COURSE_BUCKETS; i++) {
		if (c->buckets[i].cover_ns == 0)
			continue;
		first = first < 0 ? i : first;
		last = i;
	}
	for (int i = first + (last - first + 1) * WARM_UP_PERCENT / 100; first >= 0 && i <= last; i++) {
		if (c->buckets[i].cover_ns > 0)
			places[n++] = i;
	}
	for (int given = 0; given < ENDING_BUCKETS && n > 1 && is_lowest(c, places, n); given++)
		n--;
	return n;
}

/* places in windows of as many buckets each. */
static struct valleys valleys_of(const struct course *c, uint64_t span_ns, const int *places, int n, int windows)
{
	struct valleys v = { .n = windows };

	for (int w = 0; w < windows; w++) {
		const int from = n * w / windows, to = n * (w + 1) / windows;
		double lows[COURSE_BUCKETS], t = 0;

		for (int i = from; i < to; i++) {
			lows[i - from] = (double) c->buckets[places[i]].min;
			t += ((double) places[i] + 0.5) * (double) span_ns / 1e9;
		}
		qsort(lows, (size_t) (to - from), sizeof(lows[0]), by_value);
		v.v[w] = lows[to - from >= FEW_BUCKETS ? 1 : 0];
		v.t[w] = t / (to - from);
	}
	return v;
}

/* Theil and Sen: the median of the slopes of all pairs. *ret_rising: how many in a hundred rise. */
static double slope(const double *t, const double *v, int n, double *ret_rising)
{
	double slopes[MOST_WINDOWS * (MOST_WINDOWS - 1) / 2];
	int k = 0, rising = 0;

	for (int i = 0; i < n; i++) {
		for (int j = i + 1; j < n; j++) {
			slopes[k] = (v[j] - v[i]) / (t[j] - t[i]);
			rising += slopes[k++] > 0;
		}
	}
	qsort(slopes, (size_t) k, sizeof(slopes[0]), by_value);
	if (ret_rising)
		*ret_rising = 100.0 * rising / k;
	return k % 2 ? slopes[k / 2] : (slopes[k / 2 - 1] + slopes[k / 2]) / 2;
}

/* How much of the valleys' variation a straight line explains. */
static double r_squared(const struct valleys *v)
{
	double t = 0, y = 0, tt = 0, ty = 0, yy = 0;

	for (int i = 0; i < v->n; i++) {
		t += v->t[i] / v->n;
		y += v->v[i] / v->n;
	}
	for (int i = 0; i < v->n; i++) {
		tt += (v->t[i] - t) * (v->t[i] - t);
		ty += (v->t[i] - t) * (v->v[i] - y);
		yy += (v->v[i] - y) * (v->v[i] - y);
	}
	return tt > 0 && yy > 0 ? ty * ty / (tt * yy) : 0;
}

/* NULL if it is a leak's line, else what speaks against it. */
static const char *objection(const struct valleys *v, double *ret_slope)
{
	const int half = v->n / 2;
	double rising;
	const double all = slope(v->t, v->v, v->n, &rising);
	const double first = slope(v->t, v->v, half, NULL), second = slope(v->t + half, v->v + half, v->n - half, NULL);

	*ret_slope = all;
	if (all <= 0 || rising < RISING_PERCENT)
		return "what it held at the least did not rise throughout";
	if (second < least_second_half * first)
		return "it grew less towards the end";
	if (first < least_first_half * all)
		return "it grew late or in steps";
	if (r_squared(v) <= least_r_squared)
		return "it did not grow steadily";
	return NULL;
}

bool leak_find(const struct course *course, uint64_t span_ns, struct leak *ret, struct buf *why_not)
{
	static const int windows[] = { 6, 8, MOST_WINDOWS };
	int places[COURSE_BUCKETS];
	const int n = after_warm_up(course, places);
	const char *no = "it was looked at too seldom";

	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]) && n >= windows[i] * BUCKETS_A_WINDOW; i++) {
		const struct valleys v = valleys_of(course, span_ns, places, n, windows[i]);

		no = objection(&v, &ret->per_s);
		if (no)
			continue;
		ret->from_ns = (int64_t) ((uint64_t) places[0] * span_ns);
		ret->to_ns = (int64_t) ((uint64_t) (places[n - 1] + 1) * span_ns);
		ret->grown = ret->per_s * (double) (ret->to_ns - ret->from_ns) / 1e9;
		return true;
	}
	buf_str(why_not, no);
	return false;
}
