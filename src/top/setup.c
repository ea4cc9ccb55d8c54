/* SPDX-License-Identifier: MIT
 *
 * F2: all settings on one page. Settings use the actions of their keys; columns and the mouse can
 * be changed only here. Settings are not saved.
 */
#include <stddef.h>
#include <stdio.h>

#include "top/format.h"
#include "top/keys.h"

/* ---- settings ----------------------------------------------------------------------------------------------------- */

static void show_sort(const struct top *t, char *buf, size_t size)
{
	(void) snprintf(buf, size, "%s", column_infos[t->view.sort].title);
}

static void show_order(const struct top *t, char *buf, size_t size)
{
	(void) snprintf(buf, size, "%s", column_infos[t->view.sort].down != t->view.reverse ? "down" : "up");
}

static void show_zoom(const struct top *t, char *buf, size_t size)
{
	char span[SHORT_LEN];

	(void) snprintf(buf, size, "%s", view_span(&t->view) ? short_span(view_span(&t->view), span) : "all");
}

static void show_units(const struct top *t, char *buf, size_t size)
{
	static const char *const names[] = {
		[UNITS_IEC] = "GiB", [UNITS_SI] = "GB", [UNITS_BYTES] = "bytes"
	};

	(void) snprintf(buf, size, "%s", names[t->view.units]);
}

static void show_interval(const struct top *t, char *buf, size_t size)
{
	char span[SHORT_LEN];

	(void) snprintf(buf, size, "%s", short_span(t->feed.interval_ns, span));
}

static void change_mouse(struct top *t, int key)
{
	(void) key;
	screen_mouse(&t->screen, !t->screen.mouse);
}

static const struct setting {
	const char *name;
	key_action *change;
	int less, more;        /* keys for its action */
	void (*show)(const struct top *t, char *buf, size_t size); /* NULL: yes or no, by flag */
	size_t flag;           /* its offset in struct top */
} settings[] = {
	{ "sorted by (s)", key_next_column, '<', '>', show_sort, 0 },
	{ "order (I)", key_reverse, 'I', 'I', show_order, 0 },
	{ "tree (t)", key_tree, 't', 't', NULL, offsetof(struct top, view.tree) },
	{ "charts (v)", key_charts, 'v', 'v', NULL, offsetof(struct top, view.show_charts) },
	{ "chart time span ([ ])", key_zoom, '[', ']', show_zoom, 0 },
	{ "events (e)", key_events, 'e', 'e', NULL, offsetof(struct top, view.show_events) },
	{ "each core (C)", key_cores, 'C', 'C', NULL, offsetof(struct top, view.show_cores) },
	{ "interval (+ -)", key_interval, '-', '+', show_interval, 0 },
	{ "units (u)", key_units, 'u', 'u', show_units, 0 },
	{ "colours (c)", key_colors, 'c', 'c', NULL, offsetof(struct top, screen.color) },
	{ "mouse", change_mouse, 0, 0, NULL, offsetof(struct top, screen.mouse) },
};

static void show_setting(const struct top *t, const struct setting *setting, char *buf, size_t size)
{
	if (setting->show)
		setting->show(t, buf, size);
	else
		(void) snprintf(
			buf, size, "%s", *(const bool *) ((const char *) t + setting->flag) ? "yes" : "no");
}

/* After the settings: a row for each column that can be hidden. */
static const enum column columns[] = { COL_USER, COL_CPU, COL_RAM, COL_PEAK, COL_SWAP, COL_GPU_MEM,
	COL_GPU_BUSY, COL_READ, COL_WRITE, COL_THREADS };

enum {
	SETTINGS = sizeof(settings) / sizeof(settings[0]),
	ROWS = SETTINGS + sizeof(columns) / sizeof(columns[0]),
	FIRST_LINE = 2,
	NAME_X = 3,
	VALUE_X = 28,
};

static void change(struct top *t, bool more)
{
	const size_t row = t->view.setup_row;

	if (row < SETTINGS)
		settings[row].change(t, more ? settings[row].more : settings[row].less);
	else
		t->view.hidden ^= 1U << columns[row - SETTINGS];
}

/* ---- keys --------------------------------------------------------------------------------------------------------- */

static size_t first_shown(const struct top *t)
{
	const int room = t->screen.rows - FIRST_LINE - 2;
	const size_t lines = room > 1 ? (size_t) room : 1;

	return t->view.setup_row < lines ? 0 : t->view.setup_row - lines + 1;
}

static void click(struct top *t, int y)
{
	const size_t row = first_shown(t) + (size_t) (y - FIRST_LINE);

	if (y < FIRST_LINE || row >= ROWS)
		return;
	t->view.setup_row = row;
	change(t, true);
}

void setup_key(struct top *t, struct press press)
{
	struct view *v = &t->view;

	switch (press.key) {
	case PRESS_ARROW_UP:
	case PRESS_WHEEL_UP:
	case 'k':
		v->setup_row -= v->setup_row > 0;
		break;
	case PRESS_ARROW_DOWN:
	case PRESS_WHEEL_DOWN:
	case 'j':
		v->setup_row += v->setup_row + 1 < ROWS;
		break;
	case PRESS_ARROW_LEFT:
	case '-':
		change(t, false);
		break;
	case PRESS_ARROW_RIGHT:
	case PRESS_RETURN:
	case ' ':
	case '+':
		change(t, true);
		break;
	case PRESS_CLICK:
		click(t, press.y);
		break;
	case PRESS_RELEASE:
		break;
	default:
		v->setup = false;
		break;
	}
}

/* ---- the page ----------------------------------------------------------------------------------------------------- */

static void show_column(const struct top *t, enum column column, char *buf, size_t size)
{
	int width;

	(void) table_column(&t->picture, column, &width);
	(void) snprintf(buf, size, "%s",
		t->view.hidden & 1U << column                         ? "hidden"
		: width                                               ? "shown"
		: column_infos[column].on_gpu && t->model.n_gpus == 0 ? "no GPU"
								      : "too narrow");
}

static void draw_row(struct top *t, size_t row, int y)
{
	const bool picked = row == t->view.setup_row;
	const enum ink ink = picked ? INK_PICKED : INK_PLAIN;
	char name[40], value[40];

	if (row < SETTINGS) {
		(void) snprintf(name, sizeof(name), "%s", settings[row].name);
		show_setting(t, &settings[row], value, sizeof(value));
	} else {
		(void) snprintf(name, sizeof(name), "column %s", column_infos[columns[row - SETTINGS]].title);
		show_column(t, columns[row - SETTINGS], value, sizeof(value));
	}
	if (picked)
		screen_fill(&t->screen, y, 0, t->screen.columns, ink, " ");
	(void) screen_put(&t->screen, y, 1, 1, ink, picked ? ">" : " ");
	(void) screen_put(&t->screen, y, NAME_X, VALUE_X - NAME_X - 1, ink, name);
	(void) screen_put(&t->screen, y, VALUE_X, -1, ink, value);
}

void setup_draw(struct top *t)
{
	struct screen *s = &t->screen;
	const size_t first = first_shown(t);
	const int bottom = s->rows - 1;

	screen_begin(s);
	screen_fill(s, 0, 0, s->columns, INK_TITLE, " ");
	(void) screen_put(s, 0, 1, -1, INK_TITLE, "hiwater top: setup");
	for (size_t row = first; row < ROWS && FIRST_LINE + (int) (row - first) < bottom; row++)
		draw_row(t, row, FIRST_LINE + (int) (row - first));
	if (*t->view.message)
		(void) draw_wrapped(s, bottom, INK_WARN, t->view.message);
	else
		(void) screen_put(s, bottom, 1, -1, INK_DIM, "up down select  left right change  Esc back");
	screen_show(s);
}
