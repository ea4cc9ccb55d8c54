/* SPDX-License-Identifier: MIT
 *
 * Parts of a summary as words, shared by the outputs for people: rates, methods, phases, facts.
 * Amounts themselves are written by base/units.h. Functions with a char buf fill it and return it;
 * the others append to a struct buf, which keeps errors.
 */
#pragma once

#include "sink/sink.h"
#include "summary/facts.h"

/* "10/s", "every 5 s"; "" if the interval is unknown. */
char *figure_rate(const struct facts *f, char buf[UNITS_LEN]);

/* The method by which a figure was obtained: "exact (VmHWM)", "bounded 301-330 MiB (fork
 * families)", "sampled 10/s (statm)". */
void figure_method(
	const struct ram_figure *r, const struct facts *f, const struct sink_options *o, struct buf *out);

/* The run's number in the history, whose recordings are options->history/NUMBER.hiw. False: the
 * recording is elsewhere. */
bool figure_run(const struct facts *f, const struct sink_options *o, uint64_t *ret);

/* Appends what the run is called: "block fit", "xgb: python train.py", or the command alone. Not
 * cleaned. */
void figure_headline(const struct facts *f, struct buf *out);

/* Appends a phase's name and its facts: "epoch 3, split=train"; without all only its number: "epoch
 * 3". The texts are the job's own, not cleaned. */
void figure_phase(const struct phase *p, bool all, struct buf *out);

/* Replaces each blank by NB, so that a number and its unit stay on one line. Returns text. */
char *keep_together(char *text);

/* The value of a fact, with NB where a line should not break: "22.4 GiB"; with options->plain in
 * whole words: "1 hour 12 minutes". Appends nothing if the fact has neither a number nor a text. */
void fact_value(const struct fact *fact, const struct sink_options *o, struct buf *out);
/* The qualifiers behind the value: "of 64.0 requested (35 %) exact (VmHWM)". */
void fact_rest(const struct fact *fact, const struct facts *f, const struct sink_options *o, struct buf *out);
/* The value and its qualifiers. */
void fact_words(
	const struct fact *fact, const struct facts *f, const struct sink_options *o, struct buf *out);
