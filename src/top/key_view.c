/* SPDX-License-Identifier: MIT
 *
 * Keys that change what is seen, and nothing else.
 */
#include <stdio.h>

#include "top/keys.h"

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

/* Where a key leads from place in a list of n, page of which are seen; past the end is for others to see to. */
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

/* Events stand where they are while new ones come, unless the newest was seen. */
static void move_events(struct top *t, int key)
{
	const size_t n = t->picture.n_events, page = t->picture.events_page ? t->picture.events_page : 1;
	const size_t seen = n > page ? n - page : 0, back = t->view.events_back;
	const size_t first = moved(seen > back ? seen - back : 0, page, seen, key);

	t->view.events_back = first < seen ? seen - first : 0;
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
		[PANEL_PROCESSES] = "processes: arrows pick, Enter shows all of one",
		[PANEL_CHARTS] = "charts: arrows scroll, Enter enlarges, Esc: back",
		[PANEL_EVENTS] = "events: arrows scroll, Enter enlarges, Esc: back",
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

/* A column that has no room here still sorts: then the line at the bottom says so. */
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
	while (t->view.sort != before && ((void) table_column(&t->picture, t->view.sort, &width), width == 0));
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
		key_say(t, "each core is known of a live view only");
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
