/* SPDX-License-Identifier: MIT
 *
 * The events, the process table, and the details of one process.
 */
#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"
#include "top/draw.h"
#include "top/format.h"

void draw_rule(struct picture *p, int y, int x, int width, const char *title)
{
	const int right = (int) text_width(title) + 4;

	screen_fill(p->s, y, x, width, INK_DIM, p->s->utf8 ? "\xe2\x94\x80" : "-");
	if (right + 2 < width)
		(void) screen_print(p->s, y, x + width - right, INK_BOLD, " %s ", title);
}

/* ---- events -------------------------------------------------------------------------------------------------------- */

static bool is_listed(const struct event_line *e)
{
	return strcmp(e->kind, "note") != 0;
}

static enum ink ink_of(const struct event_line *e)
{
	if (strcmp(e->kind, "oom") == 0 || strcmp(e->kind, "trigger") == 0)
		return INK_ERROR;
	return strcmp(e->kind, "alert") == 0 || strcmp(e->kind, "gap") == 0 ? INK_WARN : INK_PLAIN;
}

/* Events that are shown, the oldest first. Returns their number. */
static size_t list_events(const struct model *m, const struct event_line *ret[EVENTS_KEPT])
{
	const uint64_t kept = m->n_events < EVENTS_KEPT ? m->n_events : EVENTS_KEPT;
	size_t n = 0;

	for (uint64_t i = m->n_events - kept; i < m->n_events; i++) {
		const struct event_line *e = &m->events[i % EVENTS_KEPT];

		if (is_listed(e))
			ret[n++] = e;
	}
	return n;
}

int draw_events(struct picture *p, int y, int lines, int width)
{
	const struct event_line *list[EVENTS_KEPT];
	const size_t n = p->n_events = list_events(p->m, list);
	const size_t page = p->events_page = lines > 1 ? (size_t) lines - 1 : 0;
	const size_t newest = n > page ? n - page : 0; /* first event on the newest page */
	char title[60], at[SHORT_LEN];
	int used = 1;

	if (!p->v->show_events || n == 0 || lines < 2)
		return 0;
	if (p->v->events_back > newest)
		p->v->events_back = newest;
	(void) snprintf(title, sizeof(title), "%sevents %zu%s (e)", p->v->panel == PANEL_EVENTS ? "> " : "",
		n, p->v->events_back ? ", newer below" : "");
	draw_rule(p, y, 0, width, title);
	for (size_t i = newest - p->v->events_back; i < n && used < lines; i++) {
		const struct event_line *e = list[i];

		(void) screen_print(p->s, y + used++, 1, ink_of(e), "%s %s %s %s",
			ink_of(e) == INK_PLAIN ? "." : "!", short_time(e->time_ns, at), e->kind, e->text);
	}
	return used;
}

/* ---- processes ---------------------------------------------------------------------------------------------------- */

static bool is_shown(const struct picture *p, enum column column)
{
	const struct column_info *info = &column_infos[column];

	return p->table_columns >= (int) info->from && !(info->on_gpu && p->m->n_gpus == 0) &&
	       !(p->v->hidden & 1U << column);
}

int table_column(const struct picture *p, enum column column, int *ret_width)
{
	int x = 1;

	*ret_width = 0;
	for (int c = 0; c < COLUMNS; c++) {
		const int width = column_infos[c].width ? (int) column_infos[c].width : p->table_columns - x;

		if (!is_shown(p, (enum column) c))
			continue;
		if (c == (int) column) {
			*ret_width = width;
			return x;
		}
		x += width + 1;
	}
	return 0;
}

static bool is_left(enum column column)
{
	return column == COL_USER || column == COL_COMMAND;
}

static void draw_heads(struct picture *p, int y)
{
	static const char *const arrows[2][2] = { { "^", "v" }, { "\xe2\x96\xb2", "\xe2\x96\xbc" } };

	screen_fill(p->s, y, 0, p->table_columns, INK_TITLE, " ");
	for (int c = 0; c < COLUMNS; c++) {
		int width, x = table_column(p, (enum column) c, &width);
		const bool sorted = p->v->sort == (enum column) c;
		char head[24];

		if (width == 0)
			continue;
		(void) snprintf(head, sizeof(head), "%s%s",
			sorted ? arrows[p->s->utf8][column_infos[c].down != p->v->reverse] : "",
			column_infos[c].title);
		if (is_left((enum column) c))
			(void) screen_put(p->s, y, x, width, INK_TITLE, head);
		else
			(void) screen_put(
				p->s, y, x + width - (int) text_width(head), width, INK_TITLE, head);
	}
}

/* The tree's branch, in front of the command. Returns its width. */
static int draw_branch(struct picture *p, int y, int x, const struct row *row, enum ink ink)
{
	const char *branch = p->s->utf8
				     ? (row->last ? "\xe2\x94\x94\xe2\x94\x80" : "\xe2\x94\x9c\xe2\x94\x80")
				     : "+-";
	const int indent = (int) (row->depth > 20 ? 20 : row->depth) * 2 - 2;

	if (!p->v->tree || row->depth == 0)
		return 0;
	(void) screen_print(p->s, y, x, ink, "%*s%s", indent, "", branch);
	return indent + 3;
}

static void draw_row(struct picture *p, int y, const struct row *row)
{
	const bool picked = p->v->picked && row->id == p->v->picked;
	const enum ink ink = picked ? INK_PICKED : row->process->is_main && !p->m->machine ? INK_BOLD
											   : INK_PLAIN;
	char text[2048];

	if (picked)
		screen_fill(p->s, y, 0, p->table_columns, INK_PICKED, " ");
	for (int c = 0; c < COLUMNS; c++) {
		int width, x = table_column(p, (enum column) c, &width);

		if (width <= 0)
			continue;
		column_text(p->v, p->m, row->process, (enum column) c, text, sizeof(text));
		if (c == COL_COMMAND) {
			const int branch = draw_branch(p, y, x, row, ink);

			(void) screen_put_front(
				p->s, y, x + branch, width - branch > 0 ? width - branch : 0, ink, text);
		} else if (is_left((enum column) c)) {
			(void) screen_put(p->s, y, x, width, ink, text);
		} else {
			(void) screen_print(p->s, y, x, ink, "%*s", width, text);
		}
	}
}

/* Says why the table is empty. */
static void draw_no_process(struct picture *p, int y)
{
	if (p->v->filter && model_processes(p->m) > 0)
		(void) screen_print(p->s, y, 1, INK_DIM, "no process matches: %s", p->v->filter_text);
	else
		(void) screen_put(
			p->s, y, 1, -1, INK_DIM, p->f->over ? "no process at this time" : "no process yet");
}

void draw_table(struct picture *p, int y, int lines, int width)
{
	struct view *v = p->v;
	const size_t place = view_place(v);

	p->table_y = y;
	p->table_columns = width;
	if (lines < 1)
		return;
	draw_heads(p, y);
	v->page = lines > 1 ? (size_t) lines - 1 : 0;
	if (v->picked && place < v->top)
		v->top = place;
	if (v->picked && v->page && place >= v->top + v->page)
		v->top = place - v->page + 1;
	if (v->top + v->page > v->n_rows)
		v->top = v->n_rows > v->page ? v->n_rows - v->page : 0;
	for (size_t i = 0; i < v->page && v->top + i < v->n_rows; i++)
		draw_row(p, y + 1 + (int) i, &v->rows[v->top + i]);
	if (v->n_rows == 0 && lines > 1)
		draw_no_process(p, y + 1);
}

/* ---- one process -------------------------------------------------------------------------------------------------- */

static int print_figure(struct picture *p, int y, int x, enum column column, const struct thing *t)
{
	char text[64];

	column_text(p->v, p->m, t, column, text, sizeof(text));
	return screen_print(p->s, y, x, INK_PLAIN, "%s %s   ", column_infos[column].title, text);
}

/* The whole command, over as many lines as it needs, at most lines. */
static int draw_command(struct picture *p, int y, int lines, int width, const char *command)
{
	int used = 0;

	while (*command && used < lines) {
		struct buf line = BUF_INIT(1 << 16);
		const size_t n = text_fit(command, (unsigned) width - 2);

		(void) buf_add(&line, command, n);
		(void) screen_put(p->s, y + used++, 1, width - 1, INK_BOLD, line.data);
		buf_done(&line);
		command += n ? n : strlen(command);
	}
	return used;
}

int draw_detail(struct picture *p, int y, int lines, int width)
{
	const struct thing *t = p->v->picked ? model_find(p->m, HIW_PROCESS, p->v->picked) : NULL;
	static const enum column shown[] = { COL_USER, COL_CPU, COL_THREADS, COL_RAM, COL_PEAK, COL_SWAP,
		COL_GPU_MEM, COL_GPU_BUSY, COL_READ, COL_WRITE };
	char title[64];
	int used = 1, x = 1;

	if (!p->v->detail || !t || lines < 4)
		return 0;
	(void) snprintf(title, sizeof(title), "process %lld %.20s (Enter)", (long long) t->pid.value,
		t->name ? t->name : "");
	draw_rule(p, y, 0, width, title);
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]) && used < lines; i++) {
		if (x + 20 > width) {
			x = 1;
			used++;
		}
		x += print_figure(p, y + used, x, shown[i], t);
	}
	used++;
	used += draw_command(p, y + used, lines - used < 4 ? lines - used : 4, width,
		t->command && *t->command ? t->command : t->name);
	return used;
}
