/* SPDX-License-Identifier: MIT */
#include "top/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static const uint64_t zooms[] = { 60 * SECOND, 180 * SECOND, 600 * SECOND, 1800 * SECOND, 3600 * SECOND,
	6 * 3600 * SECOND, 24 * 3600 * SECOND, 0 };

enum {
	ZOOMS = sizeof(zooms) / sizeof(zooms[0]),
	ZOOM_FIRST = 2
};

void view_init(struct view *v, enum units units, bool color)
{
	*v = (struct view) {
		.sort = COL_RAM,
		.units = units,
		.color = color,
		.zoom = ZOOM_FIRST,
		.show_events = true,
		.show_charts = true,
	};
}

void view_done(struct view *v)
{
	hwi_filter_free(v->filter);
	free(v->rows);
}

uint64_t view_span(const struct view *v)
{
	return zooms[v->zoom];
}

void view_zoom(struct view *v, int step)
{
	v->to_ns = 0;
	if (step < 0 && v->zoom > 0)
		v->zoom--;
	else if (step > 0 && v->zoom + 1 < ZOOMS)
		v->zoom++;
}

size_t view_place(const struct view *v)
{
	for (size_t i = 0; v->picked && i < v->n_rows; i++) {
		if (v->rows[i].id == v->picked)
			return i;
	}
	return 0;
}

void view_pick(struct view *v, size_t place)
{
	if (v->n_rows == 0)
		return;
	if (place >= v->n_rows)
		place = v->n_rows - 1;
	v->picked = v->rows[place].id;
}

static bool has_text(const struct thing *t, const char *text)
{
	char pid[24];

	(void) snprintf(pid, sizeof(pid), "%lld", (long long) t->pid.value);
	return (t->name && strcasestr(t->name, text)) || (t->command && strcasestr(t->command, text)) ||
	       strcmp(pid, text) == 0;
}

void view_search(struct view *v, const struct model *m, bool again)
{
	const size_t from = view_place(v) + (again ? 1 : 0);

	for (size_t i = 0; *v->search && i < v->n_rows; i++) {
		const size_t place = (from + i) % v->n_rows;
		const struct thing *process = model_find(m, HIW_PROCESS, v->rows[place].id);

		if (process && has_text(process, v->search)) {
			view_pick(v, place);
			return;
		}
	}
	if (*v->search)
		(void) snprintf(v->message, sizeof(v->message), "no process matches '%.100s'", v->search);
}
