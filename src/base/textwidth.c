/* SPDX-License-Identifier: MIT */
#include "base/textwidth.h"

#include <string.h>

#define REPLACEMENT 0xFFFDu

struct range {
	uint32_t first, last;
};

/* Unicode 15, East Asian Width W and F, by blocks: sufficient to align tables. */
static const struct range wide[] = {
	{ 0x1100, 0x115F },
	{ 0x2E80, 0x303E },
	{ 0x3041, 0xA4CF },
	{ 0xA960, 0xA97F },
	{ 0xAC00, 0xD7A3 },
	{ 0xF900, 0xFAFF },
	{ 0xFE30, 0xFE6F },
	{ 0xFF00, 0xFF60 },
	{ 0xFFE0, 0xFFE6 },
	{ 0x1F300, 0x1F64F },
	{ 0x1F680, 0x1F6FF },
	{ 0x1F900, 0x1FAFF },
	{ 0x20000, 0x3FFFD },
};

static const struct range combining[] = {
	{ 0x0300, 0x036F },
	{ 0x0483, 0x0489 },
	{ 0x0591, 0x05BD },
	{ 0x0610, 0x061A },
	{ 0x064B, 0x065F },
	{ 0x1AB0, 0x1AFF },
	{ 0x1DC0, 0x1DFF },
	{ 0x20D0, 0x20FF },
	{ 0xFE00, 0xFE0F },
	{ 0xFE20, 0xFE2F },
};

/* Control characters of C0 and C1, zero-width characters, line separators and characters that
 * change the direction of text. */
static const struct range harmful[] = {
	{ 0x0000, 0x001F },
	{ 0x007F, 0x009F },
	{ 0x061C, 0x061C },
	{ 0x200B, 0x200F },
	{ 0x2028, 0x202E },
	{ 0x2060, 0x206F },
	{ 0xFEFF, 0xFEFF },
	{ 0xFFF0, 0xFFFC },
	{ 0xE0000, 0xE0FFF },
};

#define IN(table, c) in_ranges(table, sizeof(table) / sizeof(table)[0], c)

static bool in_ranges(const struct range *table, size_t n, uint32_t c)
{
	for (size_t i = 0; i < n; i++) {
		if (c >= table[i].first && c <= table[i].last)
			return true;
	}
	return false;
}

/* RFC 3629: length of a sequence that begins with first; 0 if none does. */
static unsigned sequence_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xC2 && first < 0xE0)
		return 2;
	if (first >= 0xE0 && first < 0xF0)
		return 3;
	return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/* The character at p and its length; U+FFFD and one byte if it is invalid. */
static uint32_t decode(const char *p, unsigned *ret_bytes)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	static const unsigned char lead_bits[] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
	unsigned n = sequence_length((unsigned char) *p);
	uint32_t c = (unsigned char) *p & lead_bits[n];

	*ret_bytes = 1;
	if (n == 0)
		return REPLACEMENT;
	for (unsigned i = 1; i < n; i++) {
		if (((unsigned char) p[i] & 0xC0) != 0x80)
			return REPLACEMENT;
		c = c << 6 | ((unsigned char) p[i] & 0x3F);
	}
	if (c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
		return REPLACEMENT;
	*ret_bytes = n;
	return c;
}

static unsigned columns_of(uint32_t c)
{
	if (IN(combining, c))
		return 0;
	return c >= 0x1100 && IN(wide, c) ? 2 : 1;
}

const char *text_clean_next(const char *s, bool utf8, struct buf *out)
{
	unsigned n;
	const uint32_t c = decode(s, &n);

	if (c == '\n' || c == '\t' || c == '\r')
		buf_str(out, " ");
	else if (IN(harmful, c))
		buf_str(out, "?");
	else if (c < 0x80)
		buf_add(out, s, n);
	else if (!utf8)
		buf_str(out, "?");
	else if (c == REPLACEMENT)
		buf_str(out, "\xEF\xBF\xBD");
	else
		buf_add(out, s, n);
	return s + n;
}

int text_clean(const char *s, bool utf8, struct buf *out)
{
	while (*s)
		s = text_clean_next(s, utf8, out);
	return out->error;
}

int text_csv(const char *s, struct buf *out)
{
	struct buf clean = BUF_INIT(1 << 20);
	int r = text_clean(s, true, &clean);

	(void) buf_printf(out, "\"%s", *s && strchr("=+-@", *s) ? "'" : "");
	for (const char *p = clean.data; *p; p++)
		(void) buf_printf(out, "%s%c", *p == '"' ? "\"" : "", *p);
	buf_done(&clean);
	(void) buf_str(out, "\"");
	return r < 0 ? r : out->error;
}

bool text_ends(const char *text, const char *end)
{
	const size_t len = strlen(text), n = strlen(end);

	return len >= n && strcmp(text + len - n, end) == 0;
}

unsigned text_width(const char *s)
{
	unsigned columns = 0, n;

	for (; *s; s += n)
		columns += columns_of(decode(s, &n));
	return columns;
}

size_t text_fit(const char *s, unsigned columns)
{
	size_t at = 0;
	unsigned used = 0, n;

	while (s[at]) {
		used += columns_of(decode(s + at, &n));
		if (used > columns)
			break;
		at += n;
	}
	return at;
}

int text_shorten(const char *s, unsigned columns, bool utf8, struct buf *out)
{
	const char *dots = utf8 ? "\xE2\x80\xA6" : "...";
	unsigned dots_width = utf8 ? 1 : 3, width = text_width(s), n;

	if (width <= columns)
		return buf_str(out, s);
	if (columns <= dots_width)
		return buf_add(out, s, text_fit(s, columns));
	unsigned rest = columns - dots_width;
	size_t head = text_fit(s, rest - rest / 2), at = head;

	buf_add(out, s, head);
	buf_str(out, dots);
	while (s[at] && text_width(s + at) > rest / 2) {
		decode(s + at, &n);
		at += n;
	}
	return buf_str(out, s + at);
}

/* ---- valid UTF-8 from any bytes -------------------------------------------------------------- */

size_t utf8_length(const unsigned char *s)
{
	static const struct {
		unsigned char first, last, second_min, second_max, length;
	} forms[] = {
		{ 0x01, 0x7f, 0x00, 0xff, 1 },
		{ 0xc2, 0xdf, 0x80, 0xbf, 2 },
		{ 0xe0, 0xe0, 0xa0, 0xbf, 3 },
		{ 0xe1, 0xec, 0x80, 0xbf, 3 },
		{ 0xed, 0xed, 0x80, 0x9f, 3 },
		{ 0xee, 0xef, 0x80, 0xbf, 3 },
		{ 0xf0, 0xf0, 0x90, 0xbf, 4 },
		{ 0xf1, 0xf3, 0x80, 0xbf, 4 },
		{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		if (s[0] < forms[i].first || s[0] > forms[i].last)
			continue;
		if (forms[i].length == 1)
			return 1;
		if (s[1] < forms[i].second_min || s[1] > forms[i].second_max)
			return 0;
		for (size_t k = 2; k < forms[i].length; k++) {
			if ((s[k] & 0xc0) != 0x80)
				return 0;
		}
		return forms[i].length;
	}
	return 0;
}

void utf8_next(struct buf *out, const char **text)
{
	const size_t n = utf8_length((const unsigned char *) *text);

	if (n > 0)
		(void) buf_add(out, *text, n);
	else
		(void) buf_str(out, "\xef\xbf\xbd"); /* U+FFFD */
	*text += n > 0 ? n : 1;
}

int utf8_add(struct buf *out, const char *text)
{
	while (*text)
		utf8_next(out, &text);
	return out->error;
}
