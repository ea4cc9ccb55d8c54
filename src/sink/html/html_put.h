/* SPDX-License-Identifier: MIT
 *
 * Shared by the parts of a report: escaped text and amounts. Every text from a recording goes
 * through html_text() or html_short(), or through functions that write digits and units only.
 */
#pragma once

#include "sink/figures.h"
#include "sink/html/html_data.h"

struct html {
	struct buf *out;
	const struct html_run *runs;
	size_t n;
	const struct sink_options *o;
};

/* Writes a text without control characters and invalid UTF-8, escaped for HTML. */
void html_text(struct html *h, const char *text);
/* Writes a fact of the summary: its label ("" for none), its value, its qualifiers (rest). */
void html_fact(struct html *h, const struct summary *s, const struct fact *f, const char *label, bool value,
	bool rest);
/* Writes text and more with a blank between, shortened to so many columns; more may be "" or NULL. */
void html_short(struct html *h, const char *text, const char *more, unsigned columns);
/* Write markup, unescaped. */
void html_raw(struct html *h, const char *markup);
void html_printf(struct html *h, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "22.4 GiB", "unknown". */
void html_bytes(struct html *h, struct maybe bytes);
void html_duration(struct html *h, struct maybe ns);
/* "python[4711]" */
void html_process(struct html *h, const struct process *p);

/* The facts of a phase after its name; "epoch=3" of a phase named epoch becomes "3". */
const char *html_phase_facts(const struct phase *p);

/* The title of a run: its name, else its command. */
const char *html_name(const struct summary *s);
/* Behind a heading, if there are several runs: ", 2. train". */
void html_which(struct html *h, size_t run);

/* The parts, in the page's order; each writes its section for each run. */
void html_title(struct html *h);
void html_overview(struct html *h);
void html_findings(struct html *h);
void html_pictures(struct html *h);
void html_ranks(struct html *h);
void html_phases(struct html *h);
void html_processes(struct html *h);
void html_minutes(struct html *h);
void html_measured(struct html *h);
void html_where(struct html *h);
void html_summary(struct html *h);
