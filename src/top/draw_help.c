/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"
#include "top/draw.h"

/* Meaning of the figures, below the keys. */
static const char *const notes[] = {
	"peak: largest since the view started; of a process, its high-water mark.",
	"CPU%: of one core. SM: share of time in which the GPU's SMs had work.",
	"busy: time in which some kernel ran, even on one SM. -: not available.",
	"Charts: filled to the mean of each column, a dot at its largest value.",
	"The view only reads; the job is not affected. Keys but q leave this page.",
};

enum {
	COLUMN = 40,
	FIRST_LINE = 2
};

/* line counts from the top of the page, which may be longer than the screen; lines that are
 * scrolled off are not drawn. */
static void put(struct picture *p, size_t line, int x, int width, enum ink ink, const char *text)
{
	if (line >= p->v->help_top && line - p->v->help_top < p->help_page)
		(void) screen_put(p->s, FIRST_LINE + (int) (line - p->v->help_top), x, width, ink, text);
}

/* Returns the number of lines used. */
static size_t put_keys(struct picture *p)
{
	const char *const *rows = key_texts();
	size_t n = 0, half;

	while (rows[2 * n])
		n++;
	half = p->s->columns >= 2 * COLUMN ? (n + 1) / 2 : n;
	for (size_t i = 0; i < n; i++) {
		const int x = i < half ? 1 : COLUMN + 1;

		put(p, i % half, x, 14, INK_BOLD, rows[2 * i]);
		put(p, i % half, x + 15, COLUMN - 16, INK_PLAIN, rows[2 * i + 1]);
	}
	return half;
}

/* Draws a note over as many lines as it needs. Returns the next line. */
static size_t put_note(struct picture *p, size_t line, const char *text)
{
	const size_t room = p->s->columns > 2 ? (size_t) p->s->columns - 2 : 1;

	while (strlen(text) > room) {
		char part[256];
		size_t len = room < sizeof(part) ? room : sizeof(part) - 1;

		while (len > 0 && text[len] != ' ')
			len--;
		if (len == 0) /* one long word */
			break;
		(void) snprintf(part, sizeof(part), "%.*s", (int) len, text);
		put(p, line++, 1, -1, INK_DIM, part);
		text += len + 1;
	}
	put(p, line++, 1, -1, INK_DIM, text);
	return line;
}

void draw_help(struct picture *p)
{
	const int room = p->s->rows - FIRST_LINE;
	size_t lines;

	p->help_page = room > 1 ? (size_t) room : 1;
	lines = put_keys(p) + 1;
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
		lines = put_note(p, lines, notes[i]);
	p->help_rest = lines > p->v->help_top + p->help_page ? lines - p->v->help_top - p->help_page : 0;
	screen_fill(p->s, 0, 0, p->s->columns, INK_TITLE, " ");
	(void) screen_print(p->s, 0, 1, INK_TITLE, "hiwater top: keys%s%s%s",
		p->help_rest || p->v->help_top ? "  (" : "",
		p->help_rest     ? "down: more"
		: p->v->help_top ? "up: more"
				 : "",
		p->help_rest || p->v->help_top ? ")" : "");
}
