/* SPDX-License-Identifier: MIT
 *
 * Numbers as few bytes, for the data that a report carries. web/data.js reads them; docs/report.md says how.
 *
 * A stream is a list of varints (seven bits a byte, the lowest first). The means of a column: 0 none, 1 NaN, 2 Infinity,
 * 3 -Infinity, else 4 + the zigzag of the difference to the last number, in units of the column's step; without a step 4 and
 * the number as a double, the lowest byte first. How far the highest
 * is above, and the lowest below the mean: one for each number. Times: the difference to the last one.
 */
#pragma once

#include "base/buf.h"
#include "sink/html/html_table.h"

/* The step that a column is rounded to, a power of two. Unless small is asked for nothing is rounded: 1 for integers, 0 for
 * others. Else a sixteenth of what it moves from row to row at most, which nobody can see. */
double html_step(const struct html_table *t, const struct html_column *c, bool small);

/* Is there more than the mean to tell? */
bool html_has_band(const struct html_table *t, const struct html_column *c);

void html_put_times(const uint64_t *times, size_t n, uint64_t unit_ns, bool as_differences, struct buf *out);
void html_put_means(const struct html_table *t, const struct html_column *c, double step, struct buf *out);
void html_put_highs(const struct html_table *t, const struct html_column *c, double step, struct buf *out);
void html_put_lows(const struct html_table *t, const struct html_column *c, double step, struct buf *out);

/* Compressed (zlib, RFC 1950) and as base64 (RFC 4648). Returns 0 or -errno. */
int html_packed(const struct buf *data, struct buf *out);
