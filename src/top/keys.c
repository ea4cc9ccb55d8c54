/* SPDX-License-Identifier: MIT
 *
 * Keys and the mouse. A key goes to the open page or question, else to its action in keys.def.
 */
#include "top/keys.h"

#include <stdio.h>
#include <string.h>

#include "top/format.h"
#include "top/top.h"

static const struct binding {
	int keys[8]; /* 0-terminated if shorter */
	key_action *act;
} bindings[] = {
#define KEY(name, shown, sentence, ...) { { __VA_ARGS__ }, key_##name },
#include "top/keys.def"
#undef KEY
};

const char *const *key_texts(void)
{
	static const char *const texts[] = {
#define KEY(name, shown, sentence, ...) shown, sentence,
#include "top/keys.def"
#undef KEY
		NULL,
	};

	return texts;
}

void key_say(struct top *t, const char *text)
{
	(void) snprintf(t->view.message, sizeof(t->view.message), "%s", text);
}

static key_action *action_of(int key)
{
	for (size_t i = 0; i < sizeof(bindings) / sizeof(bindings[0]); i++) {
		for (size_t k = 0; k < 8 && bindings[i].keys[k]; k++) {
			if (bindings[i].keys[k] == key)
				return bindings[i].act;
		}
	}
	return NULL;
}

/* Movement keys scroll a page that does not fit; any other key leaves it. */
static void help_key(struct view *v, const struct picture *p, int key)
{
	if (p->help_rest == 0 && v->help_top == 0)
		v->help = false;
	else if (key == PRESS_ARROW_UP || key == 'k' || key == PRESS_WHEEL_UP)
		v->help_top -= v->help_top > 0;
	else if (key == PRESS_ARROW_DOWN || key == 'j' || key == PRESS_WHEEL_DOWN)
		v->help_top += p->help_rest > 0;
	else if (key == PRESS_PAGE_UP)
		v->help_top = v->help_top > p->help_page ? v->help_top - p->help_page : 0;
	else if (key == PRESS_PAGE_DOWN)
		v->help_top += p->help_rest < p->help_page ? p->help_rest : p->help_page;
	else
		v->help = false;
}

static bool is_mouse(int key)
{
	return key >= PRESS_CLICK && key <= PRESS_WHEEL_DOWN;
}

/* A pasted text is no key: it goes to a line that is being edited, else nowhere. */
static void take_paste(struct top *t, int key)
{
	if (question_is_text(t) && key >= ' ' && key < 127)
		question_key(t, key);
	else if (!question_is_text(t))
		key_say(t, "pasted text is ignored");
}

void top_key(struct top *t, struct press press)
{
	key_action *act = action_of(press.key);

	t->redraw = true;
	if (press.pasted) {
		take_paste(t, press.key);
		return;
	}
	if (act == key_quit && !question_is_text(t)) { /* from every page and menu */
		act(t, press.key);
		return;
	}
	t->view.message[0] = '\0';
	if (t->view.setup)
		setup_key(t, press);
	else if (t->view.help)
		help_key(&t->view, &t->picture, press.key);
	else if (is_mouse(press.key) && t->view.asking == ASK_NOTHING) /* a question keeps its subject */
		top_mouse(t, press);
	else if (is_mouse(press.key))
		return;
	else if (t->view.asking != ASK_NOTHING)
		question_key(t, press.key);
	else if (act)
		act(t, press.key);
}

/* ---- pages --------------------------------------------------------------------------------------------------------- */

void key_quit(struct top *t, int key)
{
	(void) key;
	t->quit = true;
}

void key_help(struct top *t, int key)
{
	(void) key;
	t->view.help = !t->view.help;
	t->view.help_top = 0;
}

void key_setup(struct top *t, int key)
{
	(void) key;
	t->view.setup = !t->view.setup;
	t->view.setup_row = 0;
}

/* ---- panels ------------------------------------------------------------------------------------------------------- */

/* The place after a movement key in a list of n with page visible; may be past the end, which the
 * drawing corrects. */
static size_t moved(size_t place, size_t page, size_t n, int key)
{
	switch (key) {
	case PRESS_ARROW_UP:
	case 'k':
		return place > 0 ? place - 1 : 0;
	case PRESS_ARROW_DOWN:
	case 'j':
		return place + 1;
	case PRESS_PAGE_UP:
		return place > page ? place - page : 0;
	case PRESS_PAGE_DOWN:
		return place + page;
	case PRESS_FIRST:
	case 'g':
		return 0;
	default:
		return n;
	}
}

/* Scrolled events keep their position when new ones arrive, unless the newest is visible. */
static void move_events(struct top *t, int key)
{
	const size_t n = t->picture.n_events, page = t->picture.events_page ? t->picture.events_page : 1;
	const size_t newest = n > page ? n - page : 0, back = t->view.events_back;
	const size_t first = moved(newest > back ? newest - back : 0, page, newest, key);

	t->view.events_back = first < newest ? newest - first : 0;
}

void key_move(struct top *t, int key)
{
	struct view *v = &t->view;

	if (v->panel == PANEL_CHARTS)
		v->charts_first = moved(v->charts_first, t->picture.charts_page, t->picture.n_charts, key);
	else if (v->panel == PANEL_EVENTS)
		move_events(t, key);
	else if (v->picked == 0 && key != PRESS_LAST && key != 'G')
		view_pick(v, v->top);
	else
		view_pick(v, moved(view_place(v), v->page ? v->page : 1, v->n_rows, key));
}

static bool has_panel(const struct top *t, enum panel panel)
{
	switch (panel) {
	case PANEL_CHARTS:
		return t->view.show_charts && t->picture.n_charts > 0;
	case PANEL_EVENTS:
		return t->view.show_events && t->picture.n_events > 0;
	case PANEL_PROCESSES:
	case PANELS:
		break;
	}
	return true;
}

void key_panel(struct top *t, int key)
{
	static const char *const texts[PANELS] = {
		[PANEL_PROCESSES] = "processes: arrows select, Enter shows details",
		[PANEL_CHARTS] = "charts: arrows scroll, Enter enlarges, Esc goes back",
		[PANEL_EVENTS] = "events: arrows scroll, Enter enlarges, Esc goes back",
	};
	struct view *v = &t->view;
	const unsigned step = key == PRESS_TAB_BACK ? PANELS - 1 : 1;

	do
		v->panel = (enum panel)((v->panel + step) % PANELS);
	while (!has_panel(t, v->panel));
	v->expanded = false;
	key_say(t, texts[v->panel]);
}

void key_expand(struct top *t, int key)
{
	struct view *v = &t->view;

	(void) key;
	if (v->panel != PANEL_PROCESSES) {
		v->expanded = !v->expanded;
		return;
	}
	if (v->picked == 0)
		view_pick(v, v->top);
	v->detail = !v->detail;
}

void key_back(struct top *t, int key)
{
	(void) key;
	t->view.picked = 0;
	t->view.detail = t->view.expanded = false;
	t->view.panel = PANEL_PROCESSES;
	t->view.charts_first = t->view.events_back = 0;
	t->view.to_ns = 0;
	if (t->view.filter)
		(void) view_filter(&t->view, "");
}

/* ---- processes ---------------------------------------------------------------------------------------------------- */

/* A hidden column still sorts; then the bottom line says so. */
void key_sorted(struct top *t)
{
	int width;

	(void) table_column(&t->picture, t->view.sort, &width);
	if (width == 0) {
		char text[64];

		(void) snprintf(text, sizeof(text), "sorted by %s", column_infos[t->view.sort].title);
		key_say(t, text);
	}
}

void key_next_column(struct top *t, int key)
{
	const enum column before = t->view.sort;
	const int step = key == '<' ? COLUMNS - 1 : 1;
	int width;

	do
		t->view.sort = (enum column)((int) (t->view.sort + (unsigned) step) % COLUMNS);
	while (t->view.sort != before &&
		((void) table_column(&t->picture, t->view.sort, &width), width == 0));
}

void key_reverse(struct top *t, int key)
{
	(void) key;
	t->view.reverse = !t->view.reverse;
}

void key_tree(struct top *t, int key)
{
	(void) key;
	t->view.tree = !t->view.tree;
}

void key_search_again(struct top *t, int key)
{
	(void) key;
	view_search(&t->view, &t->model, true);
}

/* ---- the rest ----------------------------------------------------------------------------------------------------- */

void key_charts(struct top *t, int key)
{
	(void) key;
	t->view.show_charts = !t->view.show_charts;
}

void key_events(struct top *t, int key)
{
	(void) key;
	t->view.show_events = !t->view.show_events;
}

void key_cores(struct top *t, int key)
{
	(void) key;
	t->view.show_cores = !t->view.show_cores;
	if (t->view.show_cores && t->model.n_cores == 0)
		key_say(t, "single cores are shown in a live view only");
}

void key_units(struct top *t, int key)
{
	(void) key;
	t->view.units = t->view.units == UNITS_IEC ? UNITS_SI : t->view.units == UNITS_SI ? UNITS_BYTES
											  : UNITS_IEC;
}

void key_colors(struct top *t, int key)
{
	(void) key;
	screen_colors(&t->screen, !t->screen.color);
}

void key_redraw(struct top *t, int key)
{
	(void) key;
	screen_redo(&t->screen);
}

/* ---- time: the span of charts, pause, the interval, the position in a replay ---------------------------------------- */

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
	if (t->feed.paused && t->feed.cursor_ns >= t->feed.end_ns) { /* restart from the beginning */
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
	const bool arrow = key == PRESS_ARROW_LEFT || key == PRESS_ARROW_RIGHT,
		   back = key == PRESS_ARROW_LEFT || key == ',';
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

/* ---- interval ------------------------------------------------------------------------------------------------------ */

/* The next interval in that direction; 0: none. */
static uint64_t next_interval(uint64_t interval_ns, int key)
{
	static const uint64_t intervals[] = { 100 * MS, 200 * MS, 500 * MS, SECOND, 2 * SECOND, 5 * SECOND,
		10 * SECOND, 30 * SECOND, 60 * SECOND };
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
		(void) snprintf(text, sizeof(text), "%s is the %s interval%s",
			short_span(f->interval_ns, each), key == '+' ? "longest" : "shortest",
			f->recorder ? "" : " of the recording");
		key_say(t, text);
		return;
	}
	r = feed_set_interval(f, next);
	if (r < 0)
		(void) snprintf(text, sizeof(text), "interval not changed: %s", strerror(-r));
	else
		(void) snprintf(text, sizeof(text), f->kind == FEED_REPLAY ? "step: %s" : "interval: %s",
			short_span(next, each));
	key_say(t, text);
}

/* ---- the mouse: titles sort, rows are selected, the wheel scrolls or zooms, a drag in a chart zooms ---------------- */

static bool is_in_chart(const struct picture *p, int y, int x)
{
	return p->chart_end > 0 && y >= p->chart_y && y < p->chart_end && x >= p->chart_x &&
	       x < p->chart_x + p->chart_columns;
}

static uint64_t time_at(const struct picture *p, int x)
{
	const uint64_t span = p->chart_to_ns - p->chart_from_ns;

	x = x < p->chart_x ? 0 : x - p->chart_x;
	if (x > p->chart_columns)
		x = p->chart_columns;
	return p->chart_from_ns + span / (uint64_t) p->chart_columns * (uint64_t) x;
}

/* A column title sorts, again: reverses; a row is selected; in a chart a drag begins. */
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

/* A drag sets the span of the charts; a click in a chart of a replay moves there. */
static void release(struct top *t, int x)
{
	if (t->drag_x < 0) /* no drag in a chart */
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
