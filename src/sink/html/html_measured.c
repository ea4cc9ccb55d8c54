/* SPDX-License-Identifier: MIT
 *
 * The methods of a report's figures, missing figures, the cost of measuring; and the summary as
 * text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/textwidth.h"
#include "sink/html/html_put.h"

enum {
	TEXT_COLUMNS = 100
};

/* The facts that state their method. */
static void figures(struct html *h, const struct summary *s, const struct fact_list *facts)
{
	html_raw(h,
		"<div class=\"scroll\"><table><thead><tr><th>Figure</th><th>Value</th><th>Obtained by</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < facts->n; i++) {
		const struct fact *f = &facts->facts[i];
		const struct fact how = { .figure = f->figure, .method = f->method, .has_rate = f->has_rate };
		char name[UNITS_LEN];

		if (!f->title || !f->value.known || (!f->figure && f->method == METHOD_UNKNOWN))
			continue;
		html_raw(h, "<tr><th scope=\"row\">");
		html_printf(h, f->gpu ? "%s %s</th><td>" : "%s%s</th><td>",
			f->gpu ? job_gpu_name(s->job, &f->gpu->gpu, name) : "", f->title);
		html_fact(h, s, f, "", true, false);
		html_raw(h, "</td><td>");
		html_fact(h, s, &how, "", false, true);
		html_raw(h, "</td></tr>\n");
	}
	html_raw(h,
		"</tbody></table></div>\n"
		"<p class=\"note\"><b>exact</b> is the kernel's or the driver's own high-water mark; <b>bounded</b> lies between the two numbers given; "
		"<b>sampled</b> is the largest sample at the rate given; the true value is at least that.</p>\n");
}

static void cost(struct html *h, const struct summary *s, const struct fact_list *facts)
{
	const struct facts *f = s->facts;
	const bool is_none = f->samples.known && f->samples.value == 0;
	char buf[UNITS_LEN];
	size_t n = 0;

	html_raw(h, "<p>");
	if (is_none)
		html_printf(h,
			f->ended_ns.known
				? "The run ended before the first sample of memory was due (%s): its figures were read at its start and its end. "
				: "The next sample of memory was not due yet (%s): the figures were read at the start of the run. ",
			figure_rate(f, buf));
	for (size_t i = 0; i < facts->n; i++) {
		const struct fact *fact = &facts->facts[i];

		if (fact->group != FACTS_SAMPLING || (is_none && fact->unit == FACT_COUNT))
			continue;
		html_raw(h, n++ > 0 ? "; " : "");
		html_fact(h, s, fact, fact->label, true, true);
	}
	html_raw(h, n > 0 ? ".</p>\n" : "</p>\n");
}

static void notes(struct html *h, const struct summary *s)
{
	bool any = false;

	for (size_t i = 0; i < s->n_notes; i++) {
		if (strcmp(s->notes[i].about, "gpu") == 0 && !figure_has_gpus(s))
			continue;
		html_raw(h, any ? "<dt>" : "<h3>Not measured</h3><dl class=\"reasons\"><dt>");
		html_text(h, s->notes[i].about);
		html_raw(h, "</dt><dd>");
		html_text(h, s->notes[i].why);
		html_raw(h, "</dd>\n");
		any = true;
	}
	html_raw(h, any ? "</dl>\n" : "");
}

static bool was_read(const struct summary *s, enum metric metric)
{
	const enum entity entity = metrics[metric].entity;

	if (entity == ENTITY_HOST || entity == ENTITY_JOB)
		return job_acc(s->job, metric, 0);
	for (size_t i = 0; entity == ENTITY_GPU && i < job_gpu_count(s->job); i++) {
		if (job_acc(s->job, metric, job_gpu(s->job, i)->birth.id))
			return true;
	}
	return false;
}

static void origins(struct html *h, const struct summary *s)
{
	html_raw(h,
		"<details><summary>Metrics that were read, and their sources</summary><div class=\"scroll\"><table><thead><tr>"
		"<th>Metric</th><th>Meaning</th><th>Source</th></tr></thead><tbody>\n");
	for (int m = 0; m < METRIC_COUNT; m++) {
		if (!was_read(s, (enum metric) m))
			continue;
		html_printf(h, "<tr><th scope=\"row\"><code>%s.%s</code></th><td>",
			entity_name(metrics[m].entity), metrics[m].name);
		html_text(h, metrics[m].sentence);
		html_raw(h, "</td><td>");
		html_text(h, metrics[m].origin);
		html_raw(h, "</td></tr>\n");
	}
	html_raw(h, "</tbody></table></div></details>\n");
}

void html_measured(struct html *h)
{
	for (size_t i = 0; i < h->n; i++) {
		const struct summary *s = h->runs[i].summary;
		struct fact_list facts;
		const int r = facts_make(s, &facts);

		if (r < 0) {
			h->out->error = r;
			return;
		}
		html_raw(h, "<section class=\"panel\"><h2>How this was measured");
		html_which(h, i);
		html_raw(h, "</h2>\n");
		figures(h, s, &facts);
		cost(h, s, &facts);
		notes(h, s);
		origins(h, s);
		html_raw(h, "</section>\n");
		facts_done(&facts);
	}
}

void html_summary(struct html *h)
{
	struct sink_options o = *h->o;

	o.utf8 = true;
	o.width = TEXT_COLUMNS;
	for (size_t i = 0; i < h->n; i++) {
		struct buf text = BUF_INIT(1 << 22);
		const int r = sink_summary(SINK_TEXT, h->runs[i].summary, &o, &text);

		if (r < 0 && !h->out->error)
			h->out->error = r;
		html_raw(h, "<details class=\"panel\"><summary><h2>The summary as text");
		html_which(h, i);
		html_raw(h, "</h2></summary><pre>");
		/* line by line: html_text turns line breaks into blanks */
		for (char *line = text.data; line && *line;) {
			char *end = line + strcspn(line, "\n");
			const bool more = *end == '\n';

			*end = '\0';
			html_text(h, line);
			html_raw(h, "\n");
			line = end + more;
		}
		html_raw(h, "</pre></details>\n");
		buf_done(&text);
	}
}
