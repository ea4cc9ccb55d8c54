/* SPDX-License-Identifier: MIT
 *
 * Sinks: from a summary to bytes. The options that all outputs share, and the outputs of one summary, each a row in the
 * table of sink/text/sink.c. That file is not beside this header, since every folder of sink/ includes the header.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/units.h"
#include "summary/summary.h"

/* What the progress line remembers from one line to the next: processor use "lately" needs two points. The caller
 * keeps it, all zero at first; the sink moves it on. */
struct sink_progress {
	int64_t time_ns, cpu_ns;
	bool known;
};

struct sink_options {
	enum units units;
	unsigned width;     /* columns of the terminal; 80 if there is none */
	bool color;         /* ANSI colours may be used */
	bool utf8;          /* else ASCII only */
	bool plain;         /* one fact a line, no boxes, no bars (screen readers) */
	bool why;           /* show each finding, fired or not */
	const char *history; /* folder of the history: a recording in it is called by its number; NULL: none is */
	struct sink_progress *progress; /* of SINK_PROGRESS; NULL: processor use is the mean since the start */
};

enum sink_kind {
	SINK_TEXT,  /* the full summary of ux.md 5 */
	SINK_LINE,  /* one line of key=value */
	SINK_JSON,  /* docs/summary.schema.json */
	SINK_JSON_LINE, /* the same in one line, ended by a newline */
	SINK_PROGRESS, /* one line about the present: CPU, RAM, each GPU */
};

/* Writes the summary into out. No line of text is wider than options->width (at least 40; SINK_LINE is for scripts
 * and is never broken). Returns 0 or -errno. */
int sink_summary(enum sink_kind kind, const struct summary *summary, const struct sink_options *options,
	struct buf *out);
