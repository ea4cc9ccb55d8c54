/* SPDX-License-Identifier: MIT
 *
 * Questions on the bottom line, and their answers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "top/keys.h"

/* ---- asking ------------------------------------------------------------------------------------------------------- */

static void ask(struct top *t, enum asking what)
{
	t->view.asking = what;
	t->view.input[0] = t->view.trouble[0] = '\0';
}

void key_ask_sort(struct top *t, int key)
{
	(void) key;
	ask(t, ASK_SORT);
	for (int c = 0; c < COLUMNS; c++) {
		const size_t at = strlen(t->view.input);

		if (column_infos[c].on_gpu && t->model.n_gpus == 0)
			continue;
		(void) snprintf(t->view.input + at, sizeof(t->view.input) - at, "%c %s  ",
			column_infos[c].letter, column_infos[c].title);
	}
}

void key_ask_filter(struct top *t, int key)
{
	(void) key;
	ask(t, ASK_FILTER);
	(void) snprintf(t->view.input, sizeof(t->view.input), "%s", t->view.filter_text);
}

void key_ask_search(struct top *t, int key)
{
	(void) key;
	ask(t, ASK_SEARCH);
}

void key_ask_mark(struct top *t, int key)
{
	(void) key;
	if (t->feed.kind == FEED_REPLAY || t->feed.over)
		key_say(t, "the run has finished: no marks can be added");
	else if (!t->feed.recorder && !getenv("HIWATER_SOCKET"))
		key_say(t, "marks can be added inside the run only: hiwater mark TEXT");
	else
		ask(t, ASK_MARK);
}

void key_ask_signal(struct top *t, int key)
{
	(void) key;
	if (!top_may_signal(t))
		return;
	ask(t, ASK_SIGNAL);
	(void) snprintf(t->view.input, sizeof(t->view.input), "%s", signal_menu());
}

/* ---- answers ------------------------------------------------------------------------------------------------------ */

static void mark(struct top *t, const char *text)
{
	struct hiw_err err = { "" };
	const int r = t->feed.recorder ? hiw_recorder_mark(t->feed.recorder, text) : hiw_mark(text, &err);

	if (r < 0)
		key_say(t, *err.text ? err.text : "the mark could not be added");
}

static void choose_sort(struct top *t, int key)
{
	for (int c = 0; c < COLUMNS; c++) {
		if (column_infos[c].letter == key)
			t->view.sort = (enum column) c;
	}
	ask(t, ASK_NOTHING);
	key_sorted(t);
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
	(void) snprintf(t->view.input, sizeof(t->view.input), "%s to %lld %.60s: y or n",
		signal_name(t->view.signal), (long long) process->pid.value,
		process->name ? process->name : "");
}

/* Applies the finished line. */
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

bool question_is_text(const struct top *t)
{
	const enum asking a = t->view.asking;

	return a == ASK_FILTER || a == ASK_SEARCH || a == ASK_MARK;
}

void question_key(struct top *t, int key)
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
