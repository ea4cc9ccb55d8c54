/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "top/top.h"

/* What the figures mean, below the keys. */
static const char *const notes[] = {
	"peak: the largest since it is looked at; of a process the kernel's mark, too.",
	"CPU% is of one core. SM: share of time in which the GPU's SMs had work;",
	"busy: some kernel ran, were it on one SM. -: it cannot be had.",
	"Charts: filled to the mean of each column, a dot at its largest value.",
	"This view only looks; the job does not notice. Any key leaves this page.",
};

enum {
	COLUMN = 40
};

void draw_help(struct picture *p)
{
	const char *const *rows = key_help();
	const bool two = p->s->columns >= 2 * COLUMN;
	size_t n = 0, half;
	int y = 1;

	while (rows[2 * n])
		n++;
	half = two ? (n + 1) / 2 : n;
	screen_fill(p->s, 0, 0, p->s->columns, INK_TITLE, " ");
	(void) screen_put(p->s, 0, 1, -1, INK_TITLE, "hiwater top: keys");
	for (size_t i = 0; i < n; i++) {
		const int x = i < half ? 1 : COLUMN + 1;

		y = 2 + (int) (i % half);
		(void) screen_put(p->s, y, x, 14, INK_BOLD, rows[2 * i]);
		(void) screen_put(p->s, y, x + 15, COLUMN - 16, INK_PLAIN, rows[2 * i + 1]);
	}
	y = 3 + (int) half;
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
		(void) screen_put(p->s, y++, 1, -1, INK_DIM, notes[i]);
}
