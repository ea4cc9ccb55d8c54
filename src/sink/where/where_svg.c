/* SPDX-License-Identifier: MIT
 *
 * A flame graph: a frame is as wide as the memory of all stacks through it, its callers are below it. Without a
 * script it is a picture with tool tips; the script in it zooms. A report has one for all of them (web/flame.js).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/where/where_sink.h"

enum {
	WIDTH = 1200,
	ROW = 17,
	HEAD = 22,         /* above the frames */
	LETTER = 7,        /* width of one */
	LEAST_LETTERS = 3, /* for less no text */
	FINE = 100,        /* coordinates have two decimals */
	LEAST_WIDTH = 20, /* of a frame, in 1 / FINE; narrower ones, and what they called, are left out */
	LEAST_INLINE = 100, /* the same in a page, which has other things too */
	MOST_NAME = 300,
	COLORS = 12,
};

/* Without a less-than sign and an ampersand: it stands in XML and in HTML as it is. */
static const char script[] =
	"(function(s){var g=s.querySelectorAll('g[data-x]'),W=1200,i;"
	"function f(e,a,b){var x=+e.dataset.x,w=+e.dataset.w,k=W/(b-a),l=Math.max(x,a),r=Math.min(x+w,b),"
	"c=e.querySelector('rect'),t=e.querySelector('text'),m=e.dataset.n,n=Math.floor((r-l)*k/7)-1;"
	"if(0.2>(r-l)*k){e.style.display='none';return}e.style.display='';"
	"c.setAttribute('x',(l-a)*k);c.setAttribute('width',(r-l)*k);t.setAttribute('x',(l-a)*k+3);"
	"t.textContent=3>n?'':n>=m.length?m:m.slice(0,n-1)+'\\u2026'}"
	"function z(){var x=+this.dataset.x,w=+this.dataset.w,i;for(i=0;g.length>i;i++)f(g[i],x,x+w)}"
	"for(i=0;g.length>i;i++)g[i].addEventListener('click',z)})"
	"(document.currentScript.parentNode);";

/* By library; readable with black letters. */
static const char *const colors[COLORS] = { "#f4a582", "#92c5de", "#a6dba0", "#fdd49e", "#c2a5cf",
	"#b8e186", "#f6c1d6", "#9ad9d3", "#e3d08a", "#c5c9e8", "#e8b98f", "#b5d3b0" };
static const char gray[] = "#d0d0d0";

struct graph {
	const struct where_view *view;
	struct buf *out;
	uint64_t whole, least_width;
	uint64_t *starts; /* of each node of the tree, in bytes */
	uint32_t *order; /* nodes by parent, the largest first */
	unsigned depth; /* of the deepest frame that is drawn */
};

static uint64_t fine(const struct graph *g, uint64_t bytes)
{
	return g->whole > 0 ? (uint64_t) ((__int128) bytes * WIDTH * FINE / g->whole) : 0;
}

static bool is_drawn(const struct graph *g, uint64_t bytes)
{
	return fine(g, bytes) >= g->least_width;
}

static void put_escaped(struct buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n && text[i]; i++) {
		switch (text[i]) {
		case '&':
			(void) buf_str(out, "&amp;");
			break;
		case '<':
			(void) buf_str(out, "&lt;");
			break;
		case '>':
			(void) buf_str(out, "&gt;");
			break;
		case '"':
			(void) buf_str(out, "&quot;");
			break;
		default:
			(void) buf_add(out, &text[i], 1);
		}
	}
}

/* Text without what XML forbids: U+FFFE and U+FFFF too. */
static void clean_name(const char *name, struct buf *out)
{
	struct buf whole = BUF_INIT(1 << 20);

	(void) text_clean(name, true, &whole);
	for (size_t i = 0; i + 2 < whole.len; i++) {
		if (memcmp(&whole.data[i], "\xEF\xBF\xBE", 3) == 0 ||
			memcmp(&whole.data[i], "\xEF\xBF\xBF", 3) == 0)
			whole.data[i + 2] = (char) 0xBD;
	}
	(void) text_shorten(whole.data, MOST_NAME, true, out);
	buf_done(&whole);
}

static void put_fine(struct buf *out, const char *key, uint64_t hundredths)
{
	(void) buf_printf(out, " %s=\"%llu.%02llu\"", key, (unsigned long long) (hundredths / FINE),
		(unsigned long long) (hundredths % FINE));
}

/* level: 0 is the lowest row. */
static void put_frame(struct graph *g, const char *name, const char *more, uint64_t start, uint64_t bytes,
	unsigned level, const char *color)
{
	const uint64_t x = fine(g, start), w = fine(g, start + bytes) - x;
	const unsigned y = HEAD + (g->depth - level) * ROW;
	const size_t letters = (size_t) (w / FINE / LETTER);
	char size[UNITS_LEN], share[UNITS_LEN];
	struct buf clean = BUF_INIT(1 << 16), shown = BUF_INIT(1 << 16);

	clean_name(name, &clean);
	(void) buf_str(g->out, "<g");
	put_fine(g->out, "data-x", x);
	put_fine(g->out, "data-w", w);
	(void) buf_str(g->out, " data-n=\"");
	put_escaped(g->out, clean.data, clean.len);
	(void) buf_str(g->out, "\"><title>");
	put_escaped(g->out, clean.data, clean.len);
	(void) buf_printf(g->out, "\n%s, %s%% of the peak", units_bytes((int64_t) bytes, UNITS_IEC, size),
		units_fixed(g->whole > 0 ? 100 * (double) bytes / (double) g->whole : 0, 1, share));
	if (more && *more) {
		buf_clear(&shown);
		clean_name(more, &shown);
		(void) buf_str(g->out, "\n");
		put_escaped(g->out, shown.data, shown.len);
	}
	(void) buf_str(g->out, "</title><rect");
	put_fine(g->out, "x", x);
	put_fine(g->out, "width", w);
	(void) buf_printf(g->out, " y=\"%u\" height=\"%d\" fill=\"%s\"/><text", y, ROW - 1, color);
	put_fine(g->out, "x", x + 3 * FINE);
	(void) buf_printf(g->out, " y=\"%u\">", y + ROW - 5);
	if (letters > LEAST_LETTERS) {
		buf_clear(&shown);
		(void) text_shorten(clean.data, (unsigned) letters - 1, true, &shown);
		put_escaped(g->out, shown.data, shown.len);
	}
	(void) buf_str(g->out, "</text></g>\n");
	buf_done(&clean);
	buf_done(&shown);
}

/* ---- layout ---------------------------------------------------------------------------------- */

struct place {
	uint32_t parent, node;
	uint64_t total;
};

static int by_parent(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* Children lie side by side from the start of their parent on. Parents come before their children, so that in
 * the order of parents each start is known when it is needed. */
static int lay_out(struct graph *g)
{
	const size_t n = g->view->n_tree;
	struct place *places = calloc(n + 1, sizeof(*places));
	uint32_t parent = 0;
	uint64_t at = 0;

	g->starts = calloc(n + 1, sizeof(*g->starts));
	g->order = calloc(n + 1, sizeof(*g->order));
	if (!places || !g->starts || !g->order) {
		free(places);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		places[i] =
			(struct place) { g->view->tree[i].parent, (uint32_t) i, g->view->tree[i].total };
	qsort(places, n, sizeof(*places), by_parent);
	for (size_t i = 0; i < n; i++) {
		const struct where_tree_node *node = &g->view->tree[places[i].node];

		if (i == 0 || node->parent != parent)
			at = node->parent > 0 ? g->starts[node->parent - 1] : 0;
		parent = node->parent;
		g->starts[places[i].node] = at;
		g->order[i] = places[i].node;
		at += node->total;
		if (is_drawn(g, node->total) && node->depth > g->depth)
			g->depth = node->depth;
	}
	free(places);
	return 0;
}

static const char *color_of(const struct where_function *f)
{
	return f->is_cut || f->library == 0 ? gray : colors[f->library * UINT32_C(2654435761) % COLORS];
}

static void put_frames(struct graph *g)
{
	const struct where_view *v = g->view;
	struct where_part parts[WHERE_PARTS];
	const size_t n_parts = where_parts(v, parts);
	uint64_t at = v->rows_bytes;
	char all[64];

	(void) snprintf(
		all, sizeof(all), v->n_recordings == 1 ? "all" : "all of %zu recordings", v->n_recordings);
	put_frame(g, all, NULL, 0, g->whole, 0, gray);
	for (size_t i = 0; i < v->n_tree && !g->out->error; i++) {
		const struct where_tree_node *node = &v->tree[g->order[i]];
		const struct where_function *f = &v->functions[node->function];

		if (is_drawn(g, node->total))
			put_frame(g, where_text_of(v, f->name), where_text_of(v, f->library),
				g->starts[g->order[i]], node->total, node->depth, color_of(f));
	}
	for (size_t i = 0; i < n_parts; i++) {
		if (is_drawn(g, parts[i].bytes))
			put_frame(g, parts[i].name, NULL, at, parts[i].bytes, 1, gray);
		at += parts[i].bytes;
	}
}

static void put_open(const struct graph *g, bool is_inline)
{
	const unsigned height = HEAD + (g->depth + 1) * ROW + 2;
	char peak[UNITS_LEN];

	if (!is_inline)
		(void) buf_str(g->out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
	(void) buf_printf(g->out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" ", WIDTH, height);
	if (is_inline)
		(void) buf_str(g->out, "width=\"100%\"");
	else
		(void) buf_printf(g->out, "width=\"%d\" height=\"%u\"", WIDTH, height);
	(void) buf_printf(g->out,
		" class=\"where\" font-family=\"monospace\" font-size=\"11\">\n"
		"<text x=\"3\" y=\"14\" fill=\"currentColor\">%s of resident memory by the functions that first "
		"touched it; a click zooms, on the lowest row back</text>\n",
		units_bytes((int64_t) g->whole, UNITS_IEC, peak));
}

static int put_svg(const struct where_view *view, bool is_inline, struct buf *out)
{
	struct graph g = {
		.view = view,
		.out = out,
		.whole = view->peak_bytes,
		.least_width = is_inline ? LEAST_INLINE : LEAST_WIDTH,
		.depth = 1,
	};
	int r = lay_out(&g);

	if (r == 0) {
		put_open(&g, is_inline);
		put_frames(&g);
		if (!is_inline)
			(void) buf_printf(out, "<script>%s</script>\n", script);
		(void) buf_str(out, "</svg>\n");
	}
	free(g.starts);
	free(g.order);
	return r == 0 ? out->error : r;
}

int where_svg(const struct where_view *view, struct buf *out)
{
	return put_svg(view, false, out);
}

int where_svg_inline(const struct where_view *view, struct buf *out)
{
	return put_svg(view, true, out);
}
