/* SPDX-License-Identifier: MIT
 *
 * Lines of text that never get wider than the terminal: rows of a label and parts that flow, headings, wrapped words.
 * Errors stay in the buffer.
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
	unsigned indent;    /* where the next line of this row begins */
	unsigned column;    /* where the next character stands */
	bool fresh;         /* nothing stands behind the indent of this line yet */
};

void layout_init(struct layout *l, struct buf *out, const struct sink_options *options);

/* Begins a row: text at the left, what follows and its further lines at indent. */
void layout_row(struct layout *l, enum tone tone, const char *text, unsigned indent);

/* More text in the label's column, before any part. */
void layout_more(struct layout *l, enum tone tone, const char *text);

/* One part of a row: three blanks behind the last one, or on a line of its own; broken at blanks (but not at NB) only
 * where a whole line does not hold it. */
void layout_part(struct layout *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text broken at blanks, one blank behind what stands there; a '\n' begins a new line. */
void layout_words(struct layout *l, const char *text);

/* From here on the row goes on in a new line. */
void layout_break(struct layout *l);

/* Ends the row. */
void layout_end(struct layout *l);
