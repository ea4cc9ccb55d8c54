/* SPDX-License-Identifier: MIT
 *
 * The text of an error for the user: one line with what failed, why, and what to do. The caller
 * owns the struct; functions accept NULL if the text is not needed. The error number is the
 * function's negative return value.
 */
#pragma once

struct err {
	char text[512]; /* "" if nothing went wrong */
};

/* Writes the text (truncated to the buffer) and returns code, for use in a return statement. */
int err_set(struct err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
