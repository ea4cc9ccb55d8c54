/* SPDX-License-Identifier: MIT
 *
 * Lines of text that are never wider than the terminal: rows of a label with parts that flow, and
 * wrapped words. Errors stay in the buffer.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "sink/sink.h"

enum tone {
	TONE_NONE,
	TONE_LABEL,
	TONE_ERROR,
	TONE_WARN,
	TONE_HINT
};

struct layout {
	struct buf *out;
	unsigned width;
	bool color, utf8;
	unsigned indent;    /* column where the next line of this row begins */
	unsigned column;    /* of the next character */
	bool fresh;         /* this line has nothing after its indent yet */
};

void layout_init(struct layout *l, struct buf *out, const struct sink_options *options);

/* Begins a row: the label text at the left, parts and further lines at indent. */
void layout_row(struct layout *l, enum tone tone, const char *text, unsigned indent);

/* Adds text as it is, without wrapping. */
void layout_more(struct layout *l, enum tone tone, const char *text);

/* Adds one part to a row, three blanks after the last one or on a new line. A part that is longer
 * than a line breaks at blanks, but not at NB. */
void layout_part(struct layout *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds words, one blank after the last one, wrapped at blanks; '\n' begins a new line. */
void layout_words(struct layout *l, const char *text);

/* Continues the row on a new line. */
void layout_break(struct layout *l);

/* Ends the row. */
void layout_end(struct layout *l);
