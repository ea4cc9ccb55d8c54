/* SPDX-License-Identifier: MIT
 *
 * Encodes numbers in few bytes, for the data of a report. web/data.js decodes them; docs/report.md
 * has the format.
 *
 * A stream is a list of varints (seven bits a byte, the lowest first). The means of a column: 0
 * none, 1 NaN, 2 Infinity, 3 -Infinity, else 4 + the zigzag of the difference to the previous
 * number, in units of the column's step; without a step 4 and the number as a double, the lowest
 * byte first. Highs and lows: their distances from the mean, for each number. Times: the difference
 * to the previous time.
 */
#pragma once

#include "base/buf.h"
#include "sink/html/html_table.h"

/* The step that a column is rounded to, a power of two. Without small nothing is rounded: 1 for
 * integers, 0 for others. Else at most a sixteenth of the mean change from row to row, which is
 * invisible in a chart. */
double html_step(const struct html_table *t, const struct html_column *c, bool small);

/* True if some low or high differs from its mean. */
bool html_has_band(const struct html_table *t, const struct html_column *c);

void html_put_times(const uint64_t *times, size_t n, uint64_t unit_ns, bool as_differences, struct buf *out);
void html_put_means(const struct html_table *t, const struct html_column *c, double step, struct buf *out);
void html_put_highs(const struct html_table *t, const struct html_column *c, double step, struct buf *out);
void html_put_minima(const struct html_table *t, const struct html_column *c, double step, struct buf *out);

/* Appends the data, compressed (zlib, RFC 1950) and as base64 (RFC 4648). Returns 0 or -errno. */
int html_packed(const struct buf *data, struct buf *out);
