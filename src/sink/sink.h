/* SPDX-License-Identifier: MIT
 *
 * Sinks turn a summary into bytes: text, one line, JSON, a progress line. This header has the
 * options that all outputs share and the entry point; the table of outputs is in sink/text/sink.c,
 * which includes the folders that include this header.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/units.h"
#include "summary/summary.h"

/* State from one progress line to the next, since current CPU use needs two points. The caller
 * keeps it, all zero at first; the sink updates it. */
struct sink_progress {
	int64_t time_ns, cpu_ns;
	bool known;
};

struct sink_options {
	enum units units;
	unsigned width;     /* columns of the terminal; 80 if there is none */
	bool color;         /* ANSI colours may be used */
	bool utf8;          /* false: ASCII only */
	bool plain;         /* one fact a line, no boxes, no bars (screen readers) */
	bool why;           /* list all findings, fired or not */
	/* folder of the history, whose recordings are named by number; NULL: no history */
	const char *history;
	struct sink_progress *progress; /* of SINK_PROGRESS; NULL: CPU use is the mean since the start */
};

enum sink_kind {
	SINK_TEXT,  /* the full summary, or with options->plain one fact a line */
	SINK_LINE,  /* one line of key=value */
	SINK_JSON,  /* docs/summary.schema.json */
	SINK_JSON_LINE, /* the same in one line, ended by a newline */
	SINK_MARKDOWN, /* for pull requests and notes */
	SINK_PROGRESS, /* one line about the present: CPU, RAM, each GPU */
};

/* Appends the summary to out. No line of text is wider than options->width (40 at least);
 * SINK_LINE, for scripts, is one line of any length. Returns 0 or -errno. */
int sink_summary(enum sink_kind kind, const struct summary *summary, const struct sink_options *options,
	struct buf *out);

/* Appends a request in the format of its scheduler, with comments that say where it comes from and
 * how it compares with what was requested. head: a comment above it; NULL: none. */
void sink_request(
	const struct request *r, const struct sink_options *options, const char *head, struct buf *out);
