/* SPDX-License-Identifier: MIT
 *
 * Growing memory: a byte buffer with text functions, and arrays. Both have a maximum. The data of a
 * buf is always NUL-terminated and never NULL; _done frees it and accepts an all-zero struct.
 * _clear keeps the capacity, so that a reused buffer stops allocating, and resets the error. max is
 * the longest text without its NUL.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data;
	size_t len, cap, max;
	int error; /* 0, or the first -ENOMEM or -EFBIG; later writes do nothing */
};

#define BUF_INIT(limit) ((struct buf) { .data = buf_empty, .max = (limit) })
extern char buf_empty[1];

int buf_add(struct buf *b, const void *bytes, size_t n);
int buf_str(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *format, va_list ap)
	__attribute__((format(printf, 2, 0)));
void buf_clear(struct buf *b);
void buf_done(struct buf *b);

/* Makes room for one more array element: *array has n of *cap elements of size bytes, at most
 * max. Returns 0, or -ENOMEM or -EFBIG without any change. */
int vec_reserve(void *array, size_t *cap, size_t n, size_t size, size_t max);
