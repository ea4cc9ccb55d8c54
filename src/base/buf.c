/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	BUF_FIRST = 64,
	VEC_FIRST = 16
};

char buf_empty[1];

/* Makes room for n bytes more and the NUL. */
static int buf_room(struct buf *b, size_t n)
{
	size_t need, cap = b->cap ? b->cap : BUF_FIRST;

	if (b->error)
		return b->error;
	if (n > b->max || b->len > b->max - n || __builtin_add_overflow(b->len + n, 1, &need)) {
		b->error = -EFBIG;
		return b->error;
	}
	if (need <= b->cap)
		return 0;
	while (cap < need) {
		if (__builtin_mul_overflow(cap, 2, &cap))
			cap = need;
	}
	if (cap - 1 > b->max)
		cap = b->max + 1;
	char *data = realloc(b->cap ? b->data : NULL, cap);

	if (!data) {
		b->error = -ENOMEM;
		return b->error;
	}
	b->data = data;
	b->cap = cap;
	return 0;
}

int buf_add(struct buf *b, const void *bytes, size_t n)
{
	int code = buf_room(b, n);

	if (code < 0)
		return code;
	if (n > 0)
		memcpy(b->data + b->len, bytes, n);
	b->len += n;
	b->data[b->len] = '\0';
	return 0;
}

int buf_str(struct buf *b, const char *s)
{
	return buf_add(b, s, strlen(s));
}

int buf_vprintf(struct buf *b, const char *format, va_list ap)
{
	va_list again;

	if (b->error)
		return b->error;
	va_copy(again, ap);
	int n = vsnprintf(
		b->cap ? b->data + b->len : NULL, b->cap ? b->cap - b->len : 0, format, again);

	va_end(again);
	if (n < 0) {
		b->error = -EFBIG; /* longer than INT_MAX */
	} else if (buf_room(b, (size_t) n) == 0) {
		/* The first attempt may be truncated; if there is no room, it is undone below. */
		(void) vsnprintf(b->data + b->len, b->cap - b->len, format, ap);
		b->len += (size_t) n;
	}
	if (b->cap)
		b->data[b->len] = '\0';
	return b->error;
}

int buf_printf(struct buf *b, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	int code = buf_vprintf(b, format, ap);

	va_end(ap);
	return code;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->error = 0;
	if (b->cap)
		b->data[0] = '\0';
}

void buf_done(struct buf *b)
{
	if (b->cap)
		free(b->data);
	*b = BUF_INIT(b->max);
}

int vec_reserve(void *array, size_t *cap, size_t n, size_t size, size_t max)
{
	size_t want = *cap ? *cap : VEC_FIRST, bytes;
	void *old, *grown;

	if (n < *cap)
		return 0;
	if (n >= max)
		return -EFBIG;
	while (want <= n) {
		if (__builtin_mul_overflow(want, 2, &want))
			return -EFBIG;
	}
	if (want > max)
		want = max;
	if (__builtin_mul_overflow(want, size, &bytes))
		return -EFBIG;
	memcpy(&old, array, sizeof(old)); /* array is the address of a pointer of any type */
	grown = realloc(old, bytes);
	if (!grown)
		return -ENOMEM;
	memcpy(array, &grown, sizeof(grown));
	*cap = want;
	return 0;
}
