/* SPDX-License-Identifier: MIT
 *
 * Memory that grows: a byte buffer with text functions, and arrays. Both carry a maximum. data of a buf is always
 * NUL-terminated and never NULL; freed by _done, which copes with an all-zero struct. Capacity is kept by _clear, so
 * what is filled again and again stops allocating; _clear also forgets the error. max is the longest text, its NUL
 * apart.
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

/* Makes room for one array element more: *array holds n of *cap elements of size bytes. At most max elements.
 * Returns 0, -ENOMEM or -EFBIG with everything as it was. */
int vec_room(void *array, size_t *cap, size_t n, size_t size, size_t max);
