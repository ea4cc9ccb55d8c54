/* SPDX-License-Identifier: MIT
 *
 * Where values and times stand in the pictures, and what is written at their axes.
 */
#include <math.h>

#include "sink/html/html_svg.h"

enum {
	TICKS = 3,
	SMALL = 100, /* pixels: a chart of less height has fewer */
};

static const double reference_reach = 2.5; /* a limit further above the lines than that is told and not drawn */

/* How far the scale of what was always 0 goes. */
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

/* Halved first: the span of what users log may be more than a double holds. */
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
	if (!(s.bottom <= s.top)) /* nothing that is a number */
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

/* What lies between two lines of the grid: a power of two of bytes, 1, 2 or 5 of others; three of them fit at least. */
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
	case AMOUNT_CORES:
		html_printf(h, "%s cores", figure_any(value / 1e6, text));
		break;
	case AMOUNT_SHARE:
		html_printf(h, "%s %%", figure_any(round(value / 1e3) / 10, text));
		break;
	case AMOUNT_WATTS:
		html_printf(h, "%s W", figure_any(round(value / 1e5) / 10, text));
		break;
	case AMOUNT_CELSIUS:
		html_printf(h, "%s &#176;C", figure_any(round(value / 1e2) / 10, text));
		break;
	case AMOUNT_PLAIN:
		html_raw(h, figure_any(value, text));
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
		return; /* from -1e308 to 1e308: no ticks, but lines */
	for (double k = ceil(s->bottom / tick); k * tick <= s->top && k + 1 > k; k++) {
		const double value = k == 0 ? 0 : k * tick, y = svg_y(s, value);

		html_printf(h, "<path class=\"grid\" fill=\"none\" stroke=\"#e2e5ea\" d=\"M%d ", (int) s->c->box.left);
		svg_pixels(h, y);
		html_printf(h, "H%d\"/>", (int) s->c->box.right);
		svg_text(h, s->c->box.left - 8, fmax(y + 4, s->c->box.top + 6), "end");
		svg_amount(h, value, s->c->amount);
		html_raw(h, "</text>");
	}
}

static uint64_t time_tick(uint64_t end_ns)
{
	static const uint64_t seconds[] = { 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000 };
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
