/* SPDX-License-Identifier: MIT
 *
 * What keys do. A key is a row; nothing ends or slows the job at one key alone.
 */
#include <stdio.h>
#include <string.h>

#include "top/format.h"
#include "top/top.h"

#define SECOND UINT64_C(1000000000)

typedef void action(struct top *t, int key);

static void say(struct top *t, const char *text)
{
	(void) snprintf(t->view.message, sizeof(t->view.message), "%s", text);
}

/* ---- looking about ------------------------------------------------------------------------------------------------ */

static void quit(struct top *t, int key)
{
	(void) key;
	t->quit = true;
}

static void help(struct top *t, int key)
{
	(void) key;
	t->view.help = !t->view.help;
}

static void move(struct top *t, int key)
{
	struct view *v = &t->view;
	const size_t place = view_place(v), page = v->page ? v->page : 1;

	if (v->picked == 0 && key != PRESS_LAST && key != 'G') {
		view_pick(v, v->top);
		return;
	}
	switch (key) {
	case PRESS_ARROW_UP:
	case 'k':
		view_pick(v, place > 0 ? place - 1 : 0);
		break;
	case PRESS_ARROW_DOWN:
	case 'j':
		view_pick(v, place + 1);
		break;
	case PRESS_PAGE_UP:
		view_pick(v, place > page ? place - page : 0);
		break;
	case PRESS_PAGE_DOWN:
		view_pick(v, place + page);
		break;
	case PRESS_FIRST:
	case 'g':
		view_pick(v, 0);
		break;
	default:
		view_pick(v, v->n_rows);
		break;
	}
}

static void unpick(struct top *t, int key)
{
	(void) key;
	t->view.picked = 0;
	t->view.detail = false;
	t->view.to_ns = 0;
	if (t->view.filter)
		(void) view_filter(&t->view, "");
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
		say(t, err.text);
}

/* ---- choosing ----------------------------------------------------------------------------------------------------- */

static void ask(struct top *t, enum asking what)
{
	t->view.asking = what;
	t->view.input[0] = t->view.trouble[0] = '\0';
}

static void ask_sort(struct top *t, int key)
{
	(void) key;
	ask(t, ASK_SORT);
	for (int c = 0; c < COLUMNS; c++) {
		const size_t at = strlen(t->view.input);

		if (column_infos[c].on_gpu && t->model.n_gpus == 0)
			continue;
		(void) snprintf(t->view.input + at, sizeof(t->view.input) - at, "%c %s  ", column_infos[c].letter, column_infos[c].title);
	}
}

static void next_column(struct top *t, int key)
{
	const int step = key == '<' ? COLUMNS - 1 : 1;
	int width;

	do
		t->view.sort = (enum column)((int) (t->view.sort + (unsigned) step) % COLUMNS);
	while ((void) table_column(&t->picture, t->view.sort, &width), width == 0);
}

static void reverse(struct top *t, int key)
{
	(void) key;
	t->view.reverse = !t->view.reverse;
}

static void tree(struct top *t, int key)
{
	(void) key;
	t->view.tree = !t->view.tree;
}

static void ask_filter(struct top *t, int key)
{
	(void) key;
	ask(t, ASK_FILTER);
	(void) snprintf(t->view.input, sizeof(t->view.input), "%s", t->view.filter_text);
}

static void ask_search(struct top *t, int key)
{
	(void) key;
	ask(t, ASK_SEARCH);
}

static void search_again(struct top *t, int key)
{
	(void) key;
	view_search(&t->view, &t->model, true);
}

static void details(struct top *t, int key)
{
	(void) key;
	if (t->view.picked == 0)
		view_pick(&t->view, t->view.top);
	t->view.detail = !t->view.detail;
}

static void events(struct top *t, int key)
{
	(void) key;
	t->view.show_events = !t->view.show_events;
}

static void charts(struct top *t, int key)
{
	(void) key;
	t->view.show_charts = !t->view.show_charts;
}

static void cores(struct top *t, int key)
{
	(void) key;
	t->view.show_cores = !t->view.show_cores;
	if (t->view.show_cores && t->model.n_cores == 0)
		say(t, "each core is known of a live view only");
}

static void units(struct top *t, int key)
{
	(void) key;
	t->view.units = t->view.units == UNITS_IEC ? UNITS_SI : t->view.units == UNITS_SI ? UNITS_BYTES
											  : UNITS_IEC;
}

static void colors(struct top *t, int key)
{
	(void) key;
	screen_colors(&t->screen, !t->screen.color);
}

static void redo(struct top *t, int key)
{
	(void) key;
	screen_redo(&t->screen);
}

/* ---- time --------------------------------------------------------------------------------------------------------- */

static void pause_it(struct top *t, int key)
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
		say(t, err.text);
}

static void step(struct top *t, int key)
{
	const bool arrow = key == PRESS_ARROW_LEFT || key == PRESS_ARROW_RIGHT, back = key == PRESS_ARROW_LEFT || key == ',';
	const uint64_t one = t->feed.interval_ns ? t->feed.interval_ns : SECOND, by = arrow ? 10 * one : one;
	const uint64_t now = t->feed.cursor_ns;

	if (t->feed.kind != FEED_REPLAY)
		return;
	top_go(t, !back ? now + by : now > by ? now - by
					      : 0);
}

static void speed(struct top *t, int key)
{
	if (t->feed.kind != FEED_REPLAY)
		return;
	t->feed.speed = (unsigned) (key - '0');
	feed_pause(&t->feed, false);
}

/* ---- telling the job ---------------------------------------------------------------------------------------------- */

static void ask_mark(struct top *t, int key)
{
	(void) key;
	if (t->feed.kind == FEED_REPLAY || t->feed.over)
		say(t, "a run that is over takes no marks");
	else
		ask(t, ASK_MARK);
}

static void mark(struct top *t, const char *text)
{
	struct hiw_err err = { "" };
	const int r = t->feed.recorder ? hiw_recorder_mark(t->feed.recorder, text) : hiw_mark(text, &err);

	if (r < 0)
		say(t, *err.text ? err.text : "the mark could not be made");
}

static void ask_signal(struct top *t, int key)
{
	(void) key;
	if (!top_may_signal(t))
		return;
	ask(t, ASK_SIGNAL);
	(void) snprintf(t->view.input, sizeof(t->view.input), "%s", signal_menu());
}

/* ---- the table of keys -------------------------------------------------------------------------------------------- */

static const struct binding {
	int keys[8];           /* ends with a 0 where it is shorter */
	action *act;
	const char *shown, *sentence;
} bindings[] = {
	{ { 'q' }, quit, "q", "leave; the job goes on" },
	{ { '?', 'h', PRESS_FUNCTION + 1 }, help, "? h F1", "this page" },
	{ { PRESS_ARROW_UP, PRESS_ARROW_DOWN, 'j', 'k' }, move, "up down j k", "pick a process" },
	{ { PRESS_PAGE_UP, PRESS_PAGE_DOWN, 'g', 'G', PRESS_FIRST, PRESS_LAST }, move, "PgUp PgDn g G", "page, first, last" },
	{ { PRESS_RETURN, 'x' }, details, "Enter x", "all of one process" },
	{ { 's', PRESS_FUNCTION + 6 }, ask_sort, "s F6", "sort by" },
	{ { '<', '>' }, next_column, "< >", "sort by the next column" },
	{ { 'I' }, reverse, "I", "the other way round" },
	{ { 't', PRESS_FUNCTION + 5 }, tree, "t F5", "as a tree" },
	{ { '/', PRESS_FUNCTION + 4 }, ask_filter, "/ F4", "filter: rss > 1GiB" },
	{ { 'f', PRESS_FUNCTION + 3 }, ask_search, "f F3", "find a name or a pid" },
	{ { 'n' }, search_again, "n", "find the next" },
	{ { PRESS_CANCEL }, unpick, "Esc", "no filter, no pick" },
	{ { '[', ']' }, top_zoom, "[ ]", "charts: less, more time" },
	{ { 'v' }, charts, "v", "charts on and off" },
	{ { 'e' }, events, "e", "events on and off" },
	{ { 'C' }, cores, "C", "each core" },
	{ { ' ' }, pause_it, "space", "stand still, go on" },
	{ { ',', '.' }, step, ", .", "replay: a step" },
	{ { PRESS_ARROW_LEFT, PRESS_ARROW_RIGHT }, step, "left right", "replay: ten steps" },
	{ { '1', '2', '4', '8' }, speed, "1 2 4 8", "replay: speed" },
	{ { 'm' }, ask_mark, "m", "a mark in the run" },
	{ { 'u' }, units, "u", "GiB, GB, bytes" },
	{ { 'c' }, colors, "c", "colours on and off" },
	{ { PRESS_FUNCTION + 9 }, ask_signal, "F9", "signal (asks first)" },
	{ { 'L' - 'A' + 1 }, redo, "Ctrl-L", "draw anew" },
};

enum {
	BINDINGS = sizeof(bindings) / sizeof(bindings[0])
};

const char *const *key_help(void)
{
	static const char *rows[2 * BINDINGS + 2];

	for (size_t i = 0; i < BINDINGS; i++) {
		rows[2 * i] = bindings[i].shown;
		rows[2 * i + 1] = bindings[i].sentence;
	}
	return rows;
}

static void act(struct top *t, int key)
{
	for (size_t i = 0; i < BINDINGS; i++) {
		for (size_t k = 0; k < 8 && bindings[i].keys[k]; k++) {
			if (bindings[i].keys[k] == key) {
				bindings[i].act(t, key);
				return;
			}
		}
	}
}

/* ---- questions ---------------------------------------------------------------------------------------------------- */

static void choose_sort(struct top *t, int key)
{
	for (int c = 0; c < COLUMNS; c++) {
		if (column_infos[c].letter == key)
			t->view.sort = (enum column) c;
	}
	ask(t, ASK_NOTHING);
}

static void choose_signal(struct top *t, int key)
{
	const struct thing *process = model_find(&t->model, HIW_PROCESS, t->view.picked);

	t->view.signal = signal_of(key);
	if (t->view.signal == 0 || !process) {
		ask(t, ASK_NOTHING);
		return;
	}
	ask(t, ASK_SURE);
	t->view.signal_to = process->id;
	(void) snprintf(t->view.input, sizeof(t->view.input), "%s to %lld %.60s: y or n", signal_name(t->view.signal),
		(long long) process->pid.value, process->name ? process->name : "");
}

/* The line is finished. */
static void answer(struct top *t)
{
	struct view *v = &t->view;

	switch (v->asking) {
	case ASK_FILTER:
		if (view_filter(v, v->input) < 0)
			return;
		break;
	case ASK_SEARCH:
		(void) snprintf(v->search, sizeof(v->search), "%s", v->input);
		view_search(v, &t->model, false);
		break;
	case ASK_MARK:
		if (*v->input)
			mark(t, v->input);
		break;
	case ASK_NOTHING:
	case ASK_SORT:
	case ASK_SIGNAL:
	case ASK_SURE:
		break;
	}
	v->asking = ASK_NOTHING;
}

static void edit(struct view *v, int key)
{
	const size_t len = strlen(v->input);

	v->trouble[0] = '\0';
	if (key == PRESS_ERASE && len > 0)
		v->input[len - 1] = '\0';
	else if (key >= ' ' && key < 127 && len + 1 < sizeof(v->input)) {
		v->input[len] = (char) key;
		v->input[len + 1] = '\0';
	}
}

static void take_answer(struct top *t, int key)
{
	if (key == PRESS_CANCEL)
		ask(t, ASK_NOTHING);
	else if (t->view.asking == ASK_SORT)
		choose_sort(t, key);
	else if (t->view.asking == ASK_SIGNAL)
		choose_signal(t, key);
	else if (t->view.asking == ASK_SURE) {
		if (key == 'y')
			top_signal(t, t->view.signal);
		ask(t, ASK_NOTHING);
	} else if (key == PRESS_RETURN)
		answer(t);
	else
		edit(&t->view, key);
}

/* ---- all of it ---------------------------------------------------------------------------------------------------- */

void top_key(struct top *t, struct press press)
{
	t->redraw = true;
	t->view.message[0] = '\0';
	if (press.key >= PRESS_CLICK && press.key <= PRESS_WHEEL_DOWN) {
		if (t->view.asking == ASK_NOTHING) /* what a question is about stays */
			top_mouse(t, press);
	} else if (t->view.help) {
		t->view.help = false;
	} else if (t->view.asking != ASK_NOTHING) {
		take_answer(t, press.key);
	} else {
		act(t, press.key);
	}
}
