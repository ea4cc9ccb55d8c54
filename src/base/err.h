/* SPDX-License-Identifier: MIT
 *
 * The text of an error that a person caused or can mend: what, why, what to do, one line. The caller owns the struct;
 * functions take NULL for "not interested". The number goes back as the function's negative return value.
 */
#pragma once

struct err {
	char text[512]; /* "" if nothing went wrong */
};

/* Writes the text (cut at the end of the buffer) and returns code, so that it can stand behind a return. */
int err_set(struct err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
