/* SPDX-License-Identifier: MIT
 *
 * UTF-8 as formats want it, of bytes that may be anything.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"

/* The bytes of the UTF-8 sequence at s (NUL-terminated; Unicode 15, table 3-7), 0 if it is none. */
size_t utf8_length(const unsigned char *s);

/* Appends the character at *text, which goes behind it; a byte that is no UTF-8 becomes U+FFFD. */
void utf8_next(struct buf *out, const char **text);

/* Appends text; bytes that are no UTF-8 become U+FFFD. */
int utf8_add(struct buf *out, const char *text);
