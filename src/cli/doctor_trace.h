/* SPDX-License-Identifier: MIT
 *
 * The part of doctor about run --trace: which interfaces can be followed in a job that is started here,
 * and what is in the way. It reads files and this process's environment, and loads no library.
 */
#pragma once

#include "cli/doctor_rows.h"

enum {
	DOCTOR_TRACE_ROWS = 4,
};

struct doctor_trace {
	struct doctor_row rows[DOCTOR_TRACE_ROWS];
	char lacks[DOCTOR_ROW_TEXT]; /* why nothing can be followed; "": something can */
};

void doctor_trace_find(struct doctor_trace *ret);
/* Appends a table, and the remedies. */
void doctor_trace_text(const struct doctor_trace *t, size_t width, struct buf *out);
/* Writes key and value. */
void doctor_trace_json(const struct doctor_trace *t, struct json *j);
