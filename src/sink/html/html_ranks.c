/* SPDX-License-Identifier: MIT
 *
 * A job of several ranks in a report: its nodes as a table, the memory of its ranks over time as a band (least, median, most) and as a heat map,
 * a row a rank. Both pictures need no program; the map has at most MAP_ROWS rows, each the most of several ranks where there are more.
 */
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "sink/html/html_put.h"
#include "sink/job_lines.h"

enum {
	WIDTH = 640,
	LEFT = 70, /* of the labels */
	BAND_HEIGHT = 120,
	MAP_ROWS = 64,
	ROW_HEIGHT = 9,
	SHADES = 10,
};

/* ---- words ----------------------------------------------------------------------------------- */

static void put_lines(struct html *h, const struct summary *s)
{
	struct job_lines lines;

	if (job_lines_make(s, h->o, &lines) < 0)
		h->out->error = -1;
	html_raw(h, "<div class=\"scroll\"><table><tbody>\n");
	for (size_t i = 0; i < lines.n; i++) {
		html_raw(h, "<tr><th scope=\"row\">");
		html_text(h, lines.line[i].label);
		html_raw(h, "</th><td>");
		for (size_t k = 0; k < lines.line[i].n; k++) {
			html_raw(h, k > 0 ? ", " : "");
			html_text(h, lines.line[i].part[k]);
		}
		html_raw(h, "</td></tr>\n");
	}
	html_raw(h, "</tbody></table></div>\n");
	job_lines_done(&lines);
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* The memory of the ranks in a job's spans. */
struct grid {
	const struct parts *p;
	size_t *rank; /* indexes of parts, by rank */
	size_t n;
	int64_t most;
};

static int64_t value_at(const struct grid *g, size_t rank, size_t span)
{
	return g->p->rank_ram[g->rank[rank] * g->p->rank_spans + span];
}

/* The values of a span in order; those of ranks that did not run are left out. Returns their number. */
static size_t sorted_at(const struct grid *g, size_t span, int64_t *values)
{
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++) {
		if (value_at(g, i, span) >= 0)
			values[n++] = value_at(g, i, span);
	}
	stats_sort(values, n);
	return n;
}

static double x_at(const struct grid *g, double span)
{
	return LEFT + span * (WIDTH - LEFT) / (double) g->p->rank_spans;
}

static double y_at(const struct grid *g, int64_t value)
{
	return BAND_HEIGHT - (double) value * (BAND_HEIGHT - 4) / (double) g->most;
}

static void put_band(struct html *h, const struct grid *g)
{
	int64_t *values = calloc(g->n, sizeof(*values));
	char most[UNITS_LEN];

	html_printf(h,
		"<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Memory of the ranks over time: "
		"least, median and most\""
		" style=\"max-width:100%%;height:auto\">"
		"<text x=\"0\" y=\"12\" font-size=\"11\" fill=\"currentColor\">%s</text>"
		"<text x=\"0\" y=\"%d\" font-size=\"11\" fill=\"currentColor\">0</text>",
		WIDTH, BAND_HEIGHT + 4, units_bytes(g->most, h->o->units, most), BAND_HEIGHT);
	for (size_t span = 0; values && span < g->p->rank_spans; span++) {
		const size_t n = sorted_at(g, span, values);

		if (n == 0)
			continue;
		const double low = y_at(g, values[0]), high = y_at(g, values[n - 1]);

		html_printf(h,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"var(--c0)\" "
			"fill-opacity=\".3\"/>"
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"2\" fill=\"var(--c0)\"/>",
			x_at(g, (double) span), high, x_at(g, 1) - x_at(g, 0), low - high + 1,
			x_at(g, (double) span), y_at(g, values[(n - 1) / 2]) - 1, x_at(g, 1) - x_at(g, 0));
	}
	html_raw(h, "</svg>\n");
	free(values);
}

/* Neighbours of one shade are one rectangle. */
static void put_row(struct html *h, const struct grid *g, size_t row, size_t first, size_t last)
{
	const size_t spans = g->p->rank_spans;
	size_t begun = 0;
	int before = -1;

	for (size_t span = 0; span <= spans; span++) {
		int64_t most = -1;

		for (size_t i = first; span < spans && i < last; i++)
			most = larger(most, value_at(g, i, span));
		const int shade = most < 0 ? -1 : (int) (most * SHADES / (g->most + 1)) + 1;

		if (span < spans && shade == before)
			continue;
		if (before >= 0)
			html_printf(h,
				"<rect x=\"%.1f\" y=\"%zu\" width=\"%.1f\" height=\"%d\" "
				"fill=\"var(--c0)\" fill-opacity=\"%.1f\"/>",
				x_at(g, (double) begun), row * ROW_HEIGHT,
				x_at(g, (double) span) - x_at(g, (double) begun), ROW_HEIGHT - 1,
				(double) before / SHADES);
		begun = span;
		before = span < spans ? shade : -1;
	}
}

static void put_map(struct html *h, const struct grid *g)
{
	const size_t each = (g->n + MAP_ROWS - 1) / MAP_ROWS, rows = (g->n + each - 1) / each;

	html_printf(h,
		"<svg viewBox=\"0 0 %d %zu\" role=\"img\" aria-label=\"Memory of each rank over time\""
		" style=\"max-width:100%%;height:auto\">",
		WIDTH, rows * ROW_HEIGHT);
	for (size_t row = 0; row < rows; row++) {
		const size_t first = row * each, last = first + each < g->n ? first + each : g->n;

		html_printf(h,
			"<text x=\"0\" y=\"%zu\" font-size=\"8\" fill=\"currentColor\">rank %lld</text>",
			row * ROW_HEIGHT + ROW_HEIGHT - 2,
			(long long) g->p->part[g->rank[first]].rank.value);
		put_row(h, g, row, first, last);
	}
	html_raw(h, "</svg>\n");
}

/* Parts are in the order of ranks within each node: few are out of place. */
static void sort_by_rank(struct grid *g)
{
	for (size_t i = 1; i < g->n; i++) {
		const size_t part = g->rank[i];
		size_t at = i;

		for (; at > 0 && g->p->part[g->rank[at - 1]].rank.value > g->p->part[part].rank.value; at--)
			g->rank[at] = g->rank[at - 1];
		g->rank[at] = part;
	}
}

static void put_pictures(struct html *h, const struct parts *p)
{
	struct grid g = { .p = p, .rank = calloc(p->n ? p->n : 1, sizeof(*g.rank)), .most = 1 };

	for (size_t i = 0; g.rank && p->rank_ram && i < p->n; i++) {
		if (!part_is_rank(&p->part[i]))
			continue;
		g.rank[g.n++] = i;
		for (size_t k = 0; k < p->rank_spans; k++)
			g.most = larger(g.most, p->rank_ram[i * p->rank_spans + k]);
	}
	if (g.n > 1) {
		sort_by_rank(&g);
		html_raw(h, "<h3>Memory of the ranks: least, median, most</h3>\n");
		put_band(h, &g);
		html_raw(h, "<h3>Memory of each rank, darker is more</h3>\n");
		put_map(h, &g);
	}
	free(g.rank);
}

void html_ranks(struct html *h)
{
	for (size_t i = 0; i < h->n; i++) {
		const struct summary *s = h->runs[i].summary;

		if (!s->job || !job_parts(s->job))
			continue;
		html_raw(h, "<section class=\"panel\"><h2>Nodes and ranks");
		html_which(h, i);
		html_raw(h, "</h2>\n");
		put_lines(h, s);
		put_pictures(h, job_parts(s->job));
		html_raw(h, "</section>\n");
	}
}
