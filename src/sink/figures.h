/* SPDX-License-Identifier: MIT
 *
 * What the sinks for people have in common: the parts of a summary as words and numbers. Numbers fill a caller's
 * buffer and return it, as in base/units.h; texts are appended to a buf, which keeps errors.
 */
#pragma once

#include "sink/sink.h"
#include "summary/facts.h"

/* Three significant digits, no unit: "4.80", "12.3", "1602". */
char *figure_number(double value, char buf[UNITS_LEN]);

/* What users log may be anything: whole numbers without decimals, exponents where the digits would be too many,
 * "NaN". */
char *figure_any(double value, char buf[UNITS_LEN]);

/* "10/s", "every 5.00 s"; "" if the interval is unknown. */
char *figure_rate(const struct facts *f, char buf[UNITS_LEN]);

/* How a figure was obtained: "exact (VmHWM)", "bounded 301-330 MiB (fork families)", "sampled 10/s (statm)". */
void figure_method(const struct ram_figure *r, const struct facts *f, const struct sink_options *o, struct buf *out);

/* "2", "2.50" of millionths. */
char *figure_core_count(int64_t ppm, char buf[UNITS_LEN]);

/* The number of the run in the history: the recording is options->history/NUMBER.hiw. False if it is elsewhere. */
bool figure_run(const struct facts *f, const struct sink_options *o, uint64_t *ret);

/* "epoch 3, split=train": its name, and what was given with it; "epoch 3": not all of that. As it was told: not cleaned.
 * Into out. */
void figure_phase(const struct phase *p, bool all, struct buf *out);

/* " " becomes NB, so that a number and its unit stay on one line. Returns text. */
char *keep_together(char *text);

/* A fact in words, with NB where it is better not broken: "22.4 GiB", in whole words ("1 hour 12 minutes") where options->plain; "" if
 * it has no number and is no text. */
void fact_value(const struct fact *fact, const struct sink_options *o, struct buf *out);
/* What stands behind that: "of 64.0 requested (35 %) exact (VmHWM)". */
void fact_rest(const struct fact *fact, const struct facts *f, const struct sink_options *o, struct buf *out);
/* Both. */
void fact_words(const struct fact *fact, const struct facts *f, const struct sink_options *o, struct buf *out);
