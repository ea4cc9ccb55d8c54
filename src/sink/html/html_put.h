/* SPDX-License-Identifier: MIT
 *
 * What the parts of a report share: text made harmless for HTML, amounts. Whatever comes from a recording goes through
 * html_text, or through functions that write digits and units alone.
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

/* A text as people see it: no controls, no bytes that are no UTF-8, none of the letters of HTML. */
void html_text(struct html *h, const char *text);
/* A fact of the summary: its label ("" if that is not wanted), its value, what stands behind that. */
void html_fact(struct html *h, const struct summary *s, const struct fact *f, const char *label, bool value, bool rest);
/* Both with a blank between, no wider than so many columns; more may be "" or NULL. */
void html_short(struct html *h, const char *text, const char *more, unsigned columns);
/* Markup of ours. */
void html_raw(struct html *h, const char *markup);
void html_printf(struct html *h, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "22.4 GiB", "unknown". */
void html_bytes(struct html *h, struct maybe bytes);
void html_duration(struct html *h, struct maybe ns);
/* "python[4711]" */
void html_process(struct html *h, const struct process *p);

/* What is told of a phase behind its name: "epoch=3" of one called epoch is 3. */
const char *html_phase_facts(const struct phase *p);

/* What a run is called: by its name, else by its command. */
const char *html_name(const struct summary *s);
/* Behind a heading, where there are several runs: ", 2. train". */
void html_which(struct html *h, size_t run);

/* The parts, in the page's order; each writes what there is to say of each run. */
void html_title(struct html *h);
void html_overview(struct html *h);
void html_findings(struct html *h);
void html_pictures(struct html *h);
void html_phases(struct html *h);
void html_processes(struct html *h);
void html_minutes(struct html *h);
void html_measured(struct html *h);
void html_summary(struct html *h);
