/* SPDX-License-Identifier: MIT
 *
 * The data of a report, for its charts and downloads: a header as JSON, the summaries as JSON, then
 * the streams of html_encode.h in the header's order. docs/report.md describes the format.
 */
#pragma once

#include "sink/html/html_gather.h"
#include "sink/sink.h"
#include "sink/where/where_view.h"
#include "summary/summary.h"

/* One run of a report. Pointers are borrowed. */
struct html_run {
	const struct summary *summary;
	const struct html_gather *gather;
	bool is_growing;
	const struct where_view *where; /* by function; NULL: it was not sampled, or names are left out */
};

/* Appends the data, compressed and as base64. Returns 0 or -errno. */
int html_data(const struct html_run *runs, size_t n, const struct sink_options *o, struct buf *out);
