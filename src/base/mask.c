/* SPDX-License-Identifier: MIT */
#include "base/mask.h"

#include <string.h>
#include <strings.h>

/* Names are split into words at '-', '_' and '.'. A word names a secret if it is one of these
 * ... */
static const char *const whole[] = { "key", "keys", "pwd", "pass", "pw", "auth", "authorization", "bearer",
	"cookie" };
/* ... or ends in one of these ("authToken", "mysqlpassword"; but not "tokenizer", "max_tokens"
 * or "monkey"). */
static const char *const tails[] = { "token", "password", "passwd", "passphrase", "secret", "secrets",
	"credential", "credentials", "apikey", "accesskey", "secretkey", "privatekey", "authkey" };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Input and output. */
struct scan {
	const char *p, *end;
	char *out;
	size_t n, size;
};

static bool word_is_secret(const char *word, size_t len)
{
	for (size_t i = 0; i < COUNT(whole); i++) {
		if (len == strlen(whole[i]) && strncasecmp(word, whole[i], len) == 0)
			return true;
	}
	for (size_t i = 0; i < COUNT(tails); i++) {
		size_t n = strlen(tails[i]);

		if (len >= n && strncasecmp(word + len - n, tails[i], n) == 0)
			return true;
	}
	return false;
}

static bool is_word_end(char c)
{
	return c == '-' || c == '_' || c == '.';
}

bool mask_is_secret(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		size_t from = i;

		while (i < len && !is_word_end(name[i]))
			i++;
		if (word_is_secret(name + from, i - from))
			return true;
	}
	return false;
}

static void put(struct scan *s, char c)
{
	if (s->n + 1 < s->size)
		s->out[s->n++] = (unsigned char) c < ' ' || c == 127 ? '?' : c;
}

static void put_to(struct scan *s, const char *to)
{
	while (s->p < to)
		put(s, *s->p++);
}

static void put_stars(struct scan *s)
{
	for (int i = 0; i < 3; i++)
		put(s, '*');
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || is_word_end(c);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_quote(char c)
{
	return c == '"' || c == '\'';
}

static const char *skip(const char *p, const char *end, bool (*is)(char))
{
	while (p < end && is(*p))
		p++;
	return p;
}

/* The end of the value at p: a quoted one ends at its quote, a header's ("Bearer abc") at the
 * end of its string, others at separators of words in a shell or a URL. */
static const char *value_end(const char *p, const char *end, bool header)
{
	const char *stop = header ? "\"'\n" : " \t\r\n&;\"'";

	while (p < end && (*p == '\0' || !strchr(stop, *p)))
		p++;
	return p;
}

/* Skips "=", ": ", "\": \"" and the like after a name. Returns the start of the value, or NULL
 * if there is none. */
static const char *value_begin(const char *p, const char *end, bool *ret_header)
{
	const char *q = skip(skip(p, end, is_quote), end, is_blank);

	if (q >= end || (*q != '=' && *q != ':'))
		return NULL;
	bool colon = *q == ':';

	q = skip(q + 1, end, is_blank);
	const char *value = skip(q, end, is_quote);

	*ret_header = colon && value == q && value_end(value, end, false) < end;
	return value;
}

/* Writes the text before value, then masks the value. A quoted one ends at its quote. */
static void mask_value(struct scan *s, const char *value, bool header)
{
	put_to(s, value);
	if (value == s->end)
		return;
	const char *end = value_end(value, s->end, header);

	if (is_quote(value[-1])) {
		for (end = value; end < s->end && *end != value[-1];)
			end++;
	}
	if (end > value)
		put_stars(s);
	s->p = end;
}

/* Masks X if the text at s->p is "://user:X@". */
static bool mask_userinfo(struct scan *s)
{
	const char *p = s->p + 3, *at = NULL;

	if (s->end - s->p < 3 || memcmp(s->p, "://", 3) != 0)
		return false;
	for (const char *q = p; q < s->end && *q != '/' && !is_blank(*q) && !is_quote(*q); q++) {
		if (*q == '@')
			at = q;
	}
	const char *colon = at ? memchr(p, ':', (size_t) (at - p)) : NULL;

	if (!colon)
		return false;
	put_to(s, colon + 1);
	put_stars(s);
	s->p = at;
	return true;
}

/* Writes the name at s->p and masks its value. */
static void mask_name(struct scan *s)
{
	const char *name = s->p, *end = skip(name, s->end, is_name);
	bool header = false;

	if (!mask_is_secret(name, (size_t) (end - name))) {
		put_to(s, end);
		return;
	}
	const char *value = value_begin(end, s->end, &header);

	if (value) {
		mask_value(s, value, header);
		return;
	}
	put_to(s, end);
	/* "--token X" inside one argument */
	if (*name == '-' && end < s->end && is_blank(*end)) {
		value = skip(skip(end, s->end, is_blank), s->end, is_quote);
		if (value < s->end && !(s->end - value > 1 && value[0] == '-' && value[1] == '-'))
			mask_value(s, value, false);
	}
}

static void mask_text(struct scan *s)
{
	while (s->p < s->end) {
		if (is_name(*s->p))
			mask_name(s);
		else if (!mask_userinfo(s))
			put(s, *s->p++);
	}
}

/* "--token", "-token": the value is the next argument. */
static bool is_option(const char *arg, size_t len)
{
	return len > 1 && arg[0] == '-' && skip(arg, arg + len, is_name) == arg + len &&
	       mask_is_secret(arg, len);
}

size_t mask_argument(struct mask *m, const char *arg, size_t len, char *ret, size_t size)
{
	struct scan s = { .p = arg, .end = arg + len, .out = ret, .size = size };
	bool is_value = m->value_next && !(len > 1 && arg[0] == '-' && (len == 2 || arg[1] == '-'));

	m->value_next = !is_value && is_option(arg, len);
	if (is_value)
		put_stars(&s);
	else
		mask_text(&s);
	if (size > 0)
		ret[s.n] = '\0';
	return s.n;
}

size_t mask_command(const char *block, size_t len, char *ret, size_t size)
{
	struct mask m = { 0 };
	const char *p = block, *end = block + len;
	size_t n = 0;

	/* Programs that overwrite their arguments leave NULs after them. */
	while (end > p && end[-1] == '\0')
		end--;
	if (size > 0)
		ret[0] = '\0';
	while (p < end && n + 1 < size) {
		size_t l = strnlen(p, (size_t) (end - p));

		if (p > block)
			ret[n++] = ' ';
		n += mask_argument(&m, p, l, ret + n, size - n);
		p += l + 1;
	}
	return n;
}
