/* SPDX-License-Identifier: MIT */
#include "cli/beside.h"

#include <string.h>

#include "base/textwidth.h"

/* The next line of text that fits into so many columns, broken at blanks; its bytes, 0 at the end. A word that no line holds (a
 * path) goes on in the next. */
static size_t line_next(const char **text, size_t width, const char **line)
{
	const char *p = *text + strspn(*text, " "), *end = p;
	const size_t fits = text_fit(p, (unsigned) width);

	*line = p;
	while (*p) {
		const char *word = p + strcspn(p, " ");

		if ((size_t) (word - *line) > fits) {
			if (end > *line)
				break;
			*text = *line + fits;
			return fits;
		}
		end = word;
		p = word + strspn(word, " ");
	}
	*text = p;
	return (size_t) (end - *line);
}

void beside_add(struct buf *out, size_t indent, const char *left, size_t at, const char *right, size_t width)
{
	for (;;) {
		const char *l, *r;
		const size_t l_len = line_next(&left, at - indent - 1, &l), r_len = line_next(&right, width - at, &r);

		if (l_len + r_len == 0)
			return;
		const size_t to = indent + text_width(l) - text_width(l + l_len); /* the column behind left */

		(void) buf_printf(out, "%*s%.*s", (int) indent, "", (int) l_len, l);
		if (r_len)
			(void) buf_printf(out, "%*s%.*s", to < at ? (int) (at - to) : 1, "", (int) r_len, r);
		(void) buf_str(out, "\n");
	}
}
