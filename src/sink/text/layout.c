/* SPDX-License-Identifier: MIT */
#include "sink/text/layout.h"

#include <stdarg.h>
#include <string.h>

#include "base/textwidth.h"

/* The 16 basic colours, on the terminal's own background. ECMA-48, SGR. */
static const char *const sgr[] = {
	[TONE_NONE] = "",
	[TONE_LABEL] = "\x1b[1m",
	[TONE_ERROR] = "\x1b[1;31m",
	[TONE_WARN] = "\x1b[1;33m",
	[TONE_HINT] = "\x1b[1;36m",
};

void layout_init(struct layout *l, struct buf *out, const struct sink_options *options)
{
	*l = (struct layout) {
		.out = out,
		.width = options->width,
		.color = options->color,
		.utf8 = options->utf8,
		.fresh = true,
	};
}

static void pad(struct layout *l, unsigned column)
{
	for (; l->column < column; l->column++)
		buf_add(l->out, " ", 1);
}

void layout_more(struct layout *l, enum tone tone, const char *text)
{
	bool colored = l->color && tone != TONE_NONE;

	buf_str(l->out, colored ? sgr[tone] : "");
	buf_str(l->out, text);
	buf_str(l->out, colored ? "\x1b[0m" : "");
	l->column += text_width(text);
}

void layout_row(struct layout *l, enum tone tone, const char *text, unsigned indent)
{
	l->indent = indent;
	l->column = 0;
	l->fresh = true;
	layout_more(l, tone, text);
}

void layout_break(struct layout *l)
{
	buf_str(l->out, "\n");
	l->column = 0;
	l->fresh = true;
}

void layout_end(struct layout *l)
{
	buf_str(l->out, "\n");
	l->column = 0;
	l->indent = 0;
	l->fresh = true;
}

/* Pads to the place of the next word: the indent, or gap blanks after the last word. A label wider
 * than the indent pushes the text to the next line. */
static void approach(struct layout *l, unsigned gap, unsigned width)
{
	bool label_too_wide = l->fresh && l->column >= l->indent && l->column > 0;

	if (label_too_wide || (!l->fresh && l->column + gap + width > l->width))
		layout_break(l);
	pad(l, l->fresh ? l->indent : l->column + gap);
	l->fresh = false;
}

/* One word of n bytes. A word longer than a line is a path or a name: it loses its middle. */
static void word(struct layout *l, const char *s, size_t n, unsigned gap)
{
	struct buf whole = BUF_INIT(64 << 10), fitted = BUF_INIT(64 << 10);
	unsigned room = l->width > l->indent ? l->width - l->indent : 1;

	buf_add(&whole, s, n);
	text_shorten(whole.data, room, l->utf8, &fitted);
	approach(l, gap, text_width(fitted.data));
	l->column += text_width(fitted.data);
	for (char *p = strchr(fitted.data, NB[0]); p; p = strchr(p, NB[0]))
		*p = ' ';
	buf_str(l->out, fitted.data);
	if (whole.error || fitted.error)
		l->out->error = whole.error ? whole.error : fitted.error;
	buf_done(&whole);
	buf_done(&fitted);
}

static void words(struct layout *l, const char *text, unsigned gap)
{
	while (*text) {
		size_t n = strcspn(text, " \n");

		if (n > 0) {
			word(l, text, n, gap);
			gap = 1;
		}
		text += n;
		if (*text == '\n' && !l->fresh)
			layout_break(l);
		text += *text != '\0';
	}
}

void layout_words(struct layout *l, const char *text)
{
	words(l, text, 1);
}

void layout_part(struct layout *l, const char *format, ...)
{
	struct buf text = BUF_INIT(64 << 10);
	va_list ap;

	va_start(ap, format);
	buf_vprintf(&text, format, ap);
	va_end(ap);
	if (!l->fresh && l->column + 3 + text_width(text.data) > l->width)
		layout_break(l);
	words(l, text.data, 3);
	if (text.error)
		l->out->error = text.error;
	buf_done(&text);
}
