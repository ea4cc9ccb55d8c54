/* SPDX-License-Identifier: MIT */
#include "record/trace/trace_union.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

enum {
	BATCH = 512,
	MOST_SPANS = 1 << 26,
};

/* ---- lists of spans -------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b)
{
	const struct trace_span *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Appends a span that begins no earlier than all of the list. */
static void append(struct trace_spans *s, const struct trace_span *span)
{
	struct trace_span *last = s->n > 0 ? &s->spans[s->n - 1] : NULL;

	if (last && span->begin <= last->end) {
		if (span->end > last->end)
			last->end = span->end;
		return;
	}
	s->spans[s->n++] = *span;
}

/* The index of the first span that ends at or after time. */
static size_t first_from(const struct trace_spans *s, uint64_t time)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (s->spans[middle].end < time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int settle(struct trace_spans *s)
{
	size_t at, n_tail, i = 0, j = 0;

	if (s->n_batch == 0)
		return 0;
	while (s->cap < s->n + s->n_batch) {
		if (vec_reserve(&s->spans, &s->cap, s->cap, sizeof(*s->spans), MOST_SPANS) < 0)
			return -ENOMEM;
	}
	qsort(s->batch, s->n_batch, sizeof(*s->batch), by_begin);
	at = first_from(s, s->batch[0].begin);
	n_tail = s->n - at;
	autofree struct trace_span *tail = malloc((n_tail + 1) * sizeof(*tail));

	if (!tail)
		return -ENOMEM;
	if (n_tail > 0)
		memcpy(tail, s->spans + at, n_tail * sizeof(*tail));
	s->n = at;
	while (i < n_tail || j < s->n_batch) {
		if (j == s->n_batch || (i < n_tail && tail[i].begin <= s->batch[j].begin))
			append(s, &tail[i++]);
		else
			append(s, &s->batch[j++]);
	}
	s->n_batch = 0;
	return 0;
}

static int add(struct trace_spans *s, uint64_t begin, uint64_t end)
{
	struct trace_span *last = s->n > 0 ? &s->spans[s->n - 1] : NULL;
	int r = 0;

	/* Work on one stream follows the work before it. */
	if (last && s->n_batch == 0 && begin >= last->begin && begin <= last->end) {
		if (end > last->end)
			last->end = end;
		return 0;
	}
	if (!s->batch)
		s->batch = malloc(BATCH * sizeof(*s->batch));
	if (!s->batch)
		return -ENOMEM;
	if (s->n_batch == BATCH)
		r = settle(s);
	if (r == 0)
		s->batch[s->n_batch++] = (struct trace_span) { .begin = begin, .end = end };
	return r;
}

static void forget(struct trace_spans *s, size_t n)
{
	if (n == 0)
		return;
	memmove(s->spans, s->spans + n, (s->n - n) * sizeof(*s->spans));
	s->n -= n;
}

static void spans_done(struct trace_spans *s)
{
	free(s->spans);
	free(s->batch);
	*s = (struct trace_spans) { 0 };
}

/* ---- sums ------------------------------------------------------------------------------------ */

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void see_gap(struct trace_union_sums *sums, uint64_t begin, uint64_t end)
{
	if (begin >= end)
		return;
	sums->gaps++;
	if (end - begin > sums->longest_ns) {
		sums->longest_ns = end - begin;
		sums->longest_at_ns = begin;
	}
}

/* Adds up what is from from_ns to to_ns in the windows; gaps: where sums to be added to, or NULL. Returns the
 * length of the spans. */
static uint64_t walk(const struct trace_spans *s, const struct trace_span *windows, size_t n_windows,
	uint64_t from_ns, uint64_t to_ns, struct trace_union_sums *gaps)
{
	uint64_t busy = 0;

	for (size_t w = 0; w < n_windows; w++) {
		const uint64_t low = later(windows[w].begin, from_ns), high = earlier(windows[w].end, to_ns);
		uint64_t at = low;

		if (low >= high)
			continue;
		for (size_t i = first_from(s, low); i < s->n && s->spans[i].begin < high; i++) {
			const uint64_t begin = later(s->spans[i].begin, low);
			const uint64_t end = earlier(s->spans[i].end, high);

			if (begin >= end)
				continue;
			if (gaps)
				see_gap(gaps, at, begin);
			busy += end - begin;
			at = end;
		}
		if (gaps)
			see_gap(gaps, at, high);
	}
	return busy;
}

static void add_up(const struct trace_union *u, const struct trace_span *windows, size_t n_windows,
	uint64_t to_ns, struct trace_union_sums *sums)
{
	const struct trace_span everything = { .begin = u->done.first_ns, .end = u->done.last_ns };

	if (n_windows == 0) {
		windows = &everything;
		n_windows = 1;
	}
	sums->busy_ns += walk(&u->all, windows, n_windows, u->frontier_ns, to_ns, sums);
	sums->kernels_ns += walk(&u->kernels, windows, n_windows, u->frontier_ns, to_ns, NULL);
	sums->copies_ns += walk(&u->copies, windows, n_windows, u->frontier_ns, to_ns, NULL);
	sums->both_ns = sums->kernels_ns + sums->copies_ns - sums->busy_ns;
	sums->traced_ns = 0;
	for (size_t w = 0; w < n_windows; w++) {
		if (windows[w].begin < earlier(windows[w].end, to_ns))
			sums->traced_ns += earlier(windows[w].end, to_ns) - windows[w].begin;
	}
}

static int settle_all(struct trace_union *u)
{
	int r = settle(&u->all);

	if (r == 0)
		r = settle(&u->kernels);
	return r == 0 ? settle(&u->copies) : r;
}

int trace_union_add(struct trace_union *u, bool is_kernel, uint64_t begin_ns, uint64_t end_ns)
{
	struct trace_union_sums *done = &u->done;
	int r;

	if (done->last_ns == 0 || begin_ns < done->first_ns)
		done->first_ns = begin_ns;
	if (end_ns > done->last_ns)
		done->last_ns = end_ns;
	if (begin_ns < u->frontier_ns) {
		done->late++;
		begin_ns = u->frontier_ns;
	}
	if (begin_ns >= end_ns)
		return 0;
	r = add(&u->all, begin_ns, end_ns);
	return r == 0 ? add(is_kernel ? &u->kernels : &u->copies, begin_ns, end_ns) : r;
}

int trace_union_trim(struct trace_union *u, const struct trace_union_limits *limits,
	const struct trace_span *windows, size_t n_windows)
{
	size_t n;
	int r;

	if (u->all.n <= limits->spans)
		return 0;
	r = settle_all(u);
	if (r < 0)
		return r;
	n = u->all.n - limits->spans / 2;
	if (u->all.n <= limits->most) {
		const uint64_t last = u->all.spans[u->all.n - 1].end;

		while (n > 0 && u->all.spans[n - 1].end + limits->horizon_ns > last)
			n /= 2;
	}
	if (n == 0)
		return 0;
	const uint64_t frontier = u->all.spans[n - 1].end;

	add_up(u, windows, n_windows, frontier, &u->done);
	forget(&u->all, n);
	forget(&u->kernels, first_from(&u->kernels, frontier + 1));
	forget(&u->copies, first_from(&u->copies, frontier + 1));
	u->frontier_ns = frontier;
	return 0;
}

int trace_union_sums(struct trace_union *u, const struct trace_span *windows, size_t n_windows,
	uint64_t now_ns, struct trace_union_sums *ret)
{
	const int r = settle_all(u);

	if (r < 0)
		return r;
	*ret = u->done;
	add_up(u, windows, n_windows, now_ns, ret);
	return 0;
}

void trace_union_continue(struct trace_union *u, const struct trace_union_sums *sums)
{
	u->done = *sums;
	u->frontier_ns = sums->last_ns;
}

void trace_union_done(struct trace_union *u)
{
	spans_done(&u->all);
	spans_done(&u->kernels);
	spans_done(&u->copies);
}
