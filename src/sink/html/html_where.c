/* SPDX-License-Identifier: MIT
 *
 * Where the RAM of a sampled run came from: the table of functions, and a flame graph, in which web/flame.js
 * zooms.
 */
#include <stdio.h>

#include "sink/html/html_put.h"
#include "sink/where/where_sink.h"

enum {
	ROWS = 20,
	FUNCTION_COLUMNS = 80,
	PLACE_COLUMNS = 60,
};

/* Behind the name. */
static void put_cells(struct html *h, const struct where_view *v, uint64_t bytes, bool has_sigma,
	uint64_t sigma, uint64_t n)
{
	char share[UNITS_LEN];

	html_raw(h, "</th><td>");
	html_bytes(h, known((int64_t) bytes));
	html_printf(h, "</td><td>%s</td><td>", units_percent((int64_t) bytes, (int64_t) v->peak_bytes, share));
	if (has_sigma)
		html_bytes(h, known((int64_t) sigma));
	html_raw(h, "</td><td>");
	if (n > 0)
		html_printf(h, "%llu", (unsigned long long) n);
	html_raw(h, "</td><td>");
}

static void put_line(struct html *h, const struct where_view *v, const struct where_line *line)
{
	char name[WHERE_NAME_LEN], number[32] = "";
	uint32_t at;
	uint64_t sigma;
	const bool has_sigma = where_line_sigma(line, &sigma);
	const char *file = where_line_file(v, line, &at);

	if (at > 0)
		(void) snprintf(number, sizeof(number), ":%u", at);
	html_raw(h, "<tr><th scope=\"row\">");
	html_short(h, where_line_name(v, line, name), NULL, FUNCTION_COLUMNS);
	put_cells(h, v, line->bytes, has_sigma, sigma, line->n);
	html_short(h, *file ? file : where_line_library(v, line), NULL, PLACE_COLUMNS);
	html_text(h, number);
	html_raw(h, "</td></tr>\n");
}

static void put_rest(struct html *h, const struct where_view *v, const char *name, uint64_t bytes)
{
	html_raw(h, "<tr><th scope=\"row\">");
	html_text(h, name);
	put_cells(h, v, bytes, false, 0, 0);
	html_raw(h, "</td></tr>\n");
}

static void put_table(struct html *h, const struct where_view *v)
{
	struct where_part parts[WHERE_PARTS];
	const size_t n_parts = where_parts(v, parts);
	uint64_t n_others, others = where_others(v, ROWS, &n_others);
	char text[64];

	html_raw(h,
		"<div class=\"scroll\"><table class=\"where\"><thead><tr><th>Function</th><th>RAM</th><th>Share</th>"
		"<th>+-</th><th>Samples</th><th>Where</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < v->n_lines && i < ROWS; i++)
		put_line(h, v, &v->lines[i]);
	for (size_t i = 0; i < n_parts; i++)
		put_rest(h, v, parts[i].name, parts[i].bytes);
	if (others > 0) {
		(void) snprintf(text, sizeof(text), "others (%llu functions)", (unsigned long long) n_others);
		put_rest(h, v, text, others);
	}
	html_raw(h, "</tbody></table></div>\n");
}

static void put_pythons(struct html *h, const struct where_view *v)
{
	for (size_t i = 0; i < v->n_pythons; i++) {
		const size_t n = where_python_group(v, i);
		struct buf frames = BUF_INIT(1 << 18);
		char process[WHERE_NAME_LEN], when[UNITS_LEN], size[UNITS_LEN], more[32] = "";

		if (n == 0)
			continue;
		if (n > 1)
			(void) snprintf(more, sizeof(more), " and %zu more", n - 1);
		where_process_name(v, v->pythons[i].process, process);
		where_python_text(v, &v->pythons[i], true, &frames);
		html_raw(h, "<p class=\"note\">Python at ");
		html_text(h, units_instant((int64_t) v->pythons[i].time_ns, when));
		html_raw(h, ", on the way to ");
		html_text(h, units_bytes((int64_t) v->highs[v->pythons[i].high - 1].total_bytes,
				     UNITS_IEC, size));
		html_raw(h, ", ");
		html_text(h, process);
		html_text(h, more);
		html_raw(h, ": ");
		html_text(h, frames.data);
		html_raw(h, "</p>\n");
		buf_done(&frames);
	}
}

void html_where(struct html *h)
{
	for (size_t i = 0; i < h->n; i++) {
		const struct where_view *v = h->runs[i].where;

		if (!v)
			continue;
		html_raw(h, "<section class=\"panel\"><h2>Where the RAM came from");
		html_which(h, i);
		html_raw(h,
			"</h2>\n<p class=\"note\">Functions by the memory that they first touched and that was resident "
			"at the peak. First touched is not owned: memory that malloc reused counts for who touched it "
			"first.</p>\n");
		put_table(h, v);
		put_pythons(h, v);
		html_raw(h, "<div class=\"flame\">\n");
		(void) where_svg_inline(v, h->out);
		html_raw(h, "</div></section>\n");
	}
}
