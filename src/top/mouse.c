/* SPDX-License-Identifier: MIT
 *
 * What the mouse does: heads sort, rows are picked, the wheel scrolls or zooms, a span drawn in a chart is looked into.
 */
#include "top/top.h"

static bool is_in_chart(const struct picture *p, int y, int x)
{
	return p->chart_end > 0 && y >= p->chart_y && y < p->chart_end && x >= p->chart_x && x < p->chart_x + p->chart_columns;
}

static uint64_t time_at(const struct picture *p, int x)
{
	const uint64_t span = p->chart_to_ns - p->chart_from_ns;

	x = x < p->chart_x ? 0 : x - p->chart_x;
	if (x > p->chart_columns)
		x = p->chart_columns;
	return p->chart_from_ns + span / (uint64_t) p->chart_columns * (uint64_t) x;
}

/* A head sorts, a second time the other way round; a row is picked; in a chart a drag begins. */
static void click(struct top *t, int y, int x)
{
	const struct picture *p = &t->picture;

	t->drag_x = -1;
	if (is_in_chart(p, y, x)) {
		t->drag_x = x;
		t->drag_from_ns = time_at(p, x);
		return;
	}
	if (x >= p->table_columns || y < p->table_y)
		return;
	if (y > p->table_y) {
		if (t->view.top + (size_t) (y - p->table_y - 1) < t->view.n_rows)
			view_pick(&t->view, t->view.top + (size_t) (y - p->table_y - 1));
		return;
	}
	for (int c = 0; c < COLUMNS; c++) {
		int width;
		const int at = table_column(p, (enum column) c, &width);

		if (width == 0 || x < at || x >= at + width)
			continue;
		t->view.reverse = t->view.sort == (enum column) c && !t->view.reverse;
		t->view.sort = (enum column) c;
	}
}

/* A span that was drawn is what charts show; a mere click in one of a replay goes there. */
static void release(struct top *t, int x)
{
	if (t->drag_x < 0) /* perhaps there is no chart */
		return;
	const uint64_t to = time_at(&t->picture, x + (x >= t->drag_x));
	const int columns = x > t->drag_x ? x - t->drag_x : t->drag_x - x;

	if (columns > 1) {
		t->view.from_ns = to < t->drag_from_ns ? to : t->drag_from_ns;
		t->view.to_ns = to < t->drag_from_ns ? t->drag_from_ns : to;
	} else if (t->feed.kind == FEED_REPLAY) {
		top_go(t, t->drag_from_ns);
	}
	t->drag_x = -1;
}

static void wheel(struct top *t, bool up, int y, int x)
{
	struct view *v = &t->view;

	if (is_in_chart(&t->picture, y, x)) {
		top_zoom(t, up ? '[' : ']');
		return;
	}
	v->picked = 0;
	if (up)
		v->top = v->top > 3 ? v->top - 3 : 0;
	else
		v->top += 3;
}

void top_mouse(struct top *t, struct press press)
{
	if (press.key == PRESS_CLICK)
		click(t, press.y, press.x);
	else if (press.key == PRESS_RELEASE)
		release(t, press.x);
	else
		wheel(t, press.key == PRESS_WHEEL_UP, press.y, press.x);
}
