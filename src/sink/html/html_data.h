/* SPDX-License-Identifier: MIT
 *
 * The data that a report carries for its charts and its downloads: a header as JSON, the summaries as JSON, the streams of
 * html_encode.h in the header's order. docs/report.md describes it.
 */
#pragma once

#include "sink/html/html_gather.h"
#include "sink/sink.h"
#include "summary/summary.h"

/* One run of a report. All borrowed. */
struct html_run {
	const struct summary *summary;
	const struct html_gather *gather;
	bool is_growing;
};

/* Compressed, as base64, into out. Returns 0 or -errno. */
int html_data(const struct html_run *runs, size_t n, const struct sink_options *o, struct buf *out);
