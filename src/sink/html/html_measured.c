/* SPDX-License-Identifier: MIT
 *
 * How a report's figures were had, what could not be, what measuring cost; and the summary as text.
 */
#include <stdlib.h>
#include <string.h>

#include "sink/html/html_put.h"
#include "base/textwidth.h"

enum {
	TEXT_COLUMNS = 100
};

static void figure_row(struct html *h, const char *what, const struct ram_figure *r, const struct facts *f)
{
	if (!r->peak.known)
		return;
	html_printf(h, "<tr><th scope=\"row\">%s</th><td>", what);
	html_bytes(h, r->peak);
	html_raw(h, "</td><td>");
	html_method(h, r, f);
	html_raw(h, "</td></tr>\n");
}

static void figures(struct html *h, const struct summary *s)
{
	html_raw(h, "<div class=\"scroll\"><table><thead><tr><th>Figure</th><th>Value</th><th>How it was had</th></tr></thead><tbody>\n");
	figure_row(h, "Peak RAM of the whole job, shared pages once", &s->combined, s->facts);
	figure_row(h, "Peak RAM of the main process", &s->main, s->facts);
	figure_row(h, "Peak RAM of its descendants", &s->descendants, s->facts);
	if (s->gpu_peak.known) {
		html_raw(h, "<tr><th scope=\"row\">Peak GPU memory of the job</th><td>");
		html_bytes(h, s->gpu_peak);
		html_printf(h, "</td><td>%s, by the driver's lists of processes</td></tr>\n", method_name(s->gpu_method));
	}
	if (s->user_ns.known && s->system_ns.known) {
		html_raw(h, "<tr><th scope=\"row\">Processor time</th><td>");
		html_duration(h, maybe_sum(s->user_ns, s->system_ns));
		html_raw(h, s->cpu_exact ? "</td><td>exact: all of the job was waited for</td></tr>\n" : "</td><td>at least this: some processes were not waited for</td></tr>\n");
	}
	html_raw(h, "</tbody></table></div>\n"
		    "<p class=\"note\"><b>exact</b> is the kernel's or the driver's own mark; <b>bounded</b> lies between the two numbers given; "
		    "<b>sampled</b> was the largest that was seen, at the rate given: the true value is at least that.</p>\n");
}

static void looks(struct html *h, const struct facts *f)
{
	char buf[UNITS_LEN];
	const char *rate = *figure_rate(f, buf) ? buf : "at an unknown rate";

	if (f->ticks.known && f->ticks.value == 0) {
		html_printf(h, f->ended_ns.known ? "The run was over before memory was first due to be looked at (%s): what is told was read at its beginning and its end. " : "Memory was not yet due to be looked at again (%s): what is told was read at the run's beginning. ",
			rate);
		return;
	}
	html_printf(h, "Memory was looked at %s", rate);
	if (f->ticks.known)
		html_printf(h, ", %lld times", (long long) f->ticks.value);
	if (f->late_ticks.known && f->late_ticks.value > 0)
		html_printf(h, ", %lld of them late", (long long) f->late_ticks.value);
	if (f->longest_gap_ns.known) {
		html_raw(h, "; the longest time between two looks was ");
		html_duration(h, f->longest_gap_ns);
	}
	html_raw(h, ". ");
}

static void cost(struct html *h, const struct facts *f)
{
	html_raw(h, "<p>");
	looks(h, f);
	if (f->own_cpu_ns.known && f->own_rss_bytes.known) {
		html_raw(h, "Measuring took ");
		html_duration(h, f->own_cpu_ns);
		html_raw(h, " of a processor and ");
		html_bytes(h, f->own_rss_bytes);
		html_raw(h, " of memory, outside the job.");
	}
	html_raw(h, "</p>\n");
}

static void notes(struct html *h, const struct summary *s)
{
	bool any = false;

	for (size_t i = 0; i < s->n_notes; i++) {
		if (strcmp(s->notes[i].about, "gpu") == 0 && !figure_has_gpus(s))
			continue;
		html_raw(h, any ? "<dt>" : "<h3>What is not known</h3><dl class=\"reasons\"><dt>");
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
	html_raw(h, "<details><summary>Each metric that was read, and where it comes from</summary><div class=\"scroll\"><table><thead><tr>"
		    "<th>Metric</th><th>Is</th><th>Read from</th></tr></thead><tbody>\n");
	for (int m = 0; m < METRIC_COUNT; m++) {
		if (!was_read(s, (enum metric) m))
			continue;
		html_printf(h, "<tr><th scope=\"row\"><code>%s.%s</code></th><td>", entity_name(metrics[m].entity), metrics[m].name);
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

		html_raw(h, "<section class=\"panel\"><h2>How this was measured");
		html_which(h, i);
		html_raw(h, "</h2>\n");
		figures(h, s);
		cost(h, s->facts);
		notes(h, s);
		origins(h, s);
		html_raw(h, "</section>\n");
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
		/* html_text would take line breaks for blanks. */
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
