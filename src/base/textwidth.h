/* SPDX-License-Identifier: MIT
 *
 * Text that goes to a terminal: made harmless, measured in columns, shortened. Any bytes may come in (names of
 * processes, command lines): what could move a cursor or reorder text never goes out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* A blank at which no line is broken ("22.4 GiB"); layout writes it as a blank. */
#define NB "\x1f"

/* Appends s: line breaks and tabs become blanks, controls '?', bytes that are no UTF-8 U+FFFD; without utf8 all
 * that is not ASCII becomes '?'. Returns 0 or -errno. */
int text_clean(const char *s, bool utf8, struct buf *out);

/* The same of the one character at s. Returns where the next one is. */
const char *text_clean_next(const char *s, bool utf8, struct buf *out);

/* Does text end so? */
bool text_ends(const char *text, const char *end);

/* Columns of cleaned text; wide characters take two, combining ones none. */
unsigned text_width(const char *s);

/* How many bytes of cleaned text fit into so many columns: whole characters. */
size_t text_fit(const char *s, unsigned columns);

/* Appends cleaned text; where it is wider than columns its middle gives way to an ellipsis. Returns 0 or -errno. */
int text_shorten(const char *s, unsigned columns, bool utf8, struct buf *out);

/* ---- UTF-8, as formats want it, of bytes that may be anything ------------------------------------------------------ */

/* The bytes of the UTF-8 sequence at s (NUL-terminated; Unicode 15, table 3-7), 0 if it is none. */
size_t utf8_length(const unsigned char *s);

/* Appends the character at *text, which goes behind it; a byte that is no UTF-8 becomes U+FFFD. */
void utf8_next(struct buf *out, const char **text);

/* Appends text; bytes that are no UTF-8 become U+FFFD. */
int utf8_add(struct buf *out, const char *text);
