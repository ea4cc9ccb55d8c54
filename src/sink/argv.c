/* SPDX-License-Identifier: MIT */
#include "sink/argv.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static void skip_blanks(const char **p)
{
	*p += strspn(*p, " \t\r\n");
}

static bool accept(const char **p, char c)
{
	skip_blanks(p);
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

static void put_utf8(struct buf *out, unsigned c)
{
	char bytes[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2
			  : c < 0x10000     ? 3
					    : 4;
	static const unsigned char lead[] = { 0, 0, 0xC0, 0xE0, 0xF0 };

	for (size_t i = n - 1; i > 0; i--) {
		bytes[i] = (char) (0x80 | (c & 0x3F));
		c >>= 6;
	}
	bytes[0] = (char) (lead[n] | c);
	buf_add(out, bytes, n);
}

/* Parses exactly four hexadecimal digits. */
static int hex4(const char **p, unsigned *ret)
{
	unsigned c = 0;

	for (int i = 0; i < 4; i++) {
		char digit = (*p)[i];

		if (!isxdigit((unsigned char) digit))
			return -EBADMSG;
		c = c * 16 + (unsigned) (digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
	}
	*p += 4;
	*ret = c;
	return 0;
}

/* After "\u": one UTF-16 unit, or a surrogate pair. A NUL or half a pair becomes U+FFFD. */
static int unicode(const char **p, struct buf *out)
{
	unsigned c, low;

	if (hex4(p, &c) < 0)
		return -EBADMSG;
	if (c >= 0xD800 && c < 0xDC00 && (*p)[0] == '\\' && (*p)[1] == 'u') {
		const char *next = *p + 2;

		if (hex4(&next, &low) == 0 && low >= 0xDC00 && low < 0xE000) {
			*p = next;
			c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
		}
	}
	put_utf8(out, c == 0 || (c >= 0xD800 && c < 0xE000) ? 0xFFFD : c);
	return 0;
}

static int escape(const char **p, struct buf *out)
{
	static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
	const char *found;
	char c = **p;

	if (c == '\0')
		return -EBADMSG;
	(*p)++;
	if (c == 'u')
		return unicode(p, out);
	found = strchr(names, c);
	return found ? buf_add(out, bytes + (found - names), 1) : -EBADMSG;
}

/* After the opening quote, up to and including the closing one. */
static int string(const char **p, struct buf *out)
{
	int code = 0;

	while (code == 0 && **p != '"') {
		if ((unsigned char) **p < 0x20)
			return -EBADMSG;
		if (**p == '\\') {
			(*p)++;
			code = escape(p, out);
		} else {
			code = buf_add(out, (*p)++, 1);
		}
	}
	if (code == 0)
		(*p)++;
	return code;
}

int argv_each(const char *json, void (*see)(void *ctx, const char *text), void *ctx)
{
	struct buf text = BUF_INIT(16 << 20);
	bool more = accept(&json, '[');
	int code = more ? 0 : -EBADMSG;

	if (more && accept(&json, ']'))
		more = false;
	while (code == 0 && more) {
		buf_clear(&text);
		code = accept(&json, '"') ? string(&json, &text) : -EBADMSG;
		if (code == 0)
			see(ctx, text.data);
		more = code == 0 && accept(&json, ',');
		if (code == 0 && !more && !accept(&json, ']'))
			code = -EBADMSG;
	}
	skip_blanks(&json);
	buf_done(&text);
	return code == 0 && *json != '\0' ? -EBADMSG : code;
}
