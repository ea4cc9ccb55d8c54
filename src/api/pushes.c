/* SPDX-License-Identifier: MIT
 *
 * The list of pushed values for the Python package (api/internal.h): rules/pushes.h with a lock
 * around it.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "api/internal.h"
#include "base/clock.h"
#include "rules/pushes.h"

_Static_assert((int) HWI_PUSH_SERIES == (int) PUSH_SERIES && (int) HWI_PUSH_RATIOS == (int) PUSH_RATIOS &&
		       (int) HWI_PUSH_RULES == (int) PUSH_RULES && (int) HWI_PUSH_OWN == (int) PUSH_OWN &&
		       (int) HWI_PUSH_CLEARED == (int) PUSH_CLEARED && (int) HIW_ERROR == (int) RULE_ERROR,
	"the public constants equal those of rules/pushes.h");

struct hwi_pushes {
	pthread_mutex_t lock;
	struct pushes *pushes;
};

int hwi_pushes_new(const struct hwi_pushes_options *o, struct hwi_pushes **ret, struct hiw_err *ret_err)
{
	struct err err = { "" };
	struct push_ratio ratios[PUSH_RATIOS];
	struct pushes_options options = {
		.max_events = o->max_events,
		.series = o->series,
		.n_series = o->n_series,
		.ratios = ratios,
		.n_ratios = o->n_ratios,
		.changes = o->changes,
		.samples = o->samples,
		.every = o->every,
	};
	struct hwi_pushes *p = calloc(1, sizeof(*p));
	int r = p ? 0 : -ENOMEM;

	for (size_t i = 0; i < o->n_ratios && i < PUSH_RATIOS; i++)
		ratios[i] = (struct push_ratio) { o->ratios[i].name, o->ratios[i].of, o->ratios[i].by };
	if (r == 0)
		r = pushes_new(&options, &p->pushes, &err);
	if (r < 0) {
		free(p);
		return api_err(ret_err, &err, r);
	}
	(void) pthread_mutex_init(&p->lock, NULL);
	*ret = p;
	return 0;
}

void hwi_pushes_free(struct hwi_pushes *p)
{
	if (!p)
		return;
	pushes_free(p->pushes);
	(void) pthread_mutex_destroy(&p->lock);
	free(p);
}

static struct pushes *locked(struct hwi_pushes *p)
{
	(void) pthread_mutex_lock(&p->lock);
	return p->pushes;
}

static void unlock(struct hwi_pushes *p)
{
	(void) pthread_mutex_unlock(&p->lock);
}

int hwi_pushes_rules(struct hwi_pushes *p, const char *const *rules, size_t n, struct hiw_err *ret_err)
{
	struct err err = { "" };
	const int r = pushes_rules(locked(p), rules, n, clock_boot_ns(), &err);

	unlock(p);
	return api_err(ret_err, &err, r);
}

/* The values with the current times. */
static struct push push_of(const struct pushes *pushes, const double *values, double mark)
{
	struct push push = {
		.time_ns = clock_wall_ns(), .now_ns = clock_boot_ns(), .values = values, .mark = mark
	};

	for (size_t i = 0; values && i < pushes_series(pushes); i++)
		push.known |= isnan(values[i]) ? 0 : 1U << i;
	return push;
}

void hwi_pushes_begin(struct hwi_pushes *p, const double *values, double mark)
{
	struct pushes *pushes = locked(p);
	const struct push push = push_of(pushes, values, mark);

	pushes_begin(pushes, push.now_ns, values ? &push : NULL);
	unlock(p);
}

void hwi_pushes_end(struct hwi_pushes *p)
{
	pushes_end(locked(p), clock_boot_ns());
	unlock(p);
}

void hwi_pushes_push(struct hwi_pushes *p, const double *values, double mark, struct hwi_push_result *ret)
{
	struct pushes *pushes = locked(p);
	const struct push push = push_of(pushes, values, mark);
	struct push_result made;

	pushes_push(pushes, &push, &made);
	unlock(p);
	if (ret)
		*ret = (struct hwi_push_result) { made.first, made.end, made.rules };
}

int hwi_pushes_note(struct hwi_pushes *p, unsigned kind, uint32_t tag, const char *text, const double *values)
{
	struct pushes *pushes = locked(p);
	const struct push push = push_of(pushes, values, (double) NAN);
	const int r = pushes_note(pushes, &push, kind, tag, text);

	unlock(p);
	return r;
}

/* ---- reading the list ------------------------------------------------------------------------ */

static struct hwi_push_event public_event(const struct push_event *e)
{
	struct hwi_push_event event = {
		.time_ns = e->time_ns,
		.kind = e->kind,
		.rule = e->rule,
		.level = (enum hiw_level) e->level,
		.tag = e->tag,
		.change = e->change,
		.text = "",
	};

	for (size_t i = 0; i < PUSH_SERIES; i++)
		event.values[i] = e->known >> i & 1 ? e->values[i] : (double) NAN;
	return event;
}

/* Converts events to public ones in one allocation, with their texts behind them. Frees events. */
static int publish(struct push_event *events, size_t n, struct hwi_push_event **ret, size_t *ret_n)
{
	struct hwi_push_event *to;
	size_t texts_size = 0;
	char *texts;

	for (size_t i = 0; i < n; i++)
		texts_size += events[i].text ? strlen(events[i].text) + 1 : 0;
	to = malloc(n * sizeof(*to) + texts_size + 1);
	texts = (char *) (to + n);
	for (size_t i = 0; to && i < n; i++) {
		to[i] = public_event(&events[i]);
		if (!events[i].text)
			continue;
		to[i].text = texts;
		texts = stpcpy(texts, events[i].text) + 1;
	}
	free(events);
	if (!to)
		return -ENOMEM;
	*ret = to;
	*ret_n = n;
	return 0;
}

int hwi_pushes_read(
	struct hwi_pushes *p, const struct hwi_push_filter *f, struct hwi_push_event **ret, size_t *ret_n)
{
	const struct push_filter filter = f ? (struct push_filter) { f->kinds, f->since_ns, f->from, f->last }
					    : (struct push_filter) { 0 };
	struct push_event *events;
	size_t n;
	const int r = pushes_read(locked(p), &filter, &events, &n);

	unlock(p);
	return r < 0 ? r : publish(events, n, ret, ret_n);
}

int hwi_pushes_timeline(
	struct hwi_pushes *p, uint64_t interval_ns, struct hwi_push_event **ret, size_t *ret_n)
{
	struct push_event *events;
	size_t n;
	const int r = pushes_timeline(locked(p), interval_ns, &events, &n);

	unlock(p);
	return r < 0 ? r : publish(events, n, ret, ret_n);
}

void hwi_pushes_stats(struct hwi_pushes *p, struct hwi_push_stats *ret)
{
	const size_t size = ret->size < sizeof(*ret) ? ret->size : sizeof(*ret);
	struct push_stats s;

	pushes_stats(locked(p), clock_boot_ns(), &s);
	unlock(p);
	const double seconds = s.active_ns > 0 ? (double) s.active_ns / 1e9 : (double) NAN;
	struct hwi_push_stats stats = {
		.size = ret->size,
		.events = s.events,
		.kept = s.kept,
		.risen = s.risen,
		.fallen = s.fallen,
		.active_ns = s.active_ns,
		.rises_per_s = (double) s.counts[PUSH_ALLOCATION] / seconds,
		.risen_per_s = s.risen / seconds,
	};

	memcpy(stats.counts, s.counts, sizeof(stats.counts));
	for (size_t i = 0; i < PUSH_SERIES; i++)
		stats.peaks[i] = s.known >> i & 1 ? s.peaks[i] : (double) NAN;
	memcpy(ret, &stats, size);
}

void hwi_pushes_clear(struct hwi_pushes *p)
{
	pushes_clear(locked(p));
	unlock(p);
}
