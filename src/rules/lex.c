/* SPDX-License-Identifier: MIT */
#include "rules/lex.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/units.h"

/* ---- errors -------------------------------------------------------------------------------------------------------- */

/* Columns count characters, not bytes. */
static unsigned column_of(const struct parser *p, const char *at)
{
	unsigned n = 1;

	for (const char *s = p->start; s < at; s++)
		n += ((unsigned char) *s & 0xc0) != 0x80;
	return n;
}

/* The rule around the place, and a caret below it. */
static void show_place(const struct parser *p, const char *at, struct err *err)
{
	enum {
		BEFORE = 40,
		WINDOW = 70
	};
	const char *from = at - p->start > BEFORE ? at - BEFORE : p->start;
	const size_t used = strlen(err->text);
	char line[WINDOW + 1], below[WINDOW + 1];
	size_t n = 0, caret = 0;

	for (; n < WINDOW && from[n]; n++) {
		line[n] = iscntrl((unsigned char) from[n]) ? '?' : from[n];
		if (from + n < at && ((unsigned char) from[n] & 0xc0) != 0x80)
			below[caret++] = ' ';
	}
	line[n] = below[caret] = '\0';
	(void) snprintf(err->text + used, sizeof(err->text) - used, "\n  %s\n  %s^", line, below);
}

void lex_fail(struct parser *p, const char *at, const char *format, ...)
{
	char what[300];
	va_list ap;

	if (p->code < 0)
		return;
	p->code = -EINVAL;
	if (!p->err)
		return;
	va_start(ap, format);
	(void) vsnprintf(what, sizeof(what), format, ap);
	va_end(ap);
	(void) err_set(p->err, -EINVAL, "column %u: %s", column_of(p, at), what);
	show_place(p, at, p->err);
}

/* ---- words --------------------------------------------------------------------------------------------------------- */

void lex_blanks(struct parser *p)
{
	while (isspace((unsigned char) *p->p))
		p->p++;
}

static bool is_name_byte(char c)
{
	return isalnum((unsigned char) c) || (c && strchr("_./-[]", c)) || (unsigned char) c >= 0x80;
}

static size_t name_len(const char *s)
{
	size_t n = 0;

	while (is_name_byte(s[n]))
		n++;
	return n;
}

bool lex_keyword(struct parser *p, const char *word)
{
	lex_blanks(p);
	if (strlen(word) != name_len(p->p) || strncmp(p->p, word, strlen(word)) != 0)
		return false;
	p->p += strlen(word);
	return true;
}

bool lex_sign(struct parser *p, const char *sign)
{
	lex_blanks(p);
	return parse_word(&p->p, sign);
}

bool lex_copy(struct parser *p, const char *from, size_t len, char *ret, size_t size)
{
	if (len >= size) {
		lex_fail(p, from, "longer than %zu bytes", size - 1);
		return false;
	}
	memcpy(ret, from, len);
	ret[len] = '\0';
	return true;
}

bool lex_quoted(struct parser *p, char *ret, size_t size)
{
	const char *from = p->p + 1, *end = strchr(from, *p->p);

	if (!end) {
		lex_fail(p, p->p, "unterminated quote");
		return false;
	}
	p->p = end + 1;
	return lex_copy(p, from, (size_t) (end - from), ret, size);
}

void lex_name(struct parser *p, struct rule_name *ret)
{
	const char *at;
	char word[RULE_TEXT];
	struct rule_why why;
	bool quoted;

	lex_blanks(p);
	at = p->p;
	quoted = *at == '"' || *at == '\'';
	if (quoted ? !lex_quoted(p, word, sizeof(word)) : !lex_copy(p, at, name_len(at), word, sizeof(word)))
		return;
	if (!quoted)
		p->p += strlen(word);
	if (p->code == 0 && !quoted && *at && !isalpha((unsigned char) *at) && *at != '_' &&
		(unsigned char) *at < 0x80)
		lex_fail(p, at, "expected a name, such as ram or process.rss");
	else if (rule_name(word, quoted, p->rule->kind, ret, &why) < 0)
		lex_fail(p, at, "%s", why.text);
}

/* Length of the blanks and the unit of time after a number; 0: none follows. */
static size_t unit_after(const char *s)
{
	const size_t blanks = strspn(s, " \t");
	const char *unit = s + blanks;
	struct rule_number number = { .value = 1 };

	if (blanks == 0 || !rule_unit(&unit, &number) || number.dim != DIM_TIME || number.per_ns)
		return 0;
	return is_name_byte(*unit) ? 0 : (size_t) (unit - s);
}

uint64_t lex_span(struct parser *p)
{
	struct err err = { "" };
	char word[RULE_TEXT];
	const char *at;
	int64_t ns = 0;
	size_t len;

	lex_blanks(p);
	at = p->p;
	len = strcspn(at, " \t\r\n,()");
	if (len == strspn(at, "0123456789."))
		len += unit_after(at + len); /* "30 s" is one span, as "3 GiB" is one amount */
	if (!lex_copy(p, at, len, word, sizeof(word)))
		return 0;
	p->p += len;
	if (units_parse_duration(word, &ns, &err) < 0 || ns <= 0)
		lex_fail(p, at, "expected a duration, such as 30s, 10m or 2h");
	return (uint64_t) ns;
}

bool lex_number(struct parser *p, struct rule_number *ret)
{
	const char *at, *s;

	lex_blanks(p);
	at = s = p->p;
	*ret = (struct rule_number) { .dim = DIM_BARE, .has_sign = *s == '+' || *s == '-' };
	s += ret->has_sign;
	if ((!isdigit((unsigned char) *s) && *s != '.') || parse_double(&s, &ret->value) < 0) {
		lex_fail(p, at, "expected a number, such as 24GiB, 90%% or 0.5");
		return false;
	}
	if (!isfinite(ret->value)) {
		lex_fail(p, at, "the number is too large");
		return false;
	}
	if (*at == '-')
		ret->value = -ret->value;
	p->p = s;
	parse_blanks(&s);
	const char *unit = s;
	const bool is_next_word = s > p->p && isalpha((unsigned char) *s); /* "5 and ..." */

	if (!rule_unit(&s, ret) || (!is_next_word && s == unit && isalpha((unsigned char) *s))) {
		lex_fail(p, unit,
			"unknown unit; units are B KiB MiB GiB TiB kB MB GB TB %% ms s m h d W J C Hz cores, "
			"optionally with /s, /min or /h");
		return false;
	}
	if (s > unit)
		p->p = s;
	return true;
}
