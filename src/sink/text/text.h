/* SPDX-License-Identifier: MIT
 *
 * The full summary for people, in parts: text.c has the rows, text_tables.c what is a list, text_findings.c advice and
 * notes, text_plain.c the form for screen readers.
 */
#pragma once

#include "sink/figures.h"
#include "sink/text/layout.h"

enum {
	TEXT_INDENT = 10, /* columns of the labels */
	PHASES_SHOWN = 12,
	SERIES_SHOWN = 6,
	MARKS_SHOWN = 10, /* the last ones */
	MARK_WIDTH = 200  /* columns: of a longer one the beginning and the end */
};

struct text {
	const struct summary *s;
	const struct facts *f;
	const struct sink_options *o;
	struct fact_list facts;
	struct layout l;
};

/* Each writes its rows, or nothing where there is nothing to say. */
void text_phases(struct text *t);
void text_series(struct text *t);
void text_marks(struct text *t);
void text_notes(struct text *t);
void text_findings(struct text *t);
/* "hiwater show 17", and where the recording lies. */
void text_again(struct text *t);

/* The whole of it, one fact a line. */
void text_plain(struct text *t);

/* A process as "python[41219]", cleaned, into out. */
void text_process(const struct text *t, const struct process *p, struct buf *out);

/* Its name alone, cleaned, into out. */
void text_name(const struct text *t, const struct process *p, struct buf *out);

/* A value of a series: a time where its name says seconds (series_is_seconds), in words for SINK_TEXT's plain form. Returns buf. */
char *text_series_value(const struct text *t, const struct series *v, double value, char buf[UNITS_LEN * 2]);

/* The series that are shown, in list, which has SERIES_SHOWN; what frameworks say stands with the GPU. Returns how many there are in all. */
size_t text_series_of(const struct text *t, const struct series **list);

/* How many marks are shown, the last ones of those that are kept; *ret_before: how many there were before them. */
size_t text_marks_shown(const struct text *t, size_t *ret_before);
/* The i-th of so many that are shown. */
const struct mark *text_mark_of(const struct text *t, size_t shown, size_t i);
/* What it says, cleaned and shortened, into out. */
void text_mark(const struct text *t, const struct mark *mark, struct buf *out);

/* What stands before a peak that was only sampled: the least that it was. */
const char *text_at_least(const struct text *t);

/* A figure of evidence as people read it: what its key ends in says the unit. Into out. */
void text_evidence(const struct text *t, const struct evidence *e, struct buf *out);

/* The order in which findings are shown: what fired, worst first; with --why the others behind them.
 * *ret is the caller's to free(). Returns how many, or -ENOMEM. */
int text_ordered(const struct text *t, const struct finding ***ret);

/* SINK_TEXT, SINK_LINE, SINK_PROGRESS. */
int text_sink(const struct summary *s, const struct sink_options *o, struct buf *out);
int line_sink(const struct summary *s, const struct sink_options *o, struct buf *out);
int progress_sink(const struct summary *s, const struct sink_options *o, struct buf *out);
