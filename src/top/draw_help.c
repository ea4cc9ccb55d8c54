/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/textwidth.h"
#include "top/draw.h"

/* What the figures mean, below the keys. */
static const char *const notes[] = {
	"peak: the largest since it is looked at; of a process the kernel's mark, too.",
	"CPU% is of one core. SM: share of time in which the GPU's SMs had work;",
	"busy: some kernel ran, were it on one SM. -: it cannot be had.",
	"Charts: filled to the mean of each column, a dot at its largest value.",
	"This view only looks; the job does not notice. Any key leaves this page.",
};

enum {
	COLUMN = 40,
	FIRST_LINE = 2
};

/* The page is longer than the screen, perhaps: line counts from the page's top, and what is not on the screen is not drawn. */
static void put(struct picture *p, size_t line, int x, int width, enum ink ink, const char *text)
{
	if (line >= p->v->help_top && line - p->v->help_top < p->help_page)
		(void) screen_put(p->s, FIRST_LINE + (int) (line - p->v->help_top), x, width, ink, text);
}

/* Returns the lines that they take. */
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

/* A note over as many lines as it needs. Returns the line behind it. */
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
	(void) screen_print(p->s, 0, 1, INK_TITLE, "hiwater top: keys%s%s%s", p->help_rest || p->v->help_top ? "  (" : "",
		p->help_rest ? "down: more" : p->v->help_top ? "up: more"
							     : "",
		p->help_rest || p->v->help_top ? ")" : "");
}
