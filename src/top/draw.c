/* SPDX-License-Identifier: MIT
 *
 * Layout. From the top: the title, the head, charts, events, processes, one line for keys and
 * questions. Above 120 columns the charts are to the right of the processes; if there are too few
 * lines, charts are left out first, then events.
 */
#include "top/draw.h"

#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"
#include "top/format.h"

enum {
	LEAST_COLUMNS = 40,
	LEAST_LINES = 8,
	TABLE_LEAST = 5,       /* minimum lines for processes */
	TWO_COLUMNS = 121,     /* screen width from which charts are to the right of processes */
};

/* ---- the title ---------------------------------------------------------------------------------------------------- */

static void state_text(const struct feed *f, const struct view *v, char *buf, size_t size)
{
	char now[SHORT_LEN], end[SHORT_LEN], each[SHORT_LEN];

	(void) short_time(f->kind == FEED_REPLAY ? f->cursor_ns : f->model->now_ns, now);
	if (f->kind == FEED_REPLAY)
		(void) snprintf(buf, size, "%s of %s  %s x%u", now, short_time(f->end_ns, end),
			f->paused ? "paused" : f->cursor_ns >= f->end_ns ? "ended"
									 : "replay",
			f->speed);
	else
		(void) snprintf(buf, size, "%s  every %s%s%s", now, short_span(f->interval_ns, each),
			v->paused ? "  PAUSED" : "", f->over ? "  ended" : "");
}

/* Draws the host, or the command and its pid, in width columns; the pid is never cut. */
static void draw_subject(struct picture *p, int x, int width)
{
	const struct feed *f = p->f;
	char pid[40] = "";

	if (f->kind == FEED_MACHINE) {
		(void) screen_put_front(p->s, 0, x, width, INK_TITLE, f->about.host);
		return;
	}
	if (f->about.main_pid.known && width > 24)
		(void) snprintf(pid, sizeof(pid), "  pid %lld", (long long) f->about.main_pid.value);
	x += screen_put_front(p->s, 0, x, width - (int) strlen(pid), INK_TITLE, f->title);
	(void) screen_put(p->s, 0, x, -1, INK_TITLE, pid);
}

static void draw_title(struct picture *p)
{
	const int columns = p->s->columns;
	const char *help = columns >= 100 ? "? help  q quit " : "? help ";
	char state[120];
	int right = columns - (int) strlen(help);

	state_text(p->f, p->v, state, sizeof(state));
	screen_fill(p->s, 0, 0, columns, INK_TITLE, " ");
	(void) screen_put(p->s, 0, right, -1, INK_TITLE, help);
	if (columns < 60) /* only the time fits */
		state[strcspn(state, " ")] = '\0';
	right -= (int) text_width(state) + 2;
	(void) screen_put(p->s, 0, right, -1, INK_TITLE, state);
	(void) screen_put(p->s, 0, 1, -1, INK_TITLE, "hiwater");
	draw_subject(p, 9, right - 10);
}

/* ---- the line at the bottom --------------------------------------------------------------------------------------- */

/* Bytes of cleaned text that fit in a line: whole words, if one fits. */
static size_t line_of(const char *text, int columns)
{
	const size_t fits = text_fit(text, (unsigned) columns);
	size_t n = fits;

	if (!text[fits])
		return fits;
	while (n > 0 && text[n] != ' ')
		n--;
	return n > 0 ? n : fits;
}

int draw_wrapped(struct screen *s, int bottom, enum ink ink, const char *text)
{
	const int room = s->columns > 2 ? s->columns - 2 : 1;
	const char *at = text;
	int lines = 0;

	for (; *at && lines < bottom; at += strspn(at, " "), lines++)
		at += line_of(at, room);
	for (int y = bottom - lines + 1; y <= bottom; y++) {
		const size_t len = line_of(text, room);

		screen_fill(s, y, 0, s->columns, INK_PLAIN, " ");
		(void) screen_print(s, y, 1, ink, "%.*s", (int) len, text);
		text += len;
		text += strspn(text, " ");
	}
	return lines;
}

/* Draws choices, separated by two blanks, on as many lines from y upwards as needed. */
static void draw_menu(struct picture *p, int y, const char *question)
{
	const int columns = p->s->columns, left = 1 + (int) strlen(question);
	int lines = 1, x = left;

	for (int draws = 0; draws < 2; draws++) { /* the first pass only measures */
		y -= draws ? lines - 1 : 0;
		for (int i = 0; draws && i < lines; i++)
			screen_fill(p->s, y + i, 0, columns, INK_PLAIN, " ");
		x = left;
		if (draws)
			(void) screen_put(p->s, y, 1, -1, INK_BOLD, question);
		for (const char *at = p->v->input; *at; at += strspn(at, " ")) {
			const char *end = strstr(at, "  ");
			const int len = end ? (int) (end - at) : (int) strlen(at);

			if (x + len > columns) {
				lines += !draws;
				y += draws;
				x = left;
			}
			if (draws) {
				(void) screen_print(p->s, y, x, INK_PLAIN, "%.*s", len, at);
				(void) screen_print(p->s, y, x, INK_LETTER, "%.1s", at);
			}
			x += len + 2;
			at += len;
		}
	}
}

static void draw_question(struct picture *p, int y)
{
	static const char *const questions[] = {
		[ASK_FILTER] = "filter (rss > 1GiB and name ~ ^py): ",
		[ASK_SEARCH] = "find: ",
		[ASK_MARK] = "mark: ",
		[ASK_SORT] = "sort by ",
		[ASK_SIGNAL] = "signal: ",
		[ASK_SURE] = "sure? ",
	};
	const char *question = questions[p->v->asking];
	char input[INPUT_LEN + 1];

	if (p->v->asking == ASK_SORT || p->v->asking == ASK_SIGNAL) {
		draw_menu(p, y, question);
		return;
	}
	(void) snprintf(input, sizeof(input), "%s_", p->v->input);
	if (strlen(question) + strlen(input) + 2 > (size_t) p->s->columns) { /* question above the answer */
		y -= draw_wrapped(p->s, y, INK_PLAIN, input);
		y -= draw_wrapped(p->s, y, INK_BOLD, question);
	} else {
		const int x = 1 + screen_put(p->s, y, 1, -1, INK_BOLD, question);

		(void) screen_put(p->s, y--, x, -1, INK_PLAIN, input);
	}
	(void) draw_wrapped(p->s, y, INK_ERROR, p->v->trouble);
}

static void draw_keys(struct picture *p, int y)
{
	static const char *const live[] = { "? help", "q quit", "space pause", "s sort", "/ filter", "f find",
		"t tree", "[ ] zoom", "Enter details", "m mark", "e events", "C cores", "F9 signal",
		"Tab panel", "w report", "F2 setup", NULL };
	static const char *const replay[] = { "? help", "q quit", "space pause", ", . step", "1 2 4 8 speed",
		"s sort", "/ filter", "f find", "t tree", "[ ] zoom", "Enter details", "Tab panel",
		"w report", "F2 setup", NULL };
	const char *const *keys = p->f->kind == FEED_REPLAY ? replay : live;
	int x = 1;

	if (*p->v->message)
		(void) draw_wrapped(p->s, y, INK_WARN, p->v->message);
	else if (p->v->filter)
		(void) screen_print(p->s, y, 1, INK_BOLD, "filter: %s", p->v->filter_text);
	else
		for (; *keys && x + (int) strlen(*keys) < p->s->columns; keys++)
			x += screen_put(p->s, y, x, -1, INK_DIM, *keys) + 2;
}

/* ---- tiny screens -------------------------------------------------------------------------------------------------- */

static void draw_line(struct picture *p)
{
	const struct thing *t = p->m->machine ? &p->m->host : &p->m->job;
	const struct figure *ram = model_figure(p->m, t, p->m->machine ? HOST_MEM_USED : JOB_RAM);
	char amount[SHORT_LEN] = "-", peak[SHORT_LEN] = "-", cpu[SHORT_LEN] = "-";
	double rate;

	if (ram) {
		(void) short_bytes((double) ram->value, p->v->units, amount);
		(void) short_bytes((double) ram->peak, p->v->units, peak);
	}
	if (model_rate(p->m, t, p->m->machine ? HOST_CPU_USER : JOB_CPU_USER,
		    p->m->machine ? HOST_CPU_SYSTEM : JOB_CPU_SYSTEM, &rate))
		(void) short_number(rate / 1e9, cpu);
	char text[4 * SHORT_LEN] = "";

	for (int parts = 3; parts > 0; parts--) { /* leave parts out rather than cut them */
		(void) snprintf(text, sizeof(text), "RAM %s%s%s%s%s", amount, parts > 2 ? " peak " : "",
			parts > 2 ? peak : "", parts > 1 ? " CPU " : "", parts > 1 ? cpu : "");
		if ((int) text_width(text) <= p->s->columns)
			break;
	}
	(void) screen_put(p->s, 0, 0, -1, INK_PLAIN, text);
}

/* ---- all of it ---------------------------------------------------------------------------------------------------- */

/* Draws the enlarged panel, if any. */
static bool draw_expanded(struct picture *p, int y, int room)
{
	if (!p->v->expanded)
		return false;
	p->table_y = p->s->rows; /* no table */
	if (p->v->panel == PANEL_CHARTS)
		return draw_charts(p, y, room, 0, p->s->columns) > 0;
	return draw_events(p, y, room, p->s->columns) > 0;
}

static int draw_middle(struct picture *p, int y, int bottom)
{
	const bool two_columns = p->s->columns >= TWO_COLUMNS && p->v->show_charts;
	const int width = two_columns ? p->s->columns * 3 / 5 : p->s->columns;
	const int right = p->s->columns - width;
	int room = bottom - y;

	p->chart_y = p->chart_end = 0;
	p->table_columns = width;
	if (draw_expanded(p, y, room))
		return bottom;
	if (two_columns)
		(void) draw_charts(p, y, room, width + 1, right - 1);
	else if (p->v->show_charts && room - TABLE_LEAST >= 3)
		y += draw_charts(p, y,
			room / 2 > room - TABLE_LEAST ? room - TABLE_LEAST
			: room / 2 > 13               ? 13
						      : room / 2,
			0, width);
	room = bottom - y;
	if (room - TABLE_LEAST >= 2)
		y += draw_events(p, y,
			room - TABLE_LEAST > (p->s->rows >= 40 ? 7 : 4) ? (p->s->rows >= 40 ? 7 : 4)
									: room - TABLE_LEAST,
			width);
	room = bottom - y;
	if (p->v->detail)
		y += draw_detail(p, y, room > 10 ? 8 : room, width);
	draw_table(p, y, bottom - y, width);
	return y;
}

void draw(struct picture *p)
{
	struct screen *s = p->s;
	const int bottom = s->rows - 1;
	int y = 1;

	view_rows(p->v, p->m);
	screen_begin(s);
	if (s->columns < LEAST_COLUMNS || s->rows < LEAST_LINES) {
		draw_line(p);
	} else if (p->v->help) {
		draw_help(p);
	} else {
		draw_title(p);
		y += draw_head(
			p, y, s->rows - TABLE_LEAST > 14 ? s->rows * 2 / 5 + 1 : s->rows - TABLE_LEAST - 1);
		(void) draw_middle(p, y, bottom);
		if (p->v->asking != ASK_NOTHING)
			draw_question(p, bottom);
		else
			draw_keys(p, bottom);
	}
	screen_show(s);
}
