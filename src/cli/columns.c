/* SPDX-License-Identifier: MIT */
#include "cli/columns.h"

#include <string.h>

#include "base/textwidth.h"

enum {
	TABLE_MOST = 64 << 20,
	BETWEEN = 2,             /* blanks between columns */
};

void table_init(struct table *t, const struct table_column *columns, size_t n_columns, bool utf8)
{
	*t = (struct table) {
		.columns = columns,
		.n_columns = n_columns,
		.utf8 = utf8,
		.cells = BUF_INIT(TABLE_MOST),
	};
	for (size_t i = 0; i < n_columns; i++)
		table_cell(t, columns[i].head);
}

void table_cell(struct table *t, const char *text)
{
	const size_t start = t->cells.len;
	unsigned *width = &t->widths[t->n_cells++ % t->n_columns];

	(void) text_clean(text, t->utf8, &t->cells);
	const unsigned used = text_width(t->cells.data + start);

	(void) buf_add(&t->cells, "", 1);
	if (!t->cells.error && used > *width)
		*width = used;
}

static unsigned least_of(const struct table *t, size_t i)
{
	const unsigned least = t->columns[i].least;

	return least && least < t->widths[i] ? least : t->widths[i];
}

/* The width of the table with all texts as short as they may be. */
static unsigned needed(const struct table *t)
{
	unsigned sum = 0;

	for (size_t i = 0; i < t->n_columns; i++) {
		if (t->widths[i])
			sum += least_of(t, i) + (sum ? BETWEEN : 0);
	}
	return sum;
}

/* The width of the column that is left out next; NULL: none may be. */
static unsigned *next_to_leave(struct table *t)
{
	size_t found = t->n_columns;

	for (size_t i = 0; i < t->n_columns; i++) {
		const unsigned leaves = t->columns[i].leaves;

		if (leaves && t->widths[i] && (found == t->n_columns || leaves < t->columns[found].leaves))
			found = i;
	}
	return found < t->n_columns ? &t->widths[found] : NULL;
}

/* Spare room is given to shortened texts, from left to right. */
static void fit(struct table *t, unsigned width)
{
	for (unsigned *leaving; needed(t) > width && (leaving = next_to_leave(t));)
		*leaving = 0;
	unsigned spare = width > needed(t) ? width - needed(t) : 0;

	for (size_t i = 0; i < t->n_columns; i++) {
		const unsigned least = least_of(t, i), wanted = t->widths[i] - least,
			       given = wanted < spare ? wanted : spare;

		t->widths[i] = least + given;
		spare -= given;
	}
}

static void put_blanks(unsigned n, struct buf *out)
{
	(void) buf_printf(out, "%*s", (int) n, "");
}

/* Blanks are written only before further text, so that no line ends in blanks. */
static void put_row(const struct table *t, const char **cell, struct buf *out)
{
	unsigned owed = 0;

	for (size_t i = 0; i < t->n_columns; i++, *cell += strlen(*cell) + 1) {
		struct buf text = BUF_INIT(TABLE_MOST);

		if (!t->widths[i])
			continue;
		(void) text_shorten(*cell, t->widths[i], t->utf8, &text);
		const unsigned fill = t->widths[i] - text_width(text.data);

		if (text.len > 0) {
			put_blanks(owed + (t->columns[i].is_left ? 0 : fill), out);
			(void) buf_str(out, text.data);
			owed = 0;
		}
		owed += (text.len == 0 || t->columns[i].is_left ? fill : 0) + BETWEEN;
		if (text.error)
			out->error = text.error;
		buf_done(&text);
	}
	(void) buf_str(out, "\n");
}

int table_put(struct table *t, unsigned width, struct buf *out)
{
	const char *cell = t->cells.data;

	if (t->cells.error)
		return t->cells.error;
	if (width > 0)
		fit(t, width);
	for (size_t row = 0; row < t->n_cells / t->n_columns; row++)
		put_row(t, &cell, out);
	return out->error;
}

void table_done(struct table *t)
{
	buf_done(&t->cells);
}

/* ---- two texts in two columns ---------------------------------------------------------------- */

/* Sets *line to the next line of *text, wrapped at blanks to width columns, and advances *text.
 * Returns its length in bytes; 0 at the end. A word that is too long for a line (a path) is
 * split. */
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

void add_two_columns(
	struct buf *out, size_t indent, const char *left, size_t at, const char *right, size_t width)
{
	for (;;) {
		const char *l, *r;
		const size_t l_len = line_next(&left, at - indent - 1, &l),
			     r_len = line_next(&right, width - at, &r);

		if (l_len + r_len == 0)
			return;
		const size_t to = indent + text_width(l) - text_width(l + l_len); /* the column after left */

		(void) buf_printf(out, "%*s%.*s", (int) indent, "", (int) l_len, l);
		if (r_len)
			(void) buf_printf(out, "%*s%.*s", to < at ? (int) (at - to) : 1, "", (int) r_len, r);
		(void) buf_str(out, "\n");
	}
}
