/* SPDX-License-Identifier: MIT */
#include "where/lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

void lines_text(struct buf *out, const char *text)
{
	(void) buf_str(out, "\t");
	for (const char *p = text; *p; p++) {
		const unsigned char c = (unsigned char) *p;

		if (c < 32 || c == 127 || c == '\\')
			(void) buf_printf(out, "\\x%02x", c);
		else
			(void) buf_printf(out, "%c", c);
	}
}

void lines_number(struct buf *out, uint64_t value)
{
	(void) buf_printf(out, "\t%llu", (unsigned long long) value);
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
								     : -1;
}

static void decode(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		const bool is_code = p[0] == '\\' && p[1] == 'x' && digit(p[2]) >= 0 && digit(p[3]) >= 0;

		if (is_code && (p[2] != '0' || p[3] != '0')) {
			*to++ = (char) (digit(p[2]) << 4 | digit(p[3]));
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

bool lines_next_text(char **at, char **ret)
{
	char *tab;

	if (!*at)
		return false;
	*ret = *at;
	tab = strchr(*at, '\t');
	if (tab)
		*tab = '\0';
	*at = tab ? tab + 1 : NULL;
	decode(*ret);
	return true;
}

bool lines_next_number(char **at, uint64_t *ret)
{
	char *text;
	const char *p;

	if (!lines_next_text(at, &text))
		return false;
	p = text;
	return parse_u64(&p, ret) == 0 && !*p;
}
