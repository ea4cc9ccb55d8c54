/* SPDX-License-Identifier: MIT
 *
 * A job of several ranks in words, shared by the outputs for people: what was found and what is missing, its GPUs, its nodes, its slowest
 * rank. Each line is a label with parts, which flow in a row.
 */
#pragma once

#include "sink/sink.h"

enum {
	JOB_LINE_PARTS = 8,
	JOB_NODES_SHOWN = 16,
	JOB_RANKS_NAMED = 16,
};

struct job_line {
	char label[64];
	char *part[JOB_LINE_PARTS]; /* owned; may have any bytes: names of nodes and files */
	size_t n;
	bool is_problem;
};

struct job_lines {
	struct job_line *line;
	size_t n, cap;
	int error;
};

/* Makes the lines; none if the job was recorded as a whole. Returns 0 or -ENOMEM. The caller frees them with _done in either case. */
int job_lines_make(const struct summary *s, const struct sink_options *o, struct job_lines *ret);
void job_lines_done(struct job_lines *lines);

/* "2 nodes  8 ranks  8 GPUs" */
void job_size_words(const struct summary *s, struct buf *out);
