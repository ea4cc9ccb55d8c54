/* SPDX-License-Identifier: MIT
 *
 * Keys of time: what charts look back on, standing still, how often one looks, and where a replay is.
 */
#include <stdio.h>
#include <string.h>

#include "top/format.h"
#include "top/keys.h"

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)

void key_zoom(struct top *t, int key)
{
	top_zoom(t, key);
}

void top_zoom(struct top *t, int key)
{
	struct hiw_err err = { "" };
	const uint64_t cursor = t->feed.cursor_ns;

	view_zoom(&t->view, key == '[' ? -1 : 1);
	if (t->feed.kind != FEED_REPLAY || key == '[')
		return;
	model_clear(&t->model); /* more of the past is to be seen */
	t->feed.cursor_ns = UINT64_MAX;
	if (feed_go(&t->feed, cursor, view_span(&t->view), &err) < 0)
		key_say(t, err.text);
}

void key_pause(struct top *t, int key)
{
	(void) key;
	if (t->feed.kind != FEED_REPLAY) {
		t->view.paused = !t->view.paused;
		return;
	}
	if (t->feed.paused && t->feed.cursor_ns >= t->feed.end_ns) { /* from the beginning again */
		struct hiw_err err = { "" };

		(void) feed_go(&t->feed, 0, 0, &err);
	}
	feed_pause(&t->feed, !t->feed.paused);
}

void top_go(struct top *t, uint64_t time_ns)
{
	struct hiw_err err = { "" };

	feed_pause(&t->feed, true);
	if (feed_go(&t->feed, time_ns, view_span(&t->view), &err) < 0)
		key_say(t, err.text);
}

void key_step(struct top *t, int key)
{
	const bool arrow = key == PRESS_ARROW_LEFT || key == PRESS_ARROW_RIGHT, back = key == PRESS_ARROW_LEFT || key == ',';
	const uint64_t one = t->feed.interval_ns ? t->feed.interval_ns : SECOND, by = arrow ? 10 * one : one;
	const uint64_t now = t->feed.cursor_ns;

	if (t->feed.kind != FEED_REPLAY)
		return;
	top_go(t, !back ? now + by : now > by ? now - by
					      : 0);
}

void key_speed(struct top *t, int key)
{
	if (t->feed.kind != FEED_REPLAY)
		return;
	t->feed.speed = (unsigned) (key - '0');
	feed_pause(&t->feed, false);
}

/* ---- how often ---------------------------------------------------------------------------------------------------- */

/* The next one in that direction; 0: there is none. */
static uint64_t next_interval(uint64_t interval_ns, int key)
{
	static const uint64_t intervals[] = { 100 * MS, 200 * MS, 500 * MS, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND,
		60 * SECOND };
	enum {
		N = sizeof(intervals) / sizeof(intervals[0])
	};
	uint64_t ret = 0;

	for (size_t i = 0; i < N && ret == 0; i++) {
		const uint64_t at = intervals[key == '+' ? i : N - 1 - i];

		if (key == '+' ? at > interval_ns : at < interval_ns)
			ret = at;
	}
	return ret;
}

void key_interval(struct top *t, int key)
{
	struct feed *f = &t->feed;
	const uint64_t next = next_interval(f->interval_ns, key);
	char each[SHORT_LEN], text[80];
	int r;

	if (next == 0 || next < f->least_ns) {
		(void) snprintf(text, sizeof(text), "%s is as %s as it goes%s", short_span(f->interval_ns, each), key == '+' ? "long" : "short",
			f->recorder ? "" : ": a recording has no more");
		key_say(t, text);
		return;
	}
	r = feed_pace(f, next);
	if (r < 0)
		(void) snprintf(text, sizeof(text), "the interval stays: %s", strerror(-r));
	else
		(void) snprintf(text, sizeof(text), f->kind == FEED_REPLAY ? "a step is %s" : "looks each %s", short_span(next, each));
	key_say(t, text);
}
