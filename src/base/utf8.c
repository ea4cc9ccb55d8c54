/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"

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
