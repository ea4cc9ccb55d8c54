/* SPDX-License-Identifier: MIT
 *
 * Phases and events as SVG: phases as bars, nested ones in lower lanes, marks and alerts in the
 * last lane.
 */
#include <math.h>
#include <string.h>

#include "sink/html/html_svg.h"

enum {
	LANE = 20,
	LANES = 4,        /* more deeply nested phases are in the table only */
	BARS_SHOWN = 400,
	EVENTS_SHOWN = 100,
	HUES = 64,        /* names of phases with a colour each */
	LETTER = 6,       /* pixels: width of a letter, about */
	LABEL_LEAST = 5,  /* letters */
};

struct phase_chart {
	struct html *h;
	const struct html_run *run;
	uint64_t end_ns;
	unsigned lanes;   /* of phases */
	const char *hues[HUES];
	size_t n_hues;
};

static size_t hue_of(struct phase_chart *t, const char *name)
{
	for (size_t i = 0; i < t->n_hues; i++) {
		if (strcmp(t->hues[i], name) == 0)
			return i % SVG_COLORS;
	}
	if (t->n_hues == HUES)
		return 0;
	t->hues[t->n_hues] = name;
	return t->n_hues++ % SVG_COLORS;
}

static void label(struct html *h, double x, int y, double room, const char *text, const char *more)
{
	const unsigned columns = room > 0 ? (unsigned) (room / LETTER) : 0;

	if (columns < LABEL_LEAST)
		return;
	html_raw(h, "<text fill=\"#111827\" x=\"");
	svg_pixels(h, x);
	html_printf(h, "\" y=\"%d\">", y);
	html_short(h, text, more, columns);
	html_raw(h, "</text>");
}

static void bar(struct phase_chart *t, const struct phase *p, unsigned lane)
{
	const uint64_t end = p->end_ns ? p->end_ns : t->end_ns;
	const double from = svg_x(&svg_report_box, t->end_ns, (double) p->begin_ns),
		     to = svg_x(&svg_report_box, t->end_ns, (double) end);
	const size_t hue = hue_of(t, p->name);
	const int top = (int) lane * LANE;
	struct buf title = BUF_INIT(1 << 16);

	html_printf(t->h, "<rect class=\"band c%zu\" fill=\"%s\" opacity=\".3\" y=\"%d\" height=\"%d\" x=\"",
		hue, svg_colors[hue], top + 2, LANE - 4);
	svg_pixels(t->h, from);
	html_raw(t->h, "\" width=\"");
	svg_pixels(t->h, fmax(to - from, 1));
	html_raw(t->h, "\"><title>");
	figure_phase(p, false, &title);
	html_text(t->h, title.data);
	buf_done(&title);
	html_raw(t->h, ": ");
	html_duration(t->h, known((int64_t) (end - p->begin_ns)));
	html_raw(t->h, p->end_ns ? "</title></rect>" : " so far</title></rect>");
	html_printf(t->h, "<path class=\"line c%zu\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"M",
		hue, svg_colors[hue]);
	svg_pixels(t->h, from + 1);
	html_printf(t->h, " %dv%d\"/>", top + 2, LANE - 4);
	label(t->h, from + 5, top + 14, to - from - 8, p->name, html_phase_facts(p));
}

static void bars(struct phase_chart *t)
{
	const struct job *job = t->run->summary->job;
	size_t shown = 0;

	for (size_t i = 0; i < job_phase_count(job) && shown < BARS_SHOWN; i++) {
		const unsigned lane = job_phase_depth(job, job_phase(job, i));

		if (lane >= LANES)
			continue;
		bar(t, job_phase(job, i), lane);
		shown++;
	}
}

static unsigned lanes_of(const struct job *job)
{
	unsigned lanes = 0;

	for (size_t i = 0; i < job_phase_count(job) && i < BARS_SHOWN; i++) {
		const unsigned lane = job_phase_depth(job, job_phase(job, i));

		lanes = lane < LANES && lane + 1 > lanes ? lane + 1 : lanes;
	}
	return lanes;
}

static bool is_shown(const struct html_event *e)
{
	return e->kind == EVENT_MARK || e->kind == EVENT_ALERT || e->kind == EVENT_OOM ||
	       e->kind == EVENT_TRIGGER;
}

static size_t next_shown(const struct html_gather *g, size_t i)
{
	while (i < g->n_events && !is_shown(&g->events[i]))
		i++;
	return i;
}

static void event(struct phase_chart *t, const struct html_event *e, double room_to)
{
	const bool is_mark = e->kind == EVENT_MARK;
	const double x = svg_x(&svg_report_box, t->end_ns, (double) e->time_ns);
	const int bottom = (int) (t->lanes + 1) * LANE - 2;

	html_printf(t->h, "<path class=\"%s\" fill=\"%s\" d=\"M", is_mark ? "mark" : "flag",
		is_mark ? "#6b7280" : "#c2410c");
	svg_pixels(t->h, x);
	html_printf(t->h, " %dl-4-14h8Z\"><title>", bottom);
	html_text(t->h, e->kind == EVENT_OOM ? "out of memory" : e->text);
	html_raw(t->h, "</title></path>");
	label(t->h, x + 7, bottom - 4, room_to - x - 12, e->kind == EVENT_OOM ? "out of memory" : e->text,
		"");
}

static void events(struct phase_chart *t)
{
	const struct html_gather *g = t->run->gather;
	size_t shown = 0;

	for (size_t i = next_shown(g, 0); i < g->n_events && shown < EVENTS_SHOWN; shown++) {
		const size_t next = next_shown(g, i + 1);

		event(t, &g->events[i],
			next < g->n_events
				? svg_x(&svg_report_box, t->end_ns, (double) g->events[next].time_ns)
				: SVG_WIDTH);
		i = next;
	}
}

/* The name of a lane, at its left. */
static void name(struct html *h, unsigned lane, const char *text)
{
	svg_text(h, SVG_LEFT - 8, lane * LANE + 14, "end");
	html_printf(h, "%s</text>", text);
}

void svg_timeline(struct html *h, size_t run)
{
	const struct html_gather *g = h->runs[run].gather;
	struct phase_chart t = { .h = h, .run = &h->runs[run], .end_ns = g->now_ns ? g->now_ns : 1 };
	const bool has_events = next_shown(g, 0) < g->n_events;
	unsigned height;

	t.lanes = lanes_of(t.run->summary->job);
	if (t.lanes == 0 && !has_events)
		return;
	height = (t.lanes + has_events) * LANE + 20;
	svg_caption(h, run, "Phases and events", "");
	html_printf(h,
		"</figcaption><svg viewBox=\"0 0 %d %u\" font-size=\"11\" font-family=\"sans-serif\" role=\"img\" aria-label=\"Phases and events\">",
		SVG_WIDTH, height);
	if (t.lanes > 0)
		name(h, 0, "phases");
	if (has_events)
		name(h, t.lanes, "events");
	bars(&t);
	events(&t);
	svg_times(h, &svg_report_box, t.end_ns, (int) height - 6);
	html_raw(h, "</svg></figure>\n");
}
