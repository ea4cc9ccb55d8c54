/* SPDX-License-Identifier: MIT
 *
 * What is asked of a list of pushed events: copies of them, at an interval, their sums.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rules/pushes_internal.h"

static bool passes(const struct push_event *e, const struct push_filter *f)
{
	return (f->kinds == 0 || f->kinds >> e->kind & 1) && e->time_ns >= f->since_ns;
}

/* From which number on to look, how many pass, and how long their texts are. */
static uint64_t survey(const struct pushes *p, const struct push_filter *f, size_t *ret_n, size_t *ret_texts)
{
	const uint64_t from = f->from > p->first ? f->from : p->first;
	uint64_t begin = p->end;

	*ret_n = *ret_texts = 0;
	while (begin > from && (f->last == 0 || *ret_n < f->last)) {
		const struct push_event *e = event_at(p, --begin);

		if (!passes(e, f))
			continue;
		++*ret_n;
		*ret_texts += e->text ? strlen(e->text) + 1 : 0;
	}
	return begin;
}

static void copy_event(struct push_event *to, const struct push_event *e, char **texts)
{
	*to = *e;
	if (!e->text)
		return;
	const size_t size = strlen(e->text) + 1;

	to->text = memcpy(*texts, e->text, size);
	*texts += size;
}

int pushes_read(const struct pushes *p, const struct push_filter *filter, struct push_event **ret, size_t *ret_n)
{
	size_t n, texts_size, i = 0;
	const uint64_t begin = survey(p, filter, &n, &texts_size);
	struct push_event *events = malloc(n * sizeof(*events) + texts_size + 1);
	char *texts = (char *) (events + n);

	if (!events)
		return -ENOMEM;
	for (uint64_t number = begin; number < p->end && i < n; number++) {
		const struct push_event *e = event_at(p, number);

		if (passes(e, filter))
			copy_event(&events[i++], e, &texts);
	}
	*ret = events;
	*ret_n = n;
	return 0;
}

int pushes_timeline(const struct pushes *p, uint64_t interval_ns, struct push_event **ret, size_t *ret_n)
{
	const size_t n = (size_t) (p->end - p->first);
	struct push_event *points = malloc((n + 1) * sizeof(*points));
	size_t i = 0;
	uint64_t interval = 0;

	if (!points || interval_ns == 0) {
		free(points);
		return points ? -EINVAL : -ENOMEM;
	}
	for (uint64_t number = p->first; number < p->end; number++) {
		const struct push_event *e = event_at(p, number);
		const uint64_t begin_ns = event_at(p, p->first)->time_ns;
		const uint64_t here = counter_delta(begin_ns, e->time_ns) / interval_ns;

		if (i == 0 || here > interval) /* the wall clock may go back */
			i++;
		interval = here > interval ? here : interval;
		points[i - 1] = *e;
		points[i - 1].time_ns = begin_ns + interval * interval_ns;
		points[i - 1].text = NULL;
	}
	*ret = points;
	*ret_n = i;
	return 0;
}

void pushes_stats(const struct pushes *p, uint64_t now_ns, struct push_stats *ret)
{
	*ret = p->stats;
	ret->kept = p->end - p->first;
	if (p->is_active)
		ret->active_ns += counter_delta(p->active_since_ns, now_ns);
}
