/* SPDX-License-Identifier: MIT
 *
 * Text for terminals: made safe, measured in columns, shortened. Input may be any bytes (names of
 * processes, command lines); output never moves the cursor or reorders text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* A blank that does not break lines ("22.4 GiB"); written as a blank by the layout. */
#define NB "\x1f"

/* Appends s: line breaks and tabs become blanks, control characters '?', invalid UTF-8 U+FFFD;
 * without utf8, everything but ASCII becomes '?'. Returns 0 or -errno. */
int text_clean(const char *s, bool utf8, struct buf *out);

/* Appends s as a field of CSV (RFC 4180), cleaned, in quotes; what a spreadsheet would take for a formula begins with a
 * quote of its own. Returns 0 or -errno. */
int text_csv(const char *s, struct buf *out);

/* The same as text_clean for the one character at s. Returns the address of the next one. */
const char *text_clean_next(const char *s, bool utf8, struct buf *out);

/* True if text ends with end. */
bool text_ends(const char *text, const char *end);

/* Columns of cleaned text; wide characters take two, combining ones none. */
unsigned text_width(const char *s);

/* The number of bytes of cleaned text, in whole characters, that fit into columns. */
size_t text_fit(const char *s, unsigned columns);

/* Appends cleaned text; if it is wider than columns, its middle is replaced by an ellipsis.
 * Returns 0 or -errno. */
int text_shorten(const char *s, unsigned columns, bool utf8, struct buf *out);

/* ---- valid UTF-8 from any bytes -------------------------------------------------------------- */

/* The length of the UTF-8 sequence at s (NUL-terminated; Unicode 15, table 3-7), 0 if it is
 * invalid. */
size_t utf8_length(const unsigned char *s);

/* Appends the character at *text and advances *text; an invalid byte becomes U+FFFD. */
void utf8_next(struct buf *out, const char **text);

/* Appends text; invalid bytes become U+FFFD. */
int utf8_add(struct buf *out, const char *text);

/* Writes a character as UTF-8, at most 4 bytes (U+FFFD for what is none), and returns the bytes. */
static inline size_t utf8_put(char *at, uint32_t c)
{
	if (c >= 0xd800 && (c < 0xe000 || c > 0x10ffff))
		c = 0xfffd;
	if (c < 0x80) {
		at[0] = (char) c;
		return 1;
	}
	if (c < 0x800) {
		at[0] = (char) (0xc0 | c >> 6);
		at[1] = (char) (0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		at[0] = (char) (0xe0 | c >> 12);
		at[1] = (char) (0x80 | (c >> 6 & 0x3f));
		at[2] = (char) (0x80 | (c & 0x3f));
		return 3;
	}
	at[0] = (char) (0xf0 | c >> 18);
	at[1] = (char) (0x80 | (c >> 12 & 0x3f));
	at[2] = (char) (0x80 | (c >> 6 & 0x3f));
	at[3] = (char) (0x80 | (c & 0x3f));
	return 4;
}
