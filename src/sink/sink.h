/* SPDX-License-Identifier: MIT
 *
 * Sinks: from a summary (later: job and frames) to bytes. An output is a file NAME.c and a row in sink.c's table.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/units.h"
#include "job/summary.h"

struct sink_options {
	enum units units;
	unsigned width;     /* columns of the terminal; 80 if there is none */
	bool color;         /* ANSI colours may be used */
	bool utf8;          /* else ASCII only */
	bool plain;         /* one fact a line, no boxes, no bars (screen readers) */
	bool why;           /* show each finding, fired or not */
};

enum sink_kind {
	SINK_TEXT,  /* the full summary of ux.md 5 */
	SINK_LINE,  /* one line of key=value */
	SINK_JSON,  /* docs/summary.schema.json */
	SINK_PROGRESS, /* one line about the present: CPU, RAM, each GPU */
};

/* Writes the summary into out. Returns 0 or -errno. */
int sink_summary(enum sink_kind kind, const struct summary *summary, const struct sink_options *options, struct buf *out);
