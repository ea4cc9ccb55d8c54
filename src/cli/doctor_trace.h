/* SPDX-License-Identifier: MIT
 *
 * The part of doctor about run --trace: which interfaces can be followed in a job that is started here,
 * and what is in the way. It reads files and this process's environment, and loads no library.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/json.h"

enum {
	DOCTOR_TRACE_ROWS = 4,
	DOCTOR_TRACE_TEXT = 2048
};

struct doctor_trace {
	struct doctor_trace_row {
		const char *what;  /* "ranges (NVTX)" */
		bool available;
		char text[DOCTOR_TRACE_TEXT]; /* how, or why not */
		const char *remedy;           /* "": none is known, or none is needed */
	} rows[DOCTOR_TRACE_ROWS];
	char lacks[DOCTOR_TRACE_TEXT];        /* why nothing can be followed; "": something can */
};

void doctor_trace_find(struct doctor_trace *ret);
/* Appends a table, and the remedies. */
void doctor_trace_text(const struct doctor_trace *t, size_t width, struct buf *out);
/* Writes key and value. */
void doctor_trace_json(const struct doctor_trace *t, struct json *j);
