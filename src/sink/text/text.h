/* SPDX-License-Identifier: MIT
 *
 * Private to text/: the full summary for people. text.c writes the rows of facts, text_tables.c the
 * lists (phases, series, marks), text_findings.c findings and notes, text_plain.c the form for
 * screen readers, text_markdown.c that for pull requests and notes.
 */
#pragma once

#include "sink/figures.h"
#include "sink/job_lines.h"
#include "sink/text/layout.h"

enum {
	TEXT_INDENT = 10, /* columns of the labels */
	PHASES_SHOWN = 12,
	SERIES_SHOWN = 6,
	MARKS_SHOWN = 10, /* the last ones */
	MARK_WIDTH = 200  /* columns; a longer mark loses its middle */
};

struct text {
	const struct summary *s;
	const struct facts *f;
	const struct sink_options *o;
	struct fact_list facts;
	struct job_lines lines;
	struct layout l;
};

/* Each writes its rows, or nothing if there are none. */
void text_phases(struct text *t);
void text_series(struct text *t);
void text_marks(struct text *t);
void text_notes(struct text *t);
void text_findings(struct text *t);
/* What to request for the next run: a line for a batch script, and where it comes from. */
void text_request(struct text *t);
/* "hiwater show 17", and the path of the recording. */
void text_again(struct text *t);

/* False: the note is no news. */
bool text_shows_note(const struct text *t, const struct note *note);

/* The whole summary, one fact a line. */
void text_plain(struct text *t);

/* Appends a process as "python[41219]", cleaned. */
void text_process(const struct text *t, const struct process *p, struct buf *out);

/* Appends its name alone, cleaned. */
void text_name(const struct text *t, const struct process *p, struct buf *out);

/* Appends the title of a fact on a line of its own: "GPU 0 memory peak of the job". */
void text_title(const struct text *t, const struct fact *f, struct buf *out);

/* A value of a series: a time if its name says seconds (series_is_seconds), in words in the plain
 * form. Returns buf. */
char *text_series_value(const struct text *t, const struct series *v, double value, char buf[UNITS_LEN * 2]);

/* The series to show, in list, which has SERIES_SHOWN. Those of framework allocators are shown with
 * their GPU instead. Returns how many there are in all. */
size_t text_series_of(const struct text *t, const struct series **list);

/* How many marks to show, the last ones; *ret_before: how many there were before them. */
size_t text_marks_shown(const struct text *t, size_t *ret_before);
/* The i-th of the marks that are shown. */
const struct mark *text_mark_of(const struct text *t, size_t shown, size_t i);
/* Appends the text of a mark, cleaned and shortened. */
void text_mark(const struct text *t, const struct mark *mark, struct buf *out);

/* The sign before a sampled peak: "at least". */
const char *text_at_least(const struct text *t);

/* Appends a figure of evidence with its unit, which the end of its key says ("_bytes", "_s",
 * "_ratio"). */
void text_evidence(const struct text *t, const struct evidence *e, struct buf *out);

/* What is said where no finding is shown. Static. */
const char *text_no_findings(const struct summary *s);

/* The findings in the order of display: fired ones, worst first, without those that the incident
 * report repeats; with options->why then the others.
 * The caller frees *ret with free(). Returns how many, or -ENOMEM. */
int text_ordered(const struct text *t, const struct finding ***ret);

/* SINK_TEXT, SINK_MARKDOWN, SINK_LINE, SINK_PROGRESS. */
int text_sink(const struct summary *s, const struct sink_options *o, struct buf *out);
int markdown_sink(const struct summary *s, const struct sink_options *o, struct buf *out);
int line_sink(const struct summary *s, const struct sink_options *o, struct buf *out);
int progress_sink(const struct summary *s, const struct sink_options *o, struct buf *out);
