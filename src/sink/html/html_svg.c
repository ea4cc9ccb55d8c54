/* SPDX-License-Identifier: MIT */
#include "sink/html/html_svg.h"

#include <math.h>
#include <string.h>

enum {
	TICKS = 3,
	SMALL = 100, /* pixels: lower charts have fewer axis ticks */
	DOTS_BELOW = 15, /* lines of fewer instants have dots, too */
	SPECIAL_SHOWN = 20,
	LETTER = 6,      /* pixels: width of a letter, about */
};

const char *const svg_colors[SVG_COLORS] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#6b7280",
	"#8b5e1a" };

const struct svg_box svg_report_box = { SVG_LEFT, SVG_WIDTH - SVG_RIGHT, SVG_TOP, SVG_HEIGHT - SVG_BOTTOM };

struct vertex {
	long x, low, mean, high;
};

/* a limit further above the lines is written next to them, not drawn */
static const double reference_reach = 2.5;

/* The top of the scale of lines that are always 0. */
static const double ones[] = {
	[AMOUNT_BYTES] = 1024,
	[AMOUNT_RATE] = 1024,
	[AMOUNT_CORES] = 1e6,
	[AMOUNT_SHARE] = 1e6,
	[AMOUNT_WATTS] = 1e6,
	[AMOUNT_CELSIUS] = 1e3,
	[AMOUNT_PLAIN] = 1,
};

/* ---- places ---------------------------------------------------------------------------------------------------------------- */

double svg_x(const struct svg_box *box, uint64_t end_ns, double at_ns)
{
	return box->left + (box->right - box->left) * fmin(1, fmax(0, at_ns / (double) end_ns));
}

/* Halved first: the span of user series may exceed a double. */
double svg_y(const struct svg_scale *s, double value)
{
	const double share = (value / 2 - s->bottom / 2) / (s->top / 2 - s->bottom / 2);

	return s->c->box.top + (s->c->box.bottom - s->c->box.top) * (1 - fmin(1, fmax(0, share)));
}

void svg_pixels(struct html *h, double value)
{
	const long tenths = lround(value * SVG_FINE);

	html_printf(h, "%ld.%ld", tenths / SVG_FINE, tenths % SVG_FINE);
}

/* ---- the scale ------------------------------------------------------------------------------------------------------------- */

static void stretch_to(struct svg_scale *s, double value)
{
	s->bottom = fmin(s->bottom, value);
	s->top = fmax(s->top, value);
}

bool svg_is_shown(const struct svg_scale *s, double value)
{
	return value >= s->bottom && value <= s->top;
}

struct svg_scale svg_scale(const struct svg_chart *c)
{
	struct svg_scale s = { c, c->is_loose ? INFINITY : 0, c->is_loose ? -INFINITY : 0 };
	double room;

	for (size_t line = 0; line < c->n_lines; line++) {
		for (size_t i = 0; i < SVG_POINTS; i++) {
			if (c->lines[line].points[i].n > 0) {
				stretch_to(&s, c->lines[line].points[i].low);
				stretch_to(&s, c->lines[line].points[i].high);
			}
		}
	}
	if (!(s.bottom <= s.top)) /* no finite value */
		s.bottom = s.top = 0;
	if (c->flag_ns.known)
		stretch_to(&s, c->flag);
	for (size_t i = 0; i < c->n_references; i++) {
		if (c->references[i].value <= s.top * reference_reach)
			stretch_to(&s, c->references[i].value);
	}
	if (c->amount == AMOUNT_SHARE && s.top <= 1e6) {
		s.top = 1e6;
		return s;
	}
	room = s.top / 12 - s.bottom / 12;
	if (room <= 0)
		room = s.top != 0 ? fabs(s.top) / 10 : ones[c->amount];
	s.top += c->flag_ns.known ? 3 * room : room;
	s.bottom -= c->is_loose || s.bottom < 0 ? room : 0;
	return s;
}

/* The distance between grid lines: a power of two for bytes, else 1, 2 or 5 times a power of ten;
 * at least three fit. */
static double tick_of(const struct svg_chart *c, const struct html *h, double span)
{
	const double height = c->box.bottom - c->box.top, most = span / (height < SMALL ? TICKS - 1 : TICKS);
	const double ten = pow(10, floor(log10(most)));
	const bool is_bytes = c->amount == AMOUNT_BYTES || c->amount == AMOUNT_RATE;

	if (is_bytes && h->o->units == UNITS_IEC)
		return fmax(1, exp2(floor(log2(most))));
	return fmax(is_bytes ? 1 : 0, most >= 5 * ten ? 5 * ten : most >= 2 * ten ? 2 * ten
										  : ten);
}

void svg_amount(struct html *h, double value, enum svg_amount amount)
{
	char text[UNITS_LEN];

	if (!isfinite(value) || (amount != AMOUNT_PLAIN && fabs(value) > (double) (INT64_MAX / 2)))
		amount = AMOUNT_PLAIN;
	switch (amount) {
	case AMOUNT_BYTES:
		html_bytes(h, known(llround(value)));
		break;
	case AMOUNT_RATE:
		html_bytes(h, known(llround(value)));
		html_raw(h, "/s");
		break;
	case AMOUNT_CORES: /* axis ticks may be finer than units_cores() writes */
		html_text(h,
			value != 0 && fabs(value) < 1e4 ? units_any(value / 1e6, text)
							: units_cores(llround(value), text));
		html_raw(h, " cores");
		break;
	case AMOUNT_SHARE:
		html_text(h, units_percent(llround(value), 1000000, text));
		break;
	case AMOUNT_WATTS:
		html_printf(h, "%s W", units_any(round(value / 1e5) / 10, text));
		break;
	case AMOUNT_CELSIUS:
		html_printf(h, "%s &#176;C", units_any(round(value / 1e2) / 10, text));
		break;
	case AMOUNT_PLAIN:
		html_raw(h, units_any(value, text));
		break;
	}
}

void svg_text(struct html *h, double x, double y, const char *anchor)
{
	html_raw(h, "<text fill=\"#4b5563\" x=\"");
	svg_pixels(h, x);
	html_raw(h, "\" y=\"");
	svg_pixels(h, y);
	html_printf(h, "\" text-anchor=\"%s\">", anchor);
}

void svg_grid(struct html *h, const struct svg_scale *s)
{
	const double span = s->top - s->bottom, tick = tick_of(s->c, h, span);

	if (!isfinite(span) || !(tick > 0))
		return; /* the span overflows, as from -1e308 to 1e308: lines without axis ticks */
	for (double k = ceil(s->bottom / tick); k * tick <= s->top && k + 1 > k; k++) {
		const double value = k == 0 ? 0 : k * tick, y = svg_y(s, value);

		html_printf(h, "<path class=\"grid\" fill=\"none\" stroke=\"#e2e5ea\" d=\"M%d ",
			(int) s->c->box.left);
		svg_pixels(h, y);
		html_printf(h, "H%d\"/>", (int) s->c->box.right);
		svg_text(h, s->c->box.left - 8, fmax(y + 4, s->c->box.top + 6), "end");
		svg_amount(h, value, s->c->amount);
		html_raw(h, "</text>");
	}
}

static uint64_t time_tick(uint64_t end_ns)
{
	static const uint64_t seconds[] = { 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
		14400, 21600, 43200, 86400, 172800, 432000, 864000 };
	const uint64_t second = 1000000000, about = end_ns / 7;

	for (uint64_t tick = 1000000; tick < second; tick *= 10) {
		for (uint64_t by = 1; by <= 5; by += by == 2 ? 3 : 1) {
			if (tick * by >= about)
				return tick * by;
		}
	}
	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		if (seconds[i] * second >= about)
			return seconds[i] * second;
	}
	return about;
}

void svg_times(struct html *h, const struct svg_box *box, uint64_t end_ns, int y)
{
	const uint64_t tick = time_tick(end_ns);
	char text[UNITS_LEN];

	for (uint64_t at = 0; at <= end_ns; at += tick) {
		const double x = svg_x(box, end_ns, (double) at);

		svg_text(h, x, y, x > box->right - 22 ? "end" : "middle");
		html_printf(h, "%s</text>", at == 0 ? "0" : units_duration((int64_t) at, text));
	}
}

/* ---- phases and events --------------------------------------------------------------------------------------------------------- */

static const struct {
	const char *kind, *fill;
} stretch_fills[] = {
	{ "phase", "#e8f1f7" },
	{ "gap", "#e5e7eb" },
	{ "held", "#f6e3c5" },
};

static const char *fill_of(const char *kind)
{
	for (size_t i = 0; i < sizeof(stretch_fills) / sizeof(stretch_fills[0]); i++) {
		if (strcmp(stretch_fills[i].kind, kind) == 0)
			return stretch_fills[i].fill;
	}
	return "none";
}

static void put_stretches(struct html *h, const struct svg_chart *c)
{
	for (size_t i = 0; i < c->n_stretches; i++) {
		const struct svg_stretch *s = &c->stretches[i];
		const double from = svg_x(&c->box, c->end_ns, (double) s->from_ns),
			     to = svg_x(&c->box, c->end_ns, (double) s->to_ns);

		html_printf(h, "<rect class=\"%s\" fill=\"%s\" x=\"", s->kind, fill_of(s->kind));
		svg_pixels(h, from);
		html_printf(h, "\" y=\"%d\" height=\"%d\" width=\"", (int) c->box.top,
			(int) (c->box.bottom - c->box.top));
		svg_pixels(h, fmax(to - from, 1));
		html_raw(h, "\"><title>");
		html_text(h, s->words);
		html_raw(h, "</title></rect>");
	}
}

static void put_moments(struct html *h, const struct svg_chart *c)
{
	for (size_t i = 0; i < c->n_moments; i++) {
		const struct svg_moment *m = &c->moments[i];

		html_printf(h, "<path class=\"%s\" stroke=\"%s\"%s d=\"M", m->is_alert ? "alert" : "mark",
			m->is_alert ? "#c2410c" : "#6b7280", m->is_alert ? "" : " stroke-dasharray=\"4 4\"");
		svg_pixels(h, svg_x(&c->box, c->end_ns, (double) m->at_ns));
		html_printf(h, " %dV%d\"><title>", (int) c->box.top, (int) c->box.bottom);
		html_text(h, m->words);
		html_raw(h, "</title></path>");
	}
}

/* ---- lines ----------------------------------------------------------------------------------------------------------------- */

/* The moves from each vertex to the next; the caller has written the first place. */
static void put_path(struct html *h, const struct vertex *v, size_t n, long (*y)(const struct vertex *v))
{
	for (size_t i = 1; i < n; i++) {
		const long x = v[i].x - v[i - 1].x, down = y(&v[i]) - y(&v[i - 1]);

		html_printf(h, down < 0 ? "%s%ld%ld" : "%s%ld %ld", i == 1 || x < 0 ? "" : " ", x, down);
	}
}

static long mean_of(const struct vertex *v)
{
	return v->mean;
}

static long high_of(const struct vertex *v)
{
	return v->high;
}

static long low_of(const struct vertex *v)
{
	return v->low;
}

static void reverse(struct vertex *v, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		const struct vertex kept = v[i];

		v[i] = v[n - 1 - i];
		v[n - 1 - i] = kept;
	}
}

static bool has_band(const struct vertex *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (v[i].low - v[i].high >= SVG_FINE / 2)
			return true;
	}
	return false;
}

/* Reverses v. */
static void put_band(struct html *h, struct vertex *v, size_t n, unsigned line)
{
	html_printf(h, "<path class=\"band c%u\" fill=\"%s\" opacity=\".25\" d=\"M%ld %ldl", line,
		svg_colors[line], v[0].x, v[0].high);
	put_path(h, v, n, high_of);
	reverse(v, n);
	html_printf(h, "L%ld %ldl", v[0].x, v[0].low);
	put_path(h, v, n, low_of);
	html_raw(h, "Z\"/>");
}

static void put_line(struct html *h, struct vertex *v, size_t n, unsigned line, bool is_dashed)
{
	if (n > 1 && has_band(v, n)) {
		put_band(h, v, n, line);
		reverse(v, n);
	}
	html_printf(h,
		"<path class=\"line c%u\" fill=\"none\" stroke=\"%s\" stroke-width=\"16\"%s d=\"M%ld %ldl",
		line, svg_colors[line], is_dashed ? " stroke-dasharray=\"80 40\"" : "", v[0].x, v[0].mean);
	if (n > 1)
		put_path(h, v, n, mean_of);
	else
		html_raw(h, "1 0"); /* a line without length is invisible */
	html_raw(h, "\"/>");
}

static void put_dots(struct html *h, const struct vertex *v, size_t n, unsigned line)
{
	for (size_t i = 0; i < n; i++)
		html_printf(h, "<circle class=\"c%u\" fill=\"%s\" cx=\"%ld\" cy=\"%ld\" r=\"28\"/>", line,
			svg_colors[line], v[i].x, v[i].mean);
}

static struct vertex vertex_of(const struct svg_scale *s, const struct svg_point *p, double at_ns)
{
	return (struct vertex) {
		lround(svg_x(&s->c->box, s->c->end_ns, at_ns) * SVG_FINE),
		lround(svg_y(s, p->low) * SVG_FINE),
		lround(svg_y(s, p->mean) * SVG_FINE),
		lround(svg_y(s, p->high) * SVG_FINE),
	};
}

/* The next unbroken stretch of a line. Returns its number of vertices; advances *at behind it. */
static size_t next_stretch(
	const struct svg_scale *s, const struct svg_line *l, size_t *at, struct vertex *ret)
{
	const double width_ns = (double) s->c->end_ns / SVG_POINTS;
	size_t n = 0;

	while (*at < SVG_POINTS && l->points[*at].n == 0)
		(*at)++;
	for (; *at < SVG_POINTS; (*at)++) {
		const struct svg_point *p = &l->points[*at];

		if (p->n > 0)
			ret[n++] = vertex_of(s, p, l->is_instants ? p->at_ns : (double) *at * width_ns);
		if (p->special || (p->n == 0 && !l->is_instants))
			break;
	}
	if (n > 0 && !l->is_instants) { /* the last point is valid as long as the others */
		ret[n] = vertex_of(s, &l->points[*at - 1], (double) *at * width_ns);
		n++;
	}
	*at += *at < SVG_POINTS && l->points[*at].special != NULL;
	return n;
}

static size_t count(const struct svg_line *l)
{
	size_t n = 0;

	for (size_t i = 0; i < SVG_POINTS; i++)
		n += l->points[i].n > 0;
	return n;
}

static void put_special(struct html *h, const struct svg_scale *s, const struct svg_line *l)
{
	unsigned shown = 0;

	for (size_t i = 0; i < SVG_POINTS && shown < SPECIAL_SHOWN; i++) {
		if (!l->points[i].special)
			continue;
		html_raw(h, "<text class=\"special\" fill=\"#c2410c\" text-anchor=\"middle\" x=\"");
		svg_pixels(h,
			svg_x(&s->c->box, s->c->end_ns,
				((double) i + 0.5) * (double) s->c->end_ns / SVG_POINTS));
		html_printf(h, "\" y=\"%d\">%s</text>", (int) s->c->box.top + 10, l->points[i].special);
		shown++;
	}
}

static void put_lines(struct html *h, const struct svg_scale *s)
{
	struct vertex v[SVG_POINTS + 1];

	html_raw(h, "<g transform=\"scale(.1)\">");
	for (size_t line = s->c->n_lines; line-- > 0;) { /* the first line is drawn last, on top */
		const bool has_dots = s->c->lines[line].is_instants && count(&s->c->lines[line]) < DOTS_BELOW;
		size_t n;

		for (size_t at = 0; (n = next_stretch(s, &s->c->lines[line], &at, v)) > 0;) {
			put_line(h, v, n, s->c->lines[line].color, s->c->lines[line].is_dashed);
			if (has_dots)
				put_dots(h, v, n, s->c->lines[line].color);
		}
	}
	html_raw(h, "</g>");
	for (size_t line = 0; line < s->c->n_lines; line++)
		put_special(h, s, &s->c->lines[line]);
}

/* ---- over the lines -------------------------------------------------------------------------------------------------------- */

static void put_references(struct html *h, const struct svg_scale *s)
{
	for (size_t i = 0; i < s->c->n_references; i++) {
		const struct svg_reference *r = &s->c->references[i];
		const double y = svg_y(s, r->value);

		if (!svg_is_shown(s, r->value))
			continue;
		html_printf(h,
			"<path class=\"reference\" fill=\"none\" stroke=\"#4b5563\" stroke-dasharray=\"8 4\" d=\"M%d ",
			(int) s->c->box.left);
		svg_pixels(h, y);
		html_printf(h, "H%d\"/>", (int) s->c->box.right);
		svg_text(h, s->c->box.left + 6, y < s->c->box.top + 14 ? y + 13 : y - 4, "start");
		html_printf(h, "%s ", r->label);
		svg_amount(h, r->value, s->c->amount);
		html_raw(h, "</text>");
	}
}

/* A triangle that points at the peak, with its words above. */
static void put_flag(struct html *h, const struct svg_scale *s)
{
	const double x = s->c->flag_ns.known ? svg_x(&s->c->box, s->c->end_ns, (double) s->c->flag_ns.value)
					     : 0,
		     y = svg_y(s, s->c->flag);
	const double half = (double) strlen(s->c->flag_words ? s->c->flag_words : "") * LETTER / 2;

	if (!s->c->flag_ns.known)
		return;
	html_raw(h, "<path class=\"flag\" fill=\"#c2410c\" d=\"M");
	svg_pixels(h, x);
	html_raw(h, " ");
	svg_pixels(h, y);
	html_raw(h, "l-5-8h10Z\"/><text class=\"flag\" fill=\"#c2410c\" text-anchor=\"middle\" x=\"");
	svg_pixels(h, fmin(fmax(x, s->c->box.left + half), s->c->box.right + SVG_RIGHT - half));
	html_raw(h, "\" y=\"");
	svg_pixels(h, y - 12);
	html_raw(h, "\">");
	html_text(h, s->c->flag_words);
	html_raw(h, "</text>");
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------- */

void svg_caption(struct html *h, size_t run, const char *title, const char *of)
{
	html_raw(h, "<figure class=\"picture\"><figcaption>");
	html_text(h, of);
	html_raw(h, *of ? " " : "");
	html_text(h, title);
	html_which(h, run);
}

/* The maximum of a line; for loose scales its range. */
static void put_extent(struct html *h, const struct svg_chart *c, const struct svg_line *l)
{
	double low = INFINITY, high = -INFINITY;

	for (size_t i = 0; i < SVG_POINTS; i++) {
		if (l->points[i].n > 0) {
			low = fmin(low, l->points[i].low);
			high = fmax(high, l->points[i].high);
		}
	}
	if (!(low <= high))
		return;
	html_raw(h, c->is_loose ? " <b>" : " <b>max ");
	if (c->is_loose) {
		svg_amount(h, low, c->amount);
		html_raw(h, " to ");
	}
	svg_amount(h, high, c->amount);
	html_raw(h, "</b>");
}

/* Limits too far above the lines to be drawn. */
static void put_above(struct html *h, const struct svg_scale *s)
{
	for (size_t i = 0; i < s->c->n_references; i++) {
		if (svg_is_shown(s, s->c->references[i].value))
			continue;
		html_printf(h, " <span class=\"above\">%s <b>", s->c->references[i].label);
		svg_amount(h, s->c->references[i].value, s->c->amount);
		html_raw(h, "</b>, above the chart</span>");
	}
}

void svg_plot(struct html *h, const struct svg_scale *s)
{
	put_stretches(h, s->c);
	svg_grid(h, s);
	put_moments(h, s->c);
	put_lines(h, s);
	put_references(h, s);
	put_flag(h, s);
}

void svg_chart(struct html *h, const struct svg_chart *c)
{
	const struct svg_scale s = svg_scale(c);

	svg_caption(h, c->run, c->title, c->of);
	for (size_t i = 0; i < c->n_lines; i++) {
		html_printf(h, " <span class=\"key c%u\">", c->lines[i].color);
		html_text(h, c->lines[i].label);
		put_extent(h, c, &c->lines[i]);
		html_raw(h, "</span>");
	}
	put_above(h, &s);
	html_printf(h,
		"</figcaption><svg viewBox=\"0 0 %d %d\" font-size=\"11\" font-family=\"sans-serif\" role=\"img\" aria-label=\"",
		SVG_WIDTH, SVG_HEIGHT);
	html_text(h, c->of);
	html_raw(h, *c->of ? " " : "");
	html_text(h, c->title);
	html_raw(h, "\">");
	svg_plot(h, &s);
	svg_times(h, &c->box, c->end_ns, SVG_HEIGHT - 6);
	html_raw(h, "</svg>");
	if (c->note) {
		html_raw(h, "<p class=\"note\">");
		html_text(h, c->note);
		html_raw(h, "</p>");
	}
	html_raw(h, "</figure>\n");
}
