/* SPDX-License-Identifier: MIT
 *
 * The incident and the findings as cards; a card has the stretch of the run that shows it.
 */
#include "sink/html/html_put.h"

static const struct {
	const char *kind, *word;
} severities[] = {
	[SEVERITY_HINT] = { "hint", "Hint" },
	[SEVERITY_WARN] = { "warn", "Warning" },
	[SEVERITY_ERROR] = { "error", "Error" },
};

static void card(struct html *h, const char *kind, const char *word, const char *code)
{
	html_printf(h, "<article class=\"card %s\"", kind);
	html_raw(h, "><h3><span class=\"word\">");
	html_raw(h, word);
	html_raw(h, "</span> ");
	html_text(h, code);
	html_raw(h, "</h3>");
}

static void incident(struct html *h, size_t run, const struct summary *s)
{
	static const uint64_t around_ns = UINT64_C(30000000000);
	const struct incident *t = &s->incident;
	const uint64_t from = t->since_ns.known      ? (uint64_t) t->since_ns.value
			      : t->at_ns > around_ns ? t->at_ns - around_ns
						     : 0;
	struct fact_list facts;
	const int r = facts_make(s, &facts);

	if (r < 0)
		h->out->error = r;
	if (r < 0 || !t->what) {
		facts_done(&facts);
		return;
	}
	html_printf(h,
		"<article class=\"card error\" data-run=\"%zu\" data-from=\"%llu\" data-to=\"%llu\"><h3><span class=\"word\">Event</span></h3><p>",
		run, (unsigned long long) from, (unsigned long long) t->at_ns);
	for (size_t i = 0; i < facts.n; i++) {
		const struct fact *f = &facts.facts[i];

		if (f->group != FACTS_INCIDENT)
			continue;
		html_raw(h, f->begins_line ? "</p><p>" : f->process ? "<br>"
								    : " ");
		if (f->process)
			html_process(h, f->process);
		html_raw(h, f->process ? " " : "");
		html_fact(h, s, f, f->label, true, true);
	}
	html_raw(h, "</p></article>\n");
	facts_done(&facts);
}

static void finding(struct html *h, size_t run, const struct finding *f)
{
	html_printf(h,
		"<article class=\"card %s\" data-run=\"%zu\" data-from=\"%llu\" data-to=\"%llu\" tabindex=\"-1\"><h3><span class=\"word\">%s</span> ",
		severities[f->severity].kind, run, (unsigned long long) f->from_ns,
		(unsigned long long) f->to_ns, severities[f->severity].word);
	html_text(h, f->code);
	html_raw(h, "</h3><p>");
	html_text(h, f->message);
	html_raw(h, "</p></article>\n");
}

/* The findings that did not fire. */
static void others(struct html *h, const struct summary *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_findings; i++)
		n += !s->findings[i].fired;
	if (n == 0)
		return;
	html_printf(h,
		"<details class=\"quiet\"><summary>%zu checks passed or did not apply</summary><dl class=\"reasons\">\n",
		n);
	for (size_t i = 0; i < s->n_findings; i++) {
		if (s->findings[i].fired)
			continue;
		html_raw(h, "<dt>");
		html_text(h, s->findings[i].code);
		html_raw(h, "</dt><dd>");
		html_text(h, s->findings[i].why_not);
		html_raw(h, "</dd>\n");
	}
	html_raw(h, "</dl></details>\n");
}

static bool ended_well(const struct html_run *run)
{
	const struct ending end = ending_of(run->summary);

	return (end.outcome == OUTCOME_EXIT && end.code == 0) || end.outcome == OUTCOME_UNSEEN ||
	       (end.outcome == OUTCOME_UNFINISHED && run->is_growing);
}

/* Nothing fired. Readers should know that not all checks apply to a short run. */
static void nothing(struct html *h, const struct html_run *run)
{
	const struct summary *s = run->summary;
	const bool is_good = ended_well(run);
	size_t n = 0;

	for (size_t i = 0; i < s->n_findings; i++)
		n += s->findings[i].is_unjudged;
	card(h, is_good ? "good" : "none", is_good ? "OK" : "No findings", "");
	html_raw(h,
		is_good ? "<p>Nothing to advise." : "<p>No check explains the result or suggests a change.");
	if (n > 0)
		html_printf(h, " The run was too short for %zu of %zu checks.", n, s->n_findings);
	html_raw(h, "</p></article>\n");
}

void html_findings(struct html *h)
{
	for (size_t i = 0; i < h->n; i++) {
		const struct summary *s = h->runs[i].summary;
		size_t fired = 0;

		if (h->n > 1) {
			html_raw(h, "<h2>Findings");
			html_which(h, i);
			html_raw(h, "</h2>");
		}
		html_raw(h, "<div class=\"cards\">\n");
		incident(h, i, s);
		for (int severity = SEVERITY_ERROR; severity >= SEVERITY_HINT; severity--) {
			for (size_t k = 0; k < s->n_findings; k++) {
				if (!s->findings[k].fired || finding_is_repeated(s, &s->findings[k]) ||
					(int) s->findings[k].severity != severity)
					continue;
				finding(h, i, &s->findings[k]);
				fired++;
			}
		}
		if (fired == 0 && !s->incident.what)
			nothing(h, &h->runs[i]);
		html_raw(h, "</div>\n");
		others(h, s);
	}
}
